package styled

import (
	"strings"
	"unicode/utf8"
)

// A Theme defines the colour of each role as parameters of an SGR sequence, such as "31" or
// "38;2;255;0;0"; "" is the terminal's default colour. The zero Theme has no colours and no
// attributes.
type Theme struct {
	Name   string
	Help   string // one line
	colour [roles]string
	// Attributes enables bold, italic and so on.
	Attributes bool
	// Links enables OSC 8 hyperlinks.
	Links bool
}

// The themes. They differ only in colours. [NoColor] keeps bold and underline, because
// NO_COLOR is only about colour.
var (
	darkTheme = Theme{Name: "dark", Help: "16 colours, for a dark background", Attributes: true, Links: true,
		colour: [roles]string{
			Dim: "90", Accent: "36", Heading: "36", InlineCode: "36", Keyword: "35", String: "32", Number: "33",
			Comment: "90", Function: "34", Type: "36", Inserted: "32", Deleted: "31", Hunk: "36", Quote: "90",
			LinkText: "34", Good: "32", Warn: "33", Bad: "31", User: "48;5;237",
		}}
	lightTheme = Theme{Name: "light", Help: "for a light background", Attributes: true, Links: true, colour: [roles]string{
		Dim: "38;5;243", Accent: "34", Heading: "34", InlineCode: "34", Keyword: "35", String: "38;5;28",
		Number: "38;5;130", Comment: "38;5;243", Function: "34", Type: "38;5;30", Inserted: "38;5;28", Deleted: "31",
		Hunk: "38;5;30", Quote: "38;5;243", LinkText: "34", Good: "38;5;28", Warn: "38;5;130", Bad: "31", User: "48;5;254",
	}}
	contrast = Theme{Name: "high-contrast", Help: "bright colours, nothing is dimmed", Attributes: true, Links: true,
		colour: [roles]string{
			Accent: "96", Heading: "97", InlineCode: "96", Keyword: "95", String: "92", Number: "93", Function: "94",
			Type: "96", Inserted: "92", Deleted: "91", Hunk: "96", LinkText: "94", Good: "92", Warn: "93", Bad: "91", User: "97;44",
		}}
	// Blue and orange can be distinguished with every common form of colour blindness.
	colourblind = Theme{Name: "colour-blind", Help: "blue and orange instead of green and red", Attributes: true,
		Links: true, colour: [roles]string{
			Dim: "90", Accent: "34", Heading: "34", InlineCode: "34", Keyword: "34", String: "38;5;172", Number: "38;5;172",
			Comment: "90", Function: "34", Type: "34", Inserted: "38;5;33", Deleted: "38;5;208", Hunk: "90", Quote: "90",
			LinkText: "38;5;33", Good: "38;5;33", Warn: "38;5;220", Bad: "38;5;208", User: "48;5;237",
		}}
	truecolor = Theme{Name: "truecolor", Help: "24-bit colours, for a dark background", Attributes: true, Links: true,
		colour: [roles]string{
			Dim: "38;2;128;134;144", Accent: "38;2;86;182;194", Heading: "38;2;97;175;239", InlineCode: "38;2;86;182;194",
			Keyword: "38;2;198;120;221", String: "38;2;152;195;121", Number: "38;2;209;154;102",
			Comment: "38;2;128;134;144", Function: "38;2;97;175;239", Type: "38;2;229;192;123",
			Inserted: "38;2;152;195;121", Deleted: "38;2;224;108;117", Hunk: "38;2;86;182;194", Quote: "38;2;128;134;144",
			LinkText: "38;2;97;175;239", Good: "38;2;152;195;121", Warn: "38;2;229;192;123", Bad: "38;2;224;108;117",
			User: "48;2;49;54;63",
		}}
)

// NoColor is the theme without colours.
func NoColor() Theme {
	return Theme{Name: "none", Help: "no colours; bold and underlined only", Attributes: true, Links: true}
}

// Themes returns all themes that a user can choose.
func Themes() []Theme {
	return []Theme{darkTheme, lightTheme, contrast, colourblind, truecolor, NoColor()}
}

// ThemeFor returns the default theme for a light or dark background.
func ThemeFor(light bool) Theme {
	if light {
		return lightTheme
	}
	return darkTheme
}

// ThemeNamed returns the theme with the given name.
func ThemeNamed(name string) (Theme, bool) {
	for _, t := range Themes() {
		if t.Name == name {
			return t, true
		}
	}
	return Theme{}, false
}

var attributes = []struct {
	style Style
	sgr   string
}{{Bold, "1"}, {Italic, "3"}, {Underline, "4"}, {Reverse, "7"}, {Strike, "9"}}

// Append appends a line with its escape sequences to dst and returns the result. It resets the
// style after each styled span, so that a line does not affect what follows. It replaces
// control characters in texts by U+FFFD.
func (t *Theme) Append(dst []byte, l Line) []byte {
	for _, s := range l {
		link := t.Links && s.Link != "" && clean(s.Link)
		if link {
			dst = append(dst, "\x1b]8;;"...)
			dst = append(dst, s.Link...)
			dst = append(dst, "\x1b\\"...)
		}
		start := len(dst)
		sgr := func(p string) {
			if p == "" {
				return
			}
			if len(dst) == start {
				dst = append(dst, "\x1b["...)
			} else {
				dst = append(dst, ';')
			}
			dst = append(dst, p...)
		}
		if t.Attributes {
			for _, a := range attributes {
				if s.Style&a.style != 0 {
					sgr(a.sgr)
				}
			}
		}
		if r := s.Style & roleMask; r < roles {
			sgr(t.colour[r])
		}
		styled := len(dst) > start
		if styled {
			dst = append(dst, 'm')
		}
		if clean(s.Text) {
			dst = append(dst, s.Text...)
		} else {
			dst = append(dst, strings.Map(func(r rune) rune {
				if control(r) {
					return utf8.RuneError
				}
				return r
			}, s.Text)...)
		}
		if styled {
			dst = append(dst, "\x1b[m"...)
		}
		if link {
			dst = append(dst, "\x1b]8;;\x1b\\"...)
		}
	}
	return dst
}

// Render returns lines as text with escape sequences, each line ending in a newline.
func (t *Theme) Render(lines []Line) string {
	var b []byte
	for _, l := range lines {
		b = append(t.Append(b, l), '\n')
	}
	return string(b)
}

func control(r rune) bool { return r < ' ' || 0x7f <= r && r <= 0x9f || r == utf8.RuneError }

func clean(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == 0x7f || c >= utf8.RuneSelf {
			return utf8.ValidString(s) && strings.IndexFunc(s, control) < 0
		}
	}
	return true
}
