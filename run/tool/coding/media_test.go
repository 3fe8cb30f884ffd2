package coding

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/bmp"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media/mediatest"
)

// Limits of images that are sent.
const maxSide = 2000 // pixels

func fitsLimit(data []byte) bool { return base64.StdEncoding.EncodedLen(len(data)) <= 4.5*(1<<20) }

func picture(w, h int, noise bool) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range img.Pix {
		img.Pix[i] = byte(i / 4 % 251)
		if noise {
			img.Pix[i] = byte(rnd.Uint32())
		}
		if i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	return img
}

func pngOf(t *testing.T, img image.Image) string {
	t.Helper()
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// animate inserts an animation control chunk into a PNG, after its header.
func animate(data string) string {
	chunk := []byte("\x00\x00\x00\x08acTL\x00\x00\x00\x02\x00\x00\x00\x00")
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return data[:33] + string(chunk) + data[33:]
}

// TestReadImages reads pictures that are sent, converted or left out. Found by attack: a PNG of 759 KB took 1.4 GB.
func TestReadImages(t *testing.T) {
	small := picture(40, 30, false)
	var jpg, gif1, gif2, bm bytes.Buffer
	pal := image.NewPaletted(image.Rect(0, 0, 40, 30), color.Palette{color.Black, color.White})
	for _, err := range []error{
		jpeg.Encode(&jpg, small, nil), bmp.Encode(&bm, small),
		gif.EncodeAll(&gif1, &gif.GIF{Image: []*image.Paletted{pal}, Delay: []int{0}}),
		gif.EncodeAll(&gif2, &gif.GIF{Image: []*image.Paletted{pal, pal}, Delay: []int{5, 5}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The smallest WebP: one pixel, lossless.
	webp := "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"
	b := newFixture(t, FileOptions{},
		"png.txt="+pngOf(t, small), "text.png=just text\n", "j="+jpg.String(), "g="+gif1.String(), "g2="+gif2.String(),
		"b="+bm.String(), "w="+webp, "apng="+animate(pngOf(t, small)), "wide="+pngOf(t, picture(2400, 600, false)),
		"noise="+pngOf(t, picture(1100, 1100, true)), "broken=\x89PNG\r\n\x1a\nxxxx", "bomb="+bombPNG(60_000, 60_000, 8),
		"deep="+bombPNG(7000, 7000, 16),
		"aw=RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x27\x00\x00\x1d\x00\x00",
		"BMnot=BM is how this text begins, but it is none\n",
	)
	for _, c := range []struct{ name, want, mime string }{
		{"png.txt", "image/png, 40x30", "image/png"},
		{"j", "image/jpeg, 40x30", "image/jpeg"},
		{"g", "image/gif, 40x30", "image/gif"},
		{"g2", "[The image is animated: its first frame is shown.]\n[Converted from image/gif to image/png.]", "image/png"},
		{"w", "image/webp, 1x1", "image/webp"},
		{"b", "[Converted from image/bmp to image/png.]", "image/png"},
		{"apng", "[The image is animated: its first frame is shown.]", "image/png"},
		{"wide", "[Original 2400x600, shown at 2000x500. Multiply coordinates by 1.20 to map to the original.]", "image/png"},
		{"noise", "image/png to image/jpeg", "image/jpeg"},
		{"aw", "image/webp, 40x30, 30B\n[The image is omitted: it cannot be decoded: ", ""}, // animated
		{"bomb", "[The image is omitted: it has 60000x60000 pixels, too many to make it smaller.]", ""},
		{"deep", "[The image is omitted: it has 7000x7000 pixels, too many to make it smaller.]", ""},
	} {
		got, res := b.call(t, "read", fmt.Sprintf(`{"path":%q}`, c.name))
		if !strings.Contains(got, c.want) || res.IsError {
			t.Errorf("%s: %.300q, want …%s…", c.name, got, c.want)
			continue
		}
		if c.mime == "" {
			if len(res.Parts) != 1 {
				t.Errorf("%s: %d parts", c.name, len(res.Parts))
			}
			continue
		}
		m := res.Parts[1].Media
		config, _, err := image.DecodeConfig(bytes.NewReader(m.Data))
		if m.MIME != c.mime || c.mime != "image/webp" && (err != nil || max(config.Width, config.Height) > maxSide) ||
			!fitsLimit(m.Data) {
			t.Errorf("%s: %s, %dx%d, %d bytes, %v", c.name, m.MIME, config.Width, config.Height, len(m.Data), err)
		}
		if d := res.Details.(ReadDetails); d.Kind != "image" || d.Width == 0 || d.MIME == "" {
			t.Errorf("%s: details %+v", c.name, d)
		}
	}
	b.want(t, "read", `{"path":"text.png"}`, "just text\n")
	b.want(t, "read", `{"path":"BMnot"}`, "BM is how this text begins, but it is none\n")
	if got, _ := b.call(t, "read", `{"path":"broken"}`); !strings.Contains(got,
		"Read broken: image/png, 12B\n[The image is omitted: it cannot be decoded: ") {
		t.Errorf("broken: %q", got)
	}
	blind := newFixture(t, FileOptions{Model: func() llm.Info { return llm.Info{Window: 1000} }}, "p="+pngOf(t, small))
	got, res := blind.call(t, "read", `{"path":"p"}`)
	if len(res.Parts) != 1 || !strings.Contains(got, "[The current model does not see images: the image is omitted.]") {
		t.Errorf("without vision: %q", got)
	}
	unknown := newFixture(t, FileOptions{Model: func() llm.Info { return llm.Info{} }}, "p="+pngOf(t, small))
	if _, res := unknown.call(t, "read", `{"path":"p"}`); len(res.Parts) != 2 {
		t.Errorf("of which nothing is known: %d parts", len(res.Parts))
	}
}

// bombPNG is a PNG header that declares far too many pixels, with so many bits for each color.
func bombPNG(w, h uint32, bits byte) string {
	data := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	data = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(data, w), h)
	data = append(data, bits, 6, 0, 0, 0)
	return string(binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data[12:])))
}

// minimalPDF makes a PDF file of pages, each with a content stream.
func minimalPDF(pages ...string) string {
	var b strings.Builder
	var offsets []int
	obj := func(body string) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	b.WriteString("%PDF-1.4\n")
	obj("<< /Type /Catalog /Pages 2 0 R >>")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 4+2*i))
	}
	obj(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)))
	obj("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, p := range pages {
		obj(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "+
			"/Contents %d 0 R >>", 5+2*i))
		obj(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(p), p))
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, xref)
	return b.String()
}

func TestReadPDF(t *testing.T) {
	doc := minimalPDF(
		"BT /F1 12 Tf 72 700 Td (Hello, world) Tj 0 -20 Td (second line) Tj ET",
		"BT /F1 12 Tf 72 700 Td (page two) Tj ET")
	b := newFixture(t, FileOptions{}, "a.txt="+doc, "scan.pdf="+minimalPDF(""),
		"cut.pdf="+strings.ReplaceAll(doc, "endobj", "")[:200], "junk.pdf=%PDF-1.7\n\x00\x01\x02")
	b.want(t, "read", `{"path":"a.txt"}`, "[Page 1 of 2]\nHello, world\nsecond line\n\n[Page 2 of 2]\npage two\n")
	b.want(t, "read", `{"path":"a.txt","offset":2,"limit":1}`,
		"Hello, world\n\n[4 more lines in file. Use offset=3 to continue.]")
	b.want(t, "read", `{"path":"scan.pdf"}`, fmt.Sprintf("error: DIR/scan.pdf is a PDF file without text (1 page, %s): "+
		"its pages may be scanned images", plain.Size(int64(len(minimalPDF(""))))))
	// Some have other text before the header; a text that mentions the header is a text.
	put(t, b.path("late.pdf"), "\x1b%-12345X@PJL\n"+strings.Replace(doc, "\n", "\n%\xe2\xe3\xcf\xd3\n", 1))
	put(t, b.path("blank.pdf"), "\r\n"+doc)
	for _, name := range []string{"late.pdf", "blank.pdf"} {
		b.want(t, "read", fmt.Sprintf(`{"path":%q}`, name),
			"[Page 1 of 2]\nHello, world\nsecond line\n\n[Page 2 of 2]\npage two\n")
	}
	about := "# A PDF file – how to tell\n\nIt begins with %PDF-1.7.\n" + strings.Repeat("é", readBlock)
	put(t, b.path("about.md"), about)
	b.want(t, "read", `{"path":"about.md","limit":3}`,
		"# A PDF file – how to tell\n\nIt begins with %PDF-1.7.\n\n[1 more line in file. Use offset=4 to continue.]")
	for _, name := range []string{"junk.pdf"} {
		if got, res := b.call(t, "read", fmt.Sprintf(`{"path":%q}`, name)); !res.IsError ||
			!strings.Contains(got, "is a PDF file whose text cannot be read") {
			t.Errorf("%s: %q", name, got)
		}
	}
	reader := newFixture(t, FileOptions{Model: func() llm.Info { return llm.Info{Documents: true} }}, "a.pdf="+doc)
	_, res := reader.call(t, "read", `{"path":"a.pdf"}`)
	if len(res.Parts) != 2 || res.Parts[1].Media.MIME != "application/pdf" || string(res.Parts[1].Media.Data) != doc {
		t.Errorf("a model that takes documents: %+v", res.Parts)
	}
}

// The limits of an image, to the pixel and the byte.
func TestImageLimits(t *testing.T) {
	var jpg bytes.Buffer
	if err := jpeg.Encode(&jpg, picture(100, 2500, false), nil); err != nil {
		t.Fatal(err)
	}
	clear := image.NewNRGBA(image.Rect(0, 0, 1200, 1200)) // noise, half of it transparent
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range clear.Pix {
		clear.Pix[i] = byte(rnd.Uint32())
		if i%4 == 3 && i/4%1200 < 600 {
			clear.Pix[i] = 0
		}
	}
	fit := pngOf(t, picture(2000, 3, false))
	b := newFixture(t, FileOptions{}, "fit="+fit, "over="+pngOf(t, picture(2001, 3, false)), "tall="+jpg.String(),
		"clear="+pngOf(t, clear),
		"old.gif=GIF87a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,"+
			"\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")
	for _, c := range []struct {
		name, note, mime string
		w, h             int
	}{
		{"fit", "", "image/png", 2000, 3},
		{"over", "[Original 2001x3, shown at 2000x2. Multiply coordinates by 1.00 to map to the original.]", "image/png",
			2000, 2},
		{"tall", "[Original 100x2500, shown at 80x2000. Multiply coordinates by 1.25 to map to the original.]", "image/jpeg",
			80, 2000},
		{"old.gif", "", "image/gif", 1, 1},
		{"clear", "[Converted from image/png to image/jpeg.]", "image/jpeg", 1200, 1200},
	} {
		if c.name == "clear" && testing.Short() {
			continue // slow with the race detector
		}
		got, res := b.call(t, "read", fmt.Sprintf(`{"path":%q}`, c.name))
		_, note, _ := strings.Cut(got, "\n")
		if res.IsError || len(res.Parts) != 2 {
			t.Errorf("%s: %.300q", c.name, got)
			continue
		}
		m := res.Parts[1].Media
		img, _, err := image.Decode(bytes.NewReader(m.Data))
		if err != nil || note != c.note || m.MIME != c.mime || img.Bounds().Dx() != c.w || img.Bounds().Dy() != c.h {
			t.Errorf("%s: %q, %s, %v, %v", c.name, note, m.MIME, img.Bounds(), err)
			continue
		}
		if r, _, _, _ := img.At(300, 600).RGBA(); c.name == "clear" && r < 0xe000 {
			t.Errorf("transparent pixels are %x, want white", r)
		}
		if c.name == "fit" && string(m.Data) != fit {
			t.Error("an image within the limits was changed")
		}
	}
}

// TestReadBroken: read sends nothing that vendors refuse.
func TestReadBroken(t *testing.T) {
	var files []string
	for name, m := range mediatest.Broken(t) {
		files = append(files, name+"="+string(m.Data))
	}
	b := newFixture(t, FileOptions{Model: func() llm.Info { return llm.Info{Vision: true, Documents: true} }}, files...)
	for _, f := range files {
		name, _, _ := strings.Cut(f, "=")
		text, res := b.call(t, "read", fmt.Sprintf(`{"path":%q}`, name))
		if text == "" || slices.ContainsFunc(res.Parts, func(p llm.Part) bool { return p.Media != nil }) {
			t.Errorf("%s: %.200q", name, text)
		}
	}
}
