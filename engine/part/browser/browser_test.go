package browser_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestOn: the skill browser can be used, and its tools are there, if a browser is installed and nothing turns it off.
func TestOn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no browser on Windows")
	}
	for name, c := range map[string]struct {
		installed bool
		feature   any
		on        bool
	}{
		"installed":            {true, nil, true},
		"not installed":        {false, nil, false},
		"installed, but off":   {true, false, false},
		"on but not installed": {false, true, true}, // the skill is shown, and says what is missing
	} {
		t.Run(name, func(t *testing.T) {
			p := enginetest.New(t)
			program := "none"
			if c.installed {
				program = filepath.Join(t.TempDir(), "chromium")
				if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			o := p.Options(llmtest.New())
			env := o.Env
			o.Env = func(name string) string {
				if name == "KNACK_BROWSER" {
					return program
				}
				return env(name)
			}
			if c.feature != nil {
				o.Values["features.browser"] = c.feature
			}
			e, err := engine.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if why := e.Project().SkillClosed("browser"); (why == "") != c.on {
				t.Errorf("closed: %q", why)
			}
			s, err := e.Start(t.Context(), nil, engine.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
		})
	}
}
