package charset

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"fmt"
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

func (e Encoding) cjk() bool { return firstCJK <= e && e <= lastCJK }

// CJK returns the encoding of Chinese, Japanese or Korean text with a name on the web, in lower case.
func CJK(name string) (e Encoding, ok bool) {
	switch strings.ReplaceAll(name, "_", "-") {
	case "gbk", "gb2312", "gb-2312-80", "gb18030", "x-gbk", "chinese", "csgb2312":
		return GBK, true
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

// decodeCJK appends a text. Rare characters of three and four bytes become U+FFFD, as what is invalid.
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
	case e == GBK && '0' <= at(1) && at(1) <= '9' && at(2) > 0x80 && '0' <= at(3) && at(3) <= '9':
		return utf8.RuneError, 4
	case firstLead <= b && b <= lastLead && firstTrail <= at(1) && at(1) <= lastTrail:
		if r = rune(cjkTables()[e-firstCJK].runes[int(b-firstLead)*trails+int(data[1]-firstTrail)]); r != 0 {
			return r, 2
		}
	}
	return utf8.RuneError, 1
}

// encodeCJK returns a text in the encoding.
func (e Encoding) encodeCJK(text string) ([]byte, error) {
	back := cjkTables()[e-firstCJK].back()
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
			return nil, fmt.Errorf("the file is %s, which has no %q (U+%04X)", e, r, r)
		}
	}
	return out, nil
}
