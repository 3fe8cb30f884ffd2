// Package search finds lines in text and files in directory trees. The grep and find tools use
// it.
//
// A [Pattern] is a regular expression (RE2 syntax, as in package regexp) prepared for
// searching lines. Most of its speed comes from not running the expression: the search first
// looks for text that every match must contain, by its rarest byte. The remaining lines go
// through a lazily built automaton over classes of runes, whose results are those of package
// regexp (a fuzz test compares them).
//
// [Walk] visits a tree with several goroutines and yields results in order.
package search

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options configure a pattern. The zero Options mean a case-sensitive regular expression,
// matched against one line at a time.
type Options struct {
	IgnoreCase bool
	Literal    bool // the pattern is literal text
	Multiline  bool // a match may span lines; ^ and $ still match at lines
}

// A Pattern is a compiled pattern. It is immutable and safe for concurrent use.
type Pattern struct {
	re       *regexp.Regexp
	prog     *syntax.Prog
	classes  *classes
	required []literal // every match contains at least one of these; nil: unknown
	pure     bool      // a line matches if and only if it contains one of required
	keepCR   bool      // the pattern contains "\r", so "\r" is text and not part of a line ending
}

// Compile compiles a pattern. The error says where the pattern is wrong and, for features that
// RE2 lacks, what to write instead.
func Compile(pattern string, o Options) (*Pattern, error) {
	if !utf8.ValidString(pattern) {
		return nil, errors.New("the pattern is not valid UTF-8")
	}
	expr := pattern
	if o.Literal {
		expr = regexp.QuoteMeta(pattern)
	}
	flags := syntax.Perl
	if o.IgnoreCase {
		flags |= syntax.FoldCase
	}
	if o.Multiline {
		flags &^= syntax.OneLine
	}
	tree, err := syntax.Parse(expr, flags)
	if err != nil {
		return nil, explain(expr, err)
	}
	if !o.Multiline && needsNewline(tree) {
		return nil, errors.New(`the pattern asks for a line break, but lines are searched one by one: set multiline to true`)
	}
	simple := tree.Simplify()
	prog, err := syntax.Compile(simple)
	if err != nil {
		return nil, explain(expr, err)
	}
	prefix := ""
	switch {
	case o.IgnoreCase && o.Multiline:
		prefix = "(?im)"
	case o.IgnoreCase:
		prefix = "(?i)"
	case o.Multiline:
		prefix = "(?m)"
	}
	re, err := regexp.Compile(prefix + expr)
	if err != nil {
		return nil, explain(expr, err)
	}
	p := &Pattern{re: re, prog: prog, keepCR: namesCR(tree)}
	lits, whole := required(simple)
	if len(lits) <= maxLiterals {
		p.required, p.pure = lits, whole && len(lits) > 0
	}
	if !o.Multiline && !p.pure {
		p.classes = newClasses(prog, p.keepCR)
	}
	return p, nil
}

// Required returns texts of which every match contains at least one, or nil if none are known.
// If fold is set, letter case does not matter.
func (p *Pattern) Required() (texts []string, fold bool) {
	for _, l := range p.required {
		texts, fold = append(texts, string(l.text)), fold || l.fold
	}
	return texts, fold
}

// maxLiterals is the maximum number of texts to search for one after another; with more, one
// pass of the automaton is faster.
const maxLiterals = 3

// explain turns an error of regexp/syntax into a sentence with the position, counted in
// characters from 1.
func explain(expr string, err error) error {
	for _, n := range unsupportedSyntax {
		if i := indexUnescaped(expr, n.text); i >= 0 {
			return fmt.Errorf("invalid regular expression at character %d: %s is %s, which RE2 does not support: %s",
				utf8.RuneCountInString(expr[:i])+1, n.text, n.what, n.instead)
		}
	}
	for i := 0; i+1 < len(expr); i++ {
		if expr[i] != '\\' {
			continue
		}
		if c := expr[i+1]; '1' <= c && c <= '9' {
			return fmt.Errorf("invalid regular expression at character %d: \\%c is a back-reference, which RE2 does not "+
				"support: search for the wider pattern and compare the matches",
				utf8.RuneCountInString(expr[:i])+1, c)
		}
		i++
	}
	var se *syntax.Error
	if !errors.As(err, &se) {
		return fmt.Errorf("invalid regular expression: %w", err)
	}
	at := strings.Index(expr, se.Expr)
	switch se.Code {
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
		at = unbalanced(expr)
	case syntax.ErrTrailingBackslash:
		at = len(expr) - 1
	case syntax.ErrMissingBracket:
		at = strings.LastIndex(expr, se.Expr)
	}
	text := se.Expr
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return fmt.Errorf("invalid regular expression at character %d: %s: `%s` (set literal to true to search for the "+
		"text as it is)",
		utf8.RuneCountInString(expr[:max(at, 0)])+1, se.Code, text)
}

// unsupportedSyntax lists syntax of other dialects that RE2 lacks, with alternatives.
var unsupportedSyntax = [...]struct{ text, what, instead string }{
	{"(?=", "a lookahead", "search for the wider pattern and pick from what is found"},
	{"(?!", "a negative lookahead", "search for the wider pattern and leave out what does not fit"},
	{"(?<=", "a lookbehind", "search for the wider pattern and pick from what is found"},
	{"(?<!", "a negative lookbehind", "search for the wider pattern and leave out what does not fit"},
	{"(?>", "an atomic group", "write (?: instead"},
	{"(?|", "a branch reset", "write (?: instead"},
	{"(?R", "a recursion", "search for the outer text and read on from there"},
	{"(?#", "a comment", "leave it out"},
	{`\K`, "a match reset", "leave it out: whole lines are shown"},
	{`\G`, "a match continuation", "leave it out"},
	{`\Z`, "an end of text", `write \z or $ instead`},
	{`\h`, "a horizontal space", `write [ \t] instead`},
	{`\R`, "a line break", `write \r?\n and set multiline to true instead`},
	{`\u`, "a character code", `write \x{…} instead`},
}

// indexUnescaped returns the index of the first occurrence of text in expr that no backslash
// escapes.
func indexUnescaped(expr, text string) int {
	for i := 0; i < len(expr); i++ {
		if strings.HasPrefix(expr[i:], text) {
			return i
		}
		if expr[i] == '\\' {
			i++
		}
	}
	return -1
}

// unbalanced returns the index of the unmatched parenthesis.
func unbalanced(expr string) int {
	var open []int
	class := false
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if strings.HasPrefix(expr[i+1:], "^") {
				i++
			}
			if strings.HasPrefix(expr[i+1:], "]") {
				i++
			}
		case c == '(':
			open = append(open, i)
		case c == ')':
			if len(open) == 0 {
				return i
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return open[len(open)-1]
	}
	return 0
}

// needsNewline reports whether every match contains a line break.
func needsNewline(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpCharClass:
		return len(re.Rune) == 2 && re.Rune[0] == '\n' && re.Rune[1] == '\n'
	case syntax.OpConcat:
		return slices.ContainsFunc(re.Sub, needsNewline)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !needsNewline(sub) })
	case syntax.OpCapture, syntax.OpPlus:
		return needsNewline(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min > 0 && needsNewline(re.Sub[0])
	}
	return false
}

func namesCR(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\r') || slices.ContainsFunc(re.Sub, namesCR)
}

// required returns texts of which every match of re contains at least one, or nil if it finds
// none. whole means that containing one of them is also sufficient for a match.
func required(re *syntax.Regexp) (lits []literal, whole bool) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return foldLiteral(re.Rune)
		}
		if slices.Contains(re.Rune, utf8.RuneError) {
			return nil, false // in package regexp it also matches an invalid byte
		}
		return []literal{newLiteral(string(re.Rune), false)}, true
	case syntax.OpCapture:
		return required(re.Sub[0])
	case syntax.OpPlus:
		return required(re.Sub[0]) // one occurrence is enough
	case syntax.OpConcat:
		best, cost := []literal(nil), 0
		for _, sub := range re.Sub {
			l, _ := required(sub)
			if l == nil {
				continue
			}
			if c := costOf(l); best == nil || c < cost {
				best, cost = l, c
			}
		}
		return best, false
	case syntax.OpAlternate:
		whole = true
		for _, sub := range re.Sub {
			l, w := required(sub)
			if l == nil || len(lits)+len(l) > maxLiterals {
				return nil, false
			}
			lits, whole = append(lits, l...), whole && w
		}
		return lits, whole
	}
	return nil, false
}

// foldLiteral returns literals for a text whose letter case does not matter: its longest part
// made of letters with exactly two forms of one byte each. (k has a third form, the Kelvin
// sign, and s has the long s.)
func foldLiteral(runes []rune) (lits []literal, whole bool) {
	best, start := runes[:0], 0
	for i := 0; i <= len(runes); i++ {
		if i < len(runes) && runes[i] < utf8.RuneSelf && !strings.ContainsRune("kKsS", runes[i]) {
			continue
		}
		if i-start > len(best) {
			best = runes[start:i]
		}
		start = i + 1
	}
	if len(best) == 0 {
		return nil, false
	}
	return []literal{newLiteral(strings.ToLower(string(best)), true)}, len(best) == len(runes)
}

// costOf estimates the cost of searching for texts, from the frequency of their rarest bytes.
func costOf(lits []literal) int {
	cost := 0
	for _, l := range lits {
		cost += 1 + l.commonness(l.at)
	}
	return cost
}

// A literal is a text that is searched for by its rarest byte.
type literal struct {
	text []byte
	at   int  // position of the rarest byte
	fold bool // letter case does not matter; text is lower case and ASCII
}

func newLiteral(text string, fold bool) literal {
	l := literal{text: []byte(text), fold: fold}
	for i := range l.text {
		if l.commonness(i) < l.commonness(l.at) {
			l.at = i
		}
	}
	return l
}

func (l *literal) commonness(i int) int {
	n := commonness(l.text[i])
	if l.fold {
		n += commonness(upper(l.text[i]))
	}
	return n
}

func upper(b byte) byte {
	if 'a' <= b && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}

// common lists bytes by their frequency in source code and prose, most frequent first. Bytes
// that are not listed are rare.
const common = " e\tt\nraniosldcupmfhg.b,y_()k\"vw=/*x:0;12{}S-TECARINPOq[]'j3z4L>DF8&BM5967+|G<UH\\VWK`!X#YJQZ@$%?^~"

// commonness is higher for more frequent bytes; 0 means that most texts do not contain the
// byte.
func commonness(b byte) int {
	i := strings.IndexByte(common, b)
	if i < 0 {
		return 0
	}
	return len(common) - i
}

// index is like bytes.Index, but searches for the rarest byte.
func (l *literal) index(data []byte) int {
	// The rarest byte must leave enough bytes after it for the rest of the text.
	end := len(data) - (len(l.text) - l.at) + 1
	if l.fold {
		return l.indexFold(data, end)
	}
	rare := l.text[l.at]
	for i := l.at; i < end; i++ {
		j := bytes.IndexByte(data[i:end], rare)
		if j < 0 {
			return -1
		}
		i += j
		if bytes.Equal(data[i-l.at:i-l.at+len(l.text)], l.text) {
			return i - l.at
		}
	}
	return -1
}

func (l *literal) indexFold(data []byte, end int) int {
	low := l.text[l.at]
	next := [2]int{-1, -1} // next position of each of the two forms
	forms := [2]byte{low, upper(low)}
	for i := l.at; i < end; i++ {
		for k, b := range forms {
			if next[k] >= i {
				continue
			}
			if next[k] = end; k == 1 && b == low {
				continue
			}
			if j := bytes.IndexByte(data[i:end], b); j >= 0 {
				next[k] = i + j
			}
		}
		if i = min(next[0], next[1]); i >= end {
			break
		}
		if equalFold(data[i-l.at:], l.text) {
			return i - l.at
		}
	}
	return -1
}

// equalFold reports whether data begins with text, which is lower case.
func equalFold(data, text []byte) bool {
	for i, b := range text {
		if c := data[i]; c != b && (c != upper(b)) {
			return false
		}
	}
	return true
}

// A Matcher runs a Pattern. It must not be used by several goroutines at once.
type Matcher struct {
	p    *Pattern
	auto *automaton // nil: not needed
	next []int      // per literal: its next position, as an offset into data
}

// Matcher returns a new Matcher for p.
func (p *Pattern) Matcher() *Matcher {
	m := &Matcher{p: p, next: make([]int, len(p.required))}
	if p.classes != nil {
		m.auto = newAutomaton(p)
	}
	return m
}

// Line finds the first matching line of data at or after from, which must be the start of a
// line. It returns the bounds of the line without its ending ("\n" or "\r\n"), or a start of
// -1. Text after the last "\n" also counts as a line.
func (m *Matcher) Line(data []byte, from int) (start, end int) {
	if from >= len(data) {
		return -1, -1
	}
	if m.p.required == nil {
		at := m.find(data[from:])
		if at < 0 {
			return -1, -1
		}
		return m.p.lineAt(data, from+at)
	}
	for i := range m.next {
		m.next[i] = -1
	}
	for from < len(data) {
		at := len(data)
		for i := range m.p.required {
			if m.next[i] < from {
				if j := m.p.required[i].index(data[from:]); j < 0 {
					m.next[i] = len(data)
				} else {
					m.next[i] = from + j
				}
			}
			at = min(at, m.next[i])
		}
		if at == len(data) {
			return -1, -1
		}
		start, end = m.p.lineAt(data, at)
		if m.p.pure || m.find(data[start:end]) >= 0 {
			return start, end
		}
		nl := bytes.IndexByte(data[end:], '\n')
		if nl < 0 {
			return -1, -1
		}
		from = end + nl + 1
	}
	return -1, -1
}

// Span finds the first match in data at or after from. The match may span lines.
func (m *Matcher) Span(data []byte, from int) (start, end int) {
	if from == 0 {
		// Most files do not contain what a match requires.
		found := m.p.required == nil
		for i := range m.p.required {
			found = found || m.p.required[i].index(data) >= 0
		}
		if !found {
			return -1, -1
		}
	}
	// ^ needs to see the byte before it. All callers pass the start of a line as from, so
	// cutting the text there is correct.
	loc := m.p.re.FindIndex(data[from:])
	if loc == nil {
		return -1, -1
	}
	return from + loc[0], from + loc[1]
}

// find returns a position within the first matching line of data, or -1.
func (m *Matcher) find(data []byte) int {
	if m.auto != nil {
		if at, ok := m.auto.find(data); ok {
			return at
		}
	}
	// The automaton gave up because of too many states: match line by line.
	for at := 0; at < len(data); {
		start, end := m.p.lineAt(data, at)
		if m.p.re.Match(data[start:end]) {
			return start
		}
		nl := bytes.IndexByte(data[end:], '\n')
		if nl < 0 {
			return -1
		}
		at = end + nl + 1
	}
	return -1
}

// lineAt returns the bounds of the line that contains data[at], without its ending.
func (p *Pattern) lineAt(data []byte, at int) (start, end int) {
	start = bytes.LastIndexByte(data[:at], '\n') + 1
	end = len(data)
	if nl := bytes.IndexByte(data[at:], '\n'); nl >= 0 {
		end = at + nl
		if end > start && data[end-1] == '\r' && !p.keepCR {
			end--
		}
	}
	return start, end
}
