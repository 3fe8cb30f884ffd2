// Package textedit replaces parts of a text that are identified by their content.
//
// All edits are matched against the original text and are applied together or not at all. The
// old text of an edit is first searched for literally, with any line ending. If it is not
// found, a second search ignores trailing blanks, the kind of quotes, dashes and spaces, and
// Unicode compatibility forms. Text that no edit changes keeps its bytes: lines that are both
// in the old and in the new text of an edit are not touched, and a line that replaces another
// gets its line ending.
package textedit

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// An Edit replaces Old by New. Old must occur exactly once, unless All is set.
type Edit struct {
	Old, New string
	All      bool
}

// A Result is an edited text.
type Result struct {
	Text    string
	Changes []udiff.Edit // changes of the original text, in order
	Count   int          // number of occurrences replaced
	Fuzzy   []int        // indexes of the edits that matched only loosely
}

// A match is an occurrence of an edit's Old.
type match struct {
	edit       int
	start, end int // positions in the normalised text
}

// Apply applies edits to a text. If there are several edits, errors contain the index of the
// edit, counted from 0 as in the input.
func Apply(text string, edits []Edit) (Result, error) {
	if len(edits) == 0 {
		return Result{}, failure{"edits is empty: give at least one {oldText, newText}", "no text to replace is named"}
	}
	n := normalise(text)
	var res Result
	var matches []match
	for i, e := range edits {
		name := "oldText"
		if len(edits) > 1 {
			name = fmt.Sprintf("edits[%d].oldText", i)
		}
		e.Old, e.New = unixLineEnds(e.Old), unixLineEnds(e.New)
		edits := &edits[i]
		if e.Old == "" {
			return Result{}, failure{name + " is empty: name the text to replace, or use write for a whole file",
				"the text to replace is empty"}
		}
		if e.Old == e.New {
			return Result{}, failure{name + " and its newText are the same: nothing would change",
				"the new text is the same as the old"}
		}
		found := n.exact(e.Old, edits.All)
		if len(found) == 0 {
			if found = n.fuzzy(e.Old); len(found) > 0 {
				res.Fuzzy = append(res.Fuzzy, i)
			}
		}
		switch {
		case len(found) == 0:
			return Result{}, failure{n.notFound(name, e), "the text to replace was not found"}
		case len(found) > 1 && !edits.All:
			return Result{}, failure{fmt.Sprintf("%s occurs %d times, at %s: add lines around it until it occurs once, "+
				"or set replaceAll", name, len(found), n.lines(found)),
				fmt.Sprintf("the text to replace occurs %d times", len(found))}
		}
		for _, f := range found {
			matches = append(matches, match{i, f.start, f.end})
		}
	}
	order.Stable(matches, func(a, b match) int { return a.start - b.start })
	for i := 1; i < len(matches); i++ {
		if a, b := matches[i-1], matches[i]; b.start < a.end {
			return Result{}, failure{fmt.Sprintf("edits[%d] and edits[%d] overlap at line %d: make them one edit, "+
				"or use a shorter oldText in each", min(a.edit, b.edit), max(a.edit, b.edit), n.line(b.start)),
				"two of the edits overlap"}
		}
	}
	for _, m := range matches {
		e := edits[m.edit]
		res.Changes = append(res.Changes, n.changes(m, unixLineEnds(e.Old), unixLineEnds(e.New))...)
	}
	res.Count = len(matches)
	out, err := udiff.Apply(text, res.Changes)
	if err != nil {
		return Result{}, err
	}
	if out == text {
		return Result{}, failure{"the edits change nothing in the file", "the edits change nothing"}
	}
	res.Text = out
	return res, nil
}

// A failure is an error with a text for the model and one for people, for whom the details do not matter.
type failure struct{ model, people string }

func (f failure) Error() string  { return f.model }
func (f failure) People() string { return "not changed: " + f.people }

func unixLineEnds(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// A normalised is a text with all line breaks normalised to "\n".
type normalised struct {
	text  string
	crlfs []int // positions of the line breaks that were "\r\n"
	mac   bool  // all line breaks were "\r"
}

func normalise(text string) *normalised {
	if !strings.Contains(text, "\r") {
		return &normalised{text: text}
	}
	if !strings.Contains(text, "\n") {
		return &normalised{text: strings.ReplaceAll(text, "\r", "\n"), mac: true}
	}
	n := &normalised{}
	var b strings.Builder
	b.Grow(len(text))
	for {
		i := strings.Index(text, "\r\n")
		if i < 0 {
			break
		}
		b.WriteString(text[:i])
		n.crlfs = append(n.crlfs, b.Len())
		b.WriteByte('\n')
		text = text[i+2:]
	}
	b.WriteString(text)
	n.text = b.String()
	return n
}

// original converts a position in the normalised text to one in the original text.
func (n *normalised) original(at int) int { return at + sort.SearchInts(n.crlfs, at) }

// ending returns the original form of the line break at a position.
func (n *normalised) ending(at int) string {
	if n.mac {
		return "\r"
	}
	if _, found := slices.BinarySearch(n.crlfs, at); found {
		return "\r\n"
	}
	return "\n"
}

func (n *normalised) line(at int) int { return 1 + strings.Count(n.text[:at], "\n") }

func (n *normalised) lines(spans []span) string {
	const limit = 10
	var b strings.Builder
	b.WriteString("lines ")
	for i, s := range spans {
		if i == limit {
			b.WriteString(" …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n.line(s.start))
	}
	return b.String()
}

type span struct{ start, end int }

// exact finds old literally. Unless all is set, overlapping occurrences also count, because
// each could be the one that is meant.
func (n *normalised) exact(old string, all bool) []span {
	var out []span
	for at := 0; ; {
		i := strings.Index(n.text[at:], old)
		if i < 0 {
			return out
		}
		at += i
		out = append(out, span{at, at + len(old)})
		if all {
			at += len(old)
		} else {
			at++
		}
	}
}

// changes returns the line-by-line changes of the original text that turn a match into new.
func (n *normalised) changes(m match, old, new string) []udiff.Edit {
	// The lines of old and of the match correspond to each other: neither way of matching adds
	// or drops line breaks.
	at := func(off int) int {
		if off == len(old) {
			return m.end
		}
		start := m.start
		for range strings.Count(old[:off], "\n") {
			start += strings.IndexByte(n.text[start:], '\n') + 1
		}
		return start
	}
	var out []udiff.Edit
	for _, d := range udiff.Lines(old, new) {
		start, end := at(d.Start), at(d.End)
		text := d.New
		if n.mac || len(n.crlfs) > 0 {
			text = n.withEndings(d.New, start, end)
		}
		out = append(out, udiff.Edit{Start: n.original(start), End: n.original(end), New: text})
	}
	return out
}

// withEndings returns text with the line endings of the lines that it replaces. Additional
// lines get the ending of the line in which the replaced text begins.
func (n *normalised) withEndings(text string, start, end int) string {
	rest := "\n"
	if i := strings.IndexByte(n.text[start:], '\n'); i >= 0 {
		rest = n.ending(start + i)
	} else if i := strings.LastIndexByte(n.text[:start], '\n'); i >= 0 {
		rest = n.ending(i)
	} else if n.mac {
		rest = "\r"
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, ended := strings.CutSuffix(line, "\n")
		b.WriteString(body)
		if !ended {
			break
		}
		if i := strings.IndexByte(n.text[start:end], '\n'); i >= 0 {
			b.WriteString(n.ending(start + i))
			start += i + 1
		} else {
			b.WriteString(rest)
		}
	}
	return b.String()
}
