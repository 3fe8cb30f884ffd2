package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	notes "github.com/knack-agent/knack/tool/memory"
)

// memory lists the notes of earlier conversations, adds to them, names one to edit, or switches who reads them.
func memory(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	verb, rest, _ := strings.Cut(args, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case verb == "":
		return listNotes(s), nil
	case verb == "add" && rest != "":
		return addNote(ctx, s, rest)
	case verb == "edit" && rest != "":
		return editNotes(s, rest)
	case (verb == "on" || verb == "off") && rest == "":
		return switchNotes(ctx, s, "memory.auto", verb == "on")
	case verb == "claude" && rest == "":
		return readClaude(ctx, s)
	case verb == "claude" && rest == "off":
		return switchNotes(ctx, s, "memory.claude", false)
	}
	return engine.Reply{}, engine.Usagef("", "/memory, or /memory add TEXT, edit FILE, on, off, claude or claude off")
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
	for _, f := range notes.Files(dir) {
		all = append(all, noteFile{name + "/" + f.Name, filepath.Join(dir, filepath.FromSlash(f.Name)), f.Size})
	}
	return all
}

func listNotes(s *engine.Session) engine.Reply {
	p := s.Engine().Project()
	n := p.Notes()
	own := slices.Concat(notesIn("user", n.User), notesIn("project", n.Project))
	claude := notesIn("claude", n.Claude)
	var b textLines
	if n.Auto {
		b.add("the model reads and writes notes (/memory off)")
	} else {
		b.add("the model neither reads nor writes notes (/memory on)")
	}
	q := &engine.Question{Title: "Edit which notes?"}
	for _, f := range own {
		b.add("    %s  %s  %s", plain.Line(f.Name), plain.Size(f.Size), plain.Line(p.Short(f.Path)))
		choose(q, "/memory edit "+f.Name, plain.Line(f.Name), plain.Size(f.Size))
	}
	if len(own) == 0 {
		b.add("    there are none yet: # TEXT adds one, /memory edit user/MEMORY.md or project/MEMORY.md edits them")
	}
	if len(claude) > 0 {
		state := "not read: /memory claude"
		if n.ReadClaude {
			state = "MEMORY.md is read: /memory claude off"
		}
		b.add("Claude Code has %s about this project (%s)", plain.Count(len(claude), "file"), state)
		for _, f := range claude {
			b.add("    %s  %s", plain.Size(f.Size), plain.Line(p.Short(f.Path)))
		}
	}
	r := engine.Reply{Text: b.text(), Value: struct {
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

// addNote asks the user which file of notes to add a text to, and adds it there.
func addNote(ctx context.Context, s *engine.Session, text string) (engine.Reply, error) {
	p := s.Engine().Project()
	n := p.Notes()
	if n.User == "" {
		return engine.Reply{}, engine.ErrNoState("no note can be stored")
	}
	if !s.Interactive() {
		return engine.Reply{}, engine.Usagef("", "no note was added, because there is no user to ask where")
	}
	user, project := filepath.Join(n.User, "MEMORY.md"), filepath.Join(n.Project, "MEMORY.md")
	q := engine.Question{Title: "Remember this?", Text: plain.Line(text), Asker: engine.AskerCommand,
		Options: []engine.Option{{ID: "project", Label: "for this project", Help: plain.Line(p.Short(project)), Allow: true},
			{ID: "user", Label: "for all projects", Help: plain.Line(p.Short(user)), Allow: true},
			{ID: "send", Label: "no, send it to the model as a message"}, {ID: engine.OptionNo, Label: "no"}}}
	if !n.Auto {
		q.Text += "\nThe model reads notes only after /memory on."
	}
	a, err := s.Ask(ctx, q)
	switch {
	case err != nil:
		return engine.Reply{}, err
	case a.Declined || a.Option == engine.OptionNo:
		return engine.Reply{Text: "nothing was added"}, nil
	case a.Option == "send":
		return engine.Reply{Prompt: "# " + text}, nil
	}
	file := user
	if a.Option == "project" {
		file = project
	}
	if err := n.Add(s, a.Option == "project", text); err != nil {
		return engine.Reply{}, err
	}
	return engine.Reply{Text: "added to " + plain.Line(p.Short(file)) + "; the next session reads it"}, nil
}

// editNotes names a file of notes to edit. The two MEMORY.md need not exist.
func editNotes(s *engine.Session, name string) (engine.Reply, error) {
	p := s.Engine().Project()
	n := p.Notes()
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
	return engine.Reply{Text: fmt.Sprintf("%s = %t, from the next session on", key, on), Value: stored}, nil
}

// readClaude asks once whether the notes of Claude Code may be read.
func readClaude(ctx context.Context, s *engine.Session) (engine.Reply, error) {
	p := s.Engine().Project()
	dir := p.Notes().Claude
	if dir == "" {
		return engine.Reply{}, engine.ErrNoState("there are no notes of Claude Code")
	}
	if !s.Interactive() {
		return engine.Reply{}, engine.Usagef("/settings memory.claude true", "nothing was changed, because there is no user "+
			"to ask")
	}
	text := "In every project, the start of Claude Code's MEMORY.md about it goes to the model. Here it is\n" +
		plain.Line(p.Short(filepath.Join(dir, "MEMORY.md")))
	if start := notes.Prompt(dir); start != "" {
		text += ":\n\n" + plain.Text(start)
	} else {
		text += ", which does not exist."
	}
	yes, err := confirm(ctx, s, "Read the notes of Claude Code?", text, "yes, always")
	if err != nil || !yes {
		return engine.Reply{Text: "nothing was changed"}, err
	}
	return switchNotes(ctx, s, "memory.claude", true)
}
