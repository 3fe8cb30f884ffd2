package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bundled"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
)

// TestHostPlugin: a host's program has a plugin of its own, with a skill that has files and a computed text, a hook and
// a server, and its users switch it on and off.
func TestHostPlugin(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"report/SKILL.md":       {Data: []byte("---\nname: report\ndescription: Writes reports\n---\nNot sent.\n")},
		"report/scripts/run.sh": {Data: []byte("echo hi\n")},
	}
	set := bundled.From(files, t.TempDir(), "1")
	defer set.Close()
	set.Prompt = map[string]func(context.Context, knack.Invocation) ([]knack.Part, error){
		"report": func(_ context.Context, in knack.Invocation) ([]knack.Part, error) {
			return knack.TextPart("Computed for " + in.Args + "."), nil
		}}
	stop, err := hook.New(hook.Stop, "", "", func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	load := func(on bool, settings string) (*engine.Project, *knack.Catalog) {
		t.Helper()
		p, err := engine.Load(t.Context(), engine.Options{Dir: t.TempDir(), Settings: []string{settings},
			Plugged: []engine.BuiltInPlugin{{
				Name: "reports", Description: "reports of the host", On: on, Sources: []knack.Source{set}, Hooks: []hook.Hook{stop},
				Servers: []mcp.Server{{Name: "data", Command: "data-server"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p, knack.Load(t.Context(), p.Sources()...)
	}
	has := func(p *engine.Project, c *knack.Catalog) (skill, server bool) {
		all, _ := p.Servers()
		for _, s := range all {
			server = server || s.Name == "plugin:reports:data"
		}
		return c.Skill("report") != nil, server
	}
	for _, x := range []struct {
		on       bool
		settings string
		want     bool
	}{
		{true, `{}`, true}, {false, `{}`, false},
		{true, `{"enabledPlugins": {"reports@builtin": false}}`, false},
		{false, `{"enabledPlugins": {"reports@builtin": true}}`, true},
	} {
		p, c := load(x.on, x.settings)
		if skill, server := has(p, c); skill != x.want || server != x.want {
			t.Errorf("%v %s: skill %v, server %v", x.on, x.settings, skill, server)
		}
		list, err := p.Plugins().List()
		i, ferr := engine.FindPlugin(list, "reports@builtin", "")
		if err != nil || ferr != nil || i.Used != x.want || i.Brings != "1 place of skills, 1 hook, 1 server" {
			t.Errorf("%v %s: %+v %v %v", x.on, x.settings, i, err, ferr)
		}
	}
	_, c := load(true, `{}`)
	a, err := c.Invoke(t.Context(), knack.Invocation{Name: "report", Args: "May"})
	if err != nil || !strings.Contains(a.Prompt, "Computed for May.") || strings.Contains(a.Prompt, "Not sent") ||
		!strings.Contains(a.Prompt, "- scripts/run.sh") || a.Dir == "" {
		t.Errorf("%v %+v", err, a)
	}
}
