package permission

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// WithValues returns a command line with the variables of env (K=V) in place
// of the references to them, quoted so that each value is what the shell would
// have made of it: it is for judging a line, which then runs with env and as
// it was written. Only plain references in double quotes are replaced; others
// stay, and so does a line that cannot be parsed: they are judged as unknown.
//
// spare, for [Subject.Spare], is by how many characters values are longer than
// 64: a long argument makes no line too long to judge.
func WithValues(line string, env []string) (text string, spare int) {
	values := map[string]string{}
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			values[k] = v
		}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return line, 0
	}
	// A line that sets one of the variables itself says something else.
	safe := true
	syntax.Walk(file, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.Assign); ok && a.Name != nil {
			if _, ours := values[a.Name.Value]; ours {
				safe = false
			}
		}
		return safe
	})
	if !safe {
		return line, 0
	}
	var b strings.Builder
	at := 0
	syntax.Walk(file, func(n syntax.Node) bool {
		q, ok := n.(*syntax.DblQuoted)
		if !ok || q.Dollar {
			return true
		}
		for _, part := range q.Parts {
			p, ok := part.(*syntax.ParamExp)
			if !ok || p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil ||
				p.Repl != nil || p.Names != 0 || p.Exp != nil {
				continue
			}
			v, ours := values[p.Param.Value]
			if from, to := int(p.Pos().Offset()), int(p.End().Offset()); ours && from >= at && to <= len(line) {
				quoted := inDoubleQuotes.Replace(v)
				spare += max(utf8.RuneCountInString(quoted)-64, 0)
				b.WriteString(line[at:from] + quoted)
				at = to
			}
		}
		return true
	})
	return b.String() + line[at:], spare
}

// inDoubleQuotes escapes what a shell interprets between double quotes.
var inDoubleQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")
