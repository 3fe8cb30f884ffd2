package own_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestTrustedNow: what a project brings works in the session in which it is trusted, also after it changed, and is gone
// in the session in which it was taken away.
func TestTrustedNow(t *testing.T) {
	p := enginetest.New(t, ".knack/tools/ext.json", `{"type": "process", "description": "d", "command": "./ext.sh",
		"tools": {"stays": {"description": "d"}}, "hooks": [{"event": "UserPromptSubmit"}]}`)
	executable(t, p, ".knack/tools/once", "#!/bin/sh\n# knack-tool: Says which.\necho first\n")
	executable(t, p, ".knack/commands/say", "#!/bin/sh\n# knack-command: Says.\necho said\n")
	executable(t, p, ".knack/tools/ext.sh", reads(`case $line in
*'"method":"tool"'*) echo "{\"id\":$id,\"result\":\"stays here\"}" ;;
*) echo "{\"id\":$id,\"result\":{\"status\":\"hooked\"}}" ;;
esac`))
	o := p.Options(llmtest.New(enginetest.Calls("once", `{}`), llmtest.Reply("no"),
		enginetest.Calls("once", `{}`), enginetest.Calls("stays", `{}`), llmtest.Reply("yes"),
		enginetest.Calls("once", `{}`), llmtest.Reply("changed"),
		enginetest.Calls("once", `{}`), llmtest.Reply("again"),
		enginetest.Calls("once", `{}`), llmtest.Reply("gone")))
	o.Values["permissions.allow"] = []string{"Tool(once)", "Tool(stays)"}
	e, s := p.Open(t, o, nil, engine.SessionOptions{})
	trust := func() {
		t.Helper()
		items, err := e.Project().Untrusted(t.Context())
		if err == nil {
			_, err = e.Trust(t.Context(), items...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	has := func(want ...string) {
		t.Helper()
		got := enginetest.Run(t, s, "go")
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s\nhas not %s", got, text)
			}
		}
	}
	has("result: Tool once not found")
	trust()
	if has("result: first", "result: stays here"); !slices.Contains(s.Status().Parts, "hooked") {
		t.Errorf("%q", s.Status().Parts)
	}
	if got := enginetest.Run(t, s, "/say"); got != "reply say: said\ndone: " {
		t.Errorf("%q", got)
	}
	executable(t, p, ".knack/tools/once", "#!/bin/sh\n# knack-tool: Says which.\necho second\n")
	has("was not run")
	trust()
	has("result: second")
	if err := os.Remove(filepath.Join(p.Dir, ".knack/tools/once")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	has("result: Tool once not found")
}
