package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/tool/coding"
)

// A Person answers questions: a user at a screen, an editor, or a program. Ask may be called from
// several goroutines at once, and blocks until there is an answer; the end of ctx withdraws the
// question. On an error there was no answer, and what was asked about is not done; ErrCannot means
// that this front end cannot ask such a question.
//
// A Person answers everything that a session asks: approvals, forms of servers, questions of the model. A
// [gate.Approver] is the part of it that decides calls; hosts that use package agent without an engine
// implement only that one.
type Person interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// ErrCannot is returned by a Person that cannot ask the user.
var ErrCannot = errors.New("there is no user to ask")

// A Question asks the user to do exactly one of these: pick one of Options, fill in Fields, or visit
// URL. Its texts may come from models and other untrusted sources: make control characters visible
// before showing them on a terminal.
type Question struct {
	ID    string // unique in the session
	Title string // one line
	Text  string // more text, may be ""; that of AskerPlan is Markdown
	Asker Asker

	// Points are what the user should know before answering, one sentence each. Documents are what the user can read
	// before answering.
	Points    []gate.Reason
	Documents []Document

	Agent *agent.Sub    // the sub-agent that needs the answer; nil: the session itself
	Call  *gate.Request // for an approval: input, decision, files

	Options []Option
	Current string // the ID of the option that is in effect; "": none
	Again   string // the line that asks this again after the Switch of an option
	Fields  []Field
	URL     string

	// Command is a command line of this program that does what an answer would, for a front end that must not take one,
	// as where it would be kept; "": there is none.
	Command string
}

// A Document is a text that belongs to a Question, such as that of a skill that wants to be used. It is untrusted.
type Document struct {
	Title string // one line
	Help  string // what is in it, one line; may be ""
	Text  string
	Name  string // a file name that tells its language; "": plain text
}

// An Asker is the part of the program that asks a Question: one of these, or mcp:NAME for an MCP server.
type Asker string

const (
	AskerGate    Asker = "gate"    // a call needs permission
	AskerModel   Asker = "ask"     // the model's ask tool
	AskerPlan    Asker = "plan"    // the model's plan needs approval; Text is the plan
	AskerCommand Asker = "command" // a slash command
	AskerTrust   Asker = "trust"   // files of a project need trust
	AskerSecrets Asker = "secrets" // a skill in use needs values that the user has
	AskerHook    Asker = "hook"    // a hook
	// AskerSettings asks whether to go on without restrictions of the settings that cannot be read.
	AskerSettings Asker = "settings"
)

// Allow returns the answer that lets go on what the question is about, as briefly as possible: a call once, a plan with
// questions. If no option does, it declines.
func (q Question) Allow() Answer {
	for _, o := range q.Options {
		if o.Allow && o.Lasts <= gate.Once {
			return Answer{Option: o.ID}
		}
	}
	return Answer{Declined: true}
}

// check returns an error if the answer picks an option that the question does not have. To pick none declines, and to
// a question without options every option means the same.
func (q Question) check(a Answer) error {
	var ids []string
	for _, o := range q.Options {
		ids = append(ids, o.ID)
	}
	if a.Option == "" || a.Declined || ids == nil || slices.Contains(ids, a.Option) {
		return nil
	}
	return fmt.Errorf("the answer picks the option %q, which is none of %s", a.Option, strings.Join(ids, ", "))
}

// Server returns the name of the MCP server that asks; ok is false if it is none.
func (a Asker) Server() (name string, ok bool) { return strings.CutPrefix(string(a), "mcp:") }

// An Option is one of the choices of a Question.
type Option struct {
	ID      string
	Label   string
	Help    string      // what it means, may be ""
	Preview string      // more details, several lines
	Switch  string      // for a list: the line that the space bar types, which switches it on or off; "": none
	Ask     string      // what to ask for when it is picked: the text is Answer.Reason, and may be ""; "": nothing
	Allow   bool        // for an approval: it lets the call run
	Lasts   gate.Choice // for an approval: how long it applies
}

// The IDs of the options of a question that is answered with yes or no. An approval has OptionNo, too.
const (
	OptionYes = "yes"
	OptionNo  = "no"
)

// The IDs of the options of an approval that let the call run: this call, or what the shown rules allow.
const (
	OptionOnce    = "once"
	OptionSession = "session" // until the session ends
	OptionAlways  = "always"  // from now on
)

// OptionEdits is the ID of the option that allows a change of files once, or starts a plan, and sets the mode
// acceptEdits.
const OptionEdits = "edits"

// A Field is one input of a form.
type Field struct {
	Name    string // the key in Answer.Values
	Label   string
	Short   string // one or two words for the label, may be ""
	Help    string
	Default string
	Type    FieldType
	Options []Option // for FieldChoice
	Many    bool     // for FieldChoice: the value is a list
	Other   bool     // for FieldChoice: free text is allowed too
	// OtherLabel and OtherHelp are those of the choice that is free text; "": "something else".
	OtherLabel, OtherHelp string
	Required              bool
	Min, Max              *float64 // for FieldNumber; for FieldText in characters
}

// A FieldType is the kind of value that a Field accepts. The zero FieldType is text.
type FieldType string

const (
	FieldText   FieldType = ""
	FieldSecret FieldType = "secret" // neither shown nor recorded
	FieldNumber FieldType = "number"
	FieldBool   FieldType = "bool"
	FieldChoice FieldType = "choice"
)

// An Answer answers a Question.
type Answer struct {
	Option string                     // the ID of the picked Option; "": none. Another one is an error of the question
	Reason string                     // for a declined approval, or an Option with Ask: text for the model
	Values map[string]json.RawMessage // by Field.Name
	// Input replaces the call's input if an approval allows the call; the new input is judged again.
	// Updates apply from then on, until the session ends.
	Input   json.RawMessage
	Updates []gate.Update
	Stop    bool // for a declined approval: the run ends
	// Declined means that the user saw the question and chose not to answer it. Values has the fields that were answered
	// before.
	Declined bool
}

// Text returns the value of a text, secret or choice field.
func (a Answer) Text(name string) string {
	var s string
	if json.Unmarshal(a.Values[name], &s) != nil {
		return string(a.Values[name])
	}
	return s
}

// ask asks the user a question, if there is one to ask. Notification hooks of the given kind run while
// the question is open.
func (s *Session) ask(ctx context.Context, kind hook.Notice, message string, q Question) (Answer, error) {
	return s.askPerson(ctx, s.person, kind, message, q)
}

func (s *Session) askPerson(ctx context.Context, person Person, kind hook.Notice, message string, q Question) (Answer,
	error) {
	if person == nil {
		return Answer{}, ErrCannot
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return Answer{}, ErrClosed
	}
	s.lastID++
	q.ID = fmt.Sprintf("q%d", s.lastID)
	s.questions = append(s.questions, q)
	s.mu.Unlock()
	s.changed()
	defer func() {
		s.mu.Lock()
		s.questions = slices.DeleteFunc(s.questions, func(w Question) bool { return w.ID == q.ID })
		s.mu.Unlock()
		s.changed()
	}()
	stop := s.hooks.notify(ctx, kind, message)
	defer stop()
	about := "question"
	if kind == hook.NoticePermission {
		about = "permission"
	}
	ctx, ended := s.parts.observer().Begin(ctx, agent.Step{Asks: about})
	a, err := person.Ask(ctx, q)
	if err == nil {
		err = q.check(a)
	}
	ended(agent.Outcome{Err: err, No: a.Declined})
	return a, err
}

// approve is the Approver of the session's gates.
func (s *Session) approve(ctx context.Context, r gate.Request) (gate.Answer, error) {
	q := Question{Title: r.Title(), Asker: AskerGate, Call: &r}
	q.Agent, _ = ctx.Value(subKey{}).(*agent.Sub)
	seen := map[string]*knack.Skill{} // skills of servers, by the hash of what is shown
	for _, sub := range r.Subjects {
		if sub.Kind != permission.KindSkill || sub.Default == permission.Allow {
			continue
		}
		for _, k := range s.engine.Catalog().Skills() {
			if k.RuleName() == sub.Text {
				var shown string
				if q.Points, q.Documents, shown = s.Now().describeSkill(ctx, k); shown == sub.Hash &&
					k.Origin.Kind == knack.MCP {
					seen[shown] = k
				}
				q.Text = k.Description
			}
		}
	}
	q.Text = cmp.Or(q.Text, s.servers.Describe(r.Tool))
	for _, c := range r.Choices {
		if c == gate.No && r.Edits {
			q.Options = append(q.Options, Option{ID: OptionEdits, Label: "yes, and stop asking for edits in this folder", Allow: true,
				Lasts: gate.Once})
		}
		o := Option{ID: c.String(), Lasts: c, Allow: c != gate.No}
		switch c {
		case gate.No:
			o.Label = "no"
		case gate.Once:
			o.Label = "yes"
		case gate.Session:
			o.Label, o.Help = "yes, and allow in this session", strings.Join(r.ShownRules(), ", ")
		case gate.Always:
			o.Label, o.Help = "yes, and always allow here", strings.Join(r.ShownRules(), ", ")
		}
		q.Options = append(q.Options, o)
	}
	for _, f := range r.Files {
		if f.Data != nil && !f.Changed {
			q.Documents = append(q.Documents, Document{Title: r.Short(f.Path), Help: "runs", Text: string(f.Data), Name: f.Path})
		}
	}
	message := "Knack asks whether " + r.Tool + " may run"
	if r.Name == gate.NetworkTool {
		message = q.Title
	}
	a, err := s.ask(ctx, hook.NoticePermission, message, q)
	if err != nil {
		return gate.Answer{}, err
	}
	out := gate.Answer{Reason: a.Reason, Input: a.Input, Updates: a.Updates, Stop: a.Stop}
	if i := slices.IndexFunc(q.Options, func(o Option) bool { return o.ID == a.Option }); i >= 0 && !a.Declined {
		out.Choice = q.Options[i].Lasts
		if a.Option == OptionEdits {
			out.Updates = append(out.Updates, gate.Update{Mode: permission.AcceptEdits})
		}
		if out.Choice != gate.No && out.Input == nil {
			for hash, k := range seen {
				s.Now().remote.record(k, hash)
			}
		}
	}
	return out, nil
}

// answerText describes the user's answer for the record.
func answerText(r gate.Record) string {
	if !r.Asked {
		return ""
	}
	text := strings.TrimSpace(r.Answer.Choice.String() + " " + r.Answer.Reason)
	if r.Answer.Input != nil {
		text += ", with another input"
	}
	for _, u := range r.Answer.Updates {
		if len(u.Rules) > 0 {
			text += fmt.Sprintf(", %s in this session: %s", u.Verdict, strings.Join(u.Rules, " "))
		}
		if u.Mode != "" {
			text += ", mode " + string(u.Mode)
		}
		if len(u.Dirs) > 0 {
			text += ", directories " + strings.Join(u.Dirs, " ")
		}
	}
	return text
}

// askTool asks the user the model's questions, as one Question with a Field for each.
func (s *Session) askTool(ctx context.Context, questions []coding.Question) ([]string, error) {
	q := Question{Title: questions[0].Question, Asker: AskerModel}
	for i, a := range questions {
		f := Field{Name: "answer", Label: a.Question, Short: a.Header, Required: true}
		if len(questions) > 1 {
			f.Name = fmt.Sprintf("answer%d", i+1)
		}
		if len(a.Options) > 0 {
			f.Type, f.Other, f.Many = FieldChoice, true, a.Multi
			for _, o := range a.Options {
				f.Options = append(f.Options, Option{ID: o.Label, Label: o.Label, Help: o.Description})
			}
		}
		q.Fields = append(q.Fields, f)
	}
	if len(questions) > 1 {
		var names []string
		for _, a := range questions {
			names = append(names, cmp.Or(a.Header, a.Question))
		}
		q.Title = strings.Join(names, " · ")
	}
	a, err := s.ask(ctx, hook.NoticeQuestion, q.Title, q)
	if err != nil {
		return nil, err
	}
	if a.Declined && (len(a.Values) == 0 || a.Reason != "") {
		return nil, skipped{a.Reason}
	}
	answers := make([]string, len(q.Fields))
	for i, f := range q.Fields {
		if answers[i] = a.Text(f.Name); a.Declined && a.Values[f.Name] == nil {
			answers[i] = "(not answered)"
			continue
		}
		var chosen []string
		if f.Many && json.Unmarshal(a.Values[f.Name], &chosen) == nil {
			answers[i] = strings.Join(chosen, ", ")
		}
	}
	return answers, nil
}

// skipped is the error of the model's question that the user did not answer, with what the user said instead.
type skipped struct{ reason string }

func (e skipped) Error() string {
	return strings.TrimSuffix("the user does not answer this question: "+e.reason, ": ")
}

// People says it for the user.
func (e skipped) People() string {
	return strings.TrimSuffix("you skipped the question: "+e.reason, ": ")
}

// Ask asks the user a question of a command. If there is nobody to ask, the error is ErrCannot.
func (s *Session) Ask(ctx context.Context, q Question) (Answer, error) {
	kind := hook.NoticeQuestion
	if q.Asker == AskerPlan { // which needs approval
		kind = hook.NoticePermission
	}
	return s.ask(ctx, kind, q.Title, q)
}

// Interactive reports whether there is a user who can be asked.
func (s *Session) Interactive() bool { return s.person != nil }

// elicit asks the user a server's question.
func (s *Session) elicit(ctx context.Context, q mcp.Question) (mcp.Answer, error) {
	if a, ok := s.hooks.elicit(ctx, q); ok {
		r := elicitation(q, a, "a hook")
		if err := s.parts.require(r); err != nil {
			return mcp.Answer{}, err
		}
		s.engine.Project().audit(s.log)(r)
		return a, nil
	}
	question := Question{Title: "The MCP server " + q.Server + " asks", Text: q.Message, Asker: Asker("mcp:" + q.Server),
		URL: q.URL}
	if q.URL != "" || len(q.Fields) == 0 {
		question.Options = []Option{{ID: OptionYes, Label: "yes", Allow: true}, {ID: OptionNo, Label: "no"}}
	}
	for _, f := range q.Fields {
		field := Field{Name: f.Name, Label: f.Title, Help: f.Help, Default: f.Default, Required: f.Required, Many: f.Many,
			Min: f.Min, Max: f.Max}
		switch {
		case len(f.Choices) > 0:
			field.Type = FieldChoice
			for _, c := range f.Choices {
				field.Options = append(field.Options, Option{ID: c.Value, Label: c.Title})
			}
		case f.Type == "boolean":
			field.Type = FieldBool
		case f.Type == "number" || f.Type == "integer":
			field.Type = FieldNumber
		}
		question.Fields = append(question.Fields, field)
	}
	person := s.person
	if p := s.Host().Elicit; p != nil {
		person = p
	}
	a, err := s.askPerson(ctx, person, "elicitation_dialog", "the MCP server "+q.Server+" asks a question", question)
	if err != nil {
		return mcp.Answer{}, err
	}
	out := mcp.Answer{Accepted: !a.Declined && a.Option != OptionNo, Values: map[string]any{}}
	for name, data := range a.Values {
		var v any
		if json.Unmarshal(data, &v) == nil {
			out.Values[name] = v
		}
	}
	out = s.hooks.elicited(ctx, q, out)
	r := elicitation(q, out, "the user")
	if err := s.parts.require(r); err != nil {
		return mcp.Answer{}, err
	}
	s.engine.Project().audit(s.log)(r)
	return out, nil
}
