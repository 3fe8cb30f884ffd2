// Package oracle compares our adapters and scripted servers with the vendors' official SDKs: each SDK reads the
// scripted server's stream, and decodes the requests of our adapter without losing a field.
package oracle

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	ooption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"github.com/knack-agent/knack/llm/llmtest"
)

var answer = llmtest.Answer{Thinking: "I should look.", Text: "Let me see.",
	Calls: []llmtest.Call{{Name: "read", Input: map[string]any{"path": "a"}}, {Name: "ls"}}}

func TestAnthropicReads(t *testing.T) {
	s := llmtest.NewServer(answer)
	defer s.Close()
	c := anthropic.NewClient(aoption.WithBaseURL(s.URL), aoption.WithAPIKey(llmtest.Key), aoption.WithMaxRetries(0))
	st := c.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
		MaxTokens: 100, Model: "m",
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	})
	var m anthropic.Message
	for st.Next() {
		if err := m.Accumulate(st.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if st.Err() != nil {
		t.Fatal(st.Err())
	}
	if len(m.Content) != 4 || m.Content[0].Thinking != "I should look." || m.Content[0].Signature == "" ||
		m.Content[1].Text != "Let me see." ||
		string(m.Content[2].Input) != `{"path":"a"}` || m.StopReason != "tool_use" || m.Usage.OutputTokens == 0 {
		t.Errorf("got %s", m.RawJSON())
	}
}

func TestChatReads(t *testing.T) {
	s := llmtest.NewServer(answer)
	defer s.Close()
	c := openai.NewClient(ooption.WithBaseURL(s.URL+"/v1"), ooption.WithAPIKey(llmtest.Key), ooption.WithMaxRetries(0))
	st := c.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "m",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}})
	var acc openai.ChatCompletionAccumulator
	for st.Next() {
		acc.AddChunk(st.Current())
	}
	if st.Err() != nil {
		t.Fatal(st.Err())
	}
	m := acc.Choices[0]
	if m.Message.Content != "Let me see." || len(m.Message.ToolCalls) != 2 ||
		m.Message.ToolCalls[0].Function.Arguments != `{"path":"a"}` || m.FinishReason != "tool_calls" {
		t.Errorf("got %+v", m)
	}
}

func TestResponsesReads(t *testing.T) {
	s := llmtest.NewServer(answer)
	defer s.Close()
	c := openai.NewClient(ooption.WithBaseURL(s.URL+"/v1"), ooption.WithAPIKey(llmtest.Key), ooption.WithMaxRetries(0))
	st := c.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{
		Model: "m", Store: openai.Bool(false),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			{OfMessage: &responses.EasyInputMessageParam{
				Type: "message", Role: "user",
				Content: responses.EasyInputMessageContentUnionParam{
					OfInputItemContentList: responses.ResponseInputMessageContentListParam{
						responses.ResponseInputContentParamOfInputText("hi")}},
			}}}},
	})
	var text, calls, thinking, end string
	for st.Next() {
		switch ev := st.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += ev.Delta
		case responses.ResponseReasoningSummaryTextDeltaEvent:
			thinking += ev.Delta
		case responses.ResponseOutputItemDoneEvent:
			if f, ok := ev.Item.AsAny().(responses.ResponseFunctionToolCall); ok {
				calls += f.Name + f.Arguments
			}
		case responses.ResponseCompletedEvent:
			end = string(ev.Response.Status)
		}
	}
	if st.Err() != nil {
		t.Fatal(st.Err())
	}
	if text != "Let me see." || thinking != "I should look." || calls != `read{"path":"a"}ls{}` || end != "completed" {
		t.Errorf("got %q %q %q %q", text, thinking, calls, end)
	}
}

func TestGeminiReads(t *testing.T) {
	s := llmtest.NewServer(answer)
	defer s.Close()
	c, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: llmtest.Key, Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	var text, calls, thinking string
	signed := 0
	for r, err := range c.Models.GenerateContentStream(t.Context(), "m", genai.Text("hi"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		for _, cand := range r.Candidates {
			if cand.Content == nil {
				continue
			}
			for _, p := range cand.Content.Parts {
				switch {
				case p.FunctionCall != nil:
					args, _ := json.Marshal(p.FunctionCall.Args)
					calls += p.FunctionCall.Name + string(args)
				case p.Thought:
					thinking += p.Text
				default:
					text += p.Text
				}
				if len(p.ThoughtSignature) > 0 {
					signed++
				}
			}
		}
	}
	if text != "Let me see." || thinking != "I should look." || calls != `read{"path":"a"}ls{}` || signed != 1 {
		t.Errorf("got %q %q %q %d", text, thinking, calls, signed)
	}
}

// TestRequests: decoding and encoding the golden requests of our adapters with the SDKs' types loses and changes
// nothing.
func TestRequests(t *testing.T) {
	for name, into := range map[string]func() any{
		"anthropic": func() any { return &anthropic.MessageNewParams{} },
		"chat":      func() any { return &openai.ChatCompletionNewParams{} },
		"responses": func() any { return &responses.ResponseNewParams{} },
		"gemini":    func() any { return &geminiRequest{} },
	} {
		data, err := os.ReadFile("../llmtest/testdata/" + name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		for dec.More() {
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				t.Fatal(err)
			}
			// The marker for calls of other models is base64 for URLs, which the service accepts and the SDK's
			// decoder does not.
			raw = bytes.ReplaceAll(raw, []byte("skip_thought_signature_validator"), []byte("skip/thought/signature/validator"))
			v := into()
			if err := json.Unmarshal(raw, v); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			back, err := json.Marshal(v)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var want, got map[string]any
			json.Unmarshal(raw, &want)
			json.Unmarshal(back, &got)
			delete(want, "stream") // the SDKs add it when sending
			for _, d := range lost("", want, got) {
				t.Errorf("%s: %s", name, d)
			}
		}
	}
}

// geminiRequest is the request that the SDK sends; the SDK exports no type for it.
type geminiRequest struct {
	SystemInstruction *genai.Content          `json:"systemInstruction,omitempty"`
	Contents          []*genai.Content        `json:"contents,omitempty"`
	Tools             []*genai.Tool           `json:"tools,omitempty"`
	GenerationConfig  *genai.GenerationConfig `json:"generationConfig,omitempty"`
}

// lost lists what is missing or different in got.
func lost(at string, want, got any) (out []string) {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for k, v := range w {
			if _, ok := g[k]; !ok && !empty(v) {
				out = append(out, at+"."+k+" is lost")
			} else if ok {
				out = append(out, lost(at+"."+k, v, g[k])...)
			}
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{at + ": another length"}
		}
		for i := range w {
			out = append(out, lost(at, w[i], g[i])...)
		}
	case string: // base64 is equal with and without padding
		g, _ := got.(string)
		if w != g && !strings.EqualFold(w, g) && strings.NewReplacer("_", "/", "-", "+").Replace(g) != w {
			out = append(out, at+": "+w+" became "+g)
		}
	default:
		if !reflect.DeepEqual(want, got) {
			out = append(out, at+" changed")
		}
	}
	return out
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
