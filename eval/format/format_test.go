package format_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/format"
)

// skill writes files to the folder of a skill.
func skill(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func problems(all []eval.Problem) string {
	var b strings.Builder
	for _, p := range all {
		p.File = filepath.Base(p.File)
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// TestSpellings: what the two spellings of evals.json say is the same.
func TestSpellings(t *testing.T) {
	var sets []*eval.Set
	for _, name := range []string{"assertions", "expectations"} {
		dir := skill(t, map[string]string{"evals/files/in.csv": "a,b\n", "evals/evals.json": `{
  "skill_name": "csv",
  "evals": [
    {"id": 1, "prompt": "sum it", "expected_output": "7", "files": ["evals/files/in.csv"],
     "` + name + `": ["the sum is 7", {"type": "contains", "value": "7"}, {"text": "no guess"}]},
    {"id": "two", "prompt": "count it", "expected_output": "three rows", "files": ["files/in.csv"]}
  ]
}`})
		set, bad := format.Read("csv", dir, "evals/evals.json")
		if len(bad) > 0 {
			t.Fatal(problems(bad))
		}
		set.Dir, set.Files = "", nil
		sets = append(sets, set)
	}
	want := []eval.Case{
		{ID: "1", Prompt: "sum it", Expected: "7", Files: []string{"evals/files/in.csv"}, Checks: []eval.Check{
			{Type: eval.Judged, Text: "the sum is 7"}, {Type: eval.Contains, Value: "7"}, {Type: eval.Judged, Text: "no guess"}}},
		{ID: "two", Prompt: "count it", Expected: "three rows", Files: []string{"evals/files/in.csv"}, Checks: []eval.Check{
			{Type: eval.Judged, Text: "The result is what is expected: three rows"}}},
	}
	if diff := cmp.Diff(want, sets[0].Cases); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(sets[0], sets[1]); diff != "" {
		t.Error(diff)
	}
}

// TestBehaviour reads what authors write who follow Anthropic's page on skills: a query and the behaviour that is expected,
// in one object, a list of them, or as one sentence.
func TestBehaviour(t *testing.T) {
	want := []eval.Case{{ID: "1", Prompt: "sum it", Checks: []eval.Check{{Type: eval.Judged, Text: "It says 7."}}}}
	for _, text := range []string{
		`{"skills": ["csv"], "query": "sum it", "files": [], "expected_behavior": ["It says 7."]}`,
		`[{"query": "sum it", "expected_behavior": "It says 7."}]`,
		`[{"task": "sum it", "assertions": ["It says 7."]}]`,
		`{"evaluations": [{"prompt": "sum it", "expected_behaviors": ["It says 7."]}]}`,
	} {
		set, bad := format.Read("csv", skill(t, map[string]string{"evals/evals.json": text}), "evals/evals.json")
		if diff := cmp.Diff(want, set.Cases); diff != "" || len(bad) > 0 {
			t.Errorf("%s: %s%s", text, problems(bad), diff)
		}
	}
	set, bad := format.Read("csv", skill(t, map[string]string{"evals/evals.json": `{"evaluations": [{"prompt": "sum it",
		"should_trigger": true}]}`}), "evals/evals.json")
	if diff := cmp.Diff([]eval.Query{{Query: "sum it", Should: true}}, set.Queries); diff != "" || len(bad) > 0 {
		t.Errorf("%s%s", problems(bad), diff)
	}
}

// TestMistakes: each mistake is named with its place and what to write, and the other cases are read.
func TestMistakes(t *testing.T) {
	dir := skill(t, map[string]string{"evals/evals.json": `{"skill_name": "other", "evals": [
  {"id": 1, "prompt": "good", "assertions": ["yes"]},
  {"id": 1, "prompt": "the same ID", "assertions": ["yes"]},
  {"id": 3, "assertions": ["no prompt"]},
  {"id": 4, "prompt": "nothing is checked"},
  {"id": 5, "prompt": "no such file", "files": ["../../etc/passwd"], "assertions": ["yes"]},
  {"id": 6, "prompt": "a type", "assertions": [{"text": "yes", "type": "boolean"}, {"text": "x is there", "type": "file_exist", "path": "x"}]},
  {"id": 7, "prompt": "a pattern", "assertions": ["yes", {"type": "regex", "value": "("}]},
  {"id": 8, "prompt": "a path", "assertions": ["yes", {"type": "file-exists", "path": "../x"}]},
  {"id": 9, "prompt": "a number", "runs": 0, "assertions": ["yes"]},
  "text",
  {"id": "../../a b/c", "prompt": "last", "assertions": ["yes", 7]}
]}`})
	set, bad := format.Read("csv", dir, "evals/evals.json")
	var ids []string
	for _, c := range set.Cases {
		ids = append(ids, c.ID)
		if len(c.Checks) != 1 {
			t.Errorf("%s: %v", c.ID, c.Checks)
		}
	}
	if got := strings.Join(ids, " "); got != "1 1-2 6 7 8 a-b-c" {
		t.Errorf("cases: %s", got)
	}
	want := `evals.json:1:16: the set is of the skill "other", and is beside the skill "csv": it is read as that of the latter (write "csv")
evals.json:3:10: another case has the ID 1: this one is called 1-2 (give each case an ID of its own)
evals.json:4:3: the case has no prompt (add "prompt": "what a user says")
evals.json:5:3: the case 4 has nothing that is checked (add "assertions": ["what must be true of the result"])
evals.json:6:49: the case 5 needs the file ../../etc/passwd, and there is no such file (paths begin at the folder of the skill)
evals.json:7:115: there is no type "file_exist" of assertions (write file-exists; the types are judge, contains, regex, file-exists, file-contains, file-regex, transcript-regex, json-path, command, snapshot, tool-used, tool-order)
evals.json:8:58: error parsing regexp: missing closing ): ` + "`(`" + ` (the syntax is that of Go: https://pkg.go.dev/regexp/syntax)
evals.json:9:55: the path "../x" leads out of the directory of the trial
evals.json:10:43: runs must be a whole number from 1 to 1000
evals.json:11:3: an entry is an object, not a text ({"skill_name": "pdf", "evals": [{"id": 1, "prompt": "what a user says", "assertions": ["what must be true"]}]})
evals.json:12:65: an assertion is a sentence or an object, not a number ("what must be true", or {"type": "contains", "value": "…"})
`
	if diff := cmp.Diff(want, problems(bad)); diff != "" {
		t.Error(diff)
	}
}

// FuzzRead: no content of a file of a set makes the reader fail, and what it reads is sound.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`[{"query": "q", "should_trigger": true}, {"query": 1, "should_trigger": "x"}]`))
	f.Add([]byte(`{"skill_name": "s", "evals": [{"id": 1, "prompt": "p", "files": ["../x", "a"], "assertions": ["a", {"type":
		"json-path", "at": "$.a", "value": [1, {"b": null}]}, {"type": "not_contains", "value": "v", "weight": 1e300}]}]}`))
	f.Add([]byte("\xef\xbb\xbf{\"evals\": [[[[]]], {\"prompt\": \"\\ud800\", \"expectations\": {}}]} // x"))
	f.Add([]byte(strings.Repeat("[", 10_000)))
	f.Add([]byte("---\nmax_turns: 3\n---\nDo it.\n"))
	f.Add([]byte("name: a\nexecution: {prompt: p}\ngraders: [{type: regex, pattern: x, target: {source: file, path: ../y}}]\n"))
	f.Add([]byte("prompts: [\"{{a}}{{a}}\"]\ntests: [{vars: {a: \"{{a}}\"}, assert: [{type: equals, value: x}]}]\n"))
	f.Add([]byte("tasks: [\"../*\", \"*.yaml\", \"[\"]\nx: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"set.json", "case.yaml", "prompt.md", "eval.yaml"} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
			set, bad := format.Read("s", dir, name)
			sound(t, set, bad, 2+strings.Count(string(data), "\n"))
		}
	})
}

// sound fails if a set or a problem of a file with so many lines cannot be used.
func sound(t *testing.T, set *eval.Set, bad []eval.Problem, lines int) {
	t.Helper()
	ids := map[string]bool{}
	for _, c := range set.Cases {
		if ids[c.ID] || c.ID == "" || !filepath.IsLocal(c.ID) || strings.ContainsAny(c.ID, `/\`) {
			t.Errorf("the ID %q is no name of a file, or is not unique", c.ID)
		}
		ids[c.ID] = true
		if len(c.Checks) == 0 || strings.TrimSpace(c.Prompt) == "" || len(c.Prompt) > 64<<10 {
			t.Errorf("the case %q has nothing to do", c.ID)
		}
		for _, name := range c.Files {
			if !filepath.IsLocal(name) {
				t.Errorf("the file %q is not below the folder", name)
			}
		}
		for _, k := range c.Checks {
			if k.Path != "" && !filepath.IsLocal(strings.ReplaceAll(k.Path, "*", "x")) {
				t.Errorf("the path %q leads out", k.Path)
			}
		}
	}
	for _, p := range bad {
		if p.Message == "" || p.Line > lines || p.Line > 0 && p.Column < 1 {
			t.Errorf("problem %+v in %d lines", p, lines)
		}
	}
	if _, err := json.Marshal(set); err != nil {
		t.Error(err)
	}
}

// TestWrongKinds: a field with a value of another kind is named, and the assertion does not count: passed over, it
// would check something else than what was written.
func TestWrongKinds(t *testing.T) {
	for field, want := range map[string]string{
		`"not": "yes"`:            `this must be true or false, not "yes"`,
		`"with_only": 1`:          `this must be true or false, not "1"`,
		`"weight": "heavy"`:       `a weight is a number, not "heavy"`,
		`"exit": [1]`:             `this must be a whole number, not a list`,
		`"min": 1.5, "max": true`: `this must be a whole number, not "true"`,
	} {
		dir := skill(t, map[string]string{"evals/evals.json": `[{"id": 1, "prompt": "do it", "assertions": ["it is done",
			{"type": "command", "value": "true", ` + field + `}]}]`})
		set, bad := format.Read("csv", dir, "evals/evals.json")
		if !strings.Contains(problems(bad), want) {
			t.Errorf("%s: %q is not in %q", field, want, problems(bad))
		}
		if len(set.Cases) > 0 && len(set.Cases[0].Checks) != 1 {
			t.Errorf("%s: %+v", field, set.Cases[0].Checks)
		}
	}
}
