package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// BenchmarkStart measures the time from the start of the release build to its first request, by number of project
// skills (ms/first is the median), and the CPU time of the whole run (cpu-ms).
func BenchmarkStart(b *testing.B) {
	bin := finished(b)
	for _, n := range []int{0, 1000} {
		b.Run(fmt.Sprintf("skills=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				d := filepath.Join(dir, ".claude", "skills", fmt.Sprintf("skill-%d", i))
				if err := os.MkdirAll(d, 0o755); err != nil {
					b.Fatal(err)
				}
				text := fmt.Sprintf("---\nname: skill-%d\ndescription: Does the thing number %d, and is used when somebody "+
					"wants that thing done.\n---\n\n# Thing\n\nDo it.\n", i, i)
				if err := os.WriteFile(filepath.Join(d, "SKILL.md"), []byte(text), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			var first time.Time
			answers := make([]llmtest.Answer, b.N+1000)
			for i := range answers {
				answers[i] = llmtest.Reply("ok")
			}
			inner := llmtest.NewServer(answers...)
			defer inner.Close()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				first = time.Now()
				inner.ServeHTTP(w, r)
			}))
			defer s.Close()
			var times []time.Duration
			var cpu time.Duration
			b.ResetTimer()
			for b.Loop() {
				cmd := exec.Command(bin, "-p", "--trust", "--no-session", "hi")
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir+"/state", "XDG_CONFIG_HOME="+dir+"/config",
					"ANTHROPIC_API_KEY="+llmtest.Key, "ANTHROPIC_BASE_URL="+s.URL)
				start := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				times = append(times, first.Sub(start))
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms/first")
			b.ReportMetric(float64(cpu.Microseconds())/1000/float64(len(times)), "cpu-ms")
		})
	}
}

// BenchmarkTurn measures the CPU time that one request and its answer cost the release build in each wire format, in
// a run of 50 that each call a tool: cpu-ms/turn is for our own process, without its startup.
func BenchmarkTurn(b *testing.B) {
	const turns = 50
	bin := finished(b)
	for _, f := range wireFormats {
		b.Run(f.provider, func(b *testing.B) {
			dir := b.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.txt"), bytes.Repeat([]byte("a line of text\n"), turns+1),
				0o644); err != nil {
				b.Fatal(err)
			}
			run := func(n int) time.Duration {
				var answers []llmtest.Answer
				for i := range n {
					a := llmtest.Use("read", map[string]any{"path": "a.txt", "offset": i + 1, "limit": 20})
					a.Thinking, a.Text = "The next lines are what is to be looked at now.", "I read on."
					answers = append(answers, a)
				}
				s := llmtest.NewServer(append(answers, llmtest.Reply("done"))...)
				defer s.Close()
				cmd := exec.Command(bin, "-p", "--model", f.provider+"/default", "hi")
				cmd.Dir = dir
				cmd.Env = append(append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir+"/state",
					"XDG_CONFIG_HOME="+dir+"/config"), s.Env()...)
				if out, err := cmd.CombinedOutput(); err != nil || s.Left() > 0 {
					b.Fatalf("%v\n%s", err, out)
				}
				return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			var cpu time.Duration
			n := 0
			for b.Loop() {
				cpu += run(turns) - run(0)
				n++
			}
			b.ReportMetric(float64(cpu.Microseconds())/1000/turns/float64(n), "cpu-ms/turn")
		})
	}
}

// finished builds the program as it is released.
func finished(b *testing.B) string {
	bin := filepath.Join(b.TempDir(), "knack")
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin,
		"../../../cmd/knack").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return bin
}
