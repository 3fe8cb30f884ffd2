package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/run/llm"
)

// An inputBlock is a content block of a host's message.
type inputBlock struct {
	Type    blockType       `json:"type"` // text, image, document, search_result
	Text    *string         `json:"text"`
	Title   string          `json:"title"`
	Context string          `json:"context"` // of a document
	Source  json.RawMessage `json:"source"`  // of a search_result: a string, else an inputSource
	Content json.RawMessage `json:"content"` // of a search_result: text blocks
}

// An inputSource is where the data of an image or a document is.
type inputSource struct {
	Type    string          `json:"type"` // base64, text, content, url
	MIME    string          `json:"media_type"`
	Data    json.RawMessage `json:"data"` // of base64: bytes; of text: the text
	URL     string          `json:"url"`
	Content json.RawMessage `json:"content"` // of content: a string, or blocks
}

// readBlock converts a content block. On an error, field names the invalid member.
func readBlock(data []byte) (parts []llm.Part, field string, err error) {
	var b inputBlock
	if err := json.Unmarshal(data, &b); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, wrong.Field, fmt.Errorf("it is a JSON %s", wrong.Value)
		}
		return nil, "", err
	}
	switch b.Type {
	case blockText:
		if b.Text == nil {
			return nil, "text", errors.New("it is missing")
		}
		return []llm.Part{llm.Text(*b.Text)}, "", nil
	case blockImage, blockDocument:
		return readSource(b)
	case blockSearchResult:
		var source string
		if err := json.Unmarshal(b.Source, &source); err != nil {
			return nil, "source", errors.New("it is not a string")
		}
		content, err := readContent(b.Content)
		return labelled(content, "Search result", b.Title, source), "content", err
	}
	return nil, "type", fmt.Errorf("a block of type %q cannot be sent", b.Type)
}

// readSource converts an image or a document. What is only named by a URL becomes a text: no provider gets the URL, so
// the model has to fetch it.
func readSource(b inputBlock) (parts []llm.Part, field string, err error) {
	var source inputSource
	if err := json.Unmarshal(b.Source, &source); err != nil {
		return nil, "source", errors.New("it is missing, or not an object with type and data")
	}
	switch source.Type {
	case "base64":
		var data []byte
		if err := json.Unmarshal(source.Data, &data); err != nil {
			return nil, "source.data", errors.New("it is not base64")
		}
		media := llm.Part{Media: &llm.Media{MIME: source.MIME, Data: data, Name: b.Title}}
		if b.Context == "" {
			return []llm.Part{media}, "", nil
		}
		return []llm.Part{llm.Text(b.Context), media}, "", nil
	case "text":
		var text string
		if err := json.Unmarshal(source.Data, &text); err != nil {
			return nil, "source.data", errors.New("it is not a string")
		}
		return labelled([]llm.Part{llm.Text(text)}, "Document", b.Title, b.Context), "", nil
	case "content":
		content, err := readContent(source.Content)
		return labelled(content, "Document", b.Title, b.Context), "source.content", err
	case "url":
		if source.URL == "" {
			return nil, "source.url", errors.New("it is missing")
		}
		return labelled(nil, "Attached "+string(b.Type), b.Title, source.URL), "", nil
	}
	return nil, "source.type", fmt.Errorf("it is %q: base64, text, content and url can be sent", source.Type)
}

// readContent reads a string, or a list of text and image blocks.
func readContent(data json.RawMessage) ([]llm.Part, error) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []llm.Part{llm.Text(text)}, nil
	}
	var blocks []json.RawMessage
	if json.Unmarshal(data, &blocks) != nil {
		return nil, errors.New("it is neither a string nor a list of blocks")
	}
	var all []llm.Part
	for _, b := range blocks {
		var kind struct {
			Type blockType `json:"type"`
		}
		if json.Unmarshal(b, &kind) != nil || kind.Type != blockText && kind.Type != blockImage {
			return nil, fmt.Errorf("a block of type %q cannot be inside another one", kind.Type)
		}
		parts, _, err := readBlock(b)
		if err != nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	return all, nil
}

// labelled puts a line that says what they are before parts.
func labelled(parts []llm.Part, what ...string) []llm.Part {
	var words []string
	for _, w := range what {
		if w != "" {
			words = append(words, w)
		}
	}
	return append([]llm.Part{llm.Text("[" + strings.Join(words, ": ") + "]")}, parts...)
}
