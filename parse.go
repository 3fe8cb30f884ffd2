package knack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/headcache"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

const (
	maxFile        = 1 << 20
	maxFrontmatter = 64 << 10
	maxParagraph   = 16 << 10 // bytes of the body that are searched for a first paragraph
)

// Limits of the open specification, in characters.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

// isComplete reports whether the first bytes of a SKILL.md contain all that parseSkill uses:
// the frontmatter up to its closing fence and, if that has no description, the first
// paragraph of the body, which replaces it. A source reads 4 KiB, and then more until
// enough returns true or the file ends.
func isComplete(head []byte) bool {
	if len(head) >= maxFrontmatter+maxParagraph {
		return true
	}
	f := frontmatter.Split(head)
	if f.Fence == frontmatter.Unclosed || len(f.Body) == 0 {
		return false // the last line may be cut: --- can be the start of -----
	}
	if len(f.Body) >= maxParagraph || hasDescription(f.Head) {
		return true
	}
	_, complete := firstParagraph(f.Body[:bytes.LastIndexByte(f.Body, '\n')+1])
	return complete
}

// hasDescription reports whether a frontmatter contains a description, without parsing
// it. It may overlook one.
func hasDescription(head []byte) bool {
	const key = "\ndescription:"
	value, found := bytes.CutPrefix(head, []byte(key[1:]))
	for rest := head; ; { // the last one counts; bytes.LastIndex takes much longer
		i := bytes.Index(rest, []byte(key))
		if i < 0 {
			break
		}
		rest = rest[i+len(key):]
		value, found = rest, true
	}
	if !found {
		return false
	}
	line, below, _ := bytes.Cut(value, []byte("\n"))
	line = bytes.Trim(line, " \t\r\"'")
	if len(line) > 0 && bytes.IndexByte([]byte("#>|&!*[{"), line[0]) < 0 {
		return string(line) != "~" && !bytes.EqualFold(line, []byte("null"))
	}
	below, _, _ = bytes.Cut(below, []byte("\n"))
	return len(below) > 0 && isBlank(below[0]) && len(bytes.TrimSpace(below)) > 0
}

// parse parses the head of a SKILL.md, for which isComplete is true, for a list of skills. It
// returns a nil Skill if there is nothing to load. The Problems are for the skill's author. It keeps
// no reference to head. size is the size of the whole file in bytes. The caller sets ID.
func (h *headReader) parse(path string, head []byte, size int64, o Origin) (*Skill, []Problem) {
	p := &h.parser
	p.path, p.nameLine, p.problems = path, 0, nil
	p.list, p.json, p.encoded = p.list[:0], p.json[:0], p.encoded[:0]
	s, _ := p.parse(head, o, int64(len(head)) == size)
	if s != nil {
		s.Size = size
	}
	return s, p.problems
}

// parseFile parses a whole SKILL.md and also returns its body.
func parseFile(path string, data []byte, o Origin) (*Skill, []byte, []Problem) {
	p := reader{path: path}
	s, body := p.parse(data, o, true)
	return s, body, p.problems
}

// parse parses a file. whole says that data is the whole file; otherwise its last character may be cut.
func (p *reader) parse(data []byte, o Origin, whole bool) (s *Skill, body []byte) {
	size := int64(len(data))
	data, ok := p.decode(data, whole)
	if !ok {
		return nil, nil
	}
	f := frontmatter.Split(data)
	if len(f.Head) > maxFrontmatter || f.Fence == frontmatter.Unclosed && len(data) > maxFrontmatter {
		p.problem(CodeTooLarge, Error, 1, 0, "move text from the frontmatter to the body",
			"the frontmatter is larger than %d KiB and was not read", maxFrontmatter>>10)
		f.Head, f.Fence = nil, frontmatter.Closed
	}
	switch f.Fence {
	case frontmatter.None:
		if o.Kind == Legacy {
			break // a command needs none
		}
		p.warn(CodeFrontmatterMissing, 1, 0, "begin the file with ---, then name: and description:, then ---",
			"there is no frontmatter")
	case frontmatter.Unclosed:
		p.warn(CodeFrontmatterUnclosed, 1, 0, "put a line of --- after the last key",
			"the frontmatter is not closed: the whole file was taken as text")
	}
	p.notes(f.Notes)
	s = &Skill{ID: p.path, Path: p.path, Origin: o, Size: size, bodyAt: max(0, len(data)-len(f.Body))}
	found, notes := frontmatter.Parse(f.Head, f.Line)
	p.notes(notes)
	p.fields(s, found)
	p.name(s)
	p.describe(s, f.Body)
	// The fields are decoded only on demand: most programs never look at those of thousands of skills.
	// A text that the Skill has in a field of its own is not stored twice, unless it was changed.
	for _, e := range p.list {
		if kept, _ := s.shared(e.key); e.json == nil && kept != e.text {
			e.json = jsonString(e.text)
		}
		p.encoded.Text(e.key)
		p.encoded.Bytes(e.json)
	}
	s.fields = string(p.encoded)
	return s, f.Body
}

// A reader parses one file and collects its Problems.
type reader struct {
	path     string
	nameLine int  // line of the name; 0 if there is none
	fast     bool // useSmallFastModel
	list     []parsedField
	json     []byte // memory of the list's values
	encoded  headcache.Writer
	entry    entry // the key that is being read
	problems []Problem
}

// A parsedField is a key of the frontmatter with its value as JSON, or with a text that the Skill
// should have in a field of its own.
type parsedField struct {
	key  string
	json []byte // nil: text
	text string
}

func (p *reader) problem(code Code, sev Severity, line, column int, hint, format string, args ...any) {
	p.problems = append(p.problems, Problem{
		Code: code, Severity: sev, Path: p.path, Line: line, Column: column,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (p *reader) warn(code Code, line, column int, hint, format string, args ...any) {
	p.problem(code, Warn, line, column, hint, format, args...)
}

// decode returns data as UTF-8 without a byte order mark; ok is false if it is not text.
func (p *reader) decode(data []byte, whole bool) (text []byte, ok bool) {
	const hint = "save the file as UTF-8"
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		p.problem(CodeEncoding, Error, 1, 0, hint, "the file is UTF-16, not UTF-8; it was not loaded")
		return nil, false
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		p.problem(CodeEncoding, Error, 1+bytes.Count(data[:i], []byte("\n")), 0, hint,
			"the file contains a zero byte: it is not text; it was not loaded")
		return nil, false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !whole {
		data = dropCut(data)
	}
	if utf8.Valid(data) {
		return data, true
	}
	line := 1
	for rest := data; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		rest = rest[n:]
	}
	p.warn(CodeEncoding, line, 0, hint, "the file is not UTF-8; invalid bytes were replaced")
	return bytes.ToValidUTF8(data, []byte("\ufffd")), true
}

// dropCut removes an incomplete character from the end of data that is only a part of
// the file.
func dropCut(data []byte) []byte {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return data[:i]
			}
			break
		}
	}
	return data
}

// canonical returns the standard form of a frontmatter key, or "" if it is unknown. It
// knows several spellings of a word, and misspellings found in public collections.
func canonical(key string) string {
	switch key = canonicalKey(key); key {
	case "name", "aliases", "description", "license", "compatibility", "metadata",
		"version", "author", "allowed-tools", "disallowed-tools", "argument-hint", "arguments",
		"user-invocable", "disable-model-invocation", "mode", "model", "effort", "context",
		"agent", "background", "paths", "hooks", "shell", "scope", "sandbox":
		return key
	case "when-to-use":
		return "when_to_use"
	case "use-small-fast-model":
		return "useSmallFastModel"
	case "user-invokable", "user-invokeable", "user-invocible":
		return "user-invocable"
	case "disable-model-invokation":
		return "disable-model-invocation"
	case "allowed-tool", "allow-tools":
		return "allowed-tools"
	case "disallowed-tool", "disallow-tools", "denied-tools", "deny-tools", "blocked-tools", "block-tools",
		"forbidden-tools", "forbid-tools", "disabled-tools", "disable-tools", "excluded-tools", "exclude-tools":
		return "disallowed-tools"
	case "argument-hints", "arguments-hint":
		return "argument-hint"
	case "desciption", "descripton", "descrition", "discription", "decription":
		return "description"
	}
	return ""
}

// canonicalKey converts allowedTools, Allowed_Tools and "allowed tools" to allowed-tools.
func canonicalKey(key string) string {
	plain := true
	for i := 0; i < len(key); i++ {
		if c := key[i]; c != '-' && (c < 'a' || c > 'z') {
			plain = false
			break
		}
	}
	if plain {
		return key
	}
	var b strings.Builder
	small := false
	for _, r := range key {
		switch {
		case r == '_' || r == ' ':
			r = '-'
		case unicode.IsUpper(r):
			if small {
				b.WriteByte('-')
			}
			r = unicode.ToLower(r)
			small = false
			b.WriteRune(r)
			continue
		}
		small = unicode.IsLower(r)
		b.WriteRune(r)
	}
	return b.String()
}

// nearestKey returns the known key that an unknown one is probably a misspelling of, or "".
func nearestKey(key string) string {
	if len(key) < 4 {
		return ""
	}
	for _, k := range [...]string{"aliases", "description", "when_to_use", "compatibility", "metadata", "allowed-tools",
		"disallowed-tools", "argument-hint", "arguments", "user-invocable", "disable-model-invocation", "background",
		"sandbox", "hooks"} {
		most := 2
		if k == "hooks" { // tools is no misspelling of it
			most = 1
		}
		if similar.Near(canonicalKey(key), canonicalKey(k), most) {
			return k
		}
	}
	return ""
}

// restricts reports whether a key only ever makes a skill do less: a misspelt one is read as what it probably means, so
// that no guard is lost.
func restricts(key string) bool {
	switch key {
	case "disallowed-tools", "disable-model-invocation", "sandbox", "hooks":
		return true
	}
	return false
}

// notes reports what is wrong with the frontmatter as a whole.
func (p *reader) notes(notes []frontmatter.Problem) {
	for _, n := range notes {
		sev := Warn
		if n.Kind.Unread() {
			sev = Error
		}
		p.problem(Code(n.Kind), sev, n.Line, n.Column, n.Hint, "%s", n.Message)
	}
}

// fields reads the frontmatter key by key, so that a wrong type in one discards neither
// the skill nor another key.
func (p *reader) fields(s *Skill, entries []frontmatter.Pair) {
	exact := func(key string) bool {
		return slices.ContainsFunc(entries, func(e frontmatter.Pair) bool { return e.Key == key })
	}
	p.list = slices.Grow(p.list, len(entries))
	for i, e := range entries {
		key := canonical(e.Key)
		near := ""
		if key == "" {
			near = nearestKey(e.Key)
		}
		if restricts(near) {
			key = near
		}
		f := parsedField{key: e.Key}
		if _, ok := s.shared(e.Key); ok && e.Value.Kind == yaml.ScalarNode && e.Value.ShortTag() == "!!str" {
			f.text = e.Value.Value
		} else {
			json, err := frontmatter.AppendTextJSON(p.json, e.Value)
			if err != nil {
				p.problem(CodeLimitReached, Error, e.Line, e.Column, "write the value out", "%s: %v", e.Key, err)
				continue
			}
			f.json, p.json = json[len(p.json):], json
		}
		p.list = append(p.list, f)
		switch {
		case key == "":
			if near != "" && !exact(near) {
				p.warn(CodeUnknownKey, e.Line, e.Column, "write "+near, "%s is not a key; is it %s?", e.Key, near)
			} else if i > 0 && continues(entries[i-1], e) {
				p.warn(CodeTextLost, e.Line, e.Column, "write both lines as one, in quotes",
					"%s: the line %q is lost: YAML takes it for a key of its own", entries[i-1].Key,
					e.Key+": "+clip(e.Value.Value, 60))
			}
			continue
		case key != e.Key && exact(key) && key != "disallowed-tools":
			p.warn(CodeUnknownKey, e.Line, e.Column, "remove it", "%s is not a key; %s, which is also present, counts", e.Key,
				key)
			continue
		case key != e.Key:
			p.warn(CodeUnknownKey, e.Line, e.Column, "write "+key, "%s is not a key; it was read as %s", e.Key, key)
		}
		p.entry = entry{reader: p, Pair: e, value: deref(e.Value)}
		p.field(s, key, &p.entry)
	}
	if p.fast { // whatever model names
		s.Model = "fast"
	}
}

// continues reports whether a line is probably the next line of a sentence above it that was not indented: a key that
// no program has, with blanks in it, or with a capital letter and several words after it, right below a sentence
// without quotes.
func continues(above, e frontmatter.Pair) bool {
	key := canonical(above.Key)
	return (key == "description" || key == "when_to_use") && above.Value.Style == 0 &&
		above.Value.Kind == yaml.ScalarNode && e.Value.Kind == yaml.ScalarNode &&
		(strings.Contains(e.Key, " ") || strings.ToLower(e.Key) != e.Key && strings.Contains(e.Value.Value, " "))
}

func (p *reader) field(s *Skill, key string, e *entry) {
	switch key {
	case "name":
		s.Label, p.nameLine = strings.TrimSpace(e.scalar()), e.Line
		if s.Label != "" {
			p.checkName(s.Label, e.Line, e.Column)
		}
	case "aliases":
		for _, a := range e.list(blankOrComma) {
			s.Aliases = append(s.Aliases, strings.TrimPrefix(a, "/"))
		}
	case "description":
		s.Description = e.text()
		if n := characters(s.Description, maxDescription); n > maxDescription {
			p.warn(CodeDescriptionTooLong, e.Line, e.Column, "move the rest to when_to_use or the body",
				"the description has %d characters; the open specification allows %d", n, maxDescription)
		}
	case "when_to_use":
		s.WhenToUse = e.text()
	case "compatibility":
		if e.value.Kind != yaml.ScalarNode {
			p.warn(CodeCompatibilityInvalid, e.Line, e.Column, "write it as one string", "compatibility is not a string")
		} else if n := utf8.RuneCountInString(e.value.Value); n > maxCompatibility {
			p.warn(CodeCompatibilityTooLong, e.Line, e.Column, "shorten it",
				"compatibility has %d characters; the open specification allows %d", n, maxCompatibility)
		}
	case "metadata":
		if e.value.Kind != yaml.MappingNode && !e.null() {
			e.mistyped("a mapping")
		}
	case "allowed-tools":
		s.AllowedTools = e.tools(false)
	case "disallowed-tools":
		s.DisallowedTools = append(s.DisallowedTools, e.tools(true)...)
	case "argument-hint":
		s.ArgumentHint = e.hint()
	case "arguments":
		for _, a := range e.list(blankOrComma) {
			if !isName(a) {
				p.warn(CodeFieldType, e.Line, e.Column, "use letters, digits and _", "arguments: %q cannot be a $name", a)
				a = "" // it still counts as an argument
			}
			s.Arguments = append(s.Arguments, a)
		}
	case "user-invocable":
		s.NotUser = !e.boolean(true, true)
	case "disable-model-invocation":
		s.NotModel = e.boolean(false, true)
	case "mode":
		s.Mode = e.boolean(false, false)
	case "background":
		s.Background = e.boolean(false, false)
	case "model":
		if s.Model = e.text(); strings.ContainsFunc(s.Model, unicode.IsSpace) || len(s.Model) > 200 {
			p.warn(CodeModelUnknown, e.Line, e.Column, "write inherit, an alias such as sonnet, or a model's id",
				"model: %q is not the name of a model; the session's is used", s.Model)
			s.Model = ""
		}
	case "useSmallFastModel":
		p.fast = e.boolean(false, false)
	case "effort":
		s.Effort = strings.ToLower(e.text())
		if n, err := strconv.Atoi(s.Effort); err == nil && n > 0 {
			break
		}
		s.Effort = e.enum(s.Effort, "low", "medium", "high", "xhigh", "max")
	case "context":
		s.Fork = e.enum(strings.ToLower(e.text()), "inline", "inherit", "fork") == "fork"
	case "agent":
		s.Agent = e.text()
	case "paths":
		s.Paths = e.list(frontmatter.SplitCommas)
		for _, g := range s.Paths {
			if why := ignore.Bad(g); why != "" {
				p.warn(CodeBadGlob, e.Line, e.Column, "correct or remove it", "paths: %q matches nothing: %s", g, why)
			}
		}
	case "hooks":
		s.Hooks = e.hooks()
	case "sandbox":
		s.Sandbox = e.sandbox()
	case "shell":
		s.Shell = e.enum(strings.ToLower(e.text()), "bash", "powershell")
	case "scope":
		s.Retain = strings.ToLower(e.text())
		if n, err := strconv.Atoi(s.Retain); err == nil && n > 0 {
			break
		}
		s.Retain = e.enum(s.Retain, "turn", "session")
	}
}

// checkName checks a name against the open specification.
func (p *reader) checkName(name string, line, column int) {
	if n := utf8.RuneCountInString(name); n > maxName {
		p.warn(CodeNameTooLong, line, column, "shorten it", "the name has %d characters; the open specification allows %d", n,
			maxName)
	}
	if why := badName(name); why != "" {
		hint := "use small letters, digits and single hyphens between them"
		if valid := validName(name); valid != "" {
			hint = "write name: " + valid
		}
		p.warn(CodeNameInvalid, line, column, hint, "the name %q %s", name, why)
	}
}

// badName explains how a name violates the open specification. It returns "" for a valid
// name. As the specification's own validator does, it takes letters and digits of any script.
func badName(name string) string {
	for _, r := range name {
		if r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) || unicode.ToLower(r) != r {
			return fmt.Sprintf("contains %q, which is not allowed", r)
		}
	}
	switch {
	case name == "":
		return "is empty"
	case name[0] == '-' || name[len(name)-1] == '-':
		return "begins or ends with a hyphen"
	case strings.Contains(name, "--"):
		return "contains two hyphens in a row"
	}
	return ""
}

// validName returns the most similar name that the open specification allows, or "" if
// there is none.
func validName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			b.WriteRune(r)
		case unicode.IsMark(r):
			return "" // a part of the letter before it, without which the name would not be recognizable
		case r != '\'' && b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	valid := strings.TrimRight(b.String(), "-")
	if len(valid) > maxName {
		return ""
	}
	return valid
}

// name determines the name by which the skill is called.
func (p *reader) name(s *Skill) {
	base := filepath.Base(p.path)
	if strings.EqualFold(base, "SKILL.md") {
		s.Dir = directory(p.path)
		base = filepath.Base(s.Dir)
	} else if ext := filepath.Ext(base); strings.EqualFold(ext, ".md") {
		base = base[:len(base)-len(ext)]
		s.Dir = filepath.Dir(p.path)
	}
	if s.Label == base {
		s.Label = base // share the path's memory
	} else {
		s.Label = strings.Clone(s.Label)
	}
	if s.Origin.Kind == Plugin && s.Label != "" {
		base = s.Label
	}
	s.Name = slug(base)
	if s.Name != base {
		p.warn(CodeNameInvalid, 0, 0, "rename it to "+s.Name, "%q cannot be typed as a command; the skill is called %s", base,
			s.Name)
	}
	switch {
	case s.Origin.Kind == Legacy:
		s.Dir = "" // a command is a single file
	case s.Label == "":
		// Such names are common in skills written for other agents; only Check is
		// strict.
		hint := "add a name of small letters, digits and hyphens"
		if valid := validName(s.Name); valid != "" {
			hint = "add name: " + valid
		}
		p.problem(CodeNameMissing, Info, 1, 0, hint, "the frontmatter has no name; the skill is called %s", s.Name)
	case s.Label != base:
		p.warn(CodeNameDirMismatch, p.nameLine, 0, "give the directory and the skill the same name",
			"the name is %q, the directory's %q; the skill is called %s", s.Label, base, s.Name)
	}
}

// slug converts a name into one that can be typed and printed. It returns a name that is one unchanged.
func slug(name string) string {
	usable := func(r rune) bool {
		return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) ||
			strings.ContainsRune("-_.+", r))
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !usable(r) }) < 0 {
		return name
	}
	var b strings.Builder
	gap := false
	for _, r := range name {
		if !usable(r) {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "skill"
	}
	return b.String()
}

// describe uses the body's first paragraph for a skill without a description.
func (p *reader) describe(s *Skill, body []byte) {
	if strings.TrimSpace(s.Description) != "" {
		return
	}
	const hint = "add description: what the skill does and when to use it"
	s.Description = ""
	if strings.TrimSpace(s.WhenToUse) != "" {
		if s.Origin.Kind != Legacy {
			p.warn(CodeDescriptionMissing, 1, 0, hint, "there is no description; when_to_use is used instead")
		}
		return
	}
	s.WhenToUse = ""
	paragraph, _ := firstParagraph(body)
	if s.Description = strings.Clone(paragraph); s.Description == "" {
		p.problem(CodeDescriptionMissing, Error, 1, 0, hint,
			"there is no description and no text to take one from: models do not see the skill")
		return
	}
	if s.Origin.Kind == Legacy {
		return
	}
	p.warn(CodeDescriptionMissing, 1, 0, hint, "there is no description; the first paragraph of the text is used instead")
}

// An entry is a key being read into a Skill.
type entry struct {
	*reader
	frontmatter.Pair
	value *yaml.Node // the value; an alias is already resolved
}

func deref(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && i < 8; i++ {
		n = n.Alias
	}
	return n
}

func (e *entry) null() bool {
	return e.value.Kind == yaml.ScalarNode && e.value.ShortTag() == "!!null"
}

func (e *entry) mistyped(want string) {
	e.warn(CodeFieldType, e.Line, e.Column, "write "+want, "%s is not %s; it was ignored", e.Key, want)
}

// text returns a copy of the text of a scalar. A number or date is returned as written.
func (e *entry) text() string { return strings.Clone(e.scalar()) }

// scalar is text without the copy: the result keeps the whole frontmatter in memory.
func (e *entry) scalar() string {
	if e.value.Kind != yaml.ScalarNode {
		e.mistyped("a single string")
		return ""
	}
	if e.null() {
		return ""
	}
	return e.value.Value
}

// characters returns the number of characters of a text that has more than limit bytes, and otherwise at most limit.
func characters(s string, limit int) int {
	if len(s) <= limit {
		return len(s)
	}
	return utf8.RuneCountInString(s)
}

// boolean parses YAML booleans and true/false/yes/no/on/off/1/0 in any letter case. It
// returns missing for no value, and unclear for anything else.
func (e *entry) boolean(missing, unclear bool) bool {
	if e.value.Kind == yaml.ScalarNode {
		switch strings.ToLower(strings.TrimSpace(e.value.Value)) {
		case "true", "yes", "on", "1", "y":
			return true
		case "false", "no", "off", "0", "n":
			return false
		}
		if e.null() {
			return missing
		}
	}
	if unclear == missing {
		e.mistyped("true or false")
	} else {
		e.warn(CodeFieldType, e.Line, e.Column, "write true or false", "%s is not true or false; it was read as %t", e.Key,
			unclear)
	}
	return unclear
}

// enum returns word if it is one of words. Any other word is reported and dropped.
func (e *entry) enum(word string, words ...string) string {
	if word == "" {
		return ""
	}
	for _, w := range words {
		if w == word {
			return w
		}
	}
	// A misspelling is the author's mistake; other words are values of other programs.
	severity := Info
	for _, w := range words {
		if similar.Distance(w, word, 2) <= 2 {
			severity = Warn
		}
	}
	all := strings.Join(words, ", ")
	e.problem(CodeFieldType, severity, e.Line, e.Column, "write one of "+all, "%s: %q is not one of %s; it was ignored",
		e.Key, word, all)
	e.problems[len(e.problems)-1].Ignored = e.Key
	return ""
}

// list returns a list of texts, or the parts into which split divides a single text.
func (e *entry) list(split func(string) []string) []string {
	if e.value.Kind == yaml.ScalarNode {
		if e.null() {
			return nil
		}
		var words []string
		for _, item := range e.items() {
			words = append(words, split(item)...)
		}
		return words
	}
	if e.value.Kind != yaml.SequenceNode {
		e.mistyped("a string or a list of strings")
		return nil
	}
	var words []string
	for _, n := range e.value.Content {
		n = deref(n)
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
			e.warn(CodeFieldType, n.Line, n.Column, "write a string", "%s: an item of the list is not a string; it was ignored",
				e.Key)
			continue
		}
		if w := strings.TrimSpace(n.Value); w != "" {
			words = append(words, strings.Clone(w))
		}
	}
	return words
}

// tools returns permission rules. A pattern that is not closed grants nothing; in a deny
// rule, the whole tool is denied.
func (e *entry) tools(deny bool) []string {
	var rules []string
	one := func(text string, line, column int) {
		found, bad := splitTools(text)
		if rules == nil {
			rules = found
		} else {
			rules = append(rules, found...)
		}
		for _, word := range bad {
			original := "it grants nothing"
			if deny {
				original = "the whole tool is denied"
				if tool, _, _ := strings.Cut(word, "("); isName(tool) {
					rules = append(rules, strings.Clone(tool))
				} else {
					rules = append(rules, "*")
					original = "every tool is denied"
				}
			}
			e.warn(CodeToolPattern, line, column, "write Tool or Tool(pattern)", "%s: %q is not closed or not a rule; %s", e.Key,
				word, original)
		}
	}
	unread := func(n *yaml.Node, why string) {
		effect := "it was ignored"
		if deny {
			rules, effect = append(rules, "*"), "every tool is denied"
		}
		e.warn(CodeFieldType, n.Line, n.Column, "write a string", "%s: %s; %s", e.Key, why, effect)
	}
	if e.value.Kind == yaml.SequenceNode {
		for _, n := range e.value.Content {
			if n = deref(n); n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
				one(n.Value, n.Line, n.Column)
			} else {
				unread(n, "an item of the list is not a string")
			}
		}
		return rules
	}
	if e.value.Kind != yaml.ScalarNode {
		if e.mistyped("a single string"); deny {
			return []string{"*"}
		}
		return nil
	}
	if !e.null() {
		for _, item := range e.items() {
			one(item, e.value.Line, e.value.Column)
		}
	}
	return rules
}

// items returns the items of a list that its author wrote as a block of text
// (allowed-tools: > and lines that begin with a hyphen). For any other text, it returns
// the text itself.
func (e *entry) items() []string {
	text := e.value.Value
	if e.value.Style&(yaml.FoldedStyle|yaml.LiteralStyle) == 0 || !strings.HasPrefix(strings.TrimSpace(text)+" ", "- ") {
		return []string{text}
	}
	e.warn(CodeFieldType, e.Line, e.Column, "remove the > or | after "+e.Key+":",
		"%s is a list inside a block of text; it was read as a list", e.Key)
	var items []string
	var item []string
	for word := range strings.FieldsSeq(text + " -") {
		if word != "-" {
			item = append(item, word)
			continue
		}
		if len(item) > 0 {
			items = append(items, strings.Join(item, " "))
		}
		item = nil
	}
	return items
}

// SplitRules splits a text into permission rules, as allowed-tools does: at commas and
// white space outside parentheses and quotes.
func SplitRules(s string) []string {
	rules, bad := splitTools(s)
	return append(rules, bad...)
}

// splitTools splits a text at commas and white space outside parentheses and quotes. bad
// contains the words that are not rules; the last of them is the rest of the text after
// a pattern that is not closed.
//
// A blank before a parenthesis does not separate: Bash (git:*) is one rule, because Bash
// alone would grant more than its author wrote.
func splitTools(s string) (rules, bad []string) {
	s = strings.Trim(s, blanks)
	if strings.HasPrefix(s, "[") {
		s = strings.TrimSuffix(s[1:], "]")
	}
	lastDouble, lastSingle := strings.LastIndexByte(s, '"'), strings.LastIndexByte(s, '\'')
	add := func(word string) {
		quoted := false
		if n := len(word); n >= 2 && (word[0] == '"' || word[0] == '\'') && word[n-1] == word[0] {
			word, quoted = strings.Trim(word[1:n-1], blanks), true
		}
		name, _, _ := strings.Cut(word, "(")
		switch {
		case word == "", word == "-": // a hyphen that marks a list item
		case quoted && !oneRule(word):
			bad = append(bad, word)
		case name == "", strings.ContainsAny(name, blanks+","), strings.HasSuffix(word, ")") != strings.Contains(word, "("):
			bad = append(bad, word)
		default:
			rules = append(rules, word)
		}
	}
	var word []byte
	depth := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"' && i < lastDouble, c == '\'' && i < lastSingle:
			// An apostrophe within a word does not start a quote.
			if c == '\'' && i > 0 && isLetter(s[i-1]) && isLetter(s[i+1]) {
				break
			}
			end := i + 1 + strings.IndexByte(s[i+1:], c)
			word = append(word, s[i:end]...)
			i = end
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth == 0 && (c == ',' || isBlank(c)):
			next := i
			for next < len(s) && isBlank(s[next]) {
				next++
			}
			if next < len(s) && s[next] == '(' && len(word) > 0 && word[len(word)-1] != ')' {
				i = next - 1
				continue
			}
			add(string(word))
			word = word[:0]
			i = max(i, next-1)
			continue
		}
		word = append(word, c)
	}
	if depth > 0 {
		return rules, append(bad, string(word))
	}
	add(string(word))
	return rules, bad
}

// oneRule reports whether the parentheses of a text, outside quotes, close once and at
// its end.
func oneRule(word string) bool {
	depth := 0
	for i := 0; i < len(word); i++ {
		switch word[i] {
		case '"', '\'':
			return true // their content is not checked
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 || depth == 0 && i < len(word)-1 {
				return false
			}
		}
	}
	return depth == 0
}

const blanks = " \t\r\n\v\f"

func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isName reports whether a word can follow a dollar sign: letters, digits and _, not
// starting with a digit.
func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !isLetter(c) && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func blankOrComma(s string) []string {
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	for i := range words {
		words[i] = strings.Clone(words[i])
	}
	return words
}

// hint returns an argument-hint. YAML reads [file] as a list, which is converted back to
// its text.
func (e *entry) hint() string {
	if e.value.Kind == yaml.ScalarNode {
		return html.UnescapeString(e.text()) // authors write &lt;file&gt;
	}
	if e.Source != "" {
		return strings.Clone(e.Source)
	}
	if e.value.Kind != yaml.SequenceNode {
		e.mistyped("a single string")
		return ""
	}
	return "[" + strings.Join(e.list(frontmatter.SplitCommas), ", ") + "]"
}

// hooks reads a mapping from events to matchers, or a list of events with a path or
// command. It leaves out anything else.
func (e *entry) hooks() json.RawMessage {
	if e.null() {
		return nil
	}
	invalid := func(n *yaml.Node, format string, args ...any) {
		e.warn(CodeHookInvalid, n.Line, n.Column, "see `knack help hooks`",
			"hooks: "+format+"; it does not run, and what it may guard asks", args...)
	}
	switch e.value.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(e.value.Content); i += 2 {
			event, matchers := deref(e.value.Content[i]), deref(e.value.Content[i+1])
			switch {
			case !isEvent(event.Value):
				invalid(event, "%q is not an event", event.Value)
			case matchers.Kind != yaml.SequenceNode:
				invalid(matchers, "%s is not followed by a list of matchers", event.Value)
			}
			for _, m := range matchers.Content {
				if why := badMatcher(deref(m)); matchers.Kind == yaml.SequenceNode && why != "" {
					invalid(m, "%s: %s", event.Value, why)
				}
			}
		}
	case yaml.SequenceNode:
		for _, h := range e.value.Content {
			h = deref(h)
			event, path, command := scalar(h, "event"), scalar(h, "path"), scalar(h, "command")
			switch {
			case !isEvent(event):
				invalid(h, "%q is not an event", event)
			case (path == "") == (command == ""):
				invalid(h, "%s needs either path or command", event)
			case path != "" && !filepath.IsLocal(filepath.FromSlash(strings.ReplaceAll(path, `\`, "/"))):
				invalid(h, "%s: %q is not inside the skill's directory", event, path)
			}
		}
	default:
		invalid(e.value, "it is not a mapping from events to matchers, or a list")
	}
	text, err := frontmatter.JSON(e.value)
	if err != nil {
		return nil // reported already for the whole field
	}
	return bytes.Clone(text)
}

// isEvent reports whether a word looks like the name of an event, such as PreToolUse.
// Package hook knows which events exist.
func isEvent(s string) bool { return isName(s) && s[0] >= 'A' && s[0] <= 'Z' }

func badMatcher(m *yaml.Node) string {
	if m.Kind != yaml.MappingNode {
		return "a matcher is not a mapping"
	}
	hooks := value(m, "hooks")
	if hooks == nil || hooks.Kind != yaml.SequenceNode {
		return "a matcher has no list hooks"
	}
	for _, h := range hooks.Content {
		if h = deref(h); h.Kind != yaml.MappingNode || scalar(h, "type") == "" && scalar(h, "command") == "" {
			return "a hook has neither type nor command"
		}
	}
	return ""
}

// value returns the value of a key in a mapping, or nil.
func value(m *yaml.Node, key string) *yaml.Node {
	if m.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(m.Content); i += 2 {
			if m.Content[i].Value == key {
				return deref(m.Content[i+1])
			}
		}
	}
	return nil
}

func scalar(m *yaml.Node, key string) string {
	if n := value(m, key); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// firstParagraph returns the first paragraph of a Markdown text as plain text, or the
// first heading if there is no paragraph; at most 1,024 characters. It searches 16 KiB.
// complete reports that reading more text would not change the result.
func firstParagraph(body []byte) (paragraph string, complete bool) {
	if complete = len(body) >= maxParagraph; complete {
		body = dropCut(body[:maxParagraph])
	}
	var heading string
	var lines []string
	fence := ""
	comment := false
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		switch {
		case comment:
			comment = !strings.Contains(line, "-->")
			continue
		case fence != "":
			if strings.HasPrefix(line, fence) {
				fence = ""
			}
			continue
		}
		bare := strings.TrimSpace(strings.TrimLeft(line, ">"))
		skip := true
		switch {
		case strings.HasPrefix(bare, "<!--"):
			comment = !strings.Contains(bare, "-->")
		case strings.HasPrefix(bare, "```"), strings.HasPrefix(bare, "~~~"):
			fence = bare[:3]
		case strings.HasPrefix(bare, "#"):
			if heading == "" {
				heading = plainText(strings.Trim(bare, "# "))
			}
		case strings.Trim(bare, "-=*_ |:") == "", strings.HasPrefix(bare, "|"), strings.HasPrefix(bare, "<"):
		default:
			skip = false
		}
		if !skip {
			lines = append(lines, bare)
			continue
		}
		if len(lines) > 0 {
			complete = true
			break
		}
	}
	text := plainText(strings.Join(lines, " "))
	if text == "" {
		text = heading
	}
	return clip(text, maxDescription), complete
}

// clip shortens a text to n characters; if it was longer, the last of them is "…".
func clip(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// plainText removes inline Markdown markup: emphasis, code, links, images and the marker
// of a list item.
func plainText(s string) string {
	s = strings.TrimSpace(s)
	for _, mark := range []string{"- ", "* ", "+ "} {
		s = strings.TrimPrefix(s, mark)
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '`', '*':
			continue
		case '!':
			if i+1 < len(s) && s[i+1] == '[' {
				continue
			}
		case '[':
			continue
		case ']':
			if i+1 < len(s) && s[i+1] == '(' {
				if end := strings.IndexByte(s[i:], ')'); end > 0 {
					i += end
				}
			}
			continue
		case '_':
			// An underscore between letters is part of a name.
			if i == 0 || i+1 == len(s) || s[i-1] == ' ' || s[i+1] == ' ' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// jsonString encodes a string as JSON, without escaping tags and ampersands.
func jsonString(s string) json.RawMessage { return frontmatter.AppendString(nil, s) }
