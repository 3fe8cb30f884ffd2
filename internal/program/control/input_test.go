package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// endless is a line that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestLongLine: only the beginning of a line of 100 MB is kept, and the next line is read.
func TestLongLine(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var got []string
	in := io.MultiReader(io.LimitReader(endless{}, 100_000_000), strings.NewReader("\n{}\n"))
	if err := readLines(in, func(l inputLine) {
		got = append(got, fmt.Sprint(l.number, " ", len(l.text), " ", l.err))
	}); err != nil {
		t.Fatal(err)
	}
	if want := "[1 65536 it has more than 32 MiB 2 3 <nil>]"; fmt.Sprint(got) != want {
		t.Errorf("got %.200q", got)
	}
	runtime.ReadMemStats(&after)
	// growing a slice up to maxLine allocates more than maxLine
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*maxLine {
		t.Errorf("%d MB were allocated", used>>20)
	}
}

// FuzzReadLines: every line that is not empty is read once, in order, with its number.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte("{}\n\n  \nx"))
	f.Add([]byte("\r\n{}\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var want, got []string
		for i, line := range bytes.SplitAfter(data, []byte("\n")) {
			if len(bytes.TrimSpace(line)) > 0 {
				want = append(want, fmt.Sprintf("%d %q", i+1, line))
			}
		}
		if err := readLines(bytes.NewReader(data), func(l inputLine) {
			got = append(got,
				fmt.Sprintf("%d %q", l.number, l.text))
		}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// FuzzAnswer sends odd answers to a permission question: the call runs only if one of them allows it.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"subtype":"success","request_id":"knack-1","response":{"behavior":"allow"}}`,
		`{"subtype":"success","request_id":"knack-1","response":{"behavior":"allow","updatedInput":{"command":"touch ` +
			`other"}}}`,
		`{"subtype":"success","request_id":"knack-1","response":{"behavior":"deny","message":"no","interrupt":true}}`,
		`{"subtype":"success","request_id":"knack-1","response":{"behavior":"allow","updatedPermissions":[` +
			`{"type":"addRules","behavior":"allow","rules":[{"toolName":"Bash"}]},` +
			`{"type":"setMode","mode":"bypassPermissions"}]}}`,
		`{"subtype":"error","request_id":"knack-1","error":"no"}`, `{"request_id":"knack-1"}`, `{"request_id":"knack-2"}`,
		`{"subtype":"success","request_id":"knack-1","response":"allow"}`, `{"subtype":"success","request_id":"knack-1"}`,
		`null`, `7`, "{",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		answer = bytes.ReplaceAll(answer, []byte("\n"), []byte(" "))
		var a struct {
			Subtype  string `json:"subtype"`
			ID       string `json:"request_id"`
			Response struct {
				Behavior string          `json:"behavior"`
				Input    json.RawMessage `json:"updatedInput"`
			} `json:"response"`
		}
		err := json.Unmarshal(answer, &a)
		allows := err == nil && a.Subtype == "success" && a.ID == "knack-1" && a.Response.Behavior == "allow"
		if bytes.Contains(bytes.ToLower(answer), []byte("command")) && !allows || len(a.Response.Input) > 0 {
			t.Skip("it would run another command")
		}
		model := llmtest.New(bash("touch made"), llmtest.Reply("done"), llmtest.Reply("more"))
		h := newHost(t, llm.Model(model), nil)
		h.user("go")
		h.expect(`"subtype":"can_use_tool"`)
		h.say(`{"type":"control_response","response":%s}`, answer)
		h.end()
		if _, err := os.Stat(filepath.Join(h.dir, "made")); err == nil && !allows {
			t.Errorf("the call ran after %s", answer)
		}
	})
}
