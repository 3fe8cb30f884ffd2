package transcript

import (
	"bytes"
	"encoding/json"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/coding"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// picture returns a small chart.
func picture(t testing.TB) []byte {
	m := image.NewRGBA(image.Rect(0, 0, 160, 60))
	for x := range 160 {
		for y := range 60 {
			c := color.RGBA{240, 240, 245, 255}
			if x%40 > 8 && x%40 < 32 && 60-y < 12+x/4 {
				c = color.RGBA{60, 110, 190, 255}
			}
			m.Set(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// begin is the start time of the sessions in these tests.
var begin = time.Date(2026, 11, 3, 9, 30, 0, 0, time.UTC)

// logOf makes a session of entries, ten seconds apart.
func logOf(t testing.TB, all ...session.Entry) *session.Log {
	t.Helper()
	l := session.New(session.Header{ID: "20261103-093000-0a1b2c3d", Dir: "/home/ada/inventory", Time: begin})
	for i, e := range all {
		e.Time = begin.Add(time.Duration(i) * 10 * time.Second)
		if _, err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func user(parts ...llm.Part) session.Entry {
	return session.Entry{Type: session.TypeUser, User: &session.User{Parts: parts}}
}

func answer(stop llm.StopReason, parts ...llm.Part) session.Entry {
	return session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{
		Message: llm.Message{Role: llm.Assistant, Parts: parts}, Stop: stop, Model: "anthropic/claude-sonnet-5-5",
		Usage: llm.Usage{Input: 820, Output: 96, CacheRead: 12400}, Cost: 0.0119,
	}}
}

func called(id, name, input string) llm.Part {
	return llm.Part{Call: &llm.ToolCall{ID: id, Name: name, Input: json.RawMessage(input)}}
}

func result(id, name, details string, parts ...llm.Part) session.Entry {
	r := &session.Result{ToolResult: llm.ToolResult{ID: id, Name: name, Parts: parts}}
	if details != "" {
		r.Details = json.RawMessage(details)
	}
	return session.Entry{Type: session.TypeResult, Result: r}
}

func failed(e session.Entry) session.Entry {
	e.Result.IsError = true
	return e
}

// rich returns a session with an entry of every kind.
func rich(t testing.TB) *session.Log {
	patch := "--- a/stock/report.go\n+++ b/stock/report.go\n@@ -12,7 +12,10 @@ func Report(items []Item) string {\n " +
		"\tvar b strings.Builder\n \tfor _, it := range items {\n-\t\tfmt.Fprintf(&b, \"%s %d\\n\", it.Name, " +
		"it.Count)\n+\t\tif it.Count == 0 {\n+\t\t\tcontinue\n+\t\t}\n+\t\tfmt.Fprintf(&b, \"%-20s %6d\\n\", it.Name, " +
		"it.Count)\n \t}\n \treturn b.String()\n }\n"
	details, _ := json.Marshal(map[string]any{"path": "/home/ada/inventory/stock/report.go", "diff": patch, "added": 4,
		"removed": 1})
	return logOf(t,
		session.Entry{Type: session.TypeListing, Listing: &session.Listing{Text: "- chart: Draw a bar chart of numbers\n- " +
			"report: Write a stock report"}},
		session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Title: "Align the stock report", Effort: "high"}},
		user(llm.Text("The stock report is crooked, and lists what we are out of.\nPlease fix it & show me a chart:\n\n   "+
			" apples   3\n    pears    0"),
			llm.Part{Media: &llm.Media{MIME: "image/png", Name: "crooked.png", Data: picture(t)}}),
		answer(llm.ToolUse,
			llm.Part{Thinking: &llm.Thinking{Text: "The report is in stock/report.go, probably.\nI look at it and at its " +
				"tests first.", Opaque: "sig", From: "anthropic/claude-sonnet-5-5"}},
			llm.Text("I look at the code and its tests."),
			called("call_1", "read", `{"path":"stock/report.go","limit":40}`),
			called("call_2", "bash",
				`{"command":"go test ./stock/ 2>&1 | tail -20","description":"run the tests of the report"}`)),
		session.Entry{Type: session.TypeDecision, Decision: &session.Decision{Call: "call_2", Tool: "bash", Asked: true,
			Answer: "once", By: permission.Decision{Verdict: permission.Allow}}},
		session.Entry{Type: session.TypeStarted, Started: &session.Started{Call: "call_2", Name: "bash"}},
		result("call_1", "read", "", llm.Text(strings.Repeat("\tfmt.Fprintf(&b, \"%s %d\\n\", it.Name, it.Count)\n", 40))),
		failed(result("call_2", "bash", `{"exitCode":1}`,
			llm.Text("--- FAIL: TestReport (0.00s)\n    report_test.go:19: got \"pears "+
				"0\"\nFAIL\tinventory/stock\t0.004s\nCommand exited with code 1"))),
		answer(llm.ToolUse, llm.Text("Two things to change:\n\n1. skip items whose count is **0**\n2. pad with `%-20s`\n  "+
			" - names to the left\n   - numbers to the right\n\n| item | before | after |\n|------|-------:|------:|\n| "+
			"apples | `3` | `     3` |\n| pears \\| plums | 0 | *gone* |\n\n```go\nif it.Count == 0 "+
			"{\n\tcontinue\n}\n```\n\n> The width is that of the [longest name](https://example.com/stock?a=1&b=2).\n\nSee "+
			"https://example.com/padding."),
			called("call_3", "edit",
				`{"path":"stock/report.go","edits":[{"oldText":"\t\tfmt.Fprintf(\u0026b, \"%s %d\\n\", it.Name, `+
					`it.Count)","newText":"…"}]}`),
			called("call_4", "Skill", `{"skill":"chart","args":"stock"}`),
			called("call_5", "bash", `{"command":"rm -rf stock/old"}`)),
		session.Entry{Type: session.TypeDecision, Decision: &session.Decision{Call: "call_5", Tool: "bash", Asked: true,
			Answer: "keep the old ones", By: permission.Decision{Verdict: permission.Deny, Reason: "removes files"}}},
		result("call_3", "edit", string(details), llm.Text("Replaced 1 place in stock/report.go.")),
		result("call_4", "Skill", "", llm.Text("Launching skill: chart")),
		failed(result("call_5", "bash", "", llm.Text("bash was not run: keep the old ones"))),
		session.Entry{Type: session.TypeActivation, Activation: &session.Activation{
			Skill: "chart", Args: "stock", By: "model", Call: "call_4", Hash: "sha256:3f7a", Notice: "chart stock", Tokens: 412,
			Prompt: "Draw a bar chart.\n\nRun `python3 chart.py stock`.", Grants: []string{"Bash(python3 chart.py *)"},
		}},
		answer(llm.ToolUse, called("call_6", "bash", `{"command":"python3 chart.py stock"}`)),
		result("call_6", "bash", "", llm.Text("chart.png, 160 × 60"),
			llm.Part{Media: &llm.Media{MIME: "image/png", Name: "chart.png", Data: picture(t)}}),
		session.Entry{Type: session.TypeNote, Note: &session.Note{Model: "A new skill is there: tidy.",
			People: "1 new skill: tidy"}},
		session.Entry{Type: session.TypeUser, User: &session.User{Steering: true,
			Parts: []llm.Part{llm.Text("and run the tests again")}}},
		answer(llm.ToolUse, called("call_7", "bash", `{"command":"go test ./stock/"}`)),
		result("call_7", "bash", "", llm.Text("ok  \tinventory/stock\t0.003s")),
		answer(llm.EndTurn, llm.Text("Done: the report is straight, and the tests pass.")),
		session.Entry{Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: "done"}},
		session.Entry{Type: session.TypeRelease, Release: &session.Release{Entry: 14, Skill: "chart", Tokens: 412,
			Reason: "the turn ended"}},
		session.Entry{Type: session.TypeCompaction, Compaction: &session.Compaction{Trigger: "manual",
			Instructions: "the report", Summary: "## Goal\nA straight report.\n- **done**", Kept: 22, Before: 14100,
			After: 900}},
		session.Entry{Type: session.TypeUser, User: &session.User{Typed: "/commit",
			Parts: []llm.Part{llm.Text("Commit all that changed.\nThanks!")}}},
		answer(llm.ToolUse, called("call_8", "bash", `{"command":"git commit -am 'straight report'"}`)),
		session.Entry{Type: session.TypeStarted, Started: &session.Started{Call: "call_8", Name: "bash"}},
		session.Entry{Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: "error",
			Error: "the model's server is overloaded"}},
		session.Entry{Type: session.TypeAgent, Agent: &session.Agent{Name: "general-purpose", Log: "20261103-093440-0000000a",
			Task: "read the other reports"}},
		session.Entry{Type: session.TypeAgent, Agent: &session.Agent{Name: "general-purpose", Log: "20261103-093440-0000000a",
			Task:   "read the other reports",
			Reason: "done", Requests: 3, Cost: 0.02, Result: "All three are straight."}},
		session.Entry{Type: "weather"},
	)
}

// ours are the tools of the program.
var ours = slices.Concat(coding.Tools(nil, coding.Options{Jobs: &coding.Jobs{}}), agent.Tools())

func written(t testing.TB, l *session.Log, f Format) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, l, f, Options{Program: "Knack test", Summary: ours.Line}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestWrite compares the three exports of a rich session with golden files, without the pictures.
func TestWrite(t *testing.T) {
	l := rich(t)
	pictures := regexp.MustCompile(`(base64,|"data":")[A-Za-z0-9+/=]+`)
	for _, f := range []Format{HTML, Markdown, JSONL} {
		got := written(t, l, f)
		if f == HTML {
			if strings.Count(got, "data:image/png;base64,") != 2 {
				t.Errorf("%s: want two pictures", f)
			}
			got = strings.Replace(got, style, "", 1)
		}
		got = pictures.ReplaceAllString(got, "${1}…")
		golden := filepath.Join("testdata", "rich."+string(f))
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", golden, d)
		}
	}
}
