package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// TestSecrets: a command gets what its allowance gives it and nothing of that from the environment, what it prints is
// masked, and the next command has nothing of it.
func TestSecrets(t *testing.T) {
	w, err := NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.Environ = append(os.Environ(), "TOKEN=of the environment", "OTHER=kept")
	if _, err := w.ShellName(); err != nil {
		t.Skip(err)
	}
	var values []string
	give := func(_ context.Context, c Command) (Secrets, error) {
		if !strings.Contains(c.Line, "TOKEN") {
			return Secrets{}, nil
		}
		values = []string{"canary-1", "canary-2"}
		return Secrets{Env: []string{"A=canary-1", "B=canary-2"}, Without: []string{"TOKEN", "A"}}, nil
	}
	run := func(line string, s func(context.Context, Command) (Secrets, error)) string {
		t.Helper()
		var out, errs bytes.Buffer
		c := Command{Line: line, Output: &out, Stderr: &errs, Mask: func() []string { return values }}
		c.Allow = c.Allow.Union(Allowance{Secrets: s})
		if exit, err := w.Run(t.Context(), c); err != nil || exit.Code != 0 {
			t.Fatalf("%s: %+v, %v", line, exit, err)
		}
		return out.String() + errs.String()
	}
	if got := run(`echo "$TOKEN|${#A}|$A-$B|$OTHER"; echo "$A" >&2`, give); got != "|8|[secret]-[secret]|kept\n[secret]\n" {
		t.Errorf("%q", got)
	}
	if got := run(`echo "$A|$B|$OTHER canary-1"`, give); got != "||kept [secret]\n" {
		t.Errorf("the next one: %q", got)
	}
	both := Allowance{Secrets: give}.Union(Allowance{Secrets: func(context.Context, Command) (Secrets, error) {
		return Secrets{Env: []string{"C=3"}}, nil
	}})
	if got := run(`echo "${#A}$C$TOKEN"`, both.Secrets); got != "83\n" {
		t.Errorf("both: %q", got)
	}

	// What cannot be held to its hosts, or is refused, does not run.
	hosts := func(context.Context, Command) (Secrets, error) {
		return Secrets{Limits: []Limit{{Hosts: []string{"example.com"}}}}, nil
	}
	if _, err := w.Run(t.Context(), Command{Line: "echo", Allow: Allowance{Secrets: hosts}}); !errors.Is(err, ErrLimits) {
		t.Errorf("hosts: %v", err)
	}
	refused := errors.New("refused")
	_, err = w.Run(t.Context(), Command{Line: "echo", Allow: Allowance{Secrets: func(context.Context, Command) (Secrets,
		error) {
		return Secrets{}, refused
	}}})
	if !errors.Is(err, refused) {
		t.Errorf("refused: %v", err)
	}
	// A hook of the user's has none.
	var out bytes.Buffer
	if _, err := w.Run(t.Context(), Command{Line: `echo "$A TOKEN"`, Output: &out, Allow: Allowance{Secrets: give},
		AsUser: func(env []string) []string { return env }}); err != nil || out.String() != " TOKEN\n" {
		t.Errorf("a hook: %q, %v", out.String(), err)
	}
}
