// Command mutants changes the code of a package in one place, runs tests, and counts which changes no test notices.
//
//	go run ./mutants [-n 60] [-seed 1] [-packages session,gate,tool,agent,permission] [-also ./engine] [-out FILE]
//
// The changes are drawn from the syntax tree with a fixed seed, so that the same code gives the same ones: a condition
// that is negated, an operator or a comparison that is swapped, a statement or the body of a case that is left out, a
// number or a bool that is another. The tree itself is not changed (go test -overlay). The package's own tests run
// first; those of -also only for changes that they do not notice. With -only N a single change is tried, with -list
// none.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
)

// A mutant is one change.
type mutant struct {
	file string
	pos  token.Position
	what string
	// apply changes the tree, and returns the func that takes the change back.
	apply func() (undo func())
	tree  *ast.File
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutants: ")
	n := flag.Int("n", 60, "changes for each package")
	seed := flag.Uint64("seed", 1, "of the draw")
	packages := flag.String("packages", "session,gate,tool,agent,permission", "directories of the packages")
	also := flag.String("also", "./agent,./gate,./engine,./internal/frontend/cli",
		"packages whose tests run for what a package's own do not notice; \"\": none")
	limit := flag.Duration("timeout", 5*time.Minute, "for the tests of one package; a change that exceeds it is noticed")
	list := flag.Bool("list", false, "print the changes and run nothing")
	only := flag.Int("only", 0, "run only the change with this number")
	from := flag.Int("from", 1, "run the changes from this number on")
	flag.Parse()
	root, err := filepath.Abs("..")
	if err != nil {
		log.Fatal(err)
	}
	table := bench.Table{Title: "Changes that tests notice", Head: []string{"package", "changes", "by its own tests", "by others",
		"not built", "survived"}}
	for _, name := range strings.Split(*packages, ",") {
		all, fset, err := mutants(filepath.Join(root, name), *n, *seed)
		if err != nil {
			log.Fatal(err)
		}
		own, others, invalid, alive := 0, 0, 0, 0
		for i, m := range all {
			where := fmt.Sprintf("%s %d %s:%d %s", name, i+1, filepath.Base(m.file), m.pos.Line, m.what)
			if *list {
				fmt.Println(where)
				continue
			}
			if *only > 0 && i+1 != *only || i+1 < *from {
				continue
			}
			outcome, err := try(root, name, m, fset, strings.FieldsFunc(*also, func(r rune) bool { return r == ',' }), *limit)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(outcome, where)
			switch outcome {
			case killed:
				own++
			case killedByOthers:
				others++
			case notBuilt:
				invalid++
			default:
				alive++
			}
		}
		table.Add(name, own+others+invalid+alive, own, others, invalid, alive)
	}
	if !*list {
		if err := table.Write(os.Stdout); err != nil {
			log.Fatal(err)
		}
	}
}

// Outcomes of a change.
const (
	killed         = "noticed "
	killedByOthers = "elsewhere"
	notBuilt       = "not built"
	survived       = "SURVIVED"
)

// try runs the tests with a change.
func try(root, name string, m mutant, fset *token.FileSet, also []string, limit time.Duration) (string, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	undo := m.apply()
	var text bytes.Buffer
	err = format.Node(&text, fset, m.tree)
	undo()
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(changed, text.Bytes(), 0o600), os.WriteFile(overlay, data, 0o600)); err != nil {
		return "", err
	}
	run := func(args ...string) error {
		ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, "go", args...)
		c.Dir, c.WaitDelay = root, 10*time.Second
		return c.Run()
	}
	if run("build", "-overlay", overlay, "./"+name) != nil {
		return notBuilt, nil
	}
	for _, pkg := range append([]string{"./" + name}, slices.DeleteFunc(slices.Clone(also),
		func(p string) bool { return p == "./"+name })...) {
		if run("test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout", limit.String(), pkg) == nil {
			continue
		}
		if pkg == "./"+name {
			return killed, nil
		}
		return killedByOthers, nil
	}
	return survived, nil
}

// mutants draws n changes of the package in a directory, in the order of the files.
func mutants(dir string, n int, seed uint64) ([]mutant, *token.FileSet, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	fset := token.NewFileSet()
	var all []mutant
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".go")
		if strings.HasSuffix(base, "_test") || strings.HasSuffix(base, "_windows") || strings.HasSuffix(base, "_darwin") ||
			strings.HasSuffix(base, "_other") {
			continue
		}
		tree, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		add := func(n ast.Node, what string, apply func() func()) {
			all = append(all, mutant{file: file, pos: fset.Position(n.Pos()), what: what, apply: apply, tree: tree})
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			changes(n, add)
			return true
		})
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(n, len(all))]
	slices.SortStableFunc(all, func(a, b mutant) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.pos.Offset - b.pos.Offset
	})
	return all, fset, nil
}

var swapped = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ,
	token.GEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// changes adds the changes of one node.
func changes(n ast.Node, add func(ast.Node, string, func() func())) {
	switch n := n.(type) {
	case *ast.IfStmt:
		add(n, "negates the condition", func() func() {
			old := n.Cond
			n.Cond = &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: old}}
			return func() { n.Cond = old }
		})
	case *ast.BinaryExpr:
		to, ok := swapped[n.Op]
		if !ok || n.Op == token.ADD && isText(n) {
			return
		}
		from := n.Op
		add(n, fmt.Sprintf("%s becomes %s", from, to), func() func() {
			n.Op = to
			return func() { n.Op = from }
		})
	case *ast.BlockStmt:
		for i, s := range n.List {
			if removable(s) {
				add(s, "leaves out the statement", func() func() {
					old := n.List
					n.List = slices.Delete(slices.Clone(old), i, i+1)
					return func() { n.List = old }
				})
			}
		}
	case *ast.CaseClause:
		if len(n.Body) > 0 {
			add(n, "leaves out the body of the case", func() func() {
				old := n.Body
				n.Body = nil
				return func() { n.Body = old }
			})
		}
	case *ast.Ident:
		other := map[string]string{"true": "false", "false": "true"}[n.Name]
		if other == "" {
			return
		}
		add(n, n.Name+" becomes "+other, func() func() {
			old := n.Name
			n.Name = other
			return func() { n.Name = old }
		})
	case *ast.BasicLit:
		v, err := strconv.Atoi(n.Value)
		if n.Kind != token.INT || err != nil {
			return
		}
		add(n, fmt.Sprintf("%d becomes %d", v, v+1), func() func() {
			old := n.Value
			n.Value = strconv.Itoa(v + 1)
			return func() { n.Value = old }
		})
	}
}

// removable reports whether the code is still built without a statement, usually.
func removable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.IfStmt:
		return true
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	}
	return false
}

// isText reports whether a sum joins texts, as far as that can be seen.
func isText(n *ast.BinaryExpr) bool {
	text := false
	ast.Inspect(n, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		text = text || ok && lit.Kind == token.STRING
		return true
	})
	return text
}
