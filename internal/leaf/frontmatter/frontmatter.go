// Package frontmatter separates the YAML at the beginning of a Markdown file from the text
// below it, and reads this YAML even if it is broken.
//
// [Split] finds the fences; [Parse] turns the lines between them into ordered [Pair] values,
// one per key, repairing what it can and noting each repair; [JSON] converts a value of any
// kind. All run in linear time and never panic.
package frontmatter

import "bytes"

// A Fence tells which fences a file has.
type Fence uint8

const (
	None     Fence = iota // no opening fence: the whole file is body
	Unclosed              // an opening fence without a closing one: the whole file is body
	Closed
)

// A File is a file split into its parts. The parts share the memory of the file unless
// something was repaired.
type File struct {
	Head  []byte // the lines between the fences
	Body  []byte // the text after the frontmatter and, if misplaced, before it
	Line  int    // line number of Head's first line, from 1
	Fence Fence
	Notes []Problem // about the fences; all are Repaired
}

var bom = []byte("\ufeff")

// Limits of the search for a fence that is not at the beginning.
const (
	maxBefore      = 2 << 10 // in bytes, of text before the frontmatter
	maxLinesBefore = 12      // that are not blank
	maxConflict    = 4 << 10 // a merge conflict must begin within this many bytes
)

// Split finds the fences. The opening fence is the first line after a byte-order mark and
// blank lines. The closing fence is a line of --- at column 0, optionally followed by blanks.
// If there are no such lines, Split accepts common mistakes of authors and tools, and adds a
// Problem: text on the line of a fence, a whole file inside a Markdown fence, text or a
// comment before the frontmatter, markers of a merge conflict. A file with CR line endings is
// read as if they were LF.
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
	at, before := 0, 0 // offset; number of text lines before the fence
	wrapped := ""      // the Markdown fence around the whole file
	begin := 0         // start of the text before the frontmatter to be kept
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
			f.note(f.Line, "remove the line "+string(text)+" and the one that closes it",
				"the file is inside a Markdown code fence")
			begin = next
		case bytes.HasPrefix(text, []byte("<!--")):
			before++
			comment = !bytes.Contains(text, []byte("-->"))
		case bytes.HasPrefix(text, []byte("```")), bytes.HasPrefix(text, []byte("~~~")):
			return File{Body: data, Line: 1} // anything that follows is an example
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

// close finds the closing fence of a frontmatter that begins at offset begin. before is the
// text above it.
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

// unwrapped returns a body without the line that closes a Markdown fence, which is either
// directly below the frontmatter or the last line of the file.
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

// attached reports whether a line is a fence followed by text, such as ---# Title. A longer
// row of hyphens is a thematic break, not a fence.
func attached(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && len(rest) > 0 && rest[0] != '-' && !fence(line)
}

// markdownFence returns the mark of a line that opens a Markdown fence around a document, or
// "".
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

// firstKeys reports whether a text begins with the keys that a skill begins with. This
// distinguishes frontmatter from a thematic break between paragraphs.
func firstKeys(text []byte) bool {
	line, _ := cutLine(text)
	if !bytes.HasPrefix(line, []byte("name:")) && !bytes.HasPrefix(line, []byte("description:")) {
		return false
	}
	for i := 0; len(text) > 0 && i < 64; i++ {
		line, text = cutLine(text)
		if fence(line) {
			return false // only a name, between two thematic breaks
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

// withoutConflict blanks the marker lines of merge conflicts that begin before limit, and
// returns the line number of the first one. If there is none, it returns 0 and data unchanged.
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
		if mark { // a blank line keeps the numbers of the following lines
			clean = append(clean, '\n')
		} else {
			clean = append(clean, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	return first, clean
}

// cutLine returns the first line without its newline, and the rest.
func cutLine(b []byte) (line, after []byte) {
	line, after, _ = bytes.Cut(b, []byte("\n"))
	return line, after
}
