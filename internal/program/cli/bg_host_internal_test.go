package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

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

// TestTrimLog: what the processes of a session in the background have reported does not grow from message to message.
func TestTrimLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bg-x.log")
	if err := trimLog(name); err != nil {
		t.Fatal(err) // it need not exist
	}
	for _, size := range []int{100, maxMessages, maxMessages + 1, 5 * maxMessages} {
		text := append(bytes.Repeat([]byte("x"), size-3), "end"...)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := trimLog(name); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || len(got) > maxMessages || !bytes.HasSuffix(got, []byte("end")) ||
			size <= maxMessages && len(got) != size {
			t.Errorf("%d bytes: %d are left, %v", size, len(got), err)
		}
	}
}
