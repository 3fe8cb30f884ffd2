package schedule

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/knack-agent/knack/tool"
)

// TestSchemas: the schema of each tool is that of its input. UPDATE_SCHEMAS=1 writes them anew.
func TestSchemas(t *testing.T) {
	derived := map[string]func() (json.RawMessage, error){"CronCreate": tool.SchemaOf[createInput],
		"CronList": tool.SchemaOf[struct{}], "CronDelete": tool.SchemaOf[deleteInput]}
	for _, x := range Tools(nil, "") {
		want, err := derived[x.Name]()
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("UPDATE_SCHEMAS") != "" {
			if err := os.WriteFile(x.Name+".json", append(want, '\n'), 0o666); err != nil {
				t.Fatal(err)
			}
		} else if string(x.Schema) != string(want) {
			t.Errorf("%s.json is not up to date: UPDATE_SCHEMAS=1 go test ./tool/schedule -run Schemas", x.Name)
		}
	}
}
