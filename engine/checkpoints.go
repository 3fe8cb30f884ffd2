package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/checkpoint"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// checkpointTime is how long git or a search may take to find what has to be kept before a command.
const checkpointTime = 30 * time.Second

// checkpoints keep what the tools of a session change. The zero value is not usable; a nil one keeps nothing.
type checkpoints struct {
	session *Session

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

// newCheckpoints returns nil for a session that keeps no files.
func (s *Session) newCheckpoints(p *Project) *checkpoints {
	if _, local := s.ws.(*workspace.Local); !local || !s.Recorded() || p.config.Settings.Checkpoints == "off" {
		return nil
	}
	return &checkpoints{session: s}
}

// wrap returns tools whose calls are steps of the session's journal. at is the worktree in which they work; nil: the
// session's own directory.
func (c *checkpoints) wrap(tools tool.Set, at *isolated) tool.Set {
	if c == nil {
		return tools
	}
	tools = slices.Clone(tools)
	for i, t := range tools {
		if t.Effect&(tool.Writes|tool.Runs) == 0 {
			continue
		}
		tools[i].Run = func(ctx context.Context, call tool.Input) (tool.Result, error) {
			step, err := c.before(ctx, t, call, at)
			if errors.Is(err, checkpoint.ErrStore) {
				return tool.Result{}, fmt.Errorf("%s was not run, because what it changes could not be undone: %w. The user can "+
					"free space there, or set checkpoints to off", t.Name, err)
			}
			if err != nil {
				c.session.engine.addNoticeOnce(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Warn,
					Message: "what " + t.Name + " changes cannot be undone: " + err.Error()})
			}
			if step == nil {
				return t.Run(ctx, call)
			}
			if left := leftText(step.Left); left != "" {
				c.session.engine.addNoticeOnce(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Info, Message: left})
			}
			result, err := t.Run(ctx, call)
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointTime)
			defer cancel()
			if bad := step.End(end); bad != nil {
				c.session.engine.addNoticeOnce(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Warn,
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
func (c *checkpoints) before(ctx context.Context, t tool.Tool, call tool.Input, at *isolated) (*checkpoint.Step,
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
		journal, err := c.open()
		if err != nil {
			return nil, err
		}
		return journal.Files(ctx, what, paths...)
	}
	place := c.session.engine.PathContext()
	if at != nil {
		place = at.paths
	}
	if (permission.Rules{}).Decide(ctx, permission.Default, place, subjects...).Verdict == permission.Allow {
		return nil, nil // it only reads
	}
	journal, err := c.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTime)
	defer cancel()
	if at != nil {
		return journal.Worktree(ctx, at.tree.Dir, what)
	}
	return journal.Tree(ctx, what)
}

// begin says that a user turn begins.
func (c *checkpoints) begin(prompt string) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = checkpointTurn{c.session.log.Last() + 1, prompt}
	if c.journal == nil {
		return nil
	}
	return c.journal.Begin(c.turn.entry, c.turn.prompt)
}

// open returns the session's journal.
func (c *checkpoints) open() (*checkpoint.Journal, error) {
	if c == nil {
		return nil, ErrNoCheckpoints
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.journal != nil || c.failed != nil {
		return c.journal, c.failed
	}
	p := c.session.engine.Project()
	root, err := filepath.EvalSymlinks(p.root)
	if err != nil {
		return nil, err
	}
	store := p.options.Env.Checkpoints()
	if err := store.Prune(); err != nil {
		c.session.engine.addNoticeOnce(knack.Problem{Code: knack.CodeCheckpoint, Severity: knack.Warn,
			Message: "old checkpoints cannot be removed: " + err.Error()})
	}
	tree := checkpoint.Tree{Root: root}
	tree.Git = c.session.engine.gitRunner(root)
	if tree.Git != nil {
		environ := p.options.Env.environ()
		tree.In = func(root string) checkpoint.GitRunner {
			git := permission.NewGit(root)
			git.Environ = environ
			return runnerOf(git, root)
		}
	}
	c.journal, c.failed = store.Journal(c.session.log.ID(), tree)
	if c.failed == nil && c.turn.entry > 0 {
		c.failed = c.journal.Begin(c.turn.entry, c.turn.prompt)
	}
	return c.journal, c.failed
}

func (c *checkpoints) close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.journal == nil {
		return nil
	}
	return c.journal.Close()
}

// gitRunner returns what runs git in a repository without the programs that its configuration names. It returns nil
// if the directory is not a repository, or git cannot be run there.
func (e *Engine) gitRunner(root string) checkpoint.GitRunner {
	e.mu.Lock()
	git := e.git
	e.mu.Unlock()
	if git == nil {
		return nil
	}
	return runnerOf(git, root)
}

// runnerOf returns what runs git in the root of a repository or of one of its worktrees; nil: it is none.
func runnerOf(git *permission.Git, root string) checkpoint.GitRunner {
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

// A FileTurn is a user turn whose tools changed files.
type FileTurn struct {
	checkpoint.Turn
	Entry int // of the user's message, as /tree shows it
}

// FileTurns returns the turns whose changes of files can be taken back, the oldest first.
func (s *Session) FileTurns() ([]FileTurn, error) {
	journal, err := s.checkpoints.open()
	if err != nil {
		return nil, err
	}
	var all []FileTurn
	for _, t := range journal.Turns() {
		if len(t.Files) > 0 || len(t.Interrupted) > 0 {
			all = append(all, FileTurn{t, s.messageAt(t.Entry)})
		}
	}
	return all, nil
}

// messageAt returns the entry of the first message of the user at or after an entry; that entry itself if there is
// none.
func (s *Session) messageAt(entry int) int {
	for _, e := range s.log.After(entry - 1) {
		if StartsTurn(e) {
			return e.ID
		}
	}
	return entry
}

// RestoreFiles brings files back to their state before the turn that began with an entry of the user, as /tree shows
// it; 0 is the last turn that changed files and was not undone. What somebody else changed is left and named, unless
// o.Force is set. [Session.RedoFiles] takes it back. Call neither while
// the model works.
func (s *Session) RestoreFiles(ctx context.Context, entry int, o checkpoint.Options) (checkpoint.Result, error) {
	journal, entry, err := s.journalAt(entry)
	if err != nil {
		return checkpoint.Result{}, err
	}
	return journal.Restore(ctx, entry, o)
}

// PlanRestore returns what [Session.RestoreFiles] would do, and diff, which compares a file with what it would become.
func (s *Session) PlanRestore(ctx context.Context, entry int, o checkpoint.Options) (r checkpoint.Result,
	diff func(path string) (now, then []byte, err error), err error) {
	journal, entry, err := s.journalAt(entry)
	if err != nil {
		return r, nil, err
	}
	r, err = journal.Plan(ctx, entry, o)
	return r, func(path string) ([]byte, []byte, error) { return journal.Contents(ctx, entry, path) }, err
}

// journalAt returns the journal and the first entry that counts for the turn that contains an entry of the log: a turn
// is recorded in the journal before its message is in the log.
func (s *Session) journalAt(entry int) (*checkpoint.Journal, int, error) {
	journal, err := s.checkpoints.open()
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
	for e := range s.log.All() {
		if StartsTurn(e) && e.ID <= entry {
			starts = append(starts, e.ID)
		}
	}
	if last := starts[len(starts)-1]; last > 0 { // the turn before the one that contains the entry
		return journal, starts[len(starts)-2] + 1, nil
	}
	return journal, 1, nil
}

// StartsTurn reports whether an entry is the message or the skill with which the user began a turn.
func StartsTurn(e session.Entry) bool {
	return e.User != nil && !e.User.Steering || e.Activation != nil && e.Activation.By == session.ByUser
}

// RedoFiles takes back the last RestoreFiles. What somebody else changed since is left and named, unless o.Force is
// set.
func (s *Session) RedoFiles(ctx context.Context, o checkpoint.Options) (checkpoint.Result, error) {
	journal, err := s.checkpoints.open()
	if err != nil {
		return checkpoint.Result{}, err
	}
	return journal.Redo(ctx, o)
}
