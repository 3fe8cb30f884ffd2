package similar

import "testing"

func TestDistance(t *testing.T) {
	for _, d := range []struct {
		a, b string
		most int
		want int
	}{{"", "", 2, 0}, {"abc", "abc", 2, 0}, {"abc", "acb", 2, 1}, {"abc", "ab", 2, 1}, {"abc", "bca", 2, 2},
		{"abc", "xyz", 2, 3}, {"abc", "xyz", 3, 3}, {"abcd", "a", 2, 3}, {"a", "abcd", 2, 3}, {"ca", "abc", 3, 3},
		{"xab", "yba", 3, 2}} {
		if got := Distance(d.a, d.b, d.most); got != d.want {
			t.Errorf("%s to %s: %d, want %d", d.a, d.b, got, d.want)
		}
	}
}

// TestScore: each text matches the pattern better than the next one.
func TestScore(t *testing.T) {
	for _, c := range []struct {
		pattern string
		order   []string
		none    []string
	}{
		{"model", []string{"model", "models", "my-model", "remodelling", "my-other-do-el"}, []string{"mode", "ledom"}},
		{"PDF", []string{"pdf", "pdf-forms", "fill-pdf", "paged-file"}, []string{"fdp"}},
		{"vt", []string{"a/view_test.go", "a/vast.go"}, []string{"a/tv.go"}},
		{"über", []string{"über", "Übersicht"}, []string{"uber"}},
		{"日語", []string{"日語", "日本語"}, []string{"日本"}},
	} {
		last := 1 << 30
		for _, text := range c.order {
			n := Score(text, c.pattern)
			if n <= 0 || n >= last {
				t.Errorf("%q in %q scores %d, the previous one %d", c.pattern, text, n, last)
			}
			last = n
		}
		for _, text := range c.none {
			if n := Score(text, c.pattern); n != 0 {
				t.Errorf("%q in %q scores %d", c.pattern, text, n)
			}
		}
	}
}

func FuzzScore(f *testing.F) {
	f.Add("internal/program/tui/view_test.go", "vt")
	f.Add("\xffİ", "i̇")
	f.Fuzz(func(t *testing.T, text, pattern string) {
		if Score(text, pattern) < 0 {
			t.Error("a negative score")
		}
		if text != "" && Score(text, text) == 0 {
			t.Error("a text does not match itself")
		}
	})
}
