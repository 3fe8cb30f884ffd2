package web

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var expected = regexp.MustCompile(`<!-- (want|not): (.*?) -->`)

// TestPages: of twenty pages of real shapes, the text is there and the rest is not. bench/web.md compares the same
// pages with other libraries.
func TestPages(t *testing.T) {
	files, err := filepath.Glob("testdata/pages/*.html")
	if err != nil || len(files) != 20 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := &page{}
		p.html(t.Context(), &url.URL{Scheme: "https", Host: "example.com", Path: "/"}, string(data))
		text := strings.NewReplacer(`\`, "", "\u00a0", " ").Replace(p.Text)
		for _, m := range expected.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(text, m[2]) != (m[1] == "want") {
				t.Errorf("%s: %s %q in\n%s", filepath.Base(file), m[1], m[2], p.Text)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"gbk", "big5", "euc-kr", "shift_jis", "euc-jp"} {
		f.Add([]byte("<p>\x93\xfa\xff"), name)
	}
	f.Add([]byte("\xff\xfea"), "utf-16")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		text, _, err := decode(data, name, "text/html")
		if err == nil && !utf8.ValidString(text) {
			t.Errorf("%q: %q", name, text)
		}
	})
}
