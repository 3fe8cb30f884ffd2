package memory

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack/engine"
	commands "github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool/memory"
)

// command lists the notes of earlier conversations, adds to them, names one to edit, or switches who reads them.
func command(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	m := of(s)
	verb, rest, _ := strings.Cut(args, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case verb == "":
		return m.list(), nil
	case verb == "add" && rest != "":
		return m.addTyped(ctx, rest)
	case verb == "propose" && rest == "":
		return m.propose(ctx)
	case verb == "edit" && rest != "":
		return m.edit(rest)
	case (verb == "on" || verb == "off") && rest == "":
		return switchNotes(ctx, s, "memory.auto", verb == "on")
	case verb == "claude" && rest == "":
		return readClaude(ctx, s)
	case verb == "claude" && rest == "off":
		return switchNotes(ctx, s, "memory.claude", false)
	}
	return engine.Reply{}, engine.Usagef("",
		"/memory, or /memory add TEXT, propose, edit FILE, on, off, claude or claude off")
}

// A noteFile is a file of notes in the reply of /memory.
type noteFile struct {
	Name string `json:"name"` // such as user/MEMORY.md
	Path string `json:"path"`
	Size int64  `json:"size"` // in bytes
}

func notesIn(name, dir string) (all []noteFile) {
	if dir == "" {
		return nil
	}
	for _, f := range memory.Files(dir) {
		all = append(all, noteFile{name + "/" + f.Name, filepath.Join(dir, filepath.FromSlash(f.Name)), f.Size})
	}
	return all
}

func (m live) list() engine.Reply {
	p := m.Project()
	n := notesOf(p)
	own := slices.Concat(notesIn("user", n.User), notesIn("project", n.Project))
	claude := notesIn("claude", n.Claude)
	var lines []string
	if n.Auto {
		lines = append(lines, "Notes are on. /memory off switches them off.")
	} else {
		lines = append(lines, "Notes are off. /memory on switches them on.")
	}
	q := &engine.Question{Title: "Edit which notes?"}
	for _, f := range own {
		lines = append(lines, fmt.Sprintf("    %s  %s  %s", plain.Line(f.Name), plain.Bytes(f.Size),
			plain.Line(p.Short(f.Path))))
		q.Options = append(q.Options, engine.Option{ID: "/memory edit " + f.Name, Label: plain.Line(f.Name),
			Help: plain.Bytes(f.Size)})
	}
	if len(own) == 0 {
		lines = append(lines,
			"    there are none yet: # TEXT adds one, /memory edit user/MEMORY.md or project/MEMORY.md edits them")
	}
	if len(claude) > 0 {
		state := "not read: /memory claude"
		if n.ReadClaude {
			state = "MEMORY.md is read: /memory claude off"
		}
		lines = append(lines, fmt.Sprintf("Claude Code has %s about this project (%s)", plain.Count(len(claude), "file"),
			state))
		for _, f := range claude {
			lines = append(lines, fmt.Sprintf("    %s  %s", plain.Bytes(f.Size), plain.Line(p.Short(f.Path))))
		}
	}
	r := engine.Reply{Text: strings.Join(lines, "\n"), Value: struct {
		Auto       bool       `json:"auto"`
		ReadClaude bool       `json:"readClaude"`
		Notes      []noteFile `json:"notes"`
		Claude     []noteFile `json:"claude"`
	}{n.Auto, n.ReadClaude, append([]noteFile{}, own...), append([]noteFile{}, claude...)}}
	if len(own) > 0 {
		q.Text, r.Choices = r.Text, q
	}
	return r
}

// addTyped asks the user where to add a text, and adds it there.
func (m live) addTyped(ctx context.Context, text string) (engine.Reply, error) {
	if err := m.canNote(); err != nil {
		return engine.Reply{}, err
	}
	said, to, err := m.placeNote(ctx, "Remember this?", text, "", engine.Option{ID: "send",
		Label: "no, send it to the model as a message"})
	if to == "send" {
		return engine.Reply{Prompt: "# " + text}, nil
	}
	return engine.Reply{Text: said}, err
}

// canNote reports why no note can be added with the user's answer.
func (m live) canNote() error {
	if notesOf(m.Project()).User == "" {
		return engine.ErrNoState("no note can be stored")
	}
	if !m.Interactive() {
		return engine.Usagef("", "no note was added, because there is no user to ask where")
	}
	return nil
}

// placeNote asks the user where to add a text, with one more answer, and adds it there. It returns what to tell the
// user, and the answer.
func (m live) placeNote(ctx context.Context, title, text, warning string, other engine.Option) (said,
	to string, err error) {
	p := m.Project()
	n := notesOf(p)
	user, project := filepath.Join(n.User, "MEMORY.md"), filepath.Join(n.Project, "MEMORY.md")
	rules := rulesFile(p.Root())
	q := engine.Question{Title: title, Text: plain.Line(text), Asker: engine.AskerCommand,
		Options: []engine.Option{{ID: "project", Label: "for this project", Help: plain.Line(p.Short(project)), Allow: true},
			{ID: "user", Label: "for all projects", Help: plain.Line(p.Short(user)), Allow: true},
			{ID: "rules", Label: "for everybody who works here", Help: plain.Line(p.Short(rules)) + ", after its diff",
				Allow: true},
			other, {ID: engine.OptionNo, Label: "no"}}}
	if warning != "" {
		q.Text += "\n" + warning
	}
	if !n.Auto {
		q.Text += "\nThe model reads notes only after /memory on."
	}
	a, err := m.Ask(ctx, q)
	switch {
	case err != nil:
		return "", "", err
	case a.Declined || a.Option == engine.OptionNo:
		return "nothing was added", engine.OptionNo, nil
	case a.Option == "rules":
		said, err = m.addRule(ctx, rules, text)
		return said, a.Option, err
	case a.Option == other.ID:
		return "", a.Option, nil
	}
	file := user
	if a.Option == "project" {
		file = project
	}
	if err := m.add(a.Option == "project", text); err != nil {
		return "", a.Option, err
	}
	return "added to " + plain.Line(p.Short(file)) + "; the next session reads it", a.Option, nil
}

// rulesFile is the file in which a project says what every agent should know: AGENTS.md, or CLAUDE.md if only that
// exists.
func rulesFile(root string) string {
	agents, claude := filepath.Join(root, "AGENTS.md"), filepath.Join(root, "CLAUDE.md")
	if _, err := os.Lstat(agents); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(claude); err == nil {
			return claude
		}
	}
	return agents
}

// maxRules is the size in bytes up to which a context file is read, and so the size to which it may grow.
const maxRules = 64 << 10

// addRule adds a line to a file of the project, after the user has seen the difference.
func (m live) addRule(ctx context.Context, file, text string) (string, error) {
	p := m.Project()
	shown := plain.Line(p.Short(file))
	old, perm := "", fs.FileMode(0o644)
	switch info, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", err
	case !info.Mode().IsRegular(): // a link may lead anywhere
		return "", fmt.Errorf("%s is not a regular file: nothing was added", shown)
	case info.Size() > maxRules:
		return "", fmt.Errorf("%s is larger than %s: nothing was added", shown, plain.Bytes(maxRules))
	default:
		data, err := regular.Read(file, maxRules)
		if err != nil {
			return "", err
		}
		old, perm = string(data), info.Mode().Perm()
	}
	now := old
	if now != "" && !strings.HasSuffix(now, "\n") {
		now += "\n"
	}
	now += "- " + text + "\n"
	if len(now) > maxRules {
		return "", fmt.Errorf("%s would be larger than %s: nothing was added", shown, plain.Bytes(maxRules))
	}
	name := filepath.Base(file)
	yes, err := commands.Confirm(ctx, m, "Change "+shown+"?", plain.Text(udiff.Unified("a/"+name, "b/"+name, old, now)),
		"yes, change it")
	if err != nil || !yes {
		return "nothing was added", err
	}
	err = outfile.Update(filepath.Dir(file), file, perm, func(again []byte) ([]byte, error) {
		if string(again) != old {
			return nil, fmt.Errorf("%s has changed meanwhile: nothing was added", shown)
		}
		return []byte(now), nil
	})
	if err != nil {
		return "", err
	}
	return "added to " + shown + "; it counts once its new content is approved (/trust)", nil
}

//go:embed propose.md
var proposeText string

// Limits of what is proposed.
const (
	maxProposals = 3
	maxProposal  = 300      // characters
	maxTyped     = 20 << 10 // bytes of what the user typed that the model reads, the newest
)

// typedBefore returns what the user typed in a conversation, the newest last. What tools, pages, servers and pipes said
// is not in it, so that no stranger can propose anything.
func (m live) typedBefore() (all []string) {
	size := 0
	for e := range m.Log().Backward() {
		if e.User == nil {
			continue
		}
		typed := e.User.Said()
		if size += len(typed); size > maxTyped {
			break
		}
		if typed != "" {
			all = append(all, typed)
		}
	}
	slices.Reverse(all)
	return all
}

// propose asks the fast model what of the user's messages is worth a note, and the user about each proposal.
func (m live) propose(ctx context.Context) (engine.Reply, error) {
	if err := m.canNote(); err != nil {
		return engine.Reply{}, err
	}
	typed := m.typedBefore()
	if len(typed) == 0 {
		return engine.Reply{Text: "There is nothing to remember yet."}, nil
	}
	fast, err := m.FastModel(ctx)
	if err != nil {
		return engine.Reply{}, err
	}
	answer, _, err := llm.AskText(ctx, fast, proposeText+"\n<messages>\n"+strings.Join(typed, "\n---\n")+"\n</messages>",
		500)
	if err != nil {
		return engine.Reply{}, err
	}
	var proposals []string
	for line := range strings.Lines(answer) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		text, _ = plain.Visible(strings.TrimSpace(text))
		if runes := []rune(text); len(runes) > maxProposal {
			text = string(runes[:maxProposal]) + "…"
		}
		if ok && text != "" && len(proposals) < maxProposals {
			proposals = append(proposals, text)
		}
	}
	if len(proposals) == 0 {
		return engine.Reply{Text: "Nothing worth a note was found."}, nil
	}
	var said []string
	warning := m.Reads().Stranger()
	for i, text := range proposals {
		title := "Remember this?"
		if len(proposals) > 1 {
			title = fmt.Sprintf("Remember this? (%d of %d)", i+1, len(proposals))
		}
		one, to, err := m.placeNote(ctx, title, text, warning,
			engine.Option{ID: "stop", Label: "no, and propose nothing more"})
		if err != nil {
			if ctx.Err() != nil {
				return engine.Reply{}, err
			}
			one = "not added: " + plain.Line(err.Error())
		}
		if to == "stop" {
			break
		}
		said = append(said, one)
	}
	if len(said) == 0 {
		said = []string{"nothing was added"}
	}
	return engine.Reply{Text: strings.Join(said, "\n")}, nil
}

// leave returns what proposes notes before the session ends; nil: the setting memory.propose does not ask for it, or there
// is nothing to propose from.
func (m live) leave() func(context.Context) string {
	if !notesOf(m.Project()).Propose || !m.Interactive() || len(m.typedBefore()) == 0 {
		return nil
	}
	return func(ctx context.Context) string {
		said, err := m.propose(ctx)
		if err != nil {
			return "no notes were proposed: " + plain.Line(err.Error())
		}
		return said.Text
	}
}

// edit names a file of notes to edit. The two MEMORY.md need not exist.
func (m live) edit(name string) (engine.Reply, error) {
	p := m.Project()
	n := notesOf(p)
	if n.User == "" {
		return engine.Reply{}, engine.ErrNoState("there are no notes")
	}
	all := slices.Concat(notesIn("user", n.User), notesIn("project", n.Project),
		[]noteFile{{Name: "user/MEMORY.md", Path: filepath.Join(n.User, "MEMORY.md")},
			{Name: "project/MEMORY.md", Path: filepath.Join(n.Project, "MEMORY.md")}})
	i := slices.IndexFunc(all, func(f noteFile) bool { return f.Name == name })
	if i < 0 {
		return engine.Reply{}, engine.Usagef("/memory", "there are no notes %q", plain.Line(name))
	}
	file := all[i].Path
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil { // editors create only the file
		return engine.Reply{}, err
	}
	return engine.Reply{Text: plain.Line(p.Short(file)), Value: map[string]string{"path": file}, Edit: file}, nil
}

// switchNotes changes a setting of the notes.
func switchNotes(ctx context.Context, s *engine.Session, key string, on bool) (engine.Reply, error) {
	value, err := json.Marshal(on)
	if err != nil {
		return engine.Reply{}, err
	}
	stored, err := s.Engine().Project().Set(key, string(value))
	if err != nil {
		return engine.Reply{}, err
	}
	if _, err := s.Engine().Reload(ctx); err != nil {
		return engine.Reply{}, fmt.Errorf("the setting was stored, but settings cannot be read again: %w", err)
	}
	return engine.Reply{Text: fmt.Sprintf("%s = %t, from the next session on: /new begins one", key, on), Value: stored}, nil
}

// readClaude asks once whether the notes of Claude Code may be read.
func readClaude(ctx context.Context, s *engine.Session) (engine.Reply, error) {
	p := s.Engine().Project()
	dir := notesOf(p).Claude
	if dir == "" {
		return engine.Reply{}, engine.ErrNoState("there are no notes of Claude Code")
	}
	if !s.Interactive() {
		return engine.Reply{}, engine.Usagef("/settings memory.claude true", "nothing was changed, because there is no user "+
			"to ask")
	}
	text := "In every project, the start of Claude Code's MEMORY.md about it goes to the model. Here it is\n" +
		plain.Line(p.Short(filepath.Join(dir, "MEMORY.md")))
	if start := memory.Prompt(dir); start != "" {
		text += ":\n\n" + plain.Text(start)
	} else {
		text += ", which does not exist."
	}
	yes, err := commands.Confirm(ctx, s, "Read the notes of Claude Code?", text, "yes, always")
	if err != nil || !yes {
		return engine.Reply{Text: "Nothing was changed."}, err
	}
	return switchNotes(ctx, s, "memory.claude", true)
}
