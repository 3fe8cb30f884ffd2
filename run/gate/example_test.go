package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/tool"
)

// A gate decides a call by rules and the user, and its error states the reason for a refusal.
func Example() {
	var rules permission.Rules
	rules.Allow, _ = permission.ParseRules([]string{"deploy(staging)"}, permission.User, "/work")
	g, err := gate.New(gate.Options{
		Rules: rules,
		Paths: permission.PathContext{Dir: "/work"},
		Approver: gate.ApproverFunc(func(_ context.Context, r gate.Request) (gate.Answer, error) {
			fmt.Println("asked about", r.Tool, string(r.Input))
			return gate.Answer{Choice: gate.No, Reason: "not on a Friday"}, nil
		}),
	})
	if err != nil {
		panic(err)
	}
	for _, to := range []string{"staging", "production"} {
		input, _ := json.Marshal(map[string]string{"to": to})
		permit, err := g.Ask(context.Background(), tool.Proposal{
			ID: "1", Name: "deploy", Input: input,
			Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
				return []permission.Subject{{Kind: "deploy", Text: to}}, nil
			},
		})
		var no *gate.Denied
		if errors.As(err, &no) {
			fmt.Println(no.Text)
			continue
		}
		fmt.Println("may run", string(permit.Input))
	}
	// Output:
	// may run {"to":"staging"}
	// asked about deploy {"to":"production"}
	// The user declined this call of deploy: not on a Friday
}
