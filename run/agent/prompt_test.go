package agent_test

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestPrompt compares system prompts with golden files.
func TestPrompt(t *testing.T) {
	ws, err := workspace.NewLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	all := coding.Tools(ws, coding.Options{Jobs: &coding.Jobs{}})
	pick := func(spec string) tool.Set {
		set, problems := tool.Select(all, spec, "")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return set
	}
	day := time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC)
	docs := []agent.Document{{Path: "/home/me/AGENTS.md", Text: "Be brief.\n"},
		{Path: `/w/"a"/CLAUDE.md`, Text: "Use tabs."}}
	for name, p := range map[string]agent.Prompt{
		"default":  {Role: "You are a test.", Help: "There is no help.", Tools: pick(coding.Names()), Date: day, Dir: "/w"},
		"readonly": {Tools: pick(coding.ReadOnly), Date: day, Dir: "/w"},
		"all":      {Tools: pick(coding.All), Dir: "/w", Append: []string{"Speak Latin."}, Context: docs},
		"custom": {Tools: pick(coding.Names()), Custom: "You are a poet.", Append: []string{"Rhyme."}, Context: docs,
			Index: "<available_skills></available_skills>", Dir: "/w"},
		"empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.ReplaceAll(p.String(), "Platform: "+runtime.GOOS, "Platform: GOOS")
			if got != strings.ReplaceAll(p.String(), "Platform: "+runtime.GOOS, "Platform: GOOS") {
				t.Error("the same input gave different bytes")
			}
			golden(t, filepath.Join("testdata", "prompt", name+".txt"), got)
		})
	}
}

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
