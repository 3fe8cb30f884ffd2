package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/guard"
)

// maxMessage limits one message of a server, in bytes.
const maxMessage = 16 << 20

// A Conn is a connection to a server of the host. A frame is one JSON-RPC message. One goroutine at a
// time calls ReadFrame, several may call WriteFrame. CloseConn, which may be called more than once,
// ends a waiting ReadFrame.
type Conn interface {
	ReadFrame(ctx context.Context) ([]byte, error) // io.EOF: it has ended
	WriteFrame(ctx context.Context, frame []byte) error
	CloseConn() error
}

// Pipe returns two connected ends: what is written to one is read from the other.
func Pipe() (a, b Conn) {
	ab, ba := make(chan []byte, 16), make(chan []byte, 16)
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	return &pipeEnd{ab, ba, done, end}, &pipeEnd{ba, ab, done, end}
}

type pipeEnd struct {
	out  chan<- []byte
	in   <-chan []byte
	done chan struct{}
	end  func()
}

func (p *pipeEnd) ReadFrame(ctx context.Context) ([]byte, error) {
	select {
	case f := <-p.in:
		return f, nil
	case <-p.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipeEnd) WriteFrame(ctx context.Context, frame []byte) error {
	select {
	case p.out <- bytes.Clone(frame):
		return nil
	case <-p.done:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pipeEnd) CloseConn() error { p.end(); return nil }

// frames adapts a Conn to a connection of the SDK.
type frames struct{ Conn }

func (f frames) Connect(context.Context) (sdk.Connection, error) { return f, nil }
func (f frames) SessionID() string                               { return "" }
func (f frames) Close() error                                    { return f.CloseConn() }

func (f frames) Read(ctx context.Context) (jsonrpc.Message, error) {
	data, err := f.ReadFrame(ctx)
	if err != nil {
		return nil, err
	}
	if len(data) > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes: at most %d are read", len(data), maxMessage)
	}
	return jsonrpc.DecodeMessage(mendMessage(data))
}

func (f frames) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return f.WriteFrame(ctx, data)
}

// Transport adapts a Conn to a transport of the Go SDK: a host runs its own server on one end of a [Pipe] with it.
func Transport(c Conn) sdk.Transport { return frames{c} }

// A program is a server that runs as a process.
type program struct {
	stderr tail
	text   *textFilter // its standard output
	cancel context.CancelFunc
	ended  chan struct{}
	// Once ended is closed, these may be read:
	err     error    // why it ended by itself
	refused []string // what the sandbox refused
}

// program starts a server's program, and returns the transport that communicates with it.
func (c *Client) program(s Server, f *fault) (*program, sdk.Transport, error) {
	if c.opt.Run == nil {
		return nil, nil, errors.New("programs cannot be started here")
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{cancel: cancel, ended: make(chan struct{})}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	cmd := workspace.Command{Args: append([]string{s.Command}, s.Args...), Stdin: stdin, Output: stdout, Stderr: &p.stderr}
	cmd.Allow = s.Allow
	for k, v := range s.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	go func() {
		defer close(p.ended)
		exit, err := c.opt.Run(ctx, s, cmd)
		p.refused = exit.Refused
		switch {
		case ctx.Err() != nil:
		case err != nil:
			p.err = err
		case exit.Signal != "":
			p.err = fmt.Errorf("the program ended by signal %s", exit.Signal)
		default:
			p.err = fmt.Errorf("the program ended with code %d", exit.Code)
		}
		stdout.CloseWithError(io.EOF)
		stdin.CloseWithError(io.ErrClosedPipe)
	}()
	m := &meter{ReadCloser: out, fault: f, limit: maxUnasked}
	p.text = &textFilter{ReadCloser: m}
	return p, &sdk.IOTransport{Reader: mendedValues(p.text, s.incoming()), Writer: &quietWriter{w: in, wrote: m.reset},
		MaxLineLength: 2 * maxMessage}, nil
}

// stop waits up to grace for the program to end by itself, then kills it.
func (p *program) stop(grace time.Duration) {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.ended:
	case <-t.C:
	}
	p.cancel()
	<-p.ended
}

// reason adds the last line of the program's standard error to an error, and what the sandbox refused. writeHint is
// asked what its texts have to do with the sandbox.
func (p *program) reason(err error, writeHint func(text string) string) error {
	var refused []string
	select {
	case <-p.ended:
		if p.err != nil {
			err = p.err
		}
		refused = p.refused
	default:
	}
	if line := p.stderr.last(); line != "" {
		err = fmt.Errorf("%w: %s", err, line)
	}
	if line := p.text.firstLine(); line != "" {
		err = fmt.Errorf("%w (its standard output begins with text that is no message: %q)", err, line)
	}
	if hint := writeHint(err.Error() + "\n" + p.stderr.text()); hint != "" {
		err = fmt.Errorf("%w (%s)", err, hint)
		refused = slices.DeleteFunc(slices.Clone(refused), func(text string) bool {
			return strings.HasPrefix(text, "writing ")
		})
	}
	if len(refused) > 0 {
		err = fmt.Errorf("%w (%s)", err, strings.Join(refused, "; "))
	}
	return err
}

// textFilter leaves out the lines of a program's output that cannot be messages. The protocol forbids them, but many
// programs greet or log there, and other clients ignore that, too.
type textFilter struct {
	io.ReadCloser
	in lineKind // the kind of the current line

	mu   sync.Mutex
	text []byte // the start of the first line that was left out
	full bool   // the end of that line has been read
}

type lineKind int

const (
	lineStart lineKind = iota // only blanks so far
	lineMessage
	lineText
)

func (t *textFilter) Read(p []byte) (int, error) {
	for {
		n, err := t.ReadCloser.Read(p)
		if n = t.filter(p[:n]); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// filter moves what is passed on to the start of p and returns its length.
func (t *textFilter) filter(p []byte) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := p[:0]
	for len(p) > 0 {
		if t.in == lineStart {
			switch p[0] {
			case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf: // or a byte order mark
				p = p[1:]
				continue
			case '{', '[':
				t.in = lineMessage
			default:
				t.in = lineText
			}
		}
		line, ended := p, false
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			line, ended = p[:i+1], true
		}
		p = p[len(line):]
		if t.in == lineMessage {
			kept = append(kept, line...)
		} else if !t.full {
			t.text = append(t.text, line[:min(len(line), 200-len(t.text))]...)
			t.full = ended
		}
		if ended {
			t.in = lineStart
		}
	}
	return len(kept)
}

// firstLine returns the start of the first line that was left out; "": there is none.
func (t *textFilter) firstLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "\uFFFD"))
}

// quietWriter writes to a pipe, in the background if the other end does not read, so that a hanging
// server does not block its caller. The amount of waiting data is limited.
type quietWriter struct {
	w       io.WriteCloser
	wrote   func() // called at each Write
	mu      sync.Mutex
	waiting [][]byte
	size    int
	busy    bool
	closed  bool
	err     error
}

func (q *quietWriter) Write(p []byte) (int, error) {
	q.wrote()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return 0, q.err
	case q.closed:
		return 0, io.ErrClosedPipe
	case q.size+len(p) > maxMessage:
		return 0, errors.New("the server does not read its input")
	}
	q.waiting, q.size = append(q.waiting, bytes.Clone(p)), q.size+len(p)
	if !q.busy {
		q.busy = true
		go q.flush()
	}
	return len(p), nil
}

func (q *quietWriter) flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 && q.err == nil {
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		_, err := q.w.Write(next)
		q.mu.Lock()
		q.size -= len(next)
		q.err = err
	}
	q.busy = false
	if q.closed {
		q.w.Close()
	}
}

func (q *quietWriter) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	if !q.busy {
		return q.w.Close()
	}
	return nil
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p[max(0, len(p)-tailSize):]...)
	if len(t.data) > tailSize {
		t.data = append([]byte(nil), t.data[len(t.data)-tailSize:]...)
	}
	return len(p), nil
}

// text returns what it keeps.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.data), "\uFFFD")
}

// last returns the line that explains the end best: the last one with the name of an error, because
// stack traces and the version of Node.js may follow it; otherwise the last one that is not empty.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(t.text()), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, "rror: ") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// bounded limits a server's answers and adds the server's headers to requests. After a fault it sends
// nothing more.
type bounded struct {
	base    http.RoundTripper
	headers map[string]string
	fault   *fault // nil: each answer has its own
}

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	f := b.fault
	if f == nil {
		f = newFault()
	}
	if err := f.get(); err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	for k, v := range b.headers {
		if req.Header.Get(k) == "" {
			req.Header.Set(k, v)
		}
	}
	res, err := b.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	m := &meter{ReadCloser: res.Body, fault: f, limit: maxMessage}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		m.limit = maxUnasked
	}
	res.Body = m
	return res, nil
}

// sameOrigin follows redirects only within the server's origin.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		return fmt.Errorf("the server redirects to another address, %s://%s, which is not followed", req.URL.Scheme,
			req.URL.Host)
	}
	if len(via) >= 5 {
		return errors.New("more than 5 redirects")
	}
	return nil
}

// A guarded is what the transport of a server depends on.
type guarded struct{ server, open string }

// transport returns what sends the requests to a server and to the addresses that it names.
func (c *Client) transport(s Server) http.RoundTripper {
	if c.opt.HTTP != nil {
		return c.opt.HTTP
	}
	// A server that was configured on this machine or inside may name other services there, such as one for logins. One
	// that was configured by name is itself allowed to be inside, and nothing else.
	key := guarded{server: s.Name}
	if u, err := url.Parse(s.URL); err == nil {
		key.open = u.Host
		if guard.Inside(u) {
			key.open = u.Hostname()
		} else if u.Port() == "" {
			key.open += ":" + guard.Port(u)
		}
	}
	c.guardsMu.Lock()
	defer c.guardsMu.Unlock()
	if c.guards[key] == nil {
		o := c.base
		o.Open = append([]string{key.open}, c.opt.AllowPrivate...)
		o.Proxied = func(host string, proxy *url.URL) {
			c.opt.Debug.Debug("request through a proxy", "topic", "mcp", "server", s.Name, "host", host, "proxy", proxy.Host)
			if c.opt.Proxied != nil {
				c.opt.Proxied(s.Name, host, proxy)
			}
		}
		if c.guards == nil {
			c.guards = map[guarded]*guard.Transport{}
		}
		c.guards[key] = guard.New(o)
	}
	return c.guards[key]
}

// http makes the transport of a server that has a URL.
func (c *Client) http(ctx context.Context, s Server, f *fault) (sdk.Transport, error) {
	if _, err := checkURL(s.URL); err != nil {
		return nil, err
	}
	headers := s.Headers
	if s.HeadersHelper != "" {
		more, err := c.helper(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("headersHelper: %w", err)
		}
		headers = more
		for k, v := range s.Headers {
			if _, ok := headers[k]; !ok {
				headers[k] = v
			}
		}
	}
	if s.SSE {
		return sse(s.URL, &bounded{c.transport(s), headers, f}, s.incoming())
	}
	t := &sdk.StreamableClientTransport{
		Endpoint: s.URL,
		HTTPClient: &http.Client{Transport: mending{&bounded{c.transport(s), headers, f}, s.incoming()},
			CheckRedirect: sameOrigin},
		MaxEventSize: 2 * maxMessage,
	}
	if h := c.oauth(headers, s, f); h != nil {
		t.OAuthHandler = h
	}
	return t, nil
}

// helper runs a server's headersHelper and returns the headers.
func (c *Client) helper(ctx context.Context, s Server) (map[string]string, error) {
	if c.opt.Run == nil {
		return nil, errors.New("programs cannot be started here")
	}
	var out, errs tail
	exit, err := c.opt.Run(ctx, s, workspace.Command{Line: s.HeadersHelper, Output: &out, Stderr: &errs,
		Env: []string{"KNACK_MCP_SERVER=" + s.Name, "KNACK_MCP_URL=" + s.URL}})
	switch {
	case err != nil:
		return nil, err
	case exit.Code != 0:
		return nil, fmt.Errorf("it ended with code %d: %s", exit.Code, errs.last())
	}
	headers := map[string]string{}
	if err := json.Unmarshal(out.data, &headers); err != nil || headers == nil {
		return nil, fmt.Errorf("it does not print a JSON object of strings")
	}
	for k, v := range headers {
		if strings.ContainsAny(k+v, "\r\n\x00") {
			return nil, errors.New("a header has a line break in it")
		}
	}
	return headers, nil
}
