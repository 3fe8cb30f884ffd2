//go:build unix

package eval_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/eval"
)

// TestHostileFiles: what a set copies into a trial, or compares with it, comes from the set, and is no repository of
// git. Found by attack: a fixture that was a link to the home directory was copied to where the model reads.
func TestHostileFiles(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(home, "key"), "SECRET")
	write(filepath.Join(dir, "good", "sub", "a"), "fine")
	write(filepath.Join(dir, "hooked", "sub", ".Git", "config"), "[core]\nfsmonitor = touch /tmp/x\n")
	write(filepath.Join(dir, "bare", "HEAD"), "ref: refs/heads/main\n")
	write(filepath.Join(dir, "bare", "config"), "[core]\n")
	write(filepath.Join(dir, "bare", "objects", "x"), "")
	if err := errors.Join(os.Symlink(home, filepath.Join(dir, "link")), os.MkdirAll(filepath.Join(dir, "mixed"), 0o700),
		os.Symlink(filepath.Join(home, "key"), filepath.Join(dir, "mixed", "key")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		eval.Case
		want string // why the trial is void, or a check failed; "": neither
	}{
		"good":          {eval.Case{Fixture: "good"}, ""},
		"link":          {eval.Case{Fixture: "link"}, "escapes"},
		"below a link":  {eval.Case{Fixture: "link/.."}, "escapes"},
		"above":         {eval.Case{Fixture: "../x"}, "below the directory"},
		"absolute":      {eval.Case{Fixture: home}, "below the directory"},
		"pipe":          {eval.Case{Fixture: "pipe"}, "not a directory"},
		"git":           {eval.Case{Fixture: "hooked"}, "repository"},
		"bare":          {eval.Case{Fixture: "bare"}, "repository"},
		"linked file":   {eval.Case{Fixture: "mixed"}, ""}, // is left out
		"file":          {eval.Case{Files: []string{"mixed/key"}}, "escapes"},
		"file of a dir": {eval.Case{Files: []string{"link/key"}}, "escapes"},
		"snapshot": {eval.Case{Checks: []eval.Check{{Type: eval.Snapshot, Path: "link"}}},
			"escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			c.ID, c.Prompt = "c", "p"
			found := ""
			report, err := eval.Run(t.Context(), &eval.Set{Skill: "s", Dir: dir, Cases: []eval.Case{c.Case}}, eval.Options{
				Configs: []eval.Config{eval.With}, Trials: 1, Temp: t.TempDir(),
				Runner: func(_ context.Context, task eval.Task) (eval.Outcome, error) {
					return eval.Outcome{}, filepath.WalkDir(task.Dir, func(path string, d os.DirEntry, err error) error {
						if err == nil && !d.IsDir() {
							data, _ := os.ReadFile(path)
							found += string(data)
						}
						return err
					})
				}})
			if err != nil {
				t.Fatal(err)
			}
			trial := report.Tasks.Cases[0].Trials[0]
			said := trial.Error
			for _, k := range trial.Checks {
				said += k.Evidence + k.Skipped
			}
			if strings.Contains(found, "SECRET") || strings.Contains(found, "fsmonitor") {
				t.Errorf("the trial has %q", found)
			}
			if (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
}
