// Package diagnose is the part that tells the model what a language server finds wrong with the files that it has just
// changed. It does nothing unless settings or plugins define language servers:
//
//	{"languageServers": {".go": "gopls", ".ts .tsx": "typescript-language-server --stdio"}}
//
// A plugin defines them in a file .lsp.json, in the format of Claude Code. A server starts when a file of its language is
// changed for the first time. It runs in the sandbox, without network, and is sent the files that tools change. New
// errors are added to the tool's result if the server reports them within 1.5 s, otherwise to the next request. Errors
// that were there before the change are not reported. A server's requests for edits are refused. A server that floods,
// hangs or dies is not used again in the session.
//
// The setting formatters names, by extension, programs that run after a change, with the file as their last argument.
// Neither a server nor a formatter may be a program of the workspace, because a model could change it.
package diagnose

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

const (
	waitTime   = 1500 * time.Millisecond // for what servers say about a change
	formatTime = 10 * time.Second
	maxFile    = 1 << 20 // bytes of a file that servers are told about
	maxTouched = 10      // files of a call
	maxTold    = 10      // errors that are told at once
	restarts   = 1       // of a server that died
)

const name = "diagnose"

// Part is the part. It is off in a session for which nothing is defined, or whose files are on another machine.
func Part() engine.Part { return engine.Part{Name: name, Open: open} }

// live is the part in a session.
type live struct {
	conv       *engine.Conv
	defined    []*Server
	formatters map[string][]string // by extension

	mu      sync.Mutex
	servers map[string]*server // by place and definition
	starts  map[string]int
	told    map[string]bool // what the user knows of servers
	closed  bool
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	defined, problems := Defined(c.Project())
	l := &live{conv: c, defined: defined, formatters: map[string][]string{}, servers: map[string]*server{},
		starts: map[string]int{}, told: map[string]bool{}}
	for _, f := range Formatters(c.Project()) {
		for e := range f.Languages {
			l.formatters[e] = f.Args
		}
	}
	if _, local := c.Place().Workspace.(*workspace.Local); !local || len(defined)+len(l.formatters) == 0 {
		return &engine.Live{Problems: problems}, nil
	}
	return &engine.Live{Wrap: l.wrap, Note: l.note, Close: l.close, Problems: problems}, nil
}

// A place is where programs run, with what holds for the call that they follow: the files that rules keep from it, and
// what binds runs of this program in it.
type place struct {
	engine.Place
	allow workspace.Allowance
}

// wrap returns tools whose results say what is wrong with the files that they changed.
func (l *live) wrap(tools tool.Set, in engine.Place) tool.Set {
	tools = slices.Clone(tools)
	for i, t := range tools {
		if t.Effect&tool.Writes == 0 || t.Effect&tool.Runs != 0 {
			continue
		}
		tools[i].Run = func(ctx context.Context, call tool.Input) (tool.Result, error) {
			files := l.files(ctx, t, call)
			if len(files) == 0 {
				return t.Run(ctx, call)
			}
			at := place{in, workspace.Allowance{Denied: call.Allow.Denied, Nested: call.Allow.Nested}}
			left := waitTime - l.before(ctx, at, files)
			result, err := t.Run(ctx, call)
			if err == nil && !result.IsError {
				l.after(ctx, at, files, left, &result)
			}
			return result, err
		}
	}
	return tools
}

// files returns the files that a call changes, as far as a server or a formatter is for them.
func (l *live) files(ctx context.Context, t tool.Tool, call tool.Input) (paths []string) {
	subjects := call.Subjects
	if subjects == nil && t.Subjects != nil {
		subjects, _ = t.Subjects(ctx, call.JSON) // the call fails
	}
	for _, s := range subjects {
		e := extension(filepath.Ext(s.Text))
		if s.Kind == permission.KindEdit && filepath.IsAbs(s.Text) && len(paths) < maxTouched &&
			(l.formatters[e] != nil || l.definition(e) != nil) {
			paths = append(paths, filepath.Clean(s.Text))
		}
	}
	return paths
}

// definition returns the server for an extension; nil: there is none.
func (l *live) definition(extension string) *Server {
	for _, s := range l.defined {
		if s.Languages[extension] != "" {
			return s
		}
	}
	return nil
}

// server returns the server for a file, which begins if it does not run; nil: there is none that is used.
func (l *live) server(in place, path string) *server {
	d := l.definition(extension(filepath.Ext(path)))
	if d == nil {
		return nil
	}
	if d.Missing != "" {
		l.say(d, d.Missing)
		return nil
	}
	if err := runnable(d.Args, in); err != nil {
		l.say(d, err.Error())
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := in.Workspace.Dir() + "\x00" + strings.Join(d.Args, "\x00")
	s := l.servers[key]
	if s != nil && s.broken() != nil {
		if l.starts[key] > restarts {
			return nil
		}
		delete(l.servers, key)
		s = nil
	}
	if s == nil && !l.closed && len(l.servers) < maxServers {
		l.starts[key]++
		s = start(d, in)
		l.servers[key] = s
	}
	return s
}

// hangs tells the user, once, that a server does not answer.
func (l *live) hangs(d *Server, owes time.Duration) {
	l.once("hangs "+d.Name, fmt.Sprintf("The language server %s (%s) has not answered for %s. Knack goes on without waiting "+
		"for it; what it finds is told when it answers.", plain.Line(d.Name), plain.Line(d.From),
		max(owes, time.Second).Round(time.Second)))
}

// say tells the user once what is wrong with a server.
func (l *live) say(d *Server, why string) {
	text := fmt.Sprintf("The language server %s (%s) is not used: %s.", plain.Line(d.Name), plain.Line(d.From),
		plain.Line(why))
	l.once(text, text)
}

// once tells the user a text, unless one with the key was told.
func (l *live) once(key, text string) {
	l.mu.Lock()
	known := l.told[key]
	l.told[key] = true
	l.mu.Unlock()
	if !known {
		l.conv.Notice(knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn, Message: text})
	}
}

// before tells servers that run what files contain before they change, so that what is wrong already is not new. It
// returns how long it has waited for them.
func (l *live) before(ctx context.Context, in place, files []string) time.Duration {
	began := time.Now()
	end := time.NewTimer(waitTime / 2)
	defer end.Stop()
	for _, path := range files {
		s := l.server(in, path)
		if s == nil || !s.opens(path) {
			continue
		}
		s.tell(ctx, path)
		if s.owes() == 0 && !s.settle(ctx, path, end.C) {
			break
		}
	}
	return time.Since(began)
}

// opens reports whether a server that is ready does not know a file yet, whose text before a change it is told then.
func (s *server) opens(path string) bool {
	select {
	case <-s.ready:
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.file(path)
	if f.version > 0 || s.failed != nil {
		return false
	}
	f.old, f.opened = true, true
	return true
}

// after formats what was changed, tells the servers, and adds to the result what they say.
func (l *live) after(ctx context.Context, in place, files []string, wait time.Duration,
	result *tool.Result) {
	for _, path := range files {
		if said := l.format(ctx, in, path); said != "" {
			result.Parts = append(result.Parts, llm.Text(said))
		}
	}
	began, end := time.Now(), time.NewTimer(wait)
	defer end.Stop()
	waits := map[*server][]string{}
	for _, path := range files {
		if s := l.server(in, path); s != nil {
			waits[s] = append(waits[s], path)
		}
	}
	late := false
	for s, paths := range waits {
		if owes := s.owes(); owes > 0 {
			s.await(ctx, paths, end.C, true)
			l.hangs(s.Server, owes)
			continue
		}
		had := late // another server has used the time
		if late = !s.await(ctx, paths, end.C, late); late && !had && ctx.Err() == nil {
			s.missed(began)
		}
	}
	text, people := l.fresh()
	if text != "" {
		result.Parts = append(result.Parts, llm.Text(text))
		if result.People != "" {
			result.People += ", "
		}
		result.People += people
	}
}

// await tells a server about files, and waits until it has said what is wrong with them. It returns false when the time
// is up; late: it is up already.
func (s *server) await(ctx context.Context, paths []string, end <-chan time.Time, late bool) bool {
	if !late {
		select {
		case <-s.ready:
		case <-end:
			late = true
		case <-ctx.Done():
			return false
		}
	}
	for _, path := range paths {
		s.mu.Lock()
		select {
		case <-s.ready:
			s.mu.Unlock()
			s.tell(ctx, path)
		default:
			s.file(path).waits = true
			s.mu.Unlock()
		}
	}
	for _, path := range paths {
		if late || !s.settle(ctx, path, end) {
			return false
		}
	}
	return true
}

// settle waits until a server has said what is wrong with a file. It returns false when the time is up.
func (s *server) settle(ctx context.Context, path string, end <-chan time.Time) bool {
	for {
		ok, changed, settled := s.known(path)
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-time.After(settled):
		case <-end:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// fresh returns the errors that were not told yet, for the model and in one line for the user; "": there are none. It
// also tells the user what is wrong with servers.
func (l *live) fresh() (text, people string) {
	l.mu.Lock()
	servers := slices.Collect(maps.Values(l.servers))
	dir := l.conv.Here().Workspace.Dir()
	l.mu.Unlock()
	var lines []string
	n := 0
	for _, s := range servers {
		if err := s.broken(); err != nil {
			l.say(s.Server, err.Error())
		}
		found := s.fresh()
		for _, path := range slices.Sorted(maps.Keys(found)) {
			shown := path
			if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
				shown = rel
			}
			for _, e := range found[path] {
				if n++; n <= maxTold {
					lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", plain.Line(shown), e.line, e.column, e.text))
				}
			}
		}
	}
	if n == 0 {
		return "", ""
	}
	text = "The language server reports new errors after the change:\n" + strings.Join(lines, "\n")
	if more := n - len(lines); more > 0 {
		text += "\n… and " + plain.Count(more, "more error")
	}
	return text, plain.Count(n, "new error") + ": " + lines[0]
}

// note tells the model before a request what servers have found since the last result.
func (l *live) note(who engine.Asking, _ session.State) *session.Note {
	if who.Sub {
		return nil
	}
	text, people := l.fresh()
	if text == "" {
		return nil
	}
	return &session.Note{Model: text, People: "The language server found " + people}
}

// close ends the servers.
func (l *live) close() error {
	l.mu.Lock()
	l.closed = true
	servers := slices.Collect(maps.Values(l.servers))
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(s.close)
	}
	all.Wait()
	return nil
}
