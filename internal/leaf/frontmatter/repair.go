package frontmatter

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// salvage reads YAML that the library rejects. It reads each top-level key and its lines
// separately, repairs them if necessary, and leaves them out if nothing helps. Each chunk is
// loaded at most a fixed number of times, so the total time is linear.
func (p *parser) salvage(text string, whole error) {
	file := p.offset
	wholeLine, wholeColumn, why := position(whole)
	chunks := split(text)
	before := len(p.notes)
	for _, c := range chunks {
		p.offset = file + c.line
		root, err := load(c.text())
		if err == nil {
			p.take(root, c.text())
			continue
		}
		line, column, message := position(err)
		if last := len(strings.Split(strings.TrimRight(c.text(), " \t\n"), "\n")); line > last {
			line, column = last, 1 // the library expected more text after the end
		}
		if strings.Contains(message, errDepth.Error()) { // the library keeps only the text of the error
			p.note(Limit, p.offset+line, column, "nest the value less deeply", "%s: %s; left out", c.name(), errDepth)
			continue
		}
		if fixed, ok := p.fix(c); ok {
			p.note(Repaired, p.offset+line, column, fixed.hint(c.key), "%s is not valid YAML (%s): %s", c.name(), message,
				fixed.what)
			continue
		}
		p.note(Invalid, p.offset+line, column, "put the value in quotes", "%s is not valid YAML and was left out: %s",
			c.name(), message)
	}
	p.offset = file
	switch {
	case len(p.entries) == 0:
		p.notes = append(p.notes[:before], Problem{Invalid, file + wholeLine, wholeColumn,
			"the frontmatter is not valid YAML and was left out: " + why,
			"write one `key: value` a line, values with `: ` in quotes"})
	case len(p.notes) == before:
		p.note(Repaired, file+wholeLine, wholeColumn, "remove the text between the keys",
			"not valid YAML (%s): each key was read on its own", why)
	}
}

// A chunk is a top-level key with its lines.
type chunk struct {
	line  int // number of lines before it
	key   string
	value string   // the text after the colon on the key's line
	head  string   // the key's line up to and including the colon
	lines []string // all lines of the chunk
}

func (c *chunk) text() string { return strings.Join(c.lines, "\n") + "\n" }

func (c *chunk) name() string {
	if c.key == "" {
		return "the text before the first key"
	}
	return c.key
}

// split splits a text before every line that begins a key with the same indentation as the
// first key.
func split(text string) []chunk {
	var chunks []chunk
	indent := -1
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		bare := strings.TrimLeft(line, " ")
		if indent < 0 && bare != "" && bare[0] != '#' {
			indent = len(line) - len(bare)
		}
		if len(line)-len(bare) == indent {
			if key, at, ok := topKey(bare); ok {
				chunks = append(chunks, chunk{line: n, key: key, head: bare[:at], value: strings.TrimSpace(bare[at:])})
			}
		}
		if len(chunks) == 0 {
			if bare == "" || bare[0] == '#' {
				continue
			}
			chunks = append(chunks, chunk{line: n})
		}
		c := &chunks[len(chunks)-1]
		c.lines = append(c.lines, line)
	}
	return chunks
}

// topKey parses `key:` at the start of a line. The key consists of letters, digits, -, _, .
// and blanks, or is quoted. at is the offset of the value.
func topKey(line string) (key string, at int, ok bool) {
	if line == "" {
		return "", 0, false
	}
	if q := line[0]; q == '"' || q == '\'' {
		end := strings.IndexByte(line[1:], q)
		if end < 1 || !strings.HasPrefix(line[end+2:], ":") {
			return "", 0, false
		}
		return line[1 : 1+end], end + 3, true
	}
	for i, r := range line {
		switch {
		case r == ':':
			if i == 0 || i > 128 {
				return "", 0, false
			}
			rest := line[i+1:]
			if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
				return "", 0, false
			}
			return strings.TrimRight(line[:i], " "), i + 1, true
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_', r == '$':
		case (r == '-' || r == '.' || r == ' ') && i > 0:
		default:
			return "", 0, false
		}
	}
	return "", 0, false
}

// A repairedValue is a chunk that loads, with a description of the repair.
type repairedValue struct {
	value  string // what the value was interpreted as; "" if it is not text
	what   string
	advice string // used if there is no value to show
}

func (f repairedValue) hint(key string) string {
	if f.advice != "" {
		return f.advice
	}
	v := f.value
	if utf8.RuneCountInString(v) > 60 {
		v = string([]rune(v)[:60]) + "…"
	}
	return "write " + key + ": " + quote(v)
}

// fix tries the most common intentions of authors and returns the first one that loads.
func (p *parser) fix(c chunk) (repairedValue, bool) {
	if c.key == "" {
		return repairedValue{}, false
	}
	try := func(text string, f repairedValue) (repairedValue, bool) {
		root, err := load(text)
		if err != nil || root == nil || root.Kind != yaml.MappingNode || len(root.Content) != 2 {
			return repairedValue{}, false
		}
		p.take(root, text)
		return f, true
	}
	text, what := foldToBlock(c.lines)
	if what != "" {
		if f, ok := try(strings.Join(text, "\n")+"\n", repairedValue{what: what,
			advice: "indent with spaces, and write the character itself"}); ok {
			return f, true
		}
	}
	rest := text[1:]
	if c.value != "" && (c.value[0] == '>' || c.value[0] == '|') {
		header, after := blockHeader(c.value)
		what := "the lines below " + header + " were indented"
		if after != "" {
			what = "the text after " + header + " was taken as its first line"
		}
		return try(c.head+" "+header+"\n"+indented(after, rest),
			repairedValue{what: what, advice: "begin the text on the line after " + c.key + ": " + header + ", two spaces in"})
	}
	if c.value != "" {
		value, what := intendedText(fold(strings.TrimSpace(text[0][strings.Index(text[0], c.head)+len(c.head):]), rest))
		return try(c.head+" "+quote(value)+"\n", repairedValue{value: value, what: what})
	}
	if f, ok := try(c.head+"\n"+quoteLines(rest), repairedValue{what: "values below it were taken as text",
		advice: "put the values below it in quotes"}); ok {
		return f, true
	}
	value := fold("", rest)
	return try(c.head+" "+quote(value)+"\n", repairedValue{value: value, what: "the lines below it were taken as text"})
}

// foldToBlock replaces tabs in the indentation, escaped surrogates and control characters. what
// describes the changes; it is "" if there were none.
func foldToBlock(lines []string) (out []string, what string) {
	out = make([]string, len(lines))
	for i, line := range lines {
		bare := strings.TrimLeft(line, " \t")
		if lead := line[:len(line)-len(bare)]; strings.Contains(lead, "\t") {
			line, what = strings.ReplaceAll(lead, "\t", "  ")+bare, "tabs in the indentation were read as spaces"
		}
		line, half := joinSurrogates(line)
		if half {
			what = "surrogate escapes were joined or replaced"
		}
		out[i] = strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r == 0x7f {
				what = "control characters were replaced"
				return utf8.RuneError
			}
			return r
		}, line)
	}
	return out, what
}

// joinSurrogates replaces an escaped surrogate pair such as \ud83d\ude00 by its character, and
// a single surrogate by U+FFFD.
func joinSurrogates(s string) (string, bool) {
	if !strings.Contains(s, `\u`) {
		return s, false
	}
	var b strings.Builder
	found := false
	for i := 0; i < len(s); {
		r, ok := escape(s[i:])
		if !ok || !utf16.IsSurrogate(r) {
			if s[i] == '\\' && i+1 < len(s) { // an escaped backslash does not begin an escape
				b.WriteString(s[i : i+2])
				i += 2
				continue
			}
			b.WriteByte(s[i])
			i++
			continue
		}
		found = true
		i += 6
		low, ok := escape(s[i:])
		if both := utf16.DecodeRune(r, low); ok && both != utf8.RuneError {
			r = both
			i += 6
		} else {
			r = utf8.RuneError
		}
		b.WriteRune(r)
	}
	return b.String(), found
}

// escape parses \uXXXX.
func escape(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32)
	return rune(n), err == nil
}

// blockHeader splits `>- text` into the block indicator and the text.
func blockHeader(value string) (header, text string) {
	i := 1
	for i < len(value) && i < 3 && strings.IndexByte("+-123456789", value[i]) >= 0 {
		i++
	}
	if i < len(value) && value[i] != ' ' && value[i] != '\t' {
		i = 1
	}
	header, text = value[:i], strings.TrimSpace(value[i:])
	if strings.HasPrefix(text, "#") {
		return header, ""
	}
	// An indentation number would not match the lines below.
	return strings.TrimRight(header, "123456789"), text
}

// indented returns first and the lines as a block indented by two spaces.
func indented(first string, lines []string) string {
	least := 1 << 20
	for _, l := range lines {
		if bare := strings.TrimLeft(l, " "); bare != "" {
			least = min(least, len(l)-len(bare))
		}
	}
	var b strings.Builder
	if first != "" {
		b.WriteString("  " + first + "\n")
	}
	for _, l := range lines {
		if strings.TrimSpace(l) != "" {
			b.WriteString("  " + l[least:])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// fold joins lines as YAML does for a plain value: a line break becomes a space, an empty line
// becomes a line break.
func fold(first string, lines []string) string {
	var b strings.Builder
	b.WriteString(first)
	breaks := 0
	for _, l := range lines {
		l = strings.TrimSpace(l)
		switch {
		case l == "":
			breaks++
			continue
		case b.Len() == 0:
		case breaks > 0:
			b.WriteString(strings.Repeat("\n", breaks))
		default:
			b.WriteByte(' ')
		}
		breaks = 0
		b.WriteString(l)
	}
	return b.String()
}

// intendedText returns the text that an unreadable value stands for, and a sentence that says so.
func intendedText(value string) (text, what string) {
	q := value[0]
	if q != '"' && q != '\'' {
		if strings.IndexByte("[]{}*&!%@`,?|>#-", q) >= 0 {
			return value, "it begins with " + strconv.Quote(string(q)) + " and was taken as text"
		}
		if strings.Contains(value, ": ") || strings.HasSuffix(value, ":") {
			return value, "it contains a colon and a space outside quotes and was taken as text"
		}
		return value, "it was taken as text, as if it were quoted"
	}
	switch end := strings.LastIndexByte(value, q); {
	case end == 0:
		return unescape(value[1:], q), "a quote that is not closed was left out"
	case end == len(value)-1:
		return unescape(value[1:end], q), "the quotes inside its quotes were taken as text"
	case strings.HasPrefix(strings.TrimSpace(value[end+1:]), "#"):
		return unescape(value[1:end], q), "the quotes inside its quotes were taken as text"
	}
	return value, "it continues after its quotes and was taken as text"
}

// unescape removes the escapes that an author used inside quotes.
func unescape(s string, q byte) string {
	if q == '\'' {
		return strings.ReplaceAll(s, "''", "'")
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t", `\/`, "/").Replace(s)
}

// quote quotes a text so that YAML reads the same text back, on one line.
func quote(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff
	}) < 0
	if plain {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			h := strconv.FormatInt(int64(r), 16)
			b.WriteString(`\u` + "0000"[len(h):] + h)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// quoteLines quotes the values that do not load, in the lines of a nested list or mapping.
func quoteLines(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		bare := strings.TrimLeft(l, " ")
		at := len(l) - len(bare)
		for strings.HasPrefix(l[at:], "- ") {
			at += 2
			at += len(l[at:]) - len(strings.TrimLeft(l[at:], " "))
		}
		if _, n, ok := topKey(l[at:]); ok {
			at += n
		}
		value := strings.TrimSpace(l[at:])
		if value == "" || strings.HasPrefix(value, "#") || loads(value) {
			b.WriteString(l + "\n")
			continue
		}
		value, _ = intendedText(value)
		b.WriteString(l[:at] + " " + quote(value) + "\n")
	}
	return b.String()
}

// loads reports whether YAML accepts a value after a key.
func loads(value string) bool {
	if value[0] == '|' || value[0] == '>' {
		_, text := blockHeader(value)
		return text == ""
	}
	_, err := load("k: " + value + "\n")
	return err == nil
}

// windowsPaths doubles the backslashes of Windows paths in double quotes, because YAML would
// interpret the \t of "C:\tools" as a tab and reject the \U of "C:\Users".
func (p *parser) windowsPaths(head []byte) []byte {
	if !bytes.Contains(head, []byte(`:\`)) {
		return head
	}
	var out []byte
	inside := false // inside double quotes, which may span several lines
	for n, rest := 1, head; len(rest) > 0; n++ {
		line, after := cutLine(rest)
		if len(line) > 0 && (isLetter(line[0]) || line[0] == '-') { // a key: everything before it has ended
			inside = false
		}
		repaired := literalPaths(string(line), &inside)
		if repaired != string(line) {
			p.note(Repaired, p.offset+n, 1, "put the value in single quotes",
				"the backslashes of a Windows path in double quotes were taken literally")
		}
		out = append(out, repaired...)
		out = append(out, rest[len(line):len(rest)-len(after)]...)
		rest = after
	}
	return out
}

// literalPaths doubles the backslashes of Windows paths that are in double quotes.
func literalPaths(line string, inside *bool) string {
	if !*inside && !strings.Contains(line, `"`) {
		return line
	}
	var b strings.Builder
	path, single := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		b.WriteByte(c)
		next := byte(0)
		if i+1 < len(line) {
			next = line[i+1]
		}
		opens := i == 0 || strings.IndexByte(" \t,[{(:", line[i-1]) >= 0
		switch {
		case single:
			single = c != '\''
		case !*inside:
			*inside, path = c == '"' && opens, false
			single = c == '\'' && opens
		case c == '"':
			*inside, path = false, false
		case c == ':' && next == '\\' && i > 0 && isLetter(line[i-1]) && (i < 2 || !isLetter(line[i-2])):
			path = true
		case c == ' ' && path:
			path = continues(line[i+1:])
		case strings.IndexByte(",;<>|?*", c) >= 0:
			path = false
		case c != '\\':
		case next == '\\', next == '"' && (!path || !endsQuote(line[i+2:])), next != 0 && !path:
			b.WriteByte(next) // a valid escape that the author intended
			i++
		case path && next != 0:
			b.WriteByte('\\')
		}
	}
	return b.String()
}

// continues reports whether a path continues after a blank, as in Program Files\x.
func continues(rest string) bool {
	end := strings.IndexAny(rest, `\/"`)
	if end <= 0 || end > 24 || rest[end] != '\\' {
		return false
	}
	for word := range strings.FieldsSeq(rest[:end]) {
		if c := word[0]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '(' {
			return false
		}
	}
	return true
}

// endsQuote reports whether a value ends where rest begins.
func endsQuote(rest string) bool {
	rest = strings.TrimLeft(rest, " \t\r")
	return rest == "" || strings.IndexByte(",]}#", rest[0]) >= 0
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
