package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestLead: an agent leads a session with its prompt, tools, mode and limit of requests. What a session cannot restrict
// in the same way is an error.
func TestLead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d     agent.Definition
		tools string // of the session
		want  []string
		err   string
	}{
		"tools":      {d: agent.Definition{Tools: []string{"Read", "Grep"}}, want: []string{"read", "grep"}},
		"none":       {d: agent.Definition{Tools: []string{}}, want: []string{}},
		"both":       {d: agent.Definition{Tools: []string{"Read", "Bash"}}, tools: "read,grep", want: []string{"read"}},
		"less":       {d: agent.Definition{DisallowedTools: []string{"Bash"}}, tools: "read,bash", want: []string{"read"}},
		"patterns":   {d: agent.Definition{Tools: []string{"Bash(git:*)"}}, err: "tools with patterns"},
		"hooks":      {d: agent.Definition{Hooks: []byte("{}")}, err: "hooks"},
		"isolated":   {d: agent.Definition{Isolated: true}, err: "isolation"},
		"nobody":     {d: agent.Definition{Name: "other"}, err: `no agent "reviewer"`},
		"the mode":   {d: agent.Definition{Tools: []string{"Read"}, Mode: permission.Plan}, want: []string{"read"}},
		"not looser": {d: agent.Definition{Tools: []string{"Read"}, Mode: permission.Bypass}, want: []string{"read"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Model: llmtest.New(),
				Values: map[string]any{"sandbox.mode": "off"}, Env: func(name string) string {
					return map[string]string{"HOME": home, "USERPROFILE": home}[name]
				}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if c.d.Name == "" {
				c.d.Name = "reviewer"
			}
			c.d.Prompt = "You REVIEW."
			s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Agent: "reviewer", Tools: c.tools,
				Host: engine.Host{Agents: []agent.Definition{c.d}}})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatal(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(s.Now().Tools(), func(n string) bool { return n == "Agent" && c.d.Tools == nil })
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("tools %q", got)
			}
			want := permission.Default
			if c.d.Mode == permission.Plan {
				want = permission.Plan
			}
			if s.Mode() != want {
				t.Errorf("mode %s", s.Mode())
			}
		})
	}
}
