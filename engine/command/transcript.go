package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

func export(_ context.Context, s *engine.Session, file string) (engine.Reply, error) {
	if s.Log().Leaf() == 0 {
		return engine.Reply{}, engine.ErrEmpty
	}
	x, err := exportOf(s, file).WithDefaults(s.Log())
	if err != nil {
		return engine.Reply{}, &engine.Error{Err: err, Hint: "/export FILE.html, FILE.md or FILE.jsonl",
			Exit: engine.ExitUsage}
	}
	if x.Path == "-" {
		return engine.Reply{}, errors.New("/export writes a file: knack session export ID -o - writes to standard output")
	}
	if !filepath.IsAbs(x.Path) {
		x.Path = filepath.Join(s.Engine().Project().Dir(), x.Path)
	}
	if err := x.Save(s.Log()); err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Text: "Written, and readable only by you: " + plain.Line(x.Path),
			Value: map[string]string{"file": x.Path}},
		nil
}

// exportOf returns how to write the session to a file.
func exportOf(s *engine.Session, path string) Export {
	return Export{Path: path, Version: s.Engine().Project().Version(), Summary: s.Now().Summary}
}

// shareTime limits the duration of an upload.
const shareTime = 2 * time.Minute

// share uploads a page as a secret gist with the user's own gh, after the user has agreed.
func share(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	if s.Log().Leaf() == 0 {
		return engine.Reply{}, engine.ErrEmpty
	}
	gh, err := exec.LookPath("gh")
	if err != nil {
		return engine.Reply{}, &engine.Error{Err: errors.New("/share needs the program gh, which is not installed"),
			Hint: "/export writes a file that you can send"}
	}
	if !s.Interactive() {
		return engine.Reply{}, &engine.Error{Err: errors.New("nothing was shared, because there is no user to ask"),
			Hint: "knack session export " + s.Log().ID(), Exit: engine.ExitRefused}
	}
	dir, err := os.MkdirTemp("", "knack-share-*")
	if err != nil {
		return engine.Reply{}, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "knack-"+s.Log().ID()+".html")
	if err := exportOf(s, path).Save(s.Log()); err != nil {
		return engine.Reply{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return engine.Reply{}, err
	}
	agreed, err := Confirm(ctx, s, fmt.Sprintf("Upload the whole conversation (%d kB: every message, "+
		"file read and command run) to "+
		"GitHub, as a secret gist of yours? Anyone with its address can read it.", (info.Size()+999)/1000), "",
		"yes, upload it")
	if err != nil {
		return engine.Reply{}, err
	}
	if !agreed {
		return engine.Reply{Text: "Nothing was shared."}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, shareTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, gh, "gist", "create", path) // secret by default
	cmd.Env = append(userdirs.EnvironOf(s.Engine().Project().Env()), "GH_PROMPT_DISABLED=1")
	cmd.Dir = dir // not the project's directory, whose files could influence gh
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return engine.Reply{}, fmt.Errorf("gh: %w: %s", err, plain.Line(strings.TrimSpace(stderr.String())))
	}
	address := strings.TrimSpace(string(out))
	return engine.Reply{Text: "shared: " + plain.Line(address), Value: map[string]string{"url": address}}, nil
}

// copyAnswer puts the last answer on the clipboard. If the session has no Person, it returns the
// answer as text instead.
func copyAnswer(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	text := ""
	for e := range s.Log().Walk() {
		if e.Answer != nil {
			text = cmp.Or(llm.JoinText(e.Answer.Message.Parts, "\n\n"), text)
		}
	}
	if text == "" {
		return engine.Reply{}, errors.New("there is no answer to copy yet")
	}
	if !s.Interactive() {
		return engine.Reply{Text: text, Value: map[string]string{"text": text}}, nil
	}
	for _, argv := range clipboards(s.Engine().Project().Env()) {
		program, err := exec.LookPath(argv[0])
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, argv[1:]...)
		cmd.Stdin = strings.NewReader(text)
		if err := cmd.Run(); err != nil {
			return engine.Reply{}, fmt.Errorf("%s: %w", argv[0], err)
		}
		return engine.Reply{Text: fmt.Sprintf("copied, %d characters", len([]rune(text))),
				Value: map[string]string{"text": text}},
			nil
	}
	return engine.Reply{}, &engine.Error{Err: errors.New("no clipboard program was found"),
		Hint: "install wl-copy, xclip or xsel; or /export FILE.md"}
}

// clipboards returns the programs that set the clipboard on the supported systems, in the order in
// which they are tried.
func clipboards(env engine.Env) [][]string {
	var all [][]string
	if env.Get("WAYLAND_DISPLAY") != "" {
		all = append(all, []string{"wl-copy"})
	}
	if env.Get("DISPLAY") != "" {
		all = append(all, []string{"xclip", "-selection", "clipboard"}, []string{"xsel", "--clipboard", "--input"})
	}
	return append(all, []string{"pbcopy"}, []string{"clip.exe"}) // macOS; Windows, and WSL
}

func clone(ctx context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	if s.Log().Leaf() == 0 {
		return engine.Reply{}, engine.ErrEmpty
	}
	return newFromBranch(ctx, s, s.Log().Walk())
}

// newFromBranch makes a new session that begins with entries of this one.
func newFromBranch(ctx context.Context, s *engine.Session, branch iter.Seq[session.Entry]) (engine.Reply, error) {
	next, err := s.Replace(ctx, engine.Replacement{Copy: branch})
	if err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Text: fmt.Sprintf("continuing in %s, %s; %s is unchanged", next.ID(),
		plain.Count(next.Log().State().Turns, "turn"), s.ID()),
		Next: next, Value: map[string]string{"id": next.ID(), "from": s.ID()}}, nil
}

// messageValue is one of the user's messages in a list.
type messageValue struct {
	Entry    int    `json:"entry"`
	Parent   int    `json:"parent"`
	Text     string `json:"text"`
	OnBranch bool   `json:"onBranch"`
	Label    string `json:"label,omitempty"`
}

func fork(ctx context.Context, s *engine.Session, at string) (engine.Reply, error) {
	if at == "" {
		var b textLines
		v := []messageValue{}
		choices := &engine.Question{Title: "Start a session before which message?"}
		for e := range s.Log().Walk() {
			if text := engine.TypedIn(e); text != "" {
				v = append(v, messageValue{e.ID, e.Parent, text, true, ""})
				choices.Options = append(choices.Options, engine.Option{ID: fmt.Sprintf("/fork %d", e.ID),
					Label: engine.Clip(text, 70)})
				b.add("%5d  %s", e.ID, engine.Clip(text, 70))
			}
		}
		b.add("/fork N starts a session with everything before message N")
		return engine.Reply{Text: b.text(), Value: v, Choices: choices}, nil
	}
	for e := range s.Log().Walk() {
		if text := engine.TypedIn(e); text != "" && strconv.Itoa(e.ID) == at {
			r, err := newFromBranch(ctx, s, before(s.Log().Walk(), e.ID))
			r.Text += "\nyour message there:\n" + text
			return r, err
		}
	}
	return engine.Reply{}, &engine.Error{Err: fmt.Errorf("%s is not one of your messages on this branch", plain.Line(at)),
		Hint: "/fork lists them"}
}

// before returns the entries of a branch before one.
func before(branch iter.Seq[session.Entry], id int) iter.Seq[session.Entry] {
	return func(yield func(session.Entry) bool) {
		for e := range branch {
			if e.ID == id || !yield(e) {
				return
			}
		}
	}
}

// tree shows the user's messages on all branches, or moves to an entry, from which the next message continues. Moving
// to one of the user's own messages moves to the entry before it and shows its text, so that it can be sent again. A
// text after the number becomes the entry's label; after + it says what a summary of what is left behind should pay
// attention to.
func tree(ctx context.Context, s *engine.Session, at string) (engine.Reply, error) {
	if s.Log().Last() == 0 {
		return engine.Reply{}, engine.ErrEmpty
	}
	if at == "" {
		return showTree(s), nil
	}
	at, label, labelled := strings.Cut(at, " ")
	n, err := strconv.Atoi(at)
	if err != nil || n < 1 {
		return engine.Reply{}, &engine.Error{Err: fmt.Errorf("%q is not the number of an entry", at),
			Hint: "/tree lists them",
			Exit: engine.ExitUsage}
	}
	focus, summarised := strings.CutPrefix(label, withSummary)
	if summarised = summarised && (focus == "" || focus[0] == ' '); labelled && !summarised {
		return labelEntry(s.Log(), n, strings.TrimSpace(label))
	}
	text, to := "", n
	for e := range s.Log().All() {
		if e.ID == n {
			if text = engine.TypedIn(e); text != "" {
				to = e.Parent
			}
		}
	}
	var b textLines
	if summarised {
		e, err := s.Summarise(ctx, engine.Summary{Leave: true, To: to, Focus: strings.TrimSpace(focus)})
		if err != nil {
			return engine.Reply{}, &engine.Error{Err: err, Hint: fmt.Sprintf("/tree %d goes there without a summary", n)}
		}
		b.add("%s\n", e.Note.People)
	} else if err := s.Log().Move(to); err != nil {
		return engine.Reply{}, &engine.Error{Err: err, Hint: "/tree lists them"}
	}
	b.add("The session is at entry %d. What came after it stays on its branch.", to)
	if text != "" {
		b.add("your message there:\n%s", text)
	}
	if files, ok := s.Part("undo").(interface{ ChangedSince(entry int) bool }); ok && files.ChangedSince(n) {
		b.add("No file was changed. /rewind %d files restores them.", n)
	}
	return engine.Reply{Text: b.text(), Value: map[string]any{"entry": to, "text": text}, Draft: text}, nil
}

const (
	maxLabel = 200 // bytes
	noLabel  = "-" // removes a label
	// withSummary goes to an entry with a summary of what is left behind.
	withSummary = "+"
)

func labelEntry(log *session.Log, n int, label string) (engine.Reply, error) {
	if n > log.Last() {
		return engine.Reply{}, &engine.Error{Err: fmt.Errorf("session %s has no entry %d", log.ID(), n), Hint: "/tree lists them"}
	}
	if len(label) > maxLabel {
		return engine.Reply{}, &engine.Error{Err: fmt.Errorf("the label is longer than %d bytes", maxLabel),
			Hint: "/tree N LABEL", Exit: engine.ExitUsage}
	}
	text := fmt.Sprintf("Entry %d is labelled %s.", n, plain.Line(label))
	if label == noLabel {
		label, text = "", fmt.Sprintf("Entry %d has no label any more.", n)
	}
	_, err := log.Append(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{
		Label: &session.Label{Entry: n, Text: label}}})
	return engine.Reply{Text: text, Value: map[string]any{"entry": n, "label": label}}, err
}

// labels returns the labels of entries by ID.
func labels(log *session.Log) map[int]string {
	all := map[int]string{}
	for e := range log.All() {
		if e.Setting != nil && e.Setting.Label != nil {
			all[e.Setting.Label.Entry] = e.Setting.Label.Text
		}
	}
	return all
}

func showTree(s *engine.Session) engine.Reply {
	labels, on := labels(s.Log()), map[int]bool{}
	for e := range s.Log().Walk() {
		on[e.ID] = true
	}
	var b textLines
	v := []messageValue{}
	choices := &engine.Question{Title: "Go back to which message?"}
	for e := range s.Log().All() {
		text, label := engine.TypedIn(e), labels[e.ID]
		if text == "" && label == "" {
			continue
		}
		v = append(v, messageValue{e.ID, e.Parent, text, on[e.ID], label})
		if label != "" {
			text = strings.TrimSpace("[" + label + "] " + text)
		}
		mark, from, help := " ", "", "another branch"
		if on[e.ID] {
			mark, help = "*", e.Time.Local().Format("15:04")
		}
		if e.Parent != e.ID-1 {
			from = fmt.Sprintf("  (from %d)", e.Parent)
			help += fmt.Sprintf(", from entry %d", e.Parent)
		}
		choices.Options = append(choices.Options, engine.Option{ID: fmt.Sprintf("/tree %d", e.ID),
			Label: mark + " " + engine.Clip(text, 68), Help: help, Preview: text})
		b.add("%s%5d  %s%s", mark, e.ID, engine.Clip(text, 70), from)
	}
	b.add("* is this branch; /tree N goes back to before message N, or to entry N; /tree N + leaves a summary of this " +
		"branch there; /tree N LABEL labels it, /tree N - removes the label")
	return engine.Reply{Text: b.text(), Value: v, Choices: choices}
}
