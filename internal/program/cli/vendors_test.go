//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/media/mediatest"
)

// A vendorFormat is a wire format, with a model of it and the vendor's type of its requests.
type vendorFormat struct {
	name, model, sdkType string
	messages             string // the member of a request that has the messages
}

var vendorFormats = []vendorFormat{
	{"anthropic", "anthropic/claude-opus-5-5", "Anthropic.MessageCreateParamsStreaming", "messages"},
	{"responses", "openai-responses/gpt-6.2-sol", "OpenAI.Responses.ResponseCreateParamsStreaming", "input"},
	{"chat", "openai-chat/gpt-6.2-sol", "ChatRequest", "messages"},
	{"gemini", "google/gemini-4-argon", "GeminiRequest", "contents"},
}

// A sent request is one of a long session.
type sent struct {
	body  []byte
	after string // what was done before it that changes what was sent; "": it begins with the request before
}

// longSession runs a session as users do, one process for each prompt, and returns the requests.
func longSession(t *testing.T, f vendorFormat) []sent {
	t.Helper()
	use := llmtest.Use
	many := llmtest.Answer{Thinking: "I should read all of it.", Text: "Reading."}
	for range 29 {
		many.Calls = append(many.Calls, llmtest.Call{Name: "read", Input: map[string]any{"path": "a.txt"}})
	}
	many.Calls = append(many.Calls, llmtest.Call{Name: "read", Input: map[string]any{"path": "red.png"}})
	greet := llmtest.Answer{Thinking: "A skill.", Calls: use("Skill", map[string]any{"skill": "greet"}).Calls}
	server := serve(t,
		many, llmtest.Answer{Thinking: "All the same.", Text: "I have read it."},
		use("bash", map[string]any{"command": "echo; exit 1"}),
		llmtest.Answer{Thinking: "It failed.", Calls: []llmtest.Call{
			{Name: "read", Input: `{"path": `}, {Name: "unheard_of"},
			{Name: "write", Input: map[string]any{"path": "b", "content": ""}},
			{Name: "read", Input: map[string]any{"path": "b"}},
			{Name: "bash", Input: map[string]any{"command": "touch denied"}}}},
		llmtest.Reply("That did not work."),
		greet, llmtest.Answer{}, llmtest.Reply("Hello."),
		llmtest.Answer{Text: "I cannot ", Stop: llm.Refusal},
		llmtest.Answer{Text: "Much of an answer that has no end", Stop: llm.MaxTokens},
		llmtest.Reply(" but this one."),
		llmtest.Answer{Text: "Again.", Calls: greet.Calls}, llmtest.Reply("Greeted."),
		llmtest.Answer{Status: 400, Message: "no"},
		llmtest.Reply("The last one before a summary."),
		llmtest.Reply("## Goal\nRead it all."),
		many, llmtest.Reply("After it."),
		use("bash", map[string]any{"command": "echo; exit 1"}), llmtest.Reply("In the fork."),
		llmtest.Reply("The other model."), many, llmtest.Reply("And back."),
	)
	d := newFixture(t, server)
	d.settings(t, `{"skills": {"release": "manual"}}`)
	d.file(t, "a.txt", "text with \"quotes\", 你好 and \\ud83d\n")
	d.file(t, "red.png", pixel)
	d.file(t, "b.pdf", string(mediatest.PDF(1)))
	var all []sent
	ask := func(after, model string, fails bool, args ...string) string {
		t.Helper()
		cmd := exec.Command("knack", append([]string{"-p", "--trust", "--sandbox", "off", "--dangerously-skip-permissions",
			"--deny", "Bash(touch denied)", "--model", model}, args...)...)
		cmd.Dir, cmd.Env = d.dir, d.env
		out, err := cmd.CombinedOutput()
		if (err != nil) != fails {
			t.Fatalf("%q: %v\n%s\nrefused: %q", args, err, out, server.Refused())
		}
		for i, r := range server.Requests()[len(all):] {
			s := sent{body: r.Body}
			if i == 0 {
				s.after = after
			}
			all = append(all, s)
		}
		return string(out)
	}
	ask("the start", f.model, false, "--session-id", "long", "see @red.png and @b.pdf")
	ask("", f.model, false, "-r", "long", "go on")
	ask("", f.model, false, "-r", "long", "say hello")
	ask("", f.model, true, "-r", "long", "do what is not done")
	ask("", f.model, false, "-r", "long", "speak at length")
	ask("", f.model, false, "-r", "long", "say hello again, see @red.png")
	ask("", f.model, true, "-r", "long", "what the server does not like")
	ask("", f.model, false, "-r", "long", "and on")
	ask("a summary", f.model, false, "-r", "long", "/compact")
	ask("a compaction", f.model, false, "-r", "long", "once more")
	fork := strings.TrimSpace(d.output(t, "session", "fork", "long"))
	ask("", f.model, false, "-r", fork, "in a fork")
	other := vendorFormats[0].model
	if f.model == other {
		other = vendorFormats[3].model
	}
	ask("another vendor", other, false, "-r", "long", "another opinion")
	ask("the first vendor", f.model, false, "-r", "long", "and back")
	return all
}

// TestVendors: a long session with images, thinking, many calls, failures, a compaction, a fork and another vendor's
// answer is accepted in every format, and every request begins with the bytes of the one before it, also after a
// resume, unless something changed what came before.
func TestVendors(t *testing.T) {
	t.Parallel()
	for _, f := range vendorFormats {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			all := longSession(t, f)
			for i, s := range all[1:] {
				if s.after == "" {
					extends(t, fmt.Sprintf("request %d of %d", i+2, len(all)), f.messages, all[i].body, s.body)
				}
			}
		})
	}
}

// notPrefix matches the marks of Anthropic's cache, which are no part of a prefix, and plain reasoning, which servers
// of the Chat Completions format drop from earlier turns themselves or refuse there.
var notPrefix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`,"cache_control":\{"type":"ephemeral"\}|,"reasoning_content":"[^"]*"`)
})

// extends compares a request with the one before it: all but the messages are the same, and those of the first are the
// first of the second.
func extends(t *testing.T, what, messages string, before, after []byte) {
	t.Helper()
	split := func(body []byte) (map[string]json.RawMessage, []json.RawMessage) {
		body = notPrefix().ReplaceAll(body, nil)
		var head map[string]json.RawMessage
		var items []json.RawMessage
		if err := json.Unmarshal(body, &head); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(head[messages], &items); err != nil {
			t.Fatal(err)
		}
		delete(head, messages)
		delete(head, "prompt_cache_key") // the name of the session; a fork has its own
		return head, items
	}
	was, old := split(before)
	is, items := split(after)
	for k := range is {
		if !bytes.Equal(was[k], is[k]) {
			t.Errorf("%s: %s changed:\n%.2000s\n%.2000s", what, k, was[k], is[k])
		}
	}
	if len(was) != len(is) || len(items) < len(old) {
		t.Fatalf("%s has less than the one before", what)
	}
	for k := range old {
		if k == len(old)-1 && bytes.HasPrefix(items[k], bytes.TrimRight(old[k], `]}"`)) {
			continue // more content in the same message
		}
		if !bytes.Equal(old[k], items[k]) {
			n := 0
			for n < min(len(old[k]), len(items[k])) && old[k][n] == items[k][n] {
				n++
			}
			t.Fatalf("%s: message %d of %d changed:\n%.1000s\n%.1000s", what, k+1, len(old), old[k][max(0, n-100):],
				items[k][max(0, n-100):])
		}
	}
}

const vendorTypes = `
import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import type { Content, GenerationConfig, Tool, ToolConfig } from '@google/genai';
// The body of a request; the SDK exports no type for it.
interface GeminiRequest {
	systemInstruction?: Content; contents: Content[]; tools?: Tool[]; toolConfig?: ToolConfig;
	generationConfig?: GenerationConfig;
}
// Servers other than OpenAI's want plain reasoning back.
type ChatRequest = Omit<OpenAI.Chat.ChatCompletionCreateParamsStreaming, 'messages'> & { messages:
	(OpenAI.Chat.ChatCompletionMessageParam |
		OpenAI.Chat.ChatCompletionAssistantMessageParam & { reasoning_content: string })[] };
`

// TestPeerVendors compiles the requests of a long session against the types of the vendors' SDKs from npm: members that
// a vendor does not know and values that it does not name are errors, as are members that are missing.
func TestPeerVendors(t *testing.T) {
	modules := nodetest.Dir(t)
	var out strings.Builder
	out.WriteString(vendorTypes)
	for _, f := range vendorFormats {
		for _, s := range longSession(t, f) {
			if s.after != "another vendor" {
				fmt.Fprintf(&out, "{ const %s: %s = %s }\n", f.name, f.sdkType, s.body)
			}
		}
	}
	for _, body := range threadRequests(t) {
		fmt.Fprintf(&out, "{ const thread: Anthropic.Beta.Messages.MessageCreateParamsStreaming = %s }\n", body)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sent.ts"), []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // stops a test that hangs
	defer cancel()
	cmd := exec.CommandContext(ctx, nodetest.Program(modules),
		filepath.Join(modules, "node_modules", "typescript", "lib", "tsc.js"), "--noEmit", "--strict", "--skipLibCheck",
		"--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "sent.ts")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%.5000s", err, text)
	}
}

// threadRequests returns the requests of a conversation that the provider keeps.
func threadRequests(t *testing.T) (all []json.RawMessage) {
	server := serve(t, llmtest.Answer{Thinking: "hm", Calls: []llmtest.Call{{ID: "a", Name: "ls"}}}, llmtest.Reply("done"))
	m := anthropic.New(llm.Endpoint{Name: "m", BaseURL: server.URL, Key: llmtest.Key, Threads: true, Efforts: true})
	text := func(s string) llm.Message { return llm.Message{Role: llm.User, Parts: []llm.Part{llm.Text(s)}} }
	req := &llm.Request{System: "Be brief.", Effort: "high", Memo: new(llm.Memo), Messages: []llm.Message{text("go")},
		Tools: []llm.ToolSpec{{Name: "ls", Schema: json.RawMessage(`{"type": "object"}`)}}}
	for range 2 {
		answer, err := llm.Ask(t.Context(), m, req)
		if err != nil {
			t.Fatal(err)
		}
		result := llm.Message{Role: llm.User, Parts: []llm.Part{{Result: &llm.ToolResult{ID: "a", Name: "ls"}}}}
		req.Messages, req.Effort = append(req.Messages, answer.Message, result), "low"
	}
	for _, r := range server.Requests() {
		all = append(all, r.Body)
	}
	return all
}

// TestPeerVendorsRead: the vendors' SDKs read the scripted server's streams, so that what our adapters read in tests is
// what the vendors send.
func TestPeerVendorsRead(t *testing.T) {
	modules := nodetest.Dir(t)
	answer := llmtest.Answer{Thinking: "I should look.", Text: "Let me see.",
		Calls: []llmtest.Call{{Name: "read", Input: map[string]any{"path": "a"}}, {Name: "ls"}}}
	d := newFixture(t, serve(t, answer, llmtest.Reply("first"), llmtest.Reply("second"), answer, answer, answer))
	script, err := os.ReadFile("testdata/vendors.mjs")
	if err != nil {
		t.Fatal(err)
	}
	d.file(t, "vendors.mjs", string(script)) // Node.js looks for packages beside the script
	if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(d.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	got := strings.TrimSpace(string(runScript(t, d, nodetest.Program(modules), "vendors.mjs")))
	const thought, said = `"thinking":"I should look.","signed":true,`,
		`"text":"Let me see.","calls":[["read",{"path":"a"}],["ls",{}]],`
	want := `{"anthropic":{` + thought + said + `"stop":"tool_use"},"thread":["first","second"],"chat":{` + said + `"stop":"tool_calls"},` +
		`"responses":{` + thought + said + `"stop":"completed"},"gemini":{` + thought + said + `"stop":"STOP"}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
