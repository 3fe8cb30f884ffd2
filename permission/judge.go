package permission

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/permission/internal/bash"
)

// A judge collects the verdicts of one decision.
type judge struct {
	rules     *Rules
	mode      Mode
	paths     *PathContext
	request   Subject // the command line
	out       []Judged
	suggested []string
	suggest   bool // a rule can answer every question so far
	doubt     bool // a deny rule may match the next subject added
	seen      map[Judged]bool
	spelled   bool // inside a command whose suggested rule spells out all of it
	dots      bool // globs may match names that begin with a dot

	allow, ask, deny []bashRule // rules about commands
	ready            bool
}

// A bashRule is a rule about commands. It is compiled when its first byte first
// matches that of a line.
type bashRule struct {
	*Rule
	pattern  pattern
	compiled bool
	wide     bool // for denials: in lower case
	first    byte // the first byte of every line it matches; 0: any
}

func (b *bashRule) get() *pattern {
	if !b.compiled {
		text := b.Pattern
		if b.wide {
			text = strings.ToLower(text)
		}
		b.pattern, b.compiled = compile(text), true
	}
	return &b.pattern
}

// prepare selects the rules about commands, once per decision.
func (j *judge) prepare() {
	if j.ready {
		return
	}
	j.ready = true
	pick := func(list []Rule, wide bool) []bashRule {
		var out []bashRule
		for i := range list {
			if r := &list[i]; r.about(&Subject{Kind: "Bash", Tool: j.request.Tool, Aliases: j.request.Aliases}, wide) {
				b := bashRule{Rule: r, wide: wide}
				if !r.Any {
					switch c := r.Pattern[0]; {
					case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '/', c == '.':
						b.first = c
					case c >= 'A' && c <= 'Z' && !strings.Contains(r.Pattern, "="):
						if b.first = c; wide {
							b.first += 'a' - 'A'
						}
					}
				}
				out = append(out, b)
			}
		}
		return out
	}
	j.allow, j.ask, j.deny = pick(j.rules.Allow, false), pick(j.rules.Ask, true), pick(j.rules.Deny, true)
}

// add records a verdict after applying the mode to it. rule is the narrowest
// rule that would allow the subject, "" if none can.
func (j *judge) add(x Judged, rule string) {
	if x.Verdict == Ask {
		if j.spelled && x.Kind == "Bash" && x.Rule == "" {
			// The rule suggested for the outer command spells this one out.
		} else if rule == "" {
			j.suggest = false
		} else {
			found := false
			for _, s := range j.suggested {
				found = found || s == rule
			}
			if !found {
				j.suggested = append(j.suggested, rule)
			}
		}
		switch {
		case j.mode == Bypass && j.doubt:
			x.Verdict = Deny
		case j.mode == Bypass:
			x.Verdict, x.Rule, x.Origin, x.Reason = Allow, "", "", reasonBypass
		case j.mode == DontAsk:
			x.Verdict = Deny
			x.Reason = join2(x.Reason, reasonDontAsk)
		}
	} else if x.Verdict == Deny {
		j.suggest = false
	}
	j.doubt = false
	if len(j.out) > 8 {
		if j.seen == nil {
			j.seen = map[Judged]bool{}
			for _, y := range j.out {
				j.seen[y] = true
			}
		}
		if j.seen[x] {
			return
		}
		j.seen[x] = true
	} else {
		for i := range j.out {
			if j.out[i] == x {
				return
			}
		}
	}
	j.out = append(j.out, x)
}

func join2(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func by(s Subject, v Verdict, r *Rule) Judged {
	return Judged{Subject: s, Verdict: v, Rule: r.String(), Origin: r.Origin}
}

// other judges a subject that is neither a command nor a path.
func (j *judge) other(s Subject) {
	rule := s.Kind
	switch {
	case s.Kind == "WebFetch":
		rule = ""
		if h := hostOf(s.Text); h != "" {
			rule = "WebFetch(domain:" + h + ")"
		}
	case s.Text != "" && !strings.HasPrefix(s.Kind, "mcp__"):
		rule = s.Kind + "(" + escapeGlob(s.Text) + ")"
	}
	for i := range j.rules.Deny {
		if r := &j.rules.Deny[i]; r.about(&s, true) && r.matchText(s.Kind, s.Text, true) {
			j.add(by(s, Deny, r), "")
			return
		}
	}
	for i := range j.rules.Ask {
		if r := &j.rules.Ask[i]; r.about(&s, true) && r.matchText(s.Kind, s.Text, true) {
			j.add(by(s, Ask, r), "")
			return
		}
	}
	if j.mode == Plan && s.Default != Allow && !s.ReadOnly {
		j.add(Judged{Subject: s, Verdict: Deny, Reason: reasonPlan}, "")
		return
	}
	for i := range j.rules.Allow {
		if r := &j.rules.Allow[i]; r.about(&s, false) && r.matchText(s.Kind, s.Text, false) {
			j.add(by(s, Allow, r), "")
			return
		}
	}
	if s.Default == Allow {
		j.add(Judged{Subject: s, Verdict: Allow, Origin: Builtin, Reason: reasonAsksNobody}, "")
		return
	}
	j.add(Judged{Subject: s, Reason: cmp.Or(s.Note, reasonNoRule)}, rule)
}

// escapeGlob returns a pattern that matches exactly a text.
func escapeGlob(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*', '?', '[', '\\':
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hostOf(address string) string {
	for _, c := range address {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	rest, ok := strings.CutPrefix(address, "https://")
	if !ok {
		if rest, ok = strings.CutPrefix(address, "http://"); !ok {
			return ""
		}
	}
	host := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"))]
	if !matchHost(strings.ToLower(host), address) {
		return ""
	}
	return strings.ToLower(host)
}

// path judges a file that a tool names.
func (j *judge) path(s Subject) {
	j.file(s, j.paths.name(s.Text, j.paths.Dir), nil, false)
}

// file judges a file by its names. allowed is the verdict of the command that
// names the file, nil if a tool names it. quiet omits the verdict if it is Allow.
func (j *judge) file(s Subject, n names, allowed *Judged, quiet bool) {
	p := j.paths
	s.Text = n.all[0]
	if r := j.fileRule(j.rules.Deny, s, n); r != nil {
		j.add(by(s, Deny, r), "")
		return
	}
	if s.Kind == "Edit" { // a file that must not be read must not be edited either
		for i := range j.rules.Deny {
			r := &j.rules.Deny[i]
			if k, _ := kindOf(r.Tool); k == "Read" && !r.Any && j.matchAny(r, n) {
				j.add(by(s, Deny, r), "")
				return
			}
		}
	}
	if j.mode == Plan && s.Kind == "Edit" { // before the ask rules: plan mode never asks to write
		j.add(Judged{Subject: s, Verdict: Deny, Reason: reasonPlan}, "")
		return
	}
	if r := j.fileRule(j.rules.Ask, s, n); r != nil {
		j.add(by(s, Ask, r), "")
		return
	}
	suggestion := func() string {
		if n.unclear != "" || len(n.all) != 1 {
			return ""
		}
		return s.Kind + "(/" + escapeGlob(n.all[0]) + ")"
	}
	builtin := ""
	if s.Kind == "Edit" {
		if pat := p.protected(n); pat != "" {
			builtin = "protected path: " + pat
		}
	} else if pat := p.secret(n); pat != "" {
		builtin = "secret: " + pat
	}
	if n.unclear != "" {
		j.add(Judged{Subject: s, Reason: n.unclear}, "")
		return
	}
	if builtin != "" && !j.spelledOut(s, n) {
		j.add(Judged{Subject: s, Origin: Builtin, Reason: builtin}, suggestion())
		return
	}
	if r := j.allows(s, n); r != nil {
		if !quiet {
			j.add(by(s, Allow, r), "")
		}
		return
	}
	if allowed != nil {
		if !quiet {
			j.add(Judged{Subject: s, Verdict: Allow, Rule: allowed.Rule, Origin: allowed.Origin, Reason: reasonNamed}, "")
		}
		return
	}
	if p.inside(n) && (s.Kind == "Read" || j.mode == AcceptEdits) {
		if !quiet {
			j.add(Judged{Subject: s, Verdict: Allow, Origin: Builtin, Reason: reasonInside}, "")
		}
		return
	}
	reason := reasonNoRule
	if !p.inside(n) {
		reason = reasonOutside
	}
	j.add(Judged{Subject: s, Reason: reason}, suggestion())
}

// fileRule returns the first rule of a list of denials or questions that is
// about a file.
func (j *judge) fileRule(list []Rule, s Subject, n names) *Rule {
	for i := range list {
		r := &list[i]
		if r.about(&s, true) && (r.Any || j.matchAny(r, n)) {
			return r
		}
	}
	return nil
}

func (j *judge) matchAny(r *Rule, n names) bool {
	for _, s := range n.all {
		if j.paths.match(r.Pattern, r.Base, s, true) {
			return true
		}
	}
	return false
}

// allows returns a rule that allows a file, if each of its names is allowed by
// a rule or by the mode.
func (j *judge) allows(s Subject, n names) (by *Rule) {
	for _, name := range n.all {
		one := names{all: []string{name}}
		var hit *Rule
		for i := range j.rules.Allow {
			r := &j.rules.Allow[i]
			if r.about(&s, false) && (r.Any || j.paths.match(r.Pattern, r.Base, name, false)) {
				hit = r
				break
			}
		}
		if hit == nil && !(j.paths.inside(one) && (s.Kind == "Read" || j.mode == AcceptEdits)) {
			return nil
		}
		if by == nil {
			by = hit
		}
	}
	return by
}

// spelledOut reports whether a personal rule spells out, absolute and without
// a wildcard, a path that otherwise always asks.
func (j *judge) spelledOut(s Subject, n names) bool {
	for i := range j.rules.Allow {
		r := &j.rules.Allow[i]
		if !r.Origin.personal() || r.Any || !strings.HasPrefix(r.Pattern, "//") || !r.about(&s, false) {
			continue
		}
		if len(n.all) == 1 && plainPattern(r.Pattern) == n.all[0] {
			return true
		}
	}
	return false
}

// plainPattern returns the path of a pattern "//x" without wildcards.
func plainPattern(s string) string {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '*', '?', '[':
			return ""
		case '\\':
			if i++; i == len(s) {
				return ""
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// bash judges a command line.
func (j *judge) bash(s Subject) {
	j.request = s
	j.prepare()
	script, err := bash.Parse(s.Text, s.Spare)
	if err != nil {
		for i := range j.deny {
			if r := &j.deny[i]; r.Any || mentions(s.Text, r.Pattern) {
				j.add(by(s, Deny, r.Rule), "")
				return
			}
		}
		j.notReading(s, err.Error())
		return
	}
	j.dots = strings.Contains(s.Text, "shopt") || strings.Contains(s.Text, "GLOBIGNORE")
	if len(script.Items) == 0 {
		j.add(Judged{Subject: Subject{Kind: "Bash", Text: s.Text}, Verdict: Allow, Origin: Builtin, Reason: reasonNothing}, "")
		return
	}
	j.script(script, cover{})
}

// notReading adds a question that no rule can answer. Plan mode denies instead.
func (j *judge) notReading(s Subject, reason string) {
	if j.mode == Plan {
		j.add(Judged{Subject: s, Verdict: Deny, Reason: join2(reason, reasonPlan)}, "")
		return
	}
	j.add(Judged{Subject: s, Reason: reason}, "")
}

// mentions reports whether a text that cannot be analysed contains the name of
// the program that a pattern denies.
func mentions(text, pat string) bool {
	p := compile(strings.ToLower(pat))
	name, _, _ := strings.Cut(string(p.text), "\x00")
	name, _, _ = strings.Cut(name, string(rune(star)))
	text = strings.ToLower(text)
	for {
		i := strings.Index(text, name)
		if i < 0 {
			return false
		}
		before := i == 0 || !bash.WordByte(text[i-1])
		end := i + len(name)
		if before && (end == len(text) || !bash.WordByte(text[end])) {
			return true
		}
		text = text[i+1:]
	}
}

// A cover is how much of an inner command the rule for the outer command spells
// out, in words.
type cover struct {
	by    *Judged
	words int
	all   bool
}

func (j *judge) script(s *bash.Script, cov cover) {
	for _, item := range s.Items {
		switch x := item.(type) {
		case *bash.Command:
			j.command(s, x, cov)
		case *bash.Redirect:
			j.redirect(s, x)
		case *bash.Assign:
			j.assign(x, cov)
		case bash.Unclear:
			if cov.all {
				continue
			}
			sub := Subject{Kind: "Bash", Text: x.Text}
			if r := j.everything(); r != nil && !x.Limit {
				j.add(by(sub, Allow, r), "")
				continue
			}
			if j.mode == Bypass {
				for i := range j.deny {
					if r := &j.deny[i]; r.Any || mentions(x.Text, r.Pattern) {
						j.add(by(sub, Deny, r.Rule), "")
					}
				}
			}
			j.notReading(sub, x.Reason)
		}
	}
}

// dirs returns the directories in which a command may run; ok is false if they
// are not known.
func (j *judge) dirs(s *bash.Script, at int) (dirs []string, ok bool) {
	dirs = []string{j.paths.Dir}
	n := min(at, len(s.Moves))
	if s.Loose {
		n = len(s.Moves)
	}
	for _, c := range s.Moves[:n] {
		if c.Any || c.Word == nil {
			return dirs, false
		}
		for _, v := range c.Word.Values {
			if c.Loose && !bash.IsAbs(v) && !strings.HasPrefix(v, "~/") || len(dirs) > 16 {
				return dirs, false
			}
			for _, d := range dirs[:len(dirs):len(dirs)] {
				dirs = append(dirs, j.paths.name(v, d).all[0])
			}
		}
	}
	return dirs, true
}

func (j *judge) redirect(s *bash.Script, f *bash.Redirect) {
	kind := "Read"
	if f.Write {
		kind = "Edit"
	}
	values := f.Target.Values
	if len(values) == 0 || f.Target.Glob || f.Target.Many {
		j.notReading(Subject{Kind: kind, Text: f.Text}, reasonFile)
		return
	}
	for _, v := range values {
		if strings.HasPrefix(v, "~") && !f.Target.Tilde {
			v = "./" + v
		}
		if strings.HasPrefix(v, "/dev/tcp/") || strings.HasPrefix(v, "/dev/udp/") {
			j.notReading(Subject{Kind: "Bash", Text: f.Text}, reasonNetwork)
			continue
		}
		dirs, ok := j.dirs(s, f.At)
		if !ok && !bash.IsAbs(v) && !strings.HasPrefix(v, "~") {
			j.notReading(Subject{Kind: kind, Text: f.Text}, reasonRelative)
			continue
		}
		for _, d := range dirs {
			n := j.paths.name(v, d)
			j.file(Subject{Kind: kind, Text: v, Tool: j.request.Tool, Aliases: j.request.Aliases}, n, nil, false)
			if f.Both {
				j.file(Subject{Kind: "Read", Text: v, Tool: j.request.Tool, Aliases: j.request.Aliases}, n, nil, false)
			}
		}
	}
}

func (j *judge) assign(x *bash.Assign, cov cover) {
	s := Subject{Kind: "Bash", Text: x.Text}
	words := []bash.Word{bash.Known(x.Text)}
	words[0].Literal = bash.PlainWord(x.Text)
	if j.denied(s, &bash.Command{Words: words, Text: x.Text}) != Allow {
		return
	}
	if cov.all {
		return
	}
	if r := j.everything(); r != nil {
		j.add(by(s, Allow, r), "")
		return
	}
	if j.mode != Plan {
		var buf [128]byte
		text := encode(words, buf[:0])
		for i := range j.allow {
			r := &j.allow[i]
			if !r.Any && (r.first == 0 || len(text) > 0 && r.first == text[0]) {
				if p := r.get(); p.assigns && p.match(text, nil, false) {
					j.add(by(s, Allow, r.Rule), "")
					return
				}
			}
		}
	}
	rule := ""
	if words[0].Literal {
		rule = "Bash(" + x.Text + ")"
	}
	if j.mode == Plan {
		j.notReading(s, reasonVariable)
		return
	}
	j.add(Judged{Subject: s, Reason: reasonVariable}, rule)
}

// denied judges a command by the deny and ask rules, matched as widely as
// possible, and returns the verdict; Allow means that none of them matches.
func (j *judge) denied(s Subject, c *bash.Command) Verdict {
	if len(j.deny)+len(j.ask) == 0 {
		return Allow
	}
	written := lines(c)
	hit := func(r *bashRule, loose bool) bool {
		for _, l := range written {
			if r.first != 0 && len(l) > 0 && l[0] != r.first && l[0] != dynamic {
				continue
			}
			if r.get().match(l, nil, loose) {
				return true
			}
		}
		return false
	}
	for i := range j.deny {
		r := &j.deny[i]
		if r.Any || hit(r, false) || c.Opaque != "" && j.mode == Bypass && mentions(c.Text, r.Pattern) {
			j.add(by(s, Deny, r.Rule), "")
			return Deny
		}
	}
	if hasUnknown(c) {
		for n, list := range [][]bashRule{j.deny, j.ask} {
			for i := range list {
				r := &list[i]
				if !r.Any && hit(r, true) && !hit(r, false) {
					x := by(s, Ask, r.Rule)
					x.Reason = reasonDoubt
					j.doubt = n == 0
					j.add(x, "")
					return Ask
				}
			}
		}
	}
	for i := range j.ask {
		if r := &j.ask[i]; r.Any || hit(r, false) {
			j.add(by(s, Ask, r.Rule), "")
			return Ask
		}
	}
	return Allow
}

// hasUnknown reports whether the value of a word is not known.
func hasUnknown(c *bash.Command) bool {
	for i := range c.Words {
		if _, ok := c.Words[i].Value(); !ok {
			return true
		}
	}
	return false
}

// lines encodes a command for matching with deny and ask rules: the program by
// its base name and as written, escapes resolved, without git's global options,
// in lower case, with and without the assignments before it.
func lines(c *bash.Command) [][]byte {
	buf := make([]byte, 0, len(c.Text)+8)
	write := func(words []bash.Word, base bool) []byte {
		from := len(buf)
		for i := range words {
			if i > 0 {
				buf = append(buf, between)
			}
			w := &words[i]
			v, ok := w.Value()
			switch {
			case !ok && w.Values == nil && w.Prefix != "" && !w.Many:
				buf = append(append(buf, strings.ToLower(w.Prefix)...), dynamic)
			case !ok:
				buf = append(buf, dynamic)
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
	words []bash.Word
	text  []byte
	fixed []bool // what a rule must spell out
	open  []bool // what a rule for all uses of the program must spell out
}

func newLine(words []bash.Word, dangers []bash.Danger, buf []byte) line {
	l := line{words: words, text: encode(words, buf)}
	l.fixed = fixed(l.text, dangers)
	l.open = l.fixed
	if narrow := slices.DeleteFunc(slices.Clone(dangers), func(d bash.Danger) bool { return d.Open }); len(narrow) < len(dangers) {
		l.open = fixed(l.text, narrow)
	}
	return l
}

// fixedFor marks what a pattern must spell out: a rule such as Bash(python:*)
// covers more uses of its program.
func (l *line) fixedFor(p *pattern) []bool {
	if p.lead == 1 && p.prefix && !p.starred {
		return l.open
	}
	return l.fixed
}

// encode appends words as symbols to a line.
func encode(words []bash.Word, line []byte) []byte {
	ended := false
	for i := range words {
		w := &words[i]
		if i > 0 {
			line = append(line, between)
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
			line = append(line, never)
		default:
			line = append(line, dynamic)
		}
		ended = ended || w.Literal && w.Values[0] == "--"
	}
	return line
}

// withClimbs returns a line whose elements ".." a rule must spell out: "../*"
// does not match "../../x". After path.Clean they are at the beginning of a word,
// so that no other pattern can lead upwards.
func (l *line) withClimbs() *line {
	marked := make([]bool, len(l.text))
	copy(marked, l.fixed)
	for i := range l.text {
		end := i + 2
		if end <= len(l.text) && string(l.text[i:end]) == ".." && (i == 0 || !nameByte(l.text[i-1])) &&
			(end == len(l.text) || !nameByte(l.text[end])) {
			marked[i], marked[i+1] = true, true
		}
	}
	return &line{words: l.words, text: l.text, fixed: marked, open: marked}
}

// nameByte reports whether a symbol is part of a file's name.
func nameByte(b byte) bool { return b > star && b != '/' && b != '=' }

// fixed marks the symbols of dangerous words; nil: there are none.
func fixed(line []byte, dangers []bash.Danger) []bool {
	if len(dangers) == 0 {
		return nil
	}
	out := make([]bool, len(line))
	word := 0
	for i, b := range line {
		if b == between {
			word++
		}
		out[i] = slices.ContainsFunc(dangers, func(d bash.Danger) bool { return d.Word == word })
	}
	return out
}

// A grant is what allows a command: a rule, and how many of the command's words
// it spells out.
type grant struct {
	by    *Judged
	words int
	exact bool // the rule spells out all of them
	files bool // the script that a shell runs is allowed too
	free  bool // the assignments before the command need no approval of their own
}

// command judges one simple command and what it runs and touches.
func (j *judge) command(s *bash.Script, c *bash.Command, cov cover) {
	sub := Subject{Kind: "Bash", Text: c.Text}
	asked := false // a rule has asked already; denials of inner commands still count
	switch j.denied(sub, c) {
	case Deny:
		return
	case Ask:
		asked = true
	}
	dirs, known := j.dirs(s, c.At)
	moved := !known || len(dirs) > 1
	c = j.withRefs(c, dirs)
	dangers := j.dangers(c, dirs)
	g := j.granted(c, cov, dirs, moved, dangers)
	if g.by != nil && c.Git && !asked {
		if why := j.gitNeedsApproval(dirs); why != "" {
			j.add(Judged{Subject: sub, Reason: why}, "")
			asked = true
		}
	}
	if j.mode == Plan || asked {
		g.by = nil // in plan mode reading needs no rule and nothing else may run
	}
	why := j.notFree(c, dirs, known, moved)
	free := c.Effect == bash.Reads && why == ""
	if !g.free && !cov.all {
		for _, a := range c.Assigns {
			if a.InWords && g.by != nil && (g.exact || len(c.Inner) > 0 && g.words > c.Inner[0].Name) {
				continue // spelled out by the rule
			}
			j.assign(a, cover{})
		}
	}
	suggested := false
	switch {
	case asked:
	case g.by != nil:
		j.add(*g.by, "")
	case c.Function:
		j.add(Judged{Subject: sub, Verdict: Allow, Origin: Builtin, Reason: reasonFunction}, "")
	case free:
		j.add(Judged{Subject: sub, Verdict: Allow, Origin: Builtin, Reason: reasonReads}, "")
	case c.Effect == bash.Wraps && c.Opaque == "" && len(c.Inner) > 0:
	default:
		switch {
		case c.Opaque != "":
			why = c.Opaque
		case len(dangers) > 0:
			why = dangers[0].Reason
		case why == "":
			why = cmp.Or(c.Reason, reasonNoRule)
		}
		if j.mode == Plan {
			j.notReading(sub, why)
			break
		}
		rule := narrowestRule(c)
		if moved && relative(c, len(c.Words)) || c.Git && j.gitNeedsApproval(dirs) != "" {
			rule = ""
		}
		suggested = rule != ""
		j.add(Judged{Subject: sub, Reason: why}, rule)
	}
	outer := j.spelled
	defer func() { j.spelled = outer }()
	j.spelled = outer || suggested
	for _, in := range c.Inner {
		if c.Opaque != "" && g.by == nil {
			j.deniedOnly(in.Script)
			continue
		}
		j.script(in.Script, g.inner(c, in))
	}
	j.files(s, c, dirs, known, g.by, free)
}

// inner returns the cover of a grant for a command inside the one it allows.
func (g *grant) inner(c *bash.Command, in bash.Inner) cover {
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

// notFree returns why a read-only command needs approval in the directories
// where it runs; "": it does not.
func (j *judge) notFree(c *bash.Command, dirs []string, known, moved bool) string {
	if c.Effect != bash.Reads {
		return ""
	}
	if c.Git || c.AsksGit {
		if why := j.gitNeedsApproval(dirs); why != "" {
			return why
		}
		if moved {
			return reasonGitMoved
		}
		if !j.paths.GitEnv {
			return reasonNoRule
		}
		for i := range c.Words {
			if w := &c.Words[i]; w.Tag && w.Dash {
				return "a tag may look like an option: " + w.Text
			}
		}
		if j.paths.Git != nil {
			if unguarded, _ := j.paths.Git.Check(dirs[0]); len(unguarded) > 0 {
				return "git would use " + unguarded[0] + " of the repository's configuration"
			}
		}
	}
	if file := j.obeyed(c, dirs); file != "" {
		return "this file may select another program: " + file
	}
	if !known {
		for _, a := range c.Files {
			if v := a.Values(); len(v) > 0 && !bash.IsAbs(v[0]) {
				return reasonUnknownDir
			}
		}
	}
	return ""
}

// gitNeedsApproval returns why git needs approval in these directories even if a
// rule allows it; "": it does not.
func (j *judge) gitNeedsApproval(dirs []string) string {
	if j.paths.Untrusted {
		return ReasonUntrusted
	}
	if j.paths.Git != nil {
		for _, dir := range dirs {
			if _, err := j.paths.Git.Check(filepath.FromSlash(dir)); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

// withRefs returns a command in which the commit names that git prints do not
// count as options, if the repository has no tag that looks like one.
func (j *judge) withRefs(c *bash.Command, dirs []string) *bash.Command {
	is := func(w bash.Word) bool { return w.Ref && w.Tag && w.Dash }
	if !c.Git || j.paths.Git == nil || len(dirs) > 1 || !slices.ContainsFunc(c.Words, is) {
		return c
	}
	if odd, err := j.paths.Git.tagsLikeOptions(filepath.FromSlash(dirs[0])); odd || err != nil {
		return c
	}
	clean := *c
	clean.Words = slices.Clone(c.Words)
	for i := range clean.Words {
		if w := &clean.Words[i]; is(*w) {
			w.Dash = false
		}
	}
	return &clean
}

// granted finds the rule that allows a command.
func (j *judge) granted(c *bash.Command, cov cover, dirs []string, moved bool, dangers []bash.Danger) grant {
	sub := Subject{Kind: "Bash", Text: c.Text}
	if cov.by != nil && (cov.all || covered(c, cov.words, dangers)) {
		by := *cov.by
		by.Subject = sub
		return grant{by: &by, words: cov.words, exact: cov.all, free: len(c.Assigns) == 0}
	}
	if len(c.Inner) > 0 && c.Effect != bash.Wraps { // no wildcard matches a program that runs others
		dangers = append([]bash.Danger{{Word: 0}}, dangers...)
	}
	var buf [256]byte
	plain := newLine(c.Words, dangers, buf[:0])
	clean, ok := plain, true // the line without words that lead upwards
	climbing := climbs(c.Words)
	if climbing {
		var words []bash.Word
		if words, ok = j.cleaned(c.Words, dirs); ok {
			clean = newLine(words, dangers, nil)
		}
	}
	for i := range j.allow {
		r := &j.allow[i]
		if r.Any {
			if c.Opaque != "" && j.patterns() {
				continue // it may hide something that a rule denies
			}
			by := by(sub, Allow, r.Rule)
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
			l = l.withClimbs()
		}
		if !p.match(l.text, l.fixedFor(p), false) {
			continue
		}
		lead := p.lead
		if p.assigns {
			lead -= len(c.Assigns)
		}
		if moved && relative(c, lead) {
			continue
		}
		by := by(sub, Allow, r.Rule)
		return grant{by: &by, words: lead, exact: p.exact(), free: p.assigns, files: c.RunsScript && lead == 1 && (p.starred || c.Absolute)}
	}
	return grant{}
}

// withAssigns puts the assignments before a command in front of its words,
// which a rule must spell out.
func withAssigns(c *bash.Command, words []bash.Word, dangers []bash.Danger) ([]bash.Word, []bash.Danger, []byte) {
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

// climbs reports whether a word has an element "..".
func climbs(words []bash.Word) bool {
	for i := range words {
		for _, v := range words[i].Values {
			if strings.Contains(v, "..") && slices.Contains(strings.Split(v, "/"), "..") {
				return true
			}
		}
	}
	return false
}

// cleaned returns words with ".." resolved where possible, so that what a * in a
// rule matches lies below the path written before it. ok is false where links
// make a path lead elsewhere than its text.
func (j *judge) cleaned(words []bash.Word, dirs []string) (out []bash.Word, ok bool) {
	out = slices.Clone(words)
	for i := range out {
		w := &out[i]
		if !w.Literal || !climbs(out[i:i+1]) {
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
			if asRead.unclear != "" || asLinked.unclear != "" || asRead.target() != asLinked.target() {
				return nil, false
			}
		}
		w.Values = []string{text}
	}
	return out, true
}

// dangers returns the words of a command that a rule must spell out, given the
// directories where it runs.
func (j *judge) dangers(c *bash.Command, dirs []string) []bash.Danger {
	inside := func(d bash.Danger) bool {
		if d.Dir == "" {
			return false
		}
		for _, dir := range dirs {
			if !j.paths.inside(j.paths.name(d.Dir, dir)) {
				return false
			}
		}
		return true
	}
	if slices.ContainsFunc(c.Danger, inside) {
		return slices.DeleteFunc(slices.Clone(c.Danger), inside)
	}
	return c.Danger
}

// patterns reports whether a rule denies or asks about some commands.
func (j *judge) patterns() bool {
	for _, list := range [][]bashRule{j.deny, j.ask} {
		for i := range list {
			if !list[i].Any {
				return true
			}
		}
	}
	return false
}

// everything returns the rule that allows every command, if one does.
func (j *judge) everything() *Rule {
	for i := range j.allow {
		if r := &j.allow[i]; r.Any && j.mode != Plan && !j.patterns() {
			return r.Rule
		}
	}
	return nil
}

// covered reports whether the rule for the outer command, which spells out the
// first words of this command, allows it.
func covered(c *bash.Command, words int, dangers []bash.Danger) bool {
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
			return false // xargs adds words that the rule does not spell out
		}
	}
	return c.Words[0].Literal
}

// relative reports whether a word that a rule spells out is a relative path,
// which cd changes the meaning of.
func relative(c *bash.Command, lead int) bool {
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

// deniedOnly matches only the deny rules with the commands inside an opaque one.
func (j *judge) deniedOnly(s *bash.Script) {
	for _, c := range s.Commands {
		written := lines(c)
		for i := range j.deny {
			r := &j.deny[i]
			for _, l := range written {
				if !r.Any && r.get().match(l, nil, false) {
					j.add(by(Subject{Kind: "Bash", Text: c.Text}, Deny, r.Rule), "")
				}
			}
		}
		for _, in := range c.Inner {
			j.deniedOnly(in.Script)
		}
	}
}

// narrowestRule returns the narrowest rule that allows a command, "" if none can.
func narrowestRule(c *bash.Command) string {
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

// files judges the files that a command's words name.
func (j *judge) files(s *bash.Script, c *bash.Command, dirs []string, dirsKnown bool, allowed *Judged, free bool) {
	judgedFree := allowed
	if judgedFree == nil && !free {
		judgedFree = &Judged{} // only denials count: the command itself asks
	}
	for i := range c.Files {
		a := &c.Files[i]
		for _, v := range a.Values() {
			if c.Git && !a.Write && a.Word != nil && !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "..") {
				v = strings.TrimPrefix(v, ":/")
			}
			kind := "Read"
			if a.Write {
				kind = "Edit"
			}
			if v == "/dev/null" || !a.Write && (v == "/dev/zero" || v == "/dev/urandom" || v == "/dev/random" || v == "/dev/stdin") {
				continue
			}
			if n, ok := strings.CutPrefix(v, "/dev/fd/"); ok && bash.Digits(n) {
				continue
			}
			for _, d := range dirs {
				for _, f := range j.expand(a, v, d) {
					if strings.HasPrefix(f, "~") && (a.Word == nil || !a.Word.Tilde || a.Text != "" && a.Text != f) {
						f = "./" + f // a quoted ~ is an ordinary character
					}
					n := j.paths.name(f, d)
					if !dirsKnown && !bash.IsAbs(f) && !strings.HasPrefix(f, "~") && allowed != nil {
						n.unclear = ""
					}
					sub := Subject{Kind: kind, Text: f, Tool: j.request.Tool, Aliases: j.request.Aliases}
					quiet := allowed != nil && !a.Write || allowed == nil && !free
					j.file(sub, n, judgedFree, quiet)
					if (a.Tree || a.Word != nil && a.Word.Glob && strings.Contains(v, "**")) && kind == "Read" {
						j.below(sub, n)
					}
					if a.Follow && kind == "Read" {
						j.throughLinks(sub, n, a.Tree, allowed != nil)
					}
				}
			}
		}
	}
	if j.deniesFiles() && c.Effect != bash.Reads {
		// Whatever the program does, its words must not name a file that must not be
		// read.
		for i := 1; i < len(c.Words); i++ {
			for _, v := range c.Words[i].Values {
				for _, part := range []string{v, after(v, "="), after(v, "@"), after(v, ":")} {
					if part == "" || strings.HasPrefix(part, "-") {
						continue
					}
					for _, d := range dirs {
						n := j.paths.name(part, d)
						for _, kind := range [...]string{"Read", "Edit"} {
							sub := Subject{Kind: kind, Text: n.all[0], Tool: j.request.Tool, Aliases: j.request.Aliases}
							if r := j.fileRule(j.rules.Deny, sub, n); r != nil && !r.Any {
								j.add(by(sub, Deny, r), "")
							}
						}
					}
				}
			}
		}
	}
}

// deniesFiles reports whether a rule denies some files.
func (j *judge) deniesFiles() bool {
	for i := range j.rules.Deny {
		r := &j.rules.Deny[i]
		if k, _ := kindOf(r.Tool); (k == "Read" || k == "Edit") && !r.Any {
			return true
		}
	}
	return false
}

func after(s, sep string) string {
	_, rest, _ := strings.Cut(s, sep)
	return rest
}

// expand returns the files that a word names at this moment.
func (j *judge) expand(a *bash.File, v, dir string) []string {
	if a.Word == nil || !a.Word.Glob || a.Text != "" {
		return []string{v}
	}
	list := j.paths.Glob
	if list == nil {
		list = filepath.Glob
	}
	pat := v
	if strings.HasPrefix(pat, "~/") && j.paths.Home != "" {
		pat = j.paths.Home + pat[1:]
	} else if !bash.IsAbs(pat) {
		pat = dir + "/" + pat
	}
	found, err := list(filepath.FromSlash(pat))
	if err != nil || strings.Contains(v, "**") || strings.Contains(v, "(") || len(found) > 2000 {
		return append([]string{v}, found...)
	}
	out := []string{v[:strings.IndexAny(v+"*", "*?[")] + "*"} // the directory it searches
	if i := strings.LastIndexByte(out[0], '/'); i >= 0 {
		out[0] = out[0][:i+1]
	} else {
		out[0] = "."
	}
	for _, f := range found {
		if j.dots || !hiddenByGlob(pat, f) {
			out = append(out, f)
		}
	}
	return out
}

// hiddenByGlob reports whether bash omits a name that a pattern matches because
// it begins with a dot and the pattern does not.
func hiddenByGlob(pattern, name string) bool {
	p, n := strings.Split(filepath.ToSlash(pattern), "/"), strings.Split(filepath.ToSlash(name), "/")
	for i := range n {
		if i < len(p) && strings.HasPrefix(n[i], ".") && !strings.HasPrefix(p[i], ".") {
			return true
		}
	}
	return false
}

// below looks for denied files and secrets under a directory that is read
// recursively. With too many files to check, the call asks if there are deny or
// ask rules; the built-in secrets are then left to the sandbox.
func (j *judge) below(s Subject, n names) {
	const most = 5000
	list := j.paths.Below
	if list == nil {
		list = walk
	}
	files, all := list(filepath.FromSlash(n.all[len(n.all)-1]), most)
	for _, f := range files {
		fn := names{all: []string{path.Clean(filepath.ToSlash(f))}}
		sub := Subject{Kind: s.Kind, Text: fn.all[0], Tool: s.Tool, Aliases: s.Aliases}
		if r := j.fileRule(j.rules.Deny, sub, fn); r != nil {
			j.add(by(sub, Deny, r), "")
			return
		}
		if r := j.fileRule(j.rules.Ask, sub, fn); r != nil {
			j.add(by(sub, Ask, r), "")
			return
		}
		if pat := j.paths.secret(fn); pat != "" && !j.spelledOut(sub, fn) {
			j.add(Judged{Subject: sub, Origin: Builtin, Reason: "secret: " + pat}, "")
			return
		}
	}
	if !all {
		for _, rules := range [][]Rule{j.rules.Deny, j.rules.Ask} {
			for i := range rules {
				if r := &rules[i]; r.about(&Subject{Kind: "Read", Tool: s.Tool, Aliases: s.Aliases}, true) && !r.Any {
					x := by(s, Ask, r)
					x.Reason = reasonManyFiles
					j.add(x, "")
					return
				}
			}
		}
	}
}

// throughLinks judges a command that follows the links below a directory: their
// targets must be in the workspace, unless a rule allows the command. With tree
// it reads the content of the targets, so they are judged as files too.
func (j *judge) throughLinks(s Subject, n names, tree, allowed bool) {
	const most = 50_000
	todo, seen, left := []string{n.all[len(n.all)-1]}, map[string]bool{}, most
	for len(todo) > 0 {
		dir := todo[0]
		if todo = todo[1:]; seen[dir] {
			continue
		}
		seen[dir] = true
		links, all := j.paths.links(dir, &left)
		for _, link := range links {
			ln := j.paths.name(link, "")
			sub := Subject{Kind: s.Kind, Text: path.Clean(filepath.ToSlash(link)), Tool: s.Tool}
			if ln.unclear == "" && !j.paths.inside(ln) && !allowed {
				j.add(Judged{Subject: sub, Reason: "a link points outside the workspace, to " + ln.all[len(ln.all)-1]}, "")
				return
			}
			if before := len(j.out); tree {
				if j.file(sub, ln, &Judged{}, true); len(j.out) > before {
					return
				}
			}
			target := ln.all[len(ln.all)-1]
			if info, err := os.Stat(filepath.FromSlash(target)); err == nil && info.IsDir() && !subpath.Contains(dir, target) {
				if tree {
					j.below(sub, names{all: []string{target}})
				}
				todo = append(todo, target)
			}
		}
		if !all && !allowed {
			j.add(Judged{Subject: s, Reason: reasonManyLinks}, "")
			return
		}
	}
}

// links lists the links below a directory, reading at most left entries, and
// reports whether these are all.
func (p *PathContext) links(dir string, left *int) (links []string, all bool) {
	if p.Below != nil { // any of them may be a link
		return p.Below(filepath.FromSlash(dir), *left)
	}
	all = true
	filepath.WalkDir(filepath.FromSlash(dir), func(name string, d fs.DirEntry, err error) error {
		if *left--; *left < 0 {
			all = false
			return filepath.SkipAll
		}
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			links = append(links, name)
		}
		return nil
	})
	return links, all
}

// obeyed returns a file that changes which program a command's name runs, if
// one exists in the directories where it runs or above.
func (j *judge) obeyed(c *bash.Command, dirs []string) string {
	if c.Obeys == "" || c.Effect != bash.Reads {
		return ""
	}
	for _, dir := range dirs {
		for dir = filepath.ToSlash(dir); ; dir = path.Dir(dir) {
			for _, name := range strings.Fields(c.Obeys) {
				if file := strings.TrimSuffix(dir, "/") + "/" + name; j.paths.exists(file) {
					return file
				}
			}
			if dir == j.paths.Home || path.Dir(dir) == dir {
				break
			}
		}
	}
	return ""
}

// exists reports whether a file of this name exists or may exist.
func (p *PathContext) exists(file string) bool {
	if p.Glob != nil {
		found, err := p.Glob(filepath.FromSlash(escapeGlob(file)))
		return err != nil || len(found) > 0
	}
	_, err := os.Lstat(filepath.FromSlash(file))
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !isNotDir(err)
}

func walk(dir string, n int) (files []string, all bool) {
	all = true
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if len(files) >= n {
			all = false
			return filepath.SkipAll
		}
		files = append(files, p)
		return nil
	})
	return files, all
}
