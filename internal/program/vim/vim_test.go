package vim_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/grapheme"
	"github.com/knack-agent/knack/internal/program/vim"
)

var update = flag.Bool("update", false, "ask Vim again, and rewrite testdata")

// A sample is a text, the keys that are pressed in normal mode with the cursor at its start, and what Vim makes of it.
type sample struct {
	Text string `json:"text"`
	Keys string `json:"keys"` // control characters are keys
	Want result `json:"want,omitzero"`
}

type result struct {
	Text string `json:"text"`
	Line int    `json:"line"`
	Col  int    `json:"col"` // bytes
}

var names = map[rune]string{'\x1b': "esc", '\r': "enter", '\b': "backspace", '\x12': "ctrl+r", '\t': "tab"}

// A typist is an editor with Vim's keys: it types what Vim leaves to it.
type typist struct {
	v    vim.Vim
	text string
	at   int
}

func (p *typist) press(key string) {
	var handled bool
	if p.text, p.at, handled = p.v.Key(p.text, p.at, key); handled || p.v.Mode() != vim.Insert {
		return
	}
	switch key {
	case "enter":
		key = "\n"
	case "tab":
		key = "\t"
	case "backspace":
		from := grapheme.Prev(p.text, p.at)
		p.text, p.at = p.text[:from]+p.text[p.at:], from
		return
	}
	if utf8.RuneCountInString(key) == 1 {
		p.text, p.at = p.text[:p.at]+key+p.text[p.at:], p.at+len(key)
	}
}

func play(text, keys string) result {
	p := typist{text: text}
	p.press("esc")
	p.at = 0
	for _, r := range keys {
		key := names[r]
		if key == "" {
			key = string(r)
		}
		p.press(key)
	}
	p.press("esc")
	p.press("esc")
	return result{p.text, strings.Count(p.text[:p.at], "\n"), p.at - strings.LastIndexByte(p.text[:p.at], '\n') - 1}
}

// askVim returns what Vim makes of samples.
func askVim(t *testing.T, all []sample) []result {
	program, err := exec.LookPath("vim")
	if err != nil {
		t.Skip("vim is not installed")
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, data, 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/replay.vim")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-N", "-u", "NONE", "-i", "NONE", "-n", "-es", "-S", script)
	cmd.Env = append(os.Environ(), "VIM_CASES="+in, "VIM_OUT="+out, "LC_ALL=C.UTF-8")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(said))
	}
	if data, err = os.ReadFile(out); err != nil {
		t.Fatal(err, string(said))
	}
	var results []result
	if err := json.Unmarshal(data, &results); err != nil || len(results) != len(all) {
		t.Fatal(err, len(results), len(all), string(said))
	}
	return results
}

// TestRandom replays random keys in Vim and here. A selection with text objects that reach over the ends of lines, and
// the deletion of the whole text, have corners that differ: one in 500 may.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(56, 1))
	var all []sample
	for range 3000 {
		all = append(all, sample{Text: texts[r.IntN(len(texts))], Keys: randomKeys(r)})
	}
	different := ""
	n := 0
	for i, want := range askVim(t, all) {
		if got := play(all[i].Text, all[i].Keys); got != want {
			n++
			different += fmt.Sprintf("%q, keys %q:\n got %+v\nwant %+v\n", all[i].Text, all[i].Keys, got, want)
		}
	}
	if n*500 > len(all) {
		t.Errorf("%d of %d differ:\n%s", n, len(all), different)
	}
}

// TestRecorded replays what Vim made of the samples when they were recorded.
func TestRecorded(t *testing.T) {
	const file = "testdata/recorded.json"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if *update {
		for i, r := range askVim(t, all) {
			all[i].Want = r
		}
		var out bytes.Buffer
		for i, s := range all {
			line, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString([]string{"[\n", ",\n"}[min(i, 1)] + string(line))
		}
		out.WriteString("\n]\n")
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		if got := play(s.Text, s.Keys); got != s.Want {
			t.Errorf("%q, keys %q:\n got %+v\nwant %+v", s.Text, s.Keys, got, s.Want)
		}
	}
}

// FuzzKeys presses any keys in any text: the cursor stays between two characters, and so does the selection.
func FuzzKeys(f *testing.F) {
	for _, text := range texts {
		f.Add(text, "dwvaw2>.u\x12p")
	}
	f.Add("本語 テスョす", " > u\x120") // redo begins where a character of the text with the indentation is
	f.Add("e\u0301 \U0001f469\u200d\U0001f680 x", "lrzv$~J3.")
	f.Fuzz(func(t *testing.T, text, keys string) {
		if len(text) > 200 || len(keys) > 40 || !utf8.ValidString(text) || strings.Contains(text, "\r") {
			return
		}
		p := typist{text: text}
		p.press("esc")
		for _, r := range keys {
			key := names[r]
			if key == "" {
				key = string(r)
			}
			if p.press(key); p.at < 0 || p.at > len(p.text) || !utf8.ValidString(p.text[:p.at]) {
				t.Fatalf("after %q the cursor is at %d of %q", key, p.at, p.text)
			}
			if from, to := p.v.Selection(p.text, p.at); from < 0 || from > to || to > len(p.text) {
				t.Fatalf("after %q the selection of %q is %d to %d", key, p.text, from, to)
			}
			if len(p.text) > 1<<16 {
				return
			}
		}
	})
}

var texts = []string{
	"", "a", "one two three", "  foo.bar(baz, qux)  ", "first line\nsecond line\nthird", "a\n\nb c\n", "\n\n",
	"say \"hello there\" and 'bye'", "x = f(a[1], {b: 2});", "if (x) {\n  call(y);\n}\nend", "  indented\n\ttab\n    deep",
	"日本語 テスト です abc", "foo\n  bar\n\n  baz qux\n", "end. ", "((a) (b))", "one-two_three  four\n   five",
}

func randomKeys(r *rand.Rand) string {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	count := func() string {
		if r.IntN(4) == 0 {
			return string(rune('1' + r.IntN(4)))
		}
		return ""
	}
	motions := []string{"h", "j", "k", "l", "w", "W", "b", "B", "e", "E", "0", "^", "$", "gg", "G", "fo", "Fo", "t ", "Ta",
		";", ",", "%", "ge"}
	inVisual := []string{"h", "j", "k", "l", "w", "W", "b", "B", "e", "0", "^", "gg", "G", "fo", "o", "%"}
	objects := []string{"iw", "aw", "iW", "aW", "i\"", "a\"", "i'", "a'", "i(", "a(", "i[", "a[", "i{", "a{"}
	countless := func(m string) string { // 40 would be a count, and what follows a part of its command
		if strings.ContainsAny(m, "0") || len(m) == 2 && strings.ContainsAny(m[:1], "ia") {
			return m
		}
		return count() + m
	}
	simple := []string{"x", "X", "D", "Y", "~", "J", "p", "P", ".", "rz", "yy", "dd", ">>", "<<", "yyp"}
	typed := []string{"i", "a", "I", "A", "o", "O", "C", "s", "S", "cc"}
	words := []string{"X", "ab c", "x\b", ""}
	var keys strings.Builder
	for range 1 + r.IntN(5) {
		switch r.IntN(10) {
		case 0, 1, 2:
			keys.WriteString(countless(pick(append(motions, "\b", " "))))
		case 3, 4:
			op := pick([]string{"d", "y", "d", ">", "<"})
			keys.WriteString(op + countless(pick(append(motions, objects...))))
		case 5:
			keys.WriteString("c" + countless(pick(append(motions, objects...))) + pick(words) + "\x1b")
		case 6, 7:
			keys.WriteString(count() + pick(simple))
		case 8:
			keys.WriteString(count() + pick(typed) + pick(words) + "\x1b")
		case 9:
			keys.WriteString(pick([]string{"v", "V", "viw", "vaw", "vi(", "va[", "vi\""}))
			for range r.IntN(3) {
				keys.WriteString(countless(pick(inVisual)))
			}
			keys.WriteString(pick([]string{"d", "y", "x", ">", "<", "J", "~", "u", "U", "rz", "p", "cZ\x1b", "\x1b"}))
		}
	}
	return keys.String()
}

// TestCommandLine: ":wq" and Enter neither change nor send a text.
func TestCommandLine(t *testing.T) {
	var v vim.Vim
	text, at, _ := v.Key("a draft", 7, "esc")
	for _, key := range []string{":", "w", "q", "enter"} {
		var handled bool
		if text, at, handled = v.Key(text, at, key); !handled {
			t.Errorf("%s is not handled", key)
		}
	}
	if text != "a draft" || v.Waits() || v.Mode() != vim.Normal {
		t.Errorf("%q, waits %v, %v", text, v.Waits(), v.Mode())
	}
}
