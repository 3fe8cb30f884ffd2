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

	"github.com/knack-agent/knack/confine/permission/internal/bash"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// One simple command: the rules that match it, why it needs approval, and the files that it names.

// command judges one simple command, the commands inside it and the files that it names.
func (j *judge) command(s *bash.CommandLine, c *bash.SimpleCommand, cov cover) {
	sub := Subject{Kind: KindBash, Text: c.Text}
	needsApproval := false // a rule has already asked; only denials of inner commands matter now
	switch j.deniedOrAsked(sub, c) {
	case Deny:
		return
	case Ask:
		needsApproval = true
	}
	dirs, known := j.dirs(s, c.At)
	c, dirs = j.entered(c, dirs, known)
	moved := !known || len(dirs) > 1
	c = j.withRefs(c, dirs)
	dangers := j.dangers(c, dirs)
	g := j.findGrant(c, cov, dirs, moved, dangers)
	if g.by != nil && c.Git && !needsApproval {
		if why := j.gitNeedsApproval(c, dirs); why != "" {
			j.add(Judged{Subject: sub, Reason: why}, "")
			needsApproval = true
		}
	}
	if j.mode == Plan || needsApproval {
		g.by = nil // in plan mode reading needs no rule, and nothing else may run
	}
	why := j.whyNotReadOnly(c, dirs, known, moved)
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
	case needsApproval:
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
			why = cmp.Or(c.Reason, ReasonNoRule)
		}
		if j.mode == Plan {
			j.noRuleCanAllow(sub, why)
			break
		}
		rule := narrowestRule(c)
		if moved && startsRelative(c, len(c.Words)) || c.Git && j.gitNeedsApproval(c, dirs) != "" {
			rule = ""
		}
		suggested = rule != ""
		j.add(Judged{Subject: sub, Reason: why}, rule)
	}
	outer := j.allWords
	defer func() { j.allWords = outer }()
	j.allWords = outer || suggested
	for _, in := range c.Inner {
		if c.Opaque != "" && g.by == nil {
			j.deniedOnly(in.Script)
			continue
		}
		j.script(in.Script, g.inner(c, in))
	}
	in := dirs
	if c.Moved && !c.Git {
		in, known = j.dirsIf(unknown, true, s, c.At)
	}
	j.files(s, c, in, known, g.by, free)
	j.unknownFiles(c, known)
	j.gitWrites(c, dirs)
	j.gitElsewhere(c, dirs)
	if g.by != nil && !g.exact && c.Effect == bash.Runs && !c.Function {
		j.secretWords(c, dirs, g.words)
	}
}

// deniedOrAsked judges a command by the deny and ask rules, matched as widely as possible. Allow means
// that none of them matches.
func (j *judge) deniedOrAsked(s Subject, c *bash.SimpleCommand) Verdict {
	if len(j.deny)+len(j.ask) == 0 {
		return Allow
	}
	written := lines(c)
	hit := func(r *bashRule, loose bool) bool {
		for _, l := range written {
			if r.first != 0 && len(l) > 0 && l[0] != r.first && l[0] != unknownByte {
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
		if r.Any || hit(r, false) || c.Opaque != "" && j.mode == Bypass && mayMention(c.Text, r.Pattern) {
			j.add(judgedBy(s, Deny, r.Rule), "")
			return Deny
		}
	}
	if hasUnknown(c) {
		for n, list := range [][]bashRule{j.deny, j.ask} {
			for i := range list {
				r := &list[i]
				if !r.Any && hit(r, true) && !hit(r, false) {
					x := judgedBy(s, Ask, r.Rule)
					x.Reason = reasonDoubt
					j.unclear = n == 0
					j.add(x, "")
					return Ask
				}
			}
		}
	}
	for i := range j.ask {
		if r := &j.ask[i]; r.Any || hit(r, false) {
			j.add(judgedBy(s, Ask, r.Rule), "")
			return Ask
		}
	}
	return Allow
}

// hasUnknown reports whether the value of some word is unknown.
func hasUnknown(c *bash.SimpleCommand) bool {
	for i := range c.Words {
		if _, ok := c.Words[i].Value(); !ok {
			return true
		}
	}
	return false
}

// whyNotReadOnly returns why a read-only command needs approval in the directories in which it may run; ""
// if it does not.
func (j *judge) whyNotReadOnly(c *bash.SimpleCommand, dirs []string, known, moved bool) string {
	if c.Effect != bash.Reads {
		return ""
	}
	if c.Git || c.AsksGit {
		if why := j.gitNeedsApproval(c, dirs); why != "" {
			return why
		}
		if moved && (!known || !j.keepsRepository(dirs)) {
			return reasonGitMoved
		}
		if !j.paths.GitEnv {
			return ReasonNoRule
		}
		for i := range c.Words {
			if w := &c.Words[i]; w.Tag && w.Dash {
				return reasonTag + w.Text
			}
		}
	}
	if file := j.commandOverride(c, dirs); file != "" {
		return reasonSelects + file
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

// keepsRepository reports whether git finds the same repository in all directories in which a command may run: below
// the working directory, reached through no link, with nothing on the way that begins another repository, and on a line
// that writes nothing which could begin one.
func (j *judge) keepsRepository(dirs []string) bool {
	if j.paths.Resolve != nil || !onlyReads(j.line) || wanders(j.line) {
		return false
	}
	top, err := Resolve(filepath.FromSlash(j.paths.Dir))
	if err != nil {
		return false
	}
	for _, dir := range dirs {
		below, ok := strings.CutPrefix(dir, strings.TrimSuffix(j.paths.Dir, "/"))
		if !ok || below != "" && below[0] != '/' {
			return false // what is not here may be in the session's own /tmp
		}
		if _, err := os.Lstat(filepath.FromSlash(dir)); errors.Is(err, fs.ErrNotExist) {
			continue // cd fails, and the directory stays what it was
		}
		if to, err := Resolve(filepath.FromSlash(dir)); err != nil || to != filepath.Join(top, below) {
			return false
		}
		for at := dir; at != j.paths.Dir; at = path.Dir(at) {
			for _, name := range []string{".git", "HEAD", "commondir"} {
				if j.paths.exists(at + "/" + name) {
					return false
				}
			}
		}
	}
	return true
}

// entered returns a git command with the directories to which its option -C leads, if it reads there, in the same
// repository: then it is the command without the option.
func (j *judge) entered(c *bash.SimpleCommand, dirs []string, known bool) (*bash.SimpleCommand, []string) {
	if len(c.Enters) == 0 || !known {
		return c, dirs
	}
	to := slices.Clone(dirs)
	for _, w := range c.Enters {
		v, _ := w.Value()
		for i := range to {
			to[i] = j.paths.name(v, to[i]).paths[0]
		}
	}
	if !j.keepsRepository(dirs) || !j.keepsRepository(to) {
		return c, dirs
	}
	reads := *c
	reads.Effect, reads.Reason, reads.Danger = bash.Reads, "", nil
	return &reads, to
}

// wanders reports whether a line writes to a file by a redirection, or changes the directory to one above another,
// which may be elsewhere if that one is a link.
func wanders(line *bash.CommandLine) bool {
	up := func(to bash.Chdir) bool {
		return to.Word == nil || slices.ContainsFunc(to.Word.Values, func(v string) bool { return strings.Contains(v, "..") })
	}
	climbs := func(w *bash.Word) bool { return up(bash.Chdir{Word: w}) }
	return slices.ContainsFunc(line.Items, func(item any) bool {
		r, ok := item.(*bash.Redirect)
		return ok && r.Write && !r.Target.Is("/dev/null")
	}) || slices.ContainsFunc(line.Moves, up) || slices.ContainsFunc(line.Commands, func(c *bash.SimpleCommand) bool {
		return slices.ContainsFunc(c.Enters, climbs) ||
			slices.ContainsFunc(c.Inner, func(in bash.Inner) bool { return wanders(in.Script) })
	})
}

// gitNeedsApproval returns why git needs approval in these directories even if a rule allows it; ""
// if it does not.
func (j *judge) gitNeedsApproval(c *bash.SimpleCommand, dirs []string) string {
	if j.paths.Untrusted {
		return j.untrustedGit(c, dirs)
	}
	if j.paths.Git != nil {
		for _, dir := range dirs {
			unguarded, err := j.paths.Git.Check(j.paths.ctx, filepath.FromSlash(dir))
			if err != nil {
				return err.Error()
			}
			if len(unguarded) > 0 {
				return "git would use " + unguarded[0] + " of the repository's configuration"
			}
		}
	}
	return ""
}

// untrustedGit is gitNeedsApproval for a folder that the user does not trust.
func (j *judge) untrustedGit(c *bash.SimpleCommand, dirs []string) string {
	if j.paths.Git == nil || c.Effect != bash.Reads {
		return ReasonUntrusted
	}
	for _, dir := range dirs {
		unguarded, err := j.paths.Git.untrusted(j.paths.ctx, filepath.FromSlash(dir), j.paths.Confined)
		if err != nil {
			return ReasonUntrusted + ": " + err.Error()
		}
		if len(unguarded) > 0 {
			return ReasonUntrusted + ": " + unguarded[0]
		}
	}
	return ""
}

// withRefs returns c with the names of commits that git itself prints no longer marked as possible
// options, if the repository has no tag that looks like an option.
func (j *judge) withRefs(c *bash.SimpleCommand, dirs []string) *bash.SimpleCommand {
	is := func(w bash.Word) bool { return w.Ref && w.Tag && w.Dash }
	if !c.Git || j.paths.Git == nil || len(dirs) > 1 || !slices.ContainsFunc(c.Words, is) {
		return c
	}
	if odd, err := j.paths.Git.tagsLikeOptions(j.paths.ctx, filepath.FromSlash(dirs[0])); odd || err != nil {
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

// needsNoProtection reports whether writing a file needs no protection: it is a standard stream or
// /dev/null, or all its names are in a directory for temporary files.
func (p *PathContext) needsNoProtection(name string, n pathNames) bool {
	if name == "/dev/stdout" || name == "/dev/stderr" || p.sessionOwn(n, KindEdit) {
		return true
	}
	return n.unknownReason == "" && !slices.ContainsFunc(n.paths, func(path string) bool {
		return path != "/dev/null" && !strings.HasPrefix(path, "/tmp/") && !strings.HasPrefix(path, "/private/tmp/")
	})
}

// dangers returns the words of a command that a rule must spell out when it runs in dirs.
func (j *judge) dangers(c *bash.SimpleCommand, dirs []string) []bash.Danger {
	inside := func(d bash.Danger) bool {
		if d.Dir == "" {
			return false
		}
		for _, dir := range dirs {
			n := j.paths.name(d.Dir, dir)
			if d.Write && (j.paths.protected(n) != "" || j.paths.secret(n) != "") {
				return false
			}
			if !j.paths.inside(n) && !(d.Write && j.paths.needsNoProtection(d.Dir, n)) {
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

// commandOverride returns a file that changes which program the command's name runs, such as a version
// manager's configuration, if one exists in dirs or above; "" if none does.
func (j *judge) commandOverride(c *bash.SimpleCommand, dirs []string) string {
	if c.SelectedBy == "" || c.Effect != bash.Reads {
		return ""
	}
	for _, dir := range dirs {
		for dir = filepath.ToSlash(dir); ; dir = path.Dir(dir) {
			for _, name := range strings.Fields(c.SelectedBy) {
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

// removes returns why removing or renaming a file needs approval, whatever rule covers the command: the working
// directory or the home directory is in it, with all that is protected there.
func (j *judge) removes(c *bash.SimpleCommand, f *bash.File, n pathNames) string {
	name, _ := c.Words[0].Value()
	switch path.Base(name) {
	case "rm", "rmdir", "mv", "shred", "unlink":
	case "find":
		if !f.Tree {
			return ""
		}
	default:
		return ""
	}
	for _, kept := range [...]string{j.paths.Dir, j.paths.Home} {
		kept := filepath.ToSlash(kept)
		if f.Write && kept != "" && slices.ContainsFunc(n.paths, func(p string) bool {
			// The path of a glob is the directory that it begins with: in the working directory it is harmless.
			return subpath.Contains(p, kept) && (p != kept || f.Word == nil || !f.Word.Glob)
		}) {
			return "it removes " + kept
		}
	}
	return ""
}

// files judges the files that a command's words name. allowed is the verdict of the rule that
// allows the command, nil if none does; free means that it needs no rule.
func (j *judge) files(s *bash.CommandLine, c *bash.SimpleCommand, dirs []string, dirsKnown bool, allowed *Judged,
	free bool) {

	judgedFree := allowed
	if judgedFree == nil && !free {
		judgedFree = &Judged{} // record only denials: the command itself asks already
	}
	program, _ := c.Words[0].Value()
	copied := "" // a protected name below what is copied
	for i := range c.Files {
		a := &c.Files[i]
		for _, v := range a.Values() {
			if c.Git && a.Word != nil && !a.Write && slices.ContainsFunc(a.Word.Values, excludes) {
				continue
			}
			if c.Git && !a.Write && a.Word != nil && !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "..") {
				v = strings.TrimPrefix(v, ":/")
			}
			kind := KindRead
			if a.Write {
				kind = KindEdit
			}
			source := v == "/dev/zero" || v == "/dev/urandom" || v == "/dev/random"
			if v == "/dev/null" || !a.Write && (v == "/dev/stdin" || source && (c.Ends || !free || allowed != nil)) {
				continue
			}
			if n, ok := strings.CutPrefix(v, "/dev/fd/"); ok && bash.Digits(n) {
				continue
			}
			for _, d := range dirs {
				named, err := j.expand(a, v, d)
				if err != nil {
					j.incomplete(Subject{Kind: kind, Text: v, Tool: j.request.Tool, Aliases: j.request.Aliases}, err)
					continue
				}
				for _, f := range named {
					if j.paths.ctx.Err() != nil {
						return // the decision asks
					}
					if strings.HasPrefix(f, "~") && (a.Word == nil || !a.Word.Tilde || a.Text != "" && a.Text != f) {
						f = "./" + f // a quoted ~ is an ordinary character
					}
					n := j.paths.name(f, d)
					if !dirsKnown && !bash.IsAbs(f) && !strings.HasPrefix(f, "~") && allowed != nil {
						n.unknownReason = ""
					}
					sub := Subject{Kind: kind, Text: f, Tool: j.request.Tool, Aliases: j.request.Aliases,
						Dir: a.Write && len(c.Words[0].Values) == 1 && c.Words[0].Values[0] == "mkdir"}
					// A rename puts another file in the place of a protected one: writing it is not enough.
					moves := path.Base(program) == "mv" || c.Git && c.Subcommand > 0 && c.Words[c.Subcommand].Is("mv")
					sub.Replace = a.Write && moves && j.paths.protected(n) != ""
					if a.Write && !sub.Replace {
						sub.Holds = j.holds(path.Base(program), a, n, copied)
					}
					if gone := moves || slices.Contains(removing, path.Base(program)); gone && a.Write && j.confined() &&
						n.unknownReason == "" && KeyFile(path.Base(n.target())) && j.paths.exists(n.target()) {
						j.file(Subject{Kind: KindRead, Text: f, Tool: sub.Tool, Aliases: sub.Aliases}, n, judgedFree, false)
					}
					if kind == KindRead && a.Word != nil && a.Word.Glob && j.closed(n) {
						continue // the command reads those that it may
					}
					if why := j.removes(c, a, n); why != "" {
						if sub.Holds != "" {
							sub.Text = n.target() // the sandbox opens it
						}
						j.add(Judged{Subject: sub, Origin: Builtin, Reason: why}, "")
						continue
					}
					if kind == KindRead && free && allowed == nil && !c.Ends {
						j.endless(sub, n)
					}
					if kind == KindRead && path.Base(program) == "cp" {
						copied = cmp.Or(copied, j.protectedBelow(n, false))
					}
					if a.Write && judgedFree != nil && (allowed == nil && j.confined() && !j.paths.inside(n) || j.shut(sub, n)) {
						j.outerFile(sub, path.Base(program), n, c, i)
						continue
					}
					// The sandbox needs those that are not quiet.
					quiet := (allowed != nil && !a.Write || allowed == nil && !free) && !sub.Replace && sub.Holds == ""
					j.file(sub, n, judgedFree, quiet)
					if (a.Tree || a.Word != nil && a.Word.Glob && strings.Contains(v, "**")) && kind == KindRead {
						j.below(sub, n)
					}
					if a.Follow && kind == KindRead {
						j.throughLinks(sub, n, a.Tree, allowed != nil)
					}
				}
			}
		}
	}
	if c.Effect != bash.Reads && (j.rules.DenyFiles() || j.rules.asksToRead()) {
		j.ruledWords(c, dirs)
	}
}

// outerFile judges the file outside the workspace that is the k-th of a command and that it writes, where the user is
// asked about the command: who approves it approves what it says that it writes, and the sandbox must open that. A
// directory is opened as a whole only where the command removes or fills it.
func (j *judge) outerFile(s Subject, program string, n pathNames, c *bash.SimpleCommand, k int) {
	all := []pathNames{n}
	if info, err := os.Stat(filepath.FromSlash(n.target())); err == nil && info.IsDir() {
		if into := sources(c, program, k); into != nil {
			all = nil
			for _, name := range into {
				all = append(all, j.paths.name(name, n.target()))
			}
		}
	}
	for _, at := range all {
		if j.contains(at) || strings.HasPrefix(at.target(), "/dev/") || j.paths.sessionOwn(at, KindEdit) {
			j.file(s, at, &Judged{}, true)
		} else {
			j.file(s, at, nil, false)
		}
	}
}

// sources returns the names in a directory of what a command copies or moves there, if the directory is the k-th file
// of the command; nil: it is something else, or they are not known.
func sources(c *bash.SimpleCommand, program string, k int) (names []string) {
	if !slices.Contains([]string{"cp", "mv", "ln", "install", "scp"}, program) || k != len(c.Files)-1 {
		return nil
	}
	for i := range c.Files[:k] {
		if w := c.Files[i].Word; w == nil || w.Glob || w.Values == nil {
			return nil
		}
		for _, v := range c.Files[i].Values() {
			names = append(names, path.Base(v))
		}
	}
	return names
}

// holds returns a protected name in a directory that a program removes or copies; "": there is none. The sandbox does not
// let such a file be removed or made unless the directory is open to the command.
func (j *judge) holds(program string, f *bash.File, n pathNames, copied string) string {
	switch {
	case n.unknownReason != "":
	case program == "rm", program == "find" && f.Tree:
		return j.protectedBelow(n, true)
	case program == "cp" && j.confined() && j.paths.inside(n):
		return copied
	}
	return ""
}

// removing are programs that remove the files they name, or give them other names: they cannot where the sandbox hides
// one that has secrets.
var removing = []string{"rm", "mv", "unlink", "shred"}

// ruledWords judges the words of a command that may do anything with them: none may name a file that a rule denies, and
// one that names a file about which a rule asks before it is read, asks.
func (j *judge) ruledWords(c *bash.SimpleCommand, dirs []string) {
	for i := 1; i < len(c.Words); i++ {
		for _, v := range c.Words[i].Values {
			if c.Git && excludes(v) {
				continue
			}
			for part := range bash.Paths(v) {
				for _, d := range dirs {
					j.ruledWord(part, d)
				}
			}
			if c.Words[i].Glob && j.unconfined() {
				for _, d := range dirs {
					named, err := j.expand(&bash.File{Word: &c.Words[i]}, v, d)
					if err != nil {
						j.incomplete(Subject{Kind: KindRead, Text: v, Tool: j.request.Tool, Aliases: j.request.Aliases}, err)
					}
					for _, name := range named {
						j.ruledWord(name, d)
					}
				}
			}
		}
	}
}

func (j *judge) ruledWord(word, dir string) {
	n := j.paths.name(word, dir)
	for _, kind := range [...]Kind{KindRead, KindEdit} {
		sub := Subject{Kind: kind, Text: n.paths[0], Tool: j.request.Tool, Aliases: j.request.Aliases}
		if r := j.fileRule(j.rules.Deny, sub, n); r != nil && !r.Any {
			j.add(judgedBy(sub, Deny, r), "")
			return
		}
	}
	sub := Subject{Kind: KindRead, Text: n.paths[0], Tool: j.request.Tool, Aliases: j.request.Aliases}
	if r := j.fileRule(j.rules.Ask, sub, n); r != nil && !r.Any {
		j.add(judgedBy(sub, Ask, r), "")
	}
}

// secretWords judges what a rule does not spell out of a command: whatever the program does with its words, one
// that names a secret, or a file in a git directory, needs approval. spelled is the number of words that the rule
// spells out.
func (j *judge) secretWords(c *bash.SimpleCommand, dirs []string, spelled int) {
	for i := max(spelled, 1); i < len(c.Words); i++ {
		w := &c.Words[i]
		if slices.ContainsFunc(c.Files, func(f bash.File) bool { return f.Word == w && f.Text == "" && f.Write && !f.Both }) {
			continue // judged as a file that is written
		}
		for _, v := range w.Values {
			for _, dir := range dirs {
				for name := range bash.Paths(v) {
					j.secretWord(c, name, dir)
				}
				if w.Glob {
					named, err := j.expand(&bash.File{Word: w}, v, dir)
					if err != nil {
						j.incomplete(Subject{Kind: KindRead, Text: v, Tool: j.request.Tool, Aliases: j.request.Aliases}, err)
					}
					for _, name := range named {
						j.secretWord(c, name, dir)
					}
				}
			}
		}
	}
}

// secretWord judges a file that a command's words may name.
func (j *judge) secretWord(c *bash.SimpleCommand, name, dir string) {
	n, why := j.paths.secretWord(name, dir)
	// what git does in its directory is judged elsewhere
	if why == "" || c.Git && strings.HasPrefix(why, ReasonProtected) {
		return
	}
	sub := Subject{Kind: KindRead, Text: n.paths[0], Tool: j.request.Tool, Aliases: j.request.Aliases}
	if j.spelledOut(sub, n) {
		return
	}
	rule := ""
	if len(n.paths) == 1 {
		rule = string(KindRead) + "(/" + escapeGlob(n.paths[0]) + ")"
	}
	j.add(Judged{Subject: sub, Origin: Builtin, Reason: why}, rule)
}
