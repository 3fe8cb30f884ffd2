package secrets

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf16"
)

const key = "sk-ant-9f8e7d6c5b4aQq31"

// TestFound: simple codings of a secret are found in a URL. Found by attack: a character between each two, halves in
// two URLs, base32, UTF-16 and base64 twice hid it.
func TestFound(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	b32 := base32.StdEncoding.EncodeToString([]byte(key))
	var wide []byte
	for _, u := range utf16.Encode([]rune(key)) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	for name, text := range map[string]string{
		"as it is": key, "upper case": strings.ToUpper(key), "escaped": strings.ReplaceAll(key, "-", "%2D"),
		"base64": b64([]byte(key)), "base64 in the middle": b64([]byte("abc" + key + "d")),
		"twice base64": b64([]byte(b64([]byte(key)))), "hex": hex.EncodeToString([]byte(key)),
		"hex of base64": hex.EncodeToString([]byte(b64([]byte(key)))), "base32": b32,
		"base32, small": strings.ToLower(strings.TrimRight(b32, "=")), "UTF-16": strings.ReplaceAll(string(wide), "\x00",
			"%00"), "UTF-16 in base64": b64(wide),
		"dots between": strings.Join(strings.Split(key, ""), "."), "letters between": strings.Join(strings.Split(key, ""),
			"x"),
		"reversed": reversed(key), "first half": key[:len(key)/2+5], "second half": key[len(key)/2-4:],
	} {
		if url := "https://a.example/p?k=" + text; !Found(url, []string{"API_KEY=\"" + key + "\"\nDEBUG=1\n"}) {
			t.Errorf("%s: %s is not found", name, url)
		}
	}
	for _, url := range []string{"https://a.example/keys?DEBUG=1&page=2",
		"https://docs.aws.amazon.com/general/latest/gr/rande.html#regional-endpoints", "https://a.example/?q=" +
			b64([]byte("what is an API key?"))} {
		if Found(url, []string{"API_KEY=\"" + key + "\"\nDEBUG=1\n"}) {
			t.Errorf("an ordinary URL: %s", url)
		}
	}
}

// TestValues: of a file, only what looks like a key or a password counts.
func TestValues(t *testing.T) {
	got := Values("NODE_ENV=development\nexport DB_PASSWORD='correcthorse'\n# see https://docs.example.com/settings\n" +
		"HOST=database.internal.example\nSTRIPE=rk_live_51Hx8yz\n\"token\": \"abcdefghij\"\n" +
		"machine github.com login me password hunterhunter\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0B", 2) + "\n")
	for _, want := range []string{"correcthorse", "rk_live_51Hx8yz", "abcdefghij", "hunterhunter",
		"MIIEvQIBADANBgkqhkiG9w0B"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	for _, not := range []string{"development", "database.internal", "docs.example", "DB_PASSWORD", "NODE_ENV",
		"github.com"} {
		if strings.Contains(got, not) {
			t.Errorf("%s is in\n%s", not, got)
		}
	}
}
