package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// formulaMarks are what a formula in TeX begins and ends with, the longer ones first.
var formulaMarks = [][2]string{{"$$", "$$"}, {"$", "$"}, {`\(`, `\)`}, {`\[`, `\]`}}

// A mathParser makes formulas within a line raw text, so that backslashes, underscores and asterisks stay.
type mathParser struct{}

func (mathParser) Trigger() []byte { return []byte{'$', '\\'} }

func (mathParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, at := block.PeekLine()
	n := formulaSize(string(line))
	if n == 0 {
		return nil
	}
	block.Advance(n)
	return ast.NewRawTextSegment(at.WithStop(at.Start + n))
}

// formulaSize returns the size in bytes of the formula with which a line begins, or 0. Dollars that stand for money or
// for variables of a shell begin none: between single dollars there is no blank at either end, and no digit follows.
func formulaSize(line string) int {
	for _, m := range formulaMarks {
		rest, ok := strings.CutPrefix(line, m[0])
		if !ok {
			continue
		}
		n := strings.Index(rest, m[1])
		if n < 1 || strings.Contains(rest[:n], "`") {
			return 0
		}
		after := rest[n+len(m[1]):]
		if m[0] == "$" && (strings.TrimSpace(rest[:n]) != rest[:n] || after != "" && '0' <= after[0] && after[0] <= '9') {
			return 0
		}
		return len(m[0]) + n + len(m[1])
	}
	return 0
}

// formula reports whether a paragraph is a formula over several lines, which are shown as they are written.
func formula(p *ast.Paragraph, src []byte) bool {
	lines := p.Lines()
	if lines.Len() < 2 {
		return false
	}
	first, last := lines.At(0), lines.At(lines.Len()-1)
	start, end := bytes.TrimSpace(first.Value(src)), bytes.TrimSpace(last.Value(src))
	return bytes.HasPrefix(start, []byte("$$")) && bytes.HasSuffix(end, []byte("$$")) ||
		bytes.HasPrefix(start, []byte(`\[`)) && bytes.HasSuffix(end, []byte(`\]`))
}
