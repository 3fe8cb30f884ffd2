package control

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/mcp"
)

// serve runs an MCP server in the host.
func (h *host) serve(name string, server *sdk.Server) {
	near, far := mcp.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	go server.Run(ctx, mcp.Transport(far))
	type message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	var mu sync.Mutex
	requests := map[string]string{} // ids of control requests by ids of JSON-RPC requests
	reply := func(id, response string) {
		fmt.Fprintf(h.in, `{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":%s}}`+"\n",
			id, response)
	}
	go func() { // to the host
		for n := 0; ; n++ {
			frame, err := near.ReadFrame(ctx)
			if err != nil {
				return
			}
			var m message
			json.Unmarshal(frame, &m)
			mu.Lock()
			id := requests[string(m.ID)]
			mu.Unlock()
			if m.Method == "" {
				reply(id, `{"mcp_response":`+string(frame)+`}`)
			} else {
				fmt.Fprintf(h.in, `{"type":"control_request","request_id":"server-%d","request":{"subtype":"mcp_message",`+
					`"server_name":%q,"message":%s}}`+"\n", n, name, frame)
			}
		}
	}()
	go func() { // to the server
		for next := 0; ; next++ {
			line, ok := h.out.line(ctx, next)
			if !ok {
				return
			}
			var r struct {
				Type    string     `json:"type"`
				ID      string     `json:"request_id"`
				Request mcpMessage `json:"request"`
			}
			if json.Unmarshal([]byte(line), &r) != nil || r.Type != "control_request" || r.Request.Server != name ||
				r.Request.Subtype != "mcp_message" {
				continue
			}
			var m message
			json.Unmarshal(r.Request.Message, &m)
			if m.Method == "server/discover" { // a server of the older protocol, which sends questions itself
				reply(r.ID, `{"mcp_response":{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":-32601,"message":"none"}}}`)
				continue
			}
			if len(m.ID) > 0 && m.Method != "" {
				mu.Lock()
				requests[string(m.ID)] = r.ID
				mu.Unlock()
			} else {
				reply(r.ID, `{}`)
			}
			near.WriteFrame(ctx, r.Request.Message)
		}
	}()
}

// sdkServer returns a server whose only tool, "form", calls run.
func sdkServer(run func(context.Context, *sdk.CallToolRequest) (string, error)) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "t", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "form", Description: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, any, error) {
			text, err := run(ctx, r)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, err
		})
	return s
}

// TestElicitation: questions of an MCP server to the user go to the host; any answer except an acceptance declines.
func TestElicitation(t *testing.T) {
	t.Parallel()
	call := llmtest.Use("mcp__forms__form", map[string]any{})
	h := newHost(t, llmtest.New(call, call, call, llmtest.Reply("done")), nil,
		values(map[string]any{"permissions.allow": []string{"mcp__forms"}}), noPrompts)
	forms := []*sdk.ElicitParams{
		{Message: "Who?", RequestedSchema: json.RawMessage(`{"type":"object","required":["name"],"properties":{` +
			`"name":{"type":"string","title":"Name"},"age":{"type":"integer","minimum":1},` +
			`"color":{"type":"string","enum":["red","blue"]}}}`)},
		{Message: "Sure?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
		{Message: "Go there", Mode: "url", ElicitationID: "e", URL: "https://example.org/x"},
	}
	var answers []string
	h.serve("forms", sdkServer(func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		res, err := r.Session.Elicit(ctx, forms[len(answers)])
		data, _ := json.Marshal(res)
		answers = append(answers, string(data))
		return string(data), err
	}))
	h.ask("0", `{"subtype":"initialize","sdkMcpServers":["forms"]}`)
	h.user("go")
	for i, c := range []struct{ asked, answer, got string }{
		{`"mode":"form","requested_schema":{"type":"object",`,
			`{"action":"accept","content":{"name":"Ann","age":7,"more":1}}`,
			`{"action":"accept","content":{"age":7,"name":"Ann"}}`},
		{`"message":"Sure?"`, `{"action":"decline"}`, `{"action":"decline"}`},
		{`"mode":"url","url":"https://example.org/x"`, `{"action":"perhaps"}`, `{"action":"cancel"}`},
	} {
		h.must(h.answers(c.answer, `"subtype":"elicitation"`, `"mcp_server_name":"forms"`), c.asked)
		h.expect(`"type":"tool_result"`)
		if answers[i] != c.got {
			t.Errorf("the server got %s, want %s", answers[i], c.got)
		}
	}
	h.expect(`"type":"result"`, `"result":"done"`)
	h.end()
}

// TestPlanApproval: the model's plan is approved as a call of ExitPlanMode.
func TestPlanApproval(t *testing.T) {
	t.Parallel()
	enter, exit := llmtest.Use("EnterPlanMode", nil), llmtest.Use("ExitPlanMode", map[string]any{"plan": "Do it."})
	h := newHost(t, llmtest.New(enter, exit, llmtest.Answer{Want: []string{"not yet"}, Calls: exit.Calls},
		llmtest.Answer{Want: []string{"approved the plan"}, Text: "done"}), nil)
	h.ask("0", `{"subtype":"initialize"}`)
	h.user("go")
	h.must(h.answers(`{"behavior":"deny","message":"not yet"}`, `"tool_name":"ExitPlanMode"`), `"input":{"plan":"Do it."}`)
	h.answers(`{"behavior":"allow","updatedInput":{}}`, `"tool_name":"ExitPlanMode"`)
	h.expect(`"type":"result"`, `"result":"done"`)
	h.end()
}

// TestToolAliases: a call of a tool that the host replaced runs the replacement, and is decided as a call of it.
func TestToolAliases(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.New(bash("echo one"), llmtest.Use("read", map[string]any{"path": "a.txt"}),
		llmtest.Answer{Want: []string{"from the host"}, Text: "done"}), []string{"a.txt", "from the disk"},
		values(map[string]any{"permissions.allow": []string{"Bash", "Read"}}))
	h.serve("forms", sdkServer(func(_ context.Context, r *sdk.CallToolRequest) (string, error) {
		return "from the host: " + string(r.Params.Arguments), nil
	}))
	h.ask("0", `{"subtype":"initialize","sdkMcpServers":["forms"],"toolAliases":{"Bash":"mcp__forms__form",`+
		`"Read":"mcp__forms__none"}}`)
	h.user("go")
	h.must(h.answers(`{"behavior":"allow"}`, `"can_use_tool"`), `"tool_name":"mcp__forms__form"`, `"command":"echo one"`)
	h.expect(`"type":"tool_result"`, `from the host: {\"command\":\"echo one\"}`)
	h.expect(`"type":"tool_result"`, `"is_error":true`, `mcp__forms__none`)
	h.expect(`"type":"result"`, `"result":"done"`)
	h.end()
}

// TestThinking: a number of thinking tokens sets the effort of later requests, null restores that of the settings,
// and 0 means none.
func TestThinking(t *testing.T) {
	t.Parallel()
	model := llmtest.New(llmtest.Reply("1"), llmtest.Reply("2"), llmtest.Reply("3"), llmtest.Reply("4"),
		llmtest.Reply("5"))
	h := newHost(t, model, nil, values(map[string]any{"effort": "high"}))
	h.ask("0", `{"subtype":"initialize"}`)
	for i, request := range []string{``, `{"max_thinking_tokens":2000}`, `{"thinking_display":"summarized"}`,
		`{"max_thinking_tokens":null}`, `{"max_thinking_tokens":0}`} {
		if request != "" {
			h.must(h.ask(fmt.Sprint(i), `{"subtype":"set_max_thinking_tokens",`+request[1:]), `"subtype":"success"`)
		}
		h.user("go")
		h.expect(`"type":"result"`, fmt.Sprintf(`"result":"%d"`, i+1))
	}
	for i, bad := range []string{`"max_thinking_tokens":-1`, `"max_thinking_tokens":"x"`, `"thinking_display":"omitted"`} {
		h.must(h.ask(fmt.Sprint("bad", i), `{"subtype":"set_max_thinking_tokens",`+bad+`}`), `"subtype":"error"`)
	}
	h.end()
	var efforts []string
	for _, r := range model.Requests() {
		efforts = append(efforts, r.Effort)
	}
	if got := fmt.Sprint(efforts); got != "[high 2000 2000 high 0]" {
		t.Errorf("the efforts are %s", got)
	}
}
