package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// An SSE is one server-sent event. Data is valid until the next event.
type SSE struct {
	Name string
	Data []byte
}

// maxEvent limits the size of one event in bytes. The largest events of real servers contain an image.
const maxEvent = 32 << 20

var errTooLong = errors.New("an event of the stream is too long")

// Events reads server-sent events as defined by the HTML standard, except that a lone CR does not
// end a line, because no vendor sends one. Comments and unknown fields are skipped, data lines are
// joined by LF, and an event without data is ignored. An unfinished event at the end of the stream
// is yielded too, because some compatible servers omit the last blank line. If the event was cut off,
// its JSON does not parse.
//
// It also reads what servers send instead: JSON without "data:" (a whole answer, one value on each line, or a list of
// values), "data:" twice, a field "error", and events without a blank line between them. A web page and other text
// are errors.
func Events(r io.Reader) iter.Seq2[SSE, error] {
	return func(yield func(SSE, error) bool) {
		br := bufio.NewReader(r)
		x := eventReader{yield: yield}
		var line []byte
		for first := true; ; first = false {
			var err error
			line, err = readLine(br, line[:0])
			if first {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			if err != nil && err != io.EOF {
				yield(SSE{}, err)
				return
			}
			if !x.line(line) {
				return
			}
			if err == io.EOF {
				if x.end() && !x.any && len(x.text) > 0 {
					yield(SSE{}, &notEvents{string(x.text)})
				}
				return
			}
		}
	}
}

// An eventReader is the state of Events. Its methods report whether to go on.
type eventReader struct {
	yield   func(SSE, error) bool
	data    []byte
	name    string
	hasData bool   // the event has a data field, perhaps an empty one
	raw     []byte // JSON without a field name
	check   int    // the length from which raw is checked for its end; it doubles, as each check reads all of raw
	any     bool   // something was yielded
	text    []byte // the beginning of what is neither an event nor JSON
}

// maxStray is how much of a text that is no event is kept for the error: enough for the title of a page.
const maxStray = 2048

func (x *eventReader) line(line []byte) bool {
	plain := bytes.TrimSpace(line)
	field, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case len(plain) == 0:
		return x.end()
	case len(x.raw) > 0 && string(field) != "data":
		return x.json(line)
	case plain[0] == '{' || plain[0] == '[':
		return x.end() && x.json(plain)
	case len(x.raw) > 0 && !x.end():
		return false
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(bytes.TrimLeft(field, " ")) {
	case "event":
		x.name = string(value)
	case "error": // llama.cpp
		x.name = "error"
		return x.add(value)
	case "data":
		for bytes.HasPrefix(value, []byte("data:")) { // a proxy has added the field to whole lines
			value = bytes.TrimPrefix(value[len("data:"):], []byte(" "))
		}
		return x.add(value)
	default:
		if len(x.text) < maxStray && !isSkipped(field) {
			x.text = append(append(x.text, plain[:min(len(plain), maxStray)]...), ' ')
		}
	}
	return true
}

// isSkipped reports whether a line with this field means nothing here; a comment has an empty one.
func isSkipped(field []byte) bool {
	return len(field) == 0 || string(field) == "id" || string(field) == "retry"
}

// add adds a line to the data of the event.
func (x *eventReader) add(value []byte) bool {
	if len(x.data)+len(value) > maxEvent {
		x.yield(SSE{}, errTooLong)
		return false
	}
	if x.hasData {
		x.data = append(x.data, '\n')
	}
	x.data, x.hasData = append(x.data, value...), true
	return true
}

// json adds a line of JSON that has no field name. A value ends with its line.
func (x *eventReader) json(line []byte) bool {
	if len(x.raw)+len(line) > maxEvent {
		x.yield(SSE{}, errTooLong)
		return false
	}
	x.raw = append(append(x.raw, line...), '\n')
	if len(x.raw) < x.check {
		return true
	}
	if json.Valid(x.raw) {
		return x.end()
	}
	x.check = 2 * len(x.raw)
	return true
}

// end yields what was collected.
func (x *eventReader) end() bool {
	raw, data, name, has := x.raw, x.data, x.name, x.hasData
	x.raw, x.check, x.data, x.name, x.hasData = x.raw[:0], 0, x.data[:0], "", false
	if len(raw) > 0 && !x.values("", bytes.TrimSpace(raw)) {
		return false
	}
	if !has {
		return true
	}
	if line, _, more := bytes.Cut(data, []byte("\n")); more && json.Valid(line) && !json.Valid(data) {
		for line := range bytes.Lines(data) { // there was no blank line between the events
			if !x.values(name, bytes.TrimSpace(line)) {
				return false
			}
		}
		return true
	}
	return x.values(name, data)
}

// values yields data, or its elements if it is a list of objects.
func (x *eventReader) values(name string, data []byte) bool {
	x.any = true
	if list := []json.RawMessage{}; len(data) > 1 && data[0] == '[' && json.Unmarshal(data, &list) == nil {
		for _, v := range list {
			if !x.yield(SSE{name, v}, nil) {
				return false
			}
		}
		return true
	}
	return x.yield(SSE{name, data}, nil)
}

// notEvents is the error for an answer that is neither events nor JSON.
type notEvents struct{ text string }

func (n *notEvents) Error() string {
	if title, ok := pageTitle(n.text); ok {
		return "the server answered with a web page" + title + ", not with a model's answer"
	}
	return fmt.Sprintf("the server answered with a text, not with a model's answer: %q", shortened(n.text))
}

// pageTitle reports whether a text is a web page, and returns its title for a message.
func pageTitle(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "<") {
		return "", false
	}
	lower := strings.ToLower(text)
	_, rest, ok := strings.Cut(lower, "<title")
	_, rest, closed := strings.Cut(rest, ">")
	if !ok || !closed || len(lower) != len(text) {
		return "", true
	}
	rest = text[len(text)-len(rest):]
	title, _, _ := strings.Cut(rest, "<")
	return fmt.Sprintf(" (%q)", shortened(strings.Join(strings.Fields(title), " "))), true
}

// shortened returns a text of at most 200 bytes for a message.
func shortened(text string) string {
	if text = strings.TrimSpace(text); len(text) > 200 {
		return strings.ToValidUTF8(text[:200], "") + " …"
	}
	return text
}

// readLine appends a line without its line ending to buf. At the end of the input the error is
// io.EOF, and buf contains the last, unfinished line.
func readLine(br *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		chunk, err := br.ReadSlice('\n')
		buf = append(buf, chunk...)
		if len(buf) > maxEvent {
			return buf, errTooLong
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(buf, []byte("\n")), []byte("\r")), err
	}
}
