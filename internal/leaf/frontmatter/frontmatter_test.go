package frontmatter

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var fences = map[Fence]string{None: "none", Unclosed: "unclosed", Closed: "closed"}

// splitCases are files and the results of Split: the fence, the first line of the head, the head, the body, and a
// line for each note.
var splitCases = []struct{ name, file, want string }{
	{"empty", "", `none 1 "" ""`},
	{"only a byte order mark", "\ufeff", `none 1 "" ""`},
	{"no fence", "# Title\ntext\n", `none 1 "" "# Title\ntext\n"`},
	{"plain", "---\na: b\n---\ntext\n", `closed 2 "a: b\n" "text\n"`},
	{"an empty head", "---\n---\ntext\n", `closed 2 "" "text\n"`},
	{"no body", "---\na: b\n---", `closed 2 "a: b\n" ""`},
	{"a byte order mark, blank lines, blanks after the fences", "\ufeff\n \n---  \na: b\n--- \t\ntext",
		`closed 4 "a: b\n" "text"`},
	{"Windows line ends", "---\r\na: b\r\n---\r\ntext\r\n", `closed 2 "a: b\r\n" "text\r\n"`},
	{"line ends of old Macs", "---\ra: b\r---\rtext\r", `closed 2 "a: b\n" "text\n"
repaired 1:0 the lines end with a carriage return only`},
	{"not closed", "---\na: b\n", `unclosed 2 "" "---\na: b\n"`},
	{"one fence and nothing else", "---", `unclosed 2 "" "---"`},
	{"closed by dots", "---\na: b\n...\ntext\n", `unclosed 2 "" "---\na: b\n...\ntext\n"`},
	{"an indented fence does not close", "---\na: |\n  ---\n---\ntext\n", `closed 2 "a: |\n  ---\n" "text\n"`},
	{"a rule in the body", "---\na: b\n---\nx\n---\ny\n", `closed 2 "a: b\n" "x\n---\ny\n"`},
	{"a longer rule is not a fence", "----\na: b\n----\n", `none 1 "" "----\na: b\n----\n"`},
	{"keys on the line of the fence", "---a: b\n---\ntext\n", `closed 1 "a: b\n" "text\n"
repaired 1:0 the frontmatter begins on the line of its opening fence`},
	{"text on the line of the closing fence", "---\na: b\n---# Title\n", `closed 2 "a: b\n" "# Title\n"
repaired 3:0 text is attached to the closing fence`},
	{"inside a Markdown fence", "```yaml\n---\nname: b\n---\n```\ntext\n", `closed 3 "name: b\n" "text\n"
repaired 1:0 the file is inside a Markdown code fence`},
	{"the whole file inside a Markdown fence", "~~~~markdown\n---\nname: b\n---\ntext\n~~~~\n",
		`closed 3 "name: b\n" "text\n"
repaired 1:0 the file is inside a Markdown code fence`},
	{"an example in a Markdown fence", "```sh\n---\nname: b\n---\n```\n",
		"none 1 \"\" \"```sh\\n---\\nname: b\\n---\\n```\\n\""},
	{"a comment before it", "<!-- (c)\nme -->\n---\nname: b\n---\ntext\n", `closed 4 "name: b\n" "<!-- (c)\nme -->\ntext\n"
repaired 3:0 text precedes the frontmatter; it was kept as part of the body`},
	{"a title before it", "# Title\n\n---\nname: a\ndescription: b\n---\ntext\n",
		`closed 4 "name: a\ndescription: b\n" "# Title\n\ntext\n"
repaired 3:0 text precedes the frontmatter; it was kept as part of the body`},
	{"two rules between paragraphs", "one\n\n---\n\ntwo\n\n---\nthree\n", `none 1 "" "one\n\n---\n\ntwo\n\n---\nthree\n"`},
	{"a paragraph between two rules", "one\n\n---\nname: a\n---\nthree\n",
		`none 1 "" "one\n\n---\nname: a\n---\nthree\n"`},
	{"too much text before it", strings.Repeat("x\n", maxLinesBefore+1) + "---\nname: a\ndescription: b\n---\n",
		`none 1 "" "x\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\n---\nname: a\ndescription: b\n---\n"`},
	{"a merge conflict", "---\n<<<<<<< HEAD\na: 1\n||||||| base\na: 0\n=======\na: 2\n>>>>>>> other\n---\ntext\n",
		`closed 2 "\na: 1\n\na: 0\n\na: 2\n\n" "text\n"
repaired 2:0 the markers of a merge conflict were removed; both versions remain`},
	{"a merge conflict in the body stays", "---\na: 1\n---\n<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> other\n",
		`closed 2 "a: 1\n" "<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> other\n"`},
}

func TestSplit(t *testing.T) {
	for _, c := range splitCases {
		f := Split([]byte(c.file))
		got := fmt.Sprintf("%s %d %q %q", fences[f.Fence], f.Line, f.Head, f.Body) + notes(f.Notes)
		if got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

var reason = regexp.MustCompile(` \(.*\)|: [^:]*token$|: did not find [^:]*$`)

func notes(all []Problem) string {
	var b strings.Builder
	for _, n := range all {
		// Without the reason in the YAML library's words.
		message := reason.ReplaceAllString(n.Message, "")
		fmt.Fprintf(&b, "\n%s %d:%d %s", map[ProblemKind]string{Repaired: "repaired", Invalid: "invalid",
			Duplicate: "duplicate", Limit: "limit"}[n.Kind], n.Line, n.Column, message)
	}
	return b.String()
}

// parseCases are the lines between the fences and the results of Parse: key=value as JSON with the key's position,
// then a line for each note.
var parseCases = []struct{ name, head, want string }{
	{"nothing", "", ``},
	{"only comments", "# a\n\n", ``},
	{"a document that is null", "null\n", ``},
	{"kinds of values", "a: x\nb: 1.50\nc: true\nd:\ne: [1, 'x']\nf: {g: h}\ni: 2026-01-02\nj: 0x1f\nk: .inf\nl: ~\n",
		`a="x" 2:1
b=1.50 3:1
c=true 4:1
d=null 5:1
e=[1,"x"] 6:1
f={"g":"h"} 7:1
i="2026-01-02" 8:1
j=31 9:1
k=".inf" 10:1
l=null 11:1`},
	{"text in all styles", "a: 'it''s'\nb: \"x\\ty\"\nc: |\n  one\n  two\nd: >-\n  one\n  two\n", `a="it's" 2:1
b="x\ty" 3:1
c="one\ntwo\n" 4:1
d="one two" 7:1`},
	{"letters of all kinds", "ключ: значение\n\"a: b\": \U0001F600\n", `ключ="значение" 2:1
a: b="😀" 3:1`},
	{"a key twice", "a: 1\nb: 2\na: 3\n", `b=2 3:1
a=3 4:1
duplicate 2:1 a is given more than once; the last one is used`},
	{"a nested key twice", "a:\n  b: 1\n  b: 2\n", `a={"b":2} 2:1
duplicate 3:3 b is given more than once; the last one is used`},
	{"a list instead of keys", "- a\n- b\n", `invalid 2:1 the frontmatter is a list, not keys with values`},
	{"text instead of keys", "just words\n", `invalid 2:1 the frontmatter is text, not keys with values`},
	{"a list as a key", "? [a]\n: b\nc: d\n", `c="d" 4:1
invalid 2:3 a key is a list, not a word`},
	{"aliases", "a: &x [1]\nb: *x\n", `a=[1] 2:1
b=[1] 3:1`},
	{"too many aliases", "a: &x 1\nb: [" + strings.Repeat("*x, ", maxAliases+1) + "]\nc: 2\n", `a=1 2:1
c=2 4:1
limit 3:1 b: more than 16 aliases`},
	{"an unknown alias", "a: *none\nb: 1\n", `a="*none" 2:1
b=1 3:1
repaired 2:4 a is not valid YAML: it begins with "*" and was taken as text`},
	{"too deep", "a: " + strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2) + "\nb: 1\n", `b=1 3:1
limit 2:36 a: deeper than 32 levels; left out`},
	{"a colon in a text", "description: Use when: always\nb: 1\n", `description="Use when: always" 2:1
b=1 3:1
repaired 2:22 description is not valid YAML: it contains a colon and a space outside quotes and was taken as text`},
	{"a value that begins with a reserved character", "a: @b\nc: `d`\n",
		"a=\"@b\" 2:1\nc=\"`d`\" 3:1\nrepaired 2:4 a is not valid YAML: it begins with \"@\" and was taken as " +
			"text\nrepaired 3:4 c is not valid YAML: it begins with \"`\" and was taken as text"},
	{"a quote that is not closed", "a: \"b\nc: d\n", `a="b" 2:1
c="d" 3:1
repaired 2:1 a is not valid YAML: a quote that is not closed was left out`},
	{"a quote inside quotes", "a: \"say \"hi\" now\"\n", `a="say \"hi\" now" 2:1
repaired 2:10 a is not valid YAML: the quotes inside its quotes were taken as text`},
	{"text after quotes", "a: \"b\" and c\n", `a="\"b\" and c" 2:1
repaired 2:8 a is not valid YAML: it continues after its quotes and was taken as text`},
	{"tabs as indentation", "a:\n\tb: c\n", `a={"b":"c"} 2:1
repaired 3:1 a is not valid YAML: tabs in the indentation were read as spaces`},
	{"a list that is not closed", "a: [b, c\nd: e\n", `a="[b, c" 2:1
d="e" 3:1
repaired 2:1 a is not valid YAML: it begins with "[" and was taken as text`},
	{"text after a block indicator", "a: > text\n  more\nb: 1\n", `a="text more\n" 2:1
b=1 4:1
repaired 2:6 a is not valid YAML: the text after > was taken as its first line`},
	{"a block that is not indented", "a: |\nsome text\nb: 1\n", `a="some text\n" 2:1
b=1 4:1
repaired 3:1 a is not valid YAML: the lines below | were indented`},
	{"a lone surrogate", "a: \"\\ud83d\\ude00 \\ud83d\"\n", `a="😀 �" 2:1
repaired 2:7 a is not valid YAML: surrogate escapes were joined or replaced`},
	{"a control character", "a: x\x01y\n", `a="x�y" 2:1
repaired 2:1 a is not valid YAML: control characters were replaced`},
	{"a Windows path in quotes", "a: \"C:\\tools\\new\"\n", `a="C:\\tools\\new" 2:1
repaired 2:1 the backslashes of a Windows path in double quotes were taken literally`},
	{"lines between the keys", "a: b\n??? what\nc: d\n", `a="b ??? what" 2:1
c="d" 4:1
repaired 3:1 a is not valid YAML: it was taken as text, as if it were quoted`},
	{"no readable entry", "}{\n", `invalid 2:1 the frontmatter is not valid YAML and was left out`},
	{"carriage returns", "a: b\r\nc: d: e\r\n", `a="b" 2:1
c="d: e" 3:1
repaired 3:5 c is not valid YAML: it contains a colon and a space outside quotes and was taken as text`},
	{"bytes that are not UTF-8", "a: \xff\xfe\nb: 1\n", `a="��" 2:1
b=1 3:1
repaired 2:1 a is not valid YAML: it was taken as text, as if it were quoted`},
	{"NUL", "a: \x00\nb: 1\n", `a="�" 2:1
b=1 3:1
repaired 2:1 a is not valid YAML: control characters were replaced`},
}

// TestParse also requires the same result from the fast reader.
func TestParse(t *testing.T) {
	for _, c := range parseCases {
		got := parsed(Parse([]byte(c.head), 2))
		if got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

func parsed(entries []Pair, all []Problem) string {
	var lines []string
	for _, e := range entries {
		data, err := JSON(e.Value)
		if err != nil {
			data = []byte(err.Error())
		}
		lines = append(lines, fmt.Sprintf("%s=%s %d:%d", e.Key, data, e.Line, e.Column))
	}
	return strings.TrimPrefix(strings.Join(lines, "\n")+notes(all), "\n")
}

// TestJSON: numbers keep their digits, AppendTextJSON keeps as text what a JSON encoder would write differently, and
// aliases cannot make a value huge.
func TestJSON(t *testing.T) {
	for _, c := range []struct{ value, json, text string }{
		{`1.10`, `1.10`, `"1.10"`},
		{`1e3`, `1e3`, `"1e3"`},
		{`007`, `7`, `"007"`},
		{`+1`, `1`, `"+1"`},
		{`-0`, `-0`, `-0`},
		{`12345678901234567890123`, `12345678901234567890123`, `"12345678901234567890123"`},
		{`.nan`, `".nan"`, `".nan"`},
		{`TRUE`, `true`, `true`},
		{`yes`, `"yes"`, `"yes"`},
		{`"a\u0001<&>\\\""`, `"a\u0001<&>\\\""`, `"a\u0001<&>\\\""`},
		{`{1: a, true: b, [x]: c}`, `{"1":"a","true":"b"}`, `{"1":"a","true":"b"}`},
		{`!!binary aGk=`, `"aGk="`, `"aGk="`},
	} {
		entries, bad := Parse([]byte("v: "+c.value+"\n"), 1)
		if len(entries) != 1 || bad != nil {
			t.Errorf("%s: %v %v", c.value, entries, bad)
			continue
		}
		a, err := JSON(entries[0].Value)
		b, err2 := AppendTextJSON(nil, entries[0].Value)
		if err != nil || err2 != nil || string(a) != c.json || string(b) != c.text {
			t.Errorf("%s: JSON %s, TextJSON %s; want %s, %s (%v, %v)", c.value, a, b, c.json, c.text, err, err2)
		}
	}
	// Each value contains the previous one twice.
	bomb := "a: &a " + strings.Repeat("x", 4096) + "\n"
	for c := 'b'; c <= 'h'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c]\n", c, c, c-1, c-1)
	}
	entries, bad := Parse([]byte(bomb), 1)
	if len(entries) != 8 || bad != nil {
		t.Fatalf("%d entries, %v", len(entries), bad)
	}
	if data, err := JSON(entries[1].Value); err != nil || len(data) != 2*4098+3 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if data, err := JSON(entries[7].Value); err != errTooLarge {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
