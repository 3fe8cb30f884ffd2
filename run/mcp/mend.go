package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A list is a list in an answer of which one item that cannot be decoded would cost the whole answer: the SDK decodes
// all or nothing.
type list struct {
	key   string
	fits  func(result []byte) error
	mends func(l list, item json.RawMessage) []json.RawMessage // nil: the item is left out
}

func lists() []list {
	return []list{
		{"content", decodes[sdk.CallToolResult], mendPart},
		{"contents", decodes[sdk.ReadResourceResult], mendResource},
		{"messages", decodes[sdk.GetPromptResult], mendPromptMessage},
		{"tools", decodes[sdk.ListToolsResult], mendEntry},
		{"resources", decodes[sdk.ListResourcesResult], mendEntry},
		{"resourceTemplates", decodes[sdk.ListResourceTemplatesResult], mendEntry},
		{"prompts", decodes[sdk.ListPromptsResult], mendEntry},
	}
}

func decodes[T any](data []byte) error { return json.Unmarshal(data, new(T)) }

// with returns an answer that has only these items.
func (l list) with(items ...json.RawMessage) []byte {
	return encoded(map[string]any{l.key: items})
}

// mendMessage returns a server's message in which the items of lists that cannot be decoded are mended: without a
// field that the client can do without, else as a line of text that says what is missing. Other messages are returned
// as they are.
func mendMessage(message []byte) []byte {
	var m, result map[string]json.RawMessage
	if !bytes.Contains(message, []byte(`"result"`)) || json.Unmarshal(message, &m) != nil ||
		json.Unmarshal(m["result"], &result) != nil {
		return message
	}
	if result["action"] != nil || result["role"] != nil { // a client's answer, read by a server in the host's process
		return message
	}
	changed := false
	for _, l := range lists() {
		value, ok := result[l.key]
		if !ok || l.fits(encoded(map[string]json.RawMessage{l.key: value})) == nil {
			continue
		}
		result[l.key], changed = encoded(l.mended(value)), true
	}
	if v := result["isError"]; v != nil && decodes[bool](v) != nil {
		result["isError"], changed = encoded(strings.Contains(string(v), "rue") || string(v) == "1"), true
	}
	if !changed {
		return message
	}
	m["result"] = encoded(result)
	return encoded(m)
}

// mended returns the items of a value that should be a list, each one that can be decoded.
func (l list) mended(value json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(value, &items) != nil {
		items = []json.RawMessage{value} // one item without the list
	}
	all := []json.RawMessage{}
	for _, item := range items {
		if l.fits(l.with(item)) == nil {
			all = append(all, item)
		} else {
			all = append(all, l.mends(l, item)...)
		}
	}
	return all
}

func encoded(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil { // only of values that were decoded
		return json.RawMessage("null")
	}
	return bytes.TrimSpace(b.Bytes())
}

// textPart is a part of a result that says something in the place of another.
func textPart(text string) json.RawMessage {
	return encoded(map[string]string{"type": "text", "text": text})
}

// mendPart mends a part of a tool's result or of a prompt.
func mendPart(l list, item json.RawMessage) []json.RawMessage {
	var text string
	if json.Unmarshal(item, &text) == nil { // also of null
		if text == "" {
			return nil
		}
		return []json.RawMessage{textPart(text)}
	}
	var part map[string]json.RawMessage
	if json.Unmarshal(item, &part) != nil {
		return []json.RawMessage{textPart(string(item))}
	}
	kind := stringOf(part["type"])
	if fault := mendBase64(part, "data"); fault != "" {
		what := cmp.Or(clip(kind, 50), "part")
		return []json.RawMessage{textPart(fmt.Sprintf("[The %s is left out: %s.]", what, fault))}
	}
	var resource map[string]json.RawMessage
	if json.Unmarshal(part["resource"], &resource) == nil && resource != nil {
		part["resource"] = mendedResource(resource)
	}
	if l.fits(l.with(encoded(part))) == nil {
		return []json.RawMessage{encoded(part)}
	}
	for name, value := range part { // what only describes it, such as annotations
		if l.fits(l.with(encoded(map[string]any{"type": "text", name: value}))) != nil && name != "type" {
			delete(part, name)
		}
	}
	if why := l.fits(l.with(encoded(part))); why != nil || kind == "text" && part["text"] == nil {
		said := fmt.Sprintf("[A part of type %q:]\n%s", clip(kind, 50), item)
		if part["data"] != nil {
			said = fmt.Sprintf("[A part of type %q is left out: it is of no known type.]", clip(kind, 50))
		}
		return []json.RawMessage{textPart(said)}
	}
	return []json.RawMessage{encoded(part)}
}

// mendResource mends one of the contents of a resource.
func mendResource(l list, item json.RawMessage) []json.RawMessage {
	var text string
	if json.Unmarshal(item, &text) == nil {
		return []json.RawMessage{encoded(map[string]string{"text": text})}
	}
	var resource map[string]json.RawMessage
	if json.Unmarshal(item, &resource) != nil {
		return nil
	}
	return []json.RawMessage{mendedResource(resource)}
}

func mendedResource(resource map[string]json.RawMessage) json.RawMessage {
	fault := mendBase64(resource, "blob")
	for name, value := range resource {
		if decodes[sdk.ResourceContents](encoded(map[string]json.RawMessage{name: value})) == nil {
			continue
		}
		delete(resource, name)
		if name == "text" { // JSON that was not written as a string
			resource[name] = encoded(string(value))
		}
	}
	if fault != "" {
		resource["text"] = encoded("[Its content is left out: " + fault + ".]")
	}
	return encoded(resource)
}

// mendPromptMessage mends a message of a prompt: some servers send several parts in one, or only a text.
func mendPromptMessage(l list, item json.RawMessage) []json.RawMessage {
	var message map[string]json.RawMessage
	if json.Unmarshal(item, &message) != nil || message["content"] == nil {
		return nil
	}
	role := cmp.Or(stringOf(message["role"]), "user")
	parts := list{"content", decodes[sdk.CallToolResult], mendPart} // the same parts as in a result
	var all []json.RawMessage
	for _, part := range parts.mended(message["content"]) {
		all = append(all, encoded(map[string]any{"role": role, "content": part}))
	}
	return all
}

// mendEntry removes the fields of a tool, resource or prompt that cannot be decoded.
func mendEntry(l list, item json.RawMessage) []json.RawMessage {
	var entry map[string]json.RawMessage
	if json.Unmarshal(item, &entry) != nil {
		return nil
	}
	for name, value := range entry {
		if l.fits(l.with(encoded(map[string]json.RawMessage{name: value}))) != nil {
			delete(entry, name)
		}
	}
	return []json.RawMessage{encoded(entry)}
}

func stringOf(value json.RawMessage) (s string) {
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// mendBase64 makes a field standard base64: others write a data URL, the alphabet of URLs, blanks, or no padding. It
// returns what is wrong with one that cannot be mended, and removes it.
func mendBase64(in map[string]json.RawMessage, name string) (fault string) {
	value, ok := in[name]
	if !ok || decodes[[]byte](value) == nil {
		return ""
	}
	delete(in, name)
	var text string
	if json.Unmarshal(value, &text) != nil {
		return "its " + name + " is not a string"
	}
	if head, rest, ok := strings.Cut(text, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		text = rest
	}
	text = strings.NewReplacer("-", "+", "_", "/", " ", "", "\t", "", "\r", "", "\n", "", "=", "").Replace(text)
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "its " + name + " is not base64"
	}
	in[name] = encoded(data)
	return ""
}

// mended passes on what a server sends, each message mended as soon as it is whole.
type mended struct {
	io.Closer
	next func() ([]byte, error) // more of it
	out  []byte
	err  error
}

func (m *mended) Read(p []byte) (int, error) {
	for len(m.out) == 0 && len(p) > 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.out, m.err = m.next()
	}
	n := copy(p, m.out)
	m.out = m.out[n:]
	return n, nil
}

// mendedValues reads messages that follow each other, with or without an end of line. What is no JSON is passed on, for
// the reader to say so.
func mendedValues(in io.ReadCloser, read func(message []byte) []byte) *mended {
	values := json.NewDecoder(in)
	var rest io.Reader // what follows an error
	return &mended{Closer: in, next: func() ([]byte, error) {
		if rest != nil {
			b := make([]byte, 4096)
			n, err := rest.Read(b)
			return b[:n], err
		}
		var message json.RawMessage
		err := values.Decode(&message)
		var syntax *json.SyntaxError
		switch {
		case err == nil:
			return append(read(message), '\n'), nil
		case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
			rest = io.MultiReader(values.Buffered(), in)
			return nil, nil
		}
		return nil, err
	}}
}

// mendedEvents reads an event stream and mends the messages in its "data:" lines. After the event "endpoint" such a line
// is the address for requests, which stays as it is.
func mendedEvents(in io.ReadCloser, read func(message []byte) []byte) *mended {
	lines := bufio.NewReader(in)
	address := false
	return &mended{Closer: in, next: func() ([]byte, error) {
		line, err := lines.ReadBytes('\n')
		message := bytes.TrimRight(line, "\r\n")
		body, ok := bytes.CutPrefix(message, []byte("data:"))
		if !ok || len(body) == 0 || address {
			name, named := bytes.CutPrefix(message, []byte("event:"))
			address = named && string(bytes.TrimSpace(name)) == "endpoint" || address && len(message) > 0
			return line, err
		}
		if now := read(body); len(now) == 0 || &now[0] != &body[0] {
			return slices.Concat([]byte("data:"), now, line[len(message):]), err
		}
		return line, err
	}}
}

// mendedWhole reads an answer that is one message.
func mendedWhole(in io.ReadCloser, read func(message []byte) []byte) *mended {
	return &mended{Closer: in, next: func() ([]byte, error) {
		message, err := io.ReadAll(in)
		if err != nil {
			return message, err
		}
		return read(message), io.EOF
	}}
}

// mending mends the answers of a server over HTTP.
type mending struct {
	base http.RoundTripper
	read func(message []byte) []byte // see [Server.incoming]
}

func (m mending) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := m.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if req.Header.Get("Mcp-Session-Id") != "" {
		asNotFound(res)
	}
	switch kind := res.Header.Get("Content-Type"); {
	case strings.HasPrefix(kind, "text/event-stream"):
		res.Body = mendedEvents(res.Body, m.read)
	case strings.HasPrefix(kind, "application/json"):
		res.Body, res.ContentLength = mendedWhole(res.Body, m.read), -1
	}
	return res, nil
}
