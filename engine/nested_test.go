package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// skillFile returns a SKILL.md with a description and a text.
func skillFile(description, text string) string {
	return "---\ndescription: " + description + "\n---\n" + text + "\n"
}

// TestNestedAsks: the user is asked about skills found below the working directory, once for each content; those that
// are not trusted are reported.
func TestNestedAsks(t *testing.T) {
	const skill, other = "web/.claude/skills/deploy/SKILL.md", "web/other.ts"
	p := newFixture(t, "web/x.ts", "x", other, "o", skill, skillFile("Deploys", "Deploy like this."))
	var asked []string
	answer := "no"
	person := personFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		asked = append(asked, string(q.Asker)+": "+q.Title)
		if !strings.Contains(q.Text, "skill web/.claude/skills/deploy") {
			t.Errorf("the question does not show:\n%s", q.Text)
		}
		return engine.Answer{Option: answer}, nil
	})
	turn := func(want string) {
		t.Helper()
		m := llmtest.New(calls("read", `{"path":"web/x.ts"}`), calls("Skill", `{"skill":"deploy"}`),
			llmtest.Answer{Text: "ok"}, llmtest.Answer{Text: "again"})
		_, s := p.open(t, p.options(m), person, engine.SessionOptions{Forget: true})
		defer s.Close()
		run(t, s, "go")
		run(t, s, "/reload")
		run(t, s, "go on") // a declined skill is not asked about again
		var got []string
		for _, e := range s.Log().Entries() {
			switch {
			case e.Note != nil:
				got = append(got, e.Note.People)
			case e.Activation != nil:
				got = append(got, "activated "+e.Activation.Skill)
			}
		}
		if all := strings.Join(got, "\n"); !strings.Contains(all, want) ||
			strings.Contains(all, "activated") != strings.HasPrefix(want, "skills: +") {
			t.Errorf("the session has\n%s\nwant %s", all, want)
		}
	}
	expect := func(want ...string) {
		t.Helper()
		if got := strings.Join(asked, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("asked %q, want %q", asked, want)
		}
		asked = nil
	}
	const question = "trust: Trust 1 skill of web?"

	turn("web/.claude/skills/deploy/SKILL.md: left out: not trusted yet (knack trust --show)")
	expect(question)
	answer = "yes"
	turn("skills: +deploy (in web)\nactivated deploy")
	expect(question)
	turn("skills: +deploy (in web)\nactivated deploy")
	expect() // now it is approved
	p.write(t, skill, skillFile("Deploys", "Deploy in another way."))
	answer = "no"
	turn("left out: it changed since it was trusted")
	expect(question)

	// Nobody to ask.
	person = nil
	m := llmtest.New(calls("read", `{"path":"web/x.ts"}`), llmtest.Answer{Text: "ok"})
	_, s := p.open(t, p.options(m), nil, engine.SessionOptions{Forget: true})
	run(t, s, "go")
	var codes []string
	for _, e := range s.Log().Entries() {
		if e.Note != nil {
			for _, x := range e.Note.Problems {
				codes = append(codes, string(x.Code))
			}
		}
	}
	if strings.Join(codes, " ") != "changed-since-approval" {
		t.Errorf("problems %q", codes)
	}
	expect()

	// The approval does not cover the folder, and in the mode dontAsk nobody is asked.
	if !s.Engine().PathContext().Untrusted {
		t.Error("the approval of a nested skill trusts the folder")
	}
	o := p.options(llmtest.New(calls("read", `{"path":"web/x.ts"}`), llmtest.Answer{Text: "ok"}))
	o.Values["permissions.defaultMode"] = string(permission.DontAsk)
	_, s = p.open(t, o, personFunc(func(context.Context, engine.Question) (engine.Answer, error) {
		t.Error("asked in the mode dontAsk")
		return engine.Answer{}, engine.ErrCannot
	}), engine.SessionOptions{Forget: true})
	run(t, s, "go")
}
