package diagnose

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

const (
	startTime  = 60 * time.Second       // a server has to answer the first request
	settleTime = 300 * time.Millisecond // after a report without errors another may follow: of the types, say
	stopTime   = time.Second            // a server has to end by itself

	maxFrame    = 8 << 20 // bytes of a message
	maxHeader   = 4 << 10 // bytes of the lines before it
	maxMessages = 5000    // in floodTime
	floodTime   = 10 * time.Second
	maxErrors   = 50  // of a file
	maxText     = 300 // bytes of an error
	maxOutbox   = 64  // messages that a server has not read
)

// A server is a language server that runs, or has run.
type server struct {
	*Server
	place engine.Place
	ready chan struct{} // closed when it has answered, or has failed
	stop  func()        // ends its process
	ended chan struct{} // closed when its process has ended
	out   chan func(context.Context, *jsonrpc2.Conn)

	mu      sync.Mutex
	failed  error // why it is not used any more; nil: it is
	files   map[string]*file
	changed chan struct{} // closed at each report
	overdue time.Time     // since when it owes an answer for which nobody waits any more; zero: it owes none
	window  time.Time     // when messages were last counted from 0
	count   int
}

// A file is a file that a server knows.
type file struct {
	version int // 0: not opened yet
	seen    int // the version that errors belong to
	at      time.Time
	errors  []finding
	base    map[string]int // errors that are known, by text
	waits   bool           // it is to be opened when the server is ready
	old     bool           // the server knows the text before the first change only
	opened  bool           // version 1 is this text
}

// A finding is an error in a file.
type finding struct {
	line, column int // from 1
	text         string
}

// start begins a server. It never fails: a server that cannot start is one that has failed.
func start(d *Server, in place) *server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{Server: d, place: in.Place, ready: make(chan struct{}), ended: make(chan struct{}),
		out: make(chan func(context.Context, *jsonrpc2.Conn), maxOutbox), files: map[string]*file{},
		changed: make(chan struct{})}
	stdin, toServer := io.Pipe()
	fromServer, stdout := io.Pipe()
	s.stop = func() {
		cancel()
		fromServer.Close() // or what the process has written would wait to be read
		toServer.Close()
	}
	var said head
	cmd := workspace.Command{Args: d.Args, Env: d.env, Stdin: stdin, Output: stdout, Stderr: &said,
		Allow: in.allow, Limits: []workspace.Limit{{NoNetwork: true}}}
	if d.dir != "" {
		cmd.Allow.Read = []string{d.dir}
	}
	go func() {
		defer close(s.ended)
		exit, err := in.Workspace.Run(ctx, cmd)
		if err == nil {
			err = errors.New(said.why(exit.Code))
		}
		s.fail(err)
		stdin.CloseWithError(io.ErrClosedPipe)
		stdout.CloseWithError(io.EOF)
	}()
	stream := jsonrpc2.NewBufferedStream(pipe{fromServer, toServer}, s)
	conn := jsonrpc2.NewConn(ctx, stream, jsonrpc2.HandlerWithError(s.handle), jsonrpc2.SetLogger(silent{}))
	go func() {
		<-conn.DisconnectNotify()
		s.fail(errors.New("it closed the connection"))
	}()
	go s.run(ctx, conn)
	return s
}

// pipe is the other end of a process.
type pipe struct {
	io.Reader
	io.WriteCloser
}

// silent is a log that keeps nothing.
type silent struct{}

func (silent) Printf(string, ...any) {}

// run begins the conversation and writes what is to be sent, which may wait for the server.
func (s *server) run(ctx context.Context, conn *jsonrpc2.Conn) {
	begin, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	root := fileURL(s.place.Workspace.Dir())
	var answer json.RawMessage
	err := conn.Call(begin, "initialize", map[string]any{
		"processId": nil, "rootUri": root, "rootPath": s.place.Workspace.Dir(), "initializationOptions": s.options,
		"workspaceFolders": []any{map[string]any{"uri": root, "name": filepath.Base(s.place.Workspace.Dir())}},
		"capabilities": map[string]any{
			"textDocument": map[string]any{
				"synchronization":    map[string]any{"didSave": true},
				"publishDiagnostics": map[string]any{"versionSupport": true},
			},
			"workspace": map[string]any{"configuration": true, "workspaceFolders": true, "applyEdit": false},
		},
	}, &answer)
	if err == nil {
		err = conn.Notify(begin, "initialized", struct{}{})
	}
	if err != nil {
		if begin.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("it did not answer within %s", startTime)
		}
		s.fail(err)
		return
	}
	if s.settings != nil {
		conn.Notify(ctx, "workspace/didChangeConfiguration", map[string]any{"settings": s.settings})
	}
	close(s.ready)
	s.mu.Lock()
	var waiting []string
	for path, f := range s.files {
		if f.waits {
			f.waits = false
			waiting = append(waiting, path)
		}
	}
	s.mu.Unlock()
	for _, path := range waiting {
		s.tell(ctx, path)
	}
	for {
		select {
		case send := <-s.out:
			send(ctx, conn)
		case <-ctx.Done():
			return
		}
	}
}

// fail ends a server. Only the first reason counts.
func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return
	}
	s.failed = err
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	s.stop()
}

// broken returns why a server is not used any more; nil: it is.
func (s *server) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// missed notes that a server has not answered a call that began at a time.
func (s *server) missed(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overdue.IsZero() {
		s.overdue = began
	}
}

// owes returns for how long a server has owed an answer; 0: it owes none.
func (s *server) owes() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overdue.IsZero() || s.failed != nil {
		return 0
	}
	return max(time.Since(s.overdue), 1)
}

// close asks a server to end, and ends it.
func (s *server) close() {
	s.send(func(ctx context.Context, c *jsonrpc2.Conn) {
		ctx, cancel := context.WithTimeout(ctx, stopTime)
		defer cancel()
		if c.Call(ctx, "shutdown", nil, nil) == nil {
			c.Notify(ctx, "exit", nil)
		}
	})
	select {
	case <-s.ended:
	case <-time.After(stopTime):
	}
	s.stop()
	<-s.ended
}

// send queues a message.
func (s *server) send(do func(context.Context, *jsonrpc2.Conn)) {
	select {
	case s.out <- do:
	default:
		s.fail(errors.New("it does not read what it is told"))
	}
}

// tell tells a server what a file contains.
func (s *server) tell(ctx context.Context, path string) {
	text, err := contents(ctx, s.place.Workspace, path)
	if err != nil {
		return
	}
	s.mu.Lock()
	f := s.file(path)
	f.version++
	version := f.version
	if f.old && version > 1 {
		f.base, f.old = counted(f.errors), false
	}
	s.mu.Unlock()
	uri := fileURL(path)
	s.send(func(ctx context.Context, c *jsonrpc2.Conn) {
		document := map[string]any{"uri": uri, "version": version}
		if version == 1 {
			document["languageId"], document["text"] = s.Languages[extension(filepath.Ext(path))], text
			c.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": document})
			return
		}
		c.Notify(ctx, "textDocument/didChange", map[string]any{"textDocument": document,
			"contentChanges": []any{map[string]any{"text": text}}})
		c.Notify(ctx, "textDocument/didSave", map[string]any{"textDocument": map[string]any{"uri": uri}})
	})
}

// file returns the file at a path. The lock is held.
func (s *server) file(path string) *file {
	f := s.files[path]
	if f == nil {
		f = &file{base: map[string]int{}}
		s.files[path] = f
	}
	return f
}

// ReadObject reads a message, see [jsonrpc2.ObjectCodec]: a server that sends too much is not read any further.
func (s *server) ReadObject(r *bufio.Reader, v any) error {
	s.mu.Lock()
	if now := time.Now(); now.Sub(s.window) > floodTime {
		s.window, s.count = now, 0
	}
	s.count++
	flood := s.count > maxMessages
	s.mu.Unlock()
	if flood {
		err := fmt.Errorf("it sent more than %d messages in %s", maxMessages, floodTime)
		s.fail(err)
		return err
	}
	n, err := length(r)
	if err == nil && (n < 0 || n > maxFrame) {
		err = fmt.Errorf("it sent a message of %d bytes: at most %d are read", n, maxFrame)
	}
	if err != nil {
		if !errors.Is(err, io.EOF) {
			s.fail(err)
		}
		return err
	}
	body := io.LimitReader(r, n)
	if err := json.NewDecoder(body).Decode(v); err != nil {
		s.fail(fmt.Errorf("it sent what is no message: %w", err))
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return err
}

// WriteObject writes a message.
func (s *server) WriteObject(w io.Writer, v any) error {
	return jsonrpc2.VSCodeObjectCodec{}.WriteObject(w, v)
}

// length reads the lines before a message.
func length(r *bufio.Reader) (int64, error) {
	n, size := int64(-1), 0
	for {
		line, err := r.ReadSlice('\n')
		if size += len(line); errors.Is(err, bufio.ErrBufferFull) || size > maxHeader {
			return 0, errors.New("it sent lines that are not those of the protocol")
		}
		if err != nil {
			return 0, err
		}
		text := strings.TrimSpace(string(line))
		if text == "" {
			return n, nil
		}
		name, value, _ := strings.Cut(text, ":")
		if strings.EqualFold(name, "Content-Length") {
			if n, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil {
				return 0, errors.New("it sent a length that is no number")
			}
		}
	}
}

// handle answers a server. What it asks to change is refused.
func (s *server) handle(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	switch r.Method {
	case "textDocument/publishDiagnostics":
		if r.Params != nil {
			s.report(*r.Params)
		}
		return nil, nil
	case "workspace/configuration":
		var in struct{ Items []struct{ Section string } }
		if r.Params != nil {
			json.Unmarshal(*r.Params, &in) // something else asks for nothing
		}
		all := make([]any, min(len(in.Items), 100))
		for i := range all {
			all[i] = section(s.settings, in.Items[i].Section)
		}
		return all, nil
	case "workspace/workspaceFolders":
		dir := s.place.Workspace.Dir()
		return []any{map[string]any{"uri": fileURL(dir), "name": filepath.Base(dir)}}, nil
	case "client/registerCapability", "client/unregisterCapability", "window/workDoneProgress/create",
		"window/showMessageRequest":
		return nil, nil
	case "workspace/applyEdit":
		return map[string]any{"applied": false, "failureReason": "This client changes nothing."}, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "not supported"}
}

// section returns a part of settings, whose name has dots.
func section(settings json.RawMessage, name string) any {
	for part := range strings.SplitSeq(name, ".") {
		if part == "" {
			break
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(settings, &members) != nil {
			return nil
		}
		settings = members[part]
	}
	if len(settings) == 0 {
		return nil
	}
	return settings
}

// report takes what a server says about a file. Files that it was not told about do not count.
func (s *server) report(data json.RawMessage) {
	var in struct {
		URI         string
		Version     *int
		Diagnostics []struct {
			Range    struct{ Start struct{ Line, Character int } }
			Severity int
			Message  string
			Source   string
		}
	}
	if json.Unmarshal(data, &in) != nil {
		return
	}
	var errs []finding
	for _, d := range in.Diagnostics {
		if d.Severity > 1 || len(errs) == maxErrors { // without a severity it is an error
			continue
		}
		text := d.Message
		if len(text) > maxText {
			text = strings.ToValidUTF8(text[:maxText], "") + " …"
		}
		errs = append(errs, finding{d.Range.Start.Line + 1, d.Range.Start.Character + 1,
			plain.Line(strings.Join(strings.Fields(text), " "))})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[pathOf(in.URI)]
	if f == nil || f.version == 0 {
		return
	}
	if in.Version != nil && *in.Version < f.version { // late
		if *in.Version == 1 && f.opened && f.version == 2 {
			f.base = counted(errs)
		}
		return
	}
	s.overdue = time.Time{}
	f.errors, f.at, f.seen = errs, time.Now(), f.version
	close(s.changed)
	s.changed = make(chan struct{})
}

// known reports whether a server has said what is wrong with a version of a file, and when that is final.
func (s *server) known(path string) (ok bool, wait <-chan struct{}, settled time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.file(path)
	switch {
	case s.failed != nil:
		return true, s.changed, 0
	case f.version == 0 || f.seen < f.version:
		return false, s.changed, time.Hour
	case len(f.errors) > 0:
		return true, s.changed, 0
	}
	left := settleTime - time.Since(f.at)
	return left <= 0, s.changed, max(left, time.Millisecond)
}

// fresh returns the errors of the files that were not told yet, and takes them as told.
func (s *server) fresh() map[string][]finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]finding{}
	for path, f := range s.files {
		if f.old || f.version == 0 || f.seen < f.version {
			continue
		}
		left := f.base
		for _, e := range f.errors {
			if left[e.text]--; left[e.text] < 0 {
				all[path] = append(all[path], e)
			}
		}
		f.base = counted(f.errors)
	}
	return all
}

func counted(errs []finding) map[string]int {
	n := map[string]int{}
	for _, e := range errs {
		n[e.text]++
	}
	return n
}

// contents reads a file that a server is to be told about.
func contents(ctx context.Context, ws workspace.Workspace, path string) (string, error) {
	f, err := ws.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxFile {
		return "", fmt.Errorf("%s: %w", path, os.ErrInvalid)
	}
	return strings.ToValidUTF8(string(data), "\ufffd"), nil
}

func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/x
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	path := u.Path
	if len(path) > 2 && path[0] == '/' && path[2] == ':' { // /C:/x
		path = path[1:]
	}
	return filepath.FromSlash(cmp.Or(path, "/"))
}
