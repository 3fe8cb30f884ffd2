package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/llm"
)

// An inputLine is a line of structured input.
type inputLine struct {
	number int
	text   []byte
	// queued: it was there together with the line before it, so it is a prompt of
	// its own and does not steer.
	queued bool
	err    error // that ends the input
}

// stream runs a user turn for each line of structured input. A line that comes
// while a turn runs enters it after the current tools. A line that cannot be
// read is answered with an error; it and a line that is refused, such as a
// mistyped command, are the error of the whole in the end.
func (p *printer) stream(ctx context.Context, stdin io.Reader) error {
	lines := make(chan inputLine)
	go readLines(ctx, stdin, lines) // it lives as long as somebody may still write
	var waiting []inputLine         // each for a turn of its own
	var refused error               // the first that was, with nothing recorded: the session goes on
	for {
		var l inputLine
		ok := true
		if len(waiting) > 0 {
			l, waiting = waiting[0], waiting[1:]
		} else {
			select {
			case l, ok = <-lines:
			case <-ctx.Done():
				return outcome(ctx, &agent.End{Reason: "cancelled"})
			}
		}
		if !ok || l.err != nil {
			return cmp.Or(l.err, refused)
		}
		in, err := p.read(l)
		if err != nil {
			refused = cmp.Or(refused, err)
			continue
		}
		log := p.session.Log()
		last := log.Last()
		s := p.session // which a command may replace
		over, listened := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(listened)
			for {
				select {
				case l, ok := <-lines:
					if !ok {
						return
					}
					if err := p.steer(ctx, s, l); errors.Is(err, errWaits) {
						waiting = append(waiting, l)
					} else {
						refused = cmp.Or(refused, err)
					}
				case <-over:
					return
				}
			}
		}()
		err = p.turn(ctx, in)
		close(over)
		<-listened
		switch {
		case p.quit:
			return cmp.Or(refused, err)
		case err != nil && ctx.Err() == nil && p.session.Log() == log && log.Last() == last:
			refused = cmp.Or(refused, err)
		case err != nil:
			return err
		}
	}
}

// errWaits means that a line is for a turn of its own.
var errWaits = errors.New("it waits for the end of the turn")

// steer gives a line to the turn that runs.
func (p *printer) steer(ctx context.Context, s *engine.Session, l inputLine) error {
	if l.queued || l.err != nil {
		return errWaits
	}
	in, err := p.read(l)
	if err != nil {
		return err
	}
	said, err := s.Say(ctx, engine.Message{Input: in})
	switch {
	case err != nil: // the turn is over, or a command waits for its end
		return errWaits
	case said.Reply != nil:
		p.out.event(engine.Event{Reply: said.Reply})
	default:
		p.out.queued(l.number)
	}
	return nil
}

// read reads a line, and answers one that cannot be read.
func (p *printer) read(l inputLine) (agent.Input, error) {
	in, field, err := readInput(l.text)
	if err == nil {
		return in, nil
	}
	p.out.badLine(l.number, field, err)
	if field != "" {
		err = fmt.Errorf("%s: %w", field, err)
	}
	return in, &engine.Error{
		Err:  fmt.Errorf("line %d of the input: %w", l.number, err),
		Hint: `{"type":"user","message":{"role":"user","content":"your prompt"}}`, Exit: engine.ExitUsage,
	}
}

// readLines sends the lines of stdin that are not empty.
func readLines(ctx context.Context, stdin io.Reader, lines chan<- inputLine) {
	defer close(lines)
	file := false // all of it is there from the beginning
	if f, ok := stdin.(*os.File); ok {
		info, err := f.Stat()
		file = err == nil && info.Mode().IsRegular()
	}
	r := bufio.NewReaderSize(stdin, 64<<10)
	for n := 1; ; n++ {
		l := inputLine{number: n, queued: n > 1 && (file || r.Buffered() > 0)}
		var err error
		for part := []byte(nil); ; {
			part, err = r.ReadSlice('\n')
			if l.text = append(l.text, part...); len(l.text) > maxPipe {
				l.text, err = nil, fmt.Errorf("line %d of the input has more than %d MiB", n, maxPipe>>20)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if err != nil && err != io.EOF {
			l.err = fmt.Errorf("standard input: %w", err)
		}
		if len(bytes.TrimSpace(l.text)) > 0 || l.err != nil {
			select {
			case lines <- l:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readInput reads a line of structured input: a message of the program that
// writes it, as text or as blocks of text and images. With typed set, its user
// typed the text. field is the member that is wrong.
func readInput(line []byte) (in agent.Input, field string, err error) {
	var m struct {
		Type    string `json:"type"`
		Typed   bool   `json:"typed"`
		Message struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"message"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return in, wrong.Field, fmt.Errorf("it is a JSON %s", wrong.Value)
		}
		return in, "", fmt.Errorf("it is not a JSON object: %w", err)
	}
	if m.Type != "user" {
		return in, "type", fmt.Errorf("it is %q, not user", m.Type)
	}
	in.Host = true
	defer func() {
		if m.Typed {
			in.Typed = in.Text
		}
	}()
	field = "message.content"
	if json.Unmarshal(m.Message.Content, &in.Text) == nil {
		if strings.TrimSpace(in.Text) == "" {
			return in, field, errors.New("it is empty")
		}
		return in, "", nil
	}
	var content []block
	if err := json.Unmarshal(m.Message.Content, &content); err != nil {
		return in, field, fmt.Errorf("it is neither a string nor a list of blocks: %w", err)
	}
	for i, b := range content {
		switch {
		case b.Type == "text" && i == 0:
			in.Text = b.Text
		case b.Type == "text":
			in.Parts = append(in.Parts, llm.Text(b.Text))
		case (b.Type == "image" || b.Type == "document") && b.Source != nil && b.Source.Type == "base64":
			in.Parts = append(in.Parts, llm.Part{Media: &llm.Media{MIME: b.Source.MIME, Data: b.Source.Data}})
		default:
			return in, fmt.Sprintf("%s[%d].type", field, i), fmt.Errorf("a block of type %q cannot be sent", b.Type)
		}
	}
	if in.Text == "" && len(in.Parts) == 0 {
		return in, field, errors.New("it is empty")
	}
	return in, "", nil
}
