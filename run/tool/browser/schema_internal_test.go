package browser

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/tool"
)

// TestSchemas: schemas.json has the schema of each tool's input. UPDATE_SCHEMAS=1 writes it anew.
func TestSchemas(t *testing.T) {
	want := map[string]json.RawMessage{}
	for name, of := range map[string]func() (json.RawMessage, error){
		"open": tool.SchemaOf[openInput], "read": tool.SchemaOf[readInput], "click": tool.SchemaOf[clickInput],
		"type": tool.SchemaOf[typeInput], "screenshot": tool.SchemaOf[screenshotInput],
		"console": tool.SchemaOf[consoleInput], "network": tool.SchemaOf[networkInput],
	} {
		schema, err := of()
		if err != nil {
			t.Fatal(err)
		}
		want[name] = schema
	}
	text, err := json.MarshalIndent(want, "", "")
	if err != nil {
		t.Fatal(err)
	}
	text = append(bytes.ReplaceAll(text, []byte(`": `), []byte(`":`)), '\n')
	if os.Getenv("UPDATE_SCHEMAS") != "" {
		if err := os.WriteFile("schemas.json", text, 0o666); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(schemasText, text) {
		t.Error("schemas.json is not up to date: UPDATE_SCHEMAS=1 go test ./run/tool/browser -run Schemas")
	}
}

func TestHosts(t *testing.T) {
	for in, want := range map[openInput]string{
		{URL: "https://Example.com/a?b"}:         "example.com",
		{URL: "example.com"}:                     "example.com",
		{URL: "http://example.com:8080/"}:        "example.com:8080",
		{URL: "http://localhost"}:                "localhost:80",
		{URL: "localhost:3000/x"}:                "localhost:3000",
		{URL: "https://127.0.0.1/"}:              "127.0.0.1:443",
		{URL: "http://[::1]:5173/"}:              "[::1]:5173",
		{Host: "cdn.example.com"}:                "cdn.example.com",
		{Host: "cdn.example.com:444"}:            "cdn.example.com:444",
		{URL: "https://bücher.example/"}:         "xn--bcher-kva.example",
		{URL: "https://example.com./"}:           "example.com",
		{URL: "about:blank"}:                     "about:blank",
		{URL: "about:settings"}:                  "",
		{URL: "file:///etc/passwd"}:              "",
		{URL: "javascript://x/%0aalert(1)"}:      "",
		{URL: "https://me:secret@example.com/"}:  "",
		{URL: "https://example.com:99999/"}:      "",
		{Host: "example.com/path"}:               "",
		{Host: "*.example.com"}:                  "",
		{Host: "a", URL: "https://example.com/"}: "",
		{}:                                       "",
	} {
		_, got, _, err := hostOfCall(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%+v: %q, %v, want %q", in, got, err, want)
		}
	}
}

// TestNothingListens: who cannot open a page of this machine learns which servers the browser reaches.
func TestNothingListens(t *testing.T) {
	u := &url.URL{Scheme: "http", Host: "localhost:8080"}
	if text := explainError("net::ERR_CONNECTION_REFUSED", u); !strings.Contains(text, "!!COMMAND") {
		t.Error(text)
	}
	u.Host = "example.com"
	if text := explainError("net::ERR_CONNECTION_REFUSED", u); text != "" {
		t.Error(text)
	}
}
