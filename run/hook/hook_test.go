package hook

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden parts")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rule(text string) error {
	if strings.Count(text, "(") != strings.Count(text, ")") {
		return errors.New("it is not closed")
	}
	return nil
}

func TestStringHidesPassword(t *testing.T) {
	h := Hook{Type: OfHTTP, URL: "https://ada:secret@example.com/guard"}
	if got := h.String(); strings.Contains(got, "secret") || !strings.Contains(got, "example.com/guard") {
		t.Error(got)
	}
}

func TestParse(t *testing.T) {
	files, err := filepath.Glob("testdata/parse/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		want := &a.Files[len(a.Files)-1]
		for _, f := range a.Files[:len(a.Files)-1] {
			fmt.Fprintln(&got, f.Name)
			hooks, problems := Parse(f.Data, rule)
			for i := range hooks {
				h := &hooks[i]
				fmt.Fprintf(&got, "  %s %q %s %q %v\n", h.Event, h.Matcher, h.Type, h, h.State())
			}
			for _, p := range problems {
				kept := ""
				if p.KeptInvalid {
					kept = " (kept)"
				}
				fmt.Fprintf(&got, "  at %d%s: %s\n    %.40s\n", p.At, kept, p.Message,
					strings.SplitN(string(f.Data[p.At:]), "\n", 2)[0])
			}
		}
		if got.String() == string(want.Data) {
			continue
		}
		if !*update {
			t.Errorf("%s:\n%s", name, got.String())
			continue
		}
		want.Data = []byte(got.String())
		if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// set returns the hooks of a mapping, run by a func.
func set(t *testing.T, text string, run func(ctx context.Context, c Process) (Output, error)) *Set {
	t.Helper()
	hooks, problems := Parse([]byte(text), rule)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := &Runner{Run: run}
	t.Cleanup(func() { r.Close() })
	return &Set{Hooks: hooks, Runner: r}
}

// prints runs commands that specify their own output: "2 text" exits with code 2 and prints text to standard error.
func prints(_ context.Context, c Process) (Output, error) {
	var o Output
	if n, rest, ok := strings.Cut(c.Line, "|"); ok {
		fmt.Sscan(n, &o.Code)
		o.Stderr = []byte(rest)
	} else {
		o.Stdout = []byte(c.Line)
	}
	return o, nil
}

// guards returns a PreToolUse mapping of commands.
func guards(commands ...string) string {
	var hooks []map[string]string
	for _, c := range commands {
		hooks = append(hooks, map[string]string{"type": "command", "command": c})
	}
	data, _ := json.Marshal(map[string]any{"PreToolUse": []any{map[string]any{"hooks": hooks}}})
	return string(data)
}

const (
	allow = `{"hookSpecificOutput":{"permissionDecision":"allow","permissionDecisionReason":"fine"}}`
	ask   = `{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"who knows"}}`
	deny  = `{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}`
)

func into(command, vote string) string {
	return fmt.Sprintf(`{"hookSpecificOutput":{"permissionDecision":%q,"updatedInput":{"command":%q}}}`, vote, command)
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name     string
		commands []string
		want     Vote
		reason   string
		input    string
		failed   int
	}{
		{"nothing", []string{"{}"}, Nothing, "", "", 0},
		{"silence", []string{"0|plain text"}, Nothing, "", "", 0},
		{"allow", []string{"{}", allow}, Allow, "fine", "", 0},
		{"ask beats allow", []string{allow, ask}, Ask, "who knows", "", 0},
		{"deny beats ask", []string{ask, deny, allow}, Deny, "no", "", 0},
		{"exit 2", []string{allow, "2|stop it"}, Deny, "stop it", "", 0},
		{"exit code 2 overrides the output", []string{"2|"}, Deny, "exit code 2, without a reason", "", 0},
		{"the first denial's reason", []string{"2|one", "2|two"}, Deny, "one", "", 0},
		{"decision block", []string{`{"decision":"block","reason":"r"}`}, Deny, "r", "", 0},
		{"decision approve", []string{`{"decision":"approve"}`}, Allow, "", "", 0},
		{"defer asks", []string{`{"hookSpecificOutput":{"permissionDecision":"defer"}}`}, Ask, "", "", 0},
		{"rewritten", []string{into("a", "")}, Nothing, "", `{"command":"a"}`, 0},
		{"the last rewritten input counts", []string{into("a", "allow"), into("b", "")}, Nothing, "", `{"command":"b"}`, 0},
		{"an approval of the old input does not count", []string{allow, into("b", "")}, Nothing, "", `{"command":"b"}`, 0},
		{"nor does one of a later hook", []string{into("b", ""), allow}, Nothing, "", `{"command":"b"}`, 0},
		{"the rewriting hook's own decision counts", []string{into("a", ""), into("b", "allow")}, Allow, "",
			`{"command":"b"}`, 0},
		{"a question for the old input still counts", []string{ask, into("b", "allow")}, Ask, "who knows",
			`{"command":"b"}`, 0},
		{"a denied call is not rewritten", []string{into("a", "allow"), deny}, Deny, "no", "", 0},
		{"text has no effect", []string{allow, "all is well"}, Allow, "fine", "", 0},
		{"a list is text", []string{"[]"}, Nothing, "", "", 0},
		{"truncated JSON is invalid", []string{`{"decision":`}, Ask, "", "", 1},
		{"two objects are invalid", []string{allow + allow}, Ask, "", "", 1},
		{"another type is invalid", []string{`{"decision":3}`}, Ask, "", "", 1},
		{"an unknown decision is invalid", []string{`{"decision":"maybe"}`}, Ask, "", "", 1},
		{"input that is not an object is invalid", []string{`{"hookSpecificOutput":{"updatedInput":"x"}}`}, Ask, "", "", 1},
		{"another event's answer is invalid", []string{`{"hookSpecificOutput":{"hookEventName":"Stop"}}`}, Ask, "", "", 1},
		{"exit code 127 means that the command could not be run", []string{"127|not found"}, Ask, "", "", 1},
		{"exit code 139 means that a signal ended it", []string{"139|"}, Ask, "", "", 1},
		{"a hook that ends the run denies", []string{allow, `{"continue":false,"stopReason":"enough"}`},
			Deny, "enough", "", 0},
		{"exit code 1 is reported", []string{"1|hm", allow}, Allow, "fine", "", 1},
	} {
		o := set(t, guards(c.commands...), prints).Fire(t.Context(), Input{Event: PreToolUse, Tool: "bash"})
		if o.Vote != c.want || string(o.Input) != c.input || len(o.Failed) != c.failed || c.failed == 0 &&
			o.Reason != c.reason {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

// TestRequest: the answers of PermissionRequest hooks.
func TestRequest(t *testing.T) {
	for answer, want := range map[string]Outcome{
		`{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{"a":1}}}}`: {Vote: Allow,
			Input: json.RawMessage(`{"a":1}`)},
		`{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"no","interrupt":true}}}`: {Vote: Deny,
			Reason: "no", Stop: true, StopReason: "no"},
		`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"x"}}}`:  {Vote: Ask},
		`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"message":"why"}}}`: {Vote: Ask},
	} {
		text := strings.Replace(guards(answer), "PreToolUse", "PermissionRequest", 1)
		o := set(t, text, prints).Fire(t.Context(), Input{Event: PermissionRequest, Tool: "bash"})
		if o.Vote != want.Vote || string(o.Input) != string(want.Input) || o.Stop != want.Stop ||
			o.StopReason != want.StopReason {
			t.Errorf("%s: %+v", answer, o)
		}
	}
}

func TestMatch(t *testing.T) {
	names := func(tool string) ToolMapping {
		if tool == "bash" {
			return ToolMapping{Names: []string{"Bash", "bash"}}
		}
		return ToolMapping{}
	}
	for _, c := range []struct {
		matcher string
		in      Input
		want    bool
	}{
		{"", Input{Tool: "bash"}, true}, {"*", Input{Tool: "bash"}, true}, {" ", Input{Tool: "bash"}, true},
		{"Bash", Input{Tool: "bash"}, true}, {"bash", Input{Tool: "bash"}, true}, {"BASH", Input{Tool: "bash"}, false},
		{"Edit|Bash", Input{Tool: "bash"}, true}, {"Edit , Bash", Input{Tool: "bash"}, true},
		{"Ba", Input{Tool: "bash"}, false},
		{"|", Input{Tool: "bash"}, false},
		{"Ba.", Input{Tool: "bash"}, true}, {"^sh", Input{Tool: "bash"}, false},
		{"mcp__.*__get", Input{Tool: "mcp__a__get_it"}, true},
		{"startup", Input{Event: SessionStart, Source: "startup"}, true},
		{"resume", Input{Event: SessionStart, Source: "startup"}, false},
		{"x", Input{Event: Stop}, true},
		{"pdf", Input{Event: SkillActivated, Skill: "pdf"}, true}, {"pdf", Input{Event: UserPromptExpansion, Command: "doc"},
			false},
	} {
		if c.in.Event == "" {
			c.in.Event = PostToolUse
		}
		text, _ := json.Marshal(map[string]any{string(c.in.Event): []any{map[string]any{"matcher": c.matcher,
			"hooks": []any{map[string]string{"command": "{}"}}}}})
		s := set(t, string(text), prints)
		s.Runner.Tool = names
		if got := s.Fire(t.Context(), c.in).Ran == 1; got != c.want {
			t.Errorf("%q against %+v: %t", c.matcher, c.in, got)
		}
	}
}

// TestOnceEach: the same command runs once per event; a required copy makes it required; once is for the session.
func TestOnceEach(t *testing.T) {
	var ran atomic.Int32
	run := func(ctx context.Context, c Process) (Output, error) {
		ran.Add(1)
		return Output{Code: 1}, nil
	}
	s := set(t, `{"PreToolUse": [
		{"matcher": "Bash", "hooks": [{"command": "x"}, {"command": "x"}]},
		{"matcher": "*", "hooks": [{"command": "x", "required": true}]},
		{"hooks": [{"command": "y", "once": true}]}]}`, run)
	o := s.Fire(t.Context(), Input{Event: PreToolUse, Tool: "Bash"})
	if ran.Load() != 2 || o.Ran != 2 || o.Vote != Deny {
		t.Errorf("the first time %d ran: %+v", ran.Load(), o)
	}
	s.Fire(t.Context(), Input{Event: PreToolUse, Tool: "Bash"})
	if ran.Load() != 3 {
		t.Errorf("%d ran: a hook with once ran again", ran.Load())
	}
}

// TestTool: hooks know tools and their fields by other names.
func TestTool(t *testing.T) {
	var got string
	s := set(t, guards("x"), func(_ context.Context, c Process) (Output, error) {
		got = string(c.Stdin)
		return Output{Stdout: []byte(`{"hookSpecificOutput":{"updatedInput":{"file_path":"b <&>"}}}`)}, nil
	})
	s.Runner.Tool = func(name string) ToolMapping {
		return ToolMapping{
			Names: []string{"Read", "read"},
			Encode: func(in json.RawMessage) json.RawMessage {
				return json.RawMessage(strings.Replace(string(in), "path", name+"_path", 1))
			},
			Decode: func(in json.RawMessage) json.RawMessage {
				return json.RawMessage(strings.Replace(string(in), "file_path", "path", 1))
			},
		}
	}
	s.Runner.Fill = func(in *Input) { in.Dir = "/w" }
	o := s.Fire(t.Context(), Input{Event: PreToolUse, Session: "s", Tool: "read",
		ToolInput: json.RawMessage(`{"path":"a <&>"}`), Call: "c"})
	want := `{"session_id":"s","transcript_path":"","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Read",` +
		`"tool_input":{"read_path":"a <&>"},"tool_use_id":"c"}` + "\n"
	if got != want || string(o.Input) != `{"path":"b <&>"}` {
		t.Errorf("the hook received %s\nand returned %s", got, o.Input)
	}
}

func TestMute(t *testing.T) {
	s := set(t, guards(allow, into("b", "allow")), prints)
	for i := range s.Hooks {
		s.Hooks[i].Mute = true
	}
	if o := s.Fire(t.Context(), Input{Event: PreToolUse}); o.Vote != Nothing || string(o.Input) != `{"command":"b"}` {
		t.Errorf("%+v", o)
	}
	s = set(t, guards(deny), prints)
	s.Hooks[0].Mute = true
	if o := s.Fire(t.Context(), Input{Event: PreToolUse}); o.Vote != Deny {
		t.Errorf("a denial: %+v", o)
	}
}

// TestTimes: the hooks of an event run in parallel, each with its own timeout.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleeps := func(ctx context.Context, c Process) (Output, error) {
			d, err := time.ParseDuration(c.Line)
			if err != nil {
				return Output{}, err
			}
			select {
			case <-time.After(d):
				return Output{Stdout: []byte("{}")}, nil
			case <-ctx.Done():
				return Output{}, context.Cause(ctx)
			}
		}
		fire := func(event, hooks string) (Outcome, time.Duration) {
			start := time.Now()
			o := set(t, `{"`+event+`": [{"hooks": [`+hooks+`]}]}`, sleeps).Fire(t.Context(), Input{Event: Event(event)})
			return o, time.Since(start)
		}
		if o, d := fire("PreToolUse", `{"command": "50s"}, {"command": "40s"}`); o.Vote != Nothing || d != 50*time.Second {
			t.Errorf("in parallel: %s, %+v", d, o)
		}
		if o, d := fire("PreToolUse", `{"command": "2h"}`); o.Vote != Ask || d != time.Minute ||
			!strings.Contains(o.Reason, "within 1m0s") {
			t.Errorf("without a timeout: %s, %+v", d, o)
		}
		if o, d := fire("PreToolUse", `{"command": "2h", "timeout": 0.5, "required": true}`); o.Vote != Deny ||
			d != 500*time.Millisecond {
			t.Errorf("required: %s, %+v", d, o)
		}
		if o, d := fire("Stop", `{"command": "2h", "timeout": 3}`); o.Block || len(o.Failed) != 1 || d != 3*time.Second {
			t.Errorf("not a guard: %s, %+v", d, o)
		}
		for hooks, want := range map[string]time.Duration{
			`{"command": "2h"}, {"command": "3h"}`:                                 endTimeout,
			`{"command": "2h"}, {"command": "3h", "timeout": 1}`:                   endTimeout,
			`{"command": "2h"}, {"command": "3h", "timeout": 5}`:                   5 * time.Second,
			`{"command": "2h", "timeout": 7200}, {"command": "3h", "timeout": 90}`: maxEndTimeout,
		} {
			if o, d := fire("SessionEnd", hooks); len(o.Failed) != 2 || d != want {
				t.Errorf("at the end, %s: %s, %+v", hooks, d, o)
			}
		}
	})
}

// TestAsync: an async hook does not delay the event, cannot decide, and ends with the session.
func TestAsync(t *testing.T) {
	started, ended := make(chan bool), make(chan error, 1)
	s := set(t, `{"PreToolUse": [{"hooks": [{"command": "x", "async": true}]}]}`,
		func(ctx context.Context, c Process) (Output, error) {
			started <- true
			<-ctx.Done()
			ended <- ctx.Err()
			return Output{Code: 2}, nil
		})
	ctx, cancel := context.WithCancel(t.Context())
	if o := s.Fire(ctx, Input{Event: PreToolUse}); o.Vote != Nothing || o.Ran != 0 {
		t.Errorf("%+v", o)
	}
	<-started
	cancel()
	select {
	case <-ended:
		t.Error("the hook ended with the event")
	default:
	}
	s.Runner.Close()
	<-ended
	s.Fire(t.Context(), Input{Event: PreToolUse}) // after Close nothing starts
}

// TestRewake: the model is told what a hook with asyncRewake says with exit code 2, and nothing else.
func TestRewake(t *testing.T) {
	s := set(t, `{"PostToolUse": [{"hooks": [{"command": "x", "asyncRewake": true}]}],
		"Stop": [{"hooks": [{"command": "ok", "asyncRewake": true}]}]}`,
		func(_ context.Context, c Process) (Output, error) {
			if c.Line == "ok" {
				return Output{Stdout: []byte("fine")}, nil
			}
			return Output{Code: 2, Stderr: []byte("look again")}, nil
		})
	var told atomic.Int32 // what a hook says may come from the web, also later
	s.Runner.Told = func(h *Hook) {
		if h.Command == "x" {
			told.Add(1)
		}
	}
	for _, e := range []Event{Stop, PostToolUse} {
		if o := s.Fire(t.Context(), Input{Event: e, Call: "c1"}); o.Ran != 0 || o.Block {
			t.Errorf("%+v", o)
		}
	}
	var all []Answered
	for len(all) == 0 && t.Context().Err() == nil {
		all = s.Runner.Late()
	}
	if x := all[0]; len(all) != 1 || x.Input.Call != "c1" || !slices.Equal(x.Outcome.Context, []string{"look again"}) {
		t.Errorf("%+v", all)
	}
	s.Runner.Close()
	if all := s.Runner.Late(); all != nil {
		t.Errorf("%+v", all)
	}
	if n := told.Load(); n != 1 {
		t.Errorf("told %d times", n)
	}
}

func TestHTTP(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("a request reached another host")
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in Input
		if err := json.NewDecoder(r.Body).Decode(&in); r.Method == "POST" && (err != nil || in.Tool != "bash") {
			t.Errorf("%s %v %+v", r.Method, err, in)
		}
		switch r.URL.Path {
		case "/deny":
			fmt.Fprint(w, deny)
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/broken":
			http.Error(w, deny, http.StatusInternalServerError)
		case "/text":
			fmt.Fprint(w, "fine")
		case "/big":
			fmt.Fprint(w, `{"reason":"`, strings.Repeat("x", MaxOutput), `"}`)
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/on":
			http.Redirect(w, r, "/deny", http.StatusTemporaryRedirect)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
		case "/moved": // redirected: a GET without the event
			http.Redirect(w, r, "/empty", http.StatusFound)
		case "/drip":
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				w.(http.Flusher).Flush()
				time.Sleep(time.Millisecond)
			}
		case "/endless":
			for r.Context().Err() == nil {
				fmt.Fprint(w, strings.Repeat(" ", 1<<16))
			}
		case "/hang":
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	for path, want := range map[string]Vote{"/deny": Deny, "/empty": Nothing, "/broken": Ask, "/text": Ask, "/big": Ask,
		"/away": Ask, "/on": Deny, "/round": Ask, "/hang": Ask, "/moved": Ask, "/drip": Ask, "/endless": Ask} {
		s := set(t, `{"PreToolUse": [{"hooks": [{"type": "http", "url": "`+server.URL+path+`"}]}]}`, nil)
		s.Runner.Client = server.Client()
		if path == "/hang" || path == "/drip" {
			s.Hooks[0].Timeout = 50 * time.Millisecond
		}
		if o := s.Fire(t.Context(), Input{Event: PreToolUse, Tool: "bash"}); o.Vote != want {
			t.Errorf("%s: %+v", path, o)
		}
	}
}

func TestPrompt(t *testing.T) {
	for answer, want := range map[string]Vote{
		`{"ok": true}`: Nothing, ` {"ok": false, "reason": "too late"} `: Deny, `{"ok": false}`: Deny,
		`{}`: Ask, `yes`: Ask, `{"ok": "true"}`: Ask, "```json\n{\"ok\": true}\n```": Ask, `{"ok": true} and more`: Ask,
		``: Ask,
	} {
		var asked string
		s := set(t, `{"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "Is $ARGUMENTS safe?"}]}]}`, nil)
		s.Runner.Model = func(_ context.Context, prompt string) (string, error) { asked = prompt; return answer, nil }
		if o := s.Fire(t.Context(), Input{Event: PreToolUse, Tool: "bash"}); o.Vote != want {
			t.Errorf("%q: %+v", answer, o)
		}
		if !strings.Contains(asked, `Is {"session_id":""`) || !strings.Contains(asked, `"tool_name":"bash"} safe?`) {
			t.Errorf("the model received %q", asked)
		}
	}
	s := set(t, `{"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "Safe?"}]}]}`, nil)
	if o := s.Fire(t.Context(), Input{Event: PreToolUse}); o.Vote != Ask {
		t.Errorf("without a model: %+v", o)
	}
}

// TestContext: which output reaches the model; its size is limited.
func TestContext(t *testing.T) {
	long := strings.Repeat("ä", maxText+5)
	for _, c := range []struct {
		event   Event
		printed string
		context string
	}{
		{SessionStart, "plain", "plain"}, {UserPromptSubmit, "plain", "plain"}, {UserPromptExpansion, "plain", "plain"},
		{PostToolUse, "plain", ""}, {Stop, "plain", ""},
		{PostToolUse, `{"hookSpecificOutput":{"additionalContext":"c"}}`, "c"},
		{Notification, `{"hookSpecificOutput":{"additionalContext":"c"}}`, "c"},
		{CwdChanged, `{"hookSpecificOutput":{"additionalContext":"c"}}`, ""},
		{UserPromptSubmit, long, strings.Repeat("ä", maxText) + "\n[10 more bytes are left out.]"},
	} {
		text := fmt.Sprintf(`{%q: [{"hooks": [{"command": "x"}]}]}`, c.event)
		s := set(t, text, func(context.Context, Process) (Output, error) { return Output{Stdout: []byte(c.printed)}, nil })
		o := s.Fire(t.Context(), Input{Event: c.event})
		if got := strings.Join(o.Context, "|"); got != c.context || len(o.Failed) > 0 {
			t.Errorf("%s %.40s: %.80q %v", c.event, c.printed, got, o.Failed)
		}
	}
}

func TestBlocks(t *testing.T) {
	s := set(t, `{"Stop": [{"hooks": [{"command": "2|one"}, {"command": "2|two"}, {"command": "{\"systemMessage\":\"m\",`+
		`\"continue\":false,\"stopReason\":\"s\"}"}, {"command": "3|x"}]}]}`, prints)
	o := s.Fire(t.Context(), Input{Event: Stop})
	if !o.Block || o.Reason != "one\ntwo" || !slices.Equal(o.Messages, []string{"m"}) || !o.Stop || o.StopReason != "s" ||
		len(o.Failed) != 1 || o.Ran != 4 {
		t.Errorf("%+v", o)
	}
}

// TestConcurrentEvents: many events at the same time.
func TestConcurrentEvents(t *testing.T) {
	s := set(t, `{"PreToolUse": [{"hooks": [{"command": "{}", "once": true}, {"command": "2|x"}, {"command": "{ }", `+
		`"async": true}]}]}`, prints)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if o := s.Fire(t.Context(), Input{Event: PreToolUse}); o.Vote != Deny {
				t.Errorf("%+v", o)
			}
		})
	}
	all.Wait()
}

func TestNil(t *testing.T) {
	var s *Set
	if s.Has(Stop) || s.Of("x") != nil || s.Fire(t.Context(), Input{Event: Stop}).Ran != 0 {
		t.Error("a nil set is not empty")
	}
	if n := testing.AllocsPerRun(100, func() {
		if s.Has(PostToolUse, PostToolUseFailure) {
			t.Error("has")
		}
	}); n != 0 {
		t.Errorf("firing an event without hooks allocates %v times", n)
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/parse/*.txtar")
	for _, name := range files {
		if a, err := txtar.ParseFile(name); err == nil {
			for _, file := range a.Files {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		hooks, problems := Parse(text, rule)
		for _, p := range problems {
			if p.At < 0 || p.At > len(text) || p.Message == "" {
				t.Errorf("problem %+v of %d bytes", p, len(text))
			}
		}
		for i := range hooks {
			h := &hooks[i]
			if !slices.Contains(Events(), h.Event) {
				t.Errorf("event %q", h.Event)
			}
			if h.invalid != "" {
				if !h.Event.Guards() {
					t.Errorf("a broken hook is kept: %+v", h)
				}
				continue
			}
			if h.Path != "" && !filepath.IsLocal(filepath.FromSlash(strings.ReplaceAll(h.Path, `\`, "/"))) {
				t.Errorf("the path %q leaves the skill", h.Path)
			}
			if h.Timeout < 0 || h.Timeout > maxTimeout || h.String() == "" || len(h.String()) > 90 {
				t.Errorf("%+v", h)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	for _, s := range []string{"", "text", "{}", allow, ask, deny, into("a", "allow"), `{"decision":"block"}`,
		`{"continue":false}`,
		`{"hookSpecificOutput":{"decision":{"behavior":"deny"}}}`, "[", "{\"reason\":\"\xff\"}"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, out, stderr string) {
		for _, e := range Events() {
			for _, code := range []int{0, 1, 2, 127} {
				text := fmt.Sprintf(`{%q: [{"hooks": [{"command": "x"}]}]}`, e)
				hooks, _ := Parse([]byte(text), nil)
				s := Set{Hooks: hooks, Runner: &Runner{Run: func(context.Context, Process) (Output, error) {
					return Output{Code: code, Stdout: []byte(out), Stderr: []byte(stderr)}, nil
				}}}
				o := s.Fire(context.Background(), Input{Event: e, Tool: "bash"})
				if o.Input != nil && (kind(o.Input) != '{' || !json.Valid(o.Input) || !e.Guards()) {
					t.Errorf("%s: input %s", e, o.Input)
				}
				if o.Vote != Nothing && !e.Guards() || o.Block && e.Guards() {
					t.Errorf("%s: %+v", e, o)
				}
				if e.Guards() && code == 2 && o.Vote != Deny {
					t.Errorf("%s: exit code 2 is %s", e, o.Vote)
				}
				for _, text := range append(o.Context, append(o.Messages, o.Reason, o.StopReason)...) {
					if len([]rune(text)) > maxText+200 {
						t.Errorf("%s: a text of %d", e, len(text))
					}
				}
			}
		}
	})
}
