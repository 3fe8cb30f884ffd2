package permission

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// WithValues replaces the references in a command line to the variables of env (K=V) with their
// values, quoted so that the shell would see the same words. The result is only for judging; the
// line runs as written, with env. Only plain references in double quotes are replaced. Other
// references, and a line that cannot be parsed, remain and are judged as unknown.
//
// extra is for [Subject.Extra]: the number of characters by which values are longer than 64 each.
// Thus a long argument does not make a line too long to judge.
func WithValues(line string, env []string) (text string, extra int) {
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
	// If the line assigns to one of the variables, its value may differ.
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
				extra += max(utf8.RuneCountInString(quoted)-64, 0)
				b.WriteString(line[at:from] + quoted)
				at = to
			}
		}
		return true
	})
	return b.String() + line[at:], extra
}

// inDoubleQuotes escapes the characters that a shell interprets in double quotes.
var inDoubleQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")
