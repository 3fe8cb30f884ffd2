package coding

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/knack-agent/knack/tool"
)

// TestSchemas: the schema of each tool is that of its input. UPDATE_SCHEMAS=1 writes them anew.
func TestSchemas(t *testing.T) {
	derived := map[string]func() (json.RawMessage, error){
		"ask": tool.SchemaOf[askInput], "bash": tool.SchemaOf[bashInput], "bash_output": tool.SchemaOf[bashOutputInput],
		"bash_kill": tool.SchemaOf[bashKillInput], "edit": tool.SchemaOf[editInput], "find": tool.SchemaOf[findInput],
		"grep": tool.SchemaOf[grepInput], "ls": tool.SchemaOf[lsInput], "read": tool.SchemaOf[readInput],
		"todo": tool.SchemaOf[todoInput], "write": tool.SchemaOf[writeInput],
	}
	for _, x := range Tools(nil, Options{Jobs: &Jobs{}}) {
		schema := derived[x.Name]
		if schema == nil {
			t.Errorf("%s: which type is its input?", x.Name)
			continue
		}
		want, err := schema()
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("UPDATE_SCHEMAS") != "" {
			if err := os.WriteFile(x.Name+".json", append(want, '\n'), 0o666); err != nil {
				t.Fatal(err)
			}
		} else if string(x.Schema) != string(want) {
			t.Errorf("%s.json is not up to date: UPDATE_SCHEMAS=1 go test ./tool/coding -run Schemas", x.Name)
		}
	}
}
