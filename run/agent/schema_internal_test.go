package agent

import (
	"os"
	"testing"

	"github.com/knack-agent/knack/run/tool"
)

// TestAgentSchema: the schema of the Agent tool is that of its input. UPDATE_SCHEMAS=1 writes it anew.
func TestAgentSchema(t *testing.T) {
	want, err := tool.SchemaOf[agentInput]()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_SCHEMAS") != "" {
		if err := os.WriteFile("prompts/agent.json", append(want, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if got := Tools()[0].Schema; string(got) != string(want) {
		t.Errorf("prompts/agent.json is not up to date: UPDATE_SCHEMAS=1 go test ./run/agent -run Schema")
	}
}
