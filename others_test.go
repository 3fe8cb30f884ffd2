package knack_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOtherAgents: docs/from-other-agents.md has one table for each program, of the rows that tests write which use
// each flag, and write each key and file, and look at what Knack says: TestOthers, TestOtherFlags, TestOtherFiles and
// TestOtherFields. -update writes the tables after those.
func TestOtherAgents(t *testing.T) {
	files, err := filepath.Glob("internal/program/cli/testdata/others-*.tsv")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	rows := map[string][][]string{}
	for _, file := range append(files, "engine/project/config/testdata/others.tsv") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(row) != 5 {
				t.Fatalf("%s: %q", file, row)
			}
			rows[row[0]] = append(rows[row[0]], row[1:])
		}
	}
	var b strings.Builder
	for _, p := range []struct{ name, title string }{{"Claude Code", "Claude Code 2.1.332"}, {"Pi", "Pi 1.6.0"},
		{"Codex", "Codex 0.171"}, {"OpenCode", "OpenCode 1.18"}, {"Others", "Cursor, Gemini CLI, Copilot and others"}} {
		fmt.Fprintf(&b, "\n### %s\n\n| what | name | here | how |\n|---|---|---|---|\n", p.title)
		slices.SortStableFunc(rows[p.name], func(a, b []string) int {
			return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(strings.ToLower(a[1]), strings.ToLower(b[1])))
		})
		for _, r := range rows[p.name] {
			names := "`" + strings.ReplaceAll(r[1], ", ", "`, `") + "`"
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r[0], names, r[2], strings.ReplaceAll(r[3], "|", "\\|"))
		}
		if len(rows[p.name]) < 20 {
			t.Errorf("%s has %d rows", p.name, len(rows[p.name]))
		}
	}
	const page, begin, end = "docs/from-other-agents.md", "<!-- tables: TestOtherAgents -update -->\n", "<!-- end of tables -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok1 || !ok2:
		t.Fatalf("%s has no place for the tables", page)
	case updating():
		if err := os.WriteFile(page, []byte(before+begin+b.String()+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	case old != b.String():
		t.Errorf("the tables of %s are old: go test . -run TestOtherAgents -update", page)
	}
}
