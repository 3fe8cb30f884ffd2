package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/instructions"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/llm/offline"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/sandbox"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/sources"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/tool/coding"
	"github.com/knack-agent/knack/workspace"
)

// runFlags are the flags of a conversation.
type runFlags struct {
	resourceFlags
	printing     bool
	outputFormat string
	inputFormat  string
	partial      bool
	model        string
	effort       string
	allow        []string
	ask          []string
	deny         []string
	mode         string
	maxTurns     int
	maxCost      float64
	noSession    bool
	sessionID    string
	resume       string
	cont         bool
	fork         bool

	skipPermissions bool
	sandbox         string
	tools           string
	systemPrompt    string
	appendPrompt    []string
	verbose         bool
	workspace       string
	index           bool
}

func (f *runFlags) register(c *cobra.Command) {
	f.resourceFlags.register(c)
	fs := c.Flags()
	fs.BoolVarP(&f.printing, "print", "p", false, "print one answer and leave")
	fs.StringVar(&f.outputFormat, "output-format", "text", "text, json or stream-json")
	fs.StringVar(&f.inputFormat, "input-format", "text", "text, or stream-json: a line of JSON for each prompt, on standard input")
	fs.BoolVar(&f.partial, "include-partial-messages", false, "stream-json: also pieces of answers")
	fs.StringVar(&f.model, "model", "", "the model: provider/name, or an alias")
	fs.StringVar(&f.effort, "effort", "", "low, medium, high, xhigh, max, or a number of thinking tokens")
	fs.StringArrayVar(&f.allow, "allow", nil, "a permission rule that allows, such as 'Bash(git status)'")
	fs.StringArrayVar(&f.ask, "ask", nil, "a permission rule that asks")
	fs.StringArrayVar(&f.deny, "deny", nil, "a permission rule that denies")
	fs.BoolVar(&f.skipPermissions, "dangerously-skip-permissions", false, "run what would be asked; what is denied still is")
	fs.StringArrayVar(&f.allow, "allowed-tools", nil, "the same as --allow")
	fs.StringArrayVar(&f.deny, "disallowed-tools", nil, "the same as --deny")
	fs.StringVar(&f.sandbox, "sandbox", "", "auto, require or off")
	fs.StringVar(&f.tools, "tools", "", "the tools: names, *, or changes such as +grep,-bash")
	fs.StringVar(&f.systemPrompt, "system-prompt", "", "replace the system prompt")
	fs.StringArrayVar(&f.appendPrompt, "append-system-prompt", nil, "add to the system prompt")
	fs.StringVar(&f.workspace, "workspace", "", "where tools act: a directory, ssh://host/dir or docker://container/dir")
	fs.BoolVar(&f.index, "index", false, "list skills in the system prompt, to be read as files, instead of the Skill tool")
	fs.StringVar(&f.agents, "agents", "", "agents, as `JSON`: {\"name\": {\"description\": …, \"prompt\": …}}")
	fs.StringArrayVar(&f.templates, "prompt-template", nil, "also use the prompt template, or the directory of them, at `PATH`; it is trusted")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show every problem")
	fs.StringVar(&f.mode, "permission-mode", "", "default, acceptEdits, plan, dontAsk or bypassPermissions")
	fs.IntVar(&f.maxTurns, "max-turns", 0, "stop after that many requests (with -p: 200)")
	fs.Float64Var(&f.maxCost, "max-cost", 0, "stop when that many US dollars are spent")
	fs.BoolVar(&f.noSession, "no-session", false, "record nothing on disk")
	fs.StringVar(&f.sessionID, "session-id", "", "the id of the new session")
	fs.BoolVarP(&f.cont, "continue", "c", false, "go on with the last session of this directory")
	fs.StringVarP(&f.resume, "resume", "r", "", "go on with the session of that id")
	fs.BoolVar(&f.fork, "fork-session", false, "with -c or -r: in a copy of the session")
}

// A sessionRun is everything that one conversation needs, wired together.
type sessionRun struct {
	*resources
	agent   *agent.Agent
	log     *session.Log
	library *knack.Library
	gate    *gate.Gate
	ws      workspace.Workspace
	guarded bool // git runs with permission.GitEnv, and nothing escapes it
	jobs    *coding.Jobs
	files   tool.Set // all tools, active or not
	chosen  bool     // a person chose them
	coding  coding.Options
	read    *coding.State    // what the conversation knows of files
	context []agent.Document // what every agent is told
	who     person           // nil: nobody is there
	flags   *runFlags
	nested  *sources.Nested
	old     []*resources // replaced by /reload; texts of theirs may still be in use
	forgets bool         // nothing is kept on disk
	began   int          // entries that the session had before this run

	hookRunner *hook.Runner
	catalog    *knack.Catalog // that hooks were told of
	now        atomic.Pointer[standing]
	started    atomic.Bool // hooks were told that the session starts
}

// A person is somebody who can be asked; nil: nobody is there.
type person interface {
	gate.Approver
	Ask(ctx context.Context, question string, options []string) (string, error)
	Secret(ctx context.Context, question string) (string, error)
	Steer() (agent.Input, bool)
}

// open wires a conversation. The order is: what is trusted, what is set, what
// may run, where, with which skills, by which model; nothing is recorded
// before all of that is known to be good. confirm asks whether to trust what
// the project brings; nil: it is left out.
func (f *runFlags) open(ctx context.Context, who person, confirm func(question string) (bool, error), stderr io.Writer) (s *sessionRun, err error) {
	s = &sessionRun{forgets: f.noSession || engine.Env(nil).StateDir() == "", who: who, flags: f}
	defer func(opened *sessionRun) { // an error return sets s to nil
		if err != nil {
			opened.close()
		}
	}(s)
	if err = s.load(ctx, f); err != nil {
		return nil, err
	}
	if confirm != nil {
		trusted, err := s.askTrust(ctx, confirm, stderr)
		if err != nil {
			return nil, err
		}
		if trusted {
			s.resources.close()
			if err := s.load(ctx, f); err != nil {
				return nil, err
			}
		}
	}
	if who != nil {
		who = notifying{who, s.notify}
		s.who = who
	}
	set := &s.settings.Settings
	s.nested = sources.NewNested(s.dir, s.options)
	for _, p := range s.settings.Problems {
		if p.Path == "command line" && p.Severity == knack.Error {
			return nil, engine.Usagef(cmp.Or(p.Hint, "knack --help"), "%s", p.Message)
		}
	}
	printProblems(stderr, s.problems(s.library.Catalog()), f.verbose)

	found := &engine.Models{Proxy: set.Proxy, Procedure: s.procedure}
	if found.Tables, err = engine.ModelSettings(s.settings); err != nil {
		return nil, err
	}
	model, err := found.Default(ctx, set.Model)
	if err != nil {
		return nil, err
	}
	if err = s.openWorkspace(ctx, f.workspace, stderr); err != nil {
		return nil, err
	}
	s.jobs = &coding.Jobs{}
	options := coding.Options{Jobs: s.jobs, Files: coding.FileOptions{Model: func() llm.Info { return model.Info() }}, TempDir: engine.Env(nil).StateFile("output")}
	if f.printing {
		options.Timeout = 120 * time.Second
	}
	if who != nil {
		options.Ask = func(ctx context.Context, q coding.Question) (string, error) {
			return who.Ask(ctx, q.Question, q.Options)
		}
	}
	s.read = coding.NewState()
	options.State = s.read
	s.coding, s.chosen = options, f.tools != ""
	s.files = coding.Tools(s.ws, options)
	tools, toolProblems := tool.Select(withAgent(s.files), coding.Default+",Agent", f.tools)
	for _, p := range toolProblems {
		fmt.Fprintln(stderr, "knack: warn:", p)
	}
	var without []string
	if i := slices.IndexFunc(tools, func(t tool.Tool) bool { return t.Name == "Agent" }); i >= 0 {
		tools = slices.Delete(tools, i, i+1) // it depends on the run
	} else {
		without = []string{"Agent"}
	}

	if s.log, err = f.session(s.dir); err != nil {
		return nil, err
	}
	s.began = len(s.log.Entries())
	for _, d := range s.log.Damage() {
		fmt.Fprintln(stderr, "knack: warn: session:", d)
	}
	release, err := agent.ParseRelease(set.Skills.Release)
	if err != nil {
		return nil, err
	}
	if s.gate, err = s.newGate(who); err != nil {
		return nil, err
	}
	root := func() *gate.Gate { return s.gate } // as it is then: /new and /reload make another
	s.agent = &agent.Agent{
		Model: model, Effort: set.Effort, Tools: tools,
		System: f.system(s, tools, stderr),
		Skills: s.library.Catalog,
		View:   s.view,
		Finder: s.finder(), Suggest: suggested(set.Skills.Suggest),
		Vars: map[string]string{"CLAUDE_PROJECT_DIR": s.root},
		Touched: func(ctx context.Context, paths []string) {
			if found := s.nested.Look(paths...); len(found) > 0 {
				s.library.Add(ctx, found...)
			}
		},
		Commands: s.typed,
		Gate: func(sc agent.Scope) tool.Gate {
			return s.gate.With(s.scoped(sc))
		},
		Typed:  s.consents,
		Verify: s.verify, Ignored: s.ignored,
		Resolve: func(name string) (llm.Model, error) {
			return found.Named(ctx, name, model.Info().ID)
		},
		Release: release,
		Forked: func(id string) (*session.Log, error) {
			return engine.Env(nil).AgentSessions(s.dir, s.log.ID()).Read(id)
		},
		Agents: s.agents, Fork: s.forker(root), Background: &agent.Background{Wait: f.printing}, Without: without,
		Limits: agent.Limits{
			Requests: set.Limits.Turns, Tokens: set.Limits.Tokens, Cost: set.Limits.Cost,
			Time: time.Duration(set.Limits.Minutes * float64(time.Minute)),
		},
	}
	if !set.Skills.DisableShell {
		s.agent.Shell = s.shell(root)
	}
	if !f.bare {
		if s.hookRunner, err = s.newHookRunner(set.Proxy); err != nil {
			return nil, err
		}
		s.agent.Hooks = s.hooks
	}
	if f.printing && set.Limits.Turns == 0 {
		s.agent.Limits.Requests = 200
	}
	if who != nil {
		s.agent.Steer = who.Steer
	}
	steadyGC()
	return s, s.override(f)
}

// load finds the resources of a run.
func (s *sessionRun) load(ctx context.Context, f *runFlags) (err error) {
	if s.resources, err = f.resourceFlags.open(ctx, f.values()); err != nil {
		return err
	}
	s.view.Index = f.index
	s.library = knack.NewLibrary(ctx, s.sources...)
	return nil
}

// override records what the command line sets anew in a session that is gone
// on with: a flag is later than what the session was set to.
func (s *sessionRun) override(f *runFlags) error {
	was, now := s.log.State(), session.Setting{}
	if was.Model != "" && f.model != "" {
		now.Model = s.agent.Model.Info().ID
	}
	if was.Effort != "" && f.effort != "" {
		now.Effort = f.effort
	}
	if now == (session.Setting{}) {
		return nil
	}
	_, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &now})
	return err
}

func (s *sessionRun) close() {
	if s.agent != nil {
		s.agent.Background.Close() // a log that cannot be written has been told of
	}
	s.endHooks()
	if s.log != nil {
		if !s.forgets {
			engine.NoteUsage(nil, s.log.Entries()[s.began:])
		}
		s.log.Close()
	}
	if s.jobs != nil {
		s.jobs.Close()
	}
	if s.ws != nil {
		s.ws.Close()
	}
	if s.resources != nil {
		s.resources.close()
	}
	for _, r := range s.old {
		r.close()
	}
}

// openWorkspace opens where tools act. Commands on this machine run in the
// sandbox, and git without what the repository's configuration names.
func (s *sessionRun) openWorkspace(ctx context.Context, place string, stderr io.Writer) error {
	set := &s.settings.Settings
	if place == "" {
		place = set.Workspace
	}
	ws, err := openWorkspace(ctx, place)
	if err != nil {
		return err
	}
	s.ws = ws
	local, ok := ws.(*workspace.Local)
	if !ok {
		switch ws := ws.(type) {
		case *workspace.SSH:
			ws.Prefix = set.Shell.Prefix
		case *workspace.Container:
			ws.Prefix = set.Shell.Prefix
		}
		return nil
	}
	git, unguarded := permission.GitEnv(nil, local.Dir())
	s.guarded = len(unguarded) == 0
	local.Prefix, local.Shell = set.Shell.Prefix, set.Shell.Path
	var named []string // what the person named is seen, though it lies under /tmp
	for _, p := range slices.Concat(s.options.Skills, s.options.AddDirs) {
		named = append(named, real(p))
	}
	local.BeforeSpawn = func(c *workspace.Command) error {
		c.Allow.Read = append(c.Allow.Read, named...)
		c.Env = append(c.Env, git...)
		for k, v := range set.Env {
			c.Env = append(c.Env, k+"="+v)
		}
		return nil
	}
	mode, err := sandbox.ParseMode(cmp.Or(set.Sandbox.Mode, "auto"))
	if err != nil {
		return err
	}
	policy, err := sandbox.Default(local.Dir())
	if err != nil {
		return err
	}
	policy.Roots = append(policy.Roots, set.Permissions.AdditionalDirectories...)
	policy.Write = append(policy.Write, set.Sandbox.AllowWrite...)
	policy.Hosts = append(policy.Hosts, set.Sandbox.AllowHosts...)
	policy.Secrets = append(policy.Secrets, set.Sandbox.DenyRead...)
	policy.Secrets = slices.DeleteFunc(policy.Secrets, func(p string) bool { return slices.Contains(set.Sandbox.AllowRead, p) })
	policy.Env = append(policy.Env, set.Sandbox.Env...)
	for k := range set.Env {
		policy.Env = append(policy.Env, k)
	}
	for _, kv := range git {
		name, _, _ := strings.Cut(kv, "=")
		policy.Env = append(policy.Env, name)
	}
	if mode != sandbox.Off {
		if !s.forgets {
			policy.State = engine.Env(nil).StateFile("sandbox")
			policy.Cache = engine.Env(nil).StateFile("caches")
		}
		box := sandbox.New(policy, mode)
		for _, left := range box.Leftovers() {
			fmt.Fprintln(stderr, "knack: warn:", plain.Line(left))
		}
		var told sync.Once
		local.Confine = func(cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
			told.Do(func() { // with the first command: finding out takes some milliseconds
				if notice := box.Report().Notice(); notice != "" {
					fmt.Fprintln(stderr, "knack: warn:", notice)
				}
			})
			return box.Confine(cmd, c)
		}
	}
	return nil
}

// system assembles the system prompt.
func (f *runFlags) system(s *sessionRun, tools tool.Set, stderr io.Writer) string {
	p := agent.Prompt{Tools: tools, Date: time.Now(), Dir: s.ws.Dir(), Custom: f.systemPrompt}
	if !f.bare {
		found := instructions.Load(s.written)
		printProblems(stderr, found.Problems, f.verbose)
		s.context = found.Context
		p.Context, p.Append = found.Context, found.Append
		p.Custom = cmp.Or(f.systemPrompt, found.System)
	}
	p.Append = append(p.Append, f.appendPrompt...)
	if s.view.Index {
		p.Index = s.index()
	}
	return p.String()
}

// index is the list of skills that stands in a system prompt.
func (s *sessionRun) index() string { return s.library.Catalog().Listing(s.view).Text }

// place is where paths are judged.
func (s *sessionRun) place() permission.Place {
	p := permission.Place{
		Dir: s.dir, Roots: s.settings.Settings.Permissions.AdditionalDirectories, Home: s.home,
		Own: engine.Env(nil).OwnDirs(), GitEnv: s.guarded, Untrusted: !s.project.Trusted(),
	}
	if _, ok := s.ws.(*workspace.Local); s.ws != nil && !ok {
		// Another machine's paths: links are resolved there, and what cannot be
		// looked up from here is asked about.
		p.Dir, p.Home, p.Own, p.Roots = s.ws.Dir(), "", nil, nil
		p.Resolve = func(path string) (string, error) { return s.ws.Realpath(context.Background(), path) }
		p.Glob = func(string) ([]string, error) { return nil, errors.New("not on this machine") }
		p.Below = func(string, int) ([]string, bool) { return nil, false }
	}
	return p
}

// newGate puts rules, mode and the person between a call and its run.
func (s *sessionRun) newGate(who person) (*gate.Gate, error) {
	set := &s.settings.Settings
	o := gate.Options{
		Rules: s.settings.Rules, Mode: set.Permissions.DefaultMode, Ceiling: gate.Ceiling(set.Skills.EnforceAllowedTools),
		Place:  s.place(),
		Keeper: s.project,
		Audit:  func(r gate.Record) { audit(s.log)(r) }, // as it is then
	}
	if who != nil {
		o.Approver = who
	}
	return gate.New(o)
}

// told is what a person said to a question.
func told(r gate.Record) string {
	if !r.Asked {
		return ""
	}
	return strings.TrimSpace(r.Answer.Choice.String() + " " + r.Answer.Reason)
}

// scoped is what the gate goes by under the skills in force.
func (s *sessionRun) scoped(sc agent.Scope) gate.Scoped {
	return gate.Scoped{Skills: s.scopes(sc), PreToolUse: sc.PreToolUse, PermissionRequest: sc.PermissionRequest}
}

// scopes makes rules of what the skills in force grant and deny.
func (s *sessionRun) scopes(sc agent.Scope) []gate.Scope {
	var all []gate.Scope
	for _, k := range sc.Skills {
		origin := permission.Origin("skill:" + k.Skill)
		g := gate.Scope{
			Skill: k.Skill, Allow: rulesOf(k.Grants, origin), Deny: rulesOf(k.Denies, origin), Limits: s.limits(k.Skill, k.Sandbox),
		}
		if skill := s.library.Catalog().Skill(k.Skill); skill == nil {
			g.Foreign = true
		} else {
			g.Foreign = foreign(skill.Origin.Kind)
			if skill.Origin.Kind == knack.Project || skill.Origin.Kind == knack.Legacy {
				g.Dir, g.Approved = skill.Dir, s.project.Check
			}
		}
		all = append(all, g)
	}
	for _, o := range sc.Outer {
		all = append(all, s.outer(o))
	}
	return all
}

// ignored says why a rule that a skill grants is not in effect; "": it is.
func (s *sessionRun) ignored(k *knack.Skill, text string) string {
	r, err := permission.ParseRule(text, permission.Origin("skill:"+k.Name))
	if err != nil {
		return err.Error()
	}
	if s.gate.Ignores(gate.Scope{Skill: k.Name, Foreign: foreign(k.Origin.Kind)}, r) {
		return fmt.Sprintf("it covers everything, and the skill is not your own; the rule Skill(%s) in your settings accepts it", k.Name)
	}
	return ""
}

// rulesOf are the rules among texts. Whoever wrote one that is none was told.
func rulesOf(texts []string, origin permission.Origin) []permission.Rule {
	var all []permission.Rule
	for _, text := range texts {
		if r, err := permission.ParseRule(text, origin); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// foreign reports whether skills of a kind are strangers' work.
func foreign(k knack.Kind) bool {
	switch k {
	case knack.Project, knack.Legacy, knack.Additional, knack.Plugin, knack.MCP:
		return true
	}
	return false
}

// consents holds a skill that a person typed against deny rules.
func (s *sessionRun) consents(ctx context.Context, k *knack.Skill) error {
	d := s.gate.Decide(nil, permission.Subject{Kind: "Skill", Text: k.Name, Default: permission.Allow})
	if d.Verdict == permission.Deny || d.Verdict == permission.Ask && d.Origin == permission.Managed {
		return &knack.Refusal{Code: knack.RefusedByRule, Message: fmt.Sprintf("the rule %s (%s) refuses the skill %s", d.Rule, d.Origin, k.Name)}
	}
	return nil
}

// verify holds the whole folder of a project's skill against what was
// approved, at every activation.
func (s *sessionRun) verify(k *knack.Skill) error {
	if k.Origin.Kind != knack.Project || k.Dir == "" || !subpath.Contains(s.root, k.Dir) {
		return nil // a legacy command is one file, which was checked when it was read
	}
	if err := s.project.Verify(k.Dir); err != nil {
		return &knack.Refusal{Code: knack.RefusedChanged, Message: fmt.Sprintf("%s: %v. A person can look at it with: knack trust --show", k.Name, err)}
	}
	return nil
}

// shell runs inline commands of skills under the rules of bash, with what the
// skill itself grants. The line is judged with the values of its variables,
// and runs as it is written.
func (s *sessionRun) shell(g func() *gate.Gate) func(agent.Scope) knack.Shell {
	return func(sc agent.Scope) knack.Shell { return s.inline(g, sc) }
}

func (s *sessionRun) inline(g func() *gate.Gate, sc agent.Scope) knack.Shell {
	return func(ctx context.Context, a *knack.Activation, line string, env []string) (string, error) {
		with := sc // what bounds the agent bounds this command
		with.Skills = append(slices.Clip(sc.Skills), session.Scope{Skill: a.Skill.Name, Grants: a.Grants, Denies: a.Denies, Sandbox: a.Sandbox})
		kind, command, err := s.inlineCommand(a.Skill.Shell, line, env)
		if err != nil {
			return "", err
		}
		c, err := s.ws.Prepare(command)
		if err != nil {
			return "", err
		}
		judged := permission.WithValues(c.Line, env)
		input, err := json.Marshal(map[string]string{"command": judged})
		if err != nil {
			return "", err
		}
		permit, err := g().With(s.scoped(with)).Ask(ctx, tool.Proposal{
			ID: "inline", Name: "bash", Label: "inline command of " + a.Skill.Name, Input: input,
			Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
				return []permission.Subject{{Kind: kind, Text: judged}}, nil
			},
		})
		if err == nil && !bytes.Equal(permit.Input, input) {
			err = errors.New("inline command was not run: a hook wants another one in its place, and it runs as it is written or not at all")
		}
		if err != nil {
			return "", &knack.Refusal{Code: knack.RefusedByRule, Message: err.Error()}
		}
		out, errs := coding.NewOutput(engine.Env(nil).StateFile("output")), coding.NewOutput(engine.Env(nil).StateFile("output"))
		c.Limits = permit.Limits
		c.Output, c.Stderr = &out, &errs
		exit, err := s.ws.Run(ctx, c)
		out.WriteLines(errs.Text()) // stderr follows stdout
		text := out.Text()
		if err != nil {
			return "", err
		}
		if exit.Code != 0 {
			return "", fmt.Errorf("it exited with code %d\n%s", exit.Code, strings.Join(append([]string{strings.TrimSpace(text)}, exit.Refused...), "\n"))
		}
		return text, nil
	}
}

// inlineCommand returns a command as the shell that its skill declares runs it,
// and the kind of its permission subject.
func (s *sessionRun) inlineCommand(shell, line string, env []string) (kind string, c workspace.Command, err error) {
	c = workspace.Command{Line: line, Env: env}
	if shell != "powershell" {
		return "Bash", c, nil
	}
	ps, ok := s.ws.(interface {
		PowerShell(string) ([]string, error)
	})
	if !ok {
		return "", c, errors.New("PowerShell commands run on this machine only")
	}
	c.Args, err = ps.PowerShell(line)
	return "PowerShell", c, err
}

// clipped keeps the beginning of what is written to it.
type clipped struct {
	most int
	buf  bytes.Buffer
	lost int
}

func (c *clipped) Write(p []byte) (int, error) {
	keep := min(len(p), c.most-c.buf.Len())
	c.buf.Write(p[:keep])
	c.lost += len(p) - keep
	return len(p), nil
}

func (c *clipped) String() string {
	text := strings.ToValidUTF8(c.buf.String(), "")
	if c.lost > 0 {
		text += fmt.Sprintf("\n[%d more bytes are left out.]", c.lost)
	}
	return text
}

func (s *sessionRun) initLine() initLine {
	l := initLine{
		Type: "system", Subtype: "init", Session: s.log.ID(), Dir: s.dir,
		Model: s.agent.Model.Info().ID, Mode: string(s.gate.Mode()), Version: version(),
		Tools: []string{}, Skills: []string{}, Commands: []string{}, Problems: []string{},
	}
	for _, t := range s.agent.Tools {
		l.Tools = append(l.Tools, t.Name)
	}
	if !slices.Contains(s.agent.Without, "Agent") {
		l.Tools = append(l.Tools, "Agent")
	}
	for _, d := range s.agent.Agents {
		if !slices.Contains(l.Agents, d.Name) {
			l.Agents = append(l.Agents, d.Name)
		}
	}
	cat := s.library.Catalog()
	if !s.view.Index && len(cat.Listing(s.view).Entries) > 0 {
		l.Tools = append(l.Tools, "Skill")
	}
	for _, k := range cat.Skills() {
		l.Skills = append(l.Skills, k.Name)
	}
	all, _ := s.agent.Namespace()
	for _, c := range all {
		l.Commands = append(l.Commands, c.Name)
	}
	for _, p := range s.problems(cat) {
		l.Problems = append(l.Problems, p.String())
	}
	return l
}

// explain adds to an error of a run what to type next.
func (s *sessionRun) explain(err error) error {
	var no *knack.Refusal
	if errors.As(err, &no) {
		hint := "knack skill list"
		switch {
		case len(no.Near) > 0 && s.who != nil:
			hint = "" // the message names them
		case len(no.Near) > 0:
			hint = "knack -p /" + no.Near[0]
		case no.Code == knack.RefusedUnknown && slices.ContainsFunc(s.templateProblems, inert):
			hint = "knack trust --show: the project brings templates that nobody has trusted"
		case s.who != nil:
			hint = "/help, or /skills"
		}
		code := engine.ExitFailed
		if no.Code == knack.RefusedByRule || no.Code == knack.RefusedChanged {
			code = engine.ExitRefused
		}
		return &engine.Error{Err: err, Hint: hint, Exit: code}
	}
	var p knack.Problem
	if errors.As(err, &p) {
		return &engine.Error{Err: p, Hint: p.Hint}
	}
	var blocked *agent.Blocked
	if errors.As(err, &blocked) {
		return &engine.Error{Err: err, Hint: "knack help hooks", Exit: engine.ExitRefused}
	}
	var e *llm.Error
	if errors.As(err, &e) && e.Kind == llm.Overflow {
		hint := "knack -p starts a new one"
		if s.who != nil {
			hint = "/clear empties the context, /new starts another session"
		}
		return &engine.Error{Err: fmt.Errorf("the conversation is longer than the model's window: %w", err), Hint: hint}
	}
	return err
}

// values are the flags that stand for settings.
func (f *runFlags) values() map[string]any {
	v := map[string]any{}
	text := func(key, s string) {
		if s != "" {
			v[key] = s
		}
	}
	text("model", f.model)
	text("effort", f.effort)
	text("permissions.defaultMode", f.mode)
	text("sandbox.mode", f.sandbox)
	if f.skipPermissions {
		v["permissions.defaultMode"] = string(permission.Bypass)
	}
	list := func(key string, l []string) {
		if len(l) > 0 {
			v[key] = l
		}
	}
	list("permissions.allow", f.allow)
	list("permissions.ask", f.ask)
	list("permissions.deny", f.deny)
	if f.maxTurns > 0 {
		v["limits.turns"] = f.maxTurns
	}
	if f.maxCost > 0 {
		v["limits.cost"] = f.maxCost
	}
	return v
}

// procedure finds what the offline model carries out.
func (s *sessionRun) procedure(name string) (offline.Procedure, error) {
	k := s.library.Catalog().Skill(name)
	if k == nil {
		return offline.Procedure{}, fmt.Errorf("there is no skill %s", name)
	}
	p := offline.Procedure{Arguments: k.Arguments, Hint: k.ArgumentHint, Dir: k.Dir}
	for _, field := range k.Fields() {
		if field.Key != "metadata" {
			continue
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(field.Value, &m) != nil {
			continue
		}
		var err error
		if p.Steps, err = offline.ParseProcedure(m["knack-procedure"]); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (f *runFlags) session(dir string) (*session.Log, error) {
	if err := f.checkSession(); err != nil {
		return nil, err
	}
	stored := engine.Env(nil).StateDir() != ""
	if !stored && (f.cont || f.resume != "") {
		return nil, engine.ErrNoState("no session can be resumed")
	}
	if f.noSession || !stored {
		return session.New(session.Header{ID: cmp.Or(f.sessionID, session.NewID(time.Now())), Dir: dir}), nil
	}
	store := engine.Env(nil).Sessions(dir)
	id := f.resume
	if f.cont {
		all, _ := store.List()
		all = slices.DeleteFunc(all, func(s session.Summary) bool { return s.Turns == 0 }) // nothing was said in it
		if len(all) == 0 {
			return nil, &engine.Error{Err: errors.New("there is no session to go on with in this directory"), Hint: "knack -p 'your prompt'"}
		}
		id = all[0].ID
	}
	var log *session.Log
	var err error
	switch {
	case id == "":
		log, err = store.Create(session.Header{ID: f.sessionID, Dir: dir})
	case f.fork:
		var from *session.Log
		if from, err = store.Read(id); err == nil {
			log, err = store.Fork(from, f.sessionID)
		}
	default:
		log, err = store.Open(id)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, &engine.Error{Err: fmt.Errorf("there is a session %s already", f.sessionID), Hint: "knack -r " + f.sessionID}
	case errors.Is(err, session.ErrLocked):
		return nil, &engine.Error{Err: fmt.Errorf("session %s: %w", id, err), Hint: "knack --fork-session -r " + id}
	case err != nil && id != "":
		return nil, &engine.Error{Err: err, Hint: "knack session list"}
	}
	return log, err
}

// checkSession refuses flags that say two things of one session.
func (f *runFlags) checkSession() error {
	old := f.cont || f.resume != ""
	switch {
	case f.cont && f.resume != "":
		return engine.Usagef("knack -r "+f.resume, "-c and -r both say which session to go on with")
	case f.noSession && old:
		return engine.Usagef("knack --fork-session, which leaves the session as it is", "--no-session: there is no session to go on with then")
	case f.noSession && f.sessionID != "":
		return engine.Usagef("knack --session-id ID", "--no-session and --session-id say two things")
	case f.fork && !old:
		return engine.Usagef("knack -c --fork-session", "--fork-session: of which session? -c or -r ID says it")
	case f.sessionID != "" && old && !f.fork:
		return engine.Usagef("knack --fork-session --session-id ID", "--session-id is for a new session; -c and -r go on with one")
	}
	return nil
}
