package permission

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Which protected files a git command would write in a work tree. Git writes tracked files whatever their names are,
// and a sandbox that stops it in the middle leaves a work tree that the next commit would record as it is. So git is
// asked beforehand which files differ between the commits that the command names, and each protected one of them is
// judged like a file that the command names itself.

// maxProtectedWrites limits the files in one protected directory that are judged one by one. With more, the directory
// is judged instead.
const maxProtectedWrites = 12

// gitWrites judges the protected files that a git command would write, as far as this is known before it runs.
func (j *judge) gitWrites(c *bash.SimpleCommand, dirs []string) {
	p := j.paths
	reads := c.Effect == bash.Reads
	if !c.Git || p.Git == nil || reads && !j.rules.DenyFiles() || c.Subcommand == 0 || c.Subcommand >= len(c.Words) {
		return
	}
	words := make([]string, 0, len(c.Words))
	for i := range c.Words {
		v, _ := c.Words[i].Value() // "": not known before it runs
		if c.Words[i].Tilde {
			v = subpath.Expand(v, p.Home)
		}
		words = append(words, v)
	}
	for k, dir := range dirs {
		for i := 1; i < c.Subcommand-1 && !reads; i++ { // where it reads, dirs are those of -C
			if words[i] == "-C" {
				n := p.name(words[i+1], dir)
				dir = n.target()
			}
		}
		if k == len(dirs)-1 {
			j.deniedStored(dir, words[c.Subcommand:])
		}
		if reads {
			continue
		}
		j.outerDirs(dir, words[c.Subcommand:])
		written := p.Git.written(p.ctx, filepath.FromSlash(dir), words[c.Subcommand:], j.confined())
		j.deniedWrites(written, words[c.Subcommand])
		if k == len(dirs)-1 { // where it runs if each cd before it succeeds; elsewhere the sandbox stops it
			j.deniedTouch(dir, words[c.Subcommand:])
		}
		for _, file := range j.protectedWrites(written) {
			n := p.name(file, "")
			if n.unknownReason != "" || !p.inside(n) && p.needsNoProtection(file, n) {
				continue
			}
			sub := Subject{Kind: KindEdit, Text: file, Tool: j.request.Tool, Aliases: j.request.Aliases, Replace: true}
			j.file(sub, n, nil, false)
			if j.sharesLine(c) && strings.Contains(p.protected(n), "git") && j.spelledOut(sub, n) {
				j.add(Judged{Subject: sub, Origin: Builtin, Reason: reasonWholeLine}, "")
			}
		}
	}
}

// sharesLine reports whether the line of a git command runs other programs, too: what is opened to git is open to them.
func (j *judge) sharesLine(c *bash.SimpleCommand) bool {
	return slices.ContainsFunc(j.line.Commands, func(other *bash.SimpleCommand) bool {
		return other != c && !other.Git && other.Effect != bash.Reads
	})
}

// outerDirs judges the directories outside the workspace that git worktree makes or removes, those of new repositories,
// and those that a push fills: the sandbox must open them.
func (j *judge) outerDirs(dir string, words []string) {
	ops, after, _ := operands(words[1:], words[0])
	if ops = append(ops, after...); !j.confined() {
		return
	}
	var dirs []string
	switch {
	case words[0] == "worktree" && len(ops) > 1 && (ops[0] == "add" || ops[0] == "remove"):
		dirs = ops[1:2]
	case words[0] == "worktree" && len(ops) > 1 && ops[0] == "move":
		dirs = ops[1:]
	case words[0] == "clone" || words[0] == "init" || words[0] == "init-db":
		dirs = []string{repositoryDir(words[0], ops)}
	case words[0] == "push":
		dirs = j.paths.Git.pushed(j.paths.ctx, filepath.FromSlash(dir), ops)
	}
	for _, to := range dirs {
		if n := j.paths.name(to, dir); to != "" && !j.paths.inside(n) {
			j.outerDir(n)
		}
	}
}

// outerDir judges a directory outside the workspace that a command makes or removes.
func (j *judge) outerDir(n pathNames) {
	if n.unknownReason != "" || j.paths.sessionOwn(n, KindEdit) || j.contains(n) {
		return
	}
	s := Subject{Kind: KindEdit, Text: n.target(), Tool: j.request.Tool, Aliases: j.request.Aliases, Dir: true}
	j.file(s, n, nil, false)
}

// contains reports whether the working directory or the home directory is in a directory, or is one: that is never
// opened as a whole.
func (j *judge) contains(n pathNames) bool {
	return slices.ContainsFunc(n.paths, func(p string) bool {
		return subpath.Contains(p, filepath.ToSlash(j.paths.Dir)) ||
			j.paths.Home != "" && subpath.Contains(p, filepath.ToSlash(j.paths.Home))
	})
}

// protectedWrites selects the protected files among those that git would write.
func (j *judge) protectedWrites(written []gitFile) (files []string) {
	more := j.paths.moreProtected()
	byRoot := map[string][]string{}
	for _, f := range written {
		at := ""
		if _, at = protectedNames().In(f.name); at == "" {
			at = protectedBelow(more, f.top, f.name)
		}
		if at == "" && KeyFile(path.Base(f.name)) {
			at = f.name
		}
		if f.whole {
			at = f.name
		}
		if at != "" {
			root := strings.TrimSuffix(f.top, "/") + at
			byRoot[root] = append(byRoot[root], strings.TrimSuffix(f.top, "/")+f.name)
		}
	}
	for _, root := range slices.Sorted(maps.Keys(byRoot)) {
		list := byRoot[root]
		slices.Sort(list)
		edit := Subject{Kind: KindEdit, Tool: j.request.Tool, Aliases: j.request.Aliases}
		if list = slices.Compact(list); len(list) > maxProtectedWrites ||
			j.spelledOut(edit, pathNames{paths: []string{root}}) {
			list = []string{root}
		}
		files = append(files, list...)
	}
	return files
}

// protectedBelow is [PathNames.In] for a file below a directory, whose own path does not count, except for names that
// are a whole path.
func protectedBelow(names PathNames, top, name string) (at string) {
	if _, at = names.In(name); at == "" {
		top = strings.TrimSuffix(top, "/")
		if _, whole := names.In(top + name); len(whole) > len(top) {
			at = whole[len(top):]
		}
	}
	return at
}

// A gitFile is a file that git would write: its name in a work tree, with a slash before it.
type gitFile struct {
	top, name string
	whole     bool // a directory that may get files of any names
}

// written returns the files that a git command in dir would write or remove: words are its subcommand and arguments,
// "" for an unknown one. The list may name more files than the command will write. What git cannot know beforehand,
// such as what a pull will fetch, is missing. confined means that a sandbox closes git's own files: what of these the
// command writes belongs to the list only then.
func (g *Git) written(ctx context.Context, dir string, words []string, confined bool) []gitFile {
	sub, args := words[0], words[1:]
	switch sub {
	case "clone", "init", "init-db":
		return newRepository(dir, sub, args)
	case "config", "remote", "branch":
		if !confined {
			return nil
		}
	case "checkout", "switch", "restore", "merge", "pull", "cherry-pick", "revert", "rebase", "stash", "reset",
		"read-tree", "checkout-index", "apply", "am", "bisect", "rm", "clean", "worktree", "sparse-checkout", "submodule":
	default:
		return nil
	}
	files := g.inWorktree(ctx, dir, func(t *worktree) { t.add(sub, args, confined) })
	if ops, after, _ := operands(args, sub); files == nil && sub == "submodule" && len(ops) > 0 && ops[0] == "add" {
		// The line itself makes the repository, perhaps.
		files = append(newRepository(dir, "clone", append(after, ops[1:]...)), gitFile{top: dir, name: "/.gitmodules"})
	}
	return files
}

// inWorktree returns the files that f collects about the work tree around a directory.
func (g *Git) inWorktree(ctx context.Context, dir string, f func(*worktree)) (files []gitFile) {
	release, err := g.acquire(ctx)
	if err != nil {
		return nil
	}
	defer release()
	top := topOf(dir)
	repos := g.repositories(ctx, top, false)
	if len(repos) == 0 || repos[0].err != nil {
		return nil
	}
	t := g.worktree(ctx, repos[0], dir)
	if t == nil {
		return nil
	}
	f(t)
	for name := range t.names {
		files = append(files, gitFile{top: filepath.ToSlash(top), name: "/" + name})
	}
	return append(files, t.others...)
}

// repositoryDir returns the directory in which clone and init make a repository; "": none.
func repositoryDir(sub string, ops []string) string {
	switch {
	case sub != "clone" && len(ops) > 0:
		return ops[0]
	case sub != "clone":
		return "."
	case len(ops) > 1:
		return ops[1]
	case len(ops) == 1:
		url := strings.TrimSuffix(strings.TrimRight(ops[0], "/"), "/.git")
		return strings.TrimSuffix(url[strings.LastIndexAny(url, "/:")+1:], ".git")
	}
	return ""
}

// pushed returns the directories that a push to a repository of this machine fills. Its configuration and its hooks lie
// beside them and stay closed, and so does the lock of HEAD, which git needs for the branch that HEAD names: nobody is
// asked about such a push, because no answer makes it work.
func (g *Git) pushed(ctx context.Context, dir string, ops []string) (dirs []string) {
	remote := ""
	if len(ops) > 0 {
		remote = ops[0]
	}
	g.inWorktree(ctx, dir, func(t *worktree) {
		for _, url := range t.pushURLs(remote) {
			at := strings.TrimPrefix(url, "file://")
			if head, _, ok := strings.Cut(at, ":"); ok && !strings.Contains(head, "/") || strings.Contains(at, "://") {
				continue // it is on a host
			}
			if at = filepath.FromSlash(at); !filepath.IsAbs(at) {
				at = filepath.Join(t.top, at) // where git is when it pushes
			}
			for _, name := range []string{at + "/.git", at, at + ".git"} {
				if info, err := os.Stat(name + "/objects"); err == nil && info.IsDir() {
					if t.pushesHead(name, ops) {
						break
					}
					name = filepath.ToSlash(filepath.Clean(name))
					dirs = append(dirs, name+"/objects", name+"/refs")
					break
				}
			}
		}
	})
	return dirs
}

// pushesHead reports whether a push may change the branch that HEAD of a repository names. ops are the remote and the
// refs that are pushed.
func (t *worktree) pushesHead(repository string, ops []string) bool {
	data, err := regular.Read(filepath.Join(repository, "HEAD"), 1<<10)
	if err != nil {
		return true
	}
	ref, _ := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: ")
	if len(ops) < 2 {
		ops = []string{"", "HEAD"} // or what a setting says
	}
	for _, spec := range ops[1:] {
		from, to, named := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
		if to = cmp.Or(to, from); to == "HEAD" && !named {
			out, _ := t.run("symbolic-ref", "-q", "HEAD")
			to = strings.TrimSpace(out)
		}
		if to == "" || strings.Contains(to, "*") || to == ref || "refs/heads/"+to == ref {
			return true
		}
	}
	return false
}

// pushURLs returns the addresses to which a push to a remote goes; "" is the one that git chooses.
func (t *worktree) pushURLs(remote string) []string {
	if remote == "" {
		out, _ := t.run("for-each-ref", "--format=%(HEAD)%(push:remotename)", "refs/heads")
		for line := range strings.Lines(out) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "*"); ok {
				remote = name
			}
		}
		remote = cmp.Or(remote, "origin")
	}
	if strings.HasPrefix(remote, "-") {
		return nil
	}
	if out, ok := t.run("remote", "get-url", "--push", "--all", remote); ok {
		return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' }) // a path may have spaces
	}
	return []string{remote}
}

// newRepository returns what clone and init create.
func newRepository(dir, sub string, args []string) []gitFile {
	ops, _, _ := operands(args, sub)
	to := repositoryDir(sub, ops)
	if to == "" {
		return nil
	}
	if !bash.IsAbs(to) {
		to = path.Join(filepath.ToSlash(dir), to)
	}
	bare := slices.ContainsFunc(args, func(a string) bool { return a == "--bare" || a == "--mirror" })
	if sub == "clone" || bare {
		return []gitFile{{top: path.Dir(to), name: "/" + path.Base(to), whole: true}}
	}
	if _, err := os.Lstat(filepath.Join(filepath.FromSlash(to), ".git")); err == nil {
		return nil
	}
	return []gitFile{{top: to, name: "/.git"}}
}

// A worktree collects the names that git would write in a work tree.
type worktree struct {
	ctx      context.Context // of the decision
	git      *Git
	repo     *repository
	top, dir string
	config   []string // options that override the repository's configuration
	names    map[string]bool
	others   []gitFile // in other directories
}

// worktree returns the work tree of a repository; nil if git cannot be kept from running programs that its
// configuration names.
func (g *Git) worktree(ctx context.Context, r *repository, dir string) *worktree {
	t := &worktree{ctx: ctx, git: g, repo: r, top: r.top, dir: dir, names: map[string]bool{}}
	for _, s := range r.settings {
		if strings.Contains(s[0], "=") {
			return nil // git has no way to override it for one command
		}
		t.config = append(t.config, "-c", s[0]+"="+s[1])
	}
	return t
}

func (t *worktree) run(args ...string) (string, bool) {
	out, err := t.git.run(t.ctx, t.top, maxIndex, slices.Concat(t.config, args)...)
	return string(out), err == nil
}

// commit resolves a revision; "" if it is none.
func (t *worktree) commit(name string) string {
	if name == "" || strings.HasPrefix(name, "-") && name != "-" {
		return ""
	}
	if name == "-" {
		name = "@{-1}"
	}
	out, _ := t.run("rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	return strings.TrimSpace(out)
}

// remoteBranch finds the branch of a remote from which checkout would create a local one; "" if there is none.
func (t *worktree) remoteBranch(name string) string {
	if strings.ContainsAny(name, "*?[") {
		return ""
	}
	out, _ := t.run("for-each-ref", "--count=1", "--format=%(objectname)", "refs/remotes/*/"+name)
	return strings.TrimSpace(out)
}

func (t *worktree) collect(out string, ok bool) {
	if !ok {
		return
	}
	for name := range strings.SplitSeq(out, "\x00") {
		if name = strings.Trim(name, "\n"); name != "" {
			t.names[name] = true
		}
	}
}

// diff adds the files that differ: with one commit from the work tree, without any between work tree and index.
func (t *worktree) diff(args ...string) {
	t.collect(t.run(slices.Concat([]string{"diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv",
		"--no-relative", "--ignore-submodules=all"}, args)...))
}

// log adds the files that commits change.
func (t *worktree) log(args ...string) {
	t.collect(t.run(slices.Concat([]string{"log", "-m", "--format=", "--name-only", "-z", "--no-renames", "--no-ext-diff",
		"--no-textconv", "--no-show-signature", "--ignore-submodules=all"}, args)...))
}

// merge adds the files that merging a commit would write: those that it changes and that differ here.
func (t *worktree) merge(commit string) {
	if commit == "" {
		return
	}
	was := t.names
	t.names = map[string]bool{}
	t.diff("HEAD..." + commit)
	theirs := t.names
	t.names = map[string]bool{}
	t.diff("HEAD", commit)
	for name := range t.names {
		if theirs[name] {
			was[name] = true
		}
	}
	t.names = was
}

// specs returns pathspecs relative to the top of the work tree, after "--".
func (t *worktree) specs(words []string) []string {
	out := []string{"--"}
	rel, err := filepath.Rel(t.top, t.dir)
	for _, w := range words {
		switch {
		case w == "" || err != nil || strings.HasPrefix(w, ":(") || strings.HasPrefix(w, ":!") || strings.HasPrefix(w, ":^"):
			return nil // all files
		case strings.HasPrefix(w, ":/"), strings.HasPrefix(w, "/"):
			out = append(out, w)
		default:
			out = append(out, path.Join(filepath.ToSlash(rel), w))
		}
	}
	return out
}

// state returns the content of a file of the git directory, such as the commit at which an operation began.
func (t *worktree) state(name string) string {
	text, err := regular.Read(filepath.Join(t.repo.dirs[0], name), 4096)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return t.commit(line)
}

// printsValued are the options of log and its like that take a value.
var printsValued = gitOptions{"nLGSUOl", "--max-count --skip --since --until --after --before --author --committer " +
	"--grep --min-parents --max-parents --output --diff-filter --find-object --date --encoding --glob --exclude --unified"}

type gitOptions struct{ letters, names string }

// gitValued has the options of subcommands that take a value: letters, then names. It may be the next argument.
var gitValued = map[string]gitOptions{
	"clone": {"bocju", "--branch --origin --config --depth --jobs --filter --reference --template --separate-git-dir " +
		"--shallow-since --upload-pack"},
	"init":     {"b", "--template --separate-git-dir --initial-branch --object-format"},
	"init-db":  {"b", "--template --separate-git-dir --initial-branch --object-format"},
	"checkout": {"bB", "--orphan --conflict --pathspec-from-file"},
	"switch":   {"cC", "--create --force-create --orphan --conflict"},
	"restore":  {"s", "--source --conflict --pathspec-from-file"},
	"merge":    {"sXmF", "--strategy --strategy-option --message --file --into-name --cleanup"},
	"pull": {"sXoj", "--strategy --strategy-option --server-option --jobs --depth --deepen --shallow-since " +
		"--shallow-exclude --upload-pack --refmap --negotiation-tip --cleanup"},
	"cherry-pick": {"mX", "--mainline --strategy --strategy-option --cleanup"},
	"revert":      {"mX", "--mainline --strategy --strategy-option --cleanup"},
	"rebase":      {"sXxC", "--onto --strategy --strategy-option --exec --whitespace --empty"},
	"stash":       {"m", "--message --pathspec-from-file"},
	"reset":       {"", "--pathspec-from-file"},
	"apply":       {"pC", "--exclude --include --directory --whitespace --build-fake-ancestor"},
	"am":          {"pC", "--exclude --include --directory --whitespace --patch-format"},
	"rm":          {"", "--pathspec-from-file"},
	"clean":       {"e", "--exclude"},
	"add":         {"", "--chmod --pathspec-from-file"},
	"commit": {"mFcCt", "--message --file --author --date --template --reuse-message --reedit-message --fixup --squash " +
		"--trailer --cleanup --pathspec-from-file"},
	"checkout-index": {"", "--prefix --stage"},
	"update-index":   {"", "--cacheinfo --chmod --index-version"},
	"worktree":       {"bB", "--reason"},
	"log":            printsValued, "show": printsValued, "whatchanged": printsValued, "diff": printsValued,
	"reflog": printsValued, "diff-tree": printsValued, "format-patch": {"nLGSUOlov", "--output-directory --since --until"},
	"archive":   {"o", "--format --prefix --output --remote --exec --add-file --mtime"},
	"grep":      {"efABCmO", "--max-depth --max-count --threads --after-context --before-context --context"},
	"branch":    {"u", "--set-upstream-to --sort --format --points-at"},
	"remote":    {"tm", ""},
	"submodule": {"bj", "--branch --name --reference --depth --jobs --filter"},
}

// operands splits the arguments of a subcommand into the operands before "--", those after it, and the options: each
// letter for itself, and values after "=".
func operands(args []string, sub string) (ops, after, options []string) {
	valued := gitValued[sub]
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := func() string { // the argument after this one
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch {
		case a == "--":
			return ops, args[i+1:], options
		case strings.HasPrefix(a, "--"):
			if slices.Contains(strings.Fields(valued.names), a) {
				a += "=" + next()
			}
			options = append(options, a)
		case len(a) > 1 && a[0] == '-':
			for k := 1; k < len(a); k++ {
				o := "-" + a[k:k+1]
				if !strings.Contains(valued.letters, a[k:k+1]) {
					options = append(options, o)
					continue
				}
				value := a[k+1:]
				if value == "" {
					value = next()
				}
				options = append(options, o+"="+value)
				break
			}
		default:
			ops = append(ops, a)
		}
	}
	return ops, nil, options
}

// gitArgs are the arguments of a subcommand, as git reads them.
type gitArgs struct {
	ops, after, options []string // after: what follows --
}

func (a gitArgs) has(names ...string) bool {
	return slices.ContainsFunc(a.options, func(o string) bool { return slices.Contains(names, o) })
}

// value returns the value of an option; "": it is not given.
func (a gitArgs) value(name string) string {
	for _, o := range a.options {
		if v, ok := strings.CutPrefix(o, name+"="); ok {
			return v
		}
	}
	return ""
}

// first returns the first operand, such as a branch or a subcommand of the subcommand; "": there is none.
func (a gitArgs) first() string {
	if len(a.ops) == 0 {
		return ""
	}
	return a.ops[0]
}

// files returns all operands.
func (a gitArgs) files() []string { return slices.Concat(a.ops, a.after) }

// add adds the files that one subcommand would write.
func (t *worktree) add(sub string, args []string, confined bool) {
	ops, after, options := operands(args, sub)
	a := gitArgs{ops, after, options}
	switch sub {
	case "checkout", "switch":
		t.checkout(sub, a)
	case "restore":
		t.restore(a)
	case "merge":
		t.mergeAll(a)
	case "pull":
		rebases := func(o string) bool { return o == "-r" || strings.HasPrefix(o, "--reb") }
		for _, from := range t.pulled(ops) {
			t.merge(from)
			if from != "" && slices.ContainsFunc(options, rebases) {
				t.log(from + "..HEAD")
			}
		}
	case "cherry-pick", "revert":
		t.pick(a)
	case "rebase":
		t.rebase(ops, a.value("--onto"), a.has("--abort", "--skip", "--continue"))
		if a.has("--autostash") {
			t.diff("HEAD")
		}
	case "stash":
		t.stash(args, ops, after, options)
	case "reset":
		if a.has("--hard", "--merge", "--keep") {
			t.diff(orHead(t.commit(a.first())))
		}
	case "read-tree":
		for _, op := range ops {
			if c := t.commit(op); c != "" && a.has("-u") {
				t.diff(c)
			}
		}
	case "checkout-index":
		t.diff()
	case "rm":
		if !a.has("--cached") {
			t.collect(t.run(append([]string{"ls-files", "-z"}, t.specs(a.files())...)...))
		}
	case "clean":
		list := []string{"ls-files", "-z", "--others"}
		if a.has("-X") {
			list = append(list, "--ignored")
		}
		if !a.has("-x") {
			list = append(list, "--exclude-standard")
		}
		if confined && !a.has("-n", "--dry-run") { // git says what it could not remove, and goes on
			t.collect(t.run(append(list, t.specs(a.files())...)...))
			maps.DeleteFunc(t.names, func(name string, _ bool) bool {
				return slices.ContainsFunc(strings.Split(name, "/"), Unwatched)
			})
		}
	case "apply", "am":
		t.patches(sub, ops, options)
	case "bisect":
		t.bisect(a)
	case "sparse-checkout":
		if a.first() != "list" && a.first() != "" {
			t.collect(t.run("ls-files", "-z"))
			t.ownConfig()
			t.file(filepath.Join(t.repo.dirs[0], "config.worktree"))
		}
	case "config":
		if !a.has("--global", "--system", "--worktree", "-f", "--file", "--blob") && gitSetsConfig(args) {
			t.ownConfig()
		}
	case "remote":
		if slices.Contains([]string{"add", "rename", "remove", "rm", "set-url", "set-branches"}, a.first()) {
			t.ownConfig()
		}
	case "branch":
		// Git writes the configuration anew when a branch of its own goes, moves or is copied, also if it has no section
		// there.
		moves := a.has("-d", "-D", "--delete", "-m", "-M", "--move", "-c", "-C", "--copy") && !a.has("-r", "--remotes")
		if moves || a.value("-u") != "" || a.value("--set-upstream-to") != "" ||
			a.has("--unset-upstream", "--edit-description") {
			t.ownConfig()
		}
	case "submodule":
		t.submodule(a, confined)
	case "worktree":
		switch {
		case a.first() == "add" && len(ops) > 1:
			t.addWorktree(ops[1], append(ops, "HEAD")[2])
		case confined && (a.first() == "remove" || a.first() == "move") && len(ops) > 1:
			t.ownWorktree(ops[1])
		case confined && (a.first() == "prune" || a.first() == "repair"):
			t.file(filepath.Join(t.repo.dirs[1], "worktrees"))
		}
	}
}

// ownConfig adds the configuration of the repository.
func (t *worktree) ownConfig() { t.file(filepath.Join(t.repo.dirs[1], "config")) }

// checkout adds what checkout and switch write: the named files, or those that differ in the other commit.
func (t *worktree) checkout(sub string, a gitArgs) {
	target := t.commit(a.first())
	if target == "" && a.first() != "" && len(a.ops) == 1 {
		target = t.remoteBranch(a.first())
	}
	files := a.files()
	if target != "" {
		files = files[1:]
	}
	switch {
	case a.has("--orphan") && sub == "switch":
		t.collect(t.run("ls-files", "-z"))
	case len(files) > 0 && target != "":
		t.diff(append([]string{target}, t.specs(files)...)...)
	case len(files) > 0 && sub == "checkout":
		t.diff(t.specs(files)...)
	default:
		if target != "" {
			t.diff("HEAD", target)
		}
		if a.has("-f", "--force", "--discard-changes", "-m", "--merge") {
			t.diff(orHead(target))
		}
	}
}

// restore adds the files that are named, as the index or a commit has them.
func (t *worktree) restore(a gitArgs) {
	if a.has("--staged", "-S") && !a.has("--worktree", "-W") {
		return
	}
	source := t.commit(a.value("--source"))
	if source == "" {
		source = t.commit(a.value("-s"))
	}
	files := t.specs(a.files())
	if source != "" {
		files = append([]string{source}, files...)
	}
	t.diff(files...)
}

// mergeAll adds what the merge of each commit writes.
func (t *worktree) mergeAll(a gitArgs) {
	switch {
	case a.has("--abort"):
		t.diff("HEAD")
	case a.has("--continue", "--quit"):
	case len(a.ops) == 0:
		t.merge(t.commit("@{upstream}"))
	}
	for _, op := range a.ops {
		t.merge(t.commit(op))
	}
}

// pick adds what cherry-pick and revert write: the files that the commits changed, and with --continue and the like those
// of the cherry-pick or revert that is not finished.
func (t *worktree) pick(a gitArgs) {
	if a.has("--abort", "--skip", "--continue") {
		t.diff("HEAD")
		if from := t.state("sequencer/head"); from != "" {
			t.diff("HEAD", from)
		}
		t.todo("sequencer/todo")
	}
	for _, op := range a.ops {
		if strings.Contains(op, "..") {
			t.log(op, "--")
		} else if t.commit(op) != "" {
			t.log("--no-walk", op, "--")
		}
	}
}

// bisect adds what each commit that may be next changes, and the one at which it began.
func (t *worktree) bisect(a gitArgs) {
	for _, op := range a.files() {
		if c := t.commit(op); c != "" {
			t.diff("HEAD", c)
		}
	}
	t.log("--bisect", "--")
	if from := t.state("BISECT_START"); from != "" {
		t.diff("HEAD", from)
	}
}

// submodule adds what `git submodule` writes.
func (t *worktree) submodule(a gitArgs, confined bool) {
	switch a.first() {
	case "init", "deinit", "sync", "set-url", "set-branch", "absorbgitdirs":
		if confined {
			t.ownSubmodules(slices.Concat(a.ops[1:], a.after), a.first())
		}
	case "add":
		t.others = append(t.others, newRepository(t.dir, "clone", append(a.after, a.ops[1:]...))...)
		t.names[".gitmodules"] = true
		t.file(filepath.Join(t.repo.dirs[1], "modules"))
		t.ownConfig()
	case "update":
		t.submodules(t.specs(slices.Concat(a.ops[1:], a.after)))
	}
}

// gitSetsConfig reports whether git config, called with these arguments, may change the configuration.
func gitSetsConfig(args []string) bool {
	ops := 0
	for _, a := range args {
		switch a, _, _ := strings.Cut(a, "="); a {
		case "--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color", "--get-colorbool", "--list", "-l":
			return false
		case "--unset", "--unset-all", "--remove-section", "--rename-section", "--add", "--replace-all", "--edit", "-e":
			return true
		default:
			if !strings.HasPrefix(a, "-") {
				ops++
			}
		}
	}
	return ops > 1 && args[0] != "get" && args[0] != "list"
}

// ownSubmodules adds what git submodule does to the configuration and the work trees of submodules.
func (t *worktree) ownSubmodules(names []string, what string) {
	t.file(filepath.Join(t.repo.dirs[1], "config"))
	switch what {
	case "set-url", "set-branch":
		t.names[".gitmodules"] = true
	case "deinit", "absorbgitdirs":
		out, _ := t.run(append([]string{"ls-files", "--stage", "-z"}, t.specs(names)...)...)
		for entry := range strings.SplitSeq(out, "\x00") {
			if name, ok := strings.CutPrefix(entry, "160000 "); ok {
				_, name, _ = strings.Cut(name, "\t")
				t.file(filepath.Join(t.top, filepath.FromSlash(name)))
			}
		}
		fallthrough
	default:
		t.file(filepath.Join(t.repo.dirs[1], "modules"))
	}
}

// ownWorktree adds the files by which a linked work tree and its repository know each other.
func (t *worktree) ownWorktree(name string) {
	if name == "" {
		return
	}
	if !bash.IsAbs(name) {
		name = path.Join(filepath.ToSlash(t.dir), name)
	}
	pointer := filepath.Join(filepath.FromSlash(name), ".git")
	if own, ok := gitfile.Target(pointer); ok && gitfile.IsWorktree(t.repo.dirs[1], own, pointer) {
		t.file(filepath.FromSlash(name)) // whole: what is protected in it goes, too
		t.file(own)
	}
}

// file adds a file or directory of a git directory.
func (t *worktree) file(path string) {
	dir, name := filepath.Split(path)
	t.others = append(t.others, gitFile{top: filepath.ToSlash(filepath.Clean(dir)), name: "/" + name, whole: true})
}

// submodules adds what git submodule update writes: whole submodules that are not here yet, otherwise the files that
// differ from the commit that the index names, and the configuration.
func (t *worktree) submodules(specs []string) {
	out, _ := t.run(append([]string{"ls-files", "--stage", "-z"}, specs...)...)
	for entry := range strings.SplitSeq(out, "\x00") {
		info, name, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(info)
		if len(fields) < 2 || fields[0] != "160000" {
			continue
		}
		top := filepath.Join(t.top, filepath.FromSlash(name))
		inner := t.git.repos[top]
		if inner == nil || inner.err != nil || !slices.Contains(t.repo.nested, top) {
			t.file(top)
			t.file(filepath.Join(t.repo.dirs[1], "modules"))
			t.file(filepath.Join(t.repo.dirs[1], "config"))
			continue
		}
		t.file(filepath.Join(inner.dirs[0], "config"))
		if at := t.git.worktree(t.ctx, inner, top); at != nil {
			at.diff(fields[1])
			for file := range at.names {
				t.others = append(t.others, gitFile{top: filepath.ToSlash(top), name: "/" + file})
			}
		}
	}
}

// pulled returns the commits that git pull would merge, as far as they have been fetched. A pull that the sandbox has
// stopped has fetched what the next one merges.
func (t *worktree) pulled(ops []string) (commits []string) {
	revisions := []string{"@{upstream}"}
	if len(ops) > 1 {
		revisions = nil
		for _, spec := range ops[1:] {
			branch, _, _ := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
			if ops[0] != "." {
				branch = "refs/remotes/" + ops[0] + "/" + strings.TrimPrefix(branch, "refs/heads/")
			}
			revisions = append(revisions, branch)
		}
	}
	for _, revision := range revisions {
		commits = append(commits, cmp.Or(t.commit(revision), t.commit("FETCH_HEAD")))
	}
	return commits
}

func orHead(commit string) string {
	if commit == "" {
		return "HEAD"
	}
	return commit
}

// todo adds the files of the commits that an interrupted operation has still to apply.
func (t *worktree) todo(name string) {
	text, err := regular.Read(filepath.Join(t.repo.dirs[0], name), 1<<20)
	if err != nil {
		return
	}
	args := []string{"--no-walk"}
	for line := range strings.Lines(string(text)) { // pick COMMIT …, fixup -C COMMIT …
		for _, word := range strings.Fields(line)[:min(3, len(strings.Fields(line)))] {
			if len(word) >= 4 && strings.Trim(word, "0123456789abcdef") == "" && len(args) < 500 && t.commit(word) != "" {
				args = append(args, word)
			}
		}
	}
	if len(args) > 1 {
		t.log(append(args, "--")...)
	}
}

func (t *worktree) rebase(ops []string, onto string, resumed bool) {
	if resumed {
		t.diff("HEAD")
		for _, dir := range []string{"rebase-merge", "rebase-apply"} {
			if from := t.state(dir + "/orig-head"); from != "" {
				t.diff("HEAD", from)
			}
		}
		t.todo("rebase-merge/git-rebase-todo")
		t.applied()
		return
	}
	upstream, branch := t.commit("@{upstream}"), "HEAD"
	if len(ops) > 0 {
		upstream = t.commit(ops[0])
	}
	if len(ops) > 1 && t.commit(ops[1]) != "" {
		branch = t.commit(ops[1])
		t.diff("HEAD", branch)
	}
	base := upstream
	if onto = t.commit(onto); onto != "" {
		base = onto
	}
	if base != "" {
		t.diff(branch, base)
	}
	if upstream != "" {
		t.log(upstream+".."+branch, "--")
	}
}

func (t *worktree) stash(args, ops, after, options []string) {
	what := ""
	if len(ops) > 0 && len(args) > 0 && args[0] == ops[0] {
		what, ops = ops[0], ops[1:]
	}
	switch what {
	case "pop", "apply", "branch":
		name := "stash@{0}"
		if what == "branch" && len(ops) > 0 {
			ops = ops[1:]
		}
		if len(ops) > 0 {
			name = ops[0]
			if bash.Digits(name) {
				name = "stash@{" + name + "}"
			}
		}
		if t.commit(name) == "" {
			return
		}
		t.diff(name+"^1", name)
		if t.commit(name+"^3") != "" {
			t.collect(t.run("ls-tree", "-r", "-z", "--name-only", name+"^3"))
		}
	case "", "push", "save":
		var files []string
		if what == "push" || len(after) > 0 {
			files = slices.Concat(ops, after)
		}
		specs := t.specs(files)
		t.diff(append([]string{"HEAD"}, specs...)...)
		for _, o := range options {
			switch o {
			case "-u", "--include-untracked":
				t.collect(t.run(append([]string{"ls-files", "-z", "--others", "--exclude-standard"}, specs...)...))
			case "-a", "--all":
				t.collect(t.run(append([]string{"ls-files", "-z", "--others"}, specs...)...))
			}
		}
	}
}

// patches adds the files that patches in files change. A patch on standard input is not known.
func (t *worktree) patches(sub string, files, options []string) {
	args := []string{"apply", "--numstat", "-z"}
	for _, o := range options {
		switch {
		case sub == "apply" && slices.Contains([]string{"--check", "--stat", "--numstat", "--summary", "--cached"}, o) &&
			!slices.Contains(options, "--apply"):
			return
		case o == "--abort" || o == "--skip" || o == "--continue" || o == "--resolved" || o == "-r":
			t.diff("HEAD")
			if from := t.commit("ORIG_HEAD"); from != "" && o == "--abort" {
				t.diff("HEAD", from)
			}
			t.applied()
			return
		case strings.HasPrefix(o, "-p=") && bash.Digits(o[3:]):
			args = append(args, "-p"+o[3:])
		case strings.HasPrefix(o, "--directory="), o == "-R", o == "--reverse":
			args = append(args, o)
		}
	}
	for _, f := range files {
		if !filepath.IsAbs(f) {
			f = filepath.Join(t.dir, f)
		}
		t.patch(args, f)
	}
}

// applied adds the files of the patches of an interrupted git am.
func (t *worktree) applied() {
	files, _ := filepath.Glob(filepath.Join(t.repo.dirs[0], "rebase-apply", "[0-9]*"))
	for _, f := range files {
		t.patch([]string{"apply", "--numstat", "-z"}, f)
	}
}

// patch adds the files that one patch changes. Git prints "added TAB removed TAB name NUL", for a renamed file two
// names after an empty one.
func (t *worktree) patch(args []string, file string) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return
	}
	out, ok := t.run(append(args, "--", file)...)
	if !ok {
		return
	}
	rel, _ := filepath.Rel(t.top, t.dir)
	for entry := range strings.SplitSeq(out, "\x00") {
		if i := strings.LastIndexByte(entry, '\t'); i >= 0 {
			entry = entry[i+1:]
		}
		if entry != "" {
			t.names[entry] = true
			t.names[path.Join(filepath.ToSlash(rel), entry)] = true
		}
	}
}

// addWorktree adds the files of a commit, in a new directory.
func (t *worktree) addWorktree(to, commit string) {
	if commit = t.commit(commit); commit == "" || to == "" {
		return
	}
	if !bash.IsAbs(to) {
		to = path.Join(filepath.ToSlash(t.dir), to)
	}
	out, ok := t.run("ls-tree", "-r", "-z", "--name-only", commit)
	if !ok {
		return
	}
	for name := range strings.SplitSeq(out, "\x00") {
		if name != "" {
			t.others = append(t.others, gitFile{top: to, name: "/" + name})
		}
	}
}
