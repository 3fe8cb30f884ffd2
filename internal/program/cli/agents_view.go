package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	tty "github.com/knack-agent/knack/internal/program/terminal"
)

// canDraw reports whether a file is a terminal whose cursor can be moved.
func canDraw(f *os.File) bool {
	return isTerminal(f) && os.Getenv("TERM") != "dumb" && os.Getenv("KNACK_UI") != "line"
}

// goesOn reports whether a session may change, without a message to it.
func goesOn(all []background.Session) bool {
	for _, s := range all {
		if s.State.Working() || s.State == background.Waiting {
			return true
		}
	}
	return false
}

func agentRows(all []background.Session) (rows [][]string) {
	home := os.Getenv("HOME")
	for _, s := range all {
		rows = append(rows, []string{shortID(s.ID), string(s.State), s.Changed.Local().Format("01-02 15:04"),
			batch.Dollars(s.Cost), engine.Clip(fromHome(s.Dir, home), 30), engine.Clip(agentAbout(s), 70)})
	}
	return rows
}

// agentAbout says in a line what a session waits for, why it failed, or what it works on.
func agentAbout(s background.Session) string {
	switch {
	case s.State == background.Waiting:
		return "asks: " + strings.TrimSpace(s.Question.Title+" "+questionCall(s))
	case s.Error != "":
		return s.Error
	case s.Name != "":
		return s.Name
	}
	return s.Prompt
}

// questionCall describes the call about which a session asks; "": it asks about none.
func questionCall(s background.Session) string {
	q := s.Question
	if q == nil || q.Tool == "" {
		return ""
	}
	return part.KnownTools().Line(q.Tool, q.Input)
}

// followAgents shows the list on a terminal while something may change.
func followAgents(c *cobra.Command, q *local.Queue, f *os.File) error {
	ctx, stop := signals(c.Context())
	defer stop()
	theme := styled.ThemeFor(false)
	if !colors(f) {
		theme = styled.NoColor()
	}
	screen := &tty.Screen{Out: f, Theme: theme}
	for {
		all, err := background.List(ctx, q, "")
		if err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil { // the user has seen enough
			return screen.Leave()
		}
		if err := reviveHosts(q, all, io.Discard); err != nil {
			return err
		}
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			width, height = 80, 24
		}
		screen.Resize(width, height)
		lines := agentLines(all, width, height)
		if !goesOn(all) {
			if err := screen.Show(lines, nil, tty.Cursor{}); err != nil {
				return err
			}
			return screen.Leave()
		}
		if err := screen.Show(nil, lines, tty.Cursor{Row: -1}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// agentLines draws the list for a terminal.
func agentLines(all []background.Session, width, height int) (lines []styled.Line) {
	room := max(1, height-3)
	for i, s := range all {
		if i == room {
			lines = append(lines, styled.S(styled.Dim, fmt.Sprintf("and %d more", len(all)-room)))
			break
		}
		style := stateStyle(batch.State(s.State))
		if s.State == background.Running {
			style = styled.Text
		}
		rest := fmt.Sprintf(" %6s  %s", batch.Took(time.Since(s.Changed)), plain.Line(agentAbout(s)))
		lines = append(lines, styled.Line{{Text: fmt.Sprintf("%-9s", shortID(s.ID)), Style: styled.Dim},
			{Text: fmt.Sprintf("%-8s", s.State), Style: style}, {Text: styled.Cut(rest, max(10, width-18))}})
	}
	const help = "knack attach ID shows one; Ctrl-C leaves, and they go on"
	return append(lines, styled.S(styled.Dim, styled.Cut(help, width)))
}
