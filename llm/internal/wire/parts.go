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

// MediaKind reports how to send media to a model. A model whose window is unknown
// is itself unknown, and is sent everything.
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

// Unshown tells a model of media that it cannot be sent.
func Unshown(m *llm.Media) string {
	name := m.Name
	if name == "" {
		name = "attachment"
	}
	return fmt.Sprintf("[%s (%s, %d bytes) cannot be shown to this model]", name, m.MIME, len(m.Data))
}

// Object returns input if it is a JSON object, which is all that the formats
// take back, and otherwise an object that holds it as text, so that the model
// sees what it wrote beside the error that it caused.
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

// Turns is a conversation as all formats want it: sides alternate, tool
// results stand before all else that the user's side says, and nothing is
// empty: blank text is left out, and thinking that nothing follows, as an
// interrupted answer leaves it.
//
// Messages that are so already are not copied.
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

// empty reports whether a part is nothing to send: blank text, and thinking of
// the user.
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

// Flat is the text of a result's parts, and its media.
func Flat(parts []llm.Part) (string, []*llm.Media) {
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

// DataURL is media as a data: URL.
func DataURL(m *llm.Media) string {
	return "data:" + m.MIME + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
}

// FileText is a text attachment, named, for formats that have no part for it.
func FileText(m *llm.Media) string {
	return fmt.Sprintf("<file name=%q>\n%s\n</file>", m.Name, bytes.ToValidUTF8(m.Data, []byte("\ufffd")))
}
