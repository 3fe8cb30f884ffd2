// Package propose is the part with which the model proposes skills: a new one, or exact edits of one of the user's own,
// with passages of sessions as evidence. A person sees the difference and decides. A yes writes, raises the version and
// the lock; a no leaves nothing: no file, and no text in later requests.
package propose

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// ToolName is the name of the tool.
const ToolName = "ProposeSkills"

// Limits of one call.
const (
	maxProposals = 3
	maxWhy       = 500 // bytes
)

//go:embed ProposeSkills.json
var schema []byte

//go:embed propose.md
var description string

// Measure says in a few words how a skill in a directory, among other skills, is found by the queries in its evals; "":
// it has none.
type Measure func(ctx context.Context, dir string, others []*knack.Skill) (string, error)

// Part lets the model propose skills. measure may be nil: then nothing is tried before the user is asked.
func Part(measure Measure) engine.Part {
	return engine.Part{Name: "propose", Known: func(engine.Brought) engine.PartTools {
		return engine.PartTools{Unlisted: tool.Set{define(nil, true)}}
	}, Open: func(_ context.Context, c *engine.Conv) (*engine.Live, error) {
		var set struct{ Skills struct{ Propose bool } }
		if err := c.Project().ReadSettings(&set); err != nil {
			return nil, err
		}
		l := live{c, measure}
		return &engine.Live{Messages: withoutDeclined, Begin: l.begin, Tools: func() engine.PartTools {
			return engine.PartTools{Unlisted: tool.Set{define(l.run, !set.Skills.Propose)}}
		}}, nil
	}}
}

// begin tells the user, before a model is paid, that /skillify cannot propose a skill in a session that has read text
// of strangers.
func (l live) begin(_ context.Context, prompt string) error {
	called, _, _ := agent.Slash(prompt)
	if called != "skillify" {
		return nil
	}
	k, why := l.Catalog().Skill(called), l.Reads().Stranger()
	if k != nil && k.Origin.Kind == knack.Bundled && why != "" {
		l.Notice(knack.Problem{Code: knack.CodeFeatureOff, Severity: knack.Warn,
			Message: "/skillify can propose no skill in this session: " + why,
			Hint:    "/new, then /skillify with what to keep: it may quote what you typed here"})
	}
	return nil
}

// live is the part in one session.
type live struct {
	*engine.Conv
	measure Measure
}

type input struct {
	Proposals []proposal `json:"proposals" jsonschema:"at most 3"`
}

type proposal struct {
	Skill    string     `json:"skill" jsonschema:"its name: a new one, or that of a skill of the user's own"`
	Why      string     `json:"why" jsonschema:"one sentence for the user: what will be better"`
	Files    []newFile  `json:"files,omitempty" jsonschema:"files that do not exist yet, such as SKILL.md of a new skill"`
	Edits    []edit     `json:"edits,omitempty" jsonschema:"exact edits of files of a skill that exists"`
	Evidence []evidence `json:"evidence" jsonschema:"1 to 5 passages that show why"`
}

type newFile struct {
	Path    string `json:"path" jsonschema:"relative to the skill's folder"`
	Content string `json:"content"`
}

type edit struct {
	Path string `json:"path" jsonschema:"relative to the skill's folder"`
	Old  string `json:"old" jsonschema:"a text that occurs once in the file"`
	New  string `json:"new" jsonschema:"what replaces it"`
}

type evidence struct {
	Session string `json:"session,omitempty" jsonschema:"its ID; left out: this session"`
	Quote   string `json:"quote" jsonschema:"what the user typed, or a call's input or result, word for word"`
}

// define returns the tool. It is for skills that name it, or with the setting skills.propose for every turn.
func define(run func(context.Context, input) (tool.Result, error), unlisted bool) tool.Tool {
	t := tool.Define(ToolName, strings.TrimSpace(description), schema,
		func(ctx context.Context, in input, _ tool.Input) (tool.Result, error) { return run(ctx, in) })
	t.Effect, t.Ordered = tool.Asks|tool.Writes, true
	t.Subjects = func(context.Context, json.RawMessage) ([]permission.Subject, error) {
		return []permission.Subject{{Kind: permission.Kind(t.Name), Default: permission.Allow}}, nil
	}
	t.Summary = tool.SummaryOf(func(in input) string {
		var names []string
		for _, p := range in.Proposals {
			names = append(names, p.Skill)
		}
		return strings.Join(names, ", ")
	})
	if unlisted {
		t.Unlisted = func() bool { return true }
	}
	return t
}

// declined is what a result says about a proposal that the user does not want. Later requests do not have the call.
const declined = "The user does not want it. Do not propose it again."

func (l live) run(ctx context.Context, in input) (tool.Result, error) {
	n := len(in.Proposals)
	switch why := l.Reads().Stranger(); {
	case !l.Interactive():
		return tool.Errorf("Nothing was written: nobody can agree to a skill here. Say in your answer what you would " +
			"have proposed."), nil
	case l.Mode() == permission.Plan:
		return tool.Errorf("Nothing was asked: in plan mode nothing is written. Put what you would propose into the " +
			"plan."), nil
	case n == 0 || n > maxProposals:
		return tool.Errorf("Nothing was asked: give 1 to %d proposals.", maxProposals), nil
	case why != "":
		return tool.Errorf("Nothing was asked: %s, and text of strangers writes no skill. Tell the user that a new "+
			"session (/new), which has not read it, can propose the same.", why), nil
	}
	var changes []*change
	for _, p := range in.Proposals {
		c, err := l.prepare(ctx, p)
		if err != nil {
			return tool.Errorf("Nothing was asked: %s: %s", plain.Line(p.Skill), err), nil
		}
		changes = append(changes, c)
	}
	var said []string
	failed := false
	for i, c := range changes {
		line, err := l.ask(ctx, c, i, n)
		if errors.Is(err, engine.ErrCannot) {
			return tool.Errorf("Nothing more was written: nobody can agree to a skill here."), nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return tool.Result{}, context.Cause(ctx)
			}
			line, failed = "It was not written: "+err.Error(), true
		}
		said = append(said, plain.Line(c.name)+": "+line)
	}
	if failed {
		return tool.Errorf("%s", strings.Join(said, "\n")), nil
	}
	return tool.Text(strings.Join(said, "\n")), nil
}

// ask shows a change to the user, and writes it after a yes. It returns what to tell the model.
func (l live) ask(ctx context.Context, c *change, i, n int) (string, error) {
	p := l.Project()
	title := "Write the skill " + plain.Line(c.name) + "?"
	if c.skill != nil {
		title = "Change the skill " + plain.Line(c.name) + "?"
	}
	if n > 1 {
		title += fmt.Sprintf(" (%d of %d)", i+1, n)
	}
	q := engine.Question{Title: title, Text: l.describe(ctx, c), Asker: engine.AskerCommand}
	for _, to := range c.places {
		q.Options = append(q.Options, engine.Option{ID: to.id, Label: to.label, Help: plain.Line(p.Short(to.dir)),
			Allow: true})
	}
	q.Options = append(q.Options, engine.Option{ID: engine.OptionNo, Label: "no"})
	a, err := l.Ask(ctx, q)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(c.places, func(to place) bool { return to.id == a.Option })
	if a.Declined || at < 0 {
		return declined, nil
	}
	to := c.places[at]
	if err := c.write(to); err != nil {
		return "", err
	}
	said := "The user agreed. It is in " + plain.Line(to.dir) + "."
	if c.version != "" {
		said += " Its version is now " + c.version + "."
	}
	if to.project {
		said += " It counts once the user approves the project's new content (/trust)."
	}
	return said, nil
}

// describe returns what the user should know before the answer, with the whole difference.
func (l live) describe(ctx context.Context, c *change) string {
	lines := []string{plain.Line(c.why), ""}
	for _, e := range c.evidence {
		lines = append(lines, plain.Line(e.whose)+": “"+plain.Line(e.quote)+"”")
	}
	if c.from != "" {
		lines = append(lines, "It was installed from "+plain.Line(c.from)+": an update replaces the change, "+
			"after showing it.")
	}
	if c.asks != "" {
		lines = append(lines, "Once written, it "+plain.Line(c.asks)+".")
	}
	if c.tried != "" {
		lines = append(lines, c.tried)
	}
	if c.cases {
		lines = append(lines, "Its tasks need a model: knack skill test "+plain.Line(c.name)+
			", before your answer and after it.")
	}
	return strings.Join(lines, "\n") + "\n\n" + plain.Text(c.diff())
}

// withoutDeclined takes what the user did not want out of the messages of a request: the calls, and those before them
// that failed, as a session in the background has made the same one before it waited for the answer.
func withoutDeclined(all []llm.Message) []llm.Message {
	no, failed := map[string]bool{}, []string(nil)
	for _, m := range all {
		for _, p := range m.Parts {
			r := p.Result
			if r == nil || r.Name != ToolName {
				continue
			}
			if failed = append(failed, r.ID); strings.Contains(llm.TextOf(r.Parts), declined) {
				for _, id := range failed {
					no[id] = true
				}
			} else if !r.IsError {
				failed = failed[:len(failed)-1]
			}
		}
	}
	if len(no) == 0 {
		return all
	}
	for i, m := range all {
		for j, p := range m.Parts {
			if p.Call == nil || p.Call.Name != ToolName || !no[p.Call.ID] {
				continue
			}
			call := *p.Call
			call.Input = json.RawMessage(`{"proposals":[]}`)
			all[i].Parts = slices.Clone(all[i].Parts)
			all[i].Parts[j].Call = &call
		}
	}
	return all
}
