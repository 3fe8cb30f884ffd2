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
	const doc, begin, end = "docs/design.md", "<!-- decisions -->\n", "<!-- end -->"
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
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	listed, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no place for the list", doc)
	}
	switch {
	case strings.Count(list.String(), "\n- ") < 50:
		t.Error("the test does not see the decisions")
	case updating():
		err = os.WriteFile(doc, []byte(before+begin+list.String()+end+after), 0o644)
	case listed != list.String():
		t.Errorf("%s does not list the decisions as they are: go test -run TestDecisions . -update", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
}
