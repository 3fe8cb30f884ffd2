package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/run/llm"
)

// version is that of the file's form.
const version = 1

// A head is the first line of a file.
type head struct {
	Recording int               `json:"recording"` // version
	Case      string            `json:"case,omitempty"`
	Knack     string            `json:"knack,omitempty"` // the version of the program that recorded
	Models    []llm.Info        `json:"models,omitempty"`
	Skills    map[string]string `json:"skills,omitempty"` // hashes of the texts of skills, by name
}

// A line is one line of a file; exactly one field is set.
type line struct {
	Head   *head   `json:"head,omitempty"`
	Text   *text   `json:"text,omitempty"`
	Answer *answer `json:"answer,omitempty"`
}

// A text is part of requests, in the form in which it is compared.
type text struct {
	Hash string `json:"hash"`
	Text string `json:"text"`
}

// An answer is what a model answered to a request: a message or an error. The deltas are not kept, because they follow
// from the message.
type answer struct {
	Label    string    `json:"label,omitempty"`
	Request  request   `json:"request"`
	Response *response `json:"response,omitempty"`
	Error    *failure  `json:"error,omitempty"`

	used bool // by this process
}

// response is llm.Response with the names of the file.
type response struct {
	Message llm.Message    `json:"message"`
	Stop    llm.StopReason `json:"stop"`
	Usage   llm.Usage      `json:"usage"`
	Model   string         `json:"model,omitempty"`
	Sources []llm.Source   `json:"sources,omitempty"`
}

// A failure is an error that the same request would have again.
type failure struct {
	Kind    llm.ErrorKind `json:"kind"`
	Status  int           `json:"status,omitempty"`
	Message string        `json:"message"`
	Media   string        `json:"media,omitempty"` // as in llm.Error
}

// A lineError says which line of a file is wrong.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// read adds the content of a file to r. Its errors begin with the number of the line.
func (r *Recording) read(data []byte) error {
	for n := 1; len(data) > 0; n++ {
		row, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if len(bytes.TrimSpace(row)) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(row, &l); err != nil {
			return &lineError{n, fmt.Errorf("no JSON of a recording: %w", err)}
		}
		if err := r.add(&l); err != nil {
			return &lineError{n, err}
		}
	}
	if r.head.Recording == 0 {
		return &lineError{1, errors.New(`it has no line with a "head": it is no recording`)}
	}
	return nil
}

func (r *Recording) add(l *line) error {
	switch {
	case l.Head != nil:
		switch {
		case l.Head.Recording != version:
			return fmt.Errorf("it has version %d, and this program reads version %d: record it again",
				l.Head.Recording, version)
		case r.head.Recording != 0:
			return errors.New(`there is a second "head": two recordings were joined; record again`)
		}
		r.head = *l.Head
		for _, m := range l.Head.Models {
			r.models[m.ID] = m
		}
	case r.head.Recording == 0:
		return errors.New(`the first line must have a "head"`)
	case l.Text != nil:
		if digest(l.Text.Text) != l.Text.Hash {
			return fmt.Errorf("the text %s was changed: record again", l.Text.Hash)
		}
		r.texts[l.Text.Hash] = l.Text.Text
	case l.Answer != nil:
		a := l.Answer
		if (a.Response == nil) == (a.Error == nil) {
			return errors.New(`an answer has either a "response" or an "error"`)
		}
		if a.Response != nil {
			for _, p := range a.Response.Message.Parts {
				if p.Result != nil {
					return errors.New("the answer of a model has no results of tools")
				}
			}
		}
		r.store(a)
	default:
		return errors.New(`a line has one of "head", "text" and "answer"`)
	}
	return nil
}

// store adds an answer. The caller has locked r, or is the only one who knows it.
func (r *Recording) store(a *answer) {
	if a.Request.Messages == nil {
		a.Request.Messages = []string{}
	}
	key := a.Request.key()
	r.answers = append(r.answers, a)
	r.byKey[key] = append(r.byKey[key], a)
}

// write returns the content of the file: the answers in their order, each behind the texts that it needs.
func (r *Recording) write() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	h := &head{Recording: version, Case: r.opt.Case, Knack: r.opt.Version, Skills: r.opt.Skills}
	for _, m := range r.models {
		h.Models = append(h.Models, m)
	}
	order.Stable(h.Models, func(a, b llm.Info) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	if err := enc.Encode(line{Head: h}); err != nil {
		return nil, err
	}
	written := map[string]bool{}
	for _, a := range r.answers {
		for _, hash := range slices.Concat([]string{a.Request.System, a.Request.Tools}, a.Request.Messages) {
			s, ok := r.texts[hash]
			if !ok || written[hash] {
				continue
			}
			written[hash] = true
			if err := enc.Encode(line{Text: &text{hash, s}}); err != nil {
				return nil, err
			}
		}
		if err := enc.Encode(line{Answer: a}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
