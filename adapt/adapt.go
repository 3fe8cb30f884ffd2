// Package adapt offers the skills of a catalogue to a program that has a loop of its own around a model: the
// definitions of its tools, an answer for each call, and what has changed since the model was told. It knows no vendor;
// adapt/anthropic, adapt/openai and adapt/genai are modules that put it into the types of the vendors' libraries.
//
//	library := knack.NewLibrary(ctx, knack.Dir("skills", knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
//	offered := adapt.New(library.Catalog, adapt.Options{})
//
// A model sees only skills whose origin is trusted: without Trust, Tools is empty, and the catalogue's Problems say so.
// Package sources has the directories in which users keep skills.
//
// It grants nothing and runs nothing. What a skill asks for is in the Activation that [Options.Called] gets, and its
// inline commands stay text unless Options.Invocation has a Shell. A program without Go has the same from
// knack mcp serve. Most programs start with package engine.
package adapt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Options are choices of a host. The zero value offers what the catalogue offers to models, and runs nothing.
type Options struct {
	// Invocation is the form of every call: its View, Shell, File, Hash, Vars and so on. Name, Args and By are not used.
	Invocation knack.Invocation
	// MaxFile, if it is not 0, adds the tool SkillFile, with which a model reads a file beside a SKILL.md, of at most so
	// many bytes. A program whose model can read files needs none.
	MaxFile int64
	// Called, if it is not nil, is told of each skill before the model gets its text: what it asks for (Grants, Denies,
	// Model …) is for the program to decide. An error refuses the call, and is what the model reads. Several calls may
	// come at once.
	Called func(context.Context, *knack.Activation) error
}

// Skills are the skills of one conversation. It is safe for concurrent use, for libraries run several calls at once.
type Skills struct {
	catalog func() *knack.Catalog
	options Options
	tools   []Tool

	mu   sync.Mutex
	from *knack.Catalog    // of skill
	now  knack.SkillTool   // what is called; its listing is newer than the one in tools, perhaps
	told map[string]string // fingerprints of what the model was told
}

// A Tool is the definition that a model gets. It is the same for a whole conversation, so that vendors' caches hold.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the input, an object
}

// A Result answers a call. Text is for the model, also if it Failed.
type Result struct {
	Text   string
	Images []knack.Part // what a computed text shows after Text, or a file that is an image; each has Image and MIME
	Failed bool         // for vendors that mark errors
	Code   int          // of the knack.Refusal, such as knack.RefusedUnknown; 0: it did not fail, or for another reason
}

// New begins a conversation with the skills that catalog returns now. It is called again for each call and for
// [Skills.Changes]: the method value Catalog of a [knack.Library] makes skills come and go meanwhile.
func New(catalog func() *knack.Catalog, o Options) *Skills {
	s := &Skills{catalog: catalog, options: o}
	t := s.current()
	s.told = t.Listing.Fingerprints()
	if len(t.Listing.Entries) == 0 {
		return s
	}
	s.tools = []Tool{{t.Name, t.Description, t.Schema}}
	if o.MaxFile > 0 {
		s.tools = append(s.tools, Tool{fileTool, "Read a file that comes with a skill, such as one that the skill's text " +
			"names.", json.RawMessage(`{"type":"object","properties":{` +
			`"skill":{"type":"string","description":"the name of the skill"},` +
			`"file":{"type":"string","description":"the file, relative to the skill's directory"}},` +
			`"required":["skill","file"],"additionalProperties":false}`)})
	}
	return s
}

const fileTool = "SkillFile"

// Of returns Catalog for New, for a catalogue that does not change.
func Of(c *knack.Catalog) func() *knack.Catalog { return func() *knack.Catalog { return c } }

// Tools returns the definitions. There are none if New found no skill that a model may see.
func (s *Skills) Tools() []Tool { return slices.Clone(s.tools) }

// current returns the tool for the catalogue of now.
func (s *Skills) current() knack.SkillTool {
	c := s.catalog()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c != s.from {
		s.from, s.now = c, c.SkillTool(s.options.Invocation)
	}
	return s.now
}

// Changes returns a text that tells the model which skills were added, removed or changed since New, or since the last
// call of Changes; "": none was. Put it before the user's next message.
func (s *Skills) Changes() string {
	l := s.current().Listing
	s.mu.Lock()
	defer s.mu.Unlock()
	text := l.Since(s.told).Text()
	s.told = l.Fingerprints()
	return text
}

// Call answers a call. ok is false if name is none of Tools, which is then for the program to answer.
func (s *Skills) Call(ctx context.Context, name string, input json.RawMessage) (r Result, ok bool) {
	if !slices.ContainsFunc(s.tools, func(t Tool) bool { return t.Name == name }) {
		return Result{}, false
	}
	call := s.load
	if name == fileTool {
		call = s.file
	}
	r, err := call(ctx, input)
	if err != nil {
		r = failed(err)
	}
	return r, true
}

func failed(err error) Result {
	r := Result{Text: err.Error(), Failed: true}
	var no *knack.Refusal
	if errors.As(err, &no) {
		r.Text, r.Code = fmt.Sprintf("refused (code %d): %s", no.Code, no.Message), no.Code
	}
	return r
}

func (s *Skills) load(ctx context.Context, input json.RawMessage) (Result, error) {
	a, err := s.current().Call(ctx, input)
	if err != nil {
		return Result{}, err
	}
	if s.options.Called != nil {
		if err := s.options.Called(ctx, a); err != nil {
			return Result{}, err
		}
	}
	images := slices.DeleteFunc(slices.Clone(a.Images), func(p knack.Part) bool { return len(p.Image) == 0 })
	return Result{Text: a.Prompt, Images: images}, nil
}

func (s *Skills) file(ctx context.Context, input json.RawMessage) (Result, error) {
	var call struct{ Skill, File string }
	d := json.NewDecoder(bytes.NewReader(input))
	d.DisallowUnknownFields()
	if err := d.Decode(&call); err != nil {
		return Result{}, &knack.Refusal{Code: knack.RefusedEmpty,
			Message: fmt.Sprintf("the input does not match the schema: %v", err)}
	}
	s.current() // for s.from
	s.mu.Lock()
	catalog := s.from
	s.mu.Unlock()
	view := s.options.Invocation.View
	view.For = knack.ByModel
	name := filepath.ToSlash(call.File)
	skill := catalog.Skill(call.Skill)
	if skill != nil && skill.Dir != "" { // models write what the skill's text calls its directory in front
		name = strings.TrimPrefix(name, strings.TrimSuffix(filepath.ToSlash(skill.Dir), "/")+"/")
	}
	data, err := catalog.ReadFile(ctx, view, call.Skill, path.Clean(name), s.options.MaxFile)
	if err != nil {
		return Result{}, err
	}
	if mime := imageType(data); mime != "" {
		return Result{Text: "[image " + plain.Fold(name) + "]", Images: []knack.Part{{Image: data, MIME: mime}}}, nil
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return Result{}, fmt.Errorf("%s is not text in UTF-8", plain.Fold(name))
	}
	return Result{Text: string(data)}, nil
}

// imageType returns the MIME type of an image that all vendors take, by its first bytes; "": data is none.
func imageType(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}
