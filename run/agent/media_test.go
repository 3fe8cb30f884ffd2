package agent_test

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/media/mediatest"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// sentMedia counts the media in a request.
func sentMedia(req *llm.Request) (n int) {
	var count func([]llm.Part)
	count = func(parts []llm.Part) {
		for _, p := range parts {
			if p.Media != nil {
				n++
			}
			if p.Result != nil {
				count(p.Result.Parts)
			}
		}
	}
	for _, m := range req.Messages {
		count(m.Parts)
	}
	return n
}

// TestBrokenMedia: broken images and documents of tools and of hosts do not reach the model; a good one does.
func TestBrokenMedia(t *testing.T) {
	parts := []llm.Part{{Media: &llm.Media{MIME: "image/png", Data: mediatest.PNG()}}}
	for _, m := range mediatest.Broken(t) {
		parts = append(parts, llm.Part{Media: m})
	}
	show := tool.New("show", "", func(context.Context, struct{}, tool.Input) (tool.Result, error) {
		return tool.Result{Parts: parts}, nil
	})
	m := llmtest.New(llmtest.Use("show", map[string]any{}), llmtest.Reply("done"))
	a := &agent.Agent{Model: m, Tools: tool.Set{show}, Policy: agent.Policy{Gate: open}}
	warned := ""
	for ev, err := range a.Run(t.Context(), session.New(session.Header{}), agent.Input{Text: "see", Parts: parts}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Entry != nil && ev.Entry.Note != nil && ev.Entry.Note.Warns {
			warned += ev.Entry.Note.People
		}
	}
	if n := strings.Count(warned, "is left out: "); n != len(parts)-1 {
		t.Errorf("the user is told of %d: %s", n, warned)
	}
	for i, want := range []int{1, 2} {
		if n := sentMedia(m.Requests()[i]); n != want {
			t.Errorf("request %d has %d media, want %d", i+1, n, want)
		}
	}
}

// TestRefusedMedia: what a provider refuses is left out, and no other media; a session that is opened again does not
// send it either, and the log keeps it.
func TestRefusedMedia(t *testing.T) {
	images := []*llm.Media{smallImage(t, 1), smallImage(t, 2), smallImage(t, 3)}
	for name, c := range map[string]struct {
		bad   int
		named bool // the message has the path of the image
		words string
	}{
		"named":  {0, true, "messages.0.content.1: bad"},
		"newest": {2, false, "Could not process image"},
	} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.New()
			m.Func = func(req *llm.Request) llmtest.Answer {
				if !sends(req, images[c.bad]) {
					return llmtest.Reply("done")
				}
				e := &llm.Error{Kind: llm.Invalid, Status: 400, Message: c.words}
				if c.named {
					e.Media = images[c.bad].Hash()
				}
				return llmtest.Answer{Error: e}
			}
			a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
			store := session.Store{Dir: t.TempDir()}
			log, err := store.Create(session.Header{})
			if err != nil {
				t.Fatal(err)
			}
			in := agent.Input{Text: "see"}
			for _, image := range images {
				in.Parts = append(in.Parts, llm.Part{Media: image})
			}
			for _, err := range a.Run(t.Context(), log, in) {
				if err != nil {
					t.Fatal(err)
				}
			}
			id := log.ID()
			log.Close()
			if log, err = store.Open(id); err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			turn(t, a, log, "again")
			if n := len(m.Requests()); n != 3 {
				t.Errorf("%d requests, want 3", n)
			}
			for i, image := range images {
				if sends(m.Requests()[2], image) == (i == c.bad) {
					t.Errorf("image %d", i)
				}
				if !sends(&llm.Request{Messages: log.Project()}, image) {
					t.Errorf("the log has lost image %d", i)
				}
			}
		})
	}
}

// TestTooManyMedia: a provider that takes only some of the media of a conversation gets the newest ones, at once and
// after each further one.
func TestTooManyMedia(t *testing.T) {
	for _, words := range []string{
		"[invalid_request_error] request contains 7 images, exceeding the maximum of 2 allowed per request",
		"At most 2 image(s) may be provided in one prompt.",
		"Too many images provided. This model supports up to 2 images",
		"messages: too many images and documents: 7 + 0 > 2",
		"Too much media: 0 document pages + 7 images > 2",
		"Image count 7 exceeds limit 2 per request.",
		"too many images in the message, max allowed is 2",
	} {
		m := llmtest.New()
		m.Func = func(req *llm.Request) llmtest.Answer {
			if sentMedia(req) > 2 {
				e := &llm.Error{Kind: llm.Invalid, Status: 400, Message: words}
				if strings.HasPrefix(words, "too") {
					e.Kind, e.Status = llm.Server, 500
				}
				return llmtest.Answer{Error: e}
			}
			return llmtest.Reply("done")
		}
		a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
		log := session.New(session.Header{})
		in := agent.Input{Text: "see"}
		for i := range 7 {
			in.Parts = append(in.Parts, llm.Part{Media: smallImage(t, i)})
		}
		for _, err := range a.Run(t.Context(), log, in) {
			if err != nil {
				t.Fatalf("%s: %v", words, err)
			}
		}
		in.Parts = []llm.Part{{Media: smallImage(t, 7)}}
		for _, err := range a.Run(t.Context(), log, in) {
			if err != nil {
				t.Fatalf("%s: %v", words, err)
			}
		}
		last := m.Requests()[len(m.Requests())-1]
		if len(m.Requests()) != 4 || !sends(last, smallImage(t, 6)) || !sends(last, smallImage(t, 7)) {
			t.Errorf("%s: %d requests", words, len(m.Requests()))
		}
	}
}

// TestRefusedWithoutWords: a refusal that does not say what it is about costs a conversation the media that came last,
// if it goes on without them, and nothing once an answer followed them.
func TestRefusedWithoutWords(t *testing.T) {
	bad := smallImage(t, 1)
	refused := llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Status: 400, Message: "参数错误"}}
	m := llmtest.New()
	broken := false
	m.Func = func(req *llm.Request) llmtest.Answer {
		if broken || sends(req, bad) {
			return refused
		}
		return llmtest.Reply("done")
	}
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
	log := session.New(session.Header{})
	in := agent.Input{Text: "see", Parts: []llm.Part{{Media: smallImage(t, 0)}, {Media: bad}}}
	for _, err := range a.Run(t.Context(), log, in) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := log.State().Withheld; len(got) != 1 || got[0] != bad.Hash() {
		t.Errorf("withheld %q", got)
	}
	broken = true
	for range a.Run(t.Context(), log, agent.Input{Text: "again"}) {
	}
	if n := len(m.Requests()); n != 3 || len(log.State().Withheld) != 1 {
		t.Errorf("%d requests, withheld %q", n, log.State().Withheld)
	}
}

// TestMediaTooLarge: a request that is too large because of its images loses the oldest of them, in halves, and no word
// of the conversation; one that is too large because of its text is compacted and keeps them.
func TestMediaTooLarge(t *testing.T) {
	for _, words := range []string{"Request exceeds the maximum size", "message size 10176584 exceeds limit 2097152"} {
		m := llmtest.New()
		m.Func = func(req *llm.Request) llmtest.Answer {
			if sentMedia(req) > 3 {
				e := &llm.Error{Kind: llm.Overflow, Status: 413, Message: words}
				if strings.Contains(words, "message size") {
					e.Status = 400
				}
				return llmtest.Answer{Error: e}
			}
			return llmtest.Reply("done")
		}
		a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
		log := session.New(session.Header{})
		var images []*llm.Media
		for i := range 8 {
			images = append(images, smallImage(t, i))
		}
		turn(t, a, log, "before")
		if err := see(t, a, log, images...); err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		last := m.Requests()[len(m.Requests())-1]
		if sentMedia(last) != 2 || !sends(last, smallImage(t, 7)) || len(compactions(log)) > 0 {
			t.Errorf("%s: %d images after %d requests, %d compactions", words, sentMedia(last), len(m.Requests()),
				len(compactions(log)))
		}
	}
	m := llmtest.New(llmtest.Reply("one"), llmtest.Reply("two"),
		llmtest.Answer{Error: &llm.Error{Kind: llm.Overflow, Status: 413, Message: "Payload Too Large"}},
		llmtest.Reply("## Goal\nG"), llmtest.Reply("three"))
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
	log := session.New(session.Header{})
	turn(t, a, log, strings.Repeat("words of the user ", 300))
	turn(t, a, log, strings.Repeat("words of the user ", 300))
	if err := see(t, a, log, smallImage(t, 0), smallImage(t, 1)); err != nil {
		t.Fatal(err)
	}
	if len(compactions(log)) != 1 || len(log.State().Withheld) > 0 {
		t.Errorf("%d compactions, withheld %q", len(compactions(log)), log.State().Withheld)
	}
}

// TestRefusedEverything: a message about images that none of them causes costs the conversation nothing.
func TestRefusedEverything(t *testing.T) {
	m := llmtest.New()
	m.Func = func(*llm.Request) llmtest.Answer {
		return llmtest.Answer{Error: &llm.Error{Kind: llm.Invalid, Status: 400, Message: "image generation is not enabled"}}
	}
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open}}
	log := session.New(session.Header{})
	in := agent.Input{Text: "see"}
	for i := range 5 {
		in.Parts = append(in.Parts, llm.Part{Media: smallImage(t, i)})
	}
	var failed error
	for _, err := range a.Run(t.Context(), log, in) {
		failed = err
	}
	if failed == nil || len(m.Requests()) != 4 || len(log.State().Withheld) > 0 {
		t.Errorf("%v, %d requests, withheld %q", failed, len(m.Requests()), log.State().Withheld)
	}
}

// see runs one turn with images.
func see(t *testing.T, a *agent.Agent, log *session.Log, images ...*llm.Media) error {
	t.Helper()
	in := agent.Input{Text: "see"}
	for _, image := range images {
		in.Parts = append(in.Parts, llm.Part{Media: image})
	}
	for _, err := range a.Run(t.Context(), log, in) {
		if err != nil {
			return err
		}
	}
	return nil
}

func smallImage(t *testing.T, n int) *llm.Media {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	img.SetGray(0, 0, color.Gray{Y: uint8(n)})
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		t.Fatal(err)
	}
	return &llm.Media{MIME: "image/png", Data: buf.Bytes()}
}

// sends reports whether a request contains a user's image.
func sends(req *llm.Request, image *llm.Media) bool {
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Media != nil && p.Media.Hash() == image.Hash() })
	})
}
