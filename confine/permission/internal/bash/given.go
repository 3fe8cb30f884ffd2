package bash

import (
	"path"
	"slices"
	"strings"
)

// RunsGiven reports whether a command runs what it reads, or what its words spell out: a shell without a script,
// python -c, xargs, sudo, ssh. A rule for such a program would cover whatever somebody pipes into it, or says nothing
// about what it covers. An interpreter with the path of a script is none, because that file can be looked at.
func (c *SimpleCommand) RunsGiven() bool {
	if c.Opaque != "" || len(c.Words) == 0 {
		return true
	}
	name, ok := c.Words[0].Value()
	if !ok {
		return true
	}
	name = unversioned(path.Base(name))
	bare := strings.TrimRight(name, "0123456789")
	if listed(posixShells+" "+otherShells, bare) || interpreters.row(bare) != nil {
		name = bare // ksh93, perl5.36
	}
	for _, in := range c.Inner {
		if in.Name < 0 { // code in a word or a here-document
			return true
		}
		for _, inner := range in.Script.Commands {
			if inner.RunsGiven() {
				return true
			}
		}
	}
	words := values(c.Words[1:])
	has := func(names string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return listed(names, w) })
	}
	switch {
	case slices.ContainsFunc(words, namesInput), listed("go tcc coffee", name) && has("-"):
		return true
	case listed("gtime ifne pee mispipe daemonize with-contenv npm-run-all distrobox toolbox ftp vimdiff rvim gvim", name):
		return true
	case listed("nvm", name) && has("exec run"), listed("gcloud az", name) && has("ssh run-command"),
		listed("aws", name) && has("execute-command start-session send-command"):
		return true
	case len(words) > 0 && (name == "rails" && listed("runner r console c dbconsole db", words[0]) ||
		name == "yarn" && words[0] == "node" ||
		name == "dotnet" && (len(words) == 1 || has("-")) && listed("fsi script", words[0])):
		return true
	case len(words) > 1 && listed("artisan manage.py rails", path.Base(words[0])) &&
		listed("tinker shell shell_plus dbshell console c runner r", words[1]):
		return true
	case name == "gsed":
		return readsFrom(words, "f")
	case listed("env cross-env xargs eval awk gawk mawk nawk irb iex jshell pry ipython original-awk bc dc m4 psql mysql "+
		"mariadb sqlite3 mongo mongosh clickhouse-client duckdb ghci gnuplot", name):
		return !asksAbout(words)
	case listed(posixShells+" "+otherShells+" source .", name):
		operand := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") || w == "-" })
		return operand < 0 && !asksAbout(words) || has("-c") || operand >= 0 && isInput(words[operand])
	case listed("kubectl oc", name):
		return has("exec debug run -") || readsFrom(words, "f")
	case listed("docker podman nerdctl docker-compose podman-compose", name):
		return has("exec run")
	case listed("tar bsdtar cpio rsync zip unzip sed scp sftp wget", name): // options that start a program
		return slices.ContainsFunc(c.Danger, func(d Danger) bool { return d.Dir == "" })
	case listed("make gmake bmake just task ninja ant rake", name):
		return readsFrom(words, "f") || slices.ContainsFunc(words, func(w string) bool {
			return strings.HasPrefix(w, "--eval") || w == "-E" || strings.HasPrefix(w, "SHELL=")
		})
	case name == "git":
		return gitRunsGiven(words)
	case listed(ownTools, name):
		return slices.Contains(words, "tool") || slices.Contains(words, "-")
	}
	if i := interpreters.row(name); i != nil {
		return i.given(words)
	}
	if listed("npm pnpm yarn bun", name) && len(words) > 1 && listed("create init", words[0]) {
		return true
	}
	return slices.ContainsFunc(runners.all(name), func(r *runner) bool { return !r.wraps && r.from(c.Words) > 0 })
}

// ownTools are runners of the tools that a project has installed for itself: their command counts as if it were run
// without them.
const ownTools = "uv poetry pipenv pdm hatch rye bundle"

// An interpreter is a program that runs a script, code in its words, or its input.
type interpreter struct {
	names  string
	code   string // letters of options with code
	valued string // letters of other options with a value
	long   string // long options with code, and words that are followed by code
	sub    string // subcommands before a script
}

var interpreters = table[interpreter]{names: func(i *interpreter) string { return i.names }, rows: []interpreter{
	{names: "python python2 python3 pypy pypy3", code: "c", valued: "WXm"},
	{names: "node nodejs tsx ts-node", code: "ep", valued: "rC", long: "--eval --print"},
	{names: "deno", long: "eval repl", sub: "run serve test bench"},
	{names: "bun", code: "ep", valued: "rc", long: "--eval --print", sub: "run"},
	{names: "ruby jruby", code: "e", valued: "rICx"},
	{names: "perl", code: "eE", valued: "MmI"},
	{names: "php", code: "rBRE", valued: "cdzf", long: "--run"},
	{names: "lua luajit tclsh wish guile racket raku swift ocaml clojure clj bb groovy scala runghc ghc escript",
		code: "e", long: "-c --eval --expr repl"},
	{names: "julia Rscript R", code: "eE", long: "--eval --print"},
	{names: "elixir", code: "e", valued: "rS", long: "--eval"},
	{names: "erl sbcl", long: "-eval --eval"},
	{names: "octave octave-cli scilab maxima gap sage maple wolframscript clisp ecl ccl abcl gcl mruby truffleruby " +
		"jython ipy coffee fsharpi csi zx esno vite-node jiti babel-node sucrase-node",
		code: "e", long: "--eval -eval --execute"},
	{names: "sqlplus sqlcmd isql usql redis-cli cqlsh beeline hive trino presto cypher-shell snowsql impala-shell",
		code: "e", long: "--eval --execute"},
}}

// given reports whether an interpreter runs code from its words or its input.
func (i *interpreter) given(words []string) bool {
	operands := words
	for k, w := range words {
		switch {
		case listed(i.long, w) || isInput(w) || hasLong(i.long, w):
			return true
		case w == "-m" && k+1 < len(words): // a module of python; these run code
			return listed("code pdb timeit profile cProfile trace runpy IPython asyncio", words[k+1])
		case len(w) > 1 && w[0] == '-' && w[1] != '-':
			for _, letter := range w[1:] {
				if strings.ContainsRune(i.code, letter) {
					return true
				}
				if strings.ContainsRune(i.valued, letter) {
					break
				}
			}
		case strings.HasPrefix(w, "-"), i.sub != "" && k == 0 && listed(i.sub, w):
		default:
			return false // a script, and the words after it are for the script
		}
		operands = words[k+1:]
	}
	return len(operands) == 0 && !asksAbout(words)
}

// hasLong reports whether a word is a long option with a value that is among a list.
func hasLong(list, word string) bool {
	name, _, has := strings.Cut(word, "=")
	return has && strings.HasPrefix(word, "--") && listed(list, name)
}

// asksAbout reports whether a program is only asked about itself, or told to test.
func asksAbout(words []string) bool {
	return len(words) > 0 && listed("--version -version -v -V -VV --help -help -h --test --check -c", words[0]) &&
		!slices.ContainsFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") })
}

// isInput reports whether a word names the standard input, or another open file.
func isInput(word string) bool {
	return word == "-" || word == "/dev/stdin" || strings.HasPrefix(word, "/dev/fd/") ||
		strings.HasPrefix(word, "/proc/")
}

// namesInput reports whether a word is the path of the standard input, in whatever place.
func namesInput(word string) bool {
	return word == "/dev/stdin" || strings.HasPrefix(word, "/dev/fd/") || strings.HasPrefix(word, "/proc/self/fd/")
}

// readsFrom reports whether an option of one letter names the standard input.
func readsFrom(words []string, letter string) bool {
	for k, w := range words {
		if name, file, has := strings.Cut(w, "="); has && strings.HasPrefix(name, "--") && isInput(file) ||
			strings.HasPrefix(w, "-"+letter) && isInput(w[2:]) || isInput(w) && k > 0 {
			return true
		}
	}
	return false
}

// gitRunsGiven reports whether git runs a command that its words spell out.
func gitRunsGiven(words []string) bool {
	for k, w := range words {
		switch {
		case w == "-c" || strings.HasPrefix(w, "--config-env") || strings.HasPrefix(w, "--exec-path="):
			return true
		case !strings.HasPrefix(w, "-"):
			rest := words[k+1:]
			has := func(some ...string) bool {
				return slices.ContainsFunc(rest, func(r string) bool {
					return slices.ContainsFunc(some, func(s string) bool { return r == s || strings.HasPrefix(r, s+"=") })
				})
			}
			switch w {
			case "bisect":
				return has("run")
			case "submodule":
				return has("foreach")
			case "rebase":
				return has("-x", "--exec")
			case "difftool", "mergetool":
				return has("-x", "--extcmd")
			case "filter-branch":
				return true
			}
			return false
		}
	}
	return false
}

// values returns words as far as they are known, and "" for the others.
func values(words []Word) []string {
	all := make([]string, len(words))
	for i := range words {
		all[i], _ = words[i].Value()
	}
	return all
}

// unversioned returns the name of a program without its version: python for python3.12.exe.
func unversioned(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 && (Digits(name[i+1:]) || strings.EqualFold(name[i+1:], "exe")) {
		return name[:i]
	}
	return name
}
