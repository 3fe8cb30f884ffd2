// Package skills adds skills to a loop that uses Anthropic's library for Go: [Tools] is for the library's tool runner,
// [Params] and [Results] are for your own loop around Messages.New. The package is named skills because the library's
// own package is named anthropic. It is a module of its own, so that programs which do not need it do not depend on the
// library.
package skills

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/adapt"
)

// Tools returns the tools for a runner: client.Beta.Messages.NewToolRunner, or NewToolRunnerStreaming. The runner
// answers the calls; a refusal is a result that is marked as an error.
func Tools(s *adapt.Skills) []anthropic.BetaTool {
	var all []anthropic.BetaTool
	for _, t := range s.Tools() {
		all = append(all, &runnable{s, t})
	}
	return all
}

// A runnable is a tool as the library's runner wants it.
type runnable struct {
	skills *adapt.Skills
	tool   adapt.Tool
}

func (t *runnable) Name() string        { return t.tool.Name }
func (t *runnable) Description() string { return t.tool.Description }

func (t *runnable) InputSchema() (schema anthropic.BetaToolInputSchemaParam) {
	parse(t.tool.Schema, &schema)
	return schema
}

func (t *runnable) Execute(ctx context.Context, input json.RawMessage) (
	blocks []anthropic.BetaToolResultBlockParamContentUnion, err error) {
	r, _ := t.skills.Call(ctx, t.tool.Name, input)
	if r.Failed {
		return nil, errors.New(r.Text)
	}
	blocks = append(blocks, anthropic.BetaToolResultBlockParamContentUnion{
		OfText: &anthropic.BetaTextBlockParam{Text: r.Text}})
	for _, p := range r.Images {
		blocks = append(blocks, anthropic.BetaToolResultBlockParamContentUnion{OfImage: &anthropic.BetaImageBlockParam{
			Source: anthropic.BetaImageBlockParamSourceUnion{OfBase64: &anthropic.BetaBase64ImageSourceParam{
				Data: encoded(p), MediaType: anthropic.BetaBase64ImageSourceMediaType(p.MIME)}}}})
	}
	return blocks, nil
}

// Params returns the definitions of the tools for MessageNewParams.Tools.
func Params(s *adapt.Skills) []anthropic.ToolUnionParam {
	var all []anthropic.ToolUnionParam
	for _, t := range s.Tools() {
		p := anthropic.ToolParam{Name: t.Name, Description: anthropic.String(t.Description)}
		parse(t.Schema, &p.InputSchema)
		all = append(all, anthropic.ToolUnionParam{OfTool: &p})
	}
	return all
}

// Results answers the calls of an answer that are for skills, in their order. The program adds results for its own
// tools: the next message must have one for each call.
func Results(ctx context.Context, s *adapt.Skills, answer *anthropic.Message) []anthropic.ContentBlockParamUnion {
	var all []anthropic.ContentBlockParamUnion
	for _, block := range answer.Content {
		if block.Type != "tool_use" {
			continue
		}
		r, ok := s.Call(ctx, block.Name, block.Input)
		if !ok {
			continue
		}
		result := anthropic.NewToolResultBlock(block.ID, r.Text, r.Failed)
		for _, p := range r.Images {
			result.OfToolResult.Content = append(result.OfToolResult.Content, anthropic.ToolResultBlockParamContentUnion{
				OfImage: &anthropic.ImageBlockParam{Source: anthropic.ImageBlockParamSourceUnion{
					OfBase64: &anthropic.Base64ImageSourceParam{Data: encoded(p),
						MediaType: anthropic.Base64ImageSourceMediaType(p.MIME)}}}})
		}
		all = append(all, result)
	}
	return all
}

func encoded(p knack.Part) string { return base64.StdEncoding.EncodeToString(p.Image) }

// parse reads a schema that package adapt wrote.
func parse(schema json.RawMessage, into interface{ UnmarshalJSON([]byte) error }) {
	if err := into.UnmarshalJSON(schema); err != nil {
		panic(fmt.Sprintf("the schema of a tool: %v", err))
	}
}
