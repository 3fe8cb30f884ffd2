package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// TestWrittenCalls: a call that a server passed on as text is not run, and the user is told what the server needs; what
// only quotes one is an answer.
func TestWrittenCalls(t *testing.T) {
	for text, told := range map[string]bool{
		"I look.\n<tool_call>\n{\"name\": \"show\", \"arguments\": {}}\n</tool_call>\n":           true,
		"<tool_call>\n<function=show>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>": true,
		"<function=show>\n{}\n</function>":                                                        true,
		"<|tool_calls_section_begin|><|tool_call_begin|>functions.show:0<|tool_call_argument_begin|>" +
			"{}<|tool_call_end|><|tool_calls_section_end|>": true,
		"[TOOL_CALLS][{\"name\":\"show\",\"arguments\":{}}]":                                  true,
		"[TOOL_CALLS]show{\"a\":1}":                                                           true,
		"I look.\n\n<function=show>\n<parameter=a> 1\n":                                       true,
		"```\n<function=show>\n<parameter=a> 1\n":                                             false,
		"A call begins with <function=show>":                                                  false,
		"<tool_call>{\"name\": \"other\"}</tool_call>":                                        false,
		"<tool_call>{\"name\": \"showing\"}</tool_call>":                                      false,
		"The tags are <tool_call>{\"name\": \"show\"}</tool_call>, as the template has them.": false,
		"```\n<tool_call>{\"name\": \"show\"}</tool_call>\n```":                               false,
		"done": false,
	} {
		ran := false
		show := tool.New("show", "", func(context.Context, struct{}, tool.Input) (tool.Result, error) {
			ran = true
			return tool.Text("shown"), nil
		})
		a := &agent.Agent{Model: llmtest.New(llmtest.Reply(text)), Tools: tool.Set{show}, Policy: agent.Policy{Gate: open}}
		var notes []string
		for e, err := range a.Run(t.Context(), session.New(session.Header{}), agent.Input{Text: "see"}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Entry != nil && e.Entry.Note != nil && e.Entry.Note.People != "" {
				notes = append(notes, e.Entry.Note.People)
			}
		}
		if ran {
			t.Errorf("%q ran", text)
		}
		if got := len(notes) == 1 && strings.Contains(notes[0], "a call of show as text, which is not run"); got != told ||
			len(notes) > 1 {
			t.Errorf("%q: %q", text, notes)
		}
	}
}
