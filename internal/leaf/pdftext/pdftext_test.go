package pdftext

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func deflate(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

// file makes a PDF file without a cross-reference table: object 1 is the catalogue, 2 the pages, 3 the only page, 4
// its font, 5 its content.
func file(font, content string, more ...string) string {
	return "%PDF-1.5\n1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n2 0 obj << /Type /Pages /Kids [3 0 R] /Count 1 " +
		"/Resources << /Font << /F1 4 0 R >> /XObject << /X 6 0 R >> >> >> endobj\n" +
		"3 0 obj << /Type /Page /Parent 2 0 R /Contents 5 0 R >> endobj\n4 0 obj " + font + " endobj\n5 0 obj " + content +
		" endobj\n" +
		strings.Join(more, "\n") + "\ntrailer << /Root 1 0 R >>\n%%EOF\n"
}

func plainStream(s string) string {
	return fmt.Sprintf("<< /Length %d >> stream\n%s\nendstream", len(s), s)
}

const helvetica = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"

func TestPages(t *testing.T) {
	z := deflate("BT /F1 10 Tf (packed) Tj ET")
	stm := deflate("3 0\n<< /Type /Page /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>")
	for _, c := range []struct{ name, data, want string }{
		{"simple", file(helvetica, plainStream("BT /F1 12 Tf 72 700 Td (Hello, \\(world\\)) Tj 0 -20 Td (second) Tj T* ET")),
			"Hello, (world)\nsecond"},
		{"kerning", file(helvetica, plainStream("BT /F1 12 Tf [(T) 80 (wo) -600 (wo) 20 (rds)] TJ ET")), "Two words"},
		{"positions", file(helvetica, plainStream("BT /F1 12 Tf 1 0 0 1 72 700 Tm (left) Tj 1 0 0 1 300 700 Tm (right) Tj 1 0 0 "+
			"1 72 680 Tm (below) Tj ET")), "left right\nbelow"},
		{"next line", file(helvetica, plainStream("BT /F1 12 Tf 14 TL (a) Tj (b) ' 1 2 (c) \" ET")), "a\nb\nc"},
		{"flate", file(helvetica, fmt.Sprintf("<< /Filter /FlateDecode /Length %d >> stream\n%s\nendstream", len(z), z)),
			"packed"},
		{"wrong length", file(helvetica, fmt.Sprintf("<< /Filter [/Fl] /Length 3 >> stream\r\n%s\nendstream", z)), "packed"},
		{"hex", file(helvetica, "<< /Filter /ASCIIHexDecode >> stream\n4254202F46312031205466202861292054 "+
			"6A204554>\nendstream"), "a"},
		{"winansi", file(helvetica, plainStream("BT /F1 12 Tf (\\223caf\\351\\224) Tj ET")), "“café”"},
		{"differences", file("<< /Subtype /Type1 /Encoding << /Differences [1 /eacute /fi /uni20AC /A.alt] >> >>",
			plainStream("BT /F1 9 Tf <01020304> Tj ET")), "éfi€A"},
		{"tounicode", file("<< /Subtype /Type0 /Encoding /Identity-H /ToUnicode 7 0 R >>",
			plainStream("BT /F1 9 Tf <000100020010> Tj ET"),
			"7 0 obj "+plainStream("1 beginbfchar <0001> <65E5> endbfchar 1 beginbfrange <0002> <0003> <672C> <0010> <0010> "+
				"[<D83DDE00>] endbfrange")+" endobj"), "日本😀"},
		{"form", file(helvetica, plainStream("BT /F1 9 Tf (a) Tj ET /X Do"),
			"6 0 obj << /Subtype /Form /Length 40 >> stream\nBT /F1 9 Tf 0 -50 Td (in a form) Tj ET\nendstream endobj"),
			"a\nin a form"},
		{"inline image", file(helvetica, plainStream("BI /W 1 ID (((EI EI BT /F1 9 Tf (after) Tj ET")), "after"},
		{"object stream", "%PDF-1.5\n1 0 obj << /Pages 2 0 R >> endobj 2 0 obj << /Kids [3 0 R] >> endobj 4 0 obj " +
			helvetica + " endobj 5 0 obj " + plainStream("BT /F1 9 Tf (in a stream) Tj ET") +
			" endobj 9 0 obj << /Type /ObjStm /N 1 /First 4 /Filter /FlateDecode >> stream\n" + stm +
			"\nendstream endobj 8 0 obj << /Type /XRef /Root 1 0 R >> endobj", "in a stream"},
		{"newer object wins", file(helvetica, plainStream("BT /F1 9 Tf (old) Tj ET"),
			"5 0 obj "+plainStream("BT /F1 9 Tf (new) Tj ET")+" endobj"), "new"},
		{"no catalogue", strings.Replace(file(helvetica, plainStream("BT (found) Tj ET")), "/Root", "/Toor", 1), "found"},
		{"unknown filter", file(helvetica, "<< /Filter /Nope >> stream\nx\nendstream"),
			"[This page cannot be read: a stream uses the unsupported filter Nope.]"},
	} {
		pages, total, err := Pages(t.Context(), []byte(c.data), 1<<20)
		if err != nil || total != 1 || len(pages) != 1 || pages[0] != c.want {
			t.Errorf("%s: %q, %d, %v, want %q", c.name, pages, total, err, c.want)
		}
	}
	for name, data := range map[string]string{
		"it is encrypted":   strings.Replace(file(helvetica, plainStream("")), "/Root", "/Encrypt 9 0 R /Root", 1),
		"it has no objects": "%PDF-1.4 nothing", "it has no pages": "%PDF-1.4 1 0 obj (x) endobj",
	} {
		if _, _, err := Pages(t.Context(), []byte(data), 1<<20); err == nil || err.Error() != name {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// hostile returns files that cause endless work.
func hostile() map[string]string {
	bomb := deflate(strings.Repeat("\x00", 33<<20))
	var chain strings.Builder
	for i := 10; i < 20000; i++ {
		fmt.Fprintf(&chain, "%d 0 obj << /Length %d 0 R >> stream\nx\nendstream endobj\n", i, i+1)
	}
	return map[string]string{
		"bomb":            file(helvetica, "<< /Filter /FlateDecode >> stream\n"+bomb+"\nendstream"),
		"nesting":         file(helvetica, plainStream(strings.Repeat("[", 1<<20)+strings.Repeat("<<", 1<<20))),
		"page tree cycle": strings.Replace(file(helvetica, plainStream("")), "/Kids [3 0 R]", "/Kids [2 0 R 2 0 R 3 0 R]", 1),
		"reference cycle": strings.Replace(file(helvetica, "5 0 R"), "/Pages 2 0 R", "/Pages 5 0 R", 1),
		"form cycle": file(helvetica, plainStream("/X Do"),
			"6 0 obj << /Subtype /Form >> stream\n/X Do /X Do /X Do\nendstream endobj"),
		"length chain": file(helvetica, "<< /Length 10 0 R >> stream\nx\nendstream", chain.String()),
		"own container": "%PDF 1 0 obj << /Type /ObjStm /N 2 /First 8 /Length 1 0 R >> stream\n1 0 2 0 << /Length 2 0 " +
			"R >> stream\nendstream endobj /Root 1 0 R",
		"wide font": file("<< /Subtype /Type0 /DescendantFonts [<< /W ["+strings.Repeat("0 99999999 1 ",
			10000)+"] >>] >>", plainStream("BT /F1 1 Tf (ab) Tj ET")),
		"huge length": file(helvetica, "<< /Length 1e300 >> stream\nx\nendstream"),
		"unicode ranges": file("<< /ToUnicode 7 0 R >>", plainStream("BT /F1 1 Tf (ab) Tj ET"),
			"7 0 obj "+plainStream(strings.Repeat("<0000> <ffff> <0000> ", 10000)+"endbfrange")+" endobj"),
	}
}

func TestHostile(t *testing.T) {
	for name, data := range hostile() {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		pages, _, err := Pages(ctx, []byte(data), 1<<20)
		if ctx.Err() != nil {
			t.Errorf("%s: took too long", name)
		}
		if name == "bomb" && (err != nil || !strings.Contains(pages[0], "too large when decompressed")) {
			t.Errorf("bomb: %.100q, %v", pages, err)
		}
		cancel()
	}
}

func FuzzPages(f *testing.F) {
	for _, data := range hostile() {
		if len(data) < 1<<12 {
			f.Add([]byte(data))
		}
	}
	f.Add([]byte(file(helvetica, plainStream("BT /F1 12 Tf [(T) 80 (wo)] TJ 1 0 0 1 72 680 Tm (below) Tj ET"))))
	f.Add([]byte(file("<< /Subtype /Type0 /Encoding /Identity-H /ToUnicode 7 0 R >>",
		plainStream("BT /F1 9 Tf <0001> Tj ET"),
		"7 0 obj "+plainStream("1 beginbfchar <0001> <65E5> endbfchar")+" endobj")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		Pages(t.Context(), data, 1<<20)
	})
}
