package permission

import (
	"path"
	"strings"
	"sync"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
)

// Commands and the files that deny rules cover. A complete sandbox closes these files, so only words that name one of
// them matter. Without it a word that is not known may name one, too.

// confined reports whether a complete sandbox closes files that rules deny.
func (j *judge) confined() bool {
	return j.paths.Resolve == nil && j.paths.Confined != nil && j.paths.Confined()
}

// unconfined reports whether a rule denies particular files and no sandbox closes them.
func (j *judge) unconfined() bool { return j.rules.DenyFiles() && !j.confined() }

// closeFiles finds out which files the sandbox will close to a command line. Where it cannot close them, the line needs
// approval.
func (j *judge) closeFiles(s Subject) {
	if !j.rules.DenyFiles() || !j.confined() {
		return
	}
	d, err := j.rules.DeniedFiles(j.paths.ctx, *j.paths)
	if err != nil {
		j.incomplete(s, err)
		return
	}
	j.denied = &d
}

// closed reports whether the sandbox keeps commands from reading a file.
func (j *judge) closed(n pathNames) bool {
	return j.denied != nil && n.unknownReason == "" && j.denied.Covers(n.target(), true) != ""
}

// unknownFiles asks about a command that may open a file that is not known before it runs, if no sandbox closes what
// rules deny. inKnown means that it runs in a known directory.
func (j *judge) unknownFiles(c *bash.SimpleCommand, inKnown bool) {
	if !j.unconfined() {
		return
	}
	name, named := c.Words[0].Value()
	if named && opensNothing()[path.Base(name)] {
		return
	}
	for i := range c.Words {
		w := &c.Words[i]
		relative := func(v string) bool { return !bash.IsAbs(v) && !strings.HasPrefix(v, "-") }
		unknown := w.Values == nil && !w.Ref
		for _, v := range w.Values {
			unknown = unknown || !inKnown && i > 0 && relative(v) && v != ""
		}
		if unknown {
			j.unclear = true
			j.noRuleCanAllow(Subject{Kind: KindBash, Text: c.Text}, reasonUnknownFile+w.Text)
			return
		}
	}
}

// opensNothing are programs that open no file that their words name.
var opensNothing = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(`: [ alias basename bg break cd chdir continue declare dirname echo exit
		export expr factor false fg getopts hash hostname id jobs kill let local logname nproc numfmt popd printenv printf
		pushd pwd read readonly return seq set shift sleep test times tput tr true tty type typeset ulimit umask
		unalias uname unset wait which whoami yes`) {
		all[name] = true
	}
	return all
})
