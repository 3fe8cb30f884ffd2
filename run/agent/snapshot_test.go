package agent_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/media/mediatest"
	"github.com/knack-agent/knack/run/session"
)

// fixed is a Source of one skill.
type fixed struct{ *knack.Skill }

func (f fixed) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) { yield(f.Skill, nil) }
}

// TestComputedSkill: a computed skill sees what happened in the session, and may show images, which are released with
// its text.
func TestComputedSkill(t *testing.T) {
	var seen knack.Snapshot
	s := &knack.Skill{Name: "look", Description: "Looks.", ID: "look",
		Origin: knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted},
		Prompt: func(_ context.Context, in knack.Invocation) ([]knack.Part, error) {
			seen = in.Session()
			return []knack.Part{{Text: "This is it:"}, {Image: mediatest.PNG(), MIME: "image/png"}}, nil
		}}
	cat := knack.Load(t.Context(), fixed{s})
	m := llmtest.New(llmtest.Use("echo", map[string]any{"text": "one"}), llmtest.Use("nothing", nil),
		llmtest.Reply("done"),
		llmtest.Reply("nice"), llmtest.Reply("later"))
	m.Model = llm.Info{ID: "test/m", Window: 100_000}
	a := skilledBy(cat, m)
	a.Skills.Session = func(k *knack.Snapshot) { k.Mode = "plan" }
	log := session.New(session.Header{ID: "s"})
	turn(t, a, log, "say one")
	turn(t, a, log, "/look")

	var kinds []string
	for _, x := range seen.Moments {
		kinds = append(kinds, fmt.Sprintf("%s %s %q failed=%t open=%t", x.Kind, x.Name, x.Text, x.Failed, x.Open))
	}
	got := strings.Join(kinds, "\n")
	for _, want := range []string{`user  "say one"`, `call echo "one" failed=false open=false`, `call nothing `,
		`failed=true open=false`, `answer  "done"`, `end  "done" failed=false`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if seen.ID != "s" || seen.Mode != "plan" || seen.Window != 100_000 || seen.Turns != 1 ||
		!strings.Contains(strings.Join(seen.Tools, " "), "Skill") {
		t.Errorf("%+v", seen)
	}
	image := func() bool {
		for _, msg := range log.Project() {
			for _, p := range msg.Parts {
				if p.Media != nil {
					return true
				}
			}
		}
		return false
	}
	if !image() {
		t.Error("the model does not see the image")
	}
	if _, err := agent.ReleaseByHand(log, "look", "test"); err != nil {
		t.Fatal(err)
	}
	if image() {
		t.Error("the image stays when the text is released")
	}
}
