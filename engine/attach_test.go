package engine_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/media/mediatest"
)

// TestAttachSecret: a user who names a secret with @ is asked whether to send it, each time.
func TestAttachSecret(t *testing.T) {
	p := newFixture(t, ".env", "TOKEN=1", "notes.txt", "my notes")
	answers := []string{"no", "once", "no"}
	person := personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		var options []string
		for _, o := range q.Options {
			options = append(options, o.ID)
		}
		if q.Call == nil || strings.Join(options, " ") != "once no" || len(answers) == 0 {
			t.Errorf("asked: %+v", q)
			return engine.Answer{}, engine.ErrCannot
		}
		next := answers[0]
		answers = answers[1:]
		return engine.Answer{Option: next}, nil
	})
	_, s := p.open(t, p.options(llmtest.New()), person, engine.SessionOptions{})
	for i, want := range []string{"", "TOKEN=1", ""} {
		in, err := s.Attach(t.Context(), agent.Typed("sum up @.env"))
		got := llm.TextOf(in.Parts)
		if (err == nil) != (want != "") || want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%d: attached %q, %v", i+1, got, err)
		}
	}
	if in, err := s.Attach(t.Context(), agent.Typed("sum up @notes.txt")); err != nil || len(in.Parts) != 1 {
		t.Errorf("attached %v, %v", in.Parts, err)
	}
	if len(answers) > 0 {
		t.Errorf("not asked %d times", len(answers))
	}
}

// TestAttachImage: an image in the first prompt of a session reaches a model that sees images, and one of which nothing
// is known.
func TestAttachImage(t *testing.T) {
	var red bytes.Buffer
	if err := png.Encode(&red, image.NewRGBA(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	for info, sees := range map[llm.Info]bool{{Window: 1000, Vision: true}: true, {Window: 1000}: false, {}: true} {
		p := newFixture(t, "red.png", red.String())
		model := llmtest.New(llmtest.Reply("red"))
		model.Model = info
		model.Model.ID = "test/script"
		_, s := p.open(t, p.options(model), nil, engine.SessionOptions{})
		in, err := s.Attach(t.Context(), agent.Typed("see @red.png"))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(in.Parts, func(p llm.Part) bool { return p.Media != nil })
		if got != sees || strings.Contains(llm.TextOf(in.Parts), "does not see images") == sees {
			t.Errorf("sees %t: attached %+v", sees, in.Parts)
		}
	}
}

// TestAttachBroken: a broken image or document that the user names, or pastes, ends nothing: the prompt has a part that
// can be sent, or text.
func TestAttachBroken(t *testing.T) {
	odd := mediatest.Odd(t)
	all := mediatest.Broken(t)
	maps.Copy(all, odd)
	var files []string
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		files = append(files, name, string(all[name].Data))
	}
	p := newFixture(t, files...)
	model := llmtest.New()
	model.Model = llm.Info{ID: "test/script", Window: 1000, Vision: true, Documents: true}
	e, s := p.open(t, p.options(model), nil, engine.SessionOptions{})
	for _, name := range names {
		before := len(e.Notices())
		in, err := s.Attach(t.Context(), agent.Typed("look at "+engine.Mention(name)))
		if err != nil {
			if all[name].MIME == "application/pdf" || name == "Word document" {
				continue // a file that has no form for a model is said at once
			}
			t.Errorf("%s: %v", name, err)
			continue
		}
		media := 0
		for _, p := range in.Parts {
			if p.Media != nil {
				media++
			}
		}
		if sent := odd[name] != nil; sent != (media == 1) || len(in.Parts) == 0 {
			t.Errorf("%s: %+v", name, in.Parts)
		}
		said := e.Notices()[before:]
		if image := strings.HasPrefix(all[name].MIME, "image/"); media > 0 && len(said) > 0 || image && media == 0 &&
			strings.Contains(llm.TextOf(in.Parts), "is omitted") && (len(said) != 1 ||
			!strings.Contains(said[0].Message, "the model gets no image")) {
			t.Errorf("%s: the user is told %v", name, said)
		}
	}
}
