package control

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/sandbox"
	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestNetworkRequest: while a command waits for a host, the host program is asked with the tool name that it knows for
// that, and its answer and its rule decide.
func TestNetworkRequest(t *testing.T) {
	t.Parallel()
	policy, err := sandbox.Default(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if r := sandbox.New(policy, sandbox.Auto).Report(); r.Level != sandbox.Complete {
		t.Skipf("the sandbox is %s here", r.Level)
	}
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "the page", r.URL.Path)
	}))
	t.Cleanup(pages.Close)
	at := strings.TrimPrefix(pages.URL, "http://")
	_, port, _ := strings.Cut(at, ":")
	get := func(path string) llmtest.Answer { return bash("bash get " + pages.URL + path) }
	h := newHost(t, llmtest.New(get("/no"), get("/yes"), get("/kept"), get("/again"), llmtest.Reply("done")),
		[]string{"get", `exec 3<>/dev/tcp/127.0.0.1/3128; printf "GET %s HTTP/1.1\r\nHost: x\r\n\r\n" "$1" >&3; cat <&3`},
		values(map[string]any{"sandbox.mode": "require", "permissions.allow": []string{"Bash"}}))
	h.user("go")
	asks := []string{`"subtype":"can_use_tool"`, `"tool_name":"SandboxNetworkAccess"`,
		`"input":{"host":"127.0.0.1","port":"` + port + `"}`}
	rule := `{"type":"addRules","rules":[{"toolName":"Network","ruleContent":"` + at + `"}],"behavior":"allow",` +
		`"destination":"session"}`
	h.must(h.answers(`{"behavior":"deny","message":"not there"}`, asks...), `"permission_suggestions":[`+rule+`]`)
	h.expect(`"type":"tool_result"`, "is blocked: the user declined: not there")
	h.answers(`{"behavior":"allow"}`, asks...)
	h.expect(`"type":"tool_result"`, "the page /yes")
	h.answers(`{"behavior":"allow","updatedPermissions":[`+rule+`]}`, asks...)
	h.expect(`"type":"tool_result"`, "the page /kept")
	h.expect(`"type":"tool_result"`, "the page /again") // a question would block here
	h.end()
}
