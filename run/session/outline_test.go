package session

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A folded is the Folder of these tests.
type folded struct {
	begun   int
	entries []Entry
}

func (f *folded) Begin()       { f.begun, f.entries = f.begun+1, nil }
func (f *folded) Fold(e Entry) { f.entries = append(f.entries, e) }

func (f *folded) ids() (ids []int) {
	for _, e := range f.entries {
		ids = append(ids, e.ID)
	}
	return ids
}

// reduced returns what of an entry a Folder gets at least.
func reduced(e Entry) Entry {
	e.Time = time.Time{}
	switch {
	case e.User != nil:
		e.User = &User{Steering: e.User.Steering}
	case e.Answer != nil:
		a := e.Answer
		e.Answer = &Answer{Model: a.Model, Usage: a.Usage, Cost: a.Cost, Partial: a.Partial}
	case e.Started != nil:
		e.Started = &Started{}
	case e.Result != nil:
		e.Result = &Result{Spent: e.Result.Spent}
	case e.Decision != nil:
		e.Decision = &Decision{}
	case e.Note != nil:
		e.Note = &Note{Spent: e.Note.Spent}
	case e.TurnEnd != nil:
		e.TurnEnd = &TurnEnd{}
	case e.Listing != nil:
		e.Listing = &Listing{}
	case e.Seen != nil:
		e.Seen = &Seen{}
	}
	return e
}

func allReduced(es []Entry) (all []Entry) {
	for _, e := range es {
		all = append(all, reduced(e))
	}
	return all
}

// checkOutline compares an outline with the session as it is read whole.
func checkOutline(t *testing.T, s Store, o *Outline, f *folded) {
	t.Helper()
	l, err := s.Read(o.Header().ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(allReduced(l.Branch()), allReduced(f.entries)); diff != "" {
		t.Errorf("(-read whole +outline):\n%s", diff)
	}
	if !slices.Equal(l.Damage(), o.Damage()) {
		t.Errorf("damage %q, read whole %q", o.Damage(), l.Damage())
	}
	st := l.State()
	if diff := cmp.Diff(Totals{st.Title, st.Turns, st.Usage, st.Cost}, o.Totals()); diff != "" {
		t.Errorf("totals (-read whole +outline):\n%s", diff)
	}
	if !slices.Equal(o.Branch(), f.ids()) {
		t.Errorf("branch %v, folded %v", o.Branch(), f.ids())
	}
	if diff := cmp.Diff(l.Branch(), o.Entries(o.Branch()...)); diff != "" {
		t.Errorf("entries (-read whole +outline):\n%s", diff)
	}
}

// TestOutline follows a session while it is written: entries of all types, a move to another branch, an entry that is
// written in two pieces, one that cannot be read, and at last another file in its place.
func TestOutline(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("one"))
	f := &folded{}
	o, err := s.Outline("a", f)
	if err != nil {
		t.Fatal(err)
	}
	checkOutline(t, s, o, f)
	update := func(what string, begun bool) {
		t.Helper()
		before := f.begun
		if changed, err := o.Update(); err != nil || !changed {
			t.Errorf("%s: %v, %v", what, changed, err)
		}
		if (f.begun > before) != begun {
			t.Errorf("%s: begun again: %v", what, !begun)
		}
		checkOutline(t, s, o, f)
	}
	for _, e := range every() {
		mustAppend(t, l, e)
		update(string(e.Type), e.Type == TypeMove)
	}
	mustAppend(t, l, userText("after the move"))
	update("after the move", false)
	if changed, err := o.Update(); err != nil || changed {
		t.Errorf("nothing new: %v, %v", changed, err)
	}
	l.Close()

	write := func(text string) {
		t.Helper()
		file, err := os.OpenFile(s.path("a"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	write(`{"id":18,"parent":17,"time":"2026-01-02T03:04:05Z","type":"user","us`)
	update("half an entry", false)
	write(`er":{"parts":[{"text":"late"}]}}` + "\n")
	update("the other half", false)
	if len(o.Damage()) > 0 {
		t.Errorf("damage that is none any more: %q", o.Damage())
	}
	write("{\"id\":19,\"parent\":18,\"type\":\"user\",\"user\":{\"parts\":[{\"text\":\"\x00\"}]}}\n" +
		`{"id":20,"parent":19,"time":"2026-01-02T03:04:05Z","type":"user","user":{"parts":[{"text":"next"}]}}` + "\n")
	update("a damaged entry", true) // the branch has a gap

	data, err := os.ReadFile(s.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.ReplaceAll(string(data), `"late"`, `"LATE"`)
	if err := os.WriteFile(s.path("a"), []byte(other+strings.Repeat(" ", 300)), 0o600); err != nil {
		t.Fatal(err)
	}
	update("another text near the end, and something that is no entry", true)
	if err := os.WriteFile(s.path("a"), data[:strings.Index(string(data), `{"id":5`)], 0o600); err != nil {
		t.Fatal(err)
	}
	update("a shorter file", true)
	if err := os.WriteFile(s.path("a"), []byte("no session\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Update(); err == nil {
		t.Error("a file that is no session was read")
	}
	if err := os.WriteFile(s.path("a"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	update("the file is back", true)
	os.Remove(s.path("a"))
	if _, err := o.Update(); err == nil {
		t.Error("a file that does not exist was read")
	}
	for _, id := range []string{"", "../a", "none"} {
		if _, err := s.Outline(id, f); err == nil {
			t.Errorf("the outline of %q", id)
		}
	}
}

// TestBrief: the lines that a session mostly consists of are not decoded whole.
func TestBrief(t *testing.T) {
	whole := []Type{TypeActivation, TypeRelease, TypeSetting, TypeCompaction, TypeAgent, TypeMove, "later"}
	for _, e := range every() {
		e.ID, e.Answer = 1, smallUsage(e.Answer)
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := scanEntry(append(line, '\n'))
		if ok == slices.Contains(whole, e.Type) {
			t.Errorf("%s: scanned: %v", e.Type, ok)
		}
		if diff := cmp.Diff(reduced(e), got); ok && diff != "" {
			t.Errorf("%s (-want +got):\n%s", e.Type, diff)
		}
	}
}

// TestBriefLong: a long line is read at its ends, unless it may be more or less than one entry.
func TestBriefLong(t *testing.T) {
	const head = `{"id":7,"parent":6,"time":"2026-01-01T00:00:00Z","type":"result","result":{"parts":[{"text":"`
	text := strings.Repeat("x", longLine)
	for line, want := range map[string]bool{
		head + text + "\"}]}}\n":                                        true,
		head + text + "\"}]}}":                                          true,
		head + text + "\"}],\"spent\":[{\"cost\":1}]}}\n":               false, // decoded whole, for what was spent
		head + text + "\n":                                              false,
		head + text + "\x00\"}]}}\n":                                    false,
		head + text + `{"id":8,"parent":7,"type":"result","result":{}}`: false,
		strings.Replace(head, `"parent":6,`, "", 1) + text + "\"}]}}\n": true, // checked whole
	} {
		if got, ok := scanEntry([]byte(line)); ok != want || ok && (got.ID != 7 || got.Result == nil) {
			t.Errorf("%.80s … %q: %v, %v", line, line[max(0, len(line)-50):], got, ok)
		}
	}
}

func smallUsage(a *Answer) *Answer {
	if a != nil {
		a.Usage.CacheRead = 123456789
	}
	return a
}

// FuzzBrief: what is said of a line without decoding it whole is what encoding/json says.
func FuzzBrief(f *testing.F) {
	for _, e := range every() {
		e.ID, e.Answer = 1, smallUsage(e.Answer)
		line, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	for _, body := range []string{`{}`, `null`, `[]`, `{"a":[[],{},{"b":[1,-0.5e+9,true,false,null,"\u00e9"]}]}`, `{"a":01}`,
		`{"a":1.}`, `{"a":[1,]}`, `{"a":{"b"}}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":]}`, `{"a":nul}`, `{"steering":true}`,
		`{"Steering":true}`, `{"a":1},"user":{}`, `{"a":1},"time":"2026-01-02T03:04:05Z"`, `{"a":"` + "\x01" + `"}`} {
		f.Add([]byte(`{"id":1,"parent":0,"type":"user","user":` + body + `}`))
	}
	for _, body := range []string{`{"cost":1e999}`, `{"cost":-0}`, `{"cost":"1"}`, `{"model":"\u0041"}`, `{"model":` + "\"\xff\"}",
		`{"usage":{"input":007}}`, `{"usage":{"input":1,"Input":2}}`, `{"usage":null}`, `{"usage":{"input":12345678901}}`} {
		f.Add([]byte(`{"id":1,"parent":0,"type":"answer","answer":` + body + `}`))
	}
	f.Add([]byte(`{"id":1,"parent":0,"type":"started","started":{}}`))
	f.Add([]byte(`{"id":1,"parent":0,"type":"","":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := scanEntry(line)
		if !ok || len(line) > longLine { // of a long line, only the ends are read
			return
		}
		if !json.Valid(line) {
			t.Fatalf("%q is not JSON", line)
		}
		var want Entry
		if json.Unmarshal(line, &want) != nil {
			return // the form is right, but not the content
		}
		if diff := cmp.Diff(reduced(want), got); diff != "" {
			t.Fatalf("%q (-encoding/json +scanned):\n%s", line, diff)
		}
	})
}
