package coding

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

// RunProgram runs a program whose standard output is the result of a tool: text, which is cut and kept as that of bash
// is, or one JSON object of this form, of at most 8 MB:
//
//	{"text": "for the model", "parts": [{"type": "image", "mime": "image/png", "data": "BASE64"}],
//	 "details": {}, "isError": false, "touched": ["/absolute/path"]}
//
// Standard error is shown to the user meanwhile; its end follows the result of a program that fails. The restrictions
// and permissions of the call apply to the program as to a command of bash. A timeout of 0 means o.Timeout.
func RunProgram(ctx context.Context, ws workspace.Workspace, c workspace.Command, timeout time.Duration,
	call tool.Input, o Options) tool.Result {
	if timeout == 0 {
		timeout = o.Timeout
	}
	out := &programOutput{text: newOutput(truncate.Default(), o.TempDir)}
	out.text.away = away(ws)
	said := newOutput(truncate.Limits{Lines: 40, Bytes: 4 << 10}, o.TempDir)
	said.report = func(text string) { call.Progress(tool.Text(text)) }
	c.Output, c.Stderr, c.Connected, c.Mask = out, said, o.Connected, o.Mask
	c.Limits, c.Scripts, c.Allow = call.Limits, append(c.Scripts, call.Scripts...), c.Allow.Union(call.Allow)
	ended := runOutput(ctx, ws, c, timeout)
	why, _, _ := said.end()
	res := ended.result(out.text, bashInput{}, timeout)
	if !res.IsError {
		if object, ok := out.object(); ok {
			return object.result(o)
		}
		return res
	}
	if why != llm.NoOutput {
		res.Parts = append(res.Parts, llm.Text("Standard error:\n"+why))
	}
	return res
}

// ProgramResult returns what a program printed as the result of a tool, as RunProgram reads it.
func ProgramResult(printed string, o Options) tool.Result {
	out := programOutput{text: newOutput(truncate.Default(), o.TempDir)}
	if _, err := out.Write([]byte(printed)); err != nil { // no file for what is cut
		return tool.Errorf("%v", err)
	}
	text, _, _ := out.text.end()
	if object, ok := out.object(); ok {
		return object.result(o)
	}
	return tool.Text(text)
}

// maxObject is the largest JSON object that a program may print, in bytes.
const maxObject = 8 << 20

// A programOutput keeps what a program prints as text, and the bytes as long as they may be one JSON object.
type programOutput struct {
	text *output

	mu    sync.Mutex
	bytes bytes.Buffer
	large bool
}

func (p *programOutput) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.large {
		p.bytes.Write(data)
		begins := bytes.TrimLeft(p.bytes.Bytes(), " \t\r\n")
		if p.bytes.Len() > maxObject || len(begins) > 0 && begins[0] != '{' {
			p.large, p.bytes = true, bytes.Buffer{}
		}
	}
	return p.text.Write(data)
}

// object returns the JSON object that the output is. An object with other fields is text: the program prints what it has.
func (p *programOutput) object() (o programResult, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.large || p.bytes.Len() == 0 {
		return o, false
	}
	dec := json.NewDecoder(&p.bytes)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil || dec.More() || o.Text == nil && o.Parts == nil {
		return programResult{}, false
	}
	return o, true
}

// A programResult is what a program prints that has more to say than text.
type programResult struct {
	Text    *string         `json:"text"`
	Parts   []programPart   `json:"parts"`
	Details json.RawMessage `json:"details"`
	IsError bool            `json:"isError"`
	Touched []string        `json:"touched"`
}

type programPart struct {
	Type string `json:"type"` // text, image or document
	Text string `json:"text"`
	MIME string `json:"mime"`
	Name string `json:"name"`
	Data []byte `json:"data"`
}

func (r programResult) result(o Options) tool.Result {
	res := tool.Result{IsError: r.IsError, Touched: r.Touched}
	if len(r.Details) > 0 {
		res.Details, res.Structured = r.Details, r.Details
	}
	add := func(text string) {
		out := NewOutput(o.TempDir)
		out.WriteLines(text)
		if text = out.Text(); strings.TrimSpace(text) != "" {
			res.Parts = append(res.Parts, llm.Text(text))
		}
	}
	if r.Text != nil {
		add(*r.Text)
	}
	for _, p := range r.Parts {
		if p.Type == "text" {
			add(p.Text)
			continue
		}
		res.Parts = append(res.Parts, media.Parts([]llm.Part{{Media: &llm.Media{MIME: p.MIME, Name: p.Name, Data: p.Data}}})...)
	}
	if len(res.Parts) == 0 {
		res.Parts = []llm.Part{llm.Text(llm.NoOutput)}
	}
	return res
}
