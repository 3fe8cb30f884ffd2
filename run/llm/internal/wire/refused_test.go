package wire

import (
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// TestRefused: paths as providers write them lead to the media that they name.
func TestRefused(t *testing.T) {
	first, second := &llm.Media{MIME: "image/png", Data: []byte("first")}, &llm.Media{MIME: "image/png", Data: []byte("second")}
	b := &Body{Head: struct{}{}, List: "messages", Turns: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{llm.Text("see"), {Media: first}}},
		{Role: llm.Assistant, Parts: []llm.Part{llm.Text("yes")}},
		{Role: llm.User, Parts: []llm.Part{{Media: second}}},
	}}
	b.Items = func(i int) []any {
		var content []any
		for _, p := range b.Turns[i].Parts {
			if p.Media != nil {
				content = append(content, map[string]any{"type": "image_url", "image_url": map[string]any{"url": DataURL(p.Media)}})
			} else {
				content = append(content, map[string]any{"type": "text", "text": p.Text})
			}
		}
		return []any{map[string]any{"role": b.Turns[i].Role, "content": content}}
	}
	pieces, err := b.pieces()
	if err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]*llm.Media{
		"messages.0.content.1.image.source.base64: Could not process image":  first,
		"Invalid 'messages[2].content[0].image_url.url'. Expected":           second,
		`{"detail":[{"loc":["body","messages",0,"content",1],"msg":"bad"}]}`: first,
		"messages.2: cannot read it":                                         second,
		"messages.1.content.0: bad":                                          nil,
		"messages.9.content.0: bad":                                          nil,
		"the messages are wrong":                                             nil,
		"Could not process image":                                            nil,
	} {
		got, hash := b.refused(pieces, message), ""
		if want != nil {
			hash = want.Hash()
		}
		if got != hash {
			t.Errorf("%s: %q, want %q", message, got, hash)
		}
	}
}
