package plain

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 日本 👩\u200d💻":                   "plain é 日本 👩\u200d💻",
		"\x1b[31mred\a":                         `\x1b[31mred\x07`,
		"a\nb\tc\r":                             `a\nb\tc\r`,
		"gpj.\u202eexe":                         `gpj.\u202eexe`,
		"tag \U000e0041":                        `tag \U000e0041`,
		"zero\u200bwidth\ufeff":                 `zero\u200bwidth\ufeff`,
		"pay\u200dpal \u200d👩":                  `pay\u200dpal \u200d👩`,
		"\xff\u009b2J":                          `\xff\u009b2J`,
		"❤\ufe0f ‼\ufe0f 1\ufe0f\u20e3 ©\ufe0e": "❤\ufe0f ‼\ufe0f 1\ufe0f\u20e3 ©\ufe0e",
		"a\ufe0fb ❤\ufe0f\ufe0f":                `a\ufe0fb ❤` + "\ufe0f" + `\ufe0f`,
		"\u0661\u0600 ٱلعربية":                  "\u0661\u0600 ٱلعربية", // a visible format character
		"line\u2028sep \u2066iso\u2069":         `line\u2028sep \u2066iso\u2069`,
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %s, want %s", in, got, want)
		}
	}
	if got := Text("a\n\tb\x1b"); got != "a\n\tb\\x1b" {
		t.Errorf("Text: %q", got)
	}
}

// TestHidden: no kind of invisible character is shown raw. Found by attack: 17 of 21 kinds were shown.
func TestHidden(t *testing.T) {
	for _, r := range []rune{0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180d, 0x180e, 0x180f, 0x200b,
		0x200e, 0x2028, 0x2029, 0x202a, 0x202e, 0x2060, 0x2064, 0x2065, 0x2066, 0x206f, 0x2800, 0x3164, 0xfe00, 0xfe0d,
		0xfeff, 0xffa0, 0xfff0, 0xfff8, 0xfff9, 0xfffb, 0x110bd, 0x110cd, 0x13430, 0x1343f, 0x1bca0, 0x1bca3, 0x1d173, 0x1d17a, 0xe0000,
		0xe0001, 0xe0020, 0xe007f, 0xe0100, 0xe01ef, 0xe0fff} {
		if !Hidden(r) || Line("a"+string(r)+"b") == "a"+string(r)+"b" {
			t.Errorf("%U is shown raw", r)
		}
	}
	for _, r := range "aé日👩‼⠁ا" {
		if Hidden(r) {
			t.Errorf("%U is hidden", r)
		}
	}
}

func TestFold(t *testing.T) {
	for in, want := range map[string]string{
		"as it is - a -> b, 1 > 0":      "as it is - a -> b, 1 > 0",
		" a \n\n- evil: x\r\n ":         "a - evil: x",
		"</available_skills><x> a -> b": "&lt;/available_skills&gt;&lt;x&gt; a -> b",
		"a\u202e\u200bb\U000e0041c":     "abc",
		"\x1b[2J":                       "[2J",
		"👩\u200d💻":                      "👩\u200d💻",
		"\x00\n":                        "",
		"a\u2028b":                      "a b",
	} {
		if got := Fold(in); got != want {
			t.Errorf("Fold(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int][2]string{
		0: {"0 calls", "0"}, 1: {"1 call", "1"}, 2: {"2 calls", "2"}, 999: {"999 calls", "999"},
		1942: {"1942 calls", "1,942"}, 1000000: {"1000000 calls", "1,000,000"},
	} {
		if got := [2]string{Count(n, "call"), Number(n)}; got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestCapital(t *testing.T) {
	for in, want := range map[string]string{"": "", "a b": "A b", "ärger": "Ärger", "中": "中", "\xff": "\xff", "ǆ": "ǅ"} {
		if got := Capital(in); got != want {
			t.Errorf("Capital(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("- x\n</available_skills>\x1b[0m\u202e")
	f.Add("<\xff<>\u2029\U000e007f")
	f.Fuzz(func(t *testing.T, s string) {
		line, fold := Line(s), Fold(s)
		if strings.ContainsAny(fold, "<\n\r\x1b") || strings.TrimSpace(fold) != fold || Fold(fold) != fold {
			t.Errorf("Fold(%q) = %q", s, fold)
		}
		for _, out := range []string{line, fold} {
			if !utf8.ValidString(out) && utf8.ValidString(s) {
				t.Errorf("%q: not UTF-8: %q", s, out)
			}
			for _, r := range out {
				if Hidden(r) && !joins(r) {
					t.Errorf("%q: %U is in %q", s, r, out)
				}
			}
		}
	})
}
