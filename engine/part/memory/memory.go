// Package memory is the part with the notes of earlier conversations.
package memory

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bundled"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/memory"
)

//go:embed help.md
var helpText string

//go:embed remember/SKILL.md remember/references
var skill embed.FS

// Part is the notes of earlier conversations: the tool with which the model keeps them, what of them is in the system
// prompt, /memory, and "# TEXT" as a prompt.
func Part() engine.Part {
	return engine.Part{Name: name, Open: open, Shorthand: shorthand, Help: map[string]string{"tools": helpText},
		Known: func(engine.Brought) engine.PartTools {
			return engine.PartTools{Listed: tool.Set{memory.Tool(memory.Options{})}}
		},
		Commands: []engine.Command{{Name: "memory", Hint: "[add TEXT]",
			Description: "list notes; add, propose, edit, on, off", Run: command,
			Effect: engine.WithoutArguments(engine.Stores)}},
		Skills: map[string]engine.PartSkill{"remember": {Files: skill, Text: listed,
			Gate: bundled.Gate{Feature: "memory", Closed: "the notes are off, and /memory on turns them on"},
			Open: func(p *engine.Project) bool {
				n := notesOf(p)
				return n.Auto || n.ReadClaude
			}}}}
}

const name = "memory"

// live are the notes in one session.
type live struct{ *engine.Conv }

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	m := live{c}
	return &engine.Live{Tools: m.tools, Prompt: func() string { return notesOf(c.Project()).prompt() }, Leave: m.leave,
		Begin: m.begin(notesOf(c.Project()).Auto), Value: m}, nil
}

// begin refuses /remember in a session that has no tool for notes, because they were turned on after it began.
func (m live) begin(tool bool) func(context.Context, string) error {
	return func(_ context.Context, prompt string) error {
		called, _, _ := agent.Slash(prompt)
		if tool || called != "remember" || !notesOf(m.Project()).Auto {
			return nil
		}
		if k := m.Catalog().Skill(called); k == nil || k.Origin.Kind != knack.Bundled {
			return nil
		}
		return &engine.Error{Err: errors.New("/remember was not called: the notes are on from the next session on"),
			Hint: "/new begins one"}
	}
}

// of returns the notes of a session.
func of(s *engine.Session) live { return s.Part(name).(live) }

// notes describes the notes of earlier conversations.
type notes struct {
	// User and Project are the directories of the notes about the user and about the project, which need not exist; "":
	// there is no directory for state.
	User, Project string
	// the directory of Claude Code's notes about the project, which need not exist; "": there is no home
	Claude     string
	Auto       bool // the model reads and writes notes: the setting memory.auto
	ReadClaude bool // the notes of Claude Code are in the prompt: the setting memory.claude
	Propose    bool // the end of a session proposes notes: the setting memory.propose
}

// notesOf returns where the notes of earlier conversations are, and who reads them.
func notesOf(p *engine.Project) notes {
	var set struct {
		Memory struct{ Auto, Claude, Propose bool } `json:"memory"`
	}
	p.ReadSettings(&set) // the engine has read them
	n := notes{Auto: set.Memory.Auto, ReadClaude: set.Memory.Claude, Propose: set.Memory.Propose}
	root := p.Root()
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	if base := p.Env().StateFile("memories"); base != "" {
		sum := sha256.Sum256([]byte(root))
		n.User = filepath.Join(base, "user")
		n.Project = filepath.Join(base, "projects", hex.EncodeToString(sum[:8]))
	}
	n.Claude = p.Env().ClaudeNotes(root)
	return n
}

// options returns the options of the tool for the notes.
func (m live) options(n notes) memory.Options {
	return memory.Options{User: n.User, Project: n.Project, Secrets: m.Reads().Secrets, Untrusted: m.Reads().Stranger}
}

// tools returns the tool for notes, if the setting memory.auto turns it on.
func (m live) tools() (t engine.PartTools) {
	if n := notesOf(m.Project()); n.Auto && n.User != "" {
		t.Listed = tool.Set{memory.Tool(m.options(n))}
	}
	return t
}

// add adds a line that the user typed to the notes about the user, or about the project. Text that looks like a secret,
// that the session has read from one, or that is too long, is refused.
func (m live) add(project bool, line string) error {
	path, n := "/memories/user/MEMORY.md", notesOf(m.Project())
	if project {
		path = "/memories/project/MEMORY.md"
	}
	if n.User == "" {
		return engine.ErrNoState("no note can be stored")
	}
	return memory.Add(m.options(n), path, line)
}

// prompt returns the part of the system prompt with the notes.
func (n notes) prompt() string {
	var parts []string
	add := func(wanted bool, dir, title string) {
		if !wanted || dir == "" {
			return
		}
		if text := memory.Prompt(dir); text != "" {
			parts = append(parts, title+":\n"+text)
		}
	}
	add(n.Auto, n.User, "Notes from earlier conversations (/memories/user/MEMORY.md)")
	add(n.Auto, n.Project, "Notes from earlier conversations (/memories/project/MEMORY.md)")
	add(n.ReadClaude, n.Claude, "Notes of Claude Code about this project ("+filepath.Join(n.Claude, "MEMORY.md")+")")
	return strings.Join(parts, "\n\n")
}

// shorthand returns the command for a prompt of one line that begins with "# ", which adds a note. Other prompts are
// returned unchanged.
func shorthand(prompt string) string {
	if note, ok := strings.CutPrefix(prompt, "# "); ok && !strings.Contains(note, "\n") && strings.TrimSpace(note) != "" {
		return "/memory add " + strings.TrimSpace(note)
	}
	return prompt
}

// Limits of what the skill remember shows of notes, in bytes.
const (
	maxNote  = 8 << 10
	maxNotes = 64 << 10
)

// listed lists all notes with their text. Those of Claude Code need the user's consent, and are only named.
func listed(p *engine.Project) string {
	n := notesOf(p)
	var b strings.Builder
	count, total := 0, 0
	show := func(prefix, dir string) {
		if dir == "" {
			return
		}
		for _, f := range memory.Files(dir) {
			count++
			fmt.Fprintf(&b, "\n<note path=\"%s\" bytes=\"%d\">\n", html.EscapeString(prefix+f.Name), f.Size)
			text, err := start(filepath.Join(dir, filepath.FromSlash(f.Name)), min(maxNote, maxNotes-total))
			switch {
			case err != nil:
				b.WriteString("(cannot be read: " + err.Error() + ")")
			default:
				b.WriteString(strings.TrimSpace(text))
			}
			total += len(text)
			b.WriteString("\n</note>\n")
		}
	}
	show("/memories/user/", n.User)
	show("/memories/project/", n.Project)
	head := "There are no notes of Knack yet."
	if count > 0 {
		head = plain.Count(count, "note") + " of Knack, about the user and about this project:"
	}
	if n.ReadClaude {
		show(n.Claude+string(filepath.Separator), n.Claude)
	} else if all := memory.Files(n.Claude); n.Claude != "" && len(all) > 0 {
		fmt.Fprintf(&b, "\nClaude Code has %s about this project, which the user has not agreed to show:\n",
			plain.Count(len(all), "note"))
		for _, f := range all {
			fmt.Fprintf(&b, "- %s (%d bytes)\n", filepath.Join(n.Claude, filepath.FromSlash(f.Name)), f.Size)
		}
	}
	shared := "AGENTS.md"
	if !isFile(filepath.Join(p.Root(), "AGENTS.md")) && isFile(filepath.Join(p.Root(), "CLAUDE.md")) {
		shared = "CLAUDE.md"
	}
	local := strings.TrimSuffix(shared, ".md") + ".local.md"
	fmt.Fprintf(&b, "\nPromote shared knowledge to %s and private knowledge to %s.\n", fileState(p, shared),
		fileState(p, local))
	return head + "\n" + strings.TrimRight(b.String(), "\n")
}

func fileState(p *engine.Project, name string) string {
	file := filepath.Join(p.Root(), name)
	if isFile(file) {
		return file
	}
	return file + " (does not exist yet)"
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// start returns the first n bytes of a file, and says so if there are more.
func start(path string, n int) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	n = max(0, n)
	data, err := io.ReadAll(io.LimitReader(f, int64(n)+1))
	if err != nil || len(data) <= n {
		return string(data), err
	}
	return strings.ToValidUTF8(string(data[:n]), "") + "\n(cut here; read the file for the rest)", nil
}
