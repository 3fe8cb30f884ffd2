package engine

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/git"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm/models"
)

// userHooks decides where the hooks of the user's own settings and of an administrator's run.
//
// What the user wrote in a settings file runs as the user: commands that write a log in the home directory or send a
// notification are useless in the sandbox. It must be certain that the user wrote it, and what it runs of the workspace
// (npx prettier, make fmt) must be trusted.
//
// What an administrator wrote runs as the user in every folder: a record of calls that the sandbox drops is worse than
// none. In a folder that is not trusted, git then follows none of its programs, and a hook that names a file of the
// folder stays in the sandbox.
type userHooks struct {
	project    *Project
	policyOnce sync.Once
	found      sandbox.Policy // see policy
	err        error
	keysOnce   sync.Once
	keys       map[string]bool // see modelKeys
}

var (
	errHooksConfined  = errors.New("the setting sandbox.confineHooks says so")
	errHooksUntrusted = errors.New("this folder is not trusted")
)

// settled reports whether hooks of an origin may run as the user at all.
func settled(origin string) bool {
	return origin == string(permission.User) || origin == string(permission.Managed)
}

// confined returns why the hooks of a settings file of the user or an administrator run in the sandbox; nil: they run as
// the user.
func (u *userHooks) confined(file, origin string) error {
	p, managed := u.project, origin == string(permission.Managed)
	at := p.config.Where("sandbox.confineHooks")
	switch {
	case p.config.Settings.Sandbox.ConfineHooks && (!managed || len(at) > 0 && at[0].Origin == permission.Managed):
		return errHooksConfined
	case !managed && !p.trust.Trusted():
		return errHooksUntrusted
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	for _, dir := range slices.Concat([]string{p.dir, p.root}, p.Roots(), p.config.Settings.Sandbox.AllowWrite) {
		if subpath.Contains(realPath(dir), real) {
			return fmt.Errorf("the file is in %s, where commands can write", p.Short(dir))
		}
	}
	if managed {
		return userdirs.CheckClosed(real)
	}
	return userdirs.CheckOwned(real)
}

// runsAsUser reports whether a hook that runs in dir is the user's own, or an administrator's, and names no script of the
// working tree: such a script is the project's, and a missing one could appear before it runs. An administrator's may name
// one in a folder that is trusted, where it runs as it was when the session began.
func (u *userHooks) runsAsUser(h *hook.Hook, dir string) bool {
	if !settled(h.Origin) || u.confined(h.DefinedIn, h.Origin) != nil {
		return false
	}
	found, missing, err := u.project.verifyScripts(h, dir, func(string, []byte) error { return nil })
	if h.Origin == string(permission.Managed) && u.project.trust.Trusted() {
		return err == nil && len(missing) == 0
	}
	return err == nil && len(found) == 0 && len(missing) == 0
}

// any reports whether the user's own settings have a hook or a status line.
func (u *userHooks) any() bool {
	return slices.ContainsFunc(u.all(), func(h hook.Hook) bool { return h.Origin == string(permission.User) })
}

// problems reports, once for each file, that hooks of the user's own settings, or an administrator's, run in the sandbox.
func (u *userHooks) problems() (problems []knack.Problem) {
	if mode, err := sandbox.ParseMode(u.project.config.Settings.Sandbox.Mode); err == nil && mode == sandbox.Off {
		return nil
	}
	seen := map[string]bool{}
	for _, h := range u.all() {
		if !settled(h.Origin) || h.Type != hook.OfCommand || seen[h.DefinedIn] {
			continue
		}
		seen[h.DefinedIn] = true
		why := u.confined(h.DefinedIn, h.Origin)
		if why == nil || errors.Is(why, errHooksConfined) {
			continue
		}
		x := knack.Problem{Code: knack.CodeSandbox, Severity: knack.Warn, Path: h.DefinedIn,
			Message: "its hooks run in the sandbox: " + why.Error()}
		if errors.Is(why, errHooksUntrusted) {
			x.Hint = "knack trust"
		} else if _, file, ok := strings.Cut(why.Error(), "others can write to "); ok {
			x.Hint = "chmod go-w " + file
		}
		problems = append(problems, x)
	}
	return problems
}

// userEnviron returns a func that gives a command of the user the environment that commands get and the names in env of
// Claude Code's settings, without the keys of models. set are the variables that the program sets for it.
func (e *Engine) userEnviron(p *Project, set []string) func(environ []string) []string {
	policy, err := p.own.policy()
	return func(environ []string) []string {
		boxed := e.box != nil && e.box.Report().Level != sandbox.None
		if err == nil && (boxed || !p.trust.Trusted()) {
			environ = policy.Environ(environ, slices.Concat(p.foreign.hooks, set))
		} else {
			environ = slices.Concat(environ, p.foreign.hooks)
		}
		if !p.trust.Trusted() { // of an administrator
			environ = git.Env(environ, git.Always())
		}
		return slices.DeleteFunc(environ, func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return p.own.modelKeys()[name]
		})
	}
}

// policy returns the policy whose environment commands get.
func (u *userHooks) policy() (sandbox.Policy, error) {
	u.policyOnce.Do(func() {
		u.found, u.err = u.project.SandboxPolicy(u.project.dir)
		u.found.NoEnv = nil // it is about commands in the sandbox
	})
	return u.found, u.err
}

// modelKeys returns the names of the variables with keys of models.
func (u *userHooks) modelKeys() map[string]bool {
	u.keysOnce.Do(func() {
		u.keys = map[string]bool{}
		tables, _, _ := modelSettings(u.project.config) // an error was reported when the project was opened
		for _, x := range models.Known(tables...).Providers {
			for _, name := range append(slices.Clone(x.KeyEnv), x.TokenEnv) {
				u.keys[name] = true
			}
		}
	})
	return u.keys
}

// reportHook reports what the sandbox refused to a hook. A shell line whose last command succeeds exits with 0.
func (e *Engine) reportHook(h *hook.Hook, exit workspace.Exit) {
	refused := slices.DeleteFunc(slices.Clone(exit.Refused),
		func(s string) bool { return slices.Contains(exit.Restored, s) })
	if len(refused) == 0 {
		return
	}
	what := "status line"
	if h.Event != "" {
		what = string(h.Event) + " hook"
	}
	x := knack.Problem{Code: knack.CodeSandbox, Severity: knack.Warn,
		Message: fmt.Sprintf("the sandbox refused in the %s %q: %s", what, h, strings.Join(refused, ", "))}
	if filepath.IsAbs(h.DefinedIn) {
		x.Path = h.DefinedIn
	}
	e.notices.addOnce(x)
}
