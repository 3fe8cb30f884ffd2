package permission

import (
	"path"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
)

// Finding the rule that allows a command and the commands inside it.

// A grant is the result of this search: the allowing rule, and how many of the command's words it
// spells out.
type grant struct {
	by    *Judged
	words int
	exact bool // the rule spells out all words
	files bool // the rule also allows the commands of the script file that a shell runs
	free  bool // the assignments before the command need no approval of their own
}

// findGrant finds the rule that allows a command.
func (j *judge) findGrant(c *bash.SimpleCommand, cov cover, dirs []string, moved bool, dangers []bash.Danger) grant {
	sub := Subject{Kind: KindBash, Text: c.Text}
	if cov.by != nil && (cov.all || grantCovers(c, cov.words, dangers)) {
		by := *cov.by
		by.Subject = sub
		return grant{by: &by, words: cov.words, exact: cov.all, free: len(c.Assigns) == 0}
	}
	if len(c.Inner) > 0 && c.Effect != bash.Wraps { // no wildcard matches the name of a program that runs others
		dangers = append([]bash.Danger{{Word: 0}}, dangers...)
	}
	var buf [256]byte
	plain := newLine(c.Words, dangers, buf[:0])
	clean, ok := plain, true // the line with ".." resolved; ok: this was possible
	climbing := hasParentStep(c.Words)
	if climbing {
		var words []bash.Word
		if words, ok = j.resolveDots(c.Words, dirs); ok {
			clean = newLine(words, dangers, nil)
		}
	}
	for i := range j.allow {
		r := &j.allow[i]
		if r.Any {
			if c.Opaque != "" && j.patterns() {
				continue // it may hide a command that a rule denies
			}
			by := judgedBy(sub, Allow, r.Rule)
			return grant{by: &by, free: true}
		}
		if r.first != 0 && len(plain.text) > 0 && plain.text[0] != r.first {
			continue
		}
		p := r.get()
		l := &plain
		if p.starred {
			if l = &clean; !ok {
				continue
			}
		}
		switch {
		case c.Opaque != "" && !p.exact():
			continue
		case p.assigns && len(c.Assigns) > 0:
			withAssigns := newLine(withAssigns(c, l.words, dangers))
			l = &withAssigns
		}
		if p.starred && climbing && strings.Contains(string(p.text), "..") {
			l = l.withParentSteps()
		}
		if !p.match(l.text, l.literalFor(p), false) {
			continue
		}
		lead := p.lead
		if p.assigns {
			lead -= len(c.Assigns)
		}
		if moved && startsRelative(c, lead) {
			continue
		}
		by := judgedBy(sub, Allow, r.Rule)
		return grant{by: &by, words: lead, exact: p.exact(), free: p.assigns, files: c.RunsScript && lead == 1 &&
			(p.starred || c.Absolute)}
	}
	return grant{}
}

// inner returns how far a grant for a command also covers a command inside it.
func (g *grant) inner(c *bash.SimpleCommand, in bash.Inner) cover {
	switch {
	case g.by == nil:
		return cover{}
	case g.exact:
		return cover{by: g.by, all: true}
	case g.files:
		return cover{by: g.by, words: len(c.Words) - in.Name}
	case in.Name >= 0 && g.words > in.Name:
		return cover{by: g.by, words: g.words - in.Name}
	}
	return cover{}
}

// grantCovers reports whether the rule for an outer command allows this inner command. The rule spells
// out the first words of the inner command.
func grantCovers(c *bash.SimpleCommand, words int, dangers []bash.Danger) bool {
	if words < 1 || c.Opaque != "" {
		return false
	}
	for _, d := range dangers {
		if d.Word >= words {
			return false
		}
	}
	for i := words; i < len(c.Words); i++ {
		if w := &c.Words[i]; w.Dash && !w.Literal && !bash.AfterDashes(c.Words, i) {
			return false // xargs appends words that the rule does not spell out
		}
	}
	return c.Words[0].Literal
}

// startsRelative reports whether one of the first lead words looks like a relative path: its meaning
// depends on cd.
func startsRelative(c *bash.SimpleCommand, lead int) bool {
	for i := 0; i < len(c.Words) && i < lead; i++ {
		v, ok := c.Words[i].Value()
		if !ok || bash.IsAbs(v) || strings.HasPrefix(v, "-") || strings.Contains(v, "://") {
			continue
		}
		if strings.Contains(v, "/") {
			return true
		}
		if dot := strings.LastIndexByte(v, '.'); i > 0 && dot > 0 && dot < len(v)-1 && !bash.Digits(v[dot+1:]) {
			return true
		}
	}
	return false
}

// resolveDots returns words with ".." resolved, so that what a * in a rule matches is always below
// the directory that the rule names. ok is false if, because of links, a resolved path names a different
// file than the original.
func (j *judge) resolveDots(words []bash.Word, dirs []string) (out []bash.Word, ok bool) {
	out = slices.Clone(words)
	for i := range out {
		w := &out[i]
		if !w.Literal || !hasParentStep(out[i:i+1]) {
			continue
		}
		v := w.Values[0]
		text := path.Clean(v)
		if strings.HasPrefix(v, "./") && !strings.HasPrefix(text, "../") {
			text = "./" + text
		}
		_, file, has := strings.Cut(v, "=")
		if !has {
			file = v
		}
		for _, dir := range dirs {
			asRead, asLinked := j.paths.name(path.Clean(file), dir), j.paths.name(file, dir)
			if asRead.unknownReason != "" || asLinked.unknownReason != "" || asRead.target() != asLinked.target() {
				return nil, false
			}
		}
		w.Values = []string{text}
	}
	return out, true
}

// narrowestRule returns the narrowest rule that allows a command; "" if no rule can.
func narrowestRule(c *bash.SimpleCommand) string {
	var b strings.Builder
	b.WriteString("Bash(")
	for i := range c.Words {
		w := &c.Words[i]
		if !w.Literal {
			return ""
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		v := w.Values[0]
		if bash.PlainWord(v) {
			b.WriteString(v)
		} else {
			for k := 0; k < len(v); k++ {
				if v[k] < ' ' && v[k] != '\n' && v[k] != '\t' {
					return ""
				}
			}
			b.WriteString("'" + strings.ReplaceAll(v, "'", `'\''`) + "'")
		}
	}
	b.WriteByte(')')
	return b.String()
}
