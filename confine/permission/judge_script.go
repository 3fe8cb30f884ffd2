package permission

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
)

// Command lines: each command, redirection and assignment is judged separately. Package
// permission/internal/bash extracts them.

// bash judges a command line.
func (j *judge) bash(s Subject) {
	j.request = s
	j.prepare()
	script, err := bash.Parse(s.Text, s.Extra)
	if err != nil {
		for i := range j.deny {
			if r := &j.deny[i]; r.Any || mayMention(s.Text, r.Pattern) {
				j.add(judgedBy(s, Deny, r.Rule), "")
				return
			}
		}
		j.unclear = j.unconfined()
		j.noRuleCanAllow(s, err.Error())
		return
	}
	if j.line = script; strings.Contains(s.Text, "--show-toplevel") {
		script = j.atTop(s)
	}
	j.hasDots = strings.Contains(s.Text, "shopt") || strings.Contains(s.Text, "GLOBIGNORE")
	if len(script.Items) == 0 {
		j.add(Judged{Subject: Subject{Kind: KindBash, Text: s.Text}, Verdict: Allow, Origin: Builtin, Reason: reasonNothing},
			"")
		return
	}
	j.closeFiles(s)
	j.script(script, cover{})
}

// atTop parses a line again in which git prints the top of the repository. That must be the working directory, and the
// line must not go to another repository, where git would print another directory.
func (j *judge) atTop(s Subject) *bash.CommandLine {
	unknown := j.line
	if j.paths.Git == nil || j.paths.Resolve != nil || !j.paths.GitEnv {
		return unknown
	}
	top, err := j.paths.Git.run(j.paths.ctx, filepath.FromSlash(j.paths.Dir), 1<<16, "rev-parse", "--show-toplevel")
	if err != nil || strings.TrimSuffix(string(top), "\n") != j.paths.Dir {
		return unknown
	}
	line, err := bash.ParseIn(j.paths.Dir, s.Text, s.Extra)
	if err != nil {
		return unknown
	}
	j.line = line
	if dirs, known := j.dirs(line, len(line.Moves)); !known || len(dirs) > 1 && !j.keepsRepository(dirs) {
		j.line = unknown
	}
	return j.line
}

// mayMention reports whether text contains the program name that begins pat, the pattern of a deny
// rule. It is used for text that cannot be analysed.
func mayMention(text, pat string) bool {
	p := compile(strings.ToLower(pat))
	name, _, _ := strings.Cut(string(p.text), "\x00")
	name, _, _ = strings.Cut(name, string(rune(wildcard)))
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

// A cover is the part of an inner command that the rule for its outer command spells out: a number
// of words, or all.
type cover struct {
	by    *Judged
	words int
	all   bool
}

func (j *judge) script(s *bash.CommandLine, cov cover) {
	for _, item := range s.Items {
		switch x := item.(type) {
		case *bash.SimpleCommand:
			j.command(s, x, cov)
		case *bash.Redirect:
			j.redirect(s, x)
		case *bash.Assign:
			j.assign(x, cov)
		case bash.Unclear:
			if cov.all {
				continue
			}
			sub := Subject{Kind: KindBash, Text: x.Text}
			if r := j.ruleForAll(); r != nil && !x.Limit {
				j.add(judgedBy(sub, Allow, r), "")
				continue
			}
			if j.mode == Bypass {
				for i := range j.deny {
					if r := &j.deny[i]; r.Any || mayMention(x.Text, r.Pattern) {
						j.add(judgedBy(sub, Deny, r.Rule), "")
					}
				}
			}
			j.unclear = j.unconfined()
			j.noRuleCanAllow(sub, x.Reason)
		}
	}
}

// dirs returns the directories in which the command at position at may run; ok is false if they are
// unknown.
func (j *judge) dirs(s *bash.CommandLine, at int) (dirs []string, ok bool) {
	return j.dirsIf(unknown, false, s, at)
}

// dirsIf is dirs for a command that runs only if the first change of the directory took place, if moved is set.
//
// made returns the directories to which a change leads that is not known otherwise; nil: it is unknown.
func (j *judge) dirsIf(made func([]bash.Made) []string, moved bool, s *bash.CommandLine, at int) (dirs []string,
	ok bool) {

	dirs = []string{j.paths.Dir}
	n := min(at, len(s.Moves))
	if s.Loose {
		n = len(s.Moves)
	}
	for i, c := range s.Moves[:n] {
		before := len(dirs)
		var to []string
		if c.Word != nil {
			to = c.Word.Values
		}
		if c.Any || c.Word == nil {
			if to = made(c.Made); to == nil {
				return dirs, false
			}
		}
		for _, v := range to {
			if c.Loose && !bash.IsAbs(v) && !strings.HasPrefix(v, "~/") || len(dirs) > 16 {
				return dirs, false
			}
			for _, d := range dirs[:len(dirs):len(dirs)] {
				// "cd HERE && git status" goes nowhere. A ".." behind a link may lead elsewhere.
				if to := j.paths.name(v, d).paths[0]; to != d || strings.Contains(v, "..") {
					dirs = append(dirs, to)
				}
			}
		}
		if moved && i == 0 && len(dirs) > before {
			dirs = dirs[before:]
		}
	}
	return dirs, true
}

func (j *judge) redirect(s *bash.CommandLine, f *bash.Redirect) {
	kind := KindRead
	if f.Write {
		kind = KindEdit
	}
	made := unknown
	if j.confined() {
		made = j.paths.made
	}
	values, many := f.Target.Values, f.Target.Many
	if values == nil {
		values, many = made(f.Target.Made), false
	}
	if len(values) == 0 || f.Target.Glob || many {
		j.unclear = j.unconfined()
		j.noRuleCanAllow(Subject{Kind: kind, Text: f.Text}, reasonFile)
		return
	}
	for _, v := range values {
		if strings.HasPrefix(v, "~") && !f.Target.Tilde {
			v = "./" + v
		}
		if strings.HasPrefix(v, "/dev/tcp/") || strings.HasPrefix(v, "/dev/udp/") {
			j.noRuleCanAllow(Subject{Kind: KindBash, Text: f.Text}, reasonNetwork)
			continue
		}
		dirs, ok := j.dirsIf(made, f.Moved, s, f.At)
		if !ok && !bash.IsAbs(v) && !strings.HasPrefix(v, "~") {
			j.unclear = j.unconfined()
			j.noRuleCanAllow(Subject{Kind: kind, Text: f.Text}, reasonRelative)
			continue
		}
		for _, d := range dirs {
			n := j.paths.name(v, d)
			if kind == KindRead {
				j.endless(Subject{Kind: kind, Text: v, Tool: j.request.Tool, Aliases: j.request.Aliases}, n)
			}
			j.file(Subject{Kind: kind, Text: v, Tool: j.request.Tool, Aliases: j.request.Aliases}, n, nil, false)
			if f.Both {
				j.file(Subject{Kind: KindRead, Text: v, Tool: j.request.Tool, Aliases: j.request.Aliases}, n, nil, false)
			}
		}
	}
}

// unknown stands for made where no more is known than what the shell says.
func unknown([]bash.Made) []string { return nil }

// made returns the paths of what a word names below the directory for temporary files, and of what it names by a
// literal; nil: they are not known. That is for the targets of redirections, in a complete sandbox only: there a line
// whose mktemp fails can reach no more than what the sandbox opens to every command, and a word that would then name a
// file of the workspace remains unknown.
func (p *PathContext) made(all []bash.Made) (paths []string) {
	if p.Temp == "" {
		return nil
	}
	temp := "/tmp" // the sandbox sets TMPDIR
	if p.inTemp("/tmp/x") == "/tmp/x" {
		temp = filepath.ToSlash(p.Temp)
	}
	for _, m := range all {
		if m.Rest != "" {
			n := p.name(m.Rest, "")
			if p.inside(n) || n.unknownReason != "" || p.Open != nil && p.Open(n.target()) {
				return nil
			}
		}
		if v := m.Path; m.Literal || bash.IsAbs(v) {
			paths = append(paths, v)
		} else {
			paths = append(paths, path.Join(temp, v))
		}
	}
	return paths
}

func (j *judge) assign(x *bash.Assign, cov cover) {
	s := Subject{Kind: KindBash, Text: x.Text}
	words := []bash.Word{bash.Known(x.Text)}
	words[0].Literal = bash.PlainWord(x.Text)
	if j.deniedOrAsked(s, &bash.SimpleCommand{Words: words, Text: x.Text}) != Allow {
		return
	}
	if cov.all {
		return
	}
	if r := j.ruleForAll(); r != nil {
		j.add(judgedBy(s, Allow, r), "")
		return
	}
	if j.mode != Plan {
		var buf [128]byte
		text := encode(words, buf[:0])
		for i := range j.allow {
			r := &j.allow[i]
			if !r.Any && (r.first == 0 || len(text) > 0 && r.first == text[0]) {
				if p := r.get(); p.assigns && p.match(text, nil, false) {
					j.add(judgedBy(s, Allow, r.Rule), "")
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
		j.noRuleCanAllow(s, reasonVariable)
		return
	}
	j.add(Judged{Subject: s, Reason: reasonVariable}, rule)
}

// ruleForAll returns the rule that allows all commands; nil if there is none, or if deny or ask
// rules for particular commands, or plan mode, limit it.
func (j *judge) ruleForAll() *Rule {
	for i := range j.allow {
		if r := &j.allow[i]; r.Any && j.mode != Plan && !j.patterns() {
			return r.Rule
		}
	}
	return nil
}

// patterns reports whether a rule denies or asks about particular commands.
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

// deniedOnly applies only the deny rules to the commands inside a command that cannot be analysed.
func (j *judge) deniedOnly(s *bash.CommandLine) {
	for _, c := range s.Commands {
		written := lines(c)
		for i := range j.deny {
			r := &j.deny[i]
			for _, l := range written {
				if !r.Any && r.get().match(l, nil, false) {
					j.add(judgedBy(Subject{Kind: KindBash, Text: c.Text}, Deny, r.Rule), "")
				}
			}
		}
		j.unknownFiles(c, true)
		for _, in := range c.Inner {
			j.deniedOnly(in.Script)
		}
	}
}
