package transcript

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

//go:embed page.css
var style string

// shortLines is the maximum number of lines of a fold that is open at first.
const shortLines = 12

// An htmlWriter writes HTML. Only its methods write markup; all text from the session goes
// through esc.
type htmlWriter struct {
	*bufio.Writer
	options Options
}

// esc escapes untrusted text for use in an element or a quoted attribute, and makes hidden
// characters visible.
func esc(s string) string {
	return html.EscapeString(visible(s))
}

func (p htmlWriter) put(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

func writeHTML(w *bufio.Writer, log *session.Log, o Options) error {
	p := htmlWriter{w, o}
	branch := log.Branch()
	h := headingOf(log, branch, o)
	sum := sha256.Sum256([]byte(style))
	// The page allows no script and loads nothing, even if an injection got past esc.
	p.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'sha256-`,
		base64.StdEncoding.EncodeToString(sum[:]), `'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>`, esc(h.title), `</title>
<style>`, style, `</style>
</head>
<body>
<header>
<h1>`, esc(h.title), `</h1>
`)
	p.table(h.facts)
	p.put("</header>\n<main>\n")
	for _, s := range steps(branch) {
		p.step(s)
	}
	p.put("</main>\n<footer>\n")
	p.table(h.totals)
	p.put("</footer>\n</body>\n</html>\n")
	return nil
}

// WriteEntries writes entries that follow each other on a branch as a part of a page, in the elements and classes of
// the page that [Write] makes. A call and its result belong together if both are among them.
func WriteEntries(w io.Writer, entries []session.Entry, o Options) error {
	p := htmlWriter{bufio.NewWriter(w), o}
	for _, s := range steps(entries) {
		p.step(s)
	}
	return p.Flush()
}

func (p htmlWriter) table(rows [][2]string) {
	p.put("<dl>\n")
	for _, r := range rows {
		p.put("<div><dt>", esc(r[0]), "</dt><dd>", esc(r[1]), "</dd></div>\n")
	}
	p.put("</dl>\n")
}

// head begins a section: who speaks, and when.
func (p htmlWriter) head(class, author string, at time.Time, more string) {
	p.put(`<section class="`, class, `">`, "\n<h2>", esc(author))
	if more != "" {
		p.put(` <small>`, esc(more), `</small>`)
	}
	if !at.IsZero() {
		p.put(` <time datetime="`, at.UTC().Format(time.RFC3339), `">`, at.UTC().Format("15:04"), `</time>`)
	}
	p.put("</h2>\n")
}

// line writes one line about an event beside the conversation.
func (p htmlWriter) line(class, text string) {
	p.put(`<p class="`, strings.TrimRight("line "+class, " "), `">`, esc(text), "</p>\n")
}

// fold writes text that the reader can unfold.
func (p htmlWriter) fold(class, summary, text string, open bool) {
	p.put(`<details class="`, class, `"`, opened(open), `><summary>`, esc(summary), "</summary>\n")
	p.pre("", text)
	p.put("</details>\n")
}

func opened(open bool) string {
	if open {
		return " open"
	}
	return ""
}

// pre writes text unchanged. HTML ignores a newline directly after the tag.
func (p htmlWriter) pre(class, text string) {
	p.put(`<pre`)
	if class != "" {
		p.put(` class="`, class, `"`)
	}
	p.put(">\n", esc(text), "</pre>\n")
}

func (p htmlWriter) step(s step) {
	switch {
	case s.User != nil:
		author := "You"
		if s.User.Steering {
			author = "You, in between"
		}
		p.head("user", author, s.Time, "")
		parts := s.User.Parts
		if s.User.Typed != "" {
			p.put(`<div class="text said">`, esc(s.User.Typed), "</div>\n")
			if len(parts) > 0 {
				p.fold("note", "its expansion", parts[0].Text, false)
				parts = parts[1:]
			}
		}
		p.parts(parts)
		p.put("</section>\n")
	case s.Answer != nil:
		p.answer(s)
	case s.Activation != nil:
		p.activation(s.Activation)
	case s.Note != nil:
		what := s.Note.People
		if s.Note.Model == "" {
			p.line("note", what)
			return
		}
		if what == "" {
			what = "note to the model"
		}
		p.fold("note", what, s.Note.Model, false)
	case s.Release != nil:
		what := s.Release.Line() + " (" + s.Release.Reason + ")"
		if s.Release.Summary == "" {
			p.line("release", what)
		} else {
			p.fold("release", what, s.Release.Summary, false)
		}
	case s.Compaction != nil:
		p.compaction(s.Compaction)
	case s.Agent != nil:
		if s.Agent.Result == "" {
			p.line("agent", s.Agent.Line())
		} else {
			p.fold("agent", s.Agent.Line(), s.Agent.Result, s.Agent.Call == "")
		}
	case s.TurnEnd != nil:
		if s.TurnEnd.Reason == session.EndDone {
			p.put("<hr>\n")
			return
		}
		p.line("bad", ended(s.TurnEnd))
	case s.Setting != nil:
		p.line("setting", settings(s.Setting))
	case s.Listing != nil:
		p.fold("listing", "skills listed for the model", s.Listing.Text, false)
	case s.Decision != nil: // a decision on a call that is not on this branch
		if what := decided(s.Decision); what != "" {
			p.line("decision", s.Decision.Tool+": "+what)
		}
	case s.Started != nil:
	case s.Result != nil:
		p.put(`<section class="result">` + "\n")
		p.parts(s.Result.Parts)
		p.put("</section>\n")
	default:
		p.fold("other", string(s.Type), other(s.Entry), false)
	}
}

func (p htmlWriter) answer(s step) {
	a := s.Answer
	more := ""
	if a.Usage != (llm.Usage{}) {
		more = usage(a.Usage)
	}
	if a.Cost > 0 {
		more += fmt.Sprintf(", $%.4f", a.Cost)
	}
	p.head("answer", cmp.Or(a.Model, "Model"), s.Time, more)
	calls := s.calls
	for _, part := range a.Message.Parts {
		switch {
		case part.Thinking != nil:
			text := part.Thinking.Text
			if text == "" {
				p.line("thinking", "thinking that the provider does not reveal")
				continue
			}
			p.fold("thinking", "Thinking", text, false)
		case part.Call != nil:
			p.call(&calls[0])
			calls = calls[1:]
		case part.Media != nil:
			p.media(part.Media)
		default:
			p.put(`<div class="text">` + "\n")
			p.markdown(part.Text)
			p.put("</div>\n")
		}
	}
	switch {
	case a.Partial:
		p.line("bad", "this answer was cut off")
	case a.Stop == llm.MaxTokens:
		p.line("bad", "this answer reached its length limit")
	case a.Stop == llm.Refusal:
		p.line("bad", "the model refused")
	}
	p.put("</section>\n")
}

func (p htmlWriter) parts(parts []llm.Part) {
	for _, part := range parts {
		switch {
		case part.Media != nil:
			p.media(part.Media)
		case part.Text != "":
			p.put(`<div class="text said">`, esc(part.Text), "</div>\n")
		}
	}
}

func (p htmlWriter) call(c *call) {
	args, summary := arguments(c.Input), p.options.summary(c)
	patch := diff(c.result)
	failed := c.failed()
	var text string
	media := false
	if c.result != nil {
		for _, part := range c.result.Parts {
			media = media || part.Media != nil
			if part.Media == nil && part.Text != "" {
				text += strings.TrimRight(part.Text, "\n") + "\n"
			}
		}
	}
	open := patch != "" || media || failed != "" || strings.Count(text, "\n") <= shortLines
	class := "call"
	if failed != "" {
		class += " bad"
	}
	p.put(`<details class="`, class, `"`, opened(open), `><summary><b>`, esc(c.Name), `</b> <code>`, esc(summary),
		`</code>`)
	if failed != "" {
		p.put(` <i>`, failed, `</i>`)
	}
	p.put("</summary>\n")
	for _, d := range c.decisions {
		if what := decided(d); what != "" {
			p.line("decision", what)
		}
	}
	if patch != "" { // the diff shows the same as the arguments, but in colour
		p.put(`<details class="arguments"><summary>arguments</summary>` + "\n")
		p.arguments(args)
		p.put("</details>\n")
		p.diff(patch)
	} else if len(args) != 1 || !args[0].text || args[0].value != summary { // else the summary has it all
		p.arguments(args)
	}
	if text != "" {
		p.pre("output", strings.TrimSuffix(text, "\n"))
	}
	if c.result != nil {
		for _, part := range c.result.Parts {
			if part.Media != nil {
				p.media(part.Media)
			}
		}
	}
	p.put("</details>\n")
}

func (p htmlWriter) arguments(all []argument) {
	if len(all) == 0 {
		return
	}
	p.put(`<dl class="arguments">` + "\n")
	for _, a := range all {
		p.put("<div><dt>", esc(a.name), "</dt><dd>", esc(strings.TrimRight(a.value, "\n")), "</dd></div>\n")
	}
	p.put("</dl>\n")
}

func (p htmlWriter) diff(patch string) {
	p.put(`<pre class="diff">` + "\n")
	for line := range strings.Lines(patch) {
		line = strings.TrimRight(line, "\r\n")
		tag := "span"
		class := ""
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "@@"):
			class = "place"
		case strings.HasPrefix(line, "+"):
			tag = "ins"
		case strings.HasPrefix(line, "-"):
			tag = "del"
		}
		p.put("<", tag)
		if class != "" {
			p.put(` class="`, class, `"`)
		}
		p.put(">", esc(line), "\n</", tag, ">")
	}
	p.put("</pre>\n")
}

// media shows images of formats that can only be images, and names all other media: an SVG,
// for example, is a document that may contain anything.
func (p htmlWriter) media(m *llm.Media) {
	what := attachment(m)
	switch m.MIME {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		p.put(`<figure><img alt="`, esc(what), `" src="data:`, m.MIME, `;base64,`)
		enc := base64.NewEncoder(base64.StdEncoding, p)
		enc.Write(m.Data)
		enc.Close()
		p.put(`"><figcaption>`, esc(what), "</figcaption></figure>\n")
		return
	}
	if strings.HasPrefix(m.MIME, "text/") {
		p.fold("attachment", what, string(m.Data), false)
		return
	}
	p.line("attachment", what)
}

func (p htmlWriter) activation(a *session.Activation) {
	p.put(`<details class="activation"><summary><b>skill</b> <code>`, esc(a.Notice), `</code> `, esc(a.Origin()))
	if a.Present == 0 {
		p.put(esc(fmt.Sprintf(", %d tokens", a.Tokens)))
	} else {
		p.put(", its text was already in the conversation")
	}
	p.put("</summary>\n")
	var rows [][2]string
	for _, f := range [][2]string{
		{"arguments", a.Args}, {"allows", strings.Join(a.Granted(), ", ")}, {"denies", strings.Join(a.Denies, ", ")},
		{"model", a.Model}, {"effort", a.Effort}, {"hooks", string(a.Hooks)}, {"hash", a.Hash},
	} {
		if f[1] != "" {
			rows = append(rows, f)
		}
	}
	p.table(rows)
	if a.Present == 0 {
		p.pre("", a.Prompt)
	}
	p.put("</details>\n")
	p.parts(a.Parts)
	if granted := a.Granted(); len(granted) > 0 {
		p.line("grants", "it allows "+strings.Join(granted, ", ")+" until the turn ends")
	}
}

func (p htmlWriter) compaction(c *session.Compaction) {
	if c.Summary == "" {
		p.line("compaction", c.Line())
		return
	}
	p.put(`<details class="compaction"><summary>`, esc(c.Line()), "</summary>\n")
	if c.Instructions != "" {
		p.line("", "asked for: "+c.Instructions)
	}
	p.put(`<div class="text">` + "\n")
	p.markdown(c.Summary)
	p.put("</div>\n</details>\n")
}
