package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/mcp"
)

// An mcpMessage carries a JSON-RPC message to or from an MCP server that runs in the host.
type mcpMessage struct {
	Subtype subtype         `json:"subtype"` // mcp_message
	Server  string          `json:"server_name"`
	Message json.RawMessage `json:"message"`
}

// hostServer returns the definition of an MCP server that runs in the host.
func (s *server) hostServer(name string) mcp.Server {
	return mcp.Server{Name: name, Policy: &mcp.Policy{}, Open: func(context.Context) (mcp.Conn, error) {
		client, host := mcp.Pipe()
		s.mu.Lock()
		s.conns[name] = host
		s.mu.Unlock()
		go s.relayServer(name, host) // ends when the client closes its end
		return client, nil
	}}
}

// relayServer sends a client's messages to the host, in order, and its answers back.
func (s *server) relayServer(name string, conn mcp.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	var answers sync.WaitGroup
	defer answers.Wait()
	defer cancel()
	defer conn.CloseConn()
	for {
		frame, err := conn.ReadFrame(ctx)
		if err != nil {
			return
		}
		wait, err := s.send(mcpMessage{subtypeMCPMessage, name, frame})
		if err != nil {
			return
		}
		answers.Go(func() {
			data, err := wait.answer(ctx)
			if back := rpcAnswer(frame, data, err); back != nil {
				conn.WriteFrame(ctx, back)
			}
		})
	}
}

// rpcAnswer converts the host's answer to the answer to a JSON-RPC message; nil: the message needs
// none.
func rpcAnswer(frame []byte, data json.RawMessage, err error) []byte {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(frame, &call) != nil || call.Method == "" || len(call.ID) == 0 {
		return nil
	}
	var answer struct {
		Response json.RawMessage `json:"mcp_response"`
	}
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err == nil && len(answer.Response) > 0 {
		return answer.Response
	}
	if err == nil {
		err = fmt.Errorf("the host's answer has no mcp_response")
	}
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	back, _ := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", call.ID, rpcError{-32603, err.Error()}})
	return back
}

// fromServer delivers a message from a server in the host.
func (s *server) fromServer(ctx context.Context, request json.RawMessage) (any, error) {
	in, err := parse[mcpMessage](request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	conn := s.conns[in.Server]
	s.mu.Unlock()
	if conn == nil {
		return nil, fmt.Errorf("the MCP server %q is not connected", in.Server)
	}
	return nil, conn.WriteFrame(ctx, in.Message)
}

// restrictServers applies what a host says about its own servers by name.
func restrictServers(servers []mcp.Server, configs map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		i := slices.IndexFunc(servers, func(x mcp.Server) bool { return x.Name == name && x.Open != nil })
		x := mcp.Server{}
		if i >= 0 {
			x = servers[i]
		}
		switch err := x.Restrict(configs[name]); {
		case err != nil:
			return fmt.Errorf("sdkMcpServerConfigs: %.100q: %w", name, err)
		case i < 0 && !reflect.DeepEqual(x.Policy.Now(), mcp.ToolPolicy{}):
			return fmt.Errorf("sdkMcpServerConfigs: %.100q is not in sdkMcpServers, so its tools would guard nothing", name)
		case i >= 0:
			servers[i] = x
		}
	}
	return nil
}

// hostServers returns the servers that a host names or defines. problems lists those that are left
// out.
func (s *server) hostServers(named []string, defined map[string]json.RawMessage) (all []mcp.Server, problems []string) {
	for _, name := range named {
		if err := mcp.CheckName(name); err != nil {
			problems = append(problems, err.Error())
			continue
		}
		all = append(all, s.hostServer(name))
	}
	other := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(defined[name], &kind) == nil && kind.Type == "sdk" {
			x := s.hostServer(name)
			if err := x.Restrict(defined[name]); err != nil {
				problems = append(problems, fmt.Sprintf("server %.100q: %v", name, err))
				continue
			}
			all = append(all, x)
		} else {
			other[name] = defined[name]
		}
	}
	if len(other) > 0 {
		data, err := json.Marshal(other)
		if err != nil {
			return all, append(problems, err.Error())
		}
		more, bad := mcp.Parse(data, permission.Session, "the host")
		all = append(all, more...)
		for _, p := range bad {
			problems = append(problems, p.Message)
		}
	}
	return all, problems
}

// setHostServers gives the session the host's servers.
func (s *server) setHostServers(session *engine.Session, servers []mcp.Server) (problems []string) {
	configured, _ := session.Engine().Project().Servers()
	given := session.Host()
	for i := range servers { // one that stays, stays connected
		for _, was := range given.Servers {
			if x := &servers[i]; x.Name == was.Name && x.Open != nil && was.Policy != nil {
				was.Policy.Set(x.Policy.Now())
				*x = was
			}
		}
	}
	given.Servers, problems = mcp.Beside(servers, configured)
	for _, p := range session.SetHost(given) {
		problems = append(problems, p.Message)
	}
	s.mu.Lock()
	s.connect = len(given.Servers) > 0
	s.mu.Unlock()
	return problems
}

// mcpStatus describes a server in the form for hosts.
type mcpStatus struct {
	Name   string       `json:"name"`
	Status serverStatus `json:"status"` // connected, failed, needs-auth, pending, disabled
	Error  string       `json:"error,omitempty"`
	Source string       `json:"source,omitempty"`
	Scope  string       `json:"scope,omitempty"`
	Info   *serverInfo  `json:"serverInfo,omitempty"`
	Tools  []toolName   `json:"tools,omitempty"`
}

type serverInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"` // of the protocol
}

type toolName struct {
	Name string `json:"name"`
}

func statuses(s *engine.Session) []mcpStatus {
	all := []mcpStatus{}
	for _, x := range s.MCP().List() {
		m := mcpStatus{Name: x.Name, Status: serverPending, Error: x.Reason,
			Source: string(x.Origin), Scope: string(x.Origin)}
		if x.Open != nil {
			m.Source = "sdk"
		}
		switch x.State {
		case mcp.Connected:
			m.Status, m.Info = serverConnected, &serverInfo{x.Title, x.Version}
		case mcp.Failed, mcp.Stopped:
			m.Status = serverFailed
		case mcp.Disabled:
			m.Status = serverDisabled
		case mcp.NeedsLogin:
			m.Status = serverNeedsLogin
		}
		for _, t := range x.Tools {
			m.Tools = append(m.Tools, toolName{t})
		}
		all = append(all, m)
	}
	return all
}

func (s *server) mcpStatus(ctx context.Context, session *engine.Session, _ struct{}) (any, error) {
	return struct {
		Servers []mcpStatus `json:"mcpServers"`
	}{statuses(session)}, nil
}

// setServers replaces the host's servers. Servers that run in the host have the type sdk.
func (s *server) setServers(ctx context.Context, session *engine.Session, in struct {
	Servers map[string]json.RawMessage `json:"servers"`
}) (any, error) {
	if in.Servers == nil {
		return nil, errors.New("servers is missing: {} removes all")
	}
	was := session.Host().Servers
	servers, problems := s.hostServers(nil, in.Servers)
	problems = append(problems, s.setHostServers(session, servers)...)
	now := session.Host().Servers
	without := func(a, b []mcp.Server) []string {
		names := []string{}
		for _, x := range a {
			if !slices.ContainsFunc(b, func(y mcp.Server) bool { return x.Name == y.Name }) {
				names = append(names, x.Name)
			}
		}
		return names
	}
	out := struct {
		Added   []string          `json:"added"`
		Removed []string          `json:"removed"`
		Errors  map[string]string `json:"errors"`
	}{without(now, was), without(was, now), map[string]string{}}
	for i, p := range problems {
		out.Errors[fmt.Sprint(i+1)] = p
	}
	return out, nil
}

func (s *server) reconnect(ctx context.Context, session *engine.Session, in struct {
	Server string `json:"serverName"`
}) (any, error) {
	return nil, session.MCP().Reconnect(ctx, in.Server)
}

func (s *server) toggle(ctx context.Context, session *engine.Session, in struct {
	Server  string `json:"serverName"`
	Enabled *bool  `json:"enabled"`
}) (any, error) {
	if in.Enabled == nil {
		return nil, errors.New("enabled is missing")
	}
	return nil, session.MCP().Enable(in.Server, *in.Enabled)
}
