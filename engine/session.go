package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/project/instructions"
	"github.com/knack-agent/knack/engine/servers"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// A Session is one conversation: its log, the user's answers, its mode and its queue of messages.
// [Session.Run] runs one turn at a time; all other methods may be called at any time and from any
// goroutine. Close it when it ends.
type Session struct {
	engine   *Engine
	given    SessionOptions // by the caller
	options  SessionOptions // as the agent that leads the session changes them
	person   Person         // nil: the user cannot be asked
	log      *session.Log
	firstNew int               // the last entry of the log before this Session
	source   hook.Source       // of the SessionStart event
	promptID string            // of the message that began the last turn
	lead     *agent.Definition // the agent that leads the session; nil: none

	ws           workspace.Workspace
	scratch      *scratch
	gate         *gate.Gate
	hooks        *sessionHooks // nil: there are none
	background   *agent.Background
	jobs         *jobs
	memory       *coding.Memory // what the conversation knows about files
	coding       coding.Options // of the session's tools
	files        tool.Set       // all of the session's own tools, active or not
	shared       tool.Set       // those of parts that sub-agents have too
	chosen       chosen         // what the model may call of them now
	removedTools []string       // tools that the agent would add but must not
	servers      *servers.Session
	queue        queue
	parts        liveParts
	place        place // where its tools work
	missing      missingModels

	mu            sync.Mutex
	system        string
	instructions  instructions.Found // its context files are passed to every agent
	problems      []knack.Problem    // found at the start and by /reload
	closed        bool
	reason        hook.EndReason
	running       bool
	woken         wakes
	cancel        context.CancelCauseFunc // of the Run
	interrupt     context.CancelCauseFunc // of the current turn
	lastModel     llm.Model               // model of the last turn; nil: there was none
	host          Host
	started       bool // SessionStart hooks have run
	questions     []Question
	lastID        int             // number of questions so far
	declinedRules map[string]bool // skills' rules that the user did not accept, see Turn.admit
	statusChanged chan struct{}   // closed when the Status changes
}

// jobs are the background commands that a session shares with the sessions that replace it. They end
// when the last of these is closed.
type jobs struct {
	coding.Jobs
	mu    sync.Mutex
	users int
}

func (j *jobs) share() *jobs {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.users++
	return j
}

func (j *jobs) release() error {
	j.mu.Lock()
	j.users--
	last := j.users == 0
	j.mu.Unlock()
	if last {
		return j.Jobs.Close()
	}
	return nil
}

// Start begins a conversation. person answers questions; if it is nil, everything that needs an
// answer is refused. If restrictions in the settings cannot be read, it fails, see [Unread]. Call
// [Session.Begin] before the first turn, and Close at the end.
func (e *Engine) Start(ctx context.Context, person Person, o SessionOptions) (*Session, error) {
	if err := e.Unread.check(e.Unread.Problems()); err != nil {
		return nil, err
	}
	if _, ok := e.Project().config.HeldBy("permissions.denyInsteadOfPrompting"); ok {
		person = nil
	}
	log, err := e.openLog(o)
	if err != nil {
		return nil, err
	}
	s, err := e.start(ctx, person, o, log, nil)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	logSkills(e.Project(), e.Catalog())
	return s, nil
}

// start makes the Session for a log. If from is not nil, it is the session to replace; the new one
// takes over its mode and background commands.
func (e *Engine) start(ctx context.Context, person Person, o SessionOptions, log *session.Log, from *Session) (*Session,
	error) {
	ws, err := e.workspace(ctx)
	if err != nil {
		return nil, err
	}
	p := e.Project()
	home := Place{Workspace: ws, Sandbox: e.box, Paths: e.PathContext}
	set := &p.config.Settings.Sandbox
	scratch := newScratch(scratchPlace{env: p.options.Env, name: log.ID(), output: p.outputDir(), dir: ws.Dir(),
		box: e.box, paths: e.PathContext, log: log, forget: o.Forget,
		read: p.options.Env.Sessions(p.dir).Dir, debug: p.options.DebugLog,
		opened: slices.Concat(set.AllowWrite, set.AllowRead,
			p.sourceOptions.Skills, p.sourceOptions.AddDirs, filepath.SplitList(p.options.Env.Get("PATH")))})
	home = scratch.in(home)
	given := o
	lead, err := leading(p, &o)
	if err != nil {
		return nil, err
	}
	s := &Session{
		engine: e, given: given, options: o, log: log, firstNew: log.Last(), source: hook.SourceStartup, ws: home.Workspace,
		scratch: scratch, person: person, background: &agent.Background{Wait: o.Wait}, memory: coding.NewMemory(),
		statusChanged: make(chan struct{}),
	}
	s.background.Changed = s.changed
	s.place.home = home
	s.servers = &servers.Session{Shared: &e.servers, Changed: s.changed, Elicit: s.elicit,
		Output: func() string { return s.scratch.outputDir() },
		Chosen: func(set tool.Set) tool.Set {
			return slices.DeleteFunc(chosenTools(e.Project(), o.Tools, s.files, set), e.Project().withholds)
		}}
	if s.firstNew > 0 {
		s.source = hook.SourceResume
		if o.Fork {
			s.source = hook.SourceFork
		}
	}
	for _, d := range log.Damage() {
		s.problems = append(s.problems, knack.Problem{Code: knack.CodeSessionDamaged, Severity: knack.Warn,
			Message: "session: " + d})
	}
	if from == nil {
		s.jobs = (&jobs{}).share()
	} else {
		from.jobs.StopMonitors()
		s.jobs = from.jobs.share()
	}
	if s.gate, err = s.newGate(p); err != nil {
		return nil, errors.Join(err, s.jobs.release())
	}
	if old := s.gate.Uncounted(); len(old) > 0 && from == nil {
		s.problems = append(s.problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn,
			Message: "answers that no longer count: " + plain.List(old, maxUnused) + ": what such a program runs, or git " +
				"because of such a file, is asked about each time",
			Hint: "write a rule into your settings if you need one: knack help permissions"})
	}
	if from != nil {
		s.gate.SetMode(from.gate.Mode())
	}
	if s.parts, err = openParts(ctx, s, from); err != nil {
		return nil, errors.Join(err, s.jobs.release())
	}
	log.Hide(s.parts.values)
	s.problems = append(s.problems, s.parts.problems()...)
	s.setTools(p)
	s.setSystem(p)
	s.parts.follow(ctx)
	if !p.options.Bare {
		if s.hooks, err = newHookRunner(s, p); err != nil {
			return nil, errors.Join(err, s.jobs.release())
		}
	}
	if err := errors.Join(override(ctx, s), follow(ctx, s, lead)); err != nil {
		return nil, errors.Join(err, s.jobs.release())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.Join(ErrClosed, s.jobs.release())
	}
	e.sessions[s] = true
	return s, nil
}

// outputDir returns the directory for the outputs of this project's commands; "" if there is no home.
func (p *Project) outputDir() string {
	dir := p.options.Env.StateFile("output")
	if dir == "" {
		return ""
	}
	key := sha256.Sum256([]byte(p.root))
	return filepath.Join(dir, hex.EncodeToString(key[:8]))
}

// setTools selects the tools of the session.
func (s *Session) setTools(p *Project) {
	s.coding = coding.Options{
		Jobs: &s.jobs.Jobs, State: s.memory, Timeout: s.options.Timeout,
		Files:     coding.FileOptions{Model: s.modelInfo},
		TempDir:   cmp.Or(s.scratch.outputDir(), p.outputDir()),
		Connected: s.parts.reached, Mask: s.parts.values,
	}
	if s.person != nil {
		s.coding.Ask = s.askTool
	}
	own := s.parts.tools()
	s.shared = own.Shared
	placed := s.parts.placed(s.place.home, s.coding)
	s.files = slices.Concat(s.place.wrap(placed), s.shared, own.Listed)
	for _, t := range slices.Concat(placed, own.Shared, own.Listed) {
		if !slices.Contains(p.known().names(), t.Name) { // the program's own fault, which nobody would see
			s.problems = append(s.problems, knack.Problem{Code: knack.CodeNotListed, Severity: knack.Warn,
				Message: fmt.Sprintf("the tool %s is left out: the part that gives it does not name it in Part.Known", t.Name)})
		}
	}
	s.chosen.parts, s.chosen.of = own, p.Brought.kept
	skill, problems := s.chosen.choose(s.files, p.known().defaults, s.options.Tools, p.withholds)
	for _, x := range problems {
		s.problems = append(s.problems, knack.Problem{Code: x.Code, Severity: knack.Warn, Message: x.String(),
			Hint: x.Hint})
	}
	if !s.chosen.agent {
		s.removedTools = []string{"Agent"}
	}
	none := s.options.Tools != "" && len(s.chosen.active)+len(s.chosen.unlisted) == 0 && len(s.removedTools) > 0
	if skill == "-" || none && skill == "" { // without tools there is no Skill tool either
		s.removedTools = append(s.removedTools, "Skill")
	}
	for _, t := range agent.Tools() {
		if p.withholds(t) && !slices.Contains(s.removedTools, t.Name) {
			s.removedTools = append(s.removedTools, t.Name)
		}
	}
	s.problems = append(s.problems, s.SetHost(s.options.Host)...)
}

// withholds reports whether --disallowed-tools names a whole tool, or the tools of an MCP server: the request does not
// list it then. Rules of settings do not change the list.
func (p *Project) withholds(t tool.Tool) bool {
	return slices.ContainsFunc(p.config.Rules.Deny, func(r permission.Rule) bool {
		return r.Origin == permission.Flag && r.CoversAll(t.Names()...)
	})
}

// cutSkillTerm removes the Skill tool from a --tools selection, because each turn decides about it. skill
// is how the selection names it: "", "+" or "-".
func cutSkillTerm(spec string) (rest, skill string) {
	var kept []string
	for i, term := range strings.FieldsFunc(spec, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		switch term {
		case "Skill", "+Skill":
			if skill = "+"; term == "Skill" && i == 0 {
				kept = append(kept, "none") // only this tool
			}
		case "-Skill":
			skill = "-"
		default:
			kept = append(kept, term)
		}
	}
	return strings.Join(kept, ","), skill
}

// SetHost replaces what the host adds to the session, starting with the next turn. The Problems are about
// what is left out.
func (s *Session) SetHost(g Host) []knack.Problem {
	var problems []knack.Problem
	own := withAgent(s.files)
	valid := func(given tool.Set) (tools tool.Set) {
		for _, t := range given {
			if !validToolName(t.Name) {
				problems = append(problems, knack.Problem{Code: knack.CodeNameInvalid, Severity: knack.Warn,
					Message: fmt.Sprintf("the host's tool %q is not available: models accept names of 1 to 64 letters, "+
						"digits, - and _", t.Name)})
				continue
			}
			if _, taken := own.Find(t.Name); taken {
				problems = append(problems, knack.Problem{Code: knack.CodeShadowed, Severity: knack.Warn,
					Message: fmt.Sprintf("the host's tool %s is not available: a built-in tool has its name", t.Name)})
				continue
			}
			tools = append(tools, t)
		}
		return tools
	}
	g.Tools, g.Own = valid(g.Tools), valid(g.Own)
	s.servers.SetHost(g.Servers)
	g.Hooks = slices.Clone(g.Hooks)
	for i := range g.Hooks {
		if g.Hooks[i].Verify == nil {
			g.Hooks[i].Verify = func() ([]hook.Script, error) { return nil, nil } // the host is trusted
		}
	}
	s.mu.Lock()
	s.host = g
	s.mu.Unlock()
	s.changed()
	return problems
}

// validToolName reports whether every provider accepts the name of a tool.
func validToolName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-' && r != '_'
	})
}

// Host returns what the host currently adds to the session.
func (s *Session) Host() Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// withAgent adds the Agent tool, which the agent provides, for use with Select.
func withAgent(files tool.Set) tool.Set {
	own, _ := tool.Select(agent.Tools(), "", "Agent")
	return slices.Concat(files, own)
}

// Recorded reports whether the session is written to disk.
func (s *Session) Recorded() bool {
	return !s.options.Forget && s.engine.Project().options.Env.StateDir() != ""
}

var (
	//go:embed prompts/role.md
	roleText string
	//go:embed prompts/help.md
	helpText string
)

// setSystem assembles the system prompt, which does not change until the user reloads. Background agents may read it
// at the same time.
func (s *Session) setSystem(p *Project) {
	var found instructions.Found
	prompt := agent.Prompt{Role: roleText, Help: helpText,
		Tools: slices.Concat(s.chosen.listed(), s.Host().Tools, s.Host().Own),
		Date:  time.Now(), Dir: s.ws.Dir(), MoreDirs: s.engine.PathContext().Roots,
		Custom: s.options.System}
	if !p.options.Bare {
		found = instructions.Load(p.texts)
		prompt.Context, prompt.Append = found.Context, found.Append
		prompt.Custom = cmp.Or(s.options.System, found.System)
	}
	prompt.Append = append(prompt.Append, s.options.Append...)
	prompt.Append = append(prompt.Append, s.parts.prompts()...)
	if p.view.Index && slices.ContainsFunc(prompt.Tools, func(t tool.Tool) bool { return t.Name == "read" }) {
		prompt.Index = s.Catalog().Listing(p.viewOf(s.options.Skills)).Text
	}
	system := prompt.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.system, s.instructions, s.problems = system, found, append(s.problems, found.Problems...)
}

// systemText returns the system prompt and the context files in it.
func (s *Session) systemText() (string, []agent.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.system, s.instructions.Context
}

// matchingRules returns the context files that apply because files were touched.
func (s *Session) matchingRules(touched []string) []agent.Document {
	s.mu.Lock()
	known := len(s.instructions.Problems)
	docs := s.instructions.Matching(touched)
	found := slices.Clone(s.instructions.Problems[known:])
	s.problems = append(s.problems, found...)
	s.mu.Unlock()
	for _, p := range found { // who shows it may ask for the session's
		s.engine.notices.addOnce(p)
	}
	return docs
}

// override records which settings of a resumed session the options replace.
func override(ctx context.Context, s *Session) error {
	was, now := s.log.State(), session.Setting{}
	name := s.options.Model
	if kit := s.engine.Project().Brought.Kit; name == "" && was.Model == "" && kit != nil {
		name = kit.Model // it is in the settings
	}
	if name != "" && (was.Model != "" || was.Requests > 0) {
		m, err := s.engine.Models().Default(ctx, name)
		if err == nil {
			err = s.hooks.resumed(ctx, s.log, m.Info(), name)
		}
		if err != nil {
			return err
		}
		if was.Model != "" {
			now.Model = m.Info().ID
		}
	}
	if was.Effort != "" && s.options.Effort != "" {
		now.Effort = s.options.Effort
	}
	if now == (session.Setting{}) {
		return nil
	}
	_, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &now})
	return err
}

// Reload is [Engine.Reload], and reads the session's context files again.
func (s *Session) Reload(ctx context.Context) (Reloaded, error) {
	c, err := s.engine.Reload(ctx)
	if err != nil {
		return Reloaded{}, err
	}
	known := len(s.Problems())
	_, c.OldContext = s.systemText()
	s.setSystem(c.New)
	_, c.NewContext = s.systemText()
	c.Problems = s.Problems()[known:]
	return c, nil
}

// AddDir is [Engine.AddDir] for a directory that the user typed, and runs the DirectoryAdded hooks.
func (s *Session) AddDir(ctx context.Context, dir string) (Reloaded, error) {
	c, err := s.engine.AddDir(ctx, dir)
	if err == nil {
		roots := s.engine.Project().Roots()
		s.hooks.event(ctx, hook.Input{Event: hook.DirectoryAdded, Directory: roots[len(roots)-1],
			Source: hook.SourceTyped})
	}
	return c, err
}

// Log returns the record of the conversation.
func (s *Session) Log() *session.Log { return s.log }

// ID is the ID of the log.
func (s *Session) ID() string { return s.log.ID() }

// Catalog is the engine's catalogue with the skills of the host's servers.
func (s *Session) Catalog() *knack.Catalog { return s.servers.Catalog() }

// MCP returns the session's MCP servers.
func (s *Session) MCP() *servers.Session { return s.servers }

// Engine returns the open directory that the session belongs to.
func (s *Session) Engine() *Engine { return s.engine }

// Problems returns the problems found at the start of the session and by /reload: damage to its record, unknown
// tools, unreadable context files.
func (s *Session) Problems() []knack.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// Model returns the model that the next turn begins with. If there is none, the error explains why,
// and what to do.
func (s *Session) Model(ctx context.Context) (llm.Model, error) {
	p, models := s.engine.Project(), s.engine.Models()
	if p.options.Model != nil {
		return p.options.Model, nil
	}
	if name := s.log.State().Model; name != "" {
		if m, err := models.Default(ctx, name); err == nil {
			return m, s.engine.checkPrice(m)
		}
	}
	name := p.config.Settings.Model
	m, err := models.Default(ctx, name)
	if err != nil && name != "" && name == p.foreign.model { // another program's choice is never an error
		s.engine.notices.addOnce(knack.Problem{Code: knack.CodeModelUnknown, Severity: knack.Warn,
			Message: fmt.Sprintf("the model %q of another program's settings is passed over: %v", name, err)})
		m, err = models.Default(ctx, "")
	}
	if errors.Is(err, ErrNoModel) && s.person != nil {
		return nil, &Error{Err: ErrNoModel, Hint: "/login adds a key\n" +
			"/settings model NAME chooses a local model, such as ollama/llama3\n" +
			"/model offline works without one: it runs skills with fixed steps"}
	}
	if err != nil {
		return nil, err
	}
	return m, s.engine.checkPrice(m)
}

// modelInfo describes the model that was used last, for tools. Before the first turn it is the zero
// Info.
func (s *Session) modelInfo() llm.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastModel == nil {
		return llm.Info{}
	}
	return s.lastModel.Info()
}

// modelName returns the name of the model that the next turn begins with, or "" if it is not known
// without a search.
func (s *Session) modelName() string {
	return cmp.Or(s.log.State().Model, s.modelInfo().ID, s.engine.Project().config.Settings.Model)
}

// Mode returns the permission mode.
func (s *Session) Mode() permission.Mode { return s.gate.Mode() }

// maxTitle limits a session's title, in bytes.
const maxTitle = 200

// Set changes the model, the effort, the mode or the title, and records it. A new model or effort
// applies from the next request, except while a skill that names its own is in use. A new mode applies
// from the next call. The mode bypassPermissions can only be set if the session began with it, because
// only the user may choose it.
func (s *Session) Set(ctx context.Context, to session.Setting) error {
	if err := checkBypass(s.engine.Project().config.Settings.Permissions.DefaultMode, to.Mode); err != nil {
		return err
	}
	return s.set(ctx, to, hook.SourceHost)
}

// SetTyped is Set for settings that the user typed, and only for these: it can also set the mode bypassPermissions,
// except where a program controls the conversation ([Host.Controls]).
func (s *Session) SetTyped(ctx context.Context, to session.Setting) error {
	if s.Host().Controls {
		if err := checkBypass(s.engine.Project().config.Settings.Permissions.DefaultMode, to.Mode); err != nil {
			return err
		}
	}
	return s.set(ctx, to, hook.SourceCommand)
}

// set is SetTyped or Set, of which source says which.
func (s *Session) set(ctx context.Context, to session.Setting, source hook.Source) error {
	if err := s.open(); err != nil {
		return err
	}
	var sw *hook.Switch // nil: the model stays
	if to.Model != "" {
		m, err := s.FindModel(ctx, to.Model)
		if err != nil {
			return err
		}
		var from llm.Info
		if current, err := s.Model(ctx); err == nil {
			from = current.Info()
		}
		if s.hooks != nil && from.ID != m.Info().ID {
			at, _ := lastAnswered(s.log)
			sw = switchOf(from, m.Info(), to.Model, s.log.State().Last, at)
		}
		to.Model = m.Info().ID
	}
	if to.Effort != "" {
		if err := checkEffort(to.Effort); err != nil {
			return err
		}
	}
	if len(to.Title) > maxTitle {
		return fmt.Errorf("a title has at most %d bytes", maxTitle)
	}
	if to.Mode != "" {
		m, err := permission.ParseMode(string(to.Mode))
		if err != nil {
			return err
		}
		if m == permission.Bypass && s.engine.Project().config.Settings.Permissions.DisableBypass == "disable" {
			return errors.New("bypassPermissions is disabled by the settings")
		}
		if most := s.engine.Project().config.Most(); permission.Stricter(m, most) != m {
			return fmt.Errorf("a command of another session runs this, and the permission mode of that session is %s", most)
		}
		to.Mode = m
	}
	if sw != nil {
		if err := s.hooks.beforeSwitch(ctx, source, sw, s.Ask); err != nil {
			return err
		}
	}
	if _, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &to}); err != nil {
		return err
	}
	if sw != nil {
		s.hooks.event(ctx, hook.Input{Event: hook.PostModelSwitch, Source: source, Switch: sw})
	}
	if to.Mode != "" {
		s.parts.modeChanged(s.gate.Mode(), to.Mode)
		s.gate.SetMode(to.Mode)
	}
	s.changed()
	return nil
}

// FindModel finds a model by a name that is given during the session.
func (s *Session) FindModel(ctx context.Context, name string) (llm.Model, error) {
	current := ""
	if m, err := s.Model(ctx); err == nil {
		current = m.Info().ID
	}
	m, err := s.engine.Models().Named(ctx, name, current)
	if err != nil {
		return nil, err
	}
	return m, s.engine.checkPrice(m)
}

// open returns ErrClosed if the session is closed.
func (s *Session) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("session %s: %w", s.log.ID(), ErrClosed)
	}
	return nil
}

// Close ends the session: it stops background agents, runs SessionEnd hooks, and closes the log. A
// running turn ends with an error and counts as interrupted. Background commands end with the last of
// the sessions that share them. Further calls do nothing.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	cancel := s.cancel
	s.mu.Unlock()
	s.background.Close() // a failure to write its log is already reported
	s.mu.Lock()
	began, reason := s.started, s.reason
	s.started = false
	s.mu.Unlock()
	s.hooks.end(began, reason)
	if s.Recorded() {
		NoteUsage(s.engine.Project().options.Env, s.log.After(s.firstNew))
	}
	err := errors.Join(s.parts.close(), s.log.Close())
	if cancel != nil {
		cancel(ErrClosed)
	}
	err = errors.Join(err, s.jobs.release(), s.servers.Close())
	s.scratch.close()
	s.engine.mu.Lock()
	delete(s.engine.sessions, s)
	s.engine.mu.Unlock()
	s.changed()
	return err
}

// openLog opens or creates the log that the options ask for.
func (e *Engine) openLog(o SessionOptions) (*session.Log, error) {
	p := e.Project()
	stored := p.options.Env.StateDir() != ""
	if p.config.Settings.Sessions.Required && (o.Forget || !stored) {
		return nil, &Error{Err: errors.New("the administrator requires that sessions are recorded (sessions.required)"),
			Hint: "leave out --no-session, and have a home directory", Exit: ExitRefused}
	}
	if !stored && (o.Latest || o.Resume != "") {
		return nil, ErrNoState("no session can be resumed")
	}
	if o.Forget || !stored {
		return session.New(session.Header{ID: cmp.Or(o.ID, session.NewID(time.Now())), Dir: p.dir}), nil
	}
	store := p.options.Env.Sessions(p.dir)
	id := o.Resume
	if o.Latest {
		all, err := store.List()
		if err != nil { // the last session may be damaged
			e.notices.add(knack.Problem{Code: knack.CodeSessionDamaged, Severity: knack.Warn, Message: err.Error(),
				Hint: "leave out -c to start one"})
		}
		all = slices.DeleteFunc(all, session.Summary.Empty)
		if len(all) == 0 {
			return nil, &Error{Err: errors.New("there is no session to resume in this directory"),
				Hint: "leave out -c to start one"}
		}
		id = all[0].ID
	}
	var log *session.Log
	var err error
	switch {
	case id == "":
		log, err = store.Create(session.Header{ID: o.ID, Dir: p.dir})
	case o.Fork:
		var from *session.Log
		if from, err = store.Read(id); err == nil {
			if err := moveTo(from, o.Until); err != nil {
				return nil, err
			}
			log, err = store.Fork(from, o.ID)
		}
	default:
		if log, err = store.Open(id); err == nil {
			if err := moveTo(log, o.Until); err != nil {
				return nil, errors.Join(err, log.Close())
			}
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, &Error{Err: fmt.Errorf("there is a session %s already", o.ID), Hint: "knack -r " + o.ID}
	case errors.Is(err, session.ErrLocked):
		return nil, &Error{Err: fmt.Errorf("session %s: %w", id, err), Hint: "knack --fork-session -r " + id}
	case err != nil && id != "":
		if file, dir := p.options.Env.sessionFile(id); file != "" && dir != p.dir {
			return nil, elsewhere(id, file, dir)
		}
		return nil, &Error{Err: err, Hint: "knack session list"}
	}
	return log, err
}

// elsewhere is the error for a session of another directory, such as a worktree that was removed.
func elsewhere(id, file, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return &Error{Err: fmt.Errorf("the session %s is of %s, which is gone", id, dir),
			Hint: "knack session import " + plain.Line(file)}
	}
	return &Error{Err: fmt.Errorf("the session %s is of another directory, %s", id, dir),
		Hint: "cd " + plain.Line(dir) + " && knack -r " + id}
}

// moveTo makes the entry that until returns the leaf of a log; until may be nil.
func moveTo(log *session.Log, until func(*session.Log) (int, error)) error {
	if until == nil {
		return nil
	}
	entry, err := until(log)
	if err != nil {
		return &Error{Err: err, Hint: "knack session show " + log.ID(), Exit: ExitUsage}
	}
	return log.Move(entry)
}
