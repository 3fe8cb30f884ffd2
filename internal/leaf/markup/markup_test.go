package markup

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

const hostile = "</p></script></style></title><script>alert(1)</script><img src=x onerror=\"alert(2)\">' \" onload='x' " +
	"&lt;b&gt; &#106; \u202egnp\u202c \x1b[31m \x00 bad\xff \U000e0041 `%s` {{.}}"

// FuzzPage: a text is one text node or one attribute, whatever it has.
func FuzzPage(f *testing.F) {
	f.Add(hostile)
	f.Add("plain 日本語 \r\n x")
	f.Fuzz(func(t *testing.T, text string) {
		var p Page
		p.F(`<p title="%s"><a href="%s">%s</a></p>`, text, Address("/skill", "name", text, "q", ""), text)
		doc, err := html.Parse(strings.NewReader(p.String()))
		if err != nil {
			t.Fatal(err)
		}
		var elements []string
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode {
				elements = append(elements, n.Data)
				for _, a := range n.Attr {
					switch {
					case n.Data == "p" && a.Key == "title" || n.Data == "a" && a.Key == "href":
						if a.Key == "href" && !strings.HasPrefix(a.Val, "/skill") {
							t.Errorf("the address %q", a.Val)
						}
					default:
						t.Errorf("the attribute %s of %s", a.Key, n.Data)
					}
				}
			}
		}
		if got := strings.Join(elements, " "); got != "html head body p a" {
			t.Errorf("%q became the elements %s", text, got)
		}
		for _, r := range p.String() {
			if r == '\u202e' || r == 0x1b || r == 0 || r == '\u200b' {
				t.Errorf("%U is not escaped", r)
			}
		}
	})
}

func TestF(t *testing.T) {
	var p Page
	p.F(`<b>%s</b>%d %.1f %t`, HTML("<i>x</i>"), 3, 1.25, true)
	p.F(" %s", error(nil))
	p.F(" %s", struct{ A string }{"<b>"})
	if got, want := p.HTML(), HTML(`<b><i>x</i></b>3 1.2 true &lt;nil&gt; {&lt;b&gt;}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Address("/x"); got != "/x" {
		t.Errorf("got %s", got)
	}
	if got, want := Address("/x", "b", `"&`, "a", "1"), HTML("/x?a=1&amp;b=%22%26"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
