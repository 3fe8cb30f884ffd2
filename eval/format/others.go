package format

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/knack-agent/knack/eval"
)

// yaml reads eval.yaml of waza or promptfooconfig.yaml.
func (r *reader) yaml(data []byte) {
	v, err := readYAML(data, 1)
	switch {
	case err != nil:
		r.failed(err, "")
	case v.get("tests") != nil && v.get("prompts") != nil:
		r.promptfoo(v)
	case v.get("tasks") != nil:
		r.waza(v)
	case v.get("stimuli") != nil:
		r.problem(v, "knack eval reads evals.json", "sets of vally are not supported")
	default:
		r.problem(v, "tasks of waza, or prompts and tests of promptfoo are read", "this is no set that is known")
	}
}

// waza reads an eval.yaml, whose tasks are in files of their own.
func (r *reader) waza(v *value) {
	config := v.get("config")
	r.unused(v, "hooks", "mcp_mocks", "metrics")
	trials, _ := strconv.Atoi(config.get("trials_per_task").scalar())
	of, folder := r.file, path.Dir(r.relative())
	for _, glob := range itemsOf(v.get("tasks")) {
		pattern := path.Join(folder, glob.scalar())
		if !isLocal(pattern) || !doublestar.ValidatePattern(pattern) {
			r.problem(glob, "", "%q is not a glob below the folder of the skill", glob.scalar())
			continue
		}
		found, err := doublestar.Glob(r.root.FS(), pattern, doublestar.WithNoFollow(), doublestar.WithFilesOnly())
		if err != nil || len(found) == 0 {
			r.problem(glob, "", "there is no task %s", glob.scalar())
			continue
		}
		slices.Sort(found)
		for _, name := range found[:min(len(found), maxNames)] {
			r.wazaTask(name, v.get("graders"), min(trials, maxTrials))
			r.file = of
		}
	}
}

// relative returns the file that is read relative to the folder of the skill, with slashes.
func (r *reader) relative() string {
	rel, err := filepath.Rel(r.set.Dir, r.file)
	if err != nil || !filepath.IsLocal(rel) {
		return "."
	}
	return filepath.ToSlash(rel)
}

func (r *reader) wazaTask(name string, graders *value, trials int) {
	data, err := r.bytes(name)
	if err != nil {
		r.problem(nil, "", "the file cannot be read: %s", err)
		return
	}
	r.set.Files = append(r.set.Files, r.file)
	v, err := readYAML(data, 1)
	if err != nil {
		r.failed(err, "")
		return
	}
	prompt := v.get("inputs").get("prompt")
	if !prompt.is(text) || strings.TrimSpace(prompt.text) == "" || len(prompt.text) > maxPrompt {
		r.problem(v, "inputs:\n  prompt: what a user says", "the task has no prompt, or one of more than %d bytes", maxPrompt)
		return
	}
	id := v.get("id", "name")
	c := eval.Case{Prompt: prompt.text, ID: r.id(id, len(r.set.Cases)), Trials: max(trials, 0)}
	if !r.files(v.get("inputs").get("files"), &c) {
		return
	}
	expected := v.get("expected")
	for _, x := range itemsOf(expected.get("output_contains")) {
		c.Checks = append(c.Checks, eval.Check{Type: eval.Contains, Value: x.scalar()})
	}
	for _, x := range itemsOf(expected.get("output_not_contains")) {
		c.Checks = append(c.Checks, eval.Check{Type: eval.Contains, Value: x.scalar(), Not: true})
	}
	for _, g := range append(slices.Clone(itemsOf(graders)), itemsOf(v.get("graders"))...) {
		r.wazaGrader(g, &c)
	}
	r.keep(v, c)
}

func (r *reader) wazaGrader(g *value, c *eval.Case) {
	config := g.get("config")
	add := func(kind eval.CheckType, not bool, names ...string) {
		for _, x := range itemsOf(config.get(names...)) {
			k := eval.Check{Type: kind, Not: not, Value: x.scalar()}
			if kind == eval.FileExists {
				k.Path, k.Value = k.Value, ""
			}
			if r.complete(x, &k) {
				c.Checks = append(c.Checks, k)
			}
		}
	}
	switch kind := g.get("type"); kind.scalar() {
	case "text":
		add(eval.Contains, false, "contains", "contains_cs")
		add(eval.Contains, true, "not_contains", "not_contains_cs")
		add(eval.Matches, false, "regex_match", "must_match")
		add(eval.Matches, true, "regex_not_match", "must_not_match")
	case "regex":
		add(eval.Matches, false, "must_match", "patterns")
		add(eval.Matches, true, "must_not_match")
	case "file":
		add(eval.FileExists, false, "must_exist")
		add(eval.FileExists, true, "must_not_exist")
	case "prompt":
		if s := config.get("prompt").scalar(); s != "" {
			c.Checks = append(c.Checks, eval.Check{Type: eval.Judged, Text: s})
		}
	default:
		at := kind
		if at == nil {
			at = g
		}
		r.warn(at, "graders of the type %q are not supported: text, regex, file and prompt are", kind.scalar())
	}
}

// promptfoo reads prompts and tests: each test with each prompt is a case.
func (r *reader) promptfoo(v *value) {
	for p, prompt := range itemsOf(v.get("prompts")) {
		if prompt.is(object) {
			prompt = prompt.get("raw", "prompt", "id")
		}
		if !prompt.is(text) || strings.HasPrefix(prompt.text, "file:") {
			r.problem(prompt, "write the prompt here", "prompts in other files are not read")
			continue
		}
		for i, test := range itemsOf(v.get("tests")) {
			if !test.is(object) {
				r.problem(test, "", "a test is an object, not %s", test.kind)
				continue
			}
			c := eval.Case{Prompt: fillIn(prompt.text, test.get("vars"))}
			if len(c.Prompt) > maxPrompt {
				r.problem(prompt, "", "the prompt is longer than %d bytes", maxPrompt)
				continue
			}
			name := test.get("description").scalar()
			if name == "" {
				name = strconv.Itoa(i + 1)
			}
			if p > 0 {
				name += "-" + strconv.Itoa(p+1)
			}
			c.ID = r.id(&value{kind: text, text: name, line: test.line, column: test.column}, i)
			for _, a := range itemsOf(test.get("assert")) {
				r.assert(a, &c)
			}
			r.keep(test, c)
		}
	}
}

// fillIn puts the variables of a test in the place of {{name}}.
func fillIn(prompt string, vars *value) string {
	if vars == nil {
		return prompt
	}
	for _, f := range vars.fields {
		for _, mark := range []string{"{{" + f.name.text + "}}", "{{ " + f.name.text + " }}"} {
			if len(prompt) <= maxPrompt {
				prompt = strings.ReplaceAll(prompt, mark, f.value.scalar())
			}
		}
	}
	return prompt
}

func (r *reader) assert(a *value, c *eval.Case) {
	kind := a.get("type").scalar()
	k := eval.Check{Value: a.get("value").scalar()}
	if rest, ok := strings.CutPrefix(kind, "not-"); ok {
		kind, k.Not = rest, true
	}
	if w := a.get("weight"); w != nil {
		k.Weight, _ = strconv.ParseFloat(w.scalar(), 64)
	}
	switch kind {
	case "contains":
		k.Type = eval.Contains
	case "icontains":
		k.Type, k.Value = eval.Matches, "(?i)"+regexp.QuoteMeta(k.Value)
	case "equals":
		k.Type, k.Value = eval.Matches, `\A\s*`+regexp.QuoteMeta(strings.TrimSpace(k.Value))+`\s*\z`
	case "starts-with":
		k.Type, k.Value = eval.Matches, `\A`+regexp.QuoteMeta(k.Value)
	case "regex":
		k.Type = eval.Matches
	case "is-json":
		k.Type, k.At, k.Value = eval.JSONPath, "$", ""
	case "llm-rubric", "factuality", "model-graded-closedqa":
		k.Type, k.Text, k.Value = eval.Judged, k.Value, ""
	default:
		r.warn(a, "asserts of the type %q are not supported: contains, icontains, equals, starts-with, regex, is-json and "+
			"llm-rubric are", kind)
		return
	}
	if r.complete(a, &k) {
		c.Checks = append(c.Checks, k)
	}
}
