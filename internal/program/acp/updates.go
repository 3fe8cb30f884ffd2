package acp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/coding"
)

// told is what the client knows of a session.
type told struct {
	mode     permission.Mode
	title    string
	options  string // as JSON
	commands string
	problems []string // said with the first turn
}

// update sends an update of the session.
func (c *conversation) update(u sdk.SessionUpdate) {
	c.server.conn.notify(sdk.ClientMethodSessionUpdate, sdk.SessionNotification{SessionId: c.id, Update: u})
}

// say shows a text of ours.
func (c *conversation) say(text string) {
	if text != "" {
		c.update(sdk.UpdateAgentMessageText(plain.Text(text) + "\n\n"))
	}
}

// aside shows a line beside the conversation, as a thought.
func (c *conversation) aside(line string) {
	if line != "" {
		c.update(sdk.UpdateAgentThoughtText(plain.Line(line) + "\n\n"))
	}
}

// greet says what the user should know before the first turn.
func (c *conversation) greet(problems []string) {
	if c.engine.NeedsTrust() {
		c.say("Some files of this project are left out until you approve them: type /trust.")
	}
	for _, p := range problems {
		c.say(p)
	}
}

// reply shows the result of a command.
func (c *conversation) reply(r *engine.Reply) {
	switch text := r.String(); {
	case r.Table != nil || strings.Contains(text, "\n"): // columns
		c.update(sdk.UpdateAgentMessageText(fenced(plain.Text(text)) + "\n"))
	default:
		c.say(text)
	}
}

// event shows an event of a turn.
func (c *conversation) event(e engine.Event) {
	switch {
	case e.Session != nil:
		c.say("This is now the session " + e.Session.ID() + ".")
		c.refresh()
	case e.Agent == nil && e.Text != "":
		c.update(sdk.UpdateAgentMessageText(e.Text))
	case e.Agent == nil && e.Thinking != "":
		c.update(sdk.UpdateAgentThoughtText(e.Thinking))
	case e.Retry != nil:
		c.aside("(" + e.Retry.Err.Error() + "; it is tried again, and what was shown of the answer is void)")
	case e.Reply != nil:
		c.reply(e.Reply)
	case e.Call != nil:
		c.called(e.Agent, e.Call)
	case e.Started != nil:
		c.status(callID(e.Agent, e.Started.Call), sdk.ToolCallStatusInProgress)
	case e.Progress != nil:
		c.progress(callID(e.Agent, e.Progress.Call), e.Progress.Result)
	case e.Ended != nil:
		c.ends(callID(e.Agent, e.Ended.Call), e.Ended.Result.IsError)
	case e.Entry != nil:
		c.entry(e, false)
	case e.End != nil && e.Agent == nil:
		c.refresh()
	}
}

// entry shows an entry of the session's log. again means that a session is loaded, so that answers and messages of the
// user are shown, too.
func (c *conversation) entry(e engine.Event, again bool) {
	x := e.Entry
	switch {
	case x.Result != nil:
		c.result(callID(e.Agent, x.Result.ID), x.Result)
		if list := x.Result.Todos(); list != nil && (e.Agent == nil || x.Result.Shared()) {
			c.plan(list)
		}
	case e.Agent != nil:
	case x.User != nil && again:
		c.user(x.User)
	case x.Answer != nil && again:
		c.answer(x.Answer)
	case x.Activation != nil && again && (x.Activation.By == session.ByUser || x.Activation.By == session.ByInput):
		c.update(sdk.UpdateUserMessageText(strings.TrimSpace("/" + x.Activation.Skill + " " + x.Activation.Args)))
	case x.Activation != nil:
		c.aside("skill " + x.Activation.Notice)
	case x.Agent != nil && x.Agent.Reason != "" && (x.Agent.Call == "" || x.Agent.Background):
		c.aside(x.Agent.Line())
		c.say(x.Agent.Result)
	case x.Compaction != nil:
		c.aside(x.Compaction.Line())
	case x.Note != nil:
		c.aside(x.Note.People)
	case x.Setting != nil && !again:
		c.refresh()
	}
}

// user shows a message of the user.
func (c *conversation) user(u *session.User) {
	if u.Typed != "" {
		c.update(sdk.UpdateUserMessageText(u.Typed))
		return
	}
	for _, p := range u.Parts {
		c.update(sdk.UpdateUserMessage(block(p)))
	}
}

// answer shows a whole answer of the model.
func (c *conversation) answer(a *session.Answer) {
	for _, p := range a.Message.Parts {
		switch {
		case p.Thinking != nil && p.Thinking.Text != "":
			c.update(sdk.UpdateAgentThoughtText(p.Thinking.Text))
		case p.Call != nil:
			c.called(nil, p.Call)
		case p.Text != "":
			c.update(sdk.UpdateAgentMessageText(p.Text))
		}
	}
}

// block converts text or media.
func block(p llm.Part) sdk.ContentBlock {
	switch {
	case p.Media == nil:
		return sdk.TextBlock(p.Text)
	case strings.HasPrefix(p.Media.MIME, "image/"):
		return sdk.ImageBlock(base64.StdEncoding.EncodeToString(p.Media.Data), p.Media.MIME)
	}
	return sdk.TextBlock("[" + p.Media.MIME + " " + p.Media.Name + "]")
}

// replay shows the conversation so far.
func (c *conversation) replay() {
	for e := range c.session().Log().Walk() {
		x := engine.Event{}
		x.Entry = &e
		c.entry(x, true)
	}
	c.abandon()
}

// plan shows the list of steps.
func (c *conversation) plan(list json.RawMessage) {
	var steps struct {
		Items []coding.Todo `json:"items"`
	}
	json.Unmarshal(list, &steps)
	entries := []sdk.PlanEntry{}
	for _, t := range steps.Items {
		status := sdk.PlanEntryStatusPending
		switch t.State {
		case coding.TodoActive:
			status = sdk.PlanEntryStatusInProgress
		case coding.TodoDone:
			status = sdk.PlanEntryStatusCompleted
		}
		entries = append(entries, sdk.PlanEntry{Content: plain.Line(t.Text), Priority: sdk.PlanEntryPriorityMedium,
			Status: status})
	}
	c.update(sdk.UpdatePlan(entries...))
}

// title is the title of a session: the one that it has, or its first message.
func title(given, first string) string {
	if given != "" {
		return plain.Line(given)
	}
	return engine.Clip(first, 80)
}

func encoded(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// refresh tells the client what it does not know yet: mode, options, title, commands, and what fills the window.
func (c *conversation) refresh() {
	ctx := c.ctx
	s := c.session()
	now := told{mode: s.Mode(), title: s.Status().Title, options: encoded(c.options(ctx))}
	commands := []sdk.AvailableCommand{}
	for _, x := range s.Now().Commands() {
		a := sdk.AvailableCommand{Name: x.Name, Description: plain.Line(x.Description)}
		if x.Hint != "" {
			a.Input = &sdk.AvailableCommandInput{Unstructured: &sdk.UnstructuredCommandInput{Hint: plain.Line(x.Hint)}}
		}
		commands = append(commands, a)
	}
	now.commands = encoded(commands)
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.commands != c.told.commands {
		c.update(sdk.SessionUpdate{AvailableCommandsUpdate: &sdk.SessionAvailableCommandsUpdate{AvailableCommands: commands}})
	}
	if now.mode != c.told.mode {
		c.update(sdk.SessionUpdate{CurrentModeUpdate: &sdk.SessionCurrentModeUpdate{CurrentModeId: sdk.SessionModeId(now.mode)}})
	}
	if now.options != c.told.options {
		c.update(sdk.SessionUpdate{ConfigOptionUpdate: &sdk.SessionConfigOptionUpdate{ConfigOptions: c.options(ctx)}})
	}
	if now.title != c.told.title {
		c.update(sdk.SessionUpdate{SessionInfoUpdate: &sdk.SessionSessionInfoUpdate{Title: &now.title}})
	}
	now.problems = c.told.problems
	c.told = now
	c.usage(ctx)
}

// usage tells the client what fills the model's window, and what the session has cost.
func (c *conversation) usage(ctx context.Context) {
	s := c.session()
	use := s.Now().Context(ctx)
	state := s.Log().State()
	if use.Window == 0 || state.LastModel == "" {
		return
	}
	u := &sdk.SessionUsageUpdate{Size: use.Window, Used: max(use.Used, use.Counted)}
	if state.Cost > 0 {
		u.Cost = &sdk.Cost{Amount: state.Cost, Currency: "USD"}
	}
	c.update(sdk.SessionUpdate{UsageUpdate: u})
}
