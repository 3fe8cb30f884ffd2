//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// tried are the pages whose commands run in TestPages, from a clone, in order, and what is printed, in order.
var tried = []struct {
	page    string
	answers []llmtest.Answer
	prints  []string
}{
	{"README.md", nil, []string{
		"csv-report ran offline: 1 of 1 step", "| South  | 4010.75 |", "wrote report.svg", "every test",
	}},
	{"docs/start.md", []llmtest.Answer{llmtest.Reply("Examples of skills.")}, []string{
		"knack version ",
		"csv-report is not used: ", " is not trusted", // the first run
		"scripts/report.sh", // trust --show
		"bash was not run: the rule Bash (flag) requires approval", "1 call refused",
		"1 of 1 step", "wrote report.svg",
		"trusted: 1", "csv-report  project, active",
		"The key of anthropic is stored in", "accepted by anthropic", "Examples of skills.",
		"No request has been made yet", "/csv-report sales.csv", // the sessions
		`"verdict": "allow"`, `"verdict": "ask"`, "exit code 3: it would ask", `"verdict": "allow"`, "mode: ",
	}},
	{"docs/writing.md", nil, []string{
		"1 skill: 0 errors", "trusted: 1", "NAME ", "release-notes", "state         active",
		"wc -w text.txt\n    4 text.txt", "word-count.skill: 1 file", "the skill word-count is installed", "ok ",
		"word-count: sha256:",
	}},
	{"docs/embedding.md", nil, []string{"the host", `"type":"result","subtype":"success"`, "Hosts\n"}},
	{"docs/teams.md", nil, []string{
		"the settings are valid", `"verdict": "deny"`, "exit code 3", "policy.json:3", "6 calls, 0 not as expected",
		"It provides nothing that needs approval.", `"trusted": false`, "a first prompt", `"text":"a first prompt"`,
	}},
	{"docs/editors.md", nil, []string{"8 skills: 0 errors", "the settings are valid"}},
}

// goStandIn answers the go commands of the pages: tests must not build or download. The program is the one under test;
// that of examples/host has a test of its own.
const goStandIn = `#!/bin/sh
case "$*" in
'build ./cmd/knack') ln -s "$PROGRAM" knack ;;
'run ./cmd/knack '*) shift 2; exec knack "$@" ;;
'run ./examples/host --offline') cat >/dev/null; echo the host ;;
'test ./...') echo every test ;;
*) echo "unknown: go $*" >&2; exit 2 ;;
esac
`

// gitStandIn clones what the pages use of the repository.
const gitStandIn = `#!/bin/sh
case "$1" in
clone) mkdir knack && cp -R "$CHECKOUT/examples" knack && "$GIT" -C knack init -q ;;
*) exec "$GIT" "$@" ;;
esac
`

// npmStandIn installs nothing.
const npmStandIn = "#!/bin/sh\n[ \"$1\" = install ]\n"

// TestPages runs the command blocks of the pages for users as they stand, each page in one shell and with a home of
// its own. What they leave in the clone is ignored by git.
func TestPages(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("knack")
	if err != nil {
		t.Fatal(err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := os.ReadFile(filepath.Join(checkout, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, text := range map[string]string{"go": goStandIn, "git": gitStandIn, "npm": npmStandIn} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range tried {
		t.Run(strings.ReplaceAll(p.page, "/", "-"), func(t *testing.T) {
			t.Parallel()
			d := keyless(t, serve(t, p.answers...))
			commands := blocks(page(t, p.page))
			if !strings.HasPrefix(commands, "git clone ") {
				commands = "git clone ADDRESS && cd knack\n" + commands
			}
			c := exec.Command("sh", "-eu", "-c", strings.ReplaceAll(commands,
				"knack login", "echo "+llmtest.Key+" | knack login")) // the user types the key
			c.Dir = d.dir
			c.Env = append(d.env, "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir(),
				"PROGRAM="+program, "GIT="+git, "CHECKOUT="+checkout)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			at := 0
			for _, want := range p.prints {
				i := strings.Index(string(out[at:]), want)
				if i < 0 {
					t.Fatalf("no %q after byte %d of\n%s", want, at, out)
				}
				at += i + len(want)
			}
			left, err := os.ReadDir(filepath.Join(d.dir, "knack"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range left {
				if name := e.Name(); name != "examples" && name != ".git" && !strings.Contains(string(ignored), "/"+name+"\n") {
					t.Errorf("the commands left %s in the clone", name)
				}
			}
		})
	}
}

// TestReadmes: the README in Chinese has the same commands and leads to the same pages, and the skill in both is one
// without problems.
func TestReadmes(t *testing.T) {
	t.Parallel()
	names := [...]string{"README.md", "README.zh-CN.md"}
	var all [len(names)]string
	for i, name := range names {
		all[i] = page(t, name)
		_, rest, _ := strings.Cut(all[i], "```markdown\n")
		skill, _, _ := strings.Cut(rest, "```\n")
		dir := filepath.Join(t.TempDir(), "standup")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(skill), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		code := run(t.Context(), []string{"skill", "check", dir}, strings.NewReader(""), &out, &errs)
		if code != 0 || !strings.Contains(out.String(), "1 skill: 0 errors, 0 warnings") {
			t.Errorf("the skill of %s: %d\n%s%s", name, code, out.String(), errs.String())
		}
	}
	if a, b := blocks(all[0]), blocks(all[1]); a != b {
		t.Errorf("the commands differ:\n%s\nand\n%s", a, b)
	}
	for _, p := range tried[1:] {
		if !strings.Contains(all[0], "]("+p.page+")") || !strings.Contains(all[1], "]("+p.page+")") {
			t.Errorf("a README does not lead to %s", p.page)
		}
	}
}

// TestPageCommands: the commands and flags of knack that pages name are there.
func TestPageCommands(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", ".github/*.md", "bench/*.md"} {
		names, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range knackLines(string(text)) {
				seen++
				if word := unknownWord(line); word != "" {
					t.Errorf("%s: knack %s: there is no %s", strings.TrimPrefix(name, "../../../"), line, word)
				}
			}
		}
	}
	if seen < 150 {
		t.Errorf("only %d commands are seen", seen)
	}
}

// knackLines returns the words after "knack" in indented blocks, and in code within a line.
func knackLines(text string) []string {
	var lines []string
	add := func(code string) {
		code = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(code), "$ "), "./")
		if rest, ok := strings.CutPrefix(code, "knack "); ok {
			if i := strings.IndexAny(rest, "#|>;&"); i >= 0 {
				rest = rest[:i]
			}
			lines = append(lines, rest)
		}
	}
	for block := range strings.SplitSeq(blocks(text), "\n") {
		add(block)
	}
	for i, code := range strings.Split(text, "`") {
		if i%2 == 1 {
			add(strings.ReplaceAll(code, "\n", " "))
		}
	}
	return lines
}

// unknownWord returns the first command or flag of a line that the program does not have.
func unknownWord(line string) string {
	words := strings.Fields(regexp.MustCompile(`'[^']*'`).ReplaceAllString(line, "TEXT"))
	if len(words) == 0 {
		return ""
	}
	root := rootCommand([]string{"--help"})
	root.InitDefaultHelpCmd()
	c, rest, err := root.Find(words)
	if err != nil {
		return words[0]
	}
	word := regexp.MustCompile(`^[a-z]+$`)
	if (c == root || c.HasSubCommands() && !c.Runnable()) && len(rest) > 0 && word.MatchString(rest[0]) {
		return rest[0]
	}
	c.InitDefaultHelpFlag()
	for _, flag := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllStringSubmatch(strings.Join(rest, " "), -1) {
		if c.Flags().Lookup(flag[1]) == nil && c.InheritedFlags().Lookup(flag[1]) == nil {
			return flag[0]
		}
	}
	return ""
}

// page returns the text of a page, by its path from the root of the repository.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the lines of a Markdown text that are indented as code. In a fence nothing is.
func blocks(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if code, ok := strings.CutPrefix(line, "    "); ok && !fenced {
			b.WriteString(code)
		}
	}
	return b.String()
}
