package agent

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A provider that cannot read an image or a document refuses the whole request, and each later one that contains it.
// What its message names, else what came last, is then left out of requests; the log keeps it.

// maxWithheld is how many media one request may lose. A message about images can mean something else.
const maxWithheld = 3

// aboutMedia are the words of messages about media. They are whole words: many messages name their documentation.
var aboutMedia = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(images?|image_url|inline_data|media|media_type|pdfs?|document|base64|mime ?type` +
		`|pixels)\b`)
})

// refusedMedia returns the hash of what must be left out of a refused request; "": nothing can be.
func refusedMedia(err error, sent []llm.Message) string {
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.Invalid {
		return ""
	}
	if e.Media != "" {
		return e.Media
	}
	if e.Status/100 != 4 || !aboutMedia().MatchString(e.Message) {
		return ""
	}
	last := ""
	changeMedia(sent, func(m *llm.Media) *llm.Part {
		last = m.Hash()
		return nil
	})
	return last
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
func (t *turn) recordWithheld(hashes []string, why error) error {
	if len(hashes) == 0 {
		return nil
	}
	_, err := t.record(session.Entry{Type: session.TypeNote, Note: &session.Note{Withheld: hashes,
		People: "the provider refused an image or a document, which is not sent any more: " + why.Error()}})
	return err
}
