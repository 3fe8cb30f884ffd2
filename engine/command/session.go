package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// sessionValue is the value of /session.
type sessionValue struct {
	ID       string          `json:"id"`
	Title    string          `json:"title,omitempty"`
	Dir      string          `json:"directory"`
	From     string          `json:"from,omitempty"`
	Model    string          `json:"model,omitempty"`
	Effort   string          `json:"effort,omitempty"`
	Mode     permission.Mode `json:"permissionMode"`
	Turns    int             `json:"turns"`
	Requests int             `json:"requests"`
	Cost     float64         `json:"costUSD"`
	Recorded bool            `json:"recorded"`
}

func showSession(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	st := s.Log().State()
	now := s.Status()
	model := now.Model
	if m, err := s.Model(ctx); err == nil {
		model = cmp.Or(st.Model, m.Info().ID)
	}
	v := sessionValue{
		ID: s.Log().ID(), Title: st.Title, Dir: s.Log().Header().Dir, From: s.Log().Header().From, Model: model,
		Effort: s.Now().Effort(),
		Mode:   s.Mode(), Turns: st.Turns, Requests: st.Requests, Cost: st.Cost, Recorded: s.Recorded(),
	}
	rows := [][2]string{
		{"id", v.ID},
		{"title", plain.Line(v.Title)},
		{"directory", plain.Line(v.Dir)},
		{"forked from", plain.Line(v.From)},
		{"model", plain.Line(v.Model)},
		{"effort", v.Effort},
		{"permissions", string(v.Mode)},
		{"so far", fmt.Sprintf("%s, %s, $%.4f", plain.Count(st.Turns, "turn"), plain.Count(st.Requests, "request"),
			st.Cost)},
	}
	if !s.Recorded() {
		rows = append(rows, [2]string{"file", "none: this session is not recorded"})
	}
	for _, text := range now.Parts {
		rows = append(rows, [2]string{"also", plain.Line(text)})
	}
	var b textLines
	for _, r := range rows {
		if r[1] != "" {
			b.add("%-12s %s", r[0], r[1])
		}
	}
	return engine.Reply{Text: b.text(), Value: v}, nil
}

func startNew(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	next, err := s.Replace(ctx, engine.Replacement{})
	if err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Text: "a new session: " + next.ID(), Next: next, Value: map[string]string{"id": next.ID()}}, nil
}

// maxResumed limits the sessions in the text of /resume. The choices contain all of them.
const maxResumed = 15

func resume(ctx context.Context, s *engine.Session, id string) (engine.Reply, error) {
	if id == "" {
		p := s.Engine().Project()
		return listSessions(s, p.Env().Sessions(p.Dir()))
	}
	next, err := s.Replace(ctx, engine.Replacement{Resume: id})
	if err != nil {
		return engine.Reply{}, err
	}
	log := next.Log()
	var b textLines
	for _, d := range log.Damage() {
		b.add("session: %s", plain.Line(d))
	}
	b.add("resumed %s, %s", log.ID(), plain.Count(log.State().Turns, "turn"))
	return engine.Reply{Text: b.text(), Next: next, Value: map[string]string{"id": log.ID()}}, nil
}

func listSessions(s *engine.Session, store session.Store) (engine.Reply, error) {
	var b textLines
	all, err := store.List()
	if err != nil {
		b.add("some sessions cannot be read: %v", err)
	}
	all = slices.DeleteFunc(all, func(x session.Summary) bool { return x.Empty() || x.ID == s.Log().ID() })
	if len(all) == 0 {
		b.add("This directory has no other sessions.")
		return engine.Reply{Text: b.text(), Value: []session.Summary{}}, nil
	}
	choices := &engine.Question{Title: "Resume which session?"}
	titles := map[string]string{}
	for _, x := range all {
		titles[x.ID] = engine.Clip(cmp.Or(x.Title, x.First), 40)
	}
	for i, x := range all {
		about, when := aboutSession(x), whenChanged(x.Changed, time.Now())
		o := engine.Option{ID: "/resume " + x.ID, Label: about, Help: when + ", " + plain.Count(x.Turns, "turn"),
			Preview: engine.Clip(x.First, 400)}
		if x.Last != "" && x.Last != x.First {
			o.Preview = engine.Clip(x.First, 180) + "\n… " + engine.Clip(x.Last, 180)
		}
		if files := filesOf(s.Engine().Project().Dir(), x.Files); files != "" {
			o.Help += ", " + files
		}
		if x.From != "" { // a branch of another session
			o.Help += ", from " + cmp.Or(titles[x.From], x.From)
		}
		choices.Options = append(choices.Options, o)
		switch {
		case i < maxResumed:
			b.add("%s  %s  %s\n    %s", x.ID, when, plain.Count(x.Turns, "turn"), about)
		case i == maxResumed:
			b.add("and %d older ones: knack session list shows them", len(all)-i)
		}
	}
	return engine.Reply{Text: b.text(), Value: all, Choices: choices}, nil
}

// aboutSession returns what a session is about: its title, or its first words and, so that sessions with the same first
// message differ, its last ones.
func aboutSession(x session.Summary) string {
	switch {
	case x.Title != "":
		return engine.Clip(x.Title, 70)
	case x.Last == "" || x.Last == x.First:
		return engine.Clip(x.First, 70)
	}
	return strings.TrimRight(engine.Clip(x.First, 34), "… ") + " … " + engine.Clip(x.Last, 30)
}

// whenChanged returns a time as somebody would say it who looks at it now.
func whenChanged(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	switch {
	case day(t) == day(now):
		return "today " + t.Format("15:04")
	case day(t) == day(now.AddDate(0, 0, -1)):
		return "yesterday " + t.Format("15:04")
	case t.Year() == now.Year():
		return t.Format("Jan 2 15:04")
	}
	return t.Format("2006-01-02")
}

// filesOf names the last file that a session used, and says how many more there are.
func filesOf(dir string, files []string) string {
	if len(files) == 0 {
		return ""
	}
	name := files[0]
	if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
		name = rel
	}
	name = plain.Line(filepath.ToSlash(name))
	if n := len(files) - 1; n > 0 {
		name += fmt.Sprintf(" +%d", n)
	}
	return name
}

func name(ctx context.Context, s *engine.Session, title string) (engine.Reply, error) {
	if title = strings.Join(strings.Fields(title), " "); title != "" {
		if err := s.Set(ctx, session.Setting{Title: title}); err != nil {
			return engine.Reply{}, err
		}
	}
	title = s.Log().State().Title
	return engine.Reply{Text: plain.Line(cmp.Or(title, "no title: /name TITLE sets one")),
		Value: map[string]string{"title": title}}, nil
}

// costValue is the value of /cost.
type costValue struct {
	Models []modelCost `json:"models"`
	Cost   float64     `json:"costUSD"`
}

// modelCost is the cost of one model, or of all sub-agents with the same name.
type modelCost struct {
	Name     string    `json:"name"`
	Requests int       `json:"requests"`
	Usage    llm.Usage `json:"usage"`
	Cost     float64   `json:"costUSD"`
}

// Cost is the reply of /cost: what the session has cost, by model.
func Cost(s *engine.Session) engine.Reply {
	by := map[string]*modelCost{}
	v := costValue{Models: []modelCost{}}
	var turns []engine.Bar         // the cost of each turn
	for e := range s.Log().All() { // of all branches, because they were all paid for
		before := v.Cost
		if e.User != nil && !e.User.Steering {
			turns = append(turns, engine.Bar{Label: engine.Clip(engine.TypedIn(e), 24)})
		}
		for spent := range session.Spending(e) {
			name := spent.Model
			if spent.Agent != "" {
				name = "agent " + spent.Agent
			}
			if by[name] == nil {
				by[name] = &modelCost{Name: name}
			}
			x := by[name]
			x.Usage.Add(spent.Usage)
			x.Requests += spent.Requests
			x.Cost += spent.Cost
			v.Cost += spent.Cost
		}
		if spent := v.Cost - before; spent > 0 {
			if len(turns) == 0 {
				turns = append(turns, engine.Bar{Label: "before the first turn"})
			}
			turns[len(turns)-1].Value += spent
		}
	}
	if len(by) == 0 {
		return engine.Reply{Command: "cost", Text: "No request has been made yet.", Value: v}
	}
	var b textLines
	for _, name := range slices.Sorted(maps.Keys(by)) {
		x := by[name]
		v.Models = append(v.Models, *x)
		b.add("%s: $%.4f, %s", plain.Line(cmp.Or(name, "unknown model")), x.Cost, plain.Count(x.Requests, "request"))
		b.add("    in %s, from cache %s, to cache %s, out %s tokens",
			plain.Number(x.Usage.Input), plain.Number(x.Usage.CacheRead), plain.Number(x.Usage.CacheWrite),
			plain.Number(x.Usage.Output))
	}
	r := engine.Reply{Command: "cost", Text: fmt.Sprintf("$%.4f in this session\n", v.Cost) + b.text(), Value: v}
	if v.Cost > 0 {
		r.Chart = costChart(turns, b.text())
		r.Chart.Title = fmt.Sprintf("$%.4f in this session, by turn", v.Cost)
	}
	return r
}

// maxTurns limits the number of bars in a chart of the cost. Earlier turns are added up in one more bar.
const maxTurns = 16

// costChart returns a chart with the cost of each of the last turns.
func costChart(turns []engine.Bar, text string) *engine.Chart {
	c := &engine.Chart{Note: text}
	if n := len(turns) - maxTurns; n > 0 {
		earlier := engine.Bar{Label: plain.Count(n, "earlier turn")}
		for _, t := range turns[:n] {
			earlier.Value += t.Value
		}
		turns = append([]engine.Bar{earlier}, turns[n:]...)
	}
	for _, t := range turns {
		t.Text = fmt.Sprintf("$%.4f", t.Value)
		c.Bars = append(c.Bars, t)
	}
	return c
}
