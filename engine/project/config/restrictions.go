package config

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
)

//go:embed claude-keys.txt
var claudeKeys string

// effects returns the table of Claude Code's settings by name: the words of their rows. It must not be changed.
var effects = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(claudeKeys) {
		if words := strings.Fields(line); len(words) > 1 && words[0] != "#" {
			all[words[0]] = words[1:]
		}
	}
	return all
})

// mayRestrict reports whether the name of a setting that nobody here knows sounds as if it restricts.
func mayRestrict(name string) bool {
	name = strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	return slices.ContainsFunc([]string{"deny", "denied", "disable", "block", "allowed", "strict", "require"},
		func(word string) bool { return strings.HasPrefix(name, word) })
}

// off reports whether a value means that its key is not set.
func (n *node) off() bool {
	return n.kind == '0' || n.kind == 'b' && !n.yes || n.kind == 's' && n.text == ""
}

// unheld reports a setting of Claude Code that restricts, or may restrict, and is not held here. Where the file is the
// administrator's, Load then fails; where it is the user's, nothing starts before the user has agreed; where it is a
// project's, the file grants nothing.
func (l *loader) unheld(from *layer, name string, m member) {
	if from.silent {
		return // it grants nothing as it is
	}
	row := effects()[name]
	has := func(word string) bool { return slices.Contains(row, word) }
	managed := from.origin == permission.Managed
	switch {
	case has("object"):
		if m.val.kind != 'o' {
			if name != "permissions" && m.val.kind != '0' { // lostRestrictions reports that of permissions
				l.weak(from, m, "%s is %s: nobody knows what it restricts", name, m.val.is())
			}
			return
		}
		for _, inner := range m.val.members {
			key := name + "." + inner.key
			if effects()[name+".*"] != nil {
				key = name + ".*"
			}
			l.unheld(from, key, inner)
		}
	case has("held") || has("managed") && !managed || has("grants") || has("neutral"):
	case has("if-false"):
		if m.val.kind != 'b' || !m.val.yes {
			l.weak(from, m, "%s restricts, and Knack cannot hold it", name)
		}
	case has("restricts"):
		if !m.val.off() {
			l.weak(from, m, "%s restricts, and Knack cannot hold it", name)
		}
	case managed || mayRestrict(name) && !m.val.off():
		l.weak(from, m, "%s is not known to Knack, and may restrict", name)
	}
}

// weak records that a restriction of a file does not hold.
func (l *loader) weak(from *layer, m member, format string, args ...any) {
	line, column := from.place(m.at)
	p := knack.Problem{Code: codeIgnored, Severity: knack.Error, Path: from.path, Line: line, Column: column,
		Message: fmt.Sprintf(format, args...)}
	from.lost = true
	if !from.project {
		l.unread(p)
		return
	}
	p.Severity, p.Message = knack.Warn, p.Message+": this file allows nothing"
	l.problem(p)
}
