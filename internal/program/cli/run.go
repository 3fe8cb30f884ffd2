package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/control"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/session"
)

// runFlags are the flags of commands that run a conversation.
type runFlags struct {
	known *knownWarnings // set by start
	projectFlags
	agents       string
	templates    []string
	printing     bool
	ofWorker     bool     // the task of a worker, which says what another session has read
	trustContent string   // what --trust was given for where this run was planned, see checkTrust; "": this run was not
	above        []string // with ofWorker: see boundArgs
	given        []string // with ofWorker: see withContent
	outputFormat string
	inputFormat  string
	partial      bool

	// Flags that hosts pass.
	replay           bool
	permissionPrompt string
	// permissionPrompts is none if nobody answers questions.
	permissionPrompts string
	policy            []string
	resumeAt          string
	thinking          string
	agent             string
	fallback          []string
	betas             []string
	taskBudget        int
	mirror            bool
	imported          func(last string) // called with the UUID of the last message of an imported transcript; may be nil
	hookEvents        bool
	debugFile         string
	hostMaySave       bool
	hostTimeout       time.Duration
	settingSources    string
	allowBypass       bool
	problems          []knack.Problem // unknown flags that were ignored

	model     string
	effort    string
	allow     []string
	ask       []string
	deny      []string
	mode      string
	maxTurns  int
	maxCost   float64
	noSession bool
	bg        bool          // see toBackground
	left      *leftTerminal // the conversation may go to the background; nil: it may not
	stays     bool          // the session goes on in the background, in its worktree if it has one
	// background is wait, stop or "", see backgroundJobs.
	background  string
	goal        string
	kit         string
	exitRefused bool // end with ExitRefused if a call was refused
	sessionID   string
	name        string // title of the session
	listModels  bool
	resume      string
	pick        bool // -r without an ID: the user picks the session
	cont        bool
	fork        bool

	skipPermissions bool
	sandbox         string
	tools           string
	systemPrompt    string
	appendPrompt    []string
	jsonSchema      string
	verbose         bool
	workspace       string
	worktree        string
	init            bool
	maintenance     bool
	index           bool
	debug           string
}

// A ruleList is a flag value: permission rules separated by commas and blanks outside of
// parentheses. Each use of the flag adds to the list.
type ruleList []string

func (l *ruleList) Set(s string) error {
	*l = append(*l, knack.SplitRules(s)...)
	return nil
}

func (l *ruleList) String() string { return strings.Join(*l, ", ") }
func (l *ruleList) Type() string   { return "rules" }

// chosenTools returns the value of --tools; an empty value means "none".
func chosenTools(c *cobra.Command, tools string) string {
	if c.Flags().Changed("tools") && strings.Trim(tools, ", \t\n") == "" {
		return "none"
	}
	return tools
}

func (f *runFlags) register(c *cobra.Command) {
	f.projectFlags.register(c)
	f.registerServers(c)
	fs := c.Flags()
	fs.BoolVarP(&f.printing, "print", "p", false, "print one answer and exit")
	fs.StringVar(&f.outputFormat, "output-format", "text", "text, json or stream-json")
	fs.StringVar(&f.inputFormat, "input-format", "text",
		"text, or stream-json: prompts on standard input, each a line of JSON")
	fs.BoolVar(&f.partial, "include-partial-messages", false, "with stream-json: also print answers piece by piece")
	fs.StringVar(&f.model, "model", "", "the `MODEL`: provider/name, or an alias")
	fs.StringVar(&f.effort, "effort", "", "`LEVEL`: low, medium, high, xhigh, max, or a number of thinking tokens")
	fs.Var((*ruleList)(&f.allow), "allow", "permission rules that allow, such as 'Bash(git status), Read'")
	fs.Var((*ruleList)(&f.ask), "ask", "permission rules that ask")
	fs.Var((*ruleList)(&f.deny), "deny", "permission rules that deny")
	fs.BoolVar(&f.skipPermissions, "dangerously-skip-permissions", false, "run without asking; deny rules still apply")
	fs.Var((*ruleList)(&f.allow), "allowed-tools", "the same as --allow")
	fs.Var((*ruleList)(&f.deny), "disallowed-tools", "the same as --deny")
	fs.StringVar(&f.sandbox, "sandbox", "", "auto, require or off")
	fs.StringVar(&f.tools, "tools", "", "the tools: names, none, all, readOnly, coding, default, or changes such as "+
		"+grep,-bash")
	fs.StringVar(&f.systemPrompt, "system-prompt", "", "replace the system prompt")
	fs.Var(&promptFile{flags: fs, to: "system-prompt"}, "system-prompt-file",
		"replace the system prompt by the text of a `FILE`")
	fs.StringVar(&f.jsonSchema, "json-schema", "", "with -p: answer with JSON that matches this schema: a `FILE`, "+
		"or JSON")
	fs.StringArrayVar(&f.appendPrompt, "append-system-prompt", nil, "add `TEXT` to the system prompt")
	fs.Var(&promptFile{flags: fs, to: "append-system-prompt"}, "append-system-prompt-file",
		"add the text of a `FILE` to the system prompt")
	fs.StringVar(&f.workspace, "workspace", "", "where tools act: a directory, ssh://host/dir or docker://container/dir")
	fs.StringVar(&f.worktree, "worktree", "", "work in a git worktree and on a branch of its own, knack/`NAME`")
	fs.Lookup("worktree").NoOptDefVal = anyWorktree
	fs.BoolVar(&f.init, "init", false, "run the Setup hooks, which prepare the directory, with the trigger init")
	fs.BoolVar(&f.maintenance, "maintenance", false, "run the Setup hooks with the trigger maintenance")
	fs.BoolVar(&f.index, "index", false, "name the skills in the system prompt, so that the model reads them as files, "+
		"instead of offering the Skill tool")
	fs.StringVar(&f.agents, "agents", "", "define agents, as `JSON`: {\"name\": {\"description\": …, \"prompt\": …}}")
	fs.StringArrayVar(&f.templates, "prompt-template", nil,
		"also use the prompt template, or directory of templates, at `PATH`, without asking for trust")
	fs.StringVar(&f.debug, "debug", "",
		"log to a file and print its path: everything, or only the `TOPICS` "+strings.Join(engine.DebugTopics, ", "))
	fs.Lookup("debug").NoOptDefVal = "all"
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show every problem")
	fs.StringVar(&f.mode, "permission-mode", "", "default, acceptEdits, plan, dontAsk or bypassPermissions")
	fs.IntVar(&f.maxTurns, "max-turns", 0, "stop after this many requests (200 with -p)")
	fs.Float64Var(&f.maxCost, "max-cost", 0, "stop after spending this many US dollars in the session")
	fs.BoolVar(&f.bg, "bg", false, "begin the session in the background, print its ID, and return; knack agents "+
		"lists them")
	fs.StringVar(&f.background, "background", "", "with -p: wait for background commands after the answer, or stop them "+
		"at once; without it, they are stopped after a minute")
	fs.StringVar(&f.goal, "goal", "", "go on until this `TEXT` is judged to be met, or, with !COMMAND, until that ends "+
		"with exit code 0; with -p, exit code 1 says that it is not")
	fs.StringVar(&f.kit, "kit", "", "use the kit of this `NAME`: its skills, servers, rules and model, and no others")
	fs.BoolVar(&f.exitRefused, "exit-refused", false, "with -p: end with exit code 3 if a call was refused")
	fs.BoolVar(&f.noSession, "no-session", false, "do not write the session to disk")
	fs.StringVar(&f.sessionID, "session-id", "", "the ID of the new session")
	fs.StringVar(&f.name, "name", "", "the `TITLE` of the session")
	fs.BoolVar(&f.listModels, "list-models", false, "the same as knack models")
	fs.BoolVarP(&f.cont, "continue", "c", false, "continue the last session of this directory")
	fs.StringVarP(&f.resume, "resume", "r", "", "continue the session with this `ID`; without an ID: pick one from a list")
	fs.BoolVar(&f.fork, "fork-session", false, "with -c or -r: continue in a copy of the session")
	f.registerHost(fs)
}

// open opens the working directory without starting a session.
func (f *runFlags) open(c *cobra.Command) (*engine.Engine, error) { return f.openIn(c, "") }

// openIn is open for a directory; "": the working directory.
func (f *runFlags) openIn(c *cobra.Command, dir string) (*engine.Engine, error) {
	ctx, stderr := c.Context(), c.ErrOrStderr()
	for name, limit := range map[string]float64{"max-turns": float64(f.maxTurns), "max-cost": f.maxCost,
		"max-budget-usd": f.maxCost, "task-budget": float64(f.taskBudget)} {
		if c.Flags().Changed(name) && !(limit > 0) { // written this way to reject NaN
			return nil, engine.Usagef("knack --"+name+" 1", "--%s must be more than 0", name)
		}
	}
	if f.background != "" && f.background != backgroundWait && f.background != backgroundStop {
		return nil, engine.Usagef("--background wait or stop", "--background %s: unknown value", f.background)
	}
	o := f.options()
	o.Dir, o.Kit = dir, f.kit
	if !f.ofWorker && hiddenAbove() {
		return nil, engine.Usagef("run it without env -i, env -u and exec",
			"a command of another session runs this, and what that session allows is not known: "+
				"the command has removed it from the environment")
	}
	o.Above = append(o.Above, f.above...)
	args, err := withContent(dir, inheritedFlags(c.Flags()))
	if err != nil { // engine.Open says it
		args = inheritedFlags(c.Flags())
	}
	for _, text := range f.given {
		digest, path, _ := strings.Cut(text, " ")
		if o.Given == nil {
			o.Given = map[string]string{}
		}
		o.Given[path] = digest
	}
	for _, text := range f.above {
		args = append(args, "--above="+text)
	}
	args, err = boundArgs(ctx, args, f.trustContent)
	if err != nil { // a batch of this conversation would trust what nobody has seen
		args = slices.DeleteFunc(args, func(a string) bool { return a == "--trust=true" })
	}
	if f.left != nil {
		f.left.args, f.left.not = args, notCarried(c.Flags())
	}
	o.Parts = parts(args, f.left.leave())
	if err := f.checkHost(); err != nil {
		return nil, err
	}
	if f.inputFormat == "stream-json" {
		o.Plugins = f.foundPlugins(o.Plugins)
	}
	o.Policy, o.Betas, o.TaskBudget = f.policy, f.betas, f.taskBudget
	if o.Layers, err = f.layers(c); err != nil {
		return nil, err
	}
	log, err := openDebug(f.debug, f.debugFile, stderr)
	if err != nil {
		return nil, err
	}
	o.Debug, o.StartDebug, o.DebugLog = log.logger(), log.start, log.path
	o.Workspace, o.Index, o.Templates, o.Values = f.workspace, f.index, f.templates, f.values()
	if f.agents != "" {
		if o.Agents, o.Problems, err = agent.ParseDefinitions(f.agents, knack.Explicit,
			part.KnownTools().AllNames()...); err != nil {
			return nil, engine.Usagef(`--agents '{"reviewer": {"description": "Reviews code", "prompt": "You review code."}}'`,
				"--agents: %w", err)
		}
		for _, d := range o.Agents {
			if d.Unclear != "" {
				return nil, engine.Usagef("knack help agents", "--agents: %s: %s", d.Name, d.Unclear)
			}
		}
	}
	o.Problems = append(o.Problems, f.problems...)
	return engine.Open(ctx, o)
}

// foundPlugins returns the plugins of a host without those that do not exist, which become problems: its plugins come
// from lists that may be old.
func (f *runFlags) foundPlugins(all []string) (found []string) {
	for _, dir := range all {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			f.problems = append(f.problems, knack.Problem{Code: knack.CodePluginMissing, Severity: knack.Error, Path: dir,
				Message: "there is no such plugin"})
			continue
		}
		found = append(found, dir)
	}
	return found
}

// start starts the session that the flags describe and prints the problems of the project and
// of the session. edit, if not nil, may change the session's options first.
func (f *runFlags) start(ctx context.Context, e *engine.Engine, person engine.Person, edit func(*engine.SessionOptions),
	stderr io.Writer) (*engine.Session, error) {
	if err := f.checkSession(); err != nil {
		return nil, err
	}
	known := readWarnings()
	f.known = known
	show := func(problems []knack.Problem) {
		problems = slices.DeleteFunc(slices.Clone(problems), known.repeats)
		if !f.verbose {
			problems = known.aFew(oneOfUntrusted(known.newOnes(problems)))
		}
		printProblems(stderr, e.Project(), problems, f.verbose)
	}
	show(e.Problems())
	o := engine.SessionOptions{
		Setup: f.setup(),
		ID:    f.sessionID, Resume: f.resume, Latest: f.cont, Fork: f.fork, Forget: f.noSession,
		Agent: f.agent, Model: f.model, Fallback: f.fallback, Effort: f.effort, Tools: f.tools, System: f.systemPrompt,
		Append: f.appendPrompt,
	}
	if f.printing {
		o.Wait, o.Requests, o.Timeout = true, 200, 120*time.Second
		o.Waiting = func(servers []string) {
			fmt.Fprintln(stderr, "knack: waiting for MCP servers whose tools are not known yet (the setting mcp.firstWait): "+
				plain.Line(strings.Join(servers, ", ")))
		}
	}
	if f.resumeAt != "" {
		o.Until = func(log *session.Log) (int, error) { return control.EntryOf(log, f.resumeAt) }
	}
	if f.mirror {
		if err := f.mirrored(&o); err != nil {
			return nil, err
		}
	}
	if edit != nil {
		edit(&o)
	}
	if o.Resume != "" || o.Latest {
		steadyGC() // reading a long session makes much garbage
	}
	s, err := e.Start(ctx, person, o)
	if err != nil {
		return nil, inBackground(ctx, err, o.Resume, e.Project().Dir())
	}
	if title := strings.Join(strings.Fields(f.name), " "); title != "" {
		if err := s.Set(ctx, session.Setting{Title: title}); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if f.goal != "" {
		if err := setGoal(s, f.goal); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if !f.ofWorker {
		markSession(s)
	}
	show(s.Problems())
	if !f.printing || f.inputFormat != "text" { // otherwise print closes it
		known.close(stderr, e.Project())
	}
	if !f.printing || f.inputFormat != "text" { // otherwise see steadyOutput
		steadyGC()
	}
	return s, nil
}

// goalAsPrompt makes a prompt of --goal if there is no other.
func (f *runFlags) goalAsPrompt(args []string) []string {
	if f.goal == "" || len(args) > 0 || f.inputFormat != "text" {
		return args
	}
	text := "/command:goal " + f.goal // a skill may be called goal
	f.goal = ""
	return []string{text}
}

// notices prints the problems that an engine finds while it runs, each only once.
type notices struct {
	w       io.Writer
	printed int
	known   *knownWarnings                        // nil: none, everything is printed
	talking func([]knack.Problem) []knack.Problem // chooses what a conversation prints; nil: everything
}

func (n *notices) print(e *engine.Engine) { n.printWith(e, nil) }

// printWith prints more problems with those of the engine.
func (n *notices) printWith(e *engine.Engine, more []knack.Problem) {
	all := e.Notices()
	found := slices.Concat(all[n.printed:], more)
	if n.printed = len(all); n.talking != nil && len(found) > 0 {
		found = n.talking(found)
	}
	ofServer := func(x knack.Problem) bool { return x.Code == knack.CodeMCPServer && x.Severity == knack.Warn }
	if n.known != nil {
		found = slices.DeleteFunc(found, func(x knack.Problem) bool {
			if n.known.repeats(x) {
				return true
			}
			if ofServer(x) {
				n.known.ofServer(x)
			}
			return ofServer(x) || x.Code == knack.CodeSandbox && x.Severity == knack.Warn && x.Path != "" && n.known.ofSandbox(x)
		})
	}
	servers := 0
	for _, x := range found {
		if ofServer(x) {
			servers++
		}
	}
	for _, x := range found {
		if servers <= fewServers || !ofServer(x) {
			printProblem(n.w, e.Project(), x)
		}
	}
	if servers > fewServers {
		printProblem(n.w, e.Project(), serverProblems(servers, ""))
	}
}

// serverProblems stands for several problems of servers.
func serverProblems(n int, more string) knack.Problem {
	return knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn,
		Message: plain.Count(n, "problem") + " of MCP servers" + more, Hint: "knack mcp test"}
}

// fewServers is how many problems of servers are printed one by one.
const fewServers = 2

// close closes an engine and prints the problems that are found then, such as a file that was renamed because it
// appeared under a protected name.
func (n *notices) close(e *engine.Engine) {
	e.Close()
	n.print(e)
}

// closeEngine closes an engine whose problems were shown elsewhere, and prints those that are found then.
func closeEngine(e *engine.Engine, stderr io.Writer) {
	n := notices{w: stderr, printed: len(e.Notices())}
	n.close(e)
}

// values returns the settings that flags override.
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

// checkSession rejects flags that contradict each other about the session.
func (f *runFlags) checkSession() error {
	old := f.cont || f.resume != ""
	switch {
	case f.pick && (f.cont || f.fork || f.noSession || f.sessionID != ""):
		return engine.Usagef("knack session list", "-r (--resume) needs the ID of a session with these flags")
	case f.cont && f.resume != "":
		return engine.Usagef("knack -r "+f.resume, "-c and -r cannot be used together")
	case f.noSession && old:
		return engine.Usagef("knack -c --fork-session leaves the session unchanged",
			"--no-session cannot be used with -c or -r")
	case f.noSession && f.sessionID != "":
		return engine.Usagef("knack --session-id ID", "--no-session and --session-id cannot be used together")
	case f.fork && !old:
		return engine.Usagef("knack -c --fork-session", "--fork-session needs -c or -r ID")
	case f.sessionID != "" && old && !f.fork:
		return engine.Usagef("knack --fork-session --session-id ID",
			"--session-id names a new session; -c and -r continue an old one")
	}
	return nil
}
