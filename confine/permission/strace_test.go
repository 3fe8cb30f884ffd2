package permission_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/permission"
)

var ( // each line begins with the number of the process
	traceExec  = regexp.MustCompile(`^(?:\d+ +)?execve\("([^"]*)".* = 0$`)
	traceWrite = regexp.MustCompile(`^(?:\d+ +)?open(?:at)?\((?:[^,]*, )?"([^"]*)", [^)]*O_(?:WRONLY|RDWR|CREAT|TRUNC)`)
	traceOther = regexp.MustCompile(
		`^(?:\d+ +)?(connect|unlink|unlinkat|rename|renameat2?|mkdir|mkdirat|symlink|link|chmod|fchmodat|truncate)\(.* = 0$`)
)

// TestDifferential runs every command that is allowed without a rule, in a
// temporary directory under strace, and checks that it executes and writes
// nothing that its verdict did not name.
func TestDifferential(t *testing.T) {
	if testing.Short() {
		t.Skip("runs about three hundred commands under strace")
	}
	for _, p := range []string{"strace", "bash", "git"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIPPED: the differential test needs %s, which is not installed", p)
		}
	}
	place := testWorkspace(t)
	if err := os.RemoveAll(filepath.Join(place.Dir, "sub")); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	probe := exec.Command("strace", "-f", "--seccomp-bpf", "-o", trace, "true")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: strace cannot trace here: %v: %s", err, out)
	}
	searchPath, _ := permission.CleanPath(os.Getenv("PATH"), place.Dir)
	env := []string{"PATH=" + searchPath, "HOME=" + place.Home, "LANG=C", "GIT_CONFIG_NOSYSTEM=1"}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.email", "a@b"}, {"config", "user.name", "n"},
		{"add", "."}, {"commit", "-qm", "one"}} {
		c := exec.Command("git", args...)
		c.Dir, c.Env = place.Dir, env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	env, _ = gitEnv(env, place.Dir)

	var commands []string
	for _, c := range readCorpus(t, "ordinary.txt") {
		if c.allow == "" {
			commands = append(commands, c.command)
		}
	}
	g := grammar(t)
	for _, p := range g["positions"] {
		commands = append(commands, strings.ReplaceAll(p, "@", "wc -l a.txt"))
	}
	for _, p := range g["quoted"] {
		commands = append(commands, strings.ReplaceAll(p, "@", "'wc -l a.txt'"))
	}
	// What is allowed of the attempts without any rule is run too.
	for _, c := range readCorpus(t, "attempts.txt") {
		commands = append(commands, c.command)
	}
	ran := 0
	slots := make(chan bool, 4)
	var wait sync.WaitGroup
	for _, command := range commands {
		d := permission.Rules{}.Decide(t.Context(), permission.Default, place,
			permission.Subject{Kind: "Bash", Text: command})
		if d.Verdict != permission.Allow || strings.Contains(command, "sleep") {
			continue
		}
		ran++
		slots <- true
		wait.Go(func() {
			defer func() { <-slots }()
			differential(t, place.Dir, env, command, d)
		})
	}
	wait.Wait()
	if ran < 150 {
		t.Errorf("only %d commands ran", ran)
	}
	t.Logf("%d commands", ran)
}

// maxPrograms ends a command that never ends by itself: a loop starts the same programs again and again.
const maxPrograms = 100

// differential runs one command under strace and compares.
func differential(t *testing.T, dir string, env []string, command string, d permission.Decision) {
	trace, to, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return
	}
	defer trace.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// Under this name strace opens the pipe for itself: the command does not inherit it.
	name := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), to.Fd())
	c := exec.CommandContext(ctx, "strace", "-f", "--seccomp-bpf", "-qq", "-s", "300", "-o", name, "-e",
		"trace=execve,openat,open,connect,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,symlink,link,"+
			"chmod,truncate", "bash", "-c", command)
	c.Dir, c.Env = dir, env
	c.WaitDelay = time.Second
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		c.Run() // its exit status does not matter
		to.Close()
	})
	words := map[string]bool{"bash": true, "sh": strings.Contains(command, "egrep") || strings.Contains(command, "which")}
	writes := map[string]bool{"/dev/null": true, "/dev/tty": true}
	for _, s := range d.Subjects {
		if s.Kind == "Edit" {
			writes[s.Text] = true
		}
		if s.Kind == "Bash" {
			for _, w := range strings.Fields(s.Text) {
				words[path.Base(strings.Trim(w, `'"`))] = true
			}
		}
	}
	for _, wrapper := range []string{"timeout", "nice", "env", "nohup", "stdbuf", "xargs", "time"} {
		words[wrapper] = words[wrapper] || strings.Contains(command, wrapper)
	}
	if strings.Contains(command, "git submodule") { // a script of git's, which reads with programs of PATH
		for _, w := range []string{"basename", "gettext", "sed", "uname"} {
			words[w] = true
		}
	}
	if words["egrep"] {
		words["grep"] = true
	}
	lines, programs, first := bufio.NewScanner(trace), 0, true
	for ; lines.Scan(); first = false {
		line := lines.Text()
		if m := traceExec.FindStringSubmatch(line); m != nil && !first {
			if programs++; programs == maxPrograms {
				cancel()
			}
			base := strings.TrimSuffix(strings.TrimSuffix(path.Base(m[1]), ".debianutils"), ".debian")
			ok := words[base]
			for w := range words { // python3 is python3.11, awk is mawk
				ok = ok || w != "" && strings.HasPrefix(base, w) || base == "mawk" && words["awk"]
			}
			if !ok {
				t.Errorf("%q executed %s", command, m[1])
			}
		}
		if m := traceWrite.FindStringSubmatch(line); m != nil && !strings.Contains(line, "= -1") {
			if !writes[m[1]] && !strings.HasPrefix(m[1], "/tmp/sh-thd") && !strings.HasPrefix(m[1], "/proc/self/") &&
				!strings.HasPrefix(m[1], "/dev/fd/") {
				t.Errorf("%q opened for writing: %s", command, line)
			}
		}
		if m := traceOther.FindStringSubmatch(line); m != nil && !strings.Contains(line, "/tmp/sh-thd") {
			t.Errorf("%q: %s", command, line)
		}
	}
	if err := lines.Err(); err != nil || first {
		t.Errorf("%q: no trace: %v", command, err)
	}
}
