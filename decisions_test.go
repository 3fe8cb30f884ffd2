package knack_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDecisions: docs/design.md lists the decisions that stand in the files decisions.md beside the code. With -update,
// the list is written.
func TestDecisions(t *testing.T) {
	title := regexp.MustCompile(`(?m)^\*\*([^*]+?)[.,:]?\*\*`)
	var list strings.Builder
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "decisions.md" {
			return err
		}
		text, err := os.ReadFile(p)
		p = filepath.ToSlash(p)
		fmt.Fprintf(&list, "\n[%s](../%s)\n\n", p, p)
		for _, m := range title.FindAllStringSubmatch(string(text), -1) {
			fmt.Fprintf(&list, "- %s\n", strings.Join(strings.Fields(m[1]), " "))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(list.String(), "\n- ") < 50 {
		t.Error("the test does not see the decisions")
	}
	written(t, "docs/design.md", "decisions", list.String())
}

// TestPromises: docs/security.md has the promises of the parts, which stand in their folders. With -update, they are
// written.
func TestPromises(t *testing.T) {
	files, err := filepath.Glob("engine/part/*/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	var head string
	var rows strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(text), "\n|")
		_, row, ok := strings.Cut(table, "|---|---|---|\n")
		if !ok {
			t.Fatalf("%s has no table of three columns", file)
		}
		head = "|" + strings.TrimSuffix(table, row)
		rows.WriteString(row)
	}
	written(t, "docs/security.md", "promises", head+rows.String())
}

// written compares what a page has between <!-- NAME --> and <!-- end --> with what it should have, or writes it.
func written(t *testing.T, page, name, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end -->"
	before, rest, _ := strings.Cut(string(text), begin)
	has, after, ok := strings.Cut(rest, end)
	switch {
	case !ok:
		t.Errorf("%s has no place for its %s", page, name)
	case updating():
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case has != want:
		t.Errorf("%s has other %s than the folders: go test -run %s . -update", page, name, t.Name())
	}
}
