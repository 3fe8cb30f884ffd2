package cli

import "testing"

// TestAddresses: a variable that says which server is asked for models, or who gives out its keys, is compared with where
// a session in the background began; keys and proxies are not.
func TestAddresses(t *testing.T) {
	for name, counts := range map[string]bool{
		"ANTHROPIC_BASE_URL": true, "OPENAI_BASE_URL": true, "OPENAI_API_BASE": true, "GEMINI_BASE_URL": true,
		"OLLAMA_HOST": true, "AZURE_OPENAI_ENDPOINT": true, "AZURE_OPENAI_RESOURCE_NAME": true, "AZURE_AUTHORITY_HOST": true,
		"AZURE_POD_IDENTITY_AUTHORITY_HOST": true, "IDENTITY_ENDPOINT": true, "CLAUDE_CODE_USE_VERTEX": true,
		"OPENAI_API_KEY": false, "HTTPS_PROXY": false, "HOME": false,
	} {
		began, here := addresses([]string{"A=b", name + "=one"}), addresses([]string{"A=b", name + "=two"})
		if got := otherAddress(began, here); (got == name) != counts || !counts && got != "" {
			t.Errorf("%s: %q differs, want it to count: %v", name, got, counts)
		}
	}
}
