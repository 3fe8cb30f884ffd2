package show

import (
	"encoding/json"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/knack-agent/knack/internal/leaf/markdown"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
)

// HeadingOf is like [Heading] for a call with an input. If the summary ends with a shell command, that is coloured.
func HeadingOf(tool, summary string, input json.RawMessage) styled.Line {
	l := Heading(tool, summary)
	var in struct{ Command string }
	if len(l) < 2 || json.Unmarshal(input, &in) != nil || in.Command == "" {
		return l
	}
	text, command := l[len(l)-1].Text, plain.Line(Start(in.Command, headingCells))
	before, ok := strings.CutSuffix(text, command)
	if !ok { // it is cut
		return l
	}
	l = append(l[:len(l)-1], styled.Span{Text: before})
	return append(l, Command(command)[0]...)
}

// maxCommand is how long a command may be that is coloured, in bytes, and maxParentheses how often it may open one: the
// parser's time is quadratic in the nesting.
const (
	maxCommand     = 32 << 10
	maxParentheses = 100
)

// Command returns a shell command as coloured lines: names of commands, options, operators, quoted text, variables and
// comments. It is read by the parser of the decision about it, so that nothing looks like text that would run. One
// with a mistake has only operators.
func Command(command string) []styled.Line {
	lines := markdown.Highlight("", command)
	rows := make([]string, len(lines))
	for i, l := range lines {
		rows[i] = l.String()
	}
	text := strings.Join(rows, "\n") // as it is shown
	if len(text) > maxCommand || strings.Count(text, "(") > maxParentheses {
		return lines
	}
	c := colours{make([]styled.Style, len(text))}
	c.operators(text)
	syntax.Walk(parsed(text), c.node)
	at := 0
	for i, row := range rows {
		lines[i] = c.line(row, at)
		at += len(row) + 1
	}
	return lines
}

// parsed returns the syntax of a command, also of one that was cut inside quotes or parentheses; of one with a mistake
// it is empty.
func parsed(text string) *syntax.File {
	p := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
	for _, end := range []string{"", "'", `"`, ")", `")`} {
		if f, err := p.Parse(strings.NewReader(text+end), ""); err == nil {
			return f
		}
	}
	return new(syntax.File)
}

// colours are the styles of the bytes of a command.
type colours struct{ styles []styled.Style }

func (c colours) paint(from, to syntax.Pos, s styled.Style) {
	if from.IsValid() && to.IsValid() {
		c.paintBytes(int(from.Offset()), int(to.Offset()), s)
	}
}

// word paints n bytes.
func (c colours) word(at syntax.Pos, n int, s styled.Style) {
	if at.IsValid() && n > 0 {
		c.paintBytes(int(at.Offset()), int(at.Offset())+n, s)
	}
}

func (c colours) paintBytes(from, to int, s styled.Style) {
	for i := from; i < min(to, len(c.styles)); i++ {
		c.styles[i] = s
	}
}

// operators paints all that can be one; what is inside of words is painted over.
func (c colours) operators(text string) {
	for i := range len(text) {
		if strings.IndexByte(";&|()", text[i]) >= 0 {
			c.styles[i] = styled.Keyword
		}
	}
}

// node paints a node, before those inside of it.
func (c colours) node(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Comment:
		c.paint(n.Pos(), n.End(), styled.Comment)
	case *syntax.Word:
		c.paint(n.Pos(), n.End(), styled.Text)
	case *syntax.CallExpr:
		c.call(n)
		return false
	case *syntax.DeclClause:
		c.paint(n.Variant.Pos(), n.Variant.End(), styled.Function)
	case *syntax.FuncDecl:
		if n.Name != nil {
			c.paint(n.Name.Pos(), n.Name.End(), styled.Function)
		}
	case *syntax.Assign:
		if n.Name != nil {
			c.paint(n.Name.Pos(), n.Name.End(), styled.Type)
		}
	case *syntax.Redirect:
		c.word(n.OpPos, len(n.Op.String()), styled.Keyword)
		if n.Op == syntax.DplIn || n.Op == syntax.DplOut { // 2>&1
			c.paint(n.Word.Pos(), n.Word.End(), styled.Keyword)
			return false
		}
	case *syntax.SglQuoted:
		c.paint(n.Pos(), n.End(), styled.String)
	case *syntax.DblQuoted:
		c.paint(n.Pos(), n.End(), styled.String)
		for _, part := range n.Parts {
			if run, ok := part.(*syntax.CmdSubst); ok {
				syntax.Walk(run, c.node)
			}
		}
		return false
	case *syntax.ParamExp:
		c.paint(n.Pos(), n.End(), styled.Type)
	case *syntax.CmdSubst:
		c.paint(n.Pos(), n.End(), styled.Text)
		open := 2
		if n.Backquotes {
			open = 1
		}
		c.word(n.Left, open, styled.Keyword)
		c.word(n.Right, 1, styled.Keyword)
	default:
		c.keywords(n)
	}
	return true
}

// call paints a simple command: its name, and its options.
func (c colours) call(n *syntax.CallExpr) {
	for _, a := range n.Assigns {
		syntax.Walk(a, c.node)
	}
	for i, w := range n.Args {
		syntax.Walk(w, c.node)
		style := styled.Text
		if first, ok := w.Parts[0].(*syntax.Lit); i == 0 {
			style = styled.Function
		} else if ok && strings.HasPrefix(first.Value, "-") {
			style = styled.Number
		}
		for _, part := range w.Parts {
			if _, ok := part.(*syntax.Lit); ok {
				c.paint(part.Pos(), part.End(), style)
			}
		}
	}
}

// keywords paints the reserved words of a node.
func (c colours) keywords(n syntax.Node) {
	words := func(all map[string]syntax.Pos) {
		for word, at := range all {
			c.word(at, len(word), styled.Keyword)
		}
	}
	switch n := n.(type) {
	case *syntax.Stmt:
		if n.Negated {
			c.word(n.Position, 1, styled.Keyword)
		}
	case *syntax.BinaryCmd:
		c.word(n.OpPos, len(n.Op.String()), styled.Keyword)
	case *syntax.Block:
		words(map[string]syntax.Pos{"{": n.Lbrace, "}": n.Rbrace})
	case *syntax.IfClause:
		words(map[string]syntax.Pos{"if": n.Position, "then": n.ThenPos, "fi": n.FiPos})
		if n.Else != nil { // which begins with elif or else
			c.word(n.Else.Position, len("else"), styled.Keyword)
		}
	case *syntax.WhileClause:
		words(map[string]syntax.Pos{"while": n.WhilePos, "do": n.DoPos, "done": n.DonePos})
	case *syntax.ForClause:
		words(map[string]syntax.Pos{"for": n.ForPos, "do": n.DoPos, "done": n.DonePos})
	case *syntax.WordIter:
		words(map[string]syntax.Pos{"in": n.InPos})
	case *syntax.CaseClause:
		words(map[string]syntax.Pos{"case": n.Case, "in": n.In, "esac": n.Esac})
	case *syntax.TestClause:
		words(map[string]syntax.Pos{"[[": n.Left, "]]": n.Right})
	case *syntax.TimeClause:
		words(map[string]syntax.Pos{"time": n.Time})
	}
}

// line returns a row of the text that begins at a byte of it.
func (c colours) line(row string, at int) (l styled.Line) {
	for i := range len(row) {
		if style := c.styles[at+i]; len(l) > 0 && l[len(l)-1].Style == style {
			l[len(l)-1].Text += row[i : i+1]
		} else {
			l = append(l, styled.Span{Text: row[i : i+1], Style: style})
		}
	}
	return l
}
