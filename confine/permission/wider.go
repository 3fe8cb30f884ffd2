package permission

import (
	"path"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
)

// wideUses are the beginnings of commands that a person who allows one of them for longer means to allow with other
// operands, too: a program with its subcommand, or a program that does one thing to the project. "*" stands for a word
// that is no option. Interpreters, shells, programs that run another one, and programs of the network are not among
// them, nor what cannot be undone. Options that run other code are never covered, see internal/bash.
var wideUses = strings.Fields(`
git/add git/commit git/branch git/switch git/stash git/fetch
go/build go/test go/vet go/fmt go/mod go/generate go/list
cargo/build cargo/test cargo/check cargo/clippy cargo/fmt cargo/bench cargo/doc
npm/test npm/ci npm/run/* pnpm/test pnpm/run/* yarn/test yarn/run/* bun/test
npx/prettier npx/eslint npx/tsc npx/jest npx/vitest npx/mocha
pytest python/-m/pytest python3/-m/pytest uv/run/pytest poetry/run/pytest
jest vitest mocha eslint prettier tsc ruff mypy black isort flake8 pylint golangci-lint rubocop rspec phpunit
make/* just/* task/* rake/* ninja ctest
gradle/build gradle/test ./gradlew/build ./gradlew/test mvn/test mvn/package mvn/compile mvn/verify
dotnet/build dotnet/test swift/build swift/test mix/test mix/compile mix/format
docker/ps docker/images docker/logs docker/compose/ps docker/compose/logs
terraform/plan terraform/validate terraform/fmt
`)

// Wider returns what a person means who allows a call for longer, given the narrowest rules that allow it: for commands
// the program with its subcommand, for files outside the workspace their directory. Rules for which there is no such
// rule stay as they are. tooWide reports whether a directory, an absolute path, must not be allowed as a whole.
func Wider(rules []string, tooWide func(dir string) bool) []string {
	wide := make([]string, 0, len(rules))
	for _, text := range rules {
		if rule := wider(text, tooWide); !slices.Contains(wide, rule) {
			wide = append(wide, rule)
		}
	}
	return wide
}

func wider(text string, tooWide func(string) bool) string {
	r, err := ParseRule(text, Session)
	if err != nil || r.Any {
		return text
	}
	switch r.Tool {
	case "Bash":
		if use := wideUse(r.Pattern); use != "" {
			return "Bash(" + use + ":*)"
		}
	case "Read", "Edit":
		file, ok := strings.CutPrefix(r.Pattern, "//")
		dir := path.Dir("/" + file)
		if ok && !strings.ContainsAny(file, `*?[\`) && dir != "/" && !tooWide(dir) {
			return r.Tool + "(/" + dir + "/**)"
		}
	}
	return text
}

// wideUse returns the beginning of a command that is among wideUses; "": none is.
func wideUse(command string) string {
	words := strings.Fields(command) // one in quotes is no part of a use
	for _, use := range wideUses {
		begin := strings.Split(use, "/")
		if strings.HasPrefix(use, "./") {
			begin = append([]string{"./" + begin[1]}, begin[2:]...)
		}
		if len(words) < len(begin) {
			continue
		}
		fits := true
		for i, w := range begin {
			fits = fits && (w == words[i] || w == "*" && bash.PlainWord(words[i]) &&
				!strings.HasPrefix(words[i], "-") && !strings.Contains(words[i], "="))
		}
		if fits {
			return strings.Join(words[:len(begin)], " ")
		}
	}
	return ""
}

// RunsGiven reports whether a rule for commands covers a program that runs what it reads, or what its words spell out:
// sh, python -c, xargs, env, sudo, ssh; or that it opens git's own files, in which git is given programs to run. An
// answer makes no such rule, because it would cover far more than the call that was approved: Bash(sh) covers whatever
// is piped into sh, and Edit(.git/config) opens that file to every command. People may write one.
func (r Rule) RunsGiven() bool {
	switch kind, _ := kindOf(r.Tool); {
	case kind == "*":
		return true
	case kind == KindEdit:
		return slices.ContainsFunc(strings.Split(r.Pattern, "/"), func(part string) bool {
			return strings.HasSuffix(strings.ToLower(part), ".git")
		})
	case kind != KindBash:
		return false
	case r.Any:
		return true
	case strings.HasPrefix(wideUse(r.Pattern), "npx "): // a tool that projects use in this way
		return false
	}
	text := strings.TrimSpace(r.Pattern)
	for _, end := range []string{":*", " *", "*"} {
		text = strings.TrimSpace(strings.TrimSuffix(text, end))
	}
	line, err := ParseCommand(text)
	if err != nil || len(line.Commands) == 0 {
		return true
	}
	return slices.ContainsFunc(line.Commands, (*bash.SimpleCommand).RunsGiven)
}
