package agent

import (
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// TestNoSuchModel: what providers say about a model that they do not have, and what is like it.
func TestNoSuchModel(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		want   bool
	}{
		{404, "", true},
		{400, "Model Not Exist", true},
		{400, "qwen/none is not a valid model ID", true},
		{400, "The provided model identifier is invalid.", true},
		{400, "Invalid model: mistral-none", true},
		{400, "The requested model 'x' is not supported.", true},
		{400, "model `gpt-9` does not exist or your team does not have access", true},
		{403, "Your account does not have access to model big", true},
		{400, "messages: at least one is required", false},
		{400, "the model does not support images", false},
		{400, "the model is not able to answer", false},
		{403, "the key is invalid", false},
		{500, "model not found", false},
	} {
		if got := noSuchModel(&llm.Error{Status: c.status, Message: c.text}); got != c.want {
			t.Errorf("%d %s: %v", c.status, c.text, got)
		}
	}
}
