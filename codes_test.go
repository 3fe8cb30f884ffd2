package knack_test

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
)

// TestCodesDocumented: docs/problems.md names every code, state and cut.
func TestCodesDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, w := range regexp.MustCompile(`[a-z]+(-[a-z]+)*`).FindAllString(string(page), -1) {
		words[w] = true
	}
	constant := regexp.MustCompile(`(?m)^\t\w+ +(Code|SkillState|Cut) *= "([a-z-]+)"`)
	for _, file := range []string{"codes.go", "catalog.go", "listing.go"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := constant.FindAllStringSubmatch(string(data), -1)
		if len(found) < 5 {
			t.Errorf("%s has %d constants", file, len(found))
		}
		for _, m := range found {
			if !words[m[2]] {
				t.Errorf("docs/problems.md does not contain the %s %s", strings.ToLower(m[1]), m[2])
			}
		}
	}
}

// TestCodesAreConstants: each Code is one of codes.go, so that the page about problems has all of them.
func TestCodesAreConstants(t *testing.T) {
	literal := regexp.MustCompile(`\bCode: +"[a-z-]+"`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return cmp.Or(err, filepath.SkipDir)
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if found := literal.Find(data); found != nil {
			t.Errorf("%s: %s: add a constant to codes.go", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFrontmatterCodes: each kind of problem of a frontmatter is a Code.
func TestFrontmatterCodes(t *testing.T) {
	for kind, code := range map[frontmatter.ProblemKind]knack.Code{frontmatter.Repaired: knack.CodeYAMLRepaired,
		frontmatter.Invalid: knack.CodeYAMLInvalid, frontmatter.Duplicate: knack.CodeDuplicateKey,
		frontmatter.Limit: knack.CodeLimitReached, frontmatter.Lost: knack.CodeTextLost} {
		if knack.Code(kind) != code {
			t.Errorf("%s is %s", code, kind)
		}
	}
}
