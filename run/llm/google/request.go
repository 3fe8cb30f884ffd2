package google

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/internal/wire"
	"github.com/knack-agent/knack/run/llm/schema"
)

// The parts of a request before and after the contents.
type (
	head struct {
		System *content `json:"systemInstruction,omitempty"`
	}
	tail struct {
		Tools  []tools    `json:"tools,omitempty"`
		Config *generator `json:"generationConfig,omitempty"`
	}
)

type tools struct {
	Functions []function `json:"functionDeclarations,omitempty"`
	Search    *struct{}  `json:"googleSearch,omitempty"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type generator struct {
	MaxOutputTokens int       `json:"maxOutputTokens,omitempty"`
	Thinking        *thinking `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	IncludeThoughts bool   `json:"includeThoughts"`
	Level           string `json:"thinkingLevel,omitempty"`
	Budget          int    `json:"thinkingBudget,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text      string    `json:"text,omitempty"`
	Thought   bool      `json:"thought,omitempty"`
	Signature string    `json:"thoughtSignature,omitempty"`
	Call      *call     `json:"functionCall,omitempty"`
	Response  *response `json:"functionResponse,omitempty"`
	Inline    *blob     `json:"inlineData,omitempty"`
}

type call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type response struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
	Parts    []part            `json:"parts,omitempty"`
}

type blob struct {
	MIME string `json:"mimeType"`
	Data []byte `json:"data"`
}

const (
	// signaturePrefix is the prefix of an Opaque that contains a thought signature.
	signaturePrefix = "gemini:"
	// noSignature replaces the missing signature of a call that Gemini did not make, as the API's
	// documentation requires.
	noSignature = "skip_thought_signature_validator"
	maxName     = 64
)

func body(m *model, req *llm.Request, made map[string]bool) *wire.Body {
	e := &m.e
	var before head
	var out tail
	if strings.TrimSpace(req.System) != "" {
		before.System = &content{Parts: []part{{Text: req.System}}}
	}
	var fs []function
	for _, t := range m.mends.Tools(schema.Gemini, req, made) {
		fs = append(fs, function{t.Name, t.Description, t.Schema})
	}
	if fs != nil {
		out.Tools = []tools{{Functions: fs}}
	}
	if req.Search != nil { // it cannot be restricted to domains
		out.Tools = append(out.Tools, tools{Search: &struct{}{}})
	}
	g := generator{MaxOutputTokens: req.MaxTokens}
	if e.Info.Thinking || e.Info.Window == 0 {
		g.Thinking = effort(e, req.Effort)
	}
	if g != (generator{}) {
		out.Config = &g
	}
	turns := wire.Turns(req.Messages)
	items := func(i int) []any {
		c := content{Role: "user"}
		if turns[i].Role == llm.Assistant {
			c.Role, c.Parts = "model", assistantParts(e, turns[i])
		} else {
			c.Parts = userParts(e, turns[i], turns[:i])
		}
		if len(c.Parts) == 0 {
			return nil
		}
		return []any{c}
	}
	return &wire.Body{
		Head: before, List: "contents", Tail: out, Turns: turns, Items: items, Memo: req.Memo, Owner: m,
	}
}

// effort asks for the thoughts to be included, and sets the amount of thinking if effort names one.
func effort(e *llm.Endpoint, effort string) *thinking {
	t := &thinking{IncludeThoughts: true}
	if e.Budget {
		t.Budget = min(llm.EffortTokens(effort), 24576) // the lowest limit in the model family
		return t
	}
	switch level := llm.EffortLevel(effort); level {
	case "low", "medium", "high":
		t.Level = level
	case "xhigh", "max": // there are only three levels
		t.Level = "high"
	}
	return t
}

// assistantParts converts an answer, of Gemini or of another model.
func assistantParts(e *llm.Endpoint, m llm.Message) []part {
	var out []part
	calls := 0
	for _, p := range m.Parts {
		switch {
		case p.Thinking != nil:
			sig, ok := strings.CutPrefix(p.Thinking.Opaque, signaturePrefix)
			if !ok || p.Thinking.From != e.Info.ID {
				continue // thoughts are not sent back, only their signatures
			}
			if n := len(out); n > 0 && out[n-1].Text != "" && out[n-1].Signature == "" {
				out[n-1].Signature = sig
			}
		case p.Call != nil:
			c := part{Call: &call{p.Call.ID, name(p.Call.Name), wire.Object(p.Call.Input)}}
			if sig, ok := strings.CutPrefix(p.Call.Opaque, signaturePrefix); ok {
				c.Signature = sig
			} else if calls == 0 { // only the first of parallel calls has a signature
				c.Signature = noSignature
			}
			calls++
			out = append(out, c)
		case p.Media != nil:
			out = append(out, part{Text: wire.Placeholder(p.Media)})
		default:
			out = append(out, part{Text: p.Text})
		}
	}
	return out
}

func userParts(e *llm.Endpoint, m llm.Message, before []llm.Message) []part {
	var out, later []part
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			text, attached := wire.TextAndMedia(p.Result.Parts)
			if text == "" && len(attached) == 0 {
				text = llm.NoOutput
			}
			key := "output"
			if p.Result.IsError {
				key = "error"
			}
			r := &response{ID: p.Result.ID, Name: name(callName(p.Result.ID, before)), Response: map[string]string{key: text}}
			for _, x := range attached {
				if in := media(e, x); in.Inline == nil {
					r.Response[key] += "\n" + in.Text
				} else if e.Budget { // that model family does not accept media inside a response
					later = append(later, in)
				} else {
					r.Parts = append(r.Parts, in)
				}
			}
			out = append(out, part{Response: r})
		case p.Media != nil:
			out = append(out, media(e, p.Media))
		default:
			out = append(out, part{Text: p.Text})
		}
	}
	return append(out, later...)
}

// callName returns the name of the tool in the call with this ID.
func callName(id string, turns []llm.Message) string {
	for _, turn := range slices.Backward(turns) {
		for _, p := range slices.Backward(turn.Parts) {
			if p.Call != nil && p.Call.ID == id {
				return p.Call.Name
			}
		}
	}
	return ""
}

// name returns the name of a call in the form that Gemini accepts. A model may have called anything.
func name(called string) string {
	called = wire.Name(called, maxName)
	if strings.Contains("0123456789-", called[:1]) {
		called = "_" + called[:min(len(called), maxName-1)]
	}
	return called
}

func media(e *llm.Endpoint, m *llm.Media) part {
	switch wire.MediaKind(&e.Info, m) {
	case wire.Image, wire.PDF:
		return part{Inline: &blob{m.MIME, m.Data}}
	case wire.TextFile:
		return part{Text: wire.FileText(m)}
	}
	return part{Text: wire.Placeholder(m)}
}
