package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
)

// TestStateIsImmutable: a State does not change after it was taken, although it shares its large maps with the log.
func TestStateIsImmutable(t *testing.T) {
	l := New(Header{})
	add := func(e Entry) {
		t.Helper()
		if _, err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	touched := func(path string) Entry {
		return Entry{Type: TypeUser, User: &User{Parts: []llm.Part{llm.Text("x")}, Touched: []string{path}}}
	}
	listing := map[string]string{"a": "1", "b": "1"}
	add(Entry{Type: TypeListing, Listing: &Listing{Text: "x", Announced: listing}})
	add(touched("/a"))
	before := l.State()
	for _, path := range []string{"/b", "/c"} {
		add(touched(path))
	}
	add(Entry{Type: TypeNote, Note: &Note{Announced: map[string]string{"a": "2", "b": ""}}})
	if want := map[string]bool{"/a": true}; !maps.Equal(before.Touched, want) {
		t.Errorf("touched %v, want %v", before.Touched, want)
	}
	if want := map[string]string{"a": "1", "b": "1"}; !maps.Equal(before.Announced, want) || !maps.Equal(listing, want) {
		t.Errorf("announced %v, listing %v, want %v", before.Announced, listing, want)
	}
	now := l.State()
	if want := map[string]string{"a": "2"}; !maps.Equal(now.Announced, want) || len(now.Touched) != 3 {
		t.Errorf("now announced %v, touched %v", now.Announced, now.Touched)
	}
}

// TestNotesAndCompaction: what notes said counts until a compaction, and after it if the note was kept.
func TestNotesAndCompaction(t *testing.T) {
	l := New(Header{})
	note := func(mode permission.Mode, tool string) Entry {
		return Entry{Type: TypeNote, Note: &Note{Mode: mode, Tools: []string{tool}, Rules: []string{tool + ".md"}}}
	}
	mustAppend(t, l, userText("one"), note(permission.Plan, "a"), userText("two"), note(permission.Default, "b"))
	if s := l.State(); s.NotedMode != permission.Default || !slices.Equal(s.Tools, []string{"a", "b"}) {
		t.Errorf("mode %s, tools %q", s.NotedMode, s.Tools)
	}
	mustAppend(t, l, Entry{Type: TypeCompaction, Compaction: &Compaction{Summary: "S", Kept: 3}})
	if s := l.State(); s.NotedMode != permission.Default || !slices.Equal(s.Tools, []string{"b"}) ||
		!slices.Equal(s.Rules, []string{"b.md"}) {
		t.Errorf("after a compaction: mode %s, tools %q, rules %q", s.NotedMode, s.Tools, s.Rules)
	}
	mustAppend(t, l, Entry{Type: TypeCompaction, Compaction: &Compaction{Trigger: TriggerClear}})
	if s := l.State(); s.NotedMode != "" || len(s.Tools)+len(s.Rules) > 0 {
		t.Errorf("emptied: mode %s, tools %q, rules %q", s.NotedMode, s.Tools, s.Rules)
	}
	// A copy of an emptied session is empty, too.
	c, err := Store{Dir: t.TempDir()}.Fork(l, "copy")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := show(c.Project()); got != show(l.Project()) || strings.Contains(got, "two") {
		t.Errorf("the copy shows\n%s", got)
	}
}

// TestCalledAgain: a skill that is called again counts as used then, and no other does.
func TestCalledAgain(t *testing.T) {
	l := New(Header{})
	load := func(skill string, present int) Entry {
		return Entry{Type: TypeActivation, Activation: &Activation{Skill: skill, Hash: skill, Prompt: skill,
			Present: present}}
	}
	mustAppend(t, l, load("a", 0), load("b", 0), Entry{Type: TypeTurnEnd, TurnEnd: &TurnEnd{Reason: EndDone}},
		load("b", 2))
	if texts := l.State().Texts; len(texts) != 2 || texts[0].Turn != 1 || texts[1].Turn != 2 {
		t.Errorf("%+v", texts)
	}
}

// TestAgentLine: the line of a sub-agent says how it ended.
func TestAgentLine(t *testing.T) {
	for want, a := range map[string]Agent{
		"agent x: look": {Name: "x", Task: "look"},
		"agent x: look (error, 2 requests, 7 tokens, $0.5000, 1 call refused): no answer": {Name: "x", Task: "look",
			Reason: EndError, Requests: 2, Usage: map[string]llm.Usage{"m": {Output: 7}}, Cost: 0.5, Denials: 1,
			Error: "no answer"},
	} {
		if got := a.Line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestIncomplete: a line without the field for its type is no entry.
func TestIncomplete(t *testing.T) {
	for _, kind := range []Type{TypeUser, TypeAnswer, TypeStarted, TypeResult, TypeDecision, TypeActivation, TypeNote,
		TypeTurnEnd, TypeRelease, TypeSetting, TypeListing, TypeCompaction, TypeAgent, TypeMove} {
		if e := (Entry{ID: 1, Type: kind}); e.isValid() {
			t.Errorf("%s without its field is an entry", kind)
		}
	}
}

// TestStateAllocates: taking the State costs the same with 10,000 skills.
func TestStateAllocates(t *testing.T) {
	l := New(Header{})
	announced := map[string]string{}
	for i := range 10_000 {
		announced[fmt.Sprint("skill", i)] = "x"
	}
	if _, err := l.Append(Entry{Type: TypeListing, Listing: &Listing{Announced: announced}}); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { l.State() }); n > 0 {
		t.Errorf("a state has %v allocations, want none", n)
	}
}
