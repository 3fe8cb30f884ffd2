package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

// longSession writes a session of compacted parts: each has calls with results of size bytes.
func longSession(t *testing.T, s Store, id string, parts, calls, size int) *Log {
	t.Helper()
	l, err := s.Create(Header{ID: id, Dir: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", size)
	for part := range parts {
		mustAppend(t, l, userText(fmt.Sprintf("part %d", part)))
		for i := range calls {
			id := fmt.Sprintf("call-%d-%d", part, i)
			mustAppend(t, l, Entry{Type: TypeAnswer, Answer: &Answer{Stop: llm.ToolUse, Model: "m", Cost: 1,
				Usage: llm.Usage{Input: 1}, Message: llm.Message{Role: llm.Assistant,
					Parts: []llm.Part{{Call: &llm.ToolCall{ID: id, Name: "read", Input: []byte("{}")}}}}}},
				Entry{Type: TypeResult, Result: &Result{Touched: []string{"/w/" + id}, Details: []byte(`{"n":1}`),
					ToolResult: llm.ToolResult{ID: id, Name: "read", Parts: []llm.Part{llm.Text(text)}}}})
		}
		mustAppend(t, l, Entry{Type: TypeTurnEnd, TurnEnd: &TurnEnd{Reason: EndDone}})
		if part < parts-1 {
			mustAppend(t, l, Entry{Type: TypeCompaction, Compaction: &Compaction{Trigger: TriggerAuto, Summary: "s",
				Kept: l.Last() - 2}})
		}
	}
	return l
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestLongSession: what the model no longer sees is not in memory, but can be read; nothing else differs from a session
// in memory.
func TestLongSession(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	written := longSession(t, s, "long", 40, 10, 100_000) // 40 MB, of which the model sees 1 MB
	mustAppend(t, written, Entry{Type: TypeSetting, Setting: &Setting{Title: "a title"}})
	whole := New(written.Header())
	for e := range written.All() {
		whole.replay(e, 0, 0)
	}
	if err := written.Close(); err != nil {
		t.Fatal(err)
	}
	before := heap()
	read, err := s.Open("long")
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if used := int64(heap()) - int64(before); used > 3<<20+3*int64(read.Bytes()) {
		t.Errorf("%d bytes in memory for %d bytes that the model sees", used, read.Bytes())
	}
	for name, l := range map[string]*Log{"written": written, "read": read} {
		if got, want := show(l.Project()), show(whole.Project()); got != want {
			t.Errorf("%s: the model sees another conversation", name)
		}
		a, b := l.State(), whole.State()
		if a.Cost != b.Cost || len(a.Touched) != len(b.Touched) || a.Title != b.Title || a.Turns != b.Turns ||
			a.Details["read"].Entry != b.Details["read"].Entry || a.Details["read"].Entry == 0 {
			t.Errorf("%s: state %+v\nwant %+v", name, a, b)
		}
		if n, m := len(l.Entries()), len(whole.Entries()); n != m {
			t.Errorf("%s: %d entries, want %d", name, n, m)
		}
		last, earlier := l.Tail(3)
		if len(last) != 3 || last[2].Setting == nil || earlier != whole.Last()-3 {
			t.Errorf("%s: tail of %d, %d before it", name, len(last), earlier)
		}
	}
	back := slices.Collect(read.Backward())
	slices.Reverse(back)
	for i, e := range read.Branch() {
		if e.ID != i+1 || back[i].ID != e.ID {
			t.Fatalf("entry %d has the ID %d, backward %d", i+1, e.ID, back[i].ID)
		}
	}
	// A branch from an entry that is only in the file.
	if err := read.Move(5); err != nil {
		t.Fatal(err)
	}
	if got := read.State(); got.Turns != 1 || len(read.Branch()) != 5 {
		t.Errorf("after a move: %d turns, %d entries", got.Turns, len(read.Branch()))
	}
	mustAppend(t, read, userText("another way"))
	read.Close()
	again, err := s.Read("long")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(again.Project()), show(read.Project()); got != want || !strings.Contains(got, "another way") {
		t.Errorf("after opening it on a branch: %s", got)
	}
}

// TestListReadsLittle: a list shows the same of a long session as of a short one.
func TestListReadsLittle(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l := longSession(t, s, "long", 5, 3, 20_000)
	mustAppend(t, l, Entry{Type: TypeSetting, Setting: &Setting{Title: "a title"}}, userText("and more"))
	l.Close()
	pasted, err := s.Create(Header{ID: "pasted"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, pasted, userText("see this\n"+strings.Repeat("\"é", 100_000)))
	pasted.Close()
	quoted, err := s.Create(Header{ID: "quoted"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, quoted, Entry{Type: TypeUser, User: &User{Parts: []llm.Part{llm.Text(`say "hi" and `),
		llm.Text(strings.Repeat("x", 3*summaryBytes))}}}, Entry{Type: TypeTurnEnd, TurnEnd: &TurnEnd{Reason: EndDone}})
	quoted.Close()
	set, err := s.Create(Header{ID: "set"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, set, Entry{Type: TypeSetting, Setting: &Setting{Model: "m"}})
	set.Close()
	all, err := s.List()
	if err != nil || len(all) != 4 {
		t.Fatal(all, err)
	}
	for _, sum := range all {
		if sum.ID == "long" && (sum.First != "part 0" || sum.Title != "a title" || sum.Turns != 6) {
			t.Errorf("%+v", sum)
		}
		if sum.ID == "quoted" && (sum.First != `say "hi" and ` || sum.Turns != 1) {
			t.Errorf("%.100s, %d turns", sum.First, sum.Turns)
		}
		if sum.ID == "set" && !sum.Empty() {
			t.Errorf("a session without a message is not empty: %+v", sum)
		}
		if sum.ID == "pasted" && (!strings.HasPrefix(sum.First, "see this\n\"é") || sum.Empty()) {
			t.Errorf("%.100s, %d turns", sum.First, sum.Turns)
		}
	}
	// The middle of the file is not read.
	path := s.path("long")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := summaryBytes; i < len(data)-summaryBytes; i++ {
		data[i] = 0
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if sum, err := summarize(path); err != nil || sum.Title != "a title" {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestCompleteLastLine: a last line that is complete but not an entry was never reported as written: it is removed.
func TestCompleteLastLine(t *testing.T) {
	for _, last := range []string{"{not json\n", "{\"id\":2,\"parent\":9,\"type\":\"note\",\"note\":{}}\n",
		"{\"id\":2,\"parent\":1,\"type\":\"note\"}\n", "\x00\x00\x00\n"} {
		s := Store{Dir: t.TempDir()}
		l, err := s.Create(Header{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, userText("one"))
		l.Close()
		f, err := os.OpenFile(s.path("s"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(last)
		f.Close()
		l, err = s.Open("s")
		if err != nil || len(l.Damage()) != 1 || len(l.Entries()) != 1 {
			t.Fatalf("%q: %v, damage %q", last, err, l.Damage())
		}
		mustAppend(t, l, userText("two"))
		l.Close()
		if l, err = s.Read("s"); err != nil || len(l.Damage()) != 0 || len(l.Entries()) != 2 {
			t.Errorf("%q: %v, damage %q", last, err, l.Damage())
		}
	}
}

// TestEntryNumbers: entries whose numbers go back, leave a large gap, or have a later parent are left out.
func TestEntryNumbers(t *testing.T) {
	line := func(id, parent int) string {
		return fmt.Sprintf(`{"id":%d,"parent":%d,"time":"2026-01-01T00:00:00Z","type":"note","note":{"model":"%d"}}`+"\n",
			id, parent, id)
	}
	for _, c := range []struct {
		lines string
		want  []int
	}{
		{line(1, 0) + line(2, 1) + line(2, 1) + line(3, 2), []int{1, 2, 3}},
		{line(1, 0) + line(0, 0) + line(2, 1), []int{1, 2}},
		{line(1, 0) + line(-5, 0) + line(2, 1), []int{1, 2}},
		{line(1, 0) + line(2+maxGap, 1) + line(2, 1), []int{1, 2}},
		{line(1, 0) + line(1+maxGap, 1) + line(2+maxGap, 1+maxGap), []int{1, 1 + maxGap, 2 + maxGap}},
		{line(1, 0) + line(2, 2) + line(3, 1), []int{1, 3}},
		{line(1, 0) + line(2, -1) + line(3, 1), []int{1, 3}},
	} {
		s := Store{Dir: t.TempDir()}
		if err := os.WriteFile(s.path("s"), []byte(`{"knack_session":1,"id":"s"}`+"\n"+c.lines), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := s.Read("s")
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, e := range l.Entries() {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.lines, got, c.want)
		}
	}
}

// A countedFile counts calls of Sync.
type countedFile struct {
	file
	synced int
}

func (f *countedFile) Sync() error { f.synced++; return f.file.Sync() }

// TestSync: Sync waits for the disk, and its failure ends the recording.
func TestSync(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mustAppend(t, l, userText("one"))
	counted := &countedFile{file: l.file}
	l.file = counted
	if err := l.Sync(); err != nil || counted.synced != 1 {
		t.Errorf("synced %d times, %v", counted.synced, err)
	}
	l.file = brokenSync{counted}
	if err := l.Sync(); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("a failed sync returned %v", err)
	}
	if _, err := l.Append(userText("two")); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("after a failed sync an entry was accepted: %v", err)
	}
}

// TestNotRecorded: an entry that cannot be recorded is refused: where no file can be made, and after the session was
// closed.
func TestNotRecorded(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: filepath.Join(dir, "sessions")}
	l, err := s.Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Dir, nil, 0o600); err != nil { // where the directory was
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Append(userText("x")); !errors.Is(err, ErrNotRecorded) {
			t.Errorf("without a file: %v", err)
		}
	}
	if _, err := s.List(); err == nil {
		t.Error("a file that is no directory was listed")
	}
	s.Dir = t.TempDir()
	if l, err = s.Create(Header{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("one"))
	l.Close()
	if _, err := l.Append(userText("two")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

type brokenSync struct{ file }

func (brokenSync) Sync() error { return errors.New("input/output error") }

// TestCopy: a copy exists only when it is complete, renumbers what entries refer to, and removes what a killed process
// left.
func TestCopy(t *testing.T) {
	s := Store{Dir: t.TempDir(), Project: "/w"}
	l, err := s.Create(Header{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mustAppend(t, l, userText("gone"), userText("gone too"))
	if err := l.Move(0); err != nil {
		t.Fatal(err)
	}
	activation := Entry{Type: TypeActivation, Activation: &Activation{Skill: "pdf", Hash: "1", Prompt: "TEXT", Tokens: 5}}
	mustAppend(t, l, activation)
	id := l.Last()
	again := Entry{Type: TypeActivation, Activation: &Activation{Skill: "pdf", Hash: "1", Present: id}}
	mustAppend(t, l, again, Entry{Type: TypeRelease, Release: &Release{Entry: id, Skill: "pdf", Tokens: 5}})
	left := filepath.Join(s.Dir, "dead.jsonl"+incomplete)
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	c, err := s.Copy(Header{ID: "b"}, func(yield func(Entry) bool) {
		for e := range l.Walk() {
			if n++; !yield(e) {
				return
			}
			if _, err := os.Lstat(s.path("b")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the copy exists after %d entries", n)
			}
			if all, err := s.List(); err != nil || len(all) != 1 {
				t.Errorf("listed: %+v, %v", all, err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	es := c.Entries()
	if len(es) != 3 || es[1].Activation.Present != 1 || es[2].Release.Entry != 1 {
		t.Errorf("copied %+v", es)
	}
	if got, want := show(c.Project()), show(l.Project()); got != want || strings.Contains(got, "TEXT") {
		t.Errorf("the copy shows\n%s\nthe original\n%s", got, want)
	}
	mustAppend(t, c, userText("goes on"))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Read("b"); err != nil || len(r.Entries()) != 4 {
		t.Errorf("read again: %v", err)
	}
	if got := ids(t, s); got != "b a" {
		t.Errorf("listed: %s", got)
	}
	// A copy with messages is the latest session as soon as it exists.
	next, err := s.Copy(Header{ID: "c"}, l.Walk())
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(s.path("c"), past, past); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s); got != "c b a" {
		t.Errorf("listed after a copy without more: %s", got)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover exists: %v", err)
	}
	// An existing session is not replaced, and a failure leaves nothing.
	if _, err := s.Copy(Header{ID: "a"}, l.Walk()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a session was replaced: %v", err)
	}
	files, err := os.ReadDir(s.Dir)
	for _, f := range files {
		if n := f.Name(); strings.HasSuffix(n, incomplete) || strings.HasPrefix(n, "b.jsonl.lock") {
			t.Errorf("left behind: %s, %v", n, err)
		}
	}
}

// TestFullDisk: a session whose first entry cannot be written leaves no file.
func TestFullDisk(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	for _, left := range []int{0, 10, 60, 120} {
		l, err := s.Create(Header{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		l.wrap = func(f file) file { return &faulty{f, left} }
		if _, err := l.Append(userText(strings.Repeat("x", 200))); !errors.Is(err, ErrNotRecorded) {
			t.Errorf("%d bytes: %v", left, err)
		}
		if _, err := l.Append(userText("x")); err == nil {
			t.Error("an entry was accepted after a failed write")
		}
		l.Close()
		if files, err := os.ReadDir(s.Dir); err != nil || len(files) > 0 {
			t.Errorf("%d bytes: left behind %v, %v", left, files, err)
		}
	}
	if err := os.WriteFile(s.path("empty"), nil, 0o600); err != nil { // as earlier versions left
		t.Fatal(err)
	}
	if all, err := s.List(); err != nil || len(all) > 0 {
		t.Errorf("an empty file: %v, %v", all, err)
	}
}

// TestLocks: of 200 starts of the same session, at most one has it at a time, each that waits gets it, and no lock
// file stays.
func TestLocks(t *testing.T) {
	if dir := os.Getenv("KNACK_TEST_LOCK"); dir != "" {
		lockAndAppend(dir)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := Store{Dir: dir}
	l, err := s.Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("go"))
	l.Close()
	starts := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range starts {
				cmd := exec.Command(exe, "-test.run=^TestLocks$")
				cmd.Env = append(os.Environ(), "KNACK_TEST_LOCK="+dir)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	for i := range 200 {
		starts <- i
	}
	close(starts)
	wg.Wait()
	l, err = s.Read("s")
	if err != nil || len(l.Damage()) > 0 {
		t.Fatal(err, l.Damage())
	}
	if n := len(l.Entries()); n != 201 {
		t.Errorf("%d entries", n)
	}
	if locks, err := filepath.Glob(filepath.Join(dir, "*.lock")); err != nil || len(locks) > 0 &&
		runtime.GOOS != "windows" {
		t.Errorf("left behind: %q, %v", locks, err)
	}
}

func lockAndAppend(dir string) {
	for {
		l, err := Store{Dir: dir}.Open("s")
		if errors.Is(err, ErrLocked) {
			continue
		}
		if err == nil {
			_, err = l.Append(userText("x"))
			err = errors.Join(err, l.Close())
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}
