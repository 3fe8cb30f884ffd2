// Package charset decodes text files in several encodings and encodes text back to the same
// bytes.
//
// The encodings are UTF-8 (with and without a byte-order mark), UTF-16 with a byte-order mark, and those of one or two
// bytes that [Guess] tells apart. Nearly every file is valid in several of them, so what it returns is a guess, and
// [Read] refuses what does not come back the same. [Binary] reports whether a file is text at all.
package charset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// An Encoding is a text encoding. The zero Encoding is UTF-8 without a byte-order mark.
type Encoding uint8

const (
	UTF8 Encoding = iota
	UTF8BOM
	UTF16LE // always with a byte-order mark
	UTF16BE
	MixedUTF8 // UTF-8 with some bytes that are not
	Latin1    // from here on guessed
	Windows1252
	GBK
	Big5
	EUCKR
	ShiftJIS
	EUCJP
	Windows1251
	KOI8R
	IBM866
	Windows1253
)

func (e Encoding) String() string {
	return [...]string{"UTF-8", "UTF-8 with BOM", "UTF-16LE", "UTF-16BE", "UTF-8 with invalid bytes", "Latin-1",
		"Windows-1252", "GBK", "Big5", "EUC-KR", "Shift_JIS", "EUC-JP", "Windows-1251", "KOI8-R", "IBM866", "Windows-1253"}[e]
}

// Guessed reports whether nothing in the text says that it has this encoding.
func (e Encoding) Guessed() bool { return e >= Latin1 }

// Mark returns the byte-order mark that a text in this encoding begins with, or "".
func (e Encoding) Mark() string {
	return [...]string{UTF8BOM: "\xef\xbb\xbf", UTF16LE: "\xff\xfe", UTF16BE: "\xfe\xff", Windows1253: ""}[e]
}

// Marked returns the encoding that the byte-order mark of data indicates, or UTF8 if there is
// none.
func Marked(data []byte) Encoding {
	for e := UTF8BOM; e <= UTF16BE; e++ {
		if bytes.HasPrefix(data, []byte(e.Mark())) {
			return e
		}
	}
	return UTF8
}

// Detect returns the encoding of a whole text.
func Detect(data []byte) Encoding {
	if e := Marked(data); e != UTF8 {
		return e
	}
	if utf8.Valid(data) {
		return UTF8
	}
	return Guess(data)
}

// EightBit returns the encoding of a text that is not Unicode: Windows-1252 if it uses bytes
// that are control characters in Latin-1, and quotes and the like in Windows-1252; otherwise
// Latin-1.
func EightBit(data []byte) Encoding {
	e := Latin1
	for _, b := range data {
		if 0x80 <= b && b < 0xa0 {
			if charmap.Windows1252.DecodeByte(b) == utf8.RuneError { // one of the five bytes without a character
				return Latin1
			}
			e = Windows1252
		}
	}
	return e
}

// Binary reports whether the start of a file that is not UTF-16 shows that it is not text: it
// contains a NUL byte, or too many control characters.
func Binary(start []byte) bool {
	control := 0
	for _, b := range start {
		switch {
		case b == 0:
			return true
		case b < ' ' && b != '\n' && b != '\r' && b != '\t' && b != '\f' && b != '\b' && b != 0x1b && b != '\v':
			control++
		}
	}
	return control*20 > len(start)
}

// Decode appends data, a piece of text without the byte-order mark, to dst as UTF-8. A piece
// of UTF-16 must consist of whole units; see [Whole].
func (e Encoding) Decode(dst, data []byte) []byte {
	switch e {
	case UTF16LE, UTF16BE:
		order := e.order()
		for i := 0; i+1 < len(data); i += 2 {
			r := rune(order.Uint16(data[i:]))
			if utf16.IsSurrogate(r) {
				low := rune(0)
				if i+3 < len(data) {
					low = rune(order.Uint16(data[i+2:]))
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 2
				}
			}
			dst = utf8.AppendRune(dst, r)
		}
		return dst
	case UTF8, UTF8BOM, MixedUTF8:
		return append(dst, data...)
	}
	if e.cjk() {
		return e.decodeCJK(dst, data)
	}
	for _, b := range data {
		dst = utf8.AppendRune(dst, e.table().DecodeByte(b))
	}
	return dst
}

func (e Encoding) order() binary.ByteOrder {
	if e == UTF16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Whole returns the number of bytes at the start of data that form whole characters, in UTF-8 and UTF-16. Use it to
// decode a stream.
func (e Encoding) Whole(data []byte) int {
	switch e {
	case UTF16LE, UTF16BE:
		n := len(data) &^ 1
		if n >= 2 {
			if u := e.order().Uint16(data[n-2:]); 0xd800 <= u && u < 0xdc00 {
				n -= 2
			}
		}
		return n
	case UTF8, UTF8BOM:
		for n := len(data) - 1; n >= 0 && n >= len(data)-utf8.UTFMax; n-- {
			if utf8.RuneStart(data[n]) {
				if !utf8.FullRune(data[n:]) {
					return n
				}
				break
			}
		}
	}
	return len(data)
}

// Read decodes a whole file. It returns an error if the content does not match the byte-order
// mark, because writing it back would change it.
func Read(data []byte) (string, Encoding, error) {
	e := Detect(data)
	body := data[len(e.Mark()):]
	if e == UTF8 || e == MixedUTF8 {
		return string(body), e, nil
	}
	text := string(e.Decode(nil, body))
	if back, err := e.Write(text); err != nil || !bytes.Equal(back, data) {
		return "", e, fmt.Errorf("not valid %s", e)
	}
	return text, e, nil
}

// Write encodes a whole file, including the byte-order mark. The error names a character that
// the encoding does not have.
func (e Encoding) Write(text string) ([]byte, error) {
	out := []byte(e.Mark())
	switch e {
	case UTF16LE, UTF16BE:
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("the text is not valid UTF-8, so it cannot be written as %s", e)
		}
		order := e.order()
		var unit [2]byte
		for _, u := range utf16.Encode([]rune(text)) {
			order.PutUint16(unit[:], u)
			out = append(out, unit[:]...)
		}
		return out, nil
	case UTF8, UTF8BOM, MixedUTF8:
		return append(out, text...), nil
	}
	if e.cjk() {
		return e.encodeCJK(text)
	}
	for _, r := range text {
		b, ok := e.table().EncodeRune(r)
		if !ok {
			return nil, fmt.Errorf("the file is %s, which has no %q (U+%04X)", e, r, r)
		}
		out = append(out, b)
	}
	return out, nil
}

// table returns the table of a single-byte encoding.
func (e Encoding) table() *charmap.Charmap {
	switch e {
	case Windows1252:
		return charmap.Windows1252
	case Windows1251:
		return charmap.Windows1251
	case KOI8R:
		return charmap.KOI8R
	case IBM866:
		return charmap.CodePage866
	case Windows1253:
		return charmap.Windows1253
	}
	return charmap.ISO8859_1
}
