package styled

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func text(lines []Line) string {
	var all []string
	for _, l := range lines {
		all = append(all, l.String())
	}
	return strings.Join(all, "|")
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"", 10, ""},
		{"one two three", 20, "one two three"},
		{"one two three", 7, "one two|three"},
		{"one two three", 8, "one two|three"},
		{"one  two", 4, "one|two"},
		{"abcdefghij", 4, "abcd|efgh|ij"},
		{"日本語のテキスト", 5, "日本|語の|テキ|スト"},
		{"日本。語", 4, "日|本。|語"},
		{"「日本」", 4, "「日|本」"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301e\u0301|e\u0301"},
		{"👩\u200d💻👩\u200d💻", 3, "👩\u200d💻|👩\u200d💻"},
		{"日", 1, "日"},
	} {
		if got := text(Wrap(S(Text, c.in), c.width, nil, nil)); got != c.want {
			t.Errorf("%q in %d cells: %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

// TestWrapKeeps: all characters except blanks are kept in order, and lines fit.
func TestWrapKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.RuneFrom([]rune("ab e\u0301日本。「」👩💻 -")), 0, 60, -1).Draw(t, "text")
		width := rapid.IntRange(2, 20).Draw(t, "width")
		lines := Wrap(S(Bold, s), width, S(Dim, "> "), S(Dim, "  "))
		var b strings.Builder
		for i, l := range lines {
			if l.Width() > max(width, 4) {
				t.Fatalf("%d cells of %d: %q", l.Width(), width, l.String())
			}
			b.WriteString(strings.TrimPrefix(l.String(), []string{"> ", "  "}[min(i, 1)]))
		}
		none := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if none(b.String()) != none(s) {
			t.Fatalf("%q became %q", s, b.String())
		}
	})
}

func TestCut(t *testing.T) {
	l := Line{{Text: "ab", Style: Bold}, {Text: "日本語"}}
	for width, want := range map[int]string{8: "ab日本語", 7: "ab日本…", 5: "ab日…", 3: "ab…", 2: "a…", 1: "…", 0: ""} {
		if got := l.Cut(width).String(); got != want {
			t.Errorf("cut to %d: %q, want %q", width, got, want)
		}
	}
}

func TestAppend(t *testing.T) {
	theme, _ := ThemeNamed("dark")
	l := Line{{Text: "a", Style: Bad | Bold}, {Text: "b"}, {Text: "c", Link: "https://go.dev"}, {Text: "d\x1b[2J\u009b"}}
	want := "\x1b[1;31ma\x1b[mb\x1b]8;;https://go.dev\x1b\\c\x1b]8;;\x1b\\d\ufffd[2J\ufffd"
	if got := string(theme.Append(nil, l)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var none Theme
	if got := string(none.Append(nil, l[:3])); got != "abc" {
		t.Errorf("without colours and attributes: %q", got)
	}
}

// TestThemes: each theme of the program is a file, and what is wrong with a file is named.
func TestThemes(t *testing.T) {
	files, err := themeFiles.ReadDir("themes")
	if err != nil || len(files) != len(builtIn) || len(Themes()) != 7 {
		t.Errorf("%d files, %d names, %d themes: %v", len(files), len(builtIn), len(Themes()), err)
	}
	for _, theme := range Themes() {
		if theme.Help == "" || (theme.colour[Bad] == "") != (theme.Name == "none") {
			t.Errorf("%s: %q, %q", theme.Name, theme.Help, theme.colour[Bad])
		}
	}
	mine, err := ParseTheme("mine",
		[]byte(`{"colours": {"bad": "bright-red", "user": "#ff8000 on blue", "quote": "on 208"}}`))
	if err != nil || mine.colour[Bad] != "91" || mine.colour[User] != "38;2;255;128;0;44" ||
		mine.colour[Quote] != "48;5;208" {
		t.Errorf("%q, %v", mine.colour, err)
	}
	for text, want := range map[string]string{
		`{"colours": {"bda": "red"}}`:         "there is no such role",
		`{"colours": {"bad": "redd"}}`:        "is not a colour",
		`{"colours": {"bad": "#12345"}}`:      "is not a colour",
		`{"colours": {"bad": "256"}}`:         "is not a colour",
		`{"colours": {"bad": "red blue"}}`:    "is not a colour",
		`{"colours": {"bad": "on"}}`:          "is not a colour",
		`{"colours": {"bad": "on red blue"}}`: "is not a colour",
		`{"colours": {"bad": "1;31"}}`:        "is not a colour",
		`{"colors": {}}`:                      "it is not a theme",
		`[]`:                                  "it is not a theme",
		strings.Repeat(" ", MaxThemeFile+1):   "larger than 64 KiB",
	} {
		if _, err := ParseTheme("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
}

// TestBreakWords: a line breaks after blanks, all of which stay, and within words that are longer than a row.
func TestBreakWords(t *testing.T) {
	for in, want := range map[string]string{
		"git push  --force now": "git push  |--force |now", "abcdefghijklm no": "abcdefghij|klm no", "short": "short",
	} {
		var got []string
		for _, l := range BreakWords(S(Text, in), 10) {
			got = append(got, l.String())
		}
		if got := strings.Join(got, "|"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
