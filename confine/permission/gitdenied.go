package permission

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Git commands and the files that deny rules cover. Git does not know that the sandbox closes a file: it takes a hidden
// one for a changed one. So what would record, replace or remove one is refused before it starts.

// deniedWrites judges the files that a git subcommand would write.
func (j *judge) deniedWrites(written []gitFile, sub string) {
	if !j.rules.DenyFiles() {
		return
	}
	for _, f := range written {
		j.deniedGitFile(f, "git "+sub+" may write it")
	}
}

// deniedTouch judges the files that a git command in a directory would record or compare although the sandbox closes
// them. words are its subcommand and arguments.
func (j *judge) deniedTouch(dir string, words []string) {
	if j.denied == nil || len(j.denied.Rules) == 0 {
		return
	}
	for _, hidden := range []bool{true, false} {
		touched := j.paths.Git.inWorktree(j.paths.ctx, filepath.FromSlash(dir), func(t *worktree) {
			t.touch(words[0], words[1:], hidden)
		})
		for _, f := range touched {
			n := j.paths.name(strings.TrimSuffix(f.top, "/")+f.name, "")
			if j.denied.Covers(n.target(), hidden) != "" {
				j.deniedGitFile(f, "git "+words[0]+" would include it, and the sandbox closes it to commands; "+
					"name other files, or leave it out with ':!"+f.name[1:]+"'")
			}
		}
	}
}

// deniedGitFile denies a file if a rule does.
func (j *judge) deniedGitFile(f gitFile, why string) {
	n := j.paths.name(strings.TrimSuffix(f.top, "/")+f.name, "")
	sub := Subject{Kind: KindEdit, Text: n.paths[0], Tool: j.request.Tool, Aliases: j.request.Aliases}
	covered := ""
	if j.denied != nil {
		covered = j.denied.Covers(n.target(), false)
	}
	for i := range j.rules.Deny {
		r := &j.rules.Deny[i]
		read, edit := r.deniesFiles()
		if (read || edit) && (j.matchAny(r, n) || r.String() == covered) {
			x := judgedBy(sub, Deny, r)
			x.Reason = why
			j.add(x, "")
			return
		}
	}
}

// withoutExcluded is specs for a list in which some may exclude files. The empty list means all files.
func (t *worktree) withoutExcluded(words []string) []string {
	var named, excluded []string
	rel, err := filepath.Rel(t.top, t.dir)
	for _, w := range words {
		name, ok := strings.CutPrefix(w, ":(exclude)")
		for _, prefix := range []string{":!", ":^"} {
			if !ok {
				name, ok = strings.CutPrefix(w, prefix)
			}
		}
		switch {
		case !ok:
			named = append(named, w)
		case err != nil || name == "" || name[0] == ':' || name[0] == '(':
			return nil
		case name[0] == '/':
			excluded = append(excluded, ":!"+name[1:])
		default:
			excluded = append(excluded, ":!"+path.Join(filepath.ToSlash(rel), name))
		}
	}
	specs := []string{"--", "."}
	if len(named) > 0 {
		if specs = t.specs(named); specs == nil {
			return nil
		}
	}
	return append(specs, excluded...)
}

// touch adds the files that a command records, or whose state in the work tree it looks at: all of them, or only those
// that have changed since the last commit.
func (t *worktree) touch(sub string, args []string, all bool) {
	ops, after, options := operands(args, sub)
	has := func(names ...string) bool {
		return slices.ContainsFunc(options, func(o string) bool {
			name, _, _ := strings.Cut(o, "=")
			return slices.Contains(names, name)
		})
	}
	files := slices.Concat(ops, after)
	from := func(first ...string) bool { // the first operand is one of these
		return len(ops) > 0 && slices.Contains(first, ops[0])
	}
	untracked, whole := false, false
	switch sub {
	case "add", "stage":
		untracked, whole = !has("-u", "--update"), has("-A", "--all", "--no-ignore-removal", "-u", "--update", "-p", "--patch",
			"-i", "--interactive", "-e", "--edit", "--pathspec-from-file")
	case "commit":
		whole = has("-a", "--all", "-p", "--patch", "--interactive", "--pathspec-from-file")
	case "stash":
		switch {
		case from("pop", "apply", "branch", "list", "show", "drop", "clear", "create", "store", "export", "import"):
			return
		case from("push", "save"):
			files = slices.Concat(ops[1:], after)
		}
		whole, untracked = len(files) == 0 || from("save"), has("-u", "--include-untracked", "-a", "--all")
	case "checkout", "switch":
		if len(ops) > 0 && t.commit(ops[0]) != "" {
			files = files[1:]
		}
		if sub == "switch" || len(after) == 0 && len(files) == 1 && t.remoteBranch(files[0]) != "" {
			files = nil
		}
		whole = has("-f", "--force", "--discard-changes", "-m", "--merge")
	case "restore":
		if has("--staged", "-S") && !has("--worktree", "-W") {
			return
		}
	case "reset":
		files, whole = nil, has("--hard", "--merge", "--keep")
	case "rebase":
		files, whole = nil, true
	case "pull":
		files, whole = nil, has("-r", "--rebase", "--autostash")
	case "rm", "mv", "update-index":
		whole = has("--pathspec-from-file", "--again", "-g", "--really-refresh", "--stdin")
	case "checkout-index":
		whole = has("-a", "--all", "--stdin")
	case "read-tree":
		files, whole = nil, has("-u", "--reset")
	default:
		return
	}
	if len(files) == 0 && !whole {
		return
	}
	if whole && sub == "checkout" {
		files = nil
	}
	specs := t.withoutExcluded(files)
	if !all {
		t.diff(append([]string{"HEAD"}, specs...)...)
		return
	}
	t.collect(t.run(append([]string{"ls-files", "-z"}, specs...)...))
	if untracked {
		t.collect(t.run(append([]string{"ls-files", "-z", "--others", "--exclude-standard"}, specs...)...))
	}
}
