package wire

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/schema"
)

// A Mend is a change to requests that some servers refuse as they are. Its name says what is changed.
type Mend struct {
	Name string
	// Fields are names, of which a message that refuses one of them calls for the change.
	Fields []string
	// Words are parts of messages that call for it: all of one of the lists, in lower case, and none of Not.
	Words [][]string
	Not   []string
	// Applies reports whether the change changes this request; nil: every request.
	Applies func(*llm.Request) bool
}

// refusals are what messages say of a field that a server does not take.
var refusals = [...]string{"support", "unrecognized", "unknown", "not permitted", "not allowed", "unexpected", "extra",
	"invalid", "forbidden", "not exist", "cannot", "must ", "too large", "range of", "should be", "not recognized"}

// fits reports whether a message in lower case calls for the change.
func (x *Mend) fits(message string) bool {
	has := func(s string) bool { return strings.Contains(message, s) }
	if slices.ContainsFunc(x.Fields, has) && slices.ContainsFunc(refusals[:], has) {
		return true
	}
	return !slices.ContainsFunc(x.Not, has) && slices.ContainsFunc(x.Words, func(all []string) bool {
		return !slices.ContainsFunc(all, func(s string) bool { return !has(s) })
	})
}

// Mends are the changes without which a server refuses requests. They are remembered as long as the model. The zero
// Mends has none. It is safe for concurrent use and must not be copied.
type Mends struct {
	mu      sync.Mutex
	made    map[string]bool
	refused map[string]string // what the server said of tools, by the change that leaves them out
	fits    fits
}

// Stream asks with the changes that were needed before. If the server refuses the request, it asks again, each time
// with one more of the possible changes for which the refusal calls, or without the tools that it names. Changes that
// did not help are forgotten.
func (m *Mends) Stream(f schema.Format, req *llm.Request, possible []Mend,
	ask func(made map[string]bool) iter.Seq2[llm.Event, error]) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		m.mu.Lock()
		made := maps.Clone(m.made)
		m.mu.Unlock()
		if made == nil {
			made = map[string]bool{}
		}
		for again := true; again; {
			again = false
			began := false
			for ev, err := range ask(made) {
				if err != nil && !began {
					if next := needed(possible, made, req, err); next != "" {
						made[next], again = true, true
						break
					}
					if m.leaveOut(f, req, made, err) {
						again = true
						break
					}
				}
				if err == nil && !began {
					began = true
					m.mu.Lock()
					m.made = maps.Clone(made)
					m.mu.Unlock()
					if made[NoImages.Name] && req.LeftOut != nil && hasMedia(req) {
						req.LeftOut("", "the provider refuses images for this model")
					}
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	}
}

// needed returns the name of a change for which an error calls; "": there is none.
func needed(possible []Mend, made map[string]bool, req *llm.Request, err error) string {
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.Invalid && e.Kind != llm.Server {
		return ""
	}
	message := strings.ToLower(e.Message + " " + CodeOf(e))
	for _, x := range possible {
		if !made[x.Name] && (x.Applies == nil || x.Applies(req)) && x.fits(message) {
			return x.Name
		}
	}
	return ""
}

// NoImages is the change for models without sight: what they cannot see is sent as a text that says so. A message about
// one image, which the model cannot read, says nothing about the others.
var NoImages = Mend{Name: "no images", Applies: hasMedia, Not: []string{"format", "unsupported image.", "identify",
	"decode", "corrupt", "pixels", "dimension", "media type", "mime"}, Words: [][]string{
	{"support image"}, {"support images"}, {"support vision"}, {"image", "not supported"}, {"image", "unsupported"},
	{"image_url", "unknown variant"}, {"image_url", "only supported"}, {"image_url", "expected"}, {"multimodal"},
	{"mmproj"}, {"image", "text-only"}, {"content", "must be a string"}, {"image", "cannot"},
	{"at most 0 image"},
}}

func hasMedia(req *llm.Request) bool { return len(media(req.Messages)) > 0 }

// WithoutSight returns a copy of e for a model that takes neither images nor documents.
func WithoutSight(e *llm.Endpoint) *llm.Endpoint {
	out := *e
	out.Info.Vision, out.Info.Documents, out.Info.Window = false, false, max(1, e.Info.Window)
	return &out
}
