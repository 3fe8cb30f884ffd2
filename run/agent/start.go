package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/session"
)

// begin records the user's input as the first entry of a user turn. started is false if the input
// was a command that sends nothing to the model.
func (r *run) begin(ctx context.Context, in Input) (started bool, err error) {
	record, err := r.parseInput(ctx, in, false)
	if err != nil || record == nil {
		return false, err // with nothing recorded
	}
	if r.log.State().InTurn {
		// The program ended during the previous turn. Recording that also ends the grants of its
		// skills.
		if _, err := r.record(session.Entry{Type: session.TypeTurnEnd,
			TurnEnd: &session.TurnEnd{Reason: session.EndInterrupted}}); err != nil {
			return true, err
		}
	}
	if err := r.agents.interrupted(); err != nil {
		return true, err
	}
	if _, _, err := r.agents.finished(); err != nil {
		return true, err
	}
	if err := r.listing.showListing(); err != nil {
		return true, err
	}
	if err := r.releases.auto(ctx); err != nil {
		return true, err
	}
	if err := record(); err != nil {
		return true, err
	}
	if err := r.suggest(ctx, in); err != nil {
		return true, err
	}
	return true, r.hooks.flush(nil)
}

// parseInput interprets the user's input: a slash and a known name calls a command or a skill. It
// returns a function that records the message; nil: the input was a command that sends nothing to
// the model.
func (r *run) parseInput(ctx context.Context, in Input, steering bool) (record func() error, err error) {
	r.lastTyped = in.Typed
	if in.Command != "" {
		name, args, _ := Slash(in.Command)
		return r.promptInput(ctx, in, in.Command, name, args, "command", steering)
	}
	if c := r.called(in); c != nil {
		if cmd := c.Command; cmd != nil && cmd.Skill == nil {
			if cmd.Expand == nil {
				return nil, fmt.Errorf("/%s is a built-in command: it cannot be used here", cmd.Name)
			}
			typed := in.Text
			var files []string
			if in.Text, files, err = cmd.Expand(ctx, c.Args); err != nil || in.Text == "" {
				return nil, err
			}
			if err := r.attach(ctx, &in, files); err != nil {
				return nil, err
			}
			if cmd.Kind == knack.CommandMCP {
				in.Server = cmd.Name
			}
			return r.promptInput(ctx, in, typed, cmd.Name, c.Args, string(cmd.Kind), steering)
		}
		act, by, err := r.activateNamed(ctx, in, c.Name, c.Args, steering)
		var no *knack.Refusal
		switch {
		case err == nil && r.agents.runs(act.Skill):
			return r.agents.input(ctx, act, in, steering)
		case err == nil:
			if err := r.hooks.onCommand(ctx, in.Text, steering, act); err != nil {
				return nil, err
			}
			return func() error { return r.activate(ctx, act, by, "", in) }, nil
		case errors.As(err, &no) && no.Code == knack.RefusedUnknown && strings.Contains(c.Name, "/"):
			// a path, such as /usr/bin/env
		case errors.As(err, &no) && (no.Code == knack.RefusedUnknown || no.Code == knack.RefusedBuiltin) &&
			!r.skillExists(c.Name):
			return nil, c.unknown()
		default:
			return nil, err
		}
	}
	typed := ""
	switch changed, err := r.hooks.onSubmit(ctx, in.Text, steering, nil); {
	case err != nil:
		return nil, err
	case changed != "": // is text for the model only: it calls nothing, and nobody typed it
		typed, in.Text = in.Text, changed
	case strings.HasPrefix(in.Text, "//"): // escaped: a text that begins with a slash
		in.Text = in.Text[1:]
	}
	if in.Text == "" && len(in.Parts) == 0 {
		return nil, errors.New("the message is empty")
	}
	return func() error { return r.recordUser(in, typed, steering) }, nil
}

// attach adds the files that the text of a template names to an input.
func (r *run) attach(ctx context.Context, in *Input, files []string) error {
	if r.Skills.File == nil {
		return nil
	}
	read := r.Skills.File(r.scopes(r.log.State()))
	var problems []knack.Problem
	in.Text += knack.AttachFiles(files, func(path string) (string, bool, error) { return read(ctx, nil, path) },
		func(p knack.Problem) { problems = append(problems, p) })
	if len(problems) == 0 {
		return ctx.Err()
	}
	_, err := r.record(session.Entry{Type: session.TypeNote, Note: &session.Note{People: problemLines(problems),
		Problems: problems}})
	return err
}

// promptInput runs the hooks on a prompt that a command made from typed, and returns a function
// that records it. kind is the kind of the command.
func (r *run) promptInput(ctx context.Context, in Input, typed, name, args, kind string,
	steering bool) (record func() error, err error) {
	if err := r.hooks.onExpansion(ctx, name, args, typed, kind, steering); err != nil {
		return nil, err
	}
	if err := r.hooks.onCommand(ctx, typed, steering, nil); err != nil {
		return nil, err
	}
	return func() error { return r.recordUser(in, typed, steering) }, nil
}

// activateNamed activates the skill that an input calls by name, and returns who called it. A name that the
// user typed is approved by that; a name in any other text has only the authority of a model's
// call.
func (r *run) activateNamed(ctx context.Context, in Input, name, args string, steering bool) (act *knack.Activation,
	by session.Caller, err error) {
	if r.Skills.Catalog == nil {
		return nil, "", &knack.Refusal{Code: knack.RefusedUnknown}
	}
	inv := knack.Invocation{Name: name, Args: args, By: knack.ByUser}
	by = session.ByUser
	s := r.Skills.Catalog().Skill(name)
	if in.Typed != in.Text && !in.Named {
		inv.By, by = knack.ByModel, session.ByInput
		if s != nil {
			if inv.Hash, err = r.askSkill(ctx, s, name, "input", inv.By); err != nil {
				return nil, "", err
			}
		}
	} else if s != nil {
		if err := r.review(SkillCall{Skill: s, By: inv.By, Typed: name}).Refusal; err != nil {
			return nil, "", err
		}
		if r.Skills.Catalog().Borrowed(name) { // what was typed is the name of another skill
			if inv.Hash, err = r.askSkill(ctx, s, name, "input", inv.By); err != nil {
				return nil, "", err
			}
		}
	}
	if s != nil {
		if err := r.hooks.onExpansion(ctx, s.Name, args, in.Text, string(s.Origin.Kind), steering); err != nil {
			return nil, "", err
		}
	}
	act, err = r.invoke(ctx, inv)
	return act, by, err
}

// recordUser records a user's message. If a command or a hook made the message, typed is the line that the user
// typed; "": none did.
func (r *run) recordUser(in Input, typed string, steering bool) error {
	var parts []llm.Part
	if in.Text != "" {
		parts = append(parts, llm.Text(in.Text))
	}
	given, left := media.Told(in.Parts)
	parts = append(parts, given...)
	words := in.Typed
	all := words != "" && words == cmp.Or(typed, in.Text)
	if all {
		words = ""
	}
	_, err := r.record(session.Entry{Type: session.TypeUser, User: &session.User{Parts: parts, Steering: steering,
		Touched: in.Touched, Typed: typed, AllTyped: all, Words: words, MessageID: in.MessageID, Server: in.Server}})
	return errors.Join(err, r.noteLeftOut(left))
}

// noteLeftOut tells the user of attachments that are left out.
func (t *turn) noteLeftOut(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := t.record(session.Entry{Type: session.TypeNote,
		Note: &session.Note{People: strings.Join(lines, " "), Warns: true}})
	return err
}

// steer records the messages that the user has sent during the turn. It reports whether there is
// anything new for the model.
func (r *run) steer(ctx context.Context) (bool, error) {
	if r.Steer == nil {
		return false, nil
	}
	found := false
	for {
		in, ok := r.Steer()
		if !ok {
			return found, nil
		}
		record, err := r.parseInput(ctx, in, true)
		if err != nil {
			// A mistyped command does not stop a run that is under way.
			if err := r.note("", err.Error()); err != nil {
				return found, err
			}
			continue
		}
		if record == nil { // a command that sends nothing to the model
			continue
		}
		if err := record(); err != nil {
			return found, err
		}
		if err := r.hooks.flush(nil); err != nil {
			return found, err
		}
		found = true
	}
}
