package own_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestExtensions runs the examples with the interpreters that are there.
func TestExtensions(t *testing.T) {
	for lang, program := range map[string]string{"python": "notes.py", "typescript": "notes.ts"} {
		t.Run(lang, func(t *testing.T) {
			run := map[string][]string{"python": {"python3", "-c", ""},
				"typescript": {"node", "--eval", "process.features.typescript || process.exit(1)"}}[lang]
			if exec.Command(run[0], run[1:]...).Run() != nil {
				t.Skip("there is no " + run[0] + " that runs it")
			}
			p := enginetest.New(t)
			from := filepath.Join("..", "..", "..", "examples", "extension", lang)
			for _, name := range []string{program, "notes.json"} {
				data, err := os.ReadFile(filepath.Join(from, name))
				if err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(string(data), "\n"); n > 60 {
					t.Errorf("%s has %d lines", name, n)
				}
				executable(t, p, ".knack/tools/"+name, string(data))
			}
			o := p.Options(llmtest.New(enginetest.Calls("note", `{"text": "buy milk"}`),
				enginetest.Calls("bash", `{"command": "git reset --hard"}`), llmtest.Reply("done"), llmtest.Reply("done")))
			o.Trust = true
			o.Values["permissions.allow"] = []string{"Tool(note)", "Bash"}
			var asked []string
			person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
				asked = append(asked, q.Title)
				if q.Options[0].ID == "yes" {
					return engine.Answer{Option: "yes"}, nil
				}
				return engine.Answer{Option: "refuse"}, nil
			})
			_, s := p.Open(t, o, person, engine.SessionOptions{})
			if got := enginetest.Run(t, s, "go"); !strings.Contains(got, "result: Noted as number 1.") ||
				!strings.Contains(got, "the user refused it") || strings.Join(s.Status().Parts, "") != "1 notes" {
				t.Errorf("%s; %q", got, s.Status().Parts)
			}
			if got := enginetest.Run(t, s, "/notes"); !strings.Contains(got, "1  buy milk") {
				t.Errorf("%q", got)
			}
			if got := enginetest.Run(t, s, "/notes clear"); !strings.Contains(got, "0 notes are left") {
				t.Errorf("%q", got)
			}
			if len(asked) != 2 || !strings.Contains(asked[0], "This may lose work") {
				t.Errorf("asked %q", asked)
			}
		})
	}
}
