package bash

import (
	"path"
	"strings"
)

// ReasonExpansion begins the reason why a command with a word that only the shell can expand does not merely read.
const ReasonExpansion = "an expansion: "

// ReasonScript is the reason why a program that is named with a path does not merely read.
const ReasonScript = "a program that is named with its path may change anything it can reach"

// ReasonInput is the reason why a shell without a script is not understood.
const ReasonInput = "it runs what it reads"

// classify determines the effect of a command: it reads, wraps or runs other commands, writes
// files, or is a program about which nothing is known.
func (a *analysis) classify(c *SimpleCommand, loose bool) {
	name, ok := c.Words[0].Value()
	if !ok {
		c.Opaque = "the command's name is not known before it runs"
		return
	}
	base := path.Base(name)
	if base != name || !c.Words[0].Literal {
		c.Reason = ReasonScript
	}
	switch base {
	case "git":
		a.git(c)
	case "cd", "pushd", "popd", "chdir":
		a.changeDir(c, base, loose)
	default:
		if !reports(c, base) && !a.runs(c, base) {
			readOnly(c, base)
			writes(c, base)
		}
		otherCode(c, 0, false)
	}
	if c.Effect == Reads && (c.Reason != "" || c.Opaque != "") {
		c.Effect = Runs
	}
	if c.Effect == Reads && !c.shaped {
		for i := range c.Words {
			w := &c.Words[i]
			if w.Ref && c.Git {
				continue
			}
			if w.Values == nil && !(w.supplied && c.printsOnly) {
				c.Effect, c.Reason = Runs, ReasonExpansion+shorten(w.Text)
				break
			}
			if w.Glob && w.Dash && !(c.safeOptions && extension(w)) && !AfterDashes(c.Words, i) {
				c.Effect, c.Reason = Runs, "a glob may yield an option: "+shorten(w.Text)
				break
			}
			if w.Dash && w.Dynamic && !(w.supplied && c.printsOnly) && !AfterDashes(c.Words, i) {
				c.Effect, c.Reason = Runs, "an expansion may yield an option: "+shorten(w.Text)
				break
			}
		}
	}
}

// extension reports whether a glob matches only names with an extension, such as *.go. These cannot
// be mistaken for an option of one letter, because such options contain no dot.
func extension(w *Word) bool {
	for _, v := range w.Values {
		dot := strings.LastIndexByte(v, '.')
		if dot < 1 || dot == len(v)-1 || strings.ContainsAny(v[dot:], "*?[]()/") {
			return false
		}
	}
	return true
}

// AfterDashes reports whether words[i] comes after a word "--", so that it cannot be an option.
func AfterDashes(words []Word, i int) bool {
	for j := 1; j < i; j++ {
		if words[j].Is("--") {
			return true
		}
	}
	return false
}

func (a *analysis) changeDir(c *SimpleCommand, base string, loose bool) {
	var target *Word
	for i := 1; i < len(c.Words); i++ {
		w := &c.Words[i]
		if w.Is("-L", "-P", "-e", "-@", "--") {
			continue
		}
		target = w
		break
	}
	if base == "popd" && len(c.Words) == 1 && !loose {
		c.Effect = Reads // it leads to a directory in which the line already was
		return
	}
	to := Chdir{Word: target, Loose: loose}
	if base == "popd" || target == nil || target.Is("-") || target.Values == nil || target.Glob ||
		strings.HasPrefix(target.Prefix, "-") || a.vars["CDPATH"] != nil {
		to.Any = true
	}
	if base == "cd" && target != nil && target.Values == nil {
		to.Made = target.Made
	}
	if target != nil {
		for _, v := range target.Values {
			if strings.HasPrefix(v, "-") || strings.HasPrefix(v, "+") || strings.HasPrefix(v, "~+") ||
				strings.HasPrefix(v, "~-") {
				to.Any = true
			}
		}
	}
	a.script.Moves = append(a.script.Moves, to)
	if loose {
		a.script.Loose = true
	}
	if (base == "cd" || base == "pushd" && len(c.Words) == 2) && !to.Any {
		c.Effect = Reads
		c.Files = append(c.Files, File{Word: target})
	} else if base == "cd" && target == nil {
		c.Reason = "the home directory lies outside"
	}
}

// plainJoin joins words with spaces, as eval does; false if a value is unknown.
func plainJoin(words []Word) (string, bool) {
	var b strings.Builder
	for i := range words {
		v, ok := words[i].Value()
		if !ok {
			return "", false
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(v)
	}
	return b.String(), true
}

func (a *analysis) env(c *SimpleCommand) {
	i := 1
	c.Effect = Wraps
	for ; i < len(c.Words); i++ {
		w := &c.Words[i]
		v, ok := w.Value()
		if !ok {
			if eq := strings.IndexByte(w.Prefix, '='); eq > 0 && !w.Many {
				if !harmlessVariable(w.Prefix[:eq]) {
					c.Assigns = append(c.Assigns, &Assign{Text: w.Text, InWords: true})
				}
				continue
			}
			c.Opaque = "its options are not known before it runs"
			return
		}
		switch {
		case v == "-i" || v == "-" || v == "-0" || v == "--ignore-environment" || v == "--null":
		case v == "-u" || v == "--unset":
			i++
		case strings.HasPrefix(v, "--unset="):
		case v == "--":
		case strings.HasPrefix(v, "-"):
			c.Opaque = reasonOptions
			return
		case strings.IndexByte(v, '=') > 0:
			if !harmlessVariable(v[:strings.IndexByte(v, '=')]) {
				c.Assigns = append(c.Assigns, &Assign{Text: w.Text, InWords: true})
			}
		default:
			c.Inner = append(c.Inner, Inner{a.child(c.Words[i:], c.At), i})
			return
		}
	}
	c.Effect = Runs // without a command, env prints the environment
}

// xargs finds the command to which xargs adds words.
func (a *analysis) xargs(c *SimpleCommand) {
	for i := range c.Words {
		if v, ok := c.Words[i].Value(); ok && (strings.HasPrefix(v, "-a") || strings.HasPrefix(v, "--arg-file")) {
			c.Opaque = "its words come from a file"
			return
		}
		if len(c.Words[i].Values) == 1 && !strings.HasPrefix(c.Words[i].Values[0], "-") && i > 0 {
			break
		}
	}
	i := skipOptions(c.Words, 1, "0rtx", "nLPIdEs", "--null --no-run-if-empty --max-args= --max-lines= --max-procs= "+
		"--delimiter= --verbose --replace= --exit")
	if i < 0 {
		c.Opaque = reasonOptions
		return
	}
	replace := ""
	for k := 1; k < i; k++ {
		v, _ := c.Words[k].Value()
		switch {
		case v == "-I" || v == "--replace":
			if k+1 < i {
				replace, _ = c.Words[k+1].Value()
			}
		case strings.HasPrefix(v, "-I"):
			replace = v[2:]
		case strings.HasPrefix(v, "--replace="):
			replace = v[len("--replace="):]
		case strings.Contains(v, "I") && !strings.HasPrefix(v, "--"):
			c.Opaque = reasonOptions
			return
		}
	}
	words := append([]Word{}, c.Words[i:]...)
	if len(words) == 0 {
		words = []Word{Known("echo")}
	}
	if replace == "" {
		words = append(words, unknown("…", true))
		words[len(words)-1].supplied = i < len(c.Words) // without a command, xargs runs echo, which the user did not name
	} else {
		for k := range words {
			if v, ok := words[k].Value(); !ok || strings.Contains(v, replace) {
				at := strings.Index(v, replace)
				w := unknown(words[k].Text, at <= 0 || strings.HasPrefix(v, "-"))
				if w.original = v; at > 0 {
					w.Prefix = v[:at]
				}
				words[k] = w
			}
		}
	}
	c.Effect = Wraps
	name := i
	if i >= len(c.Words) {
		name = -1
	}
	c.Inner = append(c.Inner, Inner{a.child(words, c.At), name})
}

const (
	posixShells = "sh bash dash ash ksh mksh rbash" // their code is parsed
	otherShells = "zsh fish csh tcsh yash oksh loksh posh pwsh powershell nu elvish xonsh"
)

func (a *analysis) shell(c *SimpleCommand) {
	name, _ := c.Words[0].Value()
	base := path.Base(name)
	parsed := listed(posixShells, base)
	i := 1
	isCode := false
	for ; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if !ok {
			if c.Words[i].Dash {
				c.Opaque = "its options are not known before it runs"
				return
			}
			break
		}
		if v == "--" {
			i++
			break
		}
		if v == "--norc" || v == "--noprofile" || v == "--posix" || v == "--login" {
			continue
		}
		if len(v) < 2 || v[0] != '-' && v[0] != '+' {
			break
		}
		if strings.Trim(v[1:], "abcefhlmnprtuvxBCEHPT") != "" || v[0] == '+' && strings.Contains(v, "c") {
			c.Opaque = reasonOptions
			return
		}
		if strings.Contains(v, "c") {
			isCode = true
		}
	}
	switch {
	case i >= len(c.Words):
		if c.hasDoc && parsed && !isCode {
			c.Inner = append(c.Inner, Inner{a.code(c.stdin), -1})
			return
		}
		if len(c.Words) == 2 && c.Words[1].Is("--version") {
			return
		}
		c.Opaque = ReasonInput
	case isCode:
		text, ok := c.Words[i].Value()
		if !ok || !parsed {
			c.Opaque = "what it runs is not known before it runs"
			if h := c.Words[i].original; h != "" {
				c.Inner = append(c.Inner, Inner{a.code(h), -1}) // only so that deny rules can match
			}
			return
		}
		c.Inner = append(c.Inner, Inner{a.code(text), -1})
	case c.Words[i].Is("-"):
		c.Opaque = ReasonInput
	default:
		c.Inner = append(c.Inner, Inner{a.child(c.Words[i:], c.At), i})
		v, ok := c.Words[i].Value()
		c.RunsScript, c.Absolute = ok && strings.Contains(v, "/"), ok && IsAbs(v)
	}
}

// Expressions of find, by what follows them.
const (
	findCommands = "-exec -execdir -ok -okdir"
	findWrites   = "-fprint -fprint0 -fls -fprintf"   // a file that it writes
	findReads    = "-newer -anewer -cnewer -samefile" // a file that it reads
	findValued   = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size " +
		"-perm -user -group -uid -gid -mtime -atime -ctime -mmin -amin -cmin -maxdepth -mindepth -links -inum -printf " +
		"-regextype -fstype -used -context"
	findAll = "-delete -depth -type -mindepth -maxdepth -print -print0 -xdev -mount"
)

func (a *analysis) find(c *SimpleCommand) {
	c.Effect = Reads
	paths, follow, deletes, all := true, false, false, true // all: it chooses nothing by name, time or content
	start, starts := "", 0
	for i := 1; i < len(c.Words); i++ {
		w := &c.Words[i]
		v, ok := w.Value()
		if !ok {
			all = all && paths
			if w.Values != nil && paths {
				c.Files = append(c.Files, File{Word: w})
				starts++
			} else if w.Values == nil {
				c.danger(i, "it may be an expression of find")
			}
			continue
		}
		if paths && !strings.HasPrefix(v, "-") && v != "(" && v != "!" {
			c.Files = append(c.Files, File{Word: w})
			start, starts = v, starts+1
			continue
		}
		follow = follow || paths && v == "-L" || v == "-follow"
		if paths && (v == "-H" || v == "-L" || v == "-P" || strings.HasPrefix(v, "-O")) {
			continue
		}
		paths, deletes = false, deletes || v == "-delete"
		all = all && listed(findAll, v)
		switch {
		case listed(findCommands, v):
			end := a.findCommand(c, i, strings.HasPrefix(start, "-"))
			if end < 0 {
				c.Opaque = "the command inside cannot be found"
				return
			}
			i = end
		case v == "-delete":
			c.danger(i, "-delete removes files")
		case listed(findWrites, v):
			c.danger(i, v+" writes a file")
			if i+1 < len(c.Words) {
				c.Files = append(c.Files, File{Word: &c.Words[i+1], Write: true})
			}
		case listed(findReads, v):
			if i+1 < len(c.Words) {
				c.Files = append(c.Files, File{Word: &c.Words[i+1]})
				i++
			}
		case v == "-files0-from":
			c.danger(i, "its starting points come from a file")
		default:
			if !strings.HasPrefix(v, "-") && v != "(" && v != ")" && v != "!" && v != "," || v == "-f" || v == "-D" {
				c.danger(i, "it is in the place of find's expression")
			}
			if listed(findValued, v) || strings.HasPrefix(v, "-newer") && len(v) == 8 { // -newerXY
				i++
				if i < len(c.Words) && c.Words[i].Values == nil && c.Words[i].Many {
					c.danger(i, "it may be split into expressions of find")
				}
			}
		}
	}
	if starts == 0 {
		c.Files, starts = append([]File{{Text: "."}}, c.Files...), 1
	}
	for i := range c.Files[:starts] {
		c.Files[i].Write, c.Files[i].Tree = deletes, deletes && all
	}
	if follow {
		c.readsBelow(false, true)
	}
	if len(c.Danger) > 0 {
		c.Effect, c.Reason = Runs, c.Danger[0].Reason
	}
}

// findCommand records the command after the expression -exec or similar in word i, and returns the index of the word
// that ends it, or -1 if it cannot be found. option means that the names of the files may begin with a dash.
func (a *analysis) findCommand(c *SimpleCommand, i int, option bool) int {
	end := i + 1
	for end < len(c.Words) && !c.Words[end].Is(";") && !(c.Words[end].Is("+") && c.Words[end-1].Is("{}")) {
		end++
	}
	if end == i+1 || end >= len(c.Words) {
		return -1
	}
	words := append([]Word{}, c.Words[i+1:end]...)
	for k := range words {
		if t, ok := words[k].Value(); !ok || strings.Contains(t, "{}") {
			w := unknown(words[k].Text, !ok && words[k].Dash || strings.HasPrefix(t, "-") || k == 0 || option)
			w.Prefix, w.original = t[:max(strings.Index(t, "{}"), 0)], t
			words[k] = w
		}
	}
	sub := a.child(words, c.At)
	if c.Words[i].Is("-execdir", "-okdir") {
		sub.Moves = append(append([]Chdir{}, sub.Moves...), Chdir{Any: true})
		sub.Loose = true
	}
	c.Inner = append(c.Inner, Inner{sub, i + 1})
	return end
}

func (a *analysis) fd(c *SimpleCommand) {
	c.Effect = Reads
	c.Files = append(c.Files, File{Text: "."})
	pattern, follow := false, false
	defer func() {
		if follow {
			c.readsBelow(false, true)
		}
	}()
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if ok && (len(v) < 2 || v[0] != '-') {
			if pattern {
				c.Files = append(c.Files, File{Word: &c.Words[i]})
			}
			pattern = true
		}
		if !ok || len(v) < 2 || v[0] != '-' {
			continue
		}
		if strings.HasPrefix(v, "--search-path") || strings.HasPrefix(v, "--base-directory") ||
			strings.HasPrefix(v, "--ignore-file") || strings.HasPrefix(v, "-C") {
			c.danger(i, v+" looks elsewhere")
			c.Effect, c.Reason = Runs, v+" looks elsewhere"
		}
		if v[1] != '-' && strings.Contains(v, "L") || len(v) > 3 && strings.HasPrefix("--follow", v) {
			follow = true
		}
		short := v[1] != '-' && strings.ContainsAny(v, "xXl")
		if !short && !strings.HasPrefix(v, "--ex") && !strings.HasPrefix(v, "--li") {
			continue
		}
		if v != "-x" && v != "-X" && v != "--exec" && v != "--exec-batch" || i+1 >= len(c.Words) {
			if strings.HasPrefix("--exclude", v) || strings.HasPrefix(v, "--exclude") || strings.HasPrefix(v, "--extension") {
				continue
			}
			c.Effect, c.Opaque = Runs, "the command inside cannot be found"
			return
		}
		words := append([]Word{}, c.Words[i+1:]...)
		placeholder := false
		for k := range words {
			if t, ok := words[k].Value(); ok && strings.Contains(t, "{") {
				words[k], placeholder = unknown(words[k].Text, strings.HasPrefix(t, "-") || strings.HasPrefix(t, "{")), true
			}
		}
		if !placeholder {
			words = append(words, unknown("{}", true))
		}
		c.Inner = append(c.Inner, Inner{a.child(words, c.At), i + 1})
		return
	}
}

// shellVariables are names of variables in upper case that scripts often use for themselves.
const shellVariables = "IFS COPROC DIR DIRS FILE FILES NAME NAMES COUNT LIST SRC DEST DST RESULT STATUS LINE ITEM " +
	"ITEMS " +
	"TOTAL NUM INDEX MSG MESSAGE _"

// harmlessVariables change only what programs show, not what they run.
const harmlessVariables = "LANG LANGUAGE TZ TERM COLORTERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR " +
	"CLICOLOR_FORCE CI " +
	"DEBUG NODE_ENV GOOS GOARCH CGO_ENABLED RUST_LOG RUST_BACKTRACE PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE TIMEFORMAT " +
	"POSIXLY_CORRECT DEBIAN_FRONTEND GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS"

// shellVariable reports whether a plain assignment to a shell variable is harmless. If the variable
// is already in the environment, the new value is passed to programs. Such variables usually have
// names in upper case; the exceptions are listed here.
func shellVariable(name string) bool {
	if strings.ContainsFunc(name, func(r rune) bool { return 'a' <= r && r <= 'z' }) {
		lower := strings.ToLower(name)
		for _, prefix := range [...]string{"npm_", "ld_", "pip_", "git_"} {
			if strings.HasPrefix(lower, prefix) {
				return false
			}
		}
		return name != "histchars" && !strings.HasSuffix(lower, "_proxy")
	}
	return len(name) == 1 || listed(shellVariables, name) || harmlessVariable(name)
}

// harmlessVariable reports whether a variable may be passed to any program.
func harmlessVariable(name string) bool {
	return listed(harmlessVariables, name) || strings.HasPrefix(name, "LC_") && len(name) > 3
}
