package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/gate"
)

// typedPath returns the absolute path that a person means in this directory.
func typedPath(p *engine.Project, path string) string {
	if path = subpath.Expand(path, p.Env().Home()); filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(p.Dir(), path)
}

// openTyped opens a regular file of this machine whose path the user typed. Typing counts as approval, as for a file in a
// prompt: rules that deny reading hold, and so do managed ask rules and those for secrets, since nobody is asked.
func openTyped(ctx context.Context, e *engine.Engine, path string) (*os.File, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	d, err := e.Decide(ctx, permission.Subject{Kind: permission.KindRead, Text: path, Tool: "read", ReadOnly: true})
	if err == nil && d.Verdict == permission.Ask {
		_, err = gate.Typed.Approve(ctx, gate.Request{Tool: "/import", Decision: d})
	}
	if err == nil && d.Verdict == permission.Deny {
		err = fmt.Errorf("%s is not imported: the rule %s denies it", plain.Line(path), d.Rule)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func addDir(ctx context.Context, s *engine.Session, dir string) (engine.Reply, error) {
	p := s.Engine().Project()
	if dir == "" {
		var b textLines
		b.add("tools may use %s", plain.Line(p.Short(p.Dir())))
		for _, d := range p.Roots() {
			b.add("and %s", plain.Line(p.Short(d)))
		}
		b.add("/add-dir DIR adds a directory until the end; the setting permissions.additionalDirectories, always")
		return engine.Reply{Text: b.text(), Value: map[string]any{"directories": p.Roots()}}, nil
	}
	c, err := s.AddDir(ctx, typedPath(p, dir))
	if err != nil {
		return engine.Reply{}, err
	}
	now := s.Engine().Project()
	text := "tools may use " + plain.Line(now.Short(now.Roots()[len(now.Roots())-1])) + " until the end of this program"
	if n := len(c.NewSkills) - len(c.OldSkills); n > 0 {
		text += ", and " + plain.Count(n, "skill") + " of it"
	}
	return engine.Reply{Text: text, Value: map[string]any{"directories": now.Roots()}}, nil
}

// noStyle is what a user types for answers without a style; "default" is Claude Code's name for it.
const noStyle = "none"

func outputStyle(ctx context.Context, s *engine.Session, name string) (engine.Reply, error) {
	p := s.Engine().Project()
	styles, now := p.Styles(), cmp.Or(p.Settings().OutputStyle, noStyle)
	if name == "" {
		var b textLines
		b.add("output style: %s", plain.Line(now))
		choices := &engine.Question{Title: "Which output style?", Current: "/output-style " + now}
		choose(choices, "/output-style "+noStyle, noStyle, "answers as the model gives them")
		for _, x := range styles {
			b.add("    %s  %s", plain.Line(x.Name), engine.Clip(x.Description, 60))
			choose(choices, "/output-style "+x.Name, plain.Line(x.Name), engine.Clip(x.Description, 60))
		}
		if len(styles) == 0 {
			b.add("There is none yet: a style is a Markdown file in ~/.claude/output-styles or .claude/output-styles, " +
				"whose text is added to the system prompt.")
			choices = nil
		}
		return engine.Reply{Text: b.text(), Value: map[string]any{"style": now, "styles": styles}, Choices: choices}, nil
	}
	at := slices.IndexFunc(styles, func(x engine.Style) bool { return x.Name == name })
	if at < 0 { // Claude Code's own names begin with a capital letter
		at = slices.IndexFunc(styles, func(x engine.Style) bool { return strings.EqualFold(x.Name, name) })
	}
	value := ""
	switch {
	case at >= 0:
		name, value = styles[at].Name, styles[at].Name
	case strings.EqualFold(name, noStyle) || strings.EqualFold(name, "default"):
		name = noStyle
	default:
		return engine.Reply{}, engine.Usagef("/output-style lists them", "there is no output style %s", plain.Line(name))
	}
	if _, err := p.Set("outputStyle", value); err != nil {
		return engine.Reply{}, err
	}
	if _, err := s.Reload(ctx); err != nil {
		return engine.Reply{}, err
	}
	text := fmt.Sprintf("output style: %s, from your next message on", name)
	if in := cmp.Or(s.Engine().Project().Settings().OutputStyle, noStyle); in != name {
		text = fmt.Sprintf("stored, but another settings file says %s: /settings outputStyle shows which", plain.Line(in))
	}
	return engine.Reply{Text: text, Value: map[string]any{"style": name}}, nil
}
