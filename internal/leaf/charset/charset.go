// Package charset decodes text files in several encodings and encodes text back to the same
// bytes.
//
// The encodings are UTF-8 and UTF-16 (with and without a byte-order mark), ISO-2022-JP, and those that [Guess] tells
// apart. Nearly every file is valid in several of them, so what it returns is a guess, and [Read] refuses what does not come back the same. [Binary] reports whether a file is text at all.
package charset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// An Encoding is a text encoding. The zero Encoding is UTF-8 without a byte-order mark.
type Encoding uint8

const (
	UTF8 Encoding = iota
	UTF8BOM
	UTF16LE // with a byte-order mark
	UTF16BE
	MixedUTF8 // UTF-8 with some bytes that are not
	Latin1    // from here on guessed
	Windows1252
	GBK
	Big5
	EUCKR
	ShiftJIS
	EUCJP
	GB18030 // GBK with characters of four bytes
	ISO2022JP
	BareUTF16LE // without a byte-order mark
	BareUTF16BE
	Windows1251
	KOI8R
	KOI8U
	IBM866
	Windows1253
	Windows1255
	Windows1256
	Windows874
	Windows1250
	Latin2
	Windows1254
	last = Windows1254
)

func (e Encoding) String() string {
	return [...]string{"UTF-8", "UTF-8 with BOM", "UTF-16LE", "UTF-16BE", "UTF-8 with invalid bytes", "Latin-1",
		"Windows-1252", "GBK", "Big5", "EUC-KR", "Shift_JIS", "EUC-JP", "GB18030", "ISO-2022-JP", "UTF-16LE without BOM",
		"UTF-16BE without BOM", "Windows-1251", "KOI8-R", "KOI8-U", "IBM866", "Windows-1253", "Windows-1255", "Windows-1256",
		"Windows-874", "Windows-1250", "ISO-8859-2", "Windows-1254"}[e]
}

// Guessed reports whether nothing in the text says that it has this encoding.
func (e Encoding) Guessed() bool { return e >= Latin1 }

// Mark returns the byte-order mark that a text in this encoding begins with, or "".
func (e Encoding) Mark() string {
	return [...]string{UTF8BOM: "\xef\xbb\xbf", UTF16LE: "\xff\xfe", UTF16BE: "\xfe\xff", last: ""}[e]
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

// Wide reports whether the encoding is UTF-16.
func (e Encoding) Wide() bool {
	return e == UTF16LE || e == UTF16BE || e == BareUTF16LE || e == BareUTF16BE
}

// Begins returns what the first bytes of a text show of its encoding: the one of its byte-order mark, UTF-16 without one,
// or else UTF8.
func Begins(start []byte) Encoding {
	if e := Marked(start); e != UTF8 || bytes.IndexByte(start[:min(len(start), 256)], 0) < 0 {
		return e
	}
	for _, e := range []Encoding{BareUTF16LE, BareUTF16BE} {
		if e.bare(start[:min(len(start), 4<<10)]) {
			return e
		}
	}
	return UTF8
}

// bare reports whether data is a text of UTF-16 with much ASCII.
func (e Encoding) bare(data []byte) bool {
	text, ascii := []rune(string(e.Decode(nil, data[:e.Whole(data)]))), 0
	for _, r := range text {
		switch {
		case r == utf8.RuneError || !unicode.IsGraphic(r) && !strings.ContainsRune("\t\n\r\f\u200b\u200d\u200e\u200f", r):
			return false
		case r < 0x80:
			ascii++
		}
	}
	return len(data)%2 == 0 && len(text) > 1 && ascii*3 >= len(text)
}

// Detect returns the encoding of a whole text.
func Detect(data []byte) Encoding {
	e := Begins(data)
	switch {
	case e != UTF8:
	case !utf8.Valid(data):
		return Guess(data)
	case escaped(data):
		return ISO2022JP
	}
	return e
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
	switch {
	case e.Wide():
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
	case e <= MixedUTF8:
		return append(dst, data...)
	case e == ISO2022JP:
		return decode2022(dst, data)
	case e.cjk():
		return e.decodeCJK(dst, data)
	}
	for _, b := range data {
		dst = utf8.AppendRune(dst, e.table().DecodeByte(b))
	}
	return dst
}

func (e Encoding) order() binary.ByteOrder {
	if e == UTF16BE || e == BareUTF16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Whole returns the number of bytes at the start of data that form whole characters, in UTF-8 and UTF-16. Use it to
// decode a stream.
func (e Encoding) Whole(data []byte) int {
	switch {
	case e.Wide():
		n := len(data) &^ 1
		if n >= 2 {
			if u := e.order().Uint16(data[n-2:]); 0xd800 <= u && u < 0xdc00 {
				n -= 2
			}
		}
		return n
	case e == UTF8, e == UTF8BOM:
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
	switch {
	case e.Wide():
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
	case e <= MixedUTF8:
		return append(out, text...), nil
	case e == ISO2022JP:
		return encode2022(text)
	case e.cjk():
		return e.encodeCJK(text)
	}
	for _, r := range text {
		b, ok := e.table().EncodeRune(r)
		if !ok {
			return nil, e.lacks(r)
		}
		out = append(out, b)
	}
	return out, nil
}

func (e Encoding) lacks(r rune) error {
	return fmt.Errorf("the file is %s, which has no %q (U+%04X)", e, r, r)
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
	case KOI8U:
		return charmap.KOI8U
	case Windows1255:
		return charmap.Windows1255
	case Windows1256:
		return charmap.Windows1256
	case Windows874:
		return charmap.Windows874
	case Windows1250:
		return charmap.Windows1250
	case Latin2:
		return charmap.ISO8859_2
	case Windows1254:
		return charmap.Windows1254
	}
	return charmap.ISO8859_1
}
