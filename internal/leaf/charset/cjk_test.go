package charset

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

var update = flag.Bool("update", false, "rewrite cjk.bin")

// TestCJK: every character of two bytes is decoded as golang.org/x/text does it.
func TestCJK(t *testing.T) {
	reference := map[Encoding]encoding.Encoding{GBK: simplifiedchinese.GBK, Big5: traditionalchinese.Big5, EUCKR: korean.EUCKR,
		ShiftJIS: japanese.ShiftJIS, EUCJP: japanese.EUCJP}
	want := map[Encoding][]uint16{}
	var raw bytes.Buffer
	for name := firstCJK; name <= lastCJK; name++ {
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
	got := cjkTables()
	for name, table := range want {
		for i := range table {
			if got[name-firstCJK].runes[i] != table[i] {
				t.Fatalf("%s %x: %x, want %x", name, i, got[name-firstCJK].runes[i], table[i])
			}
		}
	}
}
