package format_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/format"
)

// TestClaude reads both forms of the cases of claude plugin eval, with the six types of graders.
func TestClaude(t *testing.T) {
	dir := skill(t, map[string]string{
		"evals/merge/prompt.md":          "---\nmax_turns: 5\nruns: 2\ntags: [smoke]\n---\n\nMerge a.pdf and b.pdf.\n",
		"evals/merge/graders/answer.md":  "---\ntype: llm\nweight: 2\n---\nThe answer names merged.pdf.\n",
		"evals/merge/graders/file.md":    "---\ntype: file_exists\npath: merged.pdf\n---\n",
		"evals/merge/graders/used.md":    "---\ntype: tool_used\ntool: Skill\ninput_match: pdf\n---\n",
		"evals/merge/graders/wrong.md":   "---\ntype: llmm\n---\nx\n",
		"evals/merge/graders/readme.txt": "not a grader",
		"evals/split/expected.txt":       "two files",
		"evals/results/x/aggregate.json": "{}",
		"evals/split/case.yaml": `schema_version: "1.0"
name: split it
description: Splits a file.
execution:
  prompt: Split a.pdf
  timeout_seconds: 60
  env: {A: b}
graders:
  - {type: regex, name: said, pattern: "split", flags: i}
  - {type: regex, name: trace, target: trace, pattern: a, match: not_contains}
  - {type: regex, name: inside, target: {source: file, path: out.txt}, pattern: "^x$", flags: m}
  - {type: tool_order, name: order, before: Read, after: {tool: Bash}}
  - {type: tool_used, name: never, tool: WebFetch, max: 0}
  - {type: file_exists, name: gone, path: tmp, exists: false}
  - {type: baseline, name: same, baseline_file: expected.txt, criteria: As good.}
  - {type: regex, name: count, pattern: a, match: "count:2"}
`,
	})
	files, err := format.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"evals/merge/prompt.md", "evals/split/case.yaml"}, files); diff != "" {
		t.Fatal(diff)
	}
	set, bad := format.Read("pdf", dir, files...)
	want := []eval.Case{
		{ID: "merge", Prompt: "Merge a.pdf and b.pdf.", Tags: []string{"smoke"}, Trials: 2, Requests: 5, Checks: []eval.Check{
			{Type: eval.Judged, Text: "The answer names merged.pdf.", Weight: 2},
			{Type: eval.FileExists, Path: "merged.pdf"},
			{Type: eval.ToolUsed, Value: "Skill", Pattern: "pdf", WithOnly: true}}},
		{ID: "split-it", Prompt: "Split a.pdf", Timeout: 60e9, Checks: []eval.Check{
			{Type: eval.Matches, Value: "(?i)split"},
			{Type: eval.TranscriptMatches, Value: "a", Not: true},
			{Type: eval.FileMatches, Path: "out.txt", Value: "(?m)^x$"},
			{Type: eval.ToolOrder, Values: []string{"Read", "Bash"}},
			{Type: eval.ToolUsed, Value: "WebFetch", Not: true},
			{Type: eval.FileExists, Path: "tmp", Not: true},
			{Type: eval.Judged, Text: "As good.\nThe reference:\ntwo files"}}},
	}
	if diff := cmp.Diff(want, set.Cases); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(`wrong.md:2:7: there is no type "llmm" of graders (the types are regex, tool_order, tool_used, file_exists, llm, baseline)
case.yaml:7:8: env is not used: the trial runs without it
case.yaml:16:51: match: count:2 is not supported (write contains or not_contains)
`, problems(bad)); diff != "" {
		t.Error(diff)
	}
}

// TestOthers reads what is about texts and files of waza's and promptfoo's sets, and names the rest.
func TestOthers(t *testing.T) {
	dir := skill(t, map[string]string{
		"evals/eval.yaml": `name: x
skill: pdf
config: {trials_per_task: 2}
tasks: ["tasks/*.yaml"]
graders:
  - {type: text, name: t, config: {contains: [done], regex_not_match: ["(?i)error"]}}
  - {type: code, name: c, config: {assertions: ["len(output) > 3"]}}
`,
		"evals/tasks/a.yaml": "id: a\ninputs: {prompt: Do a}\nexpected: {output_contains: [a]}\n",
		"evals/tasks/b.yaml": "id: b\ninputs: {}\n",
		"promptfooconfig.yaml": `prompts: ["Sum {{list}}", "file://other.txt"]
tests:
  - description: small
    vars: {list: "1, 2"}
    assert:
      - {type: icontains, value: Three}
      - {type: not-contains, value: sorry}
      - {type: is-json}
      - {type: javascript, value: "output.length > 1"}
`,
	})
	files, err := format.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	set, bad := format.Read("pdf", dir, files...)
	want := []eval.Case{
		{ID: "a", Prompt: "Do a", Trials: 2, Checks: []eval.Check{{Type: eval.Contains, Value: "a"},
			{Type: eval.Contains, Value: "done"}, {Type: eval.Matches, Value: "(?i)error", Not: true}}},
		{ID: "small", Prompt: "Sum 1, 2", Checks: []eval.Check{{Type: eval.Matches, Value: "(?i)Three"},
			{Type: eval.Contains, Value: "sorry", Not: true}, {Type: eval.JSONPath, At: "$"}}},
	}
	if diff := cmp.Diff(want, set.Cases); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(`a.yaml:7:12: graders of the type "code" are not supported: text, regex, file and prompt are
b.yaml:1:1: the task has no prompt, or one of more than 65536 bytes (inputs:
  prompt: what a user says)
promptfooconfig.yaml:9:9: asserts of the type "javascript" are not supported: contains, icontains, equals, starts-with, regex, is-json and llm-rubric are
promptfooconfig.yaml:1:27: prompts in other files are not read (write the prompt here)
`, problems(bad)); diff != "" {
		t.Error(diff)
	}
}
