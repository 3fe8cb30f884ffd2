package plain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWriter(t *testing.T) {
	const in = "knack: error: a\x1b[31mb\u009bc\u202ed\u200be\U000e0041f\xff\n\tgrün 漢字\n"
	const want = `knack: error: a\x1b[31mb\u009bc\u202ed\u200be\U000e0041f\xff` + "\n\tgrün 漢字\n"
	for size := 1; size < 8; size++ {
		var b bytes.Buffer
		w := Writer(&b)
		for rest := in; rest != ""; {
			n := min(size, len(rest))
			if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		if b.String() != want {
			t.Errorf("%d bytes at a time: %q, want %q", size, b.String(), want)
		}
	}
}

// FuzzJSON: the output has no hidden character, and decodes to the original.
func FuzzJSON(f *testing.F) {
	f.Add("a\u007f\u0080\u009b\u202e\u2066\u200b\ufeff\U000e0041\u00ad z", 3)
	f.Fuzz(func(t *testing.T, s string, size int) {
		data, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := JSON(&b)
		for rest := data; len(rest) > 0; {
			n := max(1, min(size, len(rest)))
			w.Write(rest[:n])
			rest = rest[n:]
		}
		if i := strings.IndexFunc(b.String(), Hidden); i >= 0 {
			t.Fatalf("%q has a hidden character", b.String())
		}
		var got map[string]string
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := strings.ToValidUTF8(s, "\ufffd")
		if utf8.ValidString(s) && got[want] != want {
			t.Fatalf("%q was decoded as %q", s, got)
		}
	})
}
