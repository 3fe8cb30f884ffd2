package terminal

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Key is one key press, a paste, or a reply of the terminal. The zero Key means no key.
type Key struct {
	// Name is "enter", "tab", "backspace", "esc", "up" and so on, or "text" or "paste". With
	// Ctrl or Alt, a letter is its own name. "background" and "attributes" are replies of the
	// terminal.
	Name  string
	Text  string // of "text" and "paste", maybe several characters; of "background", the colour
	Ctrl  bool
	Alt   bool
	Shift bool
}

// String returns the name as key bindings spell it: "ctrl+shift+up", "alt+b".
func (k Key) String() string {
	s := k.Name
	if k.Shift {
		s = "shift+" + s
	}
	if k.Alt {
		s = "alt+" + s
	}
	if k.Ctrl {
		s = "ctrl+" + s
	}
	return s
}

// A Decoder turns the bytes from a terminal into keys. It knows the sequences of xterm and of
// the kitty keyboard protocol, and drops unknown ones. The zero Decoder is ready to use.
type Decoder struct {
	rest  []byte // the start of an incomplete sequence
	paste []byte // the open paste; nil: none is open
}

// maxPaste is the maximum size of a paste in bytes; the rest is dropped.
const maxPaste = 16 << 20

// maxSequence is the maximum length of an escape sequence in bytes.
const maxSequence = 256

// Decode returns the keys that are complete after p. Bytes of an incomplete sequence are kept
// for the next call.
func (d *Decoder) Decode(p []byte) []Key {
	var keys []Key
	b := p
	if len(d.rest) > 0 {
		b = append(d.rest, p...)
		d.rest = nil
	}
	for len(b) > 0 {
		if d.paste != nil {
			b = d.pasted(b, &keys)
			continue
		}
		k, n := next(b)
		if n == 0 { // incomplete
			if len(b) > maxSequence {
				b = b[1:]
				continue
			}
			d.rest = append([]byte(nil), b...)
			break
		}
		b = b[n:]
		switch {
		case k.Name == "paste":
			d.paste = []byte{}
		case k.Name == "text" && len(keys) > 0 && keys[len(keys)-1].Name == "text":
			keys[len(keys)-1].Text += k.Text
		case k.Name != "":
			keys = append(keys, k)
		}
	}
	return keys
}

// burst returns keys that came at once as one paste if they are three lines or more: a terminal without bracketed paste
// sends a paste as if it were typed, and nobody types that fast.
func burst(keys []Key) []Key {
	var text strings.Builder
	lines := 1
	for i, k := range keys {
		switch k.String() {
		case "text":
			text.WriteString(k.Text)
		case "tab":
			text.WriteByte('\t')
		case "enter":
			text.WriteByte('\n')
			if i+1 < len(keys) {
				lines++
			}
		default:
			return keys
		}
	}
	if lines < 3 {
		return keys
	}
	return []Key{{Name: "paste", Text: text.String()}}
}

// Flush returns the key of the pending bytes. It is called when nothing followed them for a
// while: a lone escape byte is the Esc key.
func (d *Decoder) Flush() []Key {
	rest := d.rest
	d.rest = nil
	if d.paste != nil || len(rest) == 0 {
		d.rest = rest
		return nil
	}
	if rest[0] == 0x1b {
		keys := []Key{{Name: "esc"}}
		if len(rest) > 1 && rest[1] != 0x1b {
			return nil // the start of a sequence, cut off
		}
		return keys
	}
	return nil
}

// Pending reports whether a sequence is incomplete, so that Flush should follow.
func (d *Decoder) Pending() bool { return len(d.rest) > 0 && d.paste == nil }

const pasteEnd = "\x1b[201~"

// pasted adds bytes to an open paste and returns those after its end.
func (d *Decoder) pasted(b []byte, keys *[]Key) []byte {
	if i := strings.Index(string(b), pasteEnd); i >= 0 {
		d.keep(b[:i])
		*keys = append(*keys, Key{Name: "paste", Text: strings.ToValidUTF8(string(d.paste), "\ufffd")})
		d.paste = nil
		return b[i+len(pasteEnd):]
	}
	// The end marker may be split between two reads.
	n := len(b)
	for k := min(len(pasteEnd)-1, len(b)); k > 0; k-- {
		if strings.HasPrefix(pasteEnd, string(b[len(b)-k:])) {
			n = len(b) - k
			break
		}
	}
	d.keep(b[:n])
	d.rest = append([]byte(nil), b[n:]...)
	return nil
}

func (d *Decoder) keep(b []byte) {
	d.paste = append(d.paste, b[:min(len(b), maxPaste-len(d.paste))]...)
}

// control names the control characters that are keys of their own.
var control = map[byte]string{
	'\r': "enter", '\t': "tab", 0x7f: "backspace", '\b': "backspace", 0x1b: "esc",
}

// next decodes one key and returns its length in bytes; 0 means that b is incomplete.
func next(b []byte) (Key, int) {
	switch c := b[0]; {
	case c == 0x1b:
		return escape(b)
	case control[c] != "":
		return Key{Name: control[c]}, 1
	case c == '\n': // Ctrl-J, which many terminals send for Shift-Enter
		return Key{Name: "j", Ctrl: true}, 1
	case c == 0:
		return Key{Name: "space", Ctrl: true}, 1
	case c < 27:
		return Key{Name: string(rune(c + 'a' - 1)), Ctrl: true}, 1
	case c < ' ':
		return Key{Name: string(rune(c + '@')), Ctrl: true}, 1
	}
	n := 0
	for n < len(b) && b[n] >= ' ' && b[n] != 0x7f {
		if !utf8.FullRune(b[n:]) {
			break
		}
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			if n == 0 {
				return Key{Name: "text", Text: "\ufffd"}, 1
			}
			break
		}
		n += size
	}
	if n == 0 {
		return Key{}, 0
	}
	return Key{Name: "text", Text: string(b[:n])}, n
}

// escape decodes a sequence that begins with an escape byte.
func escape(b []byte) (Key, int) {
	if len(b) == 1 {
		return Key{}, 0
	}
	switch b[1] {
	case '[':
		return csi(b)
	case 'O':
		if len(b) < 3 {
			return Key{}, 0
		}
		return Key{Name: final[b[2]]}, 3
	case ']', 'P', '_', '^', 'X': // strings: replies of the terminal
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return answer(b[1:i]), i + 1
			}
			if b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\' {
				return answer(b[1:i]), i + 2
			}
		}
		return Key{}, 0
	case 0x1b: // Esc Esc
		return Key{Name: "esc"}, 1
	}
	k, n := next(b[1:])
	if n == 0 {
		return Key{}, 0
	}
	if k.Name == "text" { // only one character, not a run of text
		var r rune
		if r, n = utf8.DecodeRune(b[1:]); r == ' ' {
			k = Key{Name: "space"}
		} else {
			k = Key{Name: string(r)}
		}
	}
	k.Alt = true
	return k, n + 1
}

// answer returns the Key of a string reply of the terminal.
func answer(s []byte) Key {
	if colour, ok := strings.CutPrefix(string(s), "]11;"); ok && utf8.ValidString(colour) {
		return Key{Name: "background", Text: colour}
	}
	return Key{}
}

// final has key names by the last byte of a sequence.
var final = [256]string{
	'A': "up", 'B': "down", 'C': "right", 'D': "left", 'H': "home", 'F': "end", 'M': "enter",
	'P': "f1", 'Q': "f2", 'R': "f3", 'S': "f4",
}

// numbered has key names by the number before ~.
var numbered = [...]string{
	1: "home", 2: "insert", 3: "delete", 4: "end", 5: "pageup", 6: "pagedown", 7: "home", 8: "end",
	11: "f1", 12: "f2", 13: "f3", 14: "f4", 15: "f5", 17: "f6", 18: "f7", 19: "f8", 20: "f9", 21: "f10", 23: "f11",
	24: "f12",
}

// unicodes maps the codes of the kitty protocol to key names.
var unicodes = map[int]string{
	9: "tab", 13: "enter", 27: "esc", 32: "space", 127: "backspace", 57414: "enter",
	57417: "left", 57418: "right", 57419: "up", 57420: "down", 57423: "home", 57424: "end", 57426: "delete",
}

// csi decodes a control sequence.
func csi(b []byte) (Key, int) {
	i := 2
	for i < len(b) && 0x20 <= b[i] && b[i] <= 0x3f {
		i++
	}
	if i == len(b) {
		return Key{}, 0
	}
	last := b[i]
	n := i + 1
	if last < 0x40 || last > 0x7e { // not a valid sequence: drop what was read
		return Key{}, i
	}
	if b[2] == 'M' { // an old mouse report has three more bytes
		if len(b) < 6 {
			return Key{}, 0
		}
		return Key{}, 6
	}
	params := strings.Split(string(b[2:i]), ";")
	number := func(j int) int {
		if j >= len(params) {
			return 0
		}
		s, _, _ := strings.Cut(params[j], ":")
		if s == "" {
			return 0
		}
		v, err := strconv.Atoi(s)
		if err != nil {
			return -1
		}
		return v
	}
	var k Key
	switch {
	case last == '~' && number(0) == 200:
		return Key{Name: "paste"}, n
	case last == '~' && number(0) == 27: // modifyOtherKeys: 27;modifiers;code
		k = character(number(2))
	case last == '~':
		if i := number(0); 0 <= i && i < len(numbered) {
			k.Name = numbered[i]
		}
	case last == 'u':
		k = character(number(0))
		if _, event, ok := strings.Cut(at(params, 1), ":"); ok && event == "3" { // a key release
			return Key{}, n
		}
	case last == 'Z':
		return Key{Name: "tab", Shift: true}, n
	default:
		if number(0) < 0 { // a private sequence: a reply of the terminal
			if last == 'c' {
				return Key{Name: "attributes"}, n
			}
			return Key{}, n
		}
		k.Name = final[last]
	}
	if m := number(1) - 1; m > 0 && k.Name != "" {
		k.Shift, k.Alt, k.Ctrl = m&1 != 0, m&2 != 0, m&4 != 0
	}
	if k.Name == "text" && (k.Ctrl || k.Alt) {
		k.Name, k.Text = strings.ToLower(k.Text), ""
	}
	return k, n
}

func at(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return ""
}

// character returns the key of a code point.
func character(code int) Key {
	if name := unicodes[code]; name != "" {
		return Key{Name: name}
	}
	if code < ' ' || code > utf8.MaxRune || 0xe000 <= code && code <= 0xf8ff || !utf8.ValidRune(rune(code)) {
		return Key{}
	}
	return Key{Name: "text", Text: string(rune(code))}
}
