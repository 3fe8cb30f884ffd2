package control

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"maps"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/media/mediatest"
)

// TestMediaDoors: broken images and documents come in through each door that a host has. The session goes on, what the
// provider gets can be decoded, and each of the others is a line of text. TestAttachBroken is for what a user names.
func TestMediaDoors(t *testing.T) {
	t.Parallel()
	odd := mediatest.Odd(t)
	all := mediatest.Broken(t)
	maps.Copy(all, odd)
	var files, blocks []string
	var calls []llmtest.Call
	var content []sdk.Content
	for i, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		file := fmt.Sprintf("f%d.%s", i, m.MIME[strings.LastIndexByte(m.MIME, '/')+1:])
		files = append(files, file, string(m.Data))
		calls = append(calls, llmtest.Call{Name: "read", Input: map[string]any{"path": file}})
		kind := "image"
		if !strings.HasPrefix(m.MIME, "image/") {
			kind = "document"
		}
		blocks = append(blocks, fmt.Sprintf(`{"type":%q,"source":{"type":"base64","media_type":%q,"data":%q}}`, kind, m.MIME,
			base64.StdEncoding.EncodeToString(m.Data)))
		content = append(content, &sdk.ImageContent{MIMEType: m.MIME, Data: m.Data})
	}
	message := `"message":{"role":"user","content":[` + strings.Join(blocks, ",") + `]}}`
	server := llmtest.NewServer(llmtest.Answer{Calls: calls}, llmtest.Reply("read"),
		llmtest.Use("mcp__forms__form", map[string]any{}), llmtest.Reply("served"), llmtest.Reply("sent"),
		llmtest.Use("mcp__forms__form", map[string]any{}), llmtest.Reply("hooked"), llmtest.Reply("done"))
	defer server.Close()
	h := newHost(t, anthropic.New(llm.Endpoint{Name: "claude-test", BaseURL: server.URL, Key: llmtest.Key,
		Info: llm.Info{Window: 1_000_000, Vision: true, Documents: true}}), files,
		values(map[string]any{"permissions.allow": []string{"mcp__forms"}}))
	h.serve("forms", mediaServer(content))
	h.ask("0", `{"subtype":"initialize","sdkMcpServers":["forms"],`+
		`"hooks":{"PostToolUse":[{"matcher":"mcp__.*","hookCallbackIds":["post"]}]}}`)
	h.user("read them")
	h.expect(`"type":"result"`, `"result":"read"`)
	h.user("call it")
	h.answers(`{}`, `"callback_id":"post"`)
	h.expect(`"type":"result"`, `"result":"served"`)
	h.say(`{"type":"user",` + message)
	h.expect(`"type":"result"`, `"result":"sent"`)
	h.user("call it once more")
	h.answers(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedMCPToolOutput":{"content":[`+
		strings.Join(blocks, ",")+`]}}}`, `"callback_id":"post"`)
	h.expect(`"type":"result"`, `"result":"hooked"`)
	h.say(`{"type":"user","shouldQuery":false,` + message)
	h.user("end")
	h.expect(`"type":"result"`, `"result":"done"`)
	if err := h.end(); err != nil {
		t.Error(err)
	}
	if refused := server.Refused(); len(refused) > 0 {
		t.Fatal(refused)
	}
	requests := server.Requests()
	images := 0
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				look(x)
			}
		case map[string]any:
			if v["type"] == "base64" {
				images++
				checkImage(t, v)
			}
			for _, x := range v {
				look(x)
			}
		}
	}
	var body any
	if err := json.Unmarshal(requests[len(requests)-1].Body, &body); err != nil {
		t.Fatal(err)
	}
	look(body)
	if want := 5 * len(odd); images != want { // read, MCP, a message, a hook, a message without an answer
		t.Errorf("%d images were sent, want %d", images, want)
	}
}

// checkImage fails if a source of a request cannot be decoded as what it says that it is.
func checkImage(t *testing.T, source map[string]any) {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(source["data"].(string))
	if err != nil {
		t.Fatal(err)
	}
	decoded, format, err := image.Decode(bytes.NewReader(data))
	if err != nil || source["media_type"] != "image/"+format {
		t.Errorf("%v: %s, %v", source["media_type"], format, err)
		return
	}
	if size := decoded.Bounds().Size(); max(size.X, size.Y) > 2000 {
		t.Errorf("%v", size)
	}
}

// mediaServer returns a server whose tool form answers with content.
func mediaServer(content []sdk.Content) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "t", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "form", Description: "shows", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: content}, nil
		})
	return s
}
