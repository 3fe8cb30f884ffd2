package batch

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/tool/tooltest"
)

func TestSchemas(t *testing.T) { tooltest.Schemas(t, Tools(nil, "", nil)) }

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
		s, err := Tools(nil, "/dir", nil)[0].Subjects(context.Background(), json.RawMessage(c.input))
		switch {
		case (err != nil) != c.bad:
			t.Errorf("%s: %v", c.input, err)
		case err == nil && (s[0].EveryTime != c.every || (s[0].Default == permission.Allow) == c.every):
			t.Errorf("%s: %+v", c.input, s[0])
		}
	}
}
