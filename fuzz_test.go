package knack

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/knack-agent/knack/internal/leaf/frontmatter"
)

// FuzzFrontmatter: untrusted files never panic, what is kept is valid, deviations from the text are reported, and
// nothing is repaired where a plain reader accepts the YAML.
func FuzzFrontmatter(f *testing.F) {
	for _, s := range []string{
		"---\nname: a\ndescription: b\n---\nBody.\n",
		"\ufeff\r\n---\r\nname: a\r\n---\r\nBody.\r\n",
		"---\ndescription: a: b\nargument-hint: [a] [b]\n---\n",
		"---\ndescription: \"a \"b\" c\"\nmetadata:\n\tk: v\n---\n",
		"---\ndescription: > text\n  more\n---\n",
		"---\nx: \"\\ud83d\\ude00 \\ud83d\"\nname: 'it's'\n---\n",
		"---\na: &a [*a]\nb: *a\n---\n",
		"---\nhooks:\n  Stop:\n    - hooks:\n        - type: command\n          command: x\n---\n",
		"---\nallowed-tools: Bash(git\n---\n",
		"---\n- a\n- b\n---\n",
		"---\n0: \"\n---\n",
		"---\n0:\n---\xc7",
		"---\nname: a\n<<<<<<< a\ndescription: b\n=======\ndescription: c\n>>>>>>> b\n---# T\n",
		"```markdown\n---\nname: a\ndescription: \"C:\\Users\\tools\"\n---\nText\n```\n",
		"<!-- c -->\n# T\n---\nname: a\ndescription: b\r---\rBody.\n",
		"---name: a\rallowed-tools: >\r - Read\r -\r--- Body",
		"--- \n[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n---\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, body, problems := parseFile("x/SKILL.md", data, Origin{})
		if s == nil {
			if len(problems) == 0 {
				t.Fatal("not loaded, without a problem")
			}
			return
		}
		if !utf8.Valid(body) || !utf8.ValidString(s.Description) {
			t.Fatal("not UTF-8")
		}
		for _, f := range s.Fields() {
			if !json.Valid(f.Value) {
				t.Fatalf("%s: %q is not JSON", f.Key, f.Value)
			}
		}
		if s.Hooks != nil && !json.Valid(s.Hooks) {
			t.Fatalf("hooks: %q is not JSON", s.Hooks)
		}
		for _, p := range problems {
			if p.Hint == "" || p.Message == "" || p.Line < 0 || p.Column < 0 {
				t.Fatalf("the problem has no hint: %+v", p)
			}
		}
		if fields, ok := plainFields(data); ok && utf8.Valid(data) {
			for _, p := range problems {
				if p.Code == "yaml-repaired" && len(frontmatter.Split(data).Notes) == 0 && !bytes.Contains(data, []byte(`:\`)) {
					t.Fatalf("a plain reader reads %v; our problems: %v", fields, p)
				}
			}
		}
		// If the head is sufficient, its result equals that of the whole file.
		for n := headSize; ; n *= 2 {
			part := data[:min(n, len(data))]
			if len(part) < len(data) && !isComplete(part) {
				continue
			}
			head, _ := new(headReader).parse("x/SKILL.md", part, int64(len(data)), Origin{})
			if head == nil || len(head.fields) != len(s.fields) || len(data) <= maxFrontmatter && head.Summary() != s.Summary() {
				t.Fatal("head and file differ")
			}
			if len(part) == len(data) {
				break
			}
		}
	})
}

// FuzzExpand: a text without placeholders is unchanged, values are never scanned again, and the shell line contains
// no text of an argument.
func FuzzExpand(f *testing.F) {
	for _, s := range [][2]string{
		{"a $ARGUMENTS b $0 $1k $5.00 \\$2 {baseDir}", "x 'y z' #42"},
		{"!`echo $ARGUMENTS`", "; id"},
		{"```!\ncat <<EOF\n$0\nEOF\n```\n", "$(id)"},
		{"!`echo \"$ARGUMENTS\" '$0' $issue`", "\"; id; \""},
		{"``` \n!`x`\n```\n!`awk \"{print $0}\" f`", "a b"},
		{"!`a=($ARGUMENTS); echo ${a[$0]}`", "-rf"},
		{"${@:2:1} ${1:-x} $@", "a b"},
		{"```!\n<<0\n$00\n\n```", "0"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, text, args string) {
		ExpandTemplate(text, args)
		const canary = "\x02canary\x02"
		args = strings.ReplaceAll(args, "\x02", "")
		sc := scanner{names: []string{"issue"}}
		var whole strings.Builder
		v := newValues(args+" "+canary, map[string]string{"CLAUDE_SKILL_DIR": "/s"})
		for _, tok := range sc.scan(text) {
			whole.WriteString(tok.raw)
			if tok.kind != command || strings.Contains(tok.text, "\x02") {
				continue
			}
			line, _, _, err := sc.prepare(tok.text, &v, false)
			if err != nil || line.env == nil {
				continue
			}
			if strings.Contains(line.line, canary) {
				t.Fatalf("%q: an argument is part of the line %q", tok.text, line.line)
			}
			if _, err := syntax.NewParser().Parse(strings.NewReader(line.line), ""); err != nil {
				t.Fatalf("%q became %q, which does not parse: %v", tok.text, line.line, err)
			}
		}
		if whole.String() != text {
			t.Fatalf("the tokens of %q are %q", text, whole.String())
		}
	})
}

// FuzzSplitTools: no rule is made from parts of another, and blanks outside parentheses are removed.
func FuzzSplitTools(f *testing.F) {
	for _, s := range []string{"Bash(git status:*), Read", "Bash(git:*) Read", "Bash (git:*)", "Bash(git",
		`Bash(echo "a)b") X`, "*", "Read,,Write", "Bash(it's) Y(don't)", "[Read, Write]", "'a b'", "0\v 0", "'0\f0'",
		"0 \u00850", "'0(()'", "')(()'", "'A(b) C(d)'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		rules, open := splitTools(s)
		for _, r := range rules {
			if r == "" || r != strings.Trim(r, blanks) {
				t.Fatalf("%q: rule %q", s, r)
			}
			if strings.Contains(r, "(") != strings.HasSuffix(r, ")") {
				t.Fatalf("%q: rule %q is not closed", s, r)
			}
			again, bad := splitTools(r)
			if r[0] != '[' && !strings.ContainsAny(r, `"'`) && (len(again) != 1 || again[0] != r || bad != nil) {
				t.Fatalf("%q: rule %q splits again into %q, %q", s, r, again, bad)
			}
		}
		if n := strings.Count(s, "("); n > strings.Count(s, ")") && !strings.ContainsAny(s, `"'`) && open == nil {
			t.Fatalf("%q: not closed, without a problem: %q", s, rules)
		}
	})
}

// FuzzWords: arguments are split as a real shell splits them, wherever that shell sees nothing but words.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"a b", "'a b' c", `"a \"b" c`, `a\ b`, "it's", "a=b c", "#42", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words := splitWords(s)
		if !strings.ContainsAny(s, "'\"\\") && strings.Join(words,
			" ") != strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < 128 && isBlank(byte(r)) }), " ") {
			t.Fatalf("%q: %q", s, words)
		}
		for _, w := range words {
			if len(w) > len(s) {
				t.Fatalf("%q: %q grew", s, w)
			}
		}
	})
}

// TestInjection runs prepared commands in a real shell with hostile arguments: each argument must arrive unchanged,
// and no part of it may run.
func TestInjection(t *testing.T) {
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	dir := t.TempDir()
	hostile := []string{
		`; touch pwned`, `$(touch pwned)`, "`touch pwned`", `" ; touch pwned; "`, `' ; touch pwned ; '`, "a\ntouch pwned",
		`*`, `~`, `{a,b}`, `$HOME`, `a[$(touch pwned)]`, `&& touch pwned`, `\`, `!!`, `${x:=$(touch pwned)}`,
		"EOF\ntouch pwned", "#",
	}
	commands := []struct{ cmd, want string }{
		{`printf '<%s>' $0`, "<%s>"},
		{`printf '<%s>' "$0"`, "<%s>"},
		{`printf '<%s>' x$0`, "<x%s>"},
		{`x=$0; printf '<%s>' "$x"`, "<%s>"},
		{`x="a $0"; printf '<%s>' "$x"`, "<a %s>"},
		{`printf '<%s>' "$(printf '%s' "$0")"`, "<%s>"},
		{"cat <<EOF\n<$0>\nEOF", "<%s>\n"},
		{`cat <<< "<$0>"`, "<%s>\n"},
		{`for f in $0; do printf '<%s>' "$f"; done`, "<%s>"},
		{`a=($0); printf '<%s>' "${a[@]}"`, "<%s>"},
		{`[ "$0" = x ] || printf '<%s>' "$0"`, "<%s>"},
		{`[[ $0 == x ]] || printf '<%s>' $0`, "<%s>"},
		{`case $0 in x) ;; *) printf '<%s>' $issue;; esac`, "<%s>"},
	}
	sc := scanner{names: []string{"issue"}}
	for _, h := range hostile {
		v := values{args: h, words: []string{h}}
		for _, c := range commands {
			line, _, _, err := sc.prepare(c.cmd, &v, false)
			if err != nil {
				t.Errorf("%s: %v", c.cmd, err)
				continue
			}
			cmd := exec.CommandContext(context.Background(), sh, "-c", line.line)
			cmd.Dir, cmd.Env = dir, append(line.env, "PATH="+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if want := strings.Replace(c.want, "%s", h, 1); err != nil || string(out) != want {
				t.Errorf("%s with %q ran %q: %q, %v; want %q", c.cmd, h, line.line, out, err, want)
			}
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("an argument ran: %v", entries)
	}
}

// TestLinear: the time to read a large file grows linearly with its size, whatever it contains. A quadratic reader
// would exceed the tests' time limit.
func TestLinear(t *testing.T) {
	for _, part := range []string{"[", "a: [", "a: b: c\n", "\"", "'", "- ", "? ", "&a ", "a: *a\n", "\t", "{a: ",
		"a: |\n", ">", "\\u", "k: \"a \"b\n", "é", "# \n", "  - x: y: z\n", "`` ", "(a", "---", "!!x ", "%"} {
		body := strings.Repeat(part, maxFrontmatter/8/len(part))
		parseFile("x/SKILL.md", []byte("---\n"+body+"\n---\n"), Origin{})
		parseFile("x/SKILL.md", []byte("---\na: "+body+"\n---\n"), Origin{})
		frontmatter.Parse([]byte(body), 1)
		splitTools(body)
	}
	for _, part := range []string{"`` ", "!`", "```!\n````\n", "${", "$ARGUMENTS[", "\\$", "{baseDir", "```\n", "~~~\n",
		"'", "\"", "\" '", " !`a`", "${@:", "$"} {
		text := strings.Repeat(part, maxFile/16/len(part))
		scanner{}.scan(text)
		scanner{dialect: templateText}.scan(text)
		splitWords(text)
		firstParagraph([]byte(text))
	}
}
