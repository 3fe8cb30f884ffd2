package charset

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// cjkData is the compressed tables of the encodings from firstCJK to lastCJK, one after another: for each pair of a lead
// and a trail byte a character as 16 bits, the difference to the one before. TestCJK makes it from golang.org/x/text,
// whose own tables would add 0.7 MB to the program.
//
//go:embed cjk.bin
var cjkData []byte

const (
	firstCJK = GBK
	lastCJK  = EUCJP
)

// The range of the two bytes of a character.
const (
	firstLead, lastLead   = 0x81, 0xfe
	firstTrail, lastTrail = 0x40, 0xfe
	trails                = lastTrail - firstTrail + 1
	tableSize             = (lastLead - firstLead + 1) * trails
)

// A cjkTable has the characters of two bytes of an encoding: 0 is none.
type cjkTable struct {
	runes []uint16
	back  func() map[rune]uint16 // the two bytes of each character
}

// cjkTables unpacks cjkData; it is called when the first text needs it.
var cjkTables = sync.OnceValue(func() (tables [lastCJK - firstCJK + 1]cjkTable) {
	data, err := io.ReadAll(flate.NewReader(bytes.NewReader(cjkData)))
	if err != nil || len(data) != 2*tableSize*len(tables) {
		panic("the tables of encodings are not those of the test")
	}
	for k := range tables {
		t := make([]uint16, tableSize)
		last := uint16(0)
		for i := range t {
			last += binary.LittleEndian.Uint16(data[2*i:])
			t[i] = last
		}
		data = data[2*tableSize:]
		tables[k] = cjkTable{t, sync.OnceValue(func() map[rune]uint16 { return reversed(t, firstCJK+Encoding(k)) })}
	}
	return tables
})

// reversed returns the bytes of each character. Of several the first count, which are those of the standard; in
// Shift_JIS, as Windows writes it, those that NEC chose come last.
func reversed(t []uint16, e Encoding) map[rune]uint16 {
	back := make(map[rune]uint16, len(t)/2)
	for _, nec := range []bool{false, true} {
		for i, r := range t {
			lead := firstLead + i/trails
			if r == 0 || (e == ShiftJIS && (lead == 0xed || lead == 0xee)) != nec {
				continue
			}
			if _, ok := back[rune(r)]; !ok {
				back[rune(r)] = uint16(lead<<8 + firstTrail + i%trails)
			}
		}
	}
	return back
}

func (e Encoding) cjk() bool { return firstCJK <= e && e <= lastCJK || e == GB18030 }

// pairs returns the characters of two bytes of an encoding.
func (e Encoding) pairs() cjkTable {
	if e == GB18030 {
		e = GBK
	}
	return cjkTables()[e-firstCJK]
}

// CJK returns the encoding of Chinese, Japanese or Korean text with a name on the web, in lower case.
func CJK(name string) (e Encoding, ok bool) {
	switch strings.ReplaceAll(name, "_", "-") {
	case "gbk", "gb2312", "gb-2312-80", "gb18030", "x-gbk", "chinese", "csgb2312":
		return GB18030, true
	case "iso-2022-jp", "csiso2022jp":
		return ISO2022JP, true
	case "big5", "big5-hkscs", "cn-big5", "x-x-big5", "csbig5":
		return Big5, true
	case "euc-kr", "ks-c-5601-1987", "ksc5601", "korean", "cseuckr", "windows-949":
		return EUCKR, true
	case "shift-jis", "sjis", "x-sjis", "ms-kanji", "windows-31j", "csshiftjis", "ms932":
		return ShiftJIS, true
	case "euc-jp", "x-euc-jp":
		return EUCJP, true
	}
	return 0, false
}

// decodeCJK appends a text. Rare characters of three bytes, of EUC-JP, become U+FFFD, as what is invalid.
func (e Encoding) decodeCJK(dst, data []byte) []byte {
	for len(data) > 0 {
		r, n := e.unit(data)
		dst, data = utf8.AppendRune(dst, r), data[n:]
	}
	return dst
}

// unit returns the first character of data, and its number of bytes; U+FFFD: there is none.
func (e Encoding) unit(data []byte) (r rune, n int) {
	b := data[0]
	at := func(i int) byte {
		if i < len(data) {
			return data[i]
		}
		return 0
	}
	const firstKana = 0xff61 // half-width
	switch {
	case b < 0x80:
		return rune(b), 1
	case e == ShiftJIS && 0xa1 <= b && b <= 0xdf:
		return firstKana + rune(b-0xa1), 1
	case e == EUCJP && b == 0x8e && 0xa1 <= at(1) && at(1) <= 0xdf:
		return firstKana + rune(data[1]-0xa1), 2
	case e == EUCJP && b == 0x8f && at(1) >= 0xa1 && at(2) >= 0xa1:
		return utf8.RuneError, 3
	case (e == GBK || e == GB18030) && b <= lastLead && '0' <= at(1) && at(1) <= '9' && firstLead <= at(2) &&
		at(2) <= lastLead && '0' <= at(3) && at(3) <= '9':
		return four(((int(b-firstLead)*10+int(at(1)-'0'))*126+int(at(2)-firstLead))*10 + int(at(3)-'0')), 4
	case firstLead <= b && b <= lastLead && firstTrail <= at(1) && at(1) <= lastTrail:
		if r = rune(e.pairs().runes[int(b-firstLead)*trails+int(data[1]-firstTrail)]); r != 0 {
			return r, 2
		}
	}
	return utf8.RuneError, 1
}

// encodeCJK returns a text in the encoding.
func (e Encoding) encodeCJK(text string) ([]byte, error) {
	back := e.pairs().back()
	out := make([]byte, 0, len(text))
	for _, r := range text {
		pair, ok := back[r]
		switch half := r - 0xff61; {
		case r < 0x80:
			out = append(out, byte(r))
		case ok:
			out = append(out, byte(pair>>8), byte(pair))
		case e == ShiftJIS && 0 <= half && half < 63:
			out = append(out, byte(0xa1+half))
		case e == EUCJP && 0 <= half && half < 63:
			out = append(out, 0x8e, byte(0xa1+half))
		default:
			n, ok := fourTable().back[r]
			if r > 0xffff {
				n, ok = firstPlane+int(r-0x10000), true
			}
			if e != GB18030 || !ok {
				return nil, e.lacks(r)
			}
			out = append(out, byte(firstLead+n/12600), byte('0'+n/1260%10), byte(firstLead+n/10%126), byte('0'+n%10))
		}
	}
	return out, nil
}

// The four bytes of GB18030 are a number. From firstPlane on it counts the characters beyond U+FFFF.
const firstPlane = 189000

// fourTable has the characters up to U+FFFF that GB18030 writes in four bytes: those that GBK does not have, in their
// order. Eighty for private use are left out: how they are written differs between versions.
var fourTable = sync.OnceValue(func() (t struct {
	runes []rune
	back  map[rune]int
}) {
	t.back = map[rune]int{}
	pairs := GBK.pairs().back()
	for r := rune(0x80); r <= 0xffff; r++ {
		switch r {
		case 0xd800:
			r = 0xe000
			fallthrough
		case 0xe000:
			r = 0xe865
			t.runes = append(t.runes, make([]rune, 33550-len(t.runes))...)
		}
		if _, ok := pairs[r]; !ok {
			t.back[r] = len(t.runes)
			t.runes = append(t.runes, r)
		}
	}
	return t
})

// four returns the character with a number; U+FFFD: there is none.
func four(n int) rune {
	switch all := fourTable().runes; {
	case n < len(all) && all[n] != 0:
		return all[n]
	case firstPlane <= n && n-firstPlane < 0x100000:
		return rune(n - firstPlane + 0x10000)
	}
	return utf8.RuneError
}

// The sets of ISO-2022-JP, by the escape that begins them.
const (
	asciiSet = "\x1b(B"
	kanjiSet = "\x1b$B"
	kanaSet  = "\x1b(I" // half-width
)

// escaped reports whether an ASCII text is ISO-2022-JP: nothing else has its escapes, each followed by characters of the
// set, and ends in ASCII.
func escaped(data []byte) bool {
	if !bytes.Contains(data, []byte("\x1b$")) {
		return false
	}
	text := decode2022(nil, data)
	return !bytes.ContainsAny(text, "\x1b\ufffd") && bytes.HasSuffix(data[:bytes.LastIndexByte(data, 0x1b)+3], []byte("(B"))
}

// decode2022 appends a text of ISO-2022-JP, whose characters of two bytes are those of EUC-JP without the high bits.
func decode2022(dst, data []byte) []byte {
	set := byte('B')
	for len(data) > 0 {
		b := data[0]
		switch {
		case len(data) > 2 && b == 0x1b && (data[1] == '(' && strings.IndexByte("BJI", data[2]) >= 0 ||
			data[1] == '$' && (data[2] == '@' || data[2] == 'B')):
			set = data[2]
			if data[1] == '$' {
				set = '$'
			}
			data = data[3:]
			continue
		case b == '\n' || b == '\r':
			set = 'B'
			fallthrough
		case set == 'B' || set == 'J' || b <= ' ':
			dst = append(dst, b)
		case set == 'I' && b < 0x60:
			dst = utf8.AppendRune(dst, 0xff61+rune(b-0x21))
		case set == '$' && len(data) > 1:
			r, _ := EUCJP.unit([]byte{b | 0x80, data[1] | 0x80})
			dst, data = utf8.AppendRune(dst, r), data[1:]
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		data = data[1:]
	}
	return dst
}

func encode2022(text string) (out []byte, err error) {
	now := asciiSet
	for _, r := range text {
		set, bytes := asciiSet, []byte{byte(r)}
		if half := r - 0xff61; 0 <= half && half < 63 {
			set, bytes = kanaSet, []byte{byte(0x21 + half)}
		} else if r >= 0x80 {
			pair, ok := EUCJP.pairs().back()[r]
			if !ok {
				return nil, ISO2022JP.lacks(r)
			}
			set, bytes = kanjiSet, []byte{byte(pair>>8) & 0x7f, byte(pair) & 0x7f}
		}
		if set != now {
			out, now = append(out, set...), set
		}
		out = append(out, bytes...)
	}
	if now != asciiSet {
		out = append(out, asciiSet...)
	}
	return out, nil
}
