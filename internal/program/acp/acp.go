// Package acp is the front end for editors: an agent of the Agent Client Protocol, version 1, on standard input and
// output.
//
// [Serve] answers a client. Each session of it is an [engine.Conversation] in an engine of its own, because sessions
// may be in different directories. What happens in a turn becomes updates (updates.go), and what needs an answer a
// request to the client (ask.go). The messages are those of the Go SDK; the connection is ours, see rpc.go.
//
// Neither the client's files nor its terminals are used: tools work in the session's own workspace, which the sandbox
// and the rules guard.
package acp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/session"
)

// Options configure [Serve]. Open, Start and List are needed.
type Options struct {
	In      io.Reader // messages of the client
	Out     io.Writer // nothing else may write to it
	Version string    // of the program

	// Open opens a directory.
	Open func(ctx context.Context, dir string) (*engine.Engine, error)
	// Start starts a session in it; edit applies the client's changes to its options.
	Start func(ctx context.Context, e *engine.Engine, person engine.Person, edit func(*engine.SessionOptions)) (
		*engine.Session, error)
	// List returns the sessions of a directory, the last one first.
	List func(dir string) ([]session.Summary, error)
}

// A server is one run of [Serve].
type server struct {
	Options
	conn *conn
	ctx  context.Context // of the whole run
	stop context.CancelFunc

	mu       sync.Mutex
	client   sdk.ClientCapabilities
	sessions map[sdk.SessionId]*conversation
}

// Serve answers a client until it disconnects. Then turns are stopped and sessions are closed.
func Serve(ctx context.Context, o Options) error {
	// If nobody reads any more, SIGPIPE must end the turns, not the program, so that what they started also ends.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	return newServer(ctx, o).serve()
}

func newServer(ctx context.Context, o Options) *server {
	s := &server{Options: o, conn: newConn(o.Out), sessions: map[sdk.SessionId]*conversation{}}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.conn.handle = s.handle
	return s
}

// serve handles the messages of the client, then closes its sessions.
func (s *server) serve() error {
	err := s.conn.serve(s.ctx, s.In)
	s.stop()
	for _, c := range s.sessions {
		err = errors.Join(err, c.close())
	}
	return err
}

// A method answers a request of the client.
type method func(s *server, ctx context.Context, c *call) (any, error)

// on makes a method of a func that gets the parameters.
func on[P any](do func(s *server, ctx context.Context, c *call, params P) (any, error)) method {
	return func(s *server, ctx context.Context, c *call) (any, error) {
		var params P
		if err := json.Unmarshal(c.params, &params); err != nil {
			return nil, sdk.NewInvalidParams(detail(err))
		}
		if checks, ok := any(&params).(interface{ Validate() error }); ok {
			if err := checks.Validate(); err != nil {
				return nil, sdk.NewInvalidParams(detail(err))
			}
		}
		return do(s, ctx, c, params)
	}
}

// methodOf returns a method of an agent; nil: Knack does not have it.
func methodOf(name string) method {
	switch name {
	case sdk.AgentMethodInitialize:
		return on((*server).initialize)
	case sdk.AgentMethodAuthenticate:
		return on((*server).authenticate)
	case sdk.AgentMethodSessionNew:
		return on((*server).newSession)
	case sdk.AgentMethodSessionLoad:
		return on((*server).load)
	case sdk.AgentMethodSessionResume:
		return on((*server).resume)
	case sdk.AgentMethodSessionList:
		return on((*server).list)
	case sdk.AgentMethodSessionClose:
		return on((*server).closeSession)
	case sdk.AgentMethodSessionPrompt:
		return on((*server).prompt)
	case sdk.AgentMethodSessionCancel:
		return on((*server).cancel)
	case sdk.AgentMethodSessionSetMode:
		return on((*server).setMode)
	case sdk.AgentMethodSessionSetConfigOption:
		return on((*server).setOption)
	}
	return nil
}

func (s *server) handle(ctx context.Context, c *call) (any, error) {
	m := methodOf(c.method)
	if m == nil {
		return nil, sdk.NewMethodNotFound(c.method)
	}
	return m(s, ctx, c)
}

// failure converts an error for the client. The message is what its user reads.
func failure(err error) *sdk.RequestError {
	var known *sdk.RequestError
	if errors.As(err, &known) {
		return known
	}
	var e *engine.Error
	told := errors.As(err, &e)
	out := sdk.NewInternalError(nil)
	switch {
	case errors.Is(err, engine.ErrNoModel):
		out = sdk.NewAuthRequired(nil)
	case told && e.Exit == engine.ExitUsage: // a mistake of the client or its user, such as a directory that is not there
		out = sdk.NewInvalidParams(nil)
	}
	out.Message = err.Error()
	if told && e.Hint != "" {
		out.Message += "\n" + engine.PromptHint(e.Hint)
	}
	return out
}

// loginMethod is the ID of the one way to log in.
const loginMethod = "login"

func (s *server) initialize(_ context.Context, _ *call, in sdk.InitializeRequest) (any, error) {
	s.mu.Lock()
	s.client = in.ClientCapabilities
	s.mu.Unlock()
	out := sdk.InitializeResponse{
		ProtocolVersion: sdk.ProtocolVersionNumber, // whatever the client has: it decides whether to go on
		AgentInfo:       &sdk.Implementation{Name: "knack", Title: sdk.Ptr("Knack"), Version: s.Version},
		AuthMethods:     []sdk.AuthMethod{},
		AgentCapabilities: sdk.AgentCapabilities{
			LoadSession:        true,
			McpCapabilities:    sdk.McpCapabilities{Http: true, Sse: true},
			PromptCapabilities: sdk.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: sdk.SessionCapabilities{Close: &sdk.SessionCloseCapabilities{},
				List: &sdk.SessionListCapabilities{}, Resume: &sdk.SessionResumeCapabilities{}},
		},
	}
	if in.ClientCapabilities.Auth.Terminal {
		out.AuthMethods = []sdk.AuthMethod{{Terminal: &sdk.AuthMethodTerminalInline{Id: loginMethod, Type: "terminal",
			Name: "Log in at a terminal", Description: sdk.Ptr("stores the key of a model provider: knack login"),
			Args: []string{"login"}}}}
	}
	return out, nil
}

// authenticate accepts the login at a terminal, which the client has run.
func (s *server) authenticate(_ context.Context, _ *call, in sdk.AuthenticateRequest) (any, error) {
	if in.MethodId != loginMethod {
		return nil, sdk.NewInvalidParams(map[string]any{"error": "there is no such method"})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sessions {
		c.engine.Models().Forget()
	}
	return sdk.AuthenticateResponse{}, nil
}

// find returns a session of this connection.
func (s *server) find(id sdk.SessionId) (*conversation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.sessions[id]; c != nil {
		return c, nil
	}
	return nil, sdk.NewInvalidParams(map[string]any{"error": "there is no open session " + string(id)})
}

// opened is the answer to session/new, load and resume.
type opened struct {
	ID      sdk.SessionId             `json:"sessionId,omitempty"` // of a new session
	Modes   *sdk.SessionModeState     `json:"modes"`
	Options []sdk.SessionConfigOption `json:"configOptions"`
}

func (s *server) newSession(ctx context.Context, c *call, in sdk.NewSessionRequest) (any, error) {
	made, err := s.open(ctx, in.Cwd, in.McpServers, "")
	if err != nil {
		return nil, err
	}
	out := made.opened(ctx)
	out.ID = made.id
	c.after = append(c.after, made.refresh)
	return out, nil
}

// load resumes a session and repeats what happened in it.
func (s *server) load(ctx context.Context, c *call, in sdk.LoadSessionRequest) (any, error) {
	made, err := s.open(ctx, in.Cwd, in.McpServers, in.SessionId)
	if err != nil {
		return nil, err
	}
	made.replay()
	c.after = append(c.after, made.refresh)
	return made.opened(ctx), nil
}

func (s *server) resume(ctx context.Context, c *call, in sdk.ResumeSessionRequest) (any, error) {
	made, err := s.open(ctx, in.Cwd, in.McpServers, in.SessionId)
	if err != nil {
		return nil, err
	}
	c.after = append(c.after, made.refresh)
	return made.opened(ctx), nil
}

// open opens a session in a directory: the one with an ID, or with "" a new one.
func (s *server) open(ctx context.Context, dir string, servers []sdk.McpServer, id sdk.SessionId) (*conversation, error) {
	if !filepath.IsAbs(dir) {
		return nil, sdk.NewInvalidParams(map[string]any{"error": "cwd is not an absolute path: " + dir})
	}
	if id != "" { // a client may load what it has open
		s.mu.Lock()
		old := s.sessions[id]
		delete(s.sessions, id)
		s.mu.Unlock()
		if old != nil {
			if err := old.close(); err != nil {
				return nil, err
			}
		}
	}
	e, err := s.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	c := newConversation(s, e)
	err = c.start(ctx, servers, id)
	if id != "" && errors.Is(err, fs.ErrNotExist) {
		refused := sdk.NewInvalidParams(nil)
		refused.Message = failure(err).Message
		err = refused
	}
	if err == nil && id != "" && c.id != id { // the engine takes the beginning of an ID, too
		err = sdk.NewInvalidParams(map[string]any{"error": "there is no session " + string(id)})
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	s.mu.Lock()
	s.sessions[c.id] = c
	s.mu.Unlock()
	return c, nil
}

func (s *server) closeSession(_ context.Context, _ *call, in sdk.CloseSessionRequest) (any, error) {
	c, err := s.find(in.SessionId)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.sessions, in.SessionId)
	s.mu.Unlock()
	return sdk.CloseSessionResponse{}, c.close()
}

// pageSize is the number of sessions in one answer to session/list.
const pageSize = 100

// list lists the sessions of a directory. The cursor is the ID of the last session of the page before.
func (s *server) list(_ context.Context, _ *call, in sdk.ListSessionsRequest) (any, error) {
	dir := "."
	if in.Cwd != nil && *in.Cwd != "" {
		dir = *in.Cwd
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	all, err := s.List(dir)
	if all == nil && err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, session.Summary.Empty)
	if in.Cursor != nil {
		at := slices.IndexFunc(all, func(x session.Summary) bool { return x.ID == *in.Cursor })
		all = all[at+1:]
	}
	out := sdk.ListSessionsResponse{Sessions: []sdk.SessionInfo{}}
	if len(all) > pageSize {
		all = all[:pageSize]
		out.NextCursor = &all[pageSize-1].ID
	}
	for _, x := range all {
		info := sdk.SessionInfo{SessionId: sdk.SessionId(x.ID), Cwd: dir, UpdatedAt: sdk.Ptr(x.Changed.UTC().Format(time.RFC3339))}
		if title := title(x.Title, x.First); title != "" {
			info.Title = &title
		}
		out.Sessions = append(out.Sessions, info)
	}
	return out, nil
}

func (s *server) prompt(ctx context.Context, c *call, in sdk.PromptRequest) (any, error) {
	talk, err := s.find(in.SessionId)
	if err != nil {
		return nil, err
	}
	input, err := readPrompt(in.Prompt)
	if err != nil {
		return nil, err
	}
	return talk.prompt(ctx, input, c.begun)
}

// cancel stops the turn of a session. It is a notification: of a session that is not open, nobody wants to know.
func (s *server) cancel(_ context.Context, _ *call, in sdk.CancelNotification) (any, error) {
	if c, err := s.find(in.SessionId); err == nil {
		c.interrupt(errInterrupted)
	}
	return nil, nil
}

func (s *server) setMode(ctx context.Context, c *call, in sdk.SetSessionModeRequest) (any, error) {
	talk, err := s.find(in.SessionId)
	if err != nil {
		return nil, err
	}
	c.after = append(c.after, talk.refresh)
	return sdk.SetSessionModeResponse{}, talk.set(ctx, optionMode, string(in.ModeId))
}

func (s *server) setOption(ctx context.Context, c *call, in sdk.SetSessionConfigOptionRequest) (any, error) {
	if in.ValueId == nil {
		return nil, sdk.NewInvalidParams(map[string]any{"error": "no option is switched on and off"})
	}
	talk, err := s.find(in.ValueId.SessionId)
	if err != nil {
		return nil, err
	}
	if err := talk.set(ctx, in.ValueId.ConfigId, string(in.ValueId.Value)); err != nil {
		return nil, err
	}
	c.after = append(c.after, talk.refresh)
	return sdk.SetSessionConfigOptionResponse{ConfigOptions: talk.options(ctx)}, nil
}
