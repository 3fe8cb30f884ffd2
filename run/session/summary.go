package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Summary describes a session in a list.
type Summary struct {
	Header
	Changed time.Time `json:"changed"`
	Title   string    `json:"title,omitempty"`
	First   string    `json:"first,omitempty"` // the first message of the user, on any branch
	Last    string    `json:"last,omitempty"`  // the last message of the user near the end of the file
	Files   []string  `json:"files,omitempty"` // the last files used, at most 8, the newest first
	Turns   int       `json:"turns"`           // 0: none, or unknown for a long session without a complete turn
}

// maxFiles limits the files of a Summary.
const maxFiles = 8

// Empty reports whether the session has no message of the user on any branch.
func (s Summary) Empty() bool { return s.Turns == 0 && s.First == "" }

// summaryBytes is how much is read of the beginning and of the end of a long session. A shorter one is read whole.
const summaryBytes = 32 << 10

// summarize reads what a list shows of a session. The zero Summary is that of an empty file, which a full disk may have
// left.
func summarize(path string) (Summary, error) {
	f, err := regular.Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return Summary{}, err
	}
	head := make([]byte, min(info.Size(), 2*summaryBytes))
	if info.Size() > 2*summaryBytes {
		head = head[:summaryBytes]
	}
	if _, err := io.ReadFull(f, head); err != nil {
		return Summary{}, fmt.Errorf("session %s: %w", path, err)
	}
	tail := head
	if info.Size() > 2*summaryBytes {
		tail = make([]byte, summaryBytes)
		if _, err := f.ReadAt(tail, info.Size()-summaryBytes); err != nil && !errors.Is(err, io.EOF) {
			return Summary{}, fmt.Errorf("session %s: %w", path, err)
		}
	}
	sum := Summary{Changed: info.ModTime()}
	first, rest, whole := bytes.Cut(head, []byte("\n"))
	if err := json.Unmarshal(first, &sum.Header); err != nil || !whole || sum.Version == 0 {
		return Summary{}, fmt.Errorf("session %s: this is not a Knack session", path)
	}
	if sum.Version > Version {
		return Summary{}, fmt.Errorf("session %s: written by a newer version (format %d)", path, sum.Version)
	}
	sum.First = firstMessage(rest)
	_, tail, _ = bytes.Cut(tail, []byte("\n")) // the header, or a line whose beginning is missing
	sum.readEnd(tail, info.Size() <= 2*summaryBytes)
	return sum, nil
}

// firstMessage returns the first message of the user in the lines at the beginning of a session. The last of them may
// be cut off.
func firstMessage(lines []byte) string {
	for len(lines) > 0 {
		line, rest, whole := bytes.Cut(lines, []byte("\n"))
		if !whole && bytes.Contains(line, []byte(`"type":"user"`)) {
			return firstText(line)
		}
		lines = rest
		e, err := ParseEntry(line)
		switch {
		case err != nil:
		case e.User != nil && len(e.User.Parts) > 0:
			return cmp.Or(e.User.Typed, e.User.Parts[0].Text)
		case e.Activation != nil:
			return e.Activation.Notice
		}
	}
	return ""
}

// firstText returns the first text in a line that is cut off; if that is cut off too, its beginning.
func firstText(line []byte) string {
	_, text, ok := bytes.Cut(line, []byte(`"text":"`))
	if !ok {
		return "(a long message)"
	}
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		} else if text[i] == '"' {
			text = text[:i]
			break
		}
	}
	for cut := range min(len(`\ud83d\ude00`), len(text)) { // an escape sequence may be cut off
		var s string
		if json.Unmarshal(append(append([]byte{'"'}, text[:len(text)-cut]...), '"'), &s) == nil {
			return s
		}
	}
	return "(a long message)"
}

// readEnd sets Title and Turns from the lines at the end of a session: from the last turn that ended, and what came
// after it. whole means that these are all lines.
func (s *Summary) readEnd(lines []byte, whole bool) {
	inTurn, known := false, whole
	use := func(files []string) {
		for _, f := range files {
			s.Files = slices.DeleteFunc(s.Files, func(o string) bool { return o == f })
			s.Files = slices.Insert(s.Files, 0, f)
			s.Files = s.Files[:min(len(s.Files), maxFiles)]
		}
	}
	for line := range bytes.Lines(lines) {
		e, err := ParseEntry(line)
		switch {
		case err != nil:
		case e.Result != nil:
			use(e.Result.Touched)
		case e.TurnEnd != nil:
			inTurn = false
			if e.TurnEnd.Turns > 0 { // otherwise an earlier version wrote it
				s.Turns, known = e.TurnEnd.Turns, true
			}
			s.Title = cmp.Or(e.TurnEnd.Title, s.Title)
		case e.Setting != nil:
			s.Title = cmp.Or(e.Setting.Title, s.Title)
		case e.User != nil && !e.User.Steering, e.Activation != nil && !inTurn:
			s.Turns, inTurn = s.Turns+1, true
			if e.User != nil && len(e.User.Parts) > 0 {
				s.Last = cmp.Or(e.User.Typed, e.User.Parts[0].Text)
				use(e.User.Touched)
			}
		}
	}
	if !known {
		s.Turns = 0
	}
}
