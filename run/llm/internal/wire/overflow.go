package wire

import "strings"

// overflowWords are what servers say if a prompt does not fit into the model's window; few have an error code for it.
// testdata/overflow.txt has a whole message for each, with its source, and messages that mean something else.
var overflowWords = [...]string{
	"prompt is too long",                  // Anthropic
	"exceed context limit",                // Anthropic, input and max_tokens together
	"input is too long",                   // Bedrock
	"maximum context length",              // OpenAI, vLLM, OpenRouter, DeepSeek, Mistral
	"context window",                      // OpenAI Responses, MiniMax; with "exceed"
	"input token count",                   // Gemini
	"exceeds the maximum number of token", // Gemini
	"exceeds the available context size",  // llama.cpp
	"context size has been exceeded",      // llama.cpp
	"greater than the context length",     // LM Studio
	"input length exceeds",                // Ollama
	"prompt too long",                     // Ollama
	"maximum prompt length",               // xAI
	"reduce the length of",                // Groq, OpenAI
	"longer than the model's context",     // Together
	"exceeded model token limit",          // Moonshot
	"too large for model with",            // Mistral
	"exceed the configured limit of",      // Azure
	"context_length_exceeded",             // of OpenAI, in the text of a gateway
	"context length exceeded",             // gateways
	"prompt_too_long",                     // vMLX
	"exceeds max length",                  // Z.ai
	"input length should be",              // Alibaba
	"max tokens allowed",                  // gateways
	"contextwindowexceeded",               // LiteLLM
	"token indices sequence length",       // vLLM for Ascend
	"prefill context too large",           // oMLX
}

// notOverflowWords are in messages about something else that has a limit.
var notOverflowWords = [...]string{"rate limit", "too many requests", "per minute", "per day", "quota", "tpm", "throttl"}

// overflows reports whether an error message means that the prompt is too long for the model's window.
func overflows(message string) bool {
	m := strings.ToLower(message)
	for _, words := range notOverflowWords {
		if strings.Contains(m, words) {
			return false
		}
	}
	for _, words := range overflowWords {
		if strings.Contains(m, words) && (words != "context window" || strings.Contains(m, "exceed")) {
			return true
		}
	}
	return promptOverLimit(m)
}

// promptOverLimit recognises two lengths that are compared: "prompt token count of 9 exceeds the limit of 8", as GitHub
// Copilot says it, or "Prompt has 9 tokens, but the configured context size is 8 tokens", as servers for one model do.
func promptOverLimit(m string) bool {
	if strings.Contains(m, "max_") || strings.Contains(m, "image") { // the limit of a parameter, or of something else
		return false
	}
	what := hasAny(m, "token count", "message size", "input length", "prompt length") ||
		strings.Contains(m, "token") && hasAny(m, "context size", "context length", "context window", "context limit")
	return what && hasAny(m, "exceed", "longer than", "larger than", "greater than", "more than", "but the", " > ")
}

func hasAny(text string, all ...string) bool {
	for _, words := range all {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
