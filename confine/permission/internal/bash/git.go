package bash

import (
	"slices"
	"strings"
)

// git determines what a git command does. Options before the subcommand can run any program; an
// unknown subcommand is an alias in the repository's configuration or a program; and many
// subcommands have options that run a program.
func (a *analysis) git(c *SimpleCommand) {
	c.Git = true
	i, done := gitGlobals(c)
	c.Subcommand = min(i, len(c.Words))
	if done || i >= len(c.Words) {
		return
	}
	sub, ok := c.Words[i].Value()
	switch {
	case !ok:
		c.danger(i, "git's subcommand is not known before it runs")
		return
	case !gitBuiltin(sub):
		c.danger(i, "git "+sub+" is an alias of the repository or a program")
		return
	}
	gitOptions(c, sub, i)
	a.gitSubcommand(c, sub, i)
	c.GitReads = gitReads(sub, c.Words[i+1:])
	if c.GitReads && len(c.Danger) == 2*len(c.Enters) {
		gitFiles(c, sub, c.Words[i+1:])
	} else {
		c.Enters = nil
	}
	if c.GitReads && len(c.Danger) == 0 {
		c.Effect = Reads
	}
	if len(c.Danger) > 0 {
		c.Effect, c.Reason = Runs, c.Danger[0].Reason
	}
}

// danger records a word that a rule must spell out.
func (c *SimpleCommand) danger(word int, reason string) {
	c.Danger = append(c.Danger, Danger{Word: word, Reason: reason})
}

const (
	gitPlainGlobals  = "--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects"
	gitValuedGlobals = "-c --config-env --git-dir --work-tree -C --namespace --attr-source --super-prefix"
)

// gitGlobals processes the options before the subcommand and returns the subcommand's index. done
// means that nothing else needs to be checked.
func gitGlobals(c *SimpleCommand) (i int, done bool) {
	for i = 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if !ok || len(v) < 2 || v[0] != '-' {
			break
		}
		switch {
		case listed(gitPlainGlobals, v):
		case v == "--version":
			if len(c.Words) == 2 {
				c.Effect, c.Git = Reads, false
			}
			return 0, true
		case listed(gitValuedGlobals, v), v == "--exec-path":
			c.danger(i, "git "+v+" can make git run another program or read another configuration")
			if v != "--exec-path" {
				if i++; i < len(c.Words) {
					c.danger(i, "git "+v)
					if v == "-C" && plainDir(&c.Words[i]) {
						c.Enters = append(c.Enters, &c.Words[i])
					}
				}
			}
		default:
			c.danger(i, "git "+v+" comes before the subcommand")
		}
	}
	return i, false
}

// plainDir reports whether a word is the name of one directory, the same for git as for cd. Git reads there as it does
// after cd: without a question only where the judge sees that it finds the same repository.
func plainDir(w *Word) bool {
	v, ok := w.Value()
	return ok && v != "" && !w.Many && !strings.HasPrefix(v, "-") && !strings.HasPrefix(v, "~")
}

// gitPrograms describes subcommands like programs: with which options they run a program, and what they write.
var gitPrograms = table[program]{names: func(p *program) string { return p.names }, rows: []program{
	{names: "clone", abbrev: true, value: "obj", runs: "-c -u", places: "last"},
	{names: "grep", value: "efABCm", runs: "-O"},
	{names: "rebase", value: "sXC", runs: "-x"},
	{names: "archive", abbrev: true, value: "l", runs: "-o --remote"},
	{names: "send-email", abbrev: true, runs: "--sendmail-cmd --smtp-server --to-cmd --cc-cmd"},
	{names: "difftool mergetool", abbrev: true, runs: "-x --extcmd -t --tool"},
	{names: "blame annotate", abbrev: true, runs: "--contents"},
	{names: "apply am", abbrev: true, runs: "--unsafe-paths", writes: "--directory --build-fake-ancestor"},
	{names: "log show status diff grep ls-files", abbrev: true, runs: "--recurse-submodules --gpg-sign --show-signature"},
	{names: "format-patch bugreport diagnose mailsplit index-pack", abbrev: true, value: "vNns",
		writes: "-o --output-directory"},
	{names: "checkout-index", abbrev: true, writes: "--prefix"},
	{names: "read-tree", abbrev: true, writes: "--index-output"},
	{names: "worktree", first: "add move remove repair", places: "all"},
	{names: "bundle", first: "create", places: "all"},
	{names: "init init-db pack-objects merge-file mv interpret-trailers", places: "all"},
}}

// anySubcommand describes the options of all of them.
var anySubcommand = program{abbrev: true, runs: "--exec --upload-pack --receive-pack --ext-diff --textconv --filters " +
	"--open-files-in-pager --output --template --config --separate-git-dir --reference"}

// gitOptions records the words of a subcommand, which is word at, that run a program or write a file.
func gitOptions(c *SimpleCommand, sub string, at int) {
	for i := at + 1; i < len(c.Words); i++ {
		v, _ := c.Words[i].Value()
		if strings.Contains(v, "ext::") || strings.HasPrefix(v, "fd::") {
			c.danger(i, "an ext:: address is a command")
		}
		if v == "--help" {
			c.danger(i, "git "+sub+" --help starts the program for manuals that the configuration names")
		}
		if checksSignature(v) {
			c.danger(i, "this format starts gpg to check signatures")
		}
	}
	for _, p := range gitPrograms.all(sub) {
		p.record(c, "git "+sub, at, false)
	}
	anySubcommand.record(c, "git "+sub, at, false)
}

// gitRunners are subcommands that run other programs, whatever their arguments are.
const gitRunners = "filter-branch send-email instaweb daemon shell credential credential-cache credential-store " +
	"hook maintenance " +
	"p4 svn cvsserver gui gitk citool web--browse remote-ext remote-fd upload-pack receive-pack upload-archive " +
	"http-backend " +
	"fsmonitor--daemon for-each-repo mailinfo fast-import fast-export quiltimport"

// gitSubcommand records what the arguments of a subcommand run or write.
func (a *analysis) gitSubcommand(c *SimpleCommand, sub string, i int) {
	rest, at := c.Words[i+1:], i+1
	switch {
	case listed(gitRunners, sub):
		c.danger(i, "git "+sub+" can run other programs")
	case listed("difftool mergetool help", sub):
		c.danger(i, "git "+sub+" runs a program of the configuration")
	case sub == "bisect" && len(rest) > 0 && rest[0].Is("run"):
		c.Inner = append(c.Inner, Inner{a.child(append([]Word{}, orEmpty(rest[1:])...), c.At), at + 1})
	case sub == "bisect" && len(rest) > 0 && !rest[0].Is(strings.Fields("start good bad old new skip log reset terms "+
		"view visualize replay next help")...):
		c.danger(at, "its subcommand is not known")
	case sub == "submodule" && len(rest) > 0 && !rest[0].Is(strings.Fields("status add init deinit update summary sync "+
		"set-url set-branch absorbgitdirs")...):
		c.danger(at, "git submodule foreach runs a command")
		if text, ok := plainJoin(rest[1:]); ok && len(rest) > 1 {
			c.Inner = append(c.Inner, Inner{a.code(strings.TrimPrefix(text, "--recursive ")), -1})
		}
	case sub == "config" && !gitReadsConfig(rest):
		for k := range rest {
			c.danger(at+k, "git config sets what git runs")
		}
	case listed("checkout restore rm mv clean apply", sub):
		for k := range rest {
			if v, ok := rest[k].Value(); ok && !strings.HasPrefix(v, "-") {
				c.Files = append(c.Files, File{Word: &rest[k], Write: true, Both: sub == "apply" || sub == "mv"})
			}
		}
	}
}

// gitFiles records the files that a reading subcommand names: those outside the working directory,
// and those whose content it shows.
func gitFiles(c *SimpleCommand, sub string, rest []Word) {
	shows := listed("show diff cat-file blame annotate log grep", sub)
	pattern := sub == "grep" // its first word is a pattern
	for k := range rest {
		v, ok := rest[k].Value()
		if flag, value, has := strings.Cut(v, "="); ok && strings.HasPrefix(v, "-") {
			switch {
			case has && names(flag, "--ignore-revs-file --exclude-from"):
				c.Files = append(c.Files, File{Word: &rest[k], Text: value})
			case sub == "grep" && strings.HasPrefix(v, "-f") && len(v) > 2, sub == "ls-files" && strings.HasPrefix(v, "-X") &&
				len(v) > 2:
				c.Files = append(c.Files, File{Word: &rest[k], Text: v[2:]})
			case k+1 < len(rest) && (sub == "grep" && v == "-f" || sub == "ls-files" && v == "-X" ||
				names(v, "--ignore-revs-file --exclude-from")):
				c.Files = append(c.Files, File{Word: &rest[k+1]})
			}
			continue
		}
		if pattern {
			pattern = false
			continue
		}
		if strings.HasPrefix(v, "/") || strings.HasPrefix(v, "../") || strings.HasPrefix(v, "~") ||
			strings.Contains(v, "/../") || v == ".." {
			c.Files = append(c.Files, File{Word: &rest[k]})
		}
		if !ok || !shows {
			continue
		}
		if _, file, has := strings.Cut(v, ":"); has && file != "" {
			c.Files = append(c.Files, File{Word: &rest[k], Text: file})
		} else if sub != "log" {
			c.Files = append(c.Files, File{Word: &rest[k]})
		}
	}
}

// checksSignature reports whether a git format shows the result of checking a signature with gpg:
// %G? and similar, %(signature).
func checksSignature(format string) bool {
	if strings.Contains(format, "%(signature") {
		return true
	}
	for rest, found := format, true; found; {
		if _, rest, found = strings.Cut(rest, "%"); found {
			rest = strings.TrimLeft(rest, "+- ")
			if len(rest) > 1 && rest[0] == 'G' && strings.IndexByte("?GSKFPT", rest[1]) >= 0 {
				return true
			}
		}
	}
	return false
}

func orEmpty(w []Word) []Word {
	if len(w) == 0 {
		return []Word{unknown("", true)}
	}
	return w
}

// A gitQuery is a form of a git subcommand that only reads.
type gitQuery struct {
	names string // subcommands

	first    string // its first operand is one of these; "": any
	operands int    // its number of operands, if not 0; negative: it has none
	listing  string // options that make operands patterns of what to list; without one, operands are refused
	options  string // the only options with which it reads; "": all but those in except
	except   string // options with which it does something else
}

// Options of branch and tag with which operands do not name what to create.
const gitLists = "-l --list --merged --no-merged --contains --points-at"

var gitQueries = table[gitQuery]{names: func(q *gitQuery) string { return q.names }, rows: []gitQuery{
	{names: "status diff log show ls-files ls-tree blame annotate shortlog describe cat-file rev-list name-rev " +
		"merge-base for-each-ref whatchanged grep count-objects check-ignore diff-tree diff-index diff-files show-branch " +
		"version cherry range-diff verify-pack"},
	{names: "show-ref rev-parse", except: "--parseopt --sq-quote"},
	{names: "branch", listing: gitLists, options: gitLists + " -a -r -v -vv --all --remotes --verbose --show-current " +
		"--sort --format --no-color --color --column"},
	{names: "tag", listing: gitLists, options: gitLists + " --sort -n --format --column --color"},
	{names: "remote", operands: -1, options: "-v --verbose"},
	{names: "remote", first: "get-url", options: "--all --push"},
	{names: "stash", first: "list show"},
	{names: "reflog", operands: -1},
	{names: "reflog", first: "show"},
	{names: "worktree", first: "list"},
	// They run nothing but git, write nothing, and enter only submodules, whose configuration is looked at as for status.
	{names: "fsck", options: "--full --no-full --strict --tags --root --cache --dangling --no-dangling --unreachable " +
		"--reflogs --no-reflogs --connectivity-only --name-objects --verbose -v --progress --no-progress"},
	{names: "submodule", first: "status", options: "--cached --recursive --quiet -q"},
	{names: "submodule", operands: -1, options: "--quiet -q"},
	{names: "notes", first: "list get-ref", options: "-q"},
	{names: "notes", operands: -1, options: "-q"},
	{names: "symbolic-ref", operands: 1, options: "--short -q --quiet"},
}}

// gitReads reports whether a subcommand with these words only reads.
func gitReads(sub string, rest []Word) bool {
	if sub == "config" {
		return gitReadsConfig(rest)
	}
	return slices.ContainsFunc(gitQueries.all(sub), func(q *gitQuery) bool { return q.matches(rest) })
}

func (q *gitQuery) matches(rest []Word) bool {
	operands, first, lists := 0, "", q.listing == ""
	for i := range rest {
		v, ok := rest[i].Value()
		flag, _, _ := strings.Cut(v, "=")
		lists = lists || listed(q.listing, flag)
		switch {
		case !ok && q.options != "":
			return false // it may be another option
		case !ok || !strings.HasPrefix(v, "-"):
			if operands++; operands == 1 {
				first = v
			}
		case q.options != "" && !listed(q.options, flag), listed(q.except, v):
			return false
		}
	}
	return (q.first == "" || listed(q.first, first)) && (q.operands == 0 || operands == max(q.operands, 0)) &&
		(operands == 0 || lists)
}

// gitReadsConfig reports whether git config only reads: this depends on its first word.
func gitReadsConfig(rest []Word) bool {
	if len(rest) == 0 || !rest[0].Is("--get", "--get-all", "--get-regexp", "--list", "-l", "list", "get") {
		return false
	}
	return !slices.ContainsFunc(rest[1:], func(w Word) bool {
		v, ok := w.Value()
		return !ok || strings.HasPrefix(v, "-")
	})
}

// gitBuiltin reports whether s is a subcommand of git itself. Aliases cannot replace these.
func gitBuiltin(s string) bool { return listed(gitSubcommands, s) }

const gitSubcommands = "add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr " +
	"check-ignore " +
	"check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit " +
	"commit-graph commit-tree config count-objects credential credential-cache credential-store daemon " +
	"describe diff diff-files diff-index diff-tree difftool fast-export fast-import fetch fetch-pack " +
	"filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep gui " +
	"hash-object help hook http-backend index-pack init init-db instaweb interpret-trailers log ls-files " +
	"ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-tree mergetool mktag " +
	"mktree mv name-rev notes p4 pack-objects pack-refs prune pull push quiltimport range-diff read-tree " +
	"rebase receive-pack reflog remote repack replace request-pull rerere reset restore rev-list rev-parse " +
	"revert rm send-email send-pack shell shortlog show show-branch show-index show-ref sparse-checkout stage " +
	"stash status stripspace submodule svn switch symbolic-ref tag unpack-file unpack-objects update-index " +
	"update-ref update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag " +
	"version whatchanged worktree write-tree"
