package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"strings"
)

// frameType is the media type of an AWS event stream.
const frameType = "application/vnd.amazon.eventstream"

var errFrame = errors.New("a frame of the event stream is damaged")

// Frames reads the event stream of AWS, whose frames carry the data of events of another format. Each frame has a
// length, headers, a payload and two checksums. A frame that reports an exception becomes an event with the name error,
// in the form of the Messages format.
func Frames(r io.Reader) iter.Seq2[SSE, error] {
	return func(yield func(SSE, error) bool) {
		for {
			headers, payload, err := readFrame(r)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(SSE{}, err)
				return
			}
			ev, err := frameEvent(headers, payload)
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// frameHead is the number of bytes before the headers of a frame: two lengths and their checksum.
const frameHead = 12

// readFrame reads one frame. The error is io.EOF if there are no more.
func readFrame(r io.Reader) (headers map[string]string, payload []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, nil, err
	}
	size, headerSize := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	switch {
	case crc32.ChecksumIEEE(head[:8]) != binary.BigEndian.Uint32(head[8:]), size < frameHead+4,
		headerSize > size-frameHead-4:
		return nil, nil, errFrame
	case size > maxEvent:
		return nil, nil, errTooLong
	}
	rest, err := io.ReadAll(io.LimitReader(r, int64(size-frameHead))) // as large as what arrives, not as is said
	if err != nil {
		return nil, nil, err
	}
	if len(rest) < int(size-frameHead) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	body := rest[:len(rest)-4]
	if crc32.Update(crc32.ChecksumIEEE(head[:]), crc32.IEEETable, body) != binary.BigEndian.Uint32(rest[len(body):]) {
		return nil, nil, errFrame
	}
	if headers, err = frameHeaders(body[:headerSize]); err != nil {
		return nil, nil, err
	}
	return headers, body[headerSize:], nil
}

// frameHeaders returns the headers of a frame that are texts.
func frameHeaders(data []byte) (map[string]string, error) {
	all := map[string]string{}
	sizes := [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16} // of a value, by its type; -1: its length is before it
	for len(data) > 0 {
		n := 1 + int(data[0])
		if len(data) < n+1 || int(data[n]) >= len(sizes) {
			return nil, errFrame
		}
		name, kind := string(data[1:n]), data[n]
		data = data[n+1:]
		size := sizes[kind]
		if size < 0 {
			if len(data) < 2 {
				return nil, errFrame
			}
			size, data = int(binary.BigEndian.Uint16(data)), data[2:]
		}
		if len(data) < size {
			return nil, errFrame
		}
		if kind == 7 {
			all[name] = string(data[:size])
		}
		data = data[size:]
	}
	return all, nil
}

// exceptionType returns the error of the Messages format that corresponds to an exception of Bedrock, or "".
func exceptionType(kind string) string {
	switch strings.ToLower(kind) {
	case "throttlingexception":
		return "rate_limit_error"
	case "serviceunavailableexception":
		return "overloaded_error"
	case "internalserverexception", "modelstreamerrorexception", "modeltimeoutexception":
		return "api_error"
	case "validationexception":
		return "invalid_request_error"
	case "accessdeniedexception":
		return "permission_error"
	}
	return ""
}

func frameEvent(headers map[string]string, payload []byte) (SSE, error) {
	kind := headers[":exception-type"]
	if headers[":message-type"] == "event" && kind == "" {
		var chunk struct {
			Bytes []byte `json:"bytes"`
		}
		if err := json.Unmarshal(payload, &chunk); err != nil {
			return SSE{}, errFrame
		}
		return SSE{Data: chunk.Bytes}, nil
	}
	var said struct {
		Message string `json:"message"`
	}
	json.Unmarshal(payload, &said) // the message may be missing
	if kind == "" {
		kind = headers[":error-code"]
		said.Message = headers[":error-message"]
	}
	if said.Message == "" {
		said.Message = kind
	}
	var report struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	report.Type, report.Error.Message = "error", fmt.Sprintf("%s (%s)", said.Message, kind)
	if report.Error.Type = exceptionType(kind); report.Error.Type == "" {
		report.Error.Type = "api_error"
	}
	data, err := json.Marshal(report)
	return SSE{Name: "error", Data: data}, err
}
