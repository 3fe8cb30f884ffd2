package models

// Vendor returns the name of a provider as people write it, such as OpenAI for openai. Of a provider that is not well
// known it is the name in settings.
func Vendor(provider string) string {
	switch provider {
	case "anthropic":
		return "Anthropic"
	case "openai":
		return "OpenAI"
	case "google":
		return "Google"
	case "openrouter":
		return "OpenRouter"
	case "mistral":
		return "Mistral"
	case "deepseek":
		return "DeepSeek"
	case "groq":
		return "Groq"
	case "xai":
		return "xAI"
	case "ollama":
		return "Ollama"
	case "lmstudio":
		return "LM Studio"
	}
	return provider
}
