//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/internal/leaf/gitfile"
	"github.com/knack-agent/knack/internal/leaf/gitindex"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Git must be able to write in its directory, so a command can, too, and git outside the sandbox trusts what it finds
// there: it writes through links, checks out whatever names an index has, and goes on with what another git began. What
// a command leaves there is looked at when it has ended.

// A gitLeft knows what lies in the git directories of a workspace, apart from the names in gitNames.
type gitLeft struct {
	dirs  map[string]int64   // all directories there but those of objects, with their change times
	heads map[string]bool    // those in which git keeps an index and unfinished work
	inner map[string]bool    // those of heads that were repositories of their own
	odd   map[oddFile]string // what is neither file nor directory and was there before, and its path
	index map[string]indexFile
	steps map[string][]string // programs in the list of a rebase when no command ran, by path
	told  map[string]string   // what was told about such a list last, by path
}

func newGitLeft() gitLeft {
	return gitLeft{dirs: map[string]int64{}, heads: map[string]bool{}, inner: map[string]bool{}, odd: map[oddFile]string{},
		index: map[string]indexFile{}, steps: map[string][]string{}, told: map[string]string{}}
}

// An oddFile identifies a link, pipe, socket or device. Its change time is another one after it was renamed or got one
// more name, and nobody can set it.
type oddFile struct {
	dev, ino uint64
	ctime    int64
}

// maxGitDirs limits the directories of gitLeft, and maxGitPath the bytes of their paths: git, which uses shorter
// relative ones, would reach what no absolute path names.
const maxGitDirs, maxGitPath = 50_000, 2048

// begin is called before a command. If no other command runs, nothing that exists then was made by one.
func (l *gitLeft) begin(n *protectedFiles) {
	if n.running == 0 {
		found := l.look(n)
		clear(l.odd)
		for path, f := range found {
			l.odd[f] = path
		}
		clear(l.steps)
		clear(l.inner)
	}
	for dir := range l.heads {
		if n.running == 0 {
			l.inner[dir] = isInner(n, dir)
		}
		path := dir + stepsOfRebase
		text, ok := readBelow(n.rootOf(path), path, maxSteps)
		if !ok {
			continue
		}
		if n.running == 0 {
			_, l.steps[path] = heldSteps(text, nil)
		}
		if armed := armSteps(text); armed != text {
			replaceBelow(n.rootOf(path), path, armed)
		}
	}
}

// recorded returns what the journal records: what was there before a command.
func (l *gitLeft) recorded() (all []string) {
	all = slices.Collect(maps.Values(l.odd))
	for path, programs := range l.steps {
		for _, program := range programs {
			all = append(all, path+"\n"+program)
		}
	}
	return all
}

// leftovers returns notes about what the commands of a killed session left, and does with it what end does. before is
// what was recorded.
func (l *gitLeft) leftovers(n *protectedFiles, before map[string]bool) (notes []string) {
	l.begin(n)
	for f, path := range l.odd {
		if !before[path] {
			delete(l.odd, f)
		}
	}
	for path, programs := range l.steps {
		l.steps[path] = slices.DeleteFunc(programs, func(program string) bool { return !before[path+"\n"+program] })
	}
	return l.end(n, nil)
}

// gitTops returns the git directories of the workspace.
func gitTops(n *protectedFiles) []string {
	return append(n.gits(n.known), slices.Collect(maps.Keys(n.bare))...)
}

// look returns what is neither file nor directory now, by path.
func (l *gitLeft) look(n *protectedFiles) map[string]oddFile {
	tops := gitTops(n)
	found := map[string]oddFile{}
	for f, path := range l.odd { // in directories that are not read again
		if now, ok := identifyOdd(path); ok && now == f || f.ctime == 0 {
			found[path] = f
		}
	}
	for _, top := range tops {
		if _, ok := l.dirs[top]; !ok {
			l.read(tops, top, n.closed, found)
		}
	}
	for _, dir := range touched(l.dirs) {
		delete(l.dirs, dir)
		delete(l.heads, dir)
		if withinAny(tops, dir) {
			l.read(tops, dir, n.closed, found)
		}
	}
	return found
}

// read reads a directory and the unknown ones below it, without following links.
func (l *gitLeft) read(tops []string, from string, closed map[string]bool, found map[string]oddFile) {
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		seen, ok := ctime(dir)
		if _, known := l.dirs[dir]; !ok || known || len(l.dirs) >= maxGitDirs {
			continue
		}
		if time.Since(time.Unix(0, seen)) < fresh {
			seen = 0
		}
		l.dirs[dir] = seen
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			path := dir + "/" + e.Name()
			if e.Name() == "HEAD" {
				l.heads[dir] = true
			}
			switch {
			case e.Type().IsRegular():
			case e.IsDir() && len(path) > maxGitPath:
				if id, ok := identify(path); ok {
					found[path] = oddFile{id.dev, id.ino, 0}
				}
			case e.IsDir():
				if !closed[path] && !holdsObjects(tops, path) {
					queue = append(queue, path)
				}
			default:
				if f, ok := identifyOdd(path); ok {
					found[path] = f
				}
			}
		}
	}
}

// holdsObjects reports whether a directory has only files that git finds by their hashes and never writes again: there
// may be thousands of them, also in those of git-lfs and git-annex. A branch may have such a name, too.
func holdsObjects(tops []string, dir string) bool {
	objects := filepath.Dir(dir)
	if len(filepath.Base(dir)) > 3 || filepath.Base(objects) != "objects" {
		return false
	}
	for _, top := range tops {
		switch rel, below := subpath.Rel(top, filepath.Dir(objects)); {
		case !below:
		case rel == "." || rel == "lfs" || rel == "annex":
			return true
		default:
			parts := strings.Split(rel, "/")
			return parts[0] == "modules" && !slices.Contains(parts, "logs") && !slices.Contains(parts, "refs")
		}
	}
	return false
}

func identifyOdd(path string) (f oddFile, ok bool) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return f, false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		return f, false
	}
	return oddFile{uint64(st.Dev), st.Ino, st.Ctim.Nano()}, true
}

// end is called after a command. It removes or moves aside what the command left, except in what is opened, and
// returns notes about it.
func (l *gitLeft) end(n *protectedFiles, opened dirSet) (notes []string) {
	found := l.look(n)
	if len(opened) > 0 { // the command could write in other worktrees, too
		l.readClosed(n, found)
	}
	notes = l.removeOdd(n, found, opened)
	for _, dir := range slices.Sorted(maps.Keys(l.heads)) {
		if opened.contain(dir) {
			continue
		}
		notes = append(notes, l.checkIndex(n, dir)...)
		notes = append(notes, l.checkState(n, dir)...)
		notes = append(notes, l.holdSteps(n, dir)...)
		notes = append(notes, l.disarmInner(n, dir)...)
	}
	return notes
}

// disarmInner renames what git runs in a repository that a command made inside a git directory: git fetch enters one
// that objects/info/alternates names, and so does whoever looks around.
func (l *gitLeft) disarmInner(n *protectedFiles, dir string) []string {
	if l.inner[dir] || !isInner(n, dir) {
		return nil
	}
	disarmed := n.disarm(dir)
	if len(disarmed) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: a repository inside a git directory is not what git makes. These names in it have "+
		"the ending .refused-1 or higher, so that git does not obey them: %s", dir,
		plain.List(slices.Sorted(maps.Keys(disarmed)), 8))}
}

// isInner reports whether a directory in a git directory is a repository of its own, other than a submodule's.
func isInner(n *protectedFiles, dir string) bool {
	for _, top := range gitTops(n) {
		rel, below := subpath.Rel(top, dir)
		if below && (rel == "." || filepath.Dir(rel) == "worktrees" || strings.HasPrefix(rel, "modules/")) {
			return false
		}
	}
	names, err := readNames(dir)
	return err == nil && isBareGit(names)
}

// readClosed adds what has changed since the command began in git directories of other worktrees, which look leaves
// out.
func (l *gitLeft) readClosed(n *protectedFiles, found map[string]oddFile) {
	other, now := newGitLeft(), map[string]oddFile{}
	for tree := range n.closed {
		other.read([]string{tree}, tree, nil, now)
	}
	for path, f := range now {
		if f.ctime == 0 || time.Unix(0, f.ctime).After(n.began.Add(-fresh)) {
			found[path] = f
		}
	}
	maps.Copy(l.heads, other.heads)
}

// removeOdd removes links, pipes and the like that were not there before: git makes none, and what it writes through a
// link lands elsewhere.
func (l *gitLeft) removeOdd(n *protectedFiles, found map[string]oddFile, opened dirSet) (notes []string) {
	removed := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		f := found[path]
		if _, known := l.odd[f]; known || opened.contain(path) {
			l.odd[f] = path
			continue
		}
		if f.ctime == 0 {
			notes = append(notes, l.aside(n, path, "no git makes so deep a directory", ""))
			continue
		}
		dir := l.topOf(path)
		what := path[len(dir)+1:] + ", " + describeOdd(path)
		p, err := openPlace(n.rootOf(path), path)
		if err == nil {
			if p.is(f.dev, f.ino) {
				err = unix.Unlinkat(p.dir, p.name, 0)
			}
			p.close()
		}
		if err != nil {
			what += ", which could not be removed: " + err.Error()
		}
		removed[dir] = append(removed[dir], what)
	}
	for _, dir := range slices.Sorted(maps.Keys(removed)) {
		notes = append(notes, fmt.Sprintf("%s: the command made what git does not make there (%s). Git outside the sandbox "+
			"would write through it, so it was removed", dir, plain.List(removed[dir], 8)))
	}
	return notes
}

// topOf returns the outermost git directory that contains a path.
func (l *gitLeft) topOf(path string) string {
	top := filepath.Dir(path)
	for dir := top; dir != "/"; dir = filepath.Dir(dir) {
		if _, ok := l.dirs[dir]; ok {
			top = dir
		}
	}
	return top
}

func describeOdd(path string) string {
	if to, err := os.Readlink(path); err == nil {
		return "a link to " + to
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode()&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case err == nil && info.Mode()&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a special file"
}

// maxIndex is the size in bytes above which an index is not read. Those of the largest known repositories are half as
// large.
const maxIndex = 1 << 30

// An indexFile is what was found in a file of an index.
type indexFile struct {
	version string // of the file
	shared  string // the file that has more of its entries; "": none
}

// checkIndex moves an index aside that a command has changed and that names files in .git or outside the work tree.
func (l *gitLeft) checkIndex(n *protectedFiles, dir string) (notes []string) {
	index := dir + "/index"
	for path, files := index, 0; path != "" && files < 2; files++ {
		version, changed := fileVersion(path, n.began)
		if version == "" {
			return notes
		}
		if l.index[path].version != version {
			shared, submodules, bad := l.badNames(n, dir, path)
			if len(bad) > 0 && changed {
				return append(notes, l.aside(n, index, "the command wrote what git keeps out of an index ("+plain.List(bad, 8)+
					"). Git outside the sandbox would write such files", "Make the index anew with: git reset"))
			}
			f := indexFile{version: version}
			if shared != "" {
				f.shared = dir + "/sharedindex." + shared
			}
			l.index[path] = f
			notes = append(notes, n.judgeSubmodules(workTree(dir), submodules)...)
		}
		path = l.index[path].shared
	}
	return notes
}

// workTree returns the top of the work tree of a git directory; "" if it is not known.
func workTree(dir string) string {
	if filepath.Base(dir) == ".git" {
		return filepath.Dir(dir)
	}
	return gitfile.Worktree(dir)
}

// badNames returns names that do not belong into an index, or why it cannot be read. shared is the name of its other
// file, and submodules are the directories in it that are repositories.
func (l *gitLeft) badNames(n *protectedFiles, dir, path string) (shared string, submodules, bad []string) {
	data, ok := readBelow(n.rootOf(path), path, maxIndex)
	switch {
	case !ok:
		return "", nil, []string{"it cannot be read"}
	case !strings.HasPrefix(data, "DIRC"):
		return "", nil, nil // git does not read it either
	}
	shared, err := gitindex.Read([]byte(data), digestOf(n, dir), func(e gitindex.Entry) bool {
		if !gitindex.Inside(e.Name) {
			bad = append(bad, e.Name)
		}
		if e.Submodule && len(submodules) < maxRepositories {
			submodules = append(submodules, e.Name)
		}
		return len(bad) < 9
	})
	if err != nil {
		bad = append(bad, err.Error())
	}
	return shared, submodules, bad
}

// digestOf returns the length of the hashes in an index, as the configuration says, which no command can write.
func digestOf(n *protectedFiles, dir string) int {
	config := dir + "/config"
	if common, ok := gitfile.Common(dir); ok {
		config = common + "/config"
	}
	text, _ := readBelow(n.rootOf(config), config, 1<<20)
	if text = strings.ToLower(text); strings.Contains(text, "objectformat") && strings.Contains(text, "sha256") {
		return gitindex.SHA256
	}
	return gitindex.SHA1
}

// fileVersion describes a file so that every change to it changes the result; "" if there is none. changed means that
// it changed after a time.
func fileVersion(path string, since time.Time) (version string, changed bool) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return "", false
	}
	at, now := time.Unix(0, st.Ctim.Nano()), time.Now()
	version = fmt.Sprint(st.Dev, st.Ino, st.Size, st.Ctim.Nano())
	if now.Sub(at) < fresh { // it may change again without a new time
		version += fmt.Sprint(" ", now.UnixNano())
	}
	return version, at.After(since.Add(-fresh))
}

// checkState moves aside what git would follow, out of the work tree, when it goes on with a rebase, cherry-pick or
// merge.
func (l *gitLeft) checkState(n *protectedFiles, dir string) (notes []string) {
	for _, s := range []struct {
		name string
		bad  func(text string) bool
		why  string
	}{
		// Git runs the program git-merge-NAME; with a slash it is one of the work tree.
		{"/rebase-merge/strategy", func(text string) bool { return strings.Contains(text, "/") },
			"the rebase names a program of the work tree as its merge strategy, which git would run outside the sandbox"},
		{"/sequencer/opts", func(text string) bool { return strings.Contains(text, "/") && setsStrategy(text) },
			"what git has begun names a program of the work tree as its merge strategy, which git would run outside the " +
				"sandbox"},
		{"/MERGE_RR", func(text string) bool { return resolvesOutside(dir, text) },
			"it names files outside the work tree, or links, as conflicts. Git outside the sandbox would copy or write them"},
	} {
		path := dir + s.name
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if text, ok := readBelow(n.rootOf(path), path, 1<<20); !ok || s.bad(text) {
			notes = append(notes, l.aside(n, path, s.why, ""))
		}
	}
	return notes
}

// setsStrategy reports whether a file in the format of git's configuration sets the key strategy.
func setsStrategy(text string) bool {
	for rest := range strings.SplitSeq(strings.ToLower(text), "strategy") {
		if strings.HasPrefix(strings.TrimLeft(rest, " \t"), "=") {
			return true
		}
	}
	return false
}

// resolvesOutside reports whether a MERGE_RR (an object, a tab, a path and a zero byte each) names a path that git does
// not find in the work tree itself.
func resolvesOutside(dir, text string) bool {
	top := workTree(dir)
	for entry := range strings.SplitSeq(strings.TrimRight(text, "\x00"), "\x00") {
		_, name, ok := strings.Cut(entry, "\t")
		if entry == "" {
			continue
		}
		if !ok || top == "" || !gitindex.Inside(name) {
			return true
		}
		for path := name; path != "."; path = filepath.Dir(path) {
			if info, err := os.Lstat(filepath.Join(top, path)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return true
			}
		}
	}
	return false
}

// aside renames a file, and returns a note: why, and what helps.
func (l *gitLeft) aside(n *protectedFiles, path, why, helps string) string {
	id, _ := identify(path)
	m := n.aside(path, id)
	if m.to == "" {
		return fmt.Sprintf("%s: %s. It could not be moved aside: look at it before you use git there", path, why)
	}
	note := fmt.Sprintf("%s: %s. It is %s now", path, why, filepath.Base(m.to))
	if helps != "" {
		note += ". " + helps
	}
	return note
}
