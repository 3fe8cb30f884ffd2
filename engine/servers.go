package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/project/layout"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/mcp"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/sandbox"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/tool/coding"
	"github.com/knack-agent/knack/workspace"
)

// maxClaudeFile limits the size of Claude Code's file, which contains more than servers.
const maxClaudeFile = 64 << 20

// Servers returns the MCP servers that the directory and its user define; of those with the same name,
// the one with the highest precedence. The problems are about servers that are left out.
func (p *Project) Servers() ([]mcp.Server, []knack.Problem) {
	p.serversOnce.Do(func() { p.servers, p.serverProblems = p.findServers() })
	return p.servers, p.serverProblems
}

// findServers reads the definitions in order of precedence: the administrator's, those of the command
// line, the user's, the project's. A project cannot define a server with a name that someone else has
// defined.
func (p *Project) findServers() ([]mcp.Server, []knack.Problem) {
	var all []mcp.Server
	var problems []knack.Problem
	add := func(servers []mcp.Server, bad []knack.Problem) {
		problems = append(problems, bad...)
		for _, s := range servers {
			i := slices.IndexFunc(all, func(t mcp.Server) bool { return mcp.Safe(t.Name) == mcp.Safe(s.Name) })
			if i < 0 {
				all = append(all, s)
				continue
			}
			by := all[i].Origin
			if s.Origin == permission.Project && by != permission.Project ||
				s.Origin != permission.Managed && by == permission.Managed {
				problems = append(problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn, Path: s.DefinedIn,
					Message: "MCP server " + s.Name + " is left out: " + all[i].DefinedIn + " defines a server with the same name"})
			}
		}
	}
	settings := func(origins ...permission.Origin) {
		for _, part := range p.config.Raw["mcpServers"] {
			if slices.Contains(origins, part.Origin) {
				servers, bad := mcp.Parse(part.JSON, part.Origin, part.Path)
				for i := range bad {
					bad[i].Line, bad[i].Column = part.Line, part.Column
				}
				add(servers, bad)
			}
		}
	}
	settings(permission.Managed)
	for _, c := range p.mcpConfigs {
		add(mcp.Parse(c.data, permission.Flag, c.place))
	}
	if p.options.StrictMCP || p.options.Bare {
		return all, problems
	}
	settings(permission.Flag, permission.User)
	if !p.options.NoSettings && p.hasLayer("user") {
		add(p.claudeServers())
	}
	if !p.options.NoSettings && p.hasLayer("project") {
		for _, f := range p.projectServers() {
			add(f.servers, f.problems)
		}
	}
	settings(permission.Project)
	add(p.pluginServers())
	for i := range all {
		if s := &all[i]; s.Origin == permission.Project {
			s.Network = cmp.Or(p.trust.Network(s.DefinedIn), "none")
		}
	}
	return all, problems
}

// An mcpConfig is a value of --mcp-config: a file, or JSON.
type mcpConfig struct {
	place string // the file, or the name of the flag
	data  []byte
}

// readMCPConfig reads a value of --mcp-config, which must be JSON.
func readMCPConfig(text string) (mcpConfig, error) {
	c := mcpConfig{place: "--mcp-config", data: []byte(text)}
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		c.place = text
		var err error
		if c.data, err = os.ReadFile(text); err != nil {
			return c, fmt.Errorf("--mcp-config: %w", err)
		}
	}
	if !json.Valid(bytes.TrimPrefix(c.data, []byte("\ufeff"))) {
		return c, fmt.Errorf("%s: not valid JSON", plain.Line(c.place))
	}
	return c, nil
}

// claudeServers returns the servers that the user configured in Claude Code: for this directory, then
// for all.
func (p *Project) claudeServers() ([]mcp.Server, []knack.Problem) {
	file := p.claudeFile()
	data, err := regular.Read(file, maxClaudeFile)
	if err != nil {
		return nil, nil
	}
	var doc struct {
		MCPServers json.RawMessage `json:"mcpServers"`
		Projects   map[string]struct {
			MCPServers json.RawMessage `json:"mcpServers"`
		} `json:"projects"`
	}
	// The file also contains the history of each project, and every start waits for this; encoding/json
	// takes fifty times as long.
	if fastjson.Unmarshal(data, &doc) != nil {
		return nil, []knack.Problem{{Code: knack.CodeMCPInvalid, Severity: knack.Warn, Path: file,
			Message: "not JSON: its MCP servers are not used"}}
	}
	var all []mcp.Server
	var problems []knack.Problem
	for _, part := range []json.RawMessage{doc.Projects[p.dir].MCPServers, doc.Projects[p.root].MCPServers,
		doc.MCPServers} {
		if len(part) == 0 || string(part) == "null" {
			continue
		}
		servers, bad := mcp.Parse(part, permission.User, file)
		all, problems = append(all, servers...), append(problems, bad...)
	}
	return all, problems
}

// claudeFile is the file in which Claude Code keeps the user's servers; "": there is no home.
func (p *Project) claudeFile() string {
	if dir := p.options.Env.Get("CLAUDE_CONFIG_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".claude.json")
	}
	if p.home == "" {
		return ""
	}
	return filepath.Join(p.home, ".claude.json")
}

// A serverFile is a file of the project that defines servers.
type serverFile struct {
	servers  []mcp.Server
	problems []knack.Problem
}

// projectServers returns the servers of the project's files that are trusted.
func (p *Project) projectServers() []serverFile {
	if p.options.Bare {
		return nil
	}
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return nil
	}
	defer root.Close()
	rel, err := filepath.Rel(p.root, p.dir)
	if err != nil {
		return nil
	}
	var all []serverFile
	for _, dir := range layout.Dirs(rel, ".") {
		for _, row := range layout.Rows(layout.MCP) {
			name := filepath.Join(dir, filepath.FromSlash(row.Path))
			data, err := regular.ReadIn(root, name, 1<<20)
			place := filepath.Join(p.root, name)
			var f serverFile
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				f.problems = []knack.Problem{{Code: knack.CodeUnreadable, Severity: knack.Error, Path: place,
					Message: "cannot be read: " + err.Error()}}
			default:
				if err := p.trust.Check(place, data); err != nil {
					var x knack.Problem
					if errors.As(err, &x) {
						f.problems = []knack.Problem{x}
					}
					break
				}
				f.servers, f.problems = mcp.Parse(data, permission.Project, place)
			}
			all = append(all, f)
		}
	}
	return all
}

// serverTrust returns the problems of the project's files that define servers. These are known without
// reading anything else.
func (p *Project) serverTrust() []knack.Problem {
	if p.options.StrictMCP || p.options.NoSettings {
		return nil
	}
	var all []knack.Problem
	for _, f := range p.projectServers() {
		all = append(all, f.problems...)
	}
	return all
}

// newClient makes the client for servers. It does not start them.
func (e *Engine) newClient(p *Project, servers []mcp.Server, changed func()) *mcp.Client {
	env := p.options.Env
	o := mcp.Options{
		Version: p.Version(), Run: e.runServer, Check: checkProgram, Getenv: env.Get,
		State: env.StateFile("mcp"), TempDir: env.StateFile("output"), Changed: changed, Debug: p.options.Debug,
		AllowPrivate: p.config.Settings.Web.AllowPrivate,
		Proxied: func(server, _ string, proxy *url.URL) {
			e.addNoticeOnce(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Info, Message: "MCP server " + server +
				" is reached through the proxy " + proxy.Host + ", so the addresses of names are not checked"})
		},
	}
	if env.StateDir() != "" {
		o.Tokens = serverTokens{env}
	}
	return mcp.New(o, servers...)
}

// client returns the client for the servers of the settings and of the project. It does not start them.
func (e *Engine) client() *mcp.Client {
	e.serversMu.Lock()
	defer e.serversMu.Unlock()
	p := e.Project()
	if e.closing && e.servers != nil {
		return e.servers
	}
	if e.servers != nil && e.serversProject == p {
		return e.servers
	}
	servers, problems := p.Servers()
	for _, x := range problems {
		if !needsTrust(x) { // Project.Problems reports inert ones
			e.addNotice(x)
		}
	}
	if e.servers != nil && reflect.DeepEqual(servers, e.configuredServers) {
		e.serversProject = p
		return e.servers
	}
	old := e.servers
	var client *mcp.Client
	client = e.newClient(p, servers, func() { e.serversChanged(client) })
	e.servers, e.configuredServers, e.serversProject, e.serverSources, e.reportedFailures = client, servers, p, nil, nil
	if old != nil {
		go old.Close()
	}
	return e.servers
}

// serverSource is the skills of one server in the catalogue.
type serverSource struct {
	source knack.Source
	list   int // see mcp.Client.SkillLists
}

// serversChanged updates the catalogue with the skills that the client's servers list now, reports
// failed servers, and notifies the callers of Watch. Any goroutine may call it.
func (e *Engine) serversChanged(client *mcp.Client) {
	e.serversMu.Lock()
	if e.servers != client { // another one has replaced it
		e.serversMu.Unlock()
		return
	}
	var added, changed []knack.Source
	if !e.closing {
		lists := client.SkillLists()
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			src := client.Skills(name)
			i := slices.IndexFunc(e.serverSources, func(x serverSource) bool { return x.source == src })
			switch {
			case i < 0:
				e.serverSources, added = append(e.serverSources, serverSource{src, lists[name]}), append(added, src)
			case e.serverSources[i].list != lists[name]:
				e.serverSources[i].list, changed = lists[name], append(changed, src)
			}
		}
	}
	reports := serverReports(client, &e.reportedFailures)
	e.serversMu.Unlock()
	if len(added) > 0 {
		e.library.Add(context.Background(), added...)
	}
	if len(changed) > 0 {
		e.library.Refresh(context.Background(), changed...)
	}
	for _, x := range reports {
		e.addNotice(x)
	}
	for _, s := range e.open() {
		s.changed()
	}
}

// serverReports returns problems of servers that failed and of servers that leave something out. known
// records what was reported: each kind is reported once per server.
func serverReports(client *mcp.Client, known *[]string) []knack.Problem {
	var all []knack.Problem
	once := func(key string) bool {
		if slices.Contains(*known, key) {
			return false
		}
		*known = append(*known, key)
		return true
	}
	for _, s := range client.Servers() {
		if s.State == mcp.Failed && s.Reason != "" && once("failed "+s.Name) {
			all = append(all, knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: s.DefinedIn,
				Message: "MCP server " + s.Name + " is not connected: " + s.Reason, Hint: "knack mcp test " + mcp.Safe(s.Name)})
		}
		if login := "mcp login " + mcp.Safe(s.Name); s.State == mcp.NeedsLogin && once(login) {
			all = append(all, knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: s.DefinedIn,
				Message: "MCP server " + s.Name + " needs a login", Hint: "/" + login + ", or knack " + login})
		}
		if n := len(s.Problems); n > 0 && once("problem "+s.Name) {
			x := s.Problems[0]
			if n > 1 {
				x.Message += fmt.Sprintf(" (and %s)", plain.Count(n-1, "more problem"))
			}
			all = append(all, x)
		}
	}
	return all
}

// reloadServers switches to the servers of a reloaded project. Servers whose definition has not
// changed stay connected.
func (e *Engine) reloadServers() {
	e.serversMu.Lock()
	running := e.servers != nil
	e.serverSources = nil // their sources were replaced together with the others
	e.serversMu.Unlock()
	if running {
		client := e.client()
		client.Start()
		e.serversChanged(client)
	}
}

// Catalog is the engine's catalogue with the skills of the host's servers.
func (s *Session) Catalog() *knack.Catalog {
	base, own := s.engine.Catalog(), s.ownClient()
	if own == nil {
		return base
	}
	lists := own.SkillLists()
	if len(lists) == 0 {
		return base
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := &s.combined; x.client != own || x.base != base || !maps.Equal(x.lists, lists) {
		var sources []knack.Source
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			sources = append(sources, own.Skills(name))
		}
		*x = ownCatalog{own, base, lists, s.engine.library.With(context.Background(), sources...)}
	}
	return s.combined.catalog
}

// An ownCatalog is a catalogue with the skills of the host's servers, and what it was made from.
type ownCatalog struct {
	client  *mcp.Client
	base    *knack.Catalog
	lists   map[string]int
	catalog *knack.Catalog
}

// Servers returns the MCP servers of the session, those of the host last.
func (s *Session) Servers() []mcp.Status {
	all := s.engine.client().Servers()
	if own := s.ownClient(); own != nil {
		all = append(all, own.Servers()...)
	}
	return all
}

// ResourceServers returns the names of the servers that have resources, or that may have some because
// they are not connected yet.
func (s *Session) ResourceServers() []string {
	var names []string
	for _, x := range s.Servers() {
		if (x.Resources || x.State == mcp.Waiting || x.State == mcp.Connecting) && plain.Line(x.Name) == x.Name {
			names = append(names, x.Name)
		}
	}
	return names
}

// Resources lists the resources of an MCP server that can be typed as @SERVER:URI. It starts the
// servers if necessary.
func (s *Session) Resources(ctx context.Context, server string) ([]mcp.Resource, error) {
	_, client, err := s.server(server)
	if err != nil {
		return nil, err
	}
	all, err := client.Resources(ctx, server)
	return slices.DeleteFunc(all, func(r mcp.Resource) bool {
		return plain.Line(r.URI) != r.URI || strings.ContainsAny(r.URI, " \t")
	}), err
}

// open returns the open sessions.
func (e *Engine) open() []*Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*Session
	for s := range e.sessions {
		all = append(all, s)
	}
	return all
}

// closeServers stops the servers.
func (e *Engine) closeServers() error {
	e.serversMu.Lock()
	client := e.servers
	e.closing = true
	e.serversMu.Unlock()
	if client == nil {
		return nil
	}
	return client.Close()
}

// checkProgram returns an error if the program of a server does not exist.
func checkProgram(s mcp.Server) error {
	if name := filepath.Base(s.Command); name != s.Command && !filepath.IsAbs(s.Command) {
		return nil // relative to the directory where the server runs
	}
	_, err := exec.LookPath(s.Command)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("cannot run %s: not found on PATH", s.Command)
	}
	var reason *exec.Error
	if errors.As(err, &reason) {
		err = reason.Err
	}
	return fmt.Errorf("cannot run %s: %w", s.Command, err)
}

// runServer runs the program of a server on this machine, in its own sandbox. A user's server may use
// the network; a project's may use what was approved.
func (e *Engine) runServer(ctx context.Context, s mcp.Server, c workspace.Command) (workspace.Exit, error) {
	p := e.Project()
	local, err := workspace.NewLocal(p.dir)
	if err != nil {
		return workspace.Exit{}, err
	}
	defer local.Close()
	local.Environ = p.options.Env.environ()
	p.configureLocal(local)
	mode, err := sandbox.ParseMode(cmp.Or(p.config.Settings.Sandbox.Mode, "auto"))
	if err != nil {
		return workspace.Exit{}, err
	}
	policy, err := p.policy(local.Dir())
	if err != nil {
		return workspace.Exit{}, err
	}
	// The server of a project or plugin could make a .git that names programs.
	policy.KeepNew = s.Origin != permission.Project && s.Origin != permission.Plugin
	switch s.Network {
	case "", "all":
		policy.Network = s.Network == "all" || s.Origin != permission.Project
	case "none":
		policy.Hosts = nil
	default:
		policy.Hosts = strings.FieldsFunc(s.Network, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(c.Args) > 0 { // the program is visible, wherever it is
		if path, err := exec.LookPath(c.Args[0]); err == nil {
			c.Allow.Read = append(append(c.Allow.Read, path, realPath(path)), p.belowTemp(s, path)...)
		}
		for _, arg := range c.Args[1:] {
			c.Allow.Read = append(c.Allow.Read, p.belowTemp(s, arg)...)
		}
	}
	for _, dir := range c.Allow.Write { // the data of a plugin
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return workspace.Exit{}, err
		}
	}
	box := sandbox.New(policy, mode)
	if mode != sandbox.Off {
		e.reportSandbox(box.Report())
	}
	if !policy.Network && box.Report().Level == sandbox.None {
		e.addNoticeOnce(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: s.DefinedIn,
			Message: "MCP server " + s.Name + ": its program can reach the whole network, because there is no sandbox",
			Hint:    "knack doctor"})
	}
	release := func() {}
	defer func() { release() }()
	local.Confine = func(cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
		if mode == sandbox.Off || box.Report().Level == sandbox.None {
			cmd.Env = policy.Environ(cmd.Env, c.Env) // servers do not get the keys of models
			release = endWithProgram(cmd)            // the sandbox does this, too
		}
		release, err := box.Confine(cmd, c)
		return e.reportRestored(release, s.DefinedIn), err
	}
	exit, err := local.Run(ctx, c)
	if s.Network != "" && s.Network != "all" { // rules and settings do not change what was approved with the server
		for i, text := range exit.Refused {
			if blocked, _, ok := strings.Cut(text, sandbox.HowToAllow); ok {
				exit.Refused[i] = blocked + sandbox.HowToAllow + "knack trust --mcp-network HOSTS"
			}
		}
	}
	return exit, err
}

// belowTemp returns what must be visible, although the sandbox has a /tmp of its own, so that a server starts whose
// definition names a file below /tmp: the directory in /tmp that contains the file, because a program needs the files
// beside it. A directory that also contains the working directory or the home directory would uncover their secrets;
// then it is one further down. A project's definition makes nothing visible.
func (p *Project) belowTemp(s mcp.Server, file string) []string {
	if s.Origin == permission.Project || !filepath.IsAbs(file) {
		return nil
	}
	var all []string
	for _, at := range []string{filepath.Clean(file), realPath(file)} {
		for _, temp := range []string{"/tmp", "/var/tmp"} {
			rest, ok := subpath.Rel(temp, at)
			if !ok || rest == "." {
				continue
			}
			for name := range strings.SplitSeq(rest, "/") {
				temp = filepath.Join(temp, name)
				if !slices.ContainsFunc([]string{p.dir, p.root, p.home}, func(dir string) bool {
					return subpath.Contains(temp, realPath(dir))
				}) {
					all = append(all, temp)
					break
				}
			}
		}
	}
	return all
}

// dynamicTools returns the servers' tools that the session may use.
func (s *Session) dynamicTools() tool.Set {
	var set tool.Set
	clients := s.clients()
	for _, c := range clients {
		set = append(set, c.Tools(s.elicit)...)
	}
	if slices.ContainsFunc(clients, (*mcp.Client).HasResources) {
		set = append(set, mcp.ResourceTools(clients...)...)
	}
	return s.withoutRemoved(set)
}

// withoutRemoved returns the servers' tools without those that the user removed with --tools.
func (s *Session) withoutRemoved(set tool.Set) tool.Set {
	if s.options.Tools == "" || len(set) == 0 {
		return set
	}
	known := slices.Concat(withAgent(s.files), set)
	base := coding.Default + ",Agent,mcp__*,list_mcp_resources,read_mcp_resource,wait_for_mcp_servers"
	chosen, _ := tool.Select(known, base, coding.Choice(s.options.Tools, base))
	return slices.DeleteFunc(set, func(t tool.Tool) bool {
		return !slices.ContainsFunc(chosen, func(c tool.Tool) bool { return c.Name == t.Name })
	})
}

// clients returns the clients for the servers of the directory and of the host.
func (s *Session) clients() []*mcp.Client {
	all := []*mcp.Client{s.engine.client()}
	if own := s.ownClient(); own != nil {
		all = append(all, own)
	}
	return all
}

// promptCommands returns the servers' prompts as commands, which the user types as
// /mcp__server__prompt.
func (s *Session) promptCommands() []knack.SlashCommand {
	var all []knack.SlashCommand
	for _, c := range s.clients() {
		for _, p := range c.Prompts() {
			hint := ""
			for _, a := range p.Arguments {
				hint += " " + strings.ToUpper(a)
			}
			all = append(all, knack.SlashCommand{Name: p.Name, Kind: knack.CommandMCP, Description: p.Description,
				Hint: strings.TrimSpace(hint), Source: "MCP server " + p.Server,
				Expand: func(ctx context.Context, args string) (string, error) {
					parts, err := c.Prompt(ctx, p.Name, args, s.elicit)
					if err != nil {
						err = &Error{Err: err, Hint: plain.Line("/" + p.Name + hint)}
					}
					return llm.JoinText(parts, "\n"), err
				}})
		}
	}
	return all
}

// ownClient returns the client for the servers that the host gave to the session; nil: there are none.
func (s *Session) ownClient() *mcp.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers
}

// startServers starts connecting to the servers, in the background. When it returns, servers that
// cannot be started have been reported.
func (s *Session) startServers() {
	s.engine.client().Start()
	if own := s.ownClient(); own != nil {
		own.Start()
	}
}

// WaitServers connects to the host's servers and waits until each has been tried once, or until ctx
// ends.
func (s *Session) WaitServers(ctx context.Context) error {
	own := s.ownClient()
	if own == nil {
		return nil
	}
	own.Start()
	return own.Wait(ctx)
}

// ConnectServers starts connecting to all servers and waits until each of the named ones has answered
// or failed; without names, until all have. Turns start connecting when their first request was sent,
// and do not wait.
func (s *Session) ConnectServers(ctx context.Context, names ...string) error {
	s.startServers()
	for _, c := range s.clients() {
		if err := c.Wait(ctx, names...); err != nil {
			return err
		}
	}
	return nil
}

// UnansweredServers returns a problem if turns ran without the tools of servers that have not answered yet. It is for
// programs that end after a few turns: later, the servers would have answered or failed.
func (s *Session) UnansweredServers() []knack.Problem {
	var names []string
	for _, c := range s.clients() {
		names = append(names, c.Unanswered()...)
	}
	if len(names) == 0 {
		return nil
	}
	return []knack.Problem{{Code: knack.CodeMCPServer, Severity: knack.Warn, Hint: "knack mcp test",
		Message: "the run ended before these MCP servers had answered, so their tools were not available: " +
			strings.Join(names, ", ")}}
}

// serversIn returns the names of the servers whose prompt or skill a line may call: what a server
// offers is only known once it is connected.
func (s *Session) serversIn(line string) []string {
	word, _, ok := agent.Slash(line)
	if !ok || !strings.Contains(word, ":") && !strings.HasPrefix(word, "mcp__") {
		return nil
	}
	var names []string
	for _, x := range s.Servers() {
		if safe := mcp.Safe(x.Name); strings.HasPrefix(word, "mcp__"+safe+"__") || strings.HasPrefix(word, safe+":") {
			names = append(names, x.Name)
		}
	}
	return names
}

// Reconnect connects again to an MCP server that is not connected, and waits for the result.
func (s *Session) Reconnect(ctx context.Context, server string) error {
	_, client, err := s.server(server)
	if err != nil {
		return err
	}
	return client.Reconnect(ctx, server)
}

// EnableServer enables or disables an MCP server. The administrator's servers cannot be disabled.
func (s *Session) EnableServer(server string, on bool) error {
	x, client, err := s.server(server)
	if err != nil {
		return err
	}
	if !on && x.Origin == permission.Managed {
		return fmt.Errorf("the MCP server %s is managed, and cannot be disabled", server)
	}
	return client.Enable(server, on)
}

// server returns an MCP server of the session by name, and its client.
func (s *Session) server(name string) (mcp.Status, *mcp.Client, error) {
	for _, c := range s.clients() {
		for _, x := range c.Servers() {
			if x.Name == name {
				return x, c, nil
			}
		}
	}
	return mcp.Status{}, nil, fmt.Errorf("there is no MCP server %q", name)
}

// setHostServers replaces the host's servers.
func (s *Session) setHostServers(servers []mcp.Server) {
	s.mu.Lock()
	old, was := s.servers, s.host.Servers
	same := slices.EqualFunc(was, servers, func(a, b mcp.Server) bool {
		return a.Name == b.Name && reflect.ValueOf(a.Open).Pointer() == reflect.ValueOf(b.Open).Pointer() &&
			a.Target() == b.Target()
	})
	if same && (old != nil || len(servers) == 0) {
		s.mu.Unlock()
		return
	}
	s.servers = nil
	if len(servers) > 0 {
		own := slices.Clone(servers)
		for i := range own {
			own[i].Origin, own[i].DefinedIn = permission.Session, "the host"
		}
		var client *mcp.Client
		var reported []string
		var mu sync.Mutex
		client = s.engine.newClient(s.engine.Project(), own, func() {
			mu.Lock()
			reports := serverReports(client, &reported)
			mu.Unlock()
			for _, x := range reports {
				s.engine.addNotice(x)
			}
			s.changed()
		})
		s.servers = client
	}
	s.mu.Unlock()
	if old != nil {
		go old.Close()
	}
}

// elicit asks the user a server's question.
func (s *Session) elicit(ctx context.Context, q mcp.Question) (mcp.Answer, error) {
	question := Question{Title: "The MCP server " + q.Server + " asks", Text: q.Message, Asker: Asker("mcp:" + q.Server),
		URL: q.URL}
	if q.URL != "" || len(q.Fields) == 0 {
		question.Options = []Option{{ID: OptionYes, Label: "yes", Allow: true}, {ID: OptionNo, Label: "no"}}
	}
	for _, f := range q.Fields {
		field := Field{Name: f.Name, Label: f.Title, Help: f.Help, Default: f.Default, Required: f.Required, Many: f.Many,
			Min: f.Min, Max: f.Max}
		switch {
		case len(f.Choices) > 0:
			field.Type = FieldChoice
			for _, c := range f.Choices {
				field.Options = append(field.Options, Option{ID: c.Value, Label: c.Title})
			}
		case f.Type == "boolean":
			field.Type = FieldBool
		case f.Type == "number" || f.Type == "integer":
			field.Type = FieldNumber
		}
		question.Fields = append(question.Fields, field)
	}
	person := s.person
	if p := s.Host().Elicit; p != nil {
		person = p
	}
	a, err := s.askPerson(ctx, person, "elicitation_dialog", "the MCP server "+q.Server+" asks a question", question)
	if err != nil {
		return mcp.Answer{}, err
	}
	out := mcp.Answer{Accepted: !a.Declined && a.Option != OptionNo, Values: map[string]any{}}
	r := gate.Record{Tool: "mcp__" + mcp.Safe(q.Server), Asked: true,
		Decision: permission.Decision{Verdict: permission.Deny, Reason: "the question of the MCP server was declined"}}
	if out.Accepted {
		r.Answer.Choice = gate.Once
		r.Decision = permission.Decision{Verdict: permission.Allow, Reason: "the question of the MCP server was answered"}
	}
	s.engine.Project().audit(s.log)(r)
	for name, data := range a.Values {
		var v any
		if json.Unmarshal(data, &v) == nil {
			out.Values[name] = v
		}
	}
	return out, nil
}

// serverTokens stores the tokens of servers in the same place as the keys of models.
type serverTokens struct{ env Env }

const tokenFile = "mcp/tokens.json"

var tokensMu sync.Mutex // Keys does not support concurrent writers

func (t serverTokens) Get(key string) (string, error) {
	tokensMu.Lock()
	defer tokensMu.Unlock()
	return openKeys(t.env, tokenFile).Get(key)
}

func (t serverTokens) Set(key, value string) error {
	tokensMu.Lock()
	defer tokensMu.Unlock()
	return openKeys(t.env, tokenFile).Set(key, value)
}

func (t serverTokens) Remove(key string) error {
	tokensMu.Lock()
	defer tokensMu.Unlock()
	keys := openKeys(t.env, tokenFile)
	if !keys.Has(key) {
		return nil
	}
	return keys.Remove(key)
}

// MCP returns the client for the directory's MCP servers, which start after the first request.
func (e *Engine) MCP() *mcp.Client { return e.client() }

// A ServerInfo is the state of an MCP server, as data.
type ServerInfo struct {
	Name      string            `json:"name"`
	State     mcp.ServerState   `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	Transport mcp.TransportKind `json:"transport"`
	Origin    string            `json:"origin"`
	Protocol  string            `json:"protocol,omitempty"`
	Tools     []string          `json:"tools"`
	Prompts   []string          `json:"prompts"`
	Skills    int               `json:"skills,omitempty"`
	LoggedIn  bool              `json:"logged_in,omitempty"`
	Agent     string            `json:"agent,omitempty"` // the sub-agent that uses it; "": the session
	Problems  []string          `json:"problems,omitempty"`
}

// ServerInfos returns the servers of the session and of the running sub-agents.
func (s *Session) ServerInfos() []ServerInfo {
	all := []ServerInfo{}
	add := func(c *mcp.Client, agent string) {
		for _, x := range c.Servers() {
			if x.State == mcp.NeedsLogin {
				x.Reason = "/mcp login " + mcp.Safe(x.Name)
			}
			v := ServerInfo{Name: x.Name, State: x.State, Reason: x.Reason, Transport: x.Transport(),
				Origin: string(x.Origin), Protocol: x.Version, Tools: x.Tools, Prompts: x.Prompts, Skills: x.Skills,
				LoggedIn: c.LoggedIn(x.Name), Agent: agent}
			for _, p := range x.Problems {
				v.Problems = append(v.Problems, p.Message)
			}
			all = append(all, v)
		}
	}
	for _, c := range s.clients() {
		add(c, "")
	}
	s.mu.Lock()
	running := slices.Clone(s.agentClients)
	s.mu.Unlock()
	for _, r := range running {
		add(r.client, r.agent)
	}
	return all
}
