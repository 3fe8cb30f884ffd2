package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// Engines run the conversations of a set: each with an engine of its own, in the directory of the trial, with the user's
// settings, the given skills and nobody to ask. Commands run in the sandbox, which must be there; what they and the file
// tools would do outside the directory is refused. It is safe for concurrent use once its fields are set.
type Engines struct {
	// Options are those of each engine. Dir, Sources, Model and Bare are set for each, and what trials are allowed is added
	// to Values.
	Options engine.Options
	// Skills are those beside the skill of the set: the listing as a user has it. One with the name of the skill is left
	// out.
	Skills []*knack.Skill
	// Skill is the skill as With has it, and Old as Old has it; nil: the config cannot run.
	Skill, Old *knack.Skill
	Model      llm.Model
	Effort     string
	// Find finds the models that skills and agents name, as engine.Options.FindModel does. nil: without a Seam the user's
	// keys and settings do, with one no other model is used, because what it answers would pass the Seam.
	Find func(ctx context.Context, name, current string) (llm.Model, error)
	Seam Seam // nil: the models are used as they are
	// Requests limits a trial of a case that says nothing itself; 0: 25.
	Requests int
}

const (
	caseRequests  = 25
	queryRequests = 4 // a skill that is not called by then is not called
)

// allowed is what a trial may do without a question; everything happens in its directory, commands in the sandbox.
func allowed(dir string) []any {
	return []any{"Skill", "Bash", "Read(./**)", "Edit(./**)", "Write(./**)", "Edit(/" + permission.Literal(dir) + "/.git)"}
}

// Run is a Runner.
func (e *Engines) Run(ctx context.Context, t Task) (out Outcome, err error) {
	model := e.Model
	if e.Seam != nil {
		if model, err = e.Seam(model, t); err != nil {
			return out, err
		}
	}
	skills := slices.DeleteFunc(slices.Clone(e.Skills), func(s *knack.Skill) bool { return s.Name == t.Skill })
	switch skill := e.version(t.Config); {
	case t.Config == Without:
	case skill == nil:
		return out, fmt.Errorf("there is no skill %s for the configuration %s", t.Skill, t.Config)
	default:
		skills = append(skills, skill)
	}
	limit := e.Requests
	if limit <= 0 {
		limit = caseRequests
	}
	if t.Case == nil {
		limit = queryRequests
		model = &listener{Model: model}
	} else if t.Case.Requests > 0 {
		limit = t.Case.Requests
	}
	o := e.options(t.Dir)
	o.Model, o.Sources = model, []knack.Source{listed(skills)}
	o.FindModel = e.named(t)
	if t.Case != nil && len(t.Case.Mocks) > 0 {
		o.Parts = append(slices.Clone(o.Parts), mocked(t.Case.Mocks))
	}
	began := time.Now()
	en, err := engine.Open(ctx, o)
	if err != nil {
		return out, err
	}
	defer en.Close()
	s, err := en.Start(ctx, nil, engine.SessionOptions{Forget: true, Effort: e.Effort, Requests: limit, Wait: true})
	if err != nil {
		return out, err
	}
	f := follower{out: &out, called: s.Catalog()}
	report, err := engine.Converse(s).Turn(ctx, agent.Typed(t.Prompt), f.add)
	if heard, ok := model.(*listener); ok {
		f.calls(heard.calls)
	}
	out.Answer = report.End.Text
	out.Usage, out.USD, out.Requests = report.Usage, report.Cost, report.Requests
	out.Millis = time.Since(began).Milliseconds()
	if err != nil {
		return out, err
	}
	if t.Case == nil {
		return out, nil
	}
	if err := report.Err(ctx); err != nil && ctx.Err() == nil {
		out.Error = err.Error()
	}
	return out, nil
}

// named returns the func that finds the models that skills and agents name in a conversation.
func (e *Engines) named(t Task) func(ctx context.Context, name, current string) (llm.Model, error) {
	if e.Seam == nil {
		return e.Find
	}
	return func(ctx context.Context, name, current string) (llm.Model, error) {
		if e.Find == nil {
			return nil, fmt.Errorf("the model %s is not used in this evaluation", name)
		}
		m, err := e.Find(ctx, name, current)
		if err != nil {
			return nil, err
		}
		return e.Seam(m, t)
	}
}

func (e *Engines) version(c Config) *knack.Skill {
	if c == Old {
		return e.Old
	}
	return e.Skill
}

// options returns those of an engine in the directory of a trial.
func (e *Engines) options(dir string) engine.Options {
	o := e.Options
	o.Dir, o.NewDir, o.Bare = dir, true, true
	values := maps.Clone(o.Values)
	if values == nil {
		values = map[string]any{}
	}
	values["permissions.allow"] = allowed(dir)
	values["permissions.defaultMode"] = "default"
	values["sandbox.mode"] = "require"
	o.Values = values
	return o
}

// Command is a [Command]: it runs a command line of a check in the sandbox of a trial's directory.
func (e *Engines) Command(ctx context.Context, dir, line string) (int, string, error) {
	en, err := engine.Open(ctx, e.options(dir))
	if err != nil {
		return 0, "", err
	}
	defer en.Close()
	ws, err := en.Workspace(ctx)
	if err != nil {
		return 0, "", err
	}
	var out limitedText
	exit, err := ws.Run(ctx, workspace.Command{Line: line, Output: &out})
	return exit.Code, out.String(), err
}

// limitedText keeps the first bytes that are written to it.
type limitedText struct{ strings.Builder }

func (l *limitedText) Write(p []byte) (int, error) {
	if room := maxEvidence - l.Len(); room > 0 {
		l.Builder.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// Listed returns a Source with some skills, without those that have the name of one of own, and then own.
func Listed(others []*knack.Skill, own ...*knack.Skill) knack.Source {
	all := slices.DeleteFunc(slices.Clone(others), func(s *knack.Skill) bool {
		return slices.ContainsFunc(own, func(o *knack.Skill) bool { return o.Name == s.Name })
	})
	return listed(append(all, own...))
}

type listed []*knack.Skill

func (l listed) Skills(ctx context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) {
		for _, s := range l {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// A listener hears which skills a model calls, and ends the conversation there: a query is about the choice alone.
type listener struct {
	llm.Model
	mu    sync.Mutex
	calls []llm.ToolCall
}

func (l *listener) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for e, err := range l.Model.Stream(ctx, req) {
			if err == nil && e.Done != nil {
				e.Done = l.hear(e.Done)
			}
			if e.Call != nil && skillOf(*e.Call) != "" {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// hear keeps the calls of an answer. If one calls a skill, it returns the answer without calls.
func (l *listener) hear(done *llm.Response) *llm.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	called := false
	for _, p := range done.Message.Parts {
		if p.Call != nil {
			l.calls = append(l.calls, *p.Call)
			called = called || skillOf(*p.Call) != ""
		}
	}
	if !called {
		return done
	}
	end := *done
	end.Message.Parts = slices.DeleteFunc(slices.Clone(done.Message.Parts), func(p llm.Part) bool { return p.Call != nil })
	if len(end.Message.Parts) == 0 {
		end.Message.Parts = []llm.Part{llm.Text("A skill was called.")}
	}
	end.Stop = llm.EndTurn
	return &end
}

// skillOf returns the name of the skill that a call loads; "": it loads none.
func skillOf(c llm.ToolCall) string {
	if c.Name != "Skill" {
		return ""
	}
	var in struct {
		Skill, Command, Name string
		Describe, Done       bool
	}
	if json.Unmarshal(c.Input, &in) != nil || in.Describe || in.Done {
		return ""
	}
	for _, name := range []string{in.Skill, in.Command, in.Name} {
		if name != "" {
			name, _, _ = strings.Cut(tool.SkillName(name), " ")
			return name
		}
	}
	return ""
}

// A follower makes an Outcome of the events of a turn.
type follower struct {
	out    *Outcome
	called *knack.Catalog
	seen   map[string]bool // calls by their ID
}

func (f *follower) add(e engine.Event) {
	if e.Entry == nil || e.Agent != nil {
		return
	}
	step := func(s Step) { f.out.Steps = append(f.out.Steps, s) }
	switch x := e.Entry; {
	case x.User != nil:
		step(Step{Kind: StepUser, Text: llm.JoinText(x.User.Parts, "\n")})
	case x.Activation != nil:
		step(Step{Kind: StepUser, Text: x.Activation.Prompt})
	case x.Release != nil:
		f.out.Released += x.Release.Tokens
	case x.Answer != nil:
		if text := llm.TextOf(x.Answer.Message.Parts); text != "" {
			step(Step{Kind: StepModel, Text: text})
		}
		var calls []llm.ToolCall
		for _, p := range x.Answer.Message.Parts {
			if p.Call != nil {
				calls = append(calls, *p.Call)
				step(Step{Kind: StepCall, Tool: p.Call.Name, Input: slices.Clone(p.Call.Input)})
			}
		}
		f.calls(calls)
	case x.Result != nil:
		step(Step{Kind: StepResult, Tool: x.Result.Name, Text: llm.TextOf(x.Result.Parts), Error: x.Result.IsError})
	}
}

// calls counts calls of tools and the skills among them.
func (f *follower) calls(calls []llm.ToolCall) {
	for _, c := range calls {
		if f.seen == nil {
			f.seen = map[string]bool{}
		}
		if f.seen[c.ID] {
			continue
		}
		f.seen[c.ID] = true
		if name := skillOf(c); name != "" {
			if s := f.called.Skill(name); s != nil {
				name = s.Name
			}
			f.out.Called = append(f.out.Called, name)
			f.out.First = f.out.First || f.out.Calls == 0
		}
		f.out.Calls++
	}
}

// mocked is the part that answers calls in the place of tools.
func mocked(mocks []Mock) engine.Part {
	byTool := map[string][]Mock{}
	for _, m := range mocks {
		byTool[m.Tool] = append(byTool[m.Tool], m)
	}
	return engine.Part{Name: "mocks", Open: func(context.Context, *engine.Conv) (*engine.Live, error) {
		return &engine.Live{Wrap: func(tools tool.Set, _ engine.Place) tool.Set {
			tools = slices.Clone(tools)
			for i := range tools {
				t := &tools[i]
				for name, mocks := range byTool {
					if sameTool(name, t.Name) {
						t.Origin = "the mocks of the case"
						t.Run = func(_ context.Context, call tool.Input) (tool.Result, error) { return answerOf(mocks, call.JSON) }
					}
				}
			}
			return tools
		}}, nil
	}}
}

// answerOf returns the answer of the first mock that a call matches.
func answerOf(mocks []Mock, input json.RawMessage) (tool.Result, error) {
	for _, m := range mocks {
		if !hasFields(input, m.Match) {
			continue
		}
		if m.Error {
			return tool.Result{}, errors.New(m.Text)
		}
		return tool.Text(m.Text), nil
	}
	return tool.Result{}, errors.New("no mock of the case answers this call")
}

// hasFields reports whether an object has the fields of another.
func hasFields(input, want json.RawMessage) bool {
	var in, fields map[string]any
	if len(want) == 0 {
		return true
	}
	if json.Unmarshal(input, &in) != nil || json.Unmarshal(want, &fields) != nil {
		return false
	}
	for name, v := range fields {
		if !reflect.DeepEqual(in[name], v) {
			return false
		}
	}
	return true
}
