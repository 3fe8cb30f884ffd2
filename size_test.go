package knack_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestSizes compares the sizes of the largest types with those of testdata/sizes.txt, which may only fall. The size of
// a type is how much code can change it: its methods, those of the package's types that embed it or hold a pointer to
// it (not of its owner, which has more methods), and the package's funcs that take it. So nothing gets smaller by moving
// to a type that points back. A type that the file does not list must be smaller than all that it lists. With -update,
// figures that fell are written.
func TestSizes(t *testing.T) {
	const file = "testdata/sizes.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sizes, kept := typeSizes(t), map[string]int{}
	for line := range strings.Lines(string(text)) {
		var name string
		var most int
		if _, err := fmt.Sscan(line, &name, &most); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		if sizes[name] > 0 {
			kept[name] = min(most, sizes[name])
		}
		switch n := sizes[name]; {
		case n > most:
			t.Errorf("%s has the size %d, more than the %d of %s: give what is new a type that does not hold it", name, n, most,
				file)
		case n < most && !updating():
			t.Errorf("%s has the size %d, and %s says more: go test -run TestSizes . -update", name, n, file)
		}
	}
	if kept["engine.Session"] == 0 {
		t.Fatal("the test does not see the module")
	}
	least := slices.Min(slices.Collect(maps.Values(kept)))
	for name, n := range sizes {
		if _, ok := kept[name]; !ok && n > least {
			t.Errorf("%s has the size %d, more than the %d of the smallest type that %s lists", name, n, least, file)
		}
	}
	if updating() {
		names := slices.SortedFunc(maps.Keys(kept), func(a, b string) int {
			return cmp.Or(kept[b]-kept[a], strings.Compare(a, b))
		})
		var out strings.Builder
		for _, name := range names {
			fmt.Fprintln(&out, name, kept[name])
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// TestSizeFails shows what counts.
func TestSizeFails(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
		type T struct{}
		func (t *T) one() {}
		type embeds struct{ *T }
		func (e embeds) two() {}
		type holds struct{ a int; t, u *T }
		func (h *holds) three() {}
		func four(t *T, u T) {}
		type lists struct{ all []*T }
		func (l lists) nor() {}
		type owner struct{ *T }
		func (o owner) a() {}
		func (o owner) b() {}
		type other struct{ name string }
		func (o other) not() {}
		func neither() *T { return nil }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := sizesOf([]*ast.File{f})["T"]; got != 4 {
		t.Errorf("the size is %d, want 4", got)
	}
}

// typeSizes returns the sizes of the module's types by package and name.
func typeSizes(t *testing.T) map[string]int {
	t.Helper()
	packages := map[string][]*ast.File{}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		packages[path.Dir(file)] = append(packages[path.Dir(file)], f)
	}
	all := map[string]int{}
	for dir, files := range packages {
		for name, n := range sizesOf(files) {
			all[dir+"."+name] = n
		}
	}
	return all
}

// sizesOf returns the sizes of one package's types.
func sizesOf(files []*ast.File) map[string]int {
	methods, holders, size := map[string]int{}, map[string][]string{}, map[string]int{}
	declared := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[receiver(d).Name]++
					continue
				}
				for name := range named(d.Type.Params, false) {
					size[name]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						declared[s.Name.Name] = true
						if fields, ok := s.Type.(*ast.StructType); ok {
							for name := range named(fields.Fields, true) {
								holders[name] = append(holders[name], s.Name.Name)
							}
						}
					}
				}
			}
		}
	}
	for name, n := range methods {
		size[name] += n
	}
	for name, all := range holders {
		for _, holder := range all {
			if methods[holder] <= methods[name] && holder != name { // one with more methods is its owner
				size[name] += methods[holder]
			}
		}
	}
	maps.DeleteFunc(size, func(name string, _ int) bool { return !declared[name] }) // string
	return size
}

// named returns the package's own types that fields have: those of a struct by pointer or embedded, those of parameters
// also by value. A list or map of pointers is not one to where the holder belongs.
func named(fields *ast.FieldList, ofStruct bool) map[string]bool {
	all := map[string]bool{}
	for _, field := range fields.List {
		x := field.Type
		star, pointer := x.(*ast.StarExpr)
		if pointer {
			x = star.X
		}
		if id, ok := x.(*ast.Ident); ok && (pointer || !ofStruct || len(field.Names) == 0) {
			all[id.Name] = true
		}
	}
	return all
}
