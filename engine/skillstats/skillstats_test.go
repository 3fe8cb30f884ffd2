package skillstats

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// writeSession writes the entries of a session as its log does, with IDs from 1.
func writeSession(t testing.TB, file string, entries []session.Entry) {
	t.Helper()
	var out strings.Builder
	out.WriteString(`{"version":1}` + "\n")
	for i, e := range entries {
		e.ID, e.Parent = i+1, i
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
		out.WriteByte('\n')
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRead: the counts of a thousand sessions are those with which they were made. Texts in them look like entries and
// like costs.
func TestRead(t *testing.T) {
	dir, want := t.TempDir(), map[string]*Skill{}
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"pdf", "xlsx", "deploy:prod", "ünï"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	trap := `{"type":"activation","activation":{"skill":"pdf"}} "usage":{"cost":99} ` + "\"cost\":7\n"
	for i := range 1000 {
		var all []session.Entry
		put := func(e session.Entry) int {
			now = now.Add(time.Minute)
			e.Time = now
			all = append(all, e)
			return len(all)
		}
		seen := map[string]bool{}
		for range 1 + r.IntN(3) {
			name := names[r.IntN(len(names))]
			w := want[name]
			if w == nil {
				w = &Skill{Name: name}
				want[name] = w
			}
			if !seen[name] {
				seen[name] = true
				w.Sessions++
			}
			a := &session.Activation{Skill: name, Prompt: trap, Notice: trap, Tokens: r.IntN(1000)}
			var first int
			switch r.IntN(3) {
			case 0:
				a.By = session.ByUser
				w.User++
				first = put(session.Entry{Type: session.TypeActivation, Activation: a})
			case 1:
				a.By = session.ByModel
				w.Model++
				first = put(session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text(trap)}}})
				put(session.Entry{Type: session.TypeActivation, Activation: a})
			case 2:
				a.By = session.ByTask
				w.Agent++
				first = put(session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text("go")}}})
				put(session.Entry{Type: session.TypeActivation, Activation: a})
			}
			w.Tokens += a.Tokens
			w.Last = now
			answer := &session.Answer{Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text(trap)}},
				Usage: llm.Usage{Input: 5}, Model: "m"}
			if r.IntN(2) == 0 {
				answer.Cost = 0.25
				w.Cost += 0.25
			}
			put(session.Entry{Type: session.TypeAnswer, Answer: answer})
			put(session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text("more")}, Steering: true}})
			if r.IntN(4) == 0 {
				w.Refused++
				put(session.Entry{Type: session.TypeDecision, Decision: &session.Decision{Tool: "Skill",
					By: permission.Decision{Verdict: permission.Deny, Subjects: []permission.Judged{{Verdict: permission.Deny,
						Subject: permission.Subject{Kind: permission.KindSkill, Text: name}}}}}})
			}
			if r.IntN(4) == 0 {
				w.Released += a.Tokens
				put(session.Entry{Type: session.TypeRelease, Release: &session.Release{Skill: name, Tokens: a.Tokens}})
			}
			end := session.EndDone
			if r.IntN(5) == 0 {
				end = session.EndError
				w.Failed++
			}
			put(session.Entry{Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: end}})
			if r.IntN(6) == 0 {
				w.Undone++
				put(session.Entry{Type: session.TypeRestore, Restore: &session.Restore{Before: first}})
			}
		}
		writeSession(t, filepath.Join(dir, fmt.Sprintf("project%d", i%7), fmt.Sprintf("%d.jsonl", i)), all)
	}
	got, err := Read(dir)
	if err != nil || got.Sessions != 1000 || got.Unread != 0 || len(got.Skills) != len(want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, s := range got.Skills {
		if i > 0 && got.Skills[i-1].Uses() < s.Uses() {
			t.Errorf("%s is before %s", got.Skills[i-1].Name, s.Name)
		}
		w := *want[s.Name]
		if s.Cost-w.Cost > 1e-6 || w.Cost-s.Cost > 1e-6 || !s.Last.Equal(w.Last) {
			t.Errorf("%s: %v and %v, want %v and %v", s.Name, s.Cost, s.Last, w.Cost, w.Last)
		}
		s.Cost, s.Last, w.Cost, w.Last = 0, time.Time{}, 0, time.Time{}
		if s != w {
			t.Errorf("\n got %+v\nwant %+v", s, w)
		}
	}
}

// TestOdd: a directory that is not there has no sessions; links, and lines that are no entries, are nothing.
func TestOdd(t *testing.T) {
	dir := t.TempDir()
	if got, err := Read(filepath.Join(dir, "none")); err != nil || got.Sessions != 0 {
		t.Error(got, err)
	}
	for name, text := range map[string]string{"a.jsonl": "", "b.jsonl": "{\"type\":\"activation\"\n\x00\n[]",
		"c.jsonl": `{"id":1,"type":"turn-end","turn_end":{"reason":"error"}}`,
		"d.jsonl": `{"id":1,"type":"user","user":{"parts":[{"text":"` + strings.Repeat("x", 40<<20) + `"}]}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Read(dir); err != nil || got.Sessions != 4 || len(got.Skills) != 0 {
		t.Error(got, err)
	}
}

// BenchmarkRead reads 64 MB of sessions whose answers and results are long.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	long := strings.Repeat("A line of a result.\\n", 3000)
	var all []session.Entry
	for range 100 {
		all = append(all, session.Entry{Type: session.TypeActivation, Activation: &session.Activation{Skill: "pdf",
			By: session.ByUser, Prompt: "x"}}, session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{
			Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text(long)}}, Cost: 0.1}},
			session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text(long)}}})
	}
	for i := range 5 {
		writeSession(b, filepath.Join(dir, fmt.Sprintf("%d.jsonl", i)), all)
	}
	for b.Loop() {
		got, err := Read(dir)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(got.Bytes)
	}
}
