package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/tool"
)

// skillValue is a skill in a list.
type skillValue struct {
	Name        string           `json:"name"`
	Kind        knack.SourceKind `json:"kind"`
	State       knack.SkillState `json:"state"`
	Description string           `json:"description,omitempty"`
	Path        string           `json:"path,omitempty"`
}

func newSkillValue(c knack.Candidate, state knack.SkillState) skillValue {
	v := skillValue{Name: c.Name(), Kind: c.Origin.Kind, State: state, Path: c.Path}
	if c.Skill != nil {
		v.Description = c.Skill.Summary()
	}
	return v
}

// maxListed is the maximum number of skills that a search with /skills shows.
const maxListed = 20

// maxDescription is how many characters of a skill's description a list shows.
const maxDescription = 100

// listSkills lists all skills, or those that match words, best match first.
func listSkills(ctx context.Context, s *engine.Session, words string) (engine.Reply, error) {
	cat, view := s.Catalog(), s.Now().View()
	entries, none := ownFirst(cat.Candidates()), "There are no skills here."
	if words = strings.TrimSpace(words); words != "" {
		found, err := s.Engine().Finder().Find(ctx, cat, words, maxListed, nil)
		if err != nil {
			return engine.Reply{}, err
		}
		of := make(map[*knack.Skill]knack.Candidate, len(entries))
		for _, e := range entries {
			of[e.Skill] = e
		}
		entries, none = nil, "No skill matches these words."
		for _, m := range found {
			entries = append(entries, of[m.Skill])
		}
	}
	var b textLines
	v := []skillValue{}
	choices := &engine.Question{Title: "Which skill?", Again: strings.TrimSpace("/skills " + words)}
	for _, e := range entries {
		state := cat.State(e, view)
		x := newSkillValue(e, state)
		v = append(v, x)
		choose(choices, "/skill "+x.Name, x.Name, skillHelp(e, state))
		choices.Options[len(choices.Options)-1].Switch = switchSkill(x.Name, state)
		b.add("%-24s %-12s %-12s %s", plain.Line(x.Name), x.Kind, state, engine.Clip(x.Description, maxDescription))
	}
	return engine.Reply{Text: cmp.Or(b.text(), none), Value: v, Choices: choices}, nil
}

// ownFirst returns skills with those of the user and of the project before those that came with something.
func ownFirst(all []knack.Candidate) []knack.Candidate {
	came := func(c knack.Candidate) int {
		switch c.Origin.Kind {
		case knack.Bundled, knack.BuiltinPlugin:
			return 1
		}
		return 0
	}
	return order.Sorted(all, func(a, b knack.Candidate) int { return came(a) - came(b) })
}

// whyValue explains why a skill is available or not. Its members have the names that `knack skill why
// --json` uses.
type whyValue struct {
	Name      string             `json:"name"`
	Found     []findingValue     `json:"found"`
	Near      []string           `json:"near"`
	Locations []SearchedLocation `json:"locations"`
	Events    []HistoryEvent     `json:"events"`
}

type findingValue struct {
	skillValue
	FindingReason
}

// A FindingReason is what a [knack.Finding] says about its skill, as JSON.
type FindingReason struct {
	As     string   `json:"as"`
	Reason string   `json:"reason"`
	Winner string   `json:"winner,omitempty"`
	Cut    string   `json:"cut,omitempty"`
	Asks   []string `json:"asks"`
}

// A SearchedLocation is a [knack.Location] as JSON.
type SearchedLocation struct {
	Kind    knack.SourceKind `json:"kind"`
	Label   string           `json:"label,omitempty"`
	Path    string           `json:"path,omitempty"`
	Trust   string           `json:"trust"`
	Missing bool             `json:"missing"`
	Skills  int              `json:"skills"`
	Unasked string           `json:"unasked,omitempty"` // why it was not searched
}

// SearchedLocations returns the locations of w; none is an empty slice.
func SearchedLocations(w knack.Why) []SearchedLocation {
	out := make([]SearchedLocation, len(w.Locations))
	for i, l := range w.Locations {
		out[i] = SearchedLocation{l.Kind, l.Label, l.Path, engine.TrustName(l.Trust), l.Missing, l.Skills, l.Unasked}
	}
	return out
}

// NewFindingReason returns what f says about its skill.
func NewFindingReason(p *engine.Project, f knack.Finding) FindingReason {
	x := FindingReason{As: f.As, Reason: f.Reason, Asks: []string{}}
	if f.Winner != nil {
		x.Winner = f.Winner.Path
	}
	if f.Line != nil {
		x.Cut = string(f.Line.Cut)
	}
	if f.Skill != nil {
		x.Asks = append(x.Asks, p.Asks(f.Skill)...)
	}
	return x
}

func newWhyValue(p *engine.Project, w knack.Why, events []HistoryEvent) whyValue {
	v := whyValue{Name: w.Name, Found: []findingValue{}, Near: append([]string{}, w.Near...),
		Locations: SearchedLocations(w), Events: events}
	for _, f := range w.Found {
		v.Found = append(v.Found, findingValue{newSkillValue(f.Candidate, f.State), NewFindingReason(p, f)})
	}
	return v
}

func why(ctx context.Context, s *engine.Session, name string) (engine.Reply, error) {
	if name == "" && s.Interactive() {
		r, err := listSkills(ctx, s, "")
		if err != nil {
			return engine.Reply{}, err
		}
		r.Choices.Title = "Explain which skill?"
		for i := range r.Choices.Options {
			o := &r.Choices.Options[i]
			o.ID = "/why " + o.Label
		}
		return r, nil
	}
	if name == "" {
		return engine.Reply{}, &engine.Error{Err: errors.New("/why needs the name of a skill"), Hint: "/skills lists them",
			Exit: engine.ExitUsage}
	}
	p, cat := s.Engine().Project(), s.Catalog()
	view := p.View()
	if m, err := s.Model(ctx); err == nil {
		view.Window = m.Info().Window
	}
	view.Touched = Touched(s.Log())
	w := p.Why(ctx, cat, view, name)
	for i := range w.Found {
		f := &w.Found[i]
		if f.Skill == nil || f.State == knack.NotTrusted || f.Winner != nil {
			continue
		}
		if err := p.VerifySkill(f.Skill); err != nil {
			f.State, f.Reason, f.Line = knack.NotTrusted, "a call would be refused: "+err.Error(), nil
		}
	}
	var b strings.Builder
	p.WriteWhy(&b, w)
	if t, ok := s.Now().Tool(name); ok && len(w.Found) == 0 && t.Origin != "" {
		b.WriteString("\nIn this session: " + engine.WhyTool(tool.Set{*t}, nil, name) + "\n")
	}
	WriteHistory(&b, s.Log(), w)
	return engine.Reply{Text: strings.TrimRight(b.String(), "\n"), Value: newWhyValue(p, w, History(s.Log(),
		w.Called()))}, nil
}

func release(_ context.Context, s *engine.Session, name string) (engine.Reply, error) {
	var b textLines
	if name == "" {
		texts := s.Log().State().Texts
		v := map[string]int{}
		choices := &engine.Question{Title: "Release which skill's text?"}
		for _, t := range texts {
			v[t.Skill] += t.Tokens
			b.add("%-24s %d tokens", plain.Line(t.Skill), t.Tokens)
			choices.Options = append(choices.Options, engine.Option{ID: "/release " + t.Skill, Label: t.Skill})
		}
		if len(texts) == 0 {
			b.add("No skill's text is in the conversation.")
		}
		return engine.Reply{Text: b.text(), Value: v, Choices: choices}, nil
	}
	done, err := agent.ReleaseByHand(s.Log(), name, "by hand")
	for _, r := range done {
		b.add("%s", plain.Line(r.Line()))
	}
	if err == nil && len(done) == 0 {
		err = fmt.Errorf("the text of the skill %q is not in the conversation", name)
	}
	return engine.Reply{Text: b.text(), Value: done}, err
}

// agentValue is an agent in a list.
type agentValue struct {
	Name     string           `json:"name"`
	Kind     knack.SourceKind `json:"kind"`
	Model    string           `json:"model,omitempty"`
	Tools    []string         `json:"tools"` // null: all
	Shadowed bool             `json:"shadowed,omitempty"`
	Working  int              `json:"working"`
	Path     string           `json:"path,omitempty"`
}

func agentsEffect(_ permission.Mode, args string) engine.Effect {
	if strings.HasPrefix(args, "stop ") {
		return engine.Changes
	}
	return engine.Shows
}

// listAgents lists all agents, and those that are running. With the id of a running agent or of a
// background command it shows the end of its output, or stops it.
func listAgents(_ context.Context, s *engine.Session, args string) (engine.Reply, error) {
	if id, ok := strings.CutPrefix(args, "stop "); ok {
		id = strings.TrimSpace(id)
		if err := s.StopTask(id); err != nil {
			return engine.Reply{}, &engine.Error{Err: err, Hint: "/agents lists what runs"}
		}
		return engine.Reply{Text: "stopped: " + plain.Line(id)}, nil
	}
	if args != "" {
		return showTask(s, strings.TrimSpace(args))
	}
	p := s.Engine().Project()
	table := &engine.Table{Columns: []string{"NAME", "SOURCE", "MODEL", "TOOLS", "STATE", "FILE"}}
	known := map[string]bool{}
	working, st := map[string]int{}, s.Status()
	for _, a := range st.Agents {
		if a.Reason == "" {
			working[a.Name]++
		}
	}
	v, describe := []agentValue{}, map[string]string{}
	for _, d := range slices.Concat(s.Host().Agents, p.Agents()) {
		x := agentValue{Name: d.Name, Kind: d.Origin, Model: d.Model, Tools: d.Tools, Shadowed: known[d.Name],
			Working: working[d.Name], Path: d.Path}
		state := "active"
		switch {
		case x.Shadowed:
			state, x.Working = "shadowed", 0
		case x.Working > 0:
			state = fmt.Sprintf("%d working", x.Working)
		}
		if !known[d.Name] {
			describe[d.Name] = d.Description
		}
		known[d.Name] = true
		v = append(v, x)
		tools := "all"
		if d.Tools != nil {
			tools = cmp.Or(strings.Join(d.Tools, ", "), "none")
		}
		if len(d.DisallowedTools) > 0 {
			tools += " but " + strings.Join(d.DisallowedTools, ", ")
		}
		table.Rows = append(table.Rows, []string{plain.Line(d.Name), string(d.Origin), plain.Line(cmp.Or(d.Model,
			"inherit")),
			engine.Clip(tools, 60), state, plain.Line(p.Short(d.Path))})
	}
	r := engine.Reply{Table: table, Value: v, Choices: agentChoices(v, describe)}
	if tasks := tasksOf(st); len(tasks) > 0 {
		var b textLines
		for _, o := range tasks {
			b.add("%s  %s", o.ID, plain.Line(o.Label))
		}
		r.Text = b.text()
		r.Choices.Title = "Agents and background commands"
		r.Choices.Options = append(tasks, r.Choices.Options...)
	}
	return r, nil
}

// tasksOf offers the agents and commands that run in the background.
func tasksOf(st engine.Status) []engine.Option {
	var q engine.Question
	for _, a := range st.Agents {
		if a.Reason == "" {
			choose(&q, "/agents "+a.Log, "agent "+a.Name, a.Task)
		}
	}
	for _, j := range st.Jobs {
		if j.Running {
			choose(&q, "/agents "+j.ID, "command "+j.ID, strings.Join(strings.Fields(j.Line), " "))
		}
	}
	return q.Options
}

// taskBytes and taskLines limit how much of a task's output is shown.
const (
	taskBytes = 8 << 10
	taskLines = 20
)

// showTask shows the end of a task's output and offers to stop the task.
func showTask(s *engine.Session, id string) (engine.Reply, error) {
	text, _, err := s.TaskOutput(id, taskBytes)
	if err != nil {
		return engine.Reply{}, &engine.Error{Err: err, Hint: "/agents lists what runs"}
	}
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	text = cmp.Or(strings.Join(all[max(0, len(all)-taskLines):], "\n"), "no output yet")
	r := engine.Reply{Text: text}
	for _, o := range tasksOf(s.Status()) {
		if o.ID == "/agents "+id {
			r.Choices = &engine.Question{Title: o.Label + ": " + o.Help, Text: text}
			choose(r.Choices, "/agents stop "+id, "stop it", "")
			choose(r.Choices, o.ID, "show its output again", "")
		}
	}
	return r, nil
}

// hookValue is a hook in a list.
type hookValue struct {
	Event   hook.Event `json:"event"`
	Matcher string     `json:"matcher"`
	Type    hook.Type  `json:"type"`
	Runs    string     `json:"runs"`
	Place   string     `json:"place"`
	State   []string   `json:"state"`
}

func listHooks(_ context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	v := []hookValue{}
	p := s.Engine().Project()
	for _, h := range s.Now().Hooks() {
		v = append(v, hookValue{h.Event, h.Matcher, h.Type, h.String(), h.DefinedIn, h.State()})
	}
	if len(v) == 0 {
		return engine.Reply{Text: "No hooks are active. knack help hooks explains how to write one.", Value: v}, nil
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, h := range v {
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\n", h.Event, plain.Line(cmp.Or(h.Matcher, "*")), h.Type, plain.Line(h.Runs),
			plain.Line(p.ShortIn(h.Place)), strings.Join(h.State, ", "))
	}
	w.Flush()
	rows := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return engine.Reply{Text: strings.Join(rows, "\n"), Value: v}, nil
}
