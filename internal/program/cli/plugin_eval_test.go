//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A peerSuite is a suite of one plugin. Its answers are those of the model under test; the verdicts are what the judge
// says, once for each sentence.
type peerSuite struct {
	name     string
	files    map[string]string
	answers  []llmtest.Answer
	verdicts []bool
	both     bool // also without the plugin, with the same answers
}

// prose returns the files of a case: its prompt, and its graders as "name", "head\n---\nbody".
func prose(prompt string, graders ...string) map[string]string {
	files := map[string]string{"evals/one/prompt.md": prompt + "\n"}
	for i := 0; i < len(graders); i += 2 {
		files["evals/one/graders/"+graders[i]+".md"] = "---\n" + graders[i+1] + "\n"
	}
	return files
}

// yamlCase returns a case.yaml with a list of graders.
func yamlCase(prompt, graders string) map[string]string {
	return map[string]string{"evals/one/case.yaml": fmt.Sprintf("schema_version: \"1.0\"\nname: one\ndescription: A case.\n"+
		"execution:\n  prompt: %s\ngraders:\n%s", prompt, graders)}
}

func writeFile(path, text string) llmtest.Answer {
	return llmtest.Use("Write", map[string]any{"file_path": path, "content": text})
}

var readAgain = llmtest.Use("Read", map[string]any{"file_path": "out.txt"})

func peerSuites() []peerSuite {
	const ask = "Write the report."
	said := llmtest.Reply("The report is in out.txt.\nTotal: 42")
	wrote := []llmtest.Answer{writeFile("out.txt", "alpha\nbeta 42\n"), said}
	twice := []llmtest.Answer{writeFile("out.txt", "alpha\n"), readAgain, said}
	return []peerSuite{
		{name: "regex", files: prose(ask, "a", "type: regex\npattern: report\n---", "b", "type: regex\npattern: Report\n---"),
			answers: wrote},
		{name: "regex-body", files: prose(ask, "a", "type: regex\n---\nTotal: \\d+", "b", "type: regex\n---\nTotal: x"),
			answers: wrote},
		{name: "regex-flags", files: prose(ask, "a", "type: regex\npattern: THE REPORT\nflags: i\n---",
			"b", "type: regex\npattern: ^Total\nflags: m\n---", "c", "type: regex\npattern: ^Total\n---",
			"d", "type: regex\npattern: out.*42\nflags: s\n---", "e", "type: regex\npattern: out.*42\n---"), answers: wrote},
		{name: "regex-not", files: prose(ask, "a", "type: regex\npattern: sorry\nmatch: not_contains\n---",
			"b", "type: regex\npattern: Total\nmatch: not_contains\n---"), answers: wrote},
		{name: "regex-file", files: yamlCase(ask, "  - {type: regex, name: a, target: {source: file, path: out.txt}, pattern: beta}\n"+
			"  - {type: regex, name: b, target: {source: file, path: out.txt}, pattern: ^beta, flags: m}\n"+
			"  - {type: regex, name: c, target: {source: file, path: none.txt}, pattern: beta}\n"+
			"  - {type: regex, name: d, target: {source: file, path: none.txt}, pattern: beta, match: not_contains}\n"),
			answers: wrote},
		{name: "regex-trace", files: yamlCase(ask, "  - {type: regex, name: a, target: trace, pattern: beta 42}\n"+
			"  - {type: regex, name: b, target: trace, pattern: out.txt}\n"+
			"  - {type: regex, name: c, target: trace, pattern: gamma}\n"), answers: wrote},
		{name: "file-exists", files: prose(ask, "a", "type: file_exists\npath: out.txt\n---", "b",
			"type: file_exists\npath: other.txt\n---", "c", "type: file_exists\npath: other.txt\nexists: false\n---",
			"d", "type: file_exists\npath: out.txt\nexists: false\n---"), answers: wrote},
		{name: "file-below", files: prose(ask, "a", "type: file_exists\npath: sub/out.txt\n---", "b",
			"type: file_exists\npath: sub\n---"), answers: []llmtest.Answer{writeFile("sub/out.txt", "x"), said}},
		{name: "tool-used", files: prose(ask, "a", "type: tool_used\ntool: Write\n---", "b", "type: tool_used\ntool: Read\n---",
			"c", "type: tool_used\ntool: Write\ninput_match: beta\n---", "d", "type: tool_used\ntool: Write\ninput_match: gamma\n---"),
			answers: wrote},
		{name: "tool-count", files: prose(ask, "a", "type: tool_used\ntool: Write\nmin: 2\n---", "b",
			"type: tool_used\ntool: Write\nmax: 1\n---", "c", "type: tool_used\ntool: Read\nmax: 0\n---",
			"d", "type: tool_used\ntool: Write\nmax: 0\n---", "e", "type: tool_used\ntool: Read\nmin: 1\nmax: 3\n---"),
			answers: twice},
		{name: "tool-order", files: yamlCase(ask, "  - {type: tool_order, name: a, before: Write, after: Read}\n"+
			"  - {type: tool_order, name: b, before: Read, after: Write}\n"+
			"  - {type: tool_order, name: c, before: {tool: Write}, after: {tool: Read}}\n"+
			"  - {type: tool_order, name: d, before: Glob, after: Read}\n"), answers: twice},
		{name: "judge-pass", files: prose(ask, "a", "type: llm\n---\nThe answer names the file."), answers: wrote,
			verdicts: []bool{true}},
		{name: "judge-fail", files: prose(ask, "a", "type: llm\n---\nThe answer has a table.", "b",
			"type: regex\npattern: Total\n---"), answers: wrote, verdicts: []bool{false}},
		{name: "judge-yaml", files: yamlCase(ask, "  - {type: llm, name: a, criteria: The answer names the file.}\n"+
			"  - {type: llm, name: b, criteria: The answer has a table.}\n"), answers: wrote, verdicts: []bool{true, false}},
		{name: "weights", files: prose(ask, "a", "type: regex\npattern: Total\nweight: 3\n---", "b",
			"type: regex\npattern: none\nweight: 1\n---"), answers: wrote},
		{name: "all-weights-pass", files: prose(ask, "a", "type: regex\npattern: Total\nweight: 0.5\n---", "b",
			"type: file_exists\npath: out.txt\nweight: 2\n---"), answers: wrote},
		{name: "nothing-done", files: prose(ask, "a", "type: file_exists\npath: out.txt\n---", "b",
			"type: regex\npattern: cannot\n---", "c", "type: tool_used\ntool: Write\n---"),
			answers: []llmtest.Answer{llmtest.Reply("I cannot write.")}},
		{name: "frontmatter", files: map[string]string{
			"evals/one/prompt.md":        "---\nmax_turns: 5\nruns: 1\ntags: [smoke]\n---\n\n" + ask + "\n",
			"evals/one/graders/a.md":     "---\ntype: regex\npattern: Total\n---\n",
			"evals/one/graders/note.txt": "not a grader"}, answers: wrote},
		{name: "unicode", files: prose("Schreib den Bericht für 世界.", "a", "type: regex\npattern: größe\nflags: i\n---", "b",
			"type: regex\n---\n世界\\s🙂"), answers: []llmtest.Answer{llmtest.Reply("Größe: 3\n世界 🙂")}},
		{name: "without", both: true, files: prose(ask, "a", "type: tool_used\ntool: Skill\n---", "b",
			"type: regex\npattern: Total\n---", "c", "type: regex\npattern: none\n---"), answers: slices.Concat(wrote, wrote)},
		{name: "with-only", both: true, files: prose(ask, "a", "type: regex\npattern: none\narm: with-only\n---", "b",
			"type: file_exists\npath: out.txt\n---"), answers: slices.Concat(wrote, wrote)},
		{name: "two-turns", files: prose(ask, "a", "type: regex\npattern: Total\n---", "b", "type: regex\npattern: First\n---"),
			answers: []llmtest.Answer{{Text: "First I write.", Calls: writeFile("out.txt", "x").Calls}, said}},
	}
}

// A peerResult is what both programs say of a suite, as far as it is compared.
type peerResult struct {
	Cases []struct {
		Name string
		Arms map[string][]struct {
			Score   float64
			Error   any
			Graders []struct{ Passed, Scored bool }
		}
	}
}

// verdicts returns a line for each trial.
func (r peerResult) verdicts() string {
	var b strings.Builder
	for _, c := range r.Cases {
		for _, arm := range slices.Sorted(maps.Keys(c.Arms)) {
			for _, run := range c.Arms[arm] {
				fmt.Fprintf(&b, "%s %s score %.3f", c.Name, arm, run.Score)
				for _, g := range run.Graders {
					fmt.Fprintf(&b, " %v/%v", g.Passed, g.Scored)
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

// TestPeerPluginEval: suites in the format of claude plugin eval get the same verdict of each grader in each case from
// that program and from knack eval, with the same answers of the model. KNACK_CLAUDE names the program.
func TestPeerPluginEval(t *testing.T) {
	claude := os.Getenv("KNACK_CLAUDE")
	if claude == "" {
		t.Skip("KNACK_CLAUDE is not set to the program claude")
	}
	for _, s := range peerSuites() {
		t.Run(s.name, func(t *testing.T) {
			theirs := s.run(t, "grading the output", func(passed bool) string {
				return map[bool]string{true: "PASS", false: "FAIL"}[passed]
			}, 3, func() []string {
				arms := map[bool]string{false: "none", true: "with-without"}[s.both]
				return []string{claude, "plugin", "eval", ".", "--trust-plugin", "--ablation", arms, "--runs", "1", "--allow-tools",
					"Write", "--no-publish", "--model", "claude-sonnet-4-5", "--json", "result.json"}
			}, "result.json")
			ours := s.run(t, "You decide whether one statement", func(passed bool) string {
				return fmt.Sprintf(`{"quote": "The report is in out.txt.", "why": "so", "passed": %v}`, passed)
			}, 1, func() []string {
				arms := map[bool]string{false: "with", true: "with,without"}[s.both]
				return []string{"knack", "eval", ".", "--trust", "--config", arms, "--trials", "1", "--jobs", "1", "--model",
					"anthropic/claude-sonnet-4-5", "--max-cost", "100", "-o", "out"}
			}, "out/plug/aggregate-result.json")
			if theirs != ours {
				t.Errorf("claude plugin eval:\n%s\nknack eval:\n%s", theirs, ours)
			}
		})
	}
}

// run runs a program on the suite and returns its verdicts. judge matches a question to a judge, who is asked votes
// times for each sentence.
func (s peerSuite) run(t *testing.T, judge string, says func(bool) string, votes int, command func() []string,
	result string) string {
	t.Helper()
	answers := slices.Clone(s.answers)
	for _, v := range s.verdicts {
		for range votes {
			answers = append(answers, llmtest.Answer{When: judge, Text: says(v)})
		}
	}
	server := llmtest.NewServer(answers...)
	defer server.Close()
	front := httptest.NewServer(lastMessages(server))
	defer front.Close()
	d := newFixture(t, server)
	d.env = append(d.env, "ANTHROPIC_BASE_URL="+front.URL)
	d.dir = filepath.Join(d.dir, "plug")
	d.file(t, ".claude-plugin/plugin.json", `{"name": "plug", "version": "1.0.0", "description": "Reports"}`)
	d.file(t, "SKILL.md", "---\nname: plug\ndescription: Writes reports\n---\nWrite out.txt.\n")
	for name, text := range s.files {
		d.file(t, name, text)
	}
	args := command()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = d.dir
	cmd.Env = append(d.env, "IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	out, _ := cmd.CombinedOutput() // a failed case is an exit code of 1
	data, err := os.ReadFile(filepath.Join(d.dir, result))
	var r peerResult
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil || server.Left() > 0 || len(server.Refused()) > 0 {
		t.Fatalf("%v, %d answers left, refused %q\n%s", err, server.Left(), server.Refused(), out)
	}
	return r.verdicts()
}

// lastMessages passes on the last message of a request, so that parts of the format that our own adapter does not use are
// not refused.
func lastMessages(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var full struct {
			Messages []struct{ Content json.RawMessage }
		}
		body, err := io.ReadAll(r.Body)
		if err == nil && r.URL.Path == "/v1/messages" {
			err = json.Unmarshal(body, &full)
		}
		if err != nil || len(full.Messages) == 0 {
			http.NotFound(w, r)
			return
		}
		text, _ := json.Marshal(string(full.Messages[len(full.Messages)-1].Content))
		short := fmt.Sprintf(`{"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": `+
			`[{"type": "text", "text": %s}]}]}`, text)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(short)), int64(len(short))
		to.ServeHTTP(w, r)
	})
}
