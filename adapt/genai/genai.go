// Package skills adds skills to a loop that uses Google's Gen AI library for Go. The package is named skills because the
// library's own package is named genai. It is a module of its own, so that programs which do not need it do not depend
// on the library.
package skills

import (
	"context"
	"encoding/json"

	"google.golang.org/genai"

	"github.com/knack-agent/knack/adapt"
)

// Tools returns the definitions for GenerateContentConfig.Tools.
func Tools(s *adapt.Skills) []*genai.Tool {
	var all []*genai.FunctionDeclaration
	for _, t := range s.Tools() {
		all = append(all, &genai.FunctionDeclaration{Name: t.Name, Description: t.Description,
			ParametersJsonSchema: t.Schema})
	}
	if all == nil {
		return nil
	}
	return []*genai.Tool{{FunctionDeclarations: all}}
}

// Results answers the calls that are for skills, in their order: of GenerateContentResponse.FunctionCalls, or collected
// from a stream. The program adds responses for its own functions: the next message must have one for each call. A
// refusal is a response with the member error. Images follow the responses as parts of their own: not all models take
// them inside.
func Results(ctx context.Context, s *adapt.Skills, calls []*genai.FunctionCall) []*genai.Part {
	var all, images []*genai.Part
	for _, call := range calls {
		input, err := json.Marshal(call.Args)
		if err != nil || call.Args == nil {
			input = json.RawMessage("{}")
		}
		r, ok := s.Call(ctx, call.Name, input)
		if !ok {
			continue
		}
		member := "output"
		if r.Failed {
			member = "error"
		}
		all = append(all, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name,
			Response: map[string]any{member: r.Text}}})
		for _, p := range r.Images {
			images = append(images, genai.NewPartFromBytes(p.Image, p.MIME))
		}
	}
	return append(all, images...)
}
