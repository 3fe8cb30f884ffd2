package knack

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxValue limits an argument passed to a command, in bytes. The kernel's own limit for
// one argument is not much higher.
const maxValue = 100 << 10

// A shellLine is an inline command that is ready to run: its placeholders are replaced
// by references to variables in env.
type shellLine struct {
	line string
	env  []string // KNACK_ARG_0=…
}

// prepare makes a command safe to run with untrusted values for its placeholders. The
// values never become part of the text that a shell reads: the command is parsed as its
// author wrote it, and each placeholder becomes a quoted reference to a variable. A
// value therefore stays one word whatever it contains. Placeholders where a shell or
// another program would read the value as code are refused; problem says why. used
// reports whether a placeholder referred to arguments.
//
// Directories come from Knack and are trusted; they are inserted as quoted words, so
// that permission rules can match them.
func (sc scanner) prepare(cmd string, v *values, powershell bool) (out shellLine, used bool, problem string,
	err error) {
	p := preparer{values: v, dialect: sc.dialect, cmd: cmd, placeholders: sc.placeholdersIn(cmd)}
	if len(p.placeholders) == 0 {
		return shellLine{line: cmd}, false, "", nil
	}
	if powershell {
		return out, false, "", fmt.Errorf("%s in a PowerShell command: it cannot be kept from being read as code",
			p.placeholders[0].raw)
	}
	file, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(cmd), "")
	if err != nil {
		return out, false, "", fmt.Errorf("it cannot be parsed: %v", err)
	}
	p.walk(file)
	return p.replace()
}

// placeholdersIn returns the placeholders in a command, in order.
func (sc scanner) placeholdersIn(cmd string) (found []*inlinePlaceholder) {
	for i := 0; i < len(cmd); i++ {
		switch cmd[i] {
		case '\\':
			i++
		case '$', '{':
			if t, ok := sc.placeholder(cmd[i:]); ok {
				found = append(found, &inlinePlaceholder{token: t, at: i})
				i += len(t.raw) - 1
			}
		}
	}
	return found
}

// An inlinePlaceholder is a placeholder in a command.
type inlinePlaceholder struct {
	token
	at     int
	seen   bool   // its position in the syntax is known
	asIs   bool   // in a comment or single quotes: left as written
	single bool   // inside single quotes
	quoted bool   // inside double quotes or a here-document
	here   bool   // in a here-document
	list   bool   // $ARGUMENTS may expand to several words here
	dash   bool   // the value starts a word that a program may take for an option
	reason string // why it is refused here; "" if it is not
}

// compareAt compares the placeholder's position with another one, for a binary search.
func (s *inlinePlaceholder) compareAt(at int) int { return s.at - at }

type preparer struct {
	*values
	dialect      dialect
	cmd          string
	placeholders []*inlinePlaceholder
	stack        []syntax.Node
}

// within calls f for every placeholder in a range of the command.
func (p *preparer) within(from, to syntax.Pos, f func(*inlinePlaceholder)) {
	i, _ := slices.BinarySearchFunc(p.placeholders, int(from.Offset()), (*inlinePlaceholder).compareAt)
	for ; i < len(p.placeholders) && p.placeholders[i].at < int(to.Offset()); i++ {
		f(p.placeholders[i])
	}
}

// refuse marks the placeholders in a part of the command as refused. If directories is
// false, placeholders of directories are left out: their values come from Knack, so they
// are safe in command position.
func (p *preparer) refuse(n syntax.Node, directories bool, reason string) {
	p.within(n.Pos(), n.End(), func(s *inlinePlaceholder) {
		if s.reason == "" && (directories || !s.directory()) {
			s.reason = reason
		}
	})
}

func (s *inlinePlaceholder) directory() bool { return s.kind == variable && isDirectory(s.text) }

// walk determines the syntactic position of each placeholder.
func (p *preparer) walk(file *syntax.File) {
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			p.stack = p.stack[:len(p.stack)-1]
			return true
		}
		if !p.visit(n) {
			return false
		}
		p.stack = append(p.stack, n)
		return true
	})
}

func (p *preparer) visit(n syntax.Node) (deeper bool) {
	switch n := n.(type) {
	case *syntax.Comment:
		p.within(n.Pos(), n.End(), func(s *inlinePlaceholder) { s.seen, s.asIs = true, true })
		return false
	case *syntax.SglQuoted:
		p.within(n.Pos(), n.End(), func(s *inlinePlaceholder) { s.seen, s.asIs, s.single = true, true, true })
		return false
	case *syntax.ParamExp:
		if s := p.at(n.Pos()); s != nil && (n.Short || len(s.raw) == int(n.End().Offset()-n.Pos().Offset())) {
			p.quoting(s)
			return false
		}
		p.refuse(n, true, "it is inside ${…}")
	case *syntax.Lit:
		p.within(n.Pos(), n.End(), func(s *inlinePlaceholder) {
			if s.raw[0] == '{' {
				p.quoting(s)
			}
		})
	case *syntax.CmdSubst:
		if n.Backquotes {
			p.refuse(n, true, "it is inside `…`; write $(…)")
		}
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		p.refuse(n, true, "it is in arithmetic, where a value can run commands")
	case *syntax.Assign:
		if n.Index != nil {
			p.refuse(n.Index, true, inSubscript)
		}
		if n.Name != nil && n.Value != nil && listed(codeVariables, n.Name.Value) {
			p.refuse(n.Value, true, "the shell reads "+n.Name.Value+" as code, or as the name of a program or file")
		}
	case *syntax.ArrayElem:
		if n.Index != nil {
			p.refuse(n.Index, true, inSubscript)
		}
	case *syntax.DeclClause:
		p.refuse(n, true, n.Variant.Value+" reads a value as a name with a subscript")
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			p.refuse(n, true, "[[ … "+n.Op.String()+" … ]] is arithmetic, where a value can run commands; use [ … ]")
		}
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			p.refuse(n, true, inSubscript)
		}
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			if call, ok := n.Y.Cmd.(*syntax.CallExpr); !ok || readsCode(words(call.Args)) {
				if !ok && !hasCodeReader(n.Y) {
					break
				}
				p.refuse(n.X, true, readAsCode)
			}
		}
	case *syntax.Stmt:
		for _, r := range n.Redirs {
			p.redirect(n, r)
		}
	case *syntax.CallExpr:
		p.call(n)
	}
	return true
}

// at returns the placeholder that begins at a position, or nil.
func (p *preparer) at(pos syntax.Pos) *inlinePlaceholder {
	i, ok := slices.BinarySearchFunc(p.placeholders, int(pos.Offset()), (*inlinePlaceholder).compareAt)
	if !ok {
		return nil
	}
	return p.placeholders[i]
}

// quoting records how a placeholder is quoted, and whether it may become several words.
func (p *preparer) quoting(s *inlinePlaceholder) {
	s.seen = true
	for i := len(p.stack) - 1; i >= 0; i-- {
		switch n := p.stack[i].(type) {
		case *syntax.DblQuoted:
			s.quoted = true
			return
		case *syntax.Word:
			if i == 0 {
				return
			}
			switch parent := p.stack[i-1].(type) {
			case *syntax.CallExpr, *syntax.WordIter, *syntax.ArrayElem:
				s.list = true
			case *syntax.Redirect:
				s.here = parent.Hdoc == n
				s.quoted = s.here
			}
			return
		case *syntax.ExtGlob:
			s.reason = "it is in a pattern"
		}
	}
}

// redirect refuses placeholders in a here-document whose text is code, or whose quoted
// delimiter disables replacement.
func (p *preparer) redirect(stmt *syntax.Stmt, r *syntax.Redirect) {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc == nil {
			return
		}
		for _, part := range r.Word.Parts {
			if lit, ok := part.(*syntax.Lit); !ok || strings.Contains(lit.Value, `\`) {
				p.refuse(r.Hdoc, true, "the here-document is quoted: nothing in it is replaced")
			}
		}
		if hasCodeReader(stmt) {
			p.refuse(r.Hdoc, true, "a shell or interpreter reads the here-document as code")
		}
	case syntax.WordHdoc, syntax.RdrIn:
		if hasCodeReader(stmt) {
			p.refuse(r.Word, true, "a shell or interpreter reads it as code")
		}
	}
}

// call checks the words of a simple command.
func (p *preparer) call(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		return
	}
	for i, reason := range dangers(words(c.Args)) {
		if i >= len(c.Args) {
			continue
		}
		// In command position, a trusted directory may begin a program's path.
		p.refuse(c.Args[i], reason != commandPosition, reason)
	}
	dashes := false
	for _, w := range c.Args[1:] {
		if w.Lit() == "--" {
			dashes = true
		}
		if !dashes {
			p.leading(w)
		}
	}
}

// leading marks the placeholders whose value can provide the first character of a word.
func (p *preparer) leading(w *syntax.Word) {
	from := w.Pos().Offset()
	for from < w.End().Offset() && (p.cmd[from] == '"') {
		from++
	}
	for {
		s := p.at(syntax.NewPos(from, 1, 1))
		if s == nil {
			return
		}
		s.dash = true
		if text, ok := p.of(s.token, p.dialect); ok && text != "" {
			return
		}
		from += uint(len(s.raw))
		for from < w.End().Offset() && p.cmd[from] == '"' {
			from++
		}
	}
}

// replace returns the command with variable references in place of placeholders.
func (p *preparer) replace() (out shellLine, used bool, problem string, err error) {
	var b strings.Builder
	env := map[string]string{}
	begin := 0
	for _, s := range p.placeholders {
		if s.single && s.kind == all && problem == "" {
			problem = s.raw + " in single quotes is not replaced"
		}
		if s.asIs {
			continue
		}
		text, ok := p.of(s.token, p.dialect)
		if !ok {
			continue // it has no value and is left as written
		}
		switch {
		case s.reason != "":
			return out, false, "", fmt.Errorf("%s is refused there: %s", s.raw, s.reason)
		case !s.seen:
			return out, false, "", fmt.Errorf("%s is refused there: its position is not understood", s.raw)
		case len(text) > maxValue:
			return out, false, "", fmt.Errorf("%s is refused: its value is larger than %d KiB", s.raw, maxValue>>10)
		}
		used = used || p.uses(s.token)
		b.WriteString(p.cmd[begin:s.at])
		begin = s.at + len(s.raw)
		if s.directory() {
			word, err := syntax.Quote(text, syntax.LangBash)
			if err != nil {
				return out, false, "", fmt.Errorf("%s is refused: %v", s.raw, err)
			}
			if s.quoted {
				word = inDoubleQuotes(text, s.here)
			}
			b.WriteString(word)
			continue
		}
		values := []string{text}
		if s.kind == all && s.list && !s.quoted {
			values = p.words
		}
		for i, value := range values {
			if s.dash && strings.HasPrefix(value, "-") {
				return out, false, "", fmt.Errorf("%s is refused: its value %.40q begins with - and could be taken for an "+
					"option; put -- before it", s.raw, value)
			}
			name := "KNACK_ARG_" + strconv.Itoa(s.index)
			switch {
			case s.kind == all && len(values) == 1 && (s.quoted || !s.list):
				name = "KNACK_VAR_ARGUMENTS"
			case s.kind == all:
				name = "KNACK_ARG_" + strconv.Itoa(i)
			case s.kind == variable:
				name = "KNACK_VAR_" + s.text
			}
			env[name] = value
			if i > 0 {
				b.WriteByte(' ')
			}
			if s.quoted {
				b.WriteString("${" + name + "}")
			} else {
				b.WriteString(`"${` + name + `}"`)
			}
		}
	}
	b.WriteString(p.cmd[begin:])
	out.line = b.String()
	// If the result does not parse, the command was misunderstood, for example because a
	// placeholder seemed to close a here-document.
	if _, err := syntax.NewParser().Parse(strings.NewReader(out.line), ""); err != nil {
		return shellLine{}, false, "", fmt.Errorf("a value cannot be put into it: %v", err)
	}
	for name, value := range env {
		out.env = append(out.env, name+"="+value)
	}
	slices.Sort(out.env)
	return out, used, problem, nil
}

// inDoubleQuotes escapes a text so that it is literal inside double quotes, or, if here
// is set, in a here-document, where a quote is an ordinary character.
func inDoubleQuotes(s string, here bool) string {
	s = strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`").Replace(s)
	if here {
		return s
	}
	return strings.ReplaceAll(s, `"`, `\"`)
}

// codeVariables are the variables that a shell or an interpreter uses as code, as a place to find
// code, or to split words.
const codeVariables = "PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS0 PS1 PS2 PS4 PROMPT_COMMAND " +
	"EDITOR VISUAL PAGER SHELL " +
	"BROWSER PYTHONPATH PYTHONSTARTUP PYTHONHOME NODE_OPTIONS NODE_PATH PERL5LIB PERL5OPT RUBYLIB RUBYOPT " +
	"LD_* DYLD_* GIT_* BASH_FUNC_*"

// words returns the words of a command as texts. A part that is not plain text becomes a
// zero byte.
func words(args []*syntax.Word) []string {
	out := make([]string, len(args))
	for i, w := range args {
		out[i] = literal(w.Parts)
	}
	return out
}

const notPlain = "\x00"

func literal(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			b.WriteString(literal(part.Parts))
		default:
			return notPlain
		}
	}
	return b.String()
}

// A program describes how a program interprets its words. Lists are separated by spaces.
type program struct {
	names     string // with a final "*": all names with this beginning
	kind      programKind
	valued    string // options whose value is the next word
	code      string // options whose value, the next word, is code
	commands  string // options before the words of a command
	subscript string // options before the name of a variable, whose subscript the shell evaluates
	second    bool   // its second operand is code too
	dataInput bool   // its standard input is data, although its words are code
	wordInput bool   // its standard input is further words of its command
}

type programKind uint8

const (
	ordinary    programKind = iota // its words are data, except for the options in its row
	wrapper                        // runs the command that follows
	interpreter                    // runs the file that is its first operand
	filter                         // its first operand is code, unless an option gave it
	evaluator                      // reads all its words as code
)

// programs lists the programs for which a word may be code. For all others, words are data.
var programs = [...]program{
	{names: "find", commands: "-exec -execdir -ok -okdir"},
	{names: "git", code: "-c --config-env"},
	{names: "printf test [", subscript: "-v"},

	{names: "sudo doas", kind: wrapper, valued: "-u -g -p -C -h -U -r -t -D -R -T --user --group"},
	{names: "env", kind: wrapper, valued: "-u -C --unset --chdir", code: "-S --split-string"},
	{names: "xargs", kind: wrapper, valued: "-I -n -P -L -s -d -E -a", wordInput: true},
	{names: "timeout nice ionice stdbuf time chroot taskset flock setpriv unshare chrt runuser strace", kind: wrapper,
		valued: "-s -k -n -c -p -i -o -e -f -u -E"},
	{names: "command builtin exec nohup setsid npx uvx bunx pnpx busybox coproc doppler direnv", kind: wrapper,
		valued: "-a -p --package -C", code: "-c --call"},

	{names: "sh bash zsh dash ksh ash fish csh tcsh mksh", kind: interpreter, valued: "-o -O --rcfile --init-file",
		code: "-c"},
	{names: "python* pypy*", kind: interpreter, valued: "-W -X", code: "-c -m"},
	{names: "node nodejs ts-node tsx", kind: interpreter,
		code: "-e --eval -p --print -pe -r --require --import --loader eval"},
	{names: "bun deno", kind: interpreter, second: true,
		code: "-e --eval -p --print -pe -r --require --import --loader eval"},
	{names: "perl ruby lua luajit php Rscript R julia osascript tclsh groovy scala elixir ghci swift irb",
		kind: interpreter, code: "-e -E -r -M -I -n -le -ne -pe -ane -lne -f"},
	{names: "pwsh powershell cmd", kind: interpreter, code: "-c -Command -command -EncodedCommand -File -e /c /k"},
	{names: "bc dc m4 ed ex vi vim nvim emacs gdb", kind: interpreter, valued: "-h -U -u -p -d -P",
		code: "-c -e -ex --command --execute -cmd --eval -S -s"},
	{names: "sqlite3 sqlite mysql psql duckdb mongosh redis-cli", kind: interpreter, second: true,
		valued: "-h -U -u -p -d -P", code: "-c -e -ex --command --execute -cmd --eval -S -s"},

	{names: "awk gawk mawk nawk", kind: filter, valued: "-F -v --assign --field-separator",
		code: "-f -e --source --file"},
	{names: "sed gsed", kind: filter, valued: "-l", code: "-e -f --expression --file"},
	{names: "jq yq gojq", kind: filter, valued: "--indent -L", code: "-f --from-file"},

	{names: "eval source . trap let alias unset getopts ssh su watch parallel at batch script expect crontab hash " +
		"enable bind complete compgen", kind: evaluator},
	{names: "read mapfile readarray", kind: evaluator, dataInput: true},
}

// programOf returns the description of a program, which may be given by its path.
func programOf(name string) program {
	name = strings.TrimSuffix(path.Base(strings.ReplaceAll(name, `\`, "/")), ".exe")
	for _, p := range programs {
		if listed(p.names, name) {
			return p
		}
	}
	return program{}
}

// listed reports whether a list contains a word, or its beginning followed by "*".
func listed(list, word string) bool {
	for entry := range strings.FieldsSeq(list) {
		prefix, open := strings.CutSuffix(entry, "*")
		if word == entry || open && strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// dangers returns, by index, why words of a simple command are dangerous: a program runs
// them or reads them as code. In doubt, a word counts as dangerous.
func dangers(args []string) map[int]string {
	found := map[int]string{}
	addDangers(args, 0, found)
	return found
}

const (
	commandPosition = "it decides which program runs"
	readAsCode      = "a program would read the value as code"
	inSubscript     = "it is in a subscript, where a value can run commands"
)

// addDangers adds the dangers of args[at:], whose first word is a command, to found.
func addDangers(args []string, at int, found map[int]string) {
	if at >= len(args) {
		return
	}
	if args[at] == "--" { // in "time -- ls" the shell skips "--"
		addDangers(args, at+1, found)
		return
	}
	if _, ok := found[at]; !ok {
		found[at] = commandPosition
	}
	switch p := programOf(args[at]); p.kind {
	case evaluator:
		for i := at + 1; i < len(args); i++ {
			found[i] = readAsCode
		}
	case ordinary:
		for i := at + 1; i < len(args); i++ {
			switch {
			case listed(p.commands, args[i]):
				addDangers(args, i+1, found)
			case listed(p.subscript, args[i]):
				found[i+1] = inSubscript
			case listed(p.code, args[i]):
				found[i+1] = readAsCode
			}
		}
	default:
		p.dangers(args, at, found)
	}
}

// dangers adds those of a wrapper, an interpreter or a filter, whose name is args[at].
func (p *program) dangers(args []string, at int, found map[int]string) {
	given := false // an option has provided the code
	for i := at + 1; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			continue
		case len(a) > 1 && a[0] == '-' || a != "" && listed(p.code, a):
			isCode := listed(p.code, a)
			// Shells and perl accept combined options: -lc, -ne.
			if !isCode && p.kind == interpreter && len(a) > 2 && a[1] != '-' {
				last := a[len(a)-1]
				isCode = last == 'c' || last == 'e' || last == 'E'
			}
			switch {
			case isCode:
				given = true
				found[i] = readAsCode // -e'…' in one word
				found[i+1] = readAsCode
				i++
			case listed(p.valued, a):
				i++
			case p.kind != wrapper:
				found[i] = readAsCode
			}
			continue
		case p.kind == wrapper && strings.Contains(a, "="):
			continue
		case p.kind == wrapper && a != "" && '0' <= a[0] && a[0] <= '9': // timeout 5
			continue
		}
		if p.kind == wrapper {
			addDangers(args, i, found)
			return
		}
		if !given {
			found[i] = readAsCode
			if p.kind == interpreter {
				found[i] = commandPosition
			}
			if p.second {
				found[i+1] = readAsCode
			}
		}
		return
	}
}

// readsCode reports whether a command interprets its standard input as code or as
// further words of a command.
func readsCode(args []string) bool {
	for at := 0; at < len(args); at++ {
		if args[at] == "--" {
			continue
		}
		p := programOf(args[at])
		switch p.kind {
		case evaluator:
			return !p.dataInput
		case interpreter:
			for _, a := range args[at+1:] {
				if a != "-" && a != "-s" && a != "" && (a[0] != '-' || listed(p.code, a)) {
					return false // its code comes from elsewhere
				}
			}
			return true
		case wrapper:
			if p.wordInput {
				return true
			}
			continue
		}
		if at == 0 {
			return false
		}
	}
	return false
}

// hasCodeReader reports whether any command of a statement interprets its standard input
// as code.
func hasCodeReader(s *syntax.Stmt) bool {
	found := false
	syntax.Walk(s, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && readsCode(words(call.Args)) {
			found = true
		}
		return !found
	})
	return found
}
