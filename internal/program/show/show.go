// Package show turns calls, their results and questions into styled lines, for the front ends on a terminal.
//
// Data comes in and rows come out: nothing here writes, reads keys or keeps state. Texts from models, tools and files
// are made visible with package plain.
package show

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/models"
)

// Elapsed formats a duration: 75 s is "1m15s".
func Elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// Retry says why a request is repeated, and when: after d of its wait has passed.
func Retry(r *agent.Retrying, d time.Duration) string {
	why := plain.Line(r.Err.Error())
	var e *llm.Error
	name, rest, _ := strings.Cut(why, ": ")
	if provider, _, ok := strings.Cut(name, "/"); ok && errors.As(r.Err, &e) && rest != "" {
		switch e.Kind {
		case llm.Overloaded:
			why = models.Vendor(provider) + " is overloaded"
		case llm.RateLimit:
			why = models.Vendor(provider) + " limits the requests: " + rest
		}
	}
	why = strings.TrimRight(why, ".") + "."
	if r.Model != "" {
		return why + " Going on with " + plain.Line(r.Model) + "."
	}
	count := ""
	if r.Of > 0 {
		count = fmt.Sprintf(" (%d of %d)", r.Attempt, r.Of)
	}
	if left := r.Wait - d; left >= time.Second/2 {
		return fmt.Sprintf("%s Retrying in %d s%s", why, int((left + time.Second/2).Seconds()), count)
	}
	return why + " Retrying" + count
}

// headingCells is the maximum width of a heading. The session has the whole input.
const headingCells = 300

// Tool returns the name of a tool as people see it: that of an MCP server is "server: tool".
func Tool(name string) string {
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		name = strings.Replace(rest, "__", ": ", 1)
	}
	return plain.Line(name)
}

// Heading describes a call in one line: the tool, and its input in one line of untrusted text.
func Heading(tool, summary string) styled.Line {
	l := styled.Line{{Text: Tool(tool), Style: styled.Bold}}
	gap := " "
	if strings.HasPrefix(tool, "mcp__") { // its name has blanks
		gap = "  "
	}
	if summary != "" {
		l = append(l, styled.Span{Text: gap + plain.Line(Start(summary, headingCells))})
	}
	return l.Cut(headingCells)
}

// Start cuts s to a prefix that is long enough to fill the given number of cells.
func Start(s string, cells int) string {
	const perCell = 32 // enough for a letter with many combining marks
	if len(s) <= cells*perCell {
		return s
	}
	return strings.ToValidUTF8(s[:cells*perCell], "")
}

// Line returns one line of untrusted text as a terminal shows it: with tabs expanded, and hidden characters visible.
func Line(s string) string { return styled.Plain(s, 8) }
