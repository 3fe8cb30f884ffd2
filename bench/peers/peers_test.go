package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/internal/program/cli"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// asKnack is the name under which this test binary runs as Knack.
const asKnack = "as-knack.exe"

func TestMain(m *testing.M) {
	bench.Launched()
	if dir := os.Getenv(statting); dir != "" {
		stat(dir)
	}
	if filepath.Base(os.Args[0]) == asKnack {
		os.Exit(cli.Main())
	}
	os.Exit(m.Run())
}

// TestMeasure measures a little of everything, with Knack and with programs that are missing or do not work.
func TestMeasure(t *testing.T) {
	onlyShell(t)
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "no-program"), []byte("x\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	knack := filepath.Join(t.TempDir(), asKnack)
	copyTo(t, knack)
	var out strings.Builder
	c := &config{
		agents: agents, sizes: []int{0, 3}, user: true, calls: 2, runs: 1, limit: time.Minute,
		parts: []string{"start", "calls"},
		only:  []string{"knack", "codex", "pi"}, out: &out, logf: t.Logf,
		paths: map[string]string{"knack": knack, "pi": filepath.Join(tree, "no-program"),
			"codex": filepath.Join(tree, "none")},
		keep: filepath.Join(t.TempDir(), "kept"),
	}
	res, err := measure(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Starts) != 3 || res.Starts[2].Name != "stat only" || res.Starts[2].CPU.N != 1 || res.Starts[1].Whole != 3 ||
		res.Starts[1].First.N != 1 || res.Starts[1].First.Median <= 0 ||
		res.Starts[1].Bytes <= res.Starts[0].Bytes {
		t.Errorf("starts: %+v", res.Starts)
	}
	if len(res.Calls) != 2 || res.Calls[0].Problem != "" || res.Calls[1].Problem != "" || res.Calls[1].PerWall.N != 1 ||
		res.Calls[1].PerCPU.N != 1 {
		t.Errorf("calls: %+v", res.Calls)
	}
	for _, want := range []string{"One prompt over 3 skills", "2 shell calls", "2 read calls", "pi: ", "codex: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables do not contain %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(c.keep, "knack-3.json")); err != nil {
		t.Error(err)
	}
	if _, err := json.Marshal(res); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// TestWrongCalls sends an agent wrong calls: they are reported and not measured.
func TestWrongCalls(t *testing.T) {
	onlyShell(t)
	knack := filepath.Join(t.TempDir(), asKnack)
	copyTo(t, knack)
	wrong := agents[0]
	wrong.Shell = call("no-such-tool", "command")
	c := &config{agents: []agent{wrong}, calls: 2, runs: 1, limit: time.Minute, parts: []string{"calls"}, out: io.Discard,
		logf: t.Logf, paths: map[string]string{"knack": knack}}
	res, err := measure(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(res.Calls[0].Problem, "a tool did not do") || res.Calls[0].Wall.N != 0 || len(c.failing) == 0 {
		t.Errorf("%+v %v", res.Calls[0], c.failing)
	}
}

// onlyShell sets PATH to a directory that contains only the shell that Knack's bash tool needs.
func onlyShell(t *testing.T) {
	t.Helper()
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			dir := t.TempDir()
			if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
				dir = filepath.Dir(path)
			}
			t.Setenv("PATH", dir)
			return
		}
	}
	t.Skip("neither bash nor sh is installed")
}

func copyTo(t *testing.T, file string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(self, file) == nil {
		return
	}
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(file, data, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestVendor sends requests in all four formats, and to unknown paths.
func TestVendor(t *testing.T) {
	v, err := newVendor()
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	ask := func(path, body string) (int, string) {
		res, err := http.Post(v.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	paths := []string{"/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1beta/models/any:streamGenerateContent"}
	var answers []llmtest.Answer
	for range paths {
		answers = append(answers, llmtest.Reply("hello"))
	}
	e := v.during(answers, func() {
		for _, path := range paths {
			if code, text := ask(path, `{"tools":[{"name":"x"}],"unheard":["of"]}`); code != 200 ||
				!strings.Contains(text, "hello") {
				t.Errorf("%s: %d %s", path, code, text)
			}
			if code, text := ask(path, `{"title":"please"}`); code != 200 || strings.Contains(text, "hello") {
				t.Errorf("%s without tools: %d %s", path, code, text)
			}
		}
		if code, _ := ask("/v1/else", `{}`); code != 404 {
			t.Errorf("another path: %d", code)
		}
	})
	if len(e.main) != 4 || e.side != 4 || len(e.odd) != 1 {
		t.Errorf("%d requests, %d aside, odd: %v", len(e.main), e.side, e.odd)
	}
	if err := e.why(4, "unheard"); err != nil {
		t.Error(err)
	}
	for _, err := range []error{e.why(5, "unheard"), e.why(4, "nothing of this"),
		(&exchange{answers: e.answers}).why(1, "")} {
		if err == nil {
			t.Error("a failure is not reported as an error")
		}
	}
	if code, _ := ask("/v1/messages", `{"tools":[{}]}`); code != 404 {
		t.Errorf("after the run: %d", code)
	}
}
