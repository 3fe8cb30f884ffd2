//go:build unix

package web

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/chromium"
)

// A tab is a page of a real browser, which is driven through a pipe.
type tab struct {
	*testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	last    int
	bad     []string // what the browser complained about, and requests to elsewhere
	loaded  int      // how many pages
	base    string
}

// browse opens a tab of Chromium, or skips the test.
func browse(t *testing.T, base string) *tab {
	t.Helper()
	if os.Getenv("KNACK_TEST_BROWSER") == "" {
		t.Skip("a real browser is driven only with KNACK_TEST_BROWSER=1: when it is done with something depends on the machine")
	}
	program := chromium.Find(os.Getenv)
	if program == "" {
		t.Skip("neither Chromium nor Chrome is installed")
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+t.TempDir())
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		to.Close()
		from.Close()
	})
	b := &tab{T: t, to: to, from: bufio.NewReaderSize(from, 1<<20), base: base}
	var target struct{ TargetID string }
	b.call(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct{ SessionID string }
	b.call(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Network", "Runtime", "Log"} {
		b.call(nil, domain+".enable", nil)
	}
	return b
}

// call sends a message and reads what the browser sends up to the answer.
func (b *tab) call(result any, method string, params any) {
	b.Helper()
	b.last++
	id := b.last
	m := map[string]any{"id": id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	data, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(data, 0))
	}
	if err != nil {
		b.Fatal(err)
	}
	for {
		answer := b.next()
		if answer.ID != id {
			continue
		}
		if answer.Error != nil {
			b.Fatalf("%s: %s", method, answer.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(answer.Result, result); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
}

type devMessage struct {
	ID             int
	Method         string
	Params, Result json.RawMessage
	Error          *struct{ Message string }
}

// next reads a message, and notes what a page of ours never causes.
func (b *tab) next() devMessage {
	b.Helper()
	data, err := b.from.ReadBytes(0)
	if err != nil {
		b.Fatalf("the browser ended: %v", err)
	}
	var m devMessage
	if err := json.Unmarshal(data[:len(data)-1], &m); err != nil {
		b.Fatal(err)
	}
	switch m.Method {
	case "Page.loadEventFired":
		b.loaded++
	case "Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		b.bad = append(b.bad, m.Method+" "+string(m.Params))
	case "Network.requestWillBeSent":
		var x struct{ Request struct{ URL string } }
		json.Unmarshal(m.Params, &x)
		if !strings.HasPrefix(x.Request.URL, b.base+"/") && !strings.HasPrefix(x.Request.URL, "data:") {
			b.bad = append(b.bad, "a request to "+x.Request.URL)
		}
	}
	return m
}

// visit shows an address, and waits until it is loaded.
func (b *tab) visit(address string, loads int) {
	b.Helper()
	want := b.loaded + loads
	b.call(nil, "Page.navigate", map[string]any{"url": address})
	for b.loaded < want {
		b.next()
	}
}

// eval returns the value of an expression.
func (b *tab) eval(expression string) any {
	b.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call(&out, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if len(out.ExceptionDetails) > 0 {
		b.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	return out.Result.Value
}

// shape sets the width and the theme.
func (b *tab) shape(width, height int, theme string) {
	b.Helper()
	b.call(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": false})
	b.call(nil, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme",
		"value": theme}}})
}

// shot saves a picture if KNACK_WEB_SHOTS names a directory.
func (b *tab) shot(name string) {
	b.Helper()
	dir := os.Getenv("KNACK_WEB_SHOTS")
	if dir == "" {
		return
	}
	var out struct{ Data string }
	b.call(&out, "Page.captureScreenshot", map[string]any{"format": "png"})
	data, err := base64.StdEncoding.DecodeString(out.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// TestBrowser visits every page with a real browser, at the least and at a usual width and in both themes: nothing
// runs or is loaded from elsewhere, nobody complains, nothing is wider than the window.
func TestBrowser(t *testing.T) {
	x := open(t, engine.Options{}, fullProject(t)...)
	b := browse(t, x.base)
	b.visit(x.server.Address(), 2) // the page that gives the cookie, and the first one
	axe, _ := os.ReadFile(os.Getenv("KNACK_AXE"))
	for _, path := range everyPage(x) {
		name, of, _ := strings.Cut(strings.TrimPrefix(path, "/"), "?")
		if name == "skill" || name == "session" {
			_, of, _ = strings.Cut(of, "=")
			of, _, _ = strings.Cut(of, "&")
			name += "-" + of
		}
		for _, width := range []int{360, 1200} {
			for _, theme := range []string{"light", "dark"} {
				b.shape(width, 900, theme)
				b.visit(x.base+path, 1)
				if wide, _ := b.eval("document.documentElement.scrollWidth").(float64); int(wide) > width {
					t.Errorf("%s is %.0f px wide at %d", path, wide, width)
				}
				b.shot(fmt.Sprintf("%s-%d-%s", name, width, theme))
				if len(axe) > 0 {
					b.eval(string(axe) + "; 0")
					found := b.eval(`axe.run().then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical")` +
						`.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("; ")).join("\n"))`)
					if text, _ := found.(string); text != "" {
						t.Errorf("%s at %d, %s:\n%s", path, width, theme, text)
					}
				}
			}
		}
	}
	for _, bad := range b.bad {
		t.Error(bad)
	}
}

// TestBrowserSearch: the list follows what somebody types, without another page.
func TestBrowserSearch(t *testing.T) {
	x := open(t, engine.Options{Trust: true}, fullProject(t)...)
	b := browse(t, x.base)
	b.visit(x.server.Address(), 2)
	b.visit(x.base+"/skills", 1)
	b.eval(`document.querySelector("input[type=search]").focus()`)
	b.call(nil, "Input.insertText", map[string]any{"text": "csv-report"})
	got := b.eval(`new Promise(done => { let left = 1000; const look = () => {
		const names = [...document.querySelectorAll(".skills h2 a")].map(a => a.textContent);
		if (names.join(" ") === "csv-report csv-report") done(location.search);
		else if (!left--) done(names.join(" ")); else setTimeout(look, 30); }; look(); })`)
	if got != "?q=csv-report&source=" {
		t.Errorf("the address is %v", got)
	}
	for _, bad := range b.bad {
		t.Error(bad)
	}
}
