package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// An answerRow contains the measurements of the calls of one answer, in parallel or one after
// the other.
type answerRow struct {
	Tool     string     `json:"tool"`
	Together bool       `json:"together"`
	Time     bench.Stat `json:"ms"`
	CPU      bench.Stat `json:"cpu_ms"`
}

// answers runs 8 calls of a tool on Go's own source code: in parallel, as for one answer, and
// one after the other.
func (r *result) answers(out io.Writer, runs int) error {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT, which has the tree to search: %w", err)
	}
	ws, err := workspace.NewLocal(filepath.Join(strings.TrimSpace(string(goroot)), "src"))
	if err != nil {
		return err
	}
	defer ws.Close()
	set := coding.Tools(ws, coding.Options{})
	words := []string{"Errorf", "Mutex", "Reader", "context", "append", "Unmarshal", "switch", "goroutine"}
	dirs := []string{"net", "crypto", "encoding", "go", "os", "runtime", "internal", "cmd"}
	files := []string{
		"net/http/server.go", "net/http/transport.go", "reflect/type.go", "reflect/value.go",
		"runtime/proc.go", "runtime/mheap.go", "go/parser/parser.go", "encoding/json/decode.go",
	}
	calls := map[string][]llm.ToolCall{}
	for i := range 8 {
		for name, input := range map[string]any{
			"grep": map[string]any{"pattern": words[i], "path": dirs[i], "limit": 20000},
			"read": map[string]any{"path": files[i]},
		} {
			data, err := json.Marshal(input)
			if err != nil {
				return err
			}
			calls[name] = append(calls[name], llm.ToolCall{ID: fmt.Sprint(i), Name: name, Input: data})
		}
	}
	table := bench.Table{Title: "8 calls of one answer", Head: []string{"", "", "ms", "best, ms", "CPU, ms"}}
	for _, name := range []string{"read", "grep"} {
		rows := []answerRow{{Tool: name, Together: true}, {Tool: name}}
		times, cpu := make([][]float64, 2), make([][]float64, 2)
		var fs []func(int)
		for i, row := range rows {
			fs = append(fs, func(round int) {
				start, used := time.Now(), bench.CPU()
				var results []tool.Result
				if row.Together {
					results = tool.CallAll(context.Background(), set, calls[name], tool.AllowAll, tool.Listener{})
				} else {
					for _, c := range calls[name] {
						results = append(results, tool.CallAll(context.Background(), set, []llm.ToolCall{c}, tool.AllowAll,
							tool.Listener{})...)
					}
				}
				for _, res := range results {
					if res.IsError {
						err = fmt.Errorf("%s: %s", name, llm.TextOf(res.Parts))
					}
				}
				if round >= 0 {
					times[i] = append(times[i], time.Since(start).Seconds()*1000)
					cpu[i] = append(cpu[i], (bench.CPU()-used).Seconds()*1000)
				}
			})
		}
		if bench.InTurn(runs, fs...); err != nil {
			return err
		}
		for i, row := range rows {
			row.Time, row.CPU = bench.StatOf(times[i]), bench.StatOf(cpu[i])
			r.Answers = append(r.Answers, row)
			how := map[bool]string{true: "together", false: "one after the other"}[row.Together]
			table.Add(name, how, row.Time, bench.Number(row.Time.Min), row.CPU)
		}
	}
	return table.Write(out)
}
