package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/git"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// OpenWorkspace opens a place where tools act, named as in Options.Workspace; "": the directory dir.
func OpenWorkspace(ctx context.Context, place, dir string, env Env) (workspace.Workspace, error) {
	ws, err := workspace.Parse(ctx, cmp.Or(place, dir), env.Environ())
	if err != nil {
		return nil, &Error{Err: fmt.Errorf("workspace: %w", err), Hint: "knack help environment"}
	}
	return ws, nil
}

// Workspace returns where the tools of the sessions act. The Engine closes it.
func (e *Engine) Workspace(ctx context.Context) (workspace.Workspace, error) { return e.workspace(ctx) }

// workspace opens the workspace when the first session starts. Commands on this machine run in the
// sandbox, and git ignores programs named in the repository's configuration.
func (e *Engine) workspace(ctx context.Context) (workspace.Workspace, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if e.ws != nil {
		return e.ws, nil
	}
	p := e.project
	set := &p.config.Settings
	ws := p.options.In
	if ws == nil {
		var err error
		if ws, err = OpenWorkspace(ctx, cmp.Or(p.options.Workspace, set.Workspace), p.dir, p.options.Env); err != nil {
			return nil, err
		}
	}
	switch ws := ws.(type) {
	case *workspace.SSH:
		ws.Prefix, ws.Kept = set.Shell.Prefix, p.outputDir()
	case *workspace.Container:
		ws.Prefix, ws.Kept = set.Shell.Prefix, p.outputDir()
	case *workspace.Local:
		if err := e.addSandbox(ws, p); err != nil {
			return nil, errors.Join(err, ws.Close())
		}
	}
	e.ws = ws
	e.pinned.add(p, p.own.all(), ws.Dir())
	return ws, nil
}

// configureLocal sets up the shell and the environment of commands on this machine, so that git ignores the
// repository's configuration.
func (p *Project) configureLocal(local *workspace.Local) *permission.Git {
	set := &p.config.Settings
	git := permission.NewGit(local.Dir())
	git.Environ = local.Environ
	local.Prefix, local.Shell = set.Shell.Prefix, set.Shell.Path
	local.Private = p.options.Env.StateFile("run")
	var named []string // what the user named is visible, even below /tmp
	for _, path := range slices.Concat(p.sourceOptions.Skills, p.sourceOptions.AddDirs) {
		named = append(named, realPath(path))
	}
	_, open := hiddenFromCommands(p.config, p.options.Env, p.dir, p.home, p.Roots())
	for _, path := range open {
		named = append(named, realPath(path))
	}
	local.BeforeSpawn = func(c *workspace.Command) error {
		c.Allow.Read = append(c.Allow.Read, named...)
		overrides, _ := git.Env(nil) // for the repositories as they are now
		c.Env = append(c.Env, overrides...)
		if !p.trust.Trusted() && c.Line != "" && permission.OnlyReads(c.Line) {
			c.Env = append(c.Env, "GIT_ALLOW_PROTOCOL=none") // a git command that reads was not asked about
		}
		for k, v := range set.Env {
			c.Env = append(c.Env, k+"="+v)
		}
		for k, v := range p.foreign.shared {
			c.Env = append(c.Env, k+"="+v)
		}
		return nil
	}
	return git
}

// hiddenFromCommands returns the directories that restrictions hide from commands in the sandbox, and what is open below
// them. If file tools read nothing outside the workspace, that is the home directory, without programs and caches in it.
func hiddenFromCommands(c *config.Config, env Env, dir, home string, roots []string) (paths, open []string) {
	paths, open = c.Hidden()
	if !c.Borders().Reads || home == "" || subpath.Contains(realPath(dir), realPath(home)) {
		return paths, open
	}
	within := slices.Concat([]string{dir}, roots, filepath.SplitList(env.Get("PATH")))
	if policy, err := defaultPolicy(dir, env); err == nil {
		for _, c := range policy.Caches {
			within = append(within, c.Path)
		}
	}
	for _, dir := range within {
		if dir != home && subpath.Contains(home, dir) {
			open = append(open, dir)
		}
	}
	return append(paths, home), open
}

// addSandbox sets up the environment and the sandbox of commands on this machine.
func (e *Engine) addSandbox(local *workspace.Local, p *Project) (err error) {
	e.git, e.box, err = e.confine(local, p)
	if e.box != nil {
		for _, left := range e.box.Leftovers() {
			e.notices.keep(knack.Problem{Code: knack.CodeSandbox, Severity: knack.Warn, Message: left}, false)
		}
	}
	return err
}

// confine sets up the environment of commands in a workspace on this machine, and their sandbox, which is nil if it is
// off.
func (e *Engine) confine(local *workspace.Local, p *Project) (*permission.Git, *sandbox.Sandbox, error) {
	git := p.configureLocal(local)
	mode, err := sandbox.ParseMode(cmp.Or(p.config.Settings.Sandbox.Mode, "auto"))
	if err != nil {
		return git, nil, err
	}
	if mode == sandbox.Off {
		local.Environ = withProgram(&p.options, local.Environ)
		return git, nil, nil
	}
	policy, err := p.SandboxPolicy(local.Dir())
	if err != nil {
		return git, nil, err
	}
	box := sandbox.New(policy, mode)
	var once sync.Once
	local.Confine = func(cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
		once.Do(func() { // at the first command, because it takes some milliseconds
			e.notices.sandbox(box.Report())
		})
		box.Protect(git.Named(context.Background())) // the configuration may have changed since the last command
		release, err := box.Confine(cmd, c)
		return e.notices.restored(release, ""), err
	}
	return git, box, nil
}

// namedFiles returns the names, for what is protected as .git is, of files that the options name for settings and
// servers: a later start would take from them what it allows. Relative paths are below dir.
func (o *Options) namedFiles(dir string) (names []string) {
	for _, path := range absolutePaths(dir, slices.Concat(o.Settings, o.MCPConfig)) {
		if filepath.IsAbs(path) {
			names = append(names, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path))
		}
	}
	return names
}

// SandboxPolicy returns what commands in a directory may access according to the settings.
func (p *Project) SandboxPolicy(dir string) (sandbox.Policy, error) {
	set := &p.config.Settings
	policy, err := defaultPolicy(dir, p.options.Env)
	if err != nil {
		return policy, err
	}
	policy.Roots = append(policy.Roots, p.Roots()...)
	policy.Write = append(policy.Write, set.Sandbox.AllowWrite...)
	policy.Protected = slices.Concat(policy.Protected, set.Permissions.ProtectedPaths, p.options.namedFiles(p.dir))
	policy.Hosts = append(policy.Hosts, set.Sandbox.AllowHosts...)
	policy.Secrets = append(policy.Secrets, set.Sandbox.DenyRead...)
	for _, from := range gitfile.MadeFrom(dir) { // the main work tree has what no commit has
		entries, _ := os.ReadDir(from)
		for _, e := range entries {
			if permission.KeyFile(e.Name()) {
				policy.Secrets = append(policy.Secrets, filepath.Join(from, e.Name()))
			}
		}
	}
	policy.Secrets = slices.DeleteFunc(policy.Secrets, func(p string) bool {
		return slices.Contains(set.Sandbox.AllowRead,
			p)
	})
	policy.Env = append(policy.Env, set.Sandbox.Env...)
	for k := range set.Env {
		policy.Env = append(policy.Env, k)
	}
	policy.Env = append(policy.Env, git.Variables()...)
	hidden, _ := hiddenFromCommands(p.config, p.options.Env, p.dir, p.home, p.Roots())
	policy.Secrets = append(policy.Secrets, hidden...)
	policy.Program = p.options.Program
	policy.Program.Dir = p.dir
	policy.NoHosts, policy.NoEnv = p.config.DeniedHosts(), p.config.HiddenVariables()
	if state := p.options.Env; state.StateDir() != "" {
		policy.State = state.StateFile("sandbox")
		for _, name := range hiddenState {
			policy.Secrets = append(policy.Secrets, state.StateFile(name))
		}
		policy.Layers = sandbox.LayersOf(state.StateFile("layers"), dir)
		policy.LayerLimit = int64(set.Sandbox.CacheLimit * (1 << 30))
	}
	return policy, nil
}

// hiddenState are the names in the state directory that commands do not see: keys, what servers sent, and what sessions
// of other projects contain, down to the paths of these projects. What belongs to the session is open again, see scratch.
var hiddenState = [...]string{"batch", "checkpoints", "debug", "evals", "history", "mcp", "memories", "output", "projects",
	"proposed", "provenance.key", "routes.json", "sessions", "skill-secrets-seen.json", "spending.json", "tmp",
	"usage.json", "warnings.json", "worker.log", "worktrees-asked.json"}

// defaultPolicy returns the policy for the user that env describes. It also hides the secrets of the
// user who runs the process.
func defaultPolicy(dir string, env Env) (sandbox.Policy, error) {
	policy, err := sandbox.DefaultFor(dir, env)
	if err != nil || env == nil {
		return policy, err
	}
	process, err := sandbox.Default(dir)
	policy.Secrets = append(policy.Secrets, process.Secrets...)
	policy.Own = append(policy.Own, process.Own...)
	return policy, err
}

// AddDir lets tools use a directory as they use the working directory, from the next turn on until the Engine is
// closed, and reads its skills. [Session.AddDir] also runs the hooks for it.
func (e *Engine) AddDir(ctx context.Context, dir string) (Reloaded, error) {
	o := e.Project().options
	dir = absolutePaths(o.Dir, []string{dir})[0]
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return Reloaded{}, Usagef("name a directory that exists", "%s is not a directory", plain.Line(dir))
	}
	o.AddDirs = append(slices.Clone(o.AddDirs), dir)
	c, err := e.reload(ctx, o)
	if err == nil && e.box != nil {
		e.box.AddRoot(realPath(dir))
	}
	return c, err
}
