package serverfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/run/mcp"
)

// TestManagedServers: a server of the managed settings has its name for itself, whoever else defines one that has the
// same name to models; a name of the user's is not the project's.
func TestManagedServers(t *testing.T) {
	dir, home, managed := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(managed, "settings.json"), `{"mcpServers": {"the_db": {"command": "managed"}}}`)
	write(filepath.Join(home, "settings.json"), `{"mcpServers": {"the db": {"command": "user"},
		"mine": {"command": "user"}}}`)
	write(filepath.Join(dir, ".mcp.json"), `{"mcpServers": {"the_db": {"command": "project"},
		"mine": {"command": "project"}, "theirs": {"command": "project"}}}`)
	for _, strict := range []bool{false, true} {
		c, err := config.Load(config.Options{Managed: []string{managed}, ConfigHome: home, Dir: dir, Root: dir})
		if err != nil {
			t.Fatal(err)
		}
		approved, err := trust.Open("").Project(dir)
		if err != nil {
			t.Fatal(err)
		}
		approved.Once()
		given, err := Read(`{"the.db": {"command": "flag"}, "given": {"command": "flag"}}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		servers, problems := New(Options{Config: c, Trust: approved, Dir: dir, Root: dir, Given: []Given{given},
			Plugins: func() ([]mcp.Server, []knack.Problem) { return nil, nil }, Strict: strict, Project: true}).Servers()
		var got []string
		for _, s := range servers {
			got = append(got, s.Name+" "+s.Command)
		}
		want, left := "the_db managed, given flag, mine user, theirs project", 4
		if strict {
			want, left = "the_db managed, given flag", 1
		}
		if all := strings.Join(got, ", "); all != want || len(problems) != left {
			t.Errorf("strict %v: %s; %v", strict, all, problems)
		}
	}
}
