package web

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

// cjkData is the compressed tables of the encodings in cjkNames, one after another: for each pair of a lead and a trail
// byte a character as 16 bits, the difference to the one before. TestCJK makes it from golang.org/x/text, whose own
// tables, also for the way back, would add 0.7 MB to the program.
//
//go:embed cjk.bin
var cjkData []byte

// cjkNames are the encodings in cjkData.
var cjkNames = [...]string{"gbk", "big5", "euc-kr", "shift_jis", "euc-jp"}

// The range of the two bytes of a character.
const (
	firstLead, lastLead   = 0x81, 0xfe
	firstTrail, lastTrail = 0x40, 0xfe
	trails                = lastTrail - firstTrail + 1
	tableSize             = (lastLead - firstLead + 1) * trails
)

// cjkTables unpacks cjkData; it is called when the first page needs it.
var cjkTables = sync.OnceValues(func() (map[string][]uint16, error) {
	data, err := io.ReadAll(flate.NewReader(bytes.NewReader(cjkData)))
	if err != nil || len(data) != 2*tableSize*len(cjkNames) {
		return nil, fmt.Errorf("the tables of encodings are damaged: %w", err)
	}
	tables := map[string][]uint16{}
	for _, name := range cjkNames {
		t := make([]uint16, tableSize)
		last := uint16(0)
		for i := range t {
			last += binary.LittleEndian.Uint16(data[2*i:])
			t[i] = last
		}
		tables[name], data = t, data[2*tableSize:]
	}
	return tables, nil
})

// cjkName returns the entry of cjkNames for a name on the web; "": there is none.
func cjkName(name string) string {
	switch strings.ReplaceAll(name, "_", "-") {
	case "gbk", "gb2312", "gb-2312-80", "gb18030", "x-gbk", "chinese", "csgb2312":
		return "gbk"
	case "big5", "big5-hkscs", "cn-big5", "x-x-big5", "csbig5":
		return "big5"
	case "euc-kr", "ks-c-5601-1987", "ksc5601", "korean", "cseuckr", "windows-949":
		return "euc-kr"
	case "shift-jis", "sjis", "x-sjis", "ms-kanji", "windows-31j", "csshiftjis", "ms932":
		return "shift_jis"
	case "euc-jp", "x-euc-jp":
		return "euc-jp"
	}
	return ""
}

// decodeCJK converts a text in one of cjkNames. Rare characters of three and four bytes become U+FFFD, as what is
// invalid.
func decodeCJK(name string, data []byte) (string, error) {
	tables, err := cjkTables()
	if err != nil {
		return "", err
	}
	table := tables[name]
	out := make([]byte, 0, len(data)*3/2)
	for i := 0; i < len(data); i++ {
		b := data[i]
		switch {
		case b < 0x80:
			out = append(out, b)
		case name == "shift_jis" && 0xa1 <= b && b <= 0xdf: // half-width katakana
			out = utf8.AppendRune(out, 0xff61+rune(b-0xa1))
		case name == "euc-jp" && b == 0x8e && i+1 < len(data) && 0xa1 <= data[i+1] && data[i+1] <= 0xdf:
			i++
			out = utf8.AppendRune(out, 0xff61+rune(data[i]-0xa1))
		case name == "euc-jp" && b == 0x8f && i+2 < len(data) && data[i+1] >= 0xa1 && data[i+2] >= 0xa1:
			i += 2
			out = utf8.AppendRune(out, utf8.RuneError)
		case name == "gbk" && b > 0x80 && i+3 < len(data) && '0' <= data[i+1] && data[i+1] <= '9' && data[i+2] > 0x80 &&
			'0' <= data[i+3] && data[i+3] <= '9':
			i += 3
			out = utf8.AppendRune(out, utf8.RuneError)
		default:
			r := rune(0)
			if firstLead <= b && b <= lastLead && i+1 < len(data) && firstTrail <= data[i+1] && data[i+1] <= lastTrail {
				r = rune(table[int(b-firstLead)*trails+int(data[i+1]-firstTrail)])
			}
			if r == 0 {
				r = utf8.RuneError
			} else {
				i++
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out), nil
}
