package bash

import "strings"

// git judges a git command. Its options before the subcommand can run any
// program, an unknown subcommand is an alias of the repository's configuration
// or a program, and many subcommands have options that run what they are given.
func (a *analysis) git(c *Command) {
	c.Git = true
	words := c.Words
	dangerous := func(i int, why string) { c.Danger = append(c.Danger, Danger{Word: i, Reason: why}) }
	i := 1
	for ; i < len(words); i++ {
		v, ok := words[i].Value()
		if !ok || len(v) < 2 || v[0] != '-' {
			break
		}
		switch {
		case v == "--no-pager" || v == "-P" || v == "--no-optional-locks" || v == "--literal-pathspecs" || v == "--no-replace-objects":
			continue
		case v == "--version":
			if len(words) == 2 {
				c.Effect, c.Git = Reads, false
			}
			return
		case v == "-c" || v == "--config-env" || v == "--exec-path" || v == "--git-dir" || v == "--work-tree" || v == "-C" || v == "--namespace" || v == "--attr-source" || v == "--super-prefix":
			dangerous(i, "git "+v+" can make git run another program or read another configuration")
			if v != "--exec-path" {
				i++
				if i < len(words) {
					dangerous(i, "git "+v)
				}
			}
		default:
			dangerous(i, "git "+v+" stands before the subcommand")
		}
	}
	c.Subcommand = min(i, len(words))
	if i >= len(words) {
		return
	}
	sub, ok := words[i].Value()
	if !ok {
		dangerous(i, "git's subcommand is not known before it runs")
		return
	}
	if !gitBuiltin(sub) {
		dangerous(i, "git "+sub+" is an alias of the repository or a program")
		return
	}
	rest := words[i+1:]
	at := i + 1
	for k := range rest {
		v, ok := rest[k].Value()
		if !ok {
			continue
		}
		if strings.Contains(v, "ext::") || strings.HasPrefix(v, "fd::") {
			dangerous(at+k, "an ext:: address is a command")
		}
		if v == "--help" {
			dangerous(at+k, "git "+sub+" --help starts the program for manuals that the configuration names")
		}
		if checksSignature(v) {
			dangerous(at+k, "this format starts gpg to check signatures")
		}
		flag, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(flag, "--") || len(flag) < 4 {
			continue
		}
		for _, l := range [...]string{"--exec", "--upload-pack", "--receive-pack", "--ext-diff", "--textconv", "--open-files-in-pager", "--output", "--template", "--extcmd", "--filters", "--tool", "--gpg-sign", "--show-signature", "--config", "--sendmail-cmd", "--smtp-server", "--to-cmd", "--cc-cmd", "--separate-git-dir", "--reference", "--recurse-submodules", "--index-filter", "--contents"} {
			if flag == l || strings.HasPrefix(l, flag) && len(flag) > 4 && flag != "--ext" && flag != "--out" || l == "--output" && strings.HasPrefix(flag, "--output") && flag != "--output-indicator-new" && flag != "--output-indicator-old" && flag != "--output-indicator-context" {
				if (l == "--recurse-submodules" || l == "--gpg-sign" || l == "--show-signature") && sub != "log" && sub != "show" && sub != "status" && sub != "diff" && sub != "grep" && sub != "ls-files" {
					continue
				}
				if sub == "reset" || sub == "remote" && l == "--tool" {
					continue
				}
				dangerous(at+k, "git "+sub+" "+flag+" can run a program or write a file")
				break
			}
		}
	}
	has := func(exact string, short byte) {
		for k := range rest {
			v, ok := rest[k].Value()
			if !ok {
				continue
			}
			if v == "--" {
				break
			}
			if v == exact || short != 0 && len(v) > 1 && v[0] == '-' && v[1] != '-' && strings.IndexByte(v, short) > 0 {
				dangerous(at+k, "git "+sub+" "+v+" can run a program")
			}
		}
	}
	switch sub {
	case "grep":
		has("", 'O')
	case "rebase":
		has("", 'x')
	case "clone", "fetch", "ls-remote", "pull":
		if sub == "clone" {
			has("-c", 'u')
			has("-c", 0)
		}
	case "difftool", "mergetool", "help":
		dangerous(i, "git "+sub+" runs a program of the configuration")
	case "bisect":
		if len(rest) > 0 && rest[0].Is("run") {
			c.Inner = append(c.Inner, Inner{a.child(append([]Word{}, orEmpty(rest[1:])...), c.At), at + 1})
		} else if len(rest) > 0 && !rest[0].Is("start", "good", "bad", "old", "new", "skip", "log", "reset", "terms", "view", "visualize", "replay", "next", "help") {
			dangerous(at, "its subcommand is not known")
		}
	case "submodule":
		if len(rest) > 0 && !rest[0].Is("status", "add", "init", "deinit", "update", "summary", "sync", "set-url", "set-branch", "absorbgitdirs") {
			dangerous(at, "git submodule foreach runs a command")
			if text, ok := plainJoin(rest[1:]); ok && len(rest) > 1 {
				c.Inner = append(c.Inner, Inner{a.code(strings.TrimPrefix(text, "--recursive ")), -1})
			}
		}
	case "config":
		if !gitReadsConfig(rest) {
			for k := range rest {
				dangerous(at+k, "git config sets what git runs")
			}
		}
	case "filter-branch", "send-email", "instaweb", "daemon", "shell", "credential", "credential-cache", "credential-store", "hook", "maintenance", "p4", "svn", "cvsserver", "gui", "gitk", "citool", "web--browse", "remote-ext", "remote-fd", "upload-pack", "receive-pack", "upload-archive", "http-backend", "fsmonitor--daemon", "interpret-trailers", "for-each-repo", "update-index", "archive", "mailinfo", "fast-import", "fast-export", "quiltimport", "am":
		switch sub {
		case "archive", "am", "update-index", "interpret-trailers":
			for k := range rest {
				if v, ok := rest[k].Value(); ok && (strings.HasPrefix(v, "--exec") || strings.HasPrefix(v, "--remote") || strings.HasPrefix(v, "-o") || v == "-m" || v == "-w" || v == "-i") {
					dangerous(at+k, "git "+sub+" "+v+" can run a program or write a file")
				}
			}
		default:
			dangerous(i, "git "+sub+" can run other programs")
		}
	case "checkout", "restore", "rm", "mv", "clean", "add", "apply":
		for k := range rest {
			if v, ok := rest[k].Value(); ok && !strings.HasPrefix(v, "-") && sub != "add" {
				c.Files = append(c.Files, File{Word: &rest[k], Write: true})
			}
		}
	}
	if len(c.Danger) == 0 {
		if gitReads(sub, rest) {
			c.Effect = Reads
			for k := range rest {
				v, ok := rest[k].Value()
				if ok && strings.HasPrefix(v, "-") {
					continue
				}
				if strings.HasPrefix(v, "/") || strings.HasPrefix(v, "../") || strings.HasPrefix(v, "~") || strings.Contains(v, "/../") || v == ".." {
					c.Files = append(c.Files, File{Word: &rest[k]})
				}
			}
			if sub == "show" || sub == "diff" || sub == "cat-file" || sub == "blame" || sub == "log" {
				for k := range rest { // a file's content by name
					v, ok := rest[k].Value()
					if !ok || strings.HasPrefix(v, "-") {
						continue
					}
					if _, file, has := strings.Cut(v, ":"); has && file != "" {
						c.Files = append(c.Files, File{Word: &rest[k], Text: file})
					} else if sub != "log" {
						c.Files = append(c.Files, File{Word: &rest[k]})
					}
				}
			}
		}
	}
	if len(c.Danger) > 0 {
		c.Effect, c.Reason = Runs, c.Danger[0].Reason
	}
}

// checksSignature reports whether a format of git shows what gpg says of a
// signature: %G? and its like, %(signature).
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

func gitReadsConfig(rest []Word) bool {
	if len(rest) == 0 {
		return false
	}
	if rest[0].Is("--get", "--get-all", "--get-regexp", "--list", "-l", "list", "get") {
		for i := range rest {
			if v, ok := rest[i].Value(); !ok || i > 0 && strings.HasPrefix(v, "-") {
				return false
			}
		}
		return true
	}
	return false
}

// gitReads reports whether a subcommand with these words only reads.
func gitReads(sub string, rest []Word) bool {
	operands, first := 0, ""
	onlyFlags := func(allowed ...string) bool {
		for i := range rest {
			v, ok := rest[i].Value()
			if !ok {
				return false
			}
			if !strings.HasPrefix(v, "-") {
				continue
			}
			flag, _, _ := strings.Cut(v, "=")
			found := false
			for _, s := range allowed {
				found = found || s == flag
			}
			if !found {
				return false
			}
		}
		return true
	}
	for i := range rest {
		if v, ok := rest[i].Value(); !ok || !strings.HasPrefix(v, "-") {
			if operands == 0 {
				first = v
			}
			operands++
		}
	}
	switch sub {
	case "status", "diff", "log", "show", "rev-parse", "ls-files", "ls-tree", "blame", "annotate", "shortlog", "describe", "cat-file", "rev-list", "name-rev", "merge-base", "for-each-ref",
		"show-ref", "whatchanged", "grep", "count-objects", "check-ignore", "diff-tree", "diff-index", "diff-files", "show-branch", "version", "cherry", "range-diff", "verify-pack":
		if sub == "show-ref" || sub == "rev-parse" {
			for i := range rest {
				if rest[i].Is("--parseopt", "--sq-quote") {
					return false
				}
			}
		}
		return true
	case "branch":
		return onlyFlags("-a", "-r", "-v", "-vv", "-l", "--list", "--all", "--remotes", "--verbose", "--show-current", "--merged", "--no-merged", "--contains", "--sort", "--format", "--no-color", "--color", "--column", "--points-at") &&
			(operands == 0 || hasAny(rest, "-l", "--list", "--merged", "--no-merged", "--contains", "--points-at"))
	case "tag":
		return onlyFlags("-l", "--list", "--sort", "--contains", "--points-at", "--merged", "--no-merged", "-n", "--format", "--column", "--color") && (operands == 0 || hasAny(rest, "-l", "--list", "--contains", "--points-at", "--merged", "--no-merged"))
	case "remote":
		return operands == 0 && onlyFlags("-v", "--verbose") || first == "get-url" && onlyFlags("--all", "--push")
	case "stash":
		return first == "list" || first == "show"
	case "reflog":
		return operands == 0 || first == "show"
	case "worktree":
		return first == "list"
	case "config":
		return gitReadsConfig(rest)
	case "symbolic-ref":
		return operands == 1 && onlyFlags("--short", "-q", "--quiet")
	}
	return false
}

func hasAny(words []Word, values ...string) bool {
	for i := range words {
		v, _ := words[i].Value()
		flag, _, _ := strings.Cut(v, "=")
		for _, s := range values {
			if flag == s {
				return true
			}
		}
	}
	return false
}

// gitBuiltin reports whether git has a subcommand of this name, which then no
// alias can replace.
func gitBuiltin(s string) bool {
	switch s {
	case "add", "am", "annotate", "apply", "archive", "bisect", "blame", "branch", "bugreport", "bundle", "cat-file", "check-attr", "check-ignore", "check-mailmap", "check-ref-format", "checkout", "checkout-index", "cherry", "cherry-pick", "clean", "clone", "column", "commit", "commit-graph", "commit-tree", "config", "count-objects", "credential", "credential-cache", "credential-store", "daemon", "describe", "diff", "diff-files", "diff-index", "diff-tree", "difftool", "fast-export", "fast-import", "fetch", "fetch-pack", "filter-branch", "fmt-merge-msg", "for-each-ref", "for-each-repo", "format-patch", "fsck", "gc", "get-tar-commit-id", "grep", "gui", "hash-object", "help", "hook", "http-backend", "index-pack", "init", "init-db", "instaweb", "interpret-trailers", "log", "ls-files", "ls-remote", "ls-tree", "mailinfo", "mailsplit", "maintenance", "merge", "merge-base", "merge-file", "merge-tree", "mergetool", "mktag", "mktree", "mv", "name-rev", "notes", "p4", "pack-objects", "pack-refs", "prune", "pull", "push", "quiltimport", "range-diff", "read-tree", "rebase", "receive-pack", "reflog", "remote", "repack", "replace", "request-pull", "rerere", "reset", "restore", "rev-list", "rev-parse", "revert", "rm", "send-email", "send-pack", "shell", "shortlog", "show", "show-branch", "show-index", "show-ref", "sparse-checkout", "stage", "stash", "status", "stripspace", "submodule", "svn", "switch", "symbolic-ref", "tag", "unpack-file", "unpack-objects", "update-index", "update-ref", "update-server-info", "upload-archive", "upload-pack", "var", "verify-commit", "verify-pack", "verify-tag", "version", "whatchanged", "worktree", "write-tree":
		return true
	}
	return false
}
