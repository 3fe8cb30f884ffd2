package secrets

import "testing"

func TestKey(t *testing.T) {
	for text, want := range map[string]string{
		"key sk-ant-0123456789abcdefgh":                          "sk-ant-0123456789abcdefgh",
		"ghp_abcdefghijklmnopqrst12":                             "ghp_abcdefghijklmnopqrst12",
		"first sk-your-key-goes-here, then AKIAABCDEFGH23456789": "AKIAABCDEFGH23456789",
		"-----BEGIN OPENSSH PRIVATE KEY-----":                    "-----BEGIN OPENSSH PRIVATE KEY",
		"export OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxx":       "",
		"AKIAIOSFODNN7EXAMPLE":                                   "",
		"password: correct horse":                                "",
		"":                                                       "",
	} {
		if got := Key(text); got != want {
			t.Errorf("Key(%q) = %q, want %q", text, got, want)
		}
	}
}
