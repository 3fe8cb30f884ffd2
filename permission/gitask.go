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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/regular"
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

	dir   string
	mu    sync.Mutex
	repos map[string]*repository // by the directory that contains .git
	other []string               // more keys of repos: the directories of earlier calls of Check
}

// NewGit returns a Git for a working directory. It does not run git yet.
func NewGit(dir string) *Git { return &Git{dir: dir, repos: map[string]*repository{}} }

const (
	maxRepositories = 64       // a repository and those nested in it
	maxSettings     = 500      // settings that name programs
	maxConfig       = 4 << 20  // bytes of a configuration as git prints it
	maxIndex        = 64 << 20 // bytes of an index as git prints it
	gitTimeout      = 5 * time.Second
	minFileAge      = 2 * time.Second // a younger file may change again without a new change time
)

// A repository is what git reported about one repository.
type repository struct {
	top       string
	settings  [][2]string // overrides
	unguarded []string    // settings that cannot be overridden
	nested    []string    // top directories of the repositories in it
	dirs      []string    // its git directories
	err       error       // git could not be run

	files      []string // the files that the fields above depend on
	states     []string // states of files; nil: run git again
	validUntil time.Time
}

// Check inspects the repository that contains dir. unguarded names the settings that make git run a
// program and cannot be overridden. An error means that git could not be run. In both cases git
// commands in dir need approval.
func (g *Git) Check(dir string) (unguarded []string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	top := topOf(dir)
	if top != "" && !slices.Contains(g.other, top) {
		g.other = append(g.other, top)
	}
	for _, r := range g.repositories(top) {
		unguarded = append(unguarded, r.unguarded...)
		err = errors.Join(err, r.err)
	}
	return unguarded, err
}

// tagsLikeOptions reports whether the repository that contains a directory has a tag whose name
// begins with a dash.
func (g *Git) tagsLikeOptions(dir string) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	top := topOf(dir)
	for _, r := range g.repositories(top) {
		if r.err != nil {
			return false, r.err
		}
	}
	if top == "" {
		return false, nil
	}
	out, err := g.run(top, 1<<16, "for-each-ref", "--count=1", "refs/tags/-*", "refs/tags/-*/**")
	return len(out) > 0, err
}

// Dirs returns the git directories of the known repositories.
func (g *Git) Dirs() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var dirs []string
	for _, r := range g.knownRepositories() {
		dirs = append(dirs, r.dirs...)
	}
	return dirs
}

// knownRepositories returns the repositories of the working directory and of the directories passed to Check.
func (g *Git) knownRepositories() []*repository {
	all := g.repositories(topOf(g.dir))
	for _, top := range g.other {
		for _, r := range g.repositories(top) {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// Env adds variables to an environment so that git does not run the programs named in the
// configuration of these repositories: see [GitEnv].
func (g *Git) Env(environ []string) (env, unguarded []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	set := slices.Clone(alwaysSet)
	seen := map[string]bool{}
	for _, r := range g.knownRepositories() {
		for _, s := range r.settings {
			if !seen[s[0]] {
				seen[s[0]] = true
				set = append(set, s)
			}
		}
		unguarded = append(unguarded, r.unguarded...)
		if r.err != nil {
			unguarded = append(unguarded, r.err.Error())
		}
	}
	n := 0
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "GIT_CONFIG_COUNT":
			if c, err := strconv.Atoi(value); err == nil && c > 0 && c < 1000 {
				n = c
			}
			continue
		case "GIT_PAGER", "GIT_OPTIONAL_LOCKS", "GIT_NO_LAZY_FETCH", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS", "GIT_DIR",
			"GIT_WORK_TREE", "GIT_TERMINAL_PROMPT":
			continue
		}
		env = append(env, kv)
	}
	return append(env, overrides(set, n)...), unguarded
}

// alwaysSet are the overrides for every repository.
var alwaysSet = [][2]string{
	{"core.fsmonitor", "false"}, {"core.hooksPath", os.DevNull}, {"core.pager", "cat"}, {"protocol.ext.allow", "never"},
	{"safe.bareRepository", "explicit"}, {"log.showSignature", "false"}, {"submodule.recurse", "false"},
}

// overrides returns settings as environment variables, numbered from n.
func overrides(set [][2]string, n int) (env []string) {
	for _, s := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, s[1]))
		n++
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(n), "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_TERMINAL_PROMPT=0")
}

// GitVariables returns the names of the variables that [Git.Env] sets; a * at the
// end matches any suffix.
func GitVariables() []string {
	return []string{"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_*", "GIT_CONFIG_VALUE_*", "GIT_PAGER", "GIT_OPTIONAL_LOCKS",
		"GIT_NO_LAZY_FETCH", "GIT_TERMINAL_PROMPT"}
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

// repositories returns the repository with the given top directory and those nested in it, from the cache
// where nothing has changed.
func (g *Git) repositories(top string) (all []*repository) {
	if top == "" {
		return nil
	}
	todo := []string{top}
	for len(todo) > 0 {
		if len(all) >= maxRepositories {
			return append(all, &repository{err: fmt.Errorf("more than %d nested repositories", maxRepositories)})
		}
		r := g.repos[todo[0]]
		if r == nil || !r.upToDate() {
			r = g.read(todo[0])
			g.repos[todo[0]] = r
		}
		all, todo = append(all, r), append(todo[1:], r.nested...)
	}
	return all
}

// upToDate reports whether no relevant file has changed since git was run. An error is kept for a
// short time.
func (r *repository) upToDate() bool {
	if r.err != nil {
		return time.Now().Before(r.validUntil)
	}
	return r.states != nil && slices.Equal(r.states, fileStates(r.files))
}

// fileStates describes files so that every change to one changes the result. It returns nil if that
// cannot be guaranteed.
func fileStates(files []string) []string {
	states := make([]string, len(files))
	for i, file := range files {
		info, err := os.Lstat(file)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !isNotDir(err) {
				return nil
			}
			continue
		}
		state, changed, ok := fileState(info)
		if !ok || time.Since(changed) < minFileAge {
			return nil
		}
		states[i] = state
	}
	return states
}

// read runs git in one repository and returns the result, with err set if that fails.
func (g *Git) read(top string) *repository {
	r := &repository{top: top, validUntil: time.Now().Add(minFileAge)}
	fail := func(err error) *repository {
		r.err = fmt.Errorf("git's configuration in %s cannot be read: %w", top, err)
		return r
	}
	// With anything but regular files git would block or never stop reading.
	dot := filepath.Join(top, ".git")
	info, err := os.Stat(dot)
	switch {
	case err != nil:
		return fail(err)
	case !info.IsDir():
		if _, err := regular.Read(dot, 1<<20); err != nil {
			return fail(err)
		}
	case isNotRegular(dot, "commondir", "config", "config.worktree", "HEAD", "index"):
		return fail(regular.ErrNotRegular)
	}
	out, err := g.run(top, 1<<16, "rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
	if err != nil {
		return fail(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 3 {
		return fail(errors.New("unexpected output of git rev-parse"))
	}
	own, common := lines[0], lines[1]
	if !filepath.IsAbs(common) {
		common = filepath.Join(top, common)
	}
	r.dirs = []string{own, common}
	if isNotRegular(own, "commondir", "config.worktree", "HEAD", "index") || isNotRegular(common, "config") {
		return fail(regular.ErrNotRegular)
	}
	for _, name := range []string{"config", "config.worktree", "commondir", "index"} {
		r.files = append(r.files, filepath.Join(own, name))
	}
	r.files = append(r.files, dot, filepath.Join(common, "config"))
	before := fileStates(r.files)

	included, err := g.settings(r)
	if err != nil {
		return fail(err)
	}
	if tree, err := filepath.EvalSymlinks(top); err != nil || !sameFile(tree, lines[2]) {
		r.unguarded = append(r.unguarded, "core.worktree")
	}
	if _, err := os.Lstat(filepath.Join(own, "index")); err == nil {
		out, err := g.run(top, maxIndex, "ls-files", "--stage", "-z")
		if err != nil {
			return fail(err)
		}
		for entry := range bytes.SplitSeq(out, []byte{0}) {
			if !bytes.HasPrefix(entry, []byte("160000 ")) {
				continue
			}
			_, name, _ := bytes.Cut(entry, []byte{'\t'})
			inner := filepath.Join(top, filepath.FromSlash(string(name)))
			r.files = append(r.files, filepath.Join(inner, ".git"))
			if _, err := os.Lstat(filepath.Join(inner, ".git")); err == nil {
				r.nested = append(r.nested, inner)
			}
		}
	}
	// Included files are not among r.files, so with them git is run each time.
	if after := fileStates(r.files); before != nil && after != nil && !included &&
		slices.Equal(before, after[:len(before)]) {
		r.states = after
	}
	return r
}

// settings reads the repository's settings with git and reports whether they
// include other files.
func (g *Git) settings(r *repository) (included bool, err error) {
	out, err := g.run(r.top, maxConfig, "config", "--list", "--show-scope", "--show-origin", "-z")
	if err != nil {
		return false, err
	}
	seen := map[string]bool{}
	fields := strings.Split(string(out), "\x00")
	for ; len(fields) > 2; fields = fields[3:] {
		if scope := fields[0]; scope != "local" && scope != "worktree" {
			continue // set by the user, or an override of ours
		}
		key, _, _ := strings.Cut(fields[2], "\n")
		included = included || strings.HasPrefix(key, "include.") || strings.HasPrefix(key, "includeif.")
		if seen[key] || key == "core.worktree" {
			continue
		}
		seen[key] = true
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

// run runs git in a repository that may be hostile. It passes only the few variables of the
// environment that locate the user's configuration, and disables all programs that the command
// could run. More than maxBytes bytes of output are an error.
func (g *Git) run(top string, maxBytes int64, args ...string) ([]byte, error) {
	environ := userdirs.Environ(g.Environ)
	getenv := userdirs.Getenv(environ)
	name, search, err := gitProgram(getenv("PATH"), g.dir, top)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, append([]string{"--no-pager", "--no-replace-objects"}, args...)...)
	cmd.Dir = top
	cmd.Env = append(overrides(append([][2]string{{"protocol.allow", "never"}}, alwaysSet...), 0),
		"PATH="+search, "LC_ALL=C", "GIT_ALLOW_PROTOCOL=none", "GIT_ALLOC_LIMIT=256m", "GIT_DISCOVERY_ACROSS_FILESYSTEM=1",
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(top))
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case userdirs.HomeVariable(), "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
			"SYSTEMROOT", "SystemRoot":
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.WaitDelay = time.Second
	out, errs := limitedBuffer{max: maxBytes}, limitedBuffer{max: 4 << 10}
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	switch {
	case out.exceeded:
		return nil, errors.New("git printed too much output")
	case ctx.Err() != nil:
		return nil, errors.New("git did not finish in time")
	case err != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, line)
	}
	return out.Bytes(), nil
}

// limitedBuffer is a buffer that fails once it would exceed max bytes; the failed write ends the
// program.
type limitedBuffer struct {
	bytes.Buffer
	max      int64
	exceeded bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if int64(b.Len()+len(p)) > b.max {
		b.exceeded = true
		return 0, errors.New("too much")
	}
	return b.Buffer.Write(p)
}

// gitProgram finds git in a PATH, ignoring entries inside dirs. search is the PATH without those.
func gitProgram(list string, dirs ...string) (name, search string, err error) {
	search, _ = CleanPath(list, dirs...)
	names := []string{"git"}
	if runtime.GOOS == "windows" {
		names = []string{"git.exe"}
	}
	for _, dir := range filepath.SplitList(search) {
		for _, name := range names {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() &&
				(runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
				return file, search, nil
			}
		}
	}
	return "", "", errors.New("git is not installed")
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
