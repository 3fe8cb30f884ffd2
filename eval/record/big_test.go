package record_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

func TestTryBig(t *testing.T) {
	dir := t.TempDir()
	sys, _ := os.ReadFile("../../docs/design.md")
	script := &llmtest.Script{Func: func(*llm.Request) llmtest.Answer { return llmtest.Reply(strings.Repeat("Word 12. ", 60)) }}
	result, _ := os.ReadFile("../../go.sum")
	for _, mode := range []record.Mode{record.Record, record.Replay} {
		start := time.Now()
		for c := range 200 {
			r := open(t, record.Options{File: filepath.Join(dir, fmt.Sprint(c, ".jsonl")), Mode: mode})
			m := r.Model(script, "", record.Path{Name: "work", Dir: dir})
			req := &llm.Request{System: string(sys)}
			for i := range 6 {
				req.Messages = append(req.Messages, llm.Message{Role: llm.User, Parts: []llm.Part{llm.Text(fmt.Sprint("go ", c, i)), {Result: &llm.ToolResult{ID: "x", Parts: []llm.Part{llm.Text(string(result[:4000]))}}}}})
				a, err := llm.Ask(t.Context(), m, req)
				if err != nil {
					t.Fatal(err)
				}
				req.Messages = append(req.Messages, a.Message)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var st runtime.MemStats
		runtime.ReadMemStats(&st)
		t.Log(mode, time.Since(start), st.Sys>>20)
	}
}
