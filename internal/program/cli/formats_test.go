package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// wireFormats lists the four wire formats, each with a provider that uses it and the models that the aliases default
// and strong (sonnet and opus in a skill) have there.
var wireFormats = []struct{ provider, path, sonnet, opus string }{
	{"anthropic", "/v1/messages", "claude-sonnet-5-5", "claude-opus-5-5"},
	{"openai-responses", "/v1/responses", "gpt-6.1-terra", "gpt-6.2-sol"},
	{"openai-chat", "/v1/chat/completions", "gpt-6.1-terra", "gpt-6.2-sol"},
	{"google", "/v1beta/models/", "gemini-3.8-flash", "gemini-4-argon"},
}

// TestFormats runs each scenario once per wire format. A script selects the model with --model $MODEL; requests name
// the two models $SONNET and $OPUS. The expected output is the same for all formats: the commands conversation and
// targets describe requests independently of the format.
func TestFormats(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("real pauses between repeated requests")
	}
	for _, f := range wireFormats {
		t.Run(f.provider, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Dir:           "testdata/formats",
				Condition:     func(name string) (bool, error) { return name == f.provider, nil },
				UpdateScripts: *update,
				WorkdirRoot:   scriptRoot(t),
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"llmserver": llmserver, "exits": exits, "dead": dead,
					"skilltext": skilltext, "conversation": writeConversation, "targets": writeTargets,
				},
				Setup: func(e *testscript.Env) error {
					return atHome(e, "MODEL="+f.provider+"/default", "SONNET="+f.path+" "+f.sonnet, "OPUS="+f.path+" "+f.opus)
				},
			})
		})
	}
}

// A wireRequest is a recorded request in any of the formats; each format fills different fields.
type wireRequest struct {
	Path string
	Body struct {
		Model    string
		Output   struct{ Effort string } `json:"output_config"`
		Effort   string                  `json:"reasoning_effort"`
		Thinks   struct{ Effort string } `json:"reasoning"`
		Generate struct {
			Thinking struct {
				Level string `json:"thinkingLevel"`
			} `json:"thinkingConfig"`
		} `json:"generationConfig"`
		Messages, Input, Contents []wirePart
	}
}

// A wirePart is a message, an item or a part of one.
type wirePart struct {
	Type, Role, Name, Text string
	Content, Output        wireText
	ID                     string     `json:"id"`
	CallID                 string     `json:"call_id"`
	ToolCallID             string     `json:"tool_call_id"`
	ToolUseID              string     `json:"tool_use_id"`
	IsError                bool       `json:"is_error"`
	ToolCalls              []wirePart `json:"tool_calls"`
	Function, FunctionCall *wirePart
	FunctionResponse       *struct {
		ID       string
		Response struct{ Output, Error *string }
	}
	Parts   []wirePart
	Thought bool
}

// wireText is a text, or a list of parts.
type wireText []wirePart

func (t *wireText) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*t = wireText{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]wirePart)(t))
}

// lines returns the part as text: one line for each item, with the role and the first line of its text. It omits
// thinking, which not every format sends back.
func (p *wirePart) lines(role string) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	result := func(id, text string, failed bool) {
		if rest, ok := strings.CutPrefix(text, "Error: "); ok { // formats without an error flag begin the text so
			text, failed = rest, true
		}
		first, _, _ := strings.Cut(text, "\n")
		say("%s %s: %s", map[bool]string{false: "result", true: "failed"}[failed], id, first)
	}
	whole := func(t wireText) string {
		var all []string
		for _, p := range t {
			all = append(all, p.Text)
		}
		return strings.Join(all, "\n")
	}
	role = cmp.Or(p.Role, role)
	switch {
	case role == "system" || role == "developer" || p.Thought || p.Type == "thinking" || p.Type == "reasoning":
		return nil
	case p.Type == "tool_result":
		result(p.ToolUseID, whole(p.Content), p.IsError)
	case p.Type == "function_call_output":
		result(p.CallID, whole(p.Output), false)
	case p.Role == "tool":
		result(p.ToolCallID, whole(p.Content), false)
	case p.FunctionResponse != nil && p.FunctionResponse.Response.Error != nil:
		result(p.FunctionResponse.ID, *p.FunctionResponse.Response.Error, true)
	case p.FunctionResponse != nil && p.FunctionResponse.Response.Output != nil:
		result(p.FunctionResponse.ID, *p.FunctionResponse.Response.Output, false)
	case p.Type == "tool_use":
		say("call %s: %s", p.ID, p.Name)
	case p.Type == "function_call":
		say("call %s: %s", p.CallID, p.Name)
	case p.Type == "function":
		say("call %s: %s", p.ID, p.Function.Name)
	case p.FunctionCall != nil:
		say("call %s: %s", p.FunctionCall.ID, p.FunctionCall.Name)
	case p.Text != "":
		first, _, _ := strings.Cut(p.Text, "\n")
		say("%s: %s", strings.Replace(role, "assistant", "model", 1), first)
	default:
		for _, list := range [][]wirePart{p.Content, p.Parts, p.ToolCalls} {
			for _, q := range list {
				out = append(out, q.lines(role)...)
			}
		}
		if len(out) == 0 {
			say("%s: a part that is not known", role)
		}
	}
	return out
}

// writeConversation writes the conversation of the last recorded request, in the same form for each wire format:
// conversation REQUESTS.jsonl OUT
func writeConversation(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: conversation requests.jsonl out")
	}
	all := wireRequests(ts, args[0])
	body := all[len(all)-1].Body
	sizes := regexp.MustCompile(`\(\d+ tokens\)`) // the size of a skill depends on the length of the test directory's path
	var out strings.Builder
	for _, list := range [][]wirePart{body.Messages, body.Input, body.Contents} {
		for _, p := range list {
			for _, line := range p.lines("") {
				line = strings.ReplaceAll(line, ts.Getenv("WORK"), "$WORK")
				fmt.Fprintln(&out, sizes.ReplaceAllString(line, "(N tokens)"))
			}
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out.String()), 0o644))
}

// writeTargets writes the path, model and effort of each recorded request: targets REQUESTS.jsonl OUT
func writeTargets(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: targets requests.jsonl out")
	}
	var out strings.Builder
	for _, r := range wireRequests(ts, args[0]) {
		model := r.Body.Model
		if rest, ok := strings.CutPrefix(r.Path, "/v1beta/models/"); ok {
			r.Path = "/v1beta/models/"
			model = strings.TrimSuffix(rest, ":streamGenerateContent")
		}
		effort := cmp.Or(r.Body.Output.Effort, r.Body.Effort, r.Body.Thinks.Effort, r.Body.Generate.Thinking.Level, "-")
		fmt.Fprintln(&out, r.Path, model, effort)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out.String()), 0o644))
}

func wireRequests(ts *testscript.TestScript, file string) (all []wireRequest) {
	for line := range strings.Lines(ts.ReadFile(file)) {
		var r wireRequest
		ts.Check(json.Unmarshal([]byte(line), &r))
		all = append(all, r)
	}
	if len(all) == 0 {
		ts.Fatalf("%s: no request was recorded", file)
	}
	return all
}
