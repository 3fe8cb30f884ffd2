package agent_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
)

// TestPoints: what a skill asks for is told in sentences, with what is dangerous marked.
func TestPoints(t *testing.T) {
	asks := knack.Asks{Grants: []string{"Bash", "Read(a)", "*"}, Denies: []string{"Write"}, Commands: []string{"date",
		"rm -rf x"}, Model: "haiku", Shell: "bash", Fork: true,
		Hooks: json.RawMessage(`{"Stop": [{"hooks": [{"command": "a"}]}], "PreToolUse": [{"matcher": "Bash", ` +
			`"hooks": [{"url": "http://b"}]}]}`)}
	want := []string{
		"It also asks for Bash, which this answer does not allow.",
		"! It may use * without asking, whatever the call is.",
		"It may use without asking: Read(a).",
		"While it is in use, these are not available: Write.",
		"It runs at once, before its text is read: `date`.",
		"! It runs at once, before its text is read: `rm -rf x`.",
		"It adds a hook: on PreToolUse of Bash it runs `http://b`.",
		"It adds a hook: on Stop it runs `a`.",
		"It switches to the model haiku until the turn ends.",
		"Its commands run in the shell bash.",
		"It runs in a sub-agent, which sees only the skill's text, not the conversation.",
	}
	var got []string
	for _, p := range agent.PointsOf(asks, map[string]string{"Bash": "it covers everything"}) {
		if p.Danger {
			p.Text = "! " + p.Text
		}
		got = append(got, p.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := agent.DescribeAsks(knack.Asks{Grants: []string{"Read"}, Model: "haiku"}), "allows Read; model haiku"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
