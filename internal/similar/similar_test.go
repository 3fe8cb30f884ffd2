package similar

import "testing"

func TestDistance(t *testing.T) {
	for _, d := range []struct {
		a, b string
		most int
		want int
	}{{"", "", 2, 0}, {"abc", "abc", 2, 0}, {"abc", "acb", 2, 1}, {"abc", "ab", 2, 1}, {"abc", "bca", 2, 2}, {"abc", "xyz", 2, 3}, {"abc", "xyz", 3, 3}, {"abcd", "a", 2, 3}, {"a", "abcd", 2, 3}, {"ca", "abc", 3, 3}, {"xab", "yba", 3, 2}} {
		if got := Distance(d.a, d.b, d.most); got != d.want {
			t.Errorf("%s to %s: %d, want %d", d.a, d.b, got, d.want)
		}
	}
}
