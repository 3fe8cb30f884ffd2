package knack

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/fences"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A dialect is a syntax of placeholders.
type dialect uint8

const (
	skillText    dialect = iota // $0 is the first word
	legacyText                  // $1 is the first word
	templateText                // Pi's: $1, $@, ${@:2:1}, ${1:-default}
)

// A tokenKind is a kind of token.
type tokenKind uint8

const (
	verbatim tokenKind = iota // text, as it is
	variable                  // {baseDir}, ${CLAUDE_SESSION_ID}
	all                       // $ARGUMENTS
	word                      // $ARGUMENTS[n], $n
	named                     // $issue, where arguments: declares issue
	slice                     // ${@:2:1}
	command                   // !`…` or a fence opened with ```!
)

// A token is a part of a text: plain text, or a placeholder and what it refers to. The
// values that replace placeholders are never scanned again.
type token struct {
	kind  tokenKind
	raw   string
	text  string // of verbatim and command; name of a variable; default of word
	path  string // of verbatim: the file that it names as @path; "": none
	index int    // of word and named: 0-based; of slice: where it begins
	count int    // of slice; -1 means all that follow
	code  bool   // of a placeholder: in a code span or fence
}

// A scanner recognizes placeholders.
type scanner struct {
	dialect dialect
	names   []string // names of arguments
}

// scan splits a text into tokens, in one pass from left to right.
func (sc scanner) scan(text string) []token {
	var tokens []token
	begin := 0 // start of the plain text not yet emitted
	flush := func(end int) {
		if begin < end {
			tokens = append(tokens, token{kind: verbatim, raw: text[begin:end], text: text[begin:end]})
		}
	}
	fence := "" // marker of the ordinary fence that is open
	codeEnd := 0
	for i := 0; i < len(text); {
		if i == 0 || text[i-1] == '\n' {
			line := text[i:]
			if end := strings.IndexByte(line, '\n'); end >= 0 {
				line = line[:end]
			}
			switch {
			case fence != "":
				if fences.Closes(line, fence) {
					fence = ""
				}
			case sc.dialect != templateText && strings.TrimRight(line, " \t\r") == "```!":
				if cmd, n := fencedCommand(text[i:]); n > 0 {
					flush(i)
					tokens = append(tokens, token{kind: command, raw: text[i : i+n], text: cmd})
					i += n
					begin = i
					continue
				}
				fence = "```" // a fence that is not closed extends to the end of the text
			default:
				fence = fences.Opens(line)
			}
		}
		switch c := text[i]; c {
		case '`':
			// Inside a code span, a command is plain text.
			if n := run(text[i:], '`'); n <= 16 && fence == "" && i >= codeEnd {
				if end := spanEnd(text[i+n:], n); end >= 0 {
					codeEnd = i + n + end
				}
				i += n
				continue
			}
		case '!':
			if sc.dialect != templateText && fence == "" && i >= codeEnd && (i == 0 || isBlank(text[i-1])) {
				if cmd, n := inlineCommand(text[i:]); n > 0 {
					flush(i)
					tokens = append(tokens, token{kind: command, raw: text[i : i+n], text: cmd})
					i += n
					begin = i
					continue
				}
			}
		case '@':
			if fence == "" && i >= codeEnd && (i == 0 || isBlank(text[i-1])) {
				if path := mention(text[i+1:]); path != "" {
					flush(i)
					raw := text[i : i+1+len(path)]
					tokens = append(tokens, token{kind: verbatim, raw: raw, text: raw, path: path})
					i += len(raw)
					begin = i
					continue
				}
			}
		case '\\':
			if strings.HasPrefix(text[i:], `\\`) {
				i += 2
				continue
			}
			if strings.HasPrefix(text[i:], `\$`) {
				flush(i)
				tokens = append(tokens, token{kind: verbatim, raw: `\$`, text: "$"})
				i += 2
				begin = i
				continue
			}
		case '$', '{':
			// {baseDir} is a placeholder, but ${baseDir} is JavaScript.
			if t, ok := sc.placeholder(text[i:]); ok && (c == '$' || i == 0 || text[i-1] != '$') {
				flush(i)
				t.code = fence != "" || i < codeEnd
				tokens = append(tokens, t)
				i += len(t.raw)
				begin = i
				continue
			}
		}
		i++
	}
	flush(len(text))
	return tokens
}

// mention returns the path at the start of s, which follows an @, or "". A word without a dot or slash is a name, such
// as
// @somebody, and one with a placeholder depends on a value, which is never read as @path.
func mention(s string) string {
	word := s
	if end := strings.IndexAny(s, " \t\r\n`"); end >= 0 {
		word = s[:end]
	}
	word = strings.TrimRight(word, ".,;:!?)")
	if !strings.ContainsAny(word, "./") || strings.ContainsAny(word, "${\\") {
		return ""
	}
	return word
}

// Mentions returns the paths that a text names as @path outside code, each once. Paths with placeholders are left out.
func Mentions(text string) (paths []string) {
	for _, t := range (scanner{dialect: templateText}).scan(text) {
		if t.path != "" && !slices.Contains(paths, t.path) {
			paths = append(paths, t.path)
		}
	}
	return paths
}

// placeholder parses a placeholder at the start of s.
func (sc scanner) placeholder(s string) (token, bool) {
	if sc.dialect == templateText {
		return templatePlaceholder(s)
	}
	if rest, ok := strings.CutPrefix(s, "{baseDir}"); ok {
		return token{kind: variable, raw: s[:len(s)-len(rest)], text: "CLAUDE_SKILL_DIR"}, true
	}
	if len(s) < 2 || s[0] != '$' {
		return token{}, false
	}
	if s[1] == '{' {
		name, _, ok := strings.Cut(s[2:min(len(s), 100)], "}")
		if !ok || !isVariable(name) {
			return token{}, false
		}
		t := token{kind: variable, raw: s[:len(name)+3], text: name}
		switch name {
		case "SKILL_DIR", "PLUGIN_ROOT", "PLUGIN_DATA":
			t.text = "CLAUDE_" + name
		}
		return t, true
	}
	if n, digits, ok := number(s[1:]); ok {
		if isPrice(s[1+digits:]) {
			return token{}, false
		}
		if sc.dialect == legacyText {
			n--
		}
		return token{kind: word, raw: s[:1+digits], index: n}, true
	}
	if name := identifier(s[1:]); name != "" && name != "ARGUMENTS" {
		if i := slices.Index(sc.names, name); i >= 0 {
			return token{kind: named, raw: s[:1+len(name)], index: i}, true
		}
	}
	rest, ok := strings.CutPrefix(s, "$ARGUMENTS")
	if !ok {
		return token{}, false
	}
	const size = len("$ARGUMENTS")
	if strings.HasPrefix(rest, "[") {
		if n, digits, ok := number(rest[1:]); ok && strings.HasPrefix(rest[1+digits:], "]") {
			return token{kind: word, raw: s[:size+digits+2], index: n}, true
		}
	}
	return token{kind: all, raw: s[:size]}, true
}

// templatePlaceholder parses a placeholder in Pi's syntax at the start of s.
func templatePlaceholder(s string) (token, bool) {
	if len(s) < 2 || s[0] != '$' {
		return token{}, false
	}
	if n, digits, ok := number(s[1:]); ok {
		rest := s[1+digits:]
		letter := n == 0 && isPrice(rest) && rest[0] != '.' && rest[0] != ',' // $0 is empty, $0.50 is money
		if letter || !isPrice(rest) {
			return token{kind: word, raw: s[:1+digits], index: n - 1}, true
		}
	}
	for _, form := range []string{"$@", "$ARGUMENTS"} {
		if strings.HasPrefix(s, form) {
			return token{kind: all, raw: form}, true
		}
	}
	if s[1] != '{' {
		return token{}, false
	}
	inner, _, ok := strings.Cut(s[2:min(len(s), 4096)], "}")
	if !ok {
		return token{}, false
	}
	raw := s[:len(inner)+3]
	if name, def, ok := strings.Cut(inner, ":-"); ok {
		if name == "@" || name == "ARGUMENTS" {
			return token{kind: all, raw: raw, text: def}, true
		}
		if n, digits, ok := number(name); ok && digits == len(name) {
			return token{kind: word, raw: raw, index: n - 1, text: def}, true
		}
		return token{}, false
	}
	rest, ok := strings.CutPrefix(inner, "@:")
	if !ok {
		return token{}, false
	}
	from, length, hasLength := strings.Cut(rest, ":")
	n, digits, ok := number(from)
	if !ok || digits != len(from) {
		return token{}, false
	}
	t := token{kind: slice, raw: raw, index: max(n-1, 0), count: -1}
	if hasLength {
		if t.count, digits, ok = number(length); !ok || digits != len(length) {
			return token{}, false
		}
	}
	return t, true
}

// isVariable reports whether a name in ${…} is one of Knack's variables.
func isVariable(name string) bool {
	switch name {
	case "SKILL_DIR", "PLUGIN_ROOT", "PLUGIN_DATA", "CLAUDE_SESSION_ID", "CLAUDE_EFFORT":
		return true
	}
	return isDirectory(name) || isOption(name)
}

// isOption reports whether a variable is a value that the user gave to a plugin: user_config.KEY.
func isOption(name string) bool {
	key, ok := strings.CutPrefix(name, "user_config.")
	return ok && key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// isDirectory reports whether a variable's value is a directory of this machine.
func isDirectory(name string) bool {
	switch name {
	case "CLAUDE_SKILL_DIR", "CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA":
		return true
	}
	return false
}

// number parses the digits at the start of s. A number larger than any possible list of
// words is returned as a million.
func number(s string) (n, digits int, ok bool) {
	for digits < len(s) && '0' <= s[digits] && s[digits] <= '9' {
		digits++
	}
	if digits == 0 {
		return 0, 0, false
	}
	n, err := strconv.Atoi(s[:digits])
	if err != nil || n > 1e6 {
		n = 1e6
	}
	return n, digits, true
}

// isPrice reports whether the text after $n makes it a price or part of a word: $5k,
// $1.50, $2,000.
func isPrice(rest string) bool {
	if rest == "" {
		return false
	}
	if c := rest[0]; c == '.' || c == ',' {
		return len(rest) > 1 && '0' <= rest[1] && rest[1] <= '9'
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

func identifier(s string) string {
	n := 0
	for n < len(s) && (isLetter(s[n]) || s[n] == '_' || n > 0 && '0' <= s[n] && s[n] <= '9') {
		n++
	}
	return s[:n]
}

// run counts how often c is repeated at the start of s.
func run(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

// spanEnd finds the run of exactly n backticks that closes a code span on the same line,
// or returns -1.
func spanEnd(s string, n int) int {
	for i := 0; i < len(s) && s[i] != '\n'; {
		if s[i] != '`' {
			i++
			continue
		}
		m := run(s[i:], '`')
		if m == n {
			return i + m
		}
		i += m
	}
	return -1
}

// inlineCommand parses !`…` on one line. n is its length, or 0 if there is none.
func inlineCommand(s string) (cmd string, n int) {
	if !strings.HasPrefix(s, "!`") {
		return "", 0
	}
	end := strings.IndexAny(s[2:], "`\n")
	if end < 0 || s[2+end] == '\n' || strings.TrimSpace(s[2:2+end]) == "" {
		return "", 0
	}
	return s[2 : 2+end], end + 3
}

// fencedCommand parses a fence opened with ```! up to its closing fence; n is 0 if there
// is none. The line break after the fence is not included.
func fencedCommand(s string) (cmd string, n int) {
	at := strings.IndexByte(s, '\n') + 1
	begin := at
	for at > 0 && at < len(s) {
		line := s[at:]
		end := strings.IndexByte(line, '\n')
		if end >= 0 {
			line = line[:end]
		}
		if fences.Closes(line, "```") {
			return strings.TrimSuffix(strings.TrimSuffix(s[begin:at], "\n"), "\r"), at + len(strings.TrimRight(line, "\r"))
		}
		if end < 0 {
			break
		}
		at += end + 1
	}
	return "", 0
}

// values contains the values of placeholders.
type values struct {
	args  string   // as typed
	words []string // split as a shell does
	vars  map[string]string
}

func newValues(args string, vars map[string]string) values {
	if strings.TrimSpace(args) == "" {
		args = ""
	}
	return values{args: args, words: splitWords(args), vars: vars}
}

// of returns the value of a token; ok is false if the token is left as written.
func (v *values) of(t token, d dialect) (text string, ok bool) {
	switch t.kind {
	case verbatim:
		return t.text, true
	case variable:
		text, ok = v.vars[t.text]
		return text, ok
	case all:
		if v.args == "" {
			return t.text, true
		}
		return v.args, true
	case word, named:
		if 0 <= t.index && t.index < len(v.words) && (v.words[t.index] != "" || d != templateText) {
			return v.words[t.index], true
		}
		// A positional placeholder beyond the words given is left as written: awk '{print $5}' means awk's own.
		return t.text, t.kind == named || d == templateText
	case slice:
		from := min(t.index, len(v.words))
		to := len(v.words)
		if t.count >= 0 {
			to = min(to, from+t.count)
		}
		return strings.Join(v.words[from:to], " "), true
	}
	return "", false
}

// uses reports whether a token stands for words that were given.
func (v *values) uses(t token) bool {
	switch t.kind {
	case all, slice:
		return true
	case word, named:
		return 0 <= t.index && t.index < len(v.words)
	}
	return false
}

// splitWords splits arguments as a shell does: quotes group words and are removed, and a
// backslash escapes the next character. Unlike in a shell, there are no comments,
// assignments or substitutions, a line break is a blank, a quote counts only at the start of
// a word, since people write doesn't and it's, and one that is not closed is an ordinary character.
func splitWords(s string) []string {
	var words []string
	var b strings.Builder
	inWord := false
	var open [128]bool // quotes known not to be closed
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case isBlank(c):
			if inWord {
				words = append(words, b.String())
				b.Reset()
			}
			inWord = false
			continue
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case (c == '\'' || c == '"') && !inWord && !open[c]:
			inner, n := quoted(s[i:])
			if n == 0 {
				open[c] = true
				b.WriteByte(c)
				break
			}
			b.WriteString(inner)
			i += n - 1
		default:
			b.WriteByte(c)
		}
		inWord = true
	}
	if inWord {
		words = append(words, b.String())
	}
	return words
}

// templateWords splits the arguments of a template as Pi does: a quote counts only at
// the start of an argument, and \" is a quote within "…". Any other backslash is an
// ordinary character, and so is a quote that is not closed.
func templateWords(s string) []string {
	var words []string
	var open [128]bool // quotes known not to be closed
	for i := 0; i < len(s); {
		if r, n := utf8.DecodeRuneInString(s[i:]); unicode.IsSpace(r) {
			i += n
			continue
		}
		word := ""
		if q := s[i]; (q == '\'' || q == '"') && !open[q] {
			inner, n := templateQuoted(s[i:])
			open[q] = n == 0
			word = inner
			i += n
		}
		end := strings.IndexFunc(s[i:], unicode.IsSpace)
		if end < 0 {
			end = len(s) - i
		}
		words = append(words, word+s[i:i+end])
		i += end
	}
	return words
}

// templateQuoted is like quoted, but with the rules of templates.
func templateQuoted(s string) (inner string, n int) {
	if s[0] == '\'' {
		return quoted(s)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), i + 1
		case strings.HasPrefix(s[i:], `\"`):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", 0
}

// quoted parses a quoted text at the start of s; n is its length with the quotes, or 0
// if it is not closed.
func quoted(s string) (inner string, n int) {
	q := s[0]
	if q == '\'' {
		end := strings.IndexByte(s[1:], q)
		if end < 0 {
			return "", 0
		}
		return s[1 : 1+end], end + 2
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == q:
			return b.String(), i + 1
		case c == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", 0
}

// ExpandTemplate expands a prompt template with the arguments typed after its name, in
// Pi's syntax: $1, $@ and $ARGUMENTS, ${@:N}, ${@:N:L}, ${1:-default} and ${@:-default}.
// Missing arguments are empty, and so is $0. Unlike in a skill, $@ is the arguments
// joined by blanks, without their quotes. As in a skill, \$ is a dollar, and $5k and
// $2.50 are money. No command runs. used reports whether any placeholder referred to
// arguments.
func ExpandTemplate(text, args string) (expanded string, used bool) {
	words := templateWords(args)
	v := values{args: strings.Join(words, " "), words: words}
	var b strings.Builder
	for _, t := range (scanner{dialect: templateText}).scan(text) {
		s, _ := v.of(t, templateText)
		b.WriteString(s)
		used = used || t.kind != verbatim
	}
	return b.String(), used
}

// An expansion turns the body of a skill into the text of one invocation.
type expansion struct {
	skill      *Skill
	in         Invocation
	dir        string // base directory with slashes; "": none
	activation *Activation

	values values
	files  []string // the paths that the text names as @path
}

// prepare collects the values of placeholders. In a skill that is not local,
// placeholders of directories are left as written: it has none here.
func (e *expansion) prepare() {
	vars := map[string]string{}
	for name, value := range e.in.Vars {
		if isVariable(name) && (e.skill.local() || !isDirectory(name)) {
			vars[name] = value
		}
	}
	for name, value := range e.skill.Vars {
		if isVariable(name) && e.skill.local() {
			if !isOption(name) {
				value = filepath.ToSlash(value)
			}
			vars[name] = value
		}
	}
	if e.skill.Effort != "" { // the skill's own effort applies while it is in use
		vars["CLAUDE_EFFORT"] = e.skill.Effort
	}
	if vars["CLAUDE_PLUGIN_ROOT"] == "" && e.skill.local() && e.dir != "" {
		if root := pluginRoot(e.dir); root != "" {
			vars["CLAUDE_PLUGIN_ROOT"] = filepath.ToSlash(root)
		}
	}
	delete(vars, "CLAUDE_SKILL_DIR")
	if e.dir != "" {
		vars["CLAUDE_SKILL_DIR"] = e.dir
	}
	e.values = newValues(e.in.Args, vars)
}

// pluginRoot returns the nearest directory at or above a skill's directory that has the manifest of a plugin, as in a
// copy of a plugin's tree, up to six levels above; "" if there is none.
func pluginRoot(dir string) string {
	for range maxDepth + 1 {
		if info, err := os.Stat(filepath.Join(dir, ".claude-plugin", "plugin.json")); err == nil && info.Mode().IsRegular() {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// body expands the text. All commands are prepared before the first one runs, so that a
// refusal leaves nothing half done. Any failure fails the whole expansion.
func (e *expansion) body(ctx context.Context, text string) (expanded string, used bool, err error) {
	sc := e.skill.scanner()
	tokens := sc.scan(text)
	runs := e.in.Shell != nil && e.skill.local()
	lines := map[int]shellLine{}
	for i, t := range tokens {
		if t.kind != command || !runs {
			continue
		}
		line, takes, problem, err := sc.prepare(t.text, &e.values, e.skill.Shell == "powershell")
		if err != nil {
			return "", false, refuse(RefusedUnread, "%s was not loaded: the command %s cannot run: %v", e.skill.Name,
				escapeCommand(t.text), err)
		}
		if problem != "" {
			e.activation.problem(Problem{Code: CodeShellRefused, Severity: Warn, Path: e.skill.Path,
				Message: "in the command " + escapeCommand(t.text) + " " + problem, Hint: "use double quotes"})
		}
		lines[i] = line
		used = used || takes
	}
	var b strings.Builder
	for i, t := range tokens {
		line, ok := lines[i]
		switch {
		case ok:
			out, err := e.run(ctx, line)
			if err != nil {
				if ctx.Err() != nil {
					return "", false, ctx.Err()
				}
				code := RefusedUnread
				if no := (*Refusal)(nil); errors.As(err, &no) { // the command did not run
					code = no.Code
				}
				no := refuse(code, "%s was not loaded: the command %s failed: %v", e.skill.Name, escapeCommand(t.text), err)
				if code == RefusedUnread {
					no.Hint = "correct the command in " + cmp.Or(e.skill.Path, "the skill") + ", or run it alone to see why it fails"
				}
				return "", false, no
			}
			b.WriteString(out)
		case t.kind == command:
			b.WriteString(t.raw)
			if !e.skill.local() {
				e.activation.problem(Problem{Code: CodeShellRefused, Severity: Info, Path: e.skill.Path,
					Message: "the command " + escapeCommand(t.text) + " stays text: the skill is not from this machine",
					Hint:    "install the skill locally to run its commands"})
			}
		default:
			if t.path != "" && !slices.Contains(e.files, t.path) {
				e.files = append(e.files, t.path)
			}
			s, ok := e.values.of(t, sc.dialect)
			if !ok {
				s = t.raw
			}
			b.WriteString(s)
			used = used || e.values.uses(t)
		}
	}
	return b.String(), used, nil
}

func (e *expansion) run(ctx context.Context, line shellLine) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out, err := e.in.Shell(ctx, e.activation, line.line, line.env)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", err
	}
	out = strings.TrimSuffix(strings.TrimSuffix(out, "\n"), "\r")
	if out == "" {
		return "(the command printed nothing)", nil
	}
	return out, nil
}

// escapeCommand formats a command for a message: one line, with control characters replaced.
func escapeCommand(cmd string) string {
	return "`" + clip(plain.Line(strings.Join(strings.Fields(cmd), " ")), 200) + "`"
}

// commandRule reports whether a permission rule is about commands, where a blank separates words.
func commandRule(rule string) bool {
	tool, _, _ := strings.Cut(rule, "(")
	return strings.EqualFold(strings.TrimSpace(tool), "bash")
}

// inQuotes reports whether a place of a permission rule is between quotes, as the rule is read.
func inQuotes(rule string, place int) bool {
	for i := 0; i < place; i++ {
		switch c := rule[i]; c {
		case '\\':
			i++
		case '\'', '"':
			if n := strings.IndexByte(rule[i+1:], c); n >= 0 {
				i += n + 1
			}
			if i > place {
				return true
			}
		}
	}
	return false
}

// rules expands directories in permission rules. A directory always means itself: if a
// rule would read its name as a pattern, an allow rule with it grants nothing, and a
// deny rule with it denies the whole tool. In a command it is one word, whatever blanks it has.
func (e *expansion) rules(rules []string, deny bool) []string {
	if len(rules) == 0 {
		return nil
	}
	sc := scanner{}
	var out []string
	for _, rule := range rules {
		var b strings.Builder
		special := ""
		for i := 0; i < len(rule); {
			if t, ok := sc.placeholder(rule[i:]); ok && t.kind == variable && isDirectory(t.text) {
				value, ok := e.values.vars[t.text]
				if !ok {
					value = t.raw
				} else if strings.ContainsAny(value, "*?[]{}()!\\'\"`$\n") {
					special = value
				}
				if commandRule(rule) && !inQuotes(rule, i) {
					value = strings.ReplaceAll(value, " ", `\ `)
				}
				b.WriteString(value)
				i += len(t.raw)
				continue
			}
			b.WriteByte(rule[i])
			i++
		}
		if special == "" {
			out = append(out, b.String())
			continue
		}
		original := "grants nothing"
		if deny {
			tool, _, _ := strings.Cut(rule, "(")
			out = append(out, tool)
			original = "denies all of " + tool
		}
		e.activation.problem(Problem{Code: CodeToolPattern, Severity: Warn, Path: e.skill.Path,
			Message: "the rule " + rule + " " + original + ": the directory " + plain.Line(special) +
				" contains pattern characters",
			Hint: "move the skill to a directory without them"})
	}
	return out
}
