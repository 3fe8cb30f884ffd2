package agent

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A provider that cannot read an image or a document refuses the whole request, and each later one that contains it.
// What its message names, else what came last, is then left out of requests; the log keeps it. If it has too many of
// them, or they make a request too large, the oldest are left out.

// maxWithheld is how many media one request may lose one by one. A message about images can mean something else.
const maxWithheld = 3

// mediaWords match words in messages about media, as whole words, because many messages link to their documentation. A
// message about how many media are allowed matches both several and limit.
var mediaWords = sync.OnceValue(func() (r struct{ about, several, limit, number *regexp.Regexp }) {
	const things = `(?:images?|media|documents?|files?|attachments?|image_url)\b`
	r.about = regexp.MustCompile(`(?i)\b(?:` + things + `|inline_data|media_type|pdfs?\b|base64\b|mime ?type|pixels\b)`)
	r.several = regexp.MustCompile(`(?i)\b(?:too many|too much|number of|\d+) (?:\w+ )?` + things + `|\bimage count\b`)
	r.limit = regexp.MustCompile(`(?i)too m|at most|up to|max|exceed|more than|limit|allow|>`)
	r.number = regexp.MustCompile(`\b\d{1,4}\b`)
	return r
})

// A withheld is what a request had to leave out.
type withheld struct {
	hashes  []string
	guesses int   // how many of them one by one
	why     error // of the last
}

// more adds the media that a refusal is about, and reports whether there were any.
func (w *withheld) more(err error, sent []llm.Message) bool {
	found := refusedMedia(err, sent)
	if len(found) == 0 || len(found) == 1 && w.guesses == maxWithheld {
		return false
	}
	if len(found) == 1 {
		w.guesses++
	}
	w.hashes, w.why = append(w.hashes, found...), err
	return true
}

// refusedMedia returns the hashes of what must be left out of a refused request; nil: nothing can be.
func refusedMedia(err error, sent []llm.Message) []string {
	var e *llm.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch {
	case e.Kind == llm.Invalid, e.Kind == llm.Server, e.Kind == llm.Overflow, errors.Is(err, llm.ErrNoBody):
	default:
		return nil
	}
	if e.Media != "" {
		return []string{e.Media}
	}
	var all []string // in the order in which they came
	fresh := 0       // how many no answer followed
	size := 0        // of all together, in bytes
	for i := range sent {
		before := len(all)
		changeMedia(sent[i:i+1], func(m *llm.Media) *llm.Part {
			all = append(all, m.Hash())
			size += len(m.Data)
			return nil
		})
		if fresh += len(all) - before; sent[i].Role == llm.Assistant {
			fresh = 0
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case e.Kind == llm.Overflow:
		if !tooManyBytes(e) || len(all) == 1 || size < textBytes(sent) {
			return nil // a summary of the conversation helps
		}
		return all[:len(all)/2]
	case mediaWords().several.MatchString(e.Message) && mediaWords().limit.MatchString(e.Message) &&
		allowed(e.Message, len(all)) > 0:
		return all[:len(all)-allowed(e.Message, len(all))]
	case e.Status/100 != 4: // it may be temporary
		return nil
	case mediaWords().about.MatchString(e.Message):
	case fresh == 0 || e.Status == http.StatusNotFound: // the request failed for another reason
		return nil
	}
	return all[len(all)-1:]
}

// tooManyBytes reports whether a request was too large for the server, whatever the model's window is.
func tooManyBytes(e *llm.Error) bool {
	return e.Status == http.StatusRequestEntityTooLarge || strings.Contains(e.Message, "message size")
}

// textBytes is about how much of the messages is text.
func textBytes(ms []llm.Message) (n int) {
	for _, m := range ms {
		for _, p := range m.Parts {
			n += len(p.Text)
			if p.Result != nil {
				n += len(llm.TextOf(p.Result.Parts))
			}
		}
	}
	return n
}

// allowed returns how many media a message allows of those that were sent; 0: it does not say so.
func allowed(message string, sent int) int {
	limit := 0
	for _, text := range mediaWords().number.FindAllString(message, -1) {
		if n, _ := strconv.Atoi(text); n > 0 && n < sent && (limit == 0 || n > limit) {
			limit = n
		}
	}
	return limit
}

// withhold returns the messages with a line of text in the place of some media. It does not modify its argument.
func withhold(ms []llm.Message, hashes []string) []llm.Message {
	if len(hashes) == 0 {
		return ms
	}
	return changeMedia(ms, func(m *llm.Media) *llm.Part {
		if !slices.Contains(hashes, m.Hash()) {
			return nil
		}
		name := m.Name
		if name == "" {
			name = "attachment"
		}
		text := llm.Text(fmt.Sprintf("[%s (%s) is not shown: the provider refused it]", name, m.MIME))
		return &text
	})
}

// changeMedia returns the messages with what change returns for their media, in order; nil: they stay.
func changeMedia(ms []llm.Message, change func(*llm.Media) *llm.Part) []llm.Message {
	var parts func(old []llm.Part) []llm.Part
	parts = func(old []llm.Part) []llm.Part {
		changed := old
		replace := func(i int, p llm.Part) {
			if &changed[0] == &old[0] {
				changed = slices.Clone(old)
			}
			changed[i] = p
		}
		for i, p := range old {
			switch {
			case p.Media != nil && len(p.Media.Data) > 0:
				if other := change(p.Media); other != nil {
					replace(i, *other)
				}
			case p.Result != nil && len(p.Result.Parts) > 0:
				if inner := parts(p.Result.Parts); &inner[0] != &p.Result.Parts[0] {
					result := *p.Result
					result.Parts = inner
					replace(i, llm.Part{Result: &result})
				}
			}
		}
		return changed
	}
	ms = slices.Clone(ms)
	for i := range ms {
		ms[i].Parts = parts(ms[i].Parts)
	}
	return ms
}

// recordWithheld records what was left out of a request that then succeeded, so that later requests leave it out, too.
func (t *turn) recordWithheld(w *withheld) error {
	if len(w.hashes) == 0 {
		return nil
	}
	_, err := t.record(session.Entry{Type: session.TypeNote, Note: &session.Note{Withheld: w.hashes, Warns: true,
		People: "the provider refused an image or a document, which is not sent any more: " + w.why.Error()}})
	return err
}
