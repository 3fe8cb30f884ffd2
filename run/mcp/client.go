package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/authority"
	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool"
)

// Options configure a Client. The zero Options allow servers reached by HTTP and servers of the host,
// and store nothing.
type Options struct {
	Version string // of the program; sent to servers
	// Run runs the program of a server, and the helper that prints its headers, within the user's limits;
	// nil: no program is started.
	Run func(ctx context.Context, s Server, c workspace.Command) (workspace.Exit, error)
	// Unwritable says why the program of a server could not write, and what allows it; "" if Run did not prevent it.
	// Any goroutine may call it; nil: unknown.
	Unwritable func(s Server, u Unwritten) string
	// Check returns the reason why Run could not run the program of a server, for example because it does
	// not exist. It is called by Start and must return at once; nil: unknown until Run has tried.
	Check func(s Server) error
	// Getenv looks up variables for ${NAME}; nil: no variable is set. Own looks up those that only servers of the user
	// get; it may be nil.
	Getenv, Own func(string) string
	// HTTP sends the requests to remote servers, and to the addresses that they name; nil: over the network, but not
	// to addresses of this machine or of the network inside, unless the server itself was configured there, or
	// AllowPrivate names the host.
	HTTP http.RoundTripper
	// AllowPrivate are the hosts that may lead to such addresses: "host", "host:port", "*.domain" or an address.
	AllowPrivate []string
	// Proxied is called before a request goes through a proxy, where the addresses of names cannot be looked at. Any
	// goroutine may call it; nil: nobody is told.
	Proxied func(server, host string, proxy *url.URL)
	// Timeout limits connecting to servers that set none; 0: 30 s, and 120 s for the programs npx, uvx and docker,
	// which may have to download what they start.
	Timeout time.Duration
	// State is a directory for approvals of tools and for the last known lists of tools; "": neither is
	// stored.
	State string
	// TempDir is where results are stored that are too long for a model; "": the excess is lost.
	TempDir string
	// Tokens stores the tokens of servers that need a login; nil: none are stored.
	Tokens TokenStore
	// Changed is called when tools or states have changed. Any goroutine may call it.
	Changed func()
	Debug   *slog.Logger // nil: no log
}

// A Client manages the connections to servers. It is safe for concurrent use. Close it after use.
type Client struct {
	opt   Options
	peers []*peer
	pins  pins

	start   sync.Once
	timeout time.Duration // see SetTimeout
	ctx     context.Context
	cancel  context.CancelFunc
	all     sync.WaitGroup

	guardsMu sync.Mutex
	guards   map[guarded]*guard.Transport
	base     guard.Options // of all guards
}

// A ServerState is the state of the connection to a server.
type ServerState string

const (
	Waiting    ServerState = "waiting" // not started yet
	Connecting ServerState = "connecting"
	Connected  ServerState = "connected"
	Failed     ServerState = "failed"      // Reason says why
	NeedsLogin ServerState = "needs login" // see [Client.Login]
	Disabled   ServerState = "disabled"    // see [Client.Enable]
	Stopped    ServerState = "stopped"
)

// A Status describes one server. Its texts are untrusted.
type Status struct {
	Server
	State   ServerState
	Reason  string // why it is not connected
	Version string // of the protocol
	Title   string // the server's own name and version
	// Instructions are what a connected server says about the use of its tools, at most 2 KB.
	Instructions string
	Tools        []string
	Prompts      []string
	Skills       int
	// Resources is true for a connected server that has resources.
	Resources bool
	Problems  []knack.Problem
}

// New makes a Client. It starts no server.
func New(o Options, servers ...Server) *Client {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Debug == nil {
		o.Debug = slog.New(slog.DiscardHandler)
	}
	c := &Client{opt: o}
	c.pins.open(o.State)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	taken := map[string]string{}
	for _, s := range servers {
		p := &peer{client: c, server: s, safe: Safe(s.Name), state: Waiting, tried: make(chan struct{}),
			again: make(chan struct{}, 1)}
		if by, ok := taken[p.safe]; ok {
			p.duplicate = true
			p.state, p.reason = Failed, fmt.Sprintf("the server %q has the same name to models", by)
			close(p.tried)
		}
		taken[p.safe] = s.Name
		p.remembered()
		c.peers = append(c.peers, p)
	}
	return c
}

// SetTimeout limits connecting to each server, whatever its own Timeout is; 0 changes nothing. It is called before
// Start.
func (c *Client) SetTimeout(limit time.Duration) { c.timeout = limit }

// Start starts connecting to all servers, in the background and in parallel. A server that cannot be
// started has failed when Start returns (see Options.Check): even the shortest run reports it.
func (c *Client) Start() {
	c.start.Do(func() {
		for _, p := range c.peers {
			if p.state == Failed {
				continue
			}
			impossible := p.check()
			if impossible != nil {
				p.set(Failed, impossible.Error())
			} else {
				p.set(Connecting, "")
			}
			c.all.Go(func() { p.keep(impossible) })
		}
	})
}

// Wait waits until each of the named servers has been tried once, or ctx ends. Without names it waits
// for all servers.
func (c *Client) Wait(ctx context.Context, names ...string) error {
	for _, p := range c.peers {
		if len(names) > 0 && !slices.Contains(names, p.server.Name) {
			continue
		}
		select {
		case <-p.tried:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Retry tries again to connect to a server that is not connected; "" means all of them.
func (c *Client) Retry(name string) {
	for _, p := range c.peers {
		if name == "" || p.server.Name == name {
			select {
			case p.again <- struct{}{}:
			default:
			}
		}
	}
}

// Reconnect connects again to a server that is not connected, and waits for the result.
func (c *Client) Reconnect(ctx context.Context, name string) error {
	p := c.find(name)
	if p == nil {
		return fmt.Errorf("there is no MCP server %q", name)
	}
	c.Start()
	_, err := revive(ctx, p, nil)
	return err
}

// Enable enables or disables a server. Disabling disconnects it, and removes its tools until it is
// enabled again.
func (c *Client) Enable(name string, on bool) error {
	p := c.find(name)
	if p == nil {
		return fmt.Errorf("there is no MCP server %q", name)
	}
	p.mu.Lock()
	was, stop := p.disabled, p.stop
	p.disabled = !on
	p.mu.Unlock()
	switch {
	case was == !on || p.duplicate:
	case on:
		p.set(Waiting, "")
	default:
		p.set(Disabled, "")
		if stop != nil {
			stop()
		}
	}
	c.Retry(p.server.Name)
	return nil
}

// Close closes all connections and ends all programs.
func (c *Client) Close() error {
	c.start.Do(func() {}) // prevents a later Start
	c.cancel()
	c.all.Wait()
	c.guardsMu.Lock()
	for _, g := range c.guards {
		g.CloseIdleConnections()
	}
	c.guardsMu.Unlock()
	for _, p := range c.peers {
		p.set(Stopped, "")
	}
	return nil
}

// Servers describes the servers, in their order.
func (c *Client) Servers() []Status {
	all := make([]Status, len(c.peers))
	for i, p := range c.peers {
		p.mu.Lock()
		all[i] = Status{Server: p.server, State: p.state, Reason: p.reason, Version: p.version, Title: p.title,
			Instructions: p.instructions,
			Skills:       len(p.skills), Resources: p.resources && p.session != nil, Problems: slices.Clone(p.problems)}
		for _, d := range p.tools {
			all[i].Tools = append(all[i].Tools, d.Name)
		}
		for _, d := range p.prompts {
			all[i].Prompts = append(all[i].Prompts, d.name)
		}
		p.mu.Unlock()
	}
	return all
}

// find returns the peer with a server name; nil: there is none.
func (c *Client) find(name string) *peer {
	i := slices.IndexFunc(c.peers, func(p *peer) bool { return p.server.Name == name || p.safe == name })
	if i < 0 {
		return nil
	}
	return c.peers[i]
}

// A peer is one server and the connection to it.
type peer struct {
	client    *Client
	server    Server
	safe      string
	tried     chan struct{} // closed when the first attempt has ended
	again     chan struct{} // asks for another attempt
	duplicate bool          // another server has the same name, so this one is never started
	known     bool          // an earlier connection's list of tools was stored

	mu       sync.Mutex
	patience time.Time // until when calls of skills wait for the first attempt
	state    ServerState
	reason   string
	disabled bool
	stop     context.CancelFunc // ends the connection, or the attempt to connect
	waiting  []chan error       // each receives the outcome of the next attempt
	version  string
	title    string
	// instructions are what the server says about the use of its tools.
	instructions string
	session      *sdk.ClientSession // nil: not connected
	tools        []*definition
	prompts      []prompt
	resources    bool // whether the server has resources
	problems     []knack.Problem
	calls        []*call           // running calls, the latest last
	files        map[string][]byte // files of skills, by digest
	scopes       []string          // scopes that the server requires in a token
	fileBytes    int
	refreshing   bool
	stale        bool // lists changed while they were being read

	skills        []*knack.Skill // as last listed
	listed        []*remoteSkill // the same skills
	skillProblems []knack.Problem
	skillSum      [sha256.Size]byte // hash of the list
	skillLists    int               // number of changes of the list
}

func (p *peer) set(state ServerState, reason string) {
	p.mu.Lock()
	changed := p.state != state || p.reason != reason
	p.state, p.reason = state, reason
	p.mu.Unlock()
	if changed {
		p.client.opt.Debug.Debug("server", "topic", "mcp", "server", p.server.Name, "state", state, "reason", reason)
		p.client.opt.Changed()
	}
}

// Limits for connecting.
const (
	connectTime  = 30 * time.Second
	downloadTime = 2 * time.Minute // connecting to a program that may have to be downloaded
	callTime     = 10 * time.Minute
	attempts     = 5 // in a row; then only on request
	firstBackoff = time.Second
	maxBackoff   = time.Minute
	// maxInstructions limits the instructions of one server, in bytes.
	maxInstructions = 2 << 10
	stableTime      = time.Minute // a connection that lasted this long was successful
)

// connectTime returns the time that a server has to answer and to list what it offers.
func (c *Client) connectTime(s Server) time.Duration {
	limit := connectTime
	switch strings.TrimSuffix(filepath.Base(s.Command), ".exe") {
	case "npx", "uvx", "docker":
		limit = downloadTime
	}
	return cmp.Or(c.timeout, s.Timeout, c.opt.Timeout, limit)
}

// check returns the error of a server that cannot be started with this definition.
func (p *peer) check() error {
	s, err := p.server.expand(p.client.opt.variables(p.server.Origin))
	if err != nil {
		return err
	}
	if s.URL != "" {
		_, err := checkURL(s.URL)
		return err
	}
	if s.Open != nil || p.client.opt.Check == nil {
		return nil
	}
	return p.client.opt.Check(s)
}

// keep connects, and reconnects after a connection has ended, until the client is closed. impossible is
// the error of a check that failed; it counts as the first attempt.
func (p *peer) keep(impossible error) {
	ctx := p.client.ctx
	first := sync.OnceFunc(func() { close(p.tried) })
	tried := func() {
		first()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.waiting {
			c <- p.unconnected()
		}
		p.waiting = nil
	}
	defer tried()
	for failures := 0; ctx.Err() == nil; {
		attempt, stop, ok := p.begin(ctx)
		if !ok {
			p.set(Disabled, "")
			tried()
			select {
			case <-ctx.Done():
				return
			case <-p.again:
				failures = 0
			}
			continue
		}
		began := time.Now()
		var err error
		answered := false // who waits now waits for the attempt after this connection
		if impossible != nil {
			err, impossible = permanentError{impossible}, nil
		} else {
			p.set(Connecting, "")
			err = p.connect(attempt, func() { answered = true; tried() })
		}
		if attempt.Err() != nil && ctx.Err() == nil { // the server was disabled
			continue
		}
		stop()
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > stableTime {
			failures = 0
		}
		failures++
		var login *loginError
		if errors.As(err, &login) {
			p.set(NeedsLogin, login.Error())
			failures = attempts
		} else {
			p.set(Failed, reasonOf(p.server.hide(err)))
		}
		if !answered {
			tried()
		}
		var wait <-chan time.Time
		if failures < attempts && !permanent(err) {
			t := time.NewTimer(min(firstBackoff<<(failures-1), maxBackoff))
			defer t.Stop()
			wait = t.C
		}
		select {
		case <-ctx.Done():
			return
		case <-wait:
		case <-p.again:
			failures = 0
		}
	}
}

// begin starts an attempt to connect. ok is false if the server is disabled.
func (p *peer) begin(ctx context.Context) (attempt context.Context, stop context.CancelFunc, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.disabled {
		return nil, nil, false
	}
	attempt, p.stop = context.WithCancel(ctx)
	return attempt, p.stop, true
}

// A permanentError is an error that another attempt would not fix.
type permanentError struct{ error }

func permanent(err error) bool { var p permanentError; return errors.As(err, &p) }

// connect connects to the server, reads what it offers, and returns when the connection has ended.
func (p *peer) connect(ctx context.Context, connected func()) (failure error) {
	c := p.client
	s, err := p.server.expand(c.opt.variables(p.server.Origin))
	if err != nil {
		return permanentError{err}
	}
	limit := c.connectTime(s)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var transport sdk.Transport
	var prog *program
	broken := newFault()
	explain := func(err error) error {
		var answer *jsonrpc.Error
		_, what, bad := strings.Cut(err.Error(), "invalid character ") // the SDK does not wrap the error
		switch {
		case broken.get() != nil:
			return broken.get()
		case bad && !errors.As(err, &answer):
			return fmt.Errorf("stopped: it sent something that is not a JSON-RPC message: invalid character %s", what)
		case prog != nil:
			return prog.reason(err, func(text string) string { return c.writeHint(&p.server, text, true) })
		case s.URL != "" && !strings.Contains(err.Error(), "://"): // for example only "Not Found"
			return fmt.Errorf("%s: %w", p.server.URL, withoutMethod(err))
		}
		return err
	}
	switch {
	case s.Open != nil:
		conn, err := s.Open(within)
		if err != nil {
			return err
		}
		transport = frames{conn}
	case s.URL != "":
		if transport, err = c.http(within, s, broken); err != nil {
			return err
		}
	default:
		if prog, transport, err = c.program(s, broken); err != nil {
			return permanentError{err}
		}
		defer prog.stop(2 * time.Second)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "knack", Version: cmp.Or(c.opt.Version, "devel")}, p.options())
	addSkillMethods(client)
	session, err := p.dial(within, client, transport, prog)
	if err != nil {
		if prog != nil {
			prog.cancel()
			<-prog.ended
		}
		if errors.Is(err, context.DeadlineExceeded) || within.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("it did not answer within %s", limit)
		}
		var login *loginError
		if errors.As(err, &login) || errors.As(broken.get(), &login) {
			return login
		}
		return explain(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	defer func() {
		p.mu.Lock()
		p.session = nil
		if failure != nil { // for calls that are made before keep reports it
			p.reason = reasonOf(p.server.hide(failure))
		}
		p.mu.Unlock()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			session.Close()
		}()
		select { // do not wait for a server that does not close
		case <-closed:
		case <-time.After(2 * time.Second):
		}
		if prog != nil {
			prog.cancel()
		}
	}()
	p.mu.Lock()
	p.session, p.problems, p.instructions = session, nil, ""
	if r := session.InitializeResult(); r != nil {
		p.version = clip(r.ProtocolVersion, 40)
		if r.ServerInfo != nil { // optional in newer versions
			p.title = clip(strings.TrimSpace(r.ServerInfo.Name+" "+r.ServerInfo.Version), 100)
		}
		text, _ := plain.Visible(strings.TrimSpace(r.Instructions))
		p.instructions = clip(text, maxInstructions)
	}
	p.mu.Unlock()
	if err := p.read(within); err != nil {
		if within.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("it did not list what it offers within %s", limit)
		}
		return explain(err)
	}
	p.set(Connected, "")
	p.readSkills(within)
	connected()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-broken.done:
		return broken.err
	case err := <-ended:
		if err == nil {
			err = errors.New("the connection ended")
		}
		return explain(err)
	}
}

// dial negotiates the protocol. If the server's program ends meanwhile, it fails.
func (p *peer) dial(ctx context.Context, client *sdk.Client, t sdk.Transport, prog *program) (*sdk.ClientSession,
	error) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		session *sdk.ClientSession
		err     error
	}
	done := make(chan result, 1)
	go func() {
		s, err := client.Connect(ctx, t, nil)
		done <- result{s, err}
	}()
	var ended <-chan struct{}
	if prog != nil {
		ended = prog.ended
	}
	abandon := func() {
		cancel()
		go func() { // close a session that is made too late
			if r := <-done; r.session != nil {
				r.session.Close()
			}
		}()
	}
	select {
	case r := <-done:
		if r.err != nil {
			cancel()
		} else {
			context.AfterFunc(p.client.ctx, cancel) // streams of the session may use ctx
		}
		return r.session, r.err
	case <-ctx.Done():
		abandon()
		return nil, ctx.Err()
	case <-ended:
		select { // what the server sent before explains the end better
		case r := <-done:
			if r.err == nil {
				r.session.Close()
				r.err = errors.New("it ended at once")
			}
			cancel()
			return nil, r.err
		case <-time.After(time.Second):
		}
		abandon()
		return nil, errors.New("it ended before it answered")
	}
}

// options returns what this client offers to the server: forms for the user, but neither sampling nor
// roots.
func (p *peer) options() *sdk.ClientOptions {
	caps := &sdk.ClientCapabilities{
		Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{},
			URL: &sdk.URLElicitationCapabilities{}},
	}
	caps.AddExtension(skillsExtension, nil)
	return &sdk.ClientOptions{
		Capabilities:       caps,
		ElicitationHandler: p.elicit,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			p.refresh()
		},
		PromptListChangedHandler: func(context.Context, *sdk.PromptListChangedRequest) {
			p.refresh()
		},
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) {
			p.refresh()
		},
		ProgressNotificationHandler: p.progress,
	}
}

// refresh reads the lists again, once at a time and each time after refreshPause, however often the
// server announces changes.
func (p *peer) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refreshing {
		p.stale = true
		return
	}
	p.refreshing = true
	p.client.all.Go(func() {
		for {
			select {
			case <-p.client.ctx.Done():
				return
			case <-time.After(refreshPause):
			}
			ctx, cancel := context.WithTimeout(p.client.ctx, connectTime)
			if p.read(ctx) == nil {
				p.client.opt.Changed()
				p.readSkills(ctx)
			}
			cancel()
			p.mu.Lock()
			if !p.stale {
				p.refreshing = false
				p.mu.Unlock()
				return
			}
			p.stale = false
			p.mu.Unlock()
		}
	})
}

// refreshPause is how long refresh waits, so that it reads the lists once for several changes.
const refreshPause = 200 * time.Millisecond

// read reads what the server offers.
func (p *peer) read(ctx context.Context) error {
	session := p.connection()
	if session == nil {
		return errors.New("it is not connected")
	}
	caps := &sdk.ServerCapabilities{}
	if r := session.InitializeResult(); r != nil && r.Capabilities != nil {
		caps = r.Capabilities
	}
	var problems []knack.Problem
	var tools []*definition
	if caps.Tools != nil {
		found, err := p.listTools(ctx, session, &problems)
		if err != nil {
			return fmt.Errorf("tools/list: %w", err)
		}
		tools = p.define(found, &problems)
	}
	var prompts []prompt
	if caps.Prompts != nil {
		found, err := p.listPrompts(ctx, session)
		if err != nil {
			problems = append(problems, p.problem("prompts/list: %v", err))
		}
		prompts = found
	}
	p.mu.Lock()
	p.tools, p.prompts, p.resources, p.problems = tools, prompts, caps.Resources != nil, problems
	p.mu.Unlock()
	p.remember(tools)
	return nil
}

func (p *peer) problem(format string, args ...any) knack.Problem {
	return knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: p.server.DefinedIn,
		Message: "MCP server " + p.server.Name + ": " + fmt.Sprintf(format, args...), Hint: "knack mcp test " + p.safe}
}

func (p *peer) connection() *sdk.ClientSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

// ready returns the session. If the server is not connected, it first waits until the first attempt to
// connect has ended.
func (p *peer) ready(ctx context.Context) (*sdk.ClientSession, error) {
	p.client.Start()
	now := func() (*sdk.ClientSession, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.session, p.unconnected()
	}
	session, err := now()
	if err != nil {
		select {
		case <-p.tried:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		session, err = now()
	}
	if err != nil {
		return nil, err
	}
	return session, nil
}

// unconnected explains why the server is not connected; nil: it is. The caller holds p.mu.
func (p *peer) unconnected() error {
	if p.session != nil && p.state == Connected {
		return nil
	}
	return fmt.Errorf("the MCP server %s is not connected: %s", p.server.Name, cmp.Or(p.reason, string(p.state)))
}

// explain makes a server's error readable, and leaves out secrets.
func (s *Server) explain(err error) error { return s.hide(readable(err)) }

func readable(err error) error {
	var login *loginError
	if errors.As(err, &login) {
		return login
	}
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return errors.New(clip(e.Message, 2000))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) {
		return errors.New("the connection ended before it answered")
	}
	return withoutMethod(err)
}

// reasonOf is the text of the error that ended a connection.
func reasonOf(err error) string {
	text := clip(withoutMethod(err).Error(), 1000)
	return strings.TrimSuffix(text+": "+authority.Advice(err), ": ")
}

// withoutMethod removes from the beginning of an SDK's error which message was sent: "calling "tools/list": ".
func withoutMethod(err error) error {
	text := err.Error()
	for {
		var rest string
		found := false
		for _, prefix := range []string{"rejected by transport: ", "connection closed: ", "client is closing: "} {
			if rest, found = strings.CutPrefix(text, prefix); found {
				break
			}
		}
		if strings.HasPrefix(text, `calling "`) || strings.HasPrefix(text, `sending "`) {
			_, rest, found = strings.Cut(text, `": `)
		}
		if !found {
			break
		}
		text = rest
	}
	if text == "EOF" {
		text = "the connection ended"
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

func missing(err error) bool {
	var e *jsonrpc.Error
	return errors.As(err, &e) && e.Code == jsonrpc.CodeMethodNotFound
}

// clip shortens a server's text to n bytes, between runes.
func clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.TrimRight(strings.ToValidUTF8(s[:n], ""), "\uFFFD") + "…"
}

// Tools returns the tools of all servers, without [ResourceTools]. For a server that has not answered
// yet these are its last known tools. ask answers a server's questions during a call; nil: they are
// declined.
func (c *Client) Tools(ask Asker) tool.Set {
	var set tool.Set
	for _, p := range c.peers {
		p.mu.Lock()
		tools := slices.Clone(p.tools)
		if p.disabled || p.state == Stopped && p.session == nil {
			tools = nil // those of a server that is down stay: a call starts it once more, or says why it is down
		}
		p.mu.Unlock()
		for _, d := range tools {
			set = append(set, p.tool(d, ask))
		}
	}
	return set
}

// A definition is a tool as its server describes it.
type definition struct {
	Name        string          `json:"name"` // mcp__server__tool
	Own         string          `json:"own"`  // the server's own name for it
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	Hash        string          `json:"-"`                    // hash of the whole definition
	Repeatable  bool            `json:"repeatable,omitempty"` // the server says that a second call changes nothing
	// Fields are the server's own names of fields of the input that have other names in Schema, by these.
	Fields map[string]string `json:"fields,omitempty"`
}
