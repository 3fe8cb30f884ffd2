package coding

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/charset"
	"github.com/knack-agent/knack/internal/leaf/pdftext"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/tool"
)

// Limits of reading a PDF file.
const (
	pdfTime = 20 * time.Second
	pdfText = 8 << 20 // bytes of text
)

// pdf returns the file itself for a model that accepts documents, and its text for
// others.
func (r *readCall) pdf() (tool.Result, error) {
	r.details.Kind, r.details.MIME = "pdf", "application/pdf"
	if r.model.Documents && r.size <= maxDocument {
		data, err := r.whole()
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Result{Parts: []llm.Part{
			llm.Text(fmt.Sprintf("Read %s: application/pdf, %s", r.name(), plain.Size(r.size))),
			{Media: &llm.Media{MIME: "application/pdf", Name: r.name(), Data: data}},
		}}, nil
	}
	data, err := r.whole()
	if err != nil {
		return tool.Result{}, err
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

// source is a text in a notebook: a string, or a list of strings.
type source string

func (l *source) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*l = source(one)
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return err
	}
	*l = source(strings.Join(many, ""))
	return nil
}

type notebook struct {
	Format int `json:"nbformat"`
	Cells  []struct {
		Type    string `json:"cell_type"`
		Source  source `json:"source"`
		Outputs []struct {
			Type      string                     `json:"output_type"`
			Text      source                     `json:"text"`
			Data      map[string]json.RawMessage `json:"data"`
			Name      string                     `json:"ename"`
			Value     string                     `json:"evalue"`
			Traceback []string                   `json:"traceback"`
		} `json:"outputs"`
	} `json:"cells"`
}

// notebook formats the cells of a Jupyter notebook. It returns false if the file is
// other JSON.
func (r *readCall) notebook() (tool.Result, bool, error) {
	data, err := r.whole()
	if err != nil {
		return tool.Result{}, false, err
	}
	var nb notebook
	if json.Unmarshal(data, &nb) != nil || nb.Format == 0 || nb.Cells == nil {
		return tool.Result{}, false, nil
	}
	r.details.Kind = "notebook"
	var b bytes.Buffer
	fmt.Fprintf(&b, "[Notebook of %s; an edit must match the file's JSON, not this view.]\n", count(len(nb.Cells), "cell"))
	put := func(text string) {
		b.WriteString(strings.TrimRight(text, "\n"))
		b.WriteByte('\n')
	}
	for i, c := range nb.Cells {
		fmt.Fprintf(&b, "\n[Cell %d: %s]\n", i+1, c.Type)
		put(string(c.Source))
		for _, o := range c.Outputs {
			fmt.Fprintf(&b, "[Output: %s]\n", o.Type)
			var text source
			switch {
			case o.Text != "":
				put(string(o.Text))
			case o.Name != "":
				put(o.Name + ": " + o.Value)
			case json.Unmarshal(o.Data["text/plain"], &text) == nil:
				put(string(text))
			}
			for mime, data := range o.Data {
				if strings.HasPrefix(mime, "image/") {
					fmt.Fprintf(&b, "[%s, %s, not shown]\n", mime, plain.Size(int64(len(data))))
				}
			}
		}
	}
	r.page.Write(b.Bytes())
	res, err := r.show(charset.UTF8)
	return res, true, err
}
