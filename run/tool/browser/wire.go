package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// maxMessage limits one message of the browser, in bytes.
const maxMessage = 64 << 20

// errEnded is the error of a call that the end of the browser cut off.
var errEnded = errors.New("the browser ended")

// A wire exchanges the messages of the DevTools protocol with a browser that was started with --remote-debugging-pipe:
// JSON objects, each ended by a zero byte. The browser's messages are written to it.
type wire struct {
	to io.WriteCloser
	// event gets the browser's events in order, one at a time. It must not call the browser.
	event func(id target.SessionID, method string, params json.RawMessage)

	sending sync.Mutex
	mu      sync.Mutex
	last    int64
	waiting map[int64]chan message
	ended   bool
	rest    []byte
}

type message struct {
	ID     int64            `json:"id,omitempty"`
	Method string           `json:"method,omitempty"`
	Params json.RawMessage  `json:"params,omitempty"`
	Target target.SessionID `json:"sessionId,omitempty"`
	Result json.RawMessage  `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
		Data    string `json:"data"`
	} `json:"error,omitempty"`
}

// Write takes what the browser sends.
func (w *wire) Write(data []byte) (int, error) {
	n := len(data)
	for {
		i := bytes.IndexByte(data, 0)
		if i < 0 {
			if len(w.rest)+len(data) > maxMessage {
				return 0, errors.New("a message of the browser is too long")
			}
			w.rest = append(w.rest, data...)
			return n, nil
		}
		text := data[:i]
		if len(w.rest) > 0 {
			text = append(w.rest, text...)
			w.rest = nil
		}
		data = data[i+1:]
		var m message
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		if m.ID == 0 {
			w.event(m.Target, m.Method, m.Params)
			continue
		}
		w.mu.Lock()
		c := w.waiting[m.ID]
		delete(w.waiting, m.ID)
		w.mu.Unlock()
		if c != nil {
			c <- m
		}
	}
}

// end fails all calls, now and later.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for id, c := range w.waiting {
		close(c)
		delete(w.waiting, id)
	}
}

// send sends one message and waits for the answer to it.
func (w *wire) send(ctx context.Context, id target.SessionID, method string, params any) (json.RawMessage, error) {
	m := message{Method: method, Target: id}
	var err error
	if m.Params, err = json.Marshal(params); err != nil {
		return nil, err
	}
	answer := make(chan message, 1)
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return nil, errEnded
	}
	w.last++
	m.ID = w.last
	w.waiting[m.ID] = answer
	w.mu.Unlock()
	text, err := json.Marshal(m)
	if err == nil {
		w.sending.Lock()
		_, err = w.to.Write(append(text, 0))
		w.sending.Unlock()
	}
	if err != nil {
		w.mu.Lock()
		delete(w.waiting, m.ID)
		w.mu.Unlock()
		return nil, errEnded
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, errEnded
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		return m.Result, nil
	case <-ctx.Done():
		w.mu.Lock()
		delete(w.waiting, m.ID)
		w.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// call runs a command of the protocol. id is the tab that it is for; "": the browser.
func call[P, R any](ctx context.Context, w *wire, id target.SessionID, c cdp.Command[P, R], params P) (R, error) {
	var result R
	data, err := w.send(ctx, id, c.Method, params)
	if err == nil {
		err = json.Unmarshal(data, &result)
	}
	return result, err
}
