package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/session"
)

// scratch are the directories in which a session keeps what belongs to no project: temporary files of its commands and
// tools, and results that are too long for the model. A resumed session finds them again. The nil *scratch is that of a
// session that has none, because nothing can be stored.
type scratch struct {
	temp   workspace.Temp // Dir is "" if commands have no sandbox, as on another machine
	output string         // made when it is needed
	at     scratchPlace
	typed  typedPaths
}

// scratchAge is how long the directories of a session stay after the last use. Sessions themselves are never removed.
const scratchAge = 30 * 24 * time.Hour

// A scratchPlace says where a session keeps its scratch.
type scratchPlace struct {
	env    Env
	name   string // of the session, or of the worktree of an agent, which has temporary files of its own
	output string // the directory for the results of the project; "": nothing can be stored
	dir    string // where its tools work
	box    *sandbox.Sandbox
	paths  func() permission.PathContext
	opened []string // what else commands see below /tmp
	log    *session.Log
	forget bool
	debug  func() string // see [Options.DebugLog]
	read   string        // the sessions of this project, which commands may read; those of others are hidden from them
}

// newScratch makes the directories of a session.
func newScratch(at scratchPlace) *scratch {
	if at.name == "" || at.name != filepath.Base(at.name) || at.output == "" {
		return nil
	}
	s := &scratch{at: at, output: filepath.Join(at.output, at.name)}
	s.typed.log = at.log
	removeUnused(at.output)
	if at.box == nil {
		return s
	}
	base := at.env.StateFile("tmp")
	removeUnused(base)
	temp := filepath.Join(base, at.name)
	removeUnused(workspace.MemoryDir())
	if os.MkdirAll(temp, 0o700) != nil {
		return s
	}
	s.temp = workspace.Temp{Dir: realPath(temp), Read: []string{s.output, at.read}, Log: at.debug,
		Mounted: func() bool { return at.box.Report().Level == sandbox.Complete },
		Machine: func(path string) bool { return at.shows(path) || s.typed.name(path) }}
	return s
}

// forAgent makes the directories of an agent that works in a worktree: results are those of the session.
func (s *scratch) forAgent(name, dir string, box *sandbox.Sandbox) *scratch {
	if s == nil {
		return nil
	}
	at := s.at
	at.name, at.dir, at.box, at.forget = name, dir, box, true
	own := newScratch(at)
	if own != nil {
		own.output, own.temp.Read = s.output, s.temp.Read
	}
	return own
}

// removeUnused removes the directories of sessions in base that nobody has used for a long time.
func removeUnused(base string) {
	entries, _ := os.ReadDir(base)
	for _, dir := range entries {
		if info, err := dir.Info(); err == nil && dir.IsDir() && time.Since(info.ModTime()) > scratchAge {
			os.RemoveAll(filepath.Join(base, dir.Name()))
		}
	}
}

// in returns a place in which commands and tools have the session's directory as /tmp.
func (s *scratch) in(at Place) Place {
	if s == nil {
		return at
	}
	if local, ok := at.Workspace.(*workspace.Local); ok && s.temp.Dir != "" {
		at.Workspace = local.WithTemp(&s.temp)
	}
	if of := at.Paths; of != nil {
		at.Paths = func() permission.PathContext {
			paths := of()
			s.paths(&paths)
			return paths
		}
	}
	return at
}

// outputDir returns where results that are too long are kept; "": the session has no directory for them.
func (s *scratch) outputDir() string {
	if s == nil {
		return ""
	}
	return s.output
}

// paths adds what may be read and written without a question.
func (s *scratch) paths(to *permission.PathContext) {
	if s == nil {
		return
	}
	to.Temp, to.Output = s.temp.Dir, s.output
	if s.temp.Dir != "" {
		to.InTemp = s.temp.At
	}
}

// close removes the directories if they are empty or if nobody can resume the session.
func (s *scratch) close() {
	switch {
	case s == nil:
	case s.at.forget:
		if filepath.Base(s.output) == s.at.name {
			os.RemoveAll(s.output)
		}
		if s.temp.Dir != "" {
			os.RemoveAll(s.temp.Dir)
			os.RemoveAll(workspace.MemoryOf(s.temp.Dir))
		}
	default:
		now := time.Now()
		if s.temp.Dir != "" {
			os.Remove(workspace.MemoryOf(s.temp.Dir))
		}
		for _, dir := range []string{s.output, s.temp.Dir} {
			if dir != "" && os.Remove(dir) != nil {
				os.Chtimes(dir, now, now)
			}
		}
	}
}

// shows reports whether commands see the machine's file at a path below /tmp or /var/tmp, because the workspace, or
// what the user's settings open, is there.
func (at *scratchPlace) shows(path string) bool {
	p := at.paths()
	dirs := slices.Concat([]string{at.dir, p.Dir, p.Home}, p.Roots, p.Own, at.opened)
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return filepath.IsAbs(dir) && (subpath.Contains(dir, path) || subpath.Contains(realPath(dir), path))
	})
}

// typedPaths are the paths below /tmp and /var/tmp that the user typed in a conversation: they mean the machine's
// files.
type typedPaths struct {
	log *session.Log

	mu    sync.Mutex
	last  int // the last entry that was searched
	paths map[string]bool
}

// name reports whether the user typed a path, or a directory above it other than /tmp itself.
func (t *typedPaths) name(path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paths == nil {
		t.paths = map[string]bool{}
	}
	for _, entry := range t.log.After(t.last) {
		t.last++
		if u := entry.User; u != nil && u.Server == "" {
			if t.add(u.Typed); u.Typed != "" { // a command, or a hook, wrote Parts
				continue
			}
			for _, part := range u.Parts[:min(len(u.Parts), 1)] {
				t.add(part.Text)
			}
		}
	}
	for dir := path; dir != "/tmp" && dir != "/var/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if t.paths[dir] {
			return true
		}
	}
	return t.paths[path]
}

// add finds the paths in a text.
func (t *typedPaths) add(text string) {
	const root = "/tmp"
	for rest, found := text, true; found; {
		before, root := "", root
		if before, rest, found = strings.Cut(rest, root); !found {
			return
		}
		if whole, ok := strings.CutSuffix(before, "/var"); ok {
			before, root = whole, "/var/tmp"
		}
		if before != "" && !strings.ContainsAny(before[len(before)-1:], " \t\n\"'`(<[{=:@,") {
			continue // in another path
		}
		end := strings.IndexAny(rest, " \t\r\n\"'`)>]},;:|&*?")
		if end < 0 {
			end = len(rest)
		}
		word := strings.TrimRight(rest[:end], ".!/")
		if word == "" || word[0] == '/' {
			t.paths[filepath.Clean(root+word)] = true
		}
	}
}
