// Package undo is the part that keeps what tools change in files, and brings it back.
//
// Before a call changes files, or runs a command that may, a step of a [checkpoint.Journal] keeps what is there. A turn
// is what /undo takes back.
package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	"github.com/knack-agent/knack/run/checkpoint"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// checkpointTime is how long git or a search may take to find what has to be kept before a command.
const checkpointTime = 30 * time.Second

// Files keep what the tools of a session change. The zero value is not usable; the methods of a nil one return
// ErrNoCheckpoints. They may be called from any goroutine, but not while the model works.
type Files struct {
	conv  *engine.Conv
	first int // entry that the log did not have yet when the session was opened

	mu      sync.Mutex
	journal *checkpoint.Journal // nil: nothing was kept yet
	turn    checkpointTurn      // not recorded yet, if journal is nil
	failed  error               // the journal cannot be used
}

type checkpointTurn struct {
	entry  int
	prompt string
}

// ErrNoCheckpoints means that a session keeps no files.
var ErrNoCheckpoints = errors.New("this session keeps no files: it is not recorded, its files are on another " +
	"machine, or the setting checkpoints is off")

// Part is undo: what tools change in files is kept before, and /undo, /redo and /rewind bring it back.
func Part() engine.Part {
	return engine.Part{Name: name, Commands: commands(), Open: open}
}

const name = "undo"

// Of returns the files that a session keeps; nil: the program has no undo, or it is off in this session.
func Of(s *engine.Session) *Files {
	f, _ := s.Part(name).(*Files)
	return f
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	var set struct {
		Checkpoints string `json:"checkpoints"`
	}
	if err := c.Project().ReadSettings(&set); err != nil {
		return nil, err
	}
	if _, local := c.Place().Workspace.(*workspace.Local); !local || !c.Recorded() || set.Checkpoints == "off" {
		return &engine.Live{Value: (*Files)(nil)}, nil
	}
	f := &Files{conv: c, first: c.Log().Last() + 1}
	return &engine.Live{Wrap: f.wrap, Begin: f.begin, Close: f.close, Value: f}, nil
}

// wrap returns tools whose calls are steps of the session's journal.
func (f *Files) wrap(tools tool.Set, in engine.Place) tool.Set {
	tools = slices.Clone(tools)
	for i, t := range tools {
		if t.Effect&(tool.Writes|tool.Runs) == 0 {
			continue
		}
		tools[i].Run = func(ctx context.Context, call tool.Input) (tool.Result, error) {
			step, err := f.before(ctx, t, call, in)
			if errors.Is(err, checkpoint.ErrStore) {
				return tool.Result{}, fmt.Errorf("%s was not run, because what it changes could not be undone: %w. The user can "+
					"free space there, or set checkpoints to off", t.Name, err)
			}
			if err != nil {
				f.conv.Notice(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Warn,
					Message: "what " + t.Name + " changes cannot be undone: " + err.Error()})
			}
			if step == nil {
				return t.Run(ctx, call)
			}
			if left := leftText(step.Left); left != "" {
				f.conv.Notice(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Info, Message: left})
			}
			result, err := t.Run(ctx, call)
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointTime)
			defer cancel()
			if bad := step.End(end); bad != nil {
				f.conv.Notice(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Warn,
					Message: "what " + t.Name + " changed cannot be undone: " + bad.Error()})
			}
			return result, err
		}
	}
	return tools
}

// leftText says what was not kept before a command, or "".
func leftText(left []checkpoint.Left) string {
	if len(left) == 0 {
		return ""
	}
	var names []string
	for _, l := range left {
		names = append(names, l.Path+" ("+l.Why+")")
	}
	return "not kept before commands, so that /undo cannot restore it: " + plain.List(names, 3)
}

// before begins a step for a call; nil: the call changes nothing.
func (f *Files) before(ctx context.Context, t tool.Tool, call tool.Input, in engine.Place) (*checkpoint.Step,
	error) {
	subjects := call.Subjects
	if subjects == nil && t.Subjects != nil {
		var err error
		if subjects, err = t.Subjects(ctx, call.JSON); err != nil {
			return nil, nil // the call fails
		}
	}
	what := t.Name
	if line := t.Line(call.JSON); line != "" {
		what += ": " + line
	}
	if t.Effect&tool.Runs == 0 {
		var paths []string
		for _, s := range subjects {
			if s.Kind == permission.KindEdit && filepath.IsAbs(s.Text) {
				paths = append(paths, s.Text)
			}
		}
		if len(paths) == 0 {
			return nil, nil
		}
		journal, err := f.open()
		if err != nil {
			return nil, err
		}
		return journal.Files(ctx, what, paths...)
	}
	if (permission.Rules{}).Decide(ctx, permission.Default, in.Paths(), subjects...).Verdict == permission.Allow {
		return nil, nil // it only reads
	}
	journal, err := f.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	if in.Worktree != "" {
		return journal.Worktree(ctx, in.Worktree, what)
	}
	return journal.Tree(ctx, what)
}

// begin says that a user turn begins.
func (f *Files) begin(_ context.Context, prompt string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn = checkpointTurn{f.conv.Log().Last() + 1, prompt}
	if f.journal == nil {
		return nil
	}
	return f.journal.Begin(f.turn.entry, f.turn.prompt)
}

// open returns the session's journal.
func (f *Files) open() (*checkpoint.Journal, error) {
	if f == nil {
		return nil, ErrNoCheckpoints
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.journal != nil || f.failed != nil {
		return f.journal, f.failed
	}
	p := f.conv.Project()
	root, err := filepath.EvalSymlinks(p.Root())
	if err != nil {
		return nil, err
	}
	store := p.Env().Checkpoints()
	if err := store.Prune(); err != nil {
		f.conv.Notice(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Warn,
			Message: "old checkpoints cannot be removed: " + err.Error()})
	}
	tree := checkpoint.Tree{Root: root, Git: runnerOf(f.conv.Place().Paths().Git, root)}
	if tree.Git != nil {
		environ := p.Env().Environ()
		tree.In = func(root string) checkpoint.GitRunner {
			git := permission.NewGit(root)
			git.Environ = environ
			return runnerOf(git, root)
		}
	}
	f.journal, f.failed = store.Journal(f.conv.Log().ID(), tree)
	if f.failed == nil && f.turn.entry > 0 {
		f.failed = f.journal.Begin(f.turn.entry, f.turn.prompt)
	}
	return f.journal, f.failed
}

func (f *Files) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.journal == nil {
		return nil
	}
	return f.journal.Close()
}

// runnerOf returns what runs git in the root of a repository or of one of its worktrees, without the programs that its
// configuration names. nil: the directory is no such root, or git is nil.
func runnerOf(git *permission.Git, root string) checkpoint.GitRunner {
	// Git would only say the same: it gets no GIT_DIR, and takes no bare repository.
	if _, err := os.Lstat(filepath.Join(root, ".git")); git == nil || err != nil {
		return nil
	}
	run := func(ctx context.Context, env []string, stdin io.Reader, args ...string) ([]byte, error) {
		cmd, err := git.Command(ctx, root, args...)
		if err != nil {
			return nil, err
		}
		cmd.Stdin, cmd.Env = stdin, append(cmd.Env, env...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
			return nil, fmt.Errorf("git %s: %w: %s", args[0], err, line)
		}
		return out.Bytes(), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkpointTime)
	defer cancel()
	top, err := run(ctx, nil, nil, "rev-parse", "--show-toplevel")
	if err != nil || filepath.Clean(strings.TrimSpace(string(top))) != root {
		return nil
	}
	return run
}

// A Turn is a user turn whose tools changed files.
type Turn struct {
	checkpoint.Turn
	Entry int // of the user's message, as /tree shows it
}

// Turns returns the turns whose changes of files can be taken back, the oldest first.
func (f *Files) Turns() ([]Turn, error) {
	journal, err := f.open()
	if err != nil {
		return nil, err
	}
	var all []Turn
	for _, t := range journal.Turns() {
		if len(t.Files) > 0 || len(t.Interrupted) > 0 {
			all = append(all, Turn{t, f.messageAt(t.Entry)})
		}
	}
	return all, nil
}

// ChangedSince reports whether tools changed files in a turn that began with an entry, or later.
func (f *Files) ChangedSince(entry int) bool {
	if f == nil || entry >= f.first && !f.opened() {
		return false // without a journal, which would start git
	}
	turns, err := f.Turns()
	return err == nil && len(turns) > 0 && turns[len(turns)-1].Entry >= entry
}

// opened reports whether the journal was needed since the session was opened.
func (f *Files) opened() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.journal != nil || f.failed != nil
}

// messageAt returns the entry of the first message of the user at or after an entry; that entry itself if there is
// none.
func (f *Files) messageAt(entry int) int {
	for _, e := range f.conv.Log().After(entry - 1) {
		if engine.StartsTurn(e) {
			return e.ID
		}
	}
	return entry
}

// Restore brings files back to their state before the turn that began with an entry of the user, as /tree shows
// it; 0 is the last turn that changed files and was not undone. What somebody else changed is left and named, unless
// o.Force is set. [Files.Redo] takes it back.
func (f *Files) Restore(ctx context.Context, entry int, o checkpoint.Options) (checkpoint.Result, error) {
	journal, from, err := f.journalAt(entry)
	if err != nil {
		return checkpoint.Result{}, err
	}
	result, err := journal.Restore(ctx, from, o)
	if entry == 0 {
		entry = f.messageAt(from)
	}
	f.note(session.Restore{Before: entry}, result)
	return result, err
}

// note records a restore in the log, which reports errors of writing with its next entry.
func (f *Files) note(r session.Restore, result checkpoint.Result) {
	if r.Files = len(result.Files); r.Files > 0 {
		f.conv.Log().Append(session.Entry{Type: session.TypeRestore, Restore: &r})
	}
}

// Plan returns what [Files.Restore] would do, and diff, which compares a file with what it would become.
func (f *Files) Plan(ctx context.Context, entry int, o checkpoint.Options) (r checkpoint.Result,
	diff func(path string) (now, then []byte, err error), err error) {
	journal, entry, err := f.journalAt(entry)
	if err != nil {
		return r, nil, err
	}
	r, err = journal.Plan(ctx, entry, o)
	return r, func(path string) ([]byte, []byte, error) { return journal.Contents(ctx, entry, path) }, err
}

// journalAt returns the journal and the first entry that counts for the turn that contains an entry of the log: a turn
// is recorded in the journal before its message is in the log.
func (f *Files) journalAt(entry int) (*checkpoint.Journal, int, error) {
	journal, err := f.open()
	if err != nil {
		return nil, 0, err
	}
	if entry == 0 {
		last, ok := journal.Undoable()
		if !ok {
			return nil, 0, checkpoint.ErrNothing
		}
		return journal, last, nil
	}
	starts := []int{0}
	for e := range f.conv.Log().All() {
		if engine.StartsTurn(e) && e.ID <= entry {
			starts = append(starts, e.ID)
		}
	}
	if last := starts[len(starts)-1]; last > 0 { // the turn before the one that contains the entry
		return journal, starts[len(starts)-2] + 1, nil
	}
	return journal, 1, nil
}

// Redo takes back the last Restore. What somebody else changed since is left and named, unless o.Force is
// set.
func (f *Files) Redo(ctx context.Context, o checkpoint.Options) (checkpoint.Result, error) {
	journal, err := f.open()
	if err != nil {
		return checkpoint.Result{}, err
	}
	result, err := journal.Redo(ctx, o)
	f.note(session.Restore{Redo: true}, result)
	return result, err
}
