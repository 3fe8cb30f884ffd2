package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// The types of answers. Servers send other JSON types than the vendors' documents say, so decoding these never fails: a
// value of a type that means nothing is as good as none. ../../openai/testdata/odd has examples, with their sources.

// A Label is a text; numbers and booleans are taken as their JSON.
type Label string

func (l *Label) UnmarshalJSON(data []byte) error {
	var s string
	switch {
	case json.Unmarshal(data, &s) == nil:
		*l = Label(s)
	case data[0] != '{' && data[0] != '[':
		*l = Label(data)
	}
	return nil
}

// A Count is a number, in any spelling, also as a text.
type Count int

func (c *Count) UnmarshalJSON(data []byte) error {
	if f, err := strconv.ParseFloat(strings.Trim(string(data), `" `), 64); err == nil && f > -1e9 && f < 1e15 {
		*c = Count(f)
	}
	return nil
}

// A Maybe is an object; anything else is none.
type Maybe[T any] struct {
	Value T
	OK    bool
}

func (m *Maybe[T]) UnmarshalJSON(data []byte) error {
	m.OK = data[0] == '{' && json.Unmarshal(data, &m.Value) == nil
	return nil
}

// A List is a JSON list, or its only element without brackets. Elements that are not objects are left out.
type List[T any] []T

func (l *List[T]) UnmarshalJSON(data []byte) error {
	var all []json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		all = []json.RawMessage{data}
	}
	*l = nil
	for _, raw := range all {
		var v Maybe[T]
		if len(raw) > 0 && v.UnmarshalJSON(raw) == nil && v.OK {
			*l = append(*l, v.Value)
		}
	}
	return nil
}

// A Content is the text of an answer: a text, or parts, of which some are reasoning.
type Content struct{ Text, Thinking string }

func (c *Content) UnmarshalJSON(data []byte) error {
	var l Label
	var all []Content
	switch {
	case json.Unmarshal(data, &all) == nil:
		for _, x := range all {
			c.Text += x.Text
			c.Thinking += x.Thinking
		}
	case data[0] == '{':
		c.part(data)
	case l.UnmarshalJSON(data) == nil:
		c.Text = string(l)
	}
	return nil
}

func (c *Content) part(data []byte) {
	var p struct {
		Type     Label   `json:"type"`
		Text     Content `json:"text"`
		Content  Content `json:"content"`
		Value    Label   `json:"value"` // of a text of the Assistants format
		Summary  Content `json:"summary"`
		Thinking Content `json:"thinking"`
	}
	if json.Unmarshal(data, &p) != nil {
		return
	}
	text := p.Text.Text + p.Content.Text + string(p.Value)
	switch p.Type {
	case "thinking", "reasoning", "reasoning.text", "reasoning.summary":
		c.Thinking = p.Thinking.Text + p.Summary.Text + text
	case "reference", "image_url", "tool_use", "tool_call", "reasoning.encrypted":
	default:
		c.Text, c.Thinking = text, p.Thinking.Text+p.Text.Thinking+p.Content.Thinking
	}
}

// Arguments are the JSON of a call, as a text or, Whole, as an object.
type Arguments struct {
	Text  string
	Whole bool
}

func (a *Arguments) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &a.Text) == nil {
		return nil
	}
	if data[0] == '{' {
		var b bytes.Buffer
		if json.Compact(&b, data) == nil {
			a.Text, a.Whole = b.String(), true
		}
	}
	return nil
}

// IsSet reports whether a member has a value other than null, false, and empty ones, which servers send for "no error".
func IsSet(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "false", `""`, "{}", "[]", "0":
		return false
	}
	return true
}
