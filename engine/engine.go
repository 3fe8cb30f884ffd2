package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/trust"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/mcp"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/sources"
	"github.com/knack-agent/knack/workspace"
)

// An Engine is one open directory: its Project as it is now, the catalogue of
// skills, the models and the workspace. A process may hold many. It is safe for
// concurrent use. Close it when its sessions are no longer needed.
type Engine struct {
	library *knack.Library
	finder  *knack.Finder
	pins    pins

	mu       sync.Mutex
	project  *Project
	models   *Models
	nested   *sources.Nested
	declined map[string]string // nested skills that the user does not trust, path → hash
	old      []*Project        // replaced by Reload; texts of theirs may still be in use
	ws       workspace.Workspace
	git      *permission.Git // of a workspace on this machine
	notices  []knack.Problem
	sessions map[*Session]bool
	closed   bool

	serversMu  sync.Mutex  // held before mu
	servers    *mcp.Client // nil: not needed yet
	serversOf  *Project    // that they are of
	serverList []mcp.Server
	served     []served // their skills in the catalogue
	failedOnce []string // servers whose failure was reported
	closing    bool
}

// ErrClosed is the error for an Engine or a Session that is used after Close.
var ErrClosed = errors.New("it is closed")

// Open opens a directory. Nothing is run, asked or recorded by that.
func Open(ctx context.Context, o Options) (*Engine, error) {
	p, err := Load(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := p.usageError(); err != nil {
		return nil, err
	}
	e := &Engine{library: knack.NewLibrary(ctx, p.sources...), finder: p.Finder(), sessions: map[*Session]bool{}}
	return e, e.use(p)
}

// use makes p the Project of the turns that begin from now on.
func (e *Engine) use(p *Project) error {
	set := &p.config.Settings
	models := &Models{Env: p.options.Env, Proxy: set.Proxy, Procedure: e.procedure, Doubt: func(message string) {
		e.notice(knack.Problem{Code: knack.CodeModelUnknown, Severity: knack.Warn, Message: message,
			Hint: "knack help models"})
	}}
	var problems []knack.Problem
	var err error
	if models.Tables, problems, err = modelSettings(p.config); err != nil {
		return err
	}
	p.problems = append(p.problems, problems...)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.project != nil {
		e.old = append(e.old, e.project)
	}
	e.project, e.models, e.nested = p, models, sources.NewNested(p.dir, p.scan)
	if e.ws != nil {
		e.pins.add(p, p.hooks, e.ws.Dir())
	}
	return nil
}

// Project is what the directory provides, as it was last loaded.
func (e *Engine) Project() *Project {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.project
}

// Catalog is the catalogue of skills as it is now.
func (e *Engine) Catalog() *knack.Catalog { return e.library.Catalog() }

// Problems are those of the project and its skills.
func (e *Engine) Problems() []knack.Problem { return e.Project().Problems(e.Catalog()) }

// Models finds models as the settings of the directory say.
func (e *Engine) Models() *Models {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.models
}

// Watch reads skills again when their files change, until ctx ends. Sessions
// announce what is new at their next request.
func (e *Engine) Watch(ctx context.Context) error {
	return e.WatchSkills(ctx, func(*knack.Catalog) {})
}

// WatchSkills is Watch that calls changed with each new catalogue.
func (e *Engine) WatchSkills(ctx context.Context, changed func(*knack.Catalog)) error {
	return e.library.Watch(ctx, changed)
}

// A Reloaded is what Reload replaced.
type Reloaded struct {
	Was, Now             *Project
	WasSkills, NowSkills []*knack.Skill
}

// Reload loads the project again and replaces it as a whole, or on an error
// leaves it as it is. Turns that are running, and agents in the background,
// keep the one they have. Workspace, sandbox and tools stay those that the first
// session began with.
func (e *Engine) Reload(ctx context.Context) (Reloaded, error) {
	return e.reload(ctx, e.Project().options)
}

func (e *Engine) reload(ctx context.Context, o Options) (Reloaded, error) {
	was := e.Project()
	now, err := Load(ctx, o)
	if err != nil {
		return Reloaded{}, err
	}
	c := Reloaded{Was: was, Now: now, WasSkills: e.Catalog().Skills()}
	if err := e.use(now); err != nil {
		return Reloaded{}, errors.Join(err, now.Close())
	}
	e.library.Replace(ctx, now.sources...)
	e.reloadServers()
	c.NowSkills = e.Catalog().Skills()
	return c, nil
}

// Trust approves what was shown of the project, bound to its content, and
// loads the project again. Without items it approves the folder, whose
// configuration git and other programs obey.
func (e *Engine) Trust(ctx context.Context, items ...TrustItem) (Reloaded, error) {
	p := e.Project()
	t, err := openTrust(p.options.Env, p.dir, false)
	if err != nil {
		return Reloaded{}, err
	}
	o := p.options
	if o.Env.StateDir() == "" { // an approval cannot be stored: it counts for this run
		o.Trust = true
	} else if err := t.Approve(items...); err != nil {
		return Reloaded{}, err
	}
	return e.reload(ctx, o)
}

// A TrustItem is something that a project brings and that needs the user's
// approval.
type TrustItem = trust.Item

// Untrusted lists what the project brings that is not approved, or has changed
// since it was, and can be approved as it is. The error is about what could not
// be read; the rest is listed all the same.
func (p *Project) Untrusted(ctx context.Context) ([]TrustItem, error) {
	items, err := p.trust.Scan(ctx, p.dir, false)
	return slices.DeleteFunc(items, func(it TrustItem) bool { return it.State == trust.Approved || it.Refused != "" }), err
}

// WriteItems shows for people what items would load.
func (p *Project) WriteItems(w io.Writer, items []TrustItem) { p.trust.Write(w, items, nil) }

// NeedsTrust reports whether something is left out that trust would bring in.
// It is cheaper than Untrusted.
func (e *Engine) NeedsTrust() bool { return slices.ContainsFunc(e.Problems(), inert) }

// inert reports whether trust would end a problem.
func inert(p knack.Problem) bool {
	return p.Code == knack.CodeUntrusted || p.Code == knack.CodeChanged
}

// Close ends the sessions and closes the workspace.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	var open []*Session
	for s := range e.sessions {
		open = append(open, s)
	}
	e.mu.Unlock()
	var errs []error
	for _, s := range open {
		errs = append(errs, s.Close())
	}
	errs = append(errs, e.closeServers())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ws != nil {
		errs = append(errs, e.ws.Close())
		e.ws = nil
	}
	for _, p := range append(e.old, e.project) {
		errs = append(errs, p.Close())
	}
	e.old = nil
	return errors.Join(errs...)
}

// Place is where paths are decided for the workspace as it is now.
func (e *Engine) Place() permission.PathContext { return e.place(e.Project()) }

// place is where paths are decided for the turns of a project.
func (e *Engine) place(p *Project) permission.PathContext {
	e.mu.Lock()
	ws, git := e.ws, e.git
	e.mu.Unlock()
	place := permission.PathContext{
		Dir: p.dir, Roots: p.config.Settings.Permissions.AdditionalDirectories, Home: p.home,
		Own: p.options.Env.OwnDirs(), GitEnv: git != nil, Git: git, Untrusted: !p.trust.Trusted(),
	}
	if _, ok := ws.(*workspace.Local); ws != nil && !ok {
		// Another machine's paths: links are resolved there, and what cannot be
		// looked up from here is asked about.
		place.Dir, place.Home, place.Own, place.Roots = ws.Dir(), "", nil, nil
		place.Resolve = func(path string) (string, error) { return ws.Realpath(context.Background(), path) }
		place.Glob = func(string) ([]string, error) { return nil, errors.New("not on this machine") }
		place.Below = func(string, int) ([]string, bool) { return nil, false }
	}
	return place
}

// askFast asks the fast model aside from a conversation whose model is current.
func askFast(ctx context.Context, a *agent.Agent, prompt string) (string, error) {
	if a.Model == nil {
		return "", errors.New("there is no model")
	}
	m, err := a.Resolve("fast")
	if err != nil {
		return "", err
	}
	req := &llm.Request{MaxTokens: 500, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text(prompt)}}}}
	answer, err := llm.Ask(ctx, m, req)
	if err != nil {
		return "", err
	}
	return llm.TextOf(answer.Message.Parts), nil
}
