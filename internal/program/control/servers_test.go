package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// waits gives the program servers, for which the first request waits as with -p.
func waits(servers string) hostOption {
	return func(o *engine.Options, serve *Options) {
		o.Values["mcp.firstWait"] = 600
		o.MCPConfig = []string{servers}
		start := serve.Start
		serve.Start = func(ctx context.Context, who engine.Person, edit func(*engine.SessionOptions)) (*engine.Session,
			error) {
			return start(ctx, who, func(so *engine.SessionOptions) {
				edit(so)
				so.Waiting = func([]string) {}
			})
		}
	}
}

// TestInitServers: the first message says how the servers are for which the first request waits, not that they are
// still pending.
func TestInitServers(t *testing.T) {
	t.Parallel()
	good := sdkServer(func(context.Context, *sdk.CallToolRequest) (string, error) { return "called", nil })
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return good }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			http.Error(w, "broken", http.StatusTeapot)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	h := newHost(t, llmtest.New(llmtest.Reply("done")), nil, waits(fmt.Sprintf(`{"good": {"type": "http", `+
		`"url": "%s/good"}, "bad": {"type": "http", "url": "%[1]s/bad"}}`, server.URL)))
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("go")
	h.must(h.expect(`"subtype":"init"`), `"mcp__good__form"`, `{"name":"bad","status":"failed"`,
		`{"name":"good","status":"connected"`)
	h.expect(`"type":"result"`)
	h.end()
}

// TestInterruptWait: a host can interrupt the wait for servers, and goes on with its next message.
func TestInterruptWait(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	h := newHost(t, llmtest.New(llmtest.Reply("done")), nil, waits(`{"mute": {"type": "http", "url": "`+server.URL+`"}}`))
	h.ask("1", `{"subtype":"initialize"}`)
	h.user("go")
	<-asked
	h.must(h.ask("2", `{"subtype":"interrupt"}`), `"subtype":"success"`)
	h.must(h.expect(`"subtype":"init"`), `{"name":"mute","status":"pending"`)
	h.expect(`"type":"result"`, `"is_error":true`)
	h.user("go on")
	h.expect(`"subtype":"init"`)
	h.ask("3", `{"subtype":"mcp_toggle","serverName":"mute","enabled":false}`)
	h.expect(`"type":"result"`, `"result":"done"`)
	h.end()
}
