// Package frontmatter parts a Markdown file from the YAML at its head, and
// reads that YAML even where its author broke it.
//
// [Split] finds the fences; [Parse] makes of what stands between them ordered
// [Entry] values, one for each key, repairing what it can and saying what it
// did; [JSON] keeps a value of any shape. All are linear in their input and
// never panic. The rules are those of spec skills §1.
package frontmatter

import "bytes"

// A Fence says which fences a file has.
type Fence uint8

const (
	None     Fence = iota // no opening fence: all is body
	Unclosed              // an opening fence without a closing one: all is body
	Closed
)

// A File is a file in its parts, which share its memory.
type File struct {
	Head  []byte // the lines between the fences
	Body  []byte // what follows them
	Line  int    // the number of Head's first line, from 1
	Fence Fence
}

var bom = []byte("\ufeff")

// Split finds the fences. The opening one is the first line after a byte order
// mark and blank lines; the closing one is a line of --- at column 0 and
// blanks.
func Split(data []byte) File {
	data = bytes.TrimPrefix(data, bom)
	f := File{Body: data, Line: 1}
	rest := data
	for {
		if len(rest) == 0 {
			return f
		}
		line, after := cutLine(rest)
		rest = after
		f.Line++
		if fence(line) {
			break
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return f
		}
	}
	f.Fence = Unclosed
	for at := 0; at < len(rest); {
		line, after := cutLine(rest[at:])
		if fence(line) {
			f.Head, f.Body, f.Fence = rest[:at], after, Closed
			return f
		}
		at = len(rest) - len(after)
	}
	return f
}

func fence(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && len(bytes.Trim(rest, " \t\r")) == 0
}

// cutLine returns the first line without its \n, and what follows.
func cutLine(b []byte) (line, after []byte) {
	line, after, _ = bytes.Cut(b, []byte("\n"))
	return line, after
}
