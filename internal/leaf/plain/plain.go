// Package plain makes untrusted text from files safe to show: names, descriptions, paths and
// messages.
//
// For a terminal use [Line] or [Text], which make characters that could hide or control
// something visible as \x1b or \u202e. For a model use [Fold], which removes them. [Count] and
// [Number] format numbers for both.
package plain

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether a character controls a terminal, reorders text or is invisible:
// control characters, line and paragraph separators, the blank Braille pattern, Unicode's format
// characters (bidi controls, tags, zero-width characters), and all that Unicode calls default
// ignorable, such as fillers and variation selectors. Not hidden are the format characters of Arabic
// and Syriac that are drawn, such as the Arabic number sign; few fonts draw those of other scripts.
func Hidden(r rune) bool {
	switch {
	case r < ' ', 0x7f <= r && r <= 0x9f:
		return true
	case r < 0x34f: // the first one after the soft hyphen
		return r == 0xad
	case r == 0x2028, r == 0x2029, r == 0x2800, 0xe0000 <= r && r <= 0xe0fff:
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		!(r <= 0xffff && unicode.Is(unicode.Prepended_Concatenation_Mark, r))
}

const (
	textStyle  = 0xfe0e // these choose how the character before them is drawn
	emojiStyle = 0xfe0f
)

// Written reports whether a hidden character between two texts belongs to ordinary writing: a joiner of emoji or of
// scripts that need it, or what chooses the style of a symbol.
func Written(before string, r rune, after string) bool { return joins(r) && joined(before, r, after) }

// joins reports whether a hidden character is a joiner or chooses a style, which ordinary text
// needs: emoji and several scripts are written with them.
func joins(r rune) bool { return r == 0x200c || r == 0x200d || r == textStyle || r == emojiStyle }

// joined reports whether a joiner between two texts has something to join: letters of scripts
// that use joiners, or emoji. Between other characters it could only hide something. A style
// belongs after a symbol, or between a key's sign and the frame around it.
func joined(before string, r rune, after string) bool {
	if r == textStyle || r == emojiStyle {
		prev, _ := utf8.DecodeLastRuneInString(before)
		return prev != utf8.RuneError && unicode.Is(unicode.S, prev) && !Hidden(prev) || prev == 0x203c || prev == 0x2049 ||
			strings.HasPrefix(after, "\u20e3") && strings.ContainsRune("0123456789#*", prev)
	}
	const first = 0x600 // Arabic; scripts and symbols that use joiners come after it
	prev, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	return prev >= first && next >= first && prev != utf8.RuneError && next != utf8.RuneError &&
		(!Hidden(prev) || prev == emojiStyle) && !Hidden(next)
}

// Line returns text as one line for a terminal, with hidden characters escaped.
func Line(s string) string { return escape(s, false) }

// Text is like Line, but keeps newlines and tabs.
func Text(s string) string { return escape(s, true) }

func escape(s string, lines bool) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || Hidden(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case !Hidden(r) || Written(s[:i], r, s[i+n:]):
			b.WriteString(s[i : i+n])
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// Fold returns text as one line for a model: a run of white space and control characters
// becomes one blank, hidden characters other than joiners are removed, and tags are escaped
// (&lt;tag&gt;). A > that closes no tag, as in an arrow, is not changed.
func Fold(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] > ' ' && s[i] < 0x7f && s[i] != '<' || s[i] == ' ' && i > 0 && i < len(s)-1 && s[i-1] != ' '
	}
	if plain {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	blank, tag := false, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || r < ' ' || 0x7f <= r && r <= 0x9f:
			blank = true
			continue
		case Hidden(r) && !joins(r):
			continue
		}
		if blank && b.Len() > 0 {
			b.WriteByte(' ')
		}
		blank = false
		switch {
		case r == '<':
			b.WriteString("&lt;")
			tag = true
		case r == '>' && tag:
			b.WriteString("&gt;")
			tag = false
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Within returns text for use between <tag> and </tag>: every </tag> in it is escaped, in any
// letter case and with any blanks.
func Within(tag, s string) string {
	return regexp.MustCompile(`(?i)<(\s*/\s*`+regexp.QuoteMeta(tag)+")").ReplaceAllString(s, `<\$1`)
}

// Count formats a number with a noun: "1 request" or "2 requests" for the noun request.
func Count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}

// List joins names with commas. Of more than most it names the first, and how many more there are.
func List(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}

// Capital returns s with its first letter as a capital.
func Capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || r == utf8.RuneError {
		return s
	}
	return string(unicode.ToTitle(r)) + s[n:]
}

// Number formats 1942 as 1,942.
func Number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Size formats a number of bytes in the notices that models get: 512B, 58.6KB, 1.2MB.
func Size(n int64) string { return strings.Replace(Bytes(n), " ", "", 1) }

// Bytes formats a number of bytes for people: 512 B, 58.6 KB, 1.2 MB.
func Bytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// Visible returns text for a model, with newlines and tabs, but without hidden characters, and how many were removed.
// Joiners that join something are kept, and a carriage return before a newline is removed without being counted.
func Visible(s string) (text string, removed int) {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || Hidden(r) && r != '\n' && r != '\t' }) {
		return s, 0
	}
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch n := utf8.RuneLen(r); {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
		case !Hidden(r) || Written(s[:i], r, s[i+n:]):
			b.WriteRune(r) // an invalid byte becomes U+FFFD
		default:
			removed++
		}
	}
	return b.String(), removed
}
