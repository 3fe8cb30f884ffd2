// Package openai implements OpenAI's two formats: Responses, and Chat Completions, which many other
// servers support too (Ollama, llama.cpp, vLLM, LM Studio, OpenRouter and others, selected by base
// URL).
//
// Use [Responses] for OpenAI itself and [Chat] for all others. These providers choose the
// breakpoints of their prompt caches themselves. A stable prefix helps the caches, and so does
// Request.Session, which is sent to OpenAI as the cache key. Reasoning is kept and sent back to the
// model that made it: encrypted with Responses, in the server's own fields with Chat.
//
// Most programs start with package engine.
package openai

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/knack-agent/knack/run/llm"
)

const official = "https://api.openai.com/v1"

// Chat returns the model at e, called through Chat Completions. The default base
// URL is OpenAI's.
func Chat(e llm.Endpoint) llm.Model { return &chat{e: withDefaults(e)} }

// Responses returns the model at e, called through the Responses API. The provider
// is asked to store nothing. The default base URL is OpenAI's.
func Responses(e llm.Endpoint) llm.Model {
	e.Info.Search = true
	return &responses{e: withDefaults(e)}
}

// The lengths of IDs and names of calls that OpenAI accepts. Other servers may put data into an ID, which
// [Chat] therefore sends back to them as it was.
const (
	maxChatID = 40
	maxID     = 64
	maxName   = 64
)

func withDefaults(e llm.Endpoint) llm.Endpoint {
	if e.Info.ID == "" {
		e.Info.ID = "openai/" + e.Name
	}
	e.BaseURL = strings.TrimSuffix(cmp.Or(e.BaseURL, official), "/")
	return e
}

// address returns the URL of a path of the API.
func address(e *llm.Endpoint, path string) string {
	if e.Cloud != nil {
		return e.Cloud.URL
	}
	return e.BaseURL + path
}

func authorization(e *llm.Endpoint) http.Header {
	h := http.Header{}
	if e.Key != "" && e.Cloud == nil {
		h.Set("Authorization", "Bearer "+e.Key)
	}
	return h
}
