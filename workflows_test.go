package knack_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflows: an action is named by its commit, because whoever owns its repository can move a tag; what somebody else
// wrote (a title, a branch) is in no shell line; and no workflow runs a stranger's change with the repository's tokens.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	pinned := regexp.MustCompile(`uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for line := range strings.Lines(text) {
			if strings.Contains(line, "uses:") && !pinned.MatchString(line) {
				t.Errorf("%s: %s: name the commit, and the version in a comment", file, strings.TrimSpace(line))
			}
		}
		for _, word := range []string{"pull_request_target", "workflow_run", "github.event.", "github.head_ref"} {
			if strings.Contains(text, word) {
				t.Errorf("%s has %s", file, word)
			}
		}
		if !strings.Contains(text, "\npermissions: {") {
			t.Errorf("%s does not say what its token may do", file)
		}
	}
}
