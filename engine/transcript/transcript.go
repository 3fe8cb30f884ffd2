// Package transcript exports a session for people and other programs, and imports transcripts
// of other agents as sessions.
//
// [Write] writes the current branch of a session as a self-contained HTML page, as Markdown,
// or as the session's own JSON lines. [Read] reads these lines, and the transcripts of other
// agents (packages claude and pi).
//
// The content of a session is untrusted: it comes from files, commands, web pages and the
// model. The HTML page shows all of it as text: it has no script and loads nothing, and hidden
// and directional characters are written as escapes (\u202e).
package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// A Format is an export format.
type Format string

const (
	HTML     Format = "html"
	Markdown Format = "md"
	JSONL    Format = "jsonl"
)

// ParseFormat returns the format with the given name or file extension.
func ParseFormat(name string) (Format, error) {
	switch strings.ToLower(strings.TrimPrefix(name, ".")) {
	case "html", "htm":
		return HTML, nil
	case "md", "markdown":
		return Markdown, nil
	case "jsonl":
		return JSONL, nil
	}
	return "", fmt.Errorf("unknown format %q; must be one of html, md, jsonl", name)
}

// Options configure how a session is written.
type Options struct {
	Program string // name and version of the exporting program, shown if not empty
	// Summary describes a call in one line, as [tool.Set.Line] does. If it is nil, a
	// description that does not depend on the tool is used.
	Summary func(tool string, input json.RawMessage) string
}

// summary returns the line shown for a call beside the name of its tool.
func (o Options) summary(c *call) string {
	line := o.Summary
	if line == nil {
		line = tool.Set(nil).Line
	}
	return FirstLine(line(c.Name, c.Input))
}

// Write writes the current branch of log. It writes while it reads the log, so that memory use
// does not grow with the size of the session.
func Write(w io.Writer, log *session.Log, f Format, o Options) error {
	b := bufio.NewWriterSize(w, 64<<10)
	var err error
	switch f {
	case HTML:
		err = writeHTML(b, log, o)
	case Markdown:
		err = writeMarkdown(b, log, o)
	case JSONL:
		err = writeJSONL(b, log)
	default:
		err = fmt.Errorf("unknown format %q; must be one of html, md, jsonl", f)
	}
	if err != nil {
		return err
	}
	return b.Flush()
}

// writeJSONL writes the current branch as a complete session file, which [Read] and a
// session.Store can read.
func writeJSONL(w io.Writer, log *session.Log) error {
	only := session.New(log.Header())
	if err := only.Graft(log.Walk()); err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(only.Header()); err != nil {
		return err
	}
	for _, e := range only.Entries() {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// A step is an entry of a branch as the page shows it: each call together with its result and
// the decisions about it, which are separate entries in the log.
type step struct {
	session.Entry
	calls []call
}

type call struct {
	*llm.ToolCall
	decisions []*session.Decision
	started   bool
	result    *session.Result // nil: no result
}

// failed describes why a call failed, in a word or two; "" means that it did not.
func (c *call) failed() string {
	for _, d := range c.decisions {
		if d.By.Verdict != permission.Allow {
			return "denied"
		}
	}
	switch {
	case c.result == nil && c.started:
		return "interrupted"
	case c.result == nil:
		return "not run"
	case c.result.IsError:
		return "error"
	}
	return ""
}

// steps pairs the calls of a branch with their results. Call IDs may be reused in later
// answers, so it looks for a result only up to the next answer.
func steps(branch []session.Entry) []step {
	var all []step
	open := map[string]*call{}
	for _, e := range branch {
		var c *call
		switch {
		case e.Started != nil:
			if c = open[e.Started.Call]; c != nil {
				c.started = true
				continue
			}
		case e.Decision != nil:
			if c = open[e.Decision.Call]; c != nil {
				c.decisions = append(c.decisions, e.Decision)
				continue
			}
		case e.Result != nil:
			if c = open[e.Result.ID]; c != nil && c.result == nil {
				c.result = e.Result
				continue
			}
		}
		s := step{Entry: e}
		if e.Answer != nil {
			clear(open)
			for _, p := range e.Answer.Message.Parts {
				if p.Call != nil {
					s.calls = append(s.calls, call{ToolCall: p.Call})
				}
			}
			for i := range s.calls {
				open[s.calls[i].ID] = &s.calls[i]
			}
		}
		all = append(all, s)
	}
	return all
}

// A heading is the beginning of an exported session: its title, facts and totals.
type heading struct {
	title  string
	facts  [][2]string // names and values
	totals [][2]string
}

func headingOf(log *session.Log, branch []session.Entry, o Options) heading {
	h, st := log.Header(), log.State()
	out := heading{title: FirstLine(st.Title)}
	var models []string
	var end time.Time
	for _, e := range branch {
		end = e.Time
		switch {
		case e.User != nil && out.title == "":
			for _, p := range e.User.Parts {
				if out.title == "" {
					out.title = FirstLine(p.Text)
				}
			}
		case e.Activation != nil && out.title == "":
			out.title = FirstLine(e.Activation.Notice)
		case e.Answer != nil && e.Answer.Model != "" && !slices.Contains(models, e.Answer.Model):
			models = append(models, e.Answer.Model)
		}
	}
	if out.title == "" {
		out.title = "Session " + h.ID
	}
	fact := func(to *[][2]string, what, value string) {
		if value != "" {
			*to = append(*to, [2]string{what, value})
		}
	}
	fact(&out.facts, "Session", h.ID)
	fact(&out.facts, "From", h.From)
	fact(&out.facts, "Directory", h.Dir)
	fact(&out.facts, "Model", strings.Join(models, ", "))
	if !h.Time.IsZero() {
		when := stamp(h.Time)
		if !end.IsZero() && end.Sub(h.Time) >= time.Minute {
			when += " to " + stamp(end)
		}
		fact(&out.facts, "Time", when)
	}
	fact(&out.facts, "Written by", o.Program)
	fact(&out.totals, "Turns", fmt.Sprint(st.Turns))
	fact(&out.totals, "Requests", fmt.Sprint(st.Requests))
	for _, m := range slices.Sorted(maps.Keys(st.Usage)) {
		if u := st.Usage[m]; u != (llm.Usage{}) {
			fact(&out.totals, "Tokens of "+cmp.Or(m, "an unknown model"), usage(u))
		}
	}
	if st.Cost > 0 {
		fact(&out.totals, "Cost", fmt.Sprintf("$%.4f", st.Cost))
	}
	return out
}

func usage(u llm.Usage) string {
	s := fmt.Sprintf("%d in", u.Input+u.CacheRead+u.CacheWrite)
	if u.CacheRead > 0 {
		s += fmt.Sprintf(" (%d from cache)", u.CacheRead)
	}
	return s + fmt.Sprintf(", %d out", u.Output)
}

// stamp formats a time in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// FirstLine returns the first line of text that is not blank, cut at 100 characters.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(line); len(r) > 100 {
		line = string(r[:99]) + "…"
	}
	return strings.TrimSpace(line)
}

// An argument is one field of a call's input.
type argument struct {
	name, value string
	text        bool // the value was a JSON string
}

// arguments returns the fields of a call's input in their original order. An input that is not
// an object becomes one argument without a name.
func arguments(input json.RawMessage) []argument {
	var whole map[string]json.RawMessage
	dec := json.NewDecoder(strings.NewReader(string(input)))
	if json.Unmarshal(input, &whole) != nil || whole == nil {
		return []argument{{value: string(input)}}
	}
	dec.Token() // the opening brace
	var all []argument
	for dec.More() {
		key, _ := dec.Token()
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			break
		}
		name, _ := key.(string)
		a := argument{name: name, value: string(v)}
		if json.Unmarshal(v, &a.value) == nil && len(v) > 0 && v[0] == '"' {
			a.text = true
		} else {
			a.value = indented(v)
		}
		all = append(all, a)
	}
	return all
}

func indented(v json.RawMessage) string {
	if len(v) < 80 {
		return string(v)
	}
	var b bytes.Buffer
	if json.Indent(&b, v, "", "  ") != nil {
		return string(v)
	}
	return b.String()
}

// diff returns the diff in a result's details.
func diff(r *session.Result) string {
	if r == nil {
		return ""
	}
	return strings.TrimRight(r.Change().Diff, "\n")
}

// decided describes a decision: the verdict, the user's answer and the reason. It returns "" for
// a call that was allowed without asking the user.
func decided(d *session.Decision) string {
	if !d.Asked && d.By.Verdict == permission.Allow {
		return ""
	}
	s := "denied"
	if d.By.Verdict == permission.Allow {
		s = "allowed"
	}
	if d.Asked {
		s += " by the user"
		if d.Answer != "" {
			s += ": " + d.Answer
		}
	}
	if why := d.By.Reason; why != "" {
		s += " (" + why + ")"
	} else if d.By.Rule != "" {
		s += " (" + d.By.Rule + ")"
	}
	return s
}

// ended describes how a turn ended.
func ended(t *session.TurnEnd) string {
	if t.Error != "" {
		return "turn ended: " + string(t.Reason) + ": " + t.Error
	}
	return "turn ended: " + string(t.Reason)
}

// attachment describes media.
func attachment(m *llm.Media) string {
	return fmt.Sprintf("%s (%s, %d bytes)", cmp.Or(m.Name, "attachment"), m.MIME, len(m.Data))
}

// settings describes what an entry changed: the model, the effort, the mode, a title or a label.
func settings(s *session.Setting) string {
	var all []string
	label := ""
	if s.Label != nil {
		label = fmt.Sprintf("%q for entry %d", s.Label.Text, s.Label.Entry)
	}
	for _, f := range [][2]string{{"model", s.Model}, {"effort", s.Effort}, {"permission mode", string(s.Mode)},
		{"title", s.Title}, {"label", label}} {
		if f[1] != "" {
			all = append(all, f[0]+": "+f[1])
		}
	}
	return strings.Join(all, ", ")
}

// other returns an entry of a type unknown to this program as JSON, without the fields that
// every entry has.
func other(e session.Entry) string {
	data, err := json.Marshal(e)
	if err != nil {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return ""
	}
	for _, f := range []string{"id", "parent", "time", "type"} {
		delete(fields, f)
	}
	if len(fields) == 1 { // the entry's type already names the only field left
		for _, v := range fields {
			return indented(v)
		}
	}
	data, err = json.Marshal(fields)
	if err != nil || len(fields) == 0 {
		return ""
	}
	return indented(data)
}
