package show

import (
	"encoding/json"
	"slices"
	"strings"

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

// shellWords are words before which, or after which, a command stands.
var shellWords = []string{"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "case", "esac", "for",
	"in", "function", "time", "!", "{", "}", "[[", "]]"}

// Command returns a shell command as coloured lines: names of commands, options, operators, quoted text, variables and
// comments. It only looks for these, so that it needs no definition of the language, whose loading takes longer than
// a frame.
func Command(command string) []styled.Line {
	lines := markdown.Highlight("", command)
	quote, first := byte(0), true // inside quotes; the next word is the name of a command
	for i := range lines {
		text := lines[i].String()
		var out styled.Line
		add := func(n int, style styled.Style) {
			if n > 0 && len(out) > 0 && out[len(out)-1].Style == style {
				out[len(out)-1].Text += text[:n]
			} else if n > 0 {
				out = append(out, styled.Span{Text: text[:n], Style: style})
			}
			text = text[n:]
		}
		for text != "" {
			starts := len(out) == 0 || strings.HasSuffix(out[len(out)-1].Text, " ") // a word
			switch c := text[0]; {
			case quote != 0 || c == '\'' || c == '"':
				n := 0
				if quote == 0 {
					quote, n = c, 1
				}
				for ; n < len(text) && text[n] != quote; n++ {
					if quote == '"' && text[n] == '\\' && n+1 < len(text) {
						n++
					}
				}
				if n < len(text) {
					quote, n = 0, n+1
				}
				add(n, styled.String)
				first = first && !starts
			case c == ' ':
				add(1, styled.Text)
			case c == '#' && starts:
				add(len(text), styled.Comment)
			case c == '$':
				n := len(text) - len(strings.TrimLeftFunc(text[1:], func(r rune) bool {
					return strings.ContainsRune("{}!#?@*$_", r) || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z'
				}))
				if strings.HasPrefix(text, "$(") {
					add(2, styled.Keyword)
					first = true
					break
				}
				add(n, styled.Type)
				first = first && !starts
			case c == '<' || c == '>':
				add(len(text)-len(strings.TrimLeft(text, "<>&")), styled.Keyword)
				if text != "" && '0' <= text[0] && text[0] <= '9' {
					add(1, styled.Keyword)
				}
				first = false
			case strings.IndexByte("|&;()`", c) >= 0:
				add(1, styled.Keyword)
				first = c != ')'
			default:
				n := 1
				for n < len(text) && strings.IndexByte(" '\"$<>|&;()`", text[n]) < 0 {
					if text[n] == '\\' && n+1 < len(text) {
						n++
					}
					n++
				}
				word := text[:min(n, len(text))]
				name, _, assigns := strings.Cut(word, "=")
				switch {
				case word == `\`: // the command goes on below
					add(1, styled.Text)
				case slices.Contains(shellWords, word) && first:
					add(len(word), styled.Keyword)
					first = word != "for" && word != "case" && word != "in" && word != "[["
				case first && assigns && name != "":
					add(len(name), styled.Type)
					add(len(word)-len(name), styled.Text)
				case first:
					add(len(word), styled.Function)
					first = false
				case word[0] == '-':
					add(len(word), styled.Number)
				case word == "do" || word == "in":
					add(len(word), styled.Keyword)
					first = word == "do"
				default:
					add(len(word), styled.Text)
				}
			}
		}
		lines[i] = out
		if quote == 0 && !strings.HasSuffix(out.String(), `\`) {
			first = true
		}
	}
	return lines
}
