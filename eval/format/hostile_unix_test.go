//go:build unix

package format_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/knack-agent/knack/eval/format"
)

// TestHostile: links, pipes and large files in a set are reported, and nothing outside of the folder is read.
func TestHostile(t *testing.T) {
	outside := skill(t, map[string]string{"secret.json": `[{"query": "outside", "should_trigger": true}]`})
	dir := skill(t, map[string]string{"evals/good.json": `[{"query": "good", "should_trigger": true}]`})
	if err := os.Symlink(filepath.Join(outside, "secret.json"), filepath.Join(dir, "evals", "evals.json")); err != nil {
		t.Skip(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "evals", "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "evals", "eval_queries.json"), make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := format.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	set, bad := format.Read("s", dir, append(files, "../"+filepath.Base(outside)+"/secret.json")...)
	if len(set.Queries) != 1 || set.Queries[0].Query != "good" || len(bad) != 3 {
		t.Errorf("queries %+v\n%s", set.Queries, problems(bad))
	}
	if err := os.RemoveAll(filepath.Join(dir, "evals")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "evals")); err != nil {
		t.Fatal(err)
	}
	if files, err := format.Find(dir); err != nil || len(files) > 0 {
		t.Errorf("a directory of sets that is a link: %q, %v", files, err)
	}
}
