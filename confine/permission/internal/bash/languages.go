package bash

import (
	"path"
	"strings"
)

// holdsWord reports whether a text contains a name that is neither part of another name nor the key
// of an object.
func holdsWord(s, name string) bool {
	for from := 0; ; {
		i := strings.Index(s[from:], name)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(name)
		if (i == 0 || !WordByte(s[i-1]|0x20) && s[i-1] != '.') && (end == len(s) || !WordByte(s[end]|0x20)) {
			return true
		}
		from = end
	}
}

// readVariables handles read, which sets variables.
func readVariables(c *SimpleCommand) {
	c.Effect = Reads
	value := false
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		switch {
		case value:
			value = false
		case !ok:
			c.danger(i, "read evaluates subscripts")
		case strings.HasPrefix(v, "-"):
			k := strings.IndexAny(v, "dnNptu")
			if strings.Trim(v, "-rasdnNptuei") != "" && k < 0 || strings.Contains(v, "i") && k < 0 {
				c.danger(i, reasonOptions)
			}
			value = k == len(v)-1
		case !Identifier(v) || !shellVariable(v):
			c.danger(i, "it sets a variable that programs use, or evaluates a subscript")
		}
	}
}

func unset(c *SimpleCommand) {
	c.Effect = Reads
	subscripts(c, func(v string) bool { return strings.HasPrefix(v, "-") || shellVariable(v) })
}

func wait(c *SimpleCommand) {
	c.Effect = Reads
	subscripts(c, func(v string) bool { return Digits(strings.TrimPrefix(v, "%")) })
}

// getopts sets variables of the shell.
func getopts(c *SimpleCommand) { subscripts(c, func(string) bool { return true }) }

// subscripts finds the words of a builtin in which it may evaluate a subscript, and those that are not harmless.
func subscripts(c *SimpleCommand, harmless func(string) bool) {
	for i := 1; i < len(c.Words); i++ {
		if v, ok := c.Words[i].Value(); !ok || strings.ContainsAny(v, "[$`") || !harmless(v) {
			name, _ := c.Words[0].Value()
			c.danger(i, path.Base(name)+" evaluates subscripts")
		}
	}
}

func shopt(c *SimpleCommand) {
	c.Effect = Reads
	for i := 1; i < len(c.Words); i++ {
		if v, ok := c.Words[i].Value(); !ok || !listed("-s -u -q -p nullglob globstar dotglob failglob extglob lastpipe "+
			"nocaseglob inherit_errexit", v) {
			c.danger(i, "this option can change what names mean")
		}
	}
}

// printf only reads, except with -v, which evaluates the subscript of a name, and with %n, which
// sets a variable.
func printf(c *SimpleCommand) {
	c.Effect = Reads
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if ok && strings.HasPrefix(v, "-v") || i == 1 && (!ok && c.Words[i].Dash) {
			c.danger(i, "printf -v evaluates the subscript of a name")
		}
		if ok && v == "--" {
			continue
		}
		if countsBytes(c.Words[i].Values) {
			c.danger(i, "%n of printf sets a variable")
		}
		break
	}
}

// countsBytes reports whether a format may contain printf's %n.
func countsBytes(formats []string) bool {
	for _, f := range formats {
		for i := 0; i < len(f); i++ {
			if f[i] != '%' {
				continue
			}
			i++
			for i < len(f) && strings.IndexByte("#0- +'123456789.*hlLjzt", f[i]) >= 0 {
				i++
			}
			if i < len(f) && (f[i] == 'n' || f[i] == '\\') {
				return true
			}
		}
	}
	return false
}

// set only reads if it has only the usual options at the beginning of scripts, or sets positional
// parameters.
func set(c *SimpleCommand) {
	if len(c.Words) == 1 {
		c.Reason = "set alone prints every variable"
		return
	}
	c.Effect = Reads
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if ok && v == "--" {
			return
		}
		if ok && (v == "-o" || v == "+o") && i+1 < len(c.Words) && c.Words[i+1].Is("pipefail", "errexit", "nounset", "noglob",
			"noclobber", "xtrace") {
			i++
			continue
		}
		if ok && len(v) > 1 && (v[0] == '-' || v[0] == '+') && strings.Trim(v[1:], "euxfC") == "" {
			continue
		}
		if ok && len(v) > 1 && v[0] == '-' && strings.HasSuffix(v, "o") && strings.Trim(v[1:len(v)-1], "euxfC") == "" &&
			i+1 < len(c.Words) && c.Words[i+1].Is("pipefail") {
			i++
			continue
		}
		c.Effect, c.Reason = Runs, "these options of set are not understood"
		return
	}
}

// testCommand only reads if the test has a simple form, in which expansions are quoted and cannot
// be mistaken for the operator.
func testCommand(c *SimpleCommand) {
	words := c.Words[1:]
	if c.Words[0].Is("[") {
		if len(words) == 0 || !words[len(words)-1].Is("]") {
			return
		}
		words = words[:len(words)-1]
	}
	dynamic := false
	for i := range words {
		if words[i].Dynamic && words[i].Values == nil {
			dynamic = true
		}
		if words[i].Is("-v", "-R") && i+1 < len(words) {
			if v, ok := words[i+1].Value(); !ok || !Identifier(v) {
				c.danger(i+1, "this test evaluates a subscript")
				return
			}
		}
		if words[i].Many && words[i].Values == nil {
			c.danger(i+1, "an expansion without quotes may become another test")
			return
		}
	}
	rest := words
	for len(rest) > 0 && rest[0].Is("!") {
		rest = rest[1:]
	}
	unary := func(w *Word) bool {
		v, ok := w.Value()
		return ok && len(v) == 2 && v[0] == '-' && strings.IndexByte("abcdefghknprstuwxzGLNOS", v[1]) >= 0
	}
	plainShape := len(rest) <= 1 || len(rest) == 2 && unary(&rest[0]) ||
		len(rest) == 3 && (rest[1].Is("=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot",
			"-ef"))
	if dynamic && !plainShape {
		c.Reason = "an expansion may become another test"
		return
	}
	c.Effect, c.shaped = Reads, true // the exit status reveals little
}

// awk only reads if its program cannot run or write anything, or read other files.
func awk(c *SimpleCommand) {
	c.Effect = Reads
	program := -1
	for i := 1; i < len(c.Words); i++ {
		w := &c.Words[i]
		v, ok := w.Value()
		if program >= 0 {
			if ok && strings.HasPrefix(v, "/inet") {
				c.danger(i, "awk opens network connections under /inet")
			}
			if !(ok && v == "-") {
				c.Files = append(c.Files, File{Word: w})
			}
			continue
		}
		if !ok && w.Values == nil {
			c.danger(i, "awk's program is not known before it runs")
			program = i
			continue
		}
		switch {
		case v == "-F" || v == "-v":
			i++
			if i < len(c.Words) && c.Words[i].Many && c.Words[i].Values == nil {
				c.danger(i, "it may be split into options")
			}
		case strings.HasPrefix(v, "-F") || strings.HasPrefix(v, "-v"):
		case v == "--":
		case len(v) > 1 && v[0] == '-':
			c.danger(i, v+" of awk is not understood")
		default:
			program = i
			if !ok || awkActs(v) {
				c.danger(i, "this awk program can run or write something")
			}
		}
	}
}

// awkActs reports whether an awk program may run or write something. It also reacts to text in
// strings and patterns, because telling these apart would risk errors.
func awkActs(s string) bool {
	for _, word := range []string{"system", "getline", "ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB", "ARGV", "@", "|",
		"\\\n"} {
		if i := strings.Index(s, word); i >= 0 {
			if word == "|" && !strings.Contains(strings.ReplaceAll(s, "||", ""), "|") {
				continue
			}
			return true
		}
	}
	if p := strings.Index(s, "print"); p >= 0 && strings.Contains(s[p:], ">") {
		return true
	}
	return false
}

// sed only reads if its script uses only commands that edit the stream.
func sed(c *SimpleCommand) {
	c.Effect = Reads
	script, ended := false, false
	inPlace := false
	for i := 1; i < len(c.Words); i++ {
		w := &c.Words[i]
		v, ok := w.Value()
		code := func(k int) {
			script = true
			if k >= len(c.Words) {
				return
			}
			if v, ok := c.Words[k].Value(); !ok || !sedHarmless(v) {
				c.danger(k, "this sed script is not known to only edit")
			}
		}
		if !ok && w.Values == nil && !script {
			c.danger(i, "sed's script is not known before it runs")
			script = true
			continue
		}
		switch {
		case ok && v == "--" && !ended:
			ended = true
		case ok && len(v) > 1 && v[0] == '-' && !ended:
			switch {
			case listed("-n -E -r -s -u -z -nE -En -nr -rn --quiet --silent --regexp-extended --posix --debug --sandbox", v):
			case listed("-e -ne -Ee -re -nEe --expression", v):
				i++
				code(i)
			case v == "-i" || strings.HasPrefix(v, "-i") || strings.HasPrefix(v, "--in-place"):
				inPlace = true
				if strings.ContainsAny(v, "/*") {
					c.danger(i, "the backup goes elsewhere")
				}
			default:
				c.danger(i, v+" of sed is not understood")
			}
		case !script:
			code(i)
		default:
			c.Files = append(c.Files, File{Word: w})
		}
	}
	if inPlace {
		c.Effect = Runs
		c.Reason = "-i changes files"
		for i := range c.Files {
			c.Files[i].Write = true
		}
	}
}

// sedHarmless reports whether a sed script uses only the part of the language that can be parsed
// safely: addresses, s and y with any delimiter, and commands of one letter.
func sedHarmless(s string) bool {
	i := 0
	blank := func() {
		for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == ';' || s[i] == '\n' || s[i] == '{' || s[i] == '}') {
			i++
		}
	}
	// until skips text up to an unescaped delimiter. It fails if brackets contain the delimiter,
	// because implementations of sed interpret that differently.
	until := func(d byte) bool {
		bracket := false
		for ; i < len(s); i++ {
			switch {
			case s[i] == '\\' && i+1 < len(s):
				if s[i+1] == '\n' {
					return false
				}
				i++
			case s[i] == '\n':
				return false
			case s[i] == '[':
				if rest := strings.TrimPrefix(s[i+1:], "^"); bracket || strings.HasPrefix(rest, "]") {
					return false
				}
				bracket = true
			case s[i] == ']':
				bracket = false
			case s[i] == d:
				i++
				return !bracket
			}
		}
		return false
	}
	address := func() bool {
		switch {
		case i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '~'):
			for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '~') {
				i++
			}
		case i < len(s) && s[i] == '$':
			i++
		case i < len(s) && s[i] == '/':
			i++
			if !until('/') {
				return false
			}
			for i < len(s) && (s[i] == 'I' || s[i] == 'M') {
				i++
			}
		}
		return true
	}
	for {
		blank()
		if i >= len(s) {
			return true
		}
		if !address() {
			return false
		}
		for i < len(s) && s[i] == ' ' {
			i++
		}
		if i < len(s) && s[i] == ',' {
			i++
			for i < len(s) && s[i] == ' ' {
				i++
			}
			if !address() {
				return false
			}
		}
		for i < len(s) && (s[i] == ' ' || s[i] == '!') {
			i++
		}
		if i >= len(s) {
			return false
		}
		cmd := s[i]
		i++
		switch cmd {
		case '{', '}':
			continue
		case 'p', 'd', 'q', '=', 'n', 'N', 'g', 'G', 'h', 'H', 'x', 'P', 'D', 'l':
		case 's', 'y':
			if i >= len(s) {
				return false
			}
			d := s[i]
			if d == '\\' || d == '\n' || d == '[' || d == ']' || d >= 0x80 || d == ' ' {
				return false
			}
			i++
			from := until(d)
			if to := until(d); !from || !to {
				return false
			}
			for i < len(s) && cmd == 's' && (s[i] == 'g' || s[i] == 'p' || s[i] == 'i' || s[i] == 'I' || s[i] == 'm' ||
				s[i] == 'M' || s[i] >= '0' && s[i] <= '9') {
				i++
			}
		default:
			return false
		}
		for i < len(s) && s[i] == ' ' {
			i++
		}
		if i < len(s) && s[i] != ';' && s[i] != '\n' && s[i] != '}' {
			return false
		}
	}
}
