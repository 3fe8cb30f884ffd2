package bash

import "strings"

// A reader describes a command that only reads. Lists of options are separated by spaces;
// abbreviations of long options count too.
type reader struct {
	names  string
	value  string // letters of options whose value is the next word; after any other one a word is a file
	danger string // options with which it does more than read
	tree   string // options with which it also reads everything below its directories
	follow string // options with which it also follows links there
	ends   string // options with the number of bytes that it reads; "*": it reads no content
	only   string // if not "", letters of the known options; all others count as dangerous
	joins  string // letters of options whose value, if any, is the rest of the word

	skip  int  // number of leading words that are not files (a pattern, a filter)
	max   int  // if not 0: maximum number of words that are not options; negative: none
	files bool // its words name files
	cwd   bool // without files it reads the working directory
	any   bool // it only prints, whatever its arguments are

	check func(c *SimpleCommand) // additional checks
	read  func(c *SimpleCommand) // in place of all these: for programs with options or a language of their own
}

var readers = table[reader]{names: func(r *reader) string { return r.names }, rows: []reader{
	{names: "cat tac rev cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum comm pr tsort",
		files: true},
	{names: "readlink realpath", files: true, ends: "*"},
	{names: "nl", files: true, value: "bdfhilnsvw"},
	{names: "fold fmt", files: true, value: "w"},
	{names: "base64 base32", files: true, value: "w", danger: "-o --output"}, // writes a file on macOS
	{names: "expand unexpand", files: true, value: "t"},
	{names: "strings", files: true, value: "nte", check: responseFile},
	{names: "cmp", files: true, value: "ni", ends: "-n --bytes"},
	{names: "join", files: true, value: "12taeojv"},
	{names: "od", files: true, value: "AjNtS", ends: "-N --read-bytes"},
	{names: "hexdump hd", files: true, value: "ens", ends: "-n --length"},
	{names: "stat", files: true, value: "c", ends: "*"},
	{names: "wc", files: true, danger: "--files0-from"},
	{names: "head", files: true, value: "nc", ends: "-c --bytes"},
	{names: "tail", files: true, value: "nc"},
	{names: "cut paste", files: true, value: "dfcb"},
	{names: "sort", files: true, value: "ktS",
		danger: "-o -T --output --compress-program --temporary-directory --files0-from --random-source"},
	{names: "uniq", files: true, value: "fsw", max: 1},
	{names: "xxd", files: true, value: "lscgo", danger: "-r", max: 1, ends: "-l"},
	{names: "column", files: true, value: "csoNTRHEO"},
	{names: "diff", files: true, value: "UCIxW", danger: "-l --paginate", tree: "-r --recursive",
		follow: "-r --recursive"},
	{names: "ls dir vdir", files: true, cwd: true, value: "IwT", ends: "*", check: listsThroughLinks},
	{names: "tree", files: true, cwd: true, value: "LIP", danger: "-o -R --output", follow: "-l", ends: "*"},
	{names: "du", files: true, cwd: true, value: "dBt", danger: "-X --files0-from --exclude-from",
		follow: "-L --dereference", ends: "*"},
	{names: "df", files: true, value: "Btx", ends: "*"},
	{names: "file", files: true, value: "FP", ends: "*",
		danger: "-C -m -f -z -S -Z --compile --magic-file --files-from --uncompress --no-sandbox --uncompress-noreport"},
	{names: "grep egrep fgrep", files: true, value: "emABCdD", skip: 1, danger: "-f --file",
		tree: "-r -R --recursive --dereference-recursive", follow: "-R --dereference-recursive", check: grepDirectories},
	{names: "rg", files: true, cwd: true, value: "egtTmABCMEjdr", skip: 1,
		danger: "-z -f --pre --hostname-bin --search-zip --file --ignore-file",
		tree:   "-. -u --hidden --unrestricted --no-ignore", follow: "-L --follow"},
	{names: "jq", files: true, skip: 1, check: jqProgram,
		danger: "-f -L --from-file --library-path --slurpfile --rawfile --argfile --indent"},
	{names: "echo true false : basename dirname", any: true},
	{names: "seq tr sleep expr exit return break continue shift times"},
	{names: "jobs", only: "lnprs"},
	{names: "date", value: "d", danger: "-s -f -r --set --file --reference", only: "duIRn", joins: "I", check: dateSets},
	{names: "pwd whoami id groups uname nproc uptime free tty cal type which locale users lscpu lsblk logname sw_vers"},
	{names: "getconf", danger: "-v"},     // -v runs the getconf of another specification
	{names: "arch", max: -1, only: "?h"}, // can run a program on macOS
	{names: "hostname", max: -1, only: "fsidI"},
	{names: "ps", read: ps},
	{names: "awk gawk mawk nawk", read: awk},
	{names: "sed gsed", read: sed},
	{names: "test [", read: testCommand},
	{names: "printf", read: printf},
	{names: "read", read: readVariables},
	{names: "unset", read: unset},
	{names: "wait", read: wait},
	{names: "getopts", read: getopts},
	{names: "set", read: set},
	{names: "shopt", read: shopt},
}}

// readOnly determines whether a command only reads, and which files.
func readOnly(c *SimpleCommand, name string) {
	r := readers.row(name)
	switch {
	case r == nil:
		return
	case r.read != nil:
		r.read(c)
	default:
		r.words(c, name)
	}
	if len(c.Danger) > 0 {
		c.Effect, c.Reason = Runs, c.Danger[0].Reason
	}
}

// words determines what a command does from its options and operands.
func (r *reader) words(c *SimpleCommand, name string) {
	c.Effect = Reads
	c.safeOptions = r.danger == "" && r.tree == "" && r.follow == "" && r.only == "" && r.skip == 0 && r.max == 0
	c.printsOnly = r.any
	c.Ends = r.ends == "*" || r.isLimited(c)
	tree, follow := false, false
	skip, operands, ended := r.skip, 0, false
	for i := 1; i < len(c.Words); i++ {
		w := &c.Words[i]
		v, single := w.Value()
		option := single && len(v) > 1 && v[0] == '-' && !ended
		if !single && !ended {
			for _, s := range w.Values {
				if strings.HasPrefix(s, "-") {
					c.danger(i, "it may be an option")
				}
			}
		}
		switch {
		case option && v == "--":
			ended = true
		case option && strings.HasPrefix(v, "--"):
			flag, value, has := strings.Cut(v, "=")
			if abbreviates(flag, r.danger) {
				c.danger(i, v+" does more than read")
			}
			tree = tree || len(flag) > 4 && abbreviates(flag, r.tree)
			follow = follow || len(flag) > 4 && abbreviates(flag, r.follow)
			if has && r.files {
				c.Files = append(c.Files, File{Text: value, Word: w})
			}
			if r.skip > 0 && r.value != "" && (strings.HasPrefix(flag, "--regexp") || strings.HasPrefix("--regexp", flag)) {
				skip = 0
				if !has {
					i++
				}
			}
		case option:
			for j := 1; j < len(v); j++ {
				letter := "-" + v[j:j+1]
				if listed(r.danger, letter) {
					c.danger(i, v+" does more than read")
					break
				}
				if r.only != "" && strings.IndexByte(r.only, v[j]) < 0 {
					c.danger(i, v+" is not understood")
					break
				}
				if strings.IndexByte(r.joins, v[j]) >= 0 {
					break
				}
				tree = tree || listed(r.tree, letter)
				follow = follow || listed(r.follow, letter)
				if strings.IndexByte(r.value, v[j]) >= 0 {
					if v[j] == 'e' && r.skip > 0 {
						skip = 0
					}
					if j == len(v)-1 {
						i++
						if i < len(c.Words) && c.Words[i].Values == nil && c.Words[i].Many {
							c.danger(i, "it may be split into options")
						}
					}
					break
				}
			}
			if r.files && strings.ContainsAny(v, "/.") && !Digits(strings.TrimLeft(v, "-")) {
				if k := strings.IndexAny(v, "/."); k > 0 {
					c.Files = append(c.Files, File{Text: v[min(k, 2):], Word: w})
				}
			}
		default:
			operands++
			if skip > 0 {
				skip--
				continue
			}
			if r.files && !(single && v == "-") {
				c.Files = append(c.Files, File{Word: w})
			}
		}
	}
	if r.max > 0 && operands > r.max || r.max < 0 && operands > 0 {
		c.danger(len(c.Words)-1, "its last word is a file that it writes, or a setting")
	}
	if operands <= r.skip && (r.cwd || tree || follow) {
		c.Files = append(c.Files, File{Text: "."})
	}
	if tree || follow {
		c.readsBelow(tree || r.skip > 0, follow)
	}
	if r.check != nil {
		r.check(c)
	}
	for i := range c.Words {
		if c.Words[i].Glob && (name == "which" || name == "type" || name == "sleep") {
			c.Reason = "a glob in the place of a name"
		}
	}
}

// isLimited reports whether an option limits how much the command reads: to less than 100 MB.
func (r *reader) isLimited(c *SimpleCommand) bool {
	for i := 1; i < len(c.Words) && !c.Words[i].Is("--"); i++ {
		v, _ := c.Words[i].Value()
		for option := range strings.FieldsSeq(r.ends) {
			n, ok := strings.CutPrefix(v, option)
			if n == "" && i+1 < len(c.Words) {
				n, _ = c.Words[i+1].Value()
			}
			n = strings.TrimPrefix(n, "=")
			kilo := strings.TrimRight(n, "kK")
			if ok && (Digits(n) && len(n) < 9 || Digits(kilo) && len(kilo) < 6 && len(n) == len(kilo)+1) {
				return true
			}
		}
	}
	return false
}

// abbreviates reports whether a long option is in a list or abbreviates one in it.
func abbreviates(flag, list string) bool {
	for l := range strings.FieldsSeq(list) {
		if strings.HasPrefix(l, flag) {
			return true
		}
	}
	return false
}

// readsBelow records that a command reads the files below its directories (tree), or at least their
// names, and whether it follows links there.
func (c *SimpleCommand) readsBelow(tree, follow bool) {
	for i := range c.Files {
		c.Files[i].Tree = c.Files[i].Tree || tree
		c.Files[i].Follow = c.Files[i].Follow || follow
	}
	if follow {
		for i := range c.Words {
			if c.Words[i].Dynamic {
				c.Reason = "an expansion in a command that follows links: " + c.Words[i].Text
			}
		}
	}
}

// isCluster reports whether a word is a cluster of option letters.
func isCluster(w *Word) bool {
	v, ok := w.Value()
	return ok && len(v) > 1 && v[0] == '-' && v[1] != '-'
}

// hasLetter reports whether a cluster of options contains a letter.
func (c *SimpleCommand) hasLetter(letter byte) bool {
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if ok && v == "--" {
			break
		}
		if isCluster(&c.Words[i]) && strings.IndexByte(v, letter) > 0 {
			return true
		}
	}
	return false
}

func listsThroughLinks(c *SimpleCommand) {
	recursive, follows := c.hasLetter('R'), c.hasLetter('L')
	for i := range c.Words {
		for _, v := range c.Words[i].Values {
			recursive = recursive || len(v) > 4 && strings.HasPrefix("--recursive", v)
			follows = follows || len(v) > 4 && strings.HasPrefix("--dereference", v)
		}
	}
	if recursive && follows {
		c.readsBelow(false, true)
	}
}

// grepDirectories handles "-d recurse", which means the same as -r.
func grepDirectories(c *SimpleCommand) {
	for i := range c.Words {
		for _, v := range c.Words[i].Values {
			if strings.HasSuffix(v, "recurse") && (i > 0 && c.Words[i-1].Is("-d", "--directories") ||
				strings.HasPrefix(v, "-d") || strings.HasPrefix(v, "--d")) {
				c.readsBelow(true, false)
			}
		}
	}
}

// responseFile finds @file, a file whose content is used as options.
func responseFile(c *SimpleCommand) {
	for i := 1; i < len(c.Words); i++ {
		for _, v := range spellings(&c.Words[i]) {
			if strings.HasPrefix(v, "@") {
				c.danger(i, v+" is a file of options")
			}
		}
	}
}

// jqProgram finds jq programs that can read the environment or other files.
func jqProgram(c *SimpleCommand) {
	for i := 1; i < len(c.Words); i++ {
		for _, v := range c.Words[i].Values {
			if why := jqActs(v); why != "" {
				c.danger(i, why)
			}
		}
	}
}

func jqActs(program string) string {
	if strings.Contains(program, "$ENV") || holdsWord(program, "env") {
		return "jq can print the environment"
	}
	for _, directive := range []string{"import", "include", "modulemeta"} {
		for rest := program; holdsWord(rest, directive); {
			_, rest, _ = strings.Cut(rest, directive)
			if next := strings.TrimLeft(rest, " \t\n\r"); next == "" || next[0] == '"' || next[0] == '#' ||
				directive == "modulemeta" {
				return "jq " + directive + " reads other files"
			}
		}
	}
	return ""
}

// dateSets finds arguments with which date sets the clock.
func dateSets(c *SimpleCommand) {
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		switch {
		case c.Words[i-1].Is("--date"), i > 1 && isCluster(&c.Words[i-1]) && strings.HasSuffix(c.Words[i-1].Values[0], "d"):
		case ok && strings.HasPrefix(v, "--"):
			switch flag, _, _ := strings.Cut(v[2:], "="); flag {
			case "utc", "universal", "date", "rfc-3339", "help", "version", "rfc-email":
			default:
				if !strings.HasPrefix("iso-8601", flag) {
					c.danger(i, v+" is not understood")
				}
			}
		case ok && !strings.HasPrefix(v, "+") && !strings.HasPrefix(v, "-"):
			c.danger(i, "it may set the clock")
		}
	}
}

// ps only reads, unless its options show the environment of other programs.
func ps(c *SimpleCommand) {
	c.Effect = Reads
	for i := 1; i < len(c.Words); i++ {
		v, ok := c.Words[i].Value()
		if !ok || !strings.HasPrefix(v, "-") && strings.Contains(v, "e") || strings.Contains(v, "E") ||
			strings.Contains(v, "env") {
			c.Effect, c.Reason = Runs, "ps may show the environment of programs"
		}
	}
}

// A query is a use of a program that only reports something, such as its version. It needs no approval.
type query struct {
	names      string
	sub        string // possible values of the first argument, separated by spaces
	then       string // possible values of the second one; "": it is not restricted
	options    string // the options that may follow; "": nothing may follow
	selectedBy string // files in a project, or above it, that change which program the name runs
	asksGit    bool   // it runs git, which only reads
}

// shims are files of version managers, which install small programs (shims) in front of the real
// ones. A shim runs what a file of the project selects. Files that can only select one of the
// installed versions by its name are harmless; the files listed here can name any path.
const shims = ".tool-versions mise.toml .mise.toml mise .mise .config/mise.toml .config/mise"

var queries = table[query]{names: func(q *query) string { return q.names }, rows: []query{
	{names: "go", sub: "version", selectedBy: shims},
	{names: "node nodejs npm npx corepack pnpm bun tsc php composer perl lua", sub: "--version -v", selectedBy: shims},
	{names: "yarn", sub: "--version -v", selectedBy: shims + " .yarnrc .yarnrc.yml"},
	{names: "deno", sub: "--version -V", selectedBy: shims},
	{names: "python python3 pip pip3 pipx poetry uv uvx pdm hatch tox nox pytest ruff black mypy flake8 pylint isort",
		sub: "--version -V", selectedBy: shims + " .python-version"},
	{names: "cargo rustc rustfmt rustdoc clippy-driver rustup", sub: "--version -V -vV",
		selectedBy: shims + " rust-toolchain rust-toolchain.toml"},
	{names: "ruby gem bundle bundler rake rspec rubocop", sub: "--version -v", selectedBy: shims + " .ruby-version"},
	{names: "java javac", sub: "--version -version", selectedBy: shims},
	{names: "mvn", sub: "--version -v", selectedBy: shims + " .mvn"},
	{names: "gradle kotlin kotlinc scala dotnet swift zig elixir mix ghc stack cabal dart", sub: "--version",
		selectedBy: shims},
	{names: "gcc g++ cc c++ clang clang++ ld make gmake cmake ctest ninja meson protoc buf gdb pkg-config",
		sub: "--version"},
	{names: "docker podman terraform tofu helm gh glab hugo golangci-lint goreleaser", sub: "--version version"},
	{names: "rg fd fdfind jq yq curl wget tar grep sed awk gawk find bash sh zsh fish vim nvim tmux sqlite3 psql mysql " +
		"redis-cli ffmpeg shellcheck shfmt pre-commit hyperfine just bat tree less rsync ssh openssl", sub: "--version"},
	{names: "ssh", sub: "-V"}, {names: "openssl", sub: "version"},
	{names: "npm", sub: "list ls ll la", selectedBy: shims,
		options: "--depth --json --all -a --prod --production --omit --include -g --global --long -l --parseable -p --link " +
			"--dev"},
	{names: "gh", sub: "pr", then: "view diff list ls checks status", asksGit: true, // to find the remotes
		options: "--json --jq -q --comments -c --state -s --limit -L --label -l --author -A --assignee -a --base -B --head " +
			"-H --draft -d --search -S --name-only --patch --color --required --watch --interval -i --conflict-status"},
}}

// reports recognises queries, such as node --version, npm list, gh pr view.
func reports(c *SimpleCommand, name string) bool {
	for _, q := range queries.all(name) {
		if q.matches(c.Words) {
			c.Effect, c.SelectedBy, c.AsksGit = Reads, q.selectedBy, q.asksGit
			return true
		}
	}
	return false
}

func (q *query) matches(words []Word) bool {
	if len(words) < 2 || !words[1].Is(strings.Fields(q.sub)...) || q.options == "" && len(words) > 2 ||
		q.then != "" && (len(words) < 3 || !words[2].Is(strings.Fields(q.then)...)) {
		return false
	}
	for i := 2; i < len(words); i++ {
		v, ok := words[i].Value()
		flag, value, _ := strings.Cut(v, "=")
		if !ok || strings.HasPrefix(v, "-") && !listed(q.options, flag) || jqActs(value) != "" ||
			words[i-1].Is("--jq", "-q") && jqActs(v) != "" {
			return false
		}
	}
	return true
}
