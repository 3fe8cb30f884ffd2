package knack_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/knack-agent/knack"

// districts are the parts of the module, the lowest first: a district imports those below it. Each has a page in the
// doc.go of its folder; ARCHITECTURE.md has the picture.
var districts = []struct {
	name    string
	folders []string // with all below them; "." is the root package alone
	below   []string
}{
	{"leaf", []string{"internal/leaf"}, nil},
	{"skill", []string{".", "sources", "bundled", "knacktest", "adapt"}, []string{"leaf"}},
	{"confine", []string{"confine"}, []string{"leaf"}},
	{"run", []string{"run"}, []string{"leaf", "skill", "confine"}},
	{"engine", []string{"engine"}, []string{"leaf", "skill", "confine", "run"}},
	{"durable", []string{"durable"}, []string{"leaf", "skill", "confine", "run", "engine"}},
	{"eval", []string{"eval"}, []string{"leaf", "skill", "confine", "run", "engine", "durable"}},
	{"program", []string{"internal/program", "cmd", "examples"},
		[]string{"leaf", "skill", "confine", "run", "engine", "durable", "eval"}},
}

// only restricts what the packages of a folder may import beside leaves and each other.
var only = map[string][]string{
	"sources":            {"."},
	"bundled":            {"."},           // skills as data
	"knacktest":          {"."},           // other programs' tests need no agent
	"adapt":              {"."},           // for loops that are not ours
	"confine/git":        {},              // runs git; judges nothing
	"confine/permission": {"confine/git"}, // decides; knows neither processes nor tools
	"confine/workspace":  {},              // files and processes; knows no rules
	"run/llm":            {},              // providers know nothing of skills
	"run/hook":           {},
}

// strangers are folders whose packages do not import each other.
var strangers = []string{"engine/project", "engine/part"}

// starter is the one front end that imports the others.
const starter = "internal/program/cli"

// frontEnds are packages that none but the starter imports.
var frontEnds = []string{starter, "internal/program/acp", "internal/program/control", "internal/program/line", "internal/program/serve",
	"internal/program/tui", "internal/program/web"}

// TestImportDirection checks every import of the module and fails on one of a district that is not below, and of a
// package that is not for its importer.
func TestImportDirection(t *testing.T) {
	seen := 0
	for file, imports := range importsOf(t) {
		from := path.Dir(file)
		test := strings.HasSuffix(file, "_test.go")
		for _, to := range imports {
			seen++
			if why := forbidden(from, to, test); why != "" {
				t.Errorf("%s imports %s: %s", file, to, why)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("found only %d imports: the test does not see the module", seen)
	}
}

// TestImportDirectionFails shows that the test above can fail.
func TestImportDirectionFails(t *testing.T) {
	for _, c := range []struct {
		from, to string
		bad      bool
	}{
		{"run/llm", "run/tool", true},
		{"run/llm/openai", "run/llm", false},
		{".", "run/llm", true},
		{".", "internal/leaf/plain", false},
		{"run/agent", "run/tool/coding", false},
		{"run/agent", "engine", true},
		{"run/agent", "internal/program/cli", true},
		{"confine/sandbox", "confine/permission", false},
		{"confine/permission", "confine/workspace", true},
		{"confine/sandbox", ".", true},
		{"internal/leaf/frontmatter", "run/llm", true},
		{"internal/leaf/markdown", "internal/leaf/plain", false},
		{"internal/new", "internal/leaf/plain", true},
		{"new", "internal/leaf/plain", true},
		{"internal/program/cli", "engine/project/config", false},
		{"internal/program/cli", "internal/program/line", false},
		{"internal/program/line", "internal/program/cli", true},
		{"internal/program/tui", "internal/program/line", true},
		{"internal/program/tui", "internal/program/terminal", false},
		{"engine", "internal/program/terminal", true},
		{"engine", "durable/batch", true},
		{"durable/work", "engine", false},
		{"eval", "engine", false},
		{"engine", "eval", true},
		{"engine/project/config", "engine/project/trust", true},
		{"bundled", "run/llm", true},
		{"bundled", ".", false},
		{"sources", "run/tool", true},
	} {
		if got := forbidden(c.from, c.to, false) != ""; got != c.bad {
			t.Errorf("%s -> %s: forbidden is %t, want %t", c.from, c.to, got, c.bad)
		}
	}
}

func forbidden(from, to string, test bool) string {
	f, g := district(from), district(to)
	switch {
	case f < 0 || g < 0:
		return "a new folder needs a district in this file"
	case from == to:
		return ""
	case test && (path.Dir(to) == from || path.Dir(to) == path.Dir(from) || strings.HasSuffix(to, "test") || from == "."):
		return "" // a test may use the test packages, and the root's examples the packages above
	case f == 0 && g != 0:
		return "a leaf imports nothing of ours but leaves"
	case g == 0:
		return ""
	case f != g && !slices.Contains(districts[f].below, districts[g].name):
		return fmt.Sprintf("district %s is not below %s", districts[g].name, districts[f].name)
	}
	for folder, allowed := range only {
		if within(from, folder) && !within(to, folder) && !slices.Contains(allowed, to) {
			return fmt.Sprintf("of ours it may import only leaves and %q", allowed)
		}
	}
	for _, folder := range strangers {
		if path.Dir(from) == folder && path.Dir(to) == folder {
			return "packages of " + folder + " do not import each other"
		}
	}
	if from != starter && slices.Contains(frontEnds, to) && slices.Contains(frontEnds, from) {
		return "front ends do not import each other; " + starter + " starts them"
	}
	return ""
}

// district finds the place of a package in districts; -1: it has none.
func district(p string) int {
	for i, d := range districts {
		if slices.ContainsFunc(d.folders, func(folder string) bool { return within(p, folder) }) {
			return i
		}
	}
	return -1
}

// within reports whether a package is in a folder or below it.
func within(p, folder string) bool {
	return p == folder || folder != "." && strings.HasPrefix(p, folder+"/")
}

func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, p := range goFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range f.Imports {
			s, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if s == module {
				all[p] = append(all[p], ".")
			} else if rest, ok := strings.CutPrefix(s, module+"/"); ok {
				all[p] = append(all[p], rest)
			}
		}
	}
	return all
}

// goFiles returns the Go files of the module, with slashes.
func goFiles(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != "." && (name == "testdata" || strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != "." {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") {
			all = append(all, filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fan is how many of our packages a file outside of the engine may import. A file that needs more connects packages,
// which is the task of the engine and of the list of parts.
const fan = 8

// TestImportCount fails on a production file that imports more of our packages.
func TestImportCount(t *testing.T) {
	for file, imports := range importsOf(t) {
		own := slices.Compact(slices.Sorted(slices.Values(imports)))
		if dir := path.Dir(file); dir == "engine" || dir == "engine/part" || strings.HasSuffix(file, "_test.go") ||
			len(own) <= fan {
			continue
		}
		t.Errorf("%s imports %d of our packages, more than %d: %s", file, len(own), fan, strings.Join(own, ", "))
	}
}

// TestPublicTypes fails on an exported func, field or interface method of a public package that takes or returns an
// internal type: other programs could not name it.
func TestPublicTypes(t *testing.T) {
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || strings.Contains("/"+file, "/internal/") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		hidden := map[string]bool{} // names of internal packages in this file
		for _, im := range f.Imports {
			to, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if name := path.Base(to); strings.Contains(to, "/internal/") {
				if im.Name != nil {
					name = im.Name.Name
				}
				hidden[name] = true
			}
		}
		check := func(name string, types ast.Node) {
			ast.Inspect(types, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Field:
					return len(n.Names) == 0 || n.Names[0].IsExported() || isFuncPart(types)
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && hidden[x.Name] {
						t.Errorf("%s: %s has the type %s.%s, which other programs cannot name", set.Position(n.Pos()), name, x.Name,
							n.Sel.Name)
					}
				}
				return true
			})
		}
		if f.Name.Name == "main" {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || receiver(d).IsExported()) {
					check(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && !s.Assign.IsValid() { // an alias is a name
						check(s.Name.Name, s.Type)
					}
					if s, ok := spec.(*ast.ValueSpec); ok && s.Type != nil && s.Names[0].IsExported() {
						check(s.Names[0].Name, s.Type)
					}
				}
			}
		}
	}
}

// isFuncPart reports whether all names in a type are part of the API: those of parameters are, those of fields only
// if they are exported.
func isFuncPart(n ast.Node) bool { _, ok := n.(*ast.FuncType); return ok }

func receiver(d *ast.FuncDecl) *ast.Ident {
	x := d.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y
		default:
			return ast.NewIdent("_")
		}
	}
}

// commentName matches the first word of a doc comment if it can only be a name: it begins with a small letter or has
// a capital inside.
var commentName = regexp.MustCompile(`^([a-z][\w.]*|[A-Z]\w*[a-z][A-Z]\w*)`)

// TestDocComments fails on a doc comment that begins with another name than the one that it describes, as a rename
// leaves it behind.
func TestDocComments(t *testing.T) {
	for _, file := range goFiles(t) {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		check := func(doc *ast.CommentGroup, names ...*ast.Ident) {
			first := commentName.FindString(doc.Text())
			if first != "" && !slices.ContainsFunc(names,
				func(n *ast.Ident) bool { return n.Name == path.Ext("." + first)[1:] }) {
				t.Errorf("%s: the comment of %s begins with %s", set.Position(doc.Pos()), names[0], first)
			}
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Doc, d.Name)
			case *ast.GenDecl:
				var all []*ast.Ident
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						check(s.Doc, s.Name)
						all = append(all, s.Name)
					case *ast.ValueSpec:
						check(s.Doc, s.Names...)
						all = append(all, s.Names...)
					}
				}
				if all != nil {
					check(d.Doc, all...)
				}
			}
		}
	}
}

// TestPackageDocs fails on a public package below the engine whose documentation does not lead to the engine.
func TestPackageDocs(t *testing.T) {
	docs := map[string]string{}
	for _, file := range goFiles(t) {
		dir := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || district(dir) >= district("engine") ||
			strings.Contains("/"+dir, "/internal/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		docs[dir] += f.Doc.Text()
	}
	for dir, doc := range docs {
		if !strings.Contains(doc, "Most programs start with package engine") {
			t.Errorf("the documentation of %s does not say that most programs start with package engine", dir)
		}
	}
}

// TestSetTyped: only the engine and its commands say that the user typed a setting, because only then it may be
// bypassPermissions.
func TestSetTyped(t *testing.T) {
	seen := 0
	for _, file := range goFiles(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch dir := path.Dir(file); {
		case !strings.Contains(string(data), ".SetTyped("):
		case dir == "engine" || dir == "engine/command":
			seen++
		case file != "arch_test.go":
			t.Errorf("%s calls Session.SetTyped", file)
		}
	}
	if seen == 0 {
		t.Error("nothing calls Session.SetTyped: the test does not see the module")
	}
}

// TestOpens: files and directories are opened for reading by internal/leaf/regular, because a pipe, a device or a
// socket may lie where one is expected, and waits, or is read without end. The rest is listed with what it opens;
// nothing there is a directory in which a model or a stranger writes.
func TestOpens(t *testing.T) {
	data, err := os.ReadFile("testdata/opens.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if file, why, _ := strings.Cut(strings.TrimSpace(line), " "); file != "#" && file != "" {
			if listed[file] = true; strings.TrimSpace(why) == "" {
				t.Errorf("testdata/opens.txt: %s has no reason", file)
			}
		}
	}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "internal/leaf/regular/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		opens := map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && (x.Name == "os" || s.Sel.Name == "OpenRoot") {
					opens[s.Sel.Name] = true
				}
			}
			return true
		})
		switch {
		case opens["OpenRoot"]:
			t.Errorf("%s calls OpenRoot: use regular.Root or RootIn", file)
		case (opens["Open"] || opens["ReadFile"]) != listed[file]:
			t.Errorf("%s: os.Open or os.ReadFile is called: %t, listed in testdata/opens.txt: %t (use regular.Open, Dir or Read)",
				file, !listed[file], listed[file])
		}
		delete(listed, file)
	}
	for file := range listed {
		t.Errorf("testdata/opens.txt: there is no %s", file)
	}
}

// TestExamples limits how much a Go host has to write, set-up included: for an agent with tools, a gate and skills,
// and for a complete one with settings, trust, AGENTS.md, a session and a user.
func TestExamples(t *testing.T) {
	for file, most := range map[string]int{"run/agent/example_test.go": 25, "engine/example_test.go": 25 + 20} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && (fn.Name.Name == "Example" || fn.Recv != nil) { // the user is part of it
				lines += set.Position(fn.Body.List[len(fn.Body.List)-1].End()).Line - set.Position(fn.Body.Lbrace).Line
			}
		}
		if lines == 0 || lines > most {
			t.Errorf("%s: the example has %d lines, more than %d", file, lines, most)
		}
	}
}
