package transcript_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/engine/transcript/claude"
	"github.com/knack-agent/knack/engine/transcript/pi"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

func options(name string) transcript.ReadOptions {
	return transcript.ReadOptions{Name: name, Agents: []transcript.Importer{claude.Agent, pi.Agent}}
}

func read(t testing.TB, text string) *transcript.Transcript {
	t.Helper()
	got, err := transcript.Read(strings.NewReader(text), options("x.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReadBack: a session that was exported as JSON Lines is imported as the same session, and exported the same
// again.
func TestReadBack(t *testing.T) {
	l := transcript.Rich(t)
	first := transcript.Written(t, l, transcript.JSONL)
	got := read(t, first)
	// The type of the last entry is unknown to this program, and its line is left out.
	var want []session.Entry
	for _, e := range l.Branch()[:l.Last()-1] {
		data, err := json.Marshal(e) // which encodes an & differently
		if err != nil {
			t.Fatal(err)
		}
		var same session.Entry
		if err := json.Unmarshal(data, &same); err != nil {
			t.Fatal(err)
		}
		want = append(want, same)
	}
	if d := cmp.Diff(want, got.Log.Branch()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Message, `"weather"`) {
		t.Errorf("problems: %v", got.Problems)
	}
	lines := strings.SplitAfter(first, "\n")
	whole := strings.Join(lines[1:len(lines)-2], "")
	_, again, _ := strings.Cut(transcript.Written(t, got.Log, transcript.JSONL), "\n")
	if again != whole {
		t.Errorf("exported again\n%s\nwant\n%s", again, whole)
	}
	if got.Agent != transcript.Knack || got.ID != l.ID() || got.Dir != l.Header().Dir {
		t.Errorf("got %s %s %s", got.Agent, got.ID, got.Dir)
	}
}

// TestReadBranch: from a file with branches, the one that it ends on is read.
func TestReadBranch(t *testing.T) {
	l := transcript.LogOf(t, transcript.User(llm.Text("one")), transcript.Answer(llm.EndTurn, llm.Text("1")),
		transcript.User(llm.Text("two")))
	if err := l.Move(2); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(transcript.User(llm.Text("three"))); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	enc := json.NewEncoder(&file)
	enc.Encode(l.Header())
	for _, e := range l.Branch() {
		enc.Encode(e)
	}
	got := transcript.Written(t, read(t, file.String()).Log, transcript.JSONL)
	if strings.Contains(got, "two") || !strings.Contains(got, "three") || !strings.Contains(got, `"id":3,"parent":2`) {
		t.Errorf("got\n%s", got)
	}
}

// TestReadHostile: a file in Knack's format that somebody else made grants no permission and causes no failure. Found
// by attack: an imported session chose the model that continues it.
func TestReadHostile(t *testing.T) {
	head := `{"knack_session":1,"id":"x","dir":"/","time":"2026-11-03T09:30:00Z"}` + "\n"
	for _, line := range []string{
		`{"id":1,"parent":0,"type":"user"}`,
		`{"id":1,"parent":0,"type":"user","answer":{}}`,
		`{"id":1,"parent":0,"type":"user","user":{},"answer":{}}`,
		`{"id":1,"parent":1,"type":"user","user":{}}`,
		`{"id":-1,"parent":-2,"type":"user","user":{}}`,
		`{"id":1,"parent":0,"type":"result"}`,
		`{"id":1,"parent":0,"type":"","user":{}}`,
		`{"id":1,"parent":0,"type":"answer","answer":{"message":{"role":"user","parts":[]},"usage":{"input":0,"output":0,` +
			`"cache_read":0,"cache_write":0}}}`,
		`{"id":1,"parent":0,"type":"user","user":{"parts":[{"result":{"id":"1","name":"x","parts":[]}}]}}`,
		`{"id":1}`, `[]`, `nonsense`, `{"id":1,"parent":"0"}`,
	} {
		got := read(t, head+line+"\n")
		if got.Log.Last() != 0 || len(got.Problems) != 1 || got.Problems[0].Line != 2 {
			t.Errorf("%s: %d entries, problems %v", line, got.Log.Last(), got.Problems)
		}
	}
	got := read(t, head+`{"id":1,"parent":0,"type":"activation","activation":{"skill":"x","by":"user","hash":"x",`+
		`"notice":"x","prompt":"p","tokens":1,"grants":["Bash"],"hooks":{"Stop":[]},"dir":"/x"}}`+"\n")
	if st := got.Log.State(); len(st.Scopes) != 0 || strings.Contains(transcript.Written(t, got.Log, transcript.JSONL),
		"hooks") {
		t.Errorf("scopes %v in\n%s", st.Scopes, transcript.Written(t, got.Log, transcript.JSONL))
	}
	got = read(t, head+`{"id":1,"parent":0,"type":"setting","setting":{"mode":"bypassPermissions","model":"x/y",`+
		`"title":"t"}}`+"\n")
	if s := *got.Log.Entries()[0].Setting; s != (session.Setting{Title: "t"}) {
		t.Errorf("%+v, want only the title", s)
	}
	got = read(t, head+`{"id":1,"parent":0,"type":"goal","goal":{"text":"t","check":"touch x","by":"user","state":"open"}}`+
		"\n"+`{"id":2,"parent":1,"type":"setting","setting":{"title":"t"}}`+"\n")
	if all := got.Log.Entries(); len(all) != 1 || all[0].Goal != nil {
		t.Errorf("%+v, want only the title", all)
	}
}

func TestReadNothing(t *testing.T) {
	for _, text := range []string{"", "\n\n", "hello", "{}", `{"type":"user"}`, `{"knack_session":99}`, `[1,2]`,
		"\x00\xff", `{"a":` + strings.Repeat("[", 20000)} {
		if got, err := transcript.Read(strings.NewReader(text), options("")); err == nil {
			t.Errorf("%q was read as %s", text, got.Agent)
		}
	}
}

// TestReadLong: a line that is too long is skipped without being held in memory.
func TestReadLong(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow for -short: a line of 100 MiB")
	}
	head := `{"type":"session","version":3,"id":"x","cwd":"/"}` + "\n"
	tail := "\n" + `{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"hello"}}` + "\n"
	in := strings.NewReader(head + strings.Repeat("x", transcript.MaxLine+10) + tail)
	got, err := transcript.Read(in, options(""))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Problems) != 1 || got.Problems[0].Line != 2 || got.Log.State().Turns != 1 {
		t.Errorf("problems %v", got.Problems)
	}
}

// TestReadEndless: endless input is refused.
func TestReadEndless(t *testing.T) {
	if _, err := transcript.Lines(zeros{}, 1<<20); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("got %v", err)
	}
	if all, err := transcript.Lines(strings.NewReader("{}\n{}\n"), 6); err != nil || len(all) != 2 {
		t.Errorf("got %v, %v", all, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// show returns a conversation as the model gets it, one line per part.
func show(all []llm.Message) string {
	var b strings.Builder
	for _, m := range all {
		for _, p := range m.Parts {
			switch {
			case p.Thinking != nil:
				fmt.Fprintf(&b, "%s thinks %q signed %q from %q\n", m.Role, p.Thinking.Text, p.Thinking.Opaque, p.Thinking.From)
			case p.Media != nil:
				fmt.Fprintf(&b, "%s shows %s\n", m.Role, p.Media.MIME)
			case p.Call != nil:
				fmt.Fprintf(&b, "%s calls %s %s %s\n", m.Role, p.Call.ID, p.Call.Name, p.Call.Input)
			case p.Result != nil:
				fmt.Fprintf(&b, "%s result %s %t", m.Role, p.Result.ID, p.Result.IsError)
				for _, q := range p.Result.Parts {
					if q.Media != nil {
						fmt.Fprintf(&b, " [%s]", q.Media.MIME)
					} else {
						fmt.Fprintf(&b, " %q", q.Text)
					}
				}
				b.WriteString("\n")
			default:
				fmt.Fprintf(&b, "%s %q\n", m.Role, p.Text)
			}
		}
	}
	return b.String()
}

// TestReadOthers: the model's view of another agent's transcript, in full; the names of tools are unchanged here.
func TestReadOthers(t *testing.T) {
	for _, name := range []string{"claude", "pi"} {
		got := read(t, fixture(t, name+".jsonl"))
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s\n%s\n%s\n", got.Agent, got.ID, got.Dir, got.Log.State().Title)
		for _, p := range got.Problems {
			fmt.Fprintln(&b, p)
		}
		b.WriteString("\n" + show(got.Log.Project()))
		golden := "testdata/" + name + ".txt"
		if *transcript.Update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(strings.Split(fixture(t, name+".txt"), "\n"), strings.Split(b.String(), "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if got.Log.State().InTurn {
			t.Errorf("%s ends during a turn", name)
		}
	}
}

// TestReadCompacted: what was compacted is still in the session, but the model does not see it.
func TestReadCompacted(t *testing.T) {
	for name, want := range map[string]string{"claude": "I plant a beech hedge.", "pi": "It was 900 degrees."} {
		l := read(t, fixture(t, name+".jsonl")).Log
		found := false
		for _, e := range l.Branch() {
			found = found || e.Answer != nil && strings.Contains(e.Answer.Message.Parts[0].Text, want)
		}
		if seen := show(l.Project()); !found || strings.Contains(seen, want) {
			t.Errorf("%s: kept %t, seen\n%s", name, found, seen)
		}
	}
}

// valid fails unless a provider would accept the conversation.
func valid(t *testing.T, all []llm.Message) {
	t.Helper()
	owed := map[string]bool{}
	ids := map[string]bool{}
	for i, m := range all {
		if i == 0 && m.Role != llm.User {
			t.Fatalf("it begins with the %s:\n%s", m.Role, show(all))
		}
		for _, p := range m.Parts {
			switch {
			case p.Result != nil:
				if !owed[p.Result.ID] {
					t.Fatalf("a result of %q, which was not called:\n%s", p.Result.ID, show(all))
				}
				delete(owed, p.Result.ID)
			case len(owed) > 0 && m.Role == llm.User:
				t.Fatalf("text before the results:\n%s", show(all))
			}
		}
		if m.Role == llm.User && len(owed) > 0 {
			t.Fatalf("results are missing:\n%s", show(all))
		}
		for _, p := range m.Parts {
			if p.Call != nil {
				if ids[p.Call.ID] || transcript.Identifier(p.Call.ID, 64) != p.Call.ID || p.Call.ID == "" {
					t.Fatalf("the ID %q:\n%s", p.Call.ID, show(all))
				}
				if transcript.Identifier(p.Call.Name, 64) != p.Call.Name || p.Call.Name == "" {
					t.Fatalf("the name %q", p.Call.Name)
				}
				owed[p.Call.ID], ids[p.Call.ID] = true, true
			}
		}
	}
	if len(owed) > 0 {
		t.Fatalf("results are missing:\n%s", show(all))
	}
}

// FuzzRead: any file is refused, or becomes a conversation that can be sent, exported and imported.
func FuzzRead(f *testing.F) {
	f.Add(fixture(f, "claude.jsonl"))
	f.Add(fixture(f, "pi.jsonl"))
	f.Add(transcript.Written(f, transcript.Rich(f), transcript.JSONL))
	f.Add(`{"type":"session","id":"a"}` + "\n" +
		`{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","id":"","name":""},` +
		`{"type":"toolCall","id":"","name":"é"}]}}`)
	f.Add(`{"type":"assistant","uuid":"a","parentUuid":"a","message":{"content":[{"type":"tool_use","id":"1"}]}}`)
	f.Add(`{"type":"user","uuid":"a","isCompactSummary":true,"message":{"content":"s"}}` + "\n" +
		`{"type":"user","uuid":"b","parentUuid":"a","message":{"content":[{"type":"tool_result","tool_use_id":"1"}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := transcript.Read(strings.NewReader(text), options(""))
		if err != nil {
			return
		}
		if got.Agent != transcript.Knack {
			valid(t, got.Log.Project())
		}
		page := transcript.Written(t, got.Log, transcript.HTML)
		if bytes.Contains([]byte(strings.ToLower(page)), []byte("<script")) {
			t.Fatal("a script")
		}
		transcript.Written(t, got.Log, transcript.Markdown)
		first := transcript.Written(t, read(t, transcript.Written(t, got.Log, transcript.JSONL)).Log, transcript.JSONL)
		if second := transcript.Written(t, read(t, first).Log, transcript.JSONL); second != first {
			t.Fatalf("imported again (-want +got):\n%s", cmp.Diff(first, second))
		}
	})
}

// TestReadCases: unusual forms of transcripts.
func TestReadCases(t *testing.T) {
	const head = `{"type":"session","version":3,"id":"x","cwd":"/"}` + "\n"
	for _, c := range []struct{ name, in, want string }{
		{"claude: a segment that a compaction kept",
			`{"type":"user","uuid":"1","sessionId":"s","message":{"content":"old"}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"a","content":[{"type":"text","text":"OLD"}]}}
{"type":"user","uuid":"3","parentUuid":"2","message":{"content":"kept"}}
{"type":"assistant","uuid":"4","parentUuid":"3","message":{"id":"b","content":[{"type":"text","text":"KEPT"}]}}
{"type":"system","subtype":"compact_boundary","uuid":"5","logicalParentUuid":"4",
 "compactMetadata":{"trigger":"manual","preTokens":9,"preservedSegment":{"headUuid":"3","tailUuid":"4"}}}
{"type":"user","uuid":"6","parentUuid":"5","isCompactSummary":true,"message":{"content":"SUM"}}
{"type":"user","uuid":"7","parentUuid":"6","message":{"content":"new"}}`,
			`user "The conversation up to here was compacted. This summary replaces it:\n\n<summary>\nSUM\n</summary>"
user "kept"
assistant "KEPT"
user "new"
`},
		{"claude: a beginning that is missing, an answer written twice, repeated IDs",
			`{"type":"assistant","uuid":"1","parentUuid":"0","sessionId":"s","message":{"id":"a","content":[{"type":"tool_use",
 "id":"c","name":"X","input":{"a":1}}]}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"a","content":[{"type":"tool_use","id":"c",
 "name":"X","input":{"a":1}}]}}
{"type":"user","uuid":"3","parentUuid":"2","message":{"content":[{"type":"tool_result","tool_use_id":"c",
 "content":"1"},{"type":"text","text":"<system-reminder>r</system-reminder>"}]}}
{"type":"assistant","uuid":"4","parentUuid":"3","message":{"id":"b","content":[{"type":"tool_use","id":"c",
 "name":"X","input":{"a":2}}]}}
{"type":"user","uuid":"5","parentUuid":"4","message":{"content":[{"type":"tool_result","tool_use_id":"c",
 "content":"2","is_error":true}]}}`,
			`user "[The beginning of this conversation is missing.]"
assistant calls c X {"a":1}
user result c false "1"
user "<system-reminder>r</system-reminder>"
assistant calls c_3 X {"a":2}
user result c_3 true "2"
`},
		{"claude: attachments",
			`{"type":"user","uuid":"1","sessionId":"s","message":{"content":"q"}}
{"type":"attachment","uuid":"2","parentUuid":"1","attachment":{"type":"file","filename":"/a.txt",
 "content":{"type":"text","file":{"filePath":"/a.txt","content":"A"}}}}
{"type":"attachment","uuid":"3","parentUuid":"2","attachment":{"type":"hook_additional_context","content":["H"]}}
{"type":"attachment","uuid":"4","parentUuid":"3","attachment":{"type":"task_reminder","content":[{"x":1}]}}
{"type":"assistant","uuid":"5","parentUuid":"4","message":{"id":"a","content":[{"type":"text","text":"R"}]}}`,
			"user \"q\"\nuser \"The user attached /a.txt:\\n\\n```\\nA\\n```\"\nuser \"H\"\nassistant \"R\"\n"},
		{"claude: the file of a sub-agent",
			`{"type":"user","uuid":"1","isSidechain":true,"sessionId":"s","message":{"content":"q"}}
{"type":"assistant","uuid":"2","parentUuid":"1","isSidechain":true,"sessionId":"s","message":{"id":"a",
 "content":[{"type":"text","text":"R"}]}}`,
			"user \"q\"\nassistant \"R\"\n"},
		{"claude: other models' thinking and unsigned thinking are removed",
			`{"type":"user","uuid":"1","sessionId":"s","message":{"content":"q"}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"a","model":"other-1","content":[{"type":"thinking",
 "thinking":"t","signature":"sig"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"A"}]}}
{"type":"assistant","uuid":"3","parentUuid":"2","message":{"id":"b","model":"claude-1","content":[{"type":"thinking",
 "thinking":"t"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"B"}]}}`,
			`user "q"
assistant thinks "t" signed "" from ""
assistant thinks "" signed "" from ""
assistant "A"
assistant thinks "t" signed "" from ""
assistant thinks "" signed "redacted_thinking:d" from "anthropic/claude-1"
assistant "B"
`},
		{"pi: a message sent during a call follows its result",
			head + `{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"q"}}
{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","stopReason":"toolUse",
 "content":[{"type":"toolCall","id":"a/ö","name":"t.x","arguments":{}},{"type":"toolCall","id":"b","name":"u",
 "arguments":null}]}}
{"type":"message","id":"3","parentId":"2","message":{"role":"user","content":"wait"}}
{"type":"message","id":"4","parentId":"3","message":{"role":"toolResult","toolCallId":"b","content":[{"type":"text",
 "text":"B"}]}}
{"type":"message","id":"5","parentId":"4","message":{"role":"toolResult","toolCallId":"a/ö",
 "content":[{"type":"text","text":"A"}]}}`,
			`user "q"
assistant calls a__ t_x {}
assistant calls b u {}
user result a__ false "A"
user result b false "B"
user "wait"
`},
		{"pi: version 1, which has no ids",
			`{"type":"session","id":"x","cwd":"/","provider":"anthropic"}
{"type":"message","message":{"role":"user","content":"one"}}
{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"1"}]}}
{"type":"message","message":{"role":"user","content":"two"}}
{"type":"compaction","summary":"SUM","firstKeptEntryIndex":3}
{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"2"}]}}`,
			`user "The conversation up to here was compacted. This summary replaces it:\n\n<summary>\nSUM\n</summary>"
user "two"
assistant "2"
`},
		{"pi: an entry whose parent could not be read follows the one before it",
			head + `{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"one"}}
{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"ty
{"type":"message","id":"3","parentId":"2","message":{"role":"user","content":"two"}}`,
			`user "one"
user "two"
`},
	} {
		in := strings.ReplaceAll(c.in, "\n ", "") // a line that begins with a space continues the one before it
		got := read(t, in).Log.Project()
		if d := cmp.Diff(c.want, show(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		valid(t, got)
	}
}
