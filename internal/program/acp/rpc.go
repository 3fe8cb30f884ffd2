package acp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// maxLine limits a message of the client, in bytes. A longer one is refused, and the connection stays.
const maxLine = 32 << 20

// A reason is an error with a text of ours. As a constant it costs nothing when the program starts.
type reason string

func (r reason) Error() string { return string(r) }

const (
	// errGone ends everything that runs for a client that has gone.
	errGone reason = "the client has disconnected"
	// errWithdrawn ends a request that the client has withdrawn.
	errWithdrawn reason = "the client has withdrawn the request"
	// errLong refuses a line.
	errLong reason = "the message has more than 32 MiB"
)

// A conn is a connection of JSON-RPC 2.0, one message on each line. That of the SDK would close itself when a line is
// long or when the client sends many notifications, would stop the first of two prompts, and cannot say when an answer
// was written.
type conn struct {
	// handle answers a request, or takes a notification. It is called in a goroutine of its own, but for a session only
	// after begun of the call before.
	handle func(ctx context.Context, c *call) (any, error)

	writing sync.Mutex
	encode  *json.Encoder
	failed  func() // called when nothing can be written any more

	mu       sync.Mutex
	lastID   int
	pending  map[string]chan message            // our requests, by ID
	handling map[string]context.CancelCauseFunc // the client's, by ID
	last     map[string]chan struct{}           // the last request about a session, by its ID; closed when the next may begin
	gone     chan struct{}                      // closed when the client has gone
}

// A message is a line of either side.
type message struct {
	Version string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id,omitempty"`
	Method  string            `json:"method,omitempty"`
	Params  json.RawMessage   `json:"params,omitempty"`
	Result  json.RawMessage   `json:"result,omitempty"`
	Error   *sdk.RequestError `json:"error,omitempty"`
}

// A call is a request or a notification of the client. A notification gets no answer.
type call struct {
	method string
	params json.RawMessage
	begun  func()   // lets the next request about the same session begin; at the latest the answer does
	after  []func() // called when the answer was written
}

func newConn(w io.Writer) *conn {
	c := &conn{encode: json.NewEncoder(plain.JSON(w)), pending: map[string]chan message{}, failed: func() {},
		handling: map[string]context.CancelCauseFunc{}, last: map[string]chan struct{}{}, gone: make(chan struct{})}
	c.encode.SetEscapeHTML(false)
	return c
}

func (c *conn) write(m message) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	m.Version = "2.0"
	err := c.encode.Encode(m)
	if err != nil {
		c.failed()
	}
	return err
}

// notify sends a notification.
func (c *conn) notify(method string, params any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return c.write(message{Method: method, Params: data})
}

// request sends a request and waits for its answer. When ctx ends, it withdraws the request.
func request[R any](ctx context.Context, c *conn, method string, params any) (out R, err error) {
	data, err := json.Marshal(params)
	if err != nil {
		return out, err
	}
	wait := make(chan message, 1)
	c.mu.Lock()
	c.lastID++
	id := json.RawMessage(fmt.Sprint(c.lastID))
	c.pending[string(id)] = wait
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, string(id))
	}()
	if err := c.write(message{ID: id, Method: method, Params: data}); err != nil {
		return out, errGone
	}
	select {
	case m := <-wait:
		if m.Error != nil {
			return out, fmt.Errorf("the client answered with an error: %s", cmp.Or(m.Error.Message, "it says nothing more"))
		}
		if err := json.Unmarshal(m.Result, &out); err != nil {
			return out, fmt.Errorf("the client's answer cannot be read: %w", err)
		}
		return out, nil
	case <-ctx.Done():
		c.notify("$/cancel_request", withdrawal{id})
		return out, context.Cause(ctx)
	case <-c.gone:
		return out, errGone
	}
}

// A withdrawal is the parameter of $/cancel_request.
type withdrawal struct {
	ID json.RawMessage `json:"requestId"`
}

// serve handles the messages of in until its end or that of ctx, then ends what runs, and waits for it.
func (c *conn) serve(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.failed = func() { cancel(errGone) }
	var running sync.WaitGroup
	read := make(chan error, 1)
	go func() { // ends with in; serve does not wait for a client that stays silent
		read <- readLines(in, func(line []byte, err error) {
			if ctx.Err() == nil {
				c.take(ctx, line, err, &running)
			}
		})
	}()
	var err error
	select {
	case err = <-read:
		cancel(errGone)
	case <-ctx.Done():
	}
	close(c.gone)
	running.Wait()
	return err
}

// take handles one line.
func (c *conn) take(ctx context.Context, line []byte, err error, running *sync.WaitGroup) {
	var m message
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	switch {
	case err != nil && errors.Is(err, errLong):
		c.write(message{ID: idOf(line), Error: sdk.NewInvalidRequest(detail(err))})
	case err != nil:
		c.write(message{ID: json.RawMessage("null"), Error: sdk.NewParseError(detail(err))})
	case m.Method == "" && m.ID != nil:
		c.mu.Lock()
		wait := c.pending[string(m.ID)]
		delete(c.pending, string(m.ID))
		c.mu.Unlock()
		if wait != nil { // otherwise it was withdrawn
			wait <- m
		}
	case m.Method == "$/cancel_request":
		var w withdrawal
		json.Unmarshal(m.Params, &w)
		c.mu.Lock()
		defer c.mu.Unlock()
		if stop := c.handling[string(w.ID)]; stop != nil {
			stop(errWithdrawn)
		}
	case m.Method == "":
		c.write(message{ID: json.RawMessage("null"), Error: sdk.NewInvalidRequest(map[string]any{
			"error": "the message has neither a method nor an ID"})})
	default:
		c.begin(ctx, m, running)
	}
}

// begin handles a request or a notification, after those before it about the same session have begun: a cancellation
// that follows a prompt is of that one.
func (c *conn) begin(ctx context.Context, m message, running *sync.WaitGroup) {
	var about struct {
		Session string `json:"sessionId"`
	}
	json.Unmarshal(m.Params, &about)
	ctx, stop := context.WithCancelCause(ctx)
	begun := make(chan struct{})
	x := &call{method: m.Method, params: m.Params, begun: sync.OnceFunc(func() { close(begun) })}
	c.mu.Lock()
	if m.ID != nil {
		c.handling[string(m.ID)] = stop
	}
	before := c.last[about.Session]
	if about.Session != "" {
		c.last[about.Session] = begun
	}
	c.mu.Unlock()
	running.Go(func() {
		defer stop(nil)
		defer x.begun()
		if before != nil {
			<-before
		}
		answer := message{ID: m.ID}
		result, err := c.handle(ctx, x)
		switch {
		case err == nil:
			answer.Result, err = json.Marshal(result)
		case errors.Is(context.Cause(ctx), errWithdrawn):
			err = sdk.NewRequestCancelled(nil)
		}
		if err != nil {
			answer.Result, answer.Error = nil, failure(err)
		}
		c.mu.Lock()
		delete(c.handling, string(m.ID))
		if c.last[about.Session] == begun {
			delete(c.last, about.Session)
		}
		c.mu.Unlock()
		if m.ID == nil {
			return
		}
		if c.write(answer) == nil {
			for _, f := range x.after {
				f()
			}
		}
	})
}

func detail(err error) any { return map[string]any{"error": err.Error()} }

// readLines calls do for each line that is not empty. Of a line that is too long it gets the start, and errLong.
func readLines(r io.Reader, do func(line []byte, err error)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		var line []byte
		long := false
		var part []byte
		var err error
		for {
			part, err = in.ReadSlice('\n')
			if long = long || len(line)+len(part) > maxLine; long {
				line = line[:min(len(line), maxHead)]
			} else {
				line = append(line, part...)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		switch {
		case long:
			do(line, errLong)
		case len(bytes.TrimSpace(line)) > 0:
			do(line, nil)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// maxHead is how much of a line that is too long is searched for its ID.
const maxHead = 4 << 10

// idOf returns the ID of a message of which only the start is known; null: the start does not have it.
func idOf(start []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(start))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return json.RawMessage("null")
	}
	for {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return json.RawMessage("null")
		}
		if name, ok := key.(string); ok && strings.EqualFold(name, "id") {
			return value
		}
	}
}
