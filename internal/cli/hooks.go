package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/config"
	"github.com/knack-agent/knack/internal/layout"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/internal/trust"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/workspace"
)

// ruleText says whether a text is a permission rule.
func ruleText(text string) error {
	_, err := permission.ParseRule(text, permission.User)
	return err
}

// settingsHooks are the hooks of settings files, the highest last: of two that
// rewrite an input the last one counts.
func settingsHooks(parts []config.Part) (hooks []hook.Hook, problems []knack.Problem) {
	for _, part := range slices.Backward(parts) {
		found, bad := hook.Parse(part.JSON, ruleText)
		for i := range found {
			found[i].Origin, found[i].Place = string(part.Origin), part.Path
		}
		hooks = append(hooks, found...)
		for _, b := range bad {
			p := hookProblem(part.Path, b)
			p.Line, p.Column = placeIn(part, b.At)
			problems = append(problems, p)
		}
	}
	return hooks, problems
}

func hookProblem(path string, b hook.Problem) knack.Problem {
	p := knack.Problem{Code: "hook-invalid", Severity: knack.Error, Path: path, Message: "hooks: " + b.Message, Hint: "knack help hooks"}
	if b.Kept {
		p.Severity = knack.Warn
	}
	return p
}

// placeIn is the line and the column of a byte of a part.
func placeIn(part config.Part, at int) (line, column int) {
	if part.Line == 0 {
		return 0, 0 // the command line
	}
	before := part.JSON[:min(at, len(part.JSON))]
	start := bytes.LastIndexByte(before, '\n') + 1
	column = 1 + utf8.RuneCount(before[start:])
	if start == 0 {
		column += part.Column - 1
	}
	return part.Line + bytes.Count(before, []byte("\n")), column
}

// skillHooks are those of a skill.
func skillHooks(name string, text json.RawMessage, dir string) ([]hook.Hook, []hook.Problem) {
	found, bad := hook.Parse(text, ruleText)
	for i := range found {
		found[i].Origin, found[i].Place, found[i].Dir = "skill:"+name, "the skill "+name, dir
	}
	return found, bad
}

// agentHooks are those of an agent's definition: what it calls the session is
// the agent's work. One with a path has no folder to find it in.
func agentHooks(name string, text json.RawMessage) []hook.Hook {
	found, _ := hook.Parse(text, ruleText)
	found = slices.DeleteFunc(found, func(h hook.Hook) bool { return h.Path != "" })
	for i := range found {
		h := &found[i]
		h.Origin, h.Place = "agent:"+name, "the agent "+name
		switch h.Event {
		case hook.SessionStart:
			h.Event = hook.SubagentStart
		case hook.Stop:
			h.Event = hook.SubagentStop
		}
	}
	return found
}

// hooks are those in force under skills: theirs, then those of settings.
func (s *sessionRun) hooks(sc agent.Scope) *hook.Set {
	var own []hook.Hook
	for _, k := range sc.Skills {
		if k.Hooks != nil {
			found, _ := skillHooks(k.Skill, k.Hooks, k.Dir)
			// What a stranger's skill may not grant itself its hooks may not either.
			skill := s.library.Catalog().Skill(k.Skill)
			for i := range found {
				found[i].Mute = skill == nil || foreign(skill.Origin.Kind)
			}
			own = append(own, found...)
		}
	}
	for _, o := range sc.Outer {
		if o.Hooks == nil {
			continue
		}
		var found []hook.Hook
		if o.Agent != "" {
			found = agentHooks(o.Agent, o.Hooks)
		} else {
			found, _ = skillHooks(o.Skill, o.Hooks, o.Dir)
		}
		for i := range found {
			found[i].Mute = true
		}
		own = append(own, found...)
	}
	now := s.now.Load()
	if now == nil || len(own)+len(now.hooks) == 0 {
		return nil
	}
	return &hook.Set{Hooks: append(own, now.hooks...), Runner: s.hookRunner}
}

// A standing is what hooks go by, which /new and /reload swap whole: agents in
// the background have hooks too.
type standing struct {
	*resources
	gate   *gate.Gate
	log    *session.Log
	place  permission.Place
	pinned map[string][sha256.Size]byte // scripts that hooks run, as the session found them
}

// stand takes what hooks go by from here on. A script that was found before
// and has changed since stays out.
func (s *sessionRun) stand() {
	now := &standing{resources: s.resources, gate: s.gate, log: s.log, place: s.place(), pinned: map[string][sha256.Size]byte{}}
	for i := range now.hooks {
		now.approved(&now.hooks[i], s.ws.Dir(), func(path string, data []byte) error {
			now.pinned[path] = sha256.Sum256(data)
			return nil
		})
	}
	if was := s.now.Load(); was != nil {
		maps.Copy(now.pinned, was.pinned)
	}
	s.now.Store(now)
}

// newHookRunner says how hooks run here.
func (s *sessionRun) newHookRunner(proxy string) (*hook.Runner, error) {
	c, err := engine.Client(proxy)
	if err != nil {
		return nil, err
	}
	s.stand()
	return &hook.Runner{
		Run:    s.runHook,
		Client: c,
		Model:  s.askFast,
		Fill: func(in *hook.Input) {
			now := s.now.Load()
			in.Dir, in.Mode = s.ws.Dir(), string(now.gate.Mode())
			if !s.forgets {
				in.Transcript = filepath.Join(engine.Env(nil).Sessions(now.dir).Dir, now.log.ID()+".jsonl")
			}
		},
		Fits: s.fits,
		Tool: s.hookTool,
	}, nil
}

// runHook runs a hook's command where tools act, and under the same sandbox.
func (s *sessionRun) runHook(ctx context.Context, c hook.Command) (hook.Output, error) {
	h, now := c.Hook, s.now.Load()
	env := []string{"CLAUDE_PROJECT_DIR=" + now.root, "CLAUDE_CODE_SESSION_ID=" + now.log.ID()}
	cmd := workspace.Command{Line: c.Line, Args: c.Args, Stdin: bytes.NewReader(c.Stdin)}
	if h.Dir != "" {
		env = append(env, "CLAUDE_SKILL_DIR="+h.Dir, "CLAUDE_PLUGIN_ROOT="+h.Dir)
		cmd.Allow.Read = []string{h.Dir}
	}
	cmd.Env = env
	if name, ok := strings.CutPrefix(h.Origin, "skill:"); ok {
		if k := s.library.Catalog().Skill(name); k != nil {
			cmd.Limits = s.limits(name, k.Sandbox)
		}
	}
	if err := s.unchanged(h); err != nil {
		return hook.Output{}, err
	}
	out, errs := clipped{most: hook.MaxOutput}, clipped{most: hook.MaxOutput}
	cmd.Output, cmd.Stderr = &out, &errs
	exit, err := s.ws.Run(ctx, cmd)
	return hook.Output{Code: exit.Code, Signal: exit.Signal, Stdout: out.buf.Bytes(), Stderr: errs.buf.Bytes()}, err
}

// unchanged holds what a stranger's hook would run against what a person
// approved: of a skill that is its whole folder, of an agent a script in a
// folder of resources, of settings what approved looks at. Other scripts in the
// working tree are anybody's to change, the model's too, which then would run
// what nobody decided on: for hooks of settings they hold as the session found
// them.
func (s *sessionRun) unchanged(h *hook.Hook) error {
	now, dir := s.now.Load(), s.ws.Dir()
	if name, ok := strings.CutPrefix(h.Origin, "skill:"); ok {
		k := s.library.Catalog().Skill(name)
		if k == nil {
			return fmt.Errorf("the skill %s is gone", name)
		}
		if err := s.verify(k); err != nil || !foreign(k.Origin.Kind) {
			return err
		}
		if h.Path != "" && !subpath.Contains(real(h.Dir), real(h.File())) {
			// Where a link leads is no part of the folder that was approved.
			return fmt.Errorf("%s leads out of the folder of the skill %s", h.File(), name)
		}
		return now.inTree(h, dir, func(path string, _ []byte) error {
			if subpath.Contains(real(h.Dir), path) {
				return nil
			}
			return fmt.Errorf("%s is no part of the folder of the skill %s, which is what was approved", path, name)
		})
	}
	name, agents := strings.CutPrefix(h.Origin, "agent:")
	if agents {
		i := slices.IndexFunc(now.agents, func(d agent.Definition) bool { return d.Name == name })
		if i >= 0 && !foreign(now.agents[i].Origin) {
			return nil
		}
	}
	if _, here := s.ws.(*workspace.Local); !here && (agents || h.Origin == string(permission.Project)) {
		return errors.New("a project's hooks run only on this machine: what they would run elsewhere nobody has seen")
	}
	if agents {
		return now.inTree(h, dir, func(path string, data []byte) error {
			if resourceFile(now.root, path) {
				return now.project.Check(path, data)
			}
			return fmt.Errorf("%s was not approved with the agent %s", path, name)
		})
	}
	return now.approved(h, dir, func(path string, data []byte) error {
		if now.pinned[path] != sha256.Sum256(data) {
			return fmt.Errorf("%s is not as it was when the session began", path)
		}
		return nil
	})
}

// inTree holds the scripts of the working tree that a hook would run, started
// in dir, against ok.
func (r *resources) inTree(h *hook.Hook, dir string, ok func(path string, data []byte) error) error {
	root := real(r.root)
	return gate.CheckScripts(commandLine(h, r.root), dir, func(path string, data []byte) error {
		if subpath.Contains(root, path) || subpath.Contains(dir, path) {
			return ok(path, data)
		}
		return nil
	})
}

// approved holds the scripts of a hook of settings, which runs in dir, against
// what a person approved. Of a project's hook these are the scripts in folders
// of resources that the command names, and whatever of the folder hooks beside
// the settings file was approved: scripts read each other. other is given all
// other scripts of the working tree.
func (r *resources) approved(h *hook.Hook, dir string, other func(path string, data []byte) error) error {
	projects := h.Origin == string(permission.Project)
	err := r.inTree(h, dir, func(path string, data []byte) error {
		if projects && resourceFile(r.root, path) {
			return r.project.Check(path, data)
		}
		return other(path, data)
	})
	if err != nil || !projects {
		return err
	}
	return r.asApproved(filepath.Join(filepath.Dir(h.Place), "hooks"), 6)
}

// commandLine is what a hook runs, with the directories that its environment
// names.
func commandLine(h *hook.Hook, root string) string {
	line := h.Command
	for _, a := range h.Args {
		line += " '" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	dirs := []string{"$CLAUDE_PROJECT_DIR", root, "${CLAUDE_PROJECT_DIR}", root}
	if h.Dir != "" {
		for _, name := range []string{"$CLAUDE_SKILL_DIR", "${CLAUDE_SKILL_DIR}", "$CLAUDE_PLUGIN_ROOT", "${CLAUDE_PLUGIN_ROOT}"} {
			dirs = append(dirs, name, h.Dir)
		}
	}
	return strings.NewReplacer(dirs...).Replace(line)
}

// asApproved reports the first file below a folder of hooks that was approved
// and has changed. Links are followed, as approval followed them: the bytes
// count, wherever they are.
func (r *resources) asApproved(dir string, depth int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // what is not there was not changed
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir() && depth > 1:
			if err := r.asApproved(path, depth-1); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			data, err := head(path, trust.MaxFile+1)
			if err != nil {
				continue
			}
			var p knack.Problem
			if err := r.project.Check(path, data); errors.As(err, &p) && p.Code == trust.CodeChanged {
				return err
			}
		}
	}
	return nil
}

// head reads at most the first n bytes of a file.
func head(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// readHooks takes the hooks of settings. Scripts that a project's hooks would
// run and nobody approved are problems now, so that a person is asked.
func (r *resources) readHooks() {
	r.hooks, r.hookProblems = settingsHooks(r.settings.Raw["hooks"])
	for i := range r.hooks {
		var p knack.Problem
		err := r.approved(&r.hooks[i], r.dir, func(string, []byte) error { return nil })
		if errors.As(err, &p) && !slices.Contains(r.hookProblems, p) {
			r.hookProblems = append(r.hookProblems, p)
		}
	}
}

// hookProblemsOf are what is wrong with the hooks of a skill.
func hookProblemsOf(k *knack.Skill) []knack.Problem {
	if k.Hooks == nil {
		return nil
	}
	var problems []knack.Problem
	_, bad := skillHooks(k.Name, k.Hooks, "")
	for _, b := range bad {
		p := hookProblem(k.Path, b)
		p.Severity = knack.Warn // the skill works without
		problems = append(problems, p)
	}
	return problems
}

// resourceFile says whether a path below a root leads through a folder whose
// files are approved one by one.
func resourceFile(root, path string) bool {
	rel, ok := subpath.Rel(real(root), path)
	return ok && layout.InFolder(rel)
}

// askFast asks the fast model aside from the conversation.
func (s *sessionRun) askFast(ctx context.Context, prompt string) (string, error) {
	m, err := s.agent.Resolve("fast")
	if err != nil {
		return "", err
	}
	req := &llm.Request{MaxTokens: 500, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text(prompt)}}}}
	answer, err := llm.Ask(ctx, m, req)
	if err != nil {
		return "", err
	}
	return llm.TextOf(answer.Message.Parts), nil
}

// toolOf finds a tool among all that this conversation may have.
func (s *sessionRun) toolOf(name string) (*tool.Tool, bool) {
	if t, ok := s.files.Find(name); ok {
		return t, true
	}
	return engine.KnownTools().Find(name)
}

// hookTool says how hooks know a tool.
func (s *sessionRun) hookTool(name string) hook.Tool {
	t, ok := s.toolOf(name)
	if !ok {
		return hook.Tool{}
	}
	return hook.Tool{Names: t.Names(), Encode: t.Encode, Decode: t.Decode}
}

// fits says whether a call fits a permission rule, or may.
func (s *sessionRun) fits(rule string, in *hook.Input) bool {
	r, err := permission.ParseRule(rule, permission.User)
	t, ok := s.toolOf(in.Tool)
	if err != nil || !ok {
		return true
	}
	p := t.Propose(in.Call, in.ToolInput)
	subjects, err := p.Named(context.Background(), in.ToolInput)
	if err != nil {
		return true
	}
	// As widely as a denial: what may be meant runs the hook.
	return permission.Rules{Deny: []permission.Rule{r}}.Decide(permission.Bypass, s.now.Load().place, subjects...).Verdict == permission.Deny
}

// startHooks tells hooks that the session starts. What they say to people, and
// which broke, goes to w.
func (s *sessionRun) startHooks(ctx context.Context, w io.Writer) error {
	source := "startup"
	if s.began > 0 {
		source = "resume"
	}
	out, err := s.tellStart(ctx, source)
	tellPeople(w, out)
	for _, d := range s.context {
		if err != nil {
			break
		}
		kind := "Project"
		if !subpath.Contains(real(s.root), real(d.Path)) {
			kind = "User"
		}
		out, err = s.agent.Hook(ctx, s.log, hook.Input{Event: hook.InstructionsLoaded, File: d.Path, MemoryType: kind, Loaded: "session_start"})
		tellPeople(w, out)
	}
	if err == nil && out.Stop {
		err = stoppedBy(out.StopReason)
	}
	return err
}

func (s *sessionRun) tellStart(ctx context.Context, source string) (hook.Outcome, error) {
	s.started.Store(true)
	return s.agent.Hook(ctx, s.log, hook.Input{Event: hook.SessionStart, Source: source, Model: s.agent.Model.Info().ID})
}

// tellEnd tells hooks that the session ends, once for each start.
func (s *sessionRun) tellEnd(reason string) {
	if s.started.Swap(false) {
		s.agent.Hook(context.Background(), s.log, hook.Input{Event: hook.SessionEnd, Reason: reason})
	}
}

// endHooks ends what hooks there are, with the program.
func (s *sessionRun) endHooks() {
	if s.hookRunner != nil {
		s.tellEnd("other")
		s.hookRunner.Close()
	}
}

// tellChange tells hooks that there are other skills than before.
func (s *sessionRun) tellChange(ctx context.Context) error {
	now := s.library.Catalog()
	was := s.catalog
	s.catalog = now
	if was == nil || was == now {
		return nil
	}
	_, err := s.agent.Hook(ctx, s.log, hook.Input{Event: hook.ConfigChange, Source: "skills"})
	return err
}

// A notifying is a person whom hooks call before they are asked.
type notifying struct {
	person
	tell func(ctx context.Context, kind, message string)
}

// while tells hooks of what a person is asked, as long as they are.
func (n notifying) while(ctx context.Context, kind, message string, ask func(context.Context)) {
	telling, answered := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { n.tell(telling, kind, message) })
	ask(ctx)
	answered()
	told.Wait()
}

func (n notifying) Approve(ctx context.Context, r gate.Request) (a gate.Answer, err error) {
	n.while(ctx, "permission_prompt", "Knack asks whether "+r.Tool+" may run", func(ctx context.Context) { a, err = n.person.Approve(ctx, r) })
	return a, err
}

func (n notifying) Ask(ctx context.Context, question string, options []string) (answer string, err error) {
	n.while(ctx, "question", question, func(ctx context.Context) { answer, err = n.person.Ask(ctx, question, options) })
	return answer, err
}

// notify tells hooks that a person is needed.
func (s *sessionRun) notify(ctx context.Context, kind, message string) {
	s.agent.Hook(ctx, s.log, hook.Input{Event: hook.Notification, Kind: kind, Message: message})
}

func (s *sessionRun) slashHooks(_ context.Context, _ string, say func(string)) (string, error) {
	var hooks []hook.Hook
	if set := s.hooks(agent.Scope{Skills: s.log.State().Scopes}); set != nil && s.hookRunner != nil {
		hooks = set.Hooks
	}
	say(hooksText(hooks))
	return "", nil
}

func tellPeople(w io.Writer, out hook.Outcome) {
	for _, m := range out.Messages {
		fmt.Fprintln(w, "knack: hook:", plain.Line(m))
	}
	for _, err := range out.Failed {
		fmt.Fprintln(w, "knack: warn:", plain.Line(err.Error()))
	}
}

// stoppedBy is the error of a run that a hook ended.
func stoppedBy(why string) error {
	text := "a hook ended the run"
	if why != "" {
		text += ": " + why
	}
	return &engine.Error{Err: errors.New(text)}
}

// hooksText lists hooks for people: those of settings, then those of skills in
// force.
func hooksText(hooks []hook.Hook) string {
	if len(hooks) == 0 {
		return "No hooks are in force. knack help hooks says how to write one."
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i := range hooks {
		h := &hooks[i]
		matcher := h.Matcher
		if matcher == "" {
			matcher = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\n", h.Event, plain.Line(matcher), h.Type, plain.Line(h.String()), plain.Line(shownIn(h.Place)), strings.Join(h.State(), ", "))
	}
	w.Flush()
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
