package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestNetworkQuestion: a command that rules allow waits for the answer about a host on the screen: yes, in this
// session, always, no. The pages are on the loopback interface, which "always" is never offered for. The name that it is
// offered for is none: no resolver looks up a label of 64 characters.
func TestNetworkQuestion(t *testing.T) {
	t.Parallel()
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "the page", r.URL.Path)
	}))
	t.Cleanup(pages.Close)
	host := strings.TrimPrefix(pages.URL, "http://")
	port := host[strings.LastIndexByte(host, ':')+1:]
	outside := strings.Repeat("registry", 8) + ".example"
	call := func(id, url string) llmtest.Answer {
		return llmtest.Answer{Calls: []llmtest.Call{{ID: id, Name: "bash", Input: map[string]any{"command": "sh get " + url}}}}
	}
	d := newFixture(t, serve(t,
		call("c1", pages.URL+"/one"), llmtest.Answer{Want: []string{"the page /one"}, Text: "one done"},
		call("c2", pages.URL+"/two"), llmtest.Answer{Want: []string{"host " + host + " is blocked: the user declined"},
			Text: "two done"},
		call("c3", pages.URL+"/three"), llmtest.Answer{Want: []string{"the page /three"}, Text: "three done"},
		call("c4", pages.URL+"/four"), llmtest.Answer{Want: []string{"the page /four"}, Text: "four done"}, // not asked
		call("c5", "http://"+outside+"/"), llmtest.Reply("five done"),
		call("c6", "http://"+outside+"/"), llmtest.Reply("six done"), // not asked
	))
	d.needsSandbox(t)
	// A client of the proxy without another program's start: the first line of a page.
	d.file(t, "get", `exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; `+
		`printf "GET %s HTTP/1.1\r\nHost: x\r\n\r\n" "$0" >&3; cat <&3' "$1"`)
	d.env = append(d.env, "KNACK_UI=screen")
	const w, h = 200, 40
	k := d.run(t, "knack", "--trust", "--allow", "Bash")
	k.shows(w, h, `(?m)^❯$`)
	asks := func(prompt, url, rule, options, answer, then string) {
		t.Helper()
		k.types(prompt + "\r")
		k.shows(w, h, `sh get `+url[:16]+`\S* wants to reach (?s:.*)1 yes.*\n *2 yes, and allow in this session: +Network\(`+rule+`\).*`+options)
		k.types(answer)
		k.shows(w, h, then)
	}
	inside := `\n *3 no`
	asks("one", pages.URL+"/one", "127.0.0.1:"+port, inside, "1", "one done")
	asks("two", pages.URL+"/two", "127.0.0.1:"+port, inside, "3", "why not\\?")
	k.types("\r")
	k.shows(w, h, `sh get \S+/two  partly blocked\n +Blocked by the sandbox: host (?s:.*)two done`)
	asks("three", pages.URL+"/three", "127.0.0.1:"+port, inside, "2", "three done")
	k.types("four\r")
	k.shows(w, h, "four done")
	asks("five", "http://"+outside+"/", outside, `\n *3 yes, and always allow here:(?s:.*)\n *4 no`, "3", "five done")
	k.types("six\r")
	k.shows(w, h, "six done")
	k.quits()
	kept := d.output(t, "sandbox", "explain")
	if !strings.Contains(kept, "Network("+outside+")") || strings.Contains(kept, "127.0.0.1") {
		t.Errorf("kept: %s", kept)
	}
}
