package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/session"
)

// Options configure [Serve].
type Options struct {
	In  io.Reader // lines of structured input
	Out Output    // shows the turns
	// Messages is Out if Out writes stream-json; then requests of the control protocol are answered there.
	// nil: such requests are errors.
	Messages *Messages

	// Stdout is where Out writes, so that a host that died is noticed when nothing is written; nil: it is not.
	Stdout *os.File

	// Start starts the session; edit applies the host's changes to its options.
	Start func(ctx context.Context, person engine.Person, edit func(*engine.SessionOptions)) (*engine.Session, error)
	Show  func(*engine.Engine) // see Runner
	// Agree asks who whether to go on without restrictions that cannot be read, before Start; nil: nobody is asked.
	Agree func(ctx context.Context, who engine.Person) error

	Schema  *Schema // see Runner
	Prompts bool    // the host approves calls: --permission-prompt-tool stdio
	// Unattended means that the host answers no questions at all, not even those of MCP servers: --permission-prompts
	// none.
	Unattended bool
	Replay     bool // repeat prompts: --replay-user-messages
	MaySave    bool // the host may store rules beyond the session: --host-may-save
	// Timeout is the time that the host has to answer a question; 0: an hour.
	Timeout time.Duration
}

// Limits for the lines and prompts that wait.
const (
	// maxQueued is when reading stops until there is room. While the program waits for an answer of the host, which
	// may come after them, it reads on.
	maxQueued = 1000
	// maxWaiting is when further lines are refused.
	maxWaiting = 10_000
)

// connectTimeout limits how long the first turn waits for the host's servers.
const connectTimeout = 10 * time.Second

// errHostGone is the result of our requests after the host has closed our standard input. It is also
// the cause for ending a turn when the host no longer reads.
var errHostGone = errors.New("the host disconnected")

// errInterrupted is the cause for ending a turn that the host interrupts.
var errInterrupted = errors.New("interrupted by the host")

// A server is one run of [Serve]. It has three goroutines: one reads lines and immediately delivers
// what must not wait (answers, interrupts); one handles the other lines in order; and one runs turns.
type server struct {
	Options
	out    *lineWriter // nil: not stream-json
	runner *Runner
	cancel context.CancelCauseFunc

	ctx      context.Context // of the whole run
	watching sync.WaitGroup

	mu           sync.Mutex
	tasks        tasks
	tightened    tightened
	conversation *engine.Conversation // nil: not started yet
	host         bool                 // initialize was received
	notSetUp     error                // why the last initialize failed; nil: it did not
	setup        setup                // from initialize
	pending      map[string]chan answer
	lastRequest  int // number of our requests so far
	closed       bool
	inbox        []queuedFrame
	handling     openRequests
	conns        map[string]mcp.Conn // to servers in the host, by name
	connect      bool                // the next turn waits for the host's servers
	prompts      []prompt
	stopTurn     context.CancelCauseFunc // ends the running turn; nil: none is running
	started      bool                    // Begin was called for the session
	drained      bool                    // no more prompts will come
	refused      error                   // the first error from refuse
	interrupted  bool                    // the host has interrupted the last turn
	failed       error                   // of the host's last turn; nil: it did not fail
	changed      chan struct{}           // closed when the inbox or prompts change
}

// A queuedFrame is a line that waits to be handled.
type queuedFrame struct {
	line    inputLine
	frame   frame
	request openRequest // for a request of the host
	bad     error       // why this request cannot be read
}

// Serve runs a turn for each message on the input, and answers requests of the control protocol. It
// returns when the input has ended and all work is done.
func Serve(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{
		Options: o, ctx: ctx, cancel: cancel, tasks: tasks{running: map[string]bool{}, announced: map[string]bool{}},
		pending: map[string]chan answer{}, handling: openRequests{},
		conns:   map[string]mcp.Conn{},
		changed: make(chan struct{}), runner: &Runner{Out: o.Out, Schema: o.Schema, Show: o.Show},
	}
	if s.Timeout == 0 {
		s.Timeout = time.Hour
	}
	if o.Messages != nil {
		s.out = o.Messages.out
		s.out.onWriteError = func() { cancel(errHostGone) }
		o.Messages.replay, o.Messages.before = o.Replay, s.showTasks
	}
	// If the host is gone, SIGPIPE must end the turn, not the program, so that what the turn started also
	// ends.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)

	var done sync.WaitGroup
	go s.read(ctx) // Serve does not wait for it: it runs until the input is closed
	done.Go(func() { s.handleAll(ctx) })
	err := s.turns(ctx)
	cancel(nil)
	done.Wait()
	s.watching.Wait()
	return err
}

// notify wakes all waiting goroutines after a change. The caller must hold s.mu.
func (s *server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// read reads all lines of the input.
func (s *server) read(ctx context.Context) {
	err := readLines(s.In, func(l inputLine) {
		f, field := frame{}, ""
		if l.err == nil {
			f, field, l.err = readFrame(l.text)
		}
		text := l.text
		l.text = nil
		if l.err != nil {
			s.badLine(l.number, field, l.err)
			if id, ok := unreadInitialize(text); ok {
				s.admit(ctx, badInitialize(l, id, l.err))
			}
			return
		}
		s.take(ctx, l, f)
	})
	if s.Stdout != nil {
		go func() {
			if readerGone(ctx, s.Stdout) {
				s.cancel(errHostGone)
			}
		}()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.refused = cmp.Or(s.refused, err)
	}
	s.closed = true
	for id, wait := range s.pending {
		wait <- answer{ID: id, Subtype: subtypeError, Error: errHostGone.Error()}
		delete(s.pending, id)
	}
	s.inbox = append(s.inbox, queuedFrame{frame: frame{Type: typeEOF}})
	s.notify()
}

// badLine reports a line that cannot be read.
func (s *server) badLine(number int, field string, err error) {
	s.Out.BadLine(number, field, err)
	if field != "" {
		err = fmt.Errorf("%s: %w", field, err)
	}
	s.refuse(&engine.Error{
		Err:  fmt.Errorf("line %d of the input: %w", number, err),
		Hint: `{"type":"user","message":{"role":"user","content":"your prompt"}}`, Exit: engine.ExitUsage,
	})
}

// refuse records an error to return at the end of the program, which continues until then.
func (s *server) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = cmp.Or(s.refused, err)
}

// take handles a line at once, or puts it into the inbox.
func (s *server) take(ctx context.Context, l inputLine, f frame) {
	switch f.Type {
	case typeUser:
	case typeControlResponse:
		s.answered(l, f.Response)
		return
	case typeControlCancel:
		s.mu.Lock()
		s.handling.withdraw(f.ID)
		s.mu.Unlock()
		return
	case typeKeepAlive:
		return
	case typeControlRequest:
		bad := func(field, why string) {
			s.badLine(l.number, field, errors.New(why))
			if meantInitialize(subtypeOf(f.Request)) {
				s.admit(ctx, badInitialize(l, f.ID, errors.New(why)))
			}
		}
		switch {
		case s.out == nil:
			bad("type", "requests are answered with --output-format stream-json only")
			return
		case f.ID == "":
			bad("request_id", "it is missing")
			return
		case subtypeOf(f.Request) == subtypeInterrupt:
			s.interrupt(f)
			return
		}
	default:
		err := fmt.Errorf("it is %q, not user", f.Type)
		s.badLine(l.number, "type", err)
		if f.Request != nil && meantInitialize(subtypeOf(f.Request)) {
			s.admit(ctx, badInitialize(l, f.ID, fmt.Errorf("type: %w", err)))
		}
		return
	}
	s.admit(ctx, queuedFrame{line: l, frame: f})
}

// admit puts a line into the inbox, and waits for room there.
func (s *server) admit(ctx context.Context, in queuedFrame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.inbox)+len(s.prompts) >= maxQueued && len(s.pending) == 0 && ctx.Err() == nil {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	if len(s.inbox)+len(s.prompts) >= maxWaiting {
		go s.badLine(in.line.number, "", fmt.Errorf("more than %d lines wait", maxWaiting))
		return
	}
	if in.frame.Type == typeControlRequest {
		in.request = s.handling.add(ctx, in.frame.ID)
	}
	s.inbox = append(s.inbox, in)
	s.notify()
}

func subtypeOf(request json.RawMessage) subtype {
	var r struct {
		Subtype subtype `json:"subtype"`
	}
	json.Unmarshal(request, &r)
	return r.Subtype
}

// handleAll handles the lines of the inbox in order, except requests that wait for a server.
func (s *server) handleAll(ctx context.Context) {
	var slow sync.WaitGroup
	defer slow.Wait()
	for {
		s.mu.Lock()
		if len(s.inbox) == 0 {
			changed := s.changed
			s.mu.Unlock()
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		in := s.inbox[0]
		s.inbox = s.inbox[1:]
		s.notify()
		s.mu.Unlock()
		switch in.frame.Type {
		case typeEOF:
			s.mu.Lock()
			s.drained = true
			s.notify()
			s.mu.Unlock()
			return
		case typeUser:
			s.prompted(ctx, in)
		case typeControlRequest:
			if subtypeOf(in.frame.Request) == subtypeReconnect {
				slow.Go(func() { s.requested(in) })
			} else {
				s.requested(in)
			}
		}
	}
}

// prompted passes a message from the host to the running turn, or to the next one.
func (s *server) prompted(ctx context.Context, in queuedFrame) {
	p, field, err := readPrompt(in.frame)
	switch {
	case err != nil && s.isHost(): // it waits for a result
		p = prompt{id: in.frame.UUID, silent: p.silent, bad: fmt.Errorf("%s: %w", field, err)}
	case err != nil:
		s.badLine(in.line.number, field, err)
		return
	}
	s.mu.Lock()
	host, conversation, refused := s.host, s.conversation, s.notSetUp
	s.mu.Unlock()
	if refused != nil {
		p = prompt{id: in.frame.UUID, silent: p.silent, bad: refused}
	}
	p.number, p.together = in.line.number, in.line.together
	if host && conversation != nil {
		text := escapeUnknown(conversation.Session(), p.Text)
		if p.Typed == p.Text {
			p.Typed = text
		}
		p.Text = text
	}
	if s.join(ctx, p) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.priority == "now" && s.stopTurn != nil {
		s.prompts = slices.Insert(s.prompts, 0, p)
		s.stopTurn(errInterrupted)
	} else {
		s.prompts = append(s.prompts, p)
	}
	s.notify()
}

// escapeUnknown doubles the slash at the beginning of a host's message if it names no command, skill or template, so
// that the model gets the message as text. Names that look like those of servers and plugins stay as they are, because
// the server may not have answered yet.
func escapeUnknown(session *engine.Session, text string) string {
	now := session.Now()
	c := agent.Resolve(text, now.Commands())
	if c == nil || c.Command != nil || strings.Contains(c.Name, ":") || strings.HasPrefix(c.Name, "mcp__") {
		return text
	}
	if cat := session.Catalog(); cat.Skill(c.Name) != nil || len(cat.Why(c.Name, now.View()).Found) > 0 {
		return text // the answer says why it cannot be used
	}
	return "/" + text
}

// ownID is the prefix of the IDs of messages to which the host gave none.
const ownID = "line "

// join adds a message to the running turn. It returns false if that is not possible.
func (s *server) join(ctx context.Context, p prompt) bool {
	s.mu.Lock()
	conversation, running := s.conversation, s.stopTurn != nil && len(s.prompts) == 0
	together := p.together && !s.host
	s.mu.Unlock()
	if !running || together || p.bad != nil || p.silent || p.priority == "now" || p.priority == "later" {
		return false
	}
	if len(conversation.Session().Status().Queue) >= maxQueued {
		return false
	}
	queued, err := conversation.Session().Send(ctx,
		engine.QueuedMessage{Input: p.Input, ID: cmp.Or(p.id, fmt.Sprint(ownID, p.number))})
	switch {
	case err != nil: // the turn has ended, or a command waits for its end
		return false
	case queued.Reply != nil:
		s.Out.Event(engine.Event{Reply: queued.Reply})
	default:
		if s.Messages != nil {
			s.Messages.prompted(p.id, true)
		}
		s.Out.Queued(p.number)
	}
	return true
}

// next waits for a prompt. ok is false if no more will come.
func (s *server) next(ctx context.Context) (p prompt, ok bool) {
	for {
		s.mu.Lock()
		if len(s.prompts) > 0 {
			p, s.prompts = s.prompts[0], s.prompts[1:]
			s.notify()
			s.mu.Unlock()
			return p, true
		}
		changed, drained := s.changed, s.drained
		s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return prompt{}, false
		case drained && s.awaitTasks(ctx):
			return prompt{ends: true}, true
		case drained:
			return prompt{}, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// turns runs a turn for each prompt.
func (s *server) turns(ctx context.Context) error {
	for {
		p, ok := s.next(ctx)
		if !ok {
			break
		}
		session, err := s.start(ctx)
		if err != nil {
			s.Out.End(err)
			return err
		}
		p.stopped = s.await(ctx, session, !s.started && p.bad == nil && !p.silent && !p.ends)
		if p.ends {
			if p.Input, ok = s.announce(session); !ok {
				continue
			}
		}
		if !s.started {
			s.started = true
			if err := s.runner.Begin(ctx); err != nil {
				s.Out.End(err)
				return err
			}
		} else if s.isHost() && s.Messages != nil && !p.silent {
			s.Messages.again(ctx)
		}
		if p.bad != nil {
			if s.Messages != nil {
				s.Messages.prompted(p.id, false)
			}
			s.Out.End(p.bad)
			s.failed = &engine.Error{Err: p.bad}
			continue
		}
		log := session.Log()
		last := log.Last()
		if p.silent {
			if err := record(log, p.Input); err != nil {
				return err
			}
			if s.isHost() {
				s.Out.End(nil)
			}
			continue
		}
		err = s.turn(ctx, p)
		s.showTasks()
		switch {
		case s.runner.Quit:
			return cmp.Or(s.err(), err)
		case err == nil:
			s.failed = nil
		case ctx.Err() != nil:
			return s.ended(ctx)
		case s.isHost(): // the result contains the error; the host decides whether to go on
			var blocked *agent.Blocked
			s.failed = err
			if errors.As(err, &blocked) || stoppedByHook(&s.runner.Report) || s.interrupted {
				s.failed = nil // as the host wanted; see Messages.result
			}
		case s.current().Log() == log && log.Last() == last: // refused without recording anything
			s.refuse(err)
		default:
			return err
		}
	}
	if ctx.Err() != nil {
		return s.ended(ctx)
	}
	if _, err := s.start(ctx); err != nil { // without any prompt, invalid flags must still be reported
		return err
	}
	return cmp.Or(s.err(), s.failed)
}

// A startError is the error of a session that could not start. It ends the program.
type startError struct{ error }

func (e startError) Unwrap() error { return e.error }

// ended returns the error for a context that has ended.
func (s *server) ended(ctx context.Context) error {
	var failed startError
	if errors.As(context.Cause(ctx), &failed) {
		return failed.error
	}
	if errors.Is(context.Cause(ctx), errHostGone) {
		return &engine.Error{Err: errHostGone}
	}
	return engine.Interrupted(ctx)
}

// await waits until the host's servers are connected or have failed, so that the first request offers their tools.
// Before the first turn it also waits for the servers that the first request waits for, so that the Init message says
// whether they are connected, and reports whether the host interrupted that turn meanwhile.
func (s *server) await(ctx context.Context, session *engine.Session, first bool) (stopped bool) {
	s.mu.Lock()
	connect := s.connect
	s.connect = false
	s.mu.Unlock()
	if connect {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		session.MCP().WaitHost(ctx) // later servers are offered with a later request
	}
	if !first {
		return false
	}
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.mu.Lock()
	s.stopTurn = stop
	s.mu.Unlock()
	engine.AwaitServers(wait, session) // its error is that of the turn too
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopTurn = nil
	return errors.Is(context.Cause(wait), errInterrupted)
}

// record adds a host's message that needs no answer to the log.
func record(log *session.Log, in agent.Input) error {
	parts := media.Parts(in.Parts)
	if in.Text != "" {
		parts = append([]llm.Part{llm.Text(in.Text)}, parts...)
	}
	_, err := log.Append(session.Entry{Type: session.TypeUser, User: &session.User{Parts: parts, Steering: true}})
	return err
}

func (s *server) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

func (s *server) isHost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// turn runs a turn. The host may interrupt it.
func (s *server) turn(ctx context.Context, p prompt) error {
	turn, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if s.Messages != nil {
		s.Messages.prompted(p.id, false)
	}
	s.mu.Lock()
	s.stopTurn = stop
	s.mu.Unlock()
	if p.stopped {
		stop(errInterrupted)
	}
	in, err := s.current().Attach(turn, p.Input)
	if err != nil {
		s.Out.End(err)
	} else {
		err = s.runner.Turn(turn, in)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopTurn, s.interrupted = nil, errors.Is(context.Cause(turn), errInterrupted)
	var left []prompt // come next
	for _, m := range s.conversation.Unsent() {
		p := prompt{Input: m.Input}
		if !strings.HasPrefix(m.ID, ownID) {
			p.id = m.ID
		}
		left = append(left, p)
		if s.Messages != nil {
			s.Messages.removeJoined(m.ID)
		}
	}
	s.prompts = append(left, s.prompts...)
	return err
}

// start starts the session with the host's setup, unless it has already started.
func (s *server) start(ctx context.Context) (*engine.Session, error) {
	s.mu.Lock()
	known := s.conversation
	s.mu.Unlock()
	if known != nil {
		return known.Session(), nil
	}
	var answerer engine.Person
	if s.Prompts {
		answerer = &person{s}
	}
	if s.Agree != nil && answerer != nil { // without mu, because the answer needs it
		if err := s.Agree(ctx, answerer); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conversation != nil { // meanwhile
		return s.conversation.Session(), nil
	}
	if s.setup.schema != nil {
		s.runner.Schema = s.setup.schema
	}
	session, err := s.Start(ctx, answerer, func(o *engine.SessionOptions) {
		s.setup.edit(o)
		o.Host.Controls, o.Host.MaySave = true, s.MaySave
		s.runner.Schema.Edit(o)
		s.Messages.Edit(o)
	})
	if err != nil {
		return nil, err
	}
	s.conversation = engine.Converse(session)
	s.runner.Conversation = s.conversation
	return session, nil
}
