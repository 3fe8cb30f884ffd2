package transcript

import (
	"bufio"
	"cmp"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A markdownWriter writes a session as Markdown.
type markdownWriter struct {
	*bufio.Writer
	options Options
}

func writeMarkdown(w *bufio.Writer, log *session.Log, o Options) error {
	s := markdownWriter{w, o}
	branch := log.Branch()
	h := headingOf(log, branch, o)
	s.printf("# %s\n\n", plain.Line(h.title))
	s.list(h.facts)
	for _, st := range steps(branch) {
		s.step(st)
	}
	s.printf("---\n\n")
	s.list(h.totals)
	return nil
}

func (s markdownWriter) printf(format string, args ...any) { fmt.Fprintf(s, format, args...) }

func (s markdownWriter) list(rows [][2]string) {
	for _, r := range rows {
		s.printf("- %s: %s\n", plain.Line(r[0]), plain.Line(r[1]))
	}
	if len(rows) > 0 {
		s.printf("\n")
	}
}

// fence writes literal text.
func (s markdownWriter) fence(kind, text string) {
	if text = visible(text); strings.Trim(text, "\n") != "" {
		s.printf("%s\n\n", Fenced(kind, text))
	}
}

// Fenced returns text between fences that are longer than any fence in it.
func Fenced(kind, text string) string {
	fence := strings.Repeat("`", max(3, longest(text, '`')+1))
	return fence + kind + "\n" + strings.TrimRight(text, "\n") + "\n" + fence
}

// visible returns text with hidden characters made visible.
func visible(text string) string { return plain.Text(strings.ReplaceAll(text, "\r\n", "\n")) }

// longest returns the length of the longest run of a character.
func longest(text string, of byte) (longestRun int) {
	run := 0
	for i := range len(text) {
		if text[i] == of {
			run++
			longestRun = max(longestRun, run)
		} else {
			run = 0
		}
	}
	return longestRun
}

// prose writes text that is Markdown itself. It closes a fence left open, because otherwise
// everything after it would be code.
func (s markdownWriter) prose(text string) {
	text = strings.TrimRight(visible(text), "\n")
	if text == "" {
		return
	}
	open := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		bare := strings.TrimLeft(line, " ")
		if len(line)-len(bare) > 3 || bare == "" || bare[0] != '`' && bare[0] != '~' {
			continue
		}
		n := len(bare) - len(strings.TrimLeft(bare, bare[:1]))
		rest := bare[n:]
		switch {
		case n < 3:
		case open == "" && (bare[0] == '~' || !strings.Contains(rest, "`")):
			open = bare[:n]
		case open != "" && open[0] == bare[0] && n >= len(open) && strings.TrimSpace(rest) == "":
			open = ""
		}
	}
	s.printf("%s\n", text)
	if open != "" {
		s.printf("%s\n", open)
	}
	s.printf("\n")
}

// aside writes a line about an event beside the conversation.
func (s markdownWriter) aside(text string) { s.printf("*%s*\n\n", escaped(plain.Line(text))) }

// escaped escapes what Markdown would interpret as markup or HTML.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "[", `\[`, "&",
		"&amp;").Replace(text)
}

func (s markdownWriter) step(st step) {
	switch {
	case st.User != nil:
		s.printf("## You\n\n")
		if st.User.Typed != "" {
			s.aside("typed: " + st.User.Typed)
		}
		s.parts(st.User.Parts)
	case st.Answer != nil:
		s.answer(st)
	case st.Activation != nil:
		a := st.Activation
		s.aside(fmt.Sprintf("skill %s, %s, %d tokens", a.Notice, a.Origin(), a.Tokens))
		if granted := a.Granted(); len(granted) > 0 {
			s.aside("it allows " + strings.Join(granted, ", ") + " until the turn ends")
		}
		if a.Present == 0 {
			s.fence("", a.Prompt)
		}
		s.parts(a.Parts)
	case st.Note != nil:
		if st.Note.People != "" {
			s.aside(st.Note.People)
		} else {
			s.aside("note to the model")
		}
		s.fence("", st.Note.Model)
	case st.Release != nil:
		s.aside(st.Release.Line() + " (" + st.Release.Reason + ")")
		s.fence("", st.Release.Summary)
	case st.Agent != nil:
		s.aside(st.Agent.Line())
		s.fence("", st.Agent.Result)
	case st.Compaction != nil:
		s.aside(st.Compaction.Line())
		s.fence("", st.Compaction.Summary)
	case st.TurnEnd != nil:
		if st.TurnEnd.Reason != session.EndDone {
			s.aside(ended(st.TurnEnd))
		}
	case st.Setting != nil:
		s.aside(settings(st.Setting))
	case st.Listing != nil:
		s.aside("skills listed for the model")
		s.fence("", st.Listing.Text)
	case st.Decision != nil:
		if what := decided(st.Decision); what != "" {
			s.aside(st.Decision.Tool + ": " + what)
		}
	case st.Started != nil:
	case st.Result != nil:
		s.result(st.Result)
	default:
		s.aside(string(st.Type))
		s.fence("json", other(st.Entry))
	}
}

func (s markdownWriter) answer(st step) {
	s.printf("## %s\n\n", escaped(plain.Line(cmp.Or(st.Answer.Model, "Model"))))
	calls := st.calls
	for _, part := range st.Answer.Message.Parts {
		switch {
		case part.Thinking != nil:
			if part.Thinking.Text != "" {
				s.aside("thinking")
				s.fence("", part.Thinking.Text)
			}
		case part.Call != nil:
			s.call(&calls[0])
			calls = calls[1:]
		case part.Media != nil:
			s.media(part.Media)
		default:
			s.prose(part.Text)
		}
	}
	if st.Answer.Partial {
		s.aside("this answer was cut off")
	}
}

func (s markdownWriter) call(c *call) {
	failed := c.failed()
	if failed != "" {
		failed = " (" + failed + ")"
	}
	args, summary := arguments(c.Input), s.options.summary(c)
	s.printf("**%s**", escaped(plain.Line(c.Name)))
	if len(args) != 1 || args[0].value != summary {
		s.printf(" %s", escaped(plain.Line(summary)))
	}
	s.printf("%s\n\n", failed)
	for _, a := range args {
		if a.name != "" && !strings.Contains(a.value, "\n") && longest(a.value, '`') == 0 && len(a.value) < 200 {
			s.printf("- %s: `%s`\n\n", escaped(plain.Line(a.name)), plain.Line(a.value))
			continue
		}
		if a.name != "" {
			s.printf("- %s:\n\n", escaped(plain.Line(a.name)))
		}
		s.fence("", a.value)
	}
	for _, d := range c.decisions {
		if what := decided(d); what != "" {
			s.aside(what)
		}
	}
	if c.result != nil {
		s.result(c.result)
	}
}

func (s markdownWriter) result(r *session.Result) {
	s.fence("diff", diff(r))
	for _, p := range r.Parts {
		if p.Media != nil {
			s.media(p.Media)
		} else {
			s.fence("", p.Text)
		}
	}
}

func (s markdownWriter) parts(parts []llm.Part) {
	for _, p := range parts {
		if p.Media != nil {
			s.media(p.Media)
		} else {
			s.prose(p.Text)
		}
	}
}

// media names media, which Markdown text cannot contain.
func (s markdownWriter) media(m *llm.Media) { s.aside(attachment(m)) }
