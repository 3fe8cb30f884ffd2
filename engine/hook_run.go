package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// newHookRunner makes the hooks of the session.
func newHookRunner(s *Session, p *Project) (*sessionHooks, error) {
	c, err := Client(p.config.Settings.Proxy)
	if err != nil {
		return nil, err
	}
	all := &sessionHooks{changed: s.changed, dir: func() string { return s.place.ws().Dir() },
		inUse: func() []hook.Hook { return s.Now().Hooks() },
		fire: func(ctx context.Context, in hook.Input) (hook.Outcome, error) {
			return s.Now().agent.Hook(ctx, s.log, in)
		}}
	all.Runner = &hook.Runner{
		Ask:     askHook(s.ask),
		Show:    all.show,
		Run:     func(ctx context.Context, c hook.Process) (hook.Output, error) { return s.Now().runHook(ctx, c) },
		Client:  c,
		Guarded: &http.Client{Transport: guard.New(guard.Options{Open: p.config.Settings.Web.AllowPrivate})},
		Model: func(ctx context.Context, prompt string) (string, error) {
			m, err := s.Now().fastModel(ctx)
			if err != nil {
				return "", err
			}
			answer, _, err := llm.AskText(ctx, m, prompt, 500)
			return answer, err
		},
		Fill: func(in *hook.Input) {
			in.Dir, in.Mode = s.place.ws().Dir(), string(s.gate.Mode())
			s.mu.Lock()
			in.PromptID = s.promptID
			s.mu.Unlock()
			if in.Shown != nil {
				in.Shown.Turn = in.PromptID
			}
			if in.Event == hook.Stop || in.Event == hook.SubagentStop {
				in.Running, in.Crons = inBackground(s.jobs.List(), s.background.Unreported(s.log)), []struct{}{}
			}
			if s.Recorded() && in.Event == hook.SubagentStop {
				in.AgentFile = filepath.Join(p.options.Env.AgentSessions(p.dir, s.log.ID()).Dir, in.AgentID+".jsonl")
			}
			if s.Recorded() {
				in.Transcript = filepath.Join(p.options.Env.Sessions(p.dir).Dir, s.log.ID()+".jsonl")
			}
		},
		Told:   func(h *hook.Hook) { s.parts.hookTold(h) },
		Rewake: s.changed,
		Watch: func(ran hook.Ran) {
			if watch := s.Host().HookRan; watch != nil {
				watch(ran)
			}
		},
		MatchesRule: func(ctx context.Context, rule string, in *hook.Input) bool {
			return s.Now().matchesRule(ctx, rule,
				in)
		},
		Tool: func(name string) hook.ToolMapping { return hookTool(s, name) },
	}
	return all, nil
}

// runHook runs a hook's command in the workspace, in the same sandbox as tools, unless it is the user's own.
func (t *Turn) runHook(ctx context.Context, c hook.Process) (hook.Output, error) {
	h := c.Hook
	env := []string{"CLAUDE_PROJECT_DIR=" + t.project.root, "CLAUDE_CODE_SESSION_ID=" + t.session.log.ID()}
	cmd := workspace.Command{Line: c.Line, Args: c.Args, Stdin: bytes.NewReader(c.Stdin), Scripts: c.Scripts}
	if h.Dir != "" {
		env = append(env, "CLAUDE_PLUGIN_ROOT="+h.Dir)
		if strings.HasPrefix(h.Origin, "plugin:") {
			env = append(env, "PLUGIN_ROOT="+h.Dir, "extensionPath="+h.Dir)
		} else {
			env = append(env, "CLAUDE_SKILL_DIR="+h.Dir)
		}
		cmd.Allow.Read = []string{h.Dir}
	}
	if h.Data != "" {
		if err := os.MkdirAll(h.Data, 0o700); err != nil {
			return hook.Output{}, err
		}
		env = append(env, "CLAUDE_PLUGIN_DATA="+h.Data, "PLUGIN_DATA="+h.Data)
		cmd.Allow.Write = []string{h.Data}
	}
	cmd.Env = env
	if len(h.Args) > 0 { // no shell fills them in
		cmd.Args = fillIn(c.Args, env)
	}
	if name, ok := strings.CutPrefix(h.Origin, "skill:"); ok {
		if k := t.session.Catalog().Skill(name); k != nil {
			cmd.Limits = t.limits(name, k.Sandbox)
		}
	}
	out, errs := limitedBuffer{max: hook.MaxOutput}, limitedBuffer{max: hook.MaxOutput}
	cmd.Output, cmd.Stderr = &out, &errs
	if t.project.own.runsAsUser(h, t.session.ws.Dir()) {
		cmd.AsUser = t.session.engine.userEnviron(t.project, cmd.Env)
	}
	cmd.Connected = t.session.parts.hookRuns(c, cmd.AsUser != nil)
	exit, err := t.session.ws.Run(ctx, cmd)
	t.session.engine.reportHook(h, exit)
	return hook.Output{Code: exit.Code, Signal: exit.Signal, Stdout: out.buf.Bytes(), Stderr: errs.buf.Bytes()}, err
}

// fillIn replaces ${NAME} in words by the values of variables, each of which is NAME=value.
func fillIn(words, variables []string) (filled []string) {
	var pairs []string
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		pairs = append(pairs, "${"+name+"}", value)
	}
	r := strings.NewReplacer(pairs...)
	for _, w := range words {
		filled = append(filled, r.Replace(w))
	}
	return filled
}

// fastModel returns the fast model of the provider of the turn's model.
func (t *Turn) fastModel(ctx context.Context) (llm.Model, error) {
	if err := t.useModel(ctx); err != nil {
		return nil, err
	}
	return t.agent.Resolve("fast")
}

// Tool finds a tool by name or alias among the session's tools, active or not, and all tools that the
// program knows.
func (t *Turn) Tool(name string) (*tool.Tool, bool) { return findTool(t.session, t.host, name) }

func findTool(s *Session, host Host, name string) (*tool.Tool, bool) {
	for _, set := range []tool.Set{s.files, host.Tools, host.Own, s.engine.Project().known().tools} {
		if found, ok := set.Find(name); ok {
			return found, true
		}
	}
	return nil, false
}

// Summary describes a tool call in one line of untrusted text.
func (t *Turn) Summary(name string, input json.RawMessage) string {
	found, ok := t.Tool(name)
	if !ok { // such as that of a server
		found = &tool.Tool{}
	}
	line := found.Line(input)
	// A command is shown as it runs; paths of files are easier to read without the directory.
	if found.Effect&tool.Runs == 0 {
		line = strings.ReplaceAll(line, t.project.Dir()+string(filepath.Separator), "")
	}
	return line
}

// hookTool returns the names and input mapping under which hooks know a tool.
func hookTool(s *Session, name string) hook.ToolMapping {
	found, ok := findTool(s, s.Host(), name)
	if !ok {
		return hook.ToolMapping{}
	}
	return hook.ToolMapping{Names: slices.Concat(found.Names(), found.GuardedAs), Encode: found.Encode,
		Decode: found.Decode}
}

// matchesRule reports whether a call matches a permission rule. If that is uncertain, it is true.
func (t *Turn) matchesRule(ctx context.Context, rule string, in *hook.Input) bool {
	r, err := permission.ParseRule(rule, permission.User)
	called, ok := t.Tool(in.Tool)
	if err != nil || !ok {
		return true
	}
	p := called.Propose(in.Call, in.ToolInput)
	subjects, err := p.SubjectsFor(ctx, in.ToolInput)
	if err != nil {
		return true
	}
	// Match as broadly as a deny rule: if the call might match, the hook runs.
	place := t.session.engine.pathContext(t.project)
	return permission.Rules{Deny: []permission.Rule{r}}.Decide(ctx, permission.Bypass, place,
		subjects...).Verdict == permission.Deny
}

// Hooks returns the hooks that would run now, with those of the skills in use.
func (t *Turn) Hooks() []hook.Hook { return t.agent.Hooks(t.session.log) }

// Begin runs the hooks for the start of the session and for its context files. The events contain
// their texts. An error means that a hook ended the session before it began, or that the log cannot be
// written.
func (s *Session) Begin(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := s.open(); err != nil {
			yield(Event{}, err)
			return
		}
		t := s.Now()
		if t.hooks == nil {
			return
		}
		in := hook.Input{Event: hook.SessionStart, Source: s.source}
		if m, err := s.Model(ctx); err == nil {
			in.Model = m.Info().ID
		}
		s.mu.Lock()
		s.started = true
		s.mu.Unlock()
		var events []hook.Input
		if s.options.Setup != "" {
			events = append(events, hook.Input{Event: hook.Setup, Trigger: s.options.Setup})
		}
		events = append(events, in)
		if s.source != hook.SourceClear {
			_, documents := s.systemText()
			for _, d := range documents {
				kind := hook.MemoryProject
				if !subpath.Contains(realPath(t.project.root), realPath(d.Path)) {
					kind = hook.MemoryUser
				}
				events = append(events, hook.Input{Event: hook.InstructionsLoaded, File: d.Path, MemoryType: kind,
					Loaded: hook.LoadedSessionStart})
			}
		}
		for _, in := range events {
			out, err := t.fire(ctx, in, yield)
			if err == nil && out.Stop {
				err = stoppedByHook(out.StopReason)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			s.hooks.watchAlso(out.WatchPaths)
		}
		s.hooks.begin()
	}
}

// fire runs the hooks of an event and yields their texts.
func (t *Turn) fire(ctx context.Context, in hook.Input, yield func(Event, error) bool) (hook.Outcome,
	error) {
	last := t.session.log.Last()
	out, err := t.agent.Hook(ctx, t.session.log, in)
	if err != nil {
		return out, err
	}
	for _, e := range t.session.log.After(last) {
		if !yield(Event{Event: agent.Event{Entry: &e}}, nil) {
			return out, context.Canceled
		}
	}
	return out, nil
}
