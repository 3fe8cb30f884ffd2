package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// A SSE is one server-sent event. Data is valid until the next one.
type SSE struct {
	Name string
	Data []byte
}

// maxEvent bounds one event. The largest real ones carry an image.
const maxEvent = 64 << 20

var errTooLong = errors.New("an event of the stream is too long")

// Events reads server-sent events as the HTML standard has them, except that a
// lone CR ends no line (no vendor sends one): comments and unknown fields are skipped, data lines are
// joined by LF, an event without data is none. An event that is not closed by
// a blank line when the stream ends is yielded too, because some compatible
// servers leave the last blank line out; whether it is whole shows in its JSON.
func Events(r io.Reader) iter.Seq2[SSE, error] {
	return func(yield func(SSE, error) bool) {
		br := bufio.NewReaderSize(r, 16<<10)
		var (
			line, data []byte
			name       string
			some       bool // a data field was seen
			first      = true
		)
		emit := func() bool {
			ev := SSE{name, data}
			ok := !some || yield(ev, nil)
			name, data, some = "", data[:0], false
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
				if some {
					data = append(data, '\n')
				}
				data, some = append(data, value...), true
			}
			if err == io.EOF {
				emit()
				return
			}
		}
	}
}

// readLine appends a line without its end to buf. The error is io.EOF if the
// input ended; buf then holds what was there.
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
