package agent

import (
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// noteWritten tells the user why a call of a tool is text, and what mends it.
func (t *turn) noteWritten(name string) error {
	problems := []knack.Problem{{Code: knack.CodeCallAsText, Severity: knack.Warn,
		Message: "the answer ends with a call of " + name + " as text, which is not run: " +
			"the server does not read the calls of this model",
		Hint: "vllm serve --enable-auto-tool-choice --tool-call-parser NAME, llama-server --jinja, or another model"}}
	_, err := t.record(session.Entry{Type: session.TypeNote, Note: &session.Note{People: problemLines(problems),
		Problems: problems}})
	return err
}

// The marks with which models write calls. Servers that know the model make calls of them.
var callMarks = [...]struct{ begin, end string }{
	{"<tool_call>", "</tool_call>"}, // Hermes, Qwen, GLM
	{"<tool_calls>", "</tool_calls>"},
	{"<function=", "</function>"}, // Qwen Coder, Llama
	{"<function_calls>", "</function_calls>"},
	{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}, // Kimi
	{"<|tool_call_begin|>", "<|tool_call_end|>"},
	{"<|tool_call_start|>", "<|tool_call_end|>"}, // LFM
	{"<|action_start|>", "<|action_end|>"},       // InternLM
	{"<minimax:tool_call>", "</minimax:tool_call>"},
	{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}, // DeepSeek
	{"[TOOL_CALLS]", "]"},                          // Mistral
	{"[TOOL_CALLS]", "}"},
}

// writtenCall returns the tool that an answer without calls calls at its end, in the text; "": it calls none. Such a
// call is not run: a text may quote one, of a file or a page that the model has read.
func writtenCall(answer *llm.Response, tools tool.Set) string {
	text := strings.TrimSpace(llm.TextOf(answer.Message.Parts))
	for _, mark := range callMarks {
		before, closed := strings.CutSuffix(text, mark.end)
		at := strings.LastIndex(before, mark.begin)
		if at < 0 || !closed && !forgotten(before, at, mark.end) {
			continue
		}
		call := before[at+len(mark.begin):]
		if !closed {
			call = call[:min(len(call), 80)]
		}
		for _, t := range tools {
			if names(call, t.Name) {
				return t.Name
			}
		}
	}
	return ""
}

// forgotten reports whether a mark at the beginning of a line of text has no end, and is not quoted in a block of code.
func forgotten(text string, at int, end string) bool {
	return !strings.Contains(text[at:], end) && (at == 0 || text[at-1] == '\n') && strings.Count(text[:at], "```")%2 == 0
}

// names reports whether a text has a name that is not part of a longer one.
func names(text, name string) bool {
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, name)
		if !ok {
			return false
		}
		if !strings.ContainsAny(last(before), wordBytes) && !strings.ContainsAny(first(after), wordBytes) {
			return true
		}
		rest = after
	}
}

const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func first(s string) string { return s[:min(1, len(s))] }

func last(s string) string { return s[max(0, len(s)-1):] }
