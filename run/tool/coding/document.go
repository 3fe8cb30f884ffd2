package coding

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/charset"
	"github.com/knack-agent/knack/internal/leaf/pdftext"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/tool"
)

// Limits of reading a PDF file.
const (
	pdfTime = 20 * time.Second
	pdfText = 8 << 20 // bytes of text
)

// image returns an image in the form that models take, or says why not.
func (r *readCall) image(mime string) (tool.Result, error) {
	r.details.Kind, r.details.MIME = "image", mime
	data, err := r.whole()
	if err != nil {
		return tool.Result{}, err
	}
	f, err := media.Fit(&llm.Media{MIME: mime, Name: r.name(), Data: data})
	r.details.Width, r.details.Height = f.Width, f.Height
	text := fmt.Sprintf("Read %s: %s, %dx%d, %s", r.name(), mime, f.Width, f.Height, plain.Size(r.size))
	if f.Width == 0 {
		text = fmt.Sprintf("Read %s: %s, %s", r.name(), mime, plain.Size(r.size))
	}
	switch {
	case !r.model.Vision && r.model.Window > 0: // one that is in no table may see: a server that refuses images says so
		return tool.Text(text + "\n[The current model does not see images: the image is omitted.]"), nil
	case err != nil:
		return tool.Text(text + "\n[The image is omitted: " + err.Error() + ".]"), nil
	}
	text = strings.Join(append([]string{text}, f.Notes...), "\n")
	return tool.Result{Parts: []llm.Part{llm.Text(text), {Media: f.Media}}}, nil
}

// pdf returns the file itself for a model that accepts documents, and its text for
// others.
func (r *readCall) pdf() (tool.Result, error) {
	r.details.Kind, r.details.MIME = "pdf", "application/pdf"
	data, err := r.whole()
	if err != nil {
		return tool.Result{}, err
	}
	if r.model.Documents {
		// The text of what models refuse may still be readable.
		if f, err := media.Fit(&llm.Media{MIME: "application/pdf", Name: r.name(), Data: data}); err == nil {
			return tool.Result{Parts: []llm.Part{
				llm.Text(fmt.Sprintf("Read %s: application/pdf, %s", r.name(), plain.Size(r.size))), {Media: f.Media},
			}}, nil
		}
	}
	ctx, cancel := context.WithTimeoutCause(r.ctx, pdfTime, fmt.Errorf("it took longer than %v", pdfTime))
	defer cancel()
	pages, total, err := pdftext.Pages(ctx, data, pdfText)
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s is a PDF file whose text cannot be read: %w", r.details.Path, err)
	}
	text := pdftext.Join(pages, total)
	if text == "" {
		return tool.Result{}, fmt.Errorf("%s is a PDF file without text (%s, %s): its pages may be scanned images",
			r.details.Path, count(total, "page"), plain.Size(r.size))
	}
	r.page.Write([]byte(text))
	return r.show(charset.UTF8)
}

// notebook formats the cells of a Jupyter notebook. It returns false if the file is
// other JSON.
func (r *readCall) notebook() (tool.Result, bool, error) {
	data, err := r.whole()
	if err != nil {
		return tool.Result{}, false, err
	}
	nb, ok := parseNotebook(data)
	if !ok {
		return tool.Result{}, false, nil
	}
	r.details.Kind = "notebook"
	var b strings.Builder
	fmt.Fprintf(&b, "[Notebook of %s; edit changes them with its field cells.]\n", count(len(nb.Cells), "cell"))
	for i := range nb.Cells {
		nb.Cells[i].show(&b, fmt.Sprintf("Cell %d", i+1))
	}
	r.page.Write([]byte(b.String()))
	res, err := r.show(charset.UTF8)
	return res, true, err
}
