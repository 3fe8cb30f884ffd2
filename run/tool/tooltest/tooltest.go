// Package tooltest tests tools.
//
// Most programs start with package engine.
package tooltest

import (
	"os"
	"testing"

	"github.com/knack-agent/knack/run/tool"
)

// Schemas checks that the schema of each tool is the one derived from the Go type of its input. [tool.Define] must have
// made the tools. If the environment variable UPDATE_SCHEMAS is not empty, Schemas writes each schema to NAME.json in
// the working directory instead.
func Schemas(t *testing.T, tools tool.Set) {
	t.Helper()
	for i := range tools {
		x := &tools[i]
		want, err := x.DerivedSchema()
		if err != nil {
			t.Errorf("%s: %v", x.Name, err)
			continue
		}
		if os.Getenv("UPDATE_SCHEMAS") != "" {
			if err := os.WriteFile(x.Name+".json", append(want, '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if string(x.Schema) != string(want) {
			t.Errorf("%s has another schema than %s.json, which it must embed: UPDATE_SCHEMAS=1 go test -run Schemas writes it",
				x.Name, x.Name)
		}
	}
}
