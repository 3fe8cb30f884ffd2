package transcript

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// hostile is untrusted text that tries to be more than text.
const hostile = "<script>fetch('http://evil.example/1')</script>\n" +
	"</style></pre></details></main><img src=http://evil.example/2 onerror=alert(1)>\n\n" +
	"<iframe srcdoc=\"<script>alert(2)</script>\"></iframe>\n\n" +
	"<svg/onload=alert(3)>\n\n<!-- --><![CDATA[ ]]> <meta http-equiv=refresh content=0;url=http://evil.example/3>\n\n" +
	"[a](javascript:alert(4)) [b](JaVaScRiPt&colon;alert(5)) [c](data:text/html,<script>alert(6)</script>) " +
	"[d](vbscript:x) [e](&#106;avascript:alert(7))\n" +
	"[f](\tjavascript:alert(8)) [g](//evil.example/4) [h](http:javascript:alert(9)) " +
	"[i](https://good.example/\"onmouseover=\"alert(10)) <javascript:alert(11)> [j](file:///etc/passwd) " +
	"[k](mailto:a@b.example)\n\n" +
	"![p](http://evil.example/5.png \"t\\\" onload=alert(12)\") ![q](data:image/svg+xml,<svg onload=alert(13)>) " +
	"[r]\n\n[r]: javascript:alert(14) \"x\"\n\n" +
	"`<b>code</b>` **<i>bold</i>** &lt;u&gt; &#x202e;rtl\n\n| <th>x</th> | [y](javascript:alert(15)) |\n|---|---|\n| " +
	"</td><script>alert(16)</script> | \x1b[31mred |\n\n" +
	"```\"><script>alert(17)</script>\n</pre><script>alert(18)</script>\n```\n\n" +
	"bidi \u202egnp.exe\u202c zero\u200bwidth tag\U000e0041 bell\a nul\x00 csi\u009b31m bad\xff end"

// everywhere returns a session with a text in every place that can contain text.
func everywhere(t testing.TB, text string) *session.Log {
	t.Helper()
	var data []any
	for _, e := range rich(t).Entries() {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		data = append(data, v)
	}
	var put func(key string, v any) any
	put = func(key string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = put(k, v[k])
			}
			return v
		case []any:
			for i := range v {
				v[i] = put(key, v[i])
			}
			return v
		case string:
			switch key {
			case "type", "time", "data", "verdict", "role", "stop", "mime":
				return v
			case "diff":
				return "--- a\n+++ b\n@@ -1 +1 @@\n-" + text + "\n+" + text
			case "id", "call":
				return v
			}
			return text
		}
		return v
	}
	l := session.New(session.Header{ID: text, Dir: text, From: text, Time: begin})
	for i := range data {
		raw, err := json.Marshal(put("", data[i]))
		if err != nil {
			t.Fatal(err)
		}
		var e session.Entry
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		if e.Answer != nil {
			e.Answer.Model = text + string(rune('a'+i%3))
		}
		if e.Type == "weather" {
			e.Type = session.Type(text)
		}
		if _, err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []llm.Media{
		{MIME: "image/svg+xml", Name: text, Data: []byte("<svg onload=alert(1)>")},
		{MIME: "text/html", Name: text, Data: []byte(text)},
		{MIME: "image/png\" onerror=\"alert(1)", Name: text, Data: []byte(text)},
		{MIME: "image/png", Name: text, Data: []byte(text)},
	} {
		if _, err := l.Append(user(llm.Part{Media: &m})); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// tags are the only tags of a page.
var tags = regexp.MustCompile(`^(` +
	`/?(head|body|title|header|main|footer|dl|dt|dd|div|h1|h2|h3|h4|h5|h6|p|pre|code|b|i|s|em|strong|small|section|` +
	`summary|details|ul|ol|li|blockquote|table|tr|th|td|figure|figcaption|ins|del|span|a|html|time|style)` +
	`|!doctype html|html lang="en"|hr|br|meta charset="utf-8"|meta name="(viewport|referrer|color-scheme)" ` +
	`content="[a-z0-9=, -]+"` +
	`|meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src ` +
	`'sha256-[A-Za-z0-9+/=]+'; base-uri 'none'; form-action 'none'"` +
	`|(section|details|p|pre|dl|div|span) class="[a-z ]+"( open)?` +
	`|ol start="[0-9]+"` +
	`|time datetime="[0-9TZ:-]+"` +
	`|a rel="noopener noreferrer" href="(https?://|mailto:)[^"<>]*" title="(https?://|mailto:)[^"<>]*"` +
	`|img alt="[^"<>]*" src="data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*"` +
	`)$`)

// TestHostile: everything in a session is text in the page: every tag is one of ours, every link goes to a web page,
// and nothing is hidden.
func TestHostile(t *testing.T) {
	l := everywhere(t, hostile)
	page := written(t, l, HTML)
	if p := os.Getenv("KNACK_HOSTILE_PAGE"); p != "" { // for inspection in a browser
		if err := os.WriteFile(p, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(page, style) != 1 {
		t.Fatal("the style does not appear exactly once")
	}
	rest := strings.Replace(page, style, "", 1)
	seen := 0
	for i := strings.IndexByte(rest, '<'); i >= 0; i = strings.IndexByte(rest, '<') {
		end := strings.IndexByte(rest[i:], '>')
		if end < 0 {
			t.Fatalf("a tag does not end: %.100q", rest[i:])
		}
		tag := rest[i+1 : i+end]
		if !tags.MatchString(tag) {
			t.Fatalf("the tag <%.200s>", tag)
		}
		seen++
		rest = rest[i+end+1:]
	}
	if seen < 500 {
		t.Errorf("only %d tags were checked", seen)
	}
	for _, f := range []Format{HTML, Markdown} {
		for _, r := range written(t, l, f) {
			if plain.Hidden(r) && r != '\n' && r != '\t' {
				t.Fatalf("%s: %U is not escaped", f, r)
			}
		}
	}
	for _, want := range []string{`\x1b[31mred`, `\u202egnp.exe`, `zero\u200bwidth`, `&lt;script&gt;alert(16)`,
		`href="mailto:a@b.example"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
}

// TestMarkdownSlow: texts that are slow to parse, up to the limit of the parser's input, and beyond it.
func TestMarkdownSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("parsing takes a second, and much more with the race detector")
	}
	for _, s := range []string{"*a_", "> ", "[a](", "1. ", "[[]](", "| a |\n|-|\n"} {
		for _, size := range []int{maxMarkdown, 100 * maxMarkdown} {
			text := strings.Repeat(s, size/len(s)) + "\n\nend of it"
			if !strings.Contains(written(t, logOf(t, answer(llm.EndTurn, llm.Text(text))), HTML), "end of it") {
				t.Errorf("%q is missing", s)
			}
		}
	}
}

// TestFences: text between fences in Markdown cannot close them.
func TestFences(t *testing.T) {
	text := "```\n````\n`````` x\n"
	got := written(t, logOf(t, answer(llm.ToolUse, called("1", "bash", `{"command":"x"}`)),
		result("1", "bash", "", llm.Text(text))), Markdown)
	if !strings.Contains(got, "\n```````\n```\n````\n`````` x\n```````\n") {
		t.Errorf("got\n%s", got)
	}
	// A fence that the model did not close does not include what follows.
	got = written(t, logOf(t, answer(llm.EndTurn, llm.Text("so:\n\n~~~~ go\n```\nx := 1")), user(llm.Text("next"))),
		Markdown)
	if !strings.Contains(got, "x := 1\n~~~~\n\n## You\n") {
		t.Errorf("got\n%s", got)
	}
}

// TestMarkdown: the HTML for a model's Markdown.
func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a *b* **c** `d <e>`", "<p>a <em>b</em> <strong>c</strong> <code>d &lt;e&gt;</code></p>"},
		{"# one\n\n###### six", "<h3>one</h3>\n<h6>six</h6>"},
		{"<b>x</b> &amp; &lt;i&gt; \\<u\\>", "<p>&lt;b&gt;x&lt;/b&gt; &amp; &lt;i&gt; &lt;u&gt;</p>"},
		{"<div>\n*x*\n</div>", "<p>&lt;div&gt;\n<em>x</em>\n&lt;/div&gt;</p>"},
		{"3. c\n4. d", `<ol start="3"><li>c</li>` + "\n<li>d</li>\n</ol>"},
		{"see https://a.example/x_y_z_1?a=1&b=2, or (http://b.example/(q)).",
			`<p>see <a rel="noopener noreferrer" href="https://a.example/x_y_z_1?a=1&amp;b=2" ` +
				`title="https://a.example/x_y_z_1?a=1&amp;b=2">https://a.example/x_y_z_1?a=1&amp;b=2</a>, or (<a rel="noopener ` +
				`noreferrer" href="http://b.example/(q)" title="http://b.example/(q)">http://b.example/(q)</a>).</p>`},
		{"[a](javascript:x) http:// https://", `<p>a <span class="dest">(javascript:x)</span> http:// https://</p>`},
		{"![p](https://a.example/p.png)",
			`<p><a rel="noopener noreferrer" href="https://a.example/p.png" title="https://a.example/p.png">[image: p]</a></p>`},
		{"| a | b |\n|---|:-:|\n| `c` | d\\|e |\n| f |",
			"<div class=\"table\"><table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td><code>c</code></td><td>d|e</td></tr>\n" +
				"<tr><td>f</td></tr>\n</table></div>"},
		{"a | b\nc | d", "<p>a | b\nc | d</p>"},
		{"a  \nb\\\nc", "<p>a<br>\nb<br>\nc</p>"},
		{"> q\n\n---\n\n    code", "<blockquote><p>q</p>\n</blockquote>\n<hr>\n<pre class=\"code\">\ncode</pre>"},
		{"x\u202ey &#x202e; \x1b[0m", `<p>x\u202ey \u202e \x1b[0m</p>`},
	} {
		page := written(t, logOf(t, answer(llm.EndTurn, llm.Text(c.in))), HTML)
		_, got, _ := strings.Cut(page, "<div class=\"text\">\n")
		got, _, _ = strings.Cut(got, "\n</div>\n</section>")
		if got != c.want {
			t.Errorf("%q\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}
