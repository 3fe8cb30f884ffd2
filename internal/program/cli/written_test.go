package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// elsewhere are the commands that write no file of a project: only to standard output, into the directories of the user
// (settings, state, data, the services of the system), or through the tools of an agent, which ask. skill improve
// writes a SKILL.md through no link, after a yes at a terminal.
const elsewhere = `acp|agents|attach|audit show|audit verify|batch answer|batch cancel|batch logs|batch retry|
batch status|doctor|login|logout|logs|loop|
mcp get|mcp list|mcp login|mcp logout|mcp serve|mcp test|models|permission check|plugin import|plugin list|
plugin marketplace add|plugin marketplace list|plugin marketplace remove|plugin marketplace update|plugin show|
plugin update|plugin validate|policy test|rm|sandbox explain|schedule add|schedule history|schedule install|
schedule list|schedule pause|schedule remove|schedule resume|schedule run|session fork|session import|session list|
session restore|session show|settings check|settings diff|settings keys|settings show|skill accept|skill budget|
skill check|skill diff|skill find|skill improve|skill list|skill pin|skill secrets|skill setup|skill show|skill stats|
skill test|skill update|skill verify|skill why|stop|sync|tool check|tool list|tool run|trust|version|web|why|
worker host|worker run`

// TestWritten fails for a command that is neither in that list nor tried over links in written-links.txtar.
func TestWritten(t *testing.T) {
	script, err := os.ReadFile("testdata/script/written-links.txtar")
	if err != nil {
		t.Fatal(err)
	}
	not := map[string]bool{}
	for name := range strings.SplitSeq(strings.ReplaceAll(elsewhere, "\n", ""), "|") {
		not[name] = true
	}
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "knack ")
		if c.Runnable() && c.HasParent() && !c.HasSubCommands() && c.Parent().Name() != "completion" {
			tried := strings.Contains(string(script), "! exec knack "+name+" ")
			if tried == not[name] {
				t.Errorf("knack %s: tried over links: %t, listed as writing elsewhere: %t", name, tried, not[name])
			}
			delete(not, name)
		}
		for _, below := range c.Commands() {
			look(below)
		}
	}
	look(rootCommand([]string{"--help"}))
	for name := range not {
		t.Errorf("knack %s is listed, but there is no such command", name)
	}
}
