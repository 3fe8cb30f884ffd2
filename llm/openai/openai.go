// Package openai speaks OpenAI's two formats: Responses, and Chat Completions
// with every server that imitates it (Ollama, llama.cpp, vLLM, LM Studio,
// OpenRouter and others, by base URL).
//
// Most people want [Responses] for OpenAI itself and [Chat] for all else.
// The prompt cache of these providers finds its own breakpoints; what helps it
// is a stable prefix and Request.Session, which goes to OpenAI as the cache
// key. Reasoning is kept and sent back to the model that made it: encrypted
// with Responses, as the server's own fields with Chat.
package openai

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/knack-agent/knack/llm"
)

const official = "https://api.openai.com/v1"

// Chat returns the model at e, spoken to by Chat Completions. The default base
// URL is OpenAI's.
func Chat(e llm.Endpoint) llm.Model { return &chat{named(e)} }

// Responses returns the model at e, spoken to by the Responses format. Nothing
// is stored with the provider. The default base URL is OpenAI's.
func Responses(e llm.Endpoint) llm.Model { return &responses{named(e)} }

func named(e llm.Endpoint) llm.Endpoint {
	if e.Info.ID == "" {
		e.Info.ID = "openai/" + e.Name
	}
	e.BaseURL = strings.TrimSuffix(cmp.Or(e.BaseURL, official), "/")
	return e
}

func authorization(e *llm.Endpoint) http.Header {
	h := http.Header{}
	if e.Key != "" {
		h.Set("Authorization", "Bearer "+e.Key)
	}
	return h
}
