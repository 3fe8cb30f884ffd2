package frontmatter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	maxDepth   = 32
	maxAliases = 16
)

// A Pair is a key with its value. Lines and columns count from 1 at the top of the file, also
// in Value's nodes. Below a repaired line they may be off by what the repair inserted.
type Pair struct {
	Key    string
	Value  *yaml.Node
	Line   int
	Column int
	Source string // the value's source if it is a flow list or mapping on one line: [a] | [b]
}

// A ProblemKind is the kind of a Problem: the knack.Code that reports it.
type ProblemKind string

const (
	Repaired  ProblemKind = "yaml-repaired" // read differently from what is written
	Invalid   ProblemKind = "yaml-invalid"  // not read
	Duplicate ProblemKind = "duplicate-key" // a key replaced by a later one with the same name
	Limit     ProblemKind = "limit-reached" // nested too deeply, or too many aliases
	Lost      ProblemKind = "text-lost"     // valid, but a part of the text is not in the value
)

// Unread reports whether something was not read.
func (k ProblemKind) Unread() bool { return k == Invalid || k == Limit }

// A Problem tells the author what is wrong with the file.
type Problem struct {
	Kind         ProblemKind
	Line, Column int // in the file, from 1
	Message      string
	Hint         string // may be ""
}

// Parse parses the lines between the fences; line is the number of the first one in the file.
// The pairs are in the order of the file, without duplicate keys. Broken entries are repaired
// or else left out, each separately and with a Problem.
func Parse(head []byte, line int) ([]Pair, []Problem) {
	var p parser
	return p.parse(head, line)
}

func (p *parser) parse(head []byte, line int) ([]Pair, []Problem) {
	p.offset = line - 1
	text := string(p.windowsPaths(head))
	root, err := load(text)
	if err == nil {
		p.take(root, text)
	} else {
		p.salvage(text, err)
	}
	return p.unique(), p.notes
}

// load parses one YAML document. The node is nil if the text contains no document.
func load(text string) (*yaml.Node, error) {
	if blank(text) {
		return nil, nil
	}
	var doc yaml.Node
	err := yaml.Load([]byte(text), &doc, yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthFunc(depth))))
	if err != nil {
		return nil, err
	}
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		return doc.Content[0], nil
	}
	return &doc, nil
}

// blank reports whether a text contains only comments and blank lines.
func blank(text string) bool {
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
	}
	return true
}

var errDepth = fmt.Errorf("deeper than %d levels", maxDepth)

func depth(n int, _ *loaderlimits.DepthContext) error {
	if n > maxDepth {
		return errDepth
	}
	return nil
}

type parser struct {
	offset  int // number of lines of the file before the text being read
	aliases int
	entries []Pair
	notes   []Problem
}

func (p *parser) note(k ProblemKind, line, column int, hint, format string, args ...any) {
	p.notes = append(p.notes, Problem{k, line, column, fmt.Sprintf(format, args...), hint})
}

// take keeps the entries of a mapping that was parsed from text.
func (p *parser) take(root *yaml.Node, text string) {
	if root == nil || root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return
	}
	if root.Kind != yaml.MappingNode {
		p.note(Invalid, root.Line+p.offset, root.Column, "write one `key: value` a line",
			"the frontmatter is %s, not keys with values", kindName(root))
		return
	}
	lines := lineIndex{text: text}
	p.entries = slices.Grow(p.entries, len(root.Content)/2)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			p.note(Invalid, key.Line+p.offset, key.Column, "write one `key: value` a line", "a key is %s, not a word",
				kindName(key))
			continue
		}
		e := Pair{Key: key.Value, Value: value, Line: key.Line + p.offset, Column: key.Column}
		if value.Style&yaml.FlowStyle != 0 {
			e.Source = lines.flow(value)
		}
		before := p.aliases
		p.walk(value)
		if p.aliases > maxAliases {
			p.note(Limit, e.Line, e.Column, "write the value out instead of repeating it with *", "%s: more than %d aliases",
				e.Key, maxAliases)
			p.aliases = before
			continue
		}
		p.entries = append(p.entries, e)
	}
	for _, e := range p.entries {
		p.eaten(e.Key, e.Value, text)
	}
}

// eaten reports text that valid YAML takes for something else: what follows ` #` in a sentence is a comment, and
// `!word` or `&word` before a text are a tag and an anchor, which no frontmatter means.
func (p *parser) eaten(key string, n *yaml.Node, text string) {
	lost, whole, what := "", "", ""
	switch {
	case n.Kind != yaml.ScalarNode:
	case n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.Tag, "!!") && n.Tag != "!":
		lost, what = n.Tag, "a tag"
		whole = strings.TrimSpace(lost + " " + n.Value)
	case n.Anchor != "" && !strings.Contains(text, "*"+n.Anchor):
		lost, what = "&"+n.Anchor, "an anchor"
		whole = strings.TrimSpace(lost + " " + n.Value)
	case n.LineComment != "" && n.Style == 0 && sentence(key):
		lost, what = n.LineComment, "a comment"
		whole = strings.TrimSpace(n.Value + " " + lost)
	}
	if lost != "" {
		p.note(Lost, n.Line, n.Column, "write "+quote(whole), "%s: YAML takes %s for %s, so it is lost", key,
			quote(lost), what)
	}
	for _, c := range n.Content {
		p.eaten(key, c, text)
	}
}

// sentence reports whether the value of a key is a text for people or models, in which nobody writes comments.
func sentence(key string) bool {
	key = strings.ToLower(key)
	return key == "description" || key == "argument-hint" || strings.HasPrefix(key, "when")
}

// walk counts aliases, converts line numbers to those of the file, and drops all but the last
// of equal keys.
func (p *parser) walk(n *yaml.Node) {
	n.Line += p.offset
	if n.Kind == yaml.AliasNode {
		p.aliases++
		return
	}
	if n.Kind == yaml.MappingNode {
		p.dedupe(n)
	}
	for _, c := range n.Content {
		p.walk(c)
	}
}

func (p *parser) dedupe(n *yaml.Node) {
	last := lastIndex(len(n.Content)/2, func(i int) (string, bool) {
		k := n.Content[2*i]
		return k.Value, k.Kind == yaml.ScalarNode
	})
	if last == nil {
		return
	}
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if at, ok := last[k.Value]; ok && k.Kind == yaml.ScalarNode && at != i/2 {
			p.duplicate(k.Value, k.Line+p.offset, k.Column)
			continue
		}
		kept = append(kept, k, n.Content[i+1])
	}
	n.Content = kept
}

// lastIndex returns the last index of each of n keys, or nil if all keys differ.
func lastIndex(n int, key func(int) (string, bool)) map[string]int {
	const few = 24 // comparing so many with each other is faster than a map
	if n <= few {
		equal := false
		for i := range n {
			k, ok := key(i)
			for j := range i {
				other, also := key(j)
				equal = equal || ok && also && k == other
			}
		}
		if !equal {
			return nil
		}
	}
	last := make(map[string]int, n)
	for i := range n {
		if k, ok := key(i); ok {
			last[k] = i
		}
	}
	return last
}

func (p *parser) duplicate(key string, line, column int) {
	p.note(Duplicate, line, column, "remove one of them", "%s is given more than once; the last one is used", key)
}

// unique returns the entries, keeping only the last one of each key.
func (p *parser) unique() []Pair {
	last := lastIndex(len(p.entries), func(i int) (string, bool) { return p.entries[i].Key, true })
	if last == nil || len(last) == len(p.entries) {
		return p.entries
	}
	var kept []Pair
	for i, e := range p.entries {
		if last[e.Key] != i {
			p.duplicate(e.Key, e.Line, e.Column)
			continue
		}
		kept = append(kept, e)
	}
	return kept
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	}
	return "text"
}

// A lineIndex finds lines of a text in ascending order.
type lineIndex struct {
	text string
	line int // number of lines already consumed
}

// flow returns the source of a flow value that begins and ends on the same line. It must be
// called with nodes in the order of the text.
func (x *lineIndex) flow(n *yaml.Node) string {
	for x.line < n.Line-1 && x.text != "" {
		_, x.text, _ = strings.Cut(x.text, "\n")
		x.line++
	}
	line, _, _ := strings.Cut(x.text, "\n")
	// Columns count characters, not bytes.
	at := 0
	for i := 1; i < n.Column && at < len(line); i++ {
		at++
		for at < len(line) && line[at]&0xc0 == 0x80 {
			at++
		}
	}
	s := line[at:]
	if i := strings.Index(s, " #"); i >= 0 {
		s = s[:i]
	}
	s = strings.TrimSpace(s)
	if strings.HasSuffix(s, "]") || strings.HasSuffix(s, "}") {
		return s
	}
	return ""
}

// position returns where and why the YAML library failed.
func position(err error) (line, column int, message string) {
	var le *yaml.LoadError
	if errors.As(err, &le) {
		line, column, message = le.Mark.Line, le.Mark.Column, le.Message
	} else {
		message = err.Error()
	}
	return max(line, 1), max(column, 1), message
}

// SplitCommas splits a value at commas and line breaks outside braces and brackets, as lists of patterns are written in
// one line. It leaves out empty items.
func SplitCommas(s string) []string {
	var words []string
	begin, depth := 0, 0
	keep := func(w string) {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, strings.Clone(w))
		}
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth = max(0, depth-1)
		case '\\':
			i++
		case ',', '\n':
			if depth == 0 {
				keep(s[begin:i])
				begin = i + 1
			}
		}
	}
	keep(s[begin:])
	return words
}
