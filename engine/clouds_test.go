package engine

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// TestClouds: the variables that users of Claude Code, and of Azure, have choose the cloud, its model and its address.
func TestClouds(t *testing.T) {
	t.Parallel()
	var path, auth, body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		path, auth, body = r.URL.EscapedPath(), r.Header.Get("Authorization")+r.Header.Get("Api-Key"), string(data)
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"message":"You don't have access to the model with the specified model ID."}`)
	}))
	defer server.Close()
	home := t.TempDir()
	for _, c := range []struct{ env, name, id, path, auth string }{
		{"CLAUDE_CODE_USE_BEDROCK=1 ANTHROPIC_API_KEY=other AWS_ACCESS_KEY_ID=AKID AWS_SECRET_ACCESS_KEY=s", "",
			"bedrock/claude-sonnet-5-5", "/model/global.anthropic.claude-sonnet-5-5/", "AWS4-HMAC-SHA256 Credential=AKID/"},
		{"CLAUDE_CODE_USE_BEDROCK=true AWS_BEARER_TOKEN_BEDROCK=b", "us.anthropic.claude-haiku-4-5-20251001-v1:0",
			"bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
			"/model/us.anthropic.claude-haiku-4-5-20251001-v1:0/invoke-with", "Bearer b"},
		{"CLAUDE_CODE_USE_BEDROCK=1 AWS_BEARER_TOKEN_BEDROCK=b", "arn:aws:bedrock:us-east-1:1:inference-profile/x",
			"bedrock/arn:aws:bedrock:us-east-1:1:inference-profile/x",
			"/model/arn:aws:bedrock:us-east-1:1:inference-profile%2Fx/", "Bearer b"},
		{"CLAUDE_CODE_USE_BEDROCK=1 AWS_BEARER_TOKEN_BEDROCK=b", "opus", "bedrock/claude-opus-5-5",
			"/model/global.anthropic.claude-opus-5-5/", "Bearer b"},
		{"CLAUDE_CODE_USE_BEDROCK=1 AWS_ACCESS_KEY_ID=AKID AWS_SECRET_ACCESS_KEY=s", "bedrock/deepseek.v3.2",
			"bedrock/deepseek.v3.2", "/openai/v1/chat/completions", "AWS4-HMAC-SHA256 Credential=AKID/"},
		{"AWS_BEARER_TOKEN_BEDROCK=b", "bedrock/global.openai.gpt-6.2-sol", "bedrock/global.openai.gpt-6.2-sol",
			"/openai/v1/chat/completions", "Bearer b"},
		{"CLAUDE_CODE_USE_BEDROCK=0 ANTHROPIC_API_KEY=k", "haiku", "anthropic/claude-haiku-5-5", "/v1/messages", ""},
		{"CLAUDE_CODE_USE_VERTEX=1 CLOUD_ML_REGION=eu ANTHROPIC_VERTEX_PROJECT_ID=p CLAUDE_CODE_SKIP_VERTEX_AUTH=1", "haiku",
			"vertex/claude-haiku-5-5", "/projects/p/locations/eu/publishers/anthropic/models/claude-haiku-5-5:streamRaw", ""},
		{"GOOGLE_CLOUD_PROJECT=p CLAUDE_CODE_SKIP_VERTEX_AUTH=1", "vertex/gemini-3.8-flash", "vertex/gemini-3.8-flash",
			"/v1beta1/projects/p/locations/global/publishers/google/models/gemini-3.8-flash:stream", ""},
		{"AZURE_OPENAI_API_KEY=key", "azure/mine", "azure/mine", "/openai/v1/responses", "key"},
	} {
		env := map[string]string{"HOME": home, "KNACK_KEYRING": "file", "ANTHROPIC_BASE_URL": server.URL,
			"ANTHROPIC_BEDROCK_BASE_URL": server.URL, "ANTHROPIC_VERTEX_BASE_URL": server.URL,
			"GOOGLE_VERTEX_BASE_URL": server.URL, "AZURE_OPENAI_ENDPOINT": server.URL}
		for _, kv := range strings.Fields(c.env) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		m := &Models{Env: func(name string) string { return env[name] }}
		model, err := m.Default(t.Context(), c.name)
		if err != nil || model.Info().ID != c.id {
			t.Errorf("%s: %v, %v", c.env, model, err)
			continue
		}
		_, err = llm.Ask(t.Context(), model, &llm.Request{Messages: []llm.Message{{Role: llm.User,
			Parts: []llm.Part{llm.Text("hi")}}}})
		if !strings.HasPrefix(path, c.path) || !strings.HasPrefix(auth, c.auth) || !json.Valid([]byte(body)) {
			t.Errorf("%s: %s, %s, %s", c.env, path, auth, body)
		}
		if err == nil || !strings.Contains(err.Error(), "You don't have access to the model") {
			t.Errorf("%s: %v", c.env, err)
		}
		if (strings.Contains(c.id, "claude") || strings.Contains(c.id, "openai.")) && model.Info().Price.Input == 0 {
			t.Errorf("%s: the price of %s is unknown", c.env, c.id)
		}
	}
	m := &Models{Env: func(name string) string { return map[string]string{"AZURE_OPENAI_API_KEY": "k"}[name] }}
	if _, err := m.Default(t.Context(), "azure/x"); err == nil || !strings.Contains(err.Error(), "set AZURE_OPENAI_ENDPOINT") {
		t.Error(err)
	}
}
