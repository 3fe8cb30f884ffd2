package charset

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		data, text string
		enc        Encoding
	}{
		{"plain é", "plain é", UTF8},
		{"\xef\xbb\xbfmarked", "marked", UTF8BOM},
		{"\xff\xfeh\x00i\x00\x3d\xd8\x00\xde", "hi😀", UTF16LE},
		{"\xfe\xff\x00h\x00i\xd8\x3d\xde\x00", "hi😀", UTF16BE},
		{"caf\xe9", "café", Latin1},
		{"\x93caf\xe9\x94 \x80", "“café” €", Windows1252},
		{"caf\xe9 \x81", "café \u0081", Latin1}, // Windows-1252 does not define 0x81
		{"", "", UTF8},
	} {
		text, enc, err := Read([]byte(c.data))
		if err != nil || text != c.text || enc != c.enc {
			t.Errorf("Read(%q) = %q, %v, %v, want %q, %v", c.data, text, enc, err, c.text, c.enc)
		}
	}
	for _, broken := range []string{"\xff\xfea", "\xff\xfe\x00\xd8a\x00"} {
		if text, _, err := Read([]byte(broken)); err == nil {
			t.Errorf("Read(%q) = %q: no error", broken, text)
		}
	}
	if _, err := Latin1.Write("naïve ☃"); err == nil || err.Error() != `the file is Latin-1, which has no '☃' (U+2603)` {
		t.Errorf("a snowman in Latin-1: %v", err)
	}
}

// Write restores the bytes that Read decoded; a stream decodes to the same text however it is split.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"a é", "\xff\xfea\x00", "\xfe\xff\x00a", "\xef\xbb\xbfa", "\x93\xe9",
		"\xff\xfe\x3d\xd8\x00\xde", "\x93\xfa\x96\x7b\n", "\xd6\xd0\xce\xc4", "\xcf\xf0\xe8\xe2\xe5\xf2"} {
		f.Add([]byte(s), 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		text, e, err := Read(data)
		if err != nil {
			return
		}
		if back, err := e.Write(text); err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%v: %q -> %q -> %q, %v", e, data, text, back, err)
		}
		if e != UTF8 && e != UTF8BOM && e != MixedUTF8 && !utf8.ValidString(text) {
			t.Fatalf("%v: %q is not UTF-8", e, text)
		}
		body := data[len(e.Mark()):]
		if cut < 0 || cut > len(body) || e.cjk() {
			return
		}
		n := e.Whole(body[:cut])
		if two := e.Decode(e.Decode(nil, body[:n]), body[n:]); string(two) != text {
			t.Fatalf("%v: cut at %d: %q, whole: %q", e, cut, two, text)
		}
	})
}

func TestBinary(t *testing.T) {
	for s, want := range map[string]bool{
		"": false, "text\n": false, "a\x00b": true, "\x01\x02\x03\x04": true, "\x1b[31mred\x1b[0m\n": false,
		"\x7fELF\x02\x01\x01": true,
	} {
		if Binary([]byte(s)) != want {
			t.Errorf("Binary(%q) = %v", s, !want)
		}
	}
}
