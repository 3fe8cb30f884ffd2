package instructions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/layout"
)

const maxShort = 60 // maximum length of a description taken from the text, in characters

// Templates finds prompt templates: Markdown files that the user invokes by name (/NAME ARGS),
// each a [knack.SlashCommand] of kind template. If several have the same name, the first one
// wins, in this order: Options.Templates, the project's (.knack/prompts, .pi/prompts, the
// nearest directory first), the user's own, those of plugins. A project's template must pass Options.Check when
// it is found and again each time it is used, because its text is read anew. A template is
// only text: it grants and runs nothing.
func Templates(o Options) ([]knack.SlashCommand, []knack.Problem) {
	l := loader{Options: o}
	var found []knack.SlashCommand
	for _, path := range o.Templates {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			found = append(found, l.template(path, approvedOf(false))...)
		} else {
			found = append(found, l.templates(path, false)...)
		}
	}
	for _, dir := range l.projectDirs() {
		for _, row := range layout.Rows(layout.Template) {
			found = append(found, l.templates(join(dir, row.Path), true)...)
		}
	}
	found = append(found, l.templates(join(o.ConfigHome, "prompts"), false)...)
	found = append(found, l.templates(join(o.Home, ".pi/agent/prompts"), false)...)
	for _, x := range o.Plugins {
		found = append(found, l.template(x.Path, x.approved)...)
	}

	var won []knack.SlashCommand
	for _, c := range found {
		if i := slices.IndexFunc(won, func(w knack.SlashCommand) bool { return w.Name == c.Name }); i >= 0 {
			if won[i].Source != c.Source {
				l.problem(knack.CodeNameCollision, c.Source, "the template /%s is already used by %s, which comes first", c.Name,
					won[i].Source)
			}
			continue
		}
		won = append(won, c)
	}
	return won, l.found.Problems
}

// templates reads the templates of a directory, not of its subdirectories.
func (l *loader) templates(dir string, project bool) []knack.SlashCommand {
	if dir == "" {
		return nil
	}
	var all []knack.SlashCommand
	for _, path := range l.files(dir, layout.Rows(layout.Template)[0], l.bound(project)) {
		all = append(all, l.template(path, approvedOf(project))...)
	}
	return all
}

// An approval reads a file with a loader, and approves exactly the bytes that it returns.
type approval func(l *loader, path string) ([]byte, error)

func approvedOf(project bool) approval {
	return func(l *loader, path string) ([]byte, error) { return l.approved(path, project) }
}

func (x PluginTemplate) approved(l *loader, path string) ([]byte, error) {
	data, err := l.read(path, x.Root)
	if err == nil && x.Check != nil {
		err = x.Check(path, data)
	}
	return data, err
}

// template reads a template. It returns nothing if the template cannot be used.
func (l *loader) template(path string, approved approval) []knack.SlashCommand {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name,
		func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '/' }) {
		l.problem(knack.CodeNameInvalid, path, "left out: /%q cannot be typed", name)
		return nil
	}
	t, err := l.readTemplate(path, approved)
	if err != nil {
		l.refused(knack.CodeUnreadable, path, err)
		return nil
	}
	for _, p := range t.problems {
		p.Path = path
		l.found.Problems = append(l.found.Problems, p)
	}
	again := loader{Options: l.Options}
	return []knack.SlashCommand{{
		Name: name, Kind: knack.CommandTemplate, Source: path, Description: t.short, Hint: t.hint,
		Expand: func(_ context.Context, args string) (string, []string, error) {
			t, err := again.readTemplate(path, approved)
			if err != nil {
				return "", nil, fmt.Errorf("the template /%s: %w", name, err)
			}
			text, used := knack.ExpandTemplate(t.text, args)
			if !used && args != "" { // keep what the user typed
				text += "\n\nARGUMENTS: " + args
			}
			if strings.TrimSpace(text) == "" {
				return "", nil, fmt.Errorf("the template /%s is empty: %s", name, path)
			}
			return text, knack.Mentions(t.text), nil
		},
	}}
}

// readTemplate parses exactly the bytes that Check approves.
func (l *loader) readTemplate(path string, approved approval) (template, error) {
	data, err := approved(l, path)
	if err != nil {
		return template{}, err
	}
	return parseTemplate(data), nil
}

// A template is the parsed content of a template file.
type template struct {
	short, hint string
	text        string
	problems    []knack.Problem // without their path
}

func parseTemplate(data []byte) template {
	file := frontmatter.Split(data)
	t := template{text: strings.TrimSpace(string(file.Body))}
	warn := func(code knack.Code, line, column int, hint, message string) {
		t.problems = append(t.problems, knack.Problem{Code: code, Severity: knack.Warn, Line: line, Column: column,
			Message: message, Hint: hint})
	}
	if file.Fence == frontmatter.Unclosed {
		warn(knack.CodeFrontmatterUnclosed, 1, 1, "end it with a line of ---",
			"the frontmatter is not closed: the whole file is the prompt")
	}
	entries, notes := frontmatter.Parse(file.Head, file.Line)
	for _, n := range notes {
		warn(knack.Code(n.Kind), n.Line, n.Column, n.Hint, n.Message)
	}
	for _, e := range entries {
		to := map[string]*string{"description": &t.short, "argument-hint": &t.hint}[e.Key]
		switch {
		case to == nil:
			t.problems = append(t.problems, knack.Problem{Code: knack.CodeUnknownKey, Severity: knack.Info, Line: e.Line,
				Column: e.Column, Message: e.Key + " has no effect on a template"})
		case e.Value.Kind == yaml.ScalarNode && e.Value.ShortTag() != "!!null":
			*to = strings.Join(strings.Fields(e.Value.Value), " ")
		case e.Source != "": // [a] [b] is an argument hint, not a list
			*to = e.Source
		case e.Value.Kind != yaml.ScalarNode:
			warn(knack.CodeFieldType, e.Line, e.Column, e.Key+": text", e.Key+" is not text")
		}
	}
	if t.short == "" {
		first, _, _ := strings.Cut(t.text, "\n")
		t.short = strings.Join(strings.Fields(first), " ")
		if r := []rune(t.short); len(r) > maxShort {
			t.short = string(r[:maxShort]) + "…"
		}
	}
	return t
}
