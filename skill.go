// Package knack finds, lists and invokes Agent Skills.
//
// A skill is a directory with a SKILL.md. Most people want three calls:
// [Load] reads Sources into an immutable [Catalog], [Catalog.Listing] is the
// text that tells a model what there is, and [Catalog.Invoke] makes of one
// skill an [Activation]: the text for the model and what the skill asks for.
//
// The package knows no model, no tool and no session, and imports nothing of
// the rest of the module. Nothing here runs a command, unless the caller lends
// a Shell.
package knack

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// A Skill is what the head of a SKILL.md says. It is immutable once yielded by
// a Source. The body is read when the skill is invoked, and what grants or runs
// is then taken from those bytes, not from here.
type Skill struct {
	Name        string   // what it is called by: the directory's name, or as the Source decides
	Label       string   // the frontmatter's name; "" if it has none
	Aliases     []string // further names; a real name beats an alias
	Description string
	WhenToUse   string

	ArgumentHint    string
	Arguments       []string // names for $name
	AllowedTools    []string // permission rules
	DisallowedTools []string
	NotUser         bool // user-invocable: false
	NotModel        bool // disable-model-invocation: true
	Mode            bool // listed first, as a mode command
	Model           string
	Effort          string // low, medium, high, xhigh, max, or a number of thinking tokens
	Fork            bool   // context: fork
	Agent           string // the definition a fork uses; "": general-purpose
	Background      bool
	Paths           []string        // not empty: conditional
	Hooks           json.RawMessage // as written, order kept, as JSON: an object event → matchers, or a list; nil: none
	Sandbox         *Restrictions   // what commands are restricted to while it is in force; nil: nothing more
	Shell           string          // bash or powershell; "": bash
	Retain          string          // scope: how long the author wants the text kept: turn, session, a number of turns; ""

	ID     string // realpath of SKILL.md, or a URI: the same ID is the same skill
	Path   string // where SKILL.md was found; "" for computed skills
	Dir    string // base directory; "" if it has none
	Size   int64  // of SKILL.md in bytes; 0 unknown
	Gated  string // why it is switched off, such as "feature x is off"; "" it is on
	Origin Origin

	// Read returns the whole SKILL.md. nil: the file at Path.
	Read func(context.Context) ([]byte, error)
	// List returns the files beside SKILL.md, slash-separated and relative to
	// the base directory, sorted. nil: the files below Dir.
	List func(context.Context) ([]string, error)
	// Base makes the base directory when the skill is invoked, for skills that
	// are kept elsewhere than on disk. nil: Dir. If it fails the text is used
	// without one.
	Base func(context.Context) (string, error)
	// Prompt computes the text. nil: it is the body of the file.
	Prompt func(context.Context, Invocation) (string, error)

	fields string // keys and values of the frontmatter, see encodeFields
	bodyAt int    // where the body starts in the file
	stamp  uint64 // tells the bytes of the file from others; 0 unknown
}

// A field is a key of the frontmatter and its value as JSON. The value "" is
// that of the Skill's Description or WhenToUse, which is not kept twice.
type field struct{ key, value string }

// A Field is a key of the frontmatter under its own spelling, and its value as
// JSON with the order of keys kept. A number that JSON would write differently
// is text: "1.10".
type Field struct {
	Key   string
	Value json.RawMessage
}

// Fields returns every key of the frontmatter in the order of the file.
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

// shared is the text that is kept for a key already.
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

// Offered reports whether the skill may be listed for a model: it says what it is
// for, and its author does not hide it from models.
func (s *Skill) Offered() bool {
	return !s.NotModel && (s.Description != "" || s.WhenToUse != "")
}

// Summary is what a listing says of the skill: description and when_to_use.
func (s *Skill) Summary() string {
	what, when := strings.TrimSpace(s.Description), strings.TrimSpace(s.WhenToUse)
	if what == "" || when == "" {
		return what + when
	}
	return what + " - " + when
}

// Tokens estimates what a skill costs a model's window, see [EstimateTokens].
type Tokens struct {
	Listing int `json:"listing"` // its entry, uncut, with the argument hint
	Body    int `json:"body"`    // its text before expansion; 0 if the size is unknown
}

// Tokens returns the estimates.
func (s *Skill) Tokens() Tokens {
	body := max(0, s.Size-int64(s.bodyAt))
	return Tokens{Listing: tokens(len("- : ") + len(s.Name) + len(s.Summary()) + len(s.hint())), Body: tokens(int(body))}
}

// EstimateTokens estimates how many tokens a text is, at four bytes of UTF-8 a
// token. That is four letters of English and three quarters of a token for a
// Chinese, Japanese or Korean character, which lies between the published
// ratios of newer and older tokenizers.
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

// A Trust says what a skill of an origin may ask for. The zero Trust is
// Untrusted: its text may be shown to a person, nothing of it runs, and the
// model does not see it.
type Trust uint8

const (
	Untrusted Trust = iota
	Remote          // listed and loaded; no shell, no skill directory, no grants without approval
	Trusted
)

// An Origin is where a skill comes from. What may run follows from Trust.
type Origin struct {
	Kind  SourceKind
	Label string // of plugins and MCP servers: their name
	Trust Trust
	Dir   string // the directory that paths: patterns are relative to; "": that of the View
	// Nested is set for skills that were found below the working directory: where,
	// relative to it. If their name is taken they are called Nested:name.
	Nested string
	// Replaces says that the user agreed to use this skill instead of a bundled one
	// of the same name. Skills of a project are shadowed by bundled ones otherwise.
	Replaces bool
}

// RuleName is the name by which permission rules cover the skill: its Name, or
// project:NAME for one that replaces a bundled skill. A rule that was made for the
// bundled skill does not allow it.
func (s *Skill) RuleName() string {
	if s.Origin.Replaces {
		return "project:" + s.Name
	}
	return s.Name
}

// A Severity ranks problems.
type Severity string

const (
	Info  Severity = "info"
	Warn  Severity = "warn"
	Error Severity = "error"
)

// A Problem informs the author of a skill, of settings or of another file. It is not
// a Go error: the program continues.
type Problem struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Path     string   `json:"path,omitempty"`
	Line     int      `json:"line,omitempty"`   // 1-based; 0 unknown
	Column   int      `json:"column,omitempty"` // 1-based; 0 unknown
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
	// Risk is the entry of the OWASP Agentic Skills Top 10 that the problem belongs
	// to, AST01 to AST10; "": none. Only [Check] sets it.
	Risk string `json:"risk,omitempty"`
}

// String is the problem with its place first.
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

// Error makes a Problem an error, so that a Source can yield it.
func (p Problem) Error() string { return p.String() }

// A Source yields skills, and an error for each thing it could not read or
// that its author should know; a [Problem] is such an error. A skill and a
// problem with it come as two yields. Nothing is left out silently. A Source
// is safe for concurrent use.
type Source interface {
	Skills(ctx context.Context) iter.Seq2[*Skill, error]
}
