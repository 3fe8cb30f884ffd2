package bash

import (
	"path"
	"strings"
)

// A program lists the options of a program with which it runs other code than its name and operands
// indicate: another program, script, plugin or interpreter, or a configuration that names one. No
// prefix or wildcard of a rule covers these options.
//
// Lists of options are separated by spaces. The text after "?" restricts the option to some values:
// those that contain the text, or with "!" those that do not begin with it. A final "*" means that
// a word needs only to begin with the option.
type program struct {
	names  string
	runs   string // options that run other code
	dirs   string // options that name a directory to work in: covered if it is inside the workspace
	writes string // options that name a file to write, besides usualOutputs: covered inside the workspace and in /tmp
	value  string // letters of options with a value; such an option ends a cluster of letters
	script string // subcommands whose first operand is a script; the words after it are for the script; "*": all uses
	dashes string // subcommands after which the words behind -- are for another program; "*": all
	plain  string // with abbrev: options that do not count as abbreviations of an option in runs

	abbrev   bool // long options may be abbreviated
	words    bool // options are words after a single dash: -exec, -exec=x, -exec:x
	vars     bool // NAME=value sets a build variable
	delegate bool // the first operand may be another program in the table
	code     bool // an interpreter: a rule for all its uses covers these options too

	operand func(v string) bool // reports whether an operand makes it run other code
	places  string              // operands that name what it writes: "all", "last" (of several)
	first   string              // places counts only if the first operand is one of these
}

var programs = table[program]{names: func(p *program) string { return p.names }, rows: []program{
	// Package managers and script runners.
	{names: "npm", abbrev: true, plain: "--global", dashes: "*", writes: "--cache --logs-dir --pack-destination",
		runs: "--script-shell --prefix -C --node-options --userconfig --globalconfig --git --shell --editor --viewer " +
			"--browser --init-module --python --node-gyp --call -c"},
	{names: "pnpm", dashes: "*", script: "run", delegate: true, dirs: "-C --dir",
		writes: "--store-dir --cache-dir --state-dir --virtual-store-dir --modules-dir --global-dir",
		runs: "--script-shell --prefix --node-options --userconfig --globalconfig --config.script-shell " +
			"--config.node-options --npmrc-auth-file --pnpmfile --global-pnpmfile --shell-mode -c --use-node-version"},
	{names: "yarn yarnpkg", dashes: "*", script: "run", delegate: true, dirs: "--cwd",
		writes: "--cache-folder --modules-folder --link-folder --global-folder",
		runs:   "--script-shell --use-yarnrc --node-options --prefix --require"},
	{names: "bun", script: "run", delegate: true, dirs: "--cwd", code: true,
		runs: "--preload -r --require --import --config -c --env-file --shell -e --eval -p --print"},
	{names: "deno", writes: "--coverage", script: "run serve", code: true,
		runs: "--config -c --import-map --preload --require --env-file --node-options"},
	{names: "pip pip3", abbrev: true, runs: "--python",
		writes: "-t --target --root --log --report -d -w --wheel-dir"},
	{names: "uv uvx", runs: "--python?/ -p?/ --config-file --env-file", dirs: "--directory --project"},
	{names: "poetry", dirs: "-C --directory -P --project"},
	{names: "pdm hatch", runs: "--config -c", dirs: "--project -p"},
	{names: "pipx", runs: "--python --pip-args"},
	{names: "composer", dirs: "-d --working-dir"},
	{names: "turbo", dirs: "--cwd"},
	{names: "gem", runs: "--config-file"},
	// Build tools.
	{names: "make gmake bmake", abbrev: true, vars: true, value: "CfIjloW",
		runs: "-f --file --makefile --eval -E -I --include-dir -e --environment-overrides", dirs: "-C --directory"},
	{names: "ninja", value: "Cfjkltw", runs: "-f", dirs: "-C"},
	{names: "cmake", writes: "-B --graphviz", dirs: "-S --build",
		runs: "-P -C -E --toolchain -D?COMPILER= -D?LAUNCHER -D?COMMAND -D?PROGRAM -D?INCLUDE -D?MODULE_PATH " +
			"-D?TOOLCHAIN --trace-redirect"},
	{names: "ctest", runs: "-S -SP --script --build-and-test"},
	{names: "meson", runs: "--native-file --cross-file --wrapper --wrap", dirs: "-C"},
	{names: "just", dashes: "*", runs: "-f --justfile --shell --shell-arg --set -c --command --chooser --dotenv-path " +
		"--dotenv-filename", dirs: "-d --working-directory"},
	{names: "task go-task", dashes: "*", runs: "-t --taskfile -g --global", dirs: "-d --dir"},
	{names: "mage", words: true, runs: "-gocmd", dirs: "-d -w"},
	{names: "rake", runs: "-f --rakefile -r --require -I --libdir -R --rakelib -e --execute -E --execute-continue -p " +
		"--execute-print"},
	{names: "gulp grunt", runs: "-f --gulpfile -r --require --preload --gruntfile --tasks --base", dirs: "--cwd"},
	{names: "ant", words: true, runs: "-f -file -buildfile -lib -logger -listener -propertyfile -inputhandler"},
	{names: "scons", runs: "-f --file --makefile --sconstruct --site-dir", dirs: "-C --directory"},
	{names: "gradle gradlew", runs: "-I --init-script -b --build-file -c --settings-file --include-build -g " +
		"--gradle-user-home -D?org.gradle -P?org.gradle", dirs: "-p --project-dir"},
	{names: "mvn mvnw mvnd", operand: isPluginGoal,
		runs: "-f --file -s --settings -gs --global-settings -t --toolchains -gt --global-toolchains " +
			"-D?exec. -D?maven.ext -D?maven.home -D?argLine -D?jvm -D?java"},
	{names: "bazel bazelisk", runs: "--bazelrc --run_under --workspace_status_command --override_repository " +
		"--override_module --shell_executable --script_path --tool_java_runtime_version"},
	{names: "sbt", runs: "-java-home -sbt-jar -sbt-launch-repo -addPluginSbtFile --addPluginSbtFile"},
	{names: "goreleaser", runs: "-f --config"},
	{names: "hugo", writes: "-d", runs: "--config --configDir", dirs: "-s --source"},
	{names: "jekyll", writes: "-d", runs: "--config --plugins -p", dirs: "-s --source"},
	{names: "mkdocs", writes: "-d --site-dir", runs: "-f --config-file"},
	{names: "sphinx-build", runs: "-c -D --define -C"},
	// Languages: their build and test commands.
	{names: "go", words: true, script: "run", dirs: "-C",
		writes: "-outputdir -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace -pkgdir " +
			"-test.outputdir -test.coverprofile -test.cpuprofile -test.memprofile -test.blockprofile -test.mutexprofile " +
			"-test.trace -test.testlogfile -test.gocoverdir -test.fuzzcachedir",
		runs: "-exec -toolexec -vettool -modfile -overlay -ldflags?ext -gccgoflags -w -fixtool -compiler -args"},
	{names: "cargo cross", value: "pFjC", dashes: "run test bench nextest", operand: isToolchainPath,
		runs: "--config -Z -C?linker -C?codegen-backend --target?.json --config-file --tool-config-file --archive-file " +
			"--binaries-metadata --cargo-metadata",
		dirs: "-C --manifest-path --path", writes: "--target-dir --artifact-dir --root"},
	{names: "rustc", runs: "-C?linker -C?link-arg -C?codegen-backend --codegen -Z --sysroot"},
	{names: "swift", runs: "--toolchain -Xlinker -Xcc --disable-sandbox", dirs: "--package-path"},
	{names: "dotnet", writes: "--artifacts-path", dirs: "--project",
		runs: "--test-adapter-path --settings -p?Custom -p?Before -p?After --property?Custom"},
	{names: "gcc g++ cc c++ clang clang++", words: true, operand: isOptionFile,
		runs: "-B* -specs -wrapper -fplugin -fuse-ld -Xclang -load --config"},
	{names: "protoc", abbrev: true, runs: "--plugin", operand: isOptionFile, writes: "--descriptor_set_out --cpp_out " +
		"--go_out --java_out --js_out --python_out --ruby_out --grpc_out --go-grpc_out --ts_out"},
	{names: "sqlite3", words: true, runs: "-init -cmd", operand: isSQLiteFunction},
	{names: "psql", runs: `-f --file -c?\! --command?\! -c?\copy --command?\copy -c?\i --command?\i -c?\o ` +
		`--command?\o -c?\g`, writes: "-L"},
	{names: "mysql mariadb", operand: isShellCommand, writes: "--tee",
		runs: `-e?\ --execute?\ -e?system --execute?system -e?source --execute?source --defaults-file ` +
			`--defaults-extra-file --init-command --pager --plugin-dir`},
	{names: "pg_dump pg_dumpall mysqldump", writes: "-f --file -r --result-file"},
	{names: "redis-cli", writes: "--rdb --functions-rdb"},
	{names: "openssl", words: true, writes: "-out -keyout -writerand", runs: "-engine -provider -provider-path -config"},
	{names: "buf", runs: "--template --config"},
	{names: "gotestsum", words: true, runs: "--raw-command --post-run-command -exec -toolexec -vettool"},
	{names: "golangci-lint", writes: "--out --output*", runs: "-c --config"},
	{names: "javac kotlinc", words: true, writes: "-d -s -h", operand: isOptionFile,
		runs: "-J* -processorpath --processor-path -processor -script -Xplugin* -Xbootclasspath*"},
	{names: "pandoc", abbrev: true, writes: "--extract-media",
		runs: "-F --filter -L --lua-filter --pdf-engine -d --defaults --data-dir -t?.lua --to?.lua -f?.lua --from?.lua"},
	{names: "hg", runs: "--config --rsh -e --ssh --remotecmd --cwd -R --repository"},
	{names: "svn", runs: "--diff-cmd --diff3-cmd --editor-cmd --config-option --config-dir -F --file"},
	{names: "jj", runs: "--config --config-file --config-toml -R --repository --tool"},
	{names: "yq", runs: "--from-file"},
	{names: "bat batcat", runs: "--pager --config-file"},
	{names: "ssh-keygen", runs: "-D -w -P", writes: "-f"},
	{names: "ssh-add", runs: "-s -e"},
	{names: "gpg gpg2", runs: "--photo-viewer --exec-path --gpgconf-path --agent-program " +
		"--dirmngr-program --keyserver-options --load-extension --options --homedir"},
	{names: "patch", writes: "-d --directory -r --reject-file"},
	// Tests and linters.
	{names: "pytest py.test", writes: "--junitxml --junit-xml --basetemp --debug --report-log --html",
		operand: isOptionFile, runs: "-p?!no: -c --config-file --rootdir --confcutdir -o --override-ini --pdbcls " +
			"--cov-config",
		value: "kmnpcorW"},
	{names: "tox", dashes: "*", runs: "-c --conf --override -x --runner", dirs: "--root"},
	{names: "nox", dashes: "*", runs: "-f --noxfile --force-python --default-venv-backend"},
	{names: "mypy", writes: "--junit-xml --html-report --xml-report --txt-report --cache-dir",
		runs: "--config-file --python-executable --custom-typeshed-dir", abbrev: true},
	{names: "flake8", runs: "--config --append-config --enable-extensions"},
	{names: "pylint", runs: "--rcfile --init-hook --load-plugins"},
	{names: "coverage", writes: "-d --directory --data-file", runs: "--rcfile"},
	{names: "pre-commit pre_commit", runs: "-c --config"},
	{names: "jest", runs: "-c --config --globalSetup --globalTeardown --setupFiles --setupFilesAfterEnv --runner?/ " +
		"--testRunner --transform --reporters?/ --preset?/ --testEnvironment?/ --resolver --watchPlugins --testSequencer " +
		"--filter " +
		"--prettierPath --snapshotSerializers --dependencyExtractor --haste --projects", dirs: "--rootDir"},
	{names: "vitest", runs: "-c --config --environment?/ --runner?/ --reporter?/ --globalSetup --setupFiles",
		dirs: "-r --root --dir"},
	{names: "mocha", runs: "-r --require --config --package --file --import --loader --experimental-loader -n " +
		"--node-option " +
		"--ui?/ -u?/ --reporter?/ -R?/"},
	{names: "eslint", writes: "--cache-location --cache-file",
		runs: "-c --config --rulesdir --plugin --parser --resolve-plugins-relative-to --format?/ -f?/"},
	{names: "prettier", runs: "--config --plugin --plugin-search-dir --find-config-path"},
	{names: "webpack", writes: "--output-path", runs: "-c --config --config-registration --entry-preload",
		dirs: "--context"},
	{names: "vite", runs: "-c --config --configLoader"},
	{names: "rollup", writes: "--file -d --dir", runs: "-p --plugin --configPlugin -c --config"},
	{names: "stylelint",
		runs: "--config --custom-syntax --plugins --formatter?/ -f?/ --custom-formatter --config-basedir"},
	{names: "postcss", writes: "-d --dir", runs: "--config -u --use --parser --syntax --stringifier"},
	{names: "tailwindcss tailwind", runs: "-c --config --postcss"},
	{names: "svgo terser", runs: "--config --config-file"},
	{names: "tsup", writes: "-d", runs: "--config --onSuccess --on-success --plugin"},
	{names: "tsc", writes: "--declarationDir --tsBuildInfoFile"},
	{names: "esbuild", writes: "--metafile", runs: "--plugin"},
	{names: "playwright cypress ava storybook c8", runs: "-c --config --config-file --require"},
	{names: "typedoc browserify", writes: "--out", runs: "--plugin --options -t --transform -p -g"},
	{names: "commitlint semantic-release release-it", runs: "-x --extends -e -g --config -c --parser-preset --hooks*"},
	{names: "standard-version", runs: "--scripts*"},
	{names: "babel", writes: "-d", runs: "--config-file --presets --plugins --root-mode"},
	{names: "phpunit", runs: "-c --configuration --bootstrap --include-path --loader --extension --printer"},
	{names: "rspec", runs: "-r --require -I -O --options"},
	{names: "rubocop", runs: "-r --require -c --config --plugin"},
	// Infrastructure.
	{names: "docker podman nerdctl docker-compose podman-compose", dirs: containerDirs,
		writes: "--cidfile --iidfile --metadata-file",
		runs: "--privileged --cap-add --security-opt --device --pid?host --userns?host --mount?src=/ --mount?source=/ " +
			"--mount?=.."},
	{names: "terraform tofu", words: true, runs: "-plugin-dir", dirs: "-chdir"},
	{names: "helm", writes: "-d", runs: "--post-renderer --kubeconfig"},
	{names: "kubectl oc kustomize", runs: "--kubeconfig --enable-exec --enable-alpha-plugins --helm-command"},
	{names: "gh", writes: "-D --dir -O", runs: "--upload-pack -u?/"},
	{names: "ansible-playbook ansible", runs: "--vault-password-file --vault-id -M --module-path --connection -c " +
		"--ssh-common-args --ssh-extra-args --scp-extra-args --sftp-extra-args"},
	// Interpreters.
	{names: "node nodejs", script: "*", code: true, value: "rC",
		runs: "-r --require --import --loader --experimental-loader -e --eval -p --print -pe --env-file " +
			"--env-file-if-exists --experimental-config-file --openssl-config --snapshot-blob --build-snapshot --run"},
	{names: "tsx ts-node", script: "*", code: true,
		runs: "-r --require --import --loader -e --eval -p --print -C --compiler " +
			"-P --project --tsconfig --cwd"},
	{names: "python python2 python3 pypy pypy3", script: "*", code: true, value: "cmWX", runs: "-c -m -i"},
	{names: "ruby jruby", script: "*", code: true, value: "erICxX", runs: "-e -r -I -x -C -X -S"},
	{names: "perl", script: "*", code: true, value: "eEMmIxdDCF", runs: "-e -E -M -m -I -x -d -C"},
	{names: "php", script: "*", code: true, runs: "-r -B -R -E -F -d -c -z -S -f"},
	{names: "lua luajit", script: "*", code: true, runs: "-e -l -i"},
	{names: "julia Rscript R", script: "*", code: true, runs: "-e -E -L -J -f --eval --load --sysimage --file"},
	{names: "java", words: true, script: "*", code: true,
		runs: "-cp -classpath --class-path -jar -javaagent -agentlib -agentpath " +
			"--module-path -XX?OnError -XX?OnOutOf"},
	{names: "elixir", script: "*", code: true, runs: "-e -r -S -pr -pa -pz --eval --require"},
}}

// anyProgram describes the programs that are not in the table.
var anyProgram program

const (
	// Options that name a file to write, of all programs.
	usualOutputs = "-o --output --output-file --output-dir --output-directory --outfile --out-file --outdir --out-dir " +
		"--outDir --outFile --dest --destination --log-file"
	notFiles      = "find fd fdfind test [ mount ps lsof ssh scp sftp" // the usual options mean something else
	containerDirs = "-v --volume"                                      // source:target
)

// otherCode records the words that make a program run other code. from is the index of the
// program's name; its arguments follow. open means that a rule for all uses of the command covers
// these words.
func otherCode(c *SimpleCommand, from int, open bool) {
	name, ok := c.Words[from].Value()
	if !ok {
		return
	}
	name = unversioned(path.Base(name))
	p := programs.row(name)
	if p == nil {
		if c.Effect != Runs || writers.row(name) != nil || listed(notFiles, name) {
			return
		}
		p = &anyProgram
	}
	p.record(c, name, from, open)
}

// record records the words that make a program run other code or write elsewhere, see [otherCode].
func (p *program) record(c *SimpleCommand, name string, from int, open bool) {
	open = open || p.code
	sets := from+2 < len(c.Words) &&
		(c.Words[from+1].Is("set") || c.Words[from+1].Is("config") && c.Words[from+2].Is("set"))
	mark := func(word int, what string) {
		c.Danger = append(c.Danger, Danger{Word: word, Reason: name + " " + what + " can make it run other code", Open: open})
	}
	if p.places != "" {
		p.placed(c, name, from)
	}
	sub, operands := "", 0
	for i := from + 1; i < len(c.Words); i++ {
		next := ""
		if i+1 < len(c.Words) {
			next, _ = c.Words[i+1].Value()
		}
		for _, v := range spellings(&c.Words[i]) {
			if len(v) < 2 || v[0] != '-' {
				continue
			}
			if v == "--" && covers(p.dashes, sub) {
				return
			}
			if option, _, inWord := p.option(p.runs, v, next); option != "" {
				mark(i, option)
				if inWord || i+1 >= len(c.Words) {
					continue
				}
				if option == "-m" && p.code {
					otherCode(c, i+1, open) // python -m pytest
					return
				}
				mark(i+1, option)
			} else if option, dir, inWord := p.option(p.dirs, v, next); option != "" {
				if p.dirs == containerDirs {
					dir, _, _ = strings.Cut(dir, ":")
				}
				if !inWord && i+1 >= len(c.Words) {
					continue // it has no value
				}
				c.Danger = append(c.Danger, Danger{Word: i, Reason: name + " " + option + " leaves the workspace", Dir: dir})
			} else {
				option, file, inWord := p.option(p.writes, v, next)
				if option == "" && !c.Git { // git's subcommands use the letter for other things
					option, file, inWord = p.option(usualOutputs, v, next)
				}
				switch {
				case option == "" || p == &anyProgram && file == "":
				case inWord:
					c.writesTo(i, file, name+" "+option)
				case i+1 < len(c.Words):
					c.writesTo(i+1, file, name+" "+option)
				}
			}
		}
		v, ok := c.Words[i].Value()
		if ok && len(v) > 1 && v[0] == '-' || !ok && c.Words[i].Dash {
			continue
		}
		if operands++; operands == 1 {
			sub = v
		}
		if p.script == "*" || operands == 2 && p.script != "" && covers(p.script, sub) {
			if p.delegate {
				otherCode(c, i, open)
			}
			return
		}
		key, value, has := strings.Cut(v, "=")
		switch {
		case p.vars && has && (makeProgram(key) || strings.ContainsAny(value, "$`;|&<>(){}!\\\"'\n")):
			mark(i, key+"=")
		case sets:
			if option, _, _ := p.option(p.runs, "--"+key, ""); option != "" {
				mark(i, key)
			}
		case p.operand != nil && p.operand(v):
			mark(i, v)
		case operands == 1 && p.delegate:
			otherCode(c, i, open)
		}
	}
}

// writesTo records a word that names a file or directory that is written.
func (c *SimpleCommand) writesTo(word int, path, what string) {
	c.Danger = append(c.Danger, Danger{Word: word, Dir: path, Write: true,
		Reason: what + " writes outside the workspace or to a protected path"})
}

// placed records the operands that name what a program writes.
func (p *program) placed(c *SimpleCommand, name string, from int) {
	var operands []int
	for i := from + 1; i < len(c.Words); i++ {
		if v, ok := c.Words[i].Value(); !ok || v != "" && v[0] != '-' {
			operands = append(operands, i)
		}
	}
	switch {
	case p.first != "" && (len(operands) == 0 || !c.Words[operands[0]].Is(strings.Fields(p.first)...)):
		return
	case p.places == "last" && len(operands) < 2:
		return
	case p.places == "last":
		operands = operands[len(operands)-1:]
	}
	for _, i := range operands {
		v, ok := c.Words[i].Value()
		if ok && strings.Contains(v, ":") {
			continue // an address
		}
		if base := strings.TrimSuffix(v, ".git"); base != "" && !strings.HasSuffix(base, "/") {
			v = base // a bare repository, which is no part of another one
		}
		c.writesTo(i, v, name)
	}
}

// isToolchainPath recognises a Rust toolchain that is given by its path.
func isToolchainPath(v string) bool { return strings.HasPrefix(v, "+") && strings.Contains(v, "/") }

// isOptionFile recognises a file of options.
func isOptionFile(v string) bool { return strings.HasPrefix(v, "@") }

// isDotCommand recognises a command of the sqlite shell, such as .shell, which runs a program.
func isDotCommand(v string) bool {
	v = strings.TrimSpace(v)
	return len(v) > 1 && v[0] == '.' && v[1] >= 'a' && v[1] <= 'z' || strings.Contains(v, "\n.")
}

// isPluginGoal recognises a goal of a Maven plugin that can be any (group:artifact:version:goal) or runs what it is
// told to.
func isPluginGoal(v string) bool {
	plugin, _, _ := strings.Cut(v, ":")
	return strings.Count(v, ":") > 1 || listed("exec antrun groovy gmaven", plugin)
}

// isShellCommand recognises a command of the mysql shell that runs a program, reads a file or writes one.
func isShellCommand(v string) bool {
	for _, s := range [...]string{`\!`, "system ", `\.`, "source ", `\T`, "tee ", `\P`, "pager "} {
		if strings.HasPrefix(strings.TrimSpace(v), s) || strings.Contains(v, ";"+s) || strings.Contains(v, "; "+s) {
			return true
		}
	}
	return false
}

// isSQLiteFunction recognises SQL that runs code or uses files.
func isSQLiteFunction(v string) bool {
	v = strings.ToLower(v)
	for _, s := range [...]string{"load_extension", "readfile", "writefile", "edit(", "attach", "fsdir"} {
		if strings.Contains(v, s) {
			return true
		}
	}
	return isDotCommand(v)
}

// covers reports whether a subcommand is in a list, or the list is "*", for all subcommands.
func covers(list, sub string) bool { return list == "*" || listed(list, sub) }

// spellings returns the values that a word may have or, if unknown, what it begins with.
func spellings(w *Word) []string {
	if w.Values == nil && w.Prefix != "" {
		return []string{w.Prefix}
	}
	return w.Values
}

// option finds an option of list in a word, and its value: the rest of the word (inWord) or the
// next word. "" means that none matches.
func (p *program) option(list, word, next string) (option, value string, inWord bool) {
	if list == "" {
		return "", "", false
	}
	ends := "="
	if p.words {
		ends = "=:"
	}
	flag, rest := word, ""
	if i := strings.IndexAny(word, ends); i > 0 {
		flag, rest, inWord = word[:i], word[i+1:], true
	}
	if p.words && strings.HasPrefix(flag, "--") {
		flag = flag[1:]
	}
	for entry := range strings.FieldsSeq(list) {
		name, when, conditional := strings.Cut(entry, "?")
		prefix, begins := strings.CutSuffix(name, "*")
		value, in := rest, inWord
		switch {
		case flag == name || p.words && "-"+flag == name:
		case begins && strings.HasPrefix(word, prefix):
			in, value = true, word[len(prefix):]
		case p.abbrev && len(flag) > 2 && strings.HasPrefix(flag, "--") && strings.HasPrefix(name, flag) &&
			!listed(p.plain, flag):
		case len(name) == 2 && !p.words && word[1] != '-':
			k := p.letter(word, name[1])
			if k < 0 {
				continue
			}
			value, in = strings.TrimPrefix(word[k+1:], "="), k+1 < len(word)
		default:
			continue
		}
		if !in {
			value = next
		}
		if conditional {
			if not, ok := strings.CutPrefix(when, "!"); ok && strings.HasPrefix(value, not) || !ok &&
				!strings.Contains(value, when) {
				continue
			}
		}
		return name, value, in
	}
	return "", "", false
}

// letter returns the index of an option letter in a cluster, -1 if it is not there.
func (p *program) letter(word string, c byte) int {
	if word[1] == c {
		return 1
	}
	if p.value == "" {
		return -1 // this program has no clusters
	}
	for k := 1; k < len(word); k++ {
		if word[k] == c {
			return k
		}
		if strings.IndexByte(p.value, word[k]) >= 0 || word[k] == '=' {
			return -1
		}
	}
	return -1
}

// makePrograms are build variables that name a program or control make itself.
const (
	makePrograms = "SHELL .SHELLFLAGS MAKEFILES MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKE VPATH CC CXX CPP LD AR AS NM RANLIB " +
		"STRIP OBJCOPY FC YACC LEX INSTALL RM CP MV GO GOFMT CARGO RUSTC PYTHON PYTHON3 PIP NODE NPM NPX YARN PNPM RUBY " +
		"PERL DOCKER PODMAN GIT CURL BASH SH ENV SUDO"
	makeProgramEnds = "_CMD _COMMAND _BIN _SHELL _EXE _PROG _PROGRAM _RUNNER _TOOL _WRAPPER _LAUNCHER"
)

// makeProgram reports whether a build variable names a program or controls make itself.
func makeProgram(name string) bool {
	upper := strings.ToUpper(name)
	for end := range strings.FieldsSeq(makeProgramEnds) {
		if strings.HasSuffix(upper, end) {
			return true
		}
	}
	return listed(makePrograms, name)
}
