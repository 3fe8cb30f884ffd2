package claude_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/engine/transcript/claude"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// TestWriter: each entry is written as the lines that Claude Code's own programs read, in one chain.
func TestWriter(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	call := llm.ToolCall{ID: "c1", Name: "bash", Input: json.RawMessage(`{"command":"ls"`)} // cut off
	entries := []session.Entry{
		{ID: 1, User: &session.User{Parts: []llm.Part{llm.Text("hello")}}},
		{ID: 2, Answer: &session.Answer{Model: "anthropic/claude-x", Stop: llm.ToolUse, Message: llm.Message{
			Parts: []llm.Part{
				{Thinking: &llm.Thinking{Text: "hm", Opaque: "SIGNATURE"}}, {Call: &call}}}}},
		{ID: 3, Result: &session.Result{ToolResult: llm.ToolResult{ID: "c1", IsError: true,
			Parts: []llm.Part{llm.Text("no")}}}},
		{ID: 4, Decision: &session.Decision{Tool: "bash"}}, // only Knack knows decisions
		{ID: 5, Note: &session.Note{Model: "a note"}},
		{ID: 6, Note: &session.Note{People: "for people"}},
		{ID: 7, Compaction: &session.Compaction{Summary: "so far", Before: 900, Trigger: session.TriggerManual}},
		{ID: 8, User: &session.User{Parts: []llm.Part{{Media: &llm.Media{MIME: "image/png", Data: []byte("x")}}}}},
	}
	w := &claude.Writer{Session: "S", Dir: "/w", Version: "1", UUID: func(e *session.Entry, part int) string {
		return fmt.Sprintf("%d.%d", e.ID, part)
	}}
	var got []string
	for _, e := range entries {
		e.Time = at
		lines, err := w.Lines(&e)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if strings.Contains(string(l), "SIGNATURE") {
				t.Errorf("a signature is written: %s", l)
			}
			var x struct {
				Parent  *string `json:"parentUuid"`
				Logical string  `json:"logicalParentUuid"`
				Type    string
				Subtype string
				UUID    string
				Meta    bool   `json:"isMeta"`
				Summary bool   `json:"isCompactSummary"`
				Session string `json:"sessionId"`
				CWD     string
				Message struct {
					Model   string
					Stop    string `json:"stop_reason"`
					Content []struct{ Type, Text string }
				}
			}
			if err := json.Unmarshal(l, &x); err != nil {
				t.Fatal(err)
			}
			if x.Session != "S" || x.CWD != "/w" {
				t.Errorf("%s", l)
			}
			parent := "-"
			if x.Parent != nil {
				parent = *x.Parent
			}
			text := []string{}
			for _, c := range x.Message.Content {
				text = append(text, c.Type+" "+c.Text)
			}
			got = append(got, strings.TrimSpace(fmt.Sprint(parent, " ", x.UUID, " ", x.Type, x.Subtype, x.Logical, " ",
				x.Message.Model, x.Message.Stop, x.Meta, x.Summary, " ", strings.Join(text, ","))))
		}
	}
	want := []string{
		"- 1.0 user false false text hello",
		"1.0 2.0 assistant claude-xtool_usefalse false thinking ,tool_use ",
		"2.0 3.0 user false false tool_result ",
		"3.0 5.0 user true false text a note",
		"- 7.0 systemcompact_boundary5.0 false false",
		"7.0 7.1 user false true text so far",
		"7.1 8.0 user false false image ",
	}
	for i := range want {
		want[i] = strings.TrimSpace(want[i])
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

// TestFile: the name of a project's directory is the one that Claude Code makes.
func TestFile(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("a/", 200)
	for dir, want := range map[string]string{
		"/home/u/my_app.v2": "-home-u-my-app-v2",
		"/home/ü":           "-home--",
	} {
		if got := claude.File("/c", dir, "id"); filepath.ToSlash(got) != "/c/projects/"+want+"/id.jsonl" {
			t.Errorf("%s: %s", dir, got)
		}
	}
	a, b := claude.File("/c", long+"x", "id"), claude.File("/c", long+"y", "id")
	if a == b || len(filepath.Base(filepath.Dir(a))) > 210 {
		t.Errorf("long paths: %s, %s", a, b)
	}
}
