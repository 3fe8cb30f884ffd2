// Host is a Go program with an agent in it: it opens the current directory with
// its settings, trust and AGENTS.md, adds a tool, a command and an embedded skill
// of its own, and talks with the user line by line.
//
//	go run ./examples/host            uses the model that your environment names
//	go run ./examples/host --offline  uses the built-in one, without a key
package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bundled"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed skills
var skills embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	own, err := fs.Sub(skills, "skills")
	if err != nil {
		return err
	}
	set := bundled.From(own, engine.Env(nil).StateHome(), "host-1")
	defer set.Close()

	o := engine.Options{Sources: []knack.Source{set}, Commands: command.All(""), Parts: part.All()}
	if len(args) > 0 && args[0] == "--offline" {
		o.Values = map[string]any{"model": "offline"}
	}
	e, err := engine.Open(ctx, o)
	if err != nil {
		return err
	}
	defer e.Close()
	u := &user{bufio.NewScanner(in), out}
	s, err := e.Start(ctx, u, engine.SessionOptions{Host: engine.Host{
		Tools: tool.Set{clock()}, Commands: []engine.Command{hello},
	}})
	if err != nil {
		return err
	}
	c := engine.Converse(s)
	for u.read("> ") && !turn(ctx, c, u.lines.Text(), out) {
	}
	return u.lines.Err()
}

// turn does what the user said. It reports whether the user wants to leave.
func turn(ctx context.Context, c *engine.Conversation, text string, out io.Writer) (quit bool) {
	for e, err := range c.Run(ctx, agent.Typed(text)) {
		switch {
		case err != nil:
			fmt.Fprintln(out, "error:", err)
		case e.Text != "":
			fmt.Fprint(out, e.Text)
		case e.Call != nil:
			fmt.Fprintf(out, "\n(%s %s)\n", e.Call.Name, c.Session().Now().Summary(e.Call.Name, e.Call.Input))
		case e.Reply != nil:
			fmt.Fprintln(out, e.Reply)
			quit = e.Reply.Quit
		case e.End != nil:
			fmt.Fprintln(out)
		}
	}
	return quit
}

// clock is a tool of the host's.
func clock() tool.Tool {
	t := tool.New("clock", "Tells the time of day.", func(context.Context, struct{}, tool.Input) (tool.Result, error) {
		return tool.Text(time.Now().Format(time.TimeOnly)), nil
	})
	t.Effect = tool.Reads
	return t
}

// hello is a command of the host's: it needs no model.
var hello = engine.Command{Name: "hello", Hint: "[NAME]", Description: "say hello",
	Run: func(_ context.Context, s *engine.Session, name string) (engine.Reply, error) {
		return engine.Reply{Text: "Hello " + name + ", this is session " + s.ID()}, nil
	}}

// A user answers questions on the terminal.
type user struct {
	lines *bufio.Scanner
	out   io.Writer
}

func (u *user) read(prompt string) bool {
	fmt.Fprint(u.out, prompt)
	return u.lines.Scan()
}

// Ask is the whole of what a front end must be able to do.
func (u *user) Ask(_ context.Context, q engine.Question) (engine.Answer, error) {
	fmt.Fprintf(u.out, "%s\n%s", q.Title, q.Text)
	values := map[string]json.RawMessage{}
	for _, f := range q.Fields {
		if !u.read(f.Label + ": ") {
			return engine.Answer{}, engine.ErrCannot
		}
		values[f.Name], _ = json.Marshal(u.lines.Text())
	}
	if len(q.Fields) > 0 {
		return engine.Answer{Values: values}, nil
	}
	for i, o := range q.Options {
		fmt.Fprintf(u.out, "  %d %s %s\n", i+1, o.Label, o.Help)
	}
	if !u.read("? ") {
		return engine.Answer{}, engine.ErrCannot
	}
	for i, o := range q.Options {
		if strings.TrimSpace(u.lines.Text()) == fmt.Sprint(i+1) {
			return engine.Answer{Option: o.ID}, nil
		}
	}
	return engine.Answer{Declined: true}, nil
}
