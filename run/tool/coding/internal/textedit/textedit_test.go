package textedit

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, text string
		edits      []Edit
		want       string // the result, or
		err        string // part of the error
	}{
		{"one", "a\nb\nc\n", []Edit{{Old: "b", New: "B"}}, "a\nB\nc\n", ""},
		{"all match the original", "a b", []Edit{{Old: "a", New: "b"}, {Old: "b", New: "a"}}, "b a", ""},
		{"in any order", "a b c", []Edit{{Old: "c", New: "C"}, {Old: "a", New: "A"}}, "A b C", ""},
		{"delete", "a\nb\nc\n", []Edit{{Old: "b\n", New: ""}}, "a\nc\n", ""},
		{"mixed endings", "a\r\nb\nc\r\n", []Edit{{Old: "b", New: "B"}}, "a\r\nB\nc\r\n", ""},
		{"mixed endings over lines", "a\r\nb\nc\r\nd\n", []Edit{{Old: "a\nb\nc\nd", New: "a\nB\nC\nd"}}, "a\r\nB\nC\r\nd\n",
			""},
		{"inserted lines get the line ending of their neighbours", "a\r\nb\r\nc\n", []Edit{{Old: "b", New: "b\nb2\nb3"}},
			"a\r\nb\r\nb2\r\nb3\r\nc\n", ""},
		{"insert between mixed", "a\r\nb\nc\r\n", []Edit{{Old: "a\nb\nc", New: "a\nx\nb\nc"}}, "a\r\nx\nb\nc\r\n", ""},
		{"old with crlf in a lf file", "a\nb\n", []Edit{{Old: "a\r\nb", New: "a\r\nc"}}, "a\nc\n", ""},
		{"lone cr", "a\rb\rc", []Edit{{Old: "b\nc", New: "x\ny\nz"}}, "a\rx\ry\rz", ""},
		{"last line of a crlf file", "a\r\nb", []Edit{{Old: "b", New: "b\nc"}}, "a\r\nb\r\nc", ""},
		{"a cr inside a line", "a\rb\nc\n", []Edit{{Old: "c", New: "d"}}, "a\rb\nd\n", ""},
		{"replace all", "a.a.a", []Edit{{Old: "a", New: "bb", All: true}}, "bb.bb.bb", ""},
		{"replace all does not replace overlaps", "aaa", []Edit{{Old: "aa", New: "b", All: true}}, "ba", ""},
		{"invalid bytes are kept", "\xff a \xfe\n", []Edit{{Old: "a", New: "b"}}, "\xff b \xfe\n", ""},

		{"trailing blanks", "a  \nb\t\nc\n", []Edit{{Old: "a\nb\nc", New: "a\nB\nc"}}, "a  \nB\nc\n", ""},
		{"quotes", "say(“hi”)\nx = ‘y’\n", []Edit{{Old: `say("hi")`, New: `say("ho")`}}, "say(\"ho\")\nx = ‘y’\n", ""},
		{"dash and space", "a\u00a0– b\nc – d\n", []Edit{{Old: "a - b\n", New: "a + b\n"}}, "a + b\nc – d\n", ""},
		{"a space that NFKC does not change", "a\u1680b\n", []Edit{{Old: "a b", New: "c"}}, "c\n", ""},
		{"every space, quote and dash", "\u00a0\u2003\u202f\u3000‘’‚‛′“”„‟″‐‑‒–—―−.\n",
			[]Edit{{Old: "    '''''\"\"\"\"\"-------.", New: "c"}}, "c\n", ""},
		{"nfkc", "ﬁx ①\n", []Edit{{Old: "fix 1", New: "fixed"}}, "fixed\n", ""},
		{"not half a ligature", "ﬁx\n", []Edit{{Old: "ix", New: "y"}}, "", "not found"},
		{"nfd", "cafe\u0301 au lait\n", []Edit{{Old: "café au", New: "thé au"}}, "thé au lait\n", ""},
		{"fuzzy keeps unchanged lines", "“a”\nb \n“c”\n", []Edit{{Old: "\"a\"\nb\n\"c\"", New: "\"a\"\nB\n\"c\""}},
			"“a”\nB\n“c”\n", ""},
		{"exact wins over fuzzy", "x  \nx\n\"\n", []Edit{{Old: "x\n\"", New: "y\n\""}}, "x  \ny\n\"\n", ""},
		{"blanks at the end of old mean the line's end", "a == b\na =\n", []Edit{{Old: "a = ", New: "c"}}, "a == b\nc\n", ""},
		{"fuzzy replace all", "‘a’ ‘a’", []Edit{{Old: "'a'", New: "b", All: true}}, "b b", ""},

		{"no edits", "a", nil, "", "edits is empty"},
		{"empty old", "a", []Edit{{New: "b"}}, "", "oldText is empty"},
		{"same", "a", []Edit{{Old: "a", New: "a"}}, "", "nothing would change"},
		{"swapped to the same", "aa", []Edit{{Old: "aa", New: "aa"}}, "", "nothing would change"},
		{"together nothing", "ab", []Edit{{Old: "a", New: ""}, {Old: "b", New: "ab"}}, "", "change nothing in the file"},
		{"twice", "a\nb\na\n", []Edit{{Old: "a", New: "c"}}, "", "oldText occurs 2 times, at lines 1, 3"},
		{"twice by overlap", "aaa", []Edit{{Old: "aa", New: "c"}}, "", "occurs 2 times"},
		{"twice, fuzzily", "‘a’\n’a’\n", []Edit{{Old: "'a'", New: "c"}}, "", "occurs 2 times, at lines 1, 2"},
		{"numbered", "a\nb\n", []Edit{{Old: "a", New: "x"}, {Old: "q", New: "y"}}, "", "edits[1].oldText was not found"},
		{"overlap", "abcd", []Edit{{Old: "bc", New: "x"}, {Old: "ab", New: "y"}}, "",
			"edits[0] and edits[1] overlap at line 1"},
		{"empty file", "", []Edit{{Old: "a", New: "b"}}, "", "The file is empty: use write"},
		{"already done", "foo(2)\n", []Edit{{Old: "foo(1)", New: "foo(2)"}}, "", "already at line 1"},
		{"closest", "func a() {\n\treturn 1\n}\n", []Edit{{Old: "func a() {\n    return 1\n}", New: "x"}}, "",
			"closest place is line 2:\n  oldText has: \"    return 1\"\n  the file has: \"\\treturn 1\""},
		{"nothing close", "zzz\n", []Edit{{Old: "func main() {", New: "x"}}, "", "whitespace and line breaks."},
		{"only blanks do not match fuzzily", "a\n", []Edit{{Old: "  \n  ", New: "x"}}, "", "not found"},
	} {
		res, err := Apply(c.text, c.edits)
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.err == "" && res.Text != c.want:
			t.Errorf("%s: %q, want %q", c.name, res.Text, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v (%q), want …%s…", c.name, err, res.Text, c.err)
		}
	}
}

// An edit of one line, matched exactly or loosely, leaves the bytes of all other lines unchanged.
func TestApplyTouchesNothingElse(t *testing.T) {
	line := rapid.StringOfN(rapid.RuneFrom([]rune("ab \t“’–\u00a0é\r\ufb01")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "lines")
		var lines []string
		for range n {
			lines = append(lines, strings.TrimRight(line.Draw(t, "line"), "\r")+
				rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "ending"))
		}
		k := rapid.IntRange(0, n-1).Draw(t, "edited")
		body := strings.TrimRight(lines[k], "\r\n")
		ending := lines[k][len(body):]
		body = "UNIQUE" + body
		lines[k] = body + ending
		old := body
		if rapid.Bool().Draw(t, "loosely") {
			old = strings.TrimRightFunc(foldLines(body).text, unicode.IsSpace)
		}
		res, err := Apply(strings.Join(lines, ""), []Edit{{Old: old, New: "new line"}})
		if err != nil {
			t.Fatal(err)
		}
		// Trailing blanks that are not in old are kept.
		blanks := ""
		if !strings.Contains(body, old) || len(old) < len(body) {
			blanks = body[len(strings.TrimRightFunc(body, unicode.IsSpace)):]
			if strings.HasPrefix(body, old) {
				blanks = body[len(old):]
			}
		}
		lines[k] = "new line" + blanks + ending
		if want := strings.Join(lines, ""); res.Text != want {
			t.Fatalf("old %q in %q:\n got %q\nwant %q", old, body, res.Text, want)
		}
	})
}

// Changes describe each edit exactly: text outside them is unchanged.
func FuzzApply(f *testing.F) {
	f.Add("a\r\nb\nc “d”  \n", "b\nc \"d\"", "b\nX", "a", "", true)
	f.Add("a\rb", "b", "c\nd", "a", "x", false)
	f.Add("ﬁ\u0301x\n", "fi", "y", "x", "z", false)
	f.Fuzz(func(t *testing.T, text, old1, new1, old2, new2 string, all bool) {
		if len(text) > 1000 {
			return
		}
		res, err := Apply(text, []Edit{{old1, new1, all}, {old2, new2, false}})
		if err != nil {
			if utf8.ValidString(text+old1+old2+new1+new2) && !utf8.ValidString(err.Error()) {
				t.Errorf("error is not text: %q", err)
			}
			return
		}
		at, out := 0, 0
		for _, c := range res.Changes {
			if c.Start < at || c.End < c.Start || c.End > len(text) {
				t.Fatalf("changes out of order: %v", res.Changes)
			}
			keep := text[at:c.Start]
			if !strings.HasPrefix(res.Text[out:], keep+c.New) {
				t.Fatalf("%q -> %q: the changes are %v", text, res.Text, res.Changes)
			}
			out += len(keep) + len(c.New)
			at = c.End
		}
		if res.Text[out:] != text[at:] {
			t.Fatalf("%q -> %q: the end changed", text, res.Text)
		}
	})
}
