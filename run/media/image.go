package media

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	img "image"
	"image/color"
	_ "image/gif" // for image.Decode, as bmp and webp below
	"image/jpeg"
	"image/png"

	_ "golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"

	"github.com/knack-agent/knack/run/llm"
)

// Limits of an image that is sent to the model.
const (
	maxSide    = 2000              // pixels
	maxBase64  = 4*1<<20 + 1<<19   // bytes: 4.5 MiB
	maxDecoded = 256 << 20         // bytes of a decoded image
	maxPixels  = 100 * 1000 * 1000 // larger images are not decoded
)

// ImageType detects the type of an image from its first bytes; "" means not an image.
func ImageType(first []byte) string {
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

// withChecksums returns a PNG with right checksums of its chunks; those of some programs are wrong, and what shows them
// does not look. The pixels have a checksum of their own.
func withChecksums(data []byte) []byte {
	out := data
	for at := 8; at+12 <= len(data); {
		size := int64(binary.BigEndian.Uint32(data[at:]))
		if size > int64(len(data)-at-12) {
			break // it is cut
		}
		end := at + 8 + int(size)
		if sum := crc32.ChecksumIEEE(data[at+4 : end]); sum != binary.BigEndian.Uint32(data[end:]) {
			if &out[0] == &data[0] {
				out = bytes.Clone(data)
			}
			binary.BigEndian.PutUint32(out[end:], sum)
		}
		at = end + 4
	}
	return out
}

// decodedBytes returns how much memory the pixels of an image take.
func decodedBytes(config img.Config) int {
	size := 4
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		size = 8
	case color.YCbCrModel:
		size = 3
	}
	return config.Width * config.Height * size
}

// image decodes an image, and converts or reduces it to what models take.
func image(mime string, data []byte) (out Fitted, err error) {
	if mime == "image/png" {
		data = withChecksums(data)
	}
	config, _, err := img.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return out, fmt.Errorf("it cannot be decoded: %w", err)
	}
	out.Width, out.Height = config.Width, config.Height
	if config.Width < 1 || config.Height < 1 {
		return out, errors.New("it has no pixels")
	}
	if config.Width > maxPixels/config.Height || decodedBytes(config) > maxDecoded {
		return out, fmt.Errorf("it has %dx%d pixels, too many to make it smaller", config.Width, config.Height)
	}
	decoding <- struct{}{}
	defer func() { <-decoding }()
	whole, _, err := img.Decode(bytes.NewReader(data)) // also if it is small: vendors refuse what is cut or garbled
	if err != nil {
		return out, fmt.Errorf("it cannot be decoded: %w", err)
	}
	moves := animated(mime, data)
	printed := config.ColorModel == color.CMYKModel // vendors show its colours inverted, or refuse it
	if max(config.Width, config.Height) <= maxSide && fitsLimit(data) && mime != "image/bmp" && !moves && !printed {
		out.Media = &llm.Media{MIME: mime, Data: data}
		return out, nil
	}
	if moves {
		out.Notes = append(out.Notes, "[The image is animated: its first frame is shown.]")
	}
	return out, out.reduce(whole, mime)
}

// reduce sets Media to a form of an image that is small enough.
func (f *Fitted) reduce(whole img.Image, mime string) error {
	scale := min(1, float64(maxSide)/float64(max(f.Width, f.Height)))
	for range 8 {
		w, h := max(1, int(float64(f.Width)*scale)), max(1, int(float64(f.Height)*scale))
		small := whole
		if w != f.Width || h != f.Height {
			dst := img.NewRGBA(img.Rect(0, 0, w, h))
			var scaler draw.Scaler = draw.CatmullRom
			if w*f.Height*32 > maxDecoded/2 { // it keeps four float64 for each of these pixels
				scaler = draw.ApproxBiLinear
			}
			scaler.Scale(dst, dst.Bounds(), whole, whole.Bounds(), draw.Src, nil)
			small = dst
		}
		if out, as := encode(small, mime == "image/jpeg"); out != nil {
			if as != mime {
				f.Notes = append(f.Notes, fmt.Sprintf("[Converted from %s to %s.]", mime, as))
			}
			if small != whole {
				f.Notes = append(f.Notes, fmt.Sprintf("[Original %dx%d, shown at %dx%d. Multiply coordinates by %.2f to map to the "+
					"original.]",
					f.Width, f.Height, w, h, float64(max(f.Width, f.Height))/float64(max(w, h))))
			}
			f.Media = &llm.Media{MIME: as, Data: out}
			return nil
		}
		scale *= 0.75
	}
	return errors.New("it cannot be made small enough")
}

// encode encodes an image within the size limit: a photo as JPEG, others as PNG if that
// is small enough. It returns nil if no format is.
func encode(in img.Image, photo bool) ([]byte, string) {
	var b bytes.Buffer
	if !photo {
		if png.Encode(&b, in) == nil && fitsLimit(b.Bytes()) {
			return b.Bytes(), "image/png"
		}
	}
	flat := img.NewRGBA(in.Bounds()) // JPEG has no transparency, so use a white background
	draw.Draw(flat, flat.Bounds(), img.NewUniform(color.White), img.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), in, in.Bounds().Min, draw.Over)
	for _, quality := range []int{85, 70, 55, 40} {
		b.Reset()
		if jpeg.Encode(&b, flat, &jpeg.Options{Quality: quality}) == nil && fitsLimit(b.Bytes()) {
			return b.Bytes(), "image/jpeg"
		}
	}
	return nil, ""
}
