package tool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// A tool is one value: its input is a struct, whose schema the model gets, and rules decide by its subjects.
func Example() {
	type input struct {
		City string `json:"city" jsonschema:"the name of a city"`
	}
	weather := tool.New("weather", "Tells the weather of a city.",
		func(_ context.Context, in input, _ tool.Input) (tool.Result, error) {
			return tool.Text("sunny in " + in.City), nil
		})
	weather.Aliases = []string{"Weather"}
	weather.Effect = tool.Network
	weather.Summary = tool.SummaryOf(func(in input) string { return in.City })
	weather.Subjects = tool.SubjectsOf(func(_ context.Context, in input) []permission.Subject {
		return []permission.Subject{{Kind: "weather", Text: in.City}}
	})

	call := llm.ToolCall{ID: "1", Name: "Weather", Input: json.RawMessage(`{"city":"Bern"}`)}
	fmt.Println(weather.Line(call.Input))
	res := tool.Call(context.Background(), tool.Set{weather}, call, tool.AllowAll, nil)
	fmt.Println(llm.TextOf(res.Parts))
	// Output:
	// Bern
	// sunny in Bern
}
