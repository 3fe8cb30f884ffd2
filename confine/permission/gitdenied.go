package permission

import (
	"os"
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

// excludes reports whether a word of a git command is a pathspec that leaves files out.
func excludes(word string) bool {
	return strings.HasPrefix(word, ":!") || strings.HasPrefix(word, ":^") || strings.HasPrefix(word, ":(exclude)")
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

// deniedStored denies a git command that prints what git stores of files that rules deny to read: a sandbox closes the
// files, not what git keeps of them. words are its subcommand and arguments, "" for an unknown one.
func (j *judge) deniedStored(dir string, words []string) {
	if !slices.ContainsFunc(j.rules.Deny, func(r Rule) bool { read, _ := r.deniesFiles(); return read }) {
		return
	}
	printed := j.paths.Git.inWorktree(j.paths.ctx, filepath.FromSlash(dir), func(t *worktree) {
		t.print(words[0], words[1:])
	})
	if len(printed) == 0 {
		return
	}
	denied := j.denied
	if denied == nil {
		d, err := j.rules.DeniedFiles(j.paths.ctx, *j.paths)
		if err != nil {
			j.incomplete(Subject{Kind: KindBash, Text: "git " + words[0]}, err)
			return
		}
		denied = &d
	}
	top, err := Resolve(filepath.FromSlash(printed[0].top))
	if err != nil {
		return
	}
	for _, f := range printed {
		name := path.Join(filepath.ToSlash(top), f.name)
		rule := denied.Covers(name, true)
		for i := range j.rules.Deny {
			r := &j.rules.Deny[i]
			if read, _ := r.deniesFiles(); !read || r.String() != rule {
				continue
			}
			x := judgedBy(Subject{Kind: KindRead, Text: name, Tool: j.request.Tool, Aliases: j.request.Aliases}, Deny, r)
			x.Reason = "git " + words[0] + " would print what git stores of it; name other files, or leave it out with " +
				"-- . ':!" + f.name[1:] + "'"
			j.add(x, "")
			return
		}
	}
}

// print adds the files of which a subcommand may print what git stores, as patches or whole: those that are tracked now
// or, of single commits, those that they change.
func (t *worktree) print(sub string, args []string) {
	ops, after, options := operands(args, sub)
	has := func(names ...string) bool {
		return slices.ContainsFunc(options, func(o string) bool { return slices.Contains(names, o) })
	}
	patch := slices.ContainsFunc(options, printsPatch)
	if sub == "grep" && len(ops) > 0 && !has("-e", "-f") {
		ops = ops[1:] // the pattern
	}
	var revs, files []string
	ranges, unclear := false, false // unclear: an object, or not known before it runs
	for _, op := range ops {
		_, err := os.Lstat(filepath.Join(t.dir, op))
		switch {
		case op != "" && err == nil && after == nil:
			files = append(files, op)
		case t.commit(op) != "":
			revs = append(revs, op)
		case strings.Contains(op, "..") || strings.HasPrefix(op, "^"):
			revs, ranges = append(revs, op), true
		default:
			unclear = true
		}
	}
	specs := t.withoutExcluded(slices.Concat(files, after))
	if unclear {
		specs = nil
	}
	tracked := func() { t.collect(t.run(append([]string{"ls-files", "-z"}, specs...)...)) }
	switch sub {
	case "show":
		quiet := has("-s", "--no-patch", "--stat", "--shortstat", "--numstat", "--name-only", "--name-status", "--summary")
		switch {
		case unclear, ranges && (patch || !quiet):
			tracked()
		case patch || !quiet:
			t.log(slices.Concat([]string{"--no-walk"}, revs, specs)...)
		}
	case "diff", "difftool":
		if cached := has("--cached", "--staged"); cached || len(revs) > 0 {
			if cached {
				revs = append([]string{"--cached"}, revs...)
			}
			t.diff(slices.Concat(revs, specs)...)
		} else if unclear && !has("--no-index") {
			tracked()
		}
	case "status", "commit":
		if has("-v", "--verbose") {
			t.diff("--cached")
		}
	case "log", "whatchanged", "reflog", "diff-tree", "diff-index", "stash":
		if patch {
			tracked()
		}
	case "grep":
		if len(revs) > 0 || unclear || has("--cached") {
			tracked()
		}
	case "cat-file":
		if (unclear || len(revs) == 0) && !has("-t", "-s", "-e", "--batch-check") {
			tracked()
		}
	case "archive", "format-patch", "fast-export", "bundle", "range-diff", "merge-tree", "unpack-file":
		tracked()
	}
}

// printsPatch reports whether an option makes git log and its like print patches. Git accepts abbreviations.
func printsPatch(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	switch name {
	case "-p", "-u", "-c", "-U", "-L", "-W", "--cc", "--dd", "--binary", "--remerge-diff":
		return true
	}
	return len(name) > 3 && slices.ContainsFunc([]string{"--patch-with-stat", "--patch-with-raw", "--unified",
		"--function-context", "--word-diff-regex", "--color-words"},
		func(long string) bool { return strings.HasPrefix(long, name) })
}
