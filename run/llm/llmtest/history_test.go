package llmtest_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestOldSessions: what earlier versions recorded, or a program did to the messages, can still be sent.
func TestOldSessions(t *testing.T) {
	call := func(id, name, input string) llm.Part {
		return llm.Part{Call: &llm.ToolCall{ID: id, Name: name, Input: json.RawMessage(input)}}
	}
	answer := func(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.Assistant, Parts: parts} }
	res := func(id string, isError bool, parts ...llm.Part) llm.Part {
		return llm.Part{Result: &llm.ToolResult{ID: id, Name: "ls", IsError: isError, Parts: parts}}
	}
	hi := user(llm.Text("hi"))
	for name, msgs := range map[string][]llm.Message{
		"a failed call with blank text": {hi, answer(call("a", "ls", "{}")), user(res("a", true, llm.Text("\n")))},
		"a blank result":                {hi, answer(call("a", "ls", "{}")), user(res("a", false, llm.Text("\r\n")))},
		"a failed call without text":    {hi, answer(call("a", "ls", "{}")), user(res("a", true))},
		"half of a surrogate pair": {hi, answer(call("a", "ls", `{"x":"\\\ud83d \ud83d \ud83d\ude00 \ude00"}`)),
			user(res("a", false))},
		"bytes that are not text":  {hi, answer(call("a", "ls", "{\"x\":\"\xff\"}")), user(res("a", false))},
		"a name that is no tool's": {hi, answer(call("a", "functions.ls 1", "{}")), user(res("a", true))},
		"a name of digits":         {hi, answer(call("a", "1", "{}")), user(res("a", true))},
		"a very long name":         {hi, answer(call("a", strings.Repeat("x", 300), "{}")), user(res("a", true))},
		"no name":                  {hi, answer(call("a", "", "{}")), user(res("a", true))},
		"a long id": {hi, answer(call(strings.Repeat("a", 300), "ls", "{}")),
			user(res(strings.Repeat("a", 300), true))},
		"no id": {hi, answer(call("", "ls", "{}")), user(res("", true))},
		"ids used again": {hi, answer(call("0", "ls", "{}")), user(res("0", false)),
			answer(call("0", "ls", "{}")), user(res("0", false))},
		"ids used twice in one answer": {hi, answer(call("0", "ls", "{}"), call("0", "ls", "{}")),
			user(res("0", false), res("0", false))},
		"results in another order": {hi, answer(call("a", "ls", "{}"), call("b", "cat", "{}")),
			user(res("b", false), res("a", false))},
		"a missing result":           {hi, answer(call("a", "ls", "{}"), call("b", "ls", "{}")), user(res("b", false))},
		"no results":                 {hi, answer(call("a", "ls", "{}")), user(llm.Text("go on"))},
		"calls at the end":           {hi, answer(call("a", "ls", "{}"))},
		"a result without a call":    {hi, answer(llm.Text("x")), user(res("a", false), llm.Text("go on"))},
		"an answer at the beginning": {answer(llm.Text("x")), hi},
		"calls at the beginning":     {answer(call("a", "ls", "{}")), user(res("a", false))},
		"an empty image":             {user(llm.Part{Media: &llm.Media{MIME: "image/png"}})},
		"an empty file": {user(llm.Part{Media: &llm.Media{MIME: "text/csv", Name: "a.csv",
			Data: []byte("\n")}})},
		"an empty image in a result": {hi, answer(call("a", "ls", "{}")),
			user(res("a", false, llm.Part{Media: &llm.Media{MIME: "image/png"}}))},
		"an interrupted answer and more": {hi, answer(llm.Text("I ")), answer(call("a", "ls", "{}")), user(res("a", false))},
	} {
		each(t, func(t *testing.T, open func(*llmtest.Server) llm.Model) {
			s := llmtest.NewServer(llmtest.Reply("ok"))
			defer s.Close()
			if a := ask(t.Context(), open(s), &llm.Request{Tools: tools, Messages: msgs}); a.err != nil {
				t.Errorf("%s: %v", name, a.err)
			}
		})
	}
}

// FuzzHistory: whatever the messages of a conversation are, no vendor rejects them.
func FuzzHistory(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		msgs := append(randomHistory(rand.New(rand.NewPCG(seed, 1))), user(llm.Text("go on")))
		for _, x := range formats {
			s := llmtest.NewServer(llmtest.Reply("ok"))
			var memo llm.Memo
			for range 2 { // the second time from the memo
				a := ask(t.Context(), x.open(endpoint(s.URL+x.path)), &llm.Request{Tools: tools, Messages: msgs, Memo: &memo})
				if r := s.Refused(); len(r) > 0 && !strings.Contains(r[0], "answer") {
					t.Errorf("%s, seed %d: %v, %q", x.name, seed, a.err, r)
					break
				}
			}
			s.Close()
		}
	})
}

// randomHistory returns messages as no correct program writes them: any parts in any order.
func randomHistory(r *rand.Rand) (msgs []llm.Message) {
	texts := []string{"", " \n", "x", "a b ", "\xff", "你好"}
	ids := []string{"", "a", "b", "c.d", "toolu|x:1", strings.Repeat("i", 100)}
	names := []string{"ls", "read", "", "a.b", "1", strings.Repeat("n", 150)}
	inputs := []string{"", "{}", `{"x":1}`, `[1]`, `{"x":"\ud83d"}`, "nonsense", "{\"x\":\"\xff\"}"}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	media := func() *llm.Media {
		return &llm.Media{MIME: pick([]string{"image/png", "application/pdf", "text/plain", "video/mp4"}),
			Data: []byte(pick(texts))}
	}
	for range r.IntN(8) {
		m := llm.Message{Role: llm.User}
		if r.IntN(2) == 0 {
			m.Role = llm.Assistant
		}
		for range r.IntN(5) {
			var p llm.Part
			switch r.IntN(5) {
			case 0:
				p.Text = pick(texts)
			case 1:
				p.Media = media()
			case 2:
				p.Call = &llm.ToolCall{ID: pick(ids), Name: pick(names), Input: json.RawMessage(pick(inputs))}
			case 3:
				p.Result = &llm.ToolResult{ID: pick(ids), Name: pick(names), IsError: r.IntN(2) == 0}
				for range r.IntN(3) {
					p.Result.Parts = append(p.Result.Parts, llm.Text(pick(texts)))
				}
				if r.IntN(3) == 0 {
					p.Result.Parts = append(p.Result.Parts, llm.Part{Media: media()})
				}
			case 4:
				p.Thinking = &llm.Thinking{Text: pick(texts), From: pick([]string{"other/model", "test/model"})}
			}
			m.Parts = append(m.Parts, p)
		}
		msgs = append(msgs, m)
	}
	return msgs
}
