package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestParse reads definitions as other programs write them, and reports the problem of each one that it rejects.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ text, want string }{
		{`{"mcpServers":{"a":{"command":"c","args":["x"],"env":{"K":"v"}}}}`, "a stdio c x"},
		{`{"a":{"url":"https://x/mcp"},"b":{"type":"streamable-http","url":"https://y"}}`,
			"a http https://x/mcp, b http https://y"},
		{`{"a":{"type":"sse","url":"https://x"}}`, "a http https://x"},
		{`{"a":{"url":"https://x","oauth":{"scopes":"read write"}},"b":{"url":"https://y","oauth":{"scopes":["read"]}}}`,
			"a http https://x, b http https://y"},
		{`{"a":{}}`, "! neither a command nor a url"},
		{`{"a":{"command":"c","url":"https://x"}}`, "! both a command and a url"},
		{`{"a":{"command":"c","disabled":true},"b":{"command":"d"}}`, "b stdio d ! MCP server a is off, by its key disabled"},
		{`{"a":{"command":"c","disabld":true}}`, `! did you mean "disabled"`},
		{`{"a":{"command":"c","tool":[{"name":"t","permission_policy":"always_deny"}]}}`, `! did you mean "tools"`},
		{`{"a":{"command":"c","tools":[{"name":"t","permision_policy":"always_deny"}]}}`,
			`! did you mean "permission_policy"`},
		{`{"a":{"command":"c","tools":[{"permission_policy":"always_deny"}]}}`, "! has no name"},
		{`{"a":{"command":"c","tools":{"t":"always_deny"}}}`, "! is not a list"},
		{`{"a":{"command":"c","excludeTools":"t"}}`, "! is not a list"},
		{`{"a":{"command":"c","sandboxEnabled":true}}`, "! restricted something"},
		{`{"a":{"command":"c","autoApprove":["t"],"alwaysAllow":["t"],"auth":{}}}`, "! no effect here: alwaysAllow"},
		{`{"a":{"command":1}}`, "! command cannot be a JSON number"},
		{`{"…":{"command":"c"}}`, "! letters"},
		{`[]`, "! not a JSON object"},
		{`{"mcpServers":[]}`, "! not an object"},
	} {
		servers, problems := Parse([]byte(x.text), permission.User, "f")
		var all []string
		for _, s := range servers {
			all = append(all, s.Name+" "+string(s.Transport())+" "+s.Target())
		}
		got := strings.Join(all, ", ")
		for _, p := range problems {
			got += " ! " + p.Message
		}
		if want, ok := strings.CutPrefix(x.want, "! "); ok && !strings.Contains(got, want) || !ok && got != x.want {
			t.Errorf("%s: %q, want %q", x.text, got, x.want)
		}
	}
}

// TestExpand: definitions of the user can use all variables, those of a project no keys.
func TestExpand(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		return map[string]string{"HOME": "/h", "GITHUB_TOKEN": "t", "OPENAI_API_KEY": "k", "EMPTY": ""}[name]
	}
	for _, x := range []struct {
		text   string
		origin permission.Origin
		want   string
	}{
		{"${HOME}/x", permission.User, "/h/x"},
		{"${GITHUB_TOKEN}", permission.User, "t"},
		{"${NONE:-d}", permission.User, "d"},
		{"${EMPTY:-d}", permission.User, "d"},
		{"${NONE}", permission.User, "! NONE is not set"},
		{"${env:HOME}/x", permission.User, "/h/x"}, // as editors write it
		{"${env:GITHUB_TOKEN}", permission.Project, "! not given"},
		{"${input:key}", permission.User, "! a question of VS Code's"},
		{"$HOME ${1} ${A B}", permission.User, "$HOME ${1} ${A B}"},
		{"${HOME}", permission.Project, "/h"},
		{"${GITHUB_TOKEN}", permission.Project, "! not given"},
		{"${GITHUB_TOKEN:-x}", permission.Project, "! not given"},
		{"${OPENAI_API_KEY}", permission.Project, "! not given"},
		{"${npm_config_authToken}", permission.Project, "! not given"},
		{"${DB_PASSWORD}", permission.Project, "! not given"},
		{"${MONKEY:-m}", permission.Project, "m"},
	} {
		for _, s := range []Server{{Command: x.text}, {URL: x.text}, {Args: []string{x.text}},
			{Env: map[string]string{"A": x.text}}, {Headers: map[string]string{"A": x.text}}} {
			s.Origin = x.origin
			e, err := s.expand(env)
			got := e.Command + e.URL + strings.Join(e.Args, "") + e.Env["A"] + e.Headers["A"]
			if want, ok := strings.CutPrefix(x.want, "! "); ok && (err == nil || !strings.Contains(err.Error(), want)) || !ok &&
				(err != nil || got != x.want) {
				t.Errorf("%s of %s: %q %v, want %q", x.text, x.origin, got, err, x.want)
			}
		}
	}
}

// TestExpandHome: ~ is the home at the beginning of a command and of an argument, and nowhere else.
func TestExpandHome(t *testing.T) {
	t.Parallel()
	s, err := Server{Command: "~/bin/x", Args: []string{"~/y", "a~/z", "~z"}, URL: "~/u"}.expand(func(string) string { return "/h" })
	if got := fmt.Sprint(s.Command, s.Args, s.URL, err); got != "/h/bin/x[/h/y a~/z ~z]~/u<nil>" {
		t.Error(got)
	}
}

// TestOwnVariables: what the user's settings name is for the user's servers, and for no others.
func TestOwnVariables(t *testing.T) {
	t.Parallel()
	c := Client{opt: Options{Getenv: func(name string) string { return map[string]string{"A": "process"}[name] },
		Own: func(name string) string { return "settings" }}}
	for origin, want := range map[permission.Origin]string{permission.User: "process settings", permission.Project: "process ",
		permission.Plugin: "process "} {
		get := c.opt.variables(origin)
		if got := get("A") + " " + get("B"); got != want {
			t.Errorf("%s: %q, want %q", origin, got, want)
		}
	}
}

// TestCommandLine: a command line in the place of a program is named, with how it is written.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"npx -y x": `"command": "npx", "args": ["-y","x"]`, "npx": "", "/opt/My App/x": "", "./my server": "", "~/my server": "",
	} {
		_, problems := Parse(fmt.Appendf(nil, `{"a": {"command": %q}}`, command), permission.User, ".mcp.json")
		if got := fmt.Sprint(len(problems)); want == "" && got != "0" || want != "" && (got != "1" || problems[0].Hint != want) {
			t.Errorf("%s: %v", command, problems)
		}
	}
}

// TestExpandOrder: of several variables that are not set, the error names the same in each run.
func TestExpandOrder(t *testing.T) {
	t.Parallel()
	all := map[string]string{}
	for _, name := range strings.Split("ABCDEFGH", "") {
		all[name] = "${NONE_" + name + "}"
	}
	for range 20 {
		_, err := Server{Env: all}.expand(func(string) string { return "" })
		if err == nil || !strings.Contains(err.Error(), "NONE_A") {
			t.Fatal(err)
		}
	}
}

// TestURL: without TLS only loopback addresses are allowed; names that imitate others are refused. Found by attack: a
// page that a server asks the user to visit was shown with look-alike letters in its name.
func TestURL(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"https://example.com/mcp": true, "http://localhost:1/": true, "http://127.0.0.1:1": true, "http://[::1]:1": true,
		"http://example.com": false, "http://127.0.0.1.example.com": false, "file:///etc/passwd": false,
		"https://u:p@example.com": false, "example.com": false, "": false, "https://xn--pple-43d.example": true,
		"https://\u0430pple.example": false, "https://a b.example": false, "https://\u212aube.example": false,
	} {
		if _, err := checkURL(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestParseNetwork: none, all, or a list of hosts, whose names do not imitate others.
func TestParseNetwork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"none": "none", "all": "all", " ALL ": "all", "a.example": "a.example",
		"A.example,*.b.example  127.0.0.1:80": "a.example,*.b.example,127.0.0.1:80", "[2001:db8::1]:443": "[2001:db8::1]:443",
		"::1": "::1", "localhost:5432": "localhost:5432", "": "", ",": "", "all,none": "", "a.example,all": "",
		"http://a.example": "", "a/b": "", "\u0430.example": "", "a.example:0": "", "a.example:x": "", "*": "", "*.": "",
		"a..b": "", "a\x1b[31m": "", "\u212aube.example": "",
	} {
		if got, err := ParseNetwork(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	servers, problems := Parse([]byte(`{"a":{"command":"x","network":"a/b"},"b":{"command":"x","network":"A.example"}}`),
		"", "f")
	if len(servers) != 1 || servers[0].Network != "a.example" || len(problems) != 1 {
		t.Errorf("%+v %v", servers, problems)
	}
}

func TestSafe(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"a": "a", "a b": "a_b", "a__b": "a_b", "a::b": "a_b", "__a__": "a", "…": "",
		"A-1_x": "A-1_x"} {
		if got := Safe(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"c ${X:-y}","args":["x"],"env":{"K":"v"}}}}`))
	f.Add([]byte(`{"a":{"url":"https://x/mcp","headers":{"A":"${B}"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		servers, _ := Parse(data, permission.Project, "f")
		for _, s := range servers {
			e, err := s.expand(func(string) string { return "" })
			if err == nil && e.Transport() != s.Transport() && s.URL != "" && e.URL != "" {
				t.Errorf("%q became %q", s.Transport(), e.Transport())
			}
			if Safe(s.Name) == "" {
				t.Errorf("the name %q", s.Name)
			}
			again, problems := Parse(append(append([]byte(`{"x":`), s.JSON()...), '}'), s.Origin, s.DefinedIn)
			if len(again) != 1 || again[0].Target() != s.Target() {
				t.Errorf("%s: %v %v", s.JSON(), again, problems)
			}
		}
	})
}

func FuzzFrontmatter(f *testing.F) {
	f.Add([]byte(`{"name":"a","description":"b: c","metadata":{"version":"1.10","n":1e400}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		head, err := headOf(data)
		if err != nil {
			return
		}
		sameFrontmatter(data, head)
	})
}

// TestToolPolicy: what a definition asks and denies about tools, and as it is written back.
func TestToolPolicy(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ keys, deny, ask, none string }{
		{`"tools":[{"name":"a","permission_policy":"always_deny"},{"name":"b","permission_policy":"always_ask"},` +
			`{"name":"c","permission_policy":"always_allow"}]`, "a", "b", "c d"},
		{`"tools":[{"name":"a","permission_policy":"always_allow","org_max_permission":"blocked"},` +
			`{"name":"b","org_max_permission":"ask"},{"name":"c","org_max_permission":"allow"}]`, "a", "b", "c d"},
		{`"tools":[{"name":"a","permission_policy":"ask_twice"}]`, "", "a", "b"}, // a later version's
	} {
		servers, problems := Parse([]byte(`{"s":{"command":"x",`+x.keys+`}}`), permission.User, "f")
		if len(servers) != 1 || len(problems) > 0 {
			t.Fatal(x.keys, problems)
		}
		again, problems := Parse([]byte(`{"s":`+string(servers[0].JSON())+`}`), permission.User, "f")
		if len(again) != 1 || len(problems) > 0 {
			t.Fatalf("%s: written as %s: %v", x.keys, servers[0].JSON(), problems)
		}
		for _, s := range []Server{servers[0], again[0]} {
			for policy, names := range map[permission.Policy]string{permission.PolicyDeny: x.deny, permission.PolicyAsk: x.ask,
				"": x.none} {
				for _, name := range strings.Fields(names) {
					if got := s.Policy.Now().of(name); got != policy {
						t.Errorf("%s: %s is %q, want %q", x.keys, name, got, policy)
					}
				}
			}
		}
	}
}

// TestToolsOfDefinitions: a definition says which tools of a server may be used, in the words of any program; what it
// says is kept when it is written, and a stored list of tools of one without limits is not that of one with them.
func TestToolsOfDefinitions(t *testing.T) {
	t.Parallel()
	listed := []*sdk.Tool{{Name: "get", InputSchema: map[string]any{"type": "object"}},
		{Name: "put", InputSchema: map[string]any{"type": "object"}}}
	free, _ := Parse([]byte(`{"a": {"command": "c"}}`), permission.User, "f")
	for keys, want := range map[string]string{
		`"description": "x"`: "get put", `"tools": ["*"]`: "get put", `"tools": null`: "get put",
		`"enabledTools": ["get"]`: "get", `"enabled_tools": ["get"]`: "get", `"includeTools": ["get"]`: "get",
		`"tools": ["get"]`: "get", `"enabledTools": []`: "", `"disabledTools": ["put"]`: "get",
		`"disabled_tools": ["put"]`: "get", `"excludeTools": ["put"]`: "get",
		`"tools": ["get", "put"], "excludeTools": ["put"]`: "get", `"tools": [{"name": "get"}]`: "get put",
		`"tools": "get"`: "!", `"toolPermissions": {"get": "blocked"}`: "!",
	} {
		servers, problems := Parse([]byte(`{"a": {"command": "c", `+keys+`}}`), permission.User, "f")
		if want == "!" {
			if len(servers) != 0 || len(problems) == 0 || problems[0].Severity != knack.Error {
				t.Errorf("%s: %v %v, want an error", keys, servers, problems)
			}
			continue
		}
		if len(servers) != 1 {
			t.Fatalf("%s: %v", keys, problems)
		}
		again, _ := Parse([]byte(`{"a": `+string(servers[0].JSON())+`}`), permission.User, "f")
		for _, s := range append(servers, again...) {
			p := &peer{safe: "a", server: s}
			var got []string
			for _, d := range p.define(listed, &p.problems) {
				got = append(got, d.Own)
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s: %q, want %q", keys, text, want)
			}
		}
		if (want == "get put") != (servers[0].identity() == free[0].identity()) {
			t.Errorf("%s: the stored list of tools is that of the server without limits", keys)
		}
	}
}

// TestOff: an entry without a program turns off what another file defines, whatever stands beside it.
func TestOff(t *testing.T) {
	t.Parallel()
	got := Off([]byte("\ufeff" + `{"mcpServers": {"a": {"enabled": false}, "b": {"disabled": true}, "c": {"enabled": true}, "d": 7,
		"e": {"command": "x", "enabled": false}, "f": {"enabled": "no"},}}`))
	if want := "a b"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if Off([]byte("{")) != nil {
		t.Error("a file that cannot be read turns something off")
	}
}
