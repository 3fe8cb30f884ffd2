package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
)

// A site is a server of a directory, with a browser that has access.
type site struct {
	enginetest.Fixture
	*testing.T
	server *Server
	base   string // without a slash at the end
	client *http.Client
}

// open serves a directory with these files.
func open(t *testing.T, o engine.Options, files ...string) *site {
	t.Helper()
	f := enginetest.New(t, files...)
	o.Dir = f.Dir
	if o.Env == nil {
		o.Env = func(name string) string {
			switch name {
			case "HOME", "USERPROFILE":
				return f.Home
			}
			return ""
		}
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	x := &site{Fixture: f, T: t, server: s, base: "http://" + s.guard.host, client: client(s)}
	if code, _ := x.fetch(x.client, s.Address(), nil); code != http.StatusOK {
		t.Fatalf("the address is answered with %d", code)
	}
	return x
}

// client returns a browser without access: names that end with .localhost are this machine.
func client(s *Server) *http.Client {
	jar, _ := cookiejar.New(nil) // never fails
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, "127.0.0.1:"+s.port)
	}
	return &http.Client{Jar: jar, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// fetch asks for an address and returns the status and the body.
func (x *site) fetch(c *http.Client, address string, header map[string]string) (int, string) {
	x.Helper()
	r, err := http.NewRequestWithContext(x.Context(), http.MethodGet, address, nil)
	if err != nil {
		x.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
		if k == "Host" {
			r.Host = v
		}
	}
	answer, err := c.Do(r)
	if err != nil {
		x.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		x.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// page returns the main part of a page, as the text that a reader sees, with blanks folded.
func (x *site) page(path string) string {
	x.Helper()
	code, body := x.fetch(x.client, x.base+path, nil)
	if code != http.StatusOK {
		x.Fatalf("%s: status %d\n%s", path, code, body)
	}
	checkPage(x.T, path, body)
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		x.Fatal(err)
	}
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "main" {
			for c := range n.Descendants() {
				if c.Type == html.TextNode {
					b.WriteString(c.Data + " ")
				}
			}
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// has fails unless a page shows all of these texts.
func (x *site) has(path string, texts ...string) string {
	x.Helper()
	got := x.page(path)
	for _, want := range texts {
		if !strings.Contains(got, want) {
			x.Errorf("%s does not show %q:\n%s", path, want, got)
		}
	}
	return got
}

// allowed are the attributes that pages have, by element; "" is for all.
var allowed = map[string]string{
	"": " class id title role tabindex lang aria-label aria-labelledby aria-current aria-hidden ", "a": " href rel ",
	"form": " action data-live method ", "input": " type name value autocomplete spellcheck checked ", "html": " lang ",
	"meta": " charset name content ", "link": " rel href ", "script": " src defer ", "select": " name ",
	"option": " value selected ", "ol": " start ", "th": " scope ", "button": " name value ", "textarea": " name rows ",
	"svg": " viewbox preserveaspectratio ", "rect": " x y width height rx ", "text": " x y text-anchor ",
	"line": " x1 y1 x2 y2 ", "path": " d ", "circle": " cx cy r ", "time": " datetime ", "details": " open ",
	"img": " alt src ", "div": " data-follow ", "section": " data-follow ",
}

// checkPage fails if a page has something that a page of this program never has: an element that runs or loads, an
// attribute that is a script, an address of elsewhere, a hidden character, two equal IDs, no heading.
func checkPage(t *testing.T, path, body string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	ids, headings := map[string]bool{}, 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "h1":
			headings++
		case "iframe", "object", "embed", "base", "style", "foreignobject", "video", "audio", "math":
			t.Errorf("%s: an element %s", path, n.Data)
		}
		for _, a := range n.Attr {
			if key := " " + strings.ToLower(a.Key) + " "; !strings.Contains(allowed[""], key) &&
				!strings.Contains(allowed[n.Data], key) {
				t.Errorf("%s: the attribute %s of %s", path, a.Key, n.Data)
			}
			switch {
			case a.Key == "id" && ids[a.Val]:
				t.Errorf("%s: two elements have the id %s", path, a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			case n.Data == "link" && a.Val == "data:,", n.Data == "a" && attr(n, "rel") == "noopener noreferrer",
				n.Data == "img" && strings.HasPrefix(a.Val, "data:image/"):
			case a.Key == "href" || a.Key == "src" || a.Key == "action":
				if !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "//") {
					t.Errorf("%s: the address %q", path, a.Val)
				}
			}
		}
		if n.Data == "script" && (attr(n, "src") != "/page.js" || n.FirstChild != nil) {
			t.Errorf("%s: a script in the page", path)
		}
	}
	if headings != 1 {
		t.Errorf("%s has %d headings of the first level", path, headings)
	}
	for _, r := range body {
		if r == '\u202e' || r == '\u200b' || r < ' ' && r != '\n' && r != '\t' || r == 0xe0041 {
			t.Fatalf("%s: %U is not escaped", path, r)
		}
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// TestAccess: nobody reads a page but the browser that opened the address first, in time, and from the page itself.
func TestAccess(t *testing.T) {
	x := open(t, engine.Options{})
	refused := func(what string, c *http.Client, address string, header map[string]string) {
		t.Helper()
		if code, body := x.fetch(c, address, header); code != http.StatusForbidden || strings.Contains(body, "<main") {
			t.Errorf("%s: status %d\n%s", what, code, body)
		}
	}
	x.page("/skills")
	for _, path := range []string{"/", "/skills", "/style.css", "/none"} {
		refused("another user of this machine", client(x.server), x.base+path, nil)
	}
	refused("a guessed cookie", client(x.server), x.base+"/skills", map[string]string{"Cookie": "knack=" + strings.Repeat("A",
		26)})
	for _, origin := range []string{"http://evil.example", "null", "http://localhost:" + x.server.port, x.base + ".evil.example",
		"https" + strings.TrimPrefix(x.base, "http"), "http://127.0.0.1:" + x.server.port} {
		refused("the origin "+origin, x.client, x.base+"/skills", map[string]string{"Origin": origin})
	}
	refused("a link on another site", x.client, x.base+"/skills", map[string]string{"Sec-Fetch-Site": "cross-site"})
	refused("a server beside this one", x.client, x.base+"/skills", map[string]string{"Sec-Fetch-Site": "same-site"})
	for _, host := range []string{"evil.example:" + x.server.port, "localhost:" + x.server.port, "127.0.0.1:" + x.server.port,
		"x." + x.server.guard.host, strings.Split(x.server.guard.host, ":")[0]} {
		refused("a name that leads here, "+host, x.client, x.base+"/skills", map[string]string{"Host": host})
		refused("with a token", client(x.server), x.server.Address(), map[string]string{"Host": host})
	}

	again := x.server.Address()
	if code, _ := x.fetch(client(x.server), again, nil); code != http.StatusOK {
		t.Errorf("another address is answered with %d", code)
	}
	refused("an address a second time", client(x.server), again, nil)
	late := x.server.Address()
	x.server.guard.now = func() time.Time { return time.Now().Add(tokenLife + time.Second) }
	refused("an address that is a minute old", client(x.server), late, nil)
	x.server.guard.now = time.Now
	x.server.guard.sameID = func(*http.Request) bool { return false }
	taken := x.server.Address()
	refused("a program of another user that has read the address", client(x.server), taken, nil)
	x.server.guard.sameID = ofThisUser
	if code, _ := x.fetch(client(x.server), taken, nil); code != http.StatusOK {
		t.Errorf("then the address does not work for its user: %d", code)
	}
}

// TestChangesNothing: without a form of the page, no request that could change something is answered.
func TestChangesNothing(t *testing.T) {
	x := open(t, engine.Options{})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		for _, form := range []url.Values{{}, {"form": {""}}, {"form": {strings.Repeat("A", 26)}}} {
			for _, origin := range []string{"", x.base, "http://evil.example"} {
				r, err := http.NewRequestWithContext(t.Context(), method, x.base+"/skills", strings.NewReader(form.Encode()))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				if origin != "" {
					r.Header.Set("Origin", origin)
				}
				answer, err := x.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if answer.StatusCode != http.StatusForbidden {
					t.Errorf("%s from %q with %v: status %d", method, origin, form, answer.StatusCode)
				}
			}
		}
	}
}

// TestHeaders: a page may load nothing from elsewhere and cannot be framed, and its cookie goes nowhere else.
func TestHeaders(t *testing.T) {
	x := open(t, engine.Options{})
	c := client(x.server)
	answer, err := c.Get(x.server.Address())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	cookies := answer.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode ||
		cookies[0].Domain != "" || len(cookies[0].Value) < 26 {
		t.Errorf("the cookies are %v", cookies)
	}
	for _, path := range []string{"/skills", "/style.css", "/page.js", "/none"} {
		answer, err := c.Get(x.base + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		csp := answer.Header.Get("Content-Security-Policy")
		if csp != policy || strings.Contains(csp, "unsafe") || !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		if answer.Header.Get("X-Content-Type-Options") != "nosniff" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, answer.Header)
		}
	}
}

// hostile is a text that tries to be more than text, in every context that a page has.
const hostile = "</title></style></script></textarea></pre></main></svg><script>alert(1)</script>" +
	"<img src=//evil.example/1 onerror=alert(2)>\" onmouseover=\"alert(3)' x=' javascript:alert(4) &lt;b&gt; " +
	"\u202egnp.exe\u202c zero\u200bwidth \x1b[31mred tag\U000e0041 {{.}} %s%n"

// quoted returns a text as JSON, which YAML reads.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r > 0x7e && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r >= 0x10000:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// hostileSkill is a skill that has hostile text everywhere.
func hostileSkill() string {
	h := quoted(hostile)
	return "---\nname: " + h + "\ndescription: " + h + "\nwhen_to_use: " + h + "\nallowed-tools: [" + h + "]\nlicense: " + h +
		"\nversion: " + h + "\narguments: [" + h + "]\npaths: [" + h + "]\nmodel: " + h + "\nhooks: {Stop: [{hooks: [{type: " +
		"command, command: " + h + "}]}]}\n---\n" + hostile + "\n"
}

// TestSkillsHostile: whatever a skill says is text.
func TestSkillsHostile(t *testing.T) {
	x := open(t, engine.Options{Trust: true}, ".claude/skills/bad/SKILL.md", hostileSkill(),
		".claude/skills/bad/"+`a"onload=x'<b>.txt`, "x", ".claude/skills/broken/SKILL.md", "---\nname: [\n---\n"+hostile)
	list := x.has("/skills", "<script>alert(1)</script>", `\u202egnp.exe`)
	if strings.Contains(list, "zerowidth") {
		t.Error("a hidden character vanished")
	}
	_, body := x.fetch(x.client, x.base+"/skills", nil)
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for n := range doc.Descendants() {
		if n.Data == "a" && strings.HasPrefix(attr(n, "href"), "/skill?") {
			x.page(attr(n, "href"))
			seen++
		}
	}
	if seen < 2 {
		t.Errorf("only %d skills have a page", seen)
	}
	for _, query := range []string{"q", "state", "source", "page"} {
		x.page("/skills?" + url.Values{query: {hostile}}.Encode())
	}
	x.has("/skill?"+url.Values{"name": {hostile}}.Encode(), "Where was searched")
}

// TestSkills: what `knack skill list` and `knack skill why` tell.
func TestSkills(t *testing.T) {
	x := open(t, engine.Options{Trust: true},
		"~/.claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDF files.\nallowed-tools: "+
			"Bash(pdftotext:*)\nlicense: MIT\n---\n# How to read\n", "~/.claude/skills/pdf/forms.md", "x",
		".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: The project's.\n---\nx\n",
		"~/.claude/skills/日本/SKILL.md", "---\nname: 日本\ndescription: 表を作る。\n---\nx\n")
	x.has("/skills", "pdf active", "Reads PDF files.", "shadowed", "日本", "user")
	x.has("/skills?q=reads+PDF", "1 skill ")
	x.has("/skills?q=表", "日本")
	x.has("/skills?q=nothing-like-it", "0 skills", "No skill is like this.")
	if got := x.page("/skills?state=shadowed"); strings.Contains(got, "Reads PDF files.") {
		t.Errorf("the filter has no effect:\n%s", got)
	}
	x.has("/skill?name=pdf", "allow Bash(pdftotext:*)", "License MIT", "forms.md", "How to read", "Where was searched",
		"not there", "which comes first", "shadowed")
	if code, _ := x.fetch(x.client, x.base+"/none", nil); code != http.StatusNotFound {
		t.Errorf("a page that does not exist is answered with %d", code)
	}

	// What changes on disk is on the next page.
	x.Write(t, "~/.config/knack/settings.json", `{"skills": {"overrides": {"pdf": "off"}}}`)
	x.has("/skills?q=pdf", "pdf off")
	x.Write(t, "~/.local/state/knack/usage.json", `{"pdf":{"count":3,"last":"2026-01-31T12:00:00Z"}}`)
	x.has("/skills?q=pdf", "2026-01-31")
}

// TestSkillsPaging: of thousands of skills, a page has fifty.
func TestSkillsPaging(t *testing.T) {
	x := open(t, engine.Options{Trust: true})
	for i := range 120 {
		x.Write(t, fmt.Sprintf(".claude/skills/s%03d/SKILL.md", i), fmt.Sprintf("---\nname: s%03d\ndescription: Does %d.\n---\nx\n",
			i, i))
	}
	if _, err := x.server.dir.engine.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := x.has("/skills?q=does&source=project", "120 skills", "1 of 3", "s049", "Next")
	if strings.Contains(got, "s050") {
		t.Error("the first page has more than fifty")
	}
	x.has("/skills?q=does&page=3", "s119", "3 of 3")
	x.has("/skills?q=does&page=99", "3 of 3")
	x.has("/skills?q=does&page=-1", "1 of 3")
}

// BenchmarkSkills measures the page of 10,000 skills.
func BenchmarkSkills(b *testing.B) {
	top := b.TempDir()
	for i := range 10_000 {
		dir := filepath.Join(top, "work", ".claude", "skills", fmt.Sprintf("s%05d", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		text := fmt.Sprintf("---\nname: s%05d\ndescription: Makes reports of kind %d. Use it when somebody asks.\n---\nx\n", i, i%17)
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s, err := Open(b.Context(), engine.Options{Dir: filepath.Join(top, "work"), Trust: true, Env: func(name string) string {
		if name == "HOME" {
			return top
		}
		return ""
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for name, path := range map[string]string{"list": "/skills", "search": "/skills?q=kind+7", "last": "/skills?page=9999",
		"skill": "/skill?name=s05000", "listing": "/listing", "trust": "/trust"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
				if err != nil {
					b.Fatal(err)
				}
				w := &discard{header: http.Header{}}
				s.guard.next.ServeHTTP(w, r)
				if w.status != http.StatusOK {
					b.Fatalf("status %d", w.status)
				}
			}
		})
	}
}

type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// fullProject are the files of a project that has something for every page, much of it hostile.
func fullProject(t testing.TB) []string {
	return []string{
		sessionsDir + "inventory-a/20260101-000000-aa.jsonl", recorded(t, ""),
		sessionsDir + "hostile-b/20260102-000000-bb.jsonl", recorded(t, hostile),
		sessionsDir + "long-c/long.jsonl", longSession(400),
		".claude/skills/csv-report/SKILL.md", "---\nname: csv-report\ndescription: Turns a CSV file into a report with a " +
			"chart. Use it when somebody has a table and wants to see what is in it.\nallowed-tools: Bash(python3:*) Read\n" +
			"license: Apache-2.0\n---\n# Report\n\n1. Read the file.\n2. Draw the chart.\n",
		".claude/skills/csv-report/chart.py", "print(1)\n",
		".claude/skills/日本語の表/SKILL.md", "---\nname: 日本語の表\ndescription: 表を読みやすくします。長い説明でも折り返します。\n---\nx\n",
		".claude/skills/rindfleisch/SKILL.md", "---\nname: rindfleischetikettierungsueberwachungsaufgabenuebertragungsgesetz\n" +
			"description: Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft prüft " +
			"Grundstücksverkehrsgenehmigungszuständigkeitsübertragungsverordnungen.\n---\nx\n",
		".claude/skills/bad/SKILL.md", hostileSkill(),
		".claude/skills/broken/SKILL.md", "---\nname: [\n---\nx\n",
		"~/.claude/skills/csv-report/SKILL.md", "---\nname: csv-report\ndescription: Another one.\n---\nx\n",
		"~/.config/knack/settings.json", `{"permissions": {"allow": ["Bash(git status:*)"], "deny": ["Read(.env)"]}}`,
		".knack/settings.json", `{"permissions": {"ask": ["Bash(git push:*)"]}}`,
	}
}

// everyPage returns the addresses of all pages, one of each kind.
func everyPage(x *site) []string {
	return []string{"/skills", "/skill?name=csv-report", "/skill?name=bad", "/listing?window=20000&pin=csv-report",
		"/rules?" + url.Values{"tool": {"bash"}, "input": {`{"command": "git status && git push && cat .env"}`}}.Encode(),
		"/settings?key=model&value=sonnet&in=user", "/trust", "/sessions", "/session?in=inventory-a&id=20260101-000000-aa",
		"/session?in=hostile-b&id=20260102-000000-bb", "/session?in=long-c&id=long", "/batches"}
}

// TestEveryPage: every page has its heading, and nothing that runs.
func TestEveryPage(t *testing.T) {
	x := open(t, engine.Options{Trust: true}, fullProject(t)...)
	for _, path := range everyPage(x) {
		x.page(path)
	}
}
