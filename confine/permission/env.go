package permission

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// CleanPath removes the entries of a PATH that are relative, empty or inside one of dirs, so that a
// command name cannot resolve to a program of the workspace. Links are followed in the entries and
// in dirs. The verdict on a command is valid only if it runs with the returned PATH.
func CleanPath(list string, dirs ...string) (clean string, dropped []string) {
	p := PathContext{Roots: dirs}
	var kept []string
	for _, entry := range filepath.SplitList(list) {
		if entry == "" || !filepath.IsAbs(entry) {
			dropped = append(dropped, entry)
			continue
		}
		in := false
		n := p.name(entry, "")
		for _, s := range n.paths {
			for _, root := range p.roots() {
				in = in || subpath.Contains(root, s)
			}
		}
		if in || n.unknownReason != "" {
			dropped = append(dropped, entry)
			continue
		}
		kept = append(kept, entry)
	}
	return strings.Join(kept, string(filepath.ListSeparator)), dropped
}

// plainDiff replaces the diff program that a repository configures with a plain
// diff, because git does not accept an empty name.
const plainDiff = `f() { diff -u --label "a/$1" --label "b/$1" "$2" "$5"; :; }; f`

// gitOverrides lists the settings that name a program, in lower case and without their middle part, and the harmless
// value that replaces each.
var gitOverrides = [...]struct {
	keys      string // separated by spaces; with a final "*": all keys with this beginning
	value     string
	unguarded bool // it cannot be overridden
}{
	{keys: "core.sshcommand", value: "ssh"},
	{keys: "core.editor sequence.editor core.askpass", value: ":"},
	{keys: "core.alternaterefscommand gpg.program gpg.defaultkeycommand tar.command hook.command merge.driver " +
		"browser.cmd browser.path man.cmd man.path guitool.cmd difftool.cmd difftool.path mergetool.cmd mergetool.path " +
		"imap.tunnel pager.*", value: "false"},
	// Of several values, git uses the first; ours would be the last.
	{keys: "core.gitproxy remote.vcs remote.uploadpack remote.receivepack", unguarded: true},
	{keys: "diff.external diff.command", value: plainDiff},
	{keys: "diff.textconv interactive.difffilter", value: "cat"},
	{keys: "filter.clean filter.smudge filter.process credential.helper trailer.command trailer.cmd", value: ""},
	{keys: "submodule.update", value: "checkout"},
}

// gitOverride returns a harmless value for a setting that names a program. known is false for all
// other settings; guarded is false if the setting cannot be overridden. key is in lower case except
// for its middle part.
func gitOverride(key string) (value string, known, guarded bool) {
	short := key + "." + key
	if first, rest, ok := strings.Cut(key, "."); ok {
		short = first + "." + rest[strings.LastIndexByte(rest, '.')+1:]
	}
	for _, o := range gitOverrides {
		for entry := range strings.FieldsSeq(o.keys) {
			prefix, open := strings.CutSuffix(entry, "*")
			if short == entry || open && strings.HasPrefix(short, prefix) {
				return o.value, true, !o.unguarded
			}
		}
	}
	return "", false, false
}

// gitFileSettings are settings that name a file that reading commands read, in lower case and without their
// middle part.
const gitFileSettings = "blame.ignorerevsfile core.attributesfile core.excludesfile mailmap.file diff.orderfile " +
	"include.path includeif.path gpg.allowedsignersfile gpg.revocationfile fsck.skiplist"

// gitNamesFile reports whether a setting makes git's reading commands read a file that it names, or
// check signatures. key is as for gitOverride.
func gitNamesFile(key, value string) bool {
	section, rest, _ := strings.Cut(key, ".")
	short := section + "." + rest[strings.LastIndexByte(rest, '.')+1:]
	if short == "format.pretty" || section == "pretty" {
		return strings.Contains(value, "G") || strings.Contains(value, "signature")
	}
	return slices.Contains(strings.Fields(gitFileSettings), short)
}
