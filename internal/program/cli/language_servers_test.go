//go:build unix

package cli

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestLanguageServers: language servers as people use them, where they are installed, find an error in the sandbox and
// without network, with the result or with the next request.
func TestLanguageServers(t *testing.T) {
	for _, c := range []struct{ program, args, file, text, want string }{
		{"gopls", "", "a.go", "package a\n\nvar A = missing\n", "undefined: missing"},
		{"typescript-language-server", "--stdio", "a.ts", "export const a: number = missing;\n", "Cannot find name"},
		{"pyright-langserver", "--stdio", "a.py", "a = missing\n", "is not defined"},
	} {
		t.Run(c.program, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skip(c.program + " is not installed")
			}
			write := func(id string) []llmtest.Call {
				return []llmtest.Call{{ID: id, Name: "write", Input: map[string]any{"path": c.file, "content": c.text}}}
			}
			answers := []llmtest.Answer{{Calls: write("a")}}
			for i := range 8 { // a server may need long for its first answer
				answers = append(answers, llmtest.Answer{Calls: []llmtest.Call{{ID: fmt.Sprint("b", i), Name: "bash",
					Input: map[string]any{"command": fmt.Sprint("sleep 3.", i)}}}})
			}
			d := newFixture(t, serve(t, append(answers, llmtest.Answer{Text: "Done."})...))
			d.file(t, "go.mod", "module example.org/a\n\ngo 1.24\n")
			d.file(t, "tsconfig.json", `{"compilerOptions": {"strict": true}}`)
			d.settings(t, `{"permissions": {"allow": ["Edit", "Bash(sleep *)"]},
				"languageServers": {"`+filepath.Ext(c.file)+`": "`+strings.TrimSpace(c.program+" "+c.args)+`"}}`)
			out := d.output(t, "-p", "go on", "--trust")
			var log strings.Builder
			filepath.WalkDir(d.home(), func(path string, e fs.DirEntry, err error) error {
				if err == nil && strings.HasSuffix(path, ".jsonl") {
					data, _ := os.ReadFile(path)
					log.Write(data)
				}
				return nil
			})
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("%s\n%s", out, log.String())
			}
		})
	}
}
