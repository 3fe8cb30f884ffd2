// Package worktree is the part with which a session works in a git worktree and leaves it.
package worktree

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
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
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

// Part is EnterWorktree and ExitWorktree. It is off where the workspace is not on this machine.
func Part() engine.Part {
	return engine.Part{Name: "worktree", Open: open,
		Known: func(engine.Brought) engine.PartTools { return engine.PartTools{Unlisted: (*trees)(nil).tools()} }}
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	if _, local := c.Place().Workspace.(*workspace.Local); !local {
		return nil, nil
	}
	l := &trees{conv: c}
	return &engine.Live{Follow: l.follow, Close: l.close,
		Tools: func() engine.PartTools { return engine.PartTools{Unlisted: l.tools()} }}, nil
}

// trees are the worktrees that a session enters, one after another.
type trees struct {
	conv *engine.Conv

	mu sync.Mutex
	in *worktree.Worktree // nil: the session works where it began
	at engine.Place       // of in
}

// now returns the worktree in which the session works; nil: in none.
func (l *trees) now() (*worktree.Worktree, engine.Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.in, l.at
}

// set lets the session work in a worktree; nil: where it began.
func (l *trees) set(in *worktree.Worktree, at engine.Place) {
	l.mu.Lock()
	l.in, l.at = in, at
	l.mu.Unlock()
	l.conv.Move(at)
}

// entered is what the log knows about the worktree of a session: the Details of both tools. An empty Name means that
// the session left it.
type entered struct {
	Name   string `json:"name,omitempty"`
	Dir    string `json:"dir,omitempty"`
	Branch string `json:"branch,omitempty"`
}

// follow brings the session into the worktree in which the conversation was last, after a resume or a move to an
// earlier message.
func (l *trees) follow(ctx context.Context) {
	var want entered
	if all := l.conv.Log().State().Details; all[enterWorktree].Entry > all[exitWorktree].Entry {
		if json.Unmarshal(all[enterWorktree].Data, &want) != nil {
			return
		}
	}
	in, _ := l.now()
	if in == nil && want.Name == "" || in != nil && in.Dir == want.Dir {
		return
	}
	l.leave(ctx)
	if want.Name == "" {
		return
	}
	home := l.conv.Place().Workspace.Dir()
	tree, err := worktree.Open(ctx, l.conv.Project().Env().Environ(), home, want.Name)
	if err == nil {
		var at engine.Place
		if at, err = l.conv.OpenWorktree(ctx, tree); err == nil {
			l.set(tree, at)
			return
		}
	}
	// The model must know, or else it takes the user's own files for those of the worktree.
	text := fmt.Sprintf("The worktree %s is not there any more: you work in %s again.", want.Dir, home)
	for e := range l.conv.Log().Backward() {
		if e.Note != nil && e.Note.Model == text {
			return
		}
	}
	l.conv.Log().Append(session.Entry{Type: session.TypeNote, Note: &session.Note{Model: text, People: text}})
	if !l.conv.Interactive() { // nobody sees the conversation
		l.conv.Notice(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Warn, Message: text})
	}
}

// leave leaves the worktree, and removes it if nothing changed in it.
func (l *trees) leave(ctx context.Context) {
	in, at := l.now()
	if in == nil {
		return
	}
	l.set(nil, engine.Place{})
	err := at.Workspace.Close() // ends what its commands left running
	if what, err := in.Changed(ctx); what == "" && err == nil {
		l.removes(ctx, in)
	}
	kept, closed := in.Close(ctx)
	if text := in.Left(kept, errors.Join(err, closed)); text != "" {
		l.conv.Notice(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Info, Message: text})
	}
}

func (l *trees) close() error {
	l.leave(context.Background())
	return nil
}

// tools returns EnterWorktree and ExitWorktree. They are for skills written for other agents: the model sees them only
// if a skill grants them. Those of a nil trees must not be called.
func (l *trees) tools() tool.Set {
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

func (l *trees) enter(ctx context.Context, name string) (tool.Result, error) {
	if in, _ := l.now(); in != nil {
		return tool.Result{}, fmt.Errorf("you work in the worktree %s already: call %s first", in.Dir, exitWorktree)
	}
	environ, home := l.conv.Project().Env().Environ(), l.conv.Place().Workspace.Dir()
	if name == "" {
		name = worktree.NewName()
	}
	if err := l.creates(ctx, name); err != nil {
		return tool.Result{}, err
	}
	tree, err := worktree.Add(ctx, environ, home, name, l.conv.Project().Settings().WorktreeInclude...)
	if err != nil {
		return tool.Result{}, err
	}
	at, err := l.conv.OpenWorktree(ctx, tree)
	if err != nil {
		return tool.Result{}, err
	}
	text := fmt.Sprintf("You work in the git worktree %s now, on the branch %s, which begins at the last commit. "+
		"Relative paths and commands start there. Do not change files outside it. %s {\"action\": \"keep\" or \"remove\"} "+
		"leads back to %s.",
		tree.Dir, tree.Branch, exitWorktree, home)
	people := "Works in the worktree " + l.conv.Project().Short(tree.Dir) + ", branch " + tree.Branch
	if worktree.Uncommitted(ctx, environ, tree.Root) {
		const not = ": what is not committed is not in it"
		text, people = text+" What is not committed in "+tree.Root+" is not in it.", people+not
	}
	if absent := tree.AbsentText(); absent != "" {
		people += ". " + absent
	}
	l.set(tree, at)
	res := tool.Text(text)
	res.People = people
	res.Details = entered{Name: strings.TrimPrefix(tree.Branch, "knack/"), Dir: tree.Dir, Branch: tree.Branch}
	return res, nil
}

func (l *trees) exit(ctx context.Context, action string, discard bool) (tool.Result, error) {
	tree, at := l.now()
	switch {
	case tree == nil:
		return tool.Result{}, errors.New("no worktree was entered in this session")
	case action != "" && action != "keep" && action != "remove":
		return tool.Result{}, fmt.Errorf("action is %q: keep or remove", action)
	}
	back := l.conv.Place().Workspace.Dir()
	text := fmt.Sprintf("Left the worktree %s, which stays with its branch %s.", tree.Dir, tree.Branch)
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
	err := at.Workspace.Close() // ends what its commands left running
	if action == "remove" {
		l.removes(ctx, tree)
		kept, ignored, failed := tree.Commit(ctx, "Work of a session that left the worktree "+path.Base(tree.Branch))
		switch {
		case failed != nil:
			err = errors.Join(err, failed)
			text = fmt.Sprintf("Left the worktree %s, branch %s, which could not be removed: %v.", tree.Dir, tree.Branch, failed)
		case len(ignored) > 0:
			text = fmt.Sprintf("Left the worktree %s, branch %s, which stays because it has ignored files: %s.", tree.Dir,
				tree.Branch, plain.List(ignored, 5))
		case kept:
			text = fmt.Sprintf("Removed the worktree %s. What changed in it is on the branch %s.", tree.Dir, tree.Branch)
		default:
			text = fmt.Sprintf("Removed the worktree %s and its branch %s: nothing changed in it.", tree.Dir, tree.Branch)
		}
	}
	if err != nil {
		l.conv.Notice(knack.Problem{Code: knack.CodeWorktree, Severity: knack.Warn, Message: text})
	}
	l.set(nil, engine.Place{})
	res := tool.Text(text + " You work in " + back + " again.")
	res.People = strings.ReplaceAll(text, tree.Dir, l.conv.Project().Short(tree.Dir))
	res.Details = entered{}
	return res, nil
}
