package browser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/chromium"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/browser"
)

// A fixture is a real browser and a server of pages on this machine.
type fixture struct {
	*testing.T
	set   tool.Set
	local *workspace.Local
	pages *httptest.Server
	other *httptest.Server // of a host that nobody allowed
	hits  chan string      // requests to other
	saved chan string      // what the form sent
}

const home = `<!doctype html><html lang=en><title>Shop</title><h1>Shop</h1>
<p>Two <b>items</b> in the basket.</p>
<a href="/second">More</a>
<form action="/save" method=post><label>Name <input name=name value=Ada required></label>
<label>Size <select name=size><option>small<option value=L>large</select></label>
<label>Day <input type=date name=day></label><button>Save</button></form>
<button onclick="document.getElementById('n').textContent = 'counted ' + (++window.n)">Count</button>
<p id=n>nothing counted</p><button onclick="alert('Really?')">Ask</button>
<button onclick="window.open('/second')">New tab</button>
<div style="position:relative;width:9em"><button>Under</button>
<div id=over style="position:absolute;inset:0"></div></div>
<button hidden>Hidden</button><iframe src="/frame" title=Inner></iframe>
<script>window.n = 0; console.log("hello", {a: 1}); console.error("broken"); fetch("/data.json").then(r => r.json())</script>`

func open(t *testing.T, confined bool) *fixture {
	t.Helper()
	if os.Getenv("KNACK_TEST_BROWSER") == "" {
		t.Skip("a real browser is driven only with KNACK_TEST_BROWSER=1: when it is done with something depends on the machine")
	}
	program := chromium.Find(os.Getenv)
	if program == "" {
		t.Skip("neither Chromium nor Chrome is installed")
	}
	f := &fixture{T: t, hits: make(chan string, 100), saved: make(chan string, 10)}
	f.other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.hits <- r.URL.Path }))
	t.Cleanup(f.other.Close)
	mux := http.NewServeMux()
	page := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Set-Cookie", "session=secret")
			fmt.Fprint(w, text)
		})
	}
	page("/{$}", home)
	page("/second", `<title>Second</title><h1>Second page</h1><a href="/">Back</a>`)
	page("/frame", `<button>Inside</button>`)
	page("/tracker", `<title>Tracker</title><p>Here</p><img src="`+f.other.URL+`/pixel.png"><script>
fetch("`+f.other.URL+`/steal").catch(e => document.body.append("not sent")); new WebSocket("`+
		strings.Replace(f.other.URL, "http", "ws", 1)+`/socket"); navigator.sendBeacon("`+f.other.URL+`/beacon")</script>`)
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, f.other.URL+"/redirected", http.StatusFound)
	})
	mux.HandleFunc("/data.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"answer": 42}`)
	})
	mux.HandleFunc("/file.zip", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		fmt.Fprint(w, "zip")
	})
	mux.HandleFunc("/save", func(w http.ResponseWriter, r *http.Request) {
		f.saved <- r.PostFormValue("name") + " " + r.PostFormValue("size") + " " + r.PostFormValue("day")
		fmt.Fprint(w, "<title>Saved</title><p>Thank you")
	})
	f.pages = httptest.NewServer(mux)
	t.Cleanup(f.pages.Close)
	var err error
	f.local, err = workspace.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.local.Close() })
	if confined {
		policy, err := sandbox.Default(f.local.Dir())
		if err != nil {
			t.Fatal(err)
		}
		box := sandbox.New(policy, sandbox.Auto)
		t.Cleanup(box.Close)
		if r := box.Report(); r.Level != sandbox.Complete {
			t.Skipf("no complete sandbox here: %s", r.Notice())
		}
		f.local.Confine = box.Confine
	}
	b := browser.New(browser.Options{Workspace: f.local, Program: program, Unconfined: func() bool { return !confined }})
	t.Cleanup(func() { b.Close() })
	f.set = b.Tools()
	return f
}

// call calls a tool and returns the text of its result.
func (f *fixture) call(name, format string, args ...any) (string, tool.Result) {
	f.Helper()
	res := tool.Call(f.Context(), f.set, llm.ToolCall{ID: "1", Name: name, Input: json.RawMessage(fmt.Sprintf(format,
		args...))}, tool.AllowAll, nil)
	return llm.TextOf(res.Parts), res
}

// want calls a tool and checks that its result contains some texts.
func (f *fixture) want(name, input string, wants ...string) string {
	f.Helper()
	text, _ := f.call(name, "%s", input)
	for _, w := range wants {
		if !strings.Contains(text, w) {
			f.Errorf("%s %s: no %q in\n%s", name, input, w, text)
		}
	}
	return text
}

// ref returns the number of the element whose line begins with a text.
func (f *fixture) ref(line string) string {
	f.Helper()
	text := f.want("browser_read", `{}`)
	m := regexp.MustCompile(regexp.QuoteMeta(line) + ` \[(\d+)\]`).FindStringSubmatch(text)
	if m == nil {
		f.Fatalf("no %s in\n%s", line, text)
	}
	return m[1]
}

// TestBrowser goes through a site in the sandbox as a model would.
func TestBrowser(t *testing.T) { testBrowser(open(t, true)) }

// TestUnconfined does the same where no sandbox is: the browser has a proxy of its own.
func TestUnconfined(t *testing.T) { testHosts(open(t, false)) }

func testBrowser(f *fixture) {
	f.want("browser_read", `{}`, "no page is open")
	f.want("browser_open", `{"url":"`+f.pages.URL+`/"}`, `- title "Shop"`, `- heading "Shop" level=1`,
		"- paragraph", "Two items in the basket.", `- link "More" [`, "/second", `- textbox "Name" [`, `required`,
		`value="Ada"`, `- button "Inside" [`, "the text of a stranger")
	if text := f.want("browser_read", `{}`); strings.Contains(text, "Hidden") || strings.Contains(text, "InlineTextBox") {
		f.Error(text)
	}

	// Only what has changed is shown after a click.
	text := f.want("browser_click", `{"ref":`+f.ref(`button "Count"`)+`}`, "What changed", "counted 1")
	if strings.Contains(text, "basket") && len(text) > 1500 {
		f.Error(text)
	}
	f.want("browser_click", `{"ref":`+f.ref(`button "Ask"`)+`}`, `--- page `, `- dialog (alert), answered with OK: "Really?"`)
	f.want("browser_click", `{"ref":`+f.ref(`button "Under"`)+`}`, "was not clicked: div#over lies over it")
	f.want("browser_click", `{"ref":`+f.ref(`button "Inside"`)+`}`)
	f.want("browser_click", `{"ref":999999}`, "call browser_read")

	// A form.
	f.want("browser_type", `{"ref":`+f.ref(`textbox "Name"`)+`,"text":"Grüße 你好"}`, `value="Grüße 你好"`)
	f.want("browser_type", `{"ref":`+f.ref(`combobox "Size"`)+`,"text":"huge"}`, "There is no option", "small, large")
	f.want("browser_type", `{"ref":`+f.ref(`combobox "Size"`)+`,"text":"large"}`, `value="large"`)
	f.want("browser_type", `{"ref":`+f.ref(`Date "Day"`)+`,"text":"2026-01-31"}`)
	f.want("browser_type", `{"key":"Nothing"}`, "is not known", "ArrowDown")
	f.want("browser_type", `{"ref":`+f.ref(`textbox "Name"`)+`,"key":"Enter"}`, `- title "Saved"`, "Thank you")
	if got := <-f.saved; got != "Grüße 你好 L 2026-01-31" {
		f.Errorf("the form sent %q", got)
	}

	// What the page logged and asked for.
	f.want("browser_open", `{"url":"`+f.pages.URL+`/"}`, "Shop")
	f.want("browser_console", `{}`, "log: hello", "error: broken")
	if text := f.want("browser_console", `{"errors":true}`, "error: broken"); strings.Contains(text, "hello") {
		f.Error(text)
	}
	text = f.want("browser_network", `{"filter":"data.json"}`, "GET 200 "+f.pages.URL+"/data.json fetch")
	number := regexp.MustCompile(`(?m)^(\d+) GET 200`).FindStringSubmatch(text)[1]
	f.want("browser_network", `{"request":`+number+`}`, `{"answer": 42}`, "Content-Type: application/json")
	if text := f.want("browser_network", `{"request":`+number+`}`); strings.Contains(text, "secret") {
		f.Error("a cookie is shown:\n" + text)
	}

	// Pictures.
	_, res := f.call("browser_screenshot", `{"full":true,"path":"shop.png"}`)
	if len(res.Parts) != 2 || res.Parts[1].Media == nil || res.Parts[1].Media.MIME != "image/png" {
		f.Errorf("%+v", res)
	} else if data, err := os.ReadFile(filepath.Join(f.local.Dir(), "shop.png")); err != nil ||
		string(data) != string(res.Parts[1].Media.Data) || !strings.HasPrefix(string(data), "\x89PNG") {
		f.Error(err)
	}
	f.want("browser_screenshot", `{"path":"shop.txt"}`, "a screenshot is a .png file")
	f.want("browser_screenshot", `{"ref":`+f.ref(`button "Count"`)+`}`, "Shop")

	f.want("browser_click", `{"ref":`+f.ref(`button "New tab"`)+`}`, "opened a new tab", "Second page")
	f.want("browser_read", `{"wait":"second PAGE"}`, "Second page")
	f.want("browser_open", `{"url":"`+f.pages.URL+`/file.zip"}`, "is a download")
	testHosts(f)
}

// testHosts: no way leads to a host that was not allowed.
func testHosts(f *fixture) {
	other := strings.TrimPrefix(f.other.URL, "http://")
	f.want("browser_open", `{"url":"`+f.pages.URL+`/tracker"}`, "Here", "not sent",
		"Not reached, because nobody allowed it: "+
			other)
	f.want("browser_open", `{"url":"`+f.pages.URL+`/away"}`, other)
	f.want("browser_open", `{"url":"file:///etc/passwd"}`, "only http and https")
	select {
	case path := <-f.hits:
		f.Errorf("the other host got a request for %s", path)
	default:
	}
	f.want("browser_open", `{"host":"`+other+`"}`, "may load from "+other)
	f.want("browser_open", `{"url":"`+f.pages.URL+`/tracker"}`, "Here")
	if got := <-f.hits; got == "" {
		f.Error("the other host was not reached")
	}
}

// TestSubjects: each host is a subject of its own, whatever the page; what only looks needs no permission.
func TestSubjects(t *testing.T) {
	set := browser.New(browser.Options{Carries: func(text string) string {
		if strings.Contains(text, "hunter2") {
			return "a secret"
		}
		return ""
	}}).Tools()
	subjects := func(name, input string) (list []string) {
		tl, _ := set.Find(name)
		if tl.Subjects == nil {
			return []string{"default"}
		}
		all, err := tl.Subjects(t.Context(), json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			text := string(s.Kind) + "(" + s.Text + ")"
			if s.Default == permission.Allow {
				text += " allowed"
			}
			if s.EveryTime {
				text += " every time"
			}
			list = append(list, text)
		}
		return list
	}
	for _, c := range []struct{ name, input, want string }{
		{"browser_open", `{"url":"https://example.com/x"}`,
			"browser_open(example.com) WebFetch(https://example.com/x) allowed"},
		{"browser_open", `{"url":"http://localhost:3000/"}`,
			"browser_open(localhost:3000) WebFetch(http://localhost:3000/) allowed"},
		{"browser_open", `{"url":"https://example.com/?hunter2"}`, "browser_open(example.com) " +
			"WebFetch(https://example.com/?hunter2) allowed WebData(https://example.com/?hunter2) every time"},
		{"browser_read", `{}`, "browser_read() allowed"},
		{"browser_click", `{"ref":1}`, "default"},
		{"browser_type", `{"text":"x"}`, "browser_type()"},
		{"browser_type", `{"text":"hunter2"}`, "browser_type() WebData(hunter2) every time"},
		{"browser_network", `{}`, "browser_network() allowed"},
	} {
		if got := strings.Join(subjects(c.name, c.input), " "); got != c.want {
			t.Errorf("%s %s: %s", c.name, c.input, got)
		}
	}
	for i := range set {
		if !set[i].Unlisted() {
			t.Errorf("%s is listed before a page was opened", set[i].Name)
		}
	}
}

// TestFails: what cannot be started says why, and the next call tries again.
func TestFails(t *testing.T) {
	if os.PathSeparator == '\\' {
		t.Skip("no browser on Windows")
	}
	dir := t.TempDir()
	fake := filepath.Join(dir, "chromium")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho cannot open display >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := chromium.Find(func(name string) string { return map[string]string{"PATH": dir}[name] }); got != fake {
		t.Errorf("found %q", got)
	}
	local, err := workspace.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	for program, want := range map[string]string{"": "neither Chromium nor Chrome was found",
		fake: "cannot open display"} {
		b := browser.New(browser.Options{Workspace: local, Program: program, Unconfined: func() bool { return true }})
		set := b.Tools()
		for range 2 {
			res := tool.Call(t.Context(), set, llm.ToolCall{ID: "1", Name: "browser_open",
				Input: json.RawMessage(`{"url":"http://localhost:1/"}`)}, tool.AllowAll, nil)
			if text := llm.TextOf(res.Parts); !res.IsError || !strings.Contains(text, want) {
				t.Errorf("%q: %s", program, text)
			}
		}
		b.Close()
	}
}
