package permission_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestBracketInClass: a pattern that the shell reads otherwise than Go may name any file, also a secret.
func TestBracketInClass(t *testing.T) {
	place := testWorkspace(t)
	place.Glob = nil
	if err := os.WriteFile(filepath.Join(place.Dir, "sub", ".x-env"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	deny := rulesOf(t, "Read(.x-env)", permission.User)
	for command, want := range map[string]permission.Verdict{
		"cat sub/o[k].txt": permission.Allow, "cat sub/o[a-z].txt": permission.Allow,
		"cat sub/.e[]n]v": permission.Ask, "cat sub/.x[a'-'z]env": permission.Deny,
	} {
		s := permission.Subject{Kind: permission.KindBash, Text: command}
		if d := (permission.Rules{Deny: deny}).Decide(t.Context(), permission.Default, place, s); d.Verdict != want {
			t.Errorf("%s: %v: %s", command, d.Verdict, d.Reason)
		}
	}
}

// TestDecideLimits: a decision reads a limited number of directory entries, never in /proc and /sys, and
// then asks. Each of these patterns would keep it busy for minutes or longer. Found by attack: "cat /*/*/*/*/*/*" was
// not decided after 40 s, and an interrupt did not end it.
func TestDecideLimits(t *testing.T) {
	place := testWorkspace(t)
	place.Glob = nil
	link := func(to, from string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(place.Dir, from)); err != nil {
			t.Skip("no symbolic links:", err)
		}
	}
	if err := os.Mkdir(filepath.Join(place.Dir, "loop"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		link(".", fmt.Sprintf("loop/l%d", i))
	}
	// Links of one directory use up the limit before anything behind them is read. Where the system can, they are names
	// of the same link: to create and remove ten thousand files takes seconds.
	if err := os.Mkdir(filepath.Join(place.Dir, "many"), 0o700); err != nil {
		t.Fatal(err)
	}
	link("../loop/nothing", "many/0")
	first := filepath.Join(place.Dir, "many", "0")
	for i := 1; i < 10_000; i++ {
		if err := os.Link(first, fmt.Sprintf("%s%d", first, i)); err != nil {
			link("../loop/nothing", fmt.Sprintf("many/0%d", i))
		}
	}
	const tooMany, system = "too many", "/proc or /sys"
	cases := []struct{ command, reason string }{
		{"cat loop/*/*/*/*/*/x", tooMany},
		{"ls -d loop/l?/l?/l?/l?/l?/l?", tooMany},
		{"cat loop/*/*/*/*/*/x | wc -l && echo fine", tooMany},
		{"cat many/*/x", tooMany},
		{"wc loop/*/nothing", ""},
		{"cat *.txt", ""},
	}
	if runtime.GOOS == "linux" {
		link("/proc", "kernel")
		cases = append(cases, []struct{ command, reason string }{
			{"cat /*/*/*/*/*/*", system},
			{"cat /proc/[0-9]*/comm", system},
			{"cat kernel/*/comm", system},
			{"ls /sys/*", system},
		}...)
	}
	deny := rulesOf(t, "Read(*.secret)", permission.User)
	careless := rulesOf(t, "Bash | Read", permission.User)
	for _, c := range cases {
		subject := permission.Subject{Kind: "Bash", Text: c.command}
		d := permission.Rules{}.Decide(t.Context(), permission.Default, place, subject)
		if c.reason == "" {
			if d.Verdict != permission.Allow {
				t.Errorf("%s: %v: %s", c.command, d.Verdict, d.Reason)
			}
			continue
		}
		if d.Verdict != permission.Ask || !strings.Contains(explain(d), c.reason) {
			t.Errorf("%s: %v: %s", c.command, d.Verdict, explain(d))
		}
		// What was not found may be something that a rule denies.
		if d := (permission.Rules{Allow: careless, Deny: deny}).Decide(t.Context(), permission.Bypass, place,
			subject); d.Verdict != permission.Deny {
			t.Errorf("bypass with a deny rule: %s: %v: %s", c.command, d.Verdict, d.Reason)
		}
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, command := range []string{"cat *.txt", "ls", "git status"} {
		place.Git = permission.NewGitSoon(place.Dir)
		d := permission.Rules{}.Decide(ended, permission.Default, place, permission.Subject{Kind: "Bash", Text: command})
		if d.Verdict != permission.Ask {
			t.Errorf("after its context has ended: %s: %v: %s", command, d.Verdict, d.Reason)
		}
	}
}

// TestGitEnds: git is not started after the context of the decision has ended, and the next decision
// asks it again.
func TestGitEnds(t *testing.T) {
	g := newGitGround(t)
	started := g.countStarts()
	git := permission.NewGitSoon(g.repo)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := git.Check(ended, g.repo); err == nil {
		t.Error("no error")
	}
	if got := started(); len(got) > 0 {
		t.Errorf("started for %q", got)
	}
	if _, err := git.Check(t.Context(), g.repo); err != nil {
		t.Error(err)
	}
}

// TestEndless: what never ends is not "only reading", wherever a link makes it appear. Found by attack: "cat /dev/zero"
// needed no rule.
func TestEndless(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no devices")
	}
	place := testWorkspace(t)
	place.Glob = nil
	if err := mkfifo(filepath.Join(place.Dir, "pipe")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/urandom", filepath.Join(place.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	verdict := func(rules, command string) permission.Decision {
		return permission.Rules{Allow: rulesOf(t, rules, permission.User)}.Decide(t.Context(), permission.Default, place,
			permission.Subject{Kind: "Bash", Text: command})
	}
	for _, c := range []string{"cat /dev/zero", "cat /dev/urandom", "head /dev/zero", "head -n 5 /dev/zero",
		"tail -c 5 /dev/zero",
		"head -c -5 /dev/zero", "head -- /dev/zero -c 5", "head -c 99999999999 /dev/zero", "head -c 5G /dev/zero",
		"wc -c /dev/random", "cat a.txt /dev/../dev/zero", "cat pipe", "cat < pipe", "cat link", "grep x pipe", "cat p*",
		"cat /dev/tty", "sort pipe | head", "od -A x /dev/zero", "diff a.txt pipe", "cat < /dev/zero"} {
		if d := verdict("", c); d.Verdict != permission.Ask {
			t.Errorf("%s: %v", c, d.Verdict)
		}
	}
	for _, c := range []string{"head -c 16 /dev/urandom | xxd", "head -c16 /dev/zero", "head --bytes=1K /dev/zero",
		"od -An -N4 -tu4 /dev/urandom", "od -N 4 /dev/random", "xxd -l 16 /dev/urandom", "ls -l /dev/zero pipe", "stat pipe",
		"file pipe", "cat /dev/null", "cmp -n 100 /dev/zero a.txt", "hexdump -n 8 /dev/urandom", "test -p pipe",
		"cat a.txt"} {
		if d := verdict("", c); d.Verdict != permission.Allow {
			t.Errorf("%s: %v: %s", c, d.Verdict, explain(d))
		}
	}
	if d := verdict("", "cat pipe"); !strings.Contains(d.Reason, "without end") || len(d.Suggest) != 1 {
		t.Errorf("%q, %q", d.Reason, d.Suggest)
	} else if again := verdict(d.Suggest[0], "cat pipe"); again.Verdict != permission.Allow {
		t.Errorf("with the rule %s: %v", d.Suggest[0], again.Verdict)
	}
	if d := verdict("Bash(cat:*)", "cat /dev/zero"); d.Verdict != permission.Allow {
		t.Errorf("with a rule for the command: %v", d.Verdict)
	}
}

// TestResolveEnds: a lookup on another machine ends with the decision's context.
func TestResolveEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	place := permission.PathContext{Dir: "/w", Resolve: func(ctx context.Context, _ string) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}}
	d := permission.Rules{}.Decide(ctx, permission.AcceptEdits, place,
		permission.Subject{Kind: permission.KindEdit, Text: "/w/a"})
	if d.Verdict == permission.Allow {
		t.Errorf("%+v", d)
	}
}
