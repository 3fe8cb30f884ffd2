package format

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

func letter(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

// types returns the types of checks by what people call them, with underscores written as hyphens.
func types() map[string]eval.CheckType {
	return map[string]eval.CheckType{
		"judge": eval.Judged, "llm": eval.Judged, "llm-rubric": eval.Judged, "rubric": eval.Judged, "semantic": eval.Judged,
		"contains": eval.Contains, "regex": eval.Matches, "matches": eval.Matches,
		"file-exists": eval.FileExists, "file-contains": eval.FileContains, "file-regex": eval.FileMatches,
		"json-path": eval.JSONPath, "command": eval.CommandExits, "command-exit": eval.CommandExits,
		"transcript-regex": eval.TranscriptMatches, "command-exits": eval.CommandExits, "snapshot": eval.Snapshot,
		"tool-used": eval.ToolUsed, "tool-order": eval.ToolOrder,
	}
}

// own are the types that a hint names.
var own = []eval.CheckType{eval.Judged, eval.Contains, eval.Matches, eval.FileExists, eval.FileContains,
	eval.FileMatches, eval.TranscriptMatches, eval.JSONPath, eval.CommandExits, eval.Snapshot, eval.ToolUsed,
	eval.ToolOrder}

func ownTypes() string {
	names := make([]string, len(own))
	for i, t := range own {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

// check reads an assertion: a sentence, or an object with a type.
func (r *reader) check(v *value) (c eval.Check, ok bool) {
	if v.is(text) && strings.TrimSpace(v.text) != "" {
		return eval.Check{Type: eval.Judged, Text: v.text}, true
	}
	if !v.is(object) {
		r.problem(v, `"what must be true", or {"type": "contains", "value": "…"}`, "an assertion is a sentence or an object, "+
			"not %s", v.kind)
		return c, false
	}
	c.Text = v.get("text", "description", "assertion", "expectation", "criterion", "name").scalar()
	name := v.get("type")
	if name == nil {
		if c.Text == "" {
			r.problem(v, `{"type": "contains", "value": "…"}`, "the assertion has neither a text nor a type")
			return c, false
		}
		c.Type = eval.Judged
		return c, true
	}
	called := strings.ReplaceAll(strings.ToLower(name.scalar()), "_", "-")
	if rest, found := strings.CutPrefix(called, "not-"); found {
		called, c.Not = rest, true
	}
	known := types()
	if c.Type, ok = known[called]; !ok {
		like := similar.Names(called, slices.Sorted(maps.Keys(known)))
		if len(like) == 0 && v.get("text") != nil && v.get("value", "pattern", "path", "file", "command") == nil {
			c.Type = eval.Judged // a sentence with a label, such as {"text": "…", "type": "boolean"}
			return c, true
		}
		hint := "the types are " + ownTypes()
		if len(like) > 0 {
			hint = "write " + like[0] + "; " + hint
		}
		r.problem(name, hint, "there is no type %q of assertions", name.scalar())
		return c, false
	}
	return c, r.fill(v, &c) && r.complete(v, &c)
}

// fill reads the fields of an assertion, and reports whether all have the kind that they need: one that is passed over
// would check something else than what was written.
func (r *reader) fill(v *value, c *eval.Check) bool {
	before := len(r.problems)
	if x := v.get("value", "pattern", "expected", "substring", "command", "tool"); x != nil {
		c.Value = x.scalar()
		if c.Type == eval.JSONPath && !x.is(text) {
			c.Value = string(x.JSON())
		}
	}
	for _, x := range itemsOf(v.get("values", "tools", "order")) {
		c.Values = append(c.Values, x.scalar())
	}
	c.Path = v.get("path", "file", "dir").scalar()
	c.At = v.get("at", "json_path", "jsonpath").scalar()
	c.Pattern = v.get("input", "input_pattern", "args").scalar()
	r.whole(v.get("exit", "exit_code"), &c.Exit)
	r.whole(v.get("min"), &c.Min)
	r.whole(v.get("max"), &c.Max)
	c.Not = c.Not != r.truth(v.get("not", "negate"))
	c.WithOnly = r.truth(v.get("with_only", "with-only", "withOnly"))
	if x := v.get("weight"); x != nil {
		var err error
		if c.Weight, err = strconv.ParseFloat(x.scalar(), 64); err != nil {
			r.problem(x, "write a number, such as 2", "a weight is a number, not %s", x)
		}
	}
	return len(r.problems) == before
}

// whole reads a whole number into to, if there is one.
func (r *reader) whole(v *value, to *int) {
	if v == nil {
		return
	}
	n, err := strconv.Atoi(v.scalar())
	if err != nil {
		r.problem(v, "write a whole number, such as 1", "this must be a whole number, not %s", v)
	}
	*to = n
}

// truth reads true or false; a value that is not there is false.
func (r *reader) truth(v *value) bool {
	if v != nil && !v.is(truth) {
		r.problem(v, "write true or false", "this must be true or false, not %s", v)
	}
	return v.is(truth) && v.text == "true"
}

// complete reports whether a check has what its type needs.
func (r *reader) complete(v *value, c *eval.Check) bool {
	needs := func(field, what string) bool {
		if what == "" {
			r.problem(v, "add "+strconv.Quote(field), "an assertion of the type %s needs %s", c.Type, field)
		}
		return what != ""
	}
	if c.Weight < 0 || c.Weight > 1e6 || c.Weight != c.Weight {
		r.problem(v, "write a number from 0 to 1000000", "the weight is not between 0 and 1000000")
		return false
	}
	switch c.Type {
	case eval.Judged:
		if c.Text == "" {
			c.Text = c.Value
		}
		return needs("text", c.Text)
	case eval.Contains, eval.CommandExits, eval.ToolUsed:
		return needs("value", c.Value) && r.compiles(v, c.Pattern)
	case eval.Matches, eval.TranscriptMatches:
		return needs("value", c.Value) && r.compiles(v, c.Value)
	case eval.FileExists:
		return needs("path", c.Path) && r.local(v, c) && r.glob(v, c)
	case eval.FileContains:
		return needs("path", c.Path) && needs("value", c.Value) && r.local(v, c)
	case eval.FileMatches:
		return needs("path", c.Path) && needs("value", c.Value) && r.local(v, c) && r.compiles(v, c.Value)
	case eval.JSONPath:
		return needs("at", c.At) && (c.Path == "" || r.local(v, c))
	case eval.Snapshot:
		return needs("path", c.Path) && r.local(v, c)
	case eval.ToolOrder:
		if len(c.Values) == 0 {
			return needs("values", "")
		}
	}
	return true
}

func (r *reader) compiles(v *value, pattern string) bool {
	if _, err := regexp.Compile(pattern); err != nil {
		r.problem(v, "the syntax is that of Go: https://pkg.go.dev/regexp/syntax", "%s", err)
		return false
	}
	return true
}

func (r *reader) local(v *value, c *eval.Check) bool {
	if !isLocal(c.Path) {
		r.problem(v, "", "the path %q leads out of the directory of the trial", c.Path)
		return false
	}
	return true
}

func (r *reader) glob(v *value, c *eval.Check) bool {
	if !doublestar.ValidatePattern(c.Path) {
		r.problem(v, "", "%q is not a glob", c.Path)
		return false
	}
	return true
}
