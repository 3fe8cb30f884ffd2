package mcp

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

const given = "canary/7+Q\"é" // what only the server was given

func TestHidden(t *testing.T) {
	s := Server{Values: map[string]string{"T": given}}
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"n":1.50}}`: `{"jsonrpc":"2.0","id":1,"result":{"n":1.50}}`,
		`{"jsonrpc":"2.0","id":"canary/7+Q\"é","error":{"code":1,"message":"bad canary\/7+Q\"\u00E9!"}}`: `{"error":{` +
			`"code":1,"message":"bad [secret]!"},"id":"canary/7+Q\"é","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","method":"x","params":{"id":"canary/7+Q\"é","canary/7+Q\"é":[12345678901234567890]}}`: `{` +
			`"jsonrpc":"2.0","method":"x","params":{"[secret]":[12345678901234567890],"id":"[secret]"}}`,
		`[{"text":"canary%2f7%2BQ%22%c3%a9"}]`: `[{"text":"[secret]"}]`,
		`"text":"canary/7+Q\"é",`:              `"text":"[secret]",`,
	} {
		if got := string(s.incoming()([]byte(message))); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", message, got, want)
		}
	}
}

// TestHiddenInEvents: the address for requests is not text; whatever follows it is.
func TestHiddenInEvents(t *testing.T) {
	s := Server{Values: map[string]string{"T": "canary-1"}}
	in := "event: endpoint\ndata: /m?key=canary-1\n\nevent: message\ndata: {\"params\":\"canary-1\"}\n\n"
	got, err := io.ReadAll(mendedEvents(io.NopCloser(strings.NewReader(in)), s.incoming()))
	want := strings.Replace(in, `"canary-1"`, `"[secret]"`, 1)
	want = strings.Replace(want, "data: {", "data:{", 1)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestHiddenOnDisk: a list that was kept with a secret is used and kept without it.
func TestHiddenOnDisk(t *testing.T) {
	s := Server{Name: "demo", Origin: permission.Plugin, Values: map[string]string{"T": given}}
	dir := t.TempDir()
	file := filepath.Join(dir, "tools-"+s.identity()+".json")
	if err := os.WriteFile(file, []byte(`[{"name":"mcp__demo__t","own":"t","description":"canary/7+Q\"é",`+
		`"schema":{"default":"canary/7+Q\"é"},"hash":"x"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := New(Options{State: dir}, s)
	defer c.Close()
	data, _ := os.ReadFile(file)
	tools := c.Tools(nil)
	if len(tools) != 1 || tools[0].Description != "[secret]" ||
		strings.Contains(string(tools[0].Schema)+string(data), "canary") {
		t.Errorf("%+v\n%s", tools, data)
	}
	if err := c.peers[0].server.explain(errors.New("Get \"https://x?key=canary%2F7%2BQ%22%C3%A9\": refused")); strings.Contains(
		err.Error(), "canary") {
		t.Error(err)
	}
}
