package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/run/llm"
)

// TestCut: where a conversation is cut, marked by the bar. A letter stands for an entry, a number for its size in
// bytes (default 10): u the user's text, s steering, i an attached picture (6,000), t an answer of text with signed
// thinking, p one that was cut off, c an answer with a call, d with two, r the result of the next call, m a skill
// that a call loaded, k one that the user typed, n a note, g an agent that has ended (g0: the result of a call), e
// the end of a turn, z a compaction that keeps nothing, y one that keeps the last two.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		what        string
		most, limit int
		want        string
	}{
		{"everything is new", 100, 100, "| u"},
		{"between turns nothing must be kept", 5, 100, "u t e |"},
		{"what fits is kept", 20, 100, "u t e | u t e"},
		{"what almost fits is not", 19, 100, "u t e u | t e"},
		{"a new message is kept whatever its size", 5, 5, "u t e | u500"},
		{"and so is the note after it", 5, 5, "u t e | u n500"},
		{"two unanswered messages", 5, 100, "u t e | u n e u"},
		{"an answer that was cut off", 15, 100, "u t e u p | u10"},
		{"and may be kept", 20, 100, "u t e u | p u10"},
		{"a call and its result", 100, 100, "u t e u50 | c r80"},
		{"a call with a large result that is not yet answered", 10, 200, "u t e u | c r150"},
		{"more than the limit", 10, 100, "u t e u c r150 |"},
		{"more than the limit, and steering", 10, 100, "u c r150 | s"},
		{"steering with what it follows", 10, 100, "u | c r20 s"},
		{"parallel calls", 100, 100, "u c r u50 | d r40 r40"},
		{"answered calls", 50, 100, "u c r | d r10 r10 t"},
		{"parallel calls are not separated", 39, 100, "u c r d r10 r10 | t"},
		{"a skill is kept with its call", 45, 100, "u t | c r m t"},
		{"a skill is cut with its call", 35, 100, "u t c r m | t"},
		{"a skill that was just loaded", 5, 100, "u t e u | c r m30"},
		{"a typed skill counts as the user's text", 5, 5, "u t e | k500"},
		{"an earlier typed skill", 20, 100, "u t e | k t e"},
		{"a skill typed during a turn", 10, 100, "u c r t | k"},
		{"the answer of a background agent", 5, 5, "u t e | g500"},
		{"and may be kept", 555, 5, "u t e | g500 t e"},
		{"an agent that the call waited for", 25, 100, "u c g0 r | t e"},
		{"a picture", 5000, 9000, "u t e u i | t e"},
		{"a picture that is new", 10, 10, "u t e | u6010"},
		{"a call without a result", 10, 100, "u t e u | c"},
		{"a call without a result, and a new message", 10, 100, "u t e u | c e u"},
		{"entries before a compaction are not considered", 1000, 1000, "u t e z | u t e"},
		{"but those that it kept are", 10, 1000, "u t e u t y u t e | u"},
		{"and may be kept", 1000, 1000, "u t e . u t y u t e"},
	} {
		l := New(Header{ID: "s"})
		calls, results := 0, 0
		id := func(n int) string { return fmt.Sprint("call", n) }
		want, from, seen := -1, 0, 0
		for _, w := range strings.Fields(c.want) {
			n := 10
			if len(w) > 1 {
				n, _ = strconv.Atoi(w[1:])
			}
			text := []llm.Part{llm.Text(strings.Repeat("x", n))}
			say := func(calling int) Entry {
				m := llm.Message{Role: llm.Assistant, Parts: text}
				for range calling {
					calls++
					m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: id(calls)}})
				}
				return Entry{Type: TypeAnswer, Answer: &Answer{Message: m}}
			}
			var e Entry
			switch w[0] {
			case '|':
				want = seen - from
				continue
			case '.':
				want = 0
				continue
			case 'u', 's':
				e = Entry{Type: TypeUser, User: &User{Parts: text, Steering: w[0] == 's'}}
			case 'i':
				e = Entry{Type: TypeUser, User: &User{Parts: []llm.Part{{Media: &llm.Media{MIME: "image/png"}}}}}
			case 't', 'p':
				e = say(0)
				e.Answer.Message.Parts = []llm.Part{{Thinking: &llm.Thinking{Text: strings.Repeat("x", n/2),
					Opaque: strings.Repeat("x", n-n/2)}}}
				e.Answer.Partial = w[0] == 'p'
			case 'c':
				e = say(1)
			case 'd':
				e = say(2)
			case 'r':
				results++
				e = Entry{Type: TypeResult, Result: &Result{ToolResult: llm.ToolResult{ID: id(results), Parts: text}}}
			case 'm', 'k':
				e = Entry{Type: TypeActivation, Activation: &Activation{Skill: "x", Prompt: text[0].Text}}
				if w[0] == 'm' {
					e.Activation.Call = id(calls)
				}
			case 'n':
				e = Entry{Type: TypeNote, Note: &Note{Model: text[0].Text}}
			case 'g':
				e = Entry{Type: TypeAgent, Agent: &Agent{Name: "x", Reason: "done", Result: text[0].Text, Background: true}}
				if n == 0 {
					e.Agent.Call, e.Agent.Background = id(calls), false
				}
			case 'e':
				e = Entry{Type: TypeTurnEnd, TurnEnd: &TurnEnd{}}
			case 'z':
				e = Entry{Type: TypeCompaction, Compaction: &Compaction{Summary: "S"}}
				from = seen
			case 'y':
				e = Entry{Type: TypeCompaction, Compaction: &Compaction{Summary: "S", Kept: l.Last() - 1}}
				from = seen - 2
			}
			mustAppend(t, l, e)
			if w[0] != 'z' && w[0] != 'y' {
				seen++
			}
		}
		old, kept, previous := l.Cut(c.most, c.limit)
		if len(old) != want || len(old)+len(kept) != seen-from || (previous != nil) != strings.ContainsAny(c.want, "yz") {
			t.Errorf("%s: %q was cut after %d of %d, want %d", c.what, c.want, len(old), len(old)+len(kept), want)
		}
		if len(kept) == 0 {
			continue
		}
		// What is kept is shown to the model as before.
		before := l.Project()
		mustAppend(t, l, Entry{Type: TypeCompaction, Compaction: &Compaction{Summary: "S", Kept: kept[0].ID}})
		after := l.Project()
		n := 0
		for i, m := range after {
			if i > 0 && m.Role == llm.Assistant {
				n++
			}
		}
		a, b := show(after), show(before)
		last := a[strings.LastIndex(a, "</summary>\n")+len("</summary>\n"):]
		last = strings.TrimPrefix(last, "  text: ") // a result may precede the text
		if !strings.HasSuffix(b, last) {
			t.Errorf("%s: after the compaction the model sees\n%s\nbefore it saw\n%s", c.what, a, b)
		}
	}
}

// TestSize: the estimate is calibrated by the provider's counts.
func TestSize(t *testing.T) {
	l := New(Header{ID: "s"})
	want := func(what string, tokens int, rate float64) {
		t.Helper()
		if n, r := l.Size(400); n != tokens || r != rate {
			t.Errorf("%s: %d tokens at %.3f, want %d at %.3f", what, n, r, tokens, rate)
		}
	}
	answer := func(bytes int, u llm.Usage) Entry {
		return Entry{Type: TypeAnswer, Answer: &Answer{Usage: u,
			Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text(strings.Repeat("x", bytes))}}}}
	}
	want("empty", 100, 0.25)
	mustAppend(t, l, userText(strings.Repeat("x", 600)))
	want("nothing counted", 250, 0.25)
	mustAppend(t, l, answer(100, llm.Usage{Input: 100, CacheRead: 300, CacheWrite: 100, Output: 30}))
	want("counted", 530, 0.5)
	mustAppend(t, l, userText(strings.Repeat("x", 200)))
	want("and what came since", 630, 0.5)
	mustAppend(t, l, answer(10, llm.Usage{}))
	want("an answer that was cut off is not counted", 635, 0.5)
	mustAppend(t, l, Entry{Type: TypeActivation, Activation: &Activation{Skill: "x", Prompt: strings.Repeat("x", 1000)}})
	want("a skill", 1135, 0.5)
	mustAppend(t, l, Entry{Type: TypeRelease, Release: &Release{Entry: 5, Skill: "x", Tokens: 250}})
	line := (&Release{Skill: "x", Tokens: 250}).Line()
	want("released", 635+len(line)/2, 0.5)
	c := &Compaction{Summary: "S", Kept: 3}
	n := l.SizeAfter(c, 400)
	mustAppend(t, l, Entry{Type: TypeCompaction, Compaction: c})
	want("compacted", (400+len(c.summaryText())+200+10+len(line))/2, 0.5)
	want("as was foretold", n, 0.5)
	mustAppend(t, l, userText("xx"))
	want("and what came since", n+1, 0.5)
	mustAppend(t, l, answer(10, llm.Usage{Input: 90_000}))
	want("a strange count", 90_000, 1)
}

// TestCompactDamaged: what a compaction keeps is found even if the entry that it names is unreadable, in a copy of
// the session as well.
func TestCompactDamaged(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("one"), userText("two"), userText("three"), userText("four"),
		Entry{Type: TypeCompaction, Compaction: &Compaction{Summary: "S", Kept: 3}}, userText("five"))
	l.Close()
	text, err := os.ReadFile(s.path("s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("s"), []byte(strings.Replace(string(text), "three", "\x00", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err = s.Open("s"); err != nil || len(l.Damage()) != 1 {
		t.Fatal(err, l.Damage())
	}
	defer l.Close()
	copied, err := s.Fork(l, "copy")
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	got := show(l.Project())
	if show(copied.Project()) != got || !strings.Contains(got, "</summary>\n  text: four\n  text: five\n") {
		t.Errorf("the model sees\n%s\nand in the copy\n%s", got, show(copied.Project()))
	}
}

// FuzzOpen: any file is refused, or becomes a session that can be shown, compacted and continued.
func FuzzOpen(f *testing.F) {
	paths, err := filepath.Glob("testdata/project/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		var text strings.Builder
		for i, line := range strings.Split(strings.TrimSpace(string(ar.Files[0].Data)), "\n") {
			fmt.Fprintf(&text, "{\"id\":%d,\"parent\":%d,%s\n", i+1, i, strings.TrimPrefix(line, "{"))
		}
		f.Add(text.String())
	}
	f.Add(`{"id":1,"parent":0,"type":"user"}` + "\n" + `{"id":2,"parent":0,"type":"compaction"}` + "\n" +
		`{"id":3,"parent":0,"type":"later"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := Store{Dir: t.TempDir()}
		if err := os.WriteFile(s.path("s"), []byte(`{"knack_session":1,"id":"s"}`+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := s.Read("s")
		if err != nil {
			return
		}
		l := refolded(read) // in memory
		st := l.State()
		for _, x := range st.Texts {
			l.Behind(x.Entry)
		}
		_, kept, _ := l.Cut(100, 1000)
		c := &Compaction{Summary: "S"}
		if len(kept) > 0 {
			c.Kept = kept[0].ID
		}
		for _, x := range st.Texts {
			c.Skills = append(c.Skills, KeptText{Entry: x.Entry, Skill: x.Skill, Tokens: x.Tokens})
		}
		l.SizeAfter(c, 0)
		l.Project()
		mustAppend(t, l, Entry{Type: TypeCompaction, Compaction: c}, userText("on"))
		now, err := json.Marshal(l.Project())
		again, err2 := json.Marshal(refolded(l).Project())
		if err != nil || err2 != nil || !bytes.Equal(now, again) {
			t.Errorf("replayed from the start the view is\n%s\nwant\n%s", again, now)
		}
		if n, _ := l.Size(0); n < 0 {
			t.Errorf("size %d", n)
		}
	})
}
