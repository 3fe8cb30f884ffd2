package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/tool"
)

// A Question is what a run asks the user, as the queue keeps it.
type Question struct {
	Key     string          `json:"key"` // the same for the same question about the same contents of files
	Title   string          `json:"title"`
	Text    string          `json:"text,omitempty"`
	Asker   string          `json:"asker"`
	Tool    string          `json:"tool,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Files   []File          `json:"files,omitempty"` // that would run or change; the answer is for these contents
	Options []Option        `json:"options,omitempty"`
	Fields  []Field         `json:"fields,omitempty"`
	URL     string          `json:"url,omitempty"`
	Command string          `json:"command,omitempty"` // that does what an answer would; see [Question.Secret]
	Changes []Change        `json:"changes,omitempty"` // to Files; the key is without them
}

// Secret reports whether the question wants a secret. The queue would keep it as text, so it is no answer here: the
// options are to try again, after the user has stored it with Command, and to go on without it.
func (q Question) Secret() bool {
	return slices.ContainsFunc(q.Fields, func(f Field) bool { return f.Type == string(engine.FieldSecret) })
}

// close gives a question that wants a secret its options. Those of earlier versions have none.
func (q *Question) close() {
	if !q.Secret() || len(q.Options) > 0 {
		return
	}
	q.Options = []Option{{ID: engine.OptionYes, Label: "it is stored: try again", Allow: true},
		{ID: engine.OptionNo, Label: "go on without it"}}
	said := "Answers are kept, so no secret is typed here."
	if q.Command != "" {
		said += " This stores it: " + q.Command
	}
	q.Text = strings.TrimPrefix(q.Text+"\n"+said, "\n")
}

// A Change is one that a call would make in a file.
type Change struct {
	Path string `json:"path"`
	New  bool   `json:"new,omitempty"`  // there is no such file yet
	Diff string `json:"diff"`           // unified; its first lines; untrusted text
	More int    `json:"more,omitempty"` // lines of the diff that are left out
}

// Limits of what a question keeps of a diff.
const (
	maxDiffLines = 200
	maxDiffBytes = 16 << 10
)

func changeOf(c tool.Change) Change {
	lines := strings.SplitAfter(c.Diff, "\n")
	n, size := 0, 0
	for n < len(lines) && n < maxDiffLines && size+len(lines[n]) <= maxDiffBytes {
		size += len(lines[n])
		n++
	}
	shown, more := strings.Join(lines[:n], ""), len(lines)-n
	if more > 0 && lines[len(lines)-1] == "" { // the end of the last line
		more--
	}
	if more > 0 && n < maxDiffLines {
		shown += strings.ToValidUTF8(lines[n][:min(maxDiffBytes-size, len(lines[n]))], "") + "…\n"
	}
	return Change{Path: c.Path, New: c.Created, Diff: shown, More: more}
}

// Others are the files of a question without those whose changes it has.
func (q Question) Others() (out []File) {
	for _, f := range q.Files {
		if !slices.ContainsFunc(q.Changes, func(c Change) bool { return c.Path == f.Path }) {
			out = append(out, f)
		}
	}
	return out
}

// A File is one that a call would run, or change.
type File struct {
	Path string `json:"path"`
	Hash string `json:"hash"` // SHA-256 in hex; "": it could not be read
}

// An Option is one of the answers to choose from.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Help  string `json:"help,omitempty"`
	Allow bool   `json:"allow,omitempty"`
}

// A Field is something to fill in.
type Field struct {
	Name    string   `json:"name"`
	Label   string   `json:"label"`
	Type    string   `json:"type,omitempty"`
	Options []Option `json:"options,omitempty"`
}

// An Answer is the answer to a Question.
type Answer struct {
	Option string                     `json:"option,omitempty"`
	Reason string                     `json:"reason,omitempty"`
	Values map[string]json.RawMessage `json:"values,omitempty"`
}

func options(all []engine.Option) (out []Option) {
	for _, o := range all {
		out = append(out, Option{ID: o.ID, Label: o.Label, Help: o.Help, Allow: o.Allow})
	}
	return out
}

func questionOf(q engine.Question) Question {
	w := Question{Title: q.Title, Text: q.Text, Asker: string(q.Asker), URL: q.URL, Options: options(q.Options),
		Command: q.Command}
	if q.Call != nil {
		w.Tool, w.Input = q.Call.Tool, q.Call.Input
		for _, f := range q.Call.Files {
			w.Files = append(w.Files, File{f.Path, f.Hash})
		}
		for _, c := range q.Call.Changes {
			if c.Base != "" {
				w.Files = append(w.Files, File{c.Path, c.Base})
			}
		}
	}
	for _, f := range q.Fields {
		w.Fields = append(w.Fields, Field{Name: f.Name, Label: f.Label, Type: string(f.Type), Options: options(f.Options)})
	}
	w.close()
	data, err := json.Marshal(w)
	if err != nil { // an input that is no JSON
		data = []byte(w.Title + "\x00" + string(w.Input))
		w.Input = nil
	}
	sum := sha256.Sum256(data)
	w.Key = hex.EncodeToString(sum[:12])
	if q.Call != nil {
		for _, c := range q.Call.Changes {
			w.Changes = append(w.Changes, changeOf(c))
		}
	}
	return w
}

// An absent user has answered some questions earlier; at any other the run stops and waits.
type absent struct {
	stop func(error)
	// brief means that what an answer allows until the session ends is no choice: the process ends with the message.
	brief bool

	mu      sync.Mutex
	answers []batch.Answered
	asked   *Question // that is open
}

// Ask returns the earlier answer to the same question, once.
func (p *absent) Ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	if p.brief && q.Asker == engine.AskerGate {
		q.Options = slices.DeleteFunc(slices.Clone(q.Options), func(o engine.Option) bool {
			return o.ID == engine.OptionSession || o.ID == engine.OptionEdits
		})
	}
	w := questionOf(q)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.answers {
		var earlier Question
		var answer Answer
		if json.Unmarshal(a.Question, &earlier) != nil || earlier.Key != w.Key || json.Unmarshal(a.Value, &answer) != nil {
			continue
		}
		if w.Secret() {
			if answer.Option != engine.OptionNo { // it was not stored after all
				continue
			}
			return engine.Answer{Declined: true}, nil
		}
		p.answers = slices.Delete(slices.Clone(p.answers), i, i+1)
		return engine.Answer{Option: answer.Option, Reason: answer.Reason, Values: answer.Values}, nil
	}
	if p.asked == nil {
		p.asked = &w
	}
	p.stop(errWaits)
	return engine.Answer{}, engine.ErrCannot
}

// open returns the question that the run waits for; nil: none.
func (p *absent) open() json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		return nil
	}
	data, err := json.Marshal(p.asked)
	if err != nil {
		return nil // questionOf has made sure that it can be written
	}
	return data
}
