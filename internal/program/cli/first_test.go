//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// keyless returns a fixture without a key for any provider.
func keyless(t *testing.T, server *llmtest.Server) fixture {
	d := newFixture(t, server)
	d.env = slices.DeleteFunc(d.env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasSuffix(name, "_API_KEY") || strings.HasSuffix(name, "_AUTH_TOKEN") || name == "OLLAMA_HOST"
	})
	d.env = append(d.env, "KNACK_KEYRING=file")
	return d
}

// TestFirstStart: without any key the program asks for a provider, stores the key without displaying it, and does not
// ask again.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	d := keyless(t, serve(t, llmtest.Reply("Hello to you."), llmtest.Reply("And again.")))
	k := d.open(t)
	k.expect(`(?s)Which model should Knack use\?.*1 Anthropic.*local server.*no model: only skills with fixed steps.*not now.*  : `)
	for _, typed := range []string{"9\r", "/model\r", "xyz\r"} {
		k.types(typed)
		k.expect(`Type a number from 1 to 7\.`)
	}
	k.types("1\r")
	k.expect(`Paste your Anthropic API key: `)
	k.types(llmtest.Key + "\r")
	k.expect(`(?s)Test the key\?.*only store it.*  : `)
	k.types("1\r")
	k.expect(`The key of anthropic is stored in .*keys\.json`)
	k.expect(`anthropic/claude-sonnet-5-5, .*skills`)
	k.enters("hello")
	k.expect(`Hello to you\.`)
	k.leaves()
	if strings.Contains(k.all.String(), llmtest.Key) || strings.Contains(k.all.String(), "hint:") {
		t.Errorf("the key or a hint is shown: %q", k.all.String())
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(d.dir), ".local/state/knack/keys.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", info, err)
	}

	k = d.open(t)
	k.expect(`anthropic/claude-sonnet-5-5, .*skills`)
	k.enters("hello")
	k.expect(`And again\.`)
	k.leaves()

	k = keyless(t, serve(t)).open(t)
	k.expect(`(?s)not now.*  : `)
	k.types("1\r")
	k.expect(`Paste your Anthropic API key: `)
	k.types("/model\r")
	k.expect(`(?s)Not saved: a key does not begin with a slash, but a command or a path does\..*Paste your Anthropic API key: `)
	k.types(ctrlC) // a key that is typed now would be a message, if the question had gone
	k.leaves()

	d = keyless(t, serve(t))
	k = d.open(t)
	k.expect(`(?s)not now.*  : `)
	k.types("1\r")
	k.expect(`Paste your Anthropic API key: `)
	k.types("not-the-key-of-the-server\r")
	k.expect(`(?s)Test the key\?.*only store it.*  : `)
	k.types("1\r")
	k.expect(`the key of Anthropic is not saved: the key was refused: 401`)
	k.leaves()
	if _, err := os.Stat(filepath.Join(filepath.Dir(d.dir), ".local/state/knack/keys.json")); !os.IsNotExist(err) {
		t.Errorf("a refused key was stored: %v", err)
	}

	k = keyless(t, serve(t)).open(t)
	k.expect(`(?s)not now.*  : `)
	k.types(ctrlC)
	k.expect(`(?s)no model: .*\nhint: /login adds a key.*\nhint: /settings model.*\nhint: /model offline`)
	k.leaves()
	if strings.Contains(k.all.String(), "knack: hint") || strings.Contains(k.all.String(), "export ") {
		t.Errorf("a hint for the command line is shown at the prompt: %q", k.all.String())
	}

	k = keyless(t, serve(t)).open(t)
	k.expect(`(?s)not now.*  : `)
	k.types("offline\r")
	k.expect(`offline, .*skills`)
	k.leaves()
}

// TestFirstStartScreen is the same on the screen.
func TestFirstStartScreen(t *testing.T) {
	t.Parallel()
	d := keyless(t, serve(t, llmtest.Reply("Hello to you.")))
	k := d.onScreen(t, 100, 30)
	k.shows(100, 30, `(?s)Which model should Knack use\?.*Anthropic.*a local server: Ollama, LM Studio, llama.cpp or `+
		`vLLM.*not now`)
	k.types("1")
	k.shows(100, 30, `Paste your Anthropic API key`)
	k.types(llmtest.Key)
	k.types("\r")
	k.shows(100, 30, `Test the key\?`)
	k.types("1")
	k.shows(100, 30, `The key of anthropic is stored in`)
	k.types("hello\r")
	k.shows(100, 30, `Hello to you\.`)
	k.quits()
}

// TestOneWord: a single word that is no command is a question at a terminal, because it would cost a request. The
// prompt is the first one in the history, too.
func TestOneWord(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t, llmtest.Reply("Hello to you.")))
	k := d.open(t, "config")
	k.expect(`(?s)hint: knack -p /settings.*config is not a command\. Send it to the model as a prompt\? \[y/N\] `)
	k.types("\r")
	k.expect(`knack: hint: knack -- config, for a prompt`)
	<-k.over
	if err := k.cmd.Wait(); k.cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("the program ended with %v", err)
	}

	k = d.open(t, "update")
	k.expect(`(?s)hint: knack plugin update --help.*hint: knack skill update --help.*\[y/N\] `)
	k.types("y\r")
	k.expect(`Hello to you\.`)
	k.leaves()
}

// TestRoutes: an address in another program's settings counts after a yes, which is for this value only, and gets the
// key that stands beside it, never one that Knack stored.
func TestRoutes(t *testing.T) {
	t.Parallel()
	first := serve(t, llmtest.Reply("From the first."), llmtest.Reply("Again from the first."))
	second := serve(t)
	d := keyless(t, first)
	d.env = slices.DeleteFunc(d.env, func(kv string) bool { return strings.HasPrefix(kv, "ANTHROPIC_") })
	settings := filepath.Join(d.home(), ".claude", "settings.json")
	write := func(env string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(settings), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(settings, []byte(`{"env": {`+env+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := `, "ANTHROPIC_API_KEY": "` + llmtest.Key + `"`

	// Until there is an answer, nothing is sent, and the key that stands beside the address is not used either.
	write(`"ANTHROPIC_BASE_URL": "` + first.URL + `"` + key)
	if out := d.output(t, "-p", "hello"); !strings.Contains(out, "says where requests go") ||
		!strings.Contains(out, "export ANTHROPIC_BASE_URL="+first.URL) {
		t.Errorf("before an answer: %s", out)
	}
	k := d.open(t)
	k.expect(`ANTHROPIC_BASE_URL=` + first.URL)
	k.expect(`Send requests, with your conversations, there\? Keys that Knack stored are never sent there\. \[y/N\] `)
	k.types("y\r")
	k.expect(`anthropic/claude-sonnet-5-5, .*skills`)
	k.enters("hello")
	k.expect(`From the first\.`)
	k.leaves()
	if out := d.output(t, "-p", "hello"); !strings.Contains(out, "Again from the first.") {
		t.Errorf("after the yes: %s", out)
	}

	// Another value is another question; a no is kept.
	write(`"ANTHROPIC_BASE_URL": "` + second.URL + `"` + key)
	if out := d.output(t, "-p", "hello"); !strings.Contains(out, "says where requests go") {
		t.Errorf("after the address changed: %s", out)
	}
	k = d.open(t)
	k.expect(`ANTHROPIC_BASE_URL=` + second.URL)
	k.expect(`never sent there\. \[y/N\] `)
	k.types("n\r")
	k.expect(`(?s)not now.*  : `)
	k.types(ctrlC)
	k.leaves()
	k = d.open(t)
	k.expect(`(?s)not now.*  : `)
	k.types(ctrlC)
	k.leaves()
	if strings.Contains(k.all.String(), "Send requests") {
		t.Error("the no is asked about again")
	}

	// A stored key is not for such an address, even after a yes.
	state := filepath.Join(d.home(), ".local", "state", "knack")
	if err := os.WriteFile(filepath.Join(state, "keys.json"), []byte(`{"anthropic": {"key": "`+llmtest.Key+`"}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	write(`"ANTHROPIC_BASE_URL": "` + second.URL + `/other"`)
	k = d.open(t)
	k.expect(`never sent there\. \[y/N\] `)
	k.types("y\r")
	k.expect(`anthropic/claude-sonnet-5-5, .*skills`) // a server that may need no key
	k.leaves()
	if out := d.output(t, "-p", "hello"); strings.Contains(out, "From the") || !strings.Contains(out, "knack: error: ") {
		t.Errorf("with a stored key: %s", out)
	}
	if len(second.Requests()) == 0 {
		t.Error("nothing was sent to the address after the yes")
	}
	for _, r := range second.Requests() {
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), llmtest.Key) {
				t.Errorf("the stored key was sent in %s", name)
			}
		}
	}
}
