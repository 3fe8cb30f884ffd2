package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/gate"
)

// A controlRequest is a request of either side.
type controlRequest struct {
	Type    messageType `json:"type"` // control_request
	ID      string      `json:"request_id"`
	Request any         `json:"request"`
}

// A controlCancel withdraws a request.
type controlCancel struct {
	Type messageType `json:"type"` // control_cancel_request
	ID   string      `json:"request_id"`
}

// A controlResponse answers a request.
type controlResponse struct {
	Type     messageType     `json:"type"` // control_response
	Response controlResponds `json:"response"`
}

type controlResponds struct {
	Subtype  subtype `json:"subtype"` // success, error
	ID       string  `json:"request_id"`
	Response any     `json:"response,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// sent is a request that waits for the host's answer.
type sent struct {
	server *server
	id     string
	wait   chan answer
}

// send sends a request to the host.
func (s *server) send(request any) (sent, error) {
	w := sent{s, "", make(chan answer, 1)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return w, errHostGone
	}
	s.lastRequest++
	w.id = fmt.Sprintf("knack-%d", s.lastRequest)
	s.pending[w.id] = w.wait
	s.notify() // reading continues
	s.mu.Unlock()
	if s.out.write(controlRequest{typeControlRequest, w.id, request}) != nil {
		return w, errHostGone
	}
	return w, nil
}

// answer waits for the answer. When ctx ends, it withdraws the request.
func (w sent) answer(ctx context.Context) (json.RawMessage, error) {
	select {
	case a := <-w.wait:
		if a.Subtype != subtypeSuccess {
			return nil, errors.New(cmp.Or(a.Error, "the host answered with an error"))
		}
		return a.Response, nil
	case <-ctx.Done():
		w.server.mu.Lock()
		delete(w.server.pending, w.id)
		w.server.mu.Unlock()
		w.server.out.write(controlCancel{typeControlCancel, w.id})
		return nil, context.Cause(ctx)
	}
}

// request sends a request to the host and waits for the answer.
func (s *server) request(ctx context.Context, request any) (json.RawMessage, error) {
	w, err := s.send(request)
	if err != nil {
		return nil, err
	}
	return w.answer(ctx)
}

// answered delivers the host's answer to the request that waits for it. An answer without an open
// request, such as a second one, is reported and otherwise ignored.
func (s *server) answered(l inputLine, a *answer) {
	if a == nil {
		s.badLine(l.number, "response", errors.New("it is missing"))
		return
	}
	s.mu.Lock()
	wait := s.pending[a.ID]
	delete(s.pending, a.ID)
	s.mu.Unlock()
	if wait == nil {
		s.Out.BadLine(l.number, "response.request_id", fmt.Errorf("no request %q is waiting for an answer", a.ID))
		return
	}
	wait <- *a
}

// person is the engine.Person that asks the host.
type person struct{ *server }

// canUseTool asks whether a call may run.
type canUseTool struct {
	Subtype     subtype            `json:"subtype"` // can_use_tool
	Tool        string             `json:"tool_name"`
	Input       json.RawMessage    `json:"input"`
	Call        string             `json:"tool_use_id"`
	Suggestions []permissionUpdate `json:"permission_suggestions,omitempty"`
	Path        string             `json:"blocked_path,omitempty"`
	Reason      string             `json:"decision_reason,omitempty"`
	Kind        reasonType         `json:"decision_reason_type,omitempty"` // rule, safetyCheck, other
	Rule        *matchedRule       `json:"matched_ask_rule,omitempty"`
	Title       string             `json:"title,omitempty"`
	Name        string             `json:"display_name,omitempty"`
	Description string             `json:"description,omitempty"` // what the call would do
	Agent       string             `json:"agent_id,omitempty"`
	Once        bool               `json:"suppress_always_allow_rule,omitempty"` // it can only be allowed once
	Interaction bool               `json:"requires_user_interaction,omitempty"`  // answered in updatedInput
}

type matchedRule struct {
	Source string `json:"source"`
	Tool   string `json:"tool_name"`
	Rule   string `json:"rule_content,omitempty"`
}

// A permissionUpdate changes the permissions for the rest of the session.
type permissionUpdate struct {
	// Type is addRules, replaceRules, removeRules, setMode, addDirectories or removeDirectories.
	Type        string      `json:"type"`
	Rules       []ruleValue `json:"rules,omitempty"`
	Behavior    behavior    `json:"behavior,omitempty"` // allow, deny, ask
	Mode        string      `json:"mode,omitempty"`
	Directories []string    `json:"directories,omitempty"`
	Destination string      `json:"destination"` // session; other values need --host-may-save
}

type ruleValue struct {
	Tool    string `json:"toolName"`
	Content string `json:"ruleContent,omitempty"`
}

func (v ruleValue) text() string {
	if v.Content == "" {
		return v.Tool
	}
	return v.Tool + "(" + v.Content + ")"
}

func ruleValueOf(text string) ruleValue {
	tool, content, found := strings.Cut(text, "(")
	if !found {
		return ruleValue{Tool: text}
	}
	return ruleValue{tool, strings.TrimSuffix(content, ")")}
}

// A toolAnswer is the host's answer to canUseTool.
type toolAnswer struct {
	Behavior  behavior           `json:"behavior"` // allow, deny
	Input     json.RawMessage    `json:"updatedInput"`
	Updates   []permissionUpdate `json:"updatedPermissions"`
	Message   string             `json:"message"`
	Interrupt bool               `json:"interrupt"`
}

// Ask asks the host. Without an answer within Timeout it returns an error, and nothing is allowed.
func (p *person) Ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	if p.out == nil {
		return engine.Answer{}, engine.ErrCannot
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("the host did not answer within %s", p.Timeout))
	defer cancel()
	server, elicits := q.Asker.Server()
	switch {
	case elicits:
		return p.elicit(ctx, server, q)
	case q.Call != nil:
		return p.approve(ctx, q)
	case q.Asker == engine.AskerSecrets:
		q.Text = strings.TrimSuffix(q.Title+".\n"+q.Text, "\n")
		return p.elicit(ctx, "knack", q)
	case q.Asker == engine.AskerModel:
		return p.choose(ctx, q)
	case q.Asker == engine.AskerPlan:
		return p.plan(ctx, q)
	case q.Asker == engine.AskerSettings:
		return goOn(ctx, q, p.request)
	}
	return engine.Answer{}, engine.ErrCannot
}

// goOn asks the host whether to go on without restrictions of the settings, as if that were a call.
func goOn(ctx context.Context, q engine.Question,
	send func(context.Context, any) (json.RawMessage, error)) (engine.Answer, error) {

	input, err := json.Marshal(map[string]string{"problems": q.Text})
	if err != nil {
		return engine.Answer{}, err
	}
	data, err := send(ctx, canUseTool{Subtype: subtypeCanUseTool, Tool: "GoOnWithoutRestrictions", Input: input,
		Call: "settings", Title: q.Title, Name: "GoOnWithoutRestrictions", Reason: q.Text, Kind: reasonSafetyCheck,
		Description: q.Text, Once: true})
	if err != nil {
		return engine.Answer{}, err
	}
	var answer toolAnswer
	if err := decode(data, &answer); err != nil {
		return engine.Answer{}, fmt.Errorf("the host's answer cannot be read: %w", err)
	}
	if answer.Behavior != behaviorAllow {
		return engine.Answer{Option: engine.OptionNo, Reason: answer.Message}, nil
	}
	return engine.Answer{Option: engine.OptionYes}, nil
}

// approve asks the host for permission for a call.
func (p *person) approve(ctx context.Context, q engine.Question) (engine.Answer, error) {
	s, c := p.current(), q.Call
	ask := canUseTool{
		Subtype: subtypeCanUseTool, Tool: c.Name, Input: c.Input, Call: c.Call, Title: q.Title, Name: c.Tool,
		Reason: c.Decision.Reason, Kind: reasonOther, Once: len(c.Rules) == 0, Description: describe(c),
	}
	t, known := s.Now().Tool(c.Name)
	known = known && p.isHost()
	if known {
		ask.Tool, ask.Input = hostName(s, c.Name), t.Encode(c.Input)
		ask.Name = ask.Tool
	}
	if q.Agent != nil {
		ask.Agent = q.Agent.Log
	}
	for _, x := range c.Decision.Subjects {
		if x.Verdict != permission.Ask {
			continue
		}
		if ask.Path == "" && (x.Kind == permission.KindRead || x.Kind == permission.KindEdit) {
			ask.Path = x.Text
		}
		switch {
		case x.Rule != "":
			ask.Kind = reasonRule
			r := ruleValueOf(x.Rule)
			ask.Rule = &matchedRule{sourceOf(x.Origin), r.Tool, r.Content}
		case x.Origin == permission.Builtin:
			ask.Kind = reasonSafetyCheck
		}
	}
	ask.Suggestions = suggestions(c)
	data, err := p.request(ctx, ask)
	if err != nil {
		return engine.Answer{}, err
	}
	var answer toolAnswer
	if err := decode(data, &answer); err != nil {
		return engine.Answer{}, fmt.Errorf("the host's answer cannot be read: %w", err)
	}
	switch answer.Behavior {
	case behaviorAllow:
	case behaviorDeny:
		return engine.Answer{Option: gate.No.String(), Reason: answer.Message, Stop: answer.Interrupt}, nil
	default:
		return engine.Answer{}, fmt.Errorf("the host's answer has the behavior %q, not allow or deny", answer.Behavior)
	}
	a := engine.Answer{Option: gate.Once.String()}
	if in := answer.Input; len(in) > 0 && string(in) != "null" && !sameJSON(in, ask.Input) {
		if in[0] != '{' {
			return engine.Answer{}, errors.New("the host's updatedInput is not an object")
		}
		if a.Input = in; known {
			a.Input = t.Decode(in)
		}
	}
	for _, u := range answer.Updates {
		if choice := p.suggested(u, c); choice != gate.No && a.Input == nil {
			a.Option = choice.String() // the suggested rules apply only to the files that were shown
			continue
		}
		update, err := u.gate()
		if err != nil {
			return engine.Answer{}, err
		}
		update.Keep = u.Type == updateAddRules && p.MaySave && u.Destination != destinationSession &&
			slices.Equal(update.Rules, c.Wider) && update.Verdict == permission.Allow && slices.Contains(c.Choices, gate.Always)
		a.Updates = append(a.Updates, update)
	}
	return a, nil
}

// suggestions returns what the host can offer its user for longer: the mode in which the call needs no approval, or
// rules that a person would mean.
func suggestions(c *gate.Request) []permissionUpdate {
	if c.Accepts {
		return []permissionUpdate{{Type: updateSetMode, Mode: string(permission.AcceptEdits),
			Destination: destinationSession}}
	}
	rules := c.Wider
	if len(rules) == 0 {
		rules = c.Rules
	}
	if len(rules) == 0 {
		return nil
	}
	u := permissionUpdate{Type: updateAddRules, Behavior: behaviorAllow, Destination: destinationSession}
	for _, r := range rules {
		u.Rules = append(u.Rules, ruleValueOf(r))
	}
	return []permissionUpdate{u}
}

// suggested returns the choice that corresponds to an update with exactly the suggested rules, or No
// for other updates.
func (p *person) suggested(u permissionUpdate, c *gate.Request) gate.Choice {
	if u.Type != updateAddRules || u.Behavior != behaviorAllow || len(u.Rules) != len(c.Rules) {
		return gate.No
	}
	for i, r := range u.Rules {
		if r.text() != c.Rules[i] {
			return gate.No
		}
	}
	choice := gate.Session
	if p.MaySave && u.Destination != destinationSession && slices.Contains(c.Choices, gate.Always) {
		choice = gate.Always
	}
	if !slices.Contains(c.Choices, choice) {
		return gate.No
	}
	return choice
}

// gate converts an update for the gate.
func (u *permissionUpdate) gate() (gate.Update, error) {
	var out gate.Update
	switch u.Type {
	case updateAddRules, updateRemoveRules, updateReplaceRules:
		out.Remove, out.Replace = u.Type == updateRemoveRules, u.Type == updateReplaceRules
		for _, r := range u.Rules {
			out.Rules = append(out.Rules, r.text())
		}
		if err := out.Verdict.UnmarshalText([]byte(u.Behavior)); err != nil {
			return out, fmt.Errorf("updatedPermissions: %w", err)
		}
	case updateSetMode:
		out.Mode = modeOf(u.Mode)
	case updateAddDirectories, updateRemoveDirectories:
		out.Dirs, out.Remove = u.Directories, u.Type == updateRemoveDirectories
	default:
		return out, fmt.Errorf("updatedPermissions: %q is not supported", u.Type)
	}
	return out, nil
}

// describe describes what a call would do: the commands and paths, and the changes to files.
func describe(c *gate.Request) string {
	var all []string
	for _, x := range c.Subjects {
		if x.Text != "" {
			all = append(all, x.Text)
		}
	}
	for _, ch := range c.Changes {
		all = append(all, ch.Diff)
	}
	for _, f := range c.Files {
		all = append(all, "runs "+f.Path)
	}
	return strings.Join(all, "\n")
}

// sourceOf converts an origin of rules to the name that hosts use.
func sourceOf(o permission.Origin) string {
	switch o {
	case permission.Managed:
		return "policySettings"
	case permission.Flag:
		return "cliArg"
	case permission.Session:
		return "session"
	case permission.Kept:
		return "localSettings"
	case permission.User:
		return "userSettings"
	case permission.Project:
		return "projectSettings"
	}
	return "command" // from a skill, or from the program
}

func sameJSON(a, b json.RawMessage) bool {
	norm := func(data json.RawMessage) []byte {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return data
		}
		out, _ := json.Marshal(v)
		return out
	}
	return bytes.Equal(norm(a), norm(b))
}

// A chooseInput is the input of the tool with which the model asks the user, as hosts show it.
type chooseInput struct {
	Questions []chooseQuestion  `json:"questions"`
	Answers   map[string]string `json:"answers,omitempty"` // by question
}

type chooseQuestion struct {
	Question string         `json:"question"`
	Header   string         `json:"header"`
	Options  []chooseOption `json:"options"`
	Many     bool           `json:"multiSelect"`
}

type chooseOption struct {
	Label       string `json:"label"`
	Description string `json:"description"`
}

// choose asks the host's user the model's questions. The answers are in the returned input.
func (p *person) choose(ctx context.Context, q engine.Question) (engine.Answer, error) {
	in := chooseInput{Questions: []chooseQuestion{}}
	for _, f := range q.Fields {
		c := chooseQuestion{Question: f.Label, Header: cmp.Or(f.Short, f.Label), Many: f.Many, Options: []chooseOption{}}
		for _, o := range f.Options {
			c.Options = append(c.Options, chooseOption{o.Label, o.Help})
		}
		in.Questions = append(in.Questions, c)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return engine.Answer{}, err
	}
	tool := "ask"
	if p.isHost() {
		tool = hostName(p.current(), tool)
	}
	data, err := p.request(ctx, canUseTool{Subtype: subtypeCanUseTool, Tool: tool, Input: input, Call: q.ID,
		Title: q.Title, Kind: reasonOther, Once: true, Interaction: true})
	if err != nil {
		return engine.Answer{}, err
	}
	var answer toolAnswer
	if err := decode(data, &answer); err != nil {
		return engine.Answer{}, fmt.Errorf("the host's answer cannot be read: %w", err)
	}
	p.endTurn(answer)
	var back chooseInput
	if answer.Behavior != behaviorAllow || json.Unmarshal(answer.Input, &back) != nil || len(back.Answers) == 0 {
		return engine.Answer{Declined: true, Reason: answer.Message}, nil
	}
	a := engine.Answer{Values: map[string]json.RawMessage{}}
	for _, f := range q.Fields {
		value, err := json.Marshal(back.Answers[f.Label])
		if err != nil {
			return engine.Answer{}, err
		}
		a.Values[f.Name] = value
	}
	return a, nil
}

// endTurn ends the turn if the host declined a question of the model or its plan and wants that. (For other calls the
// gate does so.)
func (p *person) endTurn(a toolAnswer) {
	if a.Behavior != behaviorDeny || !a.Interrupt {
		return
	}
	p.mu.Lock()
	stop := p.stopTurn
	p.mu.Unlock()
	if stop != nil {
		stop(errors.New("the user ended the run"))
	}
}

// plan asks the host to approve the model's plan.
func (p *person) plan(ctx context.Context, q engine.Question) (engine.Answer, error) {
	input, err := json.Marshal(struct {
		Plan string `json:"plan"`
	}{q.Text})
	if err != nil {
		return engine.Answer{}, err
	}
	data, err := p.request(ctx, canUseTool{Subtype: subtypeCanUseTool, Tool: "ExitPlanMode", Input: input, Call: q.ID,
		Title: q.Title, Kind: reasonOther, Once: true, Suggestions: []permissionUpdate{
			{Type: updateSetMode, Mode: string(permission.AcceptEdits), Destination: destinationSession}}})
	if err != nil {
		return engine.Answer{}, err
	}
	var answer toolAnswer
	if err := decode(data, &answer); err != nil {
		return engine.Answer{}, fmt.Errorf("the host's answer cannot be read: %w", err)
	}
	p.endTurn(answer)
	if answer.Behavior != behaviorAllow {
		return engine.Answer{Declined: true, Reason: answer.Message, Stop: answer.Interrupt}, nil
	}
	a := engine.Answer{Option: cmp.Or(q.Current, engine.OptionYes), Input: answer.Input}
	for _, u := range answer.Updates {
		if u.Type != updateSetMode {
			continue
		}
		if a.Option = engine.OptionYes; permission.Mode(u.Mode) == permission.AcceptEdits {
			a.Option = engine.OptionEdits
		}
	}
	return a, nil
}

// current returns the current session; nil: it has not started yet.
func (s *server) current() *engine.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conversation == nil {
		return nil
	}
	return s.conversation.Session()
}
