package openai

import (
	"encoding/json"

	"github.com/knack-agent/knack/run/llm/internal/wire"
)

// A chatChunk is an event of a stream, or a whole answer.
type chatChunk struct {
	Model   wire.Label            `json:"model"`
	Choices wire.List[chatChoice] `json:"choices"`
	Usage   wire.Maybe[chatUsage] `json:"usage"`
	Groq    wire.Maybe[struct {
		Usage wire.Maybe[chatUsage] `json:"usage"`
		Error json.RawMessage       `json:"error"`
	}] `json:"x_groq"`
	Error json.RawMessage `json:"error"`
}

type chatChoice struct {
	Index   wire.Count            `json:"index"`
	Delta   wire.Maybe[chatDelta] `json:"delta"`
	Message wire.Maybe[chatDelta] `json:"message"` // of an answer that is no stream
	Text    wire.Content          `json:"text"`
	Finish  wire.Label            `json:"finish_reason"`
	Camel   wire.Label            `json:"finishReason"`         // Google
	Native  wire.Label            `json:"native_finish_reason"` // OpenRouter
	Usage   wire.Maybe[chatUsage] `json:"usage"`                // Moonshot
	Error   json.RawMessage       `json:"error"`
}

type chatDelta struct {
	Content          wire.Content         `json:"content"`
	Refusal          wire.Content         `json:"refusal"`
	Reasoning        wire.Content         `json:"reasoning"`
	ReasoningContent wire.Content         `json:"reasoning_content"`
	ReasoningText    wire.Content         `json:"reasoning_text"`
	ReasoningDetails json.RawMessage      `json:"reasoning_details"`
	ToolCalls        wire.List[callPiece] `json:"tool_calls"`
	FunctionCall     wire.Maybe[function] `json:"function_call"` // the old format
	Extra            json.RawMessage      `json:"extra_content"`
}

type callPiece struct {
	Index    *wire.Count          `json:"index"`
	ID       wire.Label           `json:"id"`
	Function wire.Maybe[function] `json:"function"`
	function                      // some servers leave out the level of Function
	Extra    json.RawMessage      `json:"extra_content"` // Google's signature on the call
}

type function struct {
	Name      wire.Label     `json:"name"`
	Arguments wire.Arguments `json:"arguments"`
}

type chatUsage struct {
	Prompt     wire.Count `json:"prompt_tokens"`
	Completion wire.Count `json:"completion_tokens"`
	Input      wire.Count `json:"input_tokens"`
	Output     wire.Count `json:"output_tokens"`
	Total      wire.Count `json:"total_tokens"`
	Reasons    wire.Maybe[struct {
		Reasoning wire.Count `json:"reasoning_tokens"`
	}] `json:"completion_tokens_details"`
	Hit     wire.Count `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cached  wire.Count `json:"cached_tokens"`           // Moonshot
	Details wire.Maybe[struct {
		Cached wire.Count `json:"cached_tokens"`
		Write  wire.Count `json:"cache_write_tokens"`
	}] `json:"prompt_tokens_details"`
}
