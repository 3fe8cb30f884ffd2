package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/schedule"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/run/gate"
)

// sessionsDir is where the sessions of a user are, seen from the home directory.
const sessionsDir = "~/.local/state/knack/sessions/"

// dot is a picture.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// recorded returns a session that has every kind of entry; the texts are replaced by another unless that is "".
func recorded(t testing.TB, text string) string {
	t.Helper()
	data, err := os.ReadFile("../../../engine/transcript/testdata/rich.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if text == "" {
		return regexp.MustCompile(`"data":"[^"]*"`).ReplaceAllString(string(data), `"data":"`+dot+`"`)
	}
	var replace func(key string, v any) any
	replace = func(key string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = replace(k, v[k])
			}
		case []any:
			for i := range v {
				v[i] = replace(key, v[i])
			}
		case string:
			switch key {
			case "data":
				return dot
			case "type", "time", "verdict", "role", "stop", "mime", "id", "call", "by", "reason":
				return v
			case "diff":
				return "--- a\n+++ b\n@@ -1 +1 @@\n-" + text + "\n+" + text
			}
			return text
		}
		return v
	}
	var out strings.Builder
	for i, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var v any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			v = replace("", v)
		}
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.String()
}

// TestSkillsOrder: a search shows those with the words in their name before those that only mention them.
func TestSkillsOrder(t *testing.T) {
	skill := func(name, text string) []string {
		return []string{"~/.claude/skills/" + name + "/SKILL.md",
			"---\nname: " + name + "\ndescription: " + text + "\n---\nx\n"}
	}
	x := open(t, engine.Options{}, slices.Concat(skill("any", "Reads a csv report."), skill("csv-reports", "Old."),
		skill("report-csv", "Says it."), skill("zoo-csv-report", "New."))...)
	got := x.has("/skills?q=csv+report", "4 skills")
	at := -1
	for _, name := range []string{"csv-reports", "report-csv", "zoo-csv-report", "any"} {
		i := strings.Index(got, name+" active")
		if i < at {
			t.Fatalf("%s comes too early:\n%s", name, got)
		}
		at = i
	}
}

// TestHistory: the page of a skill has the versions that were installed, and how its files differ from those that the
// user agreed to.
func TestHistory(t *testing.T) {
	text := "---\nname: %s\ndescription: Reads.\n---\nOne.\n"
	x := open(t, engine.Options{}, "src/pdf/SKILL.md", fmt.Sprintf(text, "pdf"), ".claude/skills/own/SKILL.md",
		fmt.Sprintf(text, "own"))
	project := x.server.dir.engine.Project()
	in, err := installer.New(project, func(context.Context, installer.Offer) (bool, error) { return true, nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Skill(t.Context(), filepath.Join(x.Dir, "src", "pdf"), "", installer.UserScope(project.Env())); err != nil {
		t.Fatal(err)
	}
	got := x.has("/skill?name=pdf", "Versions", filepath.Join("src", "pdf"))
	if !regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d`).MatchString(got) {
		t.Errorf("no time of the version:\n%s", got)
	}
	if strings.Contains(got, "What changed") {
		t.Errorf("nothing has changed:\n%s", got)
	}
	report, err := project.TrustReport(t.Context())
	if err == nil {
		err = report.Approve(report.Open()...)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := installer.Store(project.Env())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := install.ReadLock(s.Lock)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(s.Path(lock.Item("pdf")), "SKILL.md"),
		filepath.Join(x.Dir, ".claude", "skills", "own", "SKILL.md")} {
		if err := os.WriteFile(file, []byte(strings.Replace(fmt.Sprintf(text, filepath.Base(filepath.Dir(file))), "One.",
			hostile, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x.has("/skill?name=pdf", "What changed since you agreed to its files", "-One.")
	x.has("/skill?name=own", "What changed since you agreed to its files", "-One.")
}

// TestListing: what `knack skill budget` tells, drawn, and what a pin would change.
func TestListing(t *testing.T) {
	long := strings.Repeat("Does a lot of things with tables. ", 20)
	x := open(t, engine.Options{Trust: true}, "~/.claude/skills/one/SKILL.md",
		"---\nname: one\ndescription: "+long+"\n---\nx\n", "~/.claude/skills/two/SKILL.md",
		"---\nname: two\ndescription: "+long+"\n---\nx\n")
	x.has("/listing?window=60000", "one", "What would a pin change?", "What the model sees", "- two:")
	x.has("/listing?window=60000&pin=two", "With two pinned", "characters instead of", "knack skill pin two")
	x.has("/listing?window=1000000", "0 of them cut")
	// A source has one colour, in the picture and in the table.
	_, body := x.fetch(x.client, x.base+"/listing?window=60000", nil)
	for _, want := range []string{`<span class="key k1"></span>user`, `<rect class="k1" x="0" y="0" width="35.9" height="10">`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	x.page("/listing?" + url.Values{"window": {hostile}, "pin": {hostile}}.Encode())
}

// TestRules: a call is decided as `knack permission check` decides it, and does not run.
func TestRules(t *testing.T) {
	x := open(t, engine.Options{Trust: true}, "~/.config/knack/settings.json",
		`{"permissions": {"allow": ["Bash(git log:*)"], "deny": ["Bash(rm:*)"]}}`)
	call := func(tool, input string) string {
		return "/rules?" + url.Values{"tool": {tool}, "input": {input}}.Encode()
	}
	x.has("/rules", "Bash(git log:*)", "Bash(rm:*)", "user")
	x.has(call("bash", `{"command":"git log && rm -rf x && touch made"}`), "deny", "Subjects", "rm -rf x", "Bash(rm:*)")
	x.has(call("bash", `{"command":"npm test"}`), "ask", "The narrowest rules that would allow it")
	x.has(call("bash", "{"), "input must be a JSON object")
	x.has(call(hostile, `{"a":1}`), "Subjects")
	x.page(call("bash", `{"command":`+quoted(hostile)+`}`))
	if _, err := os.Stat(filepath.Join(x.Dir, "made")); err == nil {
		t.Error("the call has run")
	}

	x = open(t, engine.Options{})
	x.has("/rules", "No settings and no answers have rules here.")
	kept, err := trust.Open(x.server.dir.engine.Project().Env().StateDir()).Project(x.Dir)
	if err == nil {
		err = kept.Keep(gate.Kept{Rule: "Bash(make:*)"}, gate.Kept{Rule: "Bash(sh x)", Line: "sh x; <b>"})
	}
	if err != nil {
		t.Fatal(err)
	}
	x.has("/rules", "Bash(make:*)", "Bash(sh x) in exactly: sh x; <b>", "answered always")
}

// TestSettings: which file sets what, and how a change would look.
func TestSettings(t *testing.T) {
	x := open(t, engine.Options{Trust: true}, "~/.config/knack/settings.json", `{"model": "sonnet"}`,
		".knack/settings.json", `{"permissions": {"ask": ["Bash(git push:*)"]}, "modle": 1}`)
	x.has("/settings", "model", `"sonnet"`, "settings.json:1", "Bash(git push:*)", "modle", "does not exist yet")
	x.has("/settings?key=model&value=opus&in=user", `-{"model": "sonnet"}`, "opus")
	x.has("/settings?key=model&value=3&in=user", "model")
	x.has("/settings?key=permissions.ask&value=Bash(ls)&in=project&add=1", "Bash(ls)")
	x.has("/settings", "Every setting", "permissions.defaultMode")
	x.has("/settings?key=checkpoints", "not set", "true | false")
	x.page("/settings?" + url.Values{"key": {hostile}, "value": {hostile}, "in": {"user"}}.Encode())
	if got := x.Content(t, ".knack/settings.json"); strings.Contains(got, "Bash(ls)") {
		t.Errorf("the file was changed:\n%s", got)
	}
}

// TestTrust: what a project brings, and what has changed since it was approved.
func TestTrust(t *testing.T) {
	x := open(t, engine.Options{}, ".claude/skills/pdf/SKILL.md",
		"---\nname: pdf\ndescription: Reads.\nallowed-tools: Bash(pdftotext:*)\n---\nRun !`date`\n",
		".claude/skills/bad/SKILL.md", hostileSkill())
	x.has("/trust", "2 items wait for your approval", "pdf", "new", "Bash(pdftotext:*)")
	report, err := engine.ReadTrust(t.Context(), x.server.dir.engine.Project().Env(), x.Dir, false, part.All())
	if err == nil {
		err = report.Approve(report.Open()...)
	}
	if err != nil {
		t.Fatal(err)
	}
	x.has("/trust", "You have approved all of it")
	x.has("/skills?q=pdf", "pdf active")
	x.Write(t, ".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads.\nallowed-tools: Bash\n---\nRun !`date`\n")
	x.has("/trust", "1 item waits for your approval", "changed", "What changed since you approved it",
		"-allowed-tools: Bash(pdftotext:*)", "+allowed-tools: Bash")
}

// TestSessions: the sessions of all projects, and one of them with what was said, cost and in use.
func TestSessions(t *testing.T) {
	x := open(t, engine.Options{}, sessionsDir+"one-a/20260101-000000-aa.jsonl", recorded(t, ""),
		sessionsDir+"two-b/20260102-000000-bb.jsonl", recorded(t, hostile))
	x.has("/sessions", "2 conversations of all projects", "Align the stock report")
	x.has("/sessions?q=STOCK+report", "1 session")
	x.has("/sessions?q=no-such-thing", "0 sessions")
	got := x.has("/session?in=one-a&id=20260101-000000-aa", "Align the stock report", "/home/ada/inventory",
		"2 turns, $0.0914 in all", "chart in use", "chart released", "stock report is crooked", "+ if it.Count == 0",
		"keep the old ones", "Done: the report is")
	if strings.Contains(got, "1 of 2") {
		t.Error("a short conversation is cut into parts")
	}
	x.has("/session?in=two-b&id=20260102-000000-bb", "<script>alert(1)</script>")
	for _, bad := range []url.Values{{}, {"in": {"one-a"}}, {"in": {"one-a"}, "id": {"none"}}, {"in": {".."}, "id": {"x"}},
		{"in": {"one-a/../two-b"}, "id": {"20260102-000000-bb"}}, {"in": {`..\..`}, "id": {"x"}},
		{"in": {"one-a"}, "id": {"../two-b/20260102-000000-bb"}}, {"in": {hostile}, "id": {hostile}}} {
		for _, path := range []string{"/session?", "/session/events?"} {
			if code, body := x.fetch(x.client, x.base+path+bad.Encode(), nil); code != http.StatusNotFound {
				t.Errorf("%v: status %d\n%s", bad, code, body)
			}
		}
	}
}

// TestSessionParts: of a long conversation, a page shows a part, and a call stands with its result.
func TestSessionParts(t *testing.T) {
	x := open(t, engine.Options{}, sessionsDir+"a/long.jsonl", longSession(400))
	last := x.has("/session?in=a&id=long", "answer 399", "12 of 12")
	if strings.Contains(last, "answer 0 ") {
		t.Error("the last part has everything")
	}
	x.has("/session?in=a&id=long&page=1", "answer 0", "output 0", "1 of 12", "Cost by turn", "Context")
	x.has("/session?in=a&id=long&page=99", "12 of 12")
	for n := 1; n <= 12; n++ {
		if got := x.page("/session?in=a&id=long&page=" + fmt.Sprint(n)); strings.Contains(got, "not run") ||
			strings.Contains(got, "interrupted") {
			t.Errorf("part %d has a call without its result", n)
		}
	}
}

// TestSessionGrows: the page has what was added to the file since it was read, and what it is after another program has
// written it anew.
func TestSessionGrows(t *testing.T) {
	x := open(t, engine.Options{}, sessionsDir+"a/long.jsonl", longSession(10))
	x.has("/session?in=a&id=long", "answer 9", "$0.1000")
	x.Write(t, sessionsDir+"a/long.jsonl", longSession(12))
	x.has("/session?in=a&id=long", "answer 11", "$0.1200")
	x.Write(t, sessionsDir+"a/long.jsonl", longSession(2))
	x.has("/session?in=a&id=long", "answer 1", "$0.0200")
	x.Write(t, sessionsDir+"a/long.jsonl", "no session\n")
	if code, _ := x.fetch(x.client, x.base+"/session?in=a&id=long", nil); code != http.StatusNotFound {
		t.Errorf("no session: status %d", code)
	}
	x.Write(t, sessionsDir+"a/long.jsonl", longSession(11))
	x.has("/session?in=a&id=long", "answer 10")
}

// TestSessionMemory: of a long session, the texts that a page does not show are not decoded.
func TestSessionMemory(t *testing.T) {
	const turns = 10_000
	x := open(t, engine.Options{}, sessionsDir+"a/long.jsonl", longSession(turns))
	env := x.server.dir.engine.Project().Env()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := x.server.conversations.read(env, "a", "long"); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / (3 * turns); n > 1200 {
		t.Errorf("%d bytes of memory for each entry", n)
	}
}

// longSession returns a session with this many turns of three entries each.
func longSession(turns int) string {
	var b strings.Builder
	b.WriteString(`{"knack_session":1,"id":"long","dir":"/work","time":"2026-01-01T00:00:00Z"}` + "\n")
	id := 0
	put := func(format string, args ...any) {
		id++
		line, err := json.Marshal(map[string]any{"id": id, "parent": id - 1, "time": "2026-01-01T00:00:00Z"})
		if err != nil {
			panic(err)
		}
		b.Write(line[:len(line)-1])
		b.WriteString("," + fmt.Sprintf(format, args...) + "}\n")
	}
	for i := range turns {
		put(`"type":"user","user":{"parts":[{"text":"question %d"}]}`, i)
		put(`"type":"answer","answer":{"model":"m/x","cost":0.01,"usage":{"input":%d,"output":5},"message":{"role":"assistant",`+
			`"parts":[{"text":"answer %d"},{"call":{"id":"c%d","name":"bash","input":{"command":"echo %d"}}}]}}`, 100*(i+1), i,
			i, i)
		put(`"type":"result","result":{"id":"c%d","name":"bash","parts":[{"text":"output %d"}]}`, i, i)
	}
	return b.String()
}

// TestFollow: a browser that follows a session is told when it changes.
func TestFollow(t *testing.T) {
	x := open(t, engine.Options{}, sessionsDir+"a/long.jsonl", longSession(2))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, x.base+"/session/events?in=a&id=long", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := x.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	if !lines.Scan() || lines.Text() != ": following" {
		t.Fatalf("it begins with %q", lines.Text())
	}
	x.Write(t, sessionsDir+"a/long.jsonl", longSession(3))
	for lines.Scan() {
		if lines.Text() == "data: changed" {
			x.has("/session?in=a&id=long", "answer 2")
			return
		}
	}
	t.Errorf("the stream ended: %v", lines.Err())
}

// TestBatches: batches with their tasks, and schedules.
func TestBatches(t *testing.T) {
	x := open(t, engine.Options{})
	x.has("/batches", "There are none yet.")
	ctx := t.Context()
	q, err := local.Open(ctx, filepath.Join(x.Home, ".local", "state", "knack", "batch"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	b := batch.Batch{ID: "b1", Name: hostile, Dir: x.Dir, Created: time.Now()}
	items := []batch.Item{{Key: "first", Task: batch.Task{Prompt: "do the first"}},
		{Key: hostile, Task: batch.Task{Prompt: hostile}}}
	if _, err := q.Submit(ctx, b, items); err != nil {
		t.Fatal(err)
	}
	l, err := q.Claim(ctx, batch.Worker{ID: "w", Lease: time.Hour})
	if err == nil {
		err = q.Finish(ctx, l, batch.End{State: batch.Failed, Error: "the model was away", Fatal: true}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.New(schedule.Schedule{Name: hostile, Rule: "@daily", Dir: x.Dir, Task: batch.Task{Prompt: hostile}},
		time.Now())
	if err == nil {
		err = q.Schedules().Add(ctx, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	behind := batch.Batch{ID: batch.BackgroundPrefix + "s1", Name: "in the back", Dir: x.Dir, Created: time.Now()}
	gone := batch.Batch{ID: batch.BackgroundPrefix + "s2", Name: "taken off", Dir: x.Dir, Created: time.Now()}
	gone.Hidden = true
	for _, b := range []batch.Batch{behind, gone} {
		if _, err := q.Submit(ctx, b, items[:1]); err != nil {
			t.Fatal(err)
		}
	}
	x.has("/batches", "in the back session in the background, its messages")
	if _, body := x.fetch(x.client, x.base+"/batches", nil); !regexp.MustCompile(
		`<a href="/session\?id=s1&amp;in=[^"]*">in the back</a>`).MatchString(body) {
		t.Errorf("it is no link to the session: %s", body)
	}
	if strings.Contains(x.page("/batches"), "taken off") {
		t.Error("a session that was taken off the list is shown")
	}
	x.has("/batches", "1 failed", "1 ready", "Schedules", "@daily", "Nothing runs schedules")
	x.has("/batch?id=b1", "Outcome", "first", "the model was away")
	if got := x.page("/batch?id=b1&state=ready"); strings.Contains(got, "the model was away") {
		t.Error("the filter has no effect")
	}
	x.has("/run?"+url.Values{"batch": {"b1"}, "id": {l.Run.ID}}.Encode(), "do the first", "Why it is not done",
		"the model was away")
	x.page("/run?" + url.Values{"batch": {"b1"}, "id": {batch.RunID("b1", hostile)}}.Encode())
	for _, path := range []string{"/batch", "/batch?id=none", "/run?batch=b1&id=none", "/run"} {
		if code, _ := x.fetch(x.client, x.base+path, nil); code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, code)
		}
	}
}

// post sends a form of a page, from this origin.
func (x *site) post(path string, form url.Values) (int, string) {
	x.Helper()
	r, err := http.NewRequestWithContext(x.Context(), http.MethodPost, x.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		x.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", x.base)
	answer, err := x.client.Do(r)
	if err != nil {
		x.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		x.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// forms returns the forms of a page that change something, by what they are sent to; of several, the first.
func (x *site) forms(path string) map[string]url.Values {
	x.Helper()
	_, body := x.fetch(x.client, x.base+path, nil)
	checkPage(x.T, path, body)
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		x.Fatal(err)
	}
	all := map[string]url.Values{}
	for n := range doc.Descendants() {
		if n.Data != "form" || attr(n, "method") != "post" || all[attr(n, "action")] != nil {
			continue
		}
		form := url.Values{}
		for c := range n.Descendants() {
			if c.Data == "input" || c.Data == "button" && attr(c, "name") != "" && form.Get("answer") == "" {
				form.Add(attr(c, "name"), attr(c, "value"))
			}
		}
		all[attr(n, "action")] = form
	}
	return all
}

// TestForms: with --allow-changes, and only then, a form does what a command does, for what was shown.
func TestForms(t *testing.T) {
	const skill = "---\nname: pdf\ndescription: Reads.\nallowed-tools: Bash(pdftotext:*)\n---\nx\n"
	x := open(t, engine.Options{}, ".claude/skills/pdf/SKILL.md", skill, "~/.claude/skills/own/SKILL.md",
		"---\nname: own\ndescription: Mine.\n---\nx\n")
	for _, path := range []string{"/trust", "/skill?name=own", "/settings?key=model&value=opus&in=user"} {
		if got := x.forms(path); len(got) > 0 {
			t.Errorf("%s has forms: %v", path, got)
		}
	}
	token := x.server.guard.form
	if code, _ := x.post("/trust/approve", url.Values{"form": {token}}); code == http.StatusOK {
		t.Error("a form works although none is allowed")
	}
	x.server.AllowChanges()

	form := x.forms("/trust")["/trust/approve"]
	if code, _ := x.post("/trust/approve", url.Values{"item": form["item"]}); code != http.StatusForbidden {
		t.Errorf("without a token: status %d", code)
	}
	x.Write(t, ".claude/skills/pdf/SKILL.md", skill+"more\n")
	if code, body := x.post("/trust/approve", form); code == http.StatusOK || !strings.Contains(body, "has changed") {
		t.Errorf("another content was approved: status %d\n%s", code, body)
	}
	x.has("/skills?q=pdf", "untrusted")
	if code, body := x.post("/trust/approve", x.forms("/trust")["/trust/approve"]); code != http.StatusOK {
		t.Fatalf("status %d\n%s", code, body)
	}
	x.has("/trust", "You have approved all of it")
	x.has("/skills?q=pdf", "pdf active")

	if code, body := x.post("/skill/pin", x.forms("/skill?name=own")["/skill/pin"]); code != http.StatusOK {
		t.Fatalf("status %d\n%s", code, body)
	}
	x.has("/settings", "skills.overrides", "pinned")
	save := x.forms("/settings?key=model&value=opus&in=user")["/settings/save"]
	if code, body := x.post("/settings/save", save); code != http.StatusOK {
		t.Fatalf("status %d\n%s", code, body)
	}
	x.has("/settings", `"opus"`)
	save.Set("value", "3")
	if code, _ := x.post("/settings/save", save); code == http.StatusOK {
		t.Error("a value that does not fit was saved")
	}
}

// TestBatchForms: a question is answered as it was shown, and what is left is cancelled.
func TestBatchForms(t *testing.T) {
	x := open(t, engine.Options{})
	x.server.AllowChanges()
	ctx := t.Context()
	q, err := local.Open(ctx, filepath.Join(x.Home, ".local", "state", "knack", "batch"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Submit(ctx, batch.Batch{ID: "b1", Name: "b", Dir: x.Dir, Created: time.Now()},
		[]batch.Item{{Key: "a", Task: batch.Task{Prompt: "x"}}, {Key: "b", Task: batch.Task{Prompt: "y"}}}); err != nil {
		t.Fatal(err)
	}
	asked, err := json.Marshal(work.Question{Title: "Run it? " + hostile, Text: hostile, Options: []work.Option{
		{ID: "once", Label: "Yes", Allow: true}, {ID: "no", Label: "No"}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := q.Claim(ctx, batch.Worker{ID: "w", Lease: time.Hour})
	if err == nil {
		err = q.Finish(ctx, l, batch.End{State: batch.Waiting, Question: asked}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	page := "/run?" + url.Values{"batch": {"b1"}, "id": {l.Run.ID}}.Encode()
	x.has(page, "It waits for an answer", "Run it?", "Yes", "No")
	form := x.forms(page)["/run/answer"]
	other := url.Values{"form": form["form"], "batch": form["batch"], "run": form["run"], "answer": {"once"},
		"question": {"{}"}}
	if code, _ := x.post("/run/answer", other); code == http.StatusOK {
		t.Error("another question was answered")
	}
	if code, body := x.post("/run/answer", form); code != http.StatusOK {
		t.Fatalf("status %d\n%s", code, body)
	}
	x.has("/batch?id=b1", "2 ready")
	if code, _ := x.post("/run/answer", form); code == http.StatusOK {
		t.Error("the question was answered twice")
	}
	if code, body := x.post("/batch/cancel", x.forms("/batch?id=b1")["/batch/cancel"]); code != http.StatusOK {
		t.Fatalf("status %d\n%s", code, body)
	}
	x.has("/batch?id=b1", "2 cancelled")
}

// TestEvals: results of evaluations beside each other; without any, the site has no such page.
func TestEvals(t *testing.T) {
	x := open(t, engine.Options{})
	if code, _ := x.fetch(x.client, x.base+"/evals", nil); code != http.StatusNotFound {
		t.Errorf("without results: status %d", code)
	}
	write := func(name, skill string, pass float64) string {
		data, err := json.Marshal(eval.Results{Version: 1, Failed: []string{hostile}, Reports: []*eval.Report{{Version: 1,
			Skill: skill, Model: hostile, Routing: &eval.Routing{
				Recall: eval.Rate{Hits: 9, Of: 10, Rate: .9, Low: .6, High: .98}},
			Tasks: &eval.Tasks{Against: []eval.Difference{{Pairs: 9, Mean: pass, Low: .1, High: .5, Verdict: eval.Helps}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		x.Write(t, name, string(data))
		return filepath.Join(x.Dir, name)
	}
	x.server.ShowEvals(write("old.json", "pdf", .25), write("new.json", "pdf", .5), write("x.json", hostile, 1),
		filepath.Join(x.Dir, "none.json"))
	x.has("/evals", "old.json", "new.json", "90% (9 of 10; 60–98%)", "helps +25 points", "+50 points", "none.json:")
	x.has("/skills", "Skills")
}

// BenchmarkSession measures the pages of a session of 100,000 entries: read, a part of it, and the list.
func BenchmarkSession(b *testing.B) {
	home := b.TempDir()
	dir := filepath.Join(home, ".local", "state", "knack", "sessions", "a")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "long.jsonl"), []byte(longSession(33_334)), 0o600); err != nil {
		b.Fatal(err)
	}
	s, err := Open(b.Context(), engine.Options{Dir: home, Env: func(name string) string {
		if name == "HOME" {
			return home
		}
		return ""
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		name, path string
		forget     bool
	}{{"first", "/session?in=a&id=long", true}, {"part", "/session?in=a&id=long&page=500", false},
		{"list", "/sessions", false}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if c.forget {
					s.conversations.last = nil
				}
				r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, c.path, nil)
				if err != nil {
					b.Fatal(err)
				}
				w := &discard{header: http.Header{}}
				s.guard.next.ServeHTTP(w, r)
				if w.status != http.StatusOK {
					b.Fatalf("status %d", w.status)
				}
			}
		})
	}
}
