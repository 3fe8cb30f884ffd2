// Command mutants changes the code of a package in one place, runs tests, and counts which changes no test notices.
//
//	go run ./mutants [-n 60] [-seed 1] [-packages gate,permission,session,tool,agent] [-results FILE]
//
// The changes are drawn from the syntax tree with a fixed seed, so that the same code gives the same ones: a condition
// that is negated, an operator or a comparison that is swapped, a statement or the body of a case that is left out, a
// number or a bool that is another. What the compiler refuses is replaced by the next one of the draw. The tree itself
// is not changed (go test -overlay).
//
// Nearly all changes are built at once, each behind a condition. An environment variable says which one is in force, so
// that a change costs a run of the package's own tests; for other packages, whose tests may start programs without that
// variable, the linker says it (-ldflags -X). Changes that cannot be expressed so are built alone.
//
// The tests run in stages: a package's own without those of -slow, all of its own if it has such, and then each package
// of -also that depends on it. A stage runs for a change only if the stages before did not notice it, and for all
// packages before the next one begins. Without a change every stage has to pass, and a change that takes five times as
// long (and ten seconds) is noticed. With -results FILE each outcome is recorded as a line of JSON, and a run that was
// interrupted goes on where it ended; changes of the code need another file. With -list nothing runs, -only N runs a
// single change.
//
// A change may do anything that the tests let it do: run it where nothing can be lost.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
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

// A mutant is one change, with what came of it.
type mutant struct {
	file string
	pos  token.Position
	what string
	tree *ast.File
	// apply makes the change in the syntax tree and returns a func that undoes it. The changed code runs only if the
	// condition on is true; "": always. It returns nil if the change cannot depend on a condition.
	apply func(on string) (undo func())

	built   bool // together with others
	outcome string
	stages  []string // that it survived
	by      string   // the stage that noticed it
}

// Outcomes.
const (
	notBuilt = "not built"
	noticed  = "noticed"
	survived = "survived"
)

// A target is a package that is changed. Its changes are in the order of the draw.
type target struct {
	name    string
	changes []*mutant
	types   *types.Config
	files   map[string]*ast.File // that are compiled, with the changes that are built together
	helper  *ast.File
	program string // the tests of the package
}

// A stage runs the tests of one package.
type stage struct {
	name string
	pkg  string // "": the one that is changed
	skip string
}

// A record is the outcome of a change in one stage.
type record struct {
	Where   string `json:"where"`
	Stage   string `json:"stage"`
	Outcome string `json:"outcome"`
}

// A runner tests the changed packages and records whether each change was noticed.
type runner struct {
	root    string
	n, only int
	slow    string // tests that the first stage leaves out
	fset    *token.FileSet
	targets []*target
	results *os.File                 // nil: nothing is recorded
	limits  map[string]time.Duration // of the tests of a stage and a package
	overlay string                   // with all changes that are built together
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutants: ")
	n := flag.Int("n", 60, "changes for each package")
	seed := flag.Uint64("seed", 1, "of the draw")
	names := flag.String("packages", "gate,permission,session,tool,agent", "directories of the packages")
	slow := flag.String("slow", "^(TestDifferential|TestDecideLimits|TestGitAskedOnce)$",
		"tests of a package that run only for what its others do not notice")
	also := flag.String("also", "./run/agent,./run/gate,./run/tool/coding,./engine,./internal/program/cli",
		"packages whose tests run for what a package's own do not notice; \"\": none")
	results := flag.String("results", "", "file for the outcomes, with which a later run goes on")
	list := flag.Bool("list", false, "print the changes in the order of the draw and run nothing")
	only := flag.Int("only", 0, "run only the change with this number")
	flag.Parse()
	root, err := filepath.Abs("..")
	if err != nil {
		log.Fatal(err)
	}
	r := &runner{root: root, n: max(*n, *only), only: *only, slow: *slow, fset: token.NewFileSet(),
		limits: map[string]time.Duration{}}
	for _, name := range strings.Split(*names, ",") {
		all, err := mutants(r.fset, filepath.Join(root, name), *seed)
		if err != nil {
			log.Fatal(err)
		}
		r.targets = append(r.targets, &target{name: name, changes: all})
	}
	if *list {
		for _, t := range r.targets {
			for i := range t.changes {
				fmt.Println(t.where(i))
			}
		}
		return
	}
	if err := r.open(*results); err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err == nil {
		defer os.RemoveAll(dir)
		err = r.build(dir)
	}
	if err != nil {
		log.Fatal(err)
	}
	stages := []stage{{name: "own", skip: *slow}, {name: "all own"}}
	for _, pkg := range strings.FieldsFunc(*also, func(c rune) bool { return c == ',' }) {
		stages = append(stages, stage{name: pkg, pkg: pkg})
	}
	for _, s := range stages {
		if err := r.run(s); err != nil {
			log.Fatal(err)
		}
	}
	if err := r.table(stages).Write(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func (t *target) where(i int) string {
	m := t.changes[i]
	return fmt.Sprintf("%s %d %s:%d:%d %s", t.name, i+1, filepath.Base(m.file), m.pos.Line, m.pos.Column, m.what)
}

// drawn reports whether change i is one of the first n that can be built.
func (r *runner) drawn(t *target, i int) bool {
	built := 0
	for _, m := range t.changes[:min(i, len(t.changes))] {
		if m.outcome != notBuilt {
			built++
		}
	}
	return i < len(t.changes) && built < r.n
}

// build chooses the changes of each package that can be built together, and writes their code.
func (r *runner) build(dir string) error {
	replace := map[string]string{}
	for _, t := range r.targets {
		if err := r.load(t); err != nil {
			return err
		}
		trees := map[string]*ast.File{}
		for i := 0; r.drawn(t, i); i++ {
			m := t.changes[i]
			if undo := m.apply(t.condition(i)); undo != nil {
				if checked, err := r.check(t, m); err == nil {
					m.built, t.files[m.file], trees[m.file] = true, checked, m.tree
					continue
				}
				undo()
			}
			undo := m.apply("")
			if _, err := r.check(t, m); err != nil && m.outcome == "" {
				m.outcome = notBuilt
			}
			undo()
		}
		for file := range trees {
			text, err := r.text(trees[file])
			if err != nil {
				return err
			}
			replace[file] = filepath.Join(dir, t.name+"-"+filepath.Base(file))
			if err := os.WriteFile(replace[file], text, 0o600); err != nil {
				return err
			}
		}
		helper := filepath.Join(dir, t.name+"-mutant.go")
		replace[filepath.Join(r.root, t.name, "zz_mutant.go")] = helper
		if err := os.WriteFile(helper, []byte(t.code()), 0o600); err != nil {
			return err
		}
	}
	r.overlay = filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	return errors.Join(err, os.WriteFile(r.overlay, data, 0o600))
}

// condition is true when change i is in force.
func (t *target) condition(i int) string { return fmt.Sprintf("(mutantInForce == \"%d\")", i+1) }

// code returns the file that the conditions need.
func (t *target) code() string {
	return "package " + t.name + `

import "os"

var (
	mutantLinked  string
	mutantInForce = max(mutantLinked, os.Getenv("KNACK_MUTANT"))
)

func mutantPick[T any](other bool, a, b T) T {
	if other {
		return b
	}
	return a
}
`
}

// load reads what the type checker needs of a package.
func (r *runner) load(t *target) error {
	out, err := r.goTool(time.Hour, "list", "-export", "-deps", "-f",
		"{{.ImportPath}}\t{{.Export}}\t{{join .GoFiles \" \"}}",
		"./"+t.name)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", t.name, err, out)
	}
	exports := map[string]string{}
	t.files = map[string]*ast.File{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) < 2 {
			continue
		}
		if exports[f[0]] = f[1]; f[0] != module+t.name {
			continue
		}
		for _, name := range strings.Fields(f[2]) {
			file := filepath.Join(r.root, t.name, name)
			if t.files[file], err = parser.ParseFile(r.fset, file, nil, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
	}
	if t.helper, err = parser.ParseFile(r.fset, "zz_mutant.go", t.code(), parser.SkipObjectResolution); err != nil {
		return err
	}
	t.types = &types.Config{Error: nil, Importer: importer.ForCompiler(r.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	return nil
}

const module = "github.com/knack-agent/knack/"

// text returns the source of a file.
func (r *runner) text(tree *ast.File) ([]byte, error) {
	var text bytes.Buffer
	err := format.Node(&text, r.fset, tree)
	return text.Bytes(), err
}

// check returns the file of a change, as it would be compiled now, or why it cannot be.
func (r *runner) check(t *target, m *mutant) (*ast.File, error) {
	text, err := r.text(m.tree)
	if err != nil {
		return nil, err
	}
	// The tree has identifiers that are expressions, so it is read anew.
	changed, err := parser.ParseFile(r.fset, m.file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	all := []*ast.File{changed, t.helper}
	for name, f := range t.files {
		if name != m.file {
			all = append(all, f)
		}
	}
	_, err = t.types.Check(module+t.name, r.fset, all, nil)
	return changed, err
}

// open reads the outcomes of earlier runs, and keeps the file open for more.
func (r *runner) open(name string) error {
	if name == "" {
		return nil
	}
	known := map[string]*mutant{}
	for _, t := range r.targets {
		for i, m := range t.changes {
			known[t.where(i)] = m
		}
	}
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range bytes.Lines(data) {
		var old record
		if err := json.Unmarshal(line, &old); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if m := known[old.Where]; m != nil {
			m.add(old)
		} else if pkg, _, _ := strings.Cut(old.Where, " "); slices.ContainsFunc(r.targets,
			func(t *target) bool { return t.name == pkg }) {
			return fmt.Errorf("%s: %q is not a change of this code", name, old.Where)
		}
	}
	r.results, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return err
}

func (m *mutant) add(r record) {
	switch m.outcome = r.Outcome; r.Outcome {
	case survived:
		m.stages = append(m.stages, r.Stage)
	case noticed:
		m.by = r.Stage
	}
}

// run runs a stage for the first change of each package, the second of each, and so on.
func (r *runner) run(s stage) error {
	var targets []*target
	for _, t := range r.targets {
		if ok, err := r.affects(t, s); err != nil {
			return err
		} else if ok {
			targets = append(targets, t)
		}
	}
	for i, more := 0, true; more; i++ {
		more = false
		for _, t := range targets {
			if !r.drawn(t, i) {
				continue
			}
			more = true
			if r.only > 0 && i+1 != r.only {
				continue
			}
			m := t.changes[i]
			if m.outcome == noticed || m.outcome == notBuilt || slices.Contains(m.stages, s.name) {
				continue
			}
			outcome, err := r.try(t, i, s)
			if err != nil {
				return err
			}
			rec := record{t.where(i), s.name, outcome}
			fmt.Printf("%-9s %-24s %s\n", outcome, s.name, rec.Where)
			m.add(rec)
			if line, err := json.Marshal(rec); err != nil {
				return err
			} else if r.results != nil {
				if _, err := r.results.Write(append(line, '\n')); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// affects reports whether the tests of a stage can notice a change of a package.
func (r *runner) affects(t *target, s stage) (bool, error) {
	if s.pkg == "" && s.skip == "" { // for a package without slow tests, the same as the stage before
		if err := r.compile(t); err != nil {
			return false, err
		}
		c := exec.Command(t.program, "-test.list="+r.slow)
		c.Dir = filepath.Join(r.root, t.name)
		out, err := output(c, time.Minute)
		return bytes.HasPrefix(out, []byte("Test")), err
	}
	if s.pkg == "" || s.pkg == "./"+t.name {
		return s.pkg == "", nil
	}
	out, err := r.goTool(time.Minute, "list", "-deps", "-test", s.pkg)
	if err != nil {
		return false, fmt.Errorf("%s: %w: %s", s.pkg, err, out)
	}
	return slices.Contains(strings.Fields(string(out)), module+t.name), nil
}

// try runs the tests of a stage with a change.
func (r *runner) try(t *target, i int, s stage) (outcome string, err error) {
	m, pkg := t.changes[i], s.pkg
	if pkg == "" {
		pkg = "./" + t.name
	}
	own := s.pkg == "" && m.built
	run := func(limit time.Duration, number, overlay string) ([]byte, error) {
		if own {
			if err := r.compile(t); err != nil {
				return nil, err
			}
			c := exec.Command(t.program, "-test.failfast", "-test.skip="+s.skip, "-test.timeout="+limit.String())
			c.Dir, c.Env = filepath.Join(r.root, t.name), append(os.Environ(), "KNACK_MUTANT="+number)
			return output(c, limit+time.Minute)
		}
		return r.goTool(limit+time.Minute, "test", "-count=1", "-vet=off", "-failfast", "-skip="+s.skip,
			"-ldflags=-X "+module+t.name+".mutantLinked="+number, "-overlay="+overlay, "-timeout="+limit.String(), pkg)
	}
	limit, ok := r.limits[s.name+" "+pkg]
	if !ok {
		start := time.Now()
		if out, err := run(time.Hour, "", r.overlay); err != nil {
			return "", fmt.Errorf("the tests of %s fail without a change: %w: %s", pkg, err, out)
		}
		limit = 5*time.Since(start) + 10*time.Second
		r.limits[s.name+" "+pkg] = limit
	}
	overlay := r.overlay
	if !m.built {
		dir, err := os.MkdirTemp("", "mutant")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(dir)
		if overlay, err = r.alone(dir, t, m); err != nil {
			return "", err
		}
	}
	out, err := run(limit, strconv.Itoa(i+1), overlay)
	switch {
	case err == nil:
		return survived, nil
	case bytes.Contains(out, []byte("[build failed]")):
		return notBuilt, nil
	}
	return noticed, nil
}

// compile builds the tests of a package, once.
func (r *runner) compile(t *target) error {
	if t.program != "" {
		return nil
	}
	program := filepath.Join(filepath.Dir(r.overlay), t.name+".test")
	out, err := r.goTool(time.Hour, "test", "-c", "-vet=off", "-overlay="+r.overlay, "-o", program, "./"+t.name)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	t.program = program
	return nil
}

// alone writes the code of one change and returns its overlay. The tree has the changes that are built together, so
// that the file is read once more.
func (r *runner) alone(dir string, t *target, m *mutant) (overlay string, err error) {
	fset := token.NewFileSet()
	all, err := inFile(fset, m.file)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(o *mutant) bool { return o.pos == m.pos && o.what == m.what })
	all[i].apply("")
	var text bytes.Buffer
	if err := format.Node(&text, fset, all[i].tree); err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	return overlay, errors.Join(err, os.WriteFile(changed, text.Bytes(), 0o600), os.WriteFile(overlay, data, 0o600))
}

func (r *runner) goTool(limit time.Duration, args ...string) ([]byte, error) {
	c := exec.Command("go", args...)
	c.Dir = r.root
	return output(c, limit)
}

// output runs a program, which is killed after a time, and returns what it writes.
func output(c *exec.Cmd, limit time.Duration) ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &out, 10*time.Second
	if err := c.Start(); err != nil {
		return nil, err
	}
	defer time.AfterFunc(limit, func() { c.Process.Kill() }).Stop()
	err := c.Wait()
	return out.Bytes(), err
}

// table counts the outcomes. Changes that a stage did not reach are not counted as noticed.
func (r *runner) table(stages []stage) *bench.Table {
	out := &bench.Table{Title: "Changes that tests notice",
		Head: []string{"package", "built", "noticed by its own tests", "by others", "survived", "not built"}}
	for _, t := range r.targets {
		own, others, invalid, alive := 0, 0, 0, 0
		for i, m := range t.changes {
			switch {
			case !r.drawn(t, i) || m.outcome == "":
			case m.outcome == notBuilt:
				invalid++
			case m.outcome == survived:
				alive++
			case m.by == stages[0].name || m.by == stages[1].name:
				own++
			default:
				others++
			}
		}
		out.Add(t.name, own+others+alive, own, others, alive, invalid)
	}
	return out
}

// mutants returns all changes of the package in a directory in random order.
func mutants(fset *token.FileSet, dir string, seed uint64) ([]*mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []*mutant
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".go")
		if strings.HasSuffix(base, "_test") || strings.HasSuffix(base, "_windows") || strings.HasSuffix(base, "_darwin") ||
			strings.HasSuffix(base, "_other") {
			continue
		}
		in, err := inFile(fset, file)
		if err != nil {
			return nil, err
		}
		all = append(all, in...)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

// inFile returns the changes of a file, in its order.
func inFile(fset *token.FileSet, file string) (all []*mutant, err error) {
	tree, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		changes(n, func(n ast.Node, what string, apply func(string) func()) {
			all = append(all, &mutant{file: file, pos: fset.Position(n.Pos()), what: what, apply: apply, tree: tree})
		})
		return true
	})
	// Comments would move into changed code; some are meant for the compiler.
	tree.Comments = slices.DeleteFunc(tree.Comments, func(c *ast.CommentGroup) bool {
		return !slices.ContainsFunc(c.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:") })
	})
	return all, nil
}

var swapped = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ,
	token.GEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// changes adds the changes of one node.
func changes(n ast.Node, add func(ast.Node, string, func(on string) func())) {
	switch n := n.(type) {
	case *ast.IfStmt:
		add(n, "negates the condition", func(on string) func() {
			old := n.Cond
			n.Cond = binary(code(cmp.Or(on, "true")), token.NEQ, old)
			return func() { n.Cond = old }
		})
	case *ast.BinaryExpr:
		to, ok := swapped[n.Op]
		if !ok || n.Op == token.ADD && isText(n) {
			return
		}
		add(n, fmt.Sprintf("%s becomes %s", n.Op, to), func(on string) func() {
			old := *n
			switch other := (binary(n.X, to, n.Y)); {
			case on == "":
				n.Op = to
			case n.Op == token.ADD || n.Op == token.SUB:
				if calls(n) { // twice
					return nil
				}
				*n = ast.BinaryExpr{X: call("mutantPick", code(on), &old, other), OpPos: n.OpPos, Op: token.ADD, Y: code("0")}
			default:
				*n = ast.BinaryExpr{X: &ast.ParenExpr{X: binary(code(on), token.LAND, other)}, OpPos: n.OpPos, Op: token.LOR,
					Y: &ast.ParenExpr{X: binary(code("!"+on), token.LAND, &old)}}
			}
			was := old
			return func() { *n = was }
		})
	case *ast.BlockStmt:
		for i, s := range n.List {
			if removable(s) {
				add(s, "leaves out the statement", func(on string) func() {
					old := n.List[i]
					n.List[i] = unless(on, old)
					return func() { n.List[i] = old }
				})
			}
		}
	case *ast.CaseClause:
		if len(n.Body) > 0 {
			add(n, "leaves out the body of the case", func(on string) func() {
				old := n.Body
				n.Body = []ast.Stmt{unless(on, old...)}
				return func() { n.Body = old }
			})
		}
	case *ast.Ident:
		other := map[string]string{"true": "false", "false": "true"}[n.Name]
		if other == "" {
			return
		}
		add(n, n.Name+" becomes "+other, func(on string) func() {
			old := n.Name
			if n.Name = other; on != "" {
				n.Name = fmt.Sprintf("(%s != %s)", on, old)
			}
			return func() { n.Name = old }
		})
	case *ast.BasicLit:
		v, err := strconv.Atoi(n.Value)
		if n.Kind != token.INT || err != nil {
			return
		}
		add(n, fmt.Sprintf("%d becomes %d", v, v+1), func(on string) func() {
			old := n.Value
			if n.Value = strconv.Itoa(v + 1); on != "" {
				n.Value = fmt.Sprintf("mutantPick(%s, %d, %d)", on, v, v+1)
			}
			return func() { n.Value = old }
		})
	}
}

// code returns an expression that is printed as the text.
func code(text string) ast.Expr { return &ast.Ident{Name: text} }

func binary(x ast.Expr, op token.Token, y ast.Expr) ast.Expr {
	return &ast.BinaryExpr{X: &ast.ParenExpr{X: x}, Op: op, Y: &ast.ParenExpr{X: y}}
}

func call(name string, args ...ast.Expr) ast.Expr { return &ast.CallExpr{Fun: code(name), Args: args} }

// unless returns statements that do not run where on is true; "": an empty block.
func unless(on string, s ...ast.Stmt) ast.Stmt {
	if on == "" {
		return &ast.BlockStmt{}
	}
	return &ast.IfStmt{Cond: code("!" + on), Body: &ast.BlockStmt{List: s}}
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

// calls reports whether an expression calls a func, len apart.
func calls(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			name, ok := c.Fun.(*ast.Ident)
			found = found || !ok || name.Name != "len"
		}
		return true
	})
	return found
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
