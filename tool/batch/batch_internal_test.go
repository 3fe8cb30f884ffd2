package batch

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/tool"
)

// TestSchema: the schema is that of the input. UPDATE_SCHEMAS=1 writes it anew.
func TestSchema(t *testing.T) {
	want, err := tool.SchemaOf[Input]()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_SCHEMAS") != "" {
		if err := os.WriteFile("Batch.json", append(want, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if x := Tools(nil, "")[0]; string(x.Schema) != string(want) {
		t.Error("Batch.json is not up to date: UPDATE_SCHEMAS=1 go test ./tool/batch -run Schema")
	}
}

// TestSubjects: starting tasks is asked about every time, and inputs that are not complete are refused.
func TestSubjects(t *testing.T) {
	for _, c := range []struct {
		input string
		every bool
		bad   bool
	}{
		{`{"name":"n"}`, false, false},
		{`{"name":"n","max_cost":1,"tasks":[{"id":"a","prompt":"p"}]}`, true, false},
		{`{"name":"n","tasks":[{"id":"a","prompt":"p"}]}`, false, true},
		{`{"name":"n","max_cost":1,"tasks":[{"id":"a","prompt":" "}]}`, false, true},
		{`{"name":"n","max_cost":1,"tasks":[{"id":"a","prompt":"p"},{"id":"a","prompt":"q"}]}`, false, true},
		{`{"name":"n","max_cost":1,"isolation":"vm","tasks":[{"id":"a","prompt":"p"}]}`, false, true},
		{`{"name":"","max_cost":1,"tasks":[{"id":"a","prompt":"p"}]}`, false, true},
	} {
		s, err := Tools(nil, "/dir")[0].Subjects(context.Background(), json.RawMessage(c.input))
		switch {
		case (err != nil) != c.bad:
			t.Errorf("%s: %v", c.input, err)
		case err == nil && (s[0].EveryTime != c.every || (s[0].Default == permission.Allow) == c.every):
			t.Errorf("%s: %+v", c.input, s[0])
		}
	}
}
