// Package skills adds skills to a loop that uses OpenAI's library for Go. [Tools] and [Results] are for the Responses
// API; [ChatTools] and [ChatResults] are for Chat Completions, the API of most other servers. The package is named
// skills because the library's own package is named openai. It is a module of its own, so that programs which do not
// need it do not depend on the library.
package skills

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/knack-agent/knack/adapt"
)

// Tools returns the definitions for ResponseNewParams.Tools.
func Tools(s *adapt.Skills) []responses.ToolUnionParam {
	var all []responses.ToolUnionParam
	for _, t := range s.Tools() {
		// Not strict: then every field would have to be required, and args is not.
		all = append(all, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{Name: t.Name,
			Description: openai.String(t.Description), Parameters: parse(t.Schema), Strict: openai.Bool(false)}})
	}
	return all
}

// Results answers the calls of an answer that are for skills, in their order. The program adds the outputs of its own
// tools: the next request must have one for each call. A refusal is an output that begins with "refused", for the
// format marks no errors.
func Results(ctx context.Context, s *adapt.Skills, answer *responses.Response) []responses.ResponseInputItemUnionParam {
	var all []responses.ResponseInputItemUnionParam
	for _, item := range answer.Output {
		if item.Type != "function_call" {
			continue
		}
		call := item.AsFunctionCall()
		r, ok := s.Call(ctx, call.Name, json.RawMessage(call.Arguments))
		if !ok {
			continue
		}
		out := responses.ResponseInputItemFunctionCallOutputParam{CallID: openai.String(call.CallID)}
		if len(r.Images) == 0 {
			out.Output.OfString = openai.String(r.Text)
		} else {
			out.Output.OfResponseFunctionCallOutputItemArray = withImages(r)
		}
		all = append(all, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &out})
	}
	return all
}

func withImages(r adapt.Result) responses.ResponseFunctionCallOutputItemListParam {
	all := responses.ResponseFunctionCallOutputItemListParam{
		{OfInputText: &responses.ResponseInputTextContentParam{Text: r.Text}}}
	for _, p := range r.Images {
		url := "data:" + p.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Image)
		all = append(all, responses.ResponseFunctionCallOutputItemUnionParam{
			OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: openai.String(url)}})
	}
	return all
}

// ChatTools returns the definitions for ChatCompletionNewParams.Tools.
func ChatTools(s *adapt.Skills) []openai.ChatCompletionToolUnionParam {
	var all []openai.ChatCompletionToolUnionParam
	for _, t := range s.Tools() {
		all = append(all, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: t.Name,
			Description: openai.String(t.Description), Parameters: parse(t.Schema)}))
	}
	return all
}

// ChatResults is [Results] for Chat Completions, where results cannot have images: a line says how many were left out.
func ChatResults(ctx context.Context, s *adapt.Skills, answer openai.ChatCompletionMessage) (
	all []openai.ChatCompletionMessageParamUnion) {
	for _, call := range answer.ToolCalls {
		r, ok := s.Call(ctx, call.Function.Name, json.RawMessage(call.Function.Arguments))
		if !ok {
			continue
		}
		if n := len(r.Images); n > 0 {
			r.Text += fmt.Sprintf("\n[Images that cannot be shown here: %d]", n)
		}
		all = append(all, openai.ToolMessage(r.Text, call.ID))
	}
	return all
}

// parse reads a schema that package adapt wrote.
func parse(schema json.RawMessage) (m map[string]any) {
	if err := json.Unmarshal(schema, &m); err != nil {
		panic(fmt.Sprintf("the schema of a tool: %v", err))
	}
	return m
}
