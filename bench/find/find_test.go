package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The program runs on a few skills, makes distractors, and finds the right skills.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pdf": "---\ndescription: Fill in forms\n---\n# Merging\nMerge documents with pypdf.\n# Splitting\nPages.\n",
		"commit": "---\ndescription: Write commit messages\nwhen_to_use: after git add\n---\n# Style\nImperative.\n# " +
			"Length\n72.\n", "otters": "---\ndescription: About otters\n---\n# Food\nFish.\n# Sleep\nAfloat.\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "SKILL.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	prompts := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(prompts, []byte(`{"query": "merge my documents", "skill": "pdf"}`+"\n"+
		`{"query": "a commit message", "skill": "commit"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	evals := filepath.Join(dir, "otters", "evals")
	if err := os.Mkdir(evals, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(evals, "eval_queries.json"), []byte(`[{"query": "about otters",
		"should_trigger": true}, {"query": "merge two documents", "should_trigger": false}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	b := &benchmark{}
	if err := b.read([]string{dir}, prompts); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := b.measure(&out, []int{3, 60}); err != nil {
		t.Fatal(err)
	}
	for _, q := range b.result.Quality {
		if q.What == "Find" && (q.Hit < 0.6 || q.N != 3) {
			t.Errorf("%+v", q)
		}
	}
	if n := len(b.result.Speed); n != 2 || b.result.Speed[1].Skills != 60 || b.result.Speed[1].Index == 0 {
		t.Errorf("%+v", b.result.Speed)
	}
	if n := len(b.result.Misses); n != 2 || b.result.Misses[0].N != 1 || b.result.Misses[0].First != 0 {
		t.Errorf("%+v", b.result.Misses)
	}
	if svg := b.result.chart().SVG(); !strings.Contains(svg, "Claude Code") ||
		!strings.Contains(out.String(), "recall@10") {
		t.Errorf("%s", out.String())
	}
}
