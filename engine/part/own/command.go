package own

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// slash returns the commands as those of the program.
func (f *found) slash() (all []engine.Command) {
	for _, p := range f.commands {
		c := engine.Command{Name: p.Name, Description: p.definition.Description, Hint: p.definition.Hint, Source: p.Path,
			Run: func(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
				return p.typed(ctx, s, args)
			}}
		if p.definition.Complete {
			c.Complete = p.complete
		}
		all = append(all, c)
	}
	return all
}

// A typedInput is what a command gets on standard input.
type typedInput struct {
	Arguments string   `json:"arguments"` // what was typed after the name
	Answers   []string `json:"answers"`   // what the user has picked so far
	Complete  bool     `json:"-"`
}

// A reply is what a command may print in place of text, as one JSON object.
type reply struct {
	Text   string        `json:"text"`   // is shown
	Notice string        `json:"notice"` // is shown too, below Text
	Table  *engine.Table `json:"table"`
	Prompt string        `json:"prompt"` // begins a turn of the model, as a message that the user did not type
	Status *string       `json:"status"` // is shown in the status line from now on
	// Choose asks the user. The command is called once more, with the answer.
	Choose *hook.Question `json:"choose"`
}

// readReply reads what a command printed. Text that is no object with one of these fields is shown as it is.
func readReply(text string) (r reply, err error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return reply{Text: text}, nil
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &keys) != nil ||
		!anyOf(keys, "text", "notice", "table", "prompt", "status", "choose") {
		return reply{Text: text}, nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("it printed an object that cannot be shown: %s; its keys are text, notice, table, prompt, "+
			"status and choose", plain.Line(strings.TrimPrefix(err.Error(), "json: ")))
	}
	if r.Table != nil {
		width := len(r.Table.Columns)
		for i, row := range r.Table.Rows {
			if width == 0 {
				width = len(row)
			}
			if len(row) != width || width == 0 {
				return r, fmt.Errorf("row %d of its table has %d cells, not %d", i+1, len(row), width)
			}
		}
	}
	if c := r.Choose; c != nil && (c.Check() != nil || len(c.Options) == 0) {
		return r, errors.New("choose needs a title, and options with different texts")
	}
	return r, nil
}

func anyOf(keys map[string]json.RawMessage, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := keys[name]; return ok })
}

// maxQuestions is how often a command asks.
const maxQuestions = 50

// typed runs a command that the user typed.
func (p *Program) typed(ctx context.Context, s *engine.Session, args string) (engine.Reply, error) {
	in := typedInput{Arguments: args, Answers: []string{}}
	var shown engine.Reply
	for range maxQuestions {
		text, err := p.call(ctx, s, in)
		if err != nil {
			return engine.Reply{}, err
		}
		r, err := readReply(text)
		if err != nil {
			return engine.Reply{}, fmt.Errorf("/%s: %w", p.Name, err)
		}
		for _, text := range []string{r.Text, r.Notice} {
			if text = strings.TrimRight(text, "\n"); text != "" {
				shown.Text = strings.TrimLeft(shown.Text+"\n"+text, "\n")
			}
		}
		if r.Table != nil {
			shown.Table = r.Table
		}
		shown.Prompt = strings.TrimSpace(r.Prompt)
		if r.Status != nil {
			shown.Status, shown.StatusBy = r.Status, p.statusBy()
		}
		if r.Choose == nil {
			return shown, nil
		}
		answer, err := p.ask(ctx, s, r.Choose)
		switch {
		case errors.Is(err, engine.ErrCannot):
			return engine.Reply{}, fmt.Errorf("/%s asks %q, and there is nobody to ask", p.Name, plain.Line(r.Choose.Title))
		case err != nil:
			return engine.Reply{}, err
		case answer == "":
			shown.Prompt = ""
			return shown, nil
		}
		in.Answers = append(in.Answers, answer)
	}
	return engine.Reply{}, fmt.Errorf("/%s has asked %d questions: it is not called again", p.Name, maxQuestions)
}

// statusBy is the hook whose text in the status line a command replaces: one of the same process.
func (p *Program) statusBy() *hook.Hook {
	of := p
	if p.process != nil {
		of = p.process
	}
	return &hook.Hook{Type: hook.OfFunc, Command: of.Name, Origin: of.hookOrigin()}
}

// ask returns the ID of the option that the user picks; "": none. The question says who asks, so that it does not look
// like one of Knack.
func (p *Program) ask(ctx context.Context, s *engine.Session, c *hook.Question) (string, error) {
	q := engine.Question{Title: "/" + p.Name + " asks: " + c.Title, Text: c.Text, Asker: engine.AskerCommand}
	for _, o := range c.Options {
		q.Options = append(q.Options, engine.Option{ID: o.ID, Label: o.Label, Help: o.Help})
	}
	a, err := s.Ask(ctx, q)
	if err != nil || a.Declined {
		return "", err
	}
	return a.Option, nil
}

// completeTime is how long a command may take to complete what is typed.
const completeTime = 200 * time.Millisecond

// complete returns what may stand in place of args: each line that the command prints.
func (p *Program) complete(ctx context.Context, s *engine.Session, args string) (all []string) {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	text, err := p.call(ctx, s, typedInput{Arguments: args, Answers: []string{}, Complete: true})
	if err != nil {
		return nil
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line == plain.Line(line) && len(all) < 100 {
			all = append(all, line)
		}
	}
	return all
}

// call runs a command once and returns what it printed.
func (p *Program) call(ctx context.Context, s *engine.Session, in typedInput) (string, error) {
	l, ok := s.Part(name).(*live)
	if !ok {
		return "", fmt.Errorf("/%s needs a session with the part %s", p.Name, name)
	}
	data, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	o := l.coding
	l.mu.Unlock()
	ws := l.conv.Here().Workspace
	t := tool.Tool{Name: "/" + p.Name, Description: p.definition.Description, Schema: json.RawMessage(`{"type":"object"}`),
		Effect: tool.Reads | tool.Writes | tool.Runs,
		Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
			return []permission.Subject{p.subject(l, "/"+p.Name, p.program)}, p.unchanged()
		},
		Run: func(ctx context.Context, call tool.Input) (tool.Result, error) {
			return p.runTyped(ctx, l, ws, o, call, in)
		}}
	res, err := l.conv.CallTyped(ctx, t, data, nil)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, part := range res.Parts {
		if text := strings.TrimSpace(strings.TrimPrefix(part.Text, llm.NoOutput)); text != "" {
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, "\n")
	if res.IsError {
		return "", fmt.Errorf("/%s: %s", p.Name, text)
	}
	return text, nil
}

// runTyped runs the call of a command.
func (p *Program) runTyped(ctx context.Context, l *live, ws workspace.Workspace, o coding.Options, call tool.Input,
	in typedInput) (tool.Result, error) {
	if !call.Allows(permission.KindTool, "/"+p.Name) {
		return tool.Result{}, errChanged
	}
	if p.process != nil {
		result, err := p.process.request(ctx, l, ws, o, call, request{Method: "command", Name: p.Name,
			Arguments: &in.Arguments, Answers: in.Answers})
		return tool.Text(textOf(result)), err
	}
	c := workspace.Command{Stdin: bytes.NewReader(call.JSON), Env: []string{"KNACK_COMMAND_NAME=" + p.Name}}
	if len(in.Answers) > 0 {
		c.Env = append(c.Env, "KNACK_ANSWER="+in.Answers[len(in.Answers)-1])
	}
	switch {
	case in.Complete:
		c.Args = []string{"--knack-complete", in.Arguments}
	case in.Arguments != "":
		c.Args = []string{in.Arguments}
	}
	c, err := p.prepare(ws, c)
	if err == nil && !in.Complete { // nobody approved what happens while somebody types
		c.AsUser, err = p.outside(l, call, c.Env)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return coding.RunProgram(ctx, ws, c, p.definition.timeout(), call, o), nil
}
