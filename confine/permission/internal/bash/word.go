package bash

import (
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// A Word is one word of a simple command, with what is known about its value before the command
// runs.
type Word struct {
	Text string // as written

	Values   []string // all values it may have; nil if they are unknown
	Literal  bool     // it has one value, written without escapes, expansions, globs, braces or tilde
	Glob     bool     // it contains a glob; Values are then patterns
	Dynamic  bool     // it contains an expansion, even if the values are known
	Dash     bool     // it may yield a word that begins with '-' although the text does not show this
	Many     bool     // it may yield no word or several
	Prefix   string   // the beginning of the value, if the rest is unknown
	Tilde    bool     // it begins with a ~ that means a home directory
	original string   // the value before a placeholder such as {} was replaced
	supplied bool     // xargs or find supplies it, not the shell
	Ref      bool     // it contains one commit name printed by git, possibly with text around it
	Made     []Made   // what the path of a file that it names begins with, although Values are unknown
	Tag      bool     // with Ref: the name may be that of a tag, which may begin with '-'
}

// Value returns the word's value if it has exactly one and contains no glob.
func (w *Word) Value() (string, bool) {
	if len(w.Values) == 1 && !w.Glob {
		return w.Values[0], true
	}
	return "", false
}

// Is reports whether the word's only value is one of the given values.
func (w *Word) Is(values ...string) bool {
	v, ok := w.Value()
	if !ok {
		return false
	}
	for _, s := range values {
		if v == s {
			return true
		}
	}
	return false
}

// Known returns a word with a known value, as if it was written literally.
func Known(v string) Word { return Word{Text: v, Values: []string{v}, Literal: true} }

// unknown returns a word whose value another program supplies, such as xargs.
func unknown(text string, dash bool) Word {
	return Word{Text: text, Dynamic: true, Dash: dash, supplied: true}
}

const (
	maxAlternatives = 32 // maximum number of values tracked for one word
	maxValue        = 128 << 10
)

// A wordBuilder joins the parts of a word.
type wordBuilder struct {
	a *analysis
	Word
	vals   []string
	known  bool
	seen   bool // literal or quoted text came before
	static bool
}

// word determines what is known about a word. It is called after the whole text has been processed,
// so that all assignments are known.
func (a *analysis) word(w *syntax.Word) Word {
	if len(w.Parts) == 1 { // fast path for the most common case
		switch p := w.Parts[0].(type) {
		case *syntax.Lit:
			if plain(p.Value) {
				return Word{Text: p.Value, Values: []string{p.Value}, Literal: true}
			}
		case *syntax.SglQuoted:
			if !p.Dollar {
				return Word{Text: a.source(w), Values: []string{p.Value}, Literal: true}
			}
		}
	}
	b := wordBuilder{a: a, known: true, static: true, vals: []string{""}}
	b.Text = a.source(w)
	for i, p := range w.Parts {
		b.part(p, i == 0, false)
	}
	out := b.Word
	out.Literal = b.static && b.known
	if b.known {
		out.Values = b.vals
	} else if len(b.vals) == 1 {
		out.Prefix = b.vals[0]
	}
	if !b.known && out.Dynamic {
		out.Made = a.made(w)
	}
	if out.Glob && !out.Dash {
		for _, v := range b.vals {
			if v == "" || v[0] == '*' || v[0] == '?' || v[0] == '[' || v[0] == '-' || v[0] == '@' || v[0] == '+' || v[0] == '!' {
				out.Dash = true
			}
		}
	}
	if out.Ref && !refText(w.Parts) {
		out.Ref, out.Dash, out.Many = false, true, true
	}
	if out.Dynamic && !b.known && strings.HasPrefix(out.Prefix, "-") {
		out.Dash = true // an option with unknown letters
	}
	if out.Dynamic && b.known { // the values of its variables are known, so they show whether it is an option
		for _, v := range b.vals {
			if strings.HasPrefix(v, "-") {
				out.Dash = true
			}
		}
	}
	return out
}

// plain reports whether unquoted literal text has no special characters.
func plain(s string) bool {
	if s == "[" {
		return true // the command [, or a name: a glob would have a closing bracket
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\', '*', '?', '[', '{', '~':
			return false
		}
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (b *wordBuilder) add(s string) {
	if !b.known {
		return
	}
	for i := range b.vals {
		if len(b.vals[i])+len(s) > maxValue {
			b.unknown()
			return
		}
		b.vals[i] += s
	}
	if s != "" {
		b.seen = true
	}
}

// choose appends each of the alternatives to each value.
func (b *wordBuilder) choose(alts []string) {
	if !b.known {
		return
	}
	if len(alts) == 0 || len(b.vals)*len(alts) > maxAlternatives {
		b.unknown()
		return
	}
	out := make([]string, 0, len(b.vals)*len(alts))
	for _, v := range b.vals {
		for _, s := range alts {
			if len(v)+len(s) > maxValue {
				b.unknown()
				return
			}
			out = append(out, v+s)
		}
	}
	b.vals, b.seen = out, true
}

// unknown marks the rest of the value as unknown; the beginning is kept.
func (b *wordBuilder) unknown() {
	b.known, b.static = false, false
}

func (b *wordBuilder) expansion(quoted bool) {
	b.Dynamic, b.static = true, false
	if !b.seen {
		b.Dash = true
	}
	if !quoted {
		b.Dash, b.Many = true, true // it may be split into several words
	}
	b.unknown()
}

func (b *wordBuilder) part(p syntax.WordPart, first, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		if quoted {
			b.add(unescape(p.Value, "$`\"\\"))
			if strings.Contains(p.Value, "\\") {
				b.static = false
			}
			return
		}
		b.lit(p.Value, first)
	case *syntax.SglQuoted:
		if p.Dollar {
			v, ok := ansiC(p.Value)
			if strings.Contains(p.Value, "\\") {
				b.static = false
			}
			if !ok {
				b.expansion(true)
				return
			}
			b.add(v)
			return
		}
		b.add(p.Value)
	case *syntax.DblQuoted:
		if p.Dollar { // translated with the locale's message catalogue
			b.expansion(true)
			return
		}
		for _, q := range p.Parts {
			b.part(q, false, true)
		}
	case *syntax.ParamExp:
		b.param(p, quoted)
	case *syntax.CmdSubst:
		if v, ok := hereText(p); ok && quoted && !b.a.anyFunc {
			b.static = false
			b.add(v)
			return
		}
		if b.a.top != "" && printsTop(p) && !b.a.anyFunc && (quoted || PlainWord(b.a.top)) {
			b.Dynamic, b.static = true, false
			b.add(b.a.top)
			return
		}
		if ok, tag := printsRef(p); ok && !b.a.anyFunc {
			b.Ref, b.Tag, b.Dynamic, b.static = true, b.Tag || tag && !b.seen, true, false
			b.Dash = b.Dash || tag && !b.seen
			b.unknown()
			return
		}
		b.expansion(quoted)
	case *syntax.ProcSubst: // yields a path such as /dev/fd/63
		b.Dynamic, b.static = true, false
		b.add("/dev/fd/63") // the number may differ
	case *syntax.ArithmExp:
		b.Dynamic, b.static = true, false
		if b.a.counts(p.X) { // only digits; it does not matter which
			b.add("0")
			return
		}
		b.expansion(quoted)
	case *syntax.ExtGlob:
		b.Glob, b.static = true, false
		b.add(p.Op.String() + p.Pattern.Value + ")")
	default:
		b.expansion(false)
	}
}

// lit adds unquoted text, in which escapes, globs, braces and a tilde are special.
func (b *wordBuilder) lit(s string, first bool) {
	if first && strings.HasPrefix(s, "~") {
		b.static, b.Tilde = false, true // the value keeps the "~", which is resolved with the path
	}
	if strings.Contains(s, "{") {
		if alts, ok := braces(s); ok {
			b.static, b.Many = false, true
			var values []string
			for _, alt := range alts {
				if strings.ContainsAny(alt, "\\") {
					b.expansion(false)
					return
				}
				if strings.ContainsAny(alt, "*?[") {
					b.Glob = true
				}
				if strings.HasPrefix(alt, "-") && !b.seen {
					b.Dash = true
				}
				values = append(values, alt)
			}
			b.choose(values)
			return
		}
		// Braces without a comma that are closed are not expanded: {}, @{u}.
		if strings.ContainsAny(s, ",\\") || strings.Contains(s, "..") || strings.Count(s, "{") != 1 ||
			strings.Index(s, "}") < strings.Index(s, "{") {
			b.Many = true
			b.expansion(false) // brace expansions that are not supported here
			return
		}
		b.static = b.static && s == "{}" // {} is the placeholder of find and xargs
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			b.static = false
			if i+1 < len(s) {
				i++
				if s[i] == '\r' {
					continue
				}
				if s[i] != '\n' {
					out.WriteByte(s[i])
				}
			}
			continue
		case '*', '?', '[':
			b.Glob, b.static = true, false
		}
		out.WriteByte(s[i])
	}
	b.add(out.String())
}

// param adds a parameter expansion. The value is known only for a plain $name if all assignments to
// it in this text are known.
func (b *wordBuilder) param(p *syntax.ParamExp, quoted bool) {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	simple := simpleParam(p)
	if p.Length && p.Index == nil && p.Param != nil || simple && (name == "?" || name == "#" || name == "$") {
		b.Dynamic, b.static, b.seen = true, false, true // yields a number
		if b.known {
			b.add("0")
		}
		return
	}
	if simple {
		if v := b.a.vars[name]; v != nil && !v.unknown && len(v.vals) > 0 {
			ok := true
			for _, s := range v.vals {
				if !quoted && !PlainWord(s) {
					ok = false
				}
			}
			if ok {
				b.Dynamic, b.static = true, false
				if v.glob {
					if !quoted {
						b.Many = true
					}
					b.Glob = true
				}
				b.choose(v.vals)
				return
			}
		}
	}
	if quoted && (name == "@" || indexIsAt(p.Index) || p.Names != 0) {
		quoted = false // "$@" yields several words
	}
	b.expansion(quoted)
}

// simpleParam reports whether an expansion is a plain $name or ${name}.
func simpleParam(p *syntax.ParamExp) bool {
	return p.NestedParam == nil && p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet &&
		p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil && len(p.Modifiers) == 0
}

func indexIsAt(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && w.Lit() == "@"
}

// PlainWord reports whether an unquoted expansion with the value s yields exactly the word s.
func PlainWord(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf || !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("_./:=@%+,-", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// hereText returns the text of $(cat <<'EOF' … EOF), a common form of quoting.
func hereText(c *syntax.CmdSubst) (string, bool) {
	if len(c.Stmts) != 1 || c.TempFile || c.ReplyVar {
		return "", false
	}
	st := c.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || len(call.Assigns) > 0 || len(call.Args) != 1 || call.Args[0].Lit() != "cat" ||
		len(st.Redirs) != 1 {
		return "", false
	}
	r := st.Redirs[0]
	if r.Op != syntax.Hdoc || r.N != nil || r.Hdoc == nil || !quotedWord(r.Word) {
		return "", false
	}
	v := r.Hdoc.Lit()
	return strings.TrimRight(v, "\n"), true
}

// printsTop reports whether a substitution prints the top of the repository, and nothing else.
func printsTop(c *syntax.CmdSubst) bool {
	words, ok := substituted(c)
	return ok && slices.Equal(words, []string{"git", "rev-parse", "--show-toplevel"})
}

// printsRef reports whether a substitution prints exactly one commit name, which the shell does not
// split, and whether this may be the name of a tag.
func printsRef(c *syntax.CmdSubst) (ok, tag bool) {
	words, ok := substituted(c)
	if !ok || len(words) < 2 || words[0] != "git" {
		return false, false
	}
	options := map[string]string{
		"describe":   "--tags --abbrev --always --long --exact-match --match --exclude --first-parent --candidates",
		"rev-parse":  "--short --verify -q --quiet",
		"merge-base": "--fork-point --octopus",
	}[words[1]]
	for _, v := range words[2:] {
		flag, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(v, "-") && !listed(options, flag) || !strings.HasPrefix(v, "-") && !refName(v) {
			return false, false
		}
	}
	return options != "", words[1] == "describe"
}

// substituted returns the words of a substitution that is one plain command, whose messages may go to /dev/null.
func substituted(c *syntax.CmdSubst) (words []string, ok bool) {
	if len(c.Stmts) != 1 || c.TempFile || c.ReplyVar {
		return nil, false
	}
	st := c.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || st.Coprocess || len(call.Assigns) > 0 {
		return nil, false
	}
	for _, r := range st.Redirs {
		if r.Op != syntax.RdrOut || r.N == nil || r.N.Value != "2" || r.Word.Lit() != "/dev/null" {
			return nil, false
		}
	}
	var early analysis
	for _, arg := range call.Args {
		w := early.word(arg)
		v, known := w.Value()
		if !known {
			return nil, false
		}
		words = append(words, v)
	}
	return words, true
}

// refText reports whether the text around substitutions in a word is part of a commit range and not
// of a file name.
func refText(parts []syntax.WordPart) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if !refName(p.Value) {
				return false
			}
		case *syntax.DblQuoted:
			if !refText(p.Parts) {
				return false
			}
		case *syntax.CmdSubst:
		default:
			return false
		}
	}
	return true
}

func refName(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c == '.' || c == '/' || c == '^' || c == '~' || c == '@' || c == '-' || WordByte(c|0x20)) {
			return false
		}
	}
	return s != ""
}

func quotedWord(w *syntax.Word) bool {
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
			return true
		case *syntax.Lit:
			if strings.Contains(p.Value, "\\") {
				return true
			}
		}
	}
	return false
}

// unescape removes backslashes before the given characters and removes escaped newlines.
func unescape(s, chars string) string {
	if !strings.Contains(s, "\\") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if s[i+1] == '\n' {
				i++
				continue
			}
			if strings.IndexByte(chars, s[i+1]) >= 0 {
				i++
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// ansiC returns the value of the text inside $'…'.
func ansiC(s string) (string, bool) {
	if !strings.Contains(s, "\\") {
		return s, true
	}
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		number := func(from, base, maxDigits int) (rune, bool) {
			j := from
			for j < len(s) && j-from < maxDigits && hexValue(s[j]) < base {
				j++
			}
			n, err := strconv.ParseUint(s[from:j], base, 32)
			i = j - 1
			return rune(n), err == nil
		}
		switch c := s[i]; c {
		case 'a':
			out = append(out, 7)
		case 'b':
			out = append(out, 8)
		case 'e', 'E':
			out = append(out, 27)
		case 'f':
			out = append(out, 12)
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'v':
			out = append(out, 11)
		case '\\', '\'', '"', '?':
			out = append(out, c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n, ok := number(i, 8, 3)
			if !ok || n&0xff == 0 {
				return "", false
			}
			out = append(out, byte(n))
		case 'x':
			n, ok := number(i+1, 16, 2)
			if !ok || n == 0 {
				return "", false
			}
			out = append(out, byte(n))
		case 'u', 'U':
			maxDigits := 4
			if c == 'U' {
				maxDigits = 8
			}
			n, ok := number(i+1, 16, maxDigits)
			if !ok || n == 0 {
				return "", false
			}
			out = utf8.AppendRune(out, n)
		default:
			return "", false
		}
	}
	return string(out), true
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return 99
}

// braces expands one brace expression without nesting: a{b,c}d, {1..5}.
func braces(s string) ([]string, bool) {
	open := strings.IndexByte(s, '{')
	end := strings.IndexByte(s, '}')
	if open < 0 || end < open || strings.Count(s, "{") != 1 || strings.Count(s, "}") != 1 || strings.Contains(s, "\\") {
		return nil, false
	}
	before, in, after := s[:open], s[open+1:end], s[end+1:]
	var alts []string
	if strings.Contains(in, ",") {
		alts = strings.Split(in, ",")
	} else if lo, hi, ok := strings.Cut(in, ".."); ok {
		a, err1 := strconv.Atoi(lo)
		z, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a < 0 || z < a || z-a >= maxAlternatives || lo != strconv.Itoa(a) ||
			hi != strconv.Itoa(z) {
			return nil, false
		}
		for ; a <= z; a++ {
			alts = append(alts, strconv.Itoa(a))
		}
	}
	if len(alts) < 2 || len(alts) > maxAlternatives {
		return nil, false
	}
	for i := range alts {
		alts[i] = before + alts[i] + after
	}
	return alts, true
}

// counts reports whether the result of an arithmetic expression consists only of digits: sums and
// products of numbers and of variables with numbers.
func (a *analysis) counts(x syntax.ArithmExpr) bool {
	switch x := x.(type) {
	case *syntax.Word:
		return !a.negative && a.numeric(x)
	case *syntax.ParenArithm:
		return a.counts(x.X)
	case *syntax.BinaryArithm:
		switch x.Op {
		case syntax.Add, syntax.Mul, syntax.Quo, syntax.Rem:
			return a.counts(x.X) && a.counts(x.Y)
		}
	}
	return false
}

// numeric reports whether a word in an arithmetic expression is a number, or a variable to which
// this text assigns only numbers. Bash evaluates any other value as an expression, whose subscripts
// may contain commands.
func (a *analysis) numeric(w *syntax.Word) bool {
	name := w.Lit()
	if len(w.Parts) == 1 {
		if p, ok := w.Parts[0].(*syntax.ParamExp); ok {
			if p.Short && p.Param != nil {
				switch name = p.Param.Value; name {
				case "#", "?", "$":
					return true
				}
				if !Identifier(name) {
					return false // a positional parameter
				}
			}
		}
	}
	if name == "" {
		return false
	}
	if name[0] >= '0' && name[0] <= '9' {
		return Digits(name)
	}
	if name == "RANDOM" || name == "SECONDS" || name == "LINENO" {
		return a.vars[name] == nil
	}
	if !Identifier(name) {
		return false
	}
	v := a.vars[name]
	return v != nil && v.number && !v.unknown
}

// Paths returns the parts of a word that may be the path of a file: the whole word; what follows an option letter
// (-Fx); and what follows =, :, @, <, a comma or a quote, up to the next comma or quote (--file=x, body=@x,
// type=bind,src=x). Each part is also returned without its suffix, which begins with :, #, ? or @ (x:12:3, x#L3,
// host:x:ro).
func Paths(word string) iter.Seq[string] {
	const before, after, suffix = "=:@<,'\"", ",'\";", ":#?@"
	const maxName = 255   // bytes in the name of a file, on every system
	const maxSuffixes = 4 // a word of colons takes linear time
	return func(yield func(string) bool) {
		if word == "" || len(word) > 4096 {
			return
		}
		part := func(from int) bool {
			to := len(word)
			if k := strings.IndexAny(word[from:], after); k >= 0 {
				to = from + k
			}
			if path, ok := strings.CutPrefix(word[from:to], "//"); ok && !yield(path) { // file://x
				return false
			}
			if to-from > maxName && strings.IndexByte(word[from:from+maxName+1], '/') < 0 {
				return true
			}
			for k, n := from+1, 0; k < to && n < maxSuffixes; k++ {
				if strings.IndexByte(suffix, word[k]) < 0 {
					continue
				}
				if n++; !yield(word[from:k]) {
					return false
				}
			}
			return to == from || yield(word[from:to])
		}
		letters := word[0] == '-' // letters of options may come before
		if !letters && (strings.ContainsAny(word, after) && !yield(word) || !part(0)) {
			return
		}
		for i := 1; i < len(word); i++ {
			switch {
			case strings.IndexByte(before, word[i-1]) >= 0:
			case letters && i > 1 && i < 6 && word[1] != '-':
			default:
				continue
			}
			if !part(i) {
				return
			}
		}
	}
}

// Digits reports whether s consists of 1 to 17 digits.
func Digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && len(s) < 18
}

// Identifier reports whether s is a valid name of a shell variable.
func Identifier(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// WordByte reports whether a byte, a letter only in lower case, can be part of a name.
func WordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}

// IsAbs reports whether a path is absolute.
func IsAbs(s string) bool {
	return strings.HasPrefix(s, "/") || runtime.GOOS == "windows" && len(s) > 2 && s[1] == ':' && s[2] == '/'
}
