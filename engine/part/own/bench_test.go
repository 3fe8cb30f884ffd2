package own_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// BenchmarkCall compares a call of a project's tool with the same line in bash, in turns: the medians, in the sandbox.
// Each call compares all files of the folder with what was approved.
func BenchmarkCall(b *testing.B) {
	for _, kb := range []int{0, 100, 1000} {
		b.Run(fmt.Sprint(kb, "KB"), func(b *testing.B) { benchmarkCall(b, kb<<10) })
	}
}

// benchmarkCall has a file of a size beside the tool.
func benchmarkCall(b *testing.B, beside int) {
	p := enginetest.New(b, ".knack/tools/data", strings.Repeat("x", beside))
	executable(b, p, ".knack/tools/hello", "#!/bin/sh\n# knack-tool: Says hello.\necho hello\n")
	o := p.Options(llmtest.New())
	o.Trust = true
	o.Values["sandbox.mode"] = "auto"
	e, err := engine.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	ws, err := e.Workspace(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	tools := part.ToolsOutside(ws, e.Project(), coding.Options{})
	call := func(name, input string) time.Duration {
		start := time.Now()
		res := tool.Call(b.Context(), tools, llm.ToolCall{ID: "1", Name: name, Input: json.RawMessage(input)},
			tool.AllowAll, nil)
		if res.IsError {
			b.Fatal(llm.TextOf(res.Parts))
		}
		return time.Since(start)
	}
	var own, bash []time.Duration
	for b.Loop() {
		own = append(own, call("hello", `{}`))
		bash = append(bash, call("bash", `{"command":"./.knack/tools/hello"}`))
	}
	slices.Sort(own)
	slices.Sort(bash)
	b.ReportMetric(float64(own[len(own)/2].Microseconds()), "µs/own")
	b.ReportMetric(float64(bash[len(bash)/2].Microseconds()), "µs/bash")
}
