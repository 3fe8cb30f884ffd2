package workspace_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

func output(t *testing.T, w *workspace.Local, c workspace.Command) string {
	t.Helper()
	var out bytes.Buffer
	c.Output = &out
	if _, err := w.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPrefixAndBeforeSpawn(t *testing.T) {
	w := newLocal(t)
	sub := t.TempDir()
	calls := 0
	w.Prefix = "x=from-prefix"
	w.BeforeSpawn = func(c *workspace.Command) error {
		calls++
		if strings.Contains(c.Line, "forbidden") {
			return errors.New("not that one")
		}
		c.Line += "; echo $y; pwd"
		c.Env = append(c.Env, "y=from-hook")
		c.Dir = sub
		return nil
	}
	c, err := w.Prepare(workspace.Command{Line: "echo $x"})
	if err != nil || c.Line != "x=from-prefix\necho $x; echo $y; pwd" {
		t.Errorf("Prepare: %q, %v", c.Line, err)
	}
	if got := output(t, w, c); got != "from-prefix\nfrom-hook\n"+sub+"\n" {
		t.Errorf("ran %q", got)
	}
	if calls != 1 {
		t.Errorf("BeforeSpawn was called %d times for a prepared command", calls)
	}
	if _, err := w.Run(t.Context(), workspace.Command{Line: "forbidden"}); err == nil || err.Error() != "not that one" {
		t.Errorf("Run: %v", err)
	}
}

func TestShellChoice(t *testing.T) {
	w := newLocal(t)
	if _, err := os.Stat("/bin/bash"); err == nil {
		if got := output(t, w, workspace.Command{Line: "echo $BASH"}); got != "/bin/bash\n" {
			t.Errorf("the shell is %q", got)
		}
	}
	w = newLocal(t)
	w.Shell = "sh"
	if name, err := w.ShellName(); name != "sh" || err != nil {
		t.Errorf("ShellName: %s, %v", name, err)
	}
	if got := output(t, w, workspace.Command{Line: "echo $0"}); !strings.HasSuffix(got, "sh\n") ||
		strings.Contains(got, "bash") {
		t.Errorf("the shell is %q", got)
	}
	w = newLocal(t)
	w.Shell = "/no/such/shell"
	if _, err := w.Run(t.Context(), workspace.Command{Line: "true"}); err == nil ||
		err.Error() != "shell not found: /no/such/shell" {
		t.Errorf("Run: %v", err)
	}
}

// PATH entries that the workspace could fill are not searched.
func TestPathEntries(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", strings.Join([]string{".", "bin", filepath.Join(dir, "bin"), dir, os.Getenv("PATH"), ""},
		string(filepath.ListSeparator)))
	w, err := workspace.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, p := range filepath.SplitList(strings.TrimSpace(output(t, w, workspace.Command{Line: "echo $PATH"}))) {
		if !filepath.IsAbs(p) || strings.HasPrefix(p, dir) {
			t.Errorf("PATH still has %q", p)
		}
	}
}

func TestLongCommand(t *testing.T) {
	w := newLocal(t)
	_, err := w.Run(t.Context(), workspace.Command{Line: "true " + strings.Repeat("x", 200_000)})
	if err == nil || !strings.Contains(err.Error(), "write it to a file") {
		t.Errorf("Run: %v", err)
	}
}

// Confine is called before the process starts and again after it exits.
func TestConfine(t *testing.T) {
	w := newLocal(t)
	var log []string
	w.Confine = func(cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
		if c.Line == "refuse" {
			return nil, errors.New("refused")
		}
		log = append(log, "confine "+c.Line)
		cmd.Env = append(cmd.Env, "confined=yes")
		out := c.Output
		c.Output = writerFunc(func(p []byte) (int, error) {
			log = append(log, "saw "+string(p))
			return out.Write(p)
		})
		if c.Dir == "/missing" {
			log = append(log, "will fail")
		}
		return func(e *workspace.Exit) {
			log = append(log, "ended")
			e.Refused = []string{"/etc"}
		}, nil
	}
	var out bytes.Buffer
	exit, err := w.Run(t.Context(), workspace.Command{Line: "echo $confined", Output: &out})
	if err != nil || out.String() != "yes\n" || len(exit.Refused) != 1 {
		t.Errorf("%q, %+v, %v", out.String(), exit, err)
	}
	if _, err := w.Run(t.Context(), workspace.Command{Line: "true", Dir: "/missing", Output: &out}); err == nil {
		t.Error("a missing directory was accepted")
	}
	if _, err := w.Run(t.Context(), workspace.Command{Line: "refuse"}); err == nil || err.Error() != "refused" {
		t.Errorf("Run: %v", err)
	}
	want := "confine echo $confined|saw yes\n|ended|confine true|will fail|ended"
	if got := strings.Join(log, "|"); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Input that never ends does not delay the call.
func TestEndlessInput(t *testing.T) {
	w := newLocal(t)
	r, wr := io.Pipe()
	defer wr.Close()
	if exit, err := w.Run(t.Context(), workspace.Command{Line: "exit 4", Stdin: r}); err != nil || exit.Code != 4 {
		t.Errorf("%+v, %v", exit, err)
	}
	r.Close()
}

func TestNewLocalErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + "-none"} {
		if _, err := workspace.NewLocal(dir); err == nil {
			t.Errorf("NewLocal %s succeeded", dir)
		}
	}
}

// Compares ours, which also handles groups, marks and pumps, with a bare exec with one output pipe.
func BenchmarkTrue(b *testing.B) {
	dir := b.TempDir()
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			var out bytes.Buffer
			cmd := exec.Command("bash", "-c", "true")
			cmd.Dir = dir
			cmd.Stdout = &out
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("workspace", func(b *testing.B) {
		w := newLocal(b)
		for b.Loop() {
			var out bytes.Buffer
			if _, err := w.Run(b.Context(), workspace.Command{Line: "true", Output: &out}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
