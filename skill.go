// Package knack finds, lists and invokes Agent Skills.
//
// A skill is a directory with a SKILL.md. Three calls do most: [Load] reads
// Sources into an immutable [Catalog], [Catalog.Listing] returns the text that informs a
// model of the available skills, and [Catalog.Invoke] turns one skill into an
// [Activation]: the text for the model and what the skill asks for.
//
// The package does not depend on models, tools or sessions, and imports no public
// package of the module. It runs commands only through the Shell that a caller provides.
//
// Most programs start with package engine, the whole agent with settings, trust and approvals; examples/host is one.
package knack

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// A Skill contains the metadata from the head of a SKILL.md. It is immutable once a
// Source has yielded it. The body is read when the skill is invoked; permissions and
// commands are then taken from the bytes read at that time, not from this value.
type Skill struct {
	Name        string   // the name to call it by: the directory's name, or as the Source decides
	Label       string   // the frontmatter's name; "" if it has none
	Aliases     []string // further names; another skill's name takes precedence over an alias
	Description string
	WhenToUse   string

	ArgumentHint    string
	Arguments       []string // names of positional arguments, for $name
	AllowedTools    []string // permission rules
	DisallowedTools []string
	NotUser         bool // user-invocable: false
	NotModel        bool // disable-model-invocation: true
	Mode            bool // listed first, as a mode command
	Model           string
	Effort          string // low, medium, high, xhigh, max, or a number of thinking tokens
	Fork            bool   // context: fork
	Agent           string // the agent definition that context: fork uses; "": general-purpose
	Background      bool
	Paths           []string        // if not empty, the skill is conditional
	Hooks           json.RawMessage // as JSON, with the order kept: an object event → matchers, or a list; nil: none
	Sandbox         *Restrictions   // restrictions on commands while the skill is in use; nil: none
	Shell           string          // bash or powershell; "": bash
	Retain          string          // scope: how long to keep the text: turn, session, a number of turns, or ""

	ID         string // real path of SKILL.md, or a URI; equal IDs mean the same skill
	Path       string // where SKILL.md was found; "" for computed skills
	Dir        string // base directory; "": none
	Size       int64  // of SKILL.md in bytes; 0: unknown
	FeatureOff string // why it is switched off, such as "feature x is off"; "": it is on
	Origin     Origin

	// Read returns the whole SKILL.md. nil means the file at Path.
	Read func(context.Context) ([]byte, error)
	// List returns the files beside SKILL.md, slash-separated and relative to the base
	// directory, sorted. nil means the files below Dir.
	List func(context.Context) ([]string, error)
	// ReadFile returns a file that List names. nil means that the file is below Dir.
	ReadFile func(ctx context.Context, name string) ([]byte, error)
	// Base creates the base directory when the skill is invoked, for skills that are not
	// stored on disk. nil means Dir. If it fails, the text is used without a base
	// directory.
	Base func(context.Context) (string, error)
	// Prompt computes the text, which is not expanded. nil means the body of the file.
	Prompt func(context.Context, Invocation) ([]Part, error)
	// Before computes what stands before the text, such as facts about the session. It must have no effect if
	// Invocation.Preview is set. nil: nothing.
	Before func(context.Context, Invocation) ([]Part, error)
	// Vars are variables of the text in addition to those of the Invocation, over which they take precedence:
	// CLAUDE_PLUGIN_ROOT and CLAUDE_PLUGIN_DATA of the skill's plugin. nil: none.
	Vars map[string]string

	command bool // $1 is the first word, as in commands; otherwise $0 is

	fields string // encoded keys and values of the frontmatter, see list
	bodyAt int    // where the body starts in the file
	stamp  uint64 // identifies the content of the file; 0: unknown
}

// A field is a key of the frontmatter and its value as JSON. The value "" means the
// Skill's Description or WhenToUse, which is not stored twice.
type field struct{ key, value string }

// A Field is a key of the frontmatter in its original spelling, and its value as JSON
// with the order of keys kept. A number that JSON would write differently is a string:
// "1.10".
type Field struct {
	Key   string
	Value json.RawMessage
}

// Own returns the value of metadata.knack.KEY, where keys stand that only Knack reads; nil: there is none.
func (s *Skill) Own(key string) json.RawMessage {
	var m struct {
		Knack map[string]json.RawMessage `json:"knack"`
	}
	if json.Unmarshal(s.Metadata(), &m) != nil {
		return nil
	}
	return m.Knack[key]
}

// Metadata returns the value of the key metadata that is not a text; nil: there is none.
func (s *Skill) Metadata() json.RawMessage {
	for _, f := range s.list() {
		if f.key == "metadata" && f.value != "" {
			return json.RawMessage(f.value)
		}
	}
	return nil
}

// Fields returns all keys of the frontmatter in the order of the file.
func (s *Skill) Fields() []Field {
	list := s.list()
	fields := make([]Field, len(list))
	for i, f := range list {
		value := json.RawMessage(f.value)
		if f.value == "" {
			text, _ := s.shared(f.key)
			value = jsonString(text)
		}
		fields[i] = Field{f.key, value}
	}
	return fields
}

// Unused returns the keys of the frontmatter that have no effect here, in the order of the file. Those of Knack's own
// are read where they have one.
func (s *Skill) Unused() (keys []string) {
	for _, f := range s.list() {
		if canonical(f.key) == "" && !strings.HasPrefix(f.key, "knack-") {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// shared returns the text of a key that is already stored in a field of the Skill.
func (s *Skill) shared(key string) (string, bool) {
	switch key {
	case "description":
		return s.Description, true
	case "when_to_use":
		return s.WhenToUse, true
	case "name":
		return s.Label, true
	}
	return "", false
}

// Offered reports whether the skill may be listed for a model: it describes itself, and
// its author does not hide it from models.
func (s *Skill) Offered() bool {
	return !s.NotModel && (s.Description != "" || s.WhenToUse != "")
}

// Summary returns the text of the skill in a listing: description and when_to_use.
func (s *Skill) Summary() string {
	what, when := strings.TrimSpace(s.Description), strings.TrimSpace(s.WhenToUse)
	if what == "" || when == "" {
		return what + when
	}
	return what + " - " + when
}

// Tokens estimates how much of a model's context window a skill uses; see
// [EstimateTokens].
type Tokens struct {
	Listing int `json:"listing"` // its entry, uncut, with the argument hint
	Body    int `json:"body"`    // its text before expansion; 0 if the size is unknown
}

// Tokens estimates the size of the skill.
func (s *Skill) Tokens() Tokens {
	body := max(0, s.Size-int64(s.bodyAt))
	return Tokens{Listing: tokens(len("- : ") + len(s.Name) + len(s.Summary()) + len(s.hint())), Body: tokens(int(body))}
}

// EstimateTokens estimates the number of tokens of a text as its bytes in UTF-8 divided
// by four. A token is then four letters of English, and a Chinese, Japanese or Korean
// character is three quarters of a token, which is between the published ratios of newer
// and older tokenizers.
func EstimateTokens(text string) int { return tokens(len(text)) }

func tokens(bytes int) int { return (bytes + 3) / 4 }

// A SourceKind is a kind of source.
type SourceKind string

const (
	Bundled       SourceKind = "bundled"
	BuiltinPlugin SourceKind = "builtin-plugin"
	Managed       SourceKind = "managed"
	Explicit      SourceKind = "explicit"
	User          SourceKind = "user"
	Project       SourceKind = "project"
	Additional    SourceKind = "additional"
	Legacy        SourceKind = "legacy"
	Plugin        SourceKind = "plugin"
	MCP           SourceKind = "mcp"
)

// A Trust limits what a skill may request. The zero Trust is Untrusted: the skill's text
// may be shown to a person, but nothing of it runs, and the model does not see it.
type Trust uint8

const (
	Untrusted Trust = iota
	Remote          // listed and loaded; no shell, no skill directory, no grants without approval
	Trusted
)

// An Origin describes where a skill comes from. Its Trust determines what may run.
type Origin struct {
	Kind  SourceKind
	Label string // name of the plugin or MCP server
	From  string // where a plugin or single skill was installed from; "": it was not installed
	Trust Trust
	Dir   string // the directory that paths: patterns are relative to; "": that of the View
	// Nested is set for skills found below the working directory: the directory where
	// the skill was found, relative to the working directory. If its name is taken, the
	// skill is called Nested:name.
	Nested string
	// Replaces says that the user agreed to use this skill instead of a bundled one of
	// the same name. Otherwise a bundled skill shadows a skill of the project.
	Replaces bool
}

// RuleName returns the name that permission rules use for the skill: its Name, or
// project:NAME if it replaces a bundled skill. A rule made for the bundled skill
// therefore does not allow it.
func (s *Skill) RuleName() string {
	if s.Origin.Replaces {
		return "project:" + s.Name
	}
	return s.Name
}

// A Severity says how serious a Problem is.
type Severity string

const (
	Info  Severity = "info"
	Warn  Severity = "warn"
	Error Severity = "error"
)

// A Problem informs the author of a skill, of settings or of another file. It does not
// stop the program.
type Problem struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Path     string   `json:"path,omitempty"`
	Line     int      `json:"line,omitempty"`   // 1-based; 0: unknown
	Column   int      `json:"column,omitempty"` // 1-based; 0: unknown
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
	// Risk is the matching entry of the OWASP Agentic Skills Top 10, AST01 to AST10, or
	// "". Only [Check] sets it.
	Risk string `json:"risk,omitempty"`

	// Ignored is the key of the frontmatter whose value is none of those that it can have; "": it is about something
	// else.
	Ignored string `json:"-"`
}

// String formats the problem with its location first.
func (p Problem) String() string {
	switch {
	case p.Path == "":
		return p.Message
	case p.Line == 0:
		return p.Path + ": " + p.Message
	case p.Column == 0:
		return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.Path, p.Line, p.Column, p.Message)
}

// Error returns String, so that a Source can yield a Problem as an error.
func (p Problem) Error() string { return p.String() }

// A Source yields skills, and an error for each thing that it could not read or that its
// author should know; such an error can be a [Problem]. A skill and a problem with it
// are two separate yields. Everything left out is reported. A Source is safe for
// concurrent use.
//
// A Source may also have the methods Location() [Location], and Prefixes() []string, which
// returns prefixes of names that are taken although no skill has them now, such as those of
// plugins that are off; it is called when such a name is looked up.
type Source interface {
	Skills(ctx context.Context) iter.Seq2[*Skill, error]
}
