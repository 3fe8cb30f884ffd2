//go:build unix

package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestRoutesAsked: an address in Claude Code's settings is asked about once, and takes effect with the key beside it
// after a yes.
func TestRoutesAsked(t *testing.T) {
	t.Parallel()
	server := serve(t, llmtest.Reply("routed answer"), llmtest.Reply("and again"))
	d := newFixture(t, server)
	d.env = append(d.env, "ANTHROPIC_BASE_URL=", "ANTHROPIC_API_KEY=", "OPENAI_API_KEY=", "GEMINI_API_KEY=",
		"OLLAMA_HOST=", "KNACK_KEYRING=file")
	d.file(t, "../.claude/settings.json", fmt.Sprintf(`{"env": {"ANTHROPIC_BASE_URL": %q, "ANTHROPIC_AUTH_TOKEN": %q}}`,
		server.URL, llmtest.Key))
	k := d.open(t)
	k.expect(`ANTHROPIC_BASE_URL=` + server.URL + `.*settings\.json`)
	k.expect(`Send requests, with your conversations, there\?`)
	if n := len(server.Requests()); n > 0 {
		t.Errorf("%d requests before the answer", n)
	}
	k.types("y\r")
	k.expect(`/help lists the commands`)
	k.enters("hello")
	k.expect(`routed answer`)
	k.leaves()
	if r := server.Requests(); len(r) != 1 || r[0].Header.Get("Authorization") != "Bearer "+llmtest.Key {
		t.Errorf("the requests: %v", r)
	}
	k = d.open(t) // it is not asked again
	k.enters("hello")
	k.expect(`and again`)
	k.leaves()
	k.mu.Lock()
	defer k.mu.Unlock()
	if strings.Contains(k.all.String(), "Send requests") {
		t.Error("it was asked again")
	}
}

// TestRoutesDeclined: without a yes nothing is sent to the address, and neither is its key to the vendor.
func TestRoutesDeclined(t *testing.T) {
	t.Parallel()
	server := serve(t)
	d := newFixture(t, server)
	d.env = append(d.env, "ANTHROPIC_BASE_URL=", "ANTHROPIC_API_KEY=", "OPENAI_API_KEY=", "GEMINI_API_KEY=",
		"OLLAMA_HOST=", "KNACK_KEYRING=file")
	d.file(t, "../.claude/settings.json", fmt.Sprintf(`{"env": {"ANTHROPIC_BASE_URL": %q, "ANTHROPIC_AUTH_TOKEN": %q,
		"HTTPS_PROXY": %q}}`, server.URL, llmtest.Key, server.URL))
	k := d.open(t)
	k.expect(`HTTPS_PROXY=`)
	k.expect(`Send requests, with your conversations, there\?`)
	k.types("n\r")
	k.expect(`no effect here: env\.ANTHROPIC_BASE_URL, env\.HTTPS_PROXY`)
	k.expect(`Which model should Knack use\?`)
	k.types("7\r") // not now
	k.expect(`/help lists the commands`)
	k.leaves()
	if n := len(server.Requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// TestRoutesProxy: after a yes, requests go through a proxy in Claude Code's settings.
func TestRoutesProxy(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	d := newFixture(t, serve(t))
	d.env = append(d.env, "ANTHROPIC_BASE_URL=https://model.invalid", "KNACK_KEYRING=file")
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"} {
		d.env = append(d.env, name+"=", strings.ToLower(name)+"=")
	}
	d.file(t, "../.claude/settings.json", fmt.Sprintf(`{"env": {"HTTPS_PROXY": %q}}`, proxy.URL))
	k := d.open(t)
	k.expect(`HTTPS_PROXY=` + proxy.URL + `.*settings\.json`)
	k.expect(`Send requests, with your conversations, there\?`)
	if len(asked) > 0 {
		t.Error("the proxy was asked before the answer")
	}
	k.types("y\r")
	k.expect(`/help lists the commands`)
	k.enters("hello")
	select {
	case request := <-asked:
		if request != "CONNECT model.invalid:443" {
			t.Errorf("the proxy was asked: %s", request)
		}
	case <-time.After(patience):
		t.Error("the proxy was not asked")
	}
	k.types(ctrlC)
	k.expect(`Message to the model`)
	k.types(ctrlC)
	k.leaves()
}
