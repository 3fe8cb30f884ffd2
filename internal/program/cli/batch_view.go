package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	tty "github.com/knack-agent/knack/internal/program/terminal"
)

// newBatchView returns the view for the standard error of a command: a table that changes on a terminal, lines
// elsewhere. taken means that the terminal is used for results.
func newBatchView(c *cobra.Command, taken bool) batchView {
	lines := &lineView{w: c.ErrOrStderr()}
	f, ok := underlying(c.ErrOrStderr()).(*os.File)
	if !ok || taken || !isTerminal(f) || os.Getenv("TERM") == "dumb" || os.Getenv("KNACK_UI") == "line" {
		return lines
	}
	theme := styled.ThemeFor(false)
	if !colors(f) {
		theme = styled.NoColor()
	}
	return &tableView{file: f, screen: &tty.Screen{Out: f, Theme: theme}, running: map[string]*running{},
		began: time.Now()}
}

// underlying returns the file that a writer of messages writes to.
func underlying(w io.Writer) io.Writer {
	for {
		u, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}

// A lockedWriter may be used by several goroutines.
type lockedWriter struct {
	io.Writer
	mu sync.Mutex
}

func (w *lockedWriter) Unwrap() io.Writer { return w.Writer }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(p)
}

// lineView writes a line for what happens.
type lineView struct {
	w    io.Writer
	seen bool
}

func (v *lineView) begin(b batch.Batch, t batch.Totals) {
	if !v.seen {
		v.seen = true
		fmt.Fprintln(v.w, "knack:", beginLine(b, t))
	}
}

func beginLine(b batch.Batch, t batch.Totals) string {
	all := 0
	for _, n := range t.Runs {
		all += n
	}
	line := fmt.Sprintf("batch %s: %s", b.ID, plain.Count(all, "task"))
	if left := t.Left(); left < all {
		line += fmt.Sprintf(", %s to run", plain.Number(left))
	}
	line += fmt.Sprintf(", %d at a time", b.Jobs)
	return line
}

func (v *lineView) ended(r batch.Run)   { fmt.Fprintln(v.w, "knack:", endLine(r)) }
func (v *lineView) waits(r batch.Run)   { fmt.Fprintln(v.w, "knack:", waitLine(r)) }
func (v *lineView) update(batch.Totals) {}
func (v *lineView) end()                {}

func (v *lineView) event(e work.Event) {
	if e.Err != nil {
		fmt.Fprintln(v.w, "knack: warn:", plain.Line(e.Err.Error()))
	}
}

func endLine(r batch.Run) string {
	line := fmt.Sprintf("%s %s (%s, %s)", r.State, plain.Line(r.Key), batch.Took(r.Took), batch.Dollars(r.Spent.Cost))
	if r.End != nil && r.End.Error != "" {
		line += ": " + plain.Line(engine.Clip(r.End.Error, 200))
	}
	if r.End != nil && len(r.End.Ignored) > 0 {
		line += "; its worktree stays: " + plain.Line(r.End.KeptText())
	}
	return line
}

func waitLine(r batch.Run) string {
	return fmt.Sprintf("%s %s: %s", r.State, plain.Line(r.Key), plain.Line(engine.Clip(questionTitle(r), 200)))
}

// tableView shows running tasks in a table at the bottom of the terminal; what has ended goes above it.
type tableView struct {
	file    *os.File
	screen  *tty.Screen
	batch   batch.Batch
	running map[string]*running
	commit  []styled.Line
	began   time.Time
	first   int // tasks that had ended when the batch began
	seen    bool
	live    bool
}

type running struct {
	key, doing string
	since      time.Time
}

func (v *tableView) begin(b batch.Batch, t batch.Totals) {
	if v.seen {
		return
	}
	v.seen, v.batch = true, b
	for s, n := range t.Runs {
		if s.Ended() {
			v.first += n
		}
	}
	v.commit = append(v.commit, styled.S(styled.Text, beginLine(b, t)))
}

func stateStyle(s batch.State) styled.Style {
	switch s {
	case batch.Done:
		return styled.Good
	case batch.Failed, batch.Refused:
		return styled.Bad
	case batch.Waiting:
		return styled.Warn
	}
	return styled.Dim
}

func (v *tableView) ended(r batch.Run) {
	state, rest, _ := strings.Cut(endLine(r), " ")
	v.commit = append(v.commit, styled.Line{{Text: fmt.Sprintf("%-9s ", state), Style: stateStyle(r.State)}, {Text: rest}})
}

func (v *tableView) waits(r batch.Run) {
	state, rest, _ := strings.Cut(waitLine(r), " ")
	v.commit = append(v.commit, styled.Line{{Text: fmt.Sprintf("%-9s ", state), Style: styled.Warn}, {Text: rest}})
}

func (v *tableView) event(e work.Event) {
	if e.Err != nil {
		v.commit = append(v.commit, styled.S(styled.Warn, "warn: "+plain.Line(e.Err.Error())))
	}
	if e.Run == nil {
		return
	}
	r := v.running[e.Run.ID]
	switch {
	case e.Over:
		delete(v.running, e.Run.ID)
	case r == nil:
		v.running[e.Run.ID] = &running{plain.Line(e.Run.Key), e.Doing, time.Now()}
	case e.Doing != "":
		r.doing = plain.Line(e.Doing)
	}
}

func (v *tableView) update(t batch.Totals) {
	if !v.seen {
		return
	}
	width, height, err := term.GetSize(int(v.file.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	v.screen.Resize(width, height)
	v.live = true
	_ = v.screen.Show(v.commit, v.lines(t, width, height), tty.Cursor{Row: -1}) // a terminal that is gone ends the program
	v.commit = nil
}

// lines are those of the live area: a bar with totals, and the tasks that run.
func (v *tableView) lines(t batch.Totals, width, height int) []styled.Line {
	all, ended := 0, 0
	for s, n := range t.Runs {
		all += n
		if s.Ended() {
			ended += n
		}
	}
	took := time.Since(v.began)
	head := fmt.Sprintf(" %d/%d  %s  %s", ended, all, batch.Dollars(t.Spent.Cost), batch.Took(took))
	for _, s := range []batch.State{batch.Failed, batch.Refused, batch.Waiting, batch.Cancelled} {
		if n := t.Runs[s]; n > 0 {
			head += fmt.Sprintf("  %d %s", n, s)
		}
	}
	if now := ended - v.first; now > 0 && all > ended {
		head += fmt.Sprintf("  about %s left", batch.Took(took/time.Duration(now)*time.Duration(all-ended)))
	}
	const bar = 24
	full := 0
	if all > 0 {
		full = bar * ended / all
	}
	lines := []styled.Line{{{Text: strings.Repeat("█", full), Style: styled.Good},
		{Text: strings.Repeat("░", bar-full), Style: styled.Dim}, {Text: head}}}
	rows := make([]*running, 0, len(v.running))
	for _, r := range v.running {
		rows = append(rows, r)
	}
	order.Stable(rows, func(a, b *running) int {
		return cmp.Or(a.since.Compare(b.since),
			strings.Compare(a.key, b.key))
	})
	room := max(1, min(len(rows), height-4))
	name := 0
	for _, r := range rows {
		name = max(name, styled.Width(r.key))
	}
	name = min(name, max(10, width/2))
	for i, r := range rows {
		if i == room {
			lines = append(lines, styled.S(styled.Dim, fmt.Sprintf("  and %d more", len(rows)-room)))
			break
		}
		key := styled.Cut(r.key, name)
		lines = append(lines, styled.Line{{Text: "  " + key + strings.Repeat(" ", name-styled.Width(key))},
			{Text: fmt.Sprintf("  %6s  %s", batch.Took(time.Since(r.since)), r.doing), Style: styled.Dim}})
	}
	return lines
}

func (v *tableView) end() {
	if v.live {
		_ = v.screen.Show(v.commit, nil, tty.Cursor{}) // a terminal that is gone ends the program
		_ = v.screen.Leave()
		v.live = false
	}
	v.commit = nil
}
