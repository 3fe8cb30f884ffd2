package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media/mediatest"
)

// TestBrokenMedia: broken images and documents in results and resources are text; good ones are sent as what they are.
func TestBrokenMedia(t *testing.T) {
	c := New(Options{})
	results := func(mime string, data []byte) [][]llm.Part {
		resource := &sdk.ResourceContents{URI: "file:///x", MIMEType: mime, Blob: data}
		return [][]llm.Part{
			c.parts([]sdk.Content{&sdk.ImageContent{MIMEType: mime, Data: data}}, ""),
			c.parts([]sdk.Content{&sdk.EmbeddedResource{Resource: resource}}, ""),
		}
	}
	for name, m := range mediatest.Broken(t) {
		for _, parts := range results(m.MIME, m.Data) {
			if len(parts) != 1 || parts[0].Text == "" {
				t.Errorf("%s: %+v", name, parts)
			}
		}
	}
	for mime, data := range map[string][]byte{"image/png": mediatest.PNG(), "application/pdf": mediatest.PDF(1)} {
		for _, parts := range results("image/jpeg", data) {
			if len(parts) != 1 || parts[0].Media == nil || parts[0].Media.MIME != mime {
				t.Errorf("%s: %+v", mime, parts)
			}
		}
	}
}
