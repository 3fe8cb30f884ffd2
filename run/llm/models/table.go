package models

import "github.com/knack-agent/knack/run/llm"

// builtIn returns the program's own table. It is code, because decoding a file takes longer than the rest of what a
// start needs to know about models.
func builtIn() Table {
	return Table{
		AsOf: "2026-11-20",
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
					"fast": "gpt-6-luna", "default": "gpt-6.1-terra", "strong": "gpt-6.1-sol",
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
				Aliases: map[string]string{"default": "deepseek-chat"},
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
				KeyPrefix: []string{"gsk_"},
			},
			{
				Name: "xai", Also: []string{"grok", "x-ai", "x.ai"}, Format: Chat, Base: "https://api.x.ai/v1",
				KeyEnv: []string{"XAI_API_KEY"}, KeyPrefix: []string{"xai-"},
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
		},
		Aliases: map[string]string{"haiku": "fast", "sonnet": "default", "opus": "strong"},
		Models: map[string]Model{
			"anthropic/claude-fable-5-1": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 10, Output: 50,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-opus-5-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 4, Output: 20,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-opus-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 5, Output: 25,
				Read: 0.1, Write: 1.25,
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
				Window: 200_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 5, Output: 25,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-opus-4-5": {
				Window: 200_000, MaxOutput: 64_000, Takes: "image pdf", Thinking: true, Budget: true, Input: 5,
				Output: 25, Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-sonnet-5-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 2, Output: 10,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-sonnet-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 2, Output: 10,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-sonnet-4-6": {
				Window: 200_000, MaxOutput: 64_000, Takes: "image pdf", Thinking: true, Input: 3, Output: 15,
				Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-sonnet-4-5": {
				Window: 200_000, MaxOutput: 64_000, Takes: "image pdf", Thinking: true, Budget: true, Input: 3,
				Output: 15, Read: 0.1, Write: 1.25,
			},
			"anthropic/claude-haiku-5-5": {
				Window: 1_000_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 0.1, Output: 0.5,
				Read: 0.1, Write: 1.25, Long: llm.Long{Above: 100000, Input: 5, Output: 5},
			},
			"anthropic/claude-haiku-4-5": {
				Window: 200_000, MaxOutput: 64_000, Takes: "image pdf", Thinking: true, Budget: true, Input: 1,
				Output: 5, Read: 0.1, Write: 1.25,
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
				Read: 0.1, Write: 1.25,
			},
			"openai/gpt-5.5": {
				Window: 1_050_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 5, Output: 30,
				Read: 0.1, Write: 1, Long: llm.Long{Above: 272000, Input: 2, Output: 1.5},
			},
			"openai/gpt-5": {
				Window: 400_000, MaxOutput: 128_000, Takes: "image pdf", Thinking: true, Input: 1.25, Output: 10,
				Read: 0.1, Write: 1,
			},
			"openai/gpt-4.1": {
				Window: 1_047_576, MaxOutput: 32_768, Takes: "image pdf", Input: 2, Output: 8, Read: 0.25,
				Write: 1,
			},
			"openai/gpt-4.1-mini": {
				Window: 1_047_576, MaxOutput: 32_768, Takes: "image pdf", Input: 0.4, Output: 1.6, Read: 0.25,
				Write: 1,
			},

			"google/gemini-4-argon": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 4, Output: 20,
				Read: 0.05, Write: 1,
			},
			"google/gemini-3.8-flash": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 0.75,
				Output: 3.75, Read: 0.1, Write: 1,
			},
			"google/gemini-3.6-flash": {
				Window: 1_048_576, MaxOutput: 65_536, Takes: "image pdf", Thinking: true, Input: 1.5, Output: 7.5,
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
		},
	}
}
