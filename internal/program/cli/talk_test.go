//go:build unix

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A terminal is the program as the user sees it.
type terminal struct {
	*testing.T
	cmd *exec.Cmd
	pty *os.File

	mu   sync.Mutex
	all  bytes.Buffer
	read int           // the end of what wants has matched
	more chan struct{} // receives after new output
	over chan struct{} // closed at the end of the output
}

// A fixture is a directory with a home directory, where terminals are opened.
type fixture struct {
	dir string
	env []string
}

func newFixture(t *testing.T, server *llmtest.Server) fixture {
	t.Helper()
	home, err := os.MkdirTemp("", "knack-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a command that survives a killed program may still write
		for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			err := os.RemoveAll(home)
			if err == nil {
				return
			}
			if time.Now().After(late) {
				t.Error(err)
				return
			}
		}
	})
	d := fixture{dir: filepath.Join(home, "work")}
	d.file(t, ".claude/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greets people\n---\nGreet $ARGUMENTS.\n")
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "KNACK_") {
			d.env = append(d.env, kv)
		}
	}
	d.env = append(d.env, "HOME="+home, "TERM=xterm", "KNACK_UI=line", "NO_COLOR=1")
	d.env = append(d.env, server.Env()...)
	return d
}

func (d fixture) file(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// open starts knack on a new terminal, in a trusted project.
func (d fixture) open(t *testing.T, args ...string) *terminal {
	t.Helper()
	return d.start(t, append([]string{"--trust"}, args...)...)
}

// start is open for a project that is not yet trusted.
func (d fixture) start(t *testing.T, args ...string) *terminal {
	t.Helper()
	return d.run(t, "knack", append([]string{"--sandbox", "off"}, args...)...)
}

// run starts a program on a new terminal.
func (d fixture) run(t *testing.T, program string, args ...string) *terminal {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 200})
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatal(err)
	} else if err != nil {
		t.Skipf("no pty on this system, so the terminal is not tested: %v", err)
	}
	term := &terminal{T: t, cmd: cmd, pty: f, more: make(chan struct{}, 1), over: make(chan struct{})}
	go func() {
		defer close(term.over)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			term.mu.Lock()
			term.all.Write(buf[:n])
			term.mu.Unlock()
			select {
			case term.more <- struct{}{}:
			default:
			}
			if err != nil { // EIO, after the program has ended
				return
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-term.over
		f.Close()
		if t.Failed() {
			t.Logf("the output:\n%q", term.all.String())
		}
	})
	return term
}

// expect waits until the output after the previous match matches the expression, and returns the match.
func (t *terminal) expect(expr string) string {
	t.Helper()
	re := regexp.MustCompile(expr)
	late := time.After(patience)
	for {
		t.mu.Lock()
		rest := t.all.Bytes()[t.read:]
		if at := re.FindIndex(rest); at != nil {
			t.read += at[1]
			match := string(rest[at[0]:at[1]])
			t.mu.Unlock()
			return match
		}
		t.mu.Unlock()
		select {
		case <-t.more:
		case <-t.over:
			t.mu.Lock()
			found := re.Match(t.all.Bytes()[t.read:])
			t.mu.Unlock()
			if !found {
				t.Fatalf("the program ended before it showed %q", expr)
			}
		case <-late:
			t.Fatalf("%q did not appear", expr)
		}
	}
}

// prompt waits until the user may type.
func (t *terminal) prompt() { t.Helper(); t.expect(`\x1b\[\?2004h> `) }

func (t *terminal) types(s string) {
	t.Helper()
	if _, err := io.WriteString(t.pty, s); err != nil {
		t.Fatal(err)
	}
}

// enters types a line at the prompt.
func (t *terminal) enters(line string) { t.Helper(); t.prompt(); t.types(line + "\r") }

// leaves ends the program with Ctrl-D.
func (t *terminal) leaves() {
	t.Helper()
	t.prompt()
	t.types("\x04")
	select {
	case <-t.over:
	case <-time.After(patience):
		t.Fatal("Ctrl-D did not end the program")
	}
	if err := t.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

const (
	ctrlC = "\x03"
	up    = "\x1b[A"
)

func call(id, command string) llmtest.Answer {
	return llmtest.Answer{Calls: []llmtest.Call{{ID: id, Name: "bash", Input: map[string]any{"command": command}}}}
}

// serve starts a scripted server and checks at the end that every answer was used.
func serve(t *testing.T, answers ...llmtest.Answer) *llmtest.Server {
	t.Helper()
	s := llmtest.NewServer(answers...)
	t.Cleanup(func() {
		s.Close()
		if n := s.Left(); n > 0 && !t.Failed() {
			t.Errorf("%d answers were not used", n)
		}
		if r := s.Refused(); len(r) > 0 {
			t.Errorf("refused: %q", r)
		}
	})
	return s
}

// TestWokenLine: in line mode, too, what a hook with asyncRewake reports begins a turn while nothing is typed.
func TestWokenLine(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Answer{When: "^one$", Text: "First."},
		llmtest.Answer{When: "(?s)in the background has ended or reports.*tests fail 1$", Text: "Saw the first."},
		llmtest.Answer{When: "(?s)in the background has ended or reports.*tests fail 2$", Text: "Saw the second."},
		llmtest.Answer{When: "^three$", Text: "Third."}))
	d.file(t, "count", "0")
	k := d.open(t, "--settings", asyncHook(t, `n=$(($(cat count) + 1)); [ $n -lt 3 ] || exit 0
		until [ -e go$n ]; do sleep 0.02; done; echo $n >count; echo "tests fail $n" >&2; exit 2`))
	k.enters("one")
	k.expect(`First\.`)
	k.prompt()
	d.file(t, "go1", "")
	k.expect(`(?s)Stop hook: tests fail 1.*Saw the first\.`)
	k.prompt()
	k.types("tw")
	k.expect(`tw`)
	d.file(t, "go2", "")
	for read := ""; read != "2\n"; time.Sleep(10 * time.Millisecond) {
		data, _ := os.ReadFile(filepath.Join(d.dir, "count"))
		read = string(data)
	}
	k.types("\x15") // nothing is typed any more
	k.expect(`(?s)Stop hook: tests fail 2.*Saw the second\.`)
	k.enters("three")
	k.expect(`Third\.`)
	k.leaves()
}

// TestTalk: prompt, completion, streamed answer, a skill, history, resume.
func TestTalk(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^hello$", Text: "Hello to you."},
		llmtest.Answer{When: "Greet Ada", Want: []string{"Hello to you"}, Text: "Dear Ada."},
		llmtest.Answer{When: "^hello$", Text: "And again."},
		llmtest.Answer{When: "^still there\\?$", Want: []string{"Dear Ada"}, Text: "Yes, I am."},
	))
	k := d.open(t)
	k.expect(`anthropic/claude-sonnet-5-5, .*skills`)
	k.enters("hello")
	k.expect(`Hello to you\.`)
	k.expect(`1 request, \d+ tokens in`)
	k.prompt()
	k.types("/gre\t")
	k.expect(`/greet `)
	k.types("Ada\r")
	k.expect(`skill .*greet.*\(\d+ tokens\)`)
	k.expect(`Dear Ada\.`)
	k.prompt()
	k.types("/nope\r")
	k.expect(`error: .*nope`)
	k.prompt()
	k.types(up + up + up)
	k.expect(`hello`)
	k.types("\r")
	k.expect(`And again\.`)
	k.enters("/help")
	k.expect(`/quit`)
	k.leaves()

	k = d.open(t, "-c")
	k.expect(`> hello`)
	k.expect(`Dear Ada\.`)
	k.expect(`And again\.`)
	k.enters("still there?")
	k.expect(`Yes, I am\.`)
	k.leaves()
	hist, err := os.ReadFile(filepath.Join(filepath.Dir(d.dir), ".local/state/knack/history"))
	if want := "\"hello\"\n\"/greet Ada\"\n\"/nope\"\n\"hello\"\n\"/help\"\n\"still there?\"\n"; err != nil ||
		string(hist) != want {
		t.Errorf("history %q, %v; want %q", hist, err, want)
	}
}

// TestApprove: each kind of answer to a permission question.
func TestApprove(t *testing.T) {
	t.Parallel()
	server := serve(t,
		call("c1", "touch once"), llmtest.Reply("one done"),
		call("c2", "touch once"), llmtest.Reply("two done"), // asked again: no
		call("c3", "touch session"), llmtest.Reply("three done"),
		call("c4", "touch session"), llmtest.Reply("four done"), // not asked
		call("c5", "touch kept"), llmtest.Reply("five done"),
		call("c6", "touch never"), llmtest.Answer{Want: []string{"use make instead"}, Text: "six done"},
		call("c7", "touch kept"), llmtest.Reply("seven done"), // a new process: not asked
		call("c8", "touch session"), llmtest.Reply("eight done"), // asked again there
	)
	d := newFixture(t, server)
	exists := func(name string, want bool) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(d.dir, name)); (err == nil) != want {
			t.Errorf("%s exists: %t", name, err == nil)
		}
	}
	ask := `(?s)Run .*\?.*touch %s.*\x1b\[\?2004h  \? `
	asked := func(k *terminal, name, answer string) {
		t.Helper()
		k.expect(strings.Replace(ask, "%s", name, 1))
		k.types(answer + "\r")
	}
	k := d.open(t)
	k.enters("one")
	asked(k, "once", "what")
	k.expect(`Please type one of the letters`)
	k.types("y\r")
	k.expect(`one done`)
	exists("once", true)
	os.Remove(filepath.Join(d.dir, "once"))
	k.enters("two")
	asked(k, "once", "n")
	k.expect(`two done`)
	exists("once", false)
	k.enters("three")
	asked(k, "session", "s")
	k.expect(`three done`)
	os.Remove(filepath.Join(d.dir, "session"))
	k.enters("four")
	k.expect(`four done`) // a question would block here
	exists("session", true)
	k.enters("five")
	asked(k, "kept", "a")
	k.expect(`five done`)
	os.Remove(filepath.Join(d.dir, "kept"))
	k.enters("six")
	asked(k, "never", "n use make instead")
	k.expect(`six done`)
	exists("never", false)
	k.leaves()

	k = d.open(t)
	k.enters("seven")
	k.expect(`seven done`)
	exists("kept", true)
	k.enters("eight")
	asked(k, "session", "n")
	k.expect(`eight done`)
	k.leaves()
}

// TestTalkHooks: a hook that fails leads to a question for the user, which other hooks are notified of; messages of
// hooks are shown; hooks also receive the session's end.
func TestTalkHooks(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		call("a", "touch made.txt"),
		llmtest.Answer{When: "made it", Text: "Done."},
		llmtest.Answer{When: "^again", Text: "Still here."},
	))
	d.file(t, ".claude/settings.json", `{"hooks": {
		"SessionStart": [{"hooks": [{"type": "command", "command": `+
		`"cat >> hook.txt; echo '{\"systemMessage\": \"the hooks greet you\"}'"}]}],
		"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo {what is this"}]}],
		"PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": `+
		`"echo '{\"hookSpecificOutput\": {\"additionalContext\": \"made it\"}}'"}]}],
		"Notification": [{"matcher": "permission_prompt", "hooks": [{"type": "command", "command": `+
		`"cat >> hook.txt; echo >> called.txt"}]}],
		"ConfigChange": [{"matcher": "skills", "hooks": [{"type": "command", "command": "cat >> hook.txt"}]}],
		"SessionEnd": [{"hooks": [{"type": "command", "command": "cat >> hook.txt", "timeout": 60}]}]}}`)
	k := d.open(t, "--allow", "Bash(touch *)")
	k.expect("the hooks greet you")
	k.enters("go")
	k.expect(`failed: what it printed cannot be read`)
	waitFor(t, "the notification", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "called.txt"))
		return err == nil
	})
	k.expect(`\x1b\[\?2004h  \? `)
	k.types("y\r")
	k.expect(`Done\.`)
	k.enters("/reload")
	d.file(t, ".claude/skills/late/SKILL.md", "---\nname: late\ndescription: Late\n---\nLate.\n")
	k.enters("/reload")
	k.expect(`skills: \d+`)
	k.enters("again")
	k.expect(`Still here\.`)
	k.leaves()
	input, err := os.ReadFile(filepath.Join(d.dir, "hook.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"source":"startup"`, `"notification_type":"permission_prompt"`,
		`"hook_event_name":"ConfigChange","source":"skills"`, `"hook_event_name":"SessionEnd"`} {
		if !strings.Contains(string(input), want) {
			t.Errorf("hooks did not receive %s: %s", want, input)
		}
	}
}

// TestInterrupt: Ctrl-C asks for a message to the model, and a second one stops the turn; a running command is
// killed; at a question Ctrl-C stops the turn.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		call("c1", "echo $$ >pid; while [ ! -e go ]; do sleep 0.05; done"),
		llmtest.Answer{When: "rather in French", Text: "D'accord."},
		call("c2", "echo $$ >pid; sleep 300"),
		llmtest.Answer{When: "third$", Want: []string{"Command aborted"}, Text: "I was about\n\nto say\n\na lot\n\nof things",
			Break: llmtest.Hang},
		call("c3", "touch asked"),
		llmtest.Answer{When: "fifth$", Text: "all well"},
	))
	k := d.open(t, "--allow", "Bash(echo *)", "--allow", "Bash(while *)", "--allow", "Bash(sleep *)", "--allow",
		"Edit(pid)", "--allow", "Bash([ *)")
	pid := func() int {
		t.Helper()
		path := filepath.Join(d.dir, "pid")
		n := 0
		waitFor(t, "a pid", func() bool {
			data, _ := os.ReadFile(path)
			n, _ = strconv.Atoi(strings.TrimSuffix(string(data), "\n"))
			return bytes.HasSuffix(data, []byte("\n"))
		})
		os.Remove(path)
		return n
	}
	k.enters("first")
	pid()
	k.types(ctrlC)
	k.expect(`Message to the model \(Enter to continue, Ctrl-C to stop\) > `)
	k.types("rather in French\r")
	d.file(t, "go", "")
	k.expect(`D'accord\.`)

	k.enters("second")
	n := pid()
	k.types(ctrlC)
	k.expect(`Message to the model \(Enter`)
	k.types(ctrlC)
	k.expect(`\(cancelled\)`)
	waitFor(t, "the command's end", func() bool { return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) })

	k.enters("third")
	k.expect(`I was about`)
	k.types(ctrlC)
	k.expect(`Message to the model \(Enter`)
	k.types(ctrlC)
	k.expect(`\(cancelled\)`)

	k.enters("fourth")
	k.expect(`(?s)Run .*\?.*\x1b\[\?2004h  \? `)
	k.types(ctrlC)
	k.expect(`\(cancelled\)`)
	if _, err := os.Stat(filepath.Join(d.dir, "asked")); err == nil {
		t.Error("the command ran")
	}
	k.enters("fifth")
	k.expect(`all well`)
	k.leaves()
}

// TestHangUp: when the terminal closes, everything that was started on it ends.
func TestHangUp(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]engine.ExitCode{syscall.SIGTERM: engine.ExitTerminated,
		syscall.SIGHUP: engine.ExitHungUp} {
		d := newFixture(t, serve(t, call("c1", "echo $$ >pid; sleep 300")))
		k := d.open(t, "--allow", "Bash(echo *)", "--allow", "Bash(sleep *)", "--allow", "Edit(pid)")
		k.enters("go")
		n := 0
		waitFor(t, "a pid", func() bool {
			data, _ := os.ReadFile(filepath.Join(d.dir, "pid"))
			n, _ = strconv.Atoi(strings.TrimSuffix(string(data), "\n"))
			return bytes.HasSuffix(data, []byte("\n"))
		})
		k.cmd.Process.Signal(sig)
		<-k.over
		k.cmd.Wait()
		if code := k.cmd.ProcessState.ExitCode(); code != int(want) {
			t.Errorf("%v: exit code %d, want %d", sig, code, want)
		}
		waitFor(t, "the command's end", func() bool { return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) })
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// TestTalkCompact: the user compacts a long conversation, interrupts a compaction, and empties the context.
func TestTalkCompact(t *testing.T) {
	t.Parallel()
	server := serve(t,
		llmtest.Answer{When: "Greet Ada", Text: "Dear Ada.", Pad: 200},
		llmtest.Answer{When: "Write the summary", Text: "## Goal\nnever finished", Break: llmtest.Hang},
		llmtest.Answer{When: "^still\\?$", Want: []string{"Dear Ada"}, Text: "Unchanged."},
		llmtest.Answer{When: "Write the summary", Want: []string{"focus on this:\nthe names", "Dear Ada"},
			Text: "## Goal\nAda was greeted."},
		llmtest.Answer{When: "whom\\?$", Want: []string{"Ada was greeted"}, Text: "Her."},
		llmtest.Answer{When: "^whom\\?$", Text: "Whom?"},
	)
	d := newFixture(t, server)
	k := d.open(t)
	k.enters("/greet Ada")
	k.expect(`Dear Ada\.`)
	k.enters("/compact")
	for late := time.After(patience); len(server.Requests()) < 2; time.Sleep(time.Millisecond) {
		select {
		case <-late:
			t.Fatal("no summary was requested")
		default:
		}
	}
	k.types(ctrlC)
	k.expect(`Ctrl-C to stop\) > `)
	k.types(ctrlC)
	k.expect(`\(cancelled\)`)
	k.enters("still?")
	k.expect(`Unchanged\.`)
	k.enters("/compact the names")
	k.expect(`compacted: [\d,]+ to [\d,]+ tokens`)
	k.enters("whom?")
	k.expect(`Her\.`)
	k.enters("/clear")
	k.expect(`context emptied`)
	k.enters("whom?")
	k.expect(`Whom\?`)
	k.leaves()
	k = d.open(t, "-c")
	k.expect(`Dear Ada\.`)
	k.expect(`\(compacted: .* tokens`)
	k.expect(`\(context emptied`)
	k.leaves()
}

// TestTalkApproval: a change and a long command are shown in full before the user can allow them.
func TestTalkApproval(t *testing.T) {
	t.Parallel()
	long := "touch long"
	for i := range 60 {
		long += fmt.Sprintf("\necho step %d", i)
	}
	server := llmtest.NewServer(
		llmtest.Use("edit", map[string]any{"path": "greet.py",
			"edits": []any{map[string]any{"oldText": "hello", "newText": "goodbye"}}}),
		llmtest.Use("bash", map[string]any{"command": long}), llmtest.Reply("first done"),
		llmtest.Use("bash", map[string]any{"command": long}), llmtest.Reply("second done"),
	)
	t.Cleanup(server.Close)
	d := newFixture(t, server)
	d.file(t, "greet.py", "print('hello')\n")
	k := d.open(t)
	k.enters("go")
	k.expect(`(?s)Change greet\.py\?.*1 - print\('hello'\).*1 \+ print\('goodbye'\).*\x1b\[\?2004h  \? `)
	k.types("y\r")
	k.expect(`(?s)Run this command\?.*touch long.*echo step 5.*\(\d+ of \d+ lines; Enter, all or n\) `)
	k.types("y\r") // more follows: this only turns the page
	k.expect(`(?s)echo step 59.*\x1b\[\?2004h  \? `)
	k.types("y\r")
	k.expect("first done")
	if err := os.Remove(filepath.Join(d.dir, "long")); err != nil {
		t.Error(err)
	}
	k.enters("again")
	k.expect(`Enter, all or n\) `)
	k.types("n\r")
	k.expect("second done")
	if _, err := os.Stat(filepath.Join(d.dir, "long")); err == nil {
		t.Error("a declined command ran")
	}
	k.leaves()
}

// TestTypedAhead: input typed before a question appeared does not answer it. Found by attack: a "y" approved a call.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		call("c1", "touch one"), call("c2", "touch two"), llmtest.Reply("all done"),
	))
	k := d.open(t)
	k.enters("go")
	k.expect(`(?s)touch one.*\x1b\[\?2004h  \? `)
	k.types("y\ry\r")
	k.expect(`(?s)touch two.*\x1b\[\?2004h  \? `)
	k.types("n\r")
	k.expect(`all done`)
	if _, err := os.Stat(filepath.Join(d.dir, "one")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "two")); err == nil {
		t.Error("input typed before the question approved the second command")
	}
	k.leaves()
}
