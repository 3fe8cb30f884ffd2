package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/schema"
)

// PlainSchemas is the change for servers that cannot make a grammar of the schemas of tools, and name none of them.
var PlainSchemas = Mend{Name: "plain schemas", Applies: func(req *llm.Request) bool { return len(req.Tools) > 0 },
	Words: [][]string{{"parse grammar"}, {"compile", "grammar"}, {"schema conversion"}, {"unrecognized schema"},
		{"unsupported", "schema"}, {"schema", "not supported"}, {"moonshot flavored"}}}

// fits are schemas in the form of a format, by the name of their tool. Each request has the same ones as the last.
type fits struct {
	mu   sync.Mutex
	made map[string]fitted
}

type fitted struct {
	format    schema.Format
	given     json.RawMessage
	schema    json.RawMessage
	unfitting error
}

func (x *fits) fit(f schema.Format, t llm.ToolSpec) (json.RawMessage, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	have, ok := x.made[t.Name]
	if !ok || have.format != f || !bytes.Equal(have.given, t.Schema) {
		have = fitted{format: f, given: t.Schema}
		have.schema, have.unfitting = schema.Fit(f, t.Schema)
		if x.made == nil || len(x.made) > maxFits {
			x.made = map[string]fitted{}
		}
		x.made[t.Name] = have
	}
	return have.schema, have.unfitting
}

const maxFits = 5000

// Tools returns the tools of a request as they are sent with the changes that were made: without those that cannot be
// said in the format, or that the server has refused. The request's LeftOut is told of these.
func (m *Mends) Tools(f schema.Format, req *llm.Request, made map[string]bool) []llm.ToolSpec {
	return m.tools(f, req, made, req.LeftOut)
}

func (m *Mends) tools(f schema.Format, req *llm.Request, made map[string]bool,
	leftOut func(tool, reason string)) []llm.ToolSpec {
	if made[PlainSchemas.Name] {
		f = schema.Plain
	}
	all := make([]llm.ToolSpec, 0, len(req.Tools))
	for _, t := range req.Tools {
		reason := ""
		if key := without(t); made[key] {
			m.mu.Lock()
			reason = "the provider refused its definition: " + m.refused[key]
			m.mu.Unlock()
		} else if fit, err := m.fits.fit(f, t); err != nil {
			reason = err.Error()
		} else {
			t.Schema = fit
			all = append(all, t)
		}
		if reason != "" && leftOut != nil {
			leftOut(t.Name, reason)
		}
	}
	return all
}

// without is the name of the change that leaves out a tool with this definition.
func without(t llm.ToolSpec) string {
	sum := sha256.Sum256(append([]byte(t.Description+"\x00"), t.Schema...))
	return "without " + t.Name + " " + hex.EncodeToString(sum[:8])
}

// leaveOut adds to made the changes that leave out the tools that an error names. It returns false if it names none.
func (m *Mends) leaveOut(f schema.Format, req *llm.Request, made map[string]bool, err error) bool {
	var e *llm.Error
	if len(req.Tools) == 0 || !errors.As(err, &e) || e.Kind != llm.Invalid && e.Kind != llm.Server {
		return false
	}
	sent := m.tools(f, req, made, nil)
	named := namedTools(e.Message, sent)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range named {
		t := req.Tools[slices.IndexFunc(req.Tools, func(t llm.ToolSpec) bool { return t.Name == sent[i].Name })]
		if m.refused == nil {
			m.refused = map[string]string{}
		}
		key := without(t)
		made[key], m.refused[key] = true, shortened(e.Message)
	}
	return len(named) > 0
}

// The ways in which servers name the tool that they refuse: testdata/tools.txt has messages with their sources.
var refusedTool = sync.OnceValue(func() (r struct {
	indexes    []*regexp.Regexp
	word, name *regexp.Regexp
}) {
	r.indexes = []*regexp.Regexp{
		regexp.MustCompile(`function_?[dD]eclarations(?:\[|\.)(\d+)`),
		regexp.MustCompile(`\btools(?:\[|\.|', |", | )(\d+)(\.member)?`), // of AWS: the first is 1
		regexp.MustCompile(`\[(\d+), ?"function"`),
	}
	r.word = regexp.MustCompile(`(?i)tool|function|schema|parameter`)
	r.name = regexp.MustCompile("(?:['\"`\u2018\u201c]|\\b(?:[Ff]unction|[Tt]ool):? )([A-Za-z0-9_-]+)")
	return r
})

// namedTools returns the indexes of the sent tools that a message refuses.
func namedTools(message string, sent []llm.ToolSpec) (all []int) {
	add := func(i int) {
		if i >= 0 && i < len(sent) && !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	for _, pattern := range refusedTool().indexes {
		for _, match := range pattern.FindAllStringSubmatch(message, -1) {
			i, err := strconv.Atoi(match[1])
			if len(match) > 2 && match[2] != "" {
				i--
			}
			if err == nil {
				add(i)
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	if !refusedTool().word.MatchString(message) || hasAny(message, "messages.", "messages[", "tool_calls") {
		return nil // it is about a call
	}
	for _, match := range refusedTool().name.FindAllStringSubmatch(message, -1) {
		add(slices.IndexFunc(sent, func(t llm.ToolSpec) bool { return t.Name == match[1] }))
	}
	return all
}
