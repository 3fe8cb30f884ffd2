// Package media makes images and documents fit to be sent to a model. Whatever becomes an image or document part
// passes [Fit]: files that are read or attached, results and resources of MCP servers, messages of hosts, images of
// skills. What cannot be sent becomes one line of text, because vendors refuse a whole request for one broken image,
// and with it every later request of the session.
//
// Most programs start with package engine.
package media

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/pdftext"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
)

// Limits of a document that is sent to the model.
const (
	MaxDocument = 24 << 20 // bytes
	maxPages    = 100      // what the models with the smallest limit take
	maxText     = 1 << 20  // bytes of a text attachment
	checkTime   = 10 * time.Second
)

// Fitted is media that can be sent.
type Fitted struct {
	Media         *llm.Media
	Width, Height int      // of the original image, in pixels; 0: it is a document, or not known
	Notes         []string // what the model must know about a change, each in brackets
}

// Fit checks media by its content, whatever its MIME type claims, and converts or shrinks an image to what all models
// take. The error is the rest of a sentence about the media: "it cannot be decoded: …". Of two calls at once, one waits
// while the other decodes, so that both together need at most about 0.5 GB.
func Fit(m *llm.Media) (out Fitted, err error) {
	defer func() { // a decoder that fails on hostile data must not end the session
		if x := recover(); x != nil {
			out.Media, err = nil, fmt.Errorf("it cannot be decoded: %v", x)
		}
	}()
	kind := ImageType(m.Data)
	switch {
	case len(bytes.TrimSpace(m.Data)) == 0:
		return out, errors.New("it is empty")
	case kind != "":
		out, err = image(kind, m.Data)
	case IsPDF(m.Data):
		out.Media, err = &llm.Media{MIME: "application/pdf", Data: m.Data}, pdf(m.Data)
	case strings.HasPrefix(m.MIME, "text/"):
		out.Media, err = &llm.Media{MIME: m.MIME, Data: m.Data}, text(m.Data)
	default:
		found, _, _ := strings.Cut(http.DetectContentType(m.Data), ";")
		return out, fmt.Errorf("its content is %s, which models do not take", found)
	}
	if err != nil {
		out.Media = nil
		return out, err
	}
	out.Media.Name = m.Name
	return out, nil
}

// Parts returns parts in which all media passed Fit; what did not is one line of text. Parts are not modified.
func Parts(parts []llm.Part) []llm.Part {
	all, _ := Told(parts)
	return all
}

// Told is Parts, and returns the lines, too, for whoever gave the media.
func Told(parts []llm.Part) (all []llm.Part, lines []string) {
	if !slices.ContainsFunc(parts, func(p llm.Part) bool { return p.Media != nil }) {
		return parts, nil
	}
	for _, p := range parts {
		if p.Media == nil {
			all = append(all, p)
			continue
		}
		f, err := Fit(p.Media)
		if err != nil {
			line := LeftOut(p.Media, err)
			all, lines = append(all, llm.Text(line)), append(lines, strings.Trim(line, "[]"))
			continue
		}
		for _, note := range f.Notes {
			all = append(all, llm.Text(note))
		}
		p.Media = f.Media
		all = append(all, p)
	}
	return all, lines
}

// LeftOut returns the line that stands for media that Fit refused.
func LeftOut(m *llm.Media, why error) string {
	what := "The attachment"
	if strings.HasPrefix(m.MIME, "image/") {
		what = "The image"
	} else if m.MIME == "application/pdf" {
		what = "The PDF document"
	}
	if name := oneLine(m.Name); name != "" {
		what += " " + name
	}
	return fmt.Sprintf("[%s is left out: %s (%s, %s).]", what, oneLine(why.Error()),
		cmp.Or(oneLine(m.MIME), "unknown type"), plain.Size(int64(len(m.Data))))
}

// IsLeftOut reports whether a text is such a line.
func IsLeftOut(s string) bool {
	return strings.HasPrefix(s, "[The ") && strings.HasSuffix(s, ".]") && strings.Contains(s, " is left out: ") &&
		!strings.Contains(s, "\n")
}

// oneLine shortens untrusted text to a piece of a line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:199]) + "…"
	}
	return s
}

// IsPDF reports whether data begins like a PDF file: some have other bytes before the header.
func IsPDF(data []byte) bool {
	first := data[:min(len(data), 1024)]
	before, _, ok := bytes.Cut(first, []byte("%PDF-"))
	return ok && (len(bytes.TrimSpace(before)) == 0 || !utf8.Valid(before) || bytes.HasPrefix(before, []byte("\x1b%")))
}

// pdf checks that models can read a PDF file.
func pdf(data []byte) error {
	if len(data) > MaxDocument {
		return fmt.Errorf("it is larger than %s", plain.Size(MaxDocument))
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), checkTime, errors.New("reading it takes too long"))
	defer cancel()
	_, total, err := pdftext.Pages(ctx, data, 0) // only up to its first page with text
	switch {
	case ctx.Err() != nil: // a slow machine or a strange page, but a file with pages
		return nil
	case err != nil:
		return fmt.Errorf("its pages cannot be read: %w", err)
	case total > maxPages:
		return fmt.Errorf("it has %d pages, and models take %d", total, maxPages)
	case !bytes.Contains(data, []byte("startxref")):
		return errors.New("its end is missing")
	}
	return nil
}

func text(data []byte) error {
	switch {
	case len(data) > maxText:
		return fmt.Errorf("it is larger than %s", plain.Size(maxText))
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return errors.New("it is not text in UTF-8")
	}
	return nil
}
