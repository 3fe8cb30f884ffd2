//go:build linux && (amd64 || arm64)

package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/knack-agent/knack/workspace"
)

// onlyHome makes a view depend on the home alone: other programs may change /run at any time.
func (b *fixture) onlyHome(view *cachedView) {
	view.facts.list = slices.DeleteFunc(view.facts.list, func(f fact) bool { return !withinAny([]string{b.home}, f.path) })
}

// TestCachedView changes what a view depends on: the next command must not use the previous view, unless a new view
// would be equal.
func TestCachedView(t *testing.T) {
	b := newFixture(t).on(namespaces)
	b.box.policy.Write = []string{filepath.Join(b.home, "cache/a")}
	system, policy := &b.box.system, &b.box.policy
	system.cached.Store(nil) // made with the previous policy if the machine is slow
	home := func(name string) string { return filepath.Join(b.home, name) }
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name string) {
		t.Helper()
		must(os.MkdirAll(filepath.Dir(home(name)), 0o755), os.WriteFile(home(name), []byte("x"), 0o600))
	}
	env := os.Environ()
	look := func() (last, made *view) {
		now := system.names.begin()
		defer system.names.end(nil)
		from := viewInputsOf(now, env)
		if last = system.cached.Load().reuse(from); last != nil {
			last.remove(false)
		}
		made, err := policy.viewFor(workspace.Allowance{}, env, now, nil, nil)
		must(err)
		made.remove(false)
		return last, made
	}
	lists := func(v *view) [][]string {
		return [][]string{v.writable, v.temp, v.kept, v.protected, v.pinned, v.hidden, v.emptied}
	}
	write("other/hosts.yml")
	b.run("true") // makes the cache
	for _, c := range []struct {
		name   string
		change func()
		same   bool
	}{
		{"nothing", func() {}, true},
		{"a file in the project", func() { write("project/new") }, true},
		{"a new secret in the home", func() { write(".netrc.d/x"); write(".pgpass") }, false},
		{"a new directory of secrets", func() { write(".gnupg/key") }, false},
		{"a secret below another directory", func() { write(".config/gh/hosts.yml") }, false},
		{"a secret that is removed", func() { must(os.Remove(home(".pgpass"))) }, false},
		{"a directory of secrets that becomes a link", func() {
			must(os.Rename(home(".gnupg"), home("elsewhere")), os.Symlink("elsewhere", home(".gnupg")))
		}, false},
		{"the target of the link", func() {
			must(os.Remove(home(".gnupg")), os.Symlink("./other", home(".gnupg")))
		}, false},
		{"a directory that the link leads to", func() { must(os.Rename(home("other"), home("away"))) }, false},
		{"a file that replaces a directory of secrets", func() {
			must(os.RemoveAll(home(".gnupg")))
			write(".gnupg")
		}, false},
		{"a new .env", func() { write("project/new.d/.env") }, false},
		{"a protected name", func() { write("project/new.d/.vscode/tasks.json") }, false},
		{"a socket", func() {
			t.Chdir(b.home)
			l, err := net.Listen("unix", "s")
			must(err)
			t.Cleanup(func() { l.Close() })
		}, false},
		{"a worktree", func() { write("project/.git/worktrees/w/commondir") }, false},
		{"a configuration of git", func() { write("project/.git/config.worktree") }, false},
		{"one more hook", func() { write("project/.git/hooks/pre-push") }, true},
		{"a submodule", func() { write("project/.git/modules/m/HEAD") }, false},
		{"a submodule in a worktree", func() { write("project/.git/worktrees/w/modules/m/HEAD") }, false},
		{"a cache that is removed", func() {
			must(os.RemoveAll(policy.Write[0]))
		}, false},
		{"PATH", func() { env = append(env, "PATH=/usr/bin:/tmp") }, false},
		{"the directory for sockets", func() {
			must(os.Mkdir(home("run"), 0o700))
			env = append(env, "XDG_RUNTIME_DIR="+home("run"))
		}, false},
	} {
		env = os.Environ()
		var last, made *view
		for try := 0; last == nil; try++ { // another program may have changed /run
			if try == 20 {
				t.Fatalf("%s: the view of the last command is not used although nothing changed", c.name)
			}
			settled()
			b.run("true")
			if system.cached.Load() != nil {
				last, made = look()
			}
		}
		if !reflect.DeepEqual(lists(last), lists(made)) {
			t.Errorf("%s: before: the view is\n%q, not\n%q", c.name, lists(last), lists(made))
		}
		b.onlyHome(system.cached.Load())
		c.change()
		last, made = look()
		if last != nil && !reflect.DeepEqual(lists(last), lists(made)) {
			t.Errorf("%s: the view is\n%q, not\n%q", c.name, lists(last), lists(made))
		}
		if (last != nil) != c.same {
			t.Errorf("%s: the view of the last command is used: %v", c.name, last != nil)
		}
	}
}
