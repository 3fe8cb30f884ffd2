package styled

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Theme defines the colour of each role as parameters of an SGR sequence, such as "31" or
// "38;2;255;0;0"; "" is the terminal's default colour. The zero Theme has no colours and no
// attributes.
type Theme struct {
	Name   string
	Help   string // one line
	colour [roles]string
	// added and removed are the backgrounds of changed lines.
	added, removed string
	// Attributes enables bold, italic and so on.
	Attributes bool
	// Links enables OSC 8 hyperlinks.
	Links bool
}

//go:embed themes/*.json
var themeFiles embed.FS

// builtIn are the names of the themes of the program, in the order in which users choose.
var builtIn = []string{"dark", "light", "high-contrast", "colour-blind", "truecolor", "truecolor-light", "none"}

var readBuiltIn = sync.OnceValue(func() (all []Theme) {
	for _, name := range builtIn {
		data, err := themeFiles.ReadFile("themes/" + name + ".json")
		if err != nil {
			panic(err) // it is embedded
		}
		t, err := ParseTheme(name, data)
		if err != nil {
			panic(err) // a test reads all of them
		}
		all = append(all, t)
	}
	return all
})

// Themes returns the themes of the program.
func Themes() []Theme { return slices.Clone(readBuiltIn()) }

// ThemeNamed returns the theme of the program with the given name.
func ThemeNamed(name string) (Theme, bool) {
	for _, t := range readBuiltIn() {
		if t.Name == name {
			return t, true
		}
	}
	return Theme{}, false
}

// NoColor is the theme without colours. It keeps bold and underline, because NO_COLOR is only about colour.
func NoColor() Theme { return builtInTheme("none") }

// ThemeFor returns the default theme for a light or dark background.
func ThemeFor(light bool) Theme {
	if light {
		return builtInTheme("light")
	}
	return builtInTheme("dark")
}

// Deep returns the theme with the backgrounds of changed lines in 24-bit colours, for a terminal that has them: the
// darkest of the 256 colours are too bright below text in the terminal's own colours.
func (t Theme) Deep(light bool) Theme {
	from := builtInTheme("truecolor")
	if light {
		from = builtInTheme("truecolor-light")
	}
	t.added, t.removed = from.added, from.removed
	return t
}

func builtInTheme(name string) Theme {
	t, _ := ThemeNamed(name)
	return t
}

// MaxThemeFile limits the size of a theme file.
const MaxThemeFile = 64 << 10

// ParseTheme reads a theme file: JSON with a description and colours by role. A colour is a name (red, bright-red), a
// number of the 256 colours, or #rrggbb; "on" and a colour set the background.
func ParseTheme(name string, data []byte) (Theme, error) {
	var file struct {
		Description string            `json:"description"`
		Colours     map[string]string `json:"colours"`
	}
	if len(data) > MaxThemeFile {
		return Theme{}, fmt.Errorf("the file is larger than %d KiB", MaxThemeFile>>10)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return Theme{}, fmt.Errorf("it is not a theme: %w", err)
	}
	t := Theme{Name: name, Help: file.Description, Attributes: true, Links: true}
	for _, role := range slices.Sorted(maps.Keys(file.Colours)) {
		i := slices.Index(roleNames[:], role)
		if i < 0 && role != "added" && role != "removed" {
			return Theme{}, fmt.Errorf("colours.%s: there is no such role; the roles are %s, added, removed", role,
				strings.Join(roleNames[Dim:], ", "))
		}
		sgr, ok := parseColours(file.Colours[role])
		if !ok {
			return Theme{}, fmt.Errorf("colours.%s: %q is not a colour such as red, bright-red, 208, #ff8800 or on blue", role,
				file.Colours[role])
		}
		switch role {
		case "added":
			t.added = sgr
		case "removed":
			t.removed = sgr
		default:
			t.colour[i] = sgr
		}
	}
	return t, nil
}

// roleNames are the names of the roles in theme files.
var roleNames = [roles]string{Dim: "dim", Accent: "accent", Heading: "heading", InlineCode: "inlineCode",
	CodeText: "codeText", Keyword: "keyword", String: "string", Number: "number", Comment: "comment", Function: "function",
	Type: "type", Inserted: "inserted", Deleted: "deleted", Hunk: "hunk", Quote: "quote", LinkText: "link", Good: "good",
	Warn: "warn", Bad: "bad", User: "user"}

// parseColours converts "bright-white on blue" to parameters of an SGR sequence.
func parseColours(text string) (sgr string, ok bool) {
	words := strings.Fields(text)
	var all []string
	for i, base := 0, 30; i < len(words); i++ {
		if words[i] == "on" && base == 30 && i+1 < len(words) {
			base = 40
			continue
		}
		one, ok := parseColour(words[i], base)
		if !ok || len(all) > 0 && base == 30 || base == 40 && i != len(words)-1 {
			return "", false
		}
		all = append(all, one)
	}
	return strings.Join(all, ";"), true
}

// parseColour converts one colour. base is 30 for text, 40 for the background.
func parseColour(word string, base int) (sgr string, ok bool) {
	if hex, ok := strings.CutPrefix(word, "#"); ok {
		n, err := strconv.ParseUint(hex, 16, 32)
		return fmt.Sprintf("%d;2;%d;%d;%d", base+8, n>>16&255, n>>8&255, n&255), err == nil && len(hex) == 6
	}
	if n, err := strconv.ParseUint(word, 10, 8); err == nil {
		return fmt.Sprintf("%d;5;%d", base+8, n), true
	}
	name, bright := strings.CutPrefix(word, "bright-")
	i := slices.Index([]string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}, name)
	if bright {
		base += 60
	}
	return strconv.Itoa(base + i), i >= 0
}

var attributes = []struct {
	style Style
	sgr   string
}{{Bold, "1"}, {Italic, "3"}, {Underline, "4"}, {Reverse, "7"}, {Strike, "9"}}

// Append appends a line with its escape sequences to dst and returns the result. It resets the
// style after each styled span, so that a line does not affect what follows. It replaces
// control characters in texts by U+FFFD.
func (t *Theme) Append(dst []byte, l Line) []byte {
	for i := 0; i < len(l); i++ {
		s := l[i]
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
		if s.Style&Added != 0 {
			sgr(t.added)
		}
		if s.Style&Removed != 0 {
			sgr(t.removed)
		}
		styled := len(dst) > start
		if styled {
			dst = append(dst, 'm')
		}
		dst = appendText(dst, s.Text)
		for i+1 < len(l) && l[i+1].Style == s.Style && l[i+1].Link == s.Link {
			i++
			dst = appendText(dst, l[i].Text)
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

func appendText(dst []byte, text string) []byte {
	if clean(text) {
		return append(dst, text...)
	}
	return append(dst, strings.Map(func(r rune) rune {
		if control(r) {
			return utf8.RuneError
		}
		return r
	}, text)...)
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
