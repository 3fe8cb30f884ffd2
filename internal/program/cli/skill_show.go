package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func skillShowCommand() *cobra.Command {
	var f projectFlags
	var asJSON, body bool
	var expanded string
	c := &cobra.Command{
		Use:   "show NAME|PATH",
		Short: "Show one skill, found by its name or read from a path",
		Long: `Show one skill: its description, its source, the permissions it asks for and its
problems. A PATH is a SKILL.md, another .md file, or a skill's directory, which may
be anywhere.

Nothing in the skill is run: inline commands stay as they are, even with --expanded.`,
		Example: `  knack skill show pdf
  knack skill show ./my-skill --json
  knack skill show pdf --expanded "report.pdf --pages 3"`,
		Args: exactly(1, "knack skill show NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, out := c.Context(), c.OutOrStdout()
			cat, err := f.load(ctx)
			if err != nil {
				return err
			}
			e, cat, err := findSkill(ctx, cat, args[0])
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				j := cat.Info(ctx, e, true)
				if c.Flags().Changed("expanded") {
					text, err := expandedText(ctx, e, cat.View, expanded)
					if err != nil {
						return err
					}
					return writeJSON(out, struct {
						command.SkillInfo
						Expanded string `json:"expanded"`
					}{j, text})
				}
				return writeJSON(out, j)
			case c.Flags().Changed("expanded"):
				text, err := expandedText(ctx, e, cat.View, expanded)
				if err != nil {
					return err
				}
				fmt.Fprintln(out, plain.Text(text))
				return noteCommands(ctx, c.ErrOrStderr(), e.Skill)
			case body:
				if e.Skill == nil {
					return brokenSkill(cat, e)
				}
				text, err := command.ShownSkill(e.Skill).Body(ctx)
				if err != nil {
					return err
				}
				fmt.Fprint(out, plain.Text(text))
				return nil
			}
			showSkill(out, cat.Project, cat.Info(ctx, e, true), e)
			return nil
		},
	}
	c.ValidArgsFunction = f.completeSkill
	f.register(c)
	f.registerView(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print an object")
	c.Flags().BoolVar(&body, "body", false, "print only the text, unchanged")
	c.Flags().StringVar(&expanded, "expanded", "", "print what the model would get if the skill were called with `ARGS`")
	return c
}

// findSkill finds a skill by name or path, and returns it with the catalogue that contains it.
func findSkill(ctx context.Context, cat *command.Skills, arg string) (knack.Candidate, *command.Skills, error) {
	if !isPath(arg) {
		if w := cat.Why(arg, cat.View); len(w.Found) > 0 {
			return w.Found[0].Candidate, cat, nil
		} else if _, err := os.Stat(arg); err != nil {
			hint := "knack skill list"
			if len(w.Near) > 0 {
				hint = "knack skill show " + plain.Line(w.Near[0])
			}
			return knack.Candidate{}, nil, &engine.Error{Err: fmt.Errorf("there is no skill %q", arg), Hint: hint}
		}
	}
	path, err := filepath.Abs(arg)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return knack.Candidate{}, nil, &engine.Error{Err: fmt.Errorf("%s: no such file or directory", plain.Line(arg)),
			Hint: "knack skill list"}
	}
	id := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		id = real
	}
	for _, e := range cat.Candidates() { // prefer the entry of the catalog, which has a state
		if s := e.Skill; s != nil && s.ID != "" && (s.ID == id || filepath.Dir(s.ID) == id &&
			strings.EqualFold(filepath.Base(s.ID), "SKILL.md")) {
			return e, cat, nil
		}
	}
	only := knack.Load(ctx, knack.Dir(path, knack.Origin{Kind: knack.Explicit, Trust: knack.Trusted, Dir: cat.View.Dir}))
	switch entries := only.Candidates(); {
	case len(entries) == 1:
		return entries[0], &command.Skills{Catalog: only, Project: cat.Project, View: cat.View, All: only.Problems(),
			Used: cat.Used}, nil
	case len(entries) > 1:
		return knack.Candidate{}, nil, &engine.Error{Err: fmt.Errorf("%s contains %d skills", plain.Line(arg), len(entries)),
			Hint: "knack skill list --skill " + plain.Line(arg)}
	}
	return knack.Candidate{}, nil, &engine.Error{Err: fmt.Errorf("%s: there is no SKILL.md", plain.Line(arg)),
		Hint: "knack skill new NAME"}
}

func isPath(arg string) bool {
	return strings.HasPrefix(arg, ".") || strings.HasPrefix(arg, "~") || filepath.IsAbs(arg) ||
		strings.HasSuffix(strings.ToLower(arg), ".md")
}

// expandedText returns the text that the model would get when it invokes the skill. It ignores
// other skills that shadow this one.
func expandedText(ctx context.Context, e knack.Candidate, v knack.View, args string) (string, error) {
	if e.Skill == nil {
		return "", errors.New("a broken skill has no text")
	}
	s := *command.ShownSkill(e.Skill)
	// The text is only shown to the user: conditions and overrides do not apply.
	s.FeatureOff, s.Paths = "", nil
	v.Overrides = nil
	in := knack.Invocation{Name: s.Name, Args: args, View: v, Preview: true}
	if s.Origin.Trust == knack.Untrusted {
		s.Origin.Trust = knack.Trusted
	}
	a, err := knack.Load(ctx, singleSource{&s}).Invoke(ctx, in)
	if err != nil {
		return "", err
	}
	return a.Prompt, nil
}

// noteCommands says that the commands in a skill's text were not run.
func noteCommands(ctx context.Context, w io.Writer, s *knack.Skill) error {
	if s.Prompt != nil || s.Origin.Kind == knack.MCP {
		return nil
	}
	body, err := command.ShownSkill(s).Body(ctx)
	if err != nil {
		return err
	}
	switch n := len(knack.InlineCommands(body)); n {
	case 0:
	case 1:
		_, err = fmt.Fprintln(w, "knack: info: the text has a command that was not run: it runs when the skill is called")
	default:
		_, err = fmt.Fprintf(w, "knack: info: the text has %d commands that were not run: they run when the skill is "+
			"called\n", n)
	}
	return err
}

func brokenSkill(cat *command.Skills, e knack.Candidate) error {
	for _, p := range cat.All {
		if p.Path == e.Path {
			return &engine.Error{Err: p, Hint: p.Hint}
		}
	}
	return fmt.Errorf("%s could not be loaded", plain.Line(e.Path))
}

func showSkill(w io.Writer, p *engine.Project, j command.SkillInfo, e knack.Candidate) {
	row := func(key, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-13s %s\n", key, value)
		}
	}
	row("name", plain.Line(j.CommandName))
	if j.Name != j.CommandName {
		row("label", plain.Line(j.Name))
	}
	row("state", string(j.State))
	if j.LastUsed != nil {
		row("used", fmt.Sprintf("%d times, last %s", j.Uses, j.LastUsed.Local().Format(time.DateTime)))
	}
	row("source", engine.SourceName(e.Origin)+" ("+j.Origin.Trust+")")
	row("path", plain.Line(p.Short(j.Path)))
	if j.Origin.ID != j.Path {
		row("real path", plain.Line(j.Origin.ID))
	}
	row("description", plain.Line(strings.Join(strings.Fields(j.Description), " ")))
	row("when to use", plain.Line(j.WhenToUse))
	if s := e.Skill; s != nil {
		row("tokens", fmt.Sprintf("%d in the listing, %d of text", j.Tokens.Listing, j.Tokens.Body))
		row("aliases", plain.Line(strings.Join(s.Aliases, ", ")))
		row("arguments", plain.Line(strings.TrimSpace(strings.Join(s.Arguments, " ")+" "+oneLine(s.ArgumentHint))))
		row("waits for", plain.Line(strings.Join(s.Paths, ", ")))
		for _, a := range p.Asks(s) {
			row("asks for", a)
		}
		for _, f := range j.Fields {
			switch f.Key {
			case "license", "compatibility", "metadata", "version", "author":
				var text string
				if json.Unmarshal(f.Value, &text) != nil {
					text = string(f.Value)
				}
				row(f.Key, plain.Line(oneLine(text)))
			}
		}
	}
	for i, r := range j.Resources {
		if i == 20 {
			row("file", fmt.Sprintf("and %d more", len(j.Resources)-i))
			break
		}
		row("file", plain.Line(r))
	}
	for _, x := range j.Problems {
		row(string(x.Severity), p.ShortProblem(x)+" ["+string(x.Code)+"]")
		if x.Hint != "" {
			row("hint", plain.Line(x.Hint))
		}
	}
}

// oneLine replaces line breaks, which a value in quotes may have, by blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
