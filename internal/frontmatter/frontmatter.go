// Package frontmatter separates the YAML at the head of a Markdown file from
// the text below it, and reads that YAML even where its author broke it.
//
// [Split] finds the fences; [Parse] turns the lines between them into ordered
// [Pair] values, one for each key, repairing what it can and noting each
// repair; [JSON] keeps a value of any shape. All are linear in their input and
// never panic.
package frontmatter

import "bytes"

// A Fence says which fences a file has.
type Fence uint8

const (
	None     Fence = iota // no opening fence: all is body
	Unclosed              // an opening fence without a closing one: all is body
	Closed
)

// A File is a file in its parts, which share its memory unless something was
// repaired.
type File struct {
	Head  []byte // the lines between the fences
	Body  []byte // the text: what follows them, and what precedes them
	Line  int    // the number of Head's first line, from 1
	Fence Fence
	Notes []Problem // about the fences; all are Repaired
}

var bom = []byte("\ufeff")

// Bounds of what is searched for a fence that is not where it belongs.
const (
	maxBefore      = 2 << 10 // bytes of text before the frontmatter
	maxLinesBefore = 12      // that are not blank
	maxConflict    = 4 << 10 // bytes in which a merge conflict must begin
)

// Split finds the fences. The opening one is the first line after a byte order
// mark and blank lines; the closing one is a line of --- at column 0 and
// blanks. Where there are no such lines, it accepts what authors and their
// tools get wrong, and adds a Problem: text attached to a fence, a whole file
// inside a Markdown fence, text or a comment before the frontmatter, the
// markers of a merge conflict. A file whose lines end with CR alone is read as
// if they ended with LF.
func Split(data []byte) File {
	data = bytes.TrimPrefix(data, bom)
	cr := bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') >= 0
	if cr {
		data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	}
	f := locate(data)
	limit := len(f.Head)
	if f.Fence != Closed {
		limit = maxConflict
	}
	if line, clean := withoutConflict(data, limit); line > 0 {
		f = locate(clean)
		f.note(line, "decide which version is right and remove the other",
			"the markers of a merge conflict were removed; both versions remain")
	}
	if cr {
		f.note(1, "save the file with Unix line endings", "the lines end with a carriage return only")
	}
	return f
}

func (f *File) note(line int, hint, message string) {
	f.Notes = append(f.Notes, Problem{Repaired, line, 0, message, hint})
}

// locate finds the fences of a file without merge conflicts.
func locate(data []byte) File {
	f := File{Body: data, Line: 1}
	at, before := 0, 0 // offset; lines of text before the fence
	wrapped := ""      // the Markdown fence around the whole file
	begin := 0         // of the text to keep that precedes the frontmatter
	comment, prose := false, false
	for {
		if at >= len(data) || at > maxBefore {
			return File{Body: data, Line: 1}
		}
		line, after := cutLine(data[at:])
		text := bytes.TrimSpace(line)
		next := len(data) - len(after)
		switch {
		case comment:
			comment = !bytes.Contains(text, []byte("-->"))
		case fence(line):
			if prose && !firstKeys(after) || before > 0 && !isKey(after) {
				return File{Body: data, Line: 1}
			}
			f.Line++
			return f.close(data, data[begin:at], next, wrapped, before > 0)
		case len(text) == 0:
		case attached(line) && before == 0 && isKey(line[3:]):
			f.note(f.Line, "end the line after ---", "the frontmatter begins on the line of its opening fence")
			return f.close(data, data[begin:at], at+3, wrapped, false)
		case before == 0 && wrapped == "" && markdownFence(text) != "" && opens(after):
			wrapped = markdownFence(text)
			f.note(f.Line, "remove the line "+string(text)+" and the one that closes it", "the file is inside a Markdown fence")
			begin = next
		case bytes.HasPrefix(text, []byte("<!--")):
			before++
			comment = !bytes.Contains(text, []byte("-->"))
		case bytes.HasPrefix(text, []byte("```")), bytes.HasPrefix(text, []byte("~~~")):
			return File{Body: data, Line: 1} // what follows is an example
		default:
			before++
			prose = true
		}
		if before > maxLinesBefore || len(after) == 0 {
			return File{Body: data, Line: 1}
		}
		f.Line++
		at = next
	}
}

// close finds the closing fence of a frontmatter that begins at an offset.
// before is the text above it.
func (f File) close(data, before []byte, begin int, wrapped string, misplaced bool) File {
	rest := data[begin:]
	for at, n := 0, f.Line; at < len(rest); n++ {
		line, after := cutLine(rest[at:])
		if fence(line) || attached(line) {
			f.Head, f.Body, f.Fence = rest[:at], after, Closed
			if !fence(line) {
				f.Body = bytes.TrimLeft(rest[at+3:], " \t")
				f.note(n, "put the text on the line after ---", "text is attached to the closing fence")
			}
			break
		}
		at = len(rest) - len(after)
	}
	if f.Fence != Closed {
		return File{Body: data, Line: f.Line, Fence: Unclosed}
	}
	if wrapped != "" {
		f.Body = unwrapped(f.Body, wrapped)
	}
	if misplaced {
		f.note(f.Line-1, "begin the file with ---", "text precedes the frontmatter; it was kept as part of the body")
		f.Body = append(bytes.Clone(before), f.Body...)
	}
	return f
}

// unwrapped is a body without the line that closes a Markdown fence: the line
// right below the frontmatter, or the last one of the file.
func unwrapped(body []byte, mark string) []byte {
	if line, after := cutLine(body); string(bytes.TrimSpace(line)) == mark {
		return after
	}
	end := bytes.TrimRight(body, " \t\r\n")
	if at := bytes.LastIndexByte(end, '\n') + 1; string(bytes.TrimSpace(end[at:])) == mark {
		return body[:at]
	}
	return body
}

func fence(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && len(bytes.Trim(rest, " \t\r")) == 0
}

// attached reports whether a line is a fence with text after it: ---# Title. A
// longer row of hyphens is a rule.
func attached(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && len(rest) > 0 && rest[0] != '-' && !fence(line)
}

// markdownFence returns the marks of a line that opens a Markdown fence around
// a document; "" none.
func markdownFence(line []byte) string {
	info := bytes.TrimLeft(line, string(line[:1]))
	mark := line[:len(line)-len(info)]
	if len(mark) < 3 || mark[0] != '`' && mark[0] != '~' {
		return ""
	}
	switch string(bytes.ToLower(bytes.TrimSpace(info))) {
	case "", "markdown", "md", "yaml", "yml", "text", "txt":
		return string(mark)
	}
	return ""
}

// opens reports whether a text begins with a fence.
func opens(text []byte) bool {
	line, _ := cutLine(bytes.TrimLeft(text, " \t\r\n"))
	return fence(line)
}

// firstKeys reports whether a text begins with the keys that a skill begins with:
// a rule between paragraphs opens no frontmatter.
func firstKeys(text []byte) bool {
	line, _ := cutLine(text)
	if !bytes.HasPrefix(line, []byte("name:")) && !bytes.HasPrefix(line, []byte("description:")) {
		return false
	}
	for i := 0; len(text) > 0 && i < 64; i++ {
		line, text = cutLine(text)
		if fence(line) {
			return false // a name alone, between two rules
		}
		if bytes.HasPrefix(line, []byte("description:")) {
			return true
		}
	}
	return false
}

// isKey reports whether a text begins with `key: `.
func isKey(text []byte) bool {
	line, _ := cutLine(text)
	_, _, ok := topKey(string(bytes.TrimLeft(line[:min(len(line), 200)], " \t")))
	return ok
}

// withoutConflict blanks the lines that mark merge conflicts which begin before
// limit, and returns the number of the first one; 0: there is none, and data is
// returned as it is.
func withoutConflict(data []byte, limit int) (first int, clean []byte) {
	const begin, end = "<<<<<<< ", ">>>>>>> "
	at := bytes.Index(data[:min(len(data), limit+len(begin))], []byte(begin))
	if at < 0 || at > 0 && data[at-1] != '\n' {
		return 0, data
	}
	clean = make([]byte, 0, len(data))
	open := false
	for n, rest := 1, data; len(rest) > 0; n++ {
		line, after := cutLine(rest)
		if !open && len(data)-len(rest) > limit {
			clean = append(clean, rest...)
			break
		}
		mark := false
		switch text := string(bytes.TrimRight(line, " \t\r")); {
		case bytes.HasPrefix(line, []byte(begin)):
			mark, open = true, true
		case open && bytes.HasPrefix(line, []byte(end)):
			mark, open = true, false
		case open && (text == "=======" || bytes.HasPrefix(line, []byte("||||||| "))):
			mark = true
		}
		if mark && first == 0 {
			first = n
		}
		if mark { // a blank line keeps the numbers of the lines below
			clean = append(clean, '\n')
		} else {
			clean = append(clean, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	return first, clean
}

// cutLine returns the first line without its \n, and what follows.
func cutLine(b []byte) (line, after []byte) {
	line, after, _ = bytes.Cut(b, []byte("\n"))
	return line, after
}
