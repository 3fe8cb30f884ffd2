package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/line"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/trust"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// talk is `knack` on a terminal: prompt by prompt, until the person leaves.
func (f *runFlags) talk(c *cobra.Command, args []string) error {
	in, ok := c.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return engine.Usagef("knack -p 'your prompt'", "there is no terminal to talk on")
	}
	front := &line.Front{In: in, Out: c.OutOrStdout(), Color: colors(c.OutOrStdout()), History: engine.Env(nil).StateFile("history")}
	var ask func(string) (bool, error)
	if !f.trust && !f.bare {
		ask = func(question string) (bool, error) { return confirm(c, question) }
	}
	s, err := f.open(c.Context(), front, ask, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer s.close()
	defer s.leaveWhole(in)()
	front.Complete = func(text string) []string { return s.complete(text) }
	front.Summary = func(name string, input json.RawMessage) string {
		if t, ok := s.toolOf(name); ok {
			return t.Line(input)
		}
		return string(input)
	}

	front.Say(fmt.Sprintf("%s, %s, %d skills. /help lists the commands.",
		plain.Line(s.agent.Model.Info().ID), plain.Line(shown(s.dir)), len(s.library.Catalog().Skills())))
	if len(s.log.Entries()) > 0 {
		front.Show(s.log)
	}
	if err := s.startHooks(c.Context(), c.ErrOrStderr()); err != nil {
		return err
	}
	watching, stop := context.WithCancel(c.Context())
	defer stop()
	go s.library.Watch(watching, func(*knack.Catalog) {}) // announced at the next request

	say := func(ctx context.Context, text string) error {
		in, err := s.attach(ctx, text)
		if err != nil {
			return err
		}
		if err := s.tellChange(ctx); err != nil {
			return err
		}
		before := s.log
		for e, err := range s.agent.Run(ctx, s.log, in) {
			if err != nil {
				return hinted(s.explain(err))
			}
			front.Event(e)
		}
		if s.log != before {
			front.Show(s.log)
		}
		return nil
	}
	if len(args) > 0 {
		front.First = strings.Join(args, " ")
	}
	return front.Talk(say)
}

// askTrust shows what the project brings and was not approved, or has changed
// since, and asks once. Whoever says no goes on without it.
func (s *sessionRun) askTrust(ctx context.Context, confirm func(string) (bool, error), stderr io.Writer) (trusted bool, err error) {
	if !slices.ContainsFunc(s.problems(s.library.Catalog()), inert) {
		return false, nil
	}
	items, err := s.project.Scan(ctx, s.dir, false)
	if err != nil {
		fmt.Fprintln(stderr, "knack: warn:", plain.Line(err.Error()))
	}
	items = slices.DeleteFunc(items, func(it trust.Item) bool { return it.State == trust.Approved || it.Refused != "" })
	if len(items) == 0 {
		return false, nil
	}
	printTrust(stderr, s.project, items, nil)
	yes, err := confirm(fmt.Sprintf("This project brings these %d. Trust them?", len(items)))
	if err != nil || !yes {
		return false, err
	}
	if engine.Env(nil).StateDir() == "" { // an approval cannot be stored: it holds for this run
		s.flags.trust = true
		return true, nil
	}
	return true, s.project.Approve(items...)
}

// inert says of a problem that trust would end it.
func inert(p knack.Problem) bool {
	return p.Code == trust.CodeUntrusted || p.Code == trust.CodeChanged
}

// hinted is an error with what to type next, for the prompt.
func hinted(err error) error {
	var f *engine.Error
	if errors.As(err, &f) && f.Hint != "" {
		return fmt.Errorf("%w\nhint: %s", err, f.Hint)
	}
	return err
}

// leaveWhole ends the program when it is terminated or its terminal goes away:
// what it had started ends with it, and the terminal is as it was. It returns
// what stops that.
func (s *sessionRun) leaveWhole(in *os.File) func() {
	was, _ := term.GetState(int(in.Fd()))
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGHUP)
	over := make(chan struct{})
	go func() {
		select {
		case <-over:
		case <-ch:
			s.close() // the turn counts as interrupted
			if was != nil {
				term.Restore(int(in.Fd()), was)
			}
			os.Exit(int(engine.ExitTerminated))
		}
	}()
	return func() {
		signal.Stop(ch)
		close(over)
	}
}

// A happening is what became of a skill at some time of a session.
type happening struct {
	Time time.Time `json:"time"`
	What string    `json:"what"`
}

// chronicle says when a skill was offered, called, refused and released in a
// session.
func chronicle(log *session.Log, name string) []happening {
	all := []happening{}
	say := func(e session.Entry, format string, args ...any) {
		all = append(all, happening{e.Time, fmt.Sprintf(format, args...)})
	}
	called := map[string]bool{} // calls of the Skill tool for it
	for _, e := range log.Branch() {
		switch {
		case e.Listing != nil && e.Listing.Told[name] != "":
			say(e, "listed")
		case e.Note != nil && e.Note.Told != nil:
			if print, ok := e.Note.Told[name]; ok && print == "" {
				say(e, "announced as gone")
			} else if ok {
				say(e, "announced")
			}
		case e.Answer != nil:
			for _, p := range e.Answer.Message.Parts {
				var in tool.SkillInput
				if p.Call != nil && p.Call.Name == "Skill" && json.Unmarshal(p.Call.Input, &in) == nil && tool.SkillName(in.Skill) == name {
					called[p.Call.ID] = true
				}
			}
		case e.Result != nil && called[e.Result.ID] && e.Result.IsError:
			say(e, "refused to the model: %s", llm.TextOf(e.Result.Parts))
		case e.Agent != nil && e.Agent.Skill == name && e.Agent.Reason == "":
			by := "model"
			if e.Agent.Call == "" {
				by = "user"
			}
			say(e, "called by the %s, in the agent %s (%s)", by, e.Agent.Name, e.Agent.Log)
		case e.Activation != nil && e.Activation.Skill == name:
			what := ""
			if e.Activation.Present != 0 {
				what = ", its text was there already"
			}
			say(e, "%s (%d tokens%s)", e.Activation.Origin(), e.Activation.Tokens, what)
		case e.Release != nil && e.Release.Skill == name:
			say(e, "released: %s", e.Release.Reason)
		case e.Compaction != nil:
			if what := compacted(e.Compaction, name); what != "" {
				say(e, "%s", what)
			}
		}
	}
	return all
}

// printChronicle prints the chronicle of the skill that a name calls, or would.
func printChronicle(w io.Writer, log *session.Log, why knack.Why) {
	fmt.Fprintf(w, "\nIn the session %s:\n", log.ID())
	all := chronicle(log, why.Called())
	for _, h := range all {
		fmt.Fprintf(w, "  %s  %s\n", h.Time.Local().Format(time.DateTime), plain.Line(h.What))
	}
	if len(all) == 0 {
		fmt.Fprintln(w, "  it was neither offered nor called")
	}
}

// touched are the files that tools touched in a session, in order.
func touched(log *session.Log) []string {
	return slices.Sorted(maps.Keys(log.State().Touched))
}

// colors reports whether what is written may be coloured.
func colors(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	if v := os.Getenv("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
