package control

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
)

// maxLine limits a line of input, in bytes.
const maxLine = 32 << 20

// headOfLine is how much is kept of a line that is longer, in bytes, to see what it may have been.
const headOfLine = 64 << 10

// An inputLine is a line of structured input.
type inputLine struct {
	number int
	text   []byte
	// together means that this line arrived together with the line before it. It is then a prompt of its
	// own and does not enter a running turn.
	together bool
	err      error // the line cannot be read
}

// readLines calls do for each line that is not empty, until the end of r. Of a line that is too long, do gets the
// error and the beginning. readLines returns the read error of r.
func readLines(r io.Reader, do func(inputLine)) error {
	file := false // a regular file: all lines exist from the beginning
	if f, ok := r.(*os.File); ok {
		info, err := f.Stat()
		file = err == nil && info.Mode().IsRegular()
	}
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		l := inputLine{number: n, together: n > 1 && (file || in.Buffered() > 0)}
		var err error
		for part := []byte(nil); ; {
			part, err = in.ReadSlice('\n')
			if len(l.text)+len(part) > maxLine {
				l.text, l.err = bytes.Clone(l.text[:min(len(l.text), headOfLine)]), fmt.Errorf("it has more than %d MiB", maxLine>>20)
			}
			if l.err == nil {
				l.text = append(l.text, part...)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if len(bytes.TrimSpace(l.text)) > 0 || l.err != nil {
			do(l)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
}

// A frame is a line of input, of any type.
type frame struct {
	Type messageType `json:"type"`

	// members of control_request and control_cancel_request
	ID      string          `json:"request_id"`
	Request json.RawMessage `json:"request"`
	// members of control_response
	Response *answer `json:"response"`

	// members of user
	UUID      string `json:"uuid"`
	Typed     bool   `json:"typed"`
	Priority  string `json:"priority"` // now, next, later
	NoQuery   *bool  `json:"shouldQuery"`
	Composed  bool   `json:"client_composed"`
	Synthetic bool   `json:"isSynthetic"`
	Origin    struct {
		Kind string `json:"kind"` // human means that the user typed it
	} `json:"origin"`
	Message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// An answer is the host's answer to one of our requests.
type answer struct {
	Subtype  subtype         `json:"subtype"` // success, error
	ID       string          `json:"request_id"`
	Response json.RawMessage `json:"response"`
	Error    string          `json:"error"`
}

// readFrame parses a line. On an error, field names the invalid member.
func readFrame(line []byte) (f frame, field string, err error) {
	if err := json.Unmarshal(bytes.TrimPrefix(line, []byte("\ufeff")), &f); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return f, wrong.Field, fmt.Errorf("it is a JSON %s", wrong.Value)
		}
		return f, "", fmt.Errorf("it is not a JSON object: %w", err)
	}
	return f, "", nil
}

// decode reads a value of the host. Its error names the member, not the Go type.
func decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s is a JSON %s", cmp.Or(wrong.Field, "it"), wrong.Value)
	}
	return err
}

// A prompt is a message from the host.
type prompt struct {
	agent.Input
	id       string // given by the host; may be ""
	number   int    // number of its line
	priority string
	together bool
	ends     bool // what has ended in the background begins the turn
	silent   bool // it starts no turn, but waits for the next prompt
	// bad is why a host's message cannot be sent; its turn only reports that.
	bad     error
	stopped bool // the host interrupted it before its turn began
}

// readPrompt reads a message from the host: text, or blocks of text and images. On an error, field
// names the invalid member.
func readPrompt(f frame) (p prompt, field string, err error) {
	p.id, p.priority, p.silent = f.UUID, f.Priority, f.NoQuery != nil && !*f.NoQuery
	p.MessageID, p.Host = f.UUID, !f.Composed && !f.Synthetic
	defer func() {
		switch {
		case !p.Host && strings.HasPrefix(p.Text, "/"):
			p.Text = "/" + p.Text // a second slash, so that it calls no command
		case p.Host && (f.Typed || f.Origin.Kind == "human"):
			p.Typed = p.Text
		}
	}()
	if role := f.Message.Role; role != "" && role != string(llm.User) {
		return p, "message.role", fmt.Errorf("it is %q, not user", role)
	}
	field = "message.content"
	if len(f.Message.Content) == 0 {
		return p, field, errors.New("it is missing")
	}
	if json.Unmarshal(f.Message.Content, &p.Text) == nil {
		if strings.TrimSpace(p.Text) == "" {
			return p, field, errors.New("it is empty")
		}
		return p, "", nil
	}
	var content []json.RawMessage
	if json.Unmarshal(f.Message.Content, &content) != nil {
		return p, field, errors.New("it is neither a string nor a list of blocks")
	}
	for i, data := range content {
		parts, at, err := readBlock(data)
		if err != nil {
			return p, strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", field, i, at), "."), err
		}
		if i == 0 && len(parts) == 1 && parts[0].Text != "" {
			p.Text, parts = parts[0].Text, nil
		}
		p.Parts = append(p.Parts, parts...)
	}
	if p.Text == "" && len(p.Parts) == 0 {
		return p, field, errors.New("it is empty")
	}
	return p, "", nil
}
