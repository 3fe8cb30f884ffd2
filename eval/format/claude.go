package format

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
)

// The cases of claude plugin eval: a directory with case.yaml, or with prompt.md and a directory graders.

// claudeFile reads a case.yaml or prompt.md.
func (r *reader) claudeFile(file string, data []byte) {
	dir := path.Base(path.Dir(strings.ReplaceAll(file, "\\", "/")))
	if strings.HasSuffix(file, "prompt.md") {
		r.claudePrompt(file, dir, data)
		return
	}
	v, err := readYAML(data, 1)
	if err != nil {
		r.failed(err, claudeHint)
		return
	}
	execution := v.get("execution")
	prompt := execution.get("prompt")
	c, ok := r.claudeCase(v, prompt, dir)
	if !ok || !r.limits(execution, &c) {
		return
	}
	r.unused(v.get("context"), "scaffold_script", "history_file")
	r.unused(execution, "env", "append_system_prompt", "disallowed_tools")
	for _, g := range itemsOf(v.get("graders")) {
		r.grader(g, "", &c)
	}
	r.keep(v, c)
}

const claudeHint = `name: a-case
execution: {prompt: "what a user says"}
graders: [{type: llm, name: answer, criteria: "what must be true"}]`

// claudePrompt reads a prompt.md and the graders beside it.
func (r *reader) claudePrompt(file, dir string, data []byte) {
	parts := frontmatter.Split(data)
	v := &value{kind: object, line: 1, column: 1}
	if len(parts.Head) > 0 {
		var err error
		if v, err = readYAML(parts.Head, max(parts.Line, 1)); err != nil {
			r.failed(err, "max_turns: 10")
			return
		}
	}
	above := string(data[:len(data)-len(parts.Body)])
	prompt := &value{kind: text, text: strings.TrimSpace(string(parts.Body)), line: 1 + strings.Count(above, "\n"),
		column: 1}
	c, ok := r.claudeCase(v, prompt, dir)
	if !ok {
		return
	}
	r.unused(v, "env", "append_system_prompt", "disallowed_tools")
	of := r.file
	folder := path.Join(path.Dir(file), "graders")
	for _, name := range names(r.root, folder) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		data, err := r.bytes(path.Join(folder, name))
		if err != nil {
			r.problem(nil, "", "the file cannot be read: %s", err)
			continue
		}
		r.set.Files = append(r.set.Files, r.file)
		parts := frontmatter.Split(data)
		g, err := readYAML(parts.Head, max(parts.Line, 1))
		if err != nil {
			r.failed(err, "type: llm")
			continue
		}
		if g.kind == null {
			g = &value{kind: object, line: 1, column: 1}
		}
		r.grader(g, strings.TrimSpace(string(parts.Body)), &c)
	}
	r.file = of
	r.keep(prompt, c)
}

// claudeCase reads what both forms of a case have.
func (r *reader) claudeCase(v, prompt *value, dir string) (c eval.Case, ok bool) {
	if !prompt.is(text) || strings.TrimSpace(prompt.text) == "" {
		r.problem(v, claudeHint, "the case has no prompt")
		return c, false
	}
	if len(prompt.text) > maxPrompt {
		r.problem(prompt, "", "the prompt is longer than %d bytes", maxPrompt)
		return c, false
	}
	c.Prompt, c.Expected = prompt.text, v.get("expected_outcome").scalar()
	id := v.get("name")
	if id == nil {
		id = &value{kind: text, text: dir, line: 1, column: 1}
	}
	c.ID = r.id(id, len(r.set.Cases))
	for _, tag := range itemsOf(v.get("tags")) {
		c.Tags = append(c.Tags, tag.scalar())
	}
	ok = r.limits(v, &c)
	return c, ok
}

// unused warns of fields that have no effect here.
func (r *reader) unused(v *value, fields ...string) {
	for _, name := range fields {
		if x := v.get(name); x != nil {
			r.warn(x, "%s is not used: the trial runs without it", name)
		}
	}
}

// keep adds a case that has something to check.
func (r *reader) keep(at *value, c eval.Case) {
	if len(c.Checks) == 0 {
		r.problem(at, "add a grader", "the case %s has nothing that is checked", c.ID)
		return
	}
	r.set.Cases = append(r.set.Cases, c)
}

const graderTypes = "the types are regex, tool_order, tool_used, file_exists, llm, baseline"

// grader reads a grader. body is the text below the frontmatter of its file.
func (r *reader) grader(v *value, body string, c *eval.Case) {
	k := eval.Check{WithOnly: v.get("arm").scalar() == "with-only"}
	if w := v.get("weight"); w != nil {
		k.Weight, _ = strconv.ParseFloat(w.scalar(), 64)
	}
	criteria := v.get("criteria").scalar()
	if criteria == "" {
		criteria = body
	}
	ok := true
	switch kind := v.get("type"); kind.scalar() {
	case "llm":
		k.Type, k.Text = eval.Judged, criteria
	case "baseline":
		k.Type = eval.Judged
		k.Text, ok = r.baseline(v, criteria)
	case "regex":
		ok = r.regexGrader(v, body, &k)
	case "file_exists":
		k.Type, k.Path, k.Not = eval.FileExists, v.get("path").scalar(), v.get("exists").scalar() == "false"
	case "tool_used":
		ok = r.usedGrader(v, &k)
	case "tool_order":
		k.Type = eval.ToolOrder
		for _, name := range []string{"before", "after"} {
			t := v.get(name)
			if t.get("input_match") != nil {
				r.warn(t, "input_match of a tool_order is not used")
			}
			if t.is(object) {
				t = t.get("tool")
			}
			if t.scalar() != "" {
				k.Values = append(k.Values, t.scalar())
			}
		}
		if len(k.Values) < 2 {
			r.problem(v, "before: Read\nafter: Write", "a tool_order needs before and after")
			ok = false
		}
	default:
		at := kind
		if at == nil {
			at = v
		}
		r.problem(at, graderTypes, "there is no type %q of graders", kind.scalar())
		ok = false
	}
	if ok && r.complete(v, &k) {
		c.Checks = append(c.Checks, k)
	}
}

func (r *reader) regexGrader(v *value, body string, k *eval.Check) bool {
	pattern := v.get("pattern").scalar()
	if pattern == "" {
		pattern = body
	}
	flags := ""
	for _, f := range v.get("flags").scalar() {
		if strings.ContainsRune("ims", f) {
			flags += string(f)
		}
	}
	if flags != "" {
		pattern = "(?" + flags + ")" + pattern
	}
	k.Value, k.Type = pattern, eval.Matches
	switch target := v.get("target"); {
	case target.is(object) && target.get("source").scalar() == "file":
		k.Type, k.Path = eval.FileMatches, target.get("path").scalar()
	case target == nil, target.scalar() == "last_message":
	case target.scalar() == "trace":
		k.Type = eval.TranscriptMatches
	default:
		r.problem(target, "write last_message, trace, or {source: file, path: …}", "this target is not known")
		return false
	}
	switch match := v.get("match"); {
	case match == nil, match.scalar() == "contains":
	case match.scalar() == "not_contains":
		k.Not = true
	default:
		r.problem(match, "write contains or not_contains", "match: %s is not supported", match.scalar())
		return false
	}
	return true
}

func (r *reader) usedGrader(v *value, k *eval.Check) bool {
	k.Type, k.Value, k.Pattern = eval.ToolUsed, v.get("tool").scalar(), v.get("input_match").scalar()
	k.WithOnly = k.WithOnly || strings.EqualFold(k.Value, "Skill")
	for name, to := range map[string]*int{"min": &k.Min, "max": &k.Max} {
		if x := v.get(name); x != nil {
			n, err := strconv.Atoi(x.scalar())
			if err != nil || n < 0 || n > 1e6 {
				r.problem(x, "", "%s must be a whole number", name)
				return false
			}
			if *to = n; name == "max" && n == 0 {
				k.Not = true
			}
		}
	}
	return true
}

// maxBaseline limits the text of a reference that a judge compares with, in bytes.
const maxBaseline = 32 << 10

func (r *reader) baseline(v *value, criteria string) (string, bool) {
	file := v.get("baseline_file")
	name, ok := r.find(file.scalar())
	if !ok {
		r.problem(v, "paths begin at the folder of the case", "the reference %s is not there", file.scalar())
		return "", false
	}
	of := r.file
	data, err := r.bytes(name)
	r.file = of
	if err != nil || len(data) > maxBaseline {
		r.problem(file, "", "the reference cannot be read, or is longer than %d bytes", maxBaseline)
		return "", false
	}
	if criteria == "" {
		criteria = "The result is as good as the reference."
	}
	return fmt.Sprintf("%s\nThe reference:\n%s", criteria, data), true
}
