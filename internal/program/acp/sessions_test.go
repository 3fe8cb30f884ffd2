package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestLoad: a session that was closed is listed, loaded with everything that happened, and resumed without.
func TestLoad(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Use("write", map[string]any{"path": "a.txt", "content": "one\n"}),
		llmtest.Reply("It is written."), llmtest.Reply("Second."), llmtest.Reply("Third.")), nil)
	e.approve = pick(t, sdk.PermissionOptionKindAllowOnce)
	id := e.begin()
	e.say(id, "write a file")
	if _, err := e.CloseSession(e.ctx(), sdk.CloseSessionRequest{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Prompt(e.ctx(), sdk.PromptRequest{SessionId: id,
		Prompt: []sdk.ContentBlock{sdk.TextBlock("x")}}); err == nil {
		t.Error("a closed session takes a prompt")
	}
	list, err := e.ListSessions(e.ctx(), sdk.ListSessionsRequest{Cwd: &e.dir})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != id ||
		*list.Sessions[0].Title != "write a file" {
		t.Fatalf("%+v %v", list, err)
	}
	e.mu.Lock()
	e.updates = nil
	e.mu.Unlock()
	loaded, err := e.LoadSession(e.ctx(), sdk.LoadSessionRequest{SessionId: id, Cwd: e.dir, McpServers: []sdk.McpServer{}})
	if err != nil || loaded.Modes.CurrentModeId != "default" {
		t.Fatalf("%+v %v", loaded, err)
	}
	var kinds []string
	for _, u := range e.all(id) {
		switch {
		case u.UserMessageChunk != nil:
			kinds = append(kinds, "user "+u.UserMessageChunk.Content.Text.Text)
		case u.ToolCall != nil:
			kinds = append(kinds, "call "+string(u.ToolCall.Kind)+" "+u.ToolCall.Title)
		case u.ToolCallUpdate != nil:
			d := u.ToolCallUpdate.Content[0].Diff
			kinds = append(kinds, fmt.Sprintf("%s %s %q %t", *u.ToolCallUpdate.Status, filepath.Base(d.Path), d.NewText,
				d.OldText == nil))
		case u.AgentMessageChunk != nil:
			kinds = append(kinds, "agent "+u.AgentMessageChunk.Content.Text.Text)
		}
	}
	want := "user write a file|call edit write a.txt|completed a.txt \"one\\n\" true|agent It is written."
	if got := strings.Join(kinds, "|"); got != want {
		t.Errorf("the session was repeated as\n%s, want\n%s", got, want)
	}
	e.say(id, "again")
	e.must(e.text(id), "Second.")

	// An editor may resume what it has open.
	e.mu.Lock()
	e.updates = nil
	e.mu.Unlock()
	if _, err := e.ResumeSession(e.ctx(), sdk.ResumeSessionRequest{SessionId: id, Cwd: e.dir}); err != nil {
		t.Fatal(err)
	}
	e.say(id, "once more")
	if got := strings.TrimSpace(e.text(id)); got != "Third." {
		t.Errorf("the text is %q", got)
	}
	for _, bad := range []sdk.SessionId{"none", id[:8]} {
		if _, err := e.LoadSession(e.ctx(), sdk.LoadSessionRequest{SessionId: bad, Cwd: e.dir,
			McpServers: []sdk.McpServer{}}); err == nil {
			t.Errorf("%q was loaded", bad)
		}
	}
}

// TestSteer: a message that is sent during a turn reaches the model in it, and both prompts end.
func TestSteer(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Use("bash", map[string]any{"command": "touch made"}),
		llmtest.Answer{Want: []string{"use another name"}, Text: "I have read both."}), nil)
	answer := make(chan string)
	e.approve = func(r sdk.RequestPermissionRequest) string {
		return <-answer
	}
	id := e.begin()
	ends := make(chan sdk.StopReason, 2)
	go func() { ends <- e.say(id, "make a file") }()
	e.until(func() bool { return e.questions() == 1 })
	go func() { ends <- e.say(id, "use another name") }()
	e.server(id, func(c *conversation) bool { return len(c.session().Status().Queue) == 1 })
	answer <- "once"
	for range 2 {
		if why := <-ends; why != sdk.StopReasonEndTurn {
			t.Errorf("a prompt ended with %s", why)
		}
	}
	e.must(e.text(id), "I have read both.")
}

// TestOptions: the mode, the model and the effort can be changed, and the client learns of each change.
func TestOptions(t *testing.T) {
	e := newEditor(t, llmtest.New(), nil)
	if _, err := e.Initialize(e.ctx(), sdk.InitializeRequest{ProtocolVersion: 1}); err != nil {
		t.Fatal(err)
	}
	s, err := e.NewSession(e.ctx(), sdk.NewSessionRequest{Cwd: e.dir, McpServers: []sdk.McpServer{}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, o := range s.ConfigOptions {
		ids = append(ids, string(o.Select.Id)+"="+string(o.Select.CurrentValue))
	}
	e.must(strings.Join(ids, " "), "mode=default", "model=")
	if _, err := e.SetSessionMode(e.ctx(), sdk.SetSessionModeRequest{SessionId: s.SessionId, ModeId: "plan"}); err != nil {
		t.Fatal(err)
	}
	e.until(func() bool { return strings.Contains(e.dump(), `"currentModeId":"plan"`) })
	for _, bad := range []string{"bypassPermissions", "nonsense", ""} {
		if _, err := e.SetSessionMode(e.ctx(), sdk.SetSessionModeRequest{SessionId: s.SessionId,
			ModeId: sdk.SessionModeId(bad)}); err == nil {
			t.Errorf("the mode %q was accepted", bad)
		}
	}
	r, err := e.SetSessionConfigOption(e.ctx(), sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
		SessionId: s.SessionId, ConfigId: "mode", Value: "acceptEdits"}})
	if err != nil || r.ConfigOptions[0].Select.CurrentValue != "acceptEdits" {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := e.SetSessionConfigOption(e.ctx(),
		sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
			SessionId: s.SessionId, ConfigId: "colour", Value: "red"}}); err == nil {
		t.Error("an unknown option was accepted")
	}
}

// TestAttachments: links to files, embedded files and images reach the model.
func TestAttachments(t *testing.T) {
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	model := llmtest.New(llmtest.Answer{Want: []string{"compare @", "the text of a", "unsaved text", "<resource uri="},
		Text: "Seen."})
	e := newEditor(t, model, nil, "a.txt", "the text of a\n")
	id := e.begin()
	uri := "file://" + filepath.ToSlash(filepath.Join(e.dir, "a.txt"))
	r, err := e.Prompt(e.ctx(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("compare"),
		sdk.ResourceLinkBlock("a.txt", uri), sdk.TextBlock("with"),
		sdk.ResourceBlock(sdk.EmbeddedResourceResource{TextResourceContents: &sdk.TextResourceContents{
			Uri: uri + "?\"", Text: "unsaved text"}}), sdk.ImageBlock(pixel, "image/png")}})
	if err != nil || r.StopReason != sdk.StopReasonEndTurn {
		t.Fatalf("%+v %v", r, err)
	}
	images := 0
	for _, m := range model.Requests()[0].Messages {
		for _, p := range m.Parts {
			if p.Media != nil {
				images++
			}
		}
	}
	if images != 1 {
		t.Errorf("%d images were sent", images)
	}
	for _, bad := range [][]sdk.ContentBlock{{}, {sdk.TextBlock("  ")}, {sdk.ImageBlock("!", "image/png")},
		{sdk.AudioBlock(base64.StdEncoding.EncodeToString([]byte("a")), "audio/wav")}} {
		if _, err := e.Prompt(e.ctx(), sdk.PromptRequest{SessionId: id, Prompt: bad}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestNever: the answer that refuses for the session adds a rule that denies, so that nothing is asked again.
func TestNever(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Use("bash", map[string]any{"command": "touch made"}),
		llmtest.Use("bash", map[string]any{"command": "touch made"}), llmtest.Reply("I stop.")), nil)
	e.approve = pick(t, sdk.PermissionOptionKindRejectAlways)
	id := e.begin()
	e.say(id, "make a file")
	if e.questions() != 1 {
		t.Errorf("%d questions were asked", e.questions())
	}
	e.must(e.dump(), `"status":"failed"`)
	if _, err := os.Stat(filepath.Join(e.dir, "made")); err == nil {
		t.Error("the command ran")
	}
}

// TestCommands: commands reply, and what replaces the session keeps the client's ID.
func TestCommands(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Reply("In the new one.")), nil,
		".claude/skills/welcome/SKILL.md", "---\nname: welcome\ndescription: Welcomes people\n---\nWelcome $ARGUMENTS.\n",
		".knack/tools/count", "#!/bin/sh\n# knack-tool: {\"description\": \"Counts.\"}\necho 1\n",
		".knack/commands/tell", "#!/bin/sh\n# knack-command: Tells\necho told\n")
	for _, name := range []string{"tools/count", "commands/tell"} {
		if err := os.Chmod(filepath.Join(e.dir, ".knack", filepath.FromSlash(name)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	e.approve = pick(t, sdk.PermissionOptionKindAllowOnce)
	id := e.begin()
	e.until(func() bool { return strings.Contains(e.dump(), `"available_commands_update"`) })
	e.say(id, "/session")
	e.must(e.text(id), "Some files of this project are left out", string(id))
	_, err := e.Prompt(e.ctx(), sdk.PromptRequest{SessionId: id,
		Prompt: []sdk.ContentBlock{sdk.TextBlock("/welcome you")}})
	if err == nil || !strings.Contains(err.Error(), "is not trusted") || !strings.Contains(err.Error(), "/trust") ||
		strings.Contains(err.Error(), "knack trust") {
		t.Errorf("a skill that is not trusted: %v", err)
	}
	e.say(id, "/trust")
	e.until(func() bool { return strings.Contains(e.dump(), `"name":"welcome"`) })
	e.must(e.text(id), "tools: new count", "commands: new tell")
	e.say(id, "/new")
	e.must(e.text(id), "This is now the session ")
	e.say(id, "hello")
	e.must(e.text(id), "In the new one.")
}

// TestForm: a question of the model is a form where the client has forms, else a list of options.
func TestForm(t *testing.T) {
	ask := llmtest.Use("ask", map[string]any{"questions": []any{map[string]any{"question": "Which colour?",
		"options": []any{map[string]any{"label": "Red"}, map[string]any{"label": "Blue"}}}}})
	for _, forms := range []bool{true, false} {
		e := newEditor(t, llmtest.New(ask, llmtest.Answer{Want: []string{"Blue"}, Text: "Blue it is."}), nil)
		var can sdk.ClientCapabilities
		if forms {
			can.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.ElicitationFormCapabilities{}}
		}
		e.fillForm = func(r sdk.UnstableCreateElicitationRequest) (a sdk.UnstableCreateElicitationResponse) {
			data, _ := json.Marshal(r)
			e.must(string(data), "Which colour?", `"Red"`, `"answer_other"`)
			a.Accept = &sdk.UnstableCreateElicitationAccept{Action: "accept", Content: map[string]any{"answer": "Blue"}}
			return a
		}
		e.approve = func(r sdk.RequestPermissionRequest) string {
			e.must(*r.ToolCall.Title, "Which colour?")
			return "Blue"
		}
		if _, err := e.Initialize(e.ctx(), sdk.InitializeRequest{ProtocolVersion: 1, ClientCapabilities: can}); err != nil {
			t.Fatal(err)
		}
		id := e.newSession()
		e.say(id, "ask me")
		e.must(e.text(id), "Blue it is.")
		e.leave()
	}
}

// TestPlan: the list of steps is the client's plan.
func TestPlan(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Use("todo",
		map[string]any{"items": []any{map[string]any{"text": "One", "state": "done"},
			map[string]any{"text": "Two", "state": "active"}, map[string]any{"text": "Three"}}}), llmtest.Reply("Planned.")), nil)
	id := e.begin()
	e.say(id, "plan")
	var got []string
	for _, u := range e.all(id) {
		if u.Plan != nil {
			for _, s := range u.Plan.Entries {
				got = append(got, s.Content+" "+string(s.Status))
			}
		}
	}
	if strings.Join(got, ", ") != "One completed, Two in_progress, Three pending" {
		t.Errorf("the plan is %q", got)
	}
}

// TestSharedPlan: a step that a sub-agent adds with TaskCreate is in the client's plan; a list of its own is not.
func TestSharedPlan(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Use("TaskCreate", map[string]any{"subject": "One"}),
		llmtest.Use("Agent", map[string]any{"agent": "general-purpose", "prompt": "p", "description": "d"}),
		llmtest.Use("todo", map[string]any{"items": []any{map[string]any{"text": "Own"}}}),
		llmtest.Use("TaskCreate", map[string]any{"subject": "Two"}),
		llmtest.Use("TaskUpdate", map[string]any{"taskId": "1", "status": "in_progress"}),
		llmtest.Reply("Found."), llmtest.Reply("Planned.")), nil)
	id := e.begin()
	e.say(id, "plan")
	var last []string
	for _, u := range e.all(id) {
		if u.Plan != nil {
			last = nil
			for _, s := range u.Plan.Entries {
				last = append(last, s.Content+" "+string(s.Status))
			}
		}
	}
	if strings.Join(last, ", ") != "One in_progress, Two pending" {
		t.Errorf("the plan is %q", last)
	}
}

// TestLarge: a change of 4 MB, which is the most that there can be, is asked about whole and shown in part, and there
// may be 1,000 skills.
func TestLarge(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	files := []string{"a.txt", "begin\n"}
	for i := range 1000 {
		name := fmt.Sprintf("s%03d", i)
		files = append(files, ".claude/skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: Does "+name+
			"\n---\nDo it.\n")
	}
	e := newEditor(t, llmtest.New(llmtest.Use("write",
		map[string]any{"path": "big.txt", "content": strings.Repeat(line, 38_000)}),
		llmtest.Reply("It is written.")), nil, files...)
	e.approve = pick(t, sdk.PermissionOptionKindAllowOnce)
	id := e.begin()
	e.say(id, "/trust")
	e.until(func() bool { return strings.Contains(e.dump(), `"name":"s999"`) })
	e.say(id, "write it")
	if n := sizeOf(e.asked[len(e.asked)-1].ToolCall.Content); n < 3_800_000 {
		t.Errorf("%d bytes were shown", n)
	}
	e.must(e.dump(), "too large to be shown here")
	if info, err := os.Stat(filepath.Join(e.dir, "big.txt")); err != nil || info.Size() < 3_800_000 {
		t.Errorf("%v %v", info, err)
	}
}

// TestTwoSessions: the turns of two sessions run at once, each with its own answers.
func TestTwoSessions(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Answer{When: "one", Text: "Answer one."},
		llmtest.Answer{When: "two", Text: "Answer two."}), nil)
	first := e.begin()
	second := e.newSession()
	ends := make(chan sdk.StopReason, 2)
	go func() { ends <- e.say(first, "one") }()
	go func() { ends <- e.say(second, "two") }()
	<-ends
	<-ends
	if a, b := e.text(first), e.text(second); a != "Answer one." || b != "Answer two." {
		t.Errorf("the answers are %q and %q", a, b)
	}
}

// TestDisconnect: a client that goes away ends the turn that waits for it.
func TestDisconnect(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Use("bash", map[string]any{"command": "touch made"})), nil)
	id := e.begin()
	go e.Prompt(e.ctx(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("make")}})
	e.until(func() bool { return e.questions() == 1 })
	e.leave()
	if _, err := os.Stat(filepath.Join(e.dir, "made")); err == nil {
		t.Error("the command ran")
	}
}

// TestServers: a server that the client gives is one of the session; one that cannot be used is an error.
func TestServers(t *testing.T) {
	e := newEditor(t, llmtest.New(llmtest.Reply("Hello.")), map[string]any{"mcpServers": map[string]any{
		"taken": map[string]any{"command": "true"}}})
	e.begin()
	s, err := e.NewSession(e.ctx(), sdk.NewSessionRequest{Cwd: e.dir, McpServers: []sdk.McpServer{
		{Stdio: &sdk.McpServerStdio{Name: "mine", Command: "false", Args: []string{},
			Env: []sdk.EnvVariable{{Name: "A", Value: "b"}}}},
		{Stdio: &sdk.McpServerStdio{Name: "taken", Command: "false", Args: []string{}, Env: []sdk.EnvVariable{}}}}})
	if err != nil {
		t.Fatal(err)
	}
	e.say(s.SessionId, "hello")
	e.must(e.text(s.SessionId), "the host's MCP server taken is left out")
	e.server(s.SessionId, func(c *conversation) bool {
		all := c.session().Host().Servers
		return len(all) == 1 && all[0].Name == "mine" && all[0].Env["A"] == "b"
	})
	if _, err := e.NewSession(e.ctx(), sdk.NewSessionRequest{Cwd: "relative", McpServers: []sdk.McpServer{}}); err == nil {
		t.Error("a relative directory was opened")
	}
}

// TestLines: what is no message is answered with an error, also a line that is too long, and the connection stays.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriter(w)
		fmt.Fprintln(b, "nonsense")
		fmt.Fprintln(b, `{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"x":"`+strings.Repeat("a", maxLine)+
			`"}}`)
		fmt.Fprintln(b, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"none"}}`)
		fmt.Fprintln(b, `{"jsonrpc":"2.0","id":"8","method":"session/nonsense","params":{}}`)
		fmt.Fprintln(b, `{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{"sessionId":"none","prompt":[]}}`)
		fmt.Fprintln(b, `{"jsonrpc":"2.0","id":10,"method":"initialize","params":{"protocolVersion":2}}`)
		b.Flush()
		w.Close()
	}()
	if err := Serve(context.Background(), Options{In: r, Out: &out}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":null,"error":{"code":-32700`, `"id":7,"error":{"code":-32600`,
		`"id":"8","error":{"code":-32601`, `"id":9,"error":{"code":-32602`, `"id":10,"result":{`, `"protocolVersion":1`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines were written\n%s", n, out.String())
	}
}

// FuzzLines: no input makes the agent panic, and everything that it writes is JSON.
func FuzzLines(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	f.Add(`{"id":{"a":1},"method":"session/prompt","params":{"sessionId":"","prompt":[{"type":"image"}]}}`)
	f.Add("[]\n{\"id\":1}\n{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":1}}")
	f.Fuzz(func(t *testing.T, in string) {
		var out bytes.Buffer
		if err := Serve(t.Context(), Options{In: strings.NewReader(in), Out: &out}); err != nil {
			t.Skip()
		}
		for l := range strings.Lines(out.String()) {
			if !json.Valid([]byte(l)) {
				t.Errorf("%q", l)
			}
		}
	})
}

// TestEmbeddedDenied: what an editor embeds of a file that a rule keeps from the model is not sent.
func TestEmbeddedDenied(t *testing.T) {
	model := llmtest.New()
	e := newEditor(t, model, map[string]any{"permissions.deny": []string{"Read(./secrets/**)"}}, "secrets/k", "the key")
	id := e.begin()
	uri := "file://" + filepath.ToSlash(filepath.Join(e.dir, "secrets", "k"))
	for _, block := range []sdk.ContentBlock{
		sdk.ResourceBlock(sdk.EmbeddedResourceResource{
			TextResourceContents: &sdk.TextResourceContents{Uri: uri, Text: "the key"}}),
		sdk.ResourceBlock(sdk.EmbeddedResourceResource{
			BlobResourceContents: &sdk.BlobResourceContents{Uri: uri, Blob: "dGhl"}}),
		sdk.ResourceLinkBlock("k", uri),
	} {
		_, err := e.Prompt(e.ctx(), sdk.PromptRequest{SessionId: id,
			Prompt: []sdk.ContentBlock{sdk.TextBlock("look"), block}})
		if err == nil || !strings.Contains(err.Error(), "Read(./secrets/**)") {
			t.Errorf("%v", err)
		}
	}
	if n := len(model.Requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// TestMistakes: what the client or its user can mend is no error of the agent.
func TestMistakes(t *testing.T) {
	e := newEditor(t, llmtest.New(), nil)
	defer e.leave()
	id := e.begin()
	none := filepath.Join(e.dir, "none")
	ids := func(dir string, id sdk.SessionId) error {
		_, err := e.LoadSession(e.ctx(), sdk.LoadSessionRequest{Cwd: dir, SessionId: id, McpServers: []sdk.McpServer{}})
		return err
	}
	_, created := e.NewSession(e.ctx(), sdk.NewSessionRequest{Cwd: none, McpServers: []sdk.McpServer{}})
	_, mode := e.SetSessionMode(e.ctx(), sdk.SetSessionModeRequest{SessionId: id, ModeId: "none"})
	for what, err := range map[string]error{"a new session": created, "a mode": mode, "a loaded session": ids(none, id),
		"an unknown session": ids(e.dir, "20200101-000000-00000000")} {
		var refused *sdk.RequestError
		if !errors.As(err, &refused) || refused.Code != -32602 {
			t.Errorf("%s: %v", what, err)
		}
	}
}
