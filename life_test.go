package knack_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestLife: each place in docs/life.md, such as run/agent/loop.go:363 run.call, is a func of that file that begins near
// that line. With -update, the lines are set to those where the funcs begin.
func TestLife(t *testing.T) {
	const doc, near = "docs/life.md", 40
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	update := flag.Lookup("update").Value.String() == "true"
	place, seen := regexp.MustCompile(`([\w/]+\.go):(\d+) ([\w.]+\w)`), 0
	changed := place.ReplaceAllStringFunc(string(text), func(found string) string {
		seen++
		m := place.FindStringSubmatch(found)
		begins := funcLine(t, m[1], m[3])
		line, _ := strconv.Atoi(m[2])
		switch {
		case begins == 0:
			t.Errorf("%s: %s has no func %s", doc, m[1], m[3])
			return found
		case !update && (begins-line > near || line-begins > near):
			t.Errorf("%s: %s begins in line %d of %s, not near %d: go test -run TestLife . -update", doc, m[3], begins, m[1],
				line)
		}
		return fmt.Sprintf("%s:%d %s", m[1], begins, m[3])
	})
	if seen < 10 {
		t.Errorf("%s names only %d places: the test does not see them", doc, seen)
	}
	if update {
		if err := os.WriteFile(doc, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// funcLine returns the line where a func, or a method written as Type.Name, begins; 0: the file has none.
func funcLine(t *testing.T, file, name string) int {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := fn.Name.Name
		if fn.Recv != nil {
			of := fn.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			if id, ok := of.(*ast.Ident); ok {
				full = id.Name + "." + full
			}
		}
		if full == name {
			return set.Position(fn.Pos()).Line
		}
	}
	return 0
}
