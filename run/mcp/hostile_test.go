package mcp_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/mcp"
)

// TestTitles: an approval names the tool, whatever title the server gives it. Found by attack: the headline was the
// title, such as "Allow Read?", and the name stood below, in grey.
func TestTitles(t *testing.T) {
	t.Parallel()
	for _, title := range []string{"", "Read", "Read README.md?\n\nAllow Read", "\x1b[2J"} {
		s := sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, nil)
		s.AddTool(&sdk.Tool{Name: "send", Title: title, InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{}, nil
			})
		c := mcp.New(mcp.Options{}, mcp.Server{Name: "demo", Open: func(ctx context.Context) (mcp.Conn, error) {
			near, far := mcp.Pipe()
			go s.Run(ctx, mcp.Transport(far))
			return near, nil
		}})
		c.Start()
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		tools := c.Tools(nil)
		if len(tools) != 1 || !strings.HasPrefix(tools[0].Label, "mcp__demo__send") ||
			strings.ContainsAny(tools[0].Label, "\x1b\n") {
			t.Errorf("%q: %v %v", title, tools, c.Servers())
		}
		c.Close()
	}
}

// TestKeysOfDefinitions: an approved file has no key that encoding/json would match despite its spelling. Found by
// attack: of "command" and "COMMAND" the latter ran, and the page showed both.
func TestKeysOfDefinitions(t *testing.T) {
	t.Parallel()
	for key, bad := range map[string]bool{`"args":["x"]`: false, `"other":1`: false,
		`"COMMAND":"evil"`: true, `"Url":""`: true, `"arg\u017f":["evil"]`: true} {
		servers, problems := mcp.Parse([]byte(`{"mcpServers":{"a":{"command":"safe",`+key+`}}}`), permission.Project, "f")
		problems = slices.DeleteFunc(problems, func(p knack.Problem) bool { return p.Severity == knack.Info })
		if bad != (len(servers) == 0) || bad != (len(problems) == 1) {
			t.Errorf("%s: %v %v", key, servers, problems)
		}
	}
}

// TestPasswordsOfProjects: a project's server cannot use a variable that contains a password, a user's server can.
// Found by attack: ${DATABASE_URL}, ${MYSQL_PWD} and ${SENTRY_DSN} could be sent elsewhere.
func TestPasswordsOfProjects(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": "postgres://u:p4ss@db/x", "MYSQL_PWD": "p4ss", "SENTRY_DSN": "x",
		"API_URL": "https://api.example.com/a@b:c"}
	for name, given := range map[string]bool{"DATABASE_URL": false, "MYSQL_PWD": false, "SENTRY_DSN": false,
		"API_URL": true} {
		for _, origin := range []permission.Origin{permission.Project, permission.User} {
			opened := false
			c := mcp.New(mcp.Options{Getenv: func(n string) string { return env[n] }}, mcp.Server{
				Name: "demo", Args: []string{"${" + name + "}"}, Origin: origin,
				Open: func(context.Context) (mcp.Conn, error) {
					opened = true
					near, far := mcp.Pipe()
					return near, far.CloseConn()
				}})
			c.Start()
			c.Wait(t.Context())
			c.Close()
			if opened != (given || origin == permission.User) {
				t.Errorf("%s for %s: %v", name, origin, opened)
			}
		}
	}
}
