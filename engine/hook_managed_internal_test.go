//go:build unix

package engine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/run/hook"
)

// TestManagedHooks: an administrator's hooks run as the user everywhere, except those that name a file of a folder that
// is not trusted; there, git follows none of the folder's programs, and PATH has nothing of it.
func TestManagedHooks(t *testing.T) {
	t.Parallel()
	top := realPath(t.TempDir())
	dir, managed := filepath.Join(top, "project"), filepath.Join(top, "managed")
	for _, d := range []string{filepath.Join(dir, ".git"), filepath.Join(dir, "bin"), managed} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(managed, "settings.json")
	for path, text := range map[string]string{file: `{}`, filepath.Join(dir, "check.sh"): "true",
		filepath.Join(managed, "log.sh"): "true"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "check.sh"), filepath.Join(managed, "link.sh")); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"HOME": top, "PATH": filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
	open := func(trust bool) *Engine {
		t.Helper()
		e, err := Open(context.Background(), Options{Dir: dir, Trust: trust,
			Env: func(name string) string { return values[name] }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	asUser := func(p *Project, line string) bool {
		return p.own.runsAsUser(&hook.Hook{Event: hook.PostToolUse, Type: hook.OfCommand, Command: line,
			Origin: string(permission.Managed), DefinedIn: file}, dir)
	}
	always := []string{"logger done", "echo done >> /var/log/calls", managed + "/log.sh", "git status"}
	trusted := []string{"sh check.sh", "./check.sh", `"$CLAUDE_PROJECT_DIR"/check.sh`, managed + "/link.sh",
		"cd bin && sh ../check.sh"}
	never := []string{"sh ./missing.sh", "./missing"}
	for _, trust := range []bool{false, true} {
		p := open(trust).Project()
		for _, line := range slices.Concat(always, trusted, never) {
			want := slices.Contains(always, line) || trust && slices.Contains(trusted, line)
			if got := asUser(p, line); got != want {
				t.Errorf("trusted %v: %s runs as the user: %v", trust, line, got)
			}
		}
	}

	e := open(false)
	environ := e.userEnviron(e.Project(), nil)([]string{"PATH=" + values["PATH"], "GIT_DIR=/else"})
	for _, want := range []string{"GIT_CONFIG_VALUE_0=false", "GIT_TERMINAL_PROMPT=0"} {
		if !slices.Contains(environ, want) {
			t.Errorf("%s is missing in %q", want, environ)
		}
	}
	for _, kv := range environ {
		if strings.HasPrefix(kv, "PATH=") && strings.Contains(kv, dir) || kv == "GIT_DIR=/else" {
			t.Errorf("the environment has %s", kv)
		}
	}

	// A user cannot confine them, and a file that others can write is nobody's.
	p := e.Project()
	load := func(o config.Options) {
		t.Helper()
		var err error
		o.Dir, o.Root = dir, dir
		if p.config, err = config.Load(o); err != nil {
			t.Fatal(err)
		}
	}
	confine := filepath.Join(top, "confine")
	if err := os.MkdirAll(confine, 0o755); err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"sandbox": {"confineHooks": true}}`)
	if err := os.WriteFile(filepath.Join(confine, "settings.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	load(config.Options{ConfigHome: confine})
	if !asUser(p, "logger done") {
		t.Error("a user's sandbox.confineHooks confines an administrator's hooks")
	}
	load(config.Options{Managed: []string{confine}})
	if asUser(p, "logger done") {
		t.Error("an administrator's sandbox.confineHooks has no effect")
	}
	load(config.Options{})
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if asUser(p, "logger done") {
		t.Error("others can write the file")
	}
}
