package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/session"
)

// one is a Source of one skill.
type one struct{ skill *knack.Skill }

func (o one) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) { yield(o.skill, nil) }
}

// whyJSON is the answer of skill why.
type whyJSON struct {
	Name   string        `json:"name"`
	Found  []findingJSON `json:"found"`
	Near   []string      `json:"near"`
	Looked []placeJSON   `json:"looked"`
	Events []happening   `json:"events,omitempty"` // with --session
}

type findingJSON struct {
	skillJSON
	As     string   `json:"as"`
	Reason string   `json:"reason"`
	Winner string   `json:"winner,omitempty"`
	Cut    string   `json:"cut,omitempty"`
	Asks   []string `json:"asks"`
}

type placeJSON struct {
	Kind    knack.Kind `json:"kind"`
	Label   string     `json:"label,omitempty"`
	Path    string     `json:"path,omitempty"`
	Trust   string     `json:"trust"`
	Missing bool       `json:"missing"`
	Skills  int        `json:"skills"`
}

func skillWhyCommand() *cobra.Command {
	var f resourceFlags
	var asJSON bool
	var id string
	c := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why a skill is there, or is not",
		Long: `Say why a skill is there, or is not: every place looked at, what was found under
the name, which one is used and why the others are not, trust, conditions and
overrides, what the model sees of it and what was cut, and what activating it
would grant. With --session also when it was offered, called, refused and released
there; a skill that waits for files counts what was touched in that session.`,
		Example: `  knack skill why pdf
  knack skill why pdf --session 20260131
  knack skill why pdf --json`,
		Args: exactly(1, "knack skill why NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			cat, err := f.load(c.Context())
			if err != nil {
				return err
			}
			var log *session.Log
			if id != "" {
				dir, err := os.Getwd()
				if err != nil {
					return err
				}
				if log, err = engine.Env(nil).Sessions(dir).Read(id); err != nil {
					return &engine.Error{Err: err, Hint: "knack session list"}
				}
				defer log.Close()
				cat.view.Touched = touched(log)
			}
			w := cat.why(args[0])
			if asJSON {
				j := newWhyJSON(c.Context(), cat, w)
				if log != nil {
					j.Events = chronicle(log, w.Called())
				}
				return writeJSON(c.OutOrStdout(), j)
			}
			printWhy(c.OutOrStdout(), cat, w)
			if log != nil {
				printChronicle(c.OutOrStdout(), log, w)
			}
			return nil
		},
	}
	c.ValidArgsFunction = f.completeSkill
	f.register(c)
	f.registerView(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print an object")
	c.Flags().StringVar(&id, "session", "", "also what became of it in the session of that `ID`")
	return c
}

// why is Catalog.Why, with the problems that settings make.
func (c *catalogView) why(name string) knack.Why {
	w := c.Why(name, c.view)
	w.Problems = nil
	for _, p := range c.all {
		if slices.ContainsFunc(w.Found, func(f knack.Finding) bool { return f.Path == p.Path && p.Path != "" }) {
			w.Problems = append(w.Problems, p)
		}
	}
	return w
}

func newWhyJSON(ctx context.Context, cat *catalogView, w knack.Why) whyJSON {
	j := whyJSON{Name: w.Name, Found: []findingJSON{}, Near: append([]string{}, w.Near...), Looked: []placeJSON{}}
	for _, f := range w.Found {
		fj := findingJSON{skillJSON: cat.json(ctx, f.Entry, false), As: f.As, Reason: f.Reason, Asks: []string{}}
		if f.Winner != nil {
			fj.Winner = f.Winner.Path
		}
		if f.Line != nil {
			fj.Cut = string(f.Line.Cut)
		}
		if f.Skill != nil {
			fj.Asks = append(fj.Asks, cat.asks(f.Skill)...)
		}
		j.Found = append(j.Found, fj)
	}
	for _, p := range w.Places {
		j.Looked = append(j.Looked, placeJSON{p.Kind, p.Label, p.Path, trustName(p.Trust), p.Missing, p.Skills})
	}
	return j
}

func printWhy(w io.Writer, cat *catalogView, why knack.Why) {
	name := plain.Line(why.Name)
	switch n := len(why.Found); {
	case n == 0:
		fmt.Fprintf(w, "No skill is called %s.", name)
		if len(why.Near) > 0 {
			fmt.Fprintf(w, " Did you mean %s?", plain.Line(strings.Join(why.Near, ", ")))
		}
		fmt.Fprintln(w)
	case n > 1:
		fmt.Fprintf(w, "%d skills could be meant by %s.\n", n, name)
	}
	for _, f := range why.Found {
		fmt.Fprintf(w, "\n%s  %s, %s", plain.Line(f.Name()), source(f.Origin), f.State)
		if f.As != "name" {
			fmt.Fprintf(w, " (%s is its %s)", name, map[string]string{"alias": "alias", "label": "label", "part": "last part", "path": "path"}[f.As])
		}
		fmt.Fprintf(w, "\n  file       %s\n  because    %s\n", plain.Line(shown(f.Path)), plain.Line(shownIn(f.Reason)))
		if f.Skill == nil || f.Winner != nil {
			continue
		}
		switch l := f.Line; {
		case l == nil:
			fmt.Fprintln(w, "  the model  sees nothing of it")
		case l.Cut == knack.CutOmitted:
			fmt.Fprintln(w, "  the model  sees it only with find: there are more than 2,000 skills")
		case l.Cut == knack.Whole:
			fmt.Fprintf(w, "  the model  sees %s\n", plain.Line(l.Text))
		default:
			fmt.Fprintf(w, "  the model  sees %d of %d characters (%s): %s\n", l.Chars, l.Full, cutReason(l.Cut), plain.Line(l.Text))
		}
		for _, a := range cat.asks(f.Skill) {
			fmt.Fprintf(w, "  asks for   %s\n", a)
		}
	}
	if len(why.Problems) > 0 {
		fmt.Fprintln(w, "\nProblems:")
		for _, p := range why.Problems {
			fmt.Fprintf(w, "  %s: %s\n", p.Severity, shownProblem(p))
			if p.Hint != "" && p.Hint != "knack skill why "+why.Called() { // this is it
				fmt.Fprintf(w, "    hint: %s\n", plain.Line(p.Hint))
			}
		}
	}
	fmt.Fprintln(w, "\nLooked in, the first of a name wins:")
	for _, p := range why.Places {
		what := fmt.Sprintf("%d skills", p.Skills)
		switch {
		case p.Missing:
			what = "not there"
		case p.Skills == 1:
			what = "1 skill"
		}
		if p.Trust != knack.Trusted && p.Skills > 0 {
			what += ", " + trustName(p.Trust)
		}
		path := p.Path
		if path == "" {
			path = "(" + cmp.Or(p.Label, "in the program") + ")"
		}
		fmt.Fprintf(w, "  %-14s %s: %s\n", p.Kind, plain.Line(shown(path)), what)
	}
}

func cutReason(c knack.Cut) string {
	return map[knack.Cut]string{
		knack.CutEntry:    "longer than an entry may be",
		knack.CutShare:    "an even share of the budget",
		knack.CutFloor:    "60 characters: the budget is short",
		knack.CutText:     "name only: the budget is used up",
		knack.CutOverride: "name only, by skills.overrides",
		knack.CutOmitted:  "not listed: there are more than 2,000 skills",
	}[c]
}
