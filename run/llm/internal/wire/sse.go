package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
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
func Events(r io.Reader) iter.Seq2[SSE, error] {
	return func(yield func(SSE, error) bool) {
		br := bufio.NewReader(r)
		var (
			line, data []byte
			name       string
			hasData    bool // the event has a data field, perhaps an empty one
			first      = true
		)
		emit := func() bool {
			ev := SSE{name, data}
			ok := !hasData || yield(ev, nil)
			name, data, hasData = "", data[:0], false
			return ok
		}
		for {
			var err error
			line, err = readLine(br, line[:0])
			if first {
				line, first = bytes.TrimPrefix(line, []byte("\ufeff")), false
			}
			if err != nil && err != io.EOF {
				yield(SSE{}, err)
				return
			}
			if len(line) == 0 {
				if !emit() || err == io.EOF {
					return
				}
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				name = string(value)
			case "data":
				if len(data)+len(value) > maxEvent {
					yield(SSE{}, errTooLong)
					return
				}
				if hasData {
					data = append(data, '\n')
				}
				data, hasData = append(data, value...), true
			}
			if err == io.EOF {
				emit()
				return
			}
		}
	}
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
