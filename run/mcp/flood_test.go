package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// endless is a stream that repeats one text and counts the bytes that were read.
type endless struct {
	text string
	read atomic.Int64
	most int64 // 0 for no limit
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.most > 0 && e.read.Load() >= e.most {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		k := copy(p[n:], e.text[e.at:])
		n, e.at = n+k, (e.at+k)%len(e.text)
	}
	e.read.Add(int64(n))
	return n, nil
}

func (e *endless) Close() error { return nil }

// TestMeter: reading stops at the limits, with a reason.
func TestMeter(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		what, text string
		most, want int64 // the meter's limit, and the most bytes that may be read
		reason     string
	}{
		{"a line", "x", maxUnasked, maxMessage, "a message of more than 16 MiB"},
		{"lines", strings.Repeat("x", 1<<20) + "\n", maxUnasked, maxUnasked, "more than 128 MiB that was not requested"},
		{"messages", "{}\n", maxUnasked, 3 * maxFlood, "more than 20000 messages"},
		{"an answer", "x\n", 4096, 4096, "a message of more than 16 MiB"},
	} {
		e, f := &endless{text: x.text}, newFault()
		m := &meter{ReadCloser: e, fault: f, limit: x.most}
		buffer := make([]byte, 1024)
		var err error
		for err == nil {
			_, err = m.Read(buffer)
		}
		if !strings.Contains(err.Error(), x.reason) || f.get() != err {
			t.Errorf("%s: %v", x.what, err)
		}
		if n := e.read.Load(); n > x.want+int64(len(buffer)) || x.text != "{}\n" && n != x.want+1 {
			t.Errorf("%s: %d bytes were read", x.what, n)
		}
	}
	m := &meter{ReadCloser: &endless{text: "{}\n"}, fault: newFault(), limit: maxUnasked}
	buffer := make([]byte, 30)
	for range maxFlood { // ten messages per request
		if _, err := m.Read(buffer); err != nil {
			t.Fatal(err)
		}
		m.reset()
	}
}

// writer is a program that answers the handshake and then, as soon as its tools are listed, sends what flood returns.
func writer(flood func() io.Reader) func(context.Context, Server, workspace.Command) (workspace.Exit, error) {
	return func(_ context.Context, _ Server, c workspace.Command) (workspace.Exit, error) {
		in := bufio.NewReader(c.Stdin)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return workspace.Exit{}, nil
			}
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if json.Unmarshal(line, &m) != nil || m.ID == nil {
				continue
			}
			switch m.Method {
			case "initialize":
				fmt.Fprintf(c.Output, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25",`+
					`"capabilities":{"tools":{}}}}`+"\n", m.ID)
			case "tools/list":
				fmt.Fprintf(c.Output, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"x","inputSchema":`+
					`{"type":"object"}}]}}`+"\n", m.ID)
				go io.Copy(c.Output, flood())
			case "tools/call":
				fmt.Fprint(c.Output, "{not a message\n")
			default:
				fmt.Fprintf(c.Output, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
			}
		}
	}
}

// TestFlood: a program that sends unrequested messages is stopped, and the reason says so. Found by attack.
func TestFlood(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		flood  func() io.Reader
		reason string
	}{
		"messages": {func() io.Reader {
			return &endless{text: `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` +
				"\n"}
		}, "stopped: it sent more than 20000 messages that were not requested"},
		"a line": {func() io.Reader {
			return io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","method":"`), &endless{text: "x"})
		}, "stopped: it sent a message of more than 16 MiB"},
		"deep": {func() io.Reader { return &endless{text: "[", most: 1 << 20} },
			"stopped: it sent something that is not a JSON-RPC message: invalid character '[' exceeded max depth"},
		"not JSON": {func() io.Reader { return strings.NewReader("{Listening on stdio}\n") },
			"stopped: it sent something that is not a JSON-RPC message: invalid character 'L'"},
		"text": {func() io.Reader { return &endless{text: "Listening on stdio\n"} },
			"stopped: it sent more than 20000 messages that were not requested"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, until := watch(t)
			o.Run = writer(x.flood)
			c := New(o, Server{Name: "s", Command: "x"})
			defer c.Close()
			c.Start()
			until(x.reason, func() bool { return strings.Contains(c.Servers()[0].Reason, x.reason) })
		})
	}
}

// roundTripper answers requests without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEndlessStream: only a limited part of a stream of 250 MB, and of an endless one, is read. Found by attack: it was
// read for as long as it came.
func TestEndlessStream(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		media string
		body  *endless
		most  int64
	}{
		"one event": {"text/event-stream", &endless{text: "data: x", most: 250 << 20}, maxMessage},
		"events": {"text/event-stream", &endless{text: "data: " + strings.Repeat("x", 1000) + "\n\n", most: 250 << 20},
			maxUnasked},
		"comments":   {"text/event-stream", &endless{text: ":\n"}, maxUnasked},
		"one answer": {"application/json", &endless{text: `{"jsonrpc":"2.0",`}, maxMessage},
		"lines":      {"application/json", &endless{text: " \n"}, maxMessage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, until := watch(t)
			requests := atomic.Int64{}
			o.HTTP = roundTripper(func(r *http.Request) (*http.Response, error) {
				requests.Add(1)
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {x.media}}, Body: x.body, Request: r},
					nil
			})
			c := New(o, Server{Name: "s", URL: "https://example.com/mcp"})
			defer c.Close()
			c.Start()
			until("stopped", func() bool { return strings.HasPrefix(c.Servers()[0].Reason, "stopped: it sent ") })
			c.Close() // before the next try
			if n := x.body.read.Load(); n > (x.most+1)*requests.Load() || requests.Load() > 2 {
				t.Errorf("%d bytes were read in %d requests", n, requests.Load())
			}
		})
	}
}

// TestCallAfterFault: while a connection that failed is being closed, a call is refused with the reason.
func TestCallAfterFault(t *testing.T) {
	t.Parallel()
	o, until := watch(t)
	serve := writer(func() io.Reader { return strings.NewReader("") })
	o.Run = func(ctx context.Context, s Server, c workspace.Command) (workspace.Exit, error) {
		serve(ctx, s, c)
		<-ctx.Done() // a program that does not end with its input
		return workspace.Exit{}, nil
	}
	c := New(o, Server{Name: "s", Command: "x"})
	defer c.Close()
	c.Start()
	until("connected", func() bool { return c.Servers()[0].State == Connected })
	tools := c.Tools(nil)
	call := func() string {
		return llm.TextOf(tool.Call(t.Context(), tools, llm.ToolCall{ID: "1", Name: "mcp__s__x", Input: []byte(`{}`)},
			tool.AllowAll, nil).Parts)
	}
	call()
	for c.peers[0].connection() != nil {
		time.Sleep(time.Millisecond)
	}
	if text := call(); strings.HasSuffix(text, "is not connected: connected") {
		t.Error(text)
	}
}
