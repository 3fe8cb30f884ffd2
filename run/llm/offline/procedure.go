package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A Procedure is the exact way to do what a skill is for: commands, as lists of words, that run in
// order until one fails.
//
// In a word, {0}, {1} … are replaced with arguments, {name} with the argument that the skill's
// `arguments` give this name, {args} with all arguments (as separate words if {args} is the whole
// word), and {baseDir} with the skill's directory. {0=value} and {name=value} set a default. Other
// braces are plain text.
type Procedure struct {
	Steps     [][]string
	Arguments []string // names
	Hint      string   // the skill's argument-hint
	Dir       string   // the skill's directory
}

// ParseProcedure parses the JSON value of metadata.knack-procedure: a list of lists of words, or a
// string that contains one. If data is null or empty, there are no steps.
func ParseProcedure(data json.RawMessage) ([][]string, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = json.RawMessage(text)
	}
	var raw [][]any
	if json.Unmarshal(data, &raw) != nil {
		return nil, fmt.Errorf("knack-procedure is not a list of lists of words")
	}
	steps := make([][]string, len(raw))
	for i, words := range raw {
		if len(words) == 0 {
			return nil, fmt.Errorf("knack-procedure: step %d is empty", i+1)
		}
		for _, w := range words {
			switch w := w.(type) {
			case string:
				steps[i] = append(steps[i], w)
			case float64:
				steps[i] = append(steps[i], strconv.FormatFloat(w, 'f', -1, 64))
			case bool:
				steps[i] = append(steps[i], strconv.FormatBool(w))
			default:
				return nil, fmt.Errorf("knack-procedure: step %d: %v is not a word", i+1, w)
			}
		}
		if strings.Contains(steps[i][0], "{") && !strings.HasPrefix(steps[i][0], "{baseDir}/") {
			return nil, fmt.Errorf("knack-procedure: step %d: the command is not a fixed word", i+1)
		}
	}
	return steps, nil
}

// Commands returns the steps as shell commands, with args inserted. args is one line, which is
// split like a shell command; each argument is quoted, so that the shell does not split it again.
func (p Procedure) Commands(args string) ([]string, error) {
	words := split(args)
	out := make([]string, len(p.Steps))
	for i, step := range p.Steps {
		var line []string
		for _, w := range step {
			if w == "{args}" {
				line = append(line, words...)
				continue
			}
			filled, err := p.fill(w, words)
			if err != nil {
				return nil, err
			}
			line = append(line, filled)
		}
		for j := range line {
			line[j] = quote(line[j])
		}
		out[i] = strings.Join(line, " ")
	}
	return out, nil
}

// fill inserts arguments into one word. Braces in arguments are not replaced again.
func (p Procedure) fill(w string, args []string) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(w, "{")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, after, ok := strings.Cut(rest, "}")
		name, def, hasDefault := strings.Cut(name, "=")
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 || n > 99 {
			n = slices.Index(p.Arguments, name)
		}
		switch {
		case !ok:
			b.WriteString("{" + rest)
			return b.String(), nil
		case name == "baseDir" && !hasDefault:
			if p.Dir == "" {
				return "", fmt.Errorf("the skill has no directory")
			}
			b.WriteString(p.Dir)
		case name == "args" && !hasDefault:
			b.WriteString(strings.Join(args, " "))
		case n < 0: // not a placeholder
			b.WriteByte('{')
			w = rest
			continue
		case n < len(args):
			b.WriteString(args[n])
		case hasDefault:
			b.WriteString(def)
		default:
			return "", fmt.Errorf("argument %s is missing%s", p.name(n), p.usage())
		}
		w = after
	}
}

func (p Procedure) name(n int) string {
	if n < len(p.Arguments) {
		return p.Arguments[n]
	}
	return strconv.Itoa(n)
}

func (p Procedure) usage() string {
	switch {
	case p.Hint != "":
		return ": give " + p.Hint
	case len(p.Arguments) > 0:
		return ": give " + strings.ToUpper(strings.Join(p.Arguments, " "))
	}
	return ""
}

// quote returns s as one word for a shell. It adds quotes only if needed.
func quote(s string) string {
	if word, err := syntax.Quote(s, syntax.LangPOSIX); err == nil && word == s {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// split splits s into words like a shell, but without comments, variables or substitution. A quote
// without a closing quote is an ordinary character.
func split(s string) []string {
	var words []string
	var b strings.Builder
	in := false // inside a word
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				words = append(words, b.String())
				b.Reset()
			}
			in = false
			continue
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c == '\'' || c == '"':
			end := closing(s, i)
			if end < 0 {
				b.WriteByte(c)
				break
			}
			for i++; i < end; i++ {
				if c == '"' && s[i] == '\\' && (s[i+1] == '"' || s[i+1] == '\\') {
					i++
				}
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
		in = true
	}
	if in {
		words = append(words, b.String())
	}
	return words
}

// closing returns the index of the closing quote for the quote at i, or -1.
func closing(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		if s[i] == '"' && s[j] == '\\' {
			j++
		} else if s[j] == s[i] {
			return j
		}
	}
	return -1
}
