package tooltest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/tool"
)

type input struct {
	Path string `json:"path" jsonschema:"a file"`
}

// TestDerivedSchema: the schema of a tool's input does not depend on the one that it was given.
func TestDerivedSchema(t *testing.T) {
	run := func(context.Context, input, tool.Input) (tool.Result, error) { return tool.Result{}, nil }
	x := tool.Define("x", "", []byte(`{"type":"object"}`), run)
	got, err := x.DerivedSchema()
	if err != nil || !strings.Contains(string(got), `"a file"`) {
		t.Errorf("%s, %v", got, err)
	}
	y := tool.New("y", "", run)
	if string(y.Schema) != string(got) {
		t.Errorf("New has %s", y.Schema)
	}
	z := tool.Tool{Name: "z", Schema: json.RawMessage(`{}`)}
	if _, err := z.DerivedSchema(); err == nil {
		t.Error("a tool whose input has no Go type has one")
	}
}
