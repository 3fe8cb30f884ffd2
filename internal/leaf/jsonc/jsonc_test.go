package jsonc_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/jsonc"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a": 1}`:                          `{"a": 1}`,
		"{// x\n\"a\": [1, /* y\n */ 2,],}": "{    \n\"a\": [1,     \n    2 ] }",
		`{"a": "// no", "b": "\"/*"}`:       `{"a": "// no", "b": "\"/*"}`,
		`{"a": 1} // end`:                   `{"a": 1}       `,
		`{"a": 1, /* open`:                  `{"a": 1, /* open`,
		`[,]`:                               `[,]`,
		`{,}`:                               `{,}`,
		`[1,,]`:                             `[1,,]`,
		`{"a":,}`:                           `{"a":,}`,
		``:                                  ``,
	} {
		if got := string(jsonc.Plain([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzPlain: JSON stays as it is, and offsets and lines never move.
func FuzzPlain(f *testing.F) {
	f.Add([]byte(`{"a": [1, 2,], // x` + "\n}"))
	f.Add([]byte(`"\\" /**/`))
	f.Fuzz(func(t *testing.T, data []byte) {
		was := bytes.Clone(data)
		out := jsonc.Plain(data)
		switch {
		case !bytes.Equal(was, data):
			t.Fatal("the data changed")
		case json.Valid(data) && !bytes.Equal(out, data):
			t.Fatalf("%q became %q", data, out)
		case len(out) != len(data) || bytes.Count(out, []byte("\n")) != bytes.Count(data, []byte("\n")):
			t.Fatalf("%q became %q", data, out)
		}
		if again := jsonc.Plain(out); !json.Valid(again) && json.Valid(out) {
			t.Fatalf("%q became %q", out, again)
		}
	})
}
