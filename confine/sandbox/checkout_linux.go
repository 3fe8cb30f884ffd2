//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/knack-agent/knack/confine/git"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/gitfile"
)

// A git command that writes protected files asks before it starts. One that a script or an alias runs is found out only
// afterwards: by then git has moved HEAD and written the index and all files but the protected ones, and the next
// commit would record these as deleted. So HEAD, the index and the files are put back.

// A checkout is the state of a work tree when a command begins. Git replaces its index by another file, so the open
// one keeps its content.
type checkout struct {
	top, dir string // the work tree and its git directory
	head     string // content of HEAD
	tip      string // of the branch that HEAD names; "" if it has no file of its own
	index    *os.File
	log      int64 // length of the reflog of HEAD
	stashes  int64 // and of that of the stash
	since    time.Time
}

// checkouts returns the state of the work trees in the workspace.
func (n *protectedFiles) checkouts() (all []*checkout) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for path, t := range n.known {
		if filepath.Base(path) != ".git" || t.link != "" {
			continue
		}
		c := &checkout{top: filepath.Dir(path), dir: path, since: time.Now()}
		if !t.dir {
			var ok bool
			if c.dir, ok = gitfile.Target(path); !ok {
				continue
			}
		}
		var ok bool
		if c.head, ok = c.readHead(); !ok {
			continue
		}
		index, err := os.OpenFile(c.dir+"/index", os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		c.index, c.tip, c.stashes = index, c.readTip(c.head), c.readStashes()
		if info, err := os.Lstat(c.dir + "/logs/HEAD"); err == nil {
			c.log = info.Size()
		}
		all = append(all, c)
	}
	return all
}

// wrote reports whether a file was written since the command began. What the user changed before is older.
func (c *checkout) wrote(info os.FileInfo) bool {
	return info.ModTime().After(c.since.Add(-20 * time.Millisecond)) // the clock of file systems is coarse
}

// readTip returns the commit of the branch that the content of HEAD names; "" if the branch has no file.
func (c *checkout) readTip(head string) string {
	ref, ok := strings.CutPrefix(head, "ref: refs/heads/")
	if !ok {
		return ""
	}
	return c.readRef("refs/heads/" + ref)
}

func (c *checkout) readRef(name string) string {
	dir := c.common()
	tip, _ := readBelow(dir, dir+"/"+name, 4096)
	return commitID(strings.TrimSpace(tip))
}

// common returns the directory of git that all work trees of the repository have.
func (c *checkout) common() string {
	if common, ok := gitfile.Common(c.dir); ok {
		return common
	}
	return c.dir
}

// commit returns the commit of HEAD when the command began; "" if there was none.
func (c *checkout) commit() string {
	ref, branch := strings.CutPrefix(c.head, "ref: ")
	if !branch {
		return c.head
	}
	return cmp.Or(c.tip, packedTip(c.dir, ref))
}

// readStashes returns the length of the list of what was stashed.
func (c *checkout) readStashes() int64 {
	info, err := os.Lstat(c.common() + "/logs/refs/stash")
	if err != nil {
		return 0
	}
	return info.Size()
}

// commitID returns text if it is the name of a commit. A command can make the files of git lead to secrets, so their
// content must not get anywhere before it is known to be what it should be.
func commitID(text string) string {
	if len(text) >= 40 && len(text) <= 64 && strings.Trim(text, "0123456789abcdef") == "" {
		return text
	}
	return ""
}

// readHead reads HEAD: "ref: refs/heads/" and the name of a branch, or a commit.
func (c *checkout) readHead() (string, bool) {
	head, _ := readBelow(c.dir, c.dir+"/HEAD", 4096)
	head = strings.TrimRight(head, "\r\n")
	branch, ok := strings.CutPrefix(head, "ref: refs/heads/")
	if ok {
		return head, branch != "" && filepath.IsLocal(branch) && filepath.Clean(branch) == branch &&
			!strings.ContainsFunc(branch, func(r rune) bool { return r <= ' ' || r == 0x7f })
	}
	return head, commitID(head) != ""
}

// stashed reports whether the command has stashed changes.
func (c *checkout) stashed() bool { return c.readStashes() > c.stashes }

// applied reports whether HEAD's log says that the command applied commits to the work tree.
func (c *checkout) applied() bool {
	log, _ := readBelow(c.dir, c.dir+"/logs/HEAD", 64<<20)
	for line := range strings.SplitSeq(log[min(int(c.log), len(log)):], "\n") {
		_, message, _ := strings.Cut(line, "\t")
		what, _, _ := strings.Cut(message, ":")
		what, _, _ = strings.Cut(what, " ")
		if slices.Contains([]string{"merge", "pull", "rebase", "cherry-pick", "revert", "am"}, what) {
			return true
		}
	}
	return false
}

// changed reports whether git has changed HEAD or the index.
func (c *checkout) changed() bool {
	head, _ := c.readHead()
	was, err1 := c.index.Stat()
	now, err2 := os.Lstat(c.dir + "/index")
	return head != c.head || err1 == nil && (err2 != nil || !os.SameFile(was, now))
}

// finishCheckouts puts back the work trees that git left half done, and ends the command for names. The notes report
// both.
func (r *run) finishCheckouts() (notes []string) {
	opened, n := r.opened, r.system.protected
	var tops []string
	touched := false
	for _, c := range r.checkouts {
		defer c.index.Close()
		tops, touched = append(tops, c.top), touched || c.changed() || c.stashed() || len(r.stoppedIn(c)) > 0
	}
	if !touched {
		if notes, ok := n.endUnless(tops, opened, r.allow.Replace); ok {
			return notes
		}
	}
	for _, c := range r.checkouts {
		if note := r.putBack(c); note != "" {
			notes = append(notes, note)
		}
	}
	return append(notes, n.end(opened, r.allow.Replace)...)
}

// stoppedIn returns the files in a work tree at which git stopped because the sandbox refused to change them.
func (r *run) stoppedIn(c *checkout) (names []string) {
	for _, name := range r.watch.stoppedGit() {
		path := filepath.Join(c.top, name)
		if filepath.IsLocal(name) && (r.view.path(path) != "" || r.inPlace(path)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// lost says where a commit is that was undone and that no branch has: changes that the user had not committed may be
// in it.
func (r *run) lost(c *checkout, commit string) string {
	if commit = commitID(strings.TrimSpace(commit)); commit == "" || commit == c.commit() {
		return ""
	}
	out, err := r.git(c, "", nil, "rev-list", "-n", "1", commit, "--not", "HEAD", "--branches", "--remotes", "--tags")
	if err != nil || len(out) == 0 {
		return ""
	}
	return fmt.Sprintf(" (what was committed meanwhile, perhaps with changes of yours: git show %s)", commit)
}

// A takenBack is what git stash saved and took back from files, although it then stopped at others.
type takenBack struct {
	stash              string // the commit
	tracked, untracked []string
	stopped            []string
}

func (r *run) takenBack(c *checkout) (t takenBack) {
	if !c.stashed() {
		return takenBack{}
	}
	t.stash = c.readRef("refs/stash")
	out := r.gits(c, gitCall{"", differing("diff-tree", "-r", t.stash+"^1", t.stash)},
		gitCall{"", differing("diff", "--no-renames", t.stash+"^1")}, gitCall{"", differing("diff", "--no-renames", t.stash)},
		gitCall{"", []string{"ls-tree", "-r", "-z", "--name-only", t.stash + "^3"}}) // fails if there were none
	if out[0] == nil || out[1] == nil || out[2] == nil {
		return takenBack{}
	}
	saved, fromBase, fromStash := namesIn(out[0]), namesIn(out[1]), namesIn(out[2])
	for name := range saved {
		switch {
		case name == "":
		case !fromBase[name]:
			t.tracked = append(t.tracked, name)
		case !fromStash[name] && (r.stops(c, name) || r.inPlace(filepath.Join(c.top, name))):
			t.stopped = append(t.stopped, name)
		}
	}
	for name := range namesIn(out[3]) {
		if _, err := os.Lstat(filepath.Join(c.top, name)); name != "" && err != nil {
			t.untracked = append(t.untracked, name)
		}
	}
	if len(t.stopped) == 0 || len(t.tracked)+len(t.untracked) == 0 {
		return takenBack{}
	}
	return t
}

// objectOf returns the name that git has for the content of a file, with as many digits as another name, "" if it
// cannot be read.
func (c *checkout) objectOf(name string, digits int) string {
	text, ok := readBelow(c.top, filepath.Join(c.top, name), 1<<20)
	if !ok {
		return ""
	}
	return blobID(text, digits)
}

func blobID(text string, digits int) string {
	h := sha1.New()
	if digits == 64 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00%s", len(text), text)
	return hex.EncodeToString(h.Sum(nil))
}

// lstat describes a file of the work tree. What lies behind a link is not the file, and neither is a directory, unless
// entry, the one of the index, is that of a submodule.
func (c *checkout) lstat(name, entry string) (os.FileInfo, error) {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(filepath.Join(c.top, dir)); err == nil && !info.IsDir() {
			return nil, &fs.PathError{Op: "lstat", Path: name, Err: syscall.ENOTDIR}
		}
	}
	info, err := os.Lstat(filepath.Join(c.top, name))
	if err == nil && info.IsDir() && !strings.HasPrefix(entry, "160000 ") {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: syscall.EISDIR}
	}
	return info, err
}

// newProtected returns the files and directories that the command left under protected names.
func (r *run) newProtected(c *checkout) (paths []string) {
	n := r.system.protected
	n.mu.Lock()
	defer n.mu.Unlock()
	found, _ := n.look()
	for path := range found {
		if n.isNew(path, []string{c.top}) {
			paths = append(paths, path)
		}
	}
	return paths
}

// written returns the files that git wrote or removed while the command ran without a trace in the index: what is in
// them is in the repository, so nothing is lost with them. Without stops it looks for them only if one of the files is
// one that the sandbox keeps git from replacing.
// elsewhere means that something was removed that no command could have removed.
func (r *run) written(c *checkout, dirty map[string]bool, appeared []string, stops bool) (remove []writtenFile,
	restore []string, elsewhere bool) {
	others := r.gits(c, gitCall{"", []string{"ls-files", "--others", "--exclude-standard", "-z"}},
		gitCall{"", append([]string{"ls-files", "--others", "-z", "--"}, keyFiles()...)})
	if others[0] == nil {
		return nil, nil, false
	}
	names := slices.Sorted(maps.Keys(dirty))
	tracked := len(names)
	for _, path := range appeared { // git may be told to ignore them
		filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && len(names) < 10_000 {
				names = append(names, path[len(c.top)+1:])
			}
			return nil
		})
	}
	for name := range strings.SplitSeq(string(others[0])+string(others[1]), "\x00") {
		names = append(names, name)
	}
	if !stops && !slices.ContainsFunc(names, func(name string) bool { return r.stops(c, name) }) {
		return nil, nil, false
	}
	infos := make([]os.FileInfo, len(names)) // from before they are read: what is removed later is the same file
	var files []string
	for i, name := range names {
		path := filepath.Join(c.top, name)
		info, err := c.lstat(name, "")
		dir, errDir := os.Lstat(filepath.Dir(path))
		switch {
		case name == "":
		case err != nil && i < tracked && r.system.protected.removedOutside(r.view.protected, path, c.since):
			return nil, nil, true
		case err != nil && i < tracked && (errDir != nil || c.wrote(dir)):
			restore = append(restore, name)
		case err != nil || !c.wrote(info):
		default:
			if infos[i] = info; info.Mode().IsRegular() {
				files = append(files, name)
			}
		}
	}
	ids := r.objects(c, files)
	for i, name := range names {
		if infos[i] != nil && infos[i].Mode()&fs.ModeSymlink != 0 {
			if to, err := os.Readlink(filepath.Join(c.top, name)); err == nil {
				ids[name] = blobID(to, len(c.tip))
			}
		}
	}
	committed := r.committed(c, ids)
	for i, name := range names {
		switch {
		case infos[i] == nil || !committed[name]:
		case i < tracked:
			restore = append(restore, name)
		default:
			remove = append(remove, foundAt(name, infos[i]))
		}
	}
	return remove, restore, false
}

// keyFiles are the patterns for git of what permission.KeyFile names.
func keyFiles() (patterns []string) {
	names, _ := permission.KeyFilePatterns()
	for _, name := range names {
		patterns = append(patterns, ":(glob,icase)**/"+name)
	}
	return patterns
}

// objects returns the objects that files in a work tree would become, by name.
func (r *run) objects(c *checkout, names []string) map[string]string {
	ids := map[string]string{}
	// One name per line. Git stops at the first file that it cannot read.
	plain := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return strings.ContainsAny(name, "\r\n") || strings.HasPrefix(name, `"`) || permission.KeyFile(filepath.Base(name))
	})
	if len(plain) > 1 {
		out, _ := r.git(c, strings.Join(plain, "\n")+"\n", nil, "hash-object", "--stdin-paths")
		for i, id := range strings.Fields(string(out)) {
			ids[plain[i]] = id
		}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return ids[name] != "" })
	calls := make([]gitCall, len(names))
	for i, name := range names {
		calls[i].args = []string{"hash-object", "--", name}
	}
	for i, out := range r.gits(c, calls...) {
		name := names[i]
		if ids[name] = strings.TrimSpace(string(out)); out == nil && permission.KeyFile(filepath.Base(name)) {
			ids[name] = c.objectOf(name, len(c.tip))
		}
	}
	return ids
}

// A writtenFile is a file that git wrote.
type writtenFile struct {
	name     string // in the work tree
	dev, ino uint64
}

func foundAt(name string, info os.FileInfo) writtenFile {
	st := info.Sys().(*syscall.Stat_t)
	return writtenFile{name, uint64(st.Dev), st.Ino}
}

func allKeys(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// inPlace reports whether a rule or an answer opens just this file: commands can write it, but git cannot put another
// one in its place.
func (r *run) inPlace(path string) bool {
	protected, _ := r.system.protected.patterns.In(path)
	return protected != "" && slices.Contains(r.allow.Write, path) && !withinAny(r.allow.Replace, path)
}

// stops reports whether the sandbox keeps a tracked file from being replaced.
func (r *run) stops(c *checkout, name string) bool {
	path := filepath.Join(c.top, name)
	protected, _ := r.system.protected.patterns.In("/" + name)
	if _, at := r.system.protected.patterns.In(path); len(at) > len(c.top) {
		protected = at // a name that is a whole path
	}
	return r.denies(path) || (protected != "" || permission.KeyFile(filepath.Base(name))) &&
		!withinAny(slices.Concat(r.allow.Replace, r.allow.Write), path)
}

// denies reports whether a rule keeps a file from commands.
func (r *run) denies(path string) bool {
	return withinAny(r.view.denied.Hidden, path) || withinAny(r.view.denied.ReadOnly, path)
}

// restore puts back the files, then the branch, HEAD and the index.
func (r *run) restore(c *checkout, saved, head string, remove []writtenFile, restore []string, taken takenBack) error {
	for round := 0; round < 4 && len(remove) > 0; round++ {
		ignores := false
		for _, f := range remove {
			removeFound(c.top, filepath.Join(c.top, f.name), f.dev, f.ino)
			ignores = ignores || filepath.Base(f.name) == ".gitignore"
		}
		if remove = nil; ignores { // it hid others
			remove, _, _ = r.written(c, nil, nil, true)
		}
	}
	// Git would remove a directory with all that is in it: what is left there belongs to no branch.
	restore = slices.DeleteFunc(restore, func(name string) bool {
		info, err := os.Lstat(filepath.Join(c.top, name))
		return err == nil && info.IsDir()
	})
	list := strings.Join(restore, "\x00")
	_, err := r.git(c, list, []string{"GIT_INDEX_FILE=" + saved}, "checkout-index", "-f", "-u", "-z", "--stdin")
	if err != nil {
		return err
	}
	for source, names := range map[string][]string{taken.stash: taken.tracked, taken.stash + "^3": taken.untracked} {
		if len(names) == 0 {
			continue
		}
		if _, err := r.git(c, strings.Join(names, "\x00"), []string{"GIT_INDEX_FILE=" + saved}, "restore", "--worktree",
			"--source="+source, "--pathspec-from-file=-", "--pathspec-file-nul"); err != nil {
			return err
		}
	}
	if len(taken.stopped) > 0 {
		if _, err := r.git(c, "", nil, "stash", "drop", "-q"); err != nil {
			return err
		}
	}
	for name, args := range map[string][]string{"MERGE_HEAD": {"merge", "--quit"},
		"CHERRY_PICK_HEAD": {"cherry-pick", "--quit"}, "REVERT_HEAD": {"revert", "--quit"},
		"rebase-merge": {"rebase", "--quit"}, "rebase-apply": {"rebase", "--quit"}} {
		if info, err := os.Lstat(filepath.Join(c.dir, name)); err == nil && info.ModTime().After(c.since) {
			r.git(c, "", nil, args...)
		}
	}
	var steps [][]string // one after the other: what follows a step that failed must not run
	step := func(args ...string) { steps = append(steps, args) }
	if ref, branch := strings.CutPrefix(c.head, "ref: "); branch {
		if tip := c.commit(); tip != "" {
			step("update-ref", "-m", "knack: put back", ref, tip)
		}
		step("symbolic-ref", "-m", "knack: put back", "HEAD", ref)
	} else {
		step("update-ref", "--no-deref", "-m", "knack: put back", "HEAD", c.head)
	}
	for other, tip := range c.moved() {
		step("update-ref", "-m", "knack: put back", other, tip)
	}
	for _, args := range steps {
		if _, err := r.git(c, "", nil, args...); err != nil {
			return err
		}
	}
	_, err = r.inside(c, "", nil, "/bin/sh", "-c", `mv -f -- "$1" "$2"`, "sh", saved, c.dir+"/index")
	return err
}

// moved returns the branches, except that of the beginning, that the command changed while HEAD named them, and the
// commit of each before: what a script commits after git has left out protected files is without them.
func (c *checkout) moved() map[string]string {
	dir := c.common()
	own := map[string]bool{} // git writes the same line for HEAD and the branch that it names
	log, _ := readBelow(c.dir, c.dir+"/logs/HEAD", 64<<20)
	for line := range strings.SplitSeq(log[min(int(c.log), len(log)):], "\n") {
		own[line] = true
	}
	tips, logs := map[string]string{}, dir+"/logs/"
	filepath.WalkDir(logs+"refs/heads", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err != nil || !c.wrote(info) {
			return nil
		}
		ref, tip := strings.TrimPrefix(path, logs), ""
		log, _ := readBelow(dir, path, 64<<20)
		for _, line := range slices.Backward(strings.Split(strings.TrimRight(log, "\n"), "\n")) {
			if line == "" || !own[line] {
				break
			}
			old, _, _ := strings.Cut(line, " ")
			tip = commitID(old)
		}
		if strings.Trim(tip, "0") != "" && "ref: "+ref != c.head {
			tips[ref] = tip
		}
		return nil
	})
	return tips
}

// packedTip returns the commit of a branch without a file of its own.
func packedTip(dir, ref string) string {
	if common, ok := gitfile.Common(dir); ok {
		dir = common
	}
	text, _ := readBelow(dir, dir+"/packed-refs", 16<<20)
	for l := range strings.Lines(text) {
		if tip, name, ok := strings.Cut(strings.TrimSpace(l), " "); ok && name == ref {
			return commitID(tip)
		}
	}
	return ""
}

// indexOf returns what git ls-files --stage -z lists: mode, object and stage by name.
func indexOf(out []byte) map[string]string {
	all := map[string]string{}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		if what, name, ok := bytes.Cut(entry, []byte{'\t'}); ok {
			all[string(name)] += string(what)
		}
	}
	return all
}

// committed returns those of some files, with the object that each is, that a branch or tag contains under their name.
// Another file may be all that there is of it.
func (r *run) committed(c *checkout, objects map[string]string) map[string]bool {
	tips := []string{"--branches", "--remotes", "--tags"}
	if info, err := os.Lstat(c.dir + "/FETCH_HEAD"); err == nil && c.wrote(info) && info.Size() > 0 {
		tips = append(tips, "FETCH_HEAD")
	}
	var names []string
	var calls []gitCall
	for name, object := range objects {
		if object != "" {
			names = append(names, name)
			calls = append(calls, gitCall{"", slices.Concat([]string{"log", "-1", "--format=%H", "--no-show-signature",
				"--find-object=" + object}, tips, []string{"--", ":(top,literal)" + name})})
		}
	}
	all := map[string]bool{}
	for i, out := range r.gits(c, calls...) {
		all[names[i]] = len(out) > 0
	}
	return all
}

// differing returns the arguments with which git lists the files that differ from the index or are missing
// (diff-files), or differ between the index and a commit (diff-index).
func differing(args ...string) []string {
	return slices.Insert(args, 1, "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=all")
}

// namesIn returns the names that end in a zero byte each.
func namesIn(out []byte) map[string]bool {
	all := map[string]bool{}
	for name := range bytes.SplitSeq(out, []byte{0}) {
		all[string(name)] = true
	}
	return all
}

var errFailed = errors.New("it failed")

func (r *run) git(c *checkout, stdin string, env []string, args ...string) ([]byte, error) {
	out, err := r.inside(c, stdin, env, slices.Concat([]string{"git"}, git.Quietly(), args)...)
	if err != nil {
		err = fmt.Errorf("git %s: %w", args[0], err)
	}
	return out, err
}

// A gitCall is one call of git, with an index other than that of the work tree unless that is "".
type gitCall struct {
	index string
	args  []string
}

// gits calls git several times and returns the output of each call, nil if it failed. The sandbox, which takes longer to
// start than git, starts once for as many as have room in the argument of a shell.
func (r *run) gits(c *checkout, calls ...gitCall) [][]byte {
	all := make([][]byte, len(calls))
	path, err := exec.LookPath("git")
	if err != nil {
		return all
	}
	for done := 0; done < len(calls); {
		var script strings.Builder
		at := done
		for ; done < len(calls) && script.Len() < 64<<10; done++ {
			if calls[done].index != "" {
				script.WriteString("GIT_INDEX_FILE=" + shellWord(calls[done].index) + " ")
			}
			for _, word := range slices.Concat([]string{path}, git.Quietly(), calls[done].args) {
				script.WriteString(shellWord(word) + " ")
			}
			script.WriteString("\nprintf '\\0/%d\\0' $?\n") // git's own names do not begin with a slash
		}
		out, err := r.inside(c, "", nil, "/bin/sh", "-c", script.String())
		if err != nil {
			return all
		}
		for ; at < done; at++ {
			text, rest, _ := bytes.Cut(out, []byte("\x00/"))
			status, rest, _ := bytes.Cut(rest, []byte{0})
			if out = rest; string(status) == "0" {
				all[at] = text
			}
		}
	}
	return all
}

func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// gone returns the protected names that were there when the command began and are not there now.
func (n *protectedFiles) gone() (paths []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for path := range n.known {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			paths = append(paths, path)
		}
	}
	return paths
}

// inside runs a program in the sandbox, in a work tree, with the environment of the command that has ended.
func (r *run) inside(c *checkout, stdin string, env []string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout = c.top, strings.NewReader(stdin), &out
	cmd.Env = append(slices.Clone(r.env), env...)
	policy := r.policy
	policy.Network, policy.Hosts = false, nil
	// What the command wrote, replaced or removed, as it was allowed to, may come back; what is gone cannot be covered.
	allow := workspace.Allowance{Replace: slices.Concat(r.allow.Replace, r.allow.Write, r.system.protected.gone())}
	inner, err := r.system.prepare(policy, r.backend, cmd, &workspace.Command{Env: env, Allow: allow})
	if err != nil {
		return nil, err
	}
	err = cmd.Run()
	inner.finish()
	r.system.protected.leave()
	if s := inner.status; s == nil || s.ExitStatus() != 0 {
		return out.Bytes(), cmp.Or(err, errFailed)
	}
	return out.Bytes(), nil
}
