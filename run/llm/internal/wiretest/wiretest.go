// Package wiretest runs an adapter against a server that sends a given answer.
package wiretest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// An Answer is what an adapter made of the server's answer.
type Answer struct {
	Events string        // one line per event
	Done   *llm.Response // nil: the stream ended without one
	Err    error
	Sent   string // the request: path and query, the header X-Goog-Api-Key if any, and body
}

// A Reply is what the server answers.
type Reply struct {
	Status int // 0: 200
	Body   string
	Breaks bool // the connection breaks after Body
}

// Ask sends a request to the server through the model that open returns.
func Ask(t *testing.T, open func(llm.Endpoint) llm.Model, reply Reply, req *llm.Request) Answer {
	t.Helper()
	var a Answer
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		a.Sent = r.URL.String() + " " + r.Header.Get("X-Goog-Api-Key") + " " + string(data)
		if reply.Status != 0 {
			w.WriteHeader(reply.Status)
		}
		io.WriteString(w, reply.Body)
		if reply.Breaks {
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	defer s.Close()
	m := open(llm.Endpoint{Name: "m", BaseURL: s.URL + "/v1beta/", Key: "sk-secret",
		Info: llm.Info{ID: "test/m", Thinking: true, Window: 1000}})
	var b strings.Builder
	for ev, err := range m.Stream(t.Context(), req) {
		switch {
		case err != nil:
			a.Err = err
		case ev.Call != nil:
			fmt.Fprintf(&b, "call %s %s %s\n", ev.Call.ID, ev.Call.Name, ev.Call.Input)
		case ev.Done != nil:
			a.Done = ev.Done
			u := a.Done.Usage
			fmt.Fprintf(&b, "%s %s in %d out %d read %d write %d\n", a.Done.Stop, a.Done.Model, u.Input, u.Output, u.CacheRead,
				u.CacheWrite)
		case ev.Thinking != "":
			fmt.Fprintf(&b, "thinking %q\n", ev.Thinking)
		default:
			fmt.Fprintf(&b, "text %q\n", ev.Text)
		}
	}
	a.Events = b.String()
	return a
}

// User returns a message of the user.
func User(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.User, Parts: parts} }

// Hello returns a request with one short message.
func Hello() *llm.Request { return &llm.Request{Messages: []llm.Message{User(llm.Text("hi"))}} }

// Stream returns an event stream of JSON objects, one per line. A line that begins with a space
// continues the line before it.
func Stream(lines string) Reply {
	lines = strings.ReplaceAll(strings.TrimSpace(lines), "\n ", "")
	return Reply{Body: "data: " + strings.ReplaceAll(lines, "\n", "\r\n\r\ndata: ") + "\r\n\r\n"}
}

var generated = regexp.MustCompile(`call_[A-Z2-7]{20,}`)

// Check sends a stream (see [Stream]) and compares its events, in which a generated call ID is
// written as call_?. The stream must end with an error of the given kind or, if that is "", with an
// answer.
func Check(t *testing.T, open func(llm.Endpoint) llm.Model, stream, events string, kind llm.ErrorKind) {
	t.Helper()
	a := Ask(t, open, Stream(stream), Hello())
	got := generated.ReplaceAllString(a.Events, "call_?")
	if want := strings.TrimPrefix(events, "\n"); got != want {
		t.Errorf("events:\n%swant:\n%s", got, want)
	}
	var e *llm.Error
	switch {
	case kind == "" && (a.Err != nil || a.Done == nil):
		t.Errorf("error %v, answer %v", a.Err, a.Done)
	case kind != "" && (!errors.As(a.Err, &e) || e.Kind != kind || a.Done != nil):
		t.Errorf("error %v, answer %v; want the kind %q and no answer", a.Err, a.Done, kind)
	}
}
