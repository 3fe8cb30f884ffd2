//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A halfDone is what git left in a work tree, and what has to be put back. Its steps fill it in the order of their
// methods; one that returns false has found out that there is nothing to do, or cannot find out.
type halfDone struct {
	r *run
	c *checkout

	named, appeared []string // files at which git stopped, and what came to lie under protected names
	taken           takenBack
	saved           string // the path of a copy of the index as it was

	// Of readIndexes: the entries as they were and are, the names whose entries differ, and whether one of all these
	// files is one that the sandbox keeps git from replacing.
	before, after map[string]string
	changed       []string
	stops         bool

	// Of compare: the files that differ from the index as it is and as it was, the entries that differ from HEAD's commit,
	// and that commit.
	dirty, dirtyBefore, staged map[string]bool
	undone, head               string

	updates bool // git has updated the work tree, not only the index
	// elsewhere means that git wrote what no command could have written: it ran outside the sandbox, as in another
	// terminal of the user's.
	elsewhere bool
	stopped   []string
	remove    []writtenFile
	restore   []string
}

// putBack undoes what git left half done in a work tree, if it did, and returns a note about it.
func (r *run) putBack(c *checkout) string {
	h := &halfDone{r: r, c: c, named: r.stoppedIn(c), appeared: r.newProtected(c)}
	if !c.changed() && !c.stashed() && len(h.named) == 0 && len(h.appeared) == 0 {
		return ""
	}
	ok := h.saveIndex()
	defer os.Remove(h.saved)
	if !ok || !h.readIndexes() || !h.compare() {
		return ""
	}
	if h.judge(); h.elsewhere { // what the command's own git did cannot be told from that
		return ""
	}
	if h.findUntraced(); h.elsewhere {
		return ""
	}
	if h.stopped = append(h.stopped, h.taken.stopped...); len(h.stopped) == 0 ||
		!h.updates && len(h.taken.stopped) == 0 {
		return ""
	}
	slices.Sort(h.stopped)
	h.stopped = slices.Compact(h.stopped)
	return h.note(r.restore(c, h.saved, h.head, h.remove, h.restore, h.taken))
}

// saveIndex copies the index as it was to a file. Git compares what it finds in an index only with files that are older
// than the index, so the copy is as old.
func (h *halfDone) saveIndex() bool {
	saved, err := os.CreateTemp(h.c.dir, "knack-index-")
	if err != nil {
		return false
	}
	h.saved = saved.Name()
	_, err = io.Copy(saved, io.NewSectionReader(h.c.index, 0, 1<<30))
	if saved.Close() != nil || err != nil {
		return false
	}
	info, err := h.c.index.Stat()
	return err == nil && os.Chtimes(h.saved, info.ModTime(), info.ModTime()) == nil
}

// readIndexes compares the index with what it was. false: git may write all that differs, which is the usual case.
func (h *halfDone) readIndexes() bool {
	entries := []string{"ls-files", "--stage", "-z"}
	out := h.r.gits(h.c, gitCall{h.saved, entries}, gitCall{"", entries})
	if out[0] == nil || out[1] == nil {
		return false
	}
	h.before, h.after, h.taken = indexOf(out[0]), indexOf(out[1]), h.r.takenBack(h.c)
	h.stops = len(h.named)+len(h.appeared)+len(h.taken.stopped) > 0
	for name := range allKeys(h.before, h.after) {
		if h.before[name] != h.after[name] {
			h.changed = append(h.changed, name)
			h.stops = h.stops || h.r.stops(h.c, name)
		}
	}
	return h.stops || len(h.changed) == 0
}

// compare asks git which files and entries differ.
func (h *halfDone) compare() bool {
	differ := differing("diff-files")
	out := h.r.gits(h.c, gitCall{"", differ}, gitCall{h.saved, differ},
		gitCall{"", differing("diff-index", "--cached", "HEAD")},
		gitCall{"", []string{"rev-parse", "-q", "--verify", "HEAD^{commit}"}})
	if out[0] == nil || out[1] == nil || out[2] == nil {
		return false
	}
	h.dirty, h.dirtyBefore, h.staged, h.undone = namesIn(out[0]), namesIn(out[1]), namesIn(out[2]), string(out[3])
	h.head, _ = h.c.readHead()
	h.updates = h.head != h.c.head || h.c.applied()
	return true
}

// judge decides what becomes of the files whose entries in the index differ.
func (h *halfDone) judge() {
	infos, clean := h.found()
	for _, name := range h.changed {
		was, info := h.before[name] != "", infos[name]
		switch {
		case h.r.stops(h.c, name):
			h.elsewhere = h.elsewhere || was && clean[name] && withinAny(h.r.view.protected, filepath.Join(h.c.top, name))
			hidden := permission.KeyFile(filepath.Base(name))
			if clean[name] || was && info != nil && (hidden || !h.dirtyBefore[name]) {
				h.stopped = append(h.stopped, name)
			}
			h.updates = h.updates || clean[name] && !was
			if h.after[name] == "" && info != nil && h.r.denies(filepath.Join(h.c.top, name)) {
				// The next commit would record as removed what git could not add again.
				h.stopped, h.updates = append(h.stopped, name), true
			}
		case clean[name]:
			h.updates = true
		}
		switch {
		case clean[name] && !was:
			h.remove = append(h.remove, foundAt(name, info))
		case was && (clean[name] || info == nil):
			h.restore = append(h.restore, name)
		}
	}
}

// found describes the files whose entries differ, nil for those that are not there. clean are those that are what git
// wrote: written since the command began, as the index says, and in a commit.
func (h *halfDone) found() (infos map[string]os.FileInfo, clean map[string]bool) {
	infos, clean = map[string]os.FileInfo{}, map[string]bool{}
	uncertain := map[string]string{}
	for _, name := range h.changed {
		info, err := h.c.lstat(name, h.before[name])
		same := !h.dirty[name]
		entry := strings.Fields(h.after[name]) // mode, object, stage
		// It is hidden from git here, so it looks changed.
		if permission.KeyFile(filepath.Base(name)) && h.before[name] == "" && len(entry) > 1 {
			same = h.c.objectOf(name, len(entry[1])) == entry[1]
		}
		infos[name], clean[name] = info, h.after[name] != "" && same && err == nil && h.c.wrote(info)
		if clean[name] && h.staged[name] {
			uncertain[name] = entry[1]
		}
	}
	committed := h.r.committed(h.c, uncertain)
	for name := range uncertain {
		clean[name] = committed[name]
	}
	return infos, clean
}

// findUntraced finds what git wrote without a trace in the index: git that stops half-way leaves the index as it was,
// with files in the work tree that are not in it. A script may have committed the others since.
func (h *halfDone) findUntraced() {
	if !maps.Equal(h.before, h.after) && len(h.named) == 0 && len(h.appeared) == 0 {
		return
	}
	files, tracked, elsewhere := h.r.written(h.c, h.dirty, h.appeared, h.stops)
	h.elsewhere = elsewhere
	h.remove, h.restore = append(h.remove, files...), append(h.restore, tracked...)
	for _, f := range files {
		tracked = append(tracked, f.name)
	}
	for _, name := range tracked {
		if h.updates = true; h.r.stops(h.c, name) {
			h.stopped = append(h.stopped, name)
		}
	}
	h.restore = slices.DeleteFunc(h.restore, func(name string) bool { return h.before[name] == "" })
	if h.updates = h.updates || len(h.restore) > 0; len(h.stopped) == 0 {
		h.stopped = h.named
	}
}

// note tells what became of it: err is the one of putting it back.
func (h *halfDone) note(err error) string {
	files := plain.List(h.stopped, 8)
	if err != nil {
		return fmt.Sprintf("%s: git could not write protected files (%s), and its other changes could not be undone: %v",
			h.c.top, files, err)
	}
	lost, denied := h.r.lost(h.c, h.undone), permission.DeniedFiles(h.r.view.denied)
	for _, name := range h.stopped {
		if rule := denied.Covers(filepath.Join(h.c.top, name), false); rule != "" {
			return fmt.Sprintf("%s: git would have written or recorded files that the rule %s denies (%s). HEAD, the index and "+
				"the files are back as they were%s", h.c.top, rule, files, lost)
		}
	}
	return fmt.Sprintf("%s: git would have written protected files (%s). HEAD, the index and the files are back as they "+
		"were%s. Run the git command by itself: it asks for exactly these files, unless the rules for them allow it: %s",
		h.c.top, files, lost, editRule(filepath.Join(h.c.top, h.stopped[0])))
}
