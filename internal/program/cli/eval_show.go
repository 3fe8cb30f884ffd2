package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/format"
	"github.com/knack-agent/knack/eval/report"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/sources"
)

// print prints the results, and fails if a limit was not kept. partial means that there is another error.
func (f *evalFlags) print(c *cobra.Command, r *eval.Results, partial bool) error {
	if f.asJSON {
		if err := writeJSON(c.OutOrStdout(), r); err != nil {
			return err
		}
	} else if err := report.Text(c.OutOrStdout(), r); err != nil {
		return err
	}
	if f.write != "" {
		if err := f.writeAll(c, r); err != nil {
			return err
		}
	}
	if partial {
		return nil
	}
	return failures(c, r)
}

// failures prints what failed, and returns the error that ends the program; nil: nothing has.
func failures(c *cobra.Command, r *eval.Results) error {
	if len(r.Failed) == 0 {
		return nil
	}
	for _, s := range r.Failed {
		fmt.Fprintf(c.ErrOrStderr(), "knack: failed: %s\n", plain.Line(s))
	}
	return &engine.Error{Err: errors.New(""), Exit: engine.ExitFailed}
}

// writeAll writes the reports to the directory of --write.
func (f *evalFlags) writeAll(c *cobra.Command, r *eval.Results) error {
	base := sources.Root(".")
	if err := outfile.Mkdir(base, f.write, 0o777); err != nil {
		return fmt.Errorf("--write: %w", plainPath(err))
	}
	for _, file := range format.Files(r) {
		name := filepath.Join(f.write, filepath.FromSlash(file.Name))
		err := outfile.Mkdir(base, filepath.Dir(name), 0o777)
		if err == nil {
			err = outfile.Save(base, name, 0o666, true, file.Write)
		}
		if err != nil {
			return fmt.Errorf("--write: %w", plainPath(err))
		}
	}
	fmt.Fprintf(c.ErrOrStderr(), "knack: reports are in %s (%s)\n", plain.Line(f.write),
		plain.Line(filepath.Join(f.write, format.Page)))
	return nil
}

// An evalLine shows on a terminal how far a run is.
type evalLine struct {
	w     io.Writer // nil: nobody looks
	skill string
	began time.Time
	width int
}

func newEvalLine(c *cobra.Command, skill string) *evalLine {
	l := &evalLine{skill: skill, began: time.Now()}
	if f, ok := underlying(c.ErrOrStderr()).(*os.File); ok && isTerminal(f) && os.Getenv("TERM") != "dumb" {
		l.w = f
	}
	return l
}

func (l *evalLine) show(p eval.Progress) {
	if l.w == nil {
		return
	}
	text := fmt.Sprintf("%s: %d of %d done", plain.Line(l.skill), p.Done, p.Total)
	if p.Spent.USD > 0 {
		text += fmt.Sprintf(", $%.2f", p.Spent.USD)
	}
	if ran := p.Done - p.Resumed; ran > 0 && p.Done < p.Total {
		left := time.Since(l.began) / time.Duration(ran) * time.Duration(p.Total-p.Done)
		text += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	fmt.Fprintf(l.w, "\r%s%s", text, strings.Repeat(" ", max(0, l.width-len(text))))
	l.width = len(text)
}

// end removes the line.
func (l *evalLine) end() {
	if l.w != nil && l.width > 0 {
		fmt.Fprintf(l.w, "\r%s\r", strings.Repeat(" ", l.width))
	}
}
