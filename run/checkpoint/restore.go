package checkpoint

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/order"
	regularfile "github.com/knack-agent/knack/internal/leaf/regular"
)

// Options say which files to restore, and how.
type Options struct {
	Only []string // paths as in [FileChange]; nil: all
	// Force also restores files that somebody else changed. What is in them is kept first, so that Redo brings it back.
	// It also removes files of the session that are too large to be kept, which Redo then cannot bring back.
	Force bool
}

// A Result is what a restore did, or would do.
type Result struct {
	Files []FileChange // in the direction of the restore: a file that the turn created is Removed
	Left  []Left       // files that are not as before the turn, and why
	// Ignored are the files and directories that are not kept because they are ignored, if a command may have changed
	// them. Directories end in /.
	Ignored []string
	Again   bool // a forced Redo took back what an earlier one had left
}

// ErrNothing means that nothing changed that could be restored.
var ErrNothing = errors.New("no file was changed")

// Plan returns what [Journal.Restore] would do.
func (j *Journal) Plan(ctx context.Context, entry int, o Options) (Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, r, err := j.plan(ctx, entry, o)
	r.Ignored = j.ignored(ctx, entry)
	return r, err
}

// Contents returns what is in a file now and what [Journal.Restore] would make of it, for a diff; nil means that there
// is no file. Path is one of those that Plan returns.
func (j *Journal) Contents(ctx context.Context, entry int, path string) (now, then []byte, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all, _, err := j.plan(ctx, entry, Options{Only: []string{path}, Force: true})
	moves := all.files
	if err != nil || len(moves) == 0 {
		return nil, nil, err
	}
	if m := moves[0]; m.want.Kind == regular {
		if then, err = j.content(ctx, path, m.want); err != nil {
			return nil, nil, err
		}
	}
	if moves[0].have.Kind == regular {
		now, err = regularfile.Read(j.absolute(path), maxCompared)
	}
	return now, then, err
}

// maxCompared is the size in bytes above which Contents does not return what is in a file now.
const maxCompared = 1 << 30

// Restore brings the files back to their state before the turn with an entry, or before the first turn after it that
// changed files. Files that somebody else changed since, or between two changes of the session, are left as they are
// and named; if such a file was removed after that, what that somebody wrote comes back. Restore is a step of its own:
// Redo takes it back.
func (j *Journal) Restore(ctx context.Context, entry int, o Options) (Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	moves, r, err := j.plan(ctx, entry, o)
	r.Ignored = j.ignored(ctx, entry)
	if err != nil {
		return r, err
	}
	return j.carryOut(ctx, stepRecord{What: "undo", To: entry}, moves, r)
}

// ignored returns what is ignored in the tree, if a command ran in the turn with an entry or later.
func (j *Journal) ignored(ctx context.Context, entry int) (names []string) {
	turn := 0
	ran := slices.ContainsFunc(j.records, func(r record) bool {
		if r.Turn != nil {
			turn = r.Turn.Entry
		}
		return r.Step != nil && r.Step.Kind == stepTree && r.Step.Root == "" && turn >= entry
	})
	if !ran {
		return nil
	}
	if j.tree.Git == nil {
		_ = j.walk(ctx, func(name string, excluded bool) {
			if excluded {
				names = append(names, name)
			}
		}, func(Left) {}) // what cannot be read is named elsewhere
		return names
	}
	out, err := j.tree.Git(ctx, nil, nil, "status", "--porcelain=v2", "-z", "--untracked-files=normal", "--ignored",
		"--no-renames", "--ignore-submodules=all")
	if err != nil {
		return nil // the names are a service
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		if name, ok := strings.CutPrefix(line, "! "); ok {
			names = append(names, name)
		}
	}
	return names
}

// Redo takes back the last Restore that was not taken back. With o.Force it also takes back what an earlier Redo of the
// same Restore has left, because somebody else had changed it.
func (j *Journal) Redo(ctx context.Context, o Options) (Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := map[int]bool{}
	type fileOf struct {
		restore int
		path    string
	}
	back := map[fileOf]bool{} // files that were taken back
	for i, r := range slices.Backward(j.records) {
		if r.Step == nil || r.Step.Kind != stepRestore {
			continue
		}
		if r.Step.Takes != 0 {
			taken[r.Step.Takes] = true
			for _, e := range j.records[i:] {
				if e.End != nil && e.End.N == r.Step.N {
					for _, c := range e.End.Changes {
						back[fileOf{r.Step.Takes, c.Path}] = true
					}
				}
			}
			continue
		}
		if taken[r.Step.N] && !o.Force {
			continue
		}
		var moves []move
		var dirs []dirMove
		var result Result
		for _, e := range j.records[i:] {
			if e.End == nil || e.End.N != r.Step.N {
				continue
			}
			dirs = append(dirs, j.dirsBack(e.End.Dirs, o)...)
			for _, c := range e.End.Changes {
				have := j.look(c.Path, false)
				untouched := j.equal(ctx, c.Path, have, c.After)
				switch {
				case back[fileOf{r.Step.N, c.Path}] || j.equal(ctx, c.Path, have, c.Before):
				case untouched || o.Force:
					moves = append(moves, move{c.Path, have, c.Before, untouched})
				default:
					result.Left = append(result.Left, Left{c.Path, changedSince})
				}
			}
		}
		if taken[r.Step.N] && len(moves)+len(dirs) == 0 {
			break
		}
		moves, result.Again = possible(moves, &result, o.Force), taken[r.Step.N]
		return j.carryOut(ctx, stepRecord{What: "redo", Takes: r.Step.N}, plan{moves, dirs}, result)
	}
	return Result{}, ErrNothing
}

// Undoable returns the entry of the last turn that changed files and was not undone since.
func (j *Journal) Undoable() (entry int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := 0 // turns from this entry on are undone; 0: none
	taken := map[int]bool{}
	for _, r := range slices.Backward(j.records) {
		switch {
		case r.Step != nil && r.Step.Takes != 0:
			taken[r.Step.Takes] = true
		case r.Step != nil && r.Step.Kind == stepRestore && !taken[r.Step.N]:
			if before == 0 || r.Step.To < before {
				before = r.Step.To
			}
		case r.Turn != nil && (before == 0 || r.Turn.Entry < before):
			return r.Turn.Entry, true
		}
	}
	return 0, false
}

const (
	changedSince   = "changed since"
	changedBetween = "changed by somebody else in between"
	notKept        = "its content was not kept"

	changedBetweenRestored = changedBetween + "; that state was restored"
)

// tooLarge is why a file is left that Redo could not bring back.
var tooLarge = fmt.Sprintf("more than %d MB, which redo could not bring back", undoBytes>>20)

// Forcible reports whether a Restore with Force would restore it.
func (l Left) Forcible() bool {
	return slices.Contains([]string{changedSince, changedBetween, changedBetweenRestored, tooLarge}, l.Why)
}

// A plan is what a restore changes.
type plan struct {
	files []move
	dirs  []dirMove
}

// A move is a file that a restore changes.
type move struct {
	path       string
	have, want state
	untouched  bool // what is there is what the session left
}

// plan compares the tree with the journal.
func (j *Journal) plan(ctx context.Context, entry int, o Options) (p plan, result Result, err error) {
	var moves []move
	from := slices.IndexFunc(j.records, func(r record) bool { return r.Turn != nil && r.Turn.Entry >= entry })
	if from < 0 {
		return p, result, ErrNothing
	}
	var ends []endRecord
	for _, r := range j.records[from:] {
		if r.End != nil {
			ends = append(ends, *r.End)
			for _, p := range r.End.Interrupted {
				if selected(o, p) {
					result.Left = append(result.Left, Left{p, "changed by a step that was interrupted, or by somebody else"})
				}
			}
		}
	}
	for _, h := range histories(ends) {
		name := h[0].Path
		if !selected(o, name) {
			continue
		}
		want, last := h[0].Before, h[len(h)-1].After
		broken := 0 // the first change after one of somebody else
		for i := 1; i < len(h); i++ {
			if !j.equal(ctx, name, h[i-1].After, h[i].Before) {
				broken = i
			}
		}
		have := j.stat(name)
		untouched := same(have, last)
		if !untouched && have.Kind == regular && last.Stamp == "" {
			have = j.look(name, false)
			untouched = j.equal(ctx, name, have, last)
		}
		why := ""
		switch {
		case j.equal(ctx, name, have, want):
			continue
		case o.Force:
		case !untouched:
			why = changedSince
		case broken > 0 && have.Kind == absent:
			why, want = changedBetweenRestored, h[broken].Before
		case broken > 0:
			why = changedBetween
		}
		if why != "" {
			result.Left = append(result.Left, Left{name, why})
			if want == h[0].Before {
				continue
			}
		}
		moves = append(moves, move{name, have, want, untouched})
	}
	p.files = possible(moves, &result, o.Force)
	p.dirs = j.planDirs(ends, p.files, o, &result)
	p.files = j.unblocked(p, &result)
	for _, m := range p.files {
		result.Files = append(result.Files, FileChange{m.path, effect(m.have, m.want)})
	}
	result.Files = append(result.Files, nameDirs(p.dirs, result.Files)...)
	order.Stable(result.Files, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return p, result, nil
}

// possible returns the moves that can be made, and names the others: those whose content was not kept, and unless force
// is set those that would destroy what is too large to be kept, so that nothing could bring it back.
func possible(moves []move, result *Result, force bool) []move {
	total := int64(0)
	return slices.DeleteFunc(moves, func(m move) bool {
		why := ""
		switch {
		case m.want.Kind == regular && m.want.Blob == "" && !m.want.Kept:
			why = notKept
		case m.have.Kind == regular && m.untouched && !force && total+m.have.Size > undoBytes:
			why = tooLarge
		}
		if why != "" {
			result.Left = append(result.Left, Left{m.path, why})
			return true
		}
		total += m.have.Size
		return false
	})
}

func selected(o Options, name string) bool { return o.Only == nil || slices.Contains(o.Only, name) }

// carryOut changes files as a step of its own. Those that cannot be changed become part of result.Left.
func (j *Journal) carryOut(ctx context.Context, r stepRecord, p plan, result Result) (Result, error) {
	result.Files = nil
	moves := p.files
	if len(moves)+len(p.dirs) == 0 {
		return result, nil
	}
	r.Kind, r.Dirs = stepRestore, map[string]fs.FileMode{}
	for _, d := range p.dirs {
		r.Dirs[d.path] = d.have
	}
	total := int64(0)
	for i, m := range moves {
		// What possible let through beyond the limit was forced.
		if total += m.have.Size; total <= undoBytes || !m.untouched {
			m.have = j.look(m.path, true)
		}
		moves[i] = m
		r.Files = append(r.Files, file{m.path, m.have})
		j.missing(r.Dirs, m.path)
	}
	step, err := j.begin(r)
	if err != nil {
		return result, err
	}
	// What is created goes first, with the deepest paths first, so that a directory can take the place of a file.
	order.Stable(moves, func(a, b move) int {
		if (a.want.Kind == absent) != (b.want.Kind == absent) {
			if a.want.Kind == absent {
				return -1
			}
			return 1
		}
		if a.want.Kind == absent {
			return cmp.Compare(strings.Count(b.path, "/"), strings.Count(a.path, "/"))
		}
		return strings.Compare(a.path, b.path)
	})
	made := slices.IndexFunc(moves, func(m move) bool { return m.want.Kind != absent })
	if made < 0 {
		made = len(moves)
	}
	j.openDirs(p.dirs)
	for _, m := range moves[:made] {
		j.putFile(ctx, m, nil, &result)
	}
	failed := j.moveDirs(p.dirs)
	for chunk := range slices.Chunk(moves[made:], 200) {
		var wanted []file
		for _, m := range chunk {
			// git reads one name a line: another would shift the contents of all that follow.
			if m.want.Blob != "" && !strings.Contains(m.path, "\n") {
				wanted = append(wanted, file{m.path, m.want})
			}
		}
		blobs := map[string][]byte{}
		if len(wanted) > 0 && j.tree.Git != nil {
			if blobs, err = j.blobs(ctx, wanted); err != nil {
				blobs = nil // each is asked for alone, and the error is that of the file
			}
		}
		for _, m := range chunk {
			j.putFile(ctx, m, blobs, &result)
		}
	}
	failed = append(failed, j.chmodDirs(p.dirs)...)
	result.Left = append(result.Left, failed...)
	done := slices.DeleteFunc(slices.Clone(p.dirs), func(d dirMove) bool { return j.dirMode(d.path) != d.want })
	result.Files = append(result.Files, nameDirs(done, result.Files)...)
	order.Stable(result.Files, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	end, err := j.changes(ctx, step.record)
	if err != nil {
		return result, err
	}
	return result, j.append(record{End: &end})
}

// putFile is put with an entry in the result.
func (j *Journal) putFile(ctx context.Context, m move, blobs map[string][]byte, result *Result) {
	if err := j.put(ctx, m, blobs); err != nil {
		result.Left = append(result.Left, Left{m.path, err.Error()})
		return
	}
	result.Files = append(result.Files, FileChange{m.path, effect(m.have, m.want)})
}

// put brings a path into a state.
func (j *Journal) put(ctx context.Context, m move, blobs map[string][]byte) error {
	if m.have.Kind == other || m.have.Kind == regular && !m.have.Kept && !m.untouched {
		return errors.New("what is there now cannot be kept")
	}
	root, err := j.openDir(m.path, m.want.Kind != absent)
	if m.want.Kind == absent && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return reason(err)
	}
	defer root.Close()
	name := path.Base(filepath.ToSlash(m.path))
	if m.want.Kind == absent {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return reason(err)
		}
		return nil
	}
	if m.have.Kind == regular && m.want.Kind == regular && j.sameContent(ctx, m.path, m.have, m.want) &&
		chmod(root, name, m.want) == nil {
		return nil
	}
	var content []byte
	target := m.want.Target
	switch m.want.Kind {
	case link:
		if m.want.Blob != "" {
			data, err := j.content(ctx, m.path, m.want)
			if err != nil {
				return err
			}
			target = string(data)
		}
	case regular:
		ok := false
		if content, ok = blobs[m.path]; !ok || m.want.Blob == "" {
			if content, err = j.content(ctx, m.path, m.want); err != nil {
				return err
			}
		}
	default:
		return errors.New("it was not a file")
	}
	tmp := ".knack-" + rand.Text()
	if m.want.Kind == link {
		err = root.Symlink(target, tmp)
	} else {
		err = writeFile(root, tmp, content, m)
	}
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		_ = root.Remove(tmp)
		return reason(err)
	}
	return nil
}

var errLinked = errors.New("its directory is a link now")

// openDir opens the directory of a path of the journal, in which there are no links.
func (j *Journal) openDir(name string, create bool) (*os.Root, error) {
	file := j.absolute(name)
	if now, err := j.name(file); err != nil || now != name {
		return nil, cmp.Or(err, errLinked)
	}
	dir := filepath.Dir(file)
	if create {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	root, err := regularfile.Root(dir)
	if err != nil {
		return nil, err
	}
	// A program may have put a link there before it was opened.
	opened, err1 := root.Stat(".")
	is, err2 := os.Lstat(dir)
	if now, err := j.name(file); err != nil || now != name || err1 != nil || err2 != nil || !os.SameFile(opened, is) {
		root.Close()
		return nil, errLinked
	}
	return root, nil
}

// chmod gives a file permission bits. It must be a file, not a link, when it is opened.
func chmod(root *os.Root, name string, want state) error {
	if want.Blob != "" && !want.Bits {
		return errors.New("its permission bits are not known")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err1 := f.Stat()
	is, err2 := root.Lstat(name)
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	if !os.SameFile(info, is) || !is.Mode().IsRegular() {
		return errors.New("it is no file any more")
	}
	const all = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	own := special(info)
	return f.Chmod(want.Mode&(fs.ModePerm|own) | info.Mode()&all&^own)
}

func writeFile(root *os.Root, name string, content []byte, m move) error {
	mode, known := m.want.Mode, m.want.Blob == "" || m.want.Bits
	if !known { // git knows only whether it is executable
		mode |= 0o666 | mode&0o100>>3 | mode&0o100>>6
		if m.have.Kind == regular {
			mode = m.have.Mode.Perm()&^0o111 | m.want.Mode&0o111
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if known || m.have.Kind == regular { // else the umask decides, as when git writes it
		info, e := f.Stat()
		if e == nil {
			e = f.Chmod(mode & (fs.ModePerm | special(info)))
		}
		err = errors.Join(err, e)
	}
	return errors.Join(err, f.Close())
}

// reason is an error without the path, which the reader knows.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}
