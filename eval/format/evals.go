package format

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/knack-agent/knack/eval"
)

var (
	shouldNames = []string{"should_trigger", "shouldTrigger", "should_activate"}
	queryNames  = []string{"query", "prompt", "input"}
	promptNames = []string{"prompt", "input", "query", "task"}
	checkNames  = []string{"assertions", "expectations", "expected_behavior", "expected_behaviors"}
)

const (
	maxPrompt = 64 << 10 // bytes
	maxTrials = 1000
	maxTime   = time.Hour
)

// trigger reads a trigger set.
func (r *reader) trigger(v *value) {
	for _, x := range entriesOf(v).items {
		should, query := x.get(shouldNames...), x.get(queryNames...)
		switch {
		case !query.is(text) || strings.TrimSpace(query.text) == "":
			r.problem(x, hintFor(formTrigger), "the entry has no query")
		case should.is(truth):
			r.query(query, eval.Query{Query: query.text, Should: should.text == "true"})
		case should == nil:
			r.problem(x, `add "should_trigger": true, or false`, "the query has no should_trigger")
		default:
			r.problem(should, "write true or false, without quotation marks", "should_trigger is %s", should.kind)
		}
	}
}

func (r *reader) query(at *value, q eval.Query) {
	if len(q.Query) > maxPrompt {
		r.problem(at, "", "the query is longer than %d bytes", maxPrompt)
		return
	}
	r.set.Queries = append(r.set.Queries, q)
}

// evals reads the cases of evals.json.
func (r *reader) evals(v *value) {
	if name := v.get("skill_name"); name.is(text) && r.set.Skill == "" {
		r.set.Skill = name.text
	} else if name.is(text) && name.text != r.set.Skill {
		r.problem(name, "write "+strconv.Quote(r.set.Skill), "the set is of the skill %q, and is beside the skill %q: it is "+
			"read as that of the latter", name.text, r.set.Skill)
	}
	entries := entriesOf(v)
	for i, x := range entries.items {
		if !x.is(object) {
			r.problem(x, hintFor(formEvals), "an entry is an object, not %s", x.kind)
			continue
		}
		r.evalCase(x, i)
	}
}

func (r *reader) evalCase(x *value, i int) {
	prompt := x.get(promptNames...)
	if !prompt.is(text) || strings.TrimSpace(prompt.text) == "" {
		r.problem(x, `add "prompt": "what a user says"`, "the case has no prompt")
		return
	}
	if len(prompt.text) > maxPrompt {
		r.problem(prompt, "", "the prompt is longer than %d bytes", maxPrompt)
		return
	}
	c := eval.Case{Prompt: prompt.text, Expected: x.get("expected_output", "expected").scalar()}
	id := x.get("id")
	if id == nil {
		id = x.get("name", "eval_name")
	}
	c.ID = r.id(id, i)
	for _, tag := range itemsOf(x.get("tags")) {
		if s := tag.scalar(); s != "" {
			c.Tags = append(c.Tags, s)
		}
	}
	if !r.files(x.get("files"), &c) || !r.limits(x, &c) {
		return
	}
	checks := x.get(checkNames...)
	switch {
	case checks != nil && !checks.is(list) && !checks.is(text):
		r.problem(checks, `["what must be true of the result"]`, "assertions is a list, not %s", checks.kind)
		return
	case checks != nil:
		for _, a := range itemsOf(checks) {
			if check, ok := r.check(a); ok {
				c.Checks = append(c.Checks, check)
			}
		}
	}
	if len(c.Checks) == 0 && c.Expected != "" {
		c.Checks = []eval.Check{{Type: eval.Judged, Text: "The result is what is expected: " + c.Expected}}
	}
	if len(c.Checks) == 0 {
		r.problem(x, `add "assertions": ["what must be true of the result"]`, "the case %s has nothing that is checked", c.ID)
		return
	}
	r.set.Cases = append(r.set.Cases, c)
}

// limits reads what a case says about its trials.
func (r *reader) limits(x *value, c *eval.Case) bool {
	whole := func(most int, names ...string) (int, bool) {
		v := x.get(names...)
		if v == nil {
			return 0, true
		}
		n, err := strconv.Atoi(v.scalar())
		if err != nil || n < 1 || n > most {
			r.problem(v, "", "%s must be a whole number from 1 to %d", names[0], most)
			return 0, false
		}
		return n, true
	}
	var ok [3]bool
	var seconds int
	c.Trials, ok[0] = whole(maxTrials, "runs", "trials")
	c.Requests, ok[1] = whole(maxTrials, "max_turns", "requests")
	seconds, ok[2] = whole(int(maxTime/time.Second), "timeout_seconds", "timeout")
	c.Timeout = time.Duration(seconds) * time.Second
	return ok[0] && ok[1] && ok[2]
}

func itemsOf(v *value) []*value {
	switch {
	case v.is(list):
		return v.items
	case v.is(text):
		return []*value{v}
	}
	return nil
}

// files reads the files that a case needs. They are relative to the folder of the skill; many authors mean the one of
// the set, so a file that is only there is meant.
func (r *reader) files(v *value, c *eval.Case) bool {
	if v != nil && !v.is(list) && !v.is(text) {
		r.problem(v, `["evals/files/input.csv"]`, "files is a list of paths, not %s", v.kind)
		return false
	}
	for _, f := range itemsOf(v) {
		if !f.is(text) {
			f = f.get("path", "name")
		}
		if !f.is(text) || f.text == "" {
			r.problem(v, `["evals/files/input.csv"]`, "the case %s: a file is a path below the folder of the skill", c.ID)
			return false
		}
		name, ok := r.find(f.text)
		if !ok {
			r.problem(f, "paths begin at the folder of the skill", "the case %s needs the file %s, and there is no such file",
				c.ID, f.text)
			return false
		}
		c.Files = append(c.Files, name)
	}
	return true
}

// find returns a file that a set names, relative to the folder of the skill.
func (r *reader) find(name string) (string, bool) {
	name = strings.TrimSuffix(filepath.ToSlash(name), "/")
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", false
	}
	candidates := []string{name, path.Join("evals", name), path.Join("evals", "files", name)}
	if rel, err := filepath.Rel(r.set.Dir, filepath.Dir(r.file)); err == nil && filepath.IsLocal(rel) {
		candidates = append(candidates, path.Join(filepath.ToSlash(rel), name))
	}
	for _, c := range candidates {
		if info, err := r.root.Stat(filepath.FromSlash(c)); err == nil && info.Mode().IsRegular() {
			return c, true
		}
	}
	return "", false
}

// id returns the ID of a case, which is unique and can be the name of a file.
func (r *reader) id(v *value, i int) string {
	id := fileName(v.scalar())
	if id == "" {
		id = strconv.Itoa(i + 1)
	}
	if r.ids[id] {
		first := id
		for n := 2; r.ids[id]; n++ {
			id = first + "-" + strconv.Itoa(n)
		}
		if v != nil {
			r.problem(v, "give each case an ID of its own", "another case has the ID %s: this one is called %s", first, id)
		}
	}
	r.ids[id] = true
	return id
}

// fileName returns a text as the name of a file that every system can have.
func fileName(s string) string {
	const most = 60
	var b strings.Builder
	for _, c := range strings.TrimSpace(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.' && b.Len() > 0:
			b.WriteRune(c)
		case c >= 0x80 && c != utf8.RuneError && letter(c):
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= most {
			break
		}
	}
	return strings.TrimRight(b.String(), "-.")
}

// isLocal reports whether a path or glob stays below where it begins.
func isLocal(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(strings.ReplaceAll(name, "*", "x")))
}
