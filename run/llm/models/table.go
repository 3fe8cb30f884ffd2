package models

import "github.com/knack-agent/knack/run/llm"

// builtIn returns the program's own table. Windows, limits and prices are those of the npm package
// @earendil-works/pi-ai 1.6.0, with two exceptions: answers are limited to 131,072 tokens, and OpenAI's models have
// their whole windows, which the package cuts where the price rises (Long has that limit). @openai/codex 0.171.0 names no
// newer model of OpenAI's. The table is code because decoding a file would take longer than everything else that a start does
// with models.
func builtIn() Table {
	return Table{
		AsOf: "2026-11-30",
		Providers: []Provider{
			{
				Name: "anthropic", Also: []string{"claude"}, Format: Messages, Base: "https://api.anthropic.com",
				BaseEnv: "ANTHROPIC_BASE_URL", KeyEnv: []string{"ANTHROPIC_API_KEY"}, KeyPrefix: []string{"sk-ant-"},
				TokenEnv: "ANTHROPIC_AUTH_TOKEN",
				Aliases: map[string]string{
					"fast": "claude-haiku-5-5", "default": "claude-sonnet-5-5", "strong": "claude-opus-5-5",
				},
			},
			{
				Name: "openai", Also: []string{"chatgpt", "gpt"}, Format: Responses, Base: "https://api.openai.com/v1",
				BaseEnv: "OPENAI_BASE_URL", Foreign: Chat, KeyEnv: []string{"OPENAI_API_KEY"},
				KeyPrefix: []string{"sk-"},
				Aliases: map[string]string{
					"fast": "gpt-6-luna", "default": "gpt-6.1-terra", "strong": "gpt-6.2-sol",
				},
			},
			{
				Name: "google", Also: []string{"gemini"}, Format: Gemini,
				Base: "https://generativelanguage.googleapis.com", BaseEnv: "GOOGLE_GEMINI_BASE_URL",
				KeyEnv: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, KeyPrefix: []string{"AIza", "AQ."},
				Aliases: map[string]string{
					"fast": "gemini-3.5-flash-lite", "default": "gemini-3.8-flash", "strong": "gemini-4-argon",
				},
			},
			{
				Name: "openrouter", Format: Chat, Base: "https://openrouter.ai/api/v1",
				KeyEnv: []string{"OPENROUTER_API_KEY"}, KeyPrefix: []string{"sk-or-"},
				Aliases: map[string]string{
					"fast": "anthropic/claude-haiku-5.5", "default": "anthropic/claude-sonnet-5.5",
					"strong": "anthropic/claude-opus-5.5",
				},
			},
			{
				Name: "deepseek", Format: Chat, Base: "https://api.deepseek.com/v1",
				KeyEnv: []string{"DEEPSEEK_API_KEY"}, KeyPrefix: []string{"sk-"},
				Aliases: map[string]string{
					"fast": "deepseek-flash", "default": "deepseek-flash", "strong": "deepseek-v4-pro",
				},
			},
			{
				Name: "mistral", Also: []string{"mistralai"}, Format: Chat, Base: "https://api.mistral.ai/v1",
				KeyEnv: []string{"MISTRAL_API_KEY"},
				Aliases: map[string]string{
					"fast": "mistral-small-latest", "default": "mistral-medium-latest",
					"strong": "mistral-large-latest",
				},
			},
			{
				Name: "groq", Format: Chat, Base: "https://api.groq.com/openai/v1", KeyEnv: []string{"GROQ_API_KEY"},
				KeyPrefix: []string{"gsk_"}, Aliases: map[string]string{
					"fast": "openai/gpt-oss-20b", "default": "openai/gpt-oss-120b", "strong": "qwen/qwen3.8-27b",
				},
			},
			{
				Name: "xai", Also: []string{"grok", "x-ai", "x.ai"}, Format: Chat, Base: "https://api.x.ai/v1",
				KeyEnv: []string{"XAI_API_KEY"}, KeyPrefix: []string{"xai-"},
				Aliases: map[string]string{"default": "grok-4.7"},
			},
			{
				Name: "moonshotai", Also: []string{"moonshot", "kimi"}, Format: Chat, Base: "https://api.moonshot.ai/v1",
				KeyEnv: []string{"MOONSHOT_API_KEY"}, KeyPrefix: []string{"sk-"},
				Aliases: map[string]string{"default": "kimi-k3.1-pro"},
			},
			{
				Name: "zai", Also: []string{"z.ai", "z-ai", "zhipu"}, Format: Chat, Base: "https://api.z.ai/api/paas/v4",
				KeyEnv:  []string{"ZAI_API_KEY"},
				Aliases: map[string]string{"fast": "glm-5.3-flash", "default": "glm-5.3"},
			},
			{
				Name: "openai-chat", Format: Chat, Base: "https://api.openai.com/v1", BaseEnv: "OPENAI_BASE_URL",
				KeyEnv: []string{"OPENAI_API_KEY"}, KeyPrefix: []string{"sk-"}, Like: "openai", Named: true,
			},
			{
				Name: "openai-responses", Format: Responses, Base: "https://api.openai.com/v1",
				BaseEnv: "OPENAI_BASE_URL", KeyEnv: []string{"OPENAI_API_KEY"}, KeyPrefix: []string{"sk-"},
				Like: "openai", Named: true,
			},
			{
				Name: "ollama", Format: Chat, Base: "http://127.0.0.1:11434/v1", BaseEnv: "OLLAMA_HOST",
				KeyEnv: []string{"OLLAMA_API_KEY"}, Local: true,
			},
			{
				Name: "lmstudio", Also: []string{"lm-studio"}, Format: Chat, Base: "http://127.0.0.1:1234/v1",
				KeyEnv: []string{"LM_STUDIO_API_KEY"}, Local: true,
			},
			{
				Name: "llamacpp", Also: []string{"llama.cpp", "llama-cpp"}, Format: Chat,
				Base: "http://127.0.0.1:8080/v1", KeyEnv: []string{"LLAMA_API_KEY"}, Local: true,
			},
			{
				Name: "vllm", Format: Chat, Base: "http://127.0.0.1:8000/v1", KeyEnv: []string{"VLLM_API_KEY"},
				Local: true,
			},
			{
				Name: "azure", Also: []string{"azure-openai"}, Cloud: "azure", Format: Responses,
				BaseEnv: "AZURE_OPENAI_ENDPOINT", KeyEnv: []string{"AZURE_OPENAI_API_KEY"}, Like: "openai",
			},
			{
				Name: "bedrock", Also: []string{"aws", "amazon-bedrock"}, Cloud: "bedrock", Format: Messages,
				BaseEnv: "ANTHROPIC_BEDROCK_BASE_URL", KeyEnv: []string{"AWS_BEARER_TOKEN_BEDROCK"},
				UseEnv: "CLAUDE_CODE_USE_BEDROCK", Like: "anthropic",
			},
			{
				Name: "vertex", Also: []string{"google-vertex", "vertexai"}, Cloud: "vertex", Format: Messages,
				BaseEnv: "ANTHROPIC_VERTEX_BASE_URL", UseEnv: "CLAUDE_CODE_USE_VERTEX", Like: "anthropic",
			},
		},
		Aliases: map[string]string{"haiku": "fast", "sonnet": "default", "opus": "strong"},
		Models: map[string]Model{
			"anthropic/claude-fable-5-2": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Efforts: true, Input: 8,
				Output: 40, Read: 0.025, Write: 1.25,
			},
			"anthropic/claude-fable-5-1": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Efforts: true, Input: 10,
				Output: 50, Read: 0.025, Write: 1.25,
			},
			"anthropic/claude-fable-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 10, Output: 50,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-opus-5-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Efforts: true, Input: 4,
				Output: 20, Read: 0.05, Write: 1.25,
			},
			"anthropic/claude-opus-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Efforts: true, Input: 5,
				Output: 25, Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-opus-4-8": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 5, Output: 25,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-opus-4-7": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 5, Output: 25,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-opus-4-6": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 5, Output: 25,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-opus-4-5": {
				Window: 200_000, MaxOutput: 64_000, Takes: "image pdf", Thinking: true, Budget: true, Input: 5,
				Output: 25, Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-sonnet-5-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Efforts: true, Input: 2,
				Output: 10, Read: 0.05, Write: 1.25,
			},
			"anthropic/claude-sonnet-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 2, Output: 10,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-sonnet-4-6": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 3, Output: 15,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-sonnet-4-5": {
				Window: 200_000, MaxOutput: 64_000, Takes: "image pdf", Thinking: true, Budget: true, Input: 3,
				Output: 15, Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-haiku-5-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Efforts: true, Input: 0.1,
				Output: 0.5, Read: 0.1, Write: 1.25, Long: llm.Long{Above: 100000, Input: 5, Output: 5},
			},
			"anthropic/claude-haiku-4-5": {
				Window: 200_000, MaxOutput: 64_000, Takes: "image pdf", Thinking: true, Budget: true, Input: 1,
				Output: 5, Read: 0.1, Write: 1.25,
			},

			"openai/gpt-6.2-astra": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 8, Output: 40,
				Read: 0.05, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-6.2-sol": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 2, Output: 10,
				Read: 0.05, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-6-astra": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 10, Output: 50,
				Read: 0.1, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-6.1-sol": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 2, Output: 10,
				Read: 0.05, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-6.1-terra": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 1, Output: 5,
				Read: 0.05, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-6-sol": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 2, Output: 10,
				Read: 0.1, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-6-luna": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 0.1, Output: 0.5,
				Read: 0.1, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-5.6-sol": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 4, Output: 20,
				Read: 0.1, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-5.6-terra": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 2, Output: 12,
				Read: 0.1, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-5.6-luna": {
				Window: 400_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 0.2, Output: 1.2,
				Read: 0.1, Write: 1.25, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-5.5": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 5, Output: 30,
				Read: 0.1, Write: 1, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-5": {
				Window: 400_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 1.25, Output: 10,
				Read: 0.1, Write: 1,
			},
			"openai/gpt-5.2": {
				Window: 400_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 1.75, Output: 14,
				Read: 0.1, Write: 1,
			},
			"openai/gpt-5-mini": {
				Window: 400_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 0.25, Output: 2,
				Read: 0.1, Write: 1,
			},
			"openai/gpt-4o": {
				Window: 128_000, MaxOutput: 16_384, Takes: "image pdf", Input: 2.5, Output: 10, Read: 0.5, Write: 1,
			},
			"openai/gpt-4o-mini": {
				Window: 128_000, MaxOutput: 16_384, Takes: "image pdf", Input: 0.15, Output: 0.6, Read: 0.5, Write: 1,
			},
			"openai/gpt-4.1": {
				Window: 1_047_576, MaxOutput: 32_768, Takes: "image pdf", Input: 2, Output: 8, Read: 0.25,
				Write: 1,
			},
			"openai/gpt-4.1-mini": {
				Window: 1_047_576, MaxOutput: 32_768, Takes: "image pdf", Input: 0.4, Output: 1.6, Read: 0.25,
				Write: 1,
			},

			"google/gemini-4-neon": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 3, Output: 15,
				Read: 0.05, Write: 1,
			},
			"google/gemini-4-carbon": {
				Window: 1_048_576, MaxOutput: 32_768, Takes: "image pdf", Thinking: true, Input: 2, Output: 10,
				Read: 0.05, Write: 1,
			},
			"google/gemini-4-argon": {
				Window: 1_048_576, MaxOutput: 32_768, Takes: "image pdf", Thinking: true, Input: 2, Output: 10,
				Read: 0.05, Write: 1,
			},
			"google/gemini-4-hydrogen": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 1.5, Output: 7.5,
				Read: 0.05, Write: 1,
			},
			"google/gemini-3.8-flash": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 0.75,
				Output: 3.75, Read: 0.1, Write: 1,
			},
			"google/gemini-3.6-flash": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 0.75, Output: 3.75,
				Read: 0.1, Write: 1,
			},
			"google/gemini-3.5-flash": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 1.5, Output: 9,
				Read: 0.1, Write: 1,
			},
			"google/gemini-3.5-flash-lite": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 0.3, Output: 2.5,
				Read: 0.1, Write: 1,
			},
			"google/gemini-3.1-pro-preview": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 2, Output: 12,
				Read: 0.1, Write: 1, Long: llm.Long{Above: 200000, Input: 2, Output: 1.5},
			},
			"google/gemini-2.5-pro": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Budget: true,
				Input: 1.25, Output: 10, Read: 0.1, Write: 1, Long: llm.Long{Above: 200000, Input: 2, Output: 1.5},
			},
			"google/gemini-2.5-flash": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Budget: true, Input: 0.3,
				Output: 2.5, Read: 0.1, Write: 1,
			},

			"google/gemini-2.5-flash-lite": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Budget: true, Input: 0.1,
				Output: 0.4, Read: 0.1, Write: 1,
			},

			"deepseek/deepseek-flash": {
				Window: 1_000_000, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 0.3, Output: 1.2,
				Read: 0.02, Write: 1,
			},
			"deepseek/deepseek-v4-pro": {
				Window: 1_000_000, MaxOutput: 131_072, Thinking: true, Input: 1.32, Output: 3.96, Read: 0.0333,
				Write: 1,
			},
			"mistral/mistral-large-latest": {
				Window: 1_048_576, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 0.7, Output: 2.1,
				Read: 0.1, Write: 1,
			},
			"mistral/mistral-medium-latest": {
				Window: 262_144, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 1.5, Output: 7.5,
				Read: 0.1, Write: 1,
			},
			"mistral/mistral-small-latest": {
				Window: 262_144, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 0.15, Output: 0.6,
				Read: 0.1, Write: 1,
			},
			"mistral/devstral-latest": {
				Window: 262_144, MaxOutput: 131_072, Input: 0.4, Output: 2, Read: 0.1, Write: 1,
			},
			"mistral/codestral-latest": {
				Window: 256_000, MaxOutput: 4_096, Input: 0.3, Output: 0.9, Read: 0.1, Write: 1,
			},
			"groq/openai/gpt-oss-120b": {
				Window: 131_072, MaxOutput: 65_536, Thinking: true, Input: 0.15, Output: 0.6, Read: 0.5, Write: 1,
			},
			"groq/openai/gpt-oss-20b": {
				Window: 131_072, MaxOutput: 65_536, Thinking: true, Input: 0.075, Output: 0.3, Read: 0.5, Write: 1,
			},
			"groq/qwen/qwen3.8-27b": {
				Window: 131_072, MaxOutput: 16_384, Takes: "image", Thinking: true, Input: 0.8, Output: 4, Read: 1,
				Write: 1,
			},
			"groq/llama-3.3-70b-versatile": {
				Window: 131_072, MaxOutput: 32_768, Input: 0.59, Output: 0.79, Read: 1, Write: 1,
			},
			"xai/grok-4.7": {
				Window: 500_000, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 2, Output: 6, Read: 0.25,
				Write: 1, Long: llm.Long{Above: 200000, Input: 2, Output: 2},
			},
			"xai/grok-4.6": {
				Window: 500_000, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 2, Output: 6, Read: 0.25,
				Write: 1, Long: llm.Long{Above: 200000, Input: 2, Output: 2},
			},
			"xai/grok-4.5": {
				Window: 500_000, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 2, Output: 6, Read: 0.15,
				Write: 1, Long: llm.Long{Above: 200000, Input: 2, Output: 2},
			},
			"xai/grok-4.3": {
				Window: 1_000_000, MaxOutput: 30_000, Takes: "image", Thinking: true, Input: 1.25, Output: 2.5,
				Read: 0.16, Write: 1, Long: llm.Long{Above: 200000, Input: 2, Output: 2},
			},
			"moonshotai/kimi-k3.1-pro": {
				Window: 1_048_576, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 2, Output: 10,
				Read: 0.1, Write: 1,
			},
			"moonshotai/kimi-k3": {
				Window: 1_048_576, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 3, Output: 15,
				Read: 0.1, Write: 1,
			},
			"moonshotai/kimi-k2.7-code": {
				Window: 262_144, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 0.95, Output: 4,
				Read: 0.2, Write: 1,
			},
			"zai/glm-5.3": {
				Window: 1_000_000, MaxOutput: 131_072, Thinking: true, Input: 1.4, Output: 4.4, Read: 0.1857,
				Write: 1,
			},
			"zai/glm-5.3-flash": {
				Window: 1_000_000, MaxOutput: 131_072, Takes: "image", Thinking: true, Input: 0.15, Output: 0.5,
				Read: 0.2, Write: 1,
			},
			"zai/glm-5.2": {
				Window: 1_000_000, MaxOutput: 131_072, Thinking: true, Input: 1.4, Output: 4.4, Read: 0.1857,
				Write: 1,
			},
		},
	}
}
