package permission

import "strings"

// holdsWord reports whether a text holds a name that is not part of another,
// nor the key of an object.
func holdsWord(s, name string) bool {
	for from := 0; ; {
		i := strings.Index(s[from:], name)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(name)
		if (i == 0 || !wordByte(s[i-1]|0x20) && s[i-1] != '.') && (end == len(s) || !wordByte(s[end]|0x20)) {
			return true
		}
		from = end
	}
}

// builtin recognises builtins of the shell whose words can run code.
func (a *analysis) builtin(c *Command, name string) bool {
	switch name {
	case "read":
		c.free = true
		value := false
		for i := 1; i < len(c.Words); i++ {
			v, ok := c.Words[i].value()
			switch {
			case value:
				value = false
			case !ok:
				c.danger = append(c.danger, danger{word: i, why: "read evaluates subscripts"})
			case strings.HasPrefix(v, "-"):
				k := strings.IndexAny(v, "dnNptu")
				if strings.Trim(v, "-rasdnNptuei") != "" && k < 0 || strings.Contains(v, "i") && k < 0 {
					c.danger = append(c.danger, danger{word: i, why: "its options are not understood"})
				}
				value = k == len(v)-1
			case !identifier(v) || !shellVariable(v):
				c.danger = append(c.danger, danger{word: i, why: "it sets a variable that programs use, or evaluates a subscript"})
			}
		}
	case "unset", "wait", "getopts":
		c.free = name != "getopts"
		for i := 1; i < len(c.Words); i++ {
			v, ok := c.Words[i].value()
			if !ok || strings.ContainsAny(v, "[$`") || name == "unset" && !strings.HasPrefix(v, "-") && !shellVariable(v) || name == "wait" && (strings.Contains(v, "p") || !digits(strings.TrimPrefix(v, "%"))) {
				c.danger = append(c.danger, danger{word: i, why: name + " evaluates subscripts"})
			}
		}
	case "shopt":
		c.free = true
		for i := 1; i < len(c.Words); i++ {
			if !c.Words[i].is("-s", "-u", "-q", "-p", "nullglob", "globstar", "dotglob", "failglob", "extglob", "lastpipe", "nocaseglob", "inherit_errexit") {
				c.danger = append(c.danger, danger{word: i, why: "this option can change what names mean"})
			}
		}
	case "export", "declare", "typeset", "local", "readonly", "nameref":
		// Reached only behind command or builtin, or quoted.
		c.opaque = "it may run what a value holds"
	default:
		return false
	}
	if len(c.danger) > 0 {
		c.free, c.why = false, c.danger[0].why
	}
	return true
}

// printf is free without -v, whose name is evaluated.
func printf(c *Command) {
	c.free = true
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].value()
		if ok && strings.HasPrefix(v, "-v") || i == 1 && (!ok && c.Words[i].dash) {
			c.free, c.why = false, "printf -v evaluates the subscript of a name"
			c.danger = append(c.danger, danger{word: i, why: c.why})
		}
		if ok && v == "--" {
			continue
		}
		if countsBytes(c.Words[i].vals) {
			c.free, c.why = false, "%n of printf sets a variable"
			c.danger = append(c.danger, danger{word: i, why: c.why})
		}
		break
	}
}

// countsBytes reports whether a format may hold printf's %n.
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

// set is free for the options that scripts begin with, and for positional
// parameters.
func set(c *Command) {
	if len(c.Words) == 1 {
		c.why = "set alone prints every variable"
		return
	}
	c.free = true
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].value()
		if ok && v == "--" {
			return
		}
		if ok && (v == "-o" || v == "+o") && i+1 < len(c.Words) && c.Words[i+1].is("pipefail", "errexit", "nounset", "noglob", "noclobber", "xtrace") {
			i++
			continue
		}
		if ok && len(v) > 1 && (v[0] == '-' || v[0] == '+') && strings.Trim(v[1:], "euxfC") == "" {
			continue
		}
		if ok && len(v) > 1 && v[0] == '-' && strings.HasSuffix(v, "o") && strings.Trim(v[1:len(v)-1], "euxfC") == "" && i+1 < len(c.Words) && c.Words[i+1].is("pipefail") {
			i++
			continue
		}
		c.free, c.why = false, "these options of set are not understood"
		return
	}
}

// testCommand is free where its shape is plain: expansions stand in quotes and
// cannot be taken for the operator.
func testCommand(c *Command) {
	words := c.Words[1:]
	if c.Words[0].is("[") {
		if len(words) == 0 || !words[len(words)-1].is("]") {
			return
		}
		words = words[:len(words)-1]
	}
	dynamic := false
	for i := range words {
		if words[i].dyn && words[i].vals == nil {
			dynamic = true
		}
		if words[i].is("-v", "-R") && i+1 < len(words) {
			if v, ok := words[i+1].value(); !ok || !identifier(v) {
				c.why = "this test evaluates a subscript"
				c.danger = append(c.danger, danger{word: i + 1, why: c.why})
				return
			}
		}
		if words[i].many && words[i].vals == nil {
			c.why = "an expansion without quotes may become another test"
			c.danger = append(c.danger, danger{word: i + 1, why: c.why})
			return
		}
	}
	rest := words
	for len(rest) > 0 && rest[0].is("!") {
		rest = rest[1:]
	}
	unary := func(w *Word) bool {
		v, ok := w.value()
		return ok && len(v) == 2 && v[0] == '-' && strings.IndexByte("abcdefghknprstuwxzGLNOS", v[1]) >= 0
	}
	plainShape := len(rest) <= 1 || len(rest) == 2 && unary(&rest[0]) ||
		len(rest) == 3 && (rest[1].is("=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"))
	if dynamic && !plainShape {
		c.why = "an expansion may become another test"
		return
	}
	c.free, c.shaped = true, true // its exit status says little
}

// awk is free when its program cannot run, read or write anything by itself.
func awk(c *Command) {
	c.free = true
	program := -1
	for i := 1; i < len(c.Words); i++ {
		w := &c.Words[i]
		v, ok := w.value()
		if program >= 0 {
			if ok && strings.HasPrefix(v, "/inet") {
				c.danger = append(c.danger, danger{word: i, why: "awk opens network connections under /inet"})
			}
			if !(ok && v == "-") {
				c.args = append(c.args, fileArg{word: w})
			}
			continue
		}
		if !ok && w.vals == nil {
			c.danger = append(c.danger, danger{word: i, why: "awk's program is not known before it runs"})
			program = i
			continue
		}
		switch {
		case v == "-F" || v == "-v":
			i++
			if i < len(c.Words) && c.Words[i].many && c.Words[i].vals == nil {
				c.danger = append(c.danger, danger{word: i, why: "it may be split into options"})
			}
		case strings.HasPrefix(v, "-F") || strings.HasPrefix(v, "-v"):
		case v == "--":
		case len(v) > 1 && v[0] == '-':
			c.danger = append(c.danger, danger{word: i, why: v + " of awk is not understood"})
		default:
			program = i
			if !ok || awkActs(v) {
				c.danger = append(c.danger, danger{word: i, why: "this awk program can run or write something"})
			}
		}
	}
	if len(c.danger) > 0 {
		c.free, c.why = false, c.danger[0].why
	}
}

// awkActs looks for what can act, in strings and patterns too: telling them
// apart is not worth being wrong.
func awkActs(s string) bool {
	for _, word := range []string{"system", "getline", "ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB", "ARGV", "@", "|", "\\\n"} {
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

// sed is free when its script is of the commands that only edit the stream.
func sed(c *Command) {
	c.free = true
	script, ended := false, false
	inPlace := false
	for i := 1; i < len(c.Words); i++ {
		w := &c.Words[i]
		v, ok := w.value()
		code := func(k int) {
			script = true
			if k >= len(c.Words) {
				return
			}
			if v, ok := c.Words[k].value(); !ok || !sedHarmless(v) {
				c.danger = append(c.danger, danger{word: k, why: "this sed script is not known to only edit"})
			}
		}
		if !ok && w.vals == nil && !script {
			c.danger = append(c.danger, danger{word: i, why: "sed's script is not known before it runs"})
			script = true
			continue
		}
		switch {
		case ok && v == "--" && !ended:
			ended = true
		case ok && len(v) > 1 && v[0] == '-' && !ended:
			switch {
			case v == "-n" || v == "-E" || v == "-r" || v == "-s" || v == "-u" || v == "-z" || v == "-nE" || v == "-En" || v == "-nr" || v == "-rn" || v == "--quiet" || v == "--silent" || v == "--regexp-extended" || v == "--posix" || v == "--debug" || v == "--sandbox":
			case v == "-e" || v == "-ne" || v == "-Ee" || v == "-re" || v == "-nEe" || v == "--expression":
				i++
				code(i)
			case v == "-i" || strings.HasPrefix(v, "-i") || strings.HasPrefix(v, "--in-place"):
				inPlace = true
				if strings.ContainsAny(v, "/*") {
					c.danger = append(c.danger, danger{word: i, why: "the backup goes elsewhere"})
				}
			default:
				c.danger = append(c.danger, danger{word: i, why: v + " of sed is not understood"})
			}
		case !script:
			code(i)
		default:
			c.args = append(c.args, fileArg{word: w})
		}
	}
	if inPlace {
		c.free = false
		c.why = "-i changes files"
		for i := range c.args {
			c.args[i].write = true
		}
	}
	if len(c.danger) > 0 {
		c.free, c.why = false, c.danger[0].why
	}
}

// sedHarmless reads the small part of sed's language that can be read safely:
// addresses, s and y with any delimiter, and commands of one letter.
func sedHarmless(s string) bool {
	i := 0
	blank := func() {
		for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == ';' || s[i] == '\n' || s[i] == '{' || s[i] == '}') {
			i++
		}
	}
	// until passes over text up to an unescaped delimiter. Brackets that hold
	// the delimiter are read differently by different seds: not harmless.
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
			for i < len(s) && cmd == 's' && (s[i] == 'g' || s[i] == 'p' || s[i] == 'i' || s[i] == 'I' || s[i] == 'm' || s[i] == 'M' || s[i] >= '0' && s[i] <= '9') {
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

// writers notes which files a command that is no reader writes, and the words
// that no wildcard of a rule may cover.
func writers(c *Command, name string) {
	write := func(w *Word) { c.args = append(c.args, fileArg{word: w, write: true}) }
	operands := func(value string) []*Word {
		var out []*Word
		ended := false
		for i := 1; i < len(c.Words); i++ {
			v, ok := c.Words[i].value()
			if ok && v == "--" && !ended {
				ended = true
				continue
			}
			if ok && len(v) > 1 && v[0] == '-' && !ended {
				if v[1] != '-' && strings.IndexByte(value, v[len(v)-1]) >= 0 {
					i++
					if i < len(c.Words) && (v[len(v)-1] == 't' || v[len(v)-1] == 'o' || v[len(v)-1] == 'O' || v[len(v)-1] == 'P') {
						write(&c.Words[i])
					}
				} else if _, value, has := strings.Cut(v, "="); has {
					c.args = append(c.args, fileArg{word: &c.Words[i], text: value, write: true})
				} else if v[1] != '-' && len(v) > 2 {
					c.args = append(c.args, fileArg{word: &c.Words[i], text: v[2:], write: true})
				}
				continue
			}
			out = append(out, &c.Words[i])
		}
		return out
	}
	flagged := func(long string, exact ...string) {
		for i := 1; i < len(c.Words); i++ {
			v, ok := c.Words[i].value()
			if !ok {
				continue
			}
			for _, e := range exact {
				if v == e || len(e) == 2 && strings.HasPrefix(v, e) && !strings.HasPrefix(v, "--") {
					c.danger = append(c.danger, danger{word: i, why: v + " of " + name + " can run another program"})
				}
			}
			if flag, _, _ := strings.Cut(v, "="); strings.HasPrefix(flag, "--") && len(flag) > 2 {
				for _, l := range strings.Fields(long) {
					if strings.HasPrefix("--"+l, flag) || flag == "--"+l {
						c.danger = append(c.danger, danger{word: i, why: v + " of " + name + " can run another program"})
					}
				}
			}
		}
	}
	switch name {
	case "sort":
		for i := 1; i < len(c.Words); i++ {
			v, ok := c.Words[i].value()
			if !ok || len(v) < 2 || v[0] != '-' || v[1] == '-' {
				continue
			}
			if k := strings.IndexByte(v, 'o'); k == len(v)-1 && i+1 < len(c.Words) {
				write(&c.Words[i+1])
			} else if k > 0 {
				c.args = append(c.args, fileArg{word: &c.Words[i], text: v[k+1:], write: true})
			}
		}
	case "uniq", "xxd":
		if n := len(c.args); n > 1 {
			c.args[n-1].write = true
		}
	case "cp", "install", "ln", "rsync", "scp":
		ops := operands("tSgmoe")
		for i, w := range ops {
			if i == len(ops)-1 {
				write(w)
			} else {
				c.args = append(c.args, fileArg{word: w})
			}
		}
		if name == "rsync" || name == "scp" {
			flagged("rsh rsync-path", "-e", "-S", "-F", "-o")
			for i := 1; i < len(c.Words) && name == "rsync"; i++ {
				if v, ok := c.Words[i].value(); ok && len(v) > 2 && v[0] == '-' && v[1] != '-' && strings.Contains(v, "e") {
					c.danger = append(c.danger, danger{word: i, why: v + " of rsync can run another program"})
				}
			}
		}
	case "mv":
		for _, w := range operands("tS") {
			write(w)
		}
	case "rm", "rmdir", "unlink", "shred", "touch", "mkdir", "mkfifo", "mknod", "tee", "truncate", "chmod", "chown", "chgrp", "setfacl", "chattr", "setfattr", "mktemp", "split", "csplit", "patch", "gzip", "gunzip", "bzip2", "xz", "unzip", "zip", "dos2unix":
		value := "mrdstg"
		for _, w := range operands(value) {
			write(w)
		}
		if name == "zip" {
			flagged("unzip-command test", "-TT", "-T")
		}
		if name == "split" {
			flagged("filter")
		}
	case "dd":
		for i := 1; i < len(c.Words); i++ {
			if v, ok := c.Words[i].value(); ok {
				if of, has := strings.CutPrefix(v, "of="); has {
					c.args = append(c.args, fileArg{word: &c.Words[i], text: of, write: true})
				} else if in, has := strings.CutPrefix(v, "if="); has {
					c.args = append(c.args, fileArg{word: &c.Words[i], text: in})
				}
			}
		}
	case "tar", "bsdtar", "gtar":
		flagged("to-command use-compress-program checkpoint-action rsh-command info-script new-volume-script rmt-command checkpoint", "-I", "-F")
		for i := 1; i < len(c.Words); i++ {
			if v, ok := c.Words[i].value(); ok && (v[:min(len(v), 1)] == "-" || i == 1) && !strings.HasPrefix(v, "--") && strings.ContainsAny(v, "FI") && len(c.danger) == 0 {
				c.danger = append(c.danger, danger{word: i, why: v + " of tar can run another program"})
			}
			if c.Words[i].is("-C", "-f", "--directory", "--file") && i+1 < len(c.Words) {
				write(&c.Words[i+1])
			}
		}
	case "curl", "wget":
		operands("oO")
		flagged("config use-askpass execute netrc-file", "-K")
		if name == "wget" {
			flagged("", "-e")
		}
		for i := 1; i < len(c.Words); i++ {
			v, ok := c.Words[i].value()
			if ok && strings.Contains(v, "@") && !strings.Contains(v, "://") {
				c.args = append(c.args, fileArg{word: &c.Words[i], text: v[strings.IndexByte(v, '@')+1:]})
			}
			if c.Words[i].is("-T", "--upload-file", "--post-file", "--body-file") && i+1 < len(c.Words) {
				c.args = append(c.args, fileArg{word: &c.Words[i+1]})
			}
			if c.Words[i].is("--output", "--output-document", "--output-dir", "--dump-header", "-D", "--cookie-jar", "-c") && i+1 < len(c.Words) {
				write(&c.Words[i+1])
			}
		}
	}
}
