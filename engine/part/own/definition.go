package own

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/llm/schema"
	"github.com/knack-agent/knack/run/tool"
)

// A definition describes a tool, in NAME.json or after "knack-tool:" in the first lines of the program, or a command,
// after "knack-command:" there.
type definition struct {
	Name        string // "": that of the file
	Description string
	Timeout     float64 // seconds; 0: that of commands of bash
	// Sandbox false means that it runs as the user, outside the sandbox. Only the user's own may say so. nil: it runs in
	// the sandbox.
	Sandbox *bool

	// Of a command.
	Hint     string // of what may be typed after its name
	Complete bool   // it completes what is typed after its name, when it is called with --knack-complete

	// Of a process, see there: Type is "process", and what it serves. Command is its own.
	Type     string
	Tools    map[string]*definition
	Commands map[string]*definition
	Hooks    []processHook

	// Of a tool.
	InputSchema json.RawMessage
	Command     words   // nil: the program is the file beside NAME.json
	Effect      effects // what it may do, besides running
	// Subjects are what a call uses besides running the program, by the rules that decide about it. Each is a path into
	// the input such as "$.file".
	Subjects map[string]string
	Summary  string // one line for the user; {field} stands for a field of the input
}

// words are a command: one text, which has no arguments, or a list.
type words []string

// UnmarshalJSON accepts a text or a list of texts.
func (w *words) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(w))
}

// effects is a set of the words reads, writes, runs and network, as a list or as text.
type effects tool.Effect

// UnmarshalJSON accepts a list of words, or one text with the words separated by anything that is not a letter.
func (e *effects) UnmarshalJSON(data []byte) error {
	var list []string
	var text string
	if json.Unmarshal(data, &text) == nil {
		list = strings.FieldsFunc(text, func(r rune) bool { return r < 'a' || r > 'z' })
	} else if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, word := range list {
		i := slices.Index([]string{"reads", "writes", "runs", "network"}, word)
		if i < 0 {
			return fmt.Errorf("effect %q is none of reads, writes, runs, network", word)
		}
		*e |= effects([]tool.Effect{tool.Reads, tool.Writes, tool.Runs, tool.Network}[i])
	}
	return nil
}

// headLines is how many lines of a program are searched for its definition.
const headLines = 20

// A mark begins the definition in a program. It tells a tool from a command.
type mark string

const (
	toolMark    mark = plugin.ToolMark
	commandMark mark = "knack-command:"
)

// what is the word for what has the mark.
func (m mark) what() string { return strings.TrimSuffix(strings.TrimPrefix(string(m), "knack-"), ":") }

// kind is the kind of the row that says where a project has what has the mark.
func (m mark) kind() layout.Kind {
	if m == commandMark {
		return layout.Program
	}
	return layout.Tool
}

// nameOf is what a tool or a command may be called: providers accept no other names of tools.
var nameOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`) })

// CheckName returns why a tool or a command cannot have a name; nil: it can.
func CheckName(name string) error {
	switch {
	case !nameOf().MatchString(name):
		return fmt.Errorf("%q is not a name: one begins with a letter, and has at most 64 letters, digits, - and _", name)
	case strings.HasPrefix(strings.ToLower(name), "mcp__"):
		return errors.New("mcp__ begins the names of servers' tools")
	}
	return nil
}

// inHead returns what a program says after a mark in a comment of its first lines: a description, or the JSON of a
// definition on the same line.
func inHead(program []byte, m mark) (text string, ok bool) {
	text, line := commented(program, m)
	return text, 0 < line && line <= headLines
}

// maxHead is how much of a program is looked at for a mark, in bytes.
const maxHead = plugin.MaxHead

// commented returns the first comment of a program that begins with a mark, and its line; 0: there is none in the first
// maxHead bytes.
func commented(program []byte, m mark) (text string, line int) {
	lines := bufio.NewScanner(bytes.NewReader(program[:min(len(program), maxHead)]))
	lines.Buffer(nil, maxHead)
	for line := 1; lines.Scan(); line++ {
		before, after, found := strings.Cut(lines.Text(), string(m))
		if found && strings.Trim(before, " \t#/;*-%\"'<!") == "" {
			return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(after), "*/")), line
		}
	}
	return "", 0
}

// maxDescription limits what a definition says about a program, in bytes: it is part of each request, or of a list.
const maxDescription = 8 << 10

// oneText is the schema of a tool whose program gives only a description.
const oneText = `{"type":"object","properties":{"input":{"type":"string","description":"what the tool gets"}}}`

// parse reads the definition of what has a mark: JSON, or a description.
func parse(text string, m mark) (*definition, error) {
	text = strings.TrimSpace(text)
	d := &definition{}
	if !strings.HasPrefix(text, "{") {
		d.Description = text
	} else {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(d); err != nil {
			return nil, err
		}
		if dec.More() {
			return nil, errors.New("there is more than one JSON object")
		}
	}
	return d, d.check(m)
}

// check checks a definition of what has a mark.
func (d *definition) check(m mark) error {
	if d.Description = strings.TrimSpace(d.Description); d.Description == "" {
		return errors.New("there is no description")
	}
	if len(d.Description) > maxDescription || len(d.Hint) > maxDescription {
		return fmt.Errorf("its description is longer than %d bytes", maxDescription)
	}
	if d.Timeout < 0 || d.Timeout > 24*60*60 {
		return errors.New("timeout must be from 0 to 86400 seconds")
	}
	switch {
	case d.Type == "process" && d.outside():
		return errors.New("sandbox: a process runs in the sandbox")
	case d.Type == "process" && m == toolMark:
		return cmp.Or(d.checkCommand(), d.checkProcess())
	case d.Type != "":
		return fmt.Errorf("type is %q: it is left out, or process for a tool", d.Type)
	case d.Tools != nil || d.Commands != nil || d.Hooks != nil:
		return errors.New("tools, commands and hooks are those of a process: type is missing")
	}
	if m == commandMark {
		if d.Command != nil || d.InputSchema != nil || d.Effect != 0 || d.Subjects != nil || d.Summary != "" {
			return errors.New("a command has only name, description, hint, complete, timeout and sandbox")
		}
		return nil
	}
	return d.checkTool()
}

func (d *definition) checkCommand() error {
	if d.Command != nil && (len(d.Command) == 0 || strings.TrimSpace(d.Command[0]) == "") {
		return errors.New("command is empty")
	}
	return nil
}

func (d *definition) checkTool() error {
	if d.Hint != "" || d.Complete {
		return errors.New("hint and complete are fields of a command")
	}
	if err := d.checkCommand(); err != nil {
		return err
	}
	for what, path := range d.Subjects {
		switch {
		case !slices.Contains([]string{"path", "read", "write", "url"}, what):
			return fmt.Errorf("subjects: %q is none of path, read, write, url", what)
		case !strings.HasPrefix(path, "$."):
			return fmt.Errorf("subjects: the path %q does not begin with $", path)
		}
	}
	if len(d.InputSchema) == 0 || string(d.InputSchema) == "null" {
		d.InputSchema = json.RawMessage(oneText)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(d.InputSchema, &s); err != nil {
		return fmt.Errorf("inputSchema: %w", err)
	}
	if s.Type != "object" {
		return errors.New("inputSchema: its type must be object")
	}
	if schema.Endless(d.InputSchema) {
		return errors.New("inputSchema: it refers to itself without end")
	}
	if _, err := s.Resolve(nil); err != nil {
		return fmt.Errorf("inputSchema: %w", err)
	}
	return nil
}

// outside reports whether what is defined is to run outside the sandbox.
func (d *definition) outside() bool { return d.Sandbox != nil && !*d.Sandbox }

func (d *definition) timeout() time.Duration { return time.Duration(d.Timeout * float64(time.Second)) }

// summary describes a call in one line; "": its fields do.
func (d *definition) summary(input json.RawMessage) string {
	if d.Summary == "" {
		return ""
	}
	var fields map[string]any
	if json.Unmarshal(input, &fields) != nil {
		return ""
	}
	text := d.Summary
	for name, value := range fields {
		text = strings.ReplaceAll(text, "{"+name+"}", fmt.Sprint(value))
	}
	return text
}

// textsAt returns the texts in an input at a path such as $.file, $.to.file or $.files[*].
func textsAt(input json.RawMessage, path string) (texts []string, err error) {
	var v any
	if err := json.Unmarshal(input, &v); err != nil {
		return nil, err
	}
	at := []any{v}
	for _, step := range strings.Split(strings.TrimPrefix(path, "$."), ".") {
		name, all := strings.CutSuffix(step, "[*]")
		var next []any
		for _, x := range at {
			fields, _ := x.(map[string]any)
			value, ok := fields[name]
			list, isList := value.([]any)
			switch {
			case !ok || value == nil:
			case all && isList:
				next = append(next, list...)
			default:
				next = append(next, value)
			}
		}
		at = next
	}
	for _, x := range at {
		text, ok := x.(string)
		if !ok {
			return nil, fmt.Errorf("%s is not text", path)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// programIn returns the program of the definition's command if it lies in the definition's directory; "": it may be
// anything. Words ./FILE of the command are relative to that directory.
func (d *definition) programIn(dir string) string {
	for i, word := range d.Command {
		if local, ok := strings.CutPrefix(word, "./"); ok && filepath.IsLocal(local) {
			d.Command[i] = filepath.Join(dir, local)
		}
	}
	if subpath.Contains(dir, d.Command[0]) {
		return d.Command[0]
	}
	return ""
}
