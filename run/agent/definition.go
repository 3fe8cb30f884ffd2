package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/hook"
)

// A Definition describes an agent that can work for another one: the content of agents/NAME.md. It
// is immutable.
type Definition struct {
	Name        string
	Description string // tells a model when to call it; "": the model sees only the name
	Prompt      string // its system prompt: the text of the file

	// Tools names its tools; nil: it has the tools of the agent that starts it. If a rule has a
	// pattern, only calls that match the list may run. The list never grants permission.
	Tools []string
	// DisallowedTools are rules. A rule that is only a tool's name removes the tool; a rule with a
	// pattern denies matching calls.
	DisallowedTools []string
	Model, Effort   string          // "": those of the agent that starts it
	Mode            permission.Mode // "": the run's mode. See [Definition.Loosens]
	MaxTurns        int             // requests; 0: no limit of its own
	Skills          []string        // loaded before it starts to work
	OnlySkills      bool            // "skillsOnly: true": it can use no others
	Background      bool            // the agent that starts it does not wait for it
	Isolated        bool            // "isolation: worktree": it works in a git worktree of its own

	// Hooks are in effect while it works, as JSON (see [hook.Parse]). Stop stands for its
	// SubagentStop, and SessionStart for its SubagentStart. They cannot allow calls.
	Hooks json.RawMessage
	// UsesServers names configured MCP servers whose tools it has in addition to Tools, if the
	// agent that starts it has them.
	UsesServers []string
	// MCPServers defines MCP servers of its own, as a JSON object by name. They run while it works,
	// and only it has their tools.
	MCPServers json.RawMessage

	// StartsAny means that the agents which it starts may have tools that it does not have itself
	// ("agents: any"). It takes effect only in user and managed files.
	StartsAny bool

	// Unclear says which restriction in it cannot be understood; "": all can be. Such an agent does not start.
	Unclear string

	within []string // tools of the built-in agent that it must not exceed; nil: no limit

	Unused []string // keys of its file that are only for people, or for the looks elsewhere

	Path string // of its file; "": there is no file
	// Origin is where it comes from: managed, explicit (the command line), user,
	// project, plugin or bundled.
	Origin knack.SourceKind
}

// Loosens reports whether its mode may be less strict than the run's. Only definitions by the user
// or by the administrator of the machine may be.
func (d *Definition) Loosens() bool {
	switch d.Origin {
	case knack.Managed, knack.Explicit, knack.User:
		return true
	}
	return false
}

// usable returns an error if a restriction in the definition cannot be understood.
func (d *Definition) usable() error {
	if d.Unclear == "" {
		return nil
	}
	return fmt.Errorf("the agent %s does not start: a restriction in its definition cannot be understood (%s)", d.Name,
		d.Unclear)
}

// Limits of a definition's file.
const (
	maxDefinition = 1 << 20
	maxHead       = 64 << 10
	maxAgentName  = 64
)

// ParseDefinition reads the content of agents/NAME.md. tools are the names that it may use for
// tools, in addition to those that every rule knows. ok is false if the file defines no usable
// agent. Problems are for its author; a wrong field does not affect the others.
func ParseDefinition(path string, data []byte, from knack.SourceKind, tools ...string) (d Definition,
	problems []knack.Problem, ok bool) {
	r := definitionReader{path: path, tools: tools}
	switch {
	case len(data) > maxDefinition:
		r.problem(knack.CodeTooLarge, knack.Error, 0, 0, "the file is larger than %d MiB; it was not loaded",
			maxDefinition>>20)
		return d, r.problems, false
	case bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data):
		r.problem(knack.CodeEncoding, knack.Error, 0, 0, "the file is not UTF-8 text; it was not loaded")
		return d, r.problems, false
	}
	f := frontmatter.Split(data)
	switch {
	case f.Fence == frontmatter.None:
		r.problem(knack.CodeFrontmatterMissing, knack.Info, 1, 0, "there is no frontmatter: this defines no agent")
		return d, r.problems, false
	case f.Fence == frontmatter.Unclosed:
		r.problem(knack.CodeFrontmatterUnclosed, knack.Error, 1, 0, "the frontmatter is not closed: this defines no agent")
		return d, r.problems, false
	case len(f.Head) > maxHead:
		r.problem(knack.CodeTooLarge, knack.Error, 1, 0, "the frontmatter is larger than %d KiB; it was not loaded",
			maxHead>>10)
		return d, r.problems, false
	}
	d = Definition{Path: path, Origin: from, Prompt: strings.TrimSpace(string(f.Body))}
	r.readHead(&d, f.Head, f.Line)
	base := filepath.Base(path)
	base = base[:len(base)-len(filepath.Ext(base))]
	switch {
	case d.Name == "" && agentName(base):
		r.problem(knack.CodeNameMissing, knack.Warn, 1, 0, "the frontmatter has no usable name; the agent is called %s", base)
		d.Name = base
	case d.Name == "":
		r.problem(knack.CodeNameMissing, knack.Error, 1, 0, "the frontmatter has no usable name; it was not loaded")
		return d, r.problems, false
	}
	r.checkDescription(&d)
	return d, r.problems, true
}

// ParseDefinitions reads definitions written as one JSON object, from name to fields, as for the
// flag --agents. The field prompt is the agent's text. It returns an error if text is not such an
// object.
func ParseDefinitions(text string, from knack.SourceKind, tools ...string) ([]Definition, []knack.Problem, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil || all == nil {
		return nil, nil, errors.New("not a JSON object of agents by name")
	}
	var defs []Definition
	var problems []knack.Problem
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !agentName(name) {
			return nil, nil, fmt.Errorf("%q cannot be the name of an agent", name)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(all[name], &fields); err != nil || fields == nil {
			return nil, nil, fmt.Errorf("agent %s: not a JSON object with description and prompt", name)
		}
		r := definitionReader{path: "agent " + name, tools: tools}
		d := Definition{Origin: from}
		var head bytes.Buffer // JSON is YAML: write one key per line
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			value := fields[key]
			if key == "prompt" {
				if json.Unmarshal(value, &d.Prompt) != nil {
					return nil, nil, fmt.Errorf("agent %s: prompt is not a string", name)
				}
				continue
			}
			head.Write(frontmatter.AppendString(nil, key))
			head.WriteString(": ")
			if err := json.Compact(&head, value); err != nil {
				return nil, nil, err
			}
			head.WriteByte('\n')
		}
		r.readHead(&d, head.Bytes(), 1)
		d.Name, d.Prompt = name, strings.TrimSpace(d.Prompt)
		r.checkDescription(&d)
		defs = append(defs, d)
		problems = append(problems, r.problems...)
	}
	return defs, problems, nil
}

// agentName reports whether name can be the name of an agent: it must be safe in rules, in a list
// for a model and on a terminal.
func agentName(name string) bool {
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.: ", r) {
			return false
		}
	}
	return name != "" && strings.Join(strings.Fields(name), " ") == name && utf8.RuneCountInString(name) <= maxAgentName
}

// A definitionReader reads one definition and collects its Problems.
type definitionReader struct {
	path     string
	tools    []string
	problems []knack.Problem
}

func (r *definitionReader) problem(code knack.Code, sev knack.Severity, line, column int, format string, args ...any) {
	r.problems = append(r.problems, knack.Problem{
		Code: code, Severity: sev, Path: r.path, Line: line, Column: column, Message: fmt.Sprintf(format, args...),
	})
}

func (r *definitionReader) checkDescription(d *Definition) {
	if d.Description == "" {
		r.problem(knack.CodeDescriptionMissing, knack.Warn, 1, 0,
			"there is no description: models only see the name")
	}
}

func (r *definitionReader) readHead(d *Definition, head []byte, line int) {
	entries, notes := frontmatter.Parse(head, line)
	for _, n := range notes {
		sev := knack.Warn
		if n.Kind.Unread() {
			sev = knack.Error
		}
		r.problem(knack.Code(n.Kind), sev, n.Line, n.Column, "%s", n.Message)
	}
	for _, e := range entries {
		raw, err := frontmatter.JSON(e.Value)
		if err != nil {
			r.problem(knack.CodeLimitReached, knack.Error, e.Line, e.Column, "%s: %v", e.Key, err)
			continue
		}
		r.field(d, &definitionField{r, e, raw})
	}
}

// agentKeys are the keys of an agent. Other spellings differ in letter case, and in - and _ between words.
var agentKeys = [...]string{"name", "description", "tools", "disallowedTools", "model", "effort", "permissionMode",
	"maxTurns", "skills", "skillsOnly", "hooks", "mcpServers", "agents", "isolation", "background"}

// agentKey returns the proper spelling of a key, or "" if it is none of an agent.
func agentKey(key string) string {
	key = strings.NewReplacer("-", "", "_", "").Replace(key)
	for _, k := range agentKeys {
		if strings.EqualFold(k, key) {
			return k
		}
	}
	return ""
}

// guardKeys are keys with which an agent does less.
var guardKeys = [...]string{"tools", "disallowedTools", "permissionMode", "maxTurns", "isolation", "hooks"}

// guardMeant returns the restriction that a key of no agent probably means; "": none. Words of other programs that
// restrict stand for themselves.
func guardMeant(key string) string {
	plain := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
	for _, k := range guardKeys {
		if similar.Near(plain, k, min(2, len(k)/4)) {
			return k
		}
	}
	for _, start := range []string{"block", "deni", "deny", "disable", "disallow", "exclude", "forbid", "permission",
		"readonly", "restrict", "sandbox"} {
		if strings.HasPrefix(plain, start) {
			return "tools, disallowedTools or permissionMode"
		}
	}
	return ""
}

// silentKeys are keys that people write for themselves or for the looks: only doctor lists them. Other unknown keys are
// problems.
var silentKeys = []string{"color", "version", "author", "tags", "category", "license", "metadata", "examples"}

// otherKeys are keys that have an effect on agents of other programs, and what has it here. Those that limit are
// warnings; guardMeant finds those that restrict, such as disable and permission.
var otherKeys = [...]struct {
	key      string
	severity knack.Severity
	hint     string
}{
	{"steps", knack.Warn, "write maxTurns"},
	{"maxSteps", knack.Warn, "write maxTurns"},
	{"initialPrompt", knack.Info, "put it into the text of the agent"},
	{"memory", knack.Info, "/memory keeps notes of yours"},
	{"omitClaudeMd", knack.Info, "an agent has the context files of the run"},
	{"autoCompactWindow", knack.Info, "compaction.reserve holds for all"},
	{"prompt", knack.Info, "write it below the frontmatter"},
	{"temperature", knack.Info, "write effort, for how hard it thinks"},
	{"variant", knack.Info, "write effort"},
	{"hidden", knack.Info, "without a description the model does not call it by itself"},
}

// tools reads the tools of an agent. A wrong restriction must not become "all tools".
func (d *Definition) tools(f *definitionField) {
	var choices map[string]bool
	if json.Unmarshal(f.raw, &choices) == nil && !f.null() { // OpenCode: {write: false}
		var on, off []string
		for _, name := range slices.Sorted(maps.Keys(choices)) {
			if choices[name] {
				on = append(on, name)
			} else {
				off = append(off, name)
			}
		}
		if i := slices.Index(off, "*"); i >= 0 {
			d.Tools = append([]string{}, f.rules(d, on, false)...)
			off = slices.Delete(off, i, i+1)
		}
		d.DisallowedTools = append(d.DisallowedTools, f.rules(d, off, true)...)
		return
	}
	texts := f.list(splitRules)
	switch strings.ToLower(strings.Join(texts, " ")) {
	case "all", "all tools":
		return
	}
	var on, off []string
	for _, text := range texts {
		if name, not := strings.CutPrefix(text, "!"); not {
			off = append(off, name)
		} else {
			on = append(on, text)
		}
	}
	d.DisallowedTools = append(d.DisallowedTools, f.rules(d, off, true)...)
	d.Tools = f.rules(d, on, false)
	switch {
	case slices.Contains(d.Tools, "*") && len(d.Tools) == len(on), len(on) == 0 && len(off) > 0:
		d.Tools = nil
	case d.Tools == nil && !f.null():
		d.Tools = []string{}
	}
}

// unclear reports a restriction that cannot be understood.
func (d *Definition) unclear(f *definitionField, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	if d.Unclear == "" {
		d.Unclear = why
	}
	f.problem(knack.CodeFieldType, knack.Error, f.Line, f.Column, "%s: the agent does not start, because this was to "+
		"restrict it", why)
}

func (r *definitionReader) field(d *Definition, f *definitionField) {
	key := agentKey(f.Key)
	if key != "" && key != f.Key {
		r.problem(knack.CodeUnknownKey, knack.Warn, f.Line, f.Column, "%s is not a key; it was read as %s", f.Key, key)
	}
	switch key {
	case "name":
		if d.Name = f.text(); d.Name != "" && !agentName(d.Name) {
			f.problemf(knack.CodeNameInvalid,
				"the name %q cannot be used: letters, digits, - _ . : and single spaces, at most %d", d.Name, maxAgentName)
			d.Name = ""
		}
	case "description":
		d.Description = f.text()
	case "":
		switch name, meant := strings.ToLower(f.Key), guardMeant(f.Key); {
		case meant != "":
			d.unclear(f, "%s is not a key of an agent; did you mean %s", f.Key, meant)
		case strings.HasPrefix(name, "allowed"):
			r.problem(knack.CodeUnknownKey, knack.Warn, f.Line, f.Column, "%s has no effect on an agent: tools limits it", f.Key)
		case slices.Contains(silentKeys, name):
			d.Unused = append(d.Unused, f.Key)
		default:
			severity, hint := knack.Info, ""
			for _, x := range otherKeys {
				if x.key == f.Key {
					severity, hint = x.severity, x.hint
				}
			}
			r.problem(knack.CodeUnknownKey, severity, f.Line, f.Column, "%s has no effect on an agent", f.Key)
			r.problems[len(r.problems)-1].Hint = hint
		}
	case "tools":
		d.tools(f)
	case "disallowedTools":
		if !f.texts() {
			d.unclear(f, "disallowedTools is not a text or a list of texts")
		}
		d.DisallowedTools = append(d.DisallowedTools, f.rules(d, f.list(splitRules), true)...)
	case "model":
		if d.Model = f.text(); d.Model == "inherit" {
			d.Model = ""
		}
	case "effort":
		d.Effort = strings.ToLower(f.text())
		if n, err := strconv.Atoi(d.Effort); d.Effort != "" && (err != nil || n <= 0) &&
			!slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, d.Effort) {
			f.problemf(knack.CodeFieldType,
				"effort: %q must be one of low, medium, high, xhigh, max, or a number; it was ignored", d.Effort)
			d.Effort = ""
		}
	case "permissionMode":
		text := f.text()
		if text == "" {
			return
		}
		mode, err := permission.ParseMode(text)
		switch {
		case text == "auto": // of Claude Code; it restricts nothing
			f.problemf(knack.CodeFieldType, "permissionMode: auto has no effect: the run's mode is used")
			return
		case err != nil:
			d.unclear(f, "permissionMode: %v", err)
			return
		}
		d.Mode = mode
	case "maxTurns":
		switch n, err := strconv.Atoi(f.text()); {
		case err != nil && !f.null():
			d.unclear(f, "maxTurns is not a number")
		case n > 0:
			d.MaxTurns = n
		default:
			f.problemf(knack.CodeFieldType, "maxTurns is not a number above 0; it was ignored")
		}
	case "isolation":
		switch text := f.text(); text {
		case "", "none":
		case "worktree":
			d.Isolated = true
		default:
			d.unclear(f, "isolation: %q is not worktree", text)
		}
	case "background":
		switch text := f.text(); text {
		case "", "false":
		case "true":
			d.Background = true
		default:
			f.problemf(knack.CodeFieldType, "background: %q is not true or false; it was ignored", text)
		}
	case "skills":
		d.Skills = f.list(func(s string) []string {
			return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		})
	case "skillsOnly":
		switch text := f.text(); text {
		case "", "false":
		case "true":
			d.OnlySkills = true
		default:
			d.unclear(f, "skillsOnly: %q is not true or false", text)
		}
	case "hooks":
		if f.null() {
			return
		}
		d.Hooks = f.raw
		found, bad := hook.Parse(f.raw, func(rule string) error {
			_, err := permission.ParseRule(rule, permission.User)
			return err
		})
		for _, b := range bad {
			severity := knack.Warn
			if b.Minor {
				severity = knack.Info
			}
			r.problem(knack.CodeHookInvalid, severity, f.Line, f.Column, "hooks: %s", b.Message)
		}
		if slices.ContainsFunc(found, func(h hook.Hook) bool { return h.Path != "" }) {
			r.problem(knack.CodeHookInvalid, knack.Warn, f.Line, f.Column,
				"hooks: an agent has no folder for a relative path: write a command")
		}
	case "agents":
		switch text := f.text(); {
		case text != "any":
			f.problemf(knack.CodeFieldType, "agents must be any; it was ignored")
		case !d.Loosens():
			f.problemf(knack.CodeSettingIgnored, "agents: any has an effect in your own and in managed files only")
		default:
			d.StartsAny = true
		}
	case "mcpServers":
		if f.null() {
			return
		}
		d.UsesServers, d.MCPServers = f.servers()
	}
}

// A definitionField is one key and its value.
type definitionField struct {
	*definitionReader
	frontmatter.Pair
	raw json.RawMessage
}

func (f *definitionField) problemf(code knack.Code, format string, args ...any) {
	f.problem(code, knack.Warn, f.Line, f.Column, format, args...)
}

func (f *definitionField) null() bool { return string(f.raw) == "null" }

// text returns the value as text. Numbers and booleans are returned as written.
func (f *definitionField) text() string {
	var s string
	switch {
	case f.null():
	case json.Unmarshal(f.raw, &s) == nil:
	case len(f.raw) > 0 && (f.raw[0] == '{' || f.raw[0] == '['):
		f.problemf(knack.CodeFieldType, "%s is not a single string; it was ignored", f.Key)
	default:
		s = string(f.raw)
	}
	return strings.TrimSpace(s)
}

// texts reports whether the value is a text, or a list of nothing but texts.
func (f *definitionField) texts() bool {
	var one *string
	var all []*string
	return json.Unmarshal(f.raw, &one) == nil ||
		json.Unmarshal(f.raw, &all) == nil && !slices.Contains(all, nil)
}

// list returns a list of texts. A single text is split with split.
func (f *definitionField) list(split func(string) []string) []string {
	var all []json.RawMessage
	if json.Unmarshal(f.raw, &all) != nil || f.null() {
		return split(f.text())
	}
	var words []string
	for _, raw := range all {
		var s string
		if json.Unmarshal(raw, &s) != nil || string(raw) == "null" {
			f.problemf(knack.CodeFieldType, "%s: an item of the list is not a string; it was ignored", f.Key)
			continue
		}
		words = append(words, split(s)...)
	}
	return words
}

// servers returns the names of configured servers, and the definitions of servers by name. A list
// may contain both.
func (f *definitionField) servers() (names []string, defined json.RawMessage) {
	all := map[string]json.RawMessage{}
	add := func(raw json.RawMessage) bool {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return false
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, ok := all[name]; ok {
				f.problemf(knack.CodeFieldType, "mcpServers: %.100q is defined twice; the first one is used", name)
				continue
			}
			all[name] = object[name]
		}
		return true
	}
	var list []json.RawMessage
	switch {
	case json.Unmarshal(f.raw, &list) == nil:
		for _, raw := range list {
			var name string
			switch {
			case string(raw) == "null":
				f.problemf(knack.CodeFieldType, "mcpServers: an entry of the list is empty; it was ignored")
			case json.Unmarshal(raw, &name) == nil:
				names = append(names, strings.TrimSpace(name))
			case !add(raw):
				f.problemf(knack.CodeFieldType, "mcpServers: an entry is neither a name nor a definition by name; it was ignored")
			}
		}
	case !add(f.raw):
		names = f.list(func(s string) []string {
			return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		})
	}
	if len(all) > 0 {
		defined, _ = json.Marshal(all) // valid, because it was read from JSON
	}
	return names, defined
}

// rules returns permission rules. An invalid rule is left out of a list of tools; in a list of
// denials it denies its whole tool.
func (f *definitionField) rules(d *Definition, texts []string, deny bool) []string {
	var good []string
	for _, text := range texts {
		rule, err := permission.ParseRule(text, "")
		if err == nil {
			if meant := rule.Meant(f.tools...); meant != "" && deny {
				d.unclear(f, "%s: there is no tool %s; did you mean %s", f.Key, rule.Tool, meant)
			} else if p, ok := rule.Problem(f.tools...); ok {
				sev := knack.Severity(p.Severity)
				f.problem(knack.CodeToolPattern, sev, f.Line, f.Column, "%s: %s", f.Key, p.Message)
			}
			good = append(good, text)
			continue
		}
		f.problemf(knack.CodeToolPattern, "%s: %v", f.Key, err)
		if !deny {
			continue
		}
		name, _, _ := strings.Cut(text, "(")
		if _, err := permission.ParseRule(name, ""); err != nil {
			name = "*"
		}
		good = append(good, strings.TrimSpace(name))
	}
	return good
}

// splitRules splits a text at commas and blanks outside parentheses. It does not split before a
// parenthesis: Bash (git:*) is one rule, not Bash and something else.
func splitRules(s string) []string {
	depth := 0
	words := strings.FieldsFunc(strings.ReplaceAll(s, "`", ""), func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		return depth == 0 && (r == ',' || unicode.IsSpace(r))
	})
	var rules []string
	for _, w := range words {
		if n := len(rules); n > 0 && strings.HasPrefix(w, "(") {
			rules[n-1] += w
			continue
		}
		rules = append(rules, w)
	}
	return rules
}
