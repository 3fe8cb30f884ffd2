package record

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A MissError says that a request has no recorded answer, and where it differs from the nearest one that has.
type MissError struct {
	File  string
	Case  string
	Label string
	// Older are the skills whose text is another one than in the recording.
	Older []string
	// Used counts the recorded answers to this very request, which were all used. If it is 0, Where and Diff say what
	// differs; "" for both: the file has no answer of this model.
	Used  int
	Where string // the first part of the request that differs, such as "message 2"
	Diff  string // unified, recorded text first, hidden characters escaped
}

func (e *MissError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has no answer to this request", plain.Line(e.File))
	if e.Label != "" {
		fmt.Fprintf(&b, " of %s", plain.Line(e.Label))
	}
	switch {
	case e.Used > 0:
		fmt.Fprintf(&b, ": it was asked more often than it was recorded (%s)", plain.Count(e.Used, "time"))
	case e.Where == "":
		b.WriteString(": nothing was recorded with this model")
	case len(e.Older) > 0:
		fmt.Fprintf(&b, ": the recording is older than the skill %s", plain.Line(plain.List(e.Older, 3)))
	}
	b.WriteString("; record again with --mode record")
	if e.Where != "" {
		fmt.Fprintf(&b, "\n%s differs:\n%s", e.Where, e.Diff)
	}
	return b.String()
}

// miss returns what is known about a request without an answer, and remembers it.
func (r *Recording) miss(q *request, n *reading, label string) *MissError {
	older := r.Older()
	n.mu.Lock()
	defer n.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &MissError{File: r.opt.File, Case: r.opt.Case, Label: label, Older: older, Used: len(r.byKey[q.key()])}
	if e.Used == 0 {
		e.Where, e.Diff = r.nearest(q, label, n.texts)
	}
	r.misses = append(r.misses, e)
	return e
}

// nearest compares a request with the recorded one that has the longest part in common with it. Of several it takes
// one of the same label and of the same length.
func (r *Recording) nearest(q *request, label string, now map[string]string) (where, diff string) {
	var best *answer
	score := func(a *answer) []int {
		same := 0
		if a.Label == label {
			same = 1
		}
		return []int{common(&a.Request, q), same, -abs(len(a.Request.Messages) - len(q.Messages))}
	}
	for _, a := range r.answers {
		if a.Request.Model == q.Model && (best == nil || slices.Compare(score(a), score(best)) > 0) {
			best = a
		}
	}
	if best == nil {
		return "", ""
	}
	old := best.Request
	compare := func(where, before, after string) (string, string) {
		return where, difference(r.texts[before], now[after])
	}
	switch i := common(&old, q) - 2; {
	case old.Effort != q.Effort:
		return "the effort", difference(old.Effort, q.Effort)
	case old.Search != q.Search:
		return "what the search is limited to", difference(old.Search, q.Search)
	case old.System != q.System:
		return compare("the system text", old.System, q.System)
	case old.Tools != q.Tools:
		return compare("the tools", old.Tools, q.Tools)
	case i < len(old.Messages) && i < len(q.Messages):
		return compare(fmt.Sprintf("message %d of %d", i+1, len(q.Messages)), old.Messages[i], q.Messages[i])
	case i < len(q.Messages):
		return compare(fmt.Sprintf("message %d of %d, which the recorded request has not,", i+1, len(q.Messages)),
			"", q.Messages[i])
	case i < len(old.Messages):
		return compare(fmt.Sprintf("message %d of the recorded request, which this one has not,", i+1), old.Messages[i], "")
	}
	return "the request", ""
}

// common counts the parts of two requests that are equal from the beginning: system text, tools, messages.
func common(a, b *request) int {
	if a.Effort != b.Effort || a.Search != b.Search || a.System != b.System {
		return 0
	}
	if a.Tools != b.Tools {
		return 1
	}
	n := 0
	for n < min(len(a.Messages), len(b.Messages)) && a.Messages[n] == b.Messages[n] {
		n++
	}
	return 2 + n
}

func abs(n int) int { return max(n, -n) }

// maxDiff limits a diff, in lines; the first ones say what changed.
const maxDiff = 60

// maxCompared limits the texts that are compared, in bytes.
const maxCompared = 256 << 10

func difference(before, after string) string {
	line := func(s string) string { return strings.TrimSuffix(s[:min(len(s), maxCompared)], "\n") + "\n" }
	diff := plain.Text(udiff.Unified("recorded", "now", line(before), line(after)))
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	if cut := len(lines) - maxDiff; cut > 0 {
		lines = append(lines[:maxDiff], fmt.Sprintf("… %s more", plain.Count(cut, "line")))
	}
	for i, l := range lines {
		if r := []rune(l); len(r) > 400 {
			lines[i] = string(r[:400]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}
