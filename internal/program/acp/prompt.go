package acp

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
)

// readPrompt reads a message of the user. Texts and links, which the user typed or picked, become one text; a link to a
// file names it as @path does. Everything else is attached.
func readPrompt(blocks []sdk.ContentBlock) (in agent.Input, err error) {
	var text strings.Builder
	word := func(s string) { // with a blank on both sides
		if text.Len() > 0 && !strings.HasSuffix(text.String(), " ") && !strings.HasSuffix(text.String(), "\n") {
			text.WriteString(" ")
		}
		text.WriteString(s + " ")
	}
	for i, b := range blocks {
		switch {
		case b.Text != nil:
			text.WriteString(b.Text.Text)
		case b.ResourceLink != nil:
			if path, ok := filePath(b.ResourceLink.Uri); ok {
				word(engine.Mention(path))
			} else {
				word(b.ResourceLink.Uri)
			}
		case b.Image != nil:
			p, err := readMedia(b.Image.Data, b.Image.MimeType, b.Image.Uri)
			if err != nil {
				return in, badBlock(i, err)
			}
			in.Parts = append(in.Parts, p)
			if b.Image.Uri != nil {
				in.Touched = append(in.Touched, files(*b.Image.Uri)...)
			}
		case b.Resource != nil:
			p, err := readResource(b.Resource.Resource)
			if err != nil {
				return in, badBlock(i, err)
			}
			in.Parts = append(in.Parts, p)
			in.Touched = append(in.Touched, embedded(b.Resource.Resource)...)
		default:
			return in, badBlock(i, fmt.Errorf("text, images, resources and links can be sent"))
		}
	}
	in.Text = strings.TrimRight(text.String(), " ")
	if strings.TrimSpace(in.Text) == "" && len(in.Parts) == 0 {
		return in, sdk.NewInvalidParams(map[string]any{"error": "the prompt is empty"})
	}
	in.Typed, in.Host = in.Text, true
	return in, nil
}

func badBlock(i int, err error) error {
	return sdk.NewInvalidParams(map[string]any{"error": fmt.Sprintf("prompt[%d]: %v", i, err)})
}

func readMedia(data, mime string, uri *string) (llm.Part, error) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return llm.Part{}, fmt.Errorf("the data is not base64: %w", err)
	}
	m := &llm.Media{MIME: mime, Data: raw}
	if uri != nil {
		m.Name = nameOf(*uri)
	}
	return llm.Part{Media: m}, nil
}

// readResource reads content that the client embeds, such as a file with changes that are not saved.
func readResource(r sdk.EmbeddedResourceResource) (llm.Part, error) {
	if t := r.TextResourceContents; t != nil {
		return llm.Text(fmt.Sprintf("<resource uri=\"%s\">\n%s\n</resource>", html.EscapeString(t.Uri), t.Text)), nil
	}
	b := r.BlobResourceContents
	if b == nil {
		return llm.Part{}, fmt.Errorf("the resource has neither text nor a blob")
	}
	mime := ""
	if b.MimeType != nil {
		mime = *b.MimeType
	}
	if strings.HasPrefix(mime, "image/") || mime == "application/pdf" {
		return readMedia(b.Blob, mime, &b.Uri)
	}
	return llm.Text(fmt.Sprintf("<resource uri=\"%s\">%d bytes that are not text</resource>", html.EscapeString(b.Uri),
		base64.StdEncoding.DecodedLen(len(b.Blob)))), nil
}

// embedded returns the file whose content a client embeds, if it is one.
func embedded(r sdk.EmbeddedResourceResource) []string {
	if t := r.TextResourceContents; t != nil {
		return files(t.Uri)
	}
	return files(r.BlobResourceContents.Uri)
}

// files returns the file that a URI names, if it names one.
func files(uri string) []string {
	if path, ok := filePath(uri); ok {
		return []string{path}
	}
	return nil
}

// filePath returns the path in the URI of a file.
func filePath(uri string) (path string, ok bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return "", false
	}
	if path = u.Path; runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/")
	}
	return filepath.FromSlash(path), true
}

// nameOf returns the last part of a URI.
func nameOf(uri string) string {
	if path, ok := filePath(uri); ok {
		return filepath.Base(path)
	}
	return uri[strings.LastIndex(uri, "/")+1:]
}
