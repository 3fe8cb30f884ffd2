// Package offline is the built-in model, which needs no key and no network.
//
// It runs procedures and says so. It reads the same request as any model, picks the skill whose
// entry in the listing matches the prompt, calls the Skill tool, and then runs the procedure that
// the skill declares, with one bash call for each step. It keeps no state: the next step follows
// from the messages alone.
//
// Start with [New] and [ParseProcedure].
//
// Most programs start with package engine.
package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"sync"

	"github.com/knack-agent/knack/run/llm"
)

// ID is the name of the model, also in its Info.
const ID = "offline"

// Lookup finds the procedure of a skill by its name in the listing. A Procedure without steps means
// that the skill has none.
type Lookup func(skill string) (Procedure, error)

// New returns the model. With a nil lookup no skill has a procedure.
func New(lookup Lookup) llm.Model {
	if lookup == nil {
		lookup = func(string) (Procedure, error) { return Procedure{}, nil }
	}
	return &runner{lookup}
}

type runner struct{ lookup Lookup }

// Info reports a large window, because the model reads only the end of a conversation.
func (r *runner) Info() llm.Info { return llm.Info{ID: ID, Window: 1_000_000} }

func (r *runner) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(llm.Event{}, err)
			return
		}
		text, call, failed := r.answer(req)
		done := &llm.Response{Message: llm.Message{Role: llm.Assistant}, Stop: llm.EndTurn, Model: ID}
		if text != "" {
			done.Message.Parts = append(done.Message.Parts, llm.Text(text))
			if !yield(llm.Event{Text: text}, nil) {
				return
			}
		}
		if failed {
			done.Stop = llm.Failed
		}
		if call != nil {
			call.ID = fmt.Sprintf("offline_%d", len(req.Messages))
			done.Message.Parts = append(done.Message.Parts, llm.Part{Call: call})
			done.Stop = llm.ToolUse
			if !yield(llm.Event{Call: call}, nil) {
				return
			}
		}
		yield(llm.Event{Done: done}, nil)
	}
}

const needsModel = "I am the offline model: I carry out procedures that skills declare, and nothing else. " +
	"For anything more, give knack a language model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or point " +
	"OLLAMA_HOST at a local server."

// answer returns the text and the call of the answer, and whether a procedure failed.
func (r *runner) answer(req *llm.Request) (say string, call *llm.ToolCall, failed bool) {
	t := read(req)
	if t.skill == "" {
		say, call := r.choose(req, t)
		return say, call, false
	}
	p, err := r.lookup(t.skill)
	if err != nil {
		return fmt.Sprintf("The procedure of %s cannot be used: %v", t.skill, err), nil, true
	}
	if len(p.Steps) == 0 {
		return fmt.Sprintf("The skill %s declares no procedure (metadata.knack-procedure), so its text is for a language "+
			"model to follow:\n\n%s\n\n%s",
			t.skill, indent(t.text), needsModel), nil, false
	}
	bash, ok := tool(req, "bash")
	if !ok {
		return fmt.Sprintf("The procedure of %s needs the bash tool, which is not active.", t.skill), nil, true
	}
	if t.dir != "" {
		p.Dir = t.dir
	}
	steps, err := p.Commands(t.args)
	if err != nil {
		return fmt.Sprintf("The procedure of %s did not start: %v", t.skill, err), nil, true
	}
	n := len(t.results)
	if n > 0 && t.results[n-1].IsError {
		return report(t.skill, steps, t.results, n-1) + fmt.Sprintf("\nStep %d failed; the rest was not run.", n), nil, true
	}
	if n >= len(steps) {
		return report(t.skill, steps, t.results, n), nil, false
	}
	input, _ := json.Marshal(map[string]string{"command": steps[n]})
	if n == 0 {
		say = fmt.Sprintf("Running the procedure of %s (%s).", t.skill, count(len(steps), "step"))
	}
	return say, &llm.ToolCall{Name: bash, Input: input}, false
}

// choose picks a skill for the prompt and calls it.
func (r *runner) choose(req *llm.Request, t turn) (string, *llm.ToolCall) {
	if len(t.results) > 0 { // the Skill tool refused, or a sub-agent reported its result
		return texts(t.results[len(t.results)-1].Parts), nil
	}
	skills := listing(req)
	if len(skills) == 0 {
		return "No skill is listed here.\n\n" + needsModel, nil
	}
	name, fits := pick(skills, t.prompt)
	if !fits {
		if name == "" {
			return fmt.Sprintf("None of the %s fits: %s\n\n%s", count(len(skills), "skill"), names(skills), needsModel), nil
		}
		return fmt.Sprintf("No skill fits well enough; the closest is %s. To run it: /%s\n\n%s", name, name, needsModel), nil
	}
	skill, ok := tool(req, "Skill")
	if !ok {
		return fmt.Sprintf("The skill %s fits, but the Skill tool is not active.", name), nil
	}
	input := map[string]string{"skill": name}
	if args := arguments(t.prompt, name); args != "" {
		input["args"] = args
	}
	data, _ := json.Marshal(input)
	return "", &llm.ToolCall{Name: skill, Input: data}
}

// report shows the output of each step. done is how many succeeded.
func report(skill string, steps []string, results []*llm.ToolResult, done int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ran offline: %d of %s, no language model.\n", skill, done, count(len(steps), "step"))
	for i, res := range results {
		fmt.Fprintf(&b, "\n%d. %s\n", i+1, steps[i])
		out := strings.TrimRight(texts(res.Parts), "\n")
		if out == "" {
			out = "(printed nothing)"
		}
		b.WriteString(indent(out) + "\n")
	}
	return b.String()
}

// A turn is what has happened since the user's last prompt.
type turn struct {
	prompt  string
	skill   string // the activated skill; "": none yet
	dir     string
	args    string
	text    string            // the text of the skill
	results []*llm.ToolResult // since the activation, or else since the prompt
}

var activation = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?s)<command-name>/?([^<]*)</command-name>\s*(?:<command-args>(.*?)</command-args>)?\s*(?:Base directory for this ` +
			`skill: ([^\n]*)\n)?(.*)`)
})

// read finds the last prompt and what followed it. A text that begins with a tag was written by the program, not by the
// user, and so was one that comes between a skill and the answer.
func read(req *llm.Request) turn {
	var t turn
	activated := false // and the model has not answered since
	for _, m := range req.Messages {
		if m.Role != llm.User {
			activated = false
			continue
		}
		for _, p := range m.Parts {
			text := strings.TrimSpace(p.Text)
			switch {
			case p.Result != nil:
				t.results = append(t.results, p.Result)
			case text == "":
			case strings.HasPrefix(text, "<command-message>") || strings.HasPrefix(text, "<command-name>"):
				if m := activation().FindStringSubmatch(text); m != nil {
					activated = true
					t = turn{prompt: t.prompt, skill: m[1], args: m[2], dir: strings.TrimSpace(m[3]), text: strings.TrimSpace(m[4])}
				}
			case strings.HasPrefix(text, "<") || activated:
			default:
				t = turn{prompt: text}
			}
		}
	}
	return t
}

func texts(parts []llm.Part) string {
	var out []string
	for _, p := range parts {
		if p.Text != "" {
			out = append(out, p.Text)
		} else if p.Media != nil {
			out = append(out, "["+p.Media.MIME+"]")
		}
	}
	return strings.Join(out, "\n")
}

// tool finds a tool by its name, ignoring case.
func tool(req *llm.Request, name string) (string, bool) {
	for _, t := range req.Tools {
		if strings.EqualFold(t.Name, name) {
			return t.Name, true
		}
	}
	return "", false
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(s, "\n", "\n    ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
