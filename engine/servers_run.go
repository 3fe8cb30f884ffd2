package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/servers"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// serverProject is an engine's project as its servers see it.
type serverProject struct {
	engine *Engine
	*Project
}

// Servers leaves out the problems of what needs trust, which [Project.Problems] has.
func (p serverProject) Servers() ([]mcp.Server, []knack.Problem) {
	all, problems := p.Project.Servers()
	return all, slices.DeleteFunc(slices.Clone(problems), needsTrust)
}

func (p serverProject) FirstWait() time.Duration {
	if seconds := p.config.Settings.MCP.FirstWait; seconds != nil {
		return time.Duration(*seconds * float64(time.Second))
	}
	return servers.DefaultFirstWait
}

func (p serverProject) NewClient(all []mcp.Server, changed func()) *mcp.Client {
	env := p.options.Env
	startTime := time.Duration(p.config.Settings.MCP.StartTime * float64(time.Second))
	if ms, err := strconv.Atoi(env.Get("MCP_TIMEOUT")); err == nil && ms > 0 {
		startTime = time.Duration(ms) * time.Millisecond
	}
	run := serverRunner{p.engine}
	o := mcp.Options{
		Version: p.Version(), Run: run.run, Unwritable: run.unwritable, Check: checkProgram,
		Getenv: func(name string) string {
			switch name {
			case "CLAUDE_PROJECT_DIR", "workspaceFolder", "workspaceRoot":
				return cmp.Or(env.Get(name), p.root)
			}
			return env.Get(name)
		},
		Own:   func(name string) string { return lastOf(p.foreign.hooks, name) },
		State: env.StateFile("mcp"), TempDir: env.StateFile("output"), Timeout: startTime, Changed: changed,
		Debug:        p.options.Debug,
		AllowPrivate: p.config.Settings.Web.AllowPrivate,
		Proxied: func(server, _ string, proxy *url.URL) {
			p.engine.notices.addOnce(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Info, Message: "MCP server " +
				server + " is reached through the proxy " + proxy.Host + ", so the addresses of names are not checked"})
		},
	}
	if env.StateDir() != "" {
		o.Tokens = serverTokens{env}
	}
	return mcp.New(o, all...)
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

// A serverRunner runs the programs of servers for the project that an engine has when they start.
type serverRunner struct{ engine *Engine }

// run runs the program of a server on this machine, in its own sandbox. A user's server may use
// the network; a project's may use what was approved.
func (r serverRunner) run(ctx context.Context, s mcp.Server, c workspace.Command) (workspace.Exit, error) {
	p := r.engine.Project()
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
	if s.Origin == permission.User { // as in the program whose settings name them
		c.Env = slices.Concat(slices.DeleteFunc(slices.Clone(p.foreign.hooks), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return p.own.modelKeys()[name]
		}), c.Env)
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
		r.engine.notices.sandbox(box.Report())
	}
	if !policy.Network && box.Report().Level == sandbox.None {
		r.engine.notices.addOnce(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: s.DefinedIn,
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
		return r.engine.notices.restored(release, s.DefinedIn), err
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

// withHints makes prompts of servers say what they need when a call fails.
func withHints(all []knack.SlashCommand) []knack.SlashCommand {
	for i, c := range all {
		all[i].Expand = func(ctx context.Context, args string) (string, []string, error) {
			text, commands, err := c.Expand(ctx, args)
			if err != nil {
				err = &Error{Err: err, Hint: plain.Line(strings.TrimSpace("/" + c.Name + " " + c.Hint))}
			}
			return text, commands, err
		}
	}
	return all
}

// leftOut reports the tools that a model does not get.
func leftOut(report func(knack.Problem)) func(tool, reason string) {
	return func(name, reason string) {
		if name == "" {
			report(knack.Problem{Code: knack.CodeAttachmentMissing, Severity: knack.Warn,
				Message: "the model gets a line of text for each image and document: " + reason})
			return
		}
		if server, _, ok := strings.Cut(strings.TrimPrefix(name, "mcp__"), "__"); ok && strings.HasPrefix(name, "mcp__") {
			report(mcp.LeftOut(server, name, "", reason))
			return
		}
		report(knack.Problem{Code: knack.CodeNotListed, Severity: knack.Warn,
			Message: fmt.Sprintf("the tool %s is left out: %s", name, reason)})
	}
}

// chosenTools returns the servers' tools in set that --tools leaves. spec is the value of --tools, files are the tools
// of the session itself.
func chosenTools(p *Project, spec string, files, set tool.Set) tool.Set {
	if spec == "" || len(set) == 0 {
		return set
	}
	known := slices.Concat(withAgent(files), set)
	base := p.known().defaults + ",mcp__*,list_mcp_resources,read_mcp_resource,wait_for_mcp_servers"
	chosen, _ := tool.Select(known, base, coding.Choice(spec, base))
	return slices.DeleteFunc(set, func(t tool.Tool) bool {
		return !slices.ContainsFunc(chosen, func(c tool.Tool) bool { return c.Name == t.Name })
	})
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

// lastOf returns the value that the last NAME=value of a name gives it; "": there is none.
func lastOf(variables []string, name string) string {
	for _, kv := range slices.Backward(variables) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}
