package engine

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/hook"
)

// A Reply is the result of one of the program's commands: text and perhaps a table for people, and the
// same data as a value for programs. Texts may be untrusted: make control characters visible before
// showing them on a terminal.
type Reply struct {
	Command string // the name of the command
	Args    string // what was typed after it
	Text    string
	Table   *Table
	// Value is the result as data. nil: there is only Text. A command fails if its Value cannot be encoded as JSON.
	Value any
	// Choices, if not nil, offers what to type next. The ID of each option is a line such as "/resume
	// 20260131-120000-0123abcd"; if it ends in a blank, the user has to type the rest. A front end that
	// lets the user pick shows Choices.Text in place of Text.
	Choices *Question
	// Chart, if not nil, can be drawn in place of Text.
	Chart *Chart
	// Draft, if not "", is a text of the user's to change and send again: the screen puts it into the prompt.
	Draft string
	// Edit, if not "", is a file to edit: the screen opens it in the user's editor. Text names it for other front ends.
	Edit string
	// Prompt, if not "", is sent to the model as a message from the user.
	Prompt string
	// Next, if not nil, replaces the session: a [Conversation] closes this one, calls Begin on Next
	// and continues with it. A command that may run during a turn has none.
	Next *Session
	// Quit asks the front end to exit.
	Quit bool
	// Status, if not nil, is shown in the status line from now on, in place of what the hook StatusBy has shown there.
	Status   *string
	StatusBy *hook.Hook
}

// String returns the reply as text.
func (r Reply) String() string {
	var b strings.Builder
	b.WriteString(r.Text)
	if r.Table != nil {
		if r.Text != "" {
			b.WriteString("\n")
		}
		r.Table.Write(&b)
	}
	return strings.TrimRight(b.String(), "\n")
}

// A Table is rows with a heading. All rows have the same number of cells.
type Table struct {
	Columns []string   `json:"columns"` // nil: no heading
	Rows    [][]string `json:"rows"`
}

// Write writes the table in aligned columns. A cell that is much longer than the others moves only the
// rest of its own row.
func (t *Table) Write(w io.Writer) error {
	const maxWidth = 32
	rows := t.Rows
	if t.Columns != nil {
		rows = append([][]string{t.Columns}, rows...)
	}
	var width []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = min(maxWidth, max(width[i], displaywidth.String(cell)))
		}
	}
	out := bufio.NewWriter(w)
	for _, r := range rows {
		last := len(r) - 1
		for last > 0 && r[last] == "" {
			last--
		}
		for i, cell := range r[:last] {
			out.WriteString(cell)
			out.WriteString(strings.Repeat(" ", 2+max(0, width[i]-displaywidth.String(cell))))
		}
		out.WriteString(r[last] + "\n")
	}
	return out.Flush()
}

// Clip makes a text safe to print on one line, at most width characters long.
func Clip(s string, width int) string {
	if len(s) > 8*width { // more than can be shown, however it is encoded
		s = s[:8*width]
	}
	s = plain.Line(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "))
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	for i := range s {
		if width--; width == 0 {
			return s[:i] + "…"
		}
	}
	return s
}
