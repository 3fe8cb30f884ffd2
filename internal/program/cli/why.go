package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/provenance"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func whyCommand() *cobra.Command {
	var f projectFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "why FILE:LINE",
		Short: "Say which session, model and skills made a line of a file",
		Long: `Say which session, model and skills made a line of a file, from git notes. They are
written if the setting git.provenance is note: then each commit that a call of a session
makes carries one, in refs/notes/knack. No commit is changed, and git pushes no notes
unless you tell it to.

A line is found again by its text after a squash or a rebase. A note that does not have
this machine's seal was written or changed by somebody else: it is named, and not
believed. The exit code is 1 if no note of this machine covers the line.`,
		Example: "  knack why main.go:12    # of a commit made with {\"git\": {\"provenance\": \"note\"}} in your settings",
		Args:    exactly(1, "knack why FILE:LINE"),
		RunE: func(c *cobra.Command, args []string) error {
			file, line, err := fileLine(args[0])
			if err != nil {
				return err
			}
			p, err := engine.Load(c.Context(), f.options())
			if err != nil {
				return err
			}
			a, err := provenance.Why(c.Context(), p, file, line)
			if err != nil {
				return fmt.Errorf("why: %w", plainPath(err))
			}
			if asJSON {
				err = writeJSON(c.OutOrStdout(), a)
			} else {
				writeWhy(c, &a)
			}
			if err != nil || a.Note != nil {
				return err
			}
			on, err := provenance.On(p)
			if err == nil && !on {
				fmt.Fprintln(c.ErrOrStderr(), "knack: hint: the setting git.provenance is off, so commits get no notes: "+
					"/settings git.provenance note")
			}
			return cmp.Or[error](err, errSilent{})
		},
	}
	f.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// fileLine splits FILE:LINE.
func fileLine(arg string) (file string, line int, err error) {
	i := strings.LastIndexByte(arg, ':')
	if i > 0 {
		line, err = strconv.Atoi(arg[i+1:])
	}
	if i <= 0 || err != nil || line < 1 {
		return "", 0, engine.Usagef("knack why main.go:12", "why: %q is not FILE:LINE", arg)
	}
	return arg[:i], line, nil
}

// promptWidth is how much of a prompt is shown, in characters.
const promptWidth = 80

func writeWhy(c *cobra.Command, a *provenance.Answer) {
	rows := [][]string{{"line", plain.Line(strings.TrimSpace(a.Text))}}
	row := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, plain.Line(text)})
		}
	}
	if a.Commit == "" {
		row("commit", "none yet")
	} else {
		row("commit", fmt.Sprintf("%.12s  %s (%s)", a.Commit, a.Subject, a.Author))
	}
	if n := a.Note; n != nil {
		if a.Found == provenance.ByText {
			row("made in", fmt.Sprintf("%.12s, which added this line; a squash, a rebase or a copy came between", n.Commit))
		}
		row("session", n.Session)
		if r := []rune(a.Prompt); len(r) > promptWidth {
			row("prompt", string(r[:promptWidth-1])+"…")
		} else {
			row("prompt", a.Prompt)
		}
		row("model", n.Model)
		for _, s := range n.Skills {
			tree := "its files could not be read"
			if s.Tree != "" {
				tree = "files " + s.Tree[:min(12, len(s.Tree))]
			}
			row("skill", s.Name+" ("+tree+")")
		}
	}
	writeTable(c.OutOrStdout(), rows)
	for _, n := range a.Forged {
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: the note of %.12s names the session %s, and does not have this machine's "+
			"seal: somebody else wrote or changed it\n", plain.Line(n.Commit), plain.Line(n.Session))
	}
	if a.Note == nil {
		fmt.Fprintln(c.ErrOrStderr(), "knack: no note of this machine covers the line")
	}
}
