package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A textSource is a command that is not a Markdown file: one of Gemini CLI, which is TOML with a description and a
// prompt, or one whose text is in the manifest.
type textSource struct {
	plugin string
	place  Place
	vars   map[string]string
	at     Location
}

func (s textSource) path() string { return filepath.Join(s.at.Dir, filepath.FromSlash(s.place.Path)) }

func (s textSource) Location() knack.Location {
	_, err := os.Stat(s.path())
	return knack.Location{Kind: s.at.Origin.Kind, Label: s.at.Origin.Label, Path: s.path(), Trust: s.at.Origin.Trust,
		Missing: err != nil}
}

func (s textSource) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) {
		text, err := s.read()
		if err != nil {
			var p knack.Problem
			if !errors.As(err, &p) {
				p = knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error, Path: s.path(), Message: err.Error()}
			}
			yield(nil, p)
			return
		}
		k, problems := knack.ParseHead(s.path(), text, int64(len(text)), s.at.Origin)
		for _, p := range problems {
			if !isHeadless(p) && !yield(nil, p) {
				return
			}
		}
		if k == nil {
			return
		}
		k.Name, k.Label, k.Vars, k.Dir = s.plugin+":"+s.place.Name, "", s.vars, filepath.Dir(s.path())
		if s.place.Text != "" { // there may be several in the manifest
			k.ID, k.Dir = s.path()+"#"+s.place.Name, s.at.Dir
		}
		k.Read = func(context.Context) ([]byte, error) { return s.read() }
		k.List = func(context.Context) ([]string, error) { return nil, nil }
		yield(k, nil)
	}
}

// read returns the command as Markdown.
func (s textSource) read() ([]byte, error) {
	if s.place.Text != "" {
		return []byte(s.place.Text), nil
	}
	root, err := regular.Root(s.at.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := ReadFile(root, filepath.FromSlash(s.place.Path))
	if err == nil && s.at.Check != nil {
		err = s.at.Check(s.path(), data, false)
	}
	if err != nil {
		return nil, err
	}
	return commandOfTOML(data)
}

// commandOfTOML returns a command of Gemini CLI as Markdown with frontmatter: its {{args}} are $ARGUMENTS, its
// !{command} is an inline command, and its @{file} a file.
func commandOfTOML(data []byte) ([]byte, error) {
	var command struct{ Description, Prompt string }
	if _, err := toml.Decode(strings.TrimPrefix(string(data), "\ufeff"), &command); err != nil {
		return nil, err
	}
	prompt := command.Prompt
	if strings.TrimSpace(prompt) == "" {
		return nil, errors.New("it has no prompt")
	}
	prompt = strings.ReplaceAll(prompt, "{{args}}", "$ARGUMENTS")
	prompt = inlineTOML().ReplaceAllStringFunc(prompt, func(found string) string {
		inner := strings.TrimSpace(found[2 : len(found)-1])
		if found[0] == '@' {
			return "@" + inner
		}
		return "!`" + inner + "`"
	})
	head := ""
	if d := command.Description; d != "" {
		quoted, err := json.Marshal(d) // is YAML, too
		if err != nil {
			return nil, err
		}
		head = "description: " + string(quoted) + "\n"
	}
	return fmt.Appendf(nil, "---\n%s---\n%s", head, prompt), nil
}

// inlineTOML finds !{command} and @{file}, without braces or backquotes in them.
var inlineTOML = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[!@]\\{[^{}`\n]+\\}") })
