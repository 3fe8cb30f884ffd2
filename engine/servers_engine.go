package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/mcp"
)

// directoryServers are the MCP servers of the settings and of the project, which the sessions of an Engine share. Its
// methods may be called at any time and from any goroutine.
type directoryServers struct {
	project func() *Project
	library *knack.Library // gets the servers' skills
	notices *notices
	changed func() // called when the state of a server has changed

	mu         sync.Mutex  // locked before Engine.mu
	current    *mcp.Client // nil: not needed yet
	madeFor    *Project    // the Project that current was made for
	configured []mcp.Server
	sources    []serverSource // the servers' skills in the library
	reported   []string       // servers whose failure was reported
	closing    bool
}

// newClient makes the client for servers. It does not start them.
func (d *directoryServers) newClient(p *Project, servers []mcp.Server, changed func()) *mcp.Client {
	env := p.options.Env
	startTime := time.Duration(p.config.Settings.MCP.StartTime * float64(time.Second))
	if ms, err := strconv.Atoi(env.Get("MCP_TIMEOUT")); err == nil && ms > 0 {
		startTime = time.Duration(ms) * time.Millisecond
	}
	o := mcp.Options{
		Version: p.Version(), Run: d.run, Unwritable: d.unwritable, Check: checkProgram, Getenv: env.Get,
		State: env.StateFile("mcp"), TempDir: env.StateFile("output"), Timeout: startTime, Changed: changed,
		Debug:        p.options.Debug,
		AllowPrivate: p.config.Settings.Web.AllowPrivate,
		Proxied: func(server, _ string, proxy *url.URL) {
			d.notices.addOnce(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Info, Message: "MCP server " + server +
				" is reached through the proxy " + proxy.Host + ", so the addresses of names are not checked"})
		},
	}
	if env.StateDir() != "" {
		o.Tokens = serverTokens{env}
	}
	return mcp.New(o, servers...)
}

// client returns the client for the servers of the settings and of the project. It does not start them.
func (d *directoryServers) client() (client *mcp.Client) {
	remembered := false // a new client has skills of servers that were connected before
	defer func() {
		if remembered {
			d.refresh(client)
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.project()
	if d.closing && d.current != nil {
		return d.current
	}
	if d.current != nil && d.madeFor == p {
		return d.current
	}
	servers, problems := p.Servers()
	for _, x := range problems {
		if !needsTrust(x) { // Project.Problems reports inert ones
			d.notices.add(x)
		}
	}
	if d.current != nil && reflect.DeepEqual(servers, d.configured) {
		d.madeFor = p
		return d.current
	}
	old := d.current
	client = d.newClient(p, servers, func() { d.refresh(client) })
	d.current, d.configured, d.madeFor, d.sources, d.reported = client, servers, p, nil, nil
	if old != nil {
		go old.Close()
	}
	remembered = len(client.SkillLists()) > 0
	return client
}

// serverSource is the skills of one server in the catalogue.
type serverSource struct {
	source knack.Source
	list   int // see mcp.Client.SkillLists
}

// refresh updates the catalogue with the skills that the client's servers list now, reports
// failed servers, and notifies the callers of Watch. Any goroutine may call it.
func (d *directoryServers) refresh(client *mcp.Client) {
	d.mu.Lock()
	if d.current != client { // another one has replaced it
		d.mu.Unlock()
		return
	}
	var added, changed []knack.Source
	if !d.closing {
		lists := client.SkillLists()
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			src := client.Skills(name)
			i := slices.IndexFunc(d.sources, func(x serverSource) bool { return x.source == src })
			switch {
			case i < 0:
				d.sources, added = append(d.sources, serverSource{src, lists[name]}), append(added, src)
			case d.sources[i].list != lists[name]:
				d.sources[i].list, changed = lists[name], append(changed, src)
			}
		}
	}
	reports := serverReports(client, &d.reported)
	d.mu.Unlock()
	if len(added) > 0 {
		d.library.Add(context.Background(), added...)
	}
	if len(changed) > 0 {
		d.library.Refresh(context.Background(), changed...)
	}
	for _, x := range reports {
		d.notices.add(x)
	}
	d.changed()
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

// reload switches to the servers of a reloaded project. Servers whose definition has not
// changed stay connected.
func (d *directoryServers) reload() {
	d.mu.Lock()
	running := d.current != nil
	d.sources = nil // their sources were replaced together with the others
	d.mu.Unlock()
	if running {
		client := d.client()
		client.Start()
		d.refresh(client)
	}
}

// close stops the servers.
func (d *directoryServers) close() error {
	d.mu.Lock()
	client := d.current
	d.closing = true
	d.mu.Unlock()
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

// run runs the program of a server on this machine, in its own sandbox. A user's server may use
// the network; a project's may use what was approved.
func (d *directoryServers) run(ctx context.Context, s mcp.Server, c workspace.Command) (workspace.Exit, error) {
	p := d.project()
	if s.Origin == permission.Plugin {
		name, _, _ := strings.Cut(strings.TrimPrefix(s.Name, "plugin:"), ":")
		if err := p.plugins.verify(name, ""); err != nil {
			return workspace.Exit{}, err
		}
	}
	local, err := workspace.NewLocal(p.dir)
	if err != nil {
		return workspace.Exit{}, err
	}
	defer local.Close()
	local.Environ = p.options.Env.Environ()
	git := p.configureLocal(local)
	mode, err := sandbox.ParseMode(cmp.Or(p.config.Settings.Sandbox.Mode, "auto"))
	if err != nil {
		return workspace.Exit{}, err
	}
	policy, err := p.SandboxPolicy(local.Dir())
	if err != nil {
		return workspace.Exit{}, err
	}
	policy.Protected = append(policy.Protected, git.Named(ctx)...)
	opened, err := writable(p, s)
	if err != nil {
		return workspace.Exit{}, err
	}
	policy.Write = append(policy.Write, opened...)
	policy.Caches = append(policy.Caches, serverCaches(p, s)...)
	if policy.Layers != "" && s.Origin != permission.Project {
		// The server may have more rights than the project's commands: it runs nothing that they left.
		key := sha256.Sum256([]byte(s.DefinedIn + "\x00" + s.Name))
		policy.Layers = filepath.Join(filepath.Dir(policy.Layers), "server-"+hex.EncodeToString(key[:8]))
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
	const quiet = "NODE_NO_WARNINGS="
	if !policy.Network && !slices.ContainsFunc(c.Env, func(kv string) bool { return strings.HasPrefix(kv, quiet) }) {
		// Node.js 22 warns that the use of a proxy is experimental, and some servers take that for a failure.
		c.Env = append(c.Env, quiet+"1")
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
	defer box.Close()
	if mode != sandbox.Off {
		d.notices.sandbox(box.Report())
	}
	if !policy.Network && box.Report().Level == sandbox.None {
		d.notices.addOnce(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: s.DefinedIn,
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
		return d.notices.restored(release, s.DefinedIn), err
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
