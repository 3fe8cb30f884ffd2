package pdftext

import (
	"strconv"
	"strings"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"

	"github.com/knack-agent/knack/internal/leaf/charset"
)

// A font converts the bytes of strings into characters.
type font struct {
	wide    bool // codes have two bytes
	utf16   bool // wide codes are UTF-16
	mac     bool
	unicode map[int]string // from the file's own ToUnicode table
	named   map[int]string // from glyph names
	widths  map[int]float64
	width   float64 // width of all other characters
}

// A char is a character of a string.
type char struct {
	text  string
	width float64 // in thousandths of the font size
	space bool    // the byte 32, which word spacing widens
}

func (w *writer) font(v any) *font {
	r, isRef := v.(ref)
	if isRef {
		if f, ok := w.fonts[r]; ok {
			return f
		}
	}
	var f *font
	if w.d.fonts++; w.d.fonts > maxFonts {
		f = newFont(w.d, nil)
	} else {
		f = newFont(w.d, w.d.dict(v))
	}
	if isRef {
		w.fonts[r] = f
	}
	return f
}

func newFont(d *document, v dict) *font {
	f := &font{width: 500, widths: map[int]float64{}}
	if s, ok := d.get(v["ToUnicode"]).(stream); ok {
		if data, err := d.decode(s); err == nil {
			f.unicode = toUnicode(data)
		}
	}
	if v["Subtype"] == name("Type0") {
		f.wide = true
		enc, _ := d.get(v["Encoding"]).(name)
		f.utf16 = strings.Contains(string(enc), "UCS2") || strings.Contains(string(enc), "UTF16")
		if kids := d.array(v["DescendantFonts"]); len(kids) > 0 {
			kid := d.dict(kids[0])
			f.width = 1000
			if dw, ok := d.get(kid["DW"]).(float64); ok {
				f.width = dw
			}
			f.wideWidths(d, d.array(kid["W"]))
		}
		return f
	}
	first, _ := d.get(v["FirstChar"]).(float64)
	for i, x := range d.array(v["Widths"]) {
		if n, ok := d.get(x).(float64); ok && i < 256 {
			f.widths[int(first)+i] = n
		}
	}
	switch enc := d.get(v["Encoding"]).(type) {
	case name:
		f.mac = enc == "MacRomanEncoding"
	case dict:
		f.mac = enc["BaseEncoding"] == name("MacRomanEncoding")
		f.named = map[int]string{}
		code := 0
		for _, x := range d.array(enc["Differences"]) {
			switch x := d.get(x).(type) {
			case float64:
				code = int(x)
			case name:
				if s := glyph(string(x)); s != "" {
					f.named[code] = s
				}
				code++
			}
		}
	}
	return f
}

// wideWidths parses "c [w w w] first last w ...".
func (f *font) wideWidths(d *document, list array) {
	left := maxCodes
	for i := 0; i+1 < len(list) && left > 0; {
		first, ok := d.get(list[i]).(float64)
		if !ok {
			return
		}
		if each := d.array(list[i+1]); each != nil {
			for k, x := range each[:min(len(each), left)] {
				left--
				if n, ok := d.get(x).(float64); ok {
					f.widths[int(first)+k] = n
				}
			}
			i += 2
			continue
		}
		if i+2 >= len(list) {
			return
		}
		last, _ := d.get(list[i+1]).(float64)
		n, _ := d.get(list[i+2]).(float64)
		for c := int(first); c <= int(min(last, first+1<<16)) && left > 0; c++ {
			f.widths[c] = n
			left--
		}
		i += 3
	}
}

func (f *font) decode(s string) []char {
	var out []char
	step := 1
	if f.wide {
		step = 2
	}
	for i := 0; i+step <= len(s); i += step {
		code := int(s[i])
		if f.wide {
			code = code<<8 | int(s[i+1])
		}
		c := char{width: f.width, space: !f.wide && code == ' '}
		if n, ok := f.widths[code]; ok {
			c.width = n
		}
		c.text = f.text(code)
		out = append(out, c)
	}
	return out
}

func (f *font) text(code int) string {
	if s, ok := f.unicode[code]; ok {
		return s
	}
	if s, ok := f.named[code]; ok {
		return s
	}
	switch {
	case f.utf16:
		return string(utf16.Decode([]uint16{uint16(code)}))
	case f.wide:
		return "\ufffd" // a glyph whose text the font does not tell
	case f.mac:
		return string(charmap.Macintosh.DecodeByte(byte(code)))
	case code < ' ':
		return ""
	}
	return string(charset.Windows1252.Decode(nil, []byte{byte(code)}))
}

// toUnicode parses a CMap, which maps codes to text.
func toUnicode(data []byte) map[int]string {
	out := map[int]string{}
	l := lexer{data: data}
	var args []any
	left := maxCodes
	for left > 0 {
		v := l.next()
		word, ok := v.(op)
		if !ok {
			if len(args) < 1<<16 {
				args = append(args, v)
			}
			continue
		}
		switch word {
		case eof:
			return out
		case "endbfchar":
			for i := 0; i+1 < len(args); i += 2 {
				left--
				from, ok1 := args[i].(text)
				to, ok2 := args[i+1].(text)
				if ok1 && ok2 {
					out[number(from)] = utf16BE(to)
				}
			}
		case "endbfrange":
			for i := 0; i+2 < len(args) && left > 0; i += 3 {
				left--
				lo, ok1 := args[i].(text)
				hi, ok2 := args[i+1].(text)
				if !ok1 || !ok2 {
					break
				}
				first, last := number(lo), number(hi)
				last = min(last, first+1<<16)
				switch to := args[i+2].(type) {
				case text:
					for c := first; c <= last && len(to) > 0 && left > 0; c++ {
						left--
						out[c] = utf16BE(add(to, c-first))
					}
				case array:
					for k, t := range to[:min(len(to), left)] {
						left--
						if t, ok := t.(text); ok && first+k <= last {
							out[first+k] = utf16BE(t)
						}
					}
				}
			}
		}
		args = args[:0]
	}
	return out
}

func number(s text) int {
	n := 0
	for i := 0; i < len(s) && i < 4; i++ {
		n = n<<8 | int(s[i])
	}
	return n
}

// add adds n to the last unit of a UTF-16 text.
func add(s text, n int) text {
	b := []byte(s)
	for i := len(b) - 1; i >= 0 && n > 0; i-- {
		n += int(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	return text(b)
}

func utf16BE(s text) string {
	if len(s) == 1 {
		return string(rune(s[0]))
	}
	return string(charset.UTF16BE.Decode(nil, []byte(s)))
}

// glyph returns the text of a glyph name, or "" if it is unknown. It knows single letters,
// letters with an accent, uniXXXX, and the names of Adobe's list that are common in texts.
func glyph(n string) string {
	n, _, _ = strings.Cut(n, ".")
	if len(n) == 1 {
		return n
	}
	for _, prefix := range []string{"uni", "u"} {
		if hex, ok := strings.CutPrefix(n, prefix); ok && len(hex) >= 4 {
			if r, err := strconv.ParseUint(hex[:min(len(hex), 6-len(prefix)/3*2)], 16, 32); err == nil {
				return string(rune(r))
			}
		}
	}
	for i := 0; i+1 < len(glyphs); i += 2 {
		if glyphs[i] == n {
			return glyphs[i+1]
		}
	}
	for i := 0; i+1 < len(accents); i += 2 {
		if letter, ok := strings.CutSuffix(n, accents[i]); ok && len(letter) == 1 {
			return norm.NFC.String(letter + accents[i+1])
		}
	}
	return ""
}

var accents = [...]string{
	"acute", "\u0301", "grave", "\u0300", "circumflex", "\u0302", "dieresis", "\u0308",
	"tilde", "\u0303", "ring", "\u030a", "cedilla", "\u0327", "caron", "\u030c",
}

var glyphs = [...]string{
	"space", " ", "exclam", "!", "quotedbl", `"`, "numbersign", "#", "dollar", "$", "percent", "%", "ampersand", "&",
	"quotesingle", "'", "quoteright", "’", "quoteleft", "‘", "parenleft", "(", "parenright", ")", "asterisk", "*",
	"plus", "+", "comma", ",", "hyphen", "-", "period", ".", "slash", "/", "zero", "0", "one", "1", "two", "2",
	"three", "3", "four", "4", "five", "5", "six", "6", "seven", "7", "eight", "8", "nine", "9", "colon", ":",
	"semicolon", ";", "less", "<", "equal", "=", "greater", ">", "question", "?", "at", "@", "bracketleft", "[",
	"backslash", `\`, "bracketright", "]", "asciicircum", "^", "underscore", "_", "grave", "`", "braceleft", "{",
	"bar", "|", "braceright", "}", "asciitilde", "~", "quotedblleft", "“", "quotedblright", "”", "quotedblbase", "„",
	"endash", "–", "emdash", "—", "bullet", "•", "ellipsis", "…", "fi", "fi", "fl", "fl", "ff", "ff", "ffi", "ffi",
	"ffl", "ffl", "germandbls", "ß", "ae", "æ", "AE", "Æ", "oslash", "ø", "Oslash", "Ø", "dotlessi", "ı", "oe", "œ",
	"OE", "Œ", "copyright", "©", "registered", "®", "trademark", "™", "degree", "°", "Euro", "€", "sterling", "£",
	"minus", "−", "multiply", "×", "section", "§", "paragraph", "¶", "nbspace", " ", "acute", "´", "dieresis", "¨",
}
