package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/llm"
)

// A MediaForm is a way to send media.
type MediaForm uint8

const (
	None MediaForm = iota // send Unshown instead
	Image
	PDF
	TextFile
)

// MediaKind returns how to send media to a model. If the model's window is unknown, so are its
// abilities, and everything is sent.
func MediaKind(i *llm.Info, m *llm.Media) MediaForm {
	unknown := i.Window == 0
	switch m.MIME {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if i.Vision || unknown {
			return Image
		}
		return None
	case "application/pdf":
		if i.Documents || unknown {
			return PDF
		}
		return None
	}
	if strings.HasPrefix(m.MIME, "text/") {
		return TextFile
	}
	return None
}

// Placeholder returns the text that replaces media which the model cannot receive.
func Placeholder(m *llm.Media) string {
	name := m.Name
	if name == "" {
		name = "attachment"
	}
	return fmt.Sprintf("[%s (%s, %d bytes) cannot be shown to this model]", name, m.MIME, len(m.Data))
}

// Object returns input if it is a JSON object, because the formats accept nothing else. Otherwise
// it returns an object that contains the input as text, so that the model can see what it wrote
// next to the resulting error.
func Object(input json.RawMessage) json.RawMessage {
	input = bytes.TrimSpace(input)
	if len(input) == 0 {
		return json.RawMessage("{}")
	}
	if input[0] == '{' && json.Valid(input) {
		return input
	}
	data, _ := json.Marshal(map[string]string{"not_a_json_object": string(input)})
	return data
}

// Turns converts a conversation to the form that all formats need: roles alternate, a user's
// message begins with its tool results, and nothing is empty. Blank text is left out, and so is a
// message that has only thinking, as after an interrupted answer.
//
// Messages that already have this form are not copied.
func Turns(msgs []llm.Message) []llm.Message {
	out := make([]llm.Message, 0, len(msgs))
	for _, m := range msgs {
		parts := slices.Clip(m.Parts)
		if slices.ContainsFunc(parts, func(p llm.Part) bool { return empty(m.Role, &p) }) {
			parts = slices.DeleteFunc(slices.Clone(parts), func(p llm.Part) bool { return empty(m.Role, &p) })
		}
		if !slices.ContainsFunc(parts, func(p llm.Part) bool { return p.Thinking == nil }) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Role == m.Role {
			out[n-1].Parts = append(out[n-1].Parts, parts...)
		} else {
			out = append(out, llm.Message{Role: m.Role, Parts: parts})
		}
	}
	for i, m := range out {
		if m.Role == llm.User && !slices.IsSortedFunc(m.Parts, resultsFirst) {
			out[i].Parts = slices.Clone(m.Parts)
			slices.SortStableFunc(out[i].Parts, resultsFirst)
		}
	}
	return out
}

// empty reports whether a part must be left out: blank text, or thinking in a user's message.
func empty(role llm.Role, p *llm.Part) bool {
	if p.Thinking != nil {
		return role == llm.User
	}
	return p.Media == nil && p.Call == nil && p.Result == nil && strings.TrimSpace(p.Text) == ""
}

func resultsFirst(a, b llm.Part) int { return rank(a) - rank(b) }

func rank(p llm.Part) int {
	if p.Result != nil {
		return 0
	}
	return 1
}

// TextAndMedia returns the text of a result's parts, joined by newlines, and its media.
func TextAndMedia(parts []llm.Part) (string, []*llm.Media) {
	var text []string
	var media []*llm.Media
	for _, p := range parts {
		if p.Media != nil {
			media = append(media, p.Media)
		} else if p.Text != "" {
			text = append(text, p.Text)
		}
	}
	return strings.Join(text, "\n"), media
}

// DataURL returns media as a data: URL.
func DataURL(m *llm.Media) string {
	return "data:" + m.MIME + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
}

// FileText returns a text attachment with its name, for formats without a part for files.
func FileText(m *llm.Media) string {
	return fmt.Sprintf("<file name=%q>\n%s\n</file>", m.Name, bytes.ToValidUTF8(m.Data, []byte("\ufffd")))
}
