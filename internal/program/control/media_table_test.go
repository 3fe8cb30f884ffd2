package control

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/media/mediatest"
)

// mediaDoors are the ways in for media. For paste see TestPasteBroken of the package tui.
var mediaDoors = []string{"read", "@file", "@resource", "mcp", "host", "hook"}

// TestMediaTable: each broken image and document, and each that can be mended, through each door. testdata/media.txt
// says what became of it: the type of what was sent, a line that says that it is left out, its text or what the tool
// says of it, or an error before anything was sent.
func TestMediaTable(t *testing.T) {
	t.Parallel()
	all := mediatest.Broken(t)
	maps.Copy(all, mediatest.Odd(t))
	names := slices.Sorted(maps.Keys(all))
	var files []string
	var script []llmtest.Answer
	for i, name := range names {
		files = append(files, mediaFile(i, all[name]), string(all[name].Data))
		for _, door := range mediaDoors {
			a := llmtest.Reply("seen")
			switch door {
			case "read":
				a = llmtest.Use("read", map[string]any{"path": mediaFile(i, all[name])})
			case "mcp", "hook":
				a = llmtest.Use("mcp__forms__form", map[string]any{"n": i})
			}
			a.When = fmt.Sprintf(`(?m)^%s %d\b`, door, i)
			script = append(script, a)
		}
	}
	for range len(names) * len(mediaDoors) {
		script = append(script, llmtest.Reply("done"))
	}
	server := llmtest.NewServer(script...)
	defer server.Close()
	h := newHost(t, anthropic.New(llm.Endpoint{Name: "claude-test", BaseURL: server.URL, Key: llmtest.Key,
		Info: llm.Info{Window: 1_000_000, Vision: true, Documents: true}}), files,
		values(map[string]any{"permissions.allow": []string{"mcp__forms"}}))
	h.serve("forms", manyMedia(all, names))
	h.ask("0", `{"subtype":"initialize","sdkMcpServers":["forms"],`+
		`"hooks":{"PostToolUse":[{"matcher":"mcp__.*","hookCallbackIds":["post"]}]}}`)

	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "file\t"+strings.Join(mediaDoors, "\t"))
	for i, name := range names {
		cells := []string{name}
		for _, door := range mediaDoors {
			before := len(server.Requests())
			end := h.through(door, i, all[name])
			cells = append(cells, whatWasSent(t, name+", "+door, server.Requests()[before:], end))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	if err := h.end(); err != nil {
		t.Error(err)
	}
	if refused := server.Refused(); len(refused) > 0 {
		t.Error(refused)
	}
	if os.Getenv("UPDATE_MEDIA") != "" {
		if err := os.WriteFile("testdata/media.txt", table.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/media.txt")
	if err != nil || table.String() != string(want) {
		t.Errorf("%v; UPDATE_MEDIA=1 writes\n%s", err, table.String())
	}
}

func mediaFile(i int, m *llm.Media) string {
	return fmt.Sprintf("f%d.%s", i, m.MIME[strings.LastIndexByte(m.MIME, '/')+1:])
}

// through sends file i through a door, and returns the line that ends the turn.
func (h *host) through(door string, i int, m *llm.Media) string {
	h.t.Helper()
	kind := "image"
	if !strings.HasPrefix(m.MIME, "image/") {
		kind = "document"
	}
	block := fmt.Sprintf(`{"type":%q,"source":{"type":"base64","media_type":%q,"data":%q}}`, kind, m.MIME,
		base64.StdEncoding.EncodeToString(m.Data))
	text := fmt.Sprintf("%s %d", door, i)
	switch door {
	case "@file":
		h.say(`{"type":"user","typed":true,"message":{"role":"user","content":%q}}`, text+": @"+mediaFile(i, m))
	case "@resource":
		h.say(`{"type":"user","typed":true,"message":{"role":"user","content":%q}}`,
			fmt.Sprintf("%s: @forms:media://%d", text, i))
	case "host":
		h.say(`{"type":"user","message":{"role":"user","content":[{"type":"text","text":%q},%s]}}`, text, block)
	case "mcp":
		h.user(text)
		h.answers(`{}`, `"callback_id":"post"`)
	case "hook":
		h.user(text)
		h.answers(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedMCPToolOutput":{"content":[`+block+`]}}}`,
			`"callback_id":"post"`)
	default:
		h.user(text)
	}
	return h.expect(`"type":"result"`)
}

// whatWasSent says what the last request of a turn has of a file. It fails if a part cannot be decoded.
func whatWasSent(t *testing.T, what string, requests []llmtest.Recorded, end string) string {
	t.Helper()
	if len(requests) == 0 {
		if !strings.Contains(end, "cannot be attached: ") {
			t.Errorf("%s: nothing was sent: %s", what, end)
		}
		return "error"
	}
	var body struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(requests[len(requests)-1].Body, &body); err != nil {
		t.Fatal(err)
	}
	var last any
	if err := json.Unmarshal(body.Messages[len(body.Messages)-1], &last); err != nil {
		t.Fatal(err)
	}
	var sent, texts []string
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				look(x)
			}
		case map[string]any:
			if v["type"] == "base64" {
				checkImage(t, v)
				sent = append(sent, v["media_type"].(string))
			}
			if text, ok := v["text"].(string); ok && !strings.HasPrefix(text, "@") && !strings.HasPrefix(text, "host ") {
				texts = append(texts, text)
			}
			for _, x := range v {
				look(x)
			}
		}
	}
	look(last)
	switch {
	case len(sent) == 1:
		return sent[0]
	case len(sent) > 1, len(texts) != 1:
		t.Errorf("%s: %q, %q in %s", what, sent, texts, body.Messages[len(body.Messages)-1])
	case strings.Contains(texts[0], " is left out: "), strings.Contains(texts[0], " is omitted: "):
		return "line"
	}
	return "text"
}

// manyMedia returns a server whose tool form and resources have each of the media.
func manyMedia(all map[string]*llm.Media, names []string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "t", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "form", Description: "shows", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct{ N int }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			m := all[names[in.N]]
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: m.MIME, Data: m.Data}}}, nil
		})
	for i, name := range names {
		uri, m := fmt.Sprintf("media://%d", i), all[name]
		s.AddResource(&sdk.Resource{URI: uri, Name: name, MIMEType: m.MIME},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: m.MIME, Blob: m.Data}}}, nil
			})
	}
	return s
}
