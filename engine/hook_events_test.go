package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// recorder has hooks of a host that keep their inputs and answer what a test says.
type recorder struct {
	t       *testing.T
	mu      sync.Mutex
	inputs  []string
	answers map[hook.Event][]string
}

// on says how events are answered from now on, in turn, the last answer again and again; "": nothing.
func (r *recorder) on(event hook.Event, answers ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[event] = answers
}

// hooks are one for each event.
func (r *recorder) hooks(events ...hook.Event) (all []hook.Hook) {
	for _, e := range events {
		h, err := hook.New(e, "", "host "+string(e), func(_ context.Context, in json.RawMessage) (json.RawMessage, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.inputs = append(r.inputs, string(in))
			if len(r.answers[e]) == 0 {
				return nil, nil
			}
			next := r.answers[e][0]
			if len(r.answers[e]) > 1 {
				r.answers[e] = r.answers[e][1:]
			}
			return json.RawMessage(next), nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

// got returns the last input of an event, with some of its members; "": there was none.
func (r *recorder) got(event hook.Event, members ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range slices.Backward(r.inputs) {
		var all map[string]any
		if json.Unmarshal([]byte(in), &all) != nil || all["hook_event_name"] != string(event) {
			continue
		}
		some := map[string]any{}
		for _, m := range members {
			if v, ok := all[m]; ok {
				some[m] = v
			}
		}
		data, _ := json.Marshal(some)
		return string(data)
	}
	return ""
}

// TestPromptEvents: a hook writes another prompt, which nobody typed, asks the user, shows a status and a message.
func TestPromptEvents(t *testing.T) {
	p := enginetest.New(t, ".knack/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\nbody")
	r := &recorder{t: t, answers: map[hook.Event][]string{}}
	m := llmtest.New(llmtest.Answer{Want: []string{"/pdf quickly: hello"}, Text: "done"})
	var asked []engine.Question
	person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		asked = append(asked, q)
		return engine.Answer{Option: "go"}, nil
	})
	_, s := p.Open(t, p.Options(m), person, engine.SessionOptions{Setup: hook.TriggerInit,
		Host: engine.Host{Hooks: r.hooks(hook.UserPromptSubmit, hook.Setup, hook.Notification)}})
	r.on(hook.Setup, `{"hookSpecificOutput": {"additionalContext": "SET UP"}}`)
	for _, err := range s.Begin(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := r.got(hook.Setup, "trigger"); got != `{"trigger":"init"}` || !strings.Contains(enginetest.Conversation(s), "SET UP") {
		t.Errorf("Setup: %q", got)
	}
	r.on(hook.UserPromptSubmit, `{"status": "\u001b[1mquick\u001b[0m", "notify": "look",
		"hookSpecificOutput": {"updatedPrompt": "/pdf quickly: hello"}}`)
	enginetest.Run(t, s, "hello")
	if got := s.Status().Parts; !slices.Contains(got, "quick") {
		t.Errorf("status %q", got)
	}
	var user *session.User
	var notified bool
	for _, e := range s.Log().Entries() {
		if e.User != nil {
			user = e.User
		}
		notified = notified || e.Note != nil && e.Note.Notify && e.Note.People == "look"
	}
	if user == nil || user.Typed != "hello" || user.Parts[0].Text != "/pdf quickly: hello" || !notified {
		t.Errorf("the message %+v, notified %v", user, notified)
	}
	// With a question, whose answer the hook gets.
	r.on(hook.UserPromptSubmit, `{"ask": {"title": "Sure?", "options": ["go", "stop"]}}`,
		`{"decision": "block", "reason": "not today"}`)
	if got := enginetest.Run(t, s, "again"); !strings.Contains(got, "not today") ||
		r.got(hook.UserPromptSubmit, "answers") != `{"answers":["go"]}` {
		t.Errorf("%q", got)
	}
	if len(asked) == 0 || asked[0].Asker != engine.AskerHook || !strings.Contains(asked[0].Title, "hook host UserPromptSubmit asks: Sure?") ||
		r.got(hook.Notification, "notification_type") != `{"notification_type":"question"}` {
		t.Errorf("asked %+v", asked)
	}
}

// TestModelEvents: a guard keeps the model, asks, or lets it change; the model reads what a hook says then.
func TestModelEvents(t *testing.T) {
	p := enginetest.New(t)
	o := p.Options(nil)
	o.Model = nil
	o.Values["model"] = "own/small"
	r := &recorder{t: t, answers: map[hook.Event][]string{}}
	yes := false
	person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		if yes {
			return q.Allow(), nil
		}
		return engine.Answer{Declined: true}, nil
	})
	o.Values["providers"] = map[string]any{"own": map[string]any{"baseURL": "http://127.0.0.1:1/v1", "format": "chat", "keyEnv": "OWN_KEY"}}
	env := o.Env
	o.Env = func(name string) string {
		if name == "OWN_KEY" {
			return "k"
		}
		return env(name)
	}
	_, s := p.Open(t, o, person, engine.SessionOptions{Host: engine.Host{Hooks: r.hooks(hook.PreModelSwitch, hook.PostModelSwitch)}})
	set := func() string {
		if err := s.Set(t.Context(), session.Setting{Model: "own/big"}); err != nil {
			return err.Error()
		}
		return ""
	}
	r.on(hook.PreModelSwitch, `{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "too dear"}}`)
	if got := set(); !strings.Contains(got, "too dear") || s.Log().State().Model != "" {
		t.Errorf("denied: %q, the model is %s", got, s.Log().State().Model)
	}
	if got := r.got(hook.PreModelSwitch, "from_model", "to_model", "requested_model", "source", "context_tokens", "cache_ttl"); got !=
		`{"cache_ttl":"5m","context_tokens":0,"from_model":"own/small","requested_model":"own/big","source":"sdk","to_model":"own/big"}` {
		t.Error(got)
	}
	r.on(hook.PreModelSwitch, `{"hookSpecificOutput": {"permissionDecision": "ask"}}`)
	if got := set(); !strings.Contains(got, "you declined") || s.Log().State().Model != "" {
		t.Errorf("declined: %q", got)
	}
	r.on(hook.PostModelSwitch, `{"hookSpecificOutput": {"additionalContext": "NOW BIG"}}`)
	if yes = true; set() != "" || s.Log().State().Model != "own/big" || !strings.Contains(enginetest.Conversation(s), "NOW BIG") {
		t.Errorf("allowed: %s", s.Log().State().Model)
	}
	if got := r.got(hook.PostModelSwitch, "to_model"); got != `{"to_model":"own/big"}` {
		t.Error(got)
	}
}

// TestPlaceEvents: worktrees, the directory and files; a hook refuses a worktree.
func TestPlaceEvents(t *testing.T) {
	p := enginetest.New(t, "a.txt", "a\n")
	p.Commit(t)
	o := p.Options(llmtest.New(enginetest.Calls("EnterWorktree", `{"name":"x"}`), llmtest.Reply("refused"),
		enginetest.Calls("EnterWorktree", `{"name":"x"}`), enginetest.Calls("ExitWorktree", `{"action":"remove"}`),
		llmtest.Reply("done")))
	o.Trust = true
	o.Values["permissions.allow"] = []string{"EnterWorktree", "ExitWorktree"}
	r := &recorder{t: t, answers: map[hook.Event][]string{}}
	_, s := p.Open(t, o, nil, engine.SessionOptions{Host: engine.Host{Hooks: r.hooks(hook.WorktreeCreate, hook.WorktreeRemove,
		hook.CwdChanged, hook.DirectoryAdded)}})
	r.on(hook.WorktreeCreate, `{"decision": "block", "reason": "no room"}`)
	if got := enginetest.Run(t, s, "enter"); !strings.Contains(got, "WorktreeCreate hook refused it: no room") {
		t.Errorf("refused: %s", got)
	}
	r.on(hook.WorktreeCreate, "")
	enginetest.Run(t, s, "enter")
	tree := p.Dir + ".worktrees/x"
	data, _ := json.Marshal(map[string]string{"old_cwd": tree, "new_cwd": p.Dir})
	for event, want := range map[hook.Event]string{hook.WorktreeCreate: `{"name":"x"}`, hook.CwdChanged: string(data),
		hook.WorktreeRemove: `{"worktree_path":"` + filepath.ToSlash(tree) + `"}`} {
		if got := r.got(event, "name", "old_cwd", "new_cwd", "worktree_path"); !sameJSON(got, want) {
			t.Errorf("%s: %s, want %s", event, got, want)
		}
	}
	dir := t.TempDir()
	if _, err := s.AddDir(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := r.got(hook.DirectoryAdded, "directory", "source"); !strings.Contains(got, `"source":"slash_command"`) ||
		!strings.Contains(got, filepath.Base(dir)) {
		t.Error(got)
	}
}

func sameJSON(a, b string) bool {
	var x, y map[string]string
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil || len(x) != len(y) {
		return false
	}
	for k := range x {
		if filepath.ToSlash(x[k]) != filepath.ToSlash(y[k]) {
			return false
		}
	}
	return true
}

// TestFileChanged: a file that a matcher or watchPaths names is watched, until the session ends.
func TestFileChanged(t *testing.T) {
	t.Parallel() // it waits for the watch
	p := enginetest.New(t)
	other := filepath.Join(t.TempDir(), "other")
	r := &recorder{t: t, answers: map[hook.Event][]string{}}
	all := r.hooks(hook.SessionStart, hook.FileChanged)
	h, err := hook.New(hook.FileChanged, ".env", "named", all[1].Func)
	if err != nil {
		t.Fatal(err)
	}
	path, _ := json.Marshal(other)
	r.on(hook.SessionStart, `{"hookSpecificOutput": {"watchPaths": [`+string(path)+`]}}`)
	_, s := p.Open(t, p.Options(llmtest.New()), nil, engine.SessionOptions{Host: engine.Host{Hooks: append(all, h)}})
	for _, err := range s.Begin(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	waitFor := func(file, change string) {
		t.Helper()
		name, _ := json.Marshal(file)
		want := `"file_path":` + string(name) + `,"event":"` + change
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			r.mu.Lock()
			told := slices.ContainsFunc(r.inputs, func(in string) bool { return strings.Contains(in, want) })
			r.mu.Unlock()
			if told {
				return
			}
			if change == "change" { // the watch may not have begun
				os.WriteFile(file, []byte(time.Now().String()), 0o600)
			}
		}
		t.Errorf("no %s of %s", change, file)
	}
	env := filepath.Join(p.Dir, ".env")
	waitFor(env, "change")
	if err := os.Remove(env); err != nil {
		t.Fatal(err)
	}
	waitFor(env, "unlink")
	waitFor(other, "change")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
