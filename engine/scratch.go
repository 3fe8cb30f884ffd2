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
// session that has none, because its tools work on another machine or nothing can be stored.
type scratch struct {
	temp   workspace.Temp // Dir is "" if commands have no sandbox
	output string         // made when it is needed
	forget bool           // they are removed when the session ends

	typed typedPaths
}

// scratchAge is how long the directories of a session stay after the last use. Sessions themselves are never removed.
const scratchAge = 30 * 24 * time.Hour

// newScratch makes the directories of the session with a log, which works in dir. An agent that works in a worktree has
// its own temporary files: name is then the worktree's, else the ID of the session.
func newScratch(e *Engine, box *sandbox.Sandbox, log *session.Log, name, dir string, forget bool) *scratch {
	p := e.Project()
	if name == "" || name != filepath.Base(name) || p.options.Env.StateDir() == "" {
		return nil
	}
	s := &scratch{output: filepath.Join(p.outputDir(), name), forget: forget}
	s.typed.log = log
	removeUnused(p.outputDir())
	if box == nil {
		return s
	}
	base := p.options.Env.StateFile("tmp")
	removeUnused(base)
	temp := filepath.Join(base, name)
	if os.MkdirAll(temp, 0o700) != nil {
		return s
	}
	s.temp = workspace.Temp{Dir: realPath(temp),
		Mounted: func() bool { return box.Report().Level == sandbox.Complete },
		Machine: func(path string) bool { return e.seesBelowTemp(path, dir) || s.typed.name(path) }}
	return s
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

// workspace returns a workspace for which commands and tools have the session's directory as /tmp.
func (s *scratch) workspace(ws workspace.Workspace) workspace.Workspace {
	if local, ok := ws.(*workspace.Local); ok && s != nil && s.temp.Dir != "" {
		return local.WithTemp(&s.temp)
	}
	return ws
}

// outputDir returns where results that are too long are kept.
func (s *scratch) outputDir(p *Project) string {
	if s == nil {
		return p.outputDir()
	}
	return s.output
}

// paths adds what may be read and written without a question.
func (s *scratch) paths(to *permission.PathContext) {
	if s == nil || to.Resolve != nil {
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
	case s.forget:
		os.RemoveAll(s.output)
		if s.temp.Dir != "" {
			os.RemoveAll(s.temp.Dir)
		}
	default:
		now := time.Now()
		for _, dir := range []string{s.output, s.temp.Dir} {
			if dir != "" && os.Remove(dir) != nil {
				os.Chtimes(dir, now, now)
			}
		}
	}
}

// seesBelowTemp reports whether commands see the machine's file at a path below /tmp, because the workspace, or what
// the user's settings open, is there.
func (e *Engine) seesBelowTemp(path, dir string) bool {
	p := e.Project()
	set := &p.config.Settings.Sandbox
	dirs := slices.Concat([]string{dir, p.dir, p.home}, p.Roots(), p.options.Env.OwnDirs(), set.AllowWrite, set.AllowRead,
		p.sourceOptions.Skills, p.sourceOptions.AddDirs, filepath.SplitList(p.options.Env.Get("PATH")))
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return filepath.IsAbs(dir) && (subpath.Contains(dir, path) || subpath.Contains(realPath(dir), path))
	})
}

// typedPaths are the paths below /tmp that the user typed in a conversation: they mean files of the machine.
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
			t.add(u.Typed)
			for _, part := range u.Parts[:min(len(u.Parts), 1)] {
				t.add(part.Text)
			}
		}
	}
	const root = "/tmp"
	for dir := path; dir != root && dir != "/"; dir = filepath.Dir(dir) {
		if t.paths[dir] {
			return true
		}
	}
	return path == root && t.paths[root]
}

// add finds the paths in a text.
func (t *typedPaths) add(text string) {
	const root = "/tmp"
	for rest, found := text, true; found; {
		before := ""
		if before, rest, found = strings.Cut(rest, root); !found {
			return
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
