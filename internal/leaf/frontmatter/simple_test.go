package frontmatter

import (
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// FuzzSimple compares plainReader with the YAML library: it returns the same tree, the same error, or nothing.
func FuzzSimple(f *testing.F) {
	for _, s := range []string{
		"name: pdf\ndescription: Read PDF files, quickly\n",
		"a: \"quoted # text: all\"\nb: 'single'\nc: true\nd: False\n",
		"a: x # comment\n", "a: b: c\n", "a: b:\n", "a: null\nb: yes\n", "a: 'it''s'\nb: \"\\n\"\n",
		"a:  two\nb: trailing  \n", "a: one\n  two\n", "a: x\na: y\n", "yes: 1\nkey-x: y", "a: x\ty\n", "a: é – ’日本\n",
		"a: x\u2028y\n", "a: x\u0085y\n", "a: \ufeffx\n", "a: \"é\u00a0\"\n", "a: x\r\n", "a: Infinity\nb: nan\nc: e1\n",
		"a: x\n\nb: y\n", "a: x\n...\nb: y\n", "a: 1\nb: 1.0\nc: 1.0.0\nd: 01\ne: 0.5\nf: 2026.1.2\n",
		"a: 'it''s'\nb: \"a \\\"b\\\" \\\\\"\n", "a: \"x\\\"\n", "a: 説明 – x\nb: (x) y\nc: /x/*\nd: $x\n",
		"a:\n  b: c\n  d:\n    e: f\n  g: h\ni: j\n", "a:\n    b: c\n  d: e\n", "a:\nb: c\n", "a:\n  b\n",
		"a:\n  - b\n  - 'c'\nd:\n- e f\n- 1\ng: h\n", "a:\n- b\n  - c\n", "a:\n- b: c\n", "a:\n- b\n c\n", "a:\n-\n",
		"a: >\n  one\n  two\n\n\n  three\n\nb: |\n    x\n\n    y\nc: >-\n  z\nd: |-\n  # no comment\n",
		"a: >\n  one\n    two\n", "a: |\n  one \n two\n", "a: >+\n  x\n\n", "a: |2\n   x\n", "a: >\n\n  x\n",
		"a: |\n  x\n \n   \nb: y\n", "a: |\n  x\n\n y: z\n", "a: >\nb: c\n", "a:\n  b: |\n    x\n  c: y\n",
		"A: |\n 0\n  \n",
		"a: |\n  ---\n  ...\n", "a: [b, 'c d', \"e\", 1, true]\n", "a: []\n", "a: [é, b]\n", "a: [b,c]\n", "a: [b\n",
		"a: [b] c\n", "a: [b,]\n", "a: [\"b, c\"]\n", "a: [b c, /d, $e, (f)]\n", "a: [yes]\n",
		"a: [é, [x, 1], {b: c, 'd': \"e\"}]\nb: x\n", "a: {\"x\":{\"y\":[\"z, é\",true,1.5]},\"u\":\"h: //\"}\n",
		"a: {}\nb: [ ]\n", "a: {b:c}\n", "a: {\"b\":c, \"b\":d}\n", "a: {b: c,}\n", "a: {'b'\"c\"}\n", "a: [\"b\"c]\n",
		"a: \"\\U0001F4C5 \\u00e9\\n\"\n", "a: \"\\ud800\"\n", "a: \"\\u12\"\n", "a: \"\\u+123\"\n", "a: \"\\U00110000\"\n",
		"a: {b: }\n", "a: {b: c} d\n", "a: one\n  - two\n  \"three\"\nb: c\n", "a: one\n  two: three\n",
		"a: one\n  two # c\n", "a:\n  one\n  two\nb: x\n", "a:\n  one\n two\n", "a: one\n\n  two\n", "a: true\n  x\n",
		"a: \"x\"\n  y\n", "a:\n  b: c\n    d\n  e: f\n", "a: one\n  # two\n", "a: one\n  --- x\n", "a: b\n\n", "\na: b\n",
		"a: x\n\ty: z\n", "a: <<\nb: =\n", "a: 1_0\nb: 0x1\n", "a: {\"b\":{\"c\":[\"d\",1,true]},\"e\": \"f g\"}\n",
		"a: {b: c, d: [e, {f: g}]}\n", "a: {b:c}\n", "a: {\"b\" : c}\n", "a: {}\n", "a: { \"b\": \"c\" }\n", "a: {b}\n",
		"a: {b: }\n", "a: {b: c,}\n", "a: {b: c} d\n", "a: [{b: c}]\n", "a: {'b': 'c'}\n", "a: {\"é\": \"日\", x: y}\n",
		"a: {b: c: d}\n", "a: {1: x}\n", "a: {b: 1, b: 2}\n", "a: [[x], y]\n", "a: {\"b\\\"c\": \"d\\\\\"}\n",
		"a: {yes: no}\n", "a: {\"yes\": x}\n", "a: {b: http://x}\n", "a: [b, c: d]\n", "a: [\"b\": c]\n", "a: {? b: c}\n",
		"a: {b: \"c\"d}\n", "a: one\n  two\n  three\nb: c\n", "a: 'it''s\n  two'\nb: \"one\n    two\"\n",
		"a: one\n  two: x\n", "a: one\n  # two\n", "a: one\n\n  two\n", "a: 1\n  2\n", "a: one \n  two \n",
		"a: one\n two\n  three\n", "a: 'x'\n  y\n", "a: \"x\\\n  y\"\n", "a: x\n  - y\n", "a:\n  b: one\n    two\n  c: d\n",
		"a: true\n  no\n", "a: x #\n  y\n", "a: x\n  y #z\n", "a: \"x\n\n  y\"\n", "a: 'x\n  - y: z # w'\n",
		"a: \"x\n  y\nb: c\n", "# c\n\na: x # d\n  # e\nb:\n  # f\n  - x # g\n  - 'y' # h\n# i\nc: [z] # j\n",
		"a:\n  - b: c\n    d: [e]\n  - f: >\n      g\n    h:\n      - i\n", "a:\n- b: c\n  d: e\nf: g\n",
		"a:\n- b: c\n d: e\n",
		"a: 2026-06-19\nb: 2026-13-01\nc: 2026-02-30\n", "a: \"b\\\n  \\ c\\\n  d\n  e\\tf\\/\"\n", "a: 'b\n  c''d'\n",
		"a: b\nc: d: e\nf: g\n", "a: d:\n", "a: b\nc: d: e\nf: \x01\n", "a: é: e # x: y\n", "a: 1: b\n", "a: b: c\n  d\n",
		"a: b\r\nc: >\r\n  d\r\n\r\n  e\r\nf: 'g\r\n\r\n  '\r\n", "a: b\rc\n", "a: |\n\n  b  \n    c\n \n  d\n\n",
		"a: >\n\n\n  b  \n  c\n",
		"a: >\n   \n  b\n", "a: |\n  b\n   \n  c\n", "a: > b\nc: d\n", "a: é | b\n", "a: |- b # c\n  d\n",
		"a: | # b\n  c\n", "a: >+ b\n",
		"a:\n  {\n    \"b\":\n      {\n        \"c\": [\"d\",\n  e ], },\n  }\nf: g\n", "a: {\n  b: c,\n\n  d: e\n}\n",
		"a: [b,\n  # c\n  d]\n",
		"a: [b\n  c]\n", "a: {b: c,\n  d\n  : e}\n", "a: {\"b\"\n  :c}\n", "a:\n  \"b\n  c\"\nd: e\n", "a:\n  [b]\n",
		"a:\n  > b\n", "a:\n  'b': c\n",
		"a: <b>\nc: << \nd: <<x\n", "a: .5\nb: .inf\nc: .nano/x\nd: ./x\ne: .x\n",
		"a: 90le\nb: 1e3\nc: 0xff\nd: 1 x\ne: 2025-01\nf: 12:30\n",
		"a:\n  - b: c: d\n", "a:\n- 0:\n", "a:\n- 1: 2\n", "a: 'b\n\n  \n  c\n  '\n", "a: \"b\\\n\n  c\\  \n  d\"\n",
		"a: '\n  b'\n", "a: # b\n  c: d\n", "a:# b\n  c: d\n", "a: >\n  b\n# c\nd: e\n", "a: b # c\n  d\n", "a1: b\n",
		"a: x\n  ...\n", "a: \"x\ny\"\n", "a: x:\n  y\n", "a: x\n  y:\n",
	} {
		f.Add(s)
		f.Add(strings.TrimSuffix(s, "\n") + "\n")
	}
	f.Fuzz(func(t *testing.T, text string) { compare(t, text) })
}

// TestSimpleOfParts compares documents of random parts, which are valid more often than those of the fuzzer, also as
// Parse and Lister read them. SIMPLE_DOCUMENTS=N compares N others.
func TestSimpleOfParts(t *testing.T) {
	parts := []string{"\n", "\n", "\n", "\n  ", "\n  ", "\n    ", "\n ", "\r\n", "a: ", "b:", "c: ", "d: ", "e:", "- ",
		"- ", "f: ",
		" ", "x", "y z", "é", "#", " # x", ": ", ":", "'", "'", "''", "\"", "\"", "\\", "\\n", "\\u00e9", ">", "|", "|-",
		"[", "]", "{", "}",
		", ", ",", "true", "1", "1.5", "2026-06-19", "null", "g: h", "i: >\n    ", "{j: k", "\"l\": ", "~", "&", "*", "<",
		".5", "0x1", "?",
		"%", "@", "!", "---", "...", "\t", "\u2028", "\ufeff", "-", "\\ ", "- m: n\n  o: p"}
	seed, n := uint64(1), 1500
	if env := os.Getenv("SIMPLE_DOCUMENTS"); env != "" {
		n, _ = strconv.Atoi(env)
		seed = rand.Uint64()
	}
	random, simple := rand.New(rand.NewPCG(seed, 0)), 0
	var lister Lister
	for range n {
		text := "a: "
		for range 1 + random.IntN(14) {
			text += parts[random.IntN(len(parts))]
		}
		text += "\n"
		if compare(t, text) {
			simple++
		}
		if fast, want := parsed(lister.Parse([]byte(text), 2)), parsed(Parse([]byte(text), 2)); fast != want {
			t.Fatalf("%q:\n%s\nParse:\n%s", text, fast, want)
		}
	}
	if simple < n/20 {
		t.Errorf("only %d of %d documents were simple", simple, n)
	}
	t.Logf("%d of %d documents were simple", simple, n)
}

// compare compares the result of a plainReader with that of the library. It returns false if there is none.
func compare(t *testing.T, text string) bool {
	t.Helper()
	var r plainReader
	got, failed := r.parse(text)
	if got == nil && failed == nil {
		return false
	}
	var doc yaml.Node
	err := yaml.Load([]byte(text), &doc)
	if failed != nil {
		line, column, message := position(failed)
		if l, c, m := position(err); l != line || c != column || m != message {
			t.Fatalf("%q: rejected at %d:%d: %s; the library: %v", text, line, column, message, err)
		}
		return true
	}
	if err != nil {
		t.Fatalf("%q: accepted, but the library fails with %v", text, err)
	}
	want := &doc
	if doc.Kind == yaml.DocumentNode {
		want = doc.Content[0]
	}
	if diff := differ(got, want); diff != "" {
		t.Fatalf("%q: %s", text, diff)
	}
	return true
}

func differ(got, want *yaml.Node) string {
	g, w := *got, *want
	g.Content, w.Content = nil, nil
	w.HeadComment, w.LineComment, w.FootComment = "", "", "" // nobody uses comments
	if !reflect.DeepEqual(g, w) {
		return "node " + got.Value + " is not as the library has it: " + describe(g) + ", " + describe(w)
	}
	if len(got.Content) != len(want.Content) {
		return "another number of nodes"
	}
	for i := range got.Content {
		if d := differ(got.Content[i], want.Content[i]); d != "" {
			return d
		}
	}
	return ""
}

func describe(n yaml.Node) string {
	b, _ := yaml.Marshal([]any{n.Kind, n.Style, n.Tag, n.Value, n.Line, n.Column})
	return string(b)
}
