package session

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/run/llm"
)

// every returns an entry of each type, and one of an unknown type.
func every() []Entry {
	call := &llm.ToolCall{ID: "c", Name: "bash", Input: json.RawMessage(`{"command":"ls"}`)}
	broken := &llm.ToolCall{ID: "d", Name: "bash", Input: json.RawMessage(`{"command":`)}
	text := []llm.Part{llm.Text("a \"line\"\n<b>é世🙂\u2028&")}
	media := llm.Part{Media: &llm.Media{MIME: "image/png", Data: []byte{0, 1, 255}}}
	return []Entry{
		{Type: TypeUser, User: &User{Parts: append(text, media), Touched: []string{"/a"}, Typed: "x"}},
		{Type: TypeAnswer, Answer: &Answer{Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{
			{Thinking: &llm.Thinking{Text: "t", Opaque: "o", From: "m"}}, {Call: call}, {Call: broken}}},
			Stop: llm.ToolUse, Usage: llm.Usage{Input: 1, CacheRead: 1 << 40}, Cost: 0.1, Model: "m", Partial: true}},
		{Type: TypeStarted, Started: &Started{Call: "c", Name: "bash"}},
		{Type: TypeResult, Result: &Result{ToolResult: llm.ToolResult{ID: "c", Name: "bash", Parts: text, IsError: true},
			Details: json.RawMessage(`{"diff":[1,null]}`)}},
		{Type: TypeDecision, Decision: &Decision{Call: "c", Tool: "bash", Asked: true, Answer: "once"}},
		{Type: TypeActivation, Activation: &Activation{Skill: "pdf", Prompt: "p", Grants: []string{"Read"}, Tokens: 3,
			Hooks: json.RawMessage(`{"Stop":[]}`)}},
		{Type: TypeNote, Note: &Note{Model: "n", Announced: map[string]string{"pdf": "1"}, Skills: &SkillChanges{}}},
		{Type: TypeTurnEnd, TurnEnd: &TurnEnd{Reason: EndDone}},
		{Type: TypeRelease, Release: &Release{Entry: 6, Skill: "pdf"}},
		{Type: TypeSetting, Setting: &Setting{Model: "m", Mode: "plan"}},
		{Type: TypeListing, Listing: &Listing{Text: "l", Cut: true}},
		{Type: TypeCompaction, Compaction: &Compaction{Trigger: TriggerAuto, Typed: []string{"x"}, Cost: 1e-9}},
		{Type: TypeAgent, Agent: &Agent{Name: "a", Log: "1", Usage: map[string]llm.Usage{"m": {Output: 2}}}},
		{Type: TypeMove, Move: &Move{To: 3}},
		{Type: "later"},
	}
}

// TestRecord: a log keeps all fields of an entry of each type, in memory and in the file.
func TestRecord(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	l, err := s.Create(Header{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var want []Entry
	for i, e := range every() {
		e.ID, e.Time = i+1, time.Date(2026, 1, 2, 3, 4, i, 678_900_001, time.UTC)
		written, err := l.Append(e)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, written)
	}
	if diff := cmp.Diff(want, l.Entries()); diff != "" {
		t.Errorf("in memory (-appended +kept):\n%s", diff)
	}
	l.Close()
	if l, err = s.Read("a"); err != nil || len(l.Damage()) > 0 {
		t.Fatal(err, l.Damage())
	}
	if diff := cmp.Diff(want, l.Entries()); diff != "" {
		t.Errorf("from the file (-appended +read):\n%s", diff)
	}
}

// FuzzRead: a line that encoding/json decodes as an entry is read as the same entry.
func FuzzRead(f *testing.F) {
	for _, e := range every() {
		line, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	for _, line := range []string{
		`{"id":1,"ID":2,"id":null,"type":"user","user":{"parts":[null,{"text":"\ud800\ud83d\ude00\u0000"}]}}`,
		`{"id":1e1}`, `{"id":1.0}`, `{"id":99999999999999999999}`, `{"user":[]}`,
		"{\"type\":\"a\xff\"}", `{"type":"a` + "\x01" + `"}`,
		`{"time":"2026-01-02T03:04:05.123456789+01:00"}`, `{"time":null}`, `{"time":"x"}`,
		`null`, `[]`, `{} {}`, ` {"id":1} `,
		`{"answer":{"message":{"parts":[{"call":{"input":"x","broken":"{"}}]}}}`,
		`{"result":{"parts":[{"media":{"data":"AP8"}}]}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var want, got Entry
		wrong := json.Unmarshal(line, &want)
		err := fastjson.Unmarshal(line, &got)
		if wrong != nil {
			return // a damaged line may be read in part, as long as nothing panics
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-encoding/json +read):\n%s", line, diff)
		}
	})
}

// TestDeepLine reads a damaged line whose nesting would overflow the stack. Found by attack: it ended the program, and
// "knack -c" in that directory with it.
func TestDeepLine(t *testing.T) {
	for _, line := range []string{strings.Repeat("[", 5_000_000), `{"user":` + strings.Repeat(`{"a":`, 3_000_000)} {
		var e Entry
		if fastjson.Unmarshal([]byte(line), &e) == nil {
			t.Errorf("%.20s… was accepted", line)
		}
	}
}
