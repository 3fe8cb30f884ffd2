package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// A Go host has templates as values: the template turns the user's line into a prompt.
func ExampleAgent_commands() {
	weather := knack.SlashCommand{
		Name: "weather", Kind: "template", Hint: "CITY", Description: "ask about the weather",
		Expand: func(_ context.Context, args string) (string, []string, error) {
			return "What is the weather like in " + args + "?", nil, nil
		},
	}
	a := agent.Agent{Model: llmtest.New(llmtest.Answer{When: "in Bern\\?$", Text: "Sunny."})}
	in := agent.Typed("/weather Bern")
	in.Called = agent.Resolve(in.Text, []knack.SlashCommand{weather})
	log := session.New(session.Header{})
	for e, err := range a.Run(context.Background(), log, in) {
		switch {
		case err != nil:
			fmt.Println(err)
		case e.Entry != nil && e.Entry.User != nil:
			fmt.Println("typed:", e.Entry.User.Typed)
		case e.End != nil:
			fmt.Println(e.End.Text)
		}
	}
	// Output:
	// typed: /weather Bern
	// Sunny.
}

// TestCommands: which command, skill or template a name selects, and unknown names.
func TestCommands(t *testing.T) {
	got := ""
	// expands returns a template whose expansion shows its name; the model sees no text.
	expands := func(name, kind string) knack.SlashCommand {
		return knack.SlashCommand{Name: name, Kind: knack.CommandKind(kind),
			Expand: func(_ context.Context, args string) (string, []string, error) {
				got = strings.TrimSpace(kind + " " + args)
				return "", nil, nil
			}}
	}
	failing := knack.SlashCommand{Name: "fails", Kind: "command",
		Expand: func(context.Context, string) (string, []string, error) { return "", nil, errors.New("it failed") }}
	for _, tt := range []struct{ line, want string }{
		{"/help me", "command me"},
		{"/template:help", "template"},
		{"/skill:help x", "model: skill help x"},
		{"/cost", "model: skill cost"},
		{"/command:cost", "command"},
		{"/hidden", "command"}, // a skill that users cannot call does not take the name
		{"/say", "template"},
		{"/command:say", "command"},
		{"/skill:say", "error: unknown skill: say; did you mean /say, /command:say?"},
		{"/fails", "error: it failed"},
		{"/hlp", "error: unknown command: /hlp; did you mean /help?"},
		{"/mcp", "error: /mcp: the name is reserved for a command that this version does not have"},
		{"/program", "error: /program is a built-in command: it cannot be used here"},
		{"/zzzzzz", "error: unknown command: /zzzzzz"},
		{"/\x1b[2J", `error: unknown command: /\x1b[2J`},
		{"/usr/bin/env", "model: /usr/bin/env"},
		{"//cost", "model: /cost"},
		{" /cost", "model:  /cost"},
	} {
		m := llmtest.New(llmtest.Reply("ok"))
		a := skilled(t, m, map[string]string{
			"help": skill("", "skill help $ARGUMENTS"), "cost": skill("", "skill cost"),
			"hidden": skill("user-invocable: false\n", "hidden"),
		})
		commands, _ := a.Skills.Catalog().Commands(a.Skills.View, []knack.SlashCommand{expands("help", "command")},
			[]knack.SlashCommand{expands("help", "template"), expands("say", "template"), expands("cost", "command"),
				expands("hidden", "command"), expands("say", "command"), failing, {Name: "program", Kind: "command"}})
		in := agent.Typed(tt.line)
		in.Called = agent.Resolve(in.Text, commands)
		log := session.New(session.Header{})
		got = ""
		for e, err := range a.Run(t.Context(), log, in) {
			switch {
			case err != nil:
				got = "error: " + err.Error()
			case e.Entry != nil && e.Entry.User != nil:
				got = "model: " + e.Entry.User.Parts[0].Text
			case e.Entry != nil && e.Entry.Activation != nil:
				_, body, _ := strings.Cut(e.Entry.Activation.Prompt, "</command-name>\n")
				lines := strings.Split(strings.TrimSpace(body), "\n")
				got = "model: " + lines[len(lines)-1]
			}
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.line, got, tt.want)
		}
		if !strings.HasPrefix(tt.want, "model") && len(log.Entries()) > 0 {
			t.Errorf("%q: the line was recorded: %+v", tt.line, log.Entries())
		}
	}
}

// TestCommandsWhileItRuns: a template is added to the conversation, and a command of the program is refused without
// ending the run.
func TestCommandsWhileItRuns(t *testing.T) {
	steering := []string{"/later", "/ask"}
	m := llmtest.New(llmtest.Reply("one"), llmtest.Answer{When: "^asked$", Text: "two"})
	a := &agent.Agent{Model: m, Steer: func() (agent.Input, bool) {
		if len(steering) == 0 {
			return agent.Input{}, false
		}
		in := agent.Typed(steering[0])
		steering = steering[1:]
		in.Called = agent.Resolve(in.Text, []knack.SlashCommand{{Name: "later", Kind: "command"}, {Name: "ask",
			Kind: "template", Expand: func(context.Context, string) (string, []string, error) { return "asked", nil, nil }}})
		return in, true
	}}
	log := session.New(session.Header{})
	var shown []string
	for e, err := range a.Run(t.Context(), log, agent.Typed("go")) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Entry != nil && e.Entry.Note != nil:
			shown = append(shown, e.Entry.Note.People)
		case e.Entry != nil && e.Entry.User != nil && e.Entry.User.Steering:
			shown = append(shown, e.Entry.User.Typed)
		}
	}
	if got := strings.Join(shown, "|"); got != "/later is a built-in command: it cannot be used here|/ask" {
		t.Error(got)
	}
}
