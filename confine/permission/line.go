package permission

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
)

// Commands as sequences of symbols, to be matched with the patterns of rules.

// lines encodes a command for matching with deny and ask rules, in lower case and with escapes
// resolved. There are several variants: the program by its base name and as written, with and
// without git's global options, with and without the assignments before the command.
func lines(c *bash.SimpleCommand) [][]byte {
	buf := make([]byte, 0, len(c.Text)+8)
	write := func(words []bash.Word, base bool) []byte {
		from := len(buf)
		for i := range words {
			if i > 0 {
				buf = append(buf, wordEnd)
			}
			w := &words[i]
			v, ok := w.Value()
			switch {
			case !ok && w.Values == nil && w.Prefix != "" && !w.Many:
				buf = append(append(buf, strings.ToLower(w.Prefix)...), unknownByte)
			case !ok:
				buf = append(buf, unknownByte)
			default:
				if i == 0 && base {
					v = path.Base(filepath.ToSlash(v))
				}
				for k := 0; k < len(v); k++ {
					b := v[k]
					if b < 4 {
						b = 0x7f
					} else if b >= 'A' && b <= 'Z' {
						b += 'a' - 'A'
					}
					buf = append(buf, b)
				}
			}
		}
		return buf[from:len(buf):len(buf)]
	}
	out := [][]byte{write(c.Words, true)}
	if v, ok := c.Words[0].Value(); ok && strings.Contains(v, "/") {
		out = append(out, write(c.Words, false))
	}
	if len(c.Assigns) > 0 {
		words := make([]bash.Word, 0, len(c.Assigns)+len(c.Words))
		for _, a := range c.Assigns {
			words = append(words, bash.Known(a.Text))
		}
		out = append(out, write(append(words, c.Words...), false))
	}
	if len(c.Written) > 0 {
		words := make([]bash.Word, 0, len(c.Written)+len(c.Words))
		for _, text := range c.Written {
			words = append(words, bash.Known(text))
		}
		out = append(out, write(append(words, c.Words...), false))
	}
	if c.Git && c.Subcommand > 1 {
		out = append(out, write(append([]bash.Word{c.Words[0]}, c.Words[c.Subcommand:]...), true))
	}
	// A variable with several possible values: one line for each.
	for i := range c.Words {
		if w := &c.Words[i]; len(w.Values) > 1 && !w.Glob {
			for _, v := range w.Values {
				words := append([]bash.Word{}, c.Words...)
				words[i] = bash.Known(v)
				out = append(out, write(words, true))
			}
			break
		}
	}
	return out
}

// A line is a command encoded as symbols for matching with the patterns of rules.
type line struct {
	words        []bash.Word
	text         []byte
	literal      []bool // symbols that a rule must spell out
	broadLiteral []bool // symbols that a rule for all uses of the program must spell out
}

func newLine(words []bash.Word, dangers []bash.Danger, buf []byte) line {
	l := line{words: words, text: encode(words, buf)}
	l.literal = markLiteral(l.text, dangers)
	l.broadLiteral = l.literal
	if narrow := slices.DeleteFunc(slices.Clone(dangers),
		func(d bash.Danger) bool { return d.Open }); len(narrow) < len(dangers) {
		l.broadLiteral = markLiteral(l.text, narrow)
	}
	return l
}

// literalFor marks the symbols that a pattern must spell out. These are fewer for a rule such as
// Bash(python:*), which allows all uses of a program.
func (l *line) literalFor(p *pattern) []bool {
	if p.lead == 1 && p.prefix && !p.starred {
		return l.broadLiteral
	}
	return l.literal
}

// encode appends the words as symbols to line.
func encode(words []bash.Word, line []byte) []byte {
	ended := false
	for i := range words {
		w := &words[i]
		if i > 0 {
			line = append(line, wordEnd)
		}
		switch {
		case w.Literal:
			for k := 0; k < len(w.Values[0]); k++ {
				b := w.Values[0][k]
				if b < 4 {
					b = 0x7f
				}
				line = append(line, b)
			}
		case i == 0 || w.Dash && !ended:
			line = append(line, noMatch)
		default:
			line = append(line, unknownByte)
		}
		ended = ended || w.Literal && w.Values[0] == "--"
	}
	return line
}

// withParentSteps returns the line with each path element ".." marked as one that a rule must spell out:
// "../*" does not match "../../x". path.Clean has moved these elements to the beginning of a word,
// so no other pattern can match a path that leads upwards.
func (l *line) withParentSteps() *line {
	marked := make([]bool, len(l.text))
	copy(marked, l.literal)
	for i := range l.text {
		end := i + 2
		if end <= len(l.text) && string(l.text[i:end]) == ".." && (i == 0 || !nameByte(l.text[i-1])) &&
			(end == len(l.text) || !nameByte(l.text[end])) {
			marked[i], marked[i+1] = true, true
		}
	}
	return &line{words: l.words, text: l.text, literal: marked, broadLiteral: marked}
}

// nameByte reports whether a symbol can be part of a file name.
func nameByte(b byte) bool { return b > wildcard && b != '/' && b != '=' }

// markLiteral marks the symbols of dangerous words; nil if there are none.
func markLiteral(line []byte, dangers []bash.Danger) []bool {
	if len(dangers) == 0 {
		return nil
	}
	out := make([]bool, len(line))
	word := 0
	for i, b := range line {
		if b == wordEnd {
			word++
		}
		out[i] = slices.ContainsFunc(dangers, func(d bash.Danger) bool { return d.Word == word })
	}
	return out
}

// withAssigns puts the assignments of a command in front of its words, as words that a rule must
// spell out.
func withAssigns(c *bash.SimpleCommand, words []bash.Word, dangers []bash.Danger) ([]bash.Word, []bash.Danger, []byte) {
	all := make([]bash.Word, 0, len(c.Assigns)+len(words))
	var ds []bash.Danger
	for i, a := range c.Assigns {
		all = append(all, bash.Word{Text: a.Text, Values: []string{a.Text}, Literal: bash.PlainWord(a.Text), Dynamic: true})
		ds = append(ds, bash.Danger{Word: i})
	}
	for _, d := range dangers {
		d.Word += len(c.Assigns)
		ds = append(ds, d)
	}
	return append(all, words...), ds, nil
}

// hasParentStep reports whether a word has the path element "..".
func hasParentStep(words []bash.Word) bool {
	for i := range words {
		for _, v := range words[i].Values {
			if strings.Contains(v, "..") && slices.Contains(strings.Split(v, "/"), "..") {
				return true
			}
		}
	}
	return false
}

// StartsBackground reports whether a command line starts a command in the background (&). A line that cannot be parsed
// does not.
func StartsBackground(line string) bool {
	s, err := bash.Parse(line, 0)
	return err == nil && s.Background
}
