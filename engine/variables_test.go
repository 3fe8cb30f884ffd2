package engine

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// TestVariables: certificates, headers and addresses that users of other agents have in their environment count.
func TestVariables(t *testing.T) {
	var header http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	home := t.TempDir()
	ca := filepath.Join(home, "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": home, "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "NODE_EXTRA_CA_CERTS": ca,
		"ANTHROPIC_BASE_URL": server.URL, "OPENAI_API_BASE": server.URL,
		"ANTHROPIC_CUSTOM_HEADERS": "X-Team: a\nX-Route: b: c\nnothing\n"}
	m := &Models{Env: func(name string) string { return env[name] }}
	for _, name := range []string{"anthropic/claude-haiku-5-5", "openai/gpt-6-luna"} {
		header = nil
		model, err := m.Default(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = llm.Ask(t.Context(), model, &llm.Request{Messages: []llm.Message{{Role: llm.User,
			Parts: []llm.Part{llm.Text("hi")}}}})
		if err == nil || header == nil {
			t.Errorf("%s did not reach the server: %v", name, err)
		}
		own := name == "anthropic/claude-haiku-5-5"
		if got := header.Get("X-Team") + header.Get("X-Route"); own != (got == "ab: c") {
			t.Errorf("%s: %q", name, got)
		}
	}
	for file, text := range map[string]string{"missing.pem": "", "empty.pem": "text"} {
		env["NODE_EXTRA_CA_CERTS"] = filepath.Join(home, file)
		if text != "" {
			if err := os.WriteFile(env["NODE_EXTRA_CA_CERTS"], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m.Forget()
		if _, err := m.Default(t.Context(), "openai/gpt-6-luna"); err == nil {
			t.Errorf("%s counts", file)
		}
	}
}

// TestVariablesOfSettings: certificates and headers count in the env of the user's settings of Claude Code, too, but no
// headers where their address does not.
func TestVariablesOfSettings(t *testing.T) {
	var header http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	for _, refused := range []bool{false, true} {
		home := t.TempDir()
		ca := filepath.Join(home, "ca.pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		set := map[string]string{"NODE_EXTRA_CA_CERTS": ca, customHeaders: "X-Team: a"}
		if refused {
			set["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:1"
		}
		text, err := json.Marshal(map[string]any{"env": set})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(ca, block, 0o600), os.Mkdir(filepath.Join(home, ".claude"), 0o700),
			os.WriteFile(filepath.Join(home, ".claude", "settings.json"), text, 0o600)); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{"HOME": home, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.URL}
		e, err := Open(t.Context(), Options{Dir: t.TempDir(), Env: func(name string) string { return env[name] }})
		if err != nil {
			t.Fatal(err)
		}
		model, err := e.Models().Default(t.Context(), "anthropic/claude-haiku-5-5")
		if err != nil {
			t.Fatal(err)
		}
		header = nil
		_, err = llm.Ask(t.Context(), model, &llm.Request{Messages: []llm.Message{{Role: llm.User,
			Parts: []llm.Part{llm.Text("hi")}}}})
		if header == nil {
			t.Fatalf("the server was not reached: %v", err)
		}
		if got := header.Get("X-Team"); (got == "a") == refused {
			t.Errorf("address refused: %t, header %q", refused, got)
		}
		named := strings.Contains(fmt.Sprint(e.Project().Foreign().Unused()), customHeaders)
		if named != refused {
			t.Errorf("address refused: %t, headers named: %t", refused, named)
		}
		e.Close()
	}
}
