package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestKeysOfMain: files with keys in the main work tree, which no commit has, are hidden from commands that work in a
// linked one. Found by attack: a script read them.
func TestKeysOfMain(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	main, tree := filepath.Join(top, "repo"), filepath.Join(top, "tree")
	own := filepath.Join(main, ".git", "worktrees", "tree")
	for name, text := range map[string]string{filepath.Join(own, "commondir"): "../..\n", filepath.Join(main, ".env"): "K=v",
		filepath.Join(own, "gitdir"): filepath.Join(tree, ".git"), filepath.Join(main, ".env.example"): "",
		filepath.Join(tree, ".git"): "gitdir: " + own + "\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	p := enginetest.New(t)
	e, _ := p.Open(t, p.Options(llmtest.New()), nil, engine.SessionOptions{})
	for dir, want := range map[string]bool{tree: true, top: false} {
		policy, err := e.Project().SandboxPolicy(dir)
		if err != nil || slices.Contains(policy.Secrets, filepath.Join(main, ".env")) != want ||
			slices.Contains(policy.Secrets, filepath.Join(main, ".env.example")) {
			t.Errorf("%s: %q, %v", dir, policy.Secrets, err)
		}
	}
}
