package permission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/git"
	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// A Git determines which programs git would run because of the configuration of the repositories in
// which commands run. It runs git in each repository and in those nested in it, and runs it again
// after a relevant file has changed. It is safe for concurrent use. The zero Git is not usable; use
// [NewGit].
type Git struct {
	// Environ is the environment, as os.Environ returns it, in which git finds the user's own
	// configuration; nil means that of the process. Set it before the first use.
	Environ []string

	listings listings // of directories that are searched for denied files

	dir        string
	minFileAge time.Duration // a younger file may change again without a new change time

	lock    chan struct{}          // contains a token while a call uses what follows
	version string                 // of git; "": not known yet
	repos   map[string]*repository // by the directory that contains .git
	other   []string               // more keys of repos: the directories of earlier calls of Check
}

// NewGit returns a Git for a working directory. It does not run git yet.
func NewGit(dir string) *Git {
	return &Git{dir: dir, minFileAge: minFileAge, lock: make(chan struct{}, 1), repos: map[string]*repository{}}
}

// acquire waits until no other call uses g; the func ends the use.
func (g *Git) acquire(ctx context.Context) (release func(), err error) {
	select {
	case g.lock <- struct{}{}:
		return func() { <-g.lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

const (
	maxRepositories = 64              // a repository and those nested in it
	maxSettings     = 500             // settings that name programs
	maxGitFiles     = 50_000          // in the git directories of a repository, where links out of it are looked for
	maxConfig       = 4 << 20         // bytes of a configuration as git prints it
	maxIndex        = 64 << 20        // bytes of an index as git prints it
	minFileAge      = 2 * time.Second // see Git.minFileAge
	errorAge        = 2 * time.Second // for which an error is kept
	callAge         = time.Second     // for which the start of a command may use what Check learned for it
)

// decisionStart is the key of the time in the context of a decision at which it began.
type decisionStart struct{}

// A repository is what git reported about one repository.
type repository struct {
	top   string
	err   error     // git could not be run
	asked time.Time // when git was last run
	// checked means that git was run by Check, and that no command has started since.
	checked bool

	// What rev-parse and config --list print. They have one state: rev-parse reads core.worktree from the
	// configuration, and the configuration counts only where rev-parse finds it, and can depend on HEAD (includeIf).
	config    watched
	settings  [][2]string // overrides
	unguarded []string    // settings that cannot be overridden
	leads     []string    // what makes reading commands read files that the repository names
	files     [][2]string // overrides of settings that name a file outside the repository, or none that can be read
	named     []string    // files and directories in the work tree that the configuration names
	promisor  bool        // git may fetch missing objects when it reads
	dirs      []string    // its git directories: its own and the common one

	// What ls-files prints.
	index  watched
	nested []string // top directories of the repositories in it
}

// A watched is the files that an answer of git depends on, as they were when git gave it. The zero
// value means that git has not been asked.
type watched struct {
	files   []string
	states  []string // nil: they cannot be described
	settled bool     // every later change to a file changes its state
}

// unchanged reports whether the answer still holds. sameCall means that it was given for the command
// that starts now, or during the decision that is made now: a file may then be young, because a change in between is
// like one just afterwards.
func (w *watched) unchanged(sameCall bool) bool {
	if w.files == nil || !w.settled && !sameCall {
		return false
	}
	states, _ := fileStates(w.files)
	return slices.Equal(w.states, states)
}

// Check inspects the repository that contains dir. unguarded names the settings that make git run a
// program and cannot be overridden. An error means that git could not be run. In both cases git
// commands in dir need approval.
func (g *Git) Check(ctx context.Context, dir string) (unguarded []string, err error) {
	release, err := g.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	top := topOf(dir)
	if top != "" && !slices.Contains(g.other, top) {
		g.other = append(g.other, top)
	}
	for _, r := range g.repositories(ctx, top, false) {
		unguarded = append(unguarded, r.unguarded...)
		err = errors.Join(err, r.err)
	}
	return unguarded, err
}

// untrusted is Check for commands that only read, in a folder that the user does not trust. unguarded
// names also what makes git read files outside it or files that the configuration chooses.
func (g *Git) untrusted(ctx context.Context, dir string, confined func() bool) (unguarded []string, err error) {
	if unguarded, err = g.Check(ctx, dir); len(unguarded) > 0 || err != nil {
		return unguarded, err
	}
	release, err := g.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	top := topOf(dir)
	if top != "" && g.version == "" {
		out, err := g.run(ctx, top, 1<<10, "version")
		if err != nil {
			return nil, err
		}
		g.version = strings.TrimSpace(strings.TrimPrefix(string(out), "git version "))
	}
	if top != "" && oldGit(g.version) {
		unguarded = append(unguarded, "git "+g.version+", which is older than 2.31,")
	}
	for _, r := range g.repositories(ctx, top, false) {
		if unguarded = append(unguarded, r.leads...); r.err == nil {
			unguarded = append(unguarded, g.leadsOut(ctx, r.top, r.dirs)...)
		}
		if r.promisor && (confined == nil || !confined()) {
			unguarded = append(unguarded, "a promisor remote")
		}
		err = errors.Join(err, r.err)
	}
	return unguarded, err
}

// looseObjects reports whether a path in a git directory is a directory of objects.
func looseObjects(rel string) bool {
	ok, _ := filepath.Match("objects/[0-9a-f][0-9a-f]", filepath.ToSlash(rel))
	return ok
}

// oldGit reports whether a version of git cannot override settings by environment variables, or is not known.
func oldGit(version string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 {
		return true
	}
	return major < 2 || major == 2 && minor < 31
}

// tagsLikeOptions reports whether the repository that contains a directory has a tag whose name
// begins with a dash.
func (g *Git) tagsLikeOptions(ctx context.Context, dir string) (bool, error) {
	release, err := g.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	top := topOf(dir)
	for _, r := range g.repositories(ctx, top, false) {
		if r.err != nil {
			return false, r.err
		}
	}
	if top == "" {
		return false, nil
	}
	out, err := g.run(ctx, top, 1<<16, "for-each-ref", "--count=1", "refs/tags/-*", "refs/tags/-*/**")
	return len(out) > 0, err
}

// Dirs returns the git directories of the known repositories.
func (g *Git) Dirs(ctx context.Context) []string {
	release, err := g.acquire(ctx)
	if err != nil {
		return nil
	}
	defer release()
	var dirs []string
	for _, r := range g.knownRepositories(ctx, false) {
		dirs = append(dirs, r.dirs...)
	}
	return dirs
}

// Named returns the files and directories in the work tree of the working directory from which git runs programs or
// reads settings because its configuration names them: core.hooksPath, included files, and the programs of filters,
// drivers and monitors. They are absolute, without links and with slashes.
func (g *Git) Named(ctx context.Context) []string {
	release, err := g.acquire(ctx)
	if err != nil {
		return nil
	}
	defer release()
	var named []string
	for _, r := range g.repositories(ctx, topOf(g.dir), false) {
		named = append(named, r.named...)
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// runs returns what Named returns for one setting. origin is the file that contains it.
func (r *repository) runs(key, value, origin string) (named []string) {
	base, words := r.top, []string{value}
	section, rest, _ := strings.Cut(key, ".")
	_, known, _ := gitOverride(key)
	switch {
	case section == "include" || section == "includeif":
		if base = filepath.Dir(origin); !filepath.IsAbs(base) {
			base = filepath.Join(r.top, base)
		}
	case key == "core.hookspath":
	case known || rest == "fsmonitor":
		words = strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t'\"=;&|()", c) })
	default:
		return nil
	}
	top, err := filepath.EvalSymlinks(r.top)
	if err != nil {
		return nil
	}
	for _, w := range words {
		if w == "" || strings.HasPrefix(w, "~") {
			continue
		}
		path := filepath.FromSlash(w)
		if !filepath.IsAbs(path) {
			path = filepath.Join(base, path)
		}
		if to, err := filepath.EvalSymlinks(path); err == nil {
			path = to
		} else if len(words) > 1 {
			continue // not a file
		}
		if path != top && subpath.Contains(top, path) {
			named = append(named, filepath.ToSlash(path))
		}
	}
	return named
}

// knownRepositories returns the repositories of the working directory and of the directories passed to Check.
func (g *Git) knownRepositories(ctx context.Context, starting bool) []*repository {
	all := g.repositories(ctx, topOf(g.dir), starting)
	for _, top := range g.other {
		for _, r := range g.repositories(ctx, top, starting) {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// Env adds variables to an environment so that git does not run the programs named in the configuration of these
// repositories: hooks, file system monitors, external diffs, text converters, filters, pagers, signing programs,
// editors, helpers. The user's own settings stay effective, except for hooks, monitor and pager, which are disabled.
//
// unguarded names the settings that cannot be overridden, or the reason why git could not be run. If it is not empty,
// git commands need approval ([PathContext].GitEnv false). A program may change the configuration while it runs, which
// g detects.
func (g *Git) Env(environ []string) (env, unguarded []string) {
	set, unguarded, _ := g.overrides(context.Background(), false)
	return git.Env(environ, set), unguarded
}

// overrides returns what Env overrides; files: also settings that name files. The error is about the repository of the
// working directory.
func (g *Git) overrides(ctx context.Context, files bool) (set []git.Setting, unguarded []string, err error) {
	g.lock <- struct{}{}
	defer func() { <-g.lock }()
	set = git.Always()
	seen := map[string]bool{}
	for i, r := range g.knownRepositories(context.WithoutCancel(ctx), true) {
		r.checked = false
		all := r.settings
		if files {
			all = slices.Concat(all, r.files)
		}
		for _, s := range all {
			if !seen[s[0]] {
				seen[s[0]] = true
				set = append(set, s)
			}
		}
		unguarded = append(unguarded, r.unguarded...)
		if r.err != nil {
			unguarded = append(unguarded, r.err.Error())
		}
		if i == 0 {
			err = r.err
		}
	}
	return set, unguarded, err
}

// topOf returns the directory at or above dir that contains .git, "" if none.
func topOf(dir string) string {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if filepath.Dir(d) == d {
			return ""
		}
	}
}

// repositories returns the repository with the given top directory and those nested in it. starting
// means that a command is about to start.
func (g *Git) repositories(ctx context.Context, top string, starting bool) (all []*repository) {
	if top == "" {
		return nil
	}
	todo := []string{top}
	for len(todo) > 0 {
		if len(all) >= maxRepositories {
			return append(all, &repository{err: fmt.Errorf("more than %d nested repositories", maxRepositories)})
		}
		r := g.repos[todo[0]]
		if r == nil {
			r = &repository{top: todo[0]}
			g.repos[todo[0]] = r
		}
		g.update(ctx, r, starting)
		all, todo = append(all, r), append(todo[1:], r.nested...)
	}
	return all
}

// update runs git where a file that its answers depend on may have changed. It sets r.err if that fails.
func (g *Git) update(ctx context.Context, r *repository, starting bool) {
	if r.err != nil && time.Since(r.asked) < errorAge {
		return
	}
	began, deciding := ctx.Value(decisionStart{}).(time.Time)
	sameCall := starting && r.checked && time.Since(r.asked) < callAge || deciding && !r.asked.Before(began)
	failed := r.err != nil
	r.err = nil
	if failed || !r.config.unchanged(sameCall) {
		r.asked, r.checked = time.Now(), !starting
		r.err = g.readConfig(ctx, r)
	}
	if r.err == nil && (failed || !r.index.unchanged(sameCall)) {
		r.asked, r.checked = time.Now(), !starting
		r.err = g.readIndex(ctx, r)
	}
	if ctx.Err() != nil {
		r.asked = time.Time{} // the error says nothing about the repository
	}
	if r.err != nil {
		r.err = fmt.Errorf("git's configuration in %s cannot be read: %w", r.top, r.err)
	}
}

// fileStates describes files so that every change to one changes the result, unless it comes right after changed, when
// the youngest of them changed. states is nil if the files cannot be described.
func fileStates(files []string) (states []string, changed time.Time) {
	states = make([]string, len(files))
	for i, file := range files {
		info, err := os.Lstat(file)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !isNotDir(err) {
				return nil, time.Time{}
			}
			continue
		}
		if isPlaceholder(file, info) {
			continue // as if it did not exist
		}
		state, at, ok := fileState(info)
		changed = later(changed, at)
		if ok && info.Mode()&fs.ModeSymlink != 0 {
			var target string
			if info, err := os.Stat(file); err == nil {
				target, at, ok = fileState(info)
				changed = later(changed, at)
			}
			state += " " + target
		}
		if !ok {
			return nil, time.Time{}
		}
		states[i] = state
	}
	return states, changed
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// isPlaceholder reports whether a file in a git directory says nothing to git, like those that the
// sandbox creates while a command runs: a config.worktree that is a comment, a commondir that names
// its own directory.
func isPlaceholder(file string, info fs.FileInfo) bool {
	name := filepath.Base(file)
	if name != "config.worktree" && name != "commondir" || !info.Mode().IsRegular() || info.Size() > 200 {
		return false
	}
	data, err := regular.Read(file, 200)
	text, ended := strings.CutSuffix(string(data), "\n")
	if err != nil || !ended || strings.Contains(text, "\n") {
		return false
	}
	if name == "commondir" {
		return text != "" && filepath.Clean(text) == "."
	}
	return strings.HasPrefix(text, "#")
}

// watch is called before git is run. The func that it returns, called afterwards, describes the files
// that the answer depends on: the given ones and more. They are settled only if the given ones have not
// changed in between.
func (g *Git) watch(files []string) func(more ...string) watched {
	before, _ := fileStates(files)
	return func(more ...string) watched {
		w := watched{files: append(files, more...)}
		var changed time.Time
		w.states, changed = fileStates(w.files)
		w.settled = w.states != nil && time.Since(changed) >= g.minFileAge &&
			before != nil && slices.Equal(before, w.states[:len(before)])
		return w
	}
}

// readConfig finds the git directories of a repository and reads its configuration.
func (g *Git) readConfig(ctx context.Context, r *repository) error {
	r.config, r.settings, r.unguarded, r.leads, r.named, r.promisor = watched{}, nil, nil, nil, nil, false
	r.files = nil
	// With anything but regular files git would block or never stop reading.
	dot := filepath.Join(r.top, ".git")
	info, err := os.Stat(dot)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		if _, err := regular.Read(dot, 1<<20); err != nil {
			return err
		}
	case isNotRegular(dot, "commondir", "config", "config.worktree", "HEAD", "index"):
		return regular.ErrNotRegular
	}
	out, err := g.run(ctx, r.top, 1<<16, "rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 3 {
		return errors.New("unexpected output of git rev-parse")
	}
	own, common := lines[0], lines[1]
	if !filepath.IsAbs(common) {
		common = filepath.Join(r.top, common)
	}
	dirs := []string{own, filepath.Clean(common)}
	if !slices.Equal(dirs, r.dirs) {
		r.dirs, r.index = dirs, watched{}
	}
	if isNotRegular(own, "commondir", "config.worktree", "HEAD", "index") || isNotRegular(common, "config") {
		return regular.ErrNotRegular
	}
	files := []string{dot, own, common}
	for _, name := range []string{"config", "config.worktree", "commondir", "HEAD"} {
		files = append(files, filepath.Join(own, name))
	}
	for _, name := range []string{"config", "objects", "refs"} { // without the last two it is no repository
		files = append(files, filepath.Join(common, name))
	}
	describe := g.watch(files)
	included, err := g.settings(ctx, r)
	if err != nil {
		return err
	}
	if tree, err := filepath.EvalSymlinks(r.top); err != nil || !sameFile(tree, lines[2]) {
		r.unguarded = append(r.unguarded, "core.worktree")
	}
	r.config = describe()
	r.config.settled = r.config.settled && !included // included files are not watched
	return nil
}

// leadsOut names what leads from the git directories of a repository out of the folder: the .git
// file, links, and the directories from which git takes more objects.
func (g *Git) leadsOut(ctx context.Context, top string, dirs []string) (names []string) {
	folder := topOf(g.dir)
	if folder == "" {
		folder = g.dir
	}
	roots := []string{folder, top}
	outside := func(path string) bool {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist)
		}
		for _, root := range roots {
			if root, err := filepath.EvalSymlinks(root); err == nil && subpath.Contains(root, real) {
				return false
			}
		}
		return true
	}
	own, common := dirs[0], dirs[1]
	if main := besideMain(top, own, common); main != "" {
		roots = append(roots, main)
	}
	if outside(own) || outside(common) {
		return []string{"the .git file"}
	}
	// Git prints what some files contain (the steps of a rebase, why a worktree is locked), so links count at any
	// depth.
	seen := 0
	for _, dir := range slices.Compact(slices.Clone(dirs)) {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(common, path)
			switch seen++; {
			case seen > maxGitFiles:
				return fmt.Errorf("more than %d files in %s", maxGitFiles, dir)
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				return errors.New(path)
			case err != nil, ctx.Err() != nil:
				return context.Cause(ctx)
			case e.Type()&fs.ModeSymlink != 0 && outside(path):
				names = append(names, "the link "+path)
			case e.IsDir() && (rel == "modules" || looseObjects(rel)):
				return fs.SkipDir // modules are repositories of their own; objects are found by their hashes only
			}
			return nil
		})
		if err != nil {
			return append(names, err.Error())
		}
	}
	todo := []string{filepath.Join(common, "objects")}
	for range 5 { // as deep as git follows them
		var next []string
		for _, objects := range todo {
			data, err := regular.Read(filepath.Join(objects, "info", "alternates"), 1<<16)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return append(names, "objects/info/alternates")
			}
			for line := range strings.Lines(string(data)) {
				line = strings.TrimSuffix(line, "\n")
				if !filepath.IsAbs(line) {
					line = filepath.Join(objects, line)
				}
				if outside(line) {
					return append(names, "objects/info/alternates")
				}
				next = append(next, line)
			}
		}
		todo = next
	}
	return names
}

// besideMain returns the main work tree of a worktree that is where Knack makes them, in REPO.worktrees, and whose
// repository refers back to it, which nobody can arrange who writes only the worktree; "": it is no such worktree.
func besideMain(top, own, common string) string {
	top, err1 := filepath.EvalSymlinks(top)
	own, err2 := filepath.EvalSymlinks(own)
	common, err3 := filepath.EvalSymlinks(common)
	main := filepath.Dir(common)
	if errors.Join(err1, err2, err3) != nil || filepath.Base(common) != ".git" ||
		!subpath.Contains(main+".worktrees", top) || !gitfile.IsWorktree(common, own, filepath.Join(top, ".git")) {
		return ""
	}
	return main
}

// readIndex finds the repositories nested in a repository.
func (g *Git) readIndex(ctx context.Context, r *repository) error {
	r.index, r.nested = watched{}, nil
	index := filepath.Join(r.dirs[0], "index")
	describe := g.watch([]string{index})
	var gitFiles []string
	if _, err := os.Lstat(index); err == nil {
		out, err := g.run(ctx, r.top, maxIndex, "ls-files", "--stage", "-z")
		if err != nil {
			return err
		}
		for entry := range bytes.SplitSeq(out, []byte{0}) {
			if !bytes.HasPrefix(entry, []byte("160000 ")) {
				continue
			}
			_, name, _ := bytes.Cut(entry, []byte{'\t'})
			inner := filepath.Join(r.top, filepath.FromSlash(string(name)))
			gitFiles = append(gitFiles, filepath.Join(inner, ".git"))
			if _, err := os.Lstat(filepath.Join(inner, ".git")); err == nil {
				r.nested = append(r.nested, inner)
			}
		}
	}
	r.index = describe(gitFiles...)
	return nil
}

// settings reads the repository's settings with git and reports whether they
// include other files.
func (g *Git) settings(ctx context.Context, r *repository) (included bool, err error) {
	out, err := g.run(ctx, r.top, maxConfig, "config", "--list", "--show-scope", "--show-origin", "-z")
	if err != nil {
		return false, err
	}
	seen := map[string]bool{}
	fields := strings.Split(string(out), "\x00")
	for ; len(fields) > 2; fields = fields[3:] {
		scope := fields[0]
		key, text, _ := strings.Cut(fields[2], "\n")
		if scope != "command" { // an override of ours
			r.named = append(r.named, r.runs(key, text, strings.TrimPrefix(fields[1], "file:"))...)
		}
		if scope != "local" && scope != "worktree" {
			continue // set by the user
		}
		included = included || strings.HasPrefix(key, "include.") || strings.HasPrefix(key, "includeif.")
		if len(r.files) < maxSettings && (gitNamesFile(key, text) || key == "commit.template") &&
			!r.has(text) {
			r.files = append(r.files, [2]string{key, os.DevNull})
		}
		if seen[key] || key == "core.worktree" {
			continue
		}
		seen[key] = true
		if gitNamesFile(key, text) {
			r.leads = append(r.leads, key)
		}
		r.promisor = r.promisor || key == "extensions.partialclone" ||
			strings.HasPrefix(key, "remote.") &&
				(strings.HasSuffix(key, ".promisor") || strings.HasSuffix(key, ".partialclonefilter"))
		value, known, guarded := gitOverride(key)
		switch {
		case known && !guarded:
			r.unguarded = append(r.unguarded, key)
		case known:
			r.settings = append(r.settings, [2]string{key, value})
			if name, ok := strings.CutPrefix(key, "filter."); ok {
				name = name[:strings.LastIndexByte(name, '.')]
				r.settings = append(r.settings, [2]string{"filter." + name + ".required", "false"})
			}
		}
		if len(r.settings) > maxSettings {
			return false, fmt.Errorf("it names more than %d programs", maxSettings)
		}
	}
	return included, nil
}

// has reports whether a name in a setting is that of a file in the work tree, which git can read to its end.
func (r *repository) has(name string) bool {
	path := filepath.FromSlash(name)
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.top, path)
	}
	top, bad := filepath.EvalSymlinks(r.top)
	path, err := filepath.EvalSymlinks(path)
	if err != nil || bad != nil || !subpath.Contains(top, path) {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// run runs git in a repository that may be hostile, for an answer about it. More than maxBytes bytes of output are an
// error.
func (g *Git) run(ctx context.Context, top string, maxBytes int64, args ...string) ([]byte, error) {
	return g.runner(top).Ask(ctx, top, maxBytes, args...)
}

// Command returns a command that runs git in a directory, for a program's own use and outside a sandbox. git is found
// in the PATH of Environ without relative entries and entries of the working directory or the repository. It gets only
// the variables that locate the user's own configuration, contacts no remote repository, and runs none of the programs
// that the configuration of the repositories names, except what [Git.Env] cannot override. Nor does it read the files
// that they name outside the work tree: attributes, ignored files, names of authors, orders. The two exceptions are
// include.path, which git only parses, and blame.ignoreRevsFile, which no value overrides: who runs blame keeps the
// configuration from it. It is an error if git is not installed, or cannot read the configuration of the repository.
func (g *Git) Command(ctx context.Context, dir string, args ...string) (*exec.Cmd, error) {
	set, _, err := g.overrides(ctx, true)
	if err != nil {
		return nil, err
	}
	return g.runner(dir).Command(ctx, dir, git.Env(nil, set), args...)
}

// runner runs git in a directory, with a PATH without what the repositories provide.
func (g *Git) runner(dir string) git.Runner {
	own := slices.DeleteFunc([]string{g.dir, topOf(g.dir), dir, topOf(dir)}, func(dir string) bool { return dir == "" })
	search, _ := CleanPath(userdirs.Getenv(userdirs.Environ(g.Environ))("PATH"), own...)
	return git.Runner{Path: search, Environ: g.Environ}
}

// isNotRegular reports whether one of the named files in dir exists and is not a regular file.
func isNotRegular(dir string, names ...string) bool {
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
