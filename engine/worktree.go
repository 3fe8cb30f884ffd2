package engine

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// Names of the tools with which a session works in a worktree, and leaves it. Other agents have them too.
const (
	enterWorktree = "EnterWorktree"
	exitWorktree  = "ExitWorktree"
)

var (
	//go:embed EnterWorktree.json
	enterWorktreeSchema []byte
	//go:embed ExitWorktree.json
	exitWorktreeSchema []byte
)

// A place is where the tools of a session work: its workspace, or a git worktree that the model entered.
type place struct {
	session *Session

	mu      sync.Mutex
	in      *isolated            // nil: the workspace
	tools   tool.Set             // of in
	running *gate.Gate           // of the turn that runs or ran last; nil: there was none
	decided map[string]*isolated // where a call was decided on in this turn, by its tool and input
}

// now returns the worktree, or nil.
func (l *place) now() *isolated {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.in
}

// ws returns the workspace in which the tools work.
func (l *place) ws() workspace.Workspace {
	if in := l.now(); in != nil {
		return in.ws
	}
	return l.session.ws
}

// begin says that a turn begins, with a gate that decides its calls.
func (l *place) begin(g *gate.Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = g
	clear(l.decided)
}

func (l *place) set(in *isolated) {
	var tools tool.Set
	if in != nil {
		tools = l.session.parts.wrap(coding.Tools(in.ws, l.session.coding), l.session.placeOf(in))
	}
	l.mu.Lock()
	l.in, l.tools = in, tools
	running := l.running
	l.mu.Unlock()
	if running != nil {
		running.Move(l.session.gate.Replace(l.options(l.session.engine.Project())))
	}
	l.session.changed()
}

// tool returns what a tool of the workspace is in the worktree; nil: the session does not work in one.
func (l *place) tool(name string) *tool.Tool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, _ := l.tools.Find(name)
	return t
}

// wrap returns the tools of the workspace as tools that work in the worktree while the session does.
func (l *place) wrap(tools tool.Set) tool.Set {
	for i, t := range tools {
		of := func() *tool.Tool {
			if other := l.tool(t.Name); other != nil {
				return other
			}
			return &t
		}
		tools[i].Run = func(ctx context.Context, call tool.Input) (tool.Result, error) {
			l.mu.Lock()
			decided, known := l.decided[t.Name+string(call.JSON)]
			moved := known && decided != l.in
			l.mu.Unlock()
			if moved {
				return tool.Result{}, errors.New("the working directory changed after this call was decided on: call it again")
			}
			return of().Run(ctx, call)
		}
		if t.Subjects != nil {
			tools[i].Subjects = func(ctx context.Context, in json.RawMessage) ([]permission.Subject, error) {
				l.mu.Lock()
				l.decided[t.Name+string(in)] = l.in
				l.mu.Unlock()
				return of().Subjects(ctx, in)
			}
		}
		if t.Changes != nil {
			tools[i].Changes = func(ctx context.Context, in json.RawMessage) ([]tool.Change, error) {
				return of().Changes(ctx, in)
			}
		}
		if t.Key != nil {
			tools[i].Key = func(ctx context.Context, in json.RawMessage) string { return of().Key(ctx, in) }
		}
	}
	return tools
}

// options returns what the settings and the host say about permissions where the session works.
func (l *place) options(p *Project) gate.Options { return gateOptions(l.session, p, l.now()) }

// entered is what the log knows about the worktree of a session: the Details of both tools. An empty Name means that
// the session left it.
type entered struct {
	Name   string `json:"name,omitempty"`
	Dir    string `json:"dir,omitempty"`
	Branch string `json:"branch,omitempty"`
}

// follow brings the session into the worktree in which the conversation was last, after a resume or a move to an
// earlier message.
func (l *place) follow(ctx context.Context) {
	s := l.session
	var want entered
	if all := s.log.State().Details; all[enterWorktree].Entry > all[exitWorktree].Entry {
		if json.Unmarshal(all[enterWorktree].Data, &want) != nil {
			return
		}
	}
	in := l.now()
	if in == nil && want.Name == "" || in != nil && in.tree.Dir == want.Dir {
		return
	}
	if in != nil {
		l.set(nil)
		in.end(ctx)
	}
	if want.Name == "" {
		return
	}
	p := s.engine.Project()
	tree, err := worktree.Open(ctx, p.options.Env.Environ(), s.ws.Dir(), want.Name)
	if err == nil {
		in, err = s.engine.isolatedIn(ctx, p, tree)
	}
	if err == nil {
		in.scratch, in.ws = s.scratch, s.scratch.local(in.ws)
		l.set(in)
		return
	}
	// The model must know, or else it takes the user's own files for those of the worktree.
	text := fmt.Sprintf("The worktree %s is not there any more: you work in %s again.", want.Dir, s.ws.Dir())
	for e := range s.log.Backward() {
		if e.Note != nil && e.Note.Model == text {
			return
		}
	}
	s.log.Append(session.Entry{Type: session.TypeNote, Note: &session.Note{Model: text, People: text}})
	if s.person == nil { // nobody sees the conversation
		s.engine.addNotice(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Warn, Message: text})
	}
}

// close removes the worktree if nothing changed in it.
func (l *place) close(ctx context.Context) {
	if in := l.now(); in != nil {
		l.set(nil)
		in.end(ctx)
	}
}

// worktreeTools returns EnterWorktree and ExitWorktree. They are for skills written for other agents: the model sees
// them only if a skill grants them. l may be nil: the tools must not be called then.
func worktreeTools(l *place) tool.Set {
	type enterInput struct {
		Name string `json:"name,omitempty" jsonschema:"letters, digits, - _ and dots; default: a name of its own"`
	}
	enter := tool.Define(enterWorktree,
		"Makes a git worktree beside the repository, on a branch of its own (knack/NAME) that "+
			"begins at the last commit, and works in it from now on. Only if the user or a skill asks for a worktree.",
		enterWorktreeSchema,
		func(ctx context.Context, in enterInput, _ tool.Input) (tool.Result, error) {
			return l.enter(ctx, in.Name)
		})
	enter.Effect, enter.Ordered = tool.Writes|tool.Runs, true
	enter.Subjects = tool.SubjectsOf(func(_ context.Context, in enterInput) []permission.Subject {
		return []permission.Subject{{Kind: enterWorktree, Text: in.Name}}
	})
	type exitInput struct {
		Action  string `json:"action,omitempty" jsonschema:"keep (the default) or remove"`
		Discard bool   `json:"discard_changes,omitempty" jsonschema:"remove it also if something changed in it"`
	}
	exit := tool.Define(exitWorktree, "Leaves the worktree that EnterWorktree made, and works in the original directory "+
		"again. With remove, the worktree is removed; what is in it that no commit has is committed on its branch before, "+
		"which stays.", exitWorktreeSchema,
		func(ctx context.Context, in exitInput, _ tool.Input) (tool.Result, error) {
			return l.exit(ctx, in.Action, in.Discard)
		})
	exit.Effect, exit.Ordered = tool.Writes|tool.Runs, true
	exit.Subjects = tool.SubjectsOf(func(_ context.Context, in exitInput) []permission.Subject {
		s := permission.Subject{Kind: exitWorktree, Text: in.Action}
		if in.Action != "remove" || !in.Discard { // nothing is changed but the directory
			s.Default = permission.Allow
		}
		return []permission.Subject{s}
	})
	for _, t := range []*tool.Tool{&enter, &exit} {
		t.Unlisted = func() bool { return true }
	}
	enter.Convert = tool.Only("name")
	exit.Convert = tool.Only("action", "discard_changes")
	return tool.Set{enter, exit}
}

func (l *place) enter(ctx context.Context, name string) (tool.Result, error) {
	s := l.session
	if in := l.now(); in != nil {
		return tool.Result{}, fmt.Errorf("you work in the worktree %s already: call %s first", in.tree.Dir, exitWorktree)
	}
	p := s.engine.Project()
	environ := p.options.Env.Environ()
	tree, err := worktree.Add(ctx, environ, s.ws.Dir(), name)
	if err != nil {
		return tool.Result{}, err
	}
	in, err := s.engine.isolatedIn(ctx, p, tree)
	if err != nil {
		return tool.Result{}, err
	}
	in.scratch, in.ws = s.scratch, s.scratch.local(in.ws)
	text := fmt.Sprintf("You work in the git worktree %s now, on the branch %s, which begins at the last commit. "+
		"Relative paths and commands start there. Do not change files outside it. %s {\"action\": \"keep\" or \"remove\"} "+
		"leads back to %s.",
		tree.Dir, tree.Branch, exitWorktree, s.ws.Dir())
	people := "Works in the worktree " + p.Short(tree.Dir) + ", branch " + tree.Branch
	if worktree.Uncommitted(ctx, environ, tree.Root) {
		const not = ": what is not committed is not in it"
		text, people = text+" What is not committed in "+tree.Root+" is not in it.", people+not
	}
	l.set(in)
	res := tool.Text(text)
	res.People = people
	res.Details = entered{Name: strings.TrimPrefix(tree.Branch, "knack/"), Dir: tree.Dir, Branch: tree.Branch}
	return res, nil
}

func (l *place) exit(ctx context.Context, action string, discard bool) (tool.Result, error) {
	in := l.now()
	switch {
	case in == nil:
		return tool.Result{}, errors.New("no worktree was entered in this session")
	case action != "" && action != "keep" && action != "remove":
		return tool.Result{}, fmt.Errorf("action is %q: keep or remove", action)
	}
	tree, back := in.tree, l.session.ws.Dir()
	text := fmt.Sprintf("The worktree %s stays, branch %s.", tree.Dir, tree.Branch)
	if action == "remove" {
		changed, err := tree.Changed(ctx)
		switch {
		case err != nil:
			return tool.Result{}, err
		case changed != "" && !discard:
			return tool.Result{}, fmt.Errorf("the worktree %s has %s: keep it, or set discard_changes, which commits what is "+
				"not committed on %s and removes the directory", tree.Dir, changed, tree.Branch)
		}
	}
	err := in.ws.Close() // ends what its commands left running
	if action == "remove" {
		kept, ignored, failed := tree.Commit(ctx, "Work of a session that left the worktree "+path.Base(tree.Branch))
		switch {
		case failed != nil:
			err = errors.Join(err, failed)
			text = fmt.Sprintf("The worktree %s could not be removed and stays, branch %s: %v.", tree.Dir, tree.Branch, failed)
		case len(ignored) > 0:
			text = fmt.Sprintf("The worktree %s stays, branch %s, because it has ignored files: %s.", tree.Dir, tree.Branch,
				plain.List(ignored, 5))
		case kept:
			text = fmt.Sprintf("The worktree %s is removed. What changed in it is on the branch %s.", tree.Dir, tree.Branch)
		default:
			text = fmt.Sprintf("The worktree %s and its branch %s are removed: nothing changed in it.", tree.Dir, tree.Branch)
		}
	}
	if err != nil {
		l.session.engine.addNotice(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Warn, Message: text})
	}
	l.set(nil)
	res := tool.Text(text + " You work in " + back + " again.")
	res.People = strings.ReplaceAll(text, tree.Dir, l.session.engine.Project().Short(tree.Dir))
	res.Details = entered{}
	return res, nil
}
