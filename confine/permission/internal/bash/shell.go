// Package bash finds out what a shell line would do without running it: which simple commands it has, which files they
// read and write, and which scripts they run. What it does not understand needs approval.
package bash

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of the analysis. Longer or deeper commands need approval.
const (
	maxLength   = 10_000 // characters of a command line
	maxCommands = 50     // simple commands in it
	maxDepth    = 32     // levels of nesting
)

type variable struct {
	words   []*syntax.Word
	items   []bool // the word belongs to a for loop, which expands globs
	vals    []string
	glob    bool
	unknown bool
	number  bool

	made     []Made // see settleMade
	exported bool   // its value counts as unknown, except in made
	certain  bool   // the assignment takes place whatever happens before it
}

// analysis is the state while parsing one text.
type analysis struct {
	src      string
	top      string // what git rev-parse --show-toplevel prints; "": not known
	script   *CommandLine
	entries  []entry
	vars     map[string]*variable
	order    []string
	allVars  bool           // some command may set any variable
	negative bool           // arithmetic in this text may have a negative result
	funcs    map[string]int // functions that certainly exist, with the number of entries before their definition
	anyFunc  bool
	depth    int
	loop     int // number of enclosing loops and functions
	count    *int
	arrays   map[string]bool
	declared []declared // declarations whose value is unknown
	inDoc    int        // number of enclosing here-documents
	block    int        // number of enclosing constructs after which a function may not exist
}

type declared struct {
	name string
	node syntax.Node
}

type entry struct {
	call   *syntax.CallExpr
	redir  *syntax.Redirect
	assign string
	stdin  *syntax.Redirect
	reason string
	text   string
	loose  bool
	moved  bool // it runs only if the cd with which the line begins succeeded
}

var (
	errLong   = fmt.Errorf("longer than %d characters", maxLength)
	errDeep   = fmt.Errorf("nested more than %d levels deep", maxDepth)
	ErrHidden = errors.New("contains control or hidden characters")
)

// Parse parses a bash command line. It fails if text is longer than maxLength + spare characters,
// contains control or hidden characters or is not valid bash.
func Parse(text string, spare int) (*CommandLine, error) {
	return ParseIn("", text, spare)
}

// ParseIn is like Parse, and takes top as the output of "git rev-parse --show-toplevel"; "": the output is not known. In
// another repository git would print another directory, so the caller must check with Moves that no command of the line
// enters one.
func ParseIn(top, text string, spare int) (*CommandLine, error) {
	if len(text) > maxLength+spare && utf8.RuneCountInString(text) > maxLength+spare {
		return nil, errLong
	}
	n := 0
	return parse(top, text, 0, &n)
}

func parse(top, text string, depth int, count *int) (*CommandLine, error) {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return nil, ErrHidden
		} else if c >= 0x80 {
			for _, r := range text[i:] {
				if r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
					unicode.Variation_Selector) && r != '\n' && r != '\t' ||
					r > 0x7f && unicode.IsSpace(r) || r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0' ||
					r == '\u2800' {
					return nil, ErrHidden
				}
			}
			break
		}
	}
	deep, deepest := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(':
			deep++
			deepest = max(deepest, deep)
		case ')':
			deep--
		}
	}
	if deepest > 3*maxDepth { // the parser's time is quadratic in the nesting depth
		return nil, errDeep
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, fmt.Errorf("not understood as bash: %w", err)
	}
	a := &analysis{src: text, top: top, script: &CommandLine{}, depth: depth, count: count}
	a.stmts(f.Stmts)
	for _, d := range a.declared {
		if a.arrays[d.name] {
			a.unclear(d.node, "a declaration evaluates the value of an array, commands included")
		}
	}
	a.settle()
	for i := range a.entries {
		a.build(i)
	}
	return a.script, nil
}

// settle determines the values of variables, after all assignments have been collected.
func (a *analysis) settle() {
	if len(a.order) == 0 {
		return
	}
	resolved := make(map[string]*variable, len(a.vars))
	all := a.vars
	a.vars = resolved
	for _, name := range a.order {
		v := all[name]
		v.number = !v.unknown && !v.exported && !a.allVars
		for _, w := range v.words {
			if !numberWord(w) {
				v.number = false
			}
		}
		if v.number {
			resolved[name] = &variable{number: true}
		}
	}
	for _, name := range a.order {
		v := all[name]
		a.settleMade(v, name)
		if a.allVars || v.exported {
			v.unknown = true
		}
		for i, w := range v.words {
			if v.unknown {
				break
			}
			if v.number && w.Lit() == "" {
				v.vals = append(v.vals, "0") // stands for any digits
				if a.negative {
					v.unknown = true
				}
				continue
			}
			word := a.word(w)
			if word.Values == nil || word.Tilde || word.Many && !v.items[i] || len(v.vals)+len(word.Values) > maxAlternatives {
				v.unknown = true
				break
			}
			v.vals = append(v.vals, word.Values...)
			v.glob = v.glob || v.items[i] && word.Glob
			if word.Glob && v.items[i] && word.Dash {
				v.unknown = true
			}
		}
		if v.unknown {
			v.vals = nil
			if v.number {
				v.unknown = false // it is still safe in arithmetic
			}
		}
		resolved[name] = v
	}
	a.order = nil
}

// beginsWithCd reports whether a statement succeeds only if a cd to a literal directory did with which it begins.
func beginsWithCd(s *syntax.Stmt) bool {
	if s.Negated || s.Background || s.Coprocess || s.Disown {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		return c.Op == syntax.AndStmt && beginsWithCd(c.X)
	case *syntax.CallExpr:
		return len(c.Assigns) == 0 && len(s.Redirs) == 0 && len(c.Args) == 2 && c.Args[0].Lit() == "cd" &&
			(c.Args[1].Lit() != "" || entersTemp(c.Args[1]))
	}
	return false
}

// numberWord reports whether the value of a word is certainly a number.
func numberWord(w *syntax.Word) bool {
	if Digits(w.Lit()) {
		return true
	}
	if alts, ok := braces(w.Lit()); ok {
		for _, s := range alts {
			if !Digits(s) {
				return false
			}
		}
		return true
	}
	if len(w.Parts) == 1 {
		_, ok := w.Parts[0].(*syntax.ArithmExp)
		return ok
	}
	return false
}

func (a *analysis) source(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if int(to) > len(a.src) || from > to {
		return ""
	}
	return a.src[from:to]
}

func (a *analysis) unclear(n syntax.Node, reason string) {
	a.entries = append(a.entries, entry{reason: reason, text: shorten(a.source(n))})
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return s
}

func (a *analysis) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		a.stmt(s)
	}
}

func (a *analysis) stmt(s *syntax.Stmt) {
	a.depth++
	defer func() { a.depth-- }()
	if a.depth > maxDepth {
		a.unclear(s, fmt.Sprintf("nested more than %d levels deep", maxDepth))
		return
	}
	if s.Coprocess || s.Disown {
		a.unclear(s, "an operator that bash does not have")
	}
	if s.Background {
		a.script.Background = true
		a.block++
		defer func() { a.block-- }()
	}
	var doc *syntax.Redirect
	for _, r := range s.Redirs {
		if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
			doc = r
		}
	}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		a.callExpr(c, doc)
	case *syntax.BinaryCmd:
		pipe := c.Op == syntax.Pipe || c.Op == syntax.PipeAll
		if pipe {
			a.block++
		}
		first := len(a.entries) == 0
		a.stmt(c.X)
		if !pipe {
			a.block++
		}
		after := len(a.entries)
		a.stmt(c.Y)
		a.block--
		if first && c.Op == syntax.AndStmt && beginsWithCd(c.X) {
			for i := range a.entries[after:] {
				a.entries[after+i].moved = true
			}
		}
	case *syntax.Block:
		a.stmts(c.Stmts)
	case *syntax.Subshell:
		a.block++ // a function defined in a subshell does not exist after it
		a.stmts(c.Stmts)
		a.block--
	case *syntax.IfClause:
		a.block++
		for ; c != nil; c = c.Else {
			a.stmts(c.Cond)
			a.stmts(c.Then)
		}
		a.block--
	case *syntax.WhileClause:
		a.loop++
		a.block++
		a.stmts(c.Cond)
		a.stmts(c.Do)
		a.block--
		a.loop--
	case *syntax.ForClause:
		a.forClause(c)
	case *syntax.CaseClause:
		a.parts(c.Word)
		a.block++
		for _, it := range c.Items {
			for _, w := range it.Patterns {
				a.parts(w)
			}
			a.stmts(it.Stmts)
		}
		a.block--
	case *syntax.FuncDecl:
		if c.Name == nil {
			a.unclear(c, "a function without a name")
			break
		}
		a.anyFunc = true
		compound := false
		switch c.Body.Cmd.(type) {
		case *syntax.Block, *syntax.Subshell:
			// The parser treats "f() { …; } | cat" as a function whose body is a pipe. In bash the
			// function is defined in a subshell and does not exist afterwards.
			compound = true
		}
		if _, ok := a.funcs[c.Name.Value]; !ok && a.block == 0 && compound {
			if a.funcs == nil {
				a.funcs = map[string]int{}
			}
			a.funcs[c.Name.Value] = len(a.entries)
		}
		a.loop++
		a.block++
		a.stmt(c.Body)
		a.block--
		a.loop--
	case *syntax.ArithmCmd:
		a.arithm(c.X)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			a.arithm(x)
		}
		a.unclear(c, "let evaluates its words as code")
	case *syntax.TestClause:
		a.test(c.X)
	case *syntax.DeclClause:
		a.decl(c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			// bash skips the --, but the parser treats it as a command.
			if call, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() == "--" {
				a.unclear(c, "time -- runs what follows it")
			}
			a.stmt(c.Stmt)
		}
	case *syntax.CoprocClause:
		name := "COPROC"
		if c.Name != nil {
			a.parts(c.Name)
			if name = c.Name.Lit(); !Identifier(name) {
				a.allVars = true
			}
		}
		a.assigned(name, nil, false)
		a.assigned(name+"_PID", nil, false)
		a.checkName(name, "coproc "+name)
		a.block++
		a.stmt(c.Stmt)
		a.block--
	default:
		a.unclear(s, "a construct that is not understood")
	}
	for _, r := range s.Redirs {
		a.redirect(r)
	}
}

func (a *analysis) forClause(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		for _, w := range l.Items {
			a.parts(w)
		}
		if c.Select || !l.InPos.IsValid() {
			a.assigned(l.Name.Value, nil, true)
		} else {
			for _, w := range l.Items {
				a.assigned(l.Name.Value, w, true)
			}
			if len(l.Items) == 0 {
				a.assigned(l.Name.Value, nil, true)
			}
		}
		a.checkName(l.Name.Value, l.Name.Value+"=…")
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if x != nil {
				a.arithm(x)
			}
		}
	default:
		a.unclear(c, "a loop that is not understood")
	}
	a.loop++
	a.block++
	a.stmts(c.Do)
	a.block--
	a.loop--
}

// assigned records an assignment to a shell variable; if w is nil, its value is unknown.
func (a *analysis) assigned(name string, w *syntax.Word, item bool) {
	if a.vars == nil {
		a.vars = map[string]*variable{}
	}
	v := a.vars[name]
	if v == nil {
		v = &variable{}
		a.vars[name] = v
		a.order = append(a.order, name)
	}
	if w == nil {
		v.unknown = true
		return
	}
	v.words = append(v.words, w)
	v.items = append(v.items, item)
	v.certain = a.block == 0
}

// checkName records an assignment that may change the behaviour of a program.
func (a *analysis) checkName(name, text string) {
	if !shellVariable(name) || harmlessVariable(name) && (strings.Contains(text, "..") || strings.Contains(text, "=/") ||
		strings.Contains(text, ":/")) {
		a.entries = append(a.entries, entry{assign: shorten(text)})
	}
}

func (a *analysis) callExpr(c *syntax.CallExpr, doc *syntax.Redirect) {
	*a.count++
	if len(c.Args) == 0 {
		for _, as := range c.Assigns {
			a.assign(as, true)
			if as.Name != nil {
				a.checkName(as.Name.Value, a.source(as))
			}
		}
		return
	}
	for _, as := range c.Assigns {
		// Only this command gets the variable, but if it is a function or a special builtin, later
		// commands see it too.
		a.assign(as, true)
		if as.Name != nil {
			a.assigned(as.Name.Value, nil, false)
		}
	}
	for _, w := range c.Args {
		a.parts(w)
	}
	a.setsVariables(c.Args)
	a.entries = append(a.entries, entry{call: c, stdin: doc, loose: a.loop > 0})
}

// setsVariables records which variables builtins may set.
func (a *analysis) setsVariables(args []*syntax.Word) {
	var early analysis // an analysis without variables
	early.src = a.src
	for i := 0; i < len(args); i++ {
		w := early.word(args[i])
		name, ok := w.Value()
		if !ok {
			return // such a command is not allowed anyway
		}
		switch name {
		case "command", "builtin":
			continue
		case "read":
			for _, arg := range args[i+1:] {
				w := early.word(arg)
				v, ok := w.Value()
				if !ok {
					a.allVars = true
				} else if !strings.HasPrefix(v, "-") {
					a.assigned(v, nil, false)
				}
			}
			a.assigned("REPLY", nil, false)
		case "eval", "source", ".", "mapfile", "readarray", "getopts", "trap", "enable", "wait", "let", "unset", "exec",
			"alias", "env", "set", "shift":
			a.allVars = a.allVars || name != "shift" && name != "set" && name != "env"
		case "printf":
			if i+1 < len(args) { // its options come before the format
				w := early.word(args[i+1])
				if v, ok := w.Value(); !ok && w.Dash || ok && strings.HasPrefix(v, "-v") {
					a.allVars = true
				}
			}
		}
		return
	}
}

// assign processes an assignment; with record it also records its value.
func (a *analysis) assign(as *syntax.Assign, record bool) {
	if as.Value != nil {
		a.parts(as.Value)
	}
	if as.Index != nil {
		a.subscript(as.Index)
	}
	if as.Array != nil {
		if as.Name != nil {
			if a.arrays == nil {
				a.arrays = map[string]bool{}
			}
			a.arrays[as.Name.Value] = true
		}
		for _, e := range as.Array.Elems {
			if e.Index != nil {
				a.subscript(e.Index)
			}
			if e.Value != nil {
				a.parts(e.Value)
			}
		}
	}
	if !record || as.Name == nil {
		return
	}
	if as.Append || as.Naked || as.Index != nil || as.Array != nil || as.Value == nil && as.Naked {
		a.assigned(as.Name.Value, nil, false)
		return
	}
	if as.Value == nil {
		a.assigned(as.Name.Value, nil, false)
		return
	}
	a.assigned(as.Name.Value, as.Value, false)
}

func (a *analysis) decl(c *syntax.DeclClause) {
	*a.count++
	kind, array := c.Variant.Value, false
	if len(c.Args) == 0 {
		a.unclear(c, kind+" alone prints every variable")
	}
	for _, as := range c.Args {
		a.assign(as, true)
		if as.Name == nil {
			// An option, or a word that yields a name and value at run time.
			var early analysis
			early.src = a.src
			w := early.word(as.Value)
			if v, ok := w.Value(); !ok || !strings.HasPrefix(v, "-") || strings.Trim(v, "-raAgx") != "" {
				a.unclear(c, kind+" with this option or word may run the content of a value")
				a.allVars = true
				return
			}
			v, _ := w.Value()
			if strings.Contains(v, "x") {
				kind = "export"
			}
			array = array || strings.ContainsAny(v, "aA")
			continue
		}
	}
	for _, as := range c.Args {
		if as.Name == nil {
			continue
		}
		name := as.Name.Value
		if as.Value != nil && c.Variant.Value != "export" && c.Variant.Value != "readonly" {
			var early analysis
			early.src = a.src
			w := early.word(as.Value)
			if v, ok := w.Value(); array || a.arrays[name] || ok && strings.HasPrefix(v, "(") {
				a.unclear(c, kind+" evaluates the value of an array, commands included")
			} else if !ok {
				a.declared = append(a.declared, declared{name, c})
			}
		}
		if kind == "export" && as.Value != nil && !array && as.Index == nil && !as.Append {
			a.vars[name].exported = true
		} else {
			a.assigned(name, nil, false)
		}
		if kind == "export" || kind == "nameref" {
			if !harmlessVariable(name) || strings.ContainsAny(a.source(as), "/:$`") {
				a.entries = append(a.entries, entry{assign: shorten(kind + " " + a.source(as))})
			}
		} else {
			a.checkName(name, a.source(as))
		}
		if kind == "nameref" {
			a.unclear(c, "a name reference may run the content of a value")
		}
	}
}

// parts processes the expansions in a word, which may run commands.
func (a *analysis) parts(w *syntax.Word) {
	if w == nil {
		return
	}
	for _, p := range w.Parts {
		a.wordPart(p)
	}
}

func (a *analysis) wordPart(p syntax.WordPart) {
	a.depth++
	defer func() { a.depth-- }()
	if a.depth > 4*maxDepth {
		a.unclear(p, "nested too deep")
		return
	}
	switch p := p.(type) {
	case *syntax.Lit, *syntax.SglQuoted:
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			a.wordPart(q)
		}
	case *syntax.CmdSubst:
		if p.TempFile || p.ReplyVar {
			a.unclear(p, "a substitution that bash may not have")
		}
		a.block++
		a.stmts(p.Stmts)
		a.block--
	case *syntax.ProcSubst:
		a.block++
		a.stmts(p.Stmts)
		a.block--
	case *syntax.ArithmExp:
		a.arithm(p.X)
	case *syntax.ExtGlob:
		if strings.ContainsAny(p.Pattern.Value, "$`<>") {
			a.unclear(p, "an extended glob with expansions in it")
		}
	case *syntax.ParamExp:
		a.paramExp(p)
	case *syntax.BraceExp:
		for _, w := range p.Elems {
			a.parts(w)
		}
	default:
		a.unclear(p, "an expansion that is not understood")
	}
}

func (a *analysis) paramExp(p *syntax.ParamExp) {
	if p.NestedParam != nil || p.Flags != nil || len(p.Modifiers) > 0 || p.IsSet || p.Width {
		a.unclear(p, "an expansion that bash does not have")
		return
	}
	for _, w := range operands(p) {
		if a.doubtfulQuotes(w.Parts) {
			a.unclear(p, "quotes inside an expansion may not quote")
			break
		}
	}
	if p.Excl && p.Names == 0 {
		at := p.Index != nil && (indexIsAt(p.Index) || wordIs(p.Index, "*"))
		if !at || p.Exp != nil || p.Repl != nil || p.Slice != nil {
			a.unclear(p, "${!…} may run the content of a value")
		}
	}
	if p.Index != nil && !indexIsAt(p.Index) && !wordIs(p.Index, "*") {
		a.subscript(p.Index)
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				a.arithm(x)
			}
		}
	}
	if p.Repl != nil {
		a.parts(p.Repl.Orig)
		a.parts(p.Repl.With)
	}
	if p.Exp != nil {
		a.parts(p.Exp.Word)
		switch p.Exp.Op {
		case syntax.OtherParamOps:
			if op := p.Exp.Word.Lit(); op != "Q" && op != "U" && op != "u" && op != "L" && op != "a" && op != "k" && op != "K" {
				a.unclear(p, "${…@"+op+"} may run the content of a value")
			}
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if p.Param != nil {
				a.assigned(p.Param.Value, nil, false)
				a.checkName(p.Param.Value, a.source(p))
			}
		}
	}
}

func operands(p *syntax.ParamExp) (words []*syntax.Word) {
	if p.Exp != nil && p.Exp.Word != nil {
		words = append(words, p.Exp.Word)
	}
	if p.Repl != nil {
		for _, w := range []*syntax.Word{p.Repl.Orig, p.Repl.With} {
			if w != nil {
				words = append(words, w)
			}
		}
	}
	return words
}

// doubtfulQuotes reports whether the operand of an expansion contains quotes that bash and the
// parser may interpret differently: inside double quotes and here-documents bash treats some quotes
// as ordinary characters.
func (a *analysis) doubtfulQuotes(parts []syntax.WordPart) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.SglQuoted:
			if a.inDoc > 0 || strings.ContainsAny(p.Value, "$`}\"\\\n") {
				return true
			}
		case *syntax.DblQuoted:
			if a.inDoc > 0 || p.Dollar {
				return true
			}
		}
	}
	return false
}

func wordIs(x syntax.ArithmExpr, s string) bool {
	w, ok := x.(*syntax.Word)
	return ok && w.Lit() == s
}

// subscript processes a subscript. Bash evaluates it, and also the values of its variables.
func (a *analysis) subscript(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok {
		if s := w.Lit(); s != "" && !Identifier(s) && !strings.ContainsAny(s, "$`[\\") && s == strings.Trim(s, " ") {
			if Digits(s) {
				return
			}
		}
	}
	a.arithm(x)
}

// arithm processes an arithmetic expression. Bash evaluates the values of its variables as
// expressions too, and their subscripts may contain commands, so only numbers are safe. This is
// checked later, when all assignments are known.
func (a *analysis) arithm(x syntax.ArithmExpr) {
	a.depth++
	defer func() { a.depth-- }()
	if x == nil {
		return
	}
	if a.depth > 4*maxDepth {
		a.unclear(x, "nested too deep")
		return
	}
	switch x := x.(type) {
	case *syntax.Word:
		a.parts(x)
		a.entries = append(a.entries, entry{call: &syntax.CallExpr{Args: []*syntax.Word{x}}, reason: "arithmetic"})
	case *syntax.ParenArithm:
		a.arithm(x.X)
	case *syntax.UnaryArithm:
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			if x.Op == syntax.Dec {
				a.negative = true
			}
			a.arithmAssigned(x.X)
			return
		}
		if x.Op != syntax.Not {
			a.negative = true
		}
		a.arithm(x.X)
	case *syntax.BinaryArithm:
		switch x.Op {
		case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
			syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
			if x.Op == syntax.SubAssgn {
				a.negative = true
			}
			a.arithmAssigned(x.X)
		default:
			a.arithm(x.X)
		}
		if x.Op == syntax.Sub || x.Op == syntax.Shl || x.Op == syntax.Xor {
			a.negative = true
		}
		a.arithm(x.Y)
	default:
		a.unclear(x, "arithmetic that is not understood")
	}
}

// arithmAssigned records an assignment in arithmetic (name = …, name++): its value is always a
// number.
func (a *analysis) arithmAssigned(x syntax.ArithmExpr) {
	w, ok := x.(*syntax.Word)
	if !ok || !Identifier(w.Lit()) {
		a.unclear(x, "arithmetic that assigns to something else than a name")
		return
	}
	name := w.Lit()
	zero := &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: "0"}}}
	a.assigned(name, zero, false)
	a.assigned(name, zero, false) // twice, so that the variable does not count as having one known value
	a.checkName(name, name+"=…")
}

func (a *analysis) test(x syntax.TestExpr) {
	a.depth++
	defer func() { a.depth-- }()
	if a.depth > 4*maxDepth {
		a.unclear(x, "nested too deep")
		return
	}
	switch x := x.(type) {
	case *syntax.Word:
		a.parts(x)
	case *syntax.ParenTest:
		a.test(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			if w, ok := x.X.(*syntax.Word); !ok || !Identifier(w.Lit()) {
				a.unclear(x, "this test evaluates a subscript")
			}
		}
		a.test(x.X)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				w, ok := side.(*syntax.Word)
				if !ok {
					a.unclear(x, "a comparison that is not understood")
					continue
				}
				a.parts(w)
				a.entries = append(a.entries, entry{call: &syntax.CallExpr{Args: []*syntax.Word{w}}, reason: "arithmetic"})
			}
			return
		}
		a.test(x.X)
		a.test(x.Y)
	default:
		a.unclear(x, "a test that is not understood")
	}
}

func (a *analysis) redirect(r *syntax.Redirect) {
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		name := strings.Trim(r.N.Value, "{}")
		if !Identifier(name) {
			a.unclear(r, "a descriptor variable that is not a plain name")
			return
		}
		a.assigned(name, nil, false)
		a.checkName(name, r.N.Value)
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc != nil {
			a.inDoc++
			a.parts(r.Hdoc)
			a.inDoc--
			if text := a.source(r.Hdoc); strings.Contains(text, "\\\n") && !quotedWord(r.Word) {
				// In bash the joined line may be the delimiter, and the text after it a command;
				// the parser joins the lines later.
				a.unclear(r, "a line of this here-document goes on in the next")
			}
		}
		return
	case syntax.WordHdoc:
		a.parts(r.Word)
		return
	}
	a.parts(r.Word)
	a.entries = append(a.entries, entry{redir: r, loose: a.loop > 0})
}

// build analyses an entry, now that the values of variables are known.
func (a *analysis) build(i int) {
	e, s := &a.entries[i], a.script
	switch {
	case e.reason == "arithmetic":
		w := e.call.Args[0]
		if !a.arithmWord(w) {
			u := Unclear{Text: a.source(w), Reason: "bash evaluates the value of this word as an expression, commands included"}
			s.Unclear = append(s.Unclear, u)
			s.Items = append(s.Items, u)
		}
	case e.call != nil:
		if *a.count > maxCommands {
			if e.call == a.last() {
				a.add(Unclear{shorten(a.src), fmt.Sprintf("more than %d simple commands", maxCommands), true})
			}
		}
		a.command(e, i)
	case e.redir != nil:
		a.file(e)
	case e.assign != "":
		as := &Assign{Text: e.assign}
		s.Assigns = append(s.Assigns, as)
		s.Items = append(s.Items, as)
	default:
		a.add(Unclear{Text: e.text, Reason: e.reason, Limit: strings.HasPrefix(e.reason, "nested")})
	}
}

func (a *analysis) last() *syntax.CallExpr {
	for i := len(a.entries) - 1; i >= 0; i-- {
		if a.entries[i].call != nil && a.entries[i].reason == "" {
			return a.entries[i].call
		}
	}
	return nil
}

func (a *analysis) add(u Unclear) {
	a.script.Unclear = append(a.script.Unclear, u)
	a.script.Items = append(a.script.Items, u)
}

// arithmWord reports whether a word is safe where bash evaluates arithmetic: it is, or can only be,
// a number.
func (a *analysis) arithmWord(w *syntax.Word) bool {
	if a.numeric(w) {
		return true
	}
	if s := w.Lit(); s != "" {
		if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "-") {
			s = strings.TrimLeft(s, "-0x")
			return s == "" || Digits(s)
		}
		return false
	}
	parts := w.Parts
	if len(parts) == 1 {
		switch q := parts[0].(type) {
		case *syntax.DblQuoted:
			if q.Dollar {
				return false
			}
			parts = q.Parts
		case *syntax.SglQuoted:
			return !q.Dollar && Digits(q.Value)
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if !Digits(p.Value) {
				return false
			}
		case *syntax.ArithmExp:
		case *syntax.ParamExp:
			if p.Length && p.Index == nil || p.Length && (indexIsAt(p.Index) || wordIs(p.Index, "*")) {
				continue
			}
			if !p.Short || p.Param == nil || p.Index != nil {
				if p.Param == nil || p.Exp != nil || p.Excl || p.Repl != nil || p.Slice != nil || p.Index != nil {
					return false
				}
			}
			name := p.Param.Value
			if name == "?" || name == "#" || name == "$" {
				continue
			}
			v := a.vars[name]
			if v == nil || !v.number || v.unknown {
				return false
			}
		case *syntax.CmdSubst:
			if a.anyFunc || !countsOutput(p) {
				return false
			}
		default:
			return false
		}
	}
	return len(parts) > 0
}

// countsOutput reports whether a substitution can only print a number.
func countsOutput(c *syntax.CmdSubst) bool {
	if len(c.Stmts) != 1 {
		return false
	}
	st := c.Stmts[0]
	for {
		b, ok := st.Cmd.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe {
			break
		}
		st = b.Y
	}
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(st.Redirs) > 0 {
		return false
	}
	lit := func(i int) string {
		if i < len(call.Args) {
			return call.Args[i].Lit()
		}
		return ""
	}
	switch len(call.Args) {
	case 1:
		return lit(0) == "nproc"
	case 2:
		return lit(0) == "wc" && (lit(1) == "-l" || lit(1) == "-c" || lit(1) == "-w") || lit(0) == "date" && lit(1) == "+%s"
	}
	return false
}

func (a *analysis) file(e *entry) {
	s, r := a.script, e.redir
	w := a.word(r.Word)
	f := &Redirect{Text: a.source(r), Target: w, At: a.at(e), Moved: e.moved}
	v, single := w.Value()
	switch r.Op {
	case syntax.RdrIn:
	case syntax.RdrInOut:
		f.Write, f.Both = true, true
	case syntax.DplIn, syntax.DplOut:
		if single && (Digits(strings.TrimSuffix(v, "-")) || v == "-") {
			return // a descriptor, not a file
		}
		f.Write = r.Op == syntax.DplOut
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		f.Write = true
	default:
		a.add(Unclear{Text: f.Text, Reason: "a redirection that is not understood"})
		return
	}
	if v == "/dev/null" && single || single && (v == "/dev/stdout" || v == "/dev/stderr" || v == "/dev/stdin") {
		return
	}
	if single && strings.HasPrefix(v, "/dev/fd/") && Digits(v[len("/dev/fd/"):]) {
		return // judged where the descriptor was opened
	}
	s.Files = append(s.Files, f)
	s.Items = append(s.Items, f)
}

// command converts a call to a SimpleCommand and classifies it.
func (a *analysis) command(e *entry, index int) {
	words := make([]Word, len(e.call.Args))
	for i, w := range e.call.Args {
		words[i] = a.word(w)
	}
	c := &SimpleCommand{Words: words, Text: join(words), At: a.at(e), Moved: e.moved}
	if e.stdin != nil && quotedWord(e.stdin.Word) && e.stdin.Hdoc != nil {
		c.stdin, c.hasDoc = e.stdin.Hdoc.Lit(), true
	}
	isRead := words[0].Is("read") || words[0].Is("command", "builtin") && len(words) > 1 && words[1].Is("read")
	for _, as := range e.call.Assigns {
		if as.Name != nil && (harmlessVariable(as.Name.Value) && a.harmlessValue(as) || as.Name.Value == "IFS" && isRead) &&
			as.Index == nil {
			continue
		}
		x := &Assign{Text: a.source(as)}
		c.Assigns = append(c.Assigns, x)
		a.script.Assigns = append(a.script.Assigns, x)
	}
	if len(c.Assigns) < len(e.call.Assigns) {
		for _, as := range e.call.Assigns {
			c.Written = append(c.Written, a.source(as))
		}
	}
	if v, ok := words[0].Value(); ok && words[0].Literal {
		at, made := a.funcs[v]
		c.Function = made && at <= index
	}
	a.classify(c, e.loose)
	a.script.Commands = append(a.script.Commands, c)
	a.script.Items = append(a.script.Items, c)
}

// at returns how many directory changes may have happened before an entry. If the entry is in a
// loop or a function, which may be called later, this is all of them.
func (a *analysis) at(e *entry) int {
	if e.loose {
		return 1 << 30
	}
	return len(a.script.Moves)
}

// harmlessValue reports whether the value of a harmless variable is known and is not a path. A path
// would not be harmless, because translations, terminal descriptions and time zones are read from
// files.
func (a *analysis) harmlessValue(as *syntax.Assign) bool {
	if as.Value == nil {
		return as.Array == nil
	}
	w := a.word(as.Value)
	for _, v := range w.Values {
		if strings.Contains(v, "..") || strings.Contains(v, ":/") || strings.HasPrefix(v, "/") || strings.HasPrefix(v, ":") {
			return false
		}
	}
	return w.Values != nil
}

func join(words []Word) string {
	if len(words) == 1 {
		return words[0].Text
	}
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(words[i].Text)
	}
	return b.String()
}

// child makes a command line from words that a command runs as a command.
func (a *analysis) child(words []Word, at int) *CommandLine {
	c := &SimpleCommand{Words: words, Text: join(words), At: at}
	sub := &analysis{script: &CommandLine{}, depth: a.depth + 1, count: a.count}
	*sub.count++
	if sub.depth > maxDepth || *sub.count > 4*maxCommands {
		sub.add(Unclear{shorten(c.Text), "nested too deep", true})
		return sub.script
	}
	sub.script.Moves = a.script.Moves
	sub.classify(c, false)
	if len(sub.script.Moves) > len(a.script.Moves) { // such as "builtin cd"
		a.script.Moves = sub.script.Moves
	}
	sub.script.Commands = []*SimpleCommand{c}
	sub.script.Items = append(sub.script.Items, c)
	return sub.script
}

// code parses text that a command runs as shell code. Directory changes in it also apply to the
// rest of the outer command line.
func (a *analysis) code(text string) *CommandLine {
	var s *CommandLine
	if a.depth+1 > maxDepth {
		s = &CommandLine{}
		u := Unclear{shorten(text), "nested too deep", true}
		s.Unclear, s.Items = []Unclear{u}, []any{u}
		return s
	}
	s, err := parse("", text, a.depth+1, a.count)
	if err != nil {
		u := Unclear{shorten(text), err.Error(), true}
		return &CommandLine{Unclear: []Unclear{u}, Items: []any{u}}
	}
	if len(a.script.Moves) > 0 {
		s.Moves = append(append([]Chdir{}, a.script.Moves...), s.Moves...)
		s.Loose = true
	}
	if len(s.Moves) > len(a.script.Moves) {
		a.script.Moves = append(a.script.Moves, Chdir{Any: true})
	}
	return s
}
