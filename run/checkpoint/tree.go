package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/order"
	regularfile "github.com/knack-agent/knack/internal/leaf/regular"
)

// maxEntries is how many directory entries a search of a tree without git looks at.
const maxEntries = 20_000

// tooMany is why a search left an entry, and all that follow it.
var tooMany = fmt.Sprintf("more than %d files: this one and what follows", maxEntries)

// A GitRunner runs git with more variables in its environment, and returns what it prints. stdin may be nil.
type GitRunner func(ctx context.Context, env []string, stdin io.Reader, args ...string) ([]byte, error)

// A Step is a part of a turn that may change files. End it when it has ended.
type Step struct {
	// Left is what could not be kept, to be shown before the step changes anything.
	Left []Left

	j      *Journal
	record stepRecord
	at     int // index of its record in the journal
}

// Files begins a step that changes only the given files, and keeps what is in them. Paths are absolute; links in
// their directories are resolved. An [ErrStore] means that nothing may be changed, or it would be lost.
func (j *Journal) Files(_ context.Context, what string, paths ...string) (*Step, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = nil
	r := stepRecord{What: what, Kind: stepFiles, Dirs: map[string]fs.FileMode{}}
	for _, p := range paths {
		name, err := j.name(p)
		if err != nil {
			return nil, err
		}
		s := j.look(name, true)
		if s.Kind == regular && !s.Kept {
			r.Left = append(r.Left, Left{name, "cannot be read"})
		}
		r.Files = append(r.Files, file{name, s})
		j.missing(r.Dirs, name)
	}
	return j.begin(r)
}

// name returns the path of a file as the journal writes it.
func (j *Journal) name(p string) (string, error) {
	if !filepath.IsAbs(p) {
		return "", fmt.Errorf("%s is not absolute", p)
	}
	dir, rest := filepath.Dir(p), filepath.Base(p)
	real, err := filepath.EvalSymlinks(dir)
	for ; errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); real, err = filepath.EvalSymlinks(dir) {
		dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
	}
	if err != nil {
		return "", err
	}
	p = filepath.Join(real, rest)
	if rel, err := filepath.Rel(j.tree.Root, p); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel), nil
	}
	return filepath.Clean(p), nil
}

// Tree begins a step that may change anything in the tree. It keeps the files that git could not bring back: in a
// repository the modified and untracked ones that are not ignored, elsewhere all that are not ignored. [ErrStore] is as
// in [Journal.Files].
func (j *Journal) Tree(ctx context.Context, what string) (*Step, error) {
	return j.treeStep(ctx, stepRecord{What: what, Kind: stepTree})
}

// Worktree is like [Journal.Tree] for another worktree of the repository. Its files are named by absolute paths.
func (j *Journal) Worktree(ctx context.Context, root, what string) (*Step, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	return j.treeStep(ctx, stepRecord{What: what, Kind: stepTree, Root: root})
}

func (j *Journal) treeStep(ctx context.Context, r stepRecord) (*Step, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t, err := j.treeOf(r)
	if err != nil {
		return nil, err
	}
	if t.Git != nil {
		if r.Index, err = j.copyIndex(ctx, t); err != nil {
			return nil, err
		}
	}
	found, err := j.modified(ctx, t, r.Index, nil)
	if err != nil {
		return nil, err
	}
	r.Left, r.ignored, r.bits = found.left, found.ignored, found.bits
	if r.Bits, err = j.keepBits(t, r.bits); err != nil {
		return nil, err
	}
	var b budget
	for _, p := range found.files {
		s := j.stat(p.Path)
		if s.Kind == regular {
			if !b.take(s.Size) {
				r.Left = append(r.Left, Left{p.Path, fmt.Sprintf("more than %d files or %d MB that git does not have", MaxFiles,
					MaxBytes>>20)})
			} else if s = j.look(p.Path, true); s.Kind == regular && !s.Kept {
				r.Left = append(r.Left, Left{p.Path, "cannot be read"})
			}
		}
		r.Files = append(r.Files, file{p.Path, s})
	}
	return j.begin(r)
}

// treeOf returns the tree of a step.
func (j *Journal) treeOf(r stepRecord) (Tree, error) {
	if r.Root == "" {
		return j.tree, nil
	}
	t := Tree{Root: r.Root}
	if j.tree.In != nil {
		t.Git = j.tree.In(r.Root)
	}
	if t.Git == nil {
		return t, fmt.Errorf("%s is not a worktree of the repository", r.Root)
	}
	return t, nil
}

// A budget limits the files whose content is read or kept for one step.
type budget struct {
	files int
	bytes int64
}

// take reports whether a file of a size is within the limits, and then counts it.
func (b *budget) take(size int64) bool {
	if b.files >= MaxFiles || b.bytes+size > MaxBytes {
		return false
	}
	b.files++
	b.bytes += size
	return true
}

// begin records a step before it changes anything.
func (j *Journal) begin(r stepRecord) (*Step, error) {
	if err := j.failed; err != nil {
		j.failed = nil
		return nil, err
	}
	if j.pending != nil {
		if err := j.append(record{Turn: j.pending}); err != nil {
			return nil, err
		}
		j.pending = nil
	}
	j.steps++
	r.N = j.steps
	if err := j.append(record{Step: &r}); err != nil {
		return nil, err
	}
	return &Step{Left: r.Left, j: j, record: r, at: len(j.records)}, nil
}

// End records what the step changed.
func (s *Step) End(ctx context.Context) error {
	j := s.j
	j.mu.Lock()
	defer j.mu.Unlock()
	now, err := j.changes(ctx, s.record)
	if err != nil {
		return err
	}
	// What a step that ran at the same time has recorded is not recorded again.
	since, sinceDirs := map[string]state{}, map[string]fs.FileMode{}
	for _, r := range j.records[s.at:] {
		if r.End == nil {
			continue
		}
		for _, c := range r.End.Changes {
			since[c.Path] = c.After
		}
		for _, c := range r.End.Dirs {
			sinceDirs[c.Path] = c.After
		}
	}
	end := endRecord{N: s.record.N}
	for _, c := range now.Dirs {
		if before, ok := sinceDirs[c.Path]; ok {
			c.Before = before
		}
		if c.Before != c.After {
			end.Dirs = append(end.Dirs, c)
		}
	}
	for _, c := range now.Changes {
		if before, ok := since[c.Path]; ok {
			c.Before = before
		}
		if !same(c.Before, c.After) {
			end.Changes = append(end.Changes, c)
		}
	}
	return j.append(record{End: &end})
}

// changes compares the files and directories of a step with what they were before.
func (j *Journal) changes(ctx context.Context, r stepRecord) (end endRecord, err error) {
	end.N = r.N
	before := map[string]state{}
	for _, f := range r.Files {
		before[f.Path] = f.State
	}
	now, after := r.Files, (*bits)(nil)
	if r.Kind == stepTree {
		t, err := j.treeOf(r)
		if err != nil {
			return end, err
		}
		found, err := j.modified(ctx, t, r.Index, r.bits)
		if err != nil {
			return end, err
		}
		now, after = found.files, found.bits
		more, err := j.chmods(ctx, t, r, after)
		if err != nil {
			return end, err
		}
		now = append(now, more...)
		// What was ignored or passed over was there before, or may have been: it was not made by the step only because it
		// is listed now.
		now = slices.DeleteFunc(now, func(f file) bool {
			_, kept := before[f.Path]
			return !kept && f.State.Kind == absent && (covers(r.ignored, f.Path) || r.passedOver(f.Path))
		})
	}
	was := func(f file) state {
		if s, ok := before[f.Path]; ok {
			return s
		}
		return r.bits.of(f) // git's, or absent
	}
	var all []change
	var b budget
	add := func(path string, was state) {
		s := j.stat(path)
		if s.Kind == regular && (was.Stamp == "" && b.take(s.Size) || was.Hash != "") {
			s = j.look(path, false)
		}
		all = append(all, change{path, was, s})
	}
	added := map[string]bool{}
	for _, f := range now {
		if !added[f.Path] { // what got other bits may be listed twice
			add(f.Path, was(f))
		}
		added[f.Path] = true
		delete(before, f.Path)
	}
	for _, f := range r.Files {
		if was, ok := before[f.Path]; ok { // it is gone, or as git has it
			add(f.Path, was)
		}
	}
	order.Stable(all, func(a, b change) int { return strings.Compare(a.Path, b.Path) })
	end.Changes = slices.DeleteFunc(all, func(c change) bool { return same(c.Before, c.After) })
	end.Dirs = j.dirChanges(r, after)
	return end, nil
}

// passedOver reports whether a path is of what was not looked at before the step: another repository, a directory that
// could not be read, or what follows the last entry of a search.
func (r stepRecord) passedOver(path string) bool {
	return slices.ContainsFunc(r.Left, func(l Left) bool {
		if l.Why == tooMany {
			return slices.Compare(strings.Split(path, "/"), strings.Split(l.Path, "/")) >= 0
		}
		return covers([]string{l.Path, strings.TrimSuffix(l.Path, "/") + "/"}, path)
	})
}

// covers reports whether a path is one of names, or below a directory of them.
func covers(names []string, path string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == path || strings.HasSuffix(name, "/") && strings.HasPrefix(path, name)
	})
}

// A survey is what is found in a tree.
type survey struct {
	// The files that git could not bring back, with the state that git has of them: absent for an untracked file.
	// Without git, all.
	files   []file
	ignored []string // as in stepRecord
	left    []Left
	bits    *bits
}

// nameIn returns the name in the journal of a path relative to the root of a tree.
func (j *Journal) nameIn(t Tree, below string) string {
	if t.Root == j.tree.Root {
		return below
	}
	return filepath.Join(t.Root, filepath.FromSlash(below))
}

// modified searches a tree. index is a copy of git's index with which the tree is compared; before is what was found
// before the step, and nil then.
func (j *Journal) modified(ctx context.Context, t Tree, index string, before *bits) (s survey, err error) {
	if t.Git == nil {
		return j.search(ctx)
	}
	name := func(below string) string { return j.nameIn(t, below) }
	looked := make(chan lookedAt, 1)
	go func() { looked <- j.lookAtTracked(ctx, t, index, before) }() // beside git
	out, err := t.Git(ctx, []string{"GIT_INDEX_FILE=" + filepath.Join(j.dir, index)}, nil, "status",
		"--porcelain=v2", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames", "--ignore-submodules=all")
	tracked := <-looked
	if err = cmp.Or(err, tracked.err); err != nil {
		return s, err
	}
	if s.left, err = submodules(ctx, t); err != nil {
		return s, err
	}
	closed := map[string]bool{} // directories that are not searched
	for i, l := range s.left {
		closed[l.Path] = true
		s.left[i].Path = name(l.Path)
	}
	for _, line := range strings.Split(string(out), "\x00") {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "1": // XY sub mH mI mW hH hI path
			f := strings.SplitN(rest, " ", 8)
			if len(f) == 8 && len(f[0]) == 2 && f[0][1] != '.' {
				s.files = append(s.files, file{name(f[7]), blobState(f[3], f[6])})
			}
		case "u": // XY sub m1 m2 m3 mW h1 h2 h3 path
			if f := strings.SplitN(rest, " ", 10); len(f) == 10 {
				s.files = append(s.files, file{name(f[9]), state{Kind: other}})
			}
		case "!":
			dir := rest[len(strings.TrimSuffix(rest, "/")):] // a slash, which name cleans away in a worktree
			s.ignored = append(s.ignored, strings.TrimSuffix(name(rest), "/")+dir)
			closed[strings.TrimSuffix(rest, "/")] = true
		case "?":
			if strings.HasSuffix(rest, "/") {
				s.left = append(s.left, Left{name(rest), "another repository"})
				closed[strings.TrimSuffix(rest, "/")] = true
			} else {
				s.files = append(s.files, file{name(rest), state{Kind: absent}})
			}
		}
	}
	s.bits = tracked.bits
	s.bits.dirs = map[string]fs.FileMode{}
	directories(ctx, t.Root, tracked.bits.tracked.children, closed, func(dir string, mode fs.FileMode) {
		s.bits.dirs[name(dir)] = mode
	})
	return s, ctx.Err()
}

// submodules returns the submodules that are checked out. git status passes them over, because it would start git in
// each, with the configuration there.
func submodules(ctx context.Context, t Tree) (left []Left, err error) {
	if _, err := os.Lstat(filepath.Join(t.Root, ".gitmodules")); err != nil {
		return nil, nil
	}
	out, err := t.Git(ctx, nil, nil, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		if !strings.HasPrefix(line, "160000 ") {
			continue
		}
		_, path, _ := strings.Cut(line, "\t")
		if _, err := os.Lstat(filepath.Join(t.Root, filepath.FromSlash(path), ".git")); err == nil {
			left = append(left, Left{path, "a submodule"})
		}
	}
	return left, nil
}

// blobState is the state of a file as git's index has it.
func blobState(mode, name string) state {
	switch mode {
	case "100644":
		return state{Kind: regular, Mode: 0o644, Blob: name}
	case "100755":
		return state{Kind: regular, Mode: 0o755, Blob: name}
	case "120000":
		return state{Kind: link, Blob: name}
	case "000000":
		return state{Kind: absent}
	}
	return state{Kind: other}
}

// search returns the files below the root that no ignore file excludes, and what one excludes.
func (j *Journal) search(ctx context.Context) (s survey, err error) {
	s.bits = &bits{dirs: map[string]fs.FileMode{}}
	err = j.walk(ctx, func(name string, excluded bool) {
		dir, isDir := strings.CutSuffix(name, "/")
		switch {
		case excluded:
			s.ignored = append(s.ignored, name)
		case isDir:
			s.bits.dirs[dir] = j.dirMode(dir)
		default:
			s.files = append(s.files, file{name, state{Kind: absent}})
		}
	}, func(l Left) { s.left = append(s.left, l) })
	return s, err
}

// walk calls yield for what is below the root, directories with a slash, and whether an ignore file excludes it; and
// left for what it does not look at.
func (j *Journal) walk(ctx context.Context, yield func(name string, excluded bool), left func(Left)) error {
	fsys := os.DirFS(j.tree.Root)
	tree, looked := ignore.New(fsys), 0
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if name == "." {
				return err
			}
			left(Left{name, "cannot be read"})
			return fs.SkipDir
		case name == ".":
			return nil
		}
		if looked++; looked > maxEntries {
			left(Left{name, tooMany})
			return fs.SkipAll
		}
		excluded := tree.Match(name, d.IsDir())
		switch {
		case path.Base(name) == ".git":
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir() && excluded:
			yield(name+"/", true)
			return fs.SkipDir
		case d.IsDir():
			yield(name+"/", false)
		default:
			yield(name, excluded)
		}
		return nil
	})
}

// An indexCopy is a copy of git's index in the journal's directory. git compares the tree with it after a step, even
// if the step changed the index itself.
type indexCopy struct {
	from    string // git's own
	stamp   string // of from
	name    string
	tracked *tracked // nil: not listed yet
	bits    *bits    // as they were kept last
	kept    string   // the name of the file that has them
}

// copyIndex copies git's index if it changed since the last copy, and returns the copy's name.
func (j *Journal) copyIndex(ctx context.Context, t Tree) (string, error) {
	c := j.indexes[t.Root]
	if c == nil {
		c = &indexCopy{}
		j.indexes[t.Root] = c
	}
	if c.from == "" {
		out, err := t.Git(ctx, nil, nil, "rev-parse", "--path-format=absolute", "--git-path", "index")
		if err != nil {
			return "", err
		}
		c.from = strings.TrimSuffix(string(out), "\n")
	}
	info, err := os.Stat(c.from)
	stamp := "none"
	if err == nil {
		stamp = stampOf(info)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if stamp == c.stamp {
		return c.name, nil
	}
	if err := errors.Join(j.share(), os.MkdirAll(j.dir, 0o700)); err != nil {
		return "", storeError(err)
	}
	name := "index-" + strconv.Itoa(j.steps+1)
	if stamp != "none" {
		if err := copyFile(filepath.Join(j.dir, name), c.from); err != nil {
			return "", storeError(err)
		}
		// git reads files that are as young as the index, because they may have changed since without another time.
		if err := os.Chtimes(filepath.Join(j.dir, name), info.ModTime(), info.ModTime()); err != nil {
			return "", err
		}
	}
	c.stamp, c.name, c.tracked = stamp, name, nil
	return name, nil
}

func copyFile(to, from string) error {
	f, err := regularfile.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	g, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if !clone(g, f) {
		_, err = io.Copy(g, f)
	}
	return errors.Join(err, g.Close())
}

// dropIndexes removes copies of the index, and permission bits, that no step needs any more.
func (j *Journal) dropIndexes() error {
	needed := map[string]bool{}
	for _, c := range j.indexes {
		needed[c.name], needed[c.kept] = true, true
	}
	ended := map[int]bool{}
	for _, r := range slices.Backward(j.records) {
		if r.End != nil {
			ended[r.End.N] = true
		} else if r.Step != nil && !ended[r.Step.N] {
			needed[r.Step.Index], needed[r.Step.Bits] = true, true
		}
	}
	copies, err := filepath.Glob(filepath.Join(j.dir, "index-*"))
	kept, err2 := filepath.Glob(filepath.Join(j.dir, "bits-*"))
	err = errors.Join(err, err2)
	for _, c := range append(copies, kept...) {
		if !needed[filepath.Base(c)] {
			err = errors.Join(err, os.Remove(c))
		}
	}
	return err
}

// recover ends the steps of a process that was killed. Files that are gone count as removed by the step, so that they
// come back. Whether it or the user changed the others is not known: they are only named.
func (j *Journal) recover() error {
	ended := map[int]bool{}
	for _, r := range j.records {
		if r.End != nil {
			ended[r.End.N] = true
		}
	}
	for _, r := range slices.Clone(j.records) {
		if r.Step == nil || ended[r.Step.N] {
			continue
		}
		j.readBits(context.Background(), r.Step)
		now, err := j.changes(context.Background(), *r.Step)
		if _, gone := os.Stat(r.Step.Root); r.Step.Root != "" && errors.Is(gone, fs.ErrNotExist) {
			now, err = endRecord{}, nil // the worktree was removed, with what was in it
		}
		if err != nil {
			return fmt.Errorf("what an interrupted step changed cannot be found out: %w", err)
		}
		end := endRecord{N: r.Step.N}
		for _, c := range now.Dirs {
			if c.After == 0 {
				end.Dirs = append(end.Dirs, c)
			}
		}
		for _, c := range now.Changes {
			if c.After.Kind == absent {
				end.Changes = append(end.Changes, c)
			} else {
				end.Interrupted = append(end.Interrupted, c.Path)
			}
		}
		if err := j.append(record{End: &end}); err != nil {
			return err
		}
	}
	return nil
}

// blob returns the content that a file in the tree has if git checks it out.
func (t Tree) blob(ctx context.Context, name, id string) ([]byte, error) {
	return t.Git(ctx, nil, nil, "cat-file", "--filters", "--path="+name, id)
}

// below returns a path as git's attributes name it: relative to the root of its worktree.
func (j *Journal) below(name string) string {
	if !filepath.IsAbs(name) {
		return name
	}
	for _, r := range j.records {
		if r.Step == nil || r.Step.Root == "" {
			continue
		}
		if rel, err := filepath.Rel(r.Step.Root, name); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.Base(name)
}

// blobs is blob for many files at once; those that git does not have are missing in the result.
func (j *Journal) blobs(ctx context.Context, files []file) (map[string][]byte, error) {
	var ask bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&ask, "%s %s\n", f.State.Blob, j.below(f.Path))
	}
	out, err := j.tree.Git(ctx, nil, &ask, "cat-file", "--batch", "--filters")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, f := range files { // ID blob SIZE\nCONTENT\n, or ID missing\n
		head, rest, ok := bytes.Cut(out, []byte("\n"))
		if !ok {
			return nil, errors.New("git cat-file ended early")
		}
		words := strings.Fields(string(head))
		if len(words) != 3 {
			out = rest
			continue
		}
		n, err := strconv.Atoi(words[2])
		if err != nil || n < 0 || n >= len(rest) {
			return nil, fmt.Errorf("git cat-file printed %q", head)
		}
		all[f.Path] = rest[:n]
		out = rest[n+1:]
	}
	return all, nil
}
