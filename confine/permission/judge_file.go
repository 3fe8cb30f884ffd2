package permission

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Files that tools and commands name, and files below directories that commands read.

// path judges a file that a tool names.
func (j *judge) path(s Subject) {
	n := j.paths.name(s.Text, j.paths.Dir)
	if rule := j.paths.border(s.Kind, n); rule != "" {
		j.add(Judged{Subject: s, Verdict: Deny, Rule: rule, Origin: Managed, Reason: ReasonOutside}, "")
		return
	}
	if rule, err := j.linkRule(s.Kind, n); err != nil {
		j.incomplete(s, err)
		return
	} else if rule != "" {
		origin := originOf(rule, j.rules.Deny)
		j.add(Judged{Subject: s, Verdict: Deny, Rule: rule, Origin: origin, Reason: reasonOtherName}, "")
		return
	}
	j.file(s, n, nil, false)
}

// originOf returns whose rule a text is.
func originOf(rule string, all []Rule) Origin {
	for _, r := range all {
		if r.String() == rule {
			return r.Origin
		}
	}
	return ""
}

// linkRule returns the rule that denies a file under another of its names: a hard link has no target, so what else it
// is called is searched for, as the sandbox does for commands. "": none does, or the file has no other name.
func (j *judge) linkRule(kind Kind, n pathNames) (string, error) {
	if j.paths.Resolve != nil || n.unknownReason != "" || !j.rules.DenyFiles() || !hasLinks(n.target()) {
		return "", nil
	}
	d, err := j.rules.DeniedFiles(j.paths.ctx, *j.paths)
	return d.Covers(n.target(), kind == KindRead), err
}

// hasLinks reports whether a file has several names.
func hasLinks(name string) bool {
	info, err := os.Lstat(filepath.FromSlash(name))
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	_, _, links := fileNumbers(info)
	return links > 1
}

// file judges a file by its names. allowed is the verdict of the command that names the file; nil
// if a tool names it. With quiet, an Allow is not recorded.
func (j *judge) file(s Subject, n pathNames, allowed *Judged, quiet bool) {
	p := j.paths
	s.Text = n.paths[0]
	add := func(d Judged, suggestion string) {
		if to := n.target(); to != s.Text {
			d.Target = to
		}
		j.add(d, suggestion)
	}
	if r := j.fileRule(j.rules.Deny, s, n); r != nil {
		add(judgedBy(s, Deny, r), "")
		return
	}
	if r := j.readRule(j.rules.Deny, s, n); r != nil {
		add(judgedBy(s, Deny, r), "")
		return
	}
	if rule := p.border(s.Kind, n); rule != "" && s.Kind == KindRead && n.target() != "/dev/null" {
		add(Judged{Subject: s, Verdict: Ask, Rule: rule, Origin: Managed, Reason: ReasonOutside}, "")
		return
	}
	if j.mode == Plan && s.Kind == KindEdit { // before the ask rules: plan mode never asks to write
		add(Judged{Subject: s, Verdict: Deny, Reason: reasonPlan}, "")
		return
	}
	if r := cmp.Or(j.fileRule(j.rules.Ask, s, n), j.readRule(j.rules.Ask, s, n)); r != nil {
		add(judgedBy(s, Ask, r), "")
		return
	}
	suggestion := func() string {
		if n.unknownReason != "" || len(n.paths) != 1 {
			return ""
		}
		return string(s.Kind) + "(/" + escapeGlob(n.paths[0]) + ")"
	}
	builtin := ""
	if s.Kind == KindEdit {
		if pat := p.protected(n); pat != "" {
			builtin = ReasonProtected + pat
		} else if s.Holds != "" {
			builtin = ReasonProtected + s.Holds + reasonHeld
			if pat := keyFile(path.Base(s.Holds)); pat != "" {
				builtin = ReasonSecret + pat + reasonHeld
			}
		} else if s.Replace { // a new repository, or a file that the sandbox hides
			builtin = reasonReplaced
			if pat := keyFile(path.Base(n.target())); pat != "" {
				builtin = ReasonSecret + pat
			}
		}
	} else if pat := p.secret(n); pat != "" {
		builtin = ReasonSecret + pat
	}
	if n.unknownReason != "" {
		add(Judged{Subject: s, Reason: n.unknownReason}, "")
		return
	}
	if s.Kind == KindEdit && builtin == "" && j.inCheckout(n) && j.namedBy(s, n) == nil {
		add(Judged{Subject: s, Origin: Builtin, Reason: reasonCheckout}, suggestion())
		return
	}
	if builtin != "" && !j.spelledOut(s, n) {
		add(Judged{Subject: s, Origin: Builtin, Reason: builtin}, suggestion())
		return
	}
	shut := j.shut(s, n)
	if r := j.allows(s, n, shut); r != nil {
		if !quiet {
			add(judgedBy(s, Allow, r), "")
		}
		return
	}
	if allowed != nil && !(shut && allowed.Rule != "") {
		if !quiet {
			add(Judged{Subject: s, Verdict: Allow, Rule: allowed.Rule, Origin: allowed.Origin, Reason: reasonNamed}, "")
		}
		return
	}
	if p.sessionOwn(n, s.Kind) {
		if !quiet {
			add(Judged{Subject: s, Verdict: Allow, Origin: Builtin, Reason: reasonSession}, "")
		}
		return
	}
	if p.inside(n) && (s.Kind == KindRead || j.mode == AcceptEdits) {
		if !quiet {
			add(Judged{Subject: s, Verdict: Allow, Origin: Builtin, Reason: reasonInside}, "")
		}
		return
	}
	reason := ReasonNoRule
	if !p.inside(n) {
		reason = ReasonOutside
	}
	add(Judged{Subject: s, Reason: reason}, suggestion())
}

// shut reports whether the sandbox keeps a command from writing a file unless a rule for the file, or an answer, opens
// it: a rule for the command is not enough, because the command would fail.
func (j *judge) shut(s Subject, n pathNames) bool {
	p, to := j.paths, n.target()
	if s.Kind != KindEdit || j.line == nil || !j.confined() || p.inside(n) || p.sessionOwn(n, KindEdit) ||
		n.unknownReason != "" || subpath.Contains("/dev", to) {
		return false
	}
	if (subpath.Contains("/tmp", to) || subpath.Contains("/var/tmp", to)) &&
		!(p.Home != "" && subpath.Contains(filepath.ToSlash(p.Home), to)) {
		return p.Temp != "" // otherwise each command has its own
	}
	return p.Open == nil || !p.Open(to)
}

// OpensOutside reports whether a verdict allows a command to write a file by a personal rule for files: then the
// sandbox opens what the words of the command name.
func (x *Judged) OpensOutside() bool {
	r, err := ParseRule(x.Rule, x.Origin)
	return err == nil && x.Kind == KindEdit && x.Verdict == Allow && x.Origin.personal() && r.isForFiles()
}

// endless asks about reading a file that may have no end, because it is a device, a pipe or a socket,
// unless a rule allows reading it.
func (j *judge) endless(s Subject, n pathNames) {
	s.Text = n.target()
	if j.paths.Resolve != nil || n.unknownReason != "" || s.Text == "/dev/null" {
		return
	}
	info, err := os.Stat(filepath.FromSlash(s.Text))
	if err == nil && info.Mode()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0 && j.allows(s, n, false) == nil {
		j.add(Judged{Subject: s, Reason: reasonEndless + s.Text}, "Read(/"+escapeGlob(s.Text)+")")
	}
}

// fileRule returns the first deny or ask rule in list that covers a file.
func (j *judge) fileRule(list []Rule, s Subject, n pathNames) *Rule {
	for i := range list {
		r := &list[i]
		if r.coversTool(&s, true) && (r.Any || j.matchAny(r, n)) {
			return r
		}
	}
	return nil
}

// readRule returns a rule about reading a file that an edit changes, because the result of an edit, even of one that
// fails, quotes the file; nil: there is none, or s is no edit.
func (j *judge) readRule(list []Rule, s Subject, n pathNames) *Rule {
	for i := range list {
		r := &list[i]
		if k, _ := kindOf(r.Tool); s.Kind == KindEdit && k == KindRead && !r.Any && j.matchAny(r, n) {
			return r
		}
	}
	return nil
}

func (j *judge) matchAny(r *Rule, n pathNames) bool {
	for _, s := range append(slices.Clip(n.paths), j.paths.asWritten(n)...) {
		if j.paths.match(r.Pattern, r.Base, s, true) {
			return true
		}
	}
	return false
}

// allows returns a rule that allows a file, with forFiles one for files, not for the command. Each name of the file
// must be allowed by a rule or by the mode; nil if one is not, or if the mode alone allows them all.
func (j *judge) allows(s Subject, n pathNames, forFiles bool) (by *Rule) {
	for _, name := range n.paths {
		one := pathNames{paths: []string{name}}
		var hit *Rule
		for i := range j.rules.Allow {
			r := &j.rules.Allow[i]
			if r.coversTool(&s, false) && !(forFiles && !r.isForFiles()) &&
				(r.Any || j.paths.match(r.Pattern, r.Base, name, false)) {
				hit = r
				break
			}
		}
		if hit == nil && !(j.paths.inside(one) && (s.Kind == KindRead || j.mode == AcceptEdits)) {
			return nil
		}
		if by == nil {
			by = hit
		}
	}
	return by
}

// spelledOut reports whether a personal rule names the path exactly: absolute and without
// wildcards. Such a rule also allows paths that are protected or secret.
func (j *judge) spelledOut(s Subject, n pathNames) bool {
	for i := range j.rules.Allow {
		r := &j.rules.Allow[i]
		if !r.Origin.personal() || r.Any || !strings.HasPrefix(r.Pattern, "//") || !r.coversTool(&s, false) {
			continue
		}
		if len(n.paths) == 1 && plainPattern(r.Pattern) == n.paths[0] {
			return true
		}
	}
	return false
}

// Opens lists the paths that personal rules of a kind (Read or Edit) name exactly: absolute and
// without wildcards. Commands too may use these, even if they are protected or secret.
func (rs Rules) Opens(kind Kind) (paths []string) {
	for i := range rs.Allow {
		r := &rs.Allow[i]
		if !r.Origin.personal() || r.Any || !strings.HasPrefix(r.Pattern, "//") || !r.coversTool(&Subject{Kind: kind},
			false) {
			continue
		}
		if path := plainPattern(r.Pattern); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// plainPattern returns the path of a pattern "//x"; "" if it has wildcards.
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

// below looks for denied files and secrets below a directory that is read recursively. If there are
// too many files to check, approval is needed only if there are deny or ask rules for files: the sandbox
// hides the built-in secrets anyway.
func (j *judge) below(s Subject, n pathNames) {
	const maxFiles = 5000
	list := j.paths.Below
	if list == nil {
		list = j.filesBelow
	}
	files, all := list(filepath.FromSlash(n.paths[len(n.paths)-1]), maxFiles)
	for _, f := range files {
		fn := pathNames{paths: []string{path.Clean(filepath.ToSlash(f))}}
		sub := Subject{Kind: s.Kind, Text: fn.paths[0], Tool: s.Tool, Aliases: s.Aliases}
		if j.closed(fn) {
			continue
		}
		if r := j.fileRule(j.rules.Deny, sub, fn); r != nil {
			j.add(judgedBy(sub, Deny, r), "")
			return
		}
		if r := j.fileRule(j.rules.Ask, sub, fn); r != nil {
			j.add(judgedBy(sub, Ask, r), "")
			return
		}
		if pat := j.paths.secret(fn); pat != "" && !j.spelledOut(sub, fn) {
			j.add(Judged{Subject: sub, Origin: Builtin, Reason: ReasonSecret + pat}, "")
			return
		}
	}
	if !all {
		lists := [][]Rule{j.rules.Ask}
		if j.denied == nil {
			lists = append(lists, j.rules.Deny)
		}
		for _, rules := range lists {
			for i := range rules {
				if r := &rules[i]; r.coversTool(&Subject{Kind: KindRead, Tool: s.Tool, Aliases: s.Aliases}, true) && !r.Any {
					x := judgedBy(s, Ask, r)
					x.Reason = reasonManyFiles
					j.add(x, "")
					return
				}
			}
		}
	}
}

// throughLinks judges a command that follows the links below a directory. The targets must be in
// the workspace, unless a rule allows the command. tree means that the command reads the content of
// the targets, so they are judged as files too.
func (j *judge) throughLinks(s Subject, n pathNames, tree, allowed bool) {
	todo, seen := []string{n.paths[len(n.paths)-1]}, map[string]bool{}
	for len(todo) > 0 {
		dir := todo[0]
		if todo = todo[1:]; seen[dir] {
			continue
		}
		seen[dir] = true
		links, all := j.links(dir)
		for _, link := range links {
			ln := j.paths.name(link, "")
			sub := Subject{Kind: s.Kind, Text: path.Clean(filepath.ToSlash(link)), Tool: s.Tool}
			if ln.unknownReason == "" && !j.paths.inside(ln) && !j.paths.sessionOwn(ln, KindRead) && !allowed {
				j.add(Judged{Subject: sub, Reason: reasonLinkLeaves + ln.paths[len(ln.paths)-1]}, "")
				return
			}
			if before := len(j.out); tree {
				if j.file(sub, ln, &Judged{}, true); len(j.out) > before {
					return
				}
			}
			target := ln.paths[len(ln.paths)-1]
			if info, err := os.Stat(filepath.FromSlash(target)); err == nil && info.IsDir() && !subpath.Contains(dir, target) {
				if tree {
					j.below(sub, pathNames{paths: []string{target}})
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
