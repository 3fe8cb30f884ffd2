package acp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/session"
)

// A conversation is a session of the client. Its ID stays when a command replaces the session.
type conversation struct {
	id     sdk.SessionId
	server *server
	engine *engine.Engine
	talk   *engine.Conversation // nil: not started
	ctx    context.Context      // ends with the conversation
	end    context.CancelFunc
	ending sync.WaitGroup // what watches it

	// joining is locked for reading while a message is sent to the running turn, which does not end meanwhile.
	joining sync.RWMutex

	mu      sync.Mutex
	begun   bool // hooks of the session's start have run
	closed  bool
	running *run // nil: no turn
	told    told
	calls   map[sdk.ToolCallId]bool // those that the client knows and that have not ended
	titles  map[sdk.ToolCallId]string
}

// A run is a turn, with the messages that join it.
type run struct {
	stop    context.CancelCauseFunc
	stopped bool
	done    chan struct{} // closed when answer and err are set
	answer  sdk.PromptResponse
	err     error
}

// errInterrupted is the cause for ending a turn that the client cancels.
const errInterrupted reason = "interrupted by the client"

// connectTimeout limits how long the first turn waits for the client's servers.
const connectTimeout = 10 * time.Second

func newConversation(s *server, e *engine.Engine) *conversation {
	c := &conversation{server: s, engine: e, calls: map[sdk.ToolCallId]bool{}, titles: map[sdk.ToolCallId]string{}}
	c.ctx, c.end = context.WithCancel(s.ctx)
	return c
}

// start starts the session: the one with an ID, or with "" a new one.
func (c *conversation) start(ctx context.Context, servers []sdk.McpServer, id sdk.SessionId) error {
	given, err := readServers(servers)
	if err != nil {
		return err
	}
	s, err := c.server.Start(ctx, c.engine, c, func(o *engine.SessionOptions) {
		o.Resume, o.Wait = string(id), true // nobody may begin a turn later
		o.Host.Controls = true
	})
	if err != nil {
		return err
	}
	c.id, c.talk = sdk.SessionId(s.ID()), engine.Converse(s)
	configured, _ := c.engine.Project().Servers()
	host := s.Host()
	host.Servers, c.told.problems = mcp.Beside(given, configured)
	for _, p := range s.SetHost(host) {
		c.told.problems = append(c.told.problems, p.Message)
	}
	if len(host.Servers) > 0 {
		c.ending.Go(func() {
			ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
			defer cancel()
			s.MCP().WaitHost(ctx)
		})
	}
	c.ending.Go(func() { c.watch(c.ctx) })
	return nil
}

// watch tells the client when the skills change.
func (c *conversation) watch(ctx context.Context) {
	known := c.engine.Catalog()
	c.engine.WatchFiles(ctx, func(k *knack.Catalog) {
		if k != known {
			known = k
			c.refresh()
		}
	})
}

// close stops what runs and closes the session and its engine.
func (c *conversation) close() error {
	c.mu.Lock()
	c.closed = true
	now := c.running
	c.mu.Unlock()
	c.interrupt(errGone)
	if now != nil {
		<-now.done
	}
	c.end()
	c.ending.Wait()
	return c.engine.Close()
}

func (c *conversation) session() *engine.Session { return c.talk.Session() }

// interrupt ends the running turn.
func (c *conversation) interrupt(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil {
		c.running.stopped = true
		c.running.stop(why)
	}
}

// admit returns an error for a file whose content the client gives, if the user's rules keep it from the model. What is
// not allowed at once is asked as if the user had named the file.
func (c *conversation) admit(ctx context.Context, path string) error {
	d, err := c.engine.Decide(ctx, permission.Subject{Kind: permission.KindRead, Text: path, Tool: "read"})
	switch {
	case err != nil || d.Verdict == permission.Allow:
		return err
	case d.Verdict == permission.Deny:
		return errors.New(path + " cannot be attached: the rule " + d.Rule + " denies it")
	}
	_, err = c.session().Attach(ctx, agent.Input{Typed: engine.Mention(path)})
	return err
}

// prompt sends a message of the user: to the running turn, or as a turn of its own. It returns the end of that turn.
// begun is called when the turn runs or has the message.
func (c *conversation) prompt(ctx context.Context, in agent.Input, begun func()) (any, error) {
	given := in.Touched // what the client embeds may differ from the file that a link to it attaches
	for _, path := range given {
		if err := c.admit(ctx, path); err != nil {
			return nil, err
		}
	}
	in.Touched = nil
	in, err := c.session().Attach(ctx, in)
	in.Touched = append(in.Touched, given...)
	if err != nil {
		return nil, err
	}
	for {
		now, own, err := c.claim()
		switch {
		case err != nil:
			return nil, err
		case own != nil:
			begun()
			defer context.AfterFunc(ctx, func() { now.stop(context.Cause(ctx)) })()
			now.answer, now.err = c.turn(own, in)
			c.release()
			return now.answer, now.err
		}
		joined := c.join(ctx, now, in)
		if joined {
			begun()
		}
		select { // a message that cannot join gets a turn of its own
		case <-now.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if joined {
			return now.answer, now.err
		}
	}
}

// claim returns the running turn. If there is none, it begins one that is the caller's, whose context is own.
func (c *conversation) claim() (now *run, own context.Context, err error) {
	c.joining.Lock()
	defer c.joining.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, nil, engine.ErrClosed
	case c.running != nil:
		return c.running, nil, nil
	}
	now = &run{done: make(chan struct{})}
	own, now.stop = context.WithCancelCause(c.ctx)
	c.running = now
	return now, own, nil
}

// release ends the running turn.
func (c *conversation) release() {
	c.joining.Lock()
	defer c.joining.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running.stop(nil)
	close(c.running.done)
	c.running = nil
}

// join adds a message to a turn, or to those that follow it. It returns false if the turn has ended.
func (c *conversation) join(ctx context.Context, now *run, in agent.Input) bool {
	c.joining.RLock()
	defer c.joining.RUnlock()
	c.mu.Lock()
	gone := c.running != now || now.stopped
	c.mu.Unlock()
	if gone {
		return false
	}
	q, err := c.session().Send(ctx, engine.QueuedMessage{Input: in})
	if errors.Is(err, engine.ErrCommandWaits) {
		q, err = c.session().Send(ctx, engine.QueuedMessage{Input: in, When: engine.Later})
	}
	if err != nil {
		return false
	}
	if q.Reply != nil {
		c.reply(q.Reply)
	}
	return true
}

// turn runs a turn.
func (c *conversation) turn(ctx context.Context, in agent.Input) (out sdk.PromptResponse, err error) {
	defer c.refresh()
	if err := c.begin(ctx); err != nil {
		return c.ended(ctx, engine.Report{}, err)
	}
	report, err := c.talk.Turn(ctx, in, func(e engine.Event) { c.event(e) })
	c.talk.Unsent() // of a turn that was stopped: their prompts end with it
	return c.ended(ctx, report, err)
}

// begin runs the hooks of the session's start, once, and waits for the client's servers.
func (c *conversation) begin(ctx context.Context) error {
	c.mu.Lock()
	first := !c.begun
	c.begun = true
	problems := c.told.problems
	c.mu.Unlock()
	if !first {
		return nil
	}
	c.greet(problems)
	wait, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if len(c.session().Host().Servers) > 0 {
		c.session().MCP().WaitHost(wait) // later ones are offered with a later request
	}
	for e, err := range c.talk.Begin(ctx) {
		if err != nil {
			return err
		}
		if e.Session == nil {
			c.event(e)
		}
	}
	return nil
}

// ended is the answer to a prompt.
func (c *conversation) ended(ctx context.Context, r engine.Report, err error) (sdk.PromptResponse, error) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errWithdrawn):
		return sdk.PromptResponse{}, cause
	case cause != nil || r.End.Reason == session.EndCancelled:
		return sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
	case err != nil:
		return sdk.PromptResponse{}, err
	}
	out := sdk.PromptResponse{StopReason: sdk.StopReasonEndTurn}
	u := r.Usage
	if in := u.Input + u.CacheRead + u.CacheWrite; in+u.Output > 0 {
		out.Usage = &sdk.Usage{InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: in + u.Output,
			CachedReadTokens: &u.CacheRead, CachedWriteTokens: &u.CacheWrite}
	}
	switch {
	case r.End.Reason == session.EndLimit:
		out.StopReason = sdk.StopReasonMaxTurnRequests
	case r.Stop == llm.MaxTokens:
		out.StopReason = sdk.StopReasonMaxTokens
	case r.Stop == llm.Refusal:
		out.StopReason = sdk.StopReasonRefusal
	}
	if why := r.Err(context.Background()); why != nil { // the client shows only the stop reason
		c.say(failure(why).Message)
	}
	return out, nil
}

// readServers reads the MCP servers that the client gives. They count as those of the session.
func readServers(given []sdk.McpServer) ([]mcp.Server, error) {
	all := map[string]any{}
	pairs := func(add func(yield func(name, value string))) map[string]string {
		m := map[string]string{}
		add(func(name, value string) { m[name] = value })
		return m
	}
	headers := func(list []sdk.HttpHeader) map[string]string {
		return pairs(func(yield func(name, value string)) {
			for _, h := range list {
				yield(h.Name, h.Value)
			}
		})
	}
	type server struct {
		Type    string            `json:"type"`
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		Env     map[string]string `json:"env,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}
	for _, x := range given {
		switch {
		case x.Stdio != nil:
			all[x.Stdio.Name] = server{Type: "stdio", Command: x.Stdio.Command, Args: x.Stdio.Args,
				Env: pairs(func(yield func(name, value string)) {
					for _, v := range x.Stdio.Env {
						yield(v.Name, v.Value)
					}
				})}
		case x.Http != nil:
			all[x.Http.Name] = server{Type: "http", URL: x.Http.Url, Headers: headers(x.Http.Headers)}
		case x.Sse != nil:
			all[x.Sse.Name] = server{Type: "sse", URL: x.Sse.Url, Headers: headers(x.Sse.Headers)}
		default:
			return nil, sdk.NewInvalidParams(map[string]any{"error": "a server in the client cannot be used"})
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	servers, problems := mcp.Parse(data, permission.Session, "the client")
	for _, p := range problems {
		return nil, sdk.NewInvalidParams(map[string]any{"error": p.Message})
	}
	return servers, nil
}
