package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bundled"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// A Part is a feature of conversations that a program may leave out, such as undo or plan mode: a value in
// [Options.Parts]. Those of knack are in the folders of engine/part.
type Part struct {
	Name     string    // unique among the parts of a program
	Commands []Command // they come after the program's own
	// Brings returns the commands that the user and the project bring, which come after all others. It is called often.
	// nil: there are none.
	Brings func(Brought) []Command
	// Shorthand returns the command line that a prompt of the user's stands for, such as "# TEXT"; other prompts are
	// returned unchanged. nil: there is none.
	Shorthand func(prompt string) string
	// Skills are the bundled skills of the part, by their names. nil: there are none.
	Skills map[string]PartSkill
	// Help are sections at the end of pages of `knack help`, by the name of the page. nil: there are none.
	Help map[string]string
	// Known returns all tools that Open may give, for rules, hooks and help, which know no session: they must not be
	// called. It is called once for each project. nil: there are none. A tool that it does not name as Shared, Listed or
	// Placed is in a session only if the user chooses it.
	Known func(Brought) PartTools
	// Problems says what is wrong with what the user and the project bring, also what is not approved. It is called once
	// for each project. nil: nothing is.
	Problems func(Brought) []knack.Problem
	// SkillKeys are the keys of metadata.knack that the part reads in a skill. Each func says what is wrong with the value
	// of its key; nil: nothing is. It may be called at any time, and must run nothing of the skill.
	SkillKeys map[string]func(*knack.Skill) error
	// Open makes the part for a session that begins. nil: it is off in this session. A session does not start without a
	// part that fails.
	Open func(context.Context, *Conv) (*Live, error)
}

// A PartSkill is a bundled skill of a part.
type PartSkill struct {
	Files fs.FS                 // contains a directory with the name of the skill, in which its SKILL.md is
	Gate  bundled.Gate          // without Feature: the skill is always on
	Open  func(*Project) bool   // whether something opens the gate by itself
	Text  func(*Project) string // it stands before that of the skill; nil: nothing does
}

// PartTools are the tools of a part. What a user chooses with SessionOptions.Tools applies to all.
type PartTools struct {
	Shared   tool.Set // like the built-in tools, also for sub-agents
	Listed   tool.Set // like the built-in tools, but sub-agents do not have them
	Unlisted tool.Set // only if the user has chosen no tools; see [tool.Tool].Unlisted for when the model sees them
	// Placed are those of Live.Placed; they are given by Part.Known only.
	Placed tool.Set
}

// Brought is where a part finds what the user and the project bring for it. The zero Brought has nothing.
type Brought struct {
	Dirs []string // of the project: the working directory and its parents up to the root
	User string   // the user's configuration directory; "": nothing of the user is read
	// Plugins are in use. There are none yet while settings are read.
	Plugins []PluginDir
	// Check returns nil if the user has approved a project's file with this content. It may be called at any time.
	Check func(file string, data []byte) error
	// CheckSkill returns an error if the files of a skill are not those that the user approved or installed. check does it
	// for the bytes of one of its files; nil: nobody approves them, as they are the user's own. It may be called at any
	// time.
	CheckSkill func(*knack.Skill) (check func(file string, data []byte) error, err error)
	// Names returns the names of the program's tools, which nothing else may have; nil: there are none.
	Names func() []string
	// CommandNames returns the names of the program's commands, also those in other agents; nil: there are none.
	CommandNames func() []string

	// AsUser returns what makes a command run outside the sandbox, as the user, see [workspace.Command.AsUser]. files are
	// what the user wrote: its definition and the program. set are the variables that the caller sets. The error says why
	// the command must stay in the sandbox. nil: all must.
	AsUser func(set []string, files ...string) (func(environ []string) []string, error)

	Kit *Kit // that is used; nil: none

	kept *keptFinds // nil: nothing is kept
}

// A PluginDir is the directory of a plugin in use.
type PluginDir struct {
	Name, Dir string
	ID        string // NAME@MARKETPLACE
	// Check returns nil if the plugin was installed with a file with this content; nil: it was not installed, but named.
	Check func(file string, data []byte) error
	// Secrets are those that the user gave to it. Its servers get them.
	Secrets []string
	// LanguageServers are the JSON objects that define them, by name, as the plugin was installed.
	LanguageServers []json.RawMessage
}

// Keep calls find the first time that the named part asks in this project, and returns the same result from then on: a
// part searches only once for its tools, its commands and its problems. The zero Brought keeps nothing.
func (b Brought) Keep(part string, find func() any) any {
	if b.kept == nil {
		return find()
	}
	once, _ := b.kept.LoadOrStore(part, sync.OnceValue(find))
	return once.(func() any)()
}

// keptFinds has what parts found, as funcs, by their names.
type keptFinds struct{ sync.Map }

// Live is a part in one session. Every field may be nil. The funcs may be called by several goroutines; no lock of the
// session is held meanwhile.
type Live struct {
	// Tools returns the part's tools, which Part.Known names; it is called once, when the session begins.
	Tools func() PartTools
	// Placed returns tools that work in a Place, such as programs that run there. It is called when the session begins, when
	// it moves, for each agent, and when the project was loaded again: it may have other tools then.
	Placed func(Place, coding.Options) tool.Set
	// SkillTools returns the tools that a skill brings, as they work in a Place. It is called before each request while
	// the skill is in use, also for agents.
	SkillTools func(*knack.Skill, Place, coding.Options) tool.Set
	// Wrap changes the tools that work on files in a Place. The parts wrap them in the order in which they stand in
	// Options.Parts, so that the last one is the first to see a call.
	Wrap func(tool.Set, Place) tool.Set
	// Prompt returns what is at the end of the system prompt. It is called when the session begins, and by Reload.
	Prompt func() string
	// Follow is called when the log may be at another entry than before: when the session begins, after Tools, and before
	// each turn.
	Follow func(context.Context)
	// Begin is called before each turn with what the user typed; an error ends the turn.
	Begin func(ctx context.Context, prompt string) error
	// Note returns what the model must know before a request, given the state of its log; nil: nothing new. Several parts
	// tell it in one message.
	Note func(Asking, session.State) *session.Note
	// GoOn is called when a turn of the session would end with the model's answer. A note with a text for the model makes
	// the turn go on; one without is only recorded; nil: it may end. Of several parts, the first that returns a note
	// counts.
	GoOn func(context.Context) (*session.Note, error)
	// Messages changes the messages of each request, also of sub-agents, but not the log; the parts do it in the order in
	// which they stand in Options.Parts. It may change the slice, and nothing in it.
	Messages func([]llm.Message) []llm.Message
	// Observe is told of the turns and calls of the session and of its agents, and of questions to the user; see
	// [agent.Observer]. Of several parts, the first that has it counts.
	Observe agent.Observer
	// Model changes the models of the session and of its agents, to see each request, whatever it is for. The parts do it
	// in the order in which they stand in Options.Parts.
	Model func(llm.Model) llm.Model
	// ModeChanged is called before the permission mode changes.
	ModeChanged func(from, to permission.Mode)
	// Audit is called with each decision of the gate, before the call runs, also for calls of sub-agents.
	Audit func(gate.Record)
	// Require is called with each decision before Audit. An error refuses the call, and ends the run.
	Require func(gate.Record) error
	// Reached is called when a command of the model's connects to a host, as far as a sandbox sees that.
	Reached func(host string)
	// Secrets returns what gives secrets to the commands of calls while a skill is in use, see [gate.SkillFacts]; nil: the
	// skill has none.
	Secrets func(*knack.Skill) func(ctx context.Context, call []permission.Subject) func(context.Context,
		workspace.Command) (workspace.Secrets, error)
	// Values returns the secrets that commands of the session have been given: no output of a command contains them, and
	// they count as read. It is called often, also while a command starts.
	Values func() []string
	// HookRuns is called before a command of a hook runs; asUser: outside the sandbox. What it returns is called like
	// Reached, for this command; nil: nothing is.
	HookRuns func(p hook.Process, asUser bool) (reached func(host string))
	// Hooks returns hooks that the part has now, such as those of programs that it runs; their Origin says whose they are.
	// They come after those of the host. It is called often.
	Hooks func() []hook.Hook
	// HookTold is called when a hook has answered with text for the model.
	HookTold func(*hook.Hook)
	// Reads tells the other parts what the conversation has read. Of several, the first counts.
	Reads Reads
	// Status adds to the state of the session. It is called often.
	Status func(*Status)
	// Leave returns what the part does when the user ends the program, such as to ask something. It returns a text for
	// the user, also if it fails. nil: nothing. It may be called often, to find out whether there is something to do.
	Leave func() func(context.Context) string
	// Problems are shown to the user when the session begins.
	Problems []knack.Problem
	// Close is called once, when the session ends, in the reverse order of the parts.
	Close func() error
	// Value is what the part offers to code that knows it: see [Session.Part].
	Value any
}

// Asking says who sends a request to a model.
type Asking struct {
	Mode permission.Mode // of its gate
	Sub  bool            // a sub-agent; false: the session itself
}

// A Place is where tools work: the workspace of a session, or the git worktree of one of its agents.
type Place struct {
	Workspace workspace.Workspace
	Sandbox   *sandbox.Sandbox              // of its commands; nil: they run without one
	Worktree  string                        // its directory; "": it is the workspace of the session
	Agent     *agent.Sub                    // whose it is; nil: the session's
	Named     []string                      // the tools that its definition names, as rules; nil: it names none
	Paths     func() permission.PathContext // in which paths are judged there
}

// Reads tells what a conversation has read, also in its commands and agents. If no part does, nothing is known to be a
// secret, and all may come from strangers.
type Reads interface {
	// Secrets returns the texts that the session has read from secrets, or may have, and the keys and passwords in them.
	Secrets() (texts, keys []string)
	// Stranger explains why what is said may come from a stranger, such as a page of the web; "": it does not.
	Stranger() string
	// Marks returns what the session has read, for the session that gets a prompt from it.
	Marks(prompt string) session.Seen
}

// noReads is the Reads of a session without a part that has it.
type noReads struct{}

func (noReads) Secrets() (texts, keys []string) { return nil, nil }
func (noReads) Stranger() string                { return "it is not known what this session has read" }
func (noReads) Marks(string) session.Seen       { return session.Unknown() }

// readsAndValues are Reads that also know the secrets that commands of the session have been given.
type readsAndValues struct {
	Reads
	parts liveParts
}

func (r readsAndValues) Secrets() (texts, keys []string) {
	texts, keys = r.Reads.Secrets()
	values := r.parts.values()
	return slices.Concat(texts, values), slices.Concat(keys, values)
}

func (r readsAndValues) Marks(prompt string) session.Seen {
	seen := r.Reads.Marks(prompt)
	seen.Prompt = seen.Prompt || secrets.Found(prompt, r.parts.values())
	return seen
}

// Conv is the conversation that a part belongs to, and all that it may use of it. It may be used by any goroutine.
type Conv struct {
	session *Session
	part    string // its name
	before  any    // see Before
}

// Log returns the record of the conversation.
func (c *Conv) Log() *session.Log { return c.session.log }

// Project returns the project as it is now, with its directory, environment and settings.
func (c *Conv) Project() *Project { return c.session.engine.Project() }

// Options returns the options with which the session began.
func (c *Conv) Options() SessionOptions { return c.session.options }

// Host returns what the host adds now.
func (c *Conv) Host() Host { return c.session.Host() }

// Place returns the place where the session began to work.
func (c *Conv) Place() Place { return c.session.place.home }

// Recorded reports whether the session is written to disk.
func (c *Conv) Recorded() bool { return c.session.Recorded() }

// Interactive reports whether there is a user who can be asked.
func (c *Conv) Interactive() bool { return c.session.Interactive() }

// Ask asks the user. If there is nobody to ask, the error is ErrCannot.
func (c *Conv) Ask(ctx context.Context, q Question) (Answer, error) { return c.session.Ask(ctx, q) }

// LastModel describes the model that was used last. Before the first turn it is the zero Info.
func (c *Conv) LastModel() llm.Info { return c.session.modelInfo() }

// FastModel returns the fast model of the provider that the session uses.
func (c *Conv) FastModel(ctx context.Context) (llm.Model, error) {
	return c.session.Now().fastModel(ctx)
}

// ErrNoTool is the error for calling a tool that there is not, or not yet.
var ErrNoTool = errors.New("there is no such tool")

// CallServer calls a tool of an MCP server, by its full name, without a question: the caller's own call was decided on.
// It connects to the server before. The error is ErrNoTool if the server has no such tool.
func (c *Conv) CallServer(ctx context.Context, name string, input any) (tool.Result, error) {
	servers := c.session.servers
	if server, _, ok := strings.Cut(strings.TrimPrefix(name, "mcp__"), "__"); ok {
		if err := servers.Connect(ctx, server); err != nil {
			return tool.Result{}, err
		}
	}
	t, ok := servers.Tools().Find(name)
	if !ok {
		return tool.Result{}, ErrNoTool
	}
	data, err := json.Marshal(input)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Call(ctx, tool.Set{*t}, llm.ToolCall{ID: "part", Name: t.Name, Input: data}, tool.AllowAll, nil), nil
}

// CallTyped calls a tool of the part's, which need not be one of the model's, because the user typed it: that counts as
// approval, as for [Session.Shell]. The tool must work in Here. progress may be nil.
func (c *Conv) CallTyped(ctx context.Context, t tool.Tool, input json.RawMessage, progress func(tool.Result)) (tool.Result,
	error) {
	if err := c.session.open(); err != nil {
		return tool.Result{}, err
	}
	g, err := c.session.Now().typedGate(gate.Typed)
	if err != nil {
		return tool.Result{}, err
	}
	tools := c.session.parts.wrap(tool.Set{t}, c.session.place.now())
	return tool.Call(ctx, tools, llm.ToolCall{ID: "typed", Name: t.Name, Input: input}, g, progress), nil
}

// Hook runs the hooks of an event that concerns the part, and records what they say. An error means that one of them
// refuses what the event is about.
func (c *Conv) Hook(ctx context.Context, in hook.Input) error {
	return c.session.hooks.refused(ctx, in)
}

// Here returns the place where the session works now.
func (c *Conv) Here() Place { return c.session.place.now() }

// OpenWorktree opens a git worktree, with a sandbox of its own: commands in it only read the directory where the
// session began. On an error the worktree is removed if nothing changed in it.
func (c *Conv) OpenWorktree(ctx context.Context, tree *worktree.Worktree) (Place, error) {
	at, err := c.session.engine.openWorktree(ctx, c.Project(), tree)
	return c.session.scratch.in(at), err
}

// Move lets the session's tools work in a worktree from now on; the zero Place is where the session began. A call that
// was decided on before fails.
func (c *Conv) Move(to Place) {
	s := c.session
	var tools tool.Set
	if to.Worktree != "" {
		tools = s.parts.placed(to, s.coding)
	}
	was := s.place.ws().Dir()
	if running := s.place.set(to, tools); running != nil {
		running.Move(s.gate.Replace(gateOptions(s, s.engine.Project(), s.place.now())))
	}
	if now := s.place.ws().Dir(); now != was {
		s.hooks.event(context.Background(), hook.Input{Event: hook.CwdChanged, OldDir: was, NewDir: now})
	}
	s.changed()
}

// Reads returns what the conversation has read. It must not be called by Part.Open.
func (c *Conv) Reads() Reads {
	for _, p := range c.session.parts {
		if p.Reads != nil {
			return readsAndValues{p.Reads, c.session.parts}
		}
	}
	return readsAndValues{noReads{}, c.session.parts}
}

// Mode returns the permission mode.
func (c *Conv) Mode() permission.Mode { return c.session.Mode() }

// SetMode changes the mode to one that the user has chosen.
func (c *Conv) SetMode(ctx context.Context, to permission.Mode) error {
	return c.session.SetTyped(ctx, session.Setting{Mode: to})
}

// Notice reports a problem to the user, unless it has been reported before.
func (c *Conv) Notice(p knack.Problem) { c.session.engine.notices.addOnce(p) }

// Changed says that what Live.Status says has changed.
func (c *Conv) Changed() { c.session.changed() }

// Before returns the Value of the part in the session that this one replaces, as after /new; nil: there is none.
func (c *Conv) Before() any { return c.before }

// Catalog returns the skills that there are now.
func (c *Conv) Catalog() *knack.Catalog { return c.session.Catalog() }

// Part returns what the part of this name offers in the session, its Live.Value; nil: there is no such part, or it is
// off.
func (s *Session) Part(name string) any {
	for _, p := range s.parts {
		if p.name == name {
			return p.Value
		}
	}
	return nil
}

// Leaving returns what the parts do when the user ends the program, and returns a text for the user; nil: nothing.
func (s *Session) Leaving() func(context.Context) string {
	for _, p := range s.parts {
		if p.Leave == nil {
			continue
		}
		if leave := p.Leave(); leave != nil {
			return leave
		}
	}
	return nil
}

// Shorthand returns the command line that a prompt of the user's stands for, such as "# TEXT" for a note; other prompts
// are returned unchanged.
func (e *Engine) Shorthand(prompt string) string {
	for _, p := range e.Project().options.Parts {
		if p.Shorthand != nil {
			prompt = p.Shorthand(prompt)
		}
	}
	return prompt
}

// liveParts are the parts of one session. They do not change once it has begun.
type liveParts []livePart

type livePart struct {
	name string
	*Live
}

// openParts opens the program's parts for a session. from is the session that it replaces; nil: none.
func openParts(ctx context.Context, s *Session, from *Session) (all liveParts, err error) {
	names := map[string]bool{}
	for _, p := range s.engine.Project().options.Parts {
		if names[p.Name] {
			return nil, errors.Join(fmt.Errorf("two parts are named %q", p.Name), all.close())
		}
		names[p.Name] = true
		c := &Conv{session: s, part: p.Name}
		if from != nil {
			c.before = from.Part(p.Name)
		}
		live, err := p.Open(ctx, c)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", p.Name, err), all.close())
		}
		if live != nil {
			all = append(all, livePart{p.Name, live})
		}
	}
	return all, nil
}

// tools returns the tools of the parts.
func (all liveParts) tools() (sum PartTools) {
	for _, p := range all {
		if p.Tools != nil {
			t := p.Tools()
			sum.Shared = append(sum.Shared, t.Shared...)
			sum.Listed, sum.Unlisted = append(sum.Listed, t.Listed...), append(sum.Unlisted, t.Unlisted...)
		}
	}
	return sum
}

// listed returns the names of those that a session has which chooses none.
func (t PartTools) listed() []string {
	return slices.Concat(t.Placed.Names(), t.Shared.Names(), t.Listed.Names())
}

// problems returns what the parts tell the user when the session begins.
func (all liveParts) problems() (list []knack.Problem) {
	for _, p := range all {
		list = append(list, p.Problems...)
	}
	return list
}

// prompts returns what the parts add to the system prompt.
func (all liveParts) prompts() (texts []string) {
	for _, p := range all {
		if p.Prompt == nil {
			continue
		}
		if text := p.Prompt(); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// placed returns the tools that work in a place, as the parts change them.
func (all liveParts) placed(in Place, o coding.Options) tool.Set {
	tools := coding.Tools(in.Workspace, o)
	for _, p := range all {
		if p.Placed != nil {
			tools = append(tools, p.Placed(in, o)...)
		}
	}
	return all.wrap(tools, in)
}

// wrap returns tools as the parts change them in a place.
func (all liveParts) wrap(tools tool.Set, in Place) tool.Set {
	for _, p := range all {
		if p.Wrap != nil {
			tools = p.Wrap(tools, in)
		}
	}
	return tools
}

// messages returns what changes the messages of requests; nil: nothing does.
func (all liveParts) messages() (change func([]llm.Message) []llm.Message) {
	for _, p := range all {
		if before := change; p.Messages != nil {
			change = func(ms []llm.Message) []llm.Message {
				if before != nil {
					ms = before(ms)
				}
				return p.Messages(ms)
			}
		}
	}
	return change
}

func (all liveParts) follow(ctx context.Context) {
	for _, p := range all {
		if p.Follow != nil {
			p.Follow(ctx)
		}
	}
}

func (all liveParts) begin(ctx context.Context, prompt string) error {
	for _, p := range all {
		if p.Begin != nil {
			if err := p.Begin(ctx, prompt); err != nil {
				return err
			}
		}
	}
	return nil
}

// note returns what the parts tell the model before a request, as one message; nil: nothing.
func (all liveParts) note(a Asking, state session.State) (sum *session.Note) {
	for _, p := range all {
		if p.Note != nil {
			sum = joinNotes(sum, p.Note(a, state))
		}
	}
	return sum
}

// joinNotes makes one message of two; either may be nil.
func joinNotes(a, b *session.Note) *session.Note {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a
	sum.Model += "\n\n" + b.Model
	if sum.People = cmp.Or(a.People, b.People); a.People != "" && b.People != "" {
		sum.People += "; " + b.People
	}
	sum.Warns = a.Warns || b.Warns
	sum.Mode, sum.Servers = cmp.Or(a.Mode, b.Mode), slices.Concat(a.Servers, b.Servers)
	return &sum
}

// goOn asks the parts whether a turn may end.
func (all liveParts) goOn(ctx context.Context) (*session.Note, error) {
	for _, p := range all {
		if p.GoOn == nil {
			continue
		}
		if note, err := p.GoOn(ctx); note != nil || err != nil {
			return note, err
		}
	}
	return nil, nil
}

// observer returns who is told of the steps of runs; nil: nobody.
func (all liveParts) observer() agent.Observer {
	for _, p := range all {
		if p.Observe != nil {
			return p.Observe
		}
	}
	return nil
}

// model returns a model as the parts change it, and without the secrets of commands.
func (all liveParts) model(m llm.Model) llm.Model {
	for _, p := range all {
		if p.Model != nil {
			m = p.Model(m)
		}
	}
	return secretless{m, all.values}
}

func (all liveParts) modeChanged(from, to permission.Mode) {
	for _, p := range all {
		if p.ModeChanged != nil {
			p.ModeChanged(from, to)
		}
	}
}

func (all liveParts) audit(r gate.Record) {
	for _, p := range all {
		if p.Audit != nil {
			p.Audit(r)
		}
	}
}

// require reports whether all parts take note of a decision.
func (all liveParts) require(r gate.Record) error {
	for _, p := range all {
		if p.Require != nil {
			if err := p.Require(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (all liveParts) reached(host string) {
	for _, p := range all {
		if p.Reached != nil {
			p.Reached(host)
		}
	}
}

// secrets returns what gives secrets to the commands of calls while a skill is in use; nil: nothing does.
func (all liveParts) secrets(k *knack.Skill) func(context.Context, []permission.Subject) func(context.Context,
	workspace.Command) (workspace.Secrets, error) {
	for _, p := range all {
		if p.Secrets != nil {
			if f := p.Secrets(k); f != nil {
				return f
			}
		}
	}
	return nil
}

func (all liveParts) values() (values []string) {
	for _, p := range all {
		if p.Values != nil {
			values = append(values, p.Values()...)
		}
	}
	return values
}

func (all liveParts) hookRuns(c hook.Process, asUser bool) (reached func(host string)) {
	var told []func(host string)
	for _, p := range all {
		if p.HookRuns != nil {
			if f := p.HookRuns(c, asUser); f != nil {
				told = append(told, f)
			}
		}
	}
	return func(host string) {
		for _, f := range told {
			f(host)
		}
	}
}

// hooks returns the hooks of the parts that the settings let run.
func (all liveParts) hooks(c *config.Config) (hooks []hook.Hook) {
	for _, p := range all {
		if p.Hooks == nil {
			continue
		}
		for _, h := range p.Hooks() {
			by := permission.Origin(h.Origin)
			if strings.HasPrefix(h.Origin, "plugin:") {
				by = permission.User
			}
			hooks = append(hooks, restricted(c, by, []hook.Hook{h})...)
		}
	}
	return hooks
}

func (all liveParts) hookTold(h *hook.Hook) {
	for _, p := range all {
		if p.HookTold != nil {
			p.HookTold(h)
		}
	}
}

func (all liveParts) status(st *Status) {
	for _, p := range all {
		if p.Status != nil {
			p.Status(st)
		}
	}
}

func (all liveParts) close() (err error) {
	for _, p := range slices.Backward(all) {
		if p.Close != nil {
			err = errors.Join(err, p.Close())
		}
	}
	return err
}
