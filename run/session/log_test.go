package session

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

var kills = flag.Int("kills", 20, "how often TestKill kills the writer")

func userText(s string) Entry {
	return Entry{Type: TypeUser, User: &User{Parts: []llm.Part{llm.Text(s)}}}
}

func mustAppend(t *testing.T, l *Log, es ...Entry) {
	t.Helper()
	for _, e := range es {
		if _, err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpen(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{Dir: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(s.Dir); err != nil || len(files) != 0 {
		t.Errorf("before its first entry a session wrote %v, %v", files, err)
	}
	mustAppend(t, l, userText("one"))
	if _, err := s.Open(l.ID()); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer got %v, want ErrLocked", err)
	}
	mustAppend(t, l, Entry{Type: TypeSetting, Setting: &Setting{Title: "numbers"}})
	if r, err := s.Read(l.ID()); err != nil || len(r.Entries()) != 2 {
		t.Errorf("reading while another process writes: %v", err)
	} else if _, err := r.Append(userText("x")); err == nil {
		t.Error("a session opened for reading accepted an entry")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = s.Open(l.ID()[:12])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st := l.State(); st.Title != "numbers" || st.Turns != 1 {
		t.Errorf("state of a resumed session: %+v", st)
	}
	if fi, err := os.Stat(s.path(l.ID())); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", fi.Mode(), err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 || list[0].First != "one" {
		t.Errorf("list: %+v, %v", list, err)
	}
	for _, id := range []string{"", "../x", "a/b", strings.Repeat("x", 65), "none"} {
		if _, err := s.Open(id); err == nil {
			t.Errorf("session %q was opened", id)
		}
	}
}

// TestTruncatedFile truncates a file at every byte of its last line, and damages a line in the middle: nothing before
// it is lost, and the session can be continued.
func TestTruncatedFile(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("one"), userText("two"), userText("three"))
	l.Close()
	whole, err := os.ReadFile(s.path("s"))
	if err != nil {
		t.Fatal(err)
	}
	last := len(whole) - len(strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")[3]) - 1
	for cut := last; cut < len(whole); cut++ {
		if err := os.WriteFile(s.path("s"), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := s.Open("s")
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if n := len(l.Entries()); n != 2 || (cut > last) != (len(l.Damage()) == 1) {
			t.Fatalf("cut at %d: %d entries, damage %q", cut, n, l.Damage())
		}
		mustAppend(t, l, userText("four"))
		l.Close()
		if l, err = s.Read("s"); err != nil || len(l.Entries()) != 3 || len(l.Damage()) != 0 {
			t.Fatalf("cut at %d, then appended: %v, damage %q", cut, err, l.Damage())
		}
	}
	lines := strings.SplitAfter(string(whole), "\n")
	lines[2] = "{not json\n"
	os.WriteFile(s.path("s"), []byte(strings.Join(lines, "")), 0o600)
	if l, err = s.Open("s"); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := show(l.Project()); !strings.Contains(got, "one") || !strings.Contains(got, "three") || len(l.Damage()) != 1 {
		t.Errorf("a damaged line in the middle: %q\n%s", l.Damage(), got)
	}
	os.WriteFile(s.path("other"), []byte("{}\n"), 0o600)
	if _, err := s.Open("other"); err == nil {
		t.Error("a file that is not a session was opened")
	}
}

// faulty fails at the nth byte; the last write may be partial.
type faulty struct {
	file
	left int
}

func (f *faulty) Write(p []byte) (int, error) {
	if len(p) <= f.left {
		f.left -= len(p)
		return f.file.Write(p)
	}
	n, _ := f.file.Write(p[:f.left])
	f.left = 0
	return n, errors.New("no space left on device")
}

// TestWriteErrors makes the disk fail at every byte: what was acknowledged is in the file, what was not written is not
// acknowledged, and no entry is accepted after a failure.
func TestWriteErrors(t *testing.T) {
	for left := 0; left < 700; left += 7 {
		s := Store{Dir: t.TempDir()}
		l, err := s.Create(Header{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, userText("go"))
		l.file = &faulty{l.file, left}
		acked := 1
		var failed bool
		for i := range 10 {
			_, err := l.Append(userText(strconv.Itoa(i)))
			if err == nil && failed {
				t.Fatal("an entry was accepted after a failed write")
			}
			if err != nil {
				failed = true
				continue
			}
			acked++
		}
		l.Close()
		l, err = s.Open("s")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(l.Entries()); n != acked {
			t.Fatalf("%d bytes: %d entries were acknowledged, %d are in the file", left, acked, n)
		}
		l.Close()
	}
}

// TestKill kills a writing process at random moments.
func TestKill(t *testing.T) {
	if dir := os.Getenv("KNACK_TEST_KILL"); dir != "" {
		writeUntilKilled(dir)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l, err := (Store{Dir: dir}).Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("go"))
	l.Close()
	acked := 0
	for range *kills {
		cmd := exec.Command(exe, "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "KNACK_TEST_KILL="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() { cmd.Process.Kill() })
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if n, err := strconv.Atoi(sc.Text()); err == nil {
				acked = max(acked, n)
			}
		}
		cmd.Wait()
		l, err := (Store{Dir: dir}).Open("s")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(l.Entries()); n < acked {
			t.Fatalf("entry %d was acknowledged, %d are in the file; damage %q", acked, n, l.Damage())
		}
		acked = len(l.Entries())
		l.Close()
	}
	if *kills >= 20 && acked == 0 {
		t.Error("no writer ran long enough to write")
	}
	t.Logf("%d kills, %d entries", *kills, acked)
}

func writeUntilKilled(dir string) {
	l, err := Store{Dir: dir}.Open("s")
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	for {
		e, err := l.Append(userText(strings.Repeat("x", rand.IntN(5000))))
		if err == nil {
			err = l.Sync()
		}
		if err != nil {
			os.Exit(1)
		}
		fmt.Println(e.ID)
	}
}

// TestEmpty: a session without entries does not exist.
func TestEmpty(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

func TestFork(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{ID: "a", Dir: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mustAppend(t, l, userText("gone"))
	if err := l.Move(0); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l,
		Entry{Type: TypeActivation, Activation: &Activation{Skill: "pdf", Hash: "1", Prompt: "TEXT", Tokens: 5}},
		Entry{Type: TypeTurnEnd, TurnEnd: &TurnEnd{Reason: "done"}},
		Entry{Type: TypeRelease, Release: &Release{Entry: 2, Skill: "pdf", Tokens: 5}},
		userText("more"))
	f, err := s.Fork(l, "b")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, want := show(f.Project()), show(l.Project()); got != want {
		t.Errorf("the fork shows\n%s\nthe original\n%s", got, want)
	}
	if h := f.Header(); h.From != "a" || h.Dir != "/w" {
		t.Errorf("header %+v", h)
	}
	mustAppend(t, f, userText("only here"))
	if strings.Contains(show(l.Project()), "only here") {
		t.Error("the fork changed the original")
	}
}

// BenchmarkTurn measures the cost of an entry in a session of the given length: it must not grow.
func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("after-%d", n), func(b *testing.B) {
			l := New(Header{ID: "s"})
			add := func(i int) {
				id := strconv.Itoa(i)
				l.Append(Entry{Type: TypeAnswer, Answer: &Answer{Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{
					{Call: &llm.ToolCall{ID: id, Name: "read", Input: []byte(`{"path":"x"}`)}}}}}})
				l.Append(Entry{Type: TypeResult, Result: &Result{ToolResult: llm.ToolResult{ID: id, Name: "read",
					Parts: []llm.Part{llm.Text("x")}}}})
			}
			for i := range n {
				add(i)
			}
			b.ResetTimer()
			for i := range b.N {
				add(n + i)
			}
		})
	}
}

// TestHooksOfScopes: hooks of a skill are active until its turn or the program ends: in a session that is read from
// disk, moved in or copied, none are active.
func TestHooksOfScopes(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	log, err := store.Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	append := func(e Entry) {
		t.Helper()
		if _, err := log.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	append(Entry{Type: TypeActivation, Activation: &Activation{Skill: "a", Hooks: json.RawMessage(`{"Stop":[]}`),
		Dir: "/a"}})
	if sc := log.State().Scopes; len(sc) != 1 || string(sc[0].Hooks) != `{"Stop":[]}` || sc[0].Dir != "/a" {
		t.Errorf("active: %+v", sc)
	}
	copied, err := store.Fork(log, "copy")
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if sc := copied.State().Scopes; len(sc) != 0 {
		t.Errorf("in a copy: %+v", sc)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if log, err = store.Open("s"); err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if s := log.State(); len(s.Scopes) != 0 || !s.InTurn {
		t.Errorf("read again: %+v", s.Scopes)
	}
	again := log.Last()
	append(Entry{Type: TypeActivation, Activation: &Activation{Skill: "b"}})
	if sc := log.State().Scopes; len(sc) != 1 || sc[0].Skill != "b" {
		t.Errorf("activated since: %+v", sc)
	}
	append(Entry{Type: TypeTurnEnd, TurnEnd: &TurnEnd{Reason: "done"}})
	if sc := log.State().Scopes; len(sc) != 0 {
		t.Errorf("after the turn: %+v", sc)
	}
	if err := log.Move(again); err != nil {
		t.Fatal(err)
	}
	if sc := log.State().Scopes; len(sc) != 0 {
		t.Errorf("moved into the turn: %+v", sc)
	}
}

// TestMoveIsKept: the position that Move chose is restored when the session is opened again.
func TestMoveIsKept(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	l, err := store.Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("one"), userText("two"), userText("three"))
	for _, to := range []int{2, 1} { // entries 4 and 5
		if err := l.Move(to); err != nil {
			t.Fatal(err)
		}
	}
	reopened := func() string {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = store.Open("s"); err != nil {
			t.Fatal(err)
		}
		return show(l.Project())
	}
	if got := reopened(); got != "user\n  text: one\n" {
		t.Errorf("after a move to entry 1 the model sees %s", got)
	}
	mustAppend(t, l, userText("TWO"))
	if got := reopened(); strings.Contains(got, "three") || !strings.Contains(got, "one") ||
		!strings.Contains(got, "TWO") {
		t.Errorf("the branch is %s", got)
	}
	if err := l.Move(4); err != nil { // a move to the entry of a move goes to that move's target
		t.Fatal(err)
	}
	if got := reopened(); !strings.Contains(got, "two") || strings.Contains(got, "three") {
		t.Errorf("after a move to a move the model sees %s", got)
	}
	copied, err := store.Fork(l, "t")
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if got, want := show(copied.Project()), show(l.Project()); got != want {
		t.Errorf("the copy is %s, want %s", got, want)
	}
	read, err := store.Read("s")
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Move(1); err != nil || strings.Contains(show(read.Project()), "two") {
		t.Errorf("a session opened for reading: %v, %s", err, show(read.Project()))
	}
	l.Close()
}

// TestQuestion: which answers count as a question to the user.
func TestQuestion(t *testing.T) {
	for text, want := range map[string]bool{
		"Done.":                      false,
		"Why? Because it was wrong.": true, // a question in the last paragraph
		"Is it right?\n\nIt is.":     false,
		"Which file?":                true,
		"Which one?\n\n1. a.go\n2. b.go\n\n- or none": true,
		"**Shall I go on?**":                          true,
		"要继续吗？":                                       true,
		"See https://x.org/?q=1.":                     false,
		"I ran `ls ?`.":                               false,
		"":                                            false,
	} {
		if got := asksQuestion(llm.Message{Parts: []llm.Part{llm.Text(text)}}); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
