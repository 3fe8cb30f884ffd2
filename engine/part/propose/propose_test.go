package propose_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

type m = map[string]any

const notes = "---\nname: notes\ndescription: Writes release notes. Use when a release is made.\n" +
	"metadata:\n  version: \"1.4\"\n---\nList the commits.\n"

// own is an edit of the skill notes, for which the user typed the reason.
func own() m {
	return m{"skill": "notes", "why": "Merges stay out.", "evidence": []m{{"quote": "leave merges out of the notes"}},
		"edits": []m{{"path": "SKILL.md", "old": "the commits", "new": "the commits, without merges"}}}
}

// fresh is a new skill.
func fresh() m {
	return m{"skill": "tidy", "why": "It was asked twice.", "evidence": []m{{"quote": "leave merges out of the notes"}},
		"files": []m{{"path": "scripts/tidy.sh", "content": "#!/bin/sh\necho tidy\n"},
			{"path": "SKILL.md", "content": "---\nname: tidy\ndescription: Tidies. Use when it is untidy.\n" +
				"allowed-tools: Bash(git log:*)\n---\nRun scripts/tidy.sh.\n"}}}
}

// with returns a proposal with a member changed.
func with(p m, key string, value any) m {
	p[key] = value
	return p
}

// A session is one in which a skill is proposed.
type session struct {
	enginetest.Fixture
	asked []engine.Question
	model *llmtest.Script
}

// propose runs a session in which the model proposes, after other calls, and a person answers.
func propose(t *testing.T, p enginetest.Fixture, answer string, call any, before ...llmtest.Answer) (*session, string) {
	t.Helper()
	s := &session{Fixture: p}
	s.model = llmtest.New(append(before, llmtest.Use("ProposeSkills", m{"proposals": []any{call}}), llmtest.Reply("done"),
		llmtest.Reply("later"))...)
	o := p.Options(s.model)
	o.Values["permissions.allow"] = []string{"Bash"}
	var person engine.Person
	if answer != "" {
		person = enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
			s.asked = append(s.asked, q)
			return engine.Answer{Option: answer}, nil
		})
	}
	e, live := p.Open(t, o, person, engine.SessionOptions{})
	defer e.Close()
	out := enginetest.Run(t, live, "please leave  merges\nout of the notes")
	enginetest.Run(t, live, "go on")
	return s, out
}

// read returns a file of the user's, or "none".
func (s *session) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Home, filepath.FromSlash(name)))
	if errors.Is(err, os.ErrNotExist) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestYes: the person sees the passage and the whole difference, and a yes writes it and raises the version.
func TestYes(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/notes/SKILL.md", notes)
	s, out := propose(t, p, "yes", own())
	if len(s.asked) != 1 || s.asked[0].Title != "Change the skill notes?" {
		t.Fatalf("asked %+v\n%s", s.asked, out)
	}
	for _, want := range []string{"Merges stay out.", "you: “leave merges out of the notes”", "\n-List the commits.",
		"\n+List the commits, without merges.", "\n+  version: \"1.5\""} {
		if !strings.Contains(s.asked[0].Text, want) {
			t.Errorf("the question has no %q:\n%s", want, s.asked[0].Text)
		}
	}
	want := strings.NewReplacer("1.4", "1.5", "commits.", "commits, without merges.").Replace(notes)
	if got := s.read(t, ".claude/skills/notes/SKILL.md"); got != want || !strings.Contains(out, "is now 1.5.") {
		t.Errorf("%s\n%s", got, out)
	}

	s, out = propose(t, p, "user", fresh())
	if got := s.read(t, ".claude/skills/tidy/SKILL.md"); !strings.Contains(got, "name: tidy") || len(s.asked) != 1 ||
		!strings.Contains(s.asked[0].Text, "Once written, it allows Bash(git log:*).") {
		t.Errorf("%s\n%+v\n%s", got, s.asked, out)
	}
	if s.read(t, ".claude/skills/tidy/scripts/tidy.sh") == "none" {
		t.Error("the script is not there")
	}

	// What a call of this session had as its input or result is evidence, too.
	s, _ = propose(t, p, "no",
		with(own(), "evidence", []m{{"quote": "printf '%s%s' all green"}, {"quote": "allgreen 3 tests"}}),
		enginetest.Calls("bash", `{"command":"printf '%s%s' all green; echo ' 3 tests'"}`))
	const found = "a call of bash: “printf '%s%s' all green”\na result of bash: “allgreen"
	if len(s.asked) != 1 || !strings.Contains(s.asked[0].Text, found) {
		t.Errorf("%+v", s.asked)
	}

	project := with(fresh(), "skill", "tidy2")
	project["files"] = []m{{"path": "SKILL.md",
		"content": "---\nname: tidy2\ndescription: Tidies. Use when untidy.\n---\nX.\n"}}
	if s, out = propose(t, p, "project", project); s.Content(t, ".claude/skills/tidy2/SKILL.md") == "none" ||
		!strings.Contains(out, "/trust") {
		t.Error(out)
	}
}

// TestPlanMode: in plan mode nobody is asked, as for any other write.
func TestPlanMode(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/notes/SKILL.md", notes)
	s, out := propose(t, p, "yes", own(), enginetest.Calls("EnterPlanMode", `{}`))
	if len(s.asked) != 0 || !strings.Contains(out, "in plan mode nothing is written") ||
		s.read(t, ".claude/skills/notes/SKILL.md") != notes {
		t.Errorf("%+v\n%s", s.asked, out)
	}
}

// TestNo: a no leaves no file, and nothing of the proposal in later requests.
func TestNo(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/notes/SKILL.md", notes)
	for _, call := range []m{own(), fresh()} {
		s, out := propose(t, p, "no", call)
		if len(s.asked) != 1 || !strings.Contains(out, "The user does not want it.") {
			t.Fatal(out)
		}
		if s.read(t, ".claude/skills/notes/SKILL.md") != notes || s.read(t, ".claude/skills/tidy/SKILL.md") != "none" {
			t.Error("a file was written")
		}
		if left, _ := filepath.Glob(filepath.Join(s.Home, ".local", "state", "knack", "proposed", "*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		for _, r := range s.model.Requests()[1:] {
			for _, msg := range r.Messages {
				for _, part := range msg.Parts {
					if c := part.Call; c != nil && strings.Contains(string(c.Input), "why") {
						t.Errorf("a later request has %s", c.Input)
					}
				}
			}
		}
	}
}

// TestNoLater: where the user is asked again, as in the background, a no also takes out the calls that asked before it.
func TestNoLater(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/notes/SKILL.md", notes)
	use := func(call m) llmtest.Answer { return llmtest.Use("ProposeSkills", m{"proposals": []any{call}}) }
	model := llmtest.New(use(with(own(), "evidence", []m{{"quote": "nobody said this"}})), use(own()), use(own()),
		llmtest.Reply("done"), llmtest.Reply("later"))
	o := p.Options(model)
	asked := 0
	e, live := p.Open(t, o, enginetest.PersonFunc(func(context.Context, engine.Question) (engine.Answer, error) {
		if asked++; asked == 1 {
			return engine.Answer{}, engine.ErrCannot
		}
		return engine.Answer{Option: "no"}, nil
	}), engine.SessionOptions{})
	defer e.Close()
	enginetest.Run(t, live, "leave merges out of the notes")
	enginetest.Run(t, live, "go on")
	all := model.Requests()
	if asked != 2 || len(all) != 5 {
		t.Fatalf("asked %d times, %d requests", asked, len(all))
	}
	for i, r := range all {
		calls := 0
		for _, msg := range r.Messages {
			for _, part := range msg.Parts {
				if c := part.Call; c != nil && strings.Contains(string(c.Input), "why") {
					calls++
				}
			}
		}
		if want := []int{0, 1, 2, 0, 0}[i]; calls != want {
			t.Errorf("request %d has %d proposals, want %d", i, calls, want)
		}
	}
}

// TestRefused: what is refused is not asked.
func TestRefused(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/notes/SKILL.md", notes, "~/.claude/skills/notes/evals/evals.json", "[]",
		"~/.claude/commands/old.md", "Old.")
	quote := func(text string) any { return []m{{"quote": text}} }
	file := func(path, content string) any { return []m{{"path": path, "content": content}} }
	edit := func(path, old string) any { return []m{{"path": path, "old": old, "new": "x"}} }
	for _, c := range []struct {
		call any
		want string
	}{
		{with(own(), "evidence", quote("merges are always welcome")), "it is not there"},
		{with(own(), "evidence", quote("I always say done")), "it is not there"},
		{with(own(), "evidence", quote("notes")), "8 to 500 characters"},
		{with(own(), "evidence", []m{}), "1 to 5 passages"},
		{with(own(), "evidence", []m{{"session": "20200101", "quote": "leave merges out"}}), "there is no session"},
		{with(own(), "why", " "), "why must be a sentence"},
		{with(own(), "edits", edit("SKILL.md", "nowhere")), "the old text does not occur"},
		{with(own(), "edits", edit("SKILL.md", "e")), "give more of the text around it"},
		{with(own(), "edits", edit("evals/evals.json", "[]")), "cannot be changed by a proposal"},
		{with(own(), "edits", edit("../x.md", "x")), "x.md"},
		{with(own(), "edits", edit("none.md", "x")), "no such regular file"},
		{with(own(), "files", file("SKILL.md", "x")), "SKILL.md exists: give edits of it"},
		{with(own(), "files", file(".hid/x", "x")), "cannot be written"},
		{with(own(), "skill", "Bad Name"), "the name"},
		{with(own(), "skill", "nothing"), "there is nothing to edit"},
		{with(own(), "skill", "old"), "not a folder with a SKILL.md"},
		{with(fresh(), "skill", "skillify"), "not a folder with a SKILL.md"},
		{with(fresh(), "files", file("SKILL.md", "no head")), "no valid skill"},
		{with(fresh(), "files", file("SKILL.md", "---\nname: tidy\ndescription: A\u202eB.\n---\n")), "hidden characters"},
		{with(fresh(), "files", file("SKILL.md", "---\nname: tidy\ndescription: A.\n---\npassword: hunter2hunter2\n")),
			"a secret"},
		{with(fresh(), "files", file("notes.md", "x")), "needs the file SKILL.md"},
	} {
		s, out := propose(t, p, "yes", c.call, llmtest.Answer{Text: "I always say done",
			Calls: []llmtest.Call{{Name: "todo", Input: `{"items":[]}`}}})
		if len(s.asked) > 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v\nasked %d times, want %q:\n%s", c.call, len(s.asked), c.want, out)
		}
	}
	if s, out := propose(t, p, "", own()); s.read(t, ".claude/skills/notes/SKILL.md") != notes ||
		!strings.Contains(out, "nobody can agree to a skill here") {
		t.Error(out)
	}
}

// TestStrangers: a session that has read from the web proposes nothing, and what its calls returned is no evidence for
// another one.
func TestStrangers(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/notes/SKILL.md", notes)
	s, out := propose(t, p, "yes", own(), enginetest.Calls("bash", `{"command":"curl http://127.0.0.1:1/"}`))
	if len(s.asked) > 0 || !strings.Contains(out, "text of strangers writes no skill") {
		t.Fatal(out)
	}
	names, err := filepath.Glob(filepath.Join(p.Home, ".local", "state", "knack", "sessions", "*", "*.jsonl"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	id := strings.TrimSuffix(filepath.Base(names[0]), ".jsonl")
	s, out = propose(t, p, "yes", with(own(), "evidence", []m{{"session": id, "quote": "curl http://127.0.0.1:1/"}}))
	if len(s.asked) > 0 || !strings.Contains(out, "the user has not typed it in that session") {
		t.Error(out)
	}
	if s.read(t, ".claude/skills/notes/SKILL.md") != notes {
		t.Error("it was written")
	}
}

// TestNotTyped: what was piped in, what is attached, and what a program says in the user's place is not the user's.
func TestNotTyped(t *testing.T) {
	const passage, other, not = "leave merges out of the notes", "look at this", "a message, not known to be typed: “"
	for _, c := range []struct {
		in   agent.Input
		want string
	}{
		{agent.Typed(passage), "you: “"},
		{agent.Typed("//tmp: " + passage), "you: “"},
		{agent.Input{Text: other + "\n\n" + passage, Typed: passage}, "you: “"},
		{agent.Input{Text: passage + "\n\n" + other, Typed: other}, not},
		{agent.Text(passage), not},
		{agent.Typed("/notes " + passage), not},
		{agent.Input{Text: other, Typed: other, Parts: []llm.Part{llm.Text("<file>" + passage + "</file>")}}, not},
		{agent.Text("You asked the user: " + passage), not},
	} {
		p := enginetest.New(t, "~/.claude/skills/notes/SKILL.md", notes)
		model := llmtest.New(llmtest.Use("ProposeSkills", m{"proposals": []any{own()}}), llmtest.Reply("done"))
		text := ""
		person := func(_ context.Context, q engine.Question) (engine.Answer, error) {
			text = q.Text
			return engine.Answer{Option: "no"}, nil
		}
		e, live := p.Open(t, p.Options(model), enginetest.PersonFunc(person), engine.SessionOptions{})
		for _, err := range live.Run(t.Context(), c.in) {
			if err != nil {
				t.Fatal(err)
			}
		}
		e.Close()
		if !strings.Contains(text, "\n"+c.want+passage) {
			t.Errorf("%q: %s", c.in.Text, text)
		}
	}
}

// TestEarlier: what the user typed in an earlier session of the project is evidence.
func TestEarlier(t *testing.T) {
	p := enginetest.New(t, "~/.claude/skills/notes/SKILL.md", notes)
	propose(t, p, "no", fresh())
	names, _ := filepath.Glob(filepath.Join(p.Home, ".local", "state", "knack", "sessions", "*", "*.jsonl"))
	if len(names) != 1 {
		t.Fatal(names)
	}
	id := strings.TrimSuffix(filepath.Base(names[0]), ".jsonl")
	s, out := propose(t, p, "yes", with(own(), "evidence", []m{{"session": id, "quote": "please leave merges out"}}))
	want := "you, in the session " + id + ": “please leave merges out”"
	if len(s.asked) != 1 || !strings.Contains(s.asked[0].Text, want) {
		t.Errorf("%+v\n%s", s.asked, out)
	}
}

// TestLinks: nothing is written through a link.
func TestLinks(t *testing.T) {
	p := enginetest.New(t, "~/elsewhere/SKILL.md", notes)
	skills := filepath.Join(p.Home, ".claude", "skills")
	if err := os.MkdirAll(skills, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(p.Home, "elsewhere"), filepath.Join(skills, "notes")); err != nil {
		t.Skip(err)
	}
	if s, out := propose(t, p, "yes", own()); s.read(t, "elsewhere/SKILL.md") != notes {
		t.Errorf("it was written: %s", out)
	}
	if err := os.Symlink(filepath.Join(p.Home, "elsewhere"), filepath.Join(p.Dir, ".claude")); err != nil {
		t.Fatal(err)
	}
	if s, out := propose(t, p, "project", fresh()); s.read(t, "elsewhere/skills/tidy/SKILL.md") != "none" ||
		!strings.Contains(out, "nothing is written through it") {
		t.Error(out)
	}
}

// TestInstalled: the change of a skill that was installed is recorded in the lock, so that the skill stays in use.
func TestInstalled(t *testing.T) {
	p := enginetest.New(t, "~/from/notes/SKILL.md", notes)
	loaded, err := engine.Load(t.Context(), p.Options(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	x, err := installer.New(loaded, func(context.Context, installer.Offer) (bool, error) { return true, nil })
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Skill(t.Context(), filepath.Join(p.Home, "from", "notes"), "", installer.UserScope(loaded.Env()))
	if err != nil {
		t.Fatal(err)
	}
	s, out := propose(t, p, "yes", own())
	if len(s.asked) != 1 || !strings.Contains(s.asked[0].Text, "an update replaces the change") {
		t.Fatalf("%+v\n%s", s.asked, out)
	}
	store := install.User(loaded.Env().DataDir(), loaded.Env().ConfigDir())
	lock, err := install.ReadLock(store.Lock)
	if err != nil {
		t.Fatal(err)
	}
	it := lock.Skills["notes"]
	if drift, err := it.Files.Verify(store.Path(it)); err != nil || !drift.IsZero() {
		t.Errorf("the lock differs: %v %v\n%s", drift, err, out)
	}
	if !strings.Contains(out, "Its version is now 1.5.") {
		t.Error(out)
	}
}

// TestStrangersTold: the user is told that nothing can be proposed when /skillify is called, not after the model's work.
func TestStrangersTold(t *testing.T) {
	p := enginetest.New(t)
	script := llmtest.New(enginetest.Calls("bash", `{"command":"curl http://127.0.0.1:1/"}`), llmtest.Reply("done"))
	o := p.Options(script)
	o.Values["permissions.allow"] = []string{"Bash"}
	e, s := p.Open(t, o, nil, engine.SessionOptions{})
	told := func() string {
		var b strings.Builder
		for _, n := range e.Notices() {
			b.WriteString(n.Message + "; " + n.Hint + "\n")
		}
		return b.String()
	}
	enginetest.Run(t, s, "look at the page")
	if got := told(); strings.Contains(got, "skillify") {
		t.Error(got)
	}
	enginetest.Run(t, s, "/skillify")
	if got := told(); !strings.Contains(got, "/skillify can propose no skill in this session: a command of this session "+
		"may have read from the web") || !strings.Contains(got, "/new, then /skillify") {
		t.Error(got)
	}
}

// TestTaken: where a folder of that name is, a new skill is not offered; what cannot be written is an error.
func TestTaken(t *testing.T) {
	there := "---\nname: tidy\ndescription: Other.\n---\n"
	s, out := propose(t, enginetest.New(t, ".claude/skills/tidy/SKILL.md", there), "user", fresh())
	if len(s.asked) != 1 || len(s.asked[0].Options) != 2 || s.asked[0].Options[0].ID != "user" {
		t.Errorf("asked %+v\n%s", s.asked, out)
	}
	s, out = propose(t, enginetest.New(t, ".claude/skills/tidy/SKILL.md", there, "~/.claude/skills/tidy/notes.txt", "x"),
		"user", fresh())
	if len(s.asked) != 0 || !strings.Contains(out, "Nothing was asked: tidy: a folder of this name is already in") {
		t.Errorf("asked %+v\n%s", s.asked, out)
	}
}
