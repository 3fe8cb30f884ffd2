package coding

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // for image.Decode, as bmp and webp below
	"image/jpeg"
	"image/png"
	"strings"

	_ "golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// Limits of an image that is sent to the model.
const (
	maxSide    = 2000              // pixels
	maxBase64  = 4*1<<20 + 1<<19   // bytes: 4.5 MiB
	maxDecoded = 256 << 20         // bytes of a decoded image
	maxPixels  = 100 * 1000 * 1000 // larger images are not decoded
)

// imageType detects the type of an image from its first bytes; "" means not an image.
func imageType(first []byte) string {
	has := func(at int, magic string) bool {
		return len(first) >= at+len(magic) && string(first[at:at+len(magic)]) == magic
	}
	switch {
	case has(0, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case has(0, "\xff\xd8\xff"):
		return "image/jpeg"
	case has(0, "GIF87a"), has(0, "GIF89a"):
		return "image/gif"
	case has(0, "RIFF") && has(8, "WEBP"):
		return "image/webp"
	case has(0, "BM") && len(first) >= 30 && binary.LittleEndian.Uint32(first[6:]) == 0 &&
		binary.LittleEndian.Uint32(first[14:]) >= 12 && binary.LittleEndian.Uint32(first[14:]) <= 124:
		return "image/bmp"
	}
	return ""
}

// image returns an image unchanged if it is small enough, otherwise reduced, with the
// scale.
func (r *readCall) image(mime string) (tool.Result, error) {
	r.details.Kind, r.details.MIME = "image", mime
	data, err := r.whole()
	if err != nil {
		return tool.Result{}, err
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s looks like %s but cannot be decoded: %w", r.details.Path, mime, err)
	}
	r.details.Width, r.details.Height = config.Width, config.Height
	text := fmt.Sprintf("Read %s: %s, %dx%d, %s", r.name(), mime, config.Width, config.Height, plain.Size(r.size))
	if !r.model.Vision {
		return tool.Text(text + "\n[The current model does not see images: the image is omitted.]"), nil
	}
	media, notes, err := fitImage(mime, data, config)
	if err != nil {
		return tool.Text(text + "\n[The image is omitted: " + err.Error() + ".]"), nil
	}
	if len(notes) > 0 {
		text += "\n" + strings.Join(notes, "\n")
	}
	media.Name = r.name()
	return tool.Result{Parts: []llm.Part{llm.Text(text), {Media: media}}}, nil
}

// animated reports whether an image has more than one frame. Models see the first frame
// at best.
func animated(mime string, data []byte) bool {
	switch mime {
	case "image/png": // an acTL chunk before the first IDAT
		for at := 8; at+8 <= len(data); {
			size, kind := binary.BigEndian.Uint32(data[at:]), string(data[at+4:at+8])
			if kind == "acTL" {
				return true
			}
			if kind == "IDAT" || size > 1<<31 {
				return false
			}
			at += 12 + int(size)
		}
	case "image/gif": // a graphic control extension with a delay, twice
		return bytes.Count(data, []byte("\x21\xf9\x04")) > 1
	case "image/webp":
		return len(data) > 20 && string(data[12:16]) == "VP8X" && data[20]&2 != 0
	}
	return false
}

func fitsLimit(data []byte) bool { return base64.StdEncoding.EncodedLen(len(data)) <= maxBase64 }

// decoding contains a token while an image is decoded: one at a time, because each may need maxDecoded bytes.
var decoding = make(chan struct{}, 1)

// decodedBytes returns how much memory the pixels of an image take.
func decodedBytes(config image.Config) int {
	size := 4
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		size = 8
	case color.YCbCrModel:
		size = 3
	}
	return config.Width * config.Height * size
}

// fitImage reduces an image to the limits of models.
func fitImage(mime string, data []byte, config image.Config) (*llm.Media, []string, error) {
	moves := animated(mime, data)
	side := max(config.Width, config.Height)
	if side <= maxSide && fitsLimit(data) && mime != "image/bmp" && !moves {
		return &llm.Media{MIME: mime, Data: data}, nil, nil
	}
	if config.Width*config.Height > maxPixels || decodedBytes(config) > maxDecoded {
		return nil, nil, fmt.Errorf("it has %dx%d pixels, too many to make it smaller", config.Width, config.Height)
	}
	decoding <- struct{}{}
	defer func() { <-decoding }()
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, nil, fmt.Errorf("it cannot be decoded: %v", err)
	}
	var notes []string
	if moves {
		notes = append(notes, "[The image is animated: its first frame is shown.]")
	}
	scale := min(1, float64(maxSide)/float64(side))
	for range 8 {
		w, h := max(1, int(float64(config.Width)*scale)), max(1, int(float64(config.Height)*scale))
		small := img
		if w != config.Width || h != config.Height {
			dst := image.NewRGBA(image.Rect(0, 0, w, h))
			var scaler draw.Scaler = draw.CatmullRom
			if w*config.Height*32 > maxDecoded/2 { // it keeps four float64 for each of these pixels
				scaler = draw.ApproxBiLinear
			}
			scaler.Scale(dst, dst.Bounds(), img, img.Bounds(), draw.Src, nil)
			small = dst
		}
		if out, as := encode(small, mime == "image/jpeg"); out != nil {
			if as != mime {
				notes = append(notes, fmt.Sprintf("[Converted from %s to %s.]", mime, as))
			}
			if small != img {
				notes = append(notes, fmt.Sprintf("[Original %dx%d, shown at %dx%d. Multiply coordinates by %.2f to map to the "+
					"original.]",
					config.Width, config.Height, w, h, float64(config.Width)/float64(w)))
			}
			return &llm.Media{MIME: as, Data: out}, notes, nil
		}
		scale *= 0.75
	}
	return nil, nil, errors.New("it cannot be made small enough")
}

// encode encodes an image within the size limit: a photo as JPEG, others as PNG if that
// is small enough. It returns nil if no format is.
func encode(img image.Image, photo bool) ([]byte, string) {
	var b bytes.Buffer
	if !photo {
		if png.Encode(&b, img) == nil && fitsLimit(b.Bytes()) {
			return b.Bytes(), "image/png"
		}
	}
	flat := image.NewRGBA(img.Bounds()) // JPEG has no transparency, so use a white background
	draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), img, img.Bounds().Min, draw.Over)
	for _, quality := range []int{85, 70, 55, 40} {
		b.Reset()
		if jpeg.Encode(&b, flat, &jpeg.Options{Quality: quality}) == nil && fitsLimit(b.Bytes()) {
			return b.Bytes(), "image/jpeg"
		}
	}
	return nil, ""
}
