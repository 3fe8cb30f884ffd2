package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/tool"
)

func TestMain(m *testing.M) {
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") != "" {
		if err := conformingClient(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// clientScenarios are the scenarios of the official suite for clients, with the checks that our client passes.
// docs/conformance.md lists those that are omitted.
var clientScenarios = map[string]string{
	"initialize":                                "1/1",
	"tools_call":                                "2/2",
	"elicitation-sep1034-client-defaults":       "5/5",
	"sse-retry":                                 "3/3",
	"request-metadata":                          "6/6",
	"auth/metadata-default":                     "19/19",
	"auth/metadata-var1":                        "19/19",
	"auth/metadata-var2":                        "19/19",
	"auth/metadata-var3":                        "19/19",
	"auth/basic-cimd":                           "14/14",
	"auth/scope-from-www-authenticate":          "15/15",
	"auth/scope-from-scopes-supported":          "15/15",
	"auth/scope-omitted-when-undefined":         "15/15",
	"auth/scope-step-up":                        "24/24",
	"auth/scope-retry-limit":                    "19/19",
	"auth/token-endpoint-auth-basic":            "20/20",
	"auth/token-endpoint-auth-post":             "20/20",
	"auth/token-endpoint-auth-none":             "20/20",
	"auth/pre-registration":                     "14/14",
	"auth/2025-03-26-oauth-metadata-backcompat": "13/13",
	"auth/2025-03-26-oauth-endpoint-fallback":   "8/8",
	"auth/resource-mismatch":                    "3/3",
	"auth/offline-access-scope":                 "12/12",
	"auth/offline-access-not-supported":         "14/14",
	"auth/authorization-server-migration":       "28/28",
	"auth/iss-supported":                        "14/14",
	"auth/iss-not-advertised":                   "14/14",
	"auth/iss-supported-missing":                "8/8",
	"auth/iss-wrong-issuer":                     "8/8",
	"auth/iss-unexpected":                       "8/8",
	"auth/iss-normalized":                       "8/8",
	"auth/metadata-issuer-mismatch":             "3/3",
	"sep-2322-client-request-state":             "5/5",
	"http-standard-headers":                     "10/10",
	"http-custom-headers":                       "18/18",
	"http-invalid-tool-headers":                 "12/12",
	"json-schema-ref-no-deref":                  "1/1",
	"json-schema-2020-12-preservation":          "9/9",
}

// TestPeerConformanceLogin runs our client, as the runtime uses it, against the servers of the official suite, mainly
// for logins.
func TestPeerConformanceLogin(t *testing.T) {
	dir := nodetest.Dir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for scenario, want := range clientScenarios {
		t.Run(scenario, func(t *testing.T) {
			out, _ := node(t, dir, conformance(dir), "client", "--command", self, "--scenario", scenario).CombinedOutput()
			verdict(t, string(out), want)
		})
	}
}

// storedTokens are tokens in memory.
type storedTokens map[string]string

func (s storedTokens) Get(key string) (string, error) { return s[key], nil }
func (s storedTokens) Set(key, value string) error    { s[key] = value; return nil }
func (s storedTokens) Remove(key string) error        { delete(s, key); return nil }

// conformingClient does what a user would do with a server of the suite: log in where that is needed, use each tool,
// resource and prompt once, and confirm each question.
func conformingClient(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	var given struct {
		ClientID  string `json:"client_id"`
		Secret    string `json:"client_secret"`
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given)
	server := mcp.Server{Name: "server", URL: address, OAuth: mcp.OAuth{ClientID: given.ClientID,
		ClientSecret:   given.Secret,
		ClientDocument: "https://conformance-test.local/client-metadata.json"}}
	c := mcp.New(mcp.Options{Tokens: storedTokens{}}, server)
	defer c.Close()
	c.Start()
	if err := c.Wait(ctx); err != nil {
		return err
	}
	login := func() error { // the browser: the suite's page redirects at once
		return c.Login(ctx, "server", func(ctx context.Context, page string) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
			if err != nil {
				return "", err
			}
			client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			res, err := client.Do(req)
			if err != nil {
				return "", err
			}
			res.Body.Close()
			return res.Header.Get("Location"), nil
		})
	}
	connected := func() error {
		for tries := 0; ; {
			switch st := c.Servers()[0]; st.State {
			case mcp.Connected:
				return nil
			case mcp.NeedsLogin:
				if tries++; tries > 2 {
					return fmt.Errorf("%s", st.Reason)
				}
				if err := login(); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %s", c.Servers()[0].State, c.Servers()[0].Reason)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	if err := connected(); err != nil {
		return err
	}
	yes := func(_ context.Context, q mcp.Question) (mcp.Answer, error) {
		a := mcp.Answer{Accepted: true, Values: map[string]any{}}
		for _, f := range q.Fields {
			switch {
			case f.Type == "boolean" && f.Default == "":
				a.Values[f.Name] = true
			}
		}
		return a, nil
	}
	call := func(name string, input []byte) tool.Result {
		r := tool.Call(ctx, c.Tools(yes), llm.ToolCall{ID: "1", Name: name, Input: input}, tool.AllowAll, nil)
		fmt.Fprintln(os.Stderr, name, r.IsError, llm.TextOf(r.Parts))
		return r
	}
	for _, x := range given.ToolCalls {
		call("mcp__server__"+x.Name, x.Arguments)
	}
	set := c.Tools(nil)
	for _, name := range set.Names() {
		if len(given.ToolCalls) > 0 {
			break
		}
		input := []byte(`{"a":5,"b":3,"region":"us-west1"}`)
		if other, ok := set.Find("mcp__server__json_schema_2020_12_tool"); ok { // its schema is sent back
			input = fmt.Appendf(nil, `{"schema":%s}`, other.Schema)
		}
		r := call(name, input)
		for range 3 { // the server asks for more scopes
			if !r.IsError || !strings.Contains(llm.TextOf(r.Parts), "login") {
				break
			}
			if err := login(); err != nil {
				return err
			}
			if err := connected(); err != nil {
				return err
			}
			r = call(name, []byte(`{}`))
		}
	}
	list := tool.Call(ctx, mcp.ResourceTools(c), llm.ToolCall{ID: "2", Name: "list_mcp_resources", Input: []byte(`{}`)},
		tool.AllowAll, nil)
	for line := range strings.Lines(llm.TextOf(list.Parts)) {
		if uri, ok := strings.CutPrefix(line, "- "); ok {
			c.Read(ctx, "server", strings.Fields(uri)[0])
			break
		}
	}
	if all := c.Prompts(); len(all) > 0 {
		c.Prompt(ctx, all[0].Name, strings.Repeat("x ", len(all[0].Arguments)), "", yes)
	}
	return nil
}
