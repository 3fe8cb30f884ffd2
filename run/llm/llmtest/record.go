package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/knack-agent/knack/run/llm"
)

// An Exchange is one request to a model and what came back.
type Exchange struct {
	Model   string       `json:"model"` // ID of the model
	Request *llm.Request `json:"request"`
	Events  []llm.Event  `json:"events"`
	Error   *Failure     `json:"error,omitempty"` // what ended the stream; nil: it ended normally
}

// A Failure is an error of a model as a recording keeps it.
type Failure struct {
	Kind    llm.ErrorKind `json:"kind,omitempty"` // "": the error was not an [llm.Error]
	Status  int           `json:"status,omitempty"`
	Message string        `json:"message"`
}

// A Recorder is a model that passes requests on to Model, and writes each finished [Exchange] to W as a line of
// JSON. A recording has the whole conversation, but no keys. A failed write ends the stream with its error. A
// Recorder is safe for concurrent use; it must not be copied.
type Recorder struct {
	Model llm.Model
	W     io.Writer

	mu sync.Mutex
}

// Info describes the wrapped model.
func (r *Recorder) Info() llm.Info { return r.Model.Info() }

// Stream requests an answer of the wrapped model. An answer that the caller does not read to its end is recorded as far
// as it was read.
func (r *Recorder) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		x := Exchange{Model: r.Model.Info().ID, Request: req, Events: []llm.Event{}}
		var failed error
		more := true
		for ev, err := range r.Model.Stream(ctx, req) {
			if err != nil {
				failed, x.Error = err, failure(err)
				break
			}
			x.Events = append(x.Events, ev)
			if more = yield(ev, nil); !more {
				break
			}
		}
		if err := r.write(x); failed == nil {
			failed = err
		}
		if failed != nil && more {
			yield(llm.Event{}, failed)
		}
	}
}

func (r *Recorder) write(x Exchange) error {
	line, err := json.Marshal(x)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.W.Write(append(line, '\n'))
	return err
}

func failure(err error) *Failure {
	f := &Failure{Message: err.Error()}
	if e := (*llm.Error)(nil); errors.As(err, &e) {
		f.Kind, f.Status = e.Kind, e.Status
	}
	return f
}

// Replay returns a model that answers as a [Recorder] wrote it: its exchanges in order, whatever is requested. A
// request after the last one is an error.
func Replay(recording io.Reader) (llm.Model, error) {
	m := &replayed{}
	for dec := json.NewDecoder(recording); ; {
		var x Exchange
		if err := dec.Decode(&x); err == io.EOF {
			return m, nil
		} else if err != nil {
			return nil, fmt.Errorf("exchange %d of the recording: %w", len(m.exchanges)+1, err)
		}
		m.exchanges = append(m.exchanges, x)
	}
}

// replayed is the model of Replay.
type replayed struct {
	mu        sync.Mutex
	exchanges []Exchange
	next      int
}

func (m *replayed) Info() llm.Info {
	if len(m.exchanges) == 0 {
		return llm.Info{}
	}
	return llm.Info{ID: m.exchanges[0].Model}
}

func (m *replayed) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		m.mu.Lock()
		i := m.next
		m.next++
		m.mu.Unlock()
		if i >= len(m.exchanges) {
			yield(llm.Event{}, fmt.Errorf("the recording has only %d exchanges", len(m.exchanges)))
			return
		}
		for _, ev := range m.exchanges[i].Events {
			if !yield(ev, nil) {
				return
			}
		}
		if f := m.exchanges[i].Error; f != nil && f.Kind != "" {
			yield(llm.Event{}, &llm.Error{Kind: f.Kind, Status: f.Status, Message: f.Message})
		} else if f != nil {
			yield(llm.Event{}, errors.New(f.Message))
		}
	}
}
