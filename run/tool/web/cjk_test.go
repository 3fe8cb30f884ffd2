package web

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"flag"
	"os"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

var update = flag.Bool("update", false, "rewrite cjk.bin and the golden files")

// TestCJK: every character of two bytes is decoded as golang.org/x/text does it.
func TestCJK(t *testing.T) {
	reference := map[string]encoding.Encoding{"gbk": simplifiedchinese.GBK, "big5": traditionalchinese.Big5,
		"euc-kr": korean.EUCKR, "shift_jis": japanese.ShiftJIS, "euc-jp": japanese.EUCJP}
	want := map[string][]uint16{}
	var raw bytes.Buffer
	for _, name := range cjkNames {
		last := uint16(0)
		for lead := firstLead; lead <= lastLead; lead++ {
			for trail := firstTrail; trail <= lastTrail; trail++ {
				text, err := reference[name].NewDecoder().Bytes([]byte{byte(lead), byte(trail)})
				r, size := utf8.DecodeRune(text)
				if err != nil || r == utf8.RuneError || size != len(text) || r > 0xffff {
					r = 0
				}
				want[name] = append(want[name], uint16(r))
				binary.Write(&raw, binary.LittleEndian, uint16(r)-last)
				last = uint16(r)
			}
		}
	}
	if *update {
		var packed bytes.Buffer
		w, _ := flate.NewWriter(&packed, flate.BestCompression)
		w.Write(raw.Bytes())
		w.Close()
		if err := os.WriteFile("cjk.bin", packed.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := cjkTables()
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range want {
		for i := range table {
			if got[name][i] != table[i] {
				t.Fatalf("%s %x: %x, want %x", name, i, got[name][i], table[i])
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range cjkNames {
		f.Add([]byte("<p>\x93\xfa\xff"), name)
	}
	f.Add([]byte("\xff\xfea"), "utf-16")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		text, _, err := decode(data, name, "text/html")
		if err == nil && !utf8.ValidString(text) {
			t.Errorf("%q: %q", name, text)
		}
	})
}
