package mask

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
)

const canary = "canary/7+Q\"x=9&zz"

func TestText(t *testing.T) {
	m := New([]string{canary, "abc", "line one of a key, long\nshort\nline three of a key, long\n"})
	for _, text := range []string{
		canary,
		"a" + canary + canary + "b",
		`{"x":"canary/7+Q\"x=9\u0026zz"}`,
		"?q=" + url.QueryEscape(canary),
		base64.StdEncoding.EncodeToString([]byte(canary)),
		"  line three of a key, long",
	} {
		if got := m.Text(text); m.In(got) || !strings.Contains(got, Mark) {
			t.Errorf("Text(%q) = %q", text, got)
		}
	}
	for _, text := range []string{"", "abc short", "canary"} {
		if got := m.Text(text); got != text {
			t.Errorf("Text(%q) = %q", text, got)
		}
	}
}

// TestWriter: a value is found however the text is cut, and nothing else is kept back for long.
func TestWriter(t *testing.T) {
	text := "before " + canary + " between cana " + canary + canary + " after canary/"
	want := strings.ReplaceAll(text, canary, Mark)
	for size := 1; size <= len(text); size++ {
		var out strings.Builder
		w := New([]string{canary}).Writer(&out)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("in pieces of %d: %q, want %q", size, out.String(), want)
		}
	}
	var out strings.Builder
	w := New([]string{canary}).Writer(&out)
	w.Write([]byte("a prompt: "))
	if out.String() != "a prompt: " {
		t.Errorf("kept back: %q", out.String())
	}
}
