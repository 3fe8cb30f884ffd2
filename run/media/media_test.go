package media

import (
	"bytes"
	"encoding/base64"
	img "image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"golang.org/x/image/bmp"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media/mediatest"
)

// TestBroken: what vendors would refuse becomes one line of text that says why.
func TestBroken(t *testing.T) {
	for name, m := range mediatest.Broken(t) {
		parts := Parts([]llm.Part{llm.Text("before"), {Media: m}})
		if len(parts) != 2 || parts[1].Media != nil || !strings.HasPrefix(parts[1].Text, "[The ") ||
			!strings.Contains(parts[1].Text, " is left out: ") || strings.Contains(parts[1].Text, "\n") {
			t.Errorf("%s: %+v", name, parts)
		}
	}
}

// TestChecksums: a picture whose chunks have wrong checksums, as a reference server of MCP sends one, is sent with right ones.
func TestChecksums(t *testing.T) {
	whole := mediatest.PNG()
	wrong := bytes.Clone(whole)
	wrong[len(wrong)-1] ^= 0xff // of IEND
	wrong[29] ^= 0xff           // of IHDR
	parts := Parts([]llm.Part{{Media: &llm.Media{MIME: "image/png", Data: wrong}}})
	if len(parts) != 1 || parts[0].Media == nil || !bytes.Equal(parts[0].Media.Data, whole) {
		t.Errorf("%+v", parts)
	}
}

// TestFit: what can be sent is sent with the type of its content, converted or smaller if it must be.
func TestFit(t *testing.T) {
	small := img.NewGray(img.Rect(0, 0, 40, 30))
	var p, j, g, b, wide bytes.Buffer
	for _, err := range []error{png.Encode(&p, small), jpeg.Encode(&j, small, nil), bmp.Encode(&b, small),
		gif.Encode(&g, img.NewPaletted(small.Rect, color.Palette{color.Black}), nil),
		png.Encode(&wide, img.NewGray(img.Rect(0, 0, 9000, 9)))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		claims, is string
		data       []byte
		notes      string
	}{
		{"image/png", "image/png", p.Bytes(), ""},
		{"image/jpeg", "image/png", p.Bytes(), ""}, // the content counts
		{"image/jpeg", "image/jpeg", j.Bytes(), ""},
		{"image/jpg", "image/jpeg", j.Bytes(), ""},
		{"", "image/gif", g.Bytes(), ""},
		{"image/bmp", "image/png", b.Bytes(), "[Converted from image/bmp to image/png.]"},
		{"image/png", "image/png", wide.Bytes(),
			"[Original 9000x9, shown at 2000x2. Multiply coordinates by 4.50 to map to the original.]"},
		{"application/octet-stream", "application/pdf", mediatest.PDF(1), ""},
		{"application/pdf", "application/pdf", mediatest.PDF(100), ""},
		{"text/csv", "text/csv", []byte("a,b\n"), ""},
	} {
		f, err := Fit(&llm.Media{MIME: c.claims, Name: "x", Data: c.data})
		if err != nil || f.Media.MIME != c.is || f.Media.Name != "x" || strings.Join(f.Notes, "\n") != c.notes {
			t.Errorf("%s: %+v, %v", c.claims, f, err)
			continue
		}
		if again, err := Fit(f.Media); err != nil || !bytes.Equal(again.Media.Data, f.Media.Data) || len(again.Notes) > 0 {
			t.Errorf("%s: not the same the second time: %v", c.claims, err)
		}
	}
	most := base64.StdEncoding.DecodedLen(4.5 * (1 << 20))
	if !fitsLimit(make([]byte, most)) || fitsLimit(make([]byte, most+1)) {
		t.Error("the limit is not 4.5 MiB of base64")
	}
}

func FuzzFit(f *testing.F) {
	for _, m := range mediatest.Broken(f) {
		if len(m.Data) < 1000 {
			f.Add(m.MIME, m.Data)
		}
	}
	f.Fuzz(func(t *testing.T, mime string, data []byte) {
		if config, _, err := img.DecodeConfig(bytes.NewReader(data)); err == nil &&
			config.Width*config.Height > 1<<20 {
			return
		}
		m := &llm.Media{MIME: mime, Data: data}
		f, err := Fit(m)
		if err == nil && !fitsLimit(f.Media.Data) && f.Width > 0 {
			t.Error("does not fit")
		}
		if err != nil && strings.Contains(LeftOut(m, err), "\n") {
			t.Error("more than a line")
		}
	})
}
