package engine_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestHomes: two engines of one process, each for a different user. The environment of commands and hooks, private
// caches, and the meaning of ~ follow from Options.Env, not from the process.
func TestHomes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands need a POSIX shell")
	}
	process := t.TempDir()
	t.Setenv("HOME", process)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(process, "cache"))
	t.Setenv("GOCACHE", filepath.Join(process, "go-build"))
	t.Setenv("PROCESS_TOKEN", "process-token")
	for _, mode := range []string{"off", "auto"} {
		for _, name := range []string{"anna", "otto"} {
			p := newFixture(t, "~/.config/knack/settings.json", `{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command",
				"command": "echo hook=$HOME"}]}]}}`, "~/note.txt", name+"-note\n")
			m := llmtest.New(
				llmtest.Use("bash", map[string]any{"command": "echo home=$HOME cache=$XDG_CACHE_HOME token=$PROCESS_TOKEN; env"}),
				llmtest.Use("read", map[string]any{"path": "~/note.txt"}),
				llmtest.Reply("done"))
			o := p.options(m)
			o.Values["sandbox.mode"] = mode
			o.Values["permissions.allow"] = []string{"Bash", "Read(~/note.txt)"}
			_, s := p.open(t, o, nil, engine.SessionOptions{})
			run(t, s, "go")
			var all strings.Builder
			for _, e := range s.Log().Branch() {
				switch {
				case e.Result != nil:
					all.WriteString(llm.TextOf(e.Result.Parts) + "\n")
				case e.Note != nil:
					all.WriteString(e.Note.Model + "\n")
				}
			}
			got := all.String()
			for _, want := range []string{"home=" + p.home + " cache= token=\n", "hook=" + p.home, name + "-note"} {
				if !strings.Contains(got, want) {
					t.Errorf("%s, sandbox %s: no %q in\n%s", name, mode, want, got)
				}
			}
			if strings.Contains(got, process) {
				t.Errorf("%s, sandbox %s: a command has the directories of the process's user:\n%s", name, mode, got)
			}
			if entries, _ := os.ReadDir(process); len(entries) > 0 {
				t.Errorf("%s, sandbox %s: %s was made in the home of the process's user", name, mode, entries[0].Name())
			}
		}
	}
}

// TestNoHome: with a home that is no directory, as services have, a program works without what would lie there.
func TestNoHome(t *testing.T) {
	p := newFixture(t)
	o := p.options(llmtest.New(llmtest.Reply("done")))
	env := o.Env
	o.Env = func(name string) string {
		if v := env(name); name != "HOME" && name != "USERPROFILE" {
			return v
		}
		return os.DevNull
	}
	if runtime.GOOS == "windows" {
		p.write(t, "~/file", "")
		p.home = filepath.Join(p.home, "file")
		o.Env = env
	}
	e, s := p.open(t, o, nil, engine.SessionOptions{Forget: true})
	if got := run(t, s, "go"); !strings.Contains(got, "done") || len(e.Notices()) > 0 {
		t.Errorf("%s; %v", got, e.Notices())
	}
}
