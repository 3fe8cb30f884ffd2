// Package mediatest makes images and documents that vendors refuse, for tests.
//
// Most programs start with package engine.
package mediatest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// PNG returns an image of 40 times 30 pixels.
func PNG() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, picture()); err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	return b.Bytes()
}

func picture() *image.Paletted {
	p := image.NewPaletted(image.Rect(0, 0, 40, 30), color.Palette{color.Black, color.White, color.Gray{100}})
	for i := range p.Pix {
		p.Pix[i] = byte(i * i % 3)
	}
	return p
}

// PDF returns a document with so many pages.
func PDF(pages int) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n")
	fmt.Fprintf(&b, "2 0 obj\n<< /Type /Pages /Kids [%s] /Count %d >>\nendobj\n", kids(pages), pages)
	for i := range pages {
		fmt.Fprintf(&b, "%d 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>\nendobj\n", 3+i)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n0\n%%%%EOF\n", 3+pages)
	return b.Bytes()
}

func kids(pages int) string {
	var all []string
	for i := range pages {
		all = append(all, fmt.Sprintf("%d 0 R", 3+i))
	}
	return strings.Join(all, " ")
}

// bomb is the header of a PNG that declares so many pixels.
func bomb(w, h uint32) []byte {
	data := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	data = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(data, w), h)
	data = append(data, 8, 6, 0, 0, 0)
	return binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data[12:]))
}

// cmyk returns a JPEG of 8 times 8 pixels in the colours of printers, which Go does not write.
func cmyk() []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	gray := b.Bytes()
	table := func(marker byte) []byte { // the first segment of a kind
		at := bytes.Index(gray, []byte{0xff, marker})
		return gray[at : at+2+int(binary.BigEndian.Uint16(gray[at+2:]))]
	}
	out := []byte("\xff\xd8\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00")
	out = append(out, table(0xdb)...)
	out = append(out, "\xff\xc0\x00\x14\x08\x00\x08\x00\x08\x04\x01\x11\x00\x02\x11\x00\x03\x11\x00\x04\x11\x00"...)
	out = append(out, table(0xc4)...)
	out = append(out, "\xff\xda\x00\x0e\x04\x01\x00\x02\x00\x03\x00\x04\x00\x00\x3f\x00"...)
	return append(out, "\x28\xa2\x8a\xff\xd9"...) // four blocks whose coefficients are 0
}

// Odd returns images that can be sent once they are mended, by what is wrong with them.
func Odd(t testing.TB) map[string]*llm.Media {
	t.Helper()
	var high, moving bytes.Buffer
	frame := image.NewPaletted(image.Rect(0, 0, 4, 4), color.Palette{color.Black, color.White})
	for _, err := range []error{png.Encode(&high, image.NewGray(image.Rect(0, 0, 1, 9000))),
		gif.EncodeAll(&moving, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{10, 10}})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	checksum := PNG()
	checksum[29] ^= 0xff
	return map[string]*llm.Media{
		"PNG declared JPEG": {MIME: "image/jpeg", Data: PNG()},
		"bad checksum":      {MIME: "image/png", Data: checksum},
		"animated GIF":      {MIME: "image/gif", Data: moving.Bytes()},
		"CMYK JPEG":         {MIME: "image/jpeg", Data: cmyk()},
		"1 by 9000":         {MIME: "image/png", Data: high.Bytes()},
		"no type":           {MIME: "application/octet-stream", Data: PNG()},
	}
}

// Broken returns 12 images and 6 documents that must not be sent, by what is wrong with them.
func Broken(t testing.TB) map[string]*llm.Media {
	t.Helper()
	var j, g, z bytes.Buffer
	w := zip.NewWriter(&z)
	_, zerr := w.Create("word/document.xml")
	for _, err := range []error{jpeg.Encode(&j, picture(), nil), gif.Encode(&g, picture(), nil), zerr, w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := PNG()
	garbled := bytes.Clone(whole)
	garbled[len(garbled)/2] ^= 0xff
	html := []byte("<!DOCTYPE html><html><body>404</body></html>")
	image := func(mime string, data []byte) *llm.Media { return &llm.Media{MIME: mime, Data: data} }
	document := func(data []byte) *llm.Media {
		return &llm.Media{MIME: "application/pdf", Name: "a\nb.pdf", Data: data}
	}
	return map[string]*llm.Media{
		"cut PNG":       image("image/png", whole[:len(whole)/2]),
		"PNG header":    image("image/png", whole[:8]),
		"garbled PNG":   image("image/png", garbled),
		"PNG bomb":      image("image/png", bomb(20_000, 20_000)),
		"no pixels":     image("image/png", bomb(0, 5)),
		"cut JPEG":      image("image/jpeg", j.Bytes()[:j.Len()/2]),
		"cut GIF":       image("image/gif", g.Bytes()[:g.Len()/2]),
		"empty GIF":     image("image/gif", []byte("GIF89a\x00\x00\x00\x00\x00\x00\x00;")),
		"cut WebP":      image("image/webp", []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00")),
		"HTML as PNG":   image("image/png", html),
		"SVG":           image("image/svg+xml", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)),
		"empty image":   image("image/png", nil),
		"HTML as PDF":   document(html),
		"cut PDF":       document(PDF(3)[:250]),
		"encrypted PDF": document(bytes.Replace(PDF(1), []byte("/Root"), []byte("/Encrypt 9 0 R /Root"), 1)),
		"no pages":      document([]byte("%PDF-1.7\n1 0 obj\n<< >>\nendobj\nstartxref\n0\n%%EOF\n")),
		"many pages":    document(PDF(101)),
		"Word document": {MIME: "application/vnd.openxmlformats-officedocument.wordprocessingml.document", Data: z.Bytes()},
	}
}
