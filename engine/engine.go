package engine

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/servers"
	"github.com/knack-agent/knack/internal/leaf/filetree"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/sources"
)

// An Engine is one open directory: its current Project, the catalogue of skills, the models and the
// workspace. A process may open many engines. It is safe for concurrent use. Close it when its
// sessions are no longer needed.
type Engine struct {
	Unread Unread // what its settings restrict and nobody can read

	library *knack.Library
	notices notices
	servers servers.Directory
	finder  *knack.Finder
	pinned  pinnedScripts
	opened  time.Time
	atStart map[string]bool // the paths of the skills that were there then

	mu             sync.Mutex
	project        *Project
	models         *Models
	nested         *sources.Nested
	declinedNested map[string]string // nested skills that the user does not trust, path → hash
	replaced       []*Project        // replaced by Reload; their texts may still be in use
	ws             workspace.Workspace
	box            *sandbox.Sandbox // of ws; nil: none
	git            *permission.Git  // set if the workspace is on this machine
	sessions       map[*Session]bool
	closed         bool
}

// ErrClosed is the error for using an Engine or a Session after Close.
var ErrClosed = errors.New("the engine or session is closed")

// prepare makes in the background, once, what takes long to make and what a session needs: how entries are encoded.
var prepare = sync.OnceFunc(func() { go json.Marshal(session.Entry{}) })

// Open opens a directory. It runs nothing, asks nothing and records nothing.
func Open(ctx context.Context, o Options) (*Engine, error) {
	prepare() // while Load reads files
	opened := time.Now()
	p, err := Load(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := p.usageError(); err != nil {
		return nil, err
	}
	e := &Engine{library: knack.NewLibrary(ctx, p.sources...), finder: p.Finder(), sessions: map[*Session]bool{},
		opened: opened, atStart: map[string]bool{}}
	e.notices.changed = e.sessionsChanged
	e.servers = servers.Directory{Project: func() servers.Project { return serverProject{e, e.Project()} },
		Library: e.library, Report: e.notices.add, Changed: e.sessionsChanged,
		Silent: p.options.Env.StateFile("mcp/silent.json")}
	for _, k := range e.Catalog().Skills() {
		e.atStart[k.Path] = true
	}
	return e, e.setProject(p)
}

// isNew reports whether a project's skill was made after the directory was opened, or may have been: --trust does not
// cover it. Skills of nested directories are found later, so the times at which the system last changed the file and
// the directories above it count, up to .claude and the like; a program cannot set these.
func (e *Engine) isNew(k *knack.Skill) bool {
	if !isProjects(k) || e.atStart[k.Path] {
		return false
	}
	for path := k.Path; ; path = filepath.Dir(path) {
		id, ok := filetree.LocalID(path)
		if !ok || id.CTime >= e.opened.UnixNano() {
			return true
		}
		if strings.HasPrefix(filepath.Base(path), ".") || filepath.Dir(path) == path {
			return false
		}
	}
}

// setProject makes p the Project of all turns that begin later.
func (e *Engine) setProject(p *Project) error {
	set := &p.config.Settings
	m := &Models{Env: p.options.Env, Proxy: set.Proxy, Procedure: e.procedure, Betas: p.options.Betas,
		TaskBudget: p.options.TaskBudget, Host: p.options.FindModel}
	m.Warn = func(message string) {
		e.notices.add(knack.Problem{Code: knack.CodeModelUnknown, Severity: knack.Warn, Message: message,
			Hint: "knack help models"})
	}
	var problems []knack.Problem
	var err error
	if m.Tables, problems, err = modelSettings(p.config); err != nil {
		return err
	}
	p.Brought.AsUser = func(variables []string, files ...string) (func(environ []string) []string, error) {
		// A model chooses what a tool gets, so that more holds it back than a hook.
		if mode, err := sandbox.ParseMode(set.Sandbox.Mode); err == nil && mode == sandbox.Require {
			return nil, errors.New("the setting sandbox.mode requires the sandbox")
		}
		for _, file := range files {
			if err := p.own.confined(file, string(permission.User)); err != nil {
				return nil, err
			}
		}
		return e.userEnviron(p, variables), nil
	}
	m.foreign, m.pending, m.Limits = p.foreign.values, p.foreign.routes, p.config.ModelLimits()
	m.Tables = append(m.Tables, p.foreign.table(m)...)
	p.problems = append(p.problems, problems...)
	p.problems = append(p.problems, p.foreign.choose(m)...)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.project != nil {
		e.replaced = append(e.replaced, e.project)
	}
	e.Unread.set(p.config.Unread)
	e.project, e.models, e.nested = p, m, sources.NewNested(p.dir, p.sourceOptions)
	if e.ws != nil {
		e.pinned.add(p, p.own.all(), e.ws.Dir())
	}
	return nil
}

// Project returns the Project as it was last loaded.
func (e *Engine) Project() *Project {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.project
}

// Catalog returns the current catalogue of skills.
func (e *Engine) Catalog() *knack.Catalog { return e.library.Catalog() }

// Problems returns the problems of the project and its skills.
func (e *Engine) Problems() []knack.Problem { return e.Project().Problems(e.Catalog()) }

// Finder returns the search for skills by words.
func (e *Engine) Finder() *knack.Finder { return e.finder }

// Models returns the lookup of models, which uses the directory's settings.
func (e *Engine) Models() *Models {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.models
}

// checkPrice returns an error if there is a cost limit and the model's price is unknown.
func (e *Engine) checkPrice(m llm.Model) error {
	if l := e.Project().config.Settings.Limits; l.Cost > 0 || l.CostPerMonth > 0 {
		return e.Models().Price(m.Info())
	}
	return nil
}

// Watch reloads skills when their files change, until ctx ends. Sessions announce new skills with
// their next request.
func (e *Engine) Watch(ctx context.Context) error {
	return e.library.Watch(ctx, nil)
}

// WatchFiles is like Watch, and also watches the files beside each SKILL.md. It calls changed with the current
// catalogue when the skills or their files may have changed.
func (e *Engine) WatchFiles(ctx context.Context, changed func(*knack.Catalog)) error {
	return e.library.WatchFiles(ctx, changed)
}

// Reloaded describes what Reload changed. Only [Session.Reload] sets the last two.
type Reloaded struct {
	Old, New               *Project
	OldSkills, NewSkills   []*knack.Skill
	OldContext, NewContext []agent.Document
	Tools                  ToolChange
	Problems               []knack.Problem // of context files
}

// Reload loads the project again and replaces it as a whole; on an error it changes nothing. Running
// turns and background agents keep the Project that they began with. The workspace, sandbox and tools
// remain those that the first session began with.
func (e *Engine) Reload(ctx context.Context) (Reloaded, error) {
	return e.reload(ctx, e.Project().options)
}

func (e *Engine) reload(ctx context.Context, o Options) (Reloaded, error) {
	was := e.Project()
	now, err := Load(ctx, o)
	if err != nil {
		return Reloaded{}, err
	}
	if err := e.Unread.check(now.config.Unread); err != nil {
		return Reloaded{}, errors.Join(err, now.Close())
	}
	c := Reloaded{Old: was, New: now, OldSkills: e.Catalog().Skills(),
		Tools: ToolChange{was.known().tools, now.known().tools}}
	if err := e.setProject(now); err != nil {
		return Reloaded{}, errors.Join(err, now.Close())
	}
	e.library.Replace(ctx, now.sources...)
	e.servers.Reload()
	c.NewSkills = e.Catalog().Skills()
	logSkills(now, e.Catalog())
	return c, nil
}

// Trust approves the items as they were shown, bound to their content, and loads the project again.
// Without items it approves the folder itself, whose configuration git and other programs follow.
func (e *Engine) Trust(ctx context.Context, items ...TrustItem) (Reloaded, error) {
	p := e.Project()
	t, err := openTrust(p.options.Env, p.dir, false, p.options.Parts)
	if err != nil {
		return Reloaded{}, err
	}
	o := p.options
	if o.Env.StateDir() == "" { // an approval cannot be stored, so it applies to this run only
		o.Trust = true
	} else if err := t.Approve(items...); err != nil {
		return Reloaded{}, err
	}
	return e.reload(ctx, o)
}

// open returns the open sessions.
func (e *Engine) open() []*Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*Session
	for s := range e.sessions {
		all = append(all, s)
	}
	return all
}

// sessionsChanged tells the open sessions that what they show has changed.
func (e *Engine) sessionsChanged() {
	for _, s := range e.open() {
		s.changed()
	}
}

// Notices returns the problems found since the Engine was opened, such as a sandbox that this machine
// does not support. None is ever removed.
func (e *Engine) Notices() []knack.Problem { return e.notices.all() }

// MCP returns the client for the directory's MCP servers, which start after the first request.
func (e *Engine) MCP() *mcp.Client { return e.servers.Client() }

// Close ends the sessions and closes the workspace.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	var errs []error
	for _, s := range e.open() {
		errs = append(errs, s.Close())
	}
	errs = append(errs, e.servers.Close())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ws != nil {
		errs = append(errs, e.ws.Close())
		e.ws = nil
		if e.box != nil {
			e.box.Close()
		}
	}
	for _, p := range append(e.replaced, e.project) {
		errs = append(errs, p.Close())
	}
	e.replaced = nil
	return errors.Join(errs...)
}

// PathContext returns the context in which the workspace's paths are currently judged.
func (e *Engine) PathContext() permission.PathContext { return e.pathContext(e.Project()) }

// resolveTime limits the lookup of one path on another machine, which may be gone.
const resolveTime = 5 * time.Second

// pathContext is PathContext for the turns of a given project.
func (e *Engine) pathContext(p *Project) permission.PathContext {
	e.mu.Lock()
	ws, git, box := e.ws, e.git, e.box
	e.mu.Unlock()
	place := p.localContext(p.dir, git, box)
	if _, ok := ws.(*workspace.Local); ws != nil && !ok {
		// For a workspace on another machine, links are resolved there, and the user is asked about anything
		// that cannot be looked up from here.
		place.Dir, place.Home, place.Own, place.Roots, place.Skills = ws.Dir(), "", nil, nil, nil
		place.Resolve = func(ctx context.Context, path string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, resolveTime)
			defer cancel()
			return ws.Realpath(ctx, path)
		}
		place.Glob = func(string) ([]string, error) { return nil, errors.New("not on this machine") }
		place.Below = func(string, int) ([]string, bool) { return nil, false }
	}
	return place
}

// localContext describes a directory of this machine in which commands run with git's overrides and in a sandbox; nil:
// without.
func (p *Project) localContext(dir string, git *permission.Git, box *sandbox.Sandbox) permission.PathContext {
	var readable []permission.SkillDir
	if of := p.options.DebugLog; of != nil {
		if file := of(); file != "" {
			readable = append(readable, permission.SkillDir{Dir: file}) // the skill debug names it
		}
	}
	return permission.PathContext{
		Dir: dir, Roots: p.Roots(), Home: p.home, Skills: readable,
		Own:       p.options.Env.OwnDirs(),
		Protected: slices.Concat(p.config.Settings.Permissions.ProtectedPaths, p.options.namedFiles(p.dir)),
		Borders:   p.config.Borders(),
		GitEnv:    git != nil, Git: git, Untrusted: !p.options.NewDir && !p.trust.Trusted(),
		Confined: func() bool { return box != nil && box.Report().Level == sandbox.Complete },
		Open:     func(path string) bool { return box != nil && box.Opens(path) },
	}
}
