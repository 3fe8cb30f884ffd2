package web

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/knack-agent/knack/internal/leaf/charset"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// declared finds the encoding that a page or an XML document names in its first bytes.
var declared = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<(?:meta[^>]+charset|\?xml[^>]+encoding)\s*=\s*["']?\s*([a-z0-9_:.-]+)`)
})

// decode converts a text to UTF-8. What counts is, in this order: a byte-order mark, the header's name of an encoding,
// the document's own, and the bytes. note is for the model; "": nothing was unusual.
func decode(data []byte, header, media string) (text, note string, err error) {
	if enc := charset.Marked(data); enc != charset.UTF8 {
		data = data[len(enc.Mark()):]
		return string(enc.Decode(nil, data[:enc.Whole(data)])), "", nil
	}
	name := header
	if name == "" && (strings.HasSuffix(media, "html") || strings.HasSuffix(media, "xml")) {
		if m := declared().FindSubmatch(data[:min(len(data), 2048)]); m != nil {
			name = string(m[1])
		}
	}
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "", "utf-8", "utf8", "us-ascii", "ascii", "unicode-1-1-utf-8":
		if utf8.Valid(data) {
			return string(data), "", nil
		}
		if name == "" || name == "us-ascii" || name == "ascii" {
			enc := charset.EightBit(data)
			return string(enc.Decode(nil, data)), fmt.Sprintf("The page names no encoding; it was decoded as %s.", enc), nil
		}
		return string(bytes.ToValidUTF8(data, []byte("\ufffd"))), "The page is not the UTF-8 that it claims to be.", nil
	case "utf-16", "utf-16le", "utf-16be":
		enc := charset.UTF16LE
		if name == "utf-16be" {
			enc = charset.UTF16BE
		}
		return string(enc.Decode(nil, data[:enc.Whole(data)])), "", nil
	}
	if table := singleByte(name); table != nil {
		out, err := table.NewDecoder().Bytes(data)
		if err != nil {
			return "", "", err
		}
		return string(out), "", nil
	}
	if enc, ok := charset.CJK(name); ok {
		return string(enc.Decode(nil, data)), "", nil
	}
	if utf8.Valid(data) { // the name is wrong, or does not matter
		return string(data), "", nil
	}
	return "", "", fmt.Errorf("the page is in the encoding %s, which cannot be decoded here", plain.Line(clip(name, 20)))
}

// singleByte returns the table of a single-byte encoding by its names on the web; nil: it is not one.
func singleByte(name string) *charmap.Charmap {
	name = strings.NewReplacer("_", "-", "cp125", "windows-125", "iso8859", "iso-8859").Replace(name)
	switch name {
	case "iso-8859-1", "latin1", "l1", "windows-1252", "x-windows-1252": // browsers treat both as Windows-1252
		return charmap.Windows1252
	}
	return map[string]*charmap.Charmap{
		"iso-8859-2": charmap.ISO8859_2, "latin2": charmap.ISO8859_2, "iso-8859-3": charmap.ISO8859_3,
		"iso-8859-4": charmap.ISO8859_4, "iso-8859-5": charmap.ISO8859_5, "iso-8859-6": charmap.ISO8859_6,
		"iso-8859-7": charmap.ISO8859_7, "iso-8859-8": charmap.ISO8859_8, "iso-8859-9": charmap.Windows1254,
		"latin5": charmap.Windows1254, "iso-8859-10": charmap.ISO8859_10, "iso-8859-13": charmap.ISO8859_13,
		"iso-8859-14": charmap.ISO8859_14, "iso-8859-15": charmap.ISO8859_15, "iso-8859-16": charmap.ISO8859_16,
		"windows-1250": charmap.Windows1250, "windows-1251": charmap.Windows1251, "windows-1253": charmap.Windows1253,
		"windows-1254": charmap.Windows1254, "windows-1255": charmap.Windows1255, "windows-1256": charmap.Windows1256,
		"windows-1257": charmap.Windows1257, "windows-1258": charmap.Windows1258, "windows-874": charmap.Windows874,
		"tis-620": charmap.Windows874, "koi8-r": charmap.KOI8R, "koi8-u": charmap.KOI8U, "macintosh": charmap.Macintosh,
		"ibm866": charmap.CodePage866, "cp866": charmap.CodePage866,
	}[name]
}
