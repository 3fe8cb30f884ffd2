package engine

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bundled"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A bundledSkills computes what the bundled skills need to know about a project.
type bundledSkills struct{ *Project }

// addSkills adds the skills of parts to those of package bundled.
func addSkills(parts []Part, set *bundled.Set) {
	for _, x := range parts {
		for name, s := range x.Skills {
			set.Add(name, s.Files, s.Gate)
		}
	}
}

// bundledNames returns the names of the skills of package bundled and of parts, sorted.
func bundledNames(parts []Part) []string {
	names := bundled.Names()
	for _, x := range parts {
		for name := range x.Skills {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// prepended returns, by the name of a bundled skill, what computes the text that is put before the skill's own.
func (p bundledSkills) prepended() map[string]func(context.Context, knack.Invocation) ([]knack.Part, error) {
	text := func(f func(in knack.Invocation) string) func(context.Context, knack.Invocation) ([]knack.Part, error) {
		return func(_ context.Context, in knack.Invocation) ([]knack.Part, error) { return knack.TextPart(f(in)), nil }
	}
	all := map[string]func(context.Context, knack.Invocation) ([]knack.Part, error){
		"update-config": text(p.settings), "keybindings": text(p.keys), "debug": p.startDebug,
	}
	for _, x := range p.options.Parts {
		for name, s := range x.Skills {
			if s.Text != nil {
				all[name] = text(func(knack.Invocation) string { return s.Text(p.Project) })
			}
		}
	}
	return all
}

// gateOpen reports whether a bundled skill with a gate is on because what it works with is there: a key bindings
// file, or what its part says.
func (p bundledSkills) gateOpen(skill string) bool {
	set, env := &p.config.Settings, p.options.Env
	switch skill {
	case "keybindings":
		if set.Keybindings.Customize || env.ConfigDir() == "" {
			return set.Keybindings.Customize
		}
		_, err := os.Stat(KeyBindings(env))
		return err == nil
	}
	for _, x := range p.options.Parts {
		if s, ok := x.Skills[skill]; ok {
			return s.Open != nil && s.Open(p.Project)
		}
	}
	return false
}

// SkillClosed returns why a bundled skill cannot be used; "": it can.
func (p *Project) SkillClosed(name string) string { return p.bundled.Closed(name) }

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

// readBounded returns the first n bytes of a file, and says so if there are more.
func readBounded(path string, n int) (string, error) {
	n = max(0, n)
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(n)+1))
	if err != nil {
		return "", err
	}
	if len(data) > n {
		return strings.ToValidUTF8(string(data[:n]), "") + "\n(cut here; read the file for the rest)", nil
	}
	return string(data), nil
}
