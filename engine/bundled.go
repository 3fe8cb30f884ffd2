package engine

import (
	"context"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool/memory"
)

// A bundledSkills computes what the bundled skills need to know about a project.
type bundledSkills struct{ *Project }

// prepended returns, by the name of a bundled skill, what computes the text that is put before the skill's own.
func (p bundledSkills) prepended() map[string]func(context.Context, knack.Invocation) ([]knack.Part, error) {
	text := func(f func(in knack.Invocation) string) func(context.Context, knack.Invocation) ([]knack.Part, error) {
		return func(_ context.Context, in knack.Invocation) ([]knack.Part, error) { return knack.TextPart(f(in)), nil }
	}
	return map[string]func(context.Context, knack.Invocation) ([]knack.Part, error){
		"update-config": text(p.settings), "keybindings": text(p.keys),
		"debug": p.startDebug, "remember": text(p.notes),
	}
}

// gateOpen reports whether a bundled skill with a gate is on because what it works with is there: a browser, notes or a
// key bindings file.
func (p bundledSkills) gateOpen(skill string) bool {
	set, env := &p.config.Settings, p.options.Env
	switch skill {
	case "browser":
		return p.chromium() != ""
	case "remember":
		return set.Memory.Auto || set.Memory.Claude
	case "keybindings":
		if set.Keybindings.Customize || env.ConfigDir() == "" {
			return set.Keybindings.Customize
		}
		_, err := os.Stat(KeyBindings(env))
		return err == nil
	}
	return false
}

func (p bundledSkills) settings(knack.Invocation) string {
	var b strings.Builder
	b.WriteString("The settings files here, as they are now:\n")
	for _, f := range p.SettingsFiles() {
		state := "does not exist yet"
		if f.Exists {
			state = "exists"
		}
		fmt.Fprintf(&b, "- %s: %s (%s)\n", f.Scope, f.Path, state)
	}
	if n := len(p.SettingsProblems()); n > 0 {
		fmt.Fprintf(&b, "They have %s already; `knack settings check` prints what.\n", plain.Count(n, "problem"))
	}
	return strings.TrimRight(b.String(), "\n")
}

func (p bundledSkills) keys(knack.Invocation) string {
	file := KeyBindings(p.options.Env)
	if file == "" {
		return "There is no home directory, so no file with key bindings."
	}
	data, err := readBounded(file, 16<<10)
	if err != nil {
		return "The file with the key bindings is " + file + ". It does not exist yet: every key has its default."
	}
	return "The file with the key bindings is " + file + ", with this content:\n\n" + data
}

// startDebug switches the debug log on.
func (p bundledSkills) startDebug(_ context.Context, in knack.Invocation) ([]knack.Part, error) {
	switch {
	case in.Preview:
		return knack.TextPart("(The call switches the debug log on and names its file here.)"), nil
	case p.options.StartDebug == nil:
		return knack.TextPart("The debug log cannot be switched on here. It is on in a run that was started with " +
			"KNACK_DEBUG=1 or --debug, which prints the name of its file."), nil
	}
	file, err := p.options.StartDebug()
	if err != nil {
		return nil, err
	}
	return knack.TextPart("The debug log is on, from now until the program ends. Its file is\n\n    " + file +
		"\n\nIts topics are " + strings.Join(DebugTopics, ", ") + ". It has no text of the conversation and no keys."), nil
}

// Limits of what the skill remember shows of notes, in bytes.
const (
	maxNote  = 8 << 10
	maxNotes = 64 << 10
)

// notes lists all notes with their text. Those of Claude Code need the user's consent, and are only named.
func (p bundledSkills) notes(knack.Invocation) string {
	n := p.Notes()
	var b strings.Builder
	count, total := 0, 0
	show := func(prefix, dir string) {
		if dir == "" {
			return
		}
		for _, f := range memory.Files(dir) {
			count++
			fmt.Fprintf(&b, "\n<note path=\"%s\" bytes=\"%d\">\n", html.EscapeString(prefix+f.Name), f.Size)
			text, err := readBounded(filepath.Join(dir, filepath.FromSlash(f.Name)), min(maxNote, maxNotes-total))
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
	if !isFile(filepath.Join(p.root, "AGENTS.md")) && isFile(filepath.Join(p.root, "CLAUDE.md")) {
		shared = "CLAUDE.md"
	}
	local := strings.TrimSuffix(shared, ".md") + ".local.md"
	fmt.Fprintf(&b, "\nPromote shared knowledge to %s and private knowledge to %s.\n", p.fileState(shared),
		p.fileState(local))
	return head + "\n" + strings.TrimRight(b.String(), "\n")
}

func (p bundledSkills) fileState(name string) string {
	file := filepath.Join(p.root, name)
	if isFile(file) {
		return file
	}
	return file + " (does not exist yet)"
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readBounded returns the first n bytes of a file, and says so if there are more.
func readBounded(path string, n int) (string, error) {
	n = max(0, n)
	data, err := head(path, int64(n)+1)
	if err != nil {
		return "", err
	}
	if len(data) > n {
		return strings.ToValidUTF8(string(data[:n]), "") + "\n(cut here; read the file for the rest)", nil
	}
	return string(data), nil
}
