package web

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// BenchmarkPage converts a page of 160 kB: 150 sections with tables and code, and 600 links of navigation.
func BenchmarkPage(b *testing.B) {
	var s strings.Builder
	s.WriteString("<!doctype html><title>Reference</title><nav>")
	for i := range 600 {
		fmt.Fprintf(&s, `<li><a href="/section/%d.html">Section number %d</a></li>`, i, i)
	}
	s.WriteString("</nav><main>")
	for i := range 150 {
		fmt.Fprintf(&s, `<section id="s%d"><h2>Section %d</h2><p>%s <a href="../x%d">link</a> <code>call(%d)</code></p><table><tr>
			<th>name</th><th>value</th></tr><tr><td>a</td><td>%d</td></tr></table><pre><code>func f() { return %d }
			</code></pre></section>`, i, i, strings.Repeat("Some words of <em>text</em>. ", 18), i, i, i, i)
	}
	s.WriteString("</main>")
	u, _ := url.Parse("https://example.com/docs/")
	text := s.String()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		p := &page{}
		if p.html(b.Context(), u, text); len(p.Text) < 50_000 {
			b.Fatal(len(p.Text))
		}
	}
}
