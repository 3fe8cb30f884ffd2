package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/checkpoint"
	"github.com/knack-agent/knack/run/session"
)

// Limits of what is shown of the changes of a turn.
const (
	maxDiffs     = 20       // files whose diff is in a preview
	maxDiffBytes = 64 << 10 // of one file
)

// commands returns the slash commands of the part.
func commands() []engine.Command {
	return []engine.Command{
		{Name: "undo", Description: "take back the last turn: its changes of files, and the messages", Run: undo},
		{Name: "redo", Hint: "[force]", Description: "take back the last /undo or /rewind", Run: redo},
		{Name: "rewind", Also: []string{"checkpoint"}, Hint: "[N [WHAT]]",
			Description: "go back to before a message, with the files, or list them", Run: rewind,
			Effect: engine.WithoutArguments(engine.Changes)},
	}
}

// A Rewind says how far back a session goes.
type Rewind struct {
	Entry        int  // of the user's message, as /tree shows it; the state before it is restored
	Files        bool // restore files
	Conversation bool // continue before the message
	Force        bool // also files that somebody else changed
}

// A Rewound is what a rewind did.
type Rewound struct {
	Entry    int      `json:"entry"` // the message before which the session is now
	Text     string   `json:"text"`  // of that message
	Restored []string `json:"restored,omitempty"`
	Left     []string `json:"left,omitempty"`    // files that are not as they were before that message, and why
	Ignored  []string `json:"ignored,omitempty"` // not kept, because they are ignored, and a command ran
	NoFiles  string   `json:"noFiles,omitempty"` // why no file was restored
	Moved    bool     `json:"moved"`             // the conversation continues before the message
	Forcible bool     `json:"-"`                 // with force, some of Left would be restored
}

// Apply brings a session back. Files are restored first: if that fails, the conversation stays as it is.
func (r Rewind) Apply(ctx context.Context, s *engine.Session) (Rewound, error) {
	at, ok := entryOf(s, r.Entry)
	if !ok || engine.TypedIn(at) == "" {
		return Rewound{}, &engine.Error{Err: fmt.Errorf("entry %d is not a message of yours", r.Entry),
			Hint: "/rewind lists them",
			Exit: engine.ExitUsage}
	}
	done := Rewound{Entry: r.Entry, Text: engine.TypedIn(at)}
	if r.Files {
		result, err := Of(s).Restore(ctx, r.Entry, checkpoint.Options{Force: r.Force})
		switch {
		case errors.Is(err, checkpoint.ErrNothing) || errors.Is(err, ErrNoCheckpoints):
			done.NoFiles = err.Error()
		case err != nil:
			return done, err
		}
		done.add(result)
	}
	if r.Conversation {
		if err := s.Log().Move(at.Parent); err != nil {
			return done, err
		}
		done.Moved = true
	}
	return done, nil
}

func (d *Rewound) add(r checkpoint.Result) {
	for _, f := range r.Files {
		d.Restored = append(d.Restored, fileLine(f))
	}
	for _, l := range r.Left {
		d.Left = append(d.Left, l.Path+": "+l.Why)
		d.Forcible = d.Forcible || l.Forcible()
	}
	d.Ignored = r.Ignored
}

// fileLine says what happened to a file.
func fileLine(f checkpoint.FileChange) string { return string(f.Effect) + " " + f.Path }

func entryOf(s *engine.Session, id int) (session.Entry, bool) {
	for e := range s.Log().All() {
		if e.ID == id {
			return e, true
		}
	}
	return session.Entry{}, false
}

// reply shows what a rewind did.
func (d Rewound) reply() engine.Reply {
	var lines []string
	r := engine.Reply{Value: d}
	if d.Moved {
		lines = append(lines, "You are back before: "+engine.Clip(d.Text, 70))
		r.Draft = d.Text
	}
	if len(d.Restored) == 0 && d.NoFiles != "" {
		lines = append(lines, d.NoFiles)
	}
	lines = append(lines, d.files()...)
	r.Text = strings.Join(lines, "\n")
	return r
}

// files says in lines what happened to files.
func (d Rewound) files() (lines []string) {
	for _, f := range d.Restored {
		lines = append(lines, plain.Line(f))
	}
	if len(d.Left) > 0 {
		lines = append(lines, "These are left as they are:")
	}
	for _, l := range d.Left {
		lines = append(lines, "  "+plain.Line(l))
	}
	if len(d.Ignored) > 0 {
		lines = append(lines, "Not covered, because git ignores it: "+plain.Line(plain.List(d.Ignored, 5)))
	}
	return lines
}

// undo goes back to before the last message on this branch.
func undo(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	last := 0
	for e := range s.Log().Walk() {
		if engine.StartsTurn(e) {
			last = e.ID
		}
	}
	if last == 0 {
		return engine.Reply{}, engine.ErrEmpty
	}
	done, err := Rewind{Entry: last, Files: true, Conversation: true}.Apply(ctx, s)
	if err != nil {
		return engine.Reply{}, err
	}
	r := done.reply()
	if done.Forcible {
		r.Text += fmt.Sprintf("\n/rewind %d files force restores these too.", last)
	}
	r.Text += "\n/redo takes this back."
	return r, nil
}

// redo takes back the last undo or rewind: files, and the conversation if nothing was said since.
func redo(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	force := isForce(args)
	if args != "" && !force {
		return engine.Reply{}, engine.Usagef("/redo, or /redo force", "/redo %s: it takes only force", plain.Line(args))
	}
	var done Rewound
	result, err := Of(s).Redo(ctx, checkpoint.Options{Force: force})
	nothing := errors.Is(err, checkpoint.ErrNothing) || errors.Is(err, ErrNoCheckpoints)
	if err != nil && !nothing {
		return engine.Reply{}, err
	}
	done.add(result)
	if to, ok := movedFrom(s); ok && !result.Again {
		if err := s.Log().Move(to); err != nil {
			return engine.Reply{}, err
		}
		done.Moved, done.Entry = true, to
	}
	if nothing && !done.Moved {
		return engine.Reply{}, errors.New("there is nothing to take back")
	}
	lines := done.files()
	if done.Moved {
		lines = append(lines, "The conversation continues where it was.")
	}
	if done.Forcible {
		lines = append(lines, "/redo force brings these back too.")
	}
	return engine.Reply{Text: strings.Join(lines, "\n"), Value: done}, nil
}

// movedFrom returns where the conversation was before the last step back that was not taken back, if nothing was said
// since.
func movedFrom(s *engine.Session) (id int, ok bool) {
	restores := map[int]bool{} // they say nothing
	parents := map[int]int{}
	var moves []session.Entry // since something was said
	for e := range s.Log().All() {
		parents[e.ID] = e.Parent
		switch {
		case e.Move != nil:
			for id := e.Parent; id > 0 && restores[id]; id = parents[id] {
				e.Parent = parents[id]
			}
			moves = append(moves, e)
		case e.Restore != nil:
			restores[e.ID] = true
		default:
			moves = nil
		}
	}
	forward := 0
	for _, e := range slices.Backward(moves) {
		at := e.Move.To
		for at > 0 && at != e.Parent {
			at = parents[at]
		}
		switch {
		case at == e.Parent: // the move was forward
			forward++
		case forward > 0:
			forward--
		default:
			return e.Parent, true
		}
	}
	return 0, false
}

func isForce(word string) bool { return word == "force" || word == "--force" }

// rewind lists the user's messages with the files that changed after them, or goes back to before one.
func rewind(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	words := strings.Fields(args)
	if len(words) == 0 {
		return rewindChoices(s)
	}
	n, err := strconv.Atoi(words[0])
	r := Rewind{Entry: n}
	for _, w := range words[1:] {
		switch {
		case w == "files":
			r.Files = true
		case w == "conversation":
			r.Conversation = true
		case w == "both":
			r.Files, r.Conversation = true, true
		case isForce(w):
			r.Force = true
		default:
			err = fmt.Errorf("%q is not files, conversation, both or force", w)
		}
	}
	if err != nil {
		return engine.Reply{}, &engine.Error{Err: err, Hint: "/rewind", Exit: engine.ExitUsage}
	}
	if !r.Files && !r.Conversation {
		if len(words) == 1 {
			return rewindWhat(ctx, s, n)
		}
		r.Files, r.Conversation = true, true
	}
	done, err := r.Apply(ctx, s)
	if err != nil {
		return engine.Reply{}, err
	}
	reply := done.reply()
	if !r.Files && Of(s).ChangedSince(n) {
		reply.Text += fmt.Sprintf("\nNo file was changed. /rewind %d files restores them.", n)
	}
	return reply, nil
}

type rewindValue struct {
	Entry int      `json:"entry"`
	Text  string   `json:"text"`
	Files []string `json:"files,omitempty"`
}

// rewindChoices lists the messages that began a turn of this branch.
func rewindChoices(s *engine.Session) (engine.Reply, error) {
	files := map[int][]string{}
	turns, err := Of(s).Turns()
	if err != nil && !errors.Is(err, ErrNoCheckpoints) {
		return engine.Reply{}, err
	}
	for _, t := range turns {
		for _, f := range t.Files {
			files[t.Entry] = append(files[t.Entry], fileLine(f))
		}
		for _, p := range t.Interrupted {
			files[t.Entry] = append(files[t.Entry], "interrupted "+p)
		}
	}
	var lines []string
	all := []rewindValue{}
	choices := &engine.Question{Title: "Go back to before which message?"}
	branch := s.Log().Branch()
	for i := len(branch) - 1; i >= 0; i-- {
		e := branch[i]
		if !engine.StartsTurn(e) {
			continue
		}
		changed := files[e.ID]
		what := "no file changed"
		if len(changed) > 0 {
			what = plain.Count(len(changed), "file")
		}
		all = append(all, rewindValue{e.ID, engine.TypedIn(e), changed})
		choices.Options = append(choices.Options, engine.Option{ID: fmt.Sprintf("/rewind %d", e.ID),
			Label: engine.Clip(engine.TypedIn(e), 68), Help: e.Time.Local().Format("15:04") + ", " + what,
			Preview: strings.Join(append([]string{engine.TypedIn(e)}, changed...), "\n")})
		lines = append(lines, fmt.Sprintf("%5d  %s  (%s)", e.ID, engine.Clip(engine.TypedIn(e), 60), what))
	}
	if len(all) == 0 {
		return engine.Reply{}, engine.ErrEmpty
	}
	lines = append(lines, "/rewind N goes back to before message N; add files or conversation for only one of them")
	return engine.Reply{Text: strings.Join(lines, "\n"), Value: all, Choices: choices}, nil
}

// rewindWhat asks what to bring back, and shows what would happen to files.
func rewindWhat(ctx context.Context, s *engine.Session, n int) (engine.Reply, error) {
	at, ok := entryOf(s, n)
	if !ok || engine.TypedIn(at) == "" {
		return Rewind{Entry: n}.reply(ctx, s)
	}
	plan, diff, err := Of(s).Plan(ctx, n, checkpoint.Options{})
	if errors.Is(err, checkpoint.ErrNothing) || errors.Is(err, ErrNoCheckpoints) || err == nil &&
		len(plan.Files) == 0 &&
		len(plan.Left) == 0 {
		done, err := Rewind{Entry: n, Conversation: true}.Apply(ctx, s)
		if err != nil {
			return engine.Reply{}, err
		}
		done.Ignored = plan.Ignored
		return done.reply(), nil
	}
	if err != nil {
		return engine.Reply{}, err
	}
	var would Rewound
	would.add(plan)
	text := strings.Join(would.files(), "\n")
	preview := text
	for _, f := range plan.Files[:min(maxDiffs, len(plan.Files))] {
		preview += "\n\n" + fileDiff(f, diff)
	}
	option := func(what, label string) engine.Option {
		return engine.Option{ID: fmt.Sprintf("/rewind %d %s", n, what), Label: label, Preview: preview}
	}
	choices := &engine.Question{Title: "Bring back what?", Text: text, Options: []engine.Option{
		option("both", "files and conversation"), option("files", "files"), option("conversation", "conversation")}}
	if would.Forcible {
		choices.Options = append(choices.Options, option("both force", "both, and the files that somebody else changed"))
	}
	text += fmt.Sprintf("\n/rewind %d both, files or conversation", n)
	return engine.Reply{Text: text, Value: would, Choices: choices}, nil
}

func (r Rewind) reply(ctx context.Context, s *engine.Session) (engine.Reply, error) {
	done, err := r.Apply(ctx, s)
	if err != nil {
		return engine.Reply{}, err
	}
	return done.reply(), nil
}

// fileDiff shows what a restore would change in a file.
func fileDiff(f checkpoint.FileChange, diff func(string) (now, then []byte, err error)) string {
	now, then, err := diff(f.Path)
	switch {
	case err != nil:
		return plain.Line(f.Path) + ": " + err.Error()
	case !isText(now) || !isText(then):
		return fmt.Sprintf("%s: %d bytes become %d bytes", plain.Line(f.Path), len(now), len(then))
	}
	return strings.TrimRight(plain.Text(udiff.Unified(f.Path, f.Path, string(now), string(then))), "\n")
}

func isText(data []byte) bool {
	return len(data) <= maxDiffBytes && bytes.IndexByte(data, 0) < 0 && utf8.Valid(data)
}
