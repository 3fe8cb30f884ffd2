package wire

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/run/llm"
)

// A MediaForm is a way to send media.
type MediaForm uint8

const (
	None MediaForm = iota // send its Placeholder instead
	Image
	PDF
	TextFile
)

// MediaKind returns how to send media to a model. If the model's window is unknown, so are its
// abilities, and everything is sent.
func MediaKind(i *llm.Info, m *llm.Media) MediaForm {
	unknown := i.Window == 0
	if len(bytes.TrimSpace(m.Data)) == 0 { // vendors refuse it
		return None
	}
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
	if len(bytes.TrimSpace(m.Data)) == 0 {
		return fmt.Sprintf("[%s (%s) is empty]", name, m.MIME)
	}
	return fmt.Sprintf("[%s (%s, %d bytes) cannot be shown to this model]", name, m.MIME, len(m.Data))
}

// Object returns input if it is a JSON object, because the formats accept nothing else. Otherwise
// it returns an object that contains the input as text, so that the model can see what it wrote
// next to the resulting error. Invalid characters in it are replaced: vendors refuse a request with half of a
// surrogate pair.
func Object(input json.RawMessage) json.RawMessage {
	input = bytes.ToValidUTF8(bytes.TrimSpace(input), []byte("\ufffd"))
	if len(input) == 0 {
		return json.RawMessage("{}")
	}
	if input[0] == '{' && json.Valid(input) {
		return wholeSurrogates(input)
	}
	data, _ := json.Marshal(map[string]string{"not_a_json_object": string(input)})
	return data
}

// wholeSurrogates replaces, in valid JSON, each escaped half of a surrogate pair without its other half.
func wholeSurrogates(data []byte) []byte {
	var out []byte // nil: nothing was replaced yet
	from := 0
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		half := escapedUnit(data[i:])
		switch {
		case utf16.IsSurrogate(half) && utf16.DecodeRune(half, escapedUnit(data[i+6:])) != utf8.RuneError:
			i += 11
		case utf16.IsSurrogate(half):
			out = append(append(out, data[from:i]...), `\ufffd`...)
			from = i + 6
			i += 5
		default:
			i++ // what is escaped may be a backslash
		}
	}
	if out == nil {
		return data
	}
	return append(out, data[from:]...)
}

// escapedUnit returns the UTF-16 code unit that data begins with, in the form \uXXXX; -1: it begins otherwise.
func escapedUnit(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// Name returns the name of a call in the form that the formats accept: at most limit letters, digits, _ and -. A
// model may have called anything, and its call stays in the conversation.
func Name(name string, limit int) string {
	name = plainWord(name)
	if len(name) > limit {
		name = name[:limit]
	}
	return cmp.Or(name, "unnamed")
}

// ID returns the ID of a call in the same form. Different IDs stay different.
func ID(id string, limit int) string {
	plain := plainWord(id)
	if plain == id && len(id) <= limit && id != "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	suffix := "_" + hex.EncodeToString(sum[:8])
	return plain[:min(len(plain), limit-len(suffix))] + suffix
}

// plainWord replaces the characters that are not letters, digits, _ or - with _.
func plainWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, s)
}

// Turns converts a conversation to the form that all formats need: it begins with the user, roles alternate,
// nothing is empty, and the message after calls begins with one result for each, in their order. Blank text is
// left out, and so are a message that has only thinking, as after an interrupted answer, and results without a
// call. No two calls have the same ID.
//
// Messages that already have this form are not copied.
func Turns(msgs []llm.Message) []llm.Message {
	out := merge(msgs)
	if !paired(out) {
		out = merge(pair(out))
	}
	if len(out) > 0 && out[0].Role == llm.Assistant {
		out = slices.Insert(out, 0, llm.Message{Role: llm.User,
			Parts: []llm.Part{llm.Text("[The beginning of this conversation is missing.]")}})
	}
	return out
}

// merge makes roles alternate, leaves out what is empty, and moves results to the beginning.
func merge(msgs []llm.Message) []llm.Message {
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
			order.Stable(out[i].Parts, resultsFirst)
		}
	}
	return out
}

// paired reports whether a merged conversation has the results for its calls, in order and after each answer, and
// no others.
func paired(turns []llm.Message) bool {
	seen := map[string]bool{}
	var open []*llm.ToolCall // of the turn before
	for _, turn := range turns {
		n := 0
		for i := range turn.Parts {
			if r := turn.Parts[i].Result; r != nil {
				if n >= len(open) || open[n].ID != r.ID {
					return false
				}
				n++
			}
		}
		if n != len(open) {
			return false
		}
		open = open[:0]
		for i := range turn.Parts {
			if c := turn.Parts[i].Call; c != nil {
				if seen[c.ID] || c.ID == "" || turn.Role == llm.User {
					return false
				}
				seen[c.ID] = true
				open = append(open, c)
			}
		}
	}
	return len(open) == 0
}

// pair returns the turns in the form that paired checks. It does not change its argument.
func pair(turns []llm.Message) []llm.Message {
	var out []llm.Message
	seen := map[string]bool{}
	for i, turn := range turns {
		answer := llm.Message{Role: turn.Role}
		results := llm.Message{Role: llm.User}
		for _, p := range turn.Parts {
			switch {
			case p.Result != nil, p.Call != nil && turn.Role == llm.User:
				continue // results follow their calls below
			case p.Call != nil:
				call, result := *p.Call, llm.ToolResult{Name: p.Call.Name, IsError: true,
					Parts: []llm.Part{llm.Text("The result of this call is missing.")}}
				if i+1 < len(turns) {
					if r := unusedResult(turns[i+1], call.ID, len(results.Parts)); r != nil {
						result = *r
					}
				}
				for n := 2; seen[call.ID] || call.ID == ""; n++ {
					call.ID = fmt.Sprintf("%s_%d", p.Call.ID, n)
				}
				seen[call.ID], result.ID = true, call.ID
				p.Call = &call
				results.Parts = append(results.Parts, llm.Part{Result: &result})
			}
			answer.Parts = append(answer.Parts, p)
		}
		out = append(out, answer, results)
	}
	return out
}

// unusedResult returns the result in a turn for the call number n of the answer before it, which has the given
// ID; nil: there is none. If results have the same ID, their order counts.
func unusedResult(turn llm.Message, id string, n int) *llm.ToolResult {
	var found *llm.ToolResult
	for i, p := range turn.Parts {
		if p.Result != nil && p.Result.ID == id && (found == nil || i <= n) {
			found = p.Result
		}
	}
	return found
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

// TextAndMedia returns the text of a result's parts, joined by newlines, and its media. Blank text is none, because
// vendors refuse it.
func TextAndMedia(parts []llm.Part) (string, []*llm.Media) {
	var text []string
	var media []*llm.Media
	for _, p := range parts {
		if p.Media != nil {
			media = append(media, p.Media)
		} else if strings.TrimSpace(p.Text) != "" {
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
