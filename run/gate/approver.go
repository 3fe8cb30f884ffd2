package gate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/tool"
)

// An Approver asks the user. It is called for one request at a time and may take as long as the
// user needs. An error means that there is no answer: the call is refused. If the error is a
// *[Denied], its text goes to the model.
type Approver interface {
	Approve(ctx context.Context, r Request) (Answer, error)
}

// An ApproverFunc is a function used as an Approver.
type ApproverFunc func(context.Context, Request) (Answer, error)

func (f ApproverFunc) Approve(ctx context.Context, r Request) (Answer, error) { return f(ctx, r) }

// A Request is what the user must be shown, completely: what is not shown must not be approved.
// Everything in it except Rules may be untrusted text, so control characters must be escaped before
// it reaches a terminal.
type Request struct {
	Call     string // the id of the call
	Name     string // of the tool
	Tool     string // its label
	Agent    string // the sub-agent that makes the call; "": the session itself
	Dir      string // the working directory; absolute
	Input    json.RawMessage
	Subjects []permission.Subject // what the call would do, as its tool describes it: whole command lines
	Decision permission.Decision  // the decision on each part of the call
	Changes  []tool.Change        // to files, as the call would make them
	Files    []File               // scripts that would run, with their content
	Rules    []string             // the narrowest rules that would allow the call; Session and Always store them
	Line     bool                 // the answers Session and Always are for exactly this command line
	Wider    []string             // what a person may mean in place of Rules, see permission.Wider; nil: nothing else
	Choices  []Choice             // the choices available for this request
	Edits    bool                 // it only changes files, and the mode AcceptEdits would allow it
	Hosts    []Host               // that the command reaches, as far as its words say; an answer opens them, too
	Accepts  bool                 // the mode AcceptEdits would allow it: Edits, or a command that only changes files

	home string // the user's; absolute, or ""
}

// dangerous reports whether a subject is a command line with a part that must not be approved for other lines.
func dangerous(s permission.Subject) bool {
	return s.IsCommand() && len(permission.Dangers(s.Text)) > 0
}

// runsGiven reports whether a rule is one that no answer makes, see [permission.Rule.RunsGiven].
func runsGiven(text string) bool {
	r, err := permission.ParseRule(text, permission.Session)
	return err != nil || r.RunsGiven()
}

// Title returns a one-line question in plain words: whether to allow the call.
func (r *Request) Title() string {
	title := "Use " + r.Tool + "?"
	if server, name, ok := strings.Cut(strings.TrimPrefix(r.Tool, "mcp__"), "__"); ok &&
		strings.HasPrefix(r.Tool, "mcp__") {
		title = "Use " + name + " of the MCP server " + server + "?"
	}
	command := slices.ContainsFunc(r.Subjects, permission.Subject.IsCommand)
	switch {
	case len(r.Changes) == 1:
		title = verb(r.Changes[0]) + " " + r.Short(r.Changes[0].Path) + "?"
	case command && r.Tool == "bash":
		title = "Run this command?"
	case command:
		title = "Run this " + r.Tool + "?"
	case len(r.Subjects) == 1 && r.Subjects[0].Question != "":
		title = r.Subjects[0].Question
	case len(r.Subjects) == 1 && r.Subjects[0].Text != "":
		what := r.Subjects[0].Text
		switch r.Subjects[0].Kind {
		case permission.KindRead:
			title = "Read " + r.Short(what) + "?"
		case permission.KindSkill:
			title = "Use the skill " + what + "?"
		case permission.KindAgent:
			title = "Start the agent " + what + "?"
		case permission.KindWebFetch:
			title = "Fetch " + what + "?"
		}
	}
	if r.Agent != "" {
		title += " (agent " + r.Agent + ")"
	}
	return title
}

// verb returns what a change does to its file.
func verb(c tool.Change) string {
	switch {
	case c.Created:
		return "Create"
	case c.Replaced != "":
		return "Replace"
	}
	return "Change"
}

// A Choice is what the user chose. The zero Choice is No.
type Choice uint8

const (
	No      Choice = iota
	Once           // this call
	Session        // what Request.Rules allow, until the session ends
	Always         // what Request.Rules allow, from now on: stored with the project's trust
)

func (c Choice) String() string { return [...]string{"no", "once", "session", "always"}[c] }

// An Answer is the user's answer to a Request.
type Answer struct {
	Choice Choice
	Reason string // with No: passed to the model
	// Input, with Once, replaces the call's input. The new input is decided again, and a deny rule
	// still applies. nil: the input that was shown.
	Input json.RawMessage
	// Updates apply from this call on, until the session ends.
	Updates []Update
	Stop    bool // with No: the run ends
}

// An Update changes permissions for the rest of a session.
type Update struct {
	Rules   []string // permission rules
	Verdict permission.Verdict
	Keep    bool            // Rules that allow also apply in later sessions
	Mode    permission.Mode // "": unchanged. Bypass is possible only if the Gate was started in it
	Dirs    []string        // absolute; treated as part of the workspace
	// Remove takes back Rules and Dirs. Replace takes back all other rules with the Verdict. Both affect only what updates
	// of this session added.
	Remove, Replace bool
}

// A Keeper stores the rules of "always" answers outside the repository.
type Keeper interface {
	Kept() ([]Kept, error)
	Keep(...Kept) error
}

// A Kept is a stored rule with the files whose content it is bound to.
type Kept struct {
	Rule  string
	Line  string // the only command line that it allows; "": any
	Files []File
	Time  time.Time
}

// Typed is the Approver for a call that the user typed. Typing counts as approval,
// except where an explicit answer is needed: for a managed ask rule, for secrets and for protected paths. It is for
// calls that the user types, such as a command after an exclamation mark; what the user writes to the model is
// agent.Typed, which approves nothing.
var Typed Approver = typed{}

type typed struct{}

func (typed) Approve(_ context.Context, r Request) (Answer, error) {
	for _, s := range r.Decision.Subjects {
		if s.Verdict != permission.Ask {
			continue
		}
		switch {
		case s.Origin == permission.Managed:
			return Answer{}, &Denied{Text: fmt.Sprintf("%s was not run: the managed rule %s requires approval for %s", r.Tool,
				s.Rule, s.Text)}
		case s.Origin == permission.Builtin && (s.Kind == permission.KindRead || s.Kind == permission.KindEdit):
			return Answer{}, &Denied{Text: fmt.Sprintf("%s was not run: %s: %s", r.Tool, s.Text, s.Reason)}
		}
	}
	return Answer{Choice: Once}, nil
}

// askUser asks the user. again means that the call must be decided again, because its files or its
// input changed, or because an answer to another call now covers it.
func (a *approval) askUser(ctx context.Context, judged judgement) (_ tool.Permit, again bool, err error) {
	none := tool.Permit{}
	if a.opt.Approver == nil {
		// No rule helps a change that cannot be made.
		if _, err := a.call.Changes(ctx, a.call.Input); err != nil {
			if subjects, unnamed := a.call.SubjectsFor(ctx, a.call.Input); unnamed == nil {
				return none, false, a.refuseUnshown(ctx, subjects, err)
			}
		}
		if subjects, unnamed := a.call.SubjectsFor(ctx, a.call.Input); unnamed == nil && len(judged.Suggest) > 0 {
			_, rules := a.hostsToAsk(ctx, subjects)
			judged.Suggest = slices.Concat(judged.Suggest, rules)
		}
		return none, false, a.refuse(a.record, noAnswerText(a.call.Name, judged))
	}
	select {
	case a.answers.asking <- struct{}{}:
		defer func() { <-a.answers.asking }()
	case <-ctx.Done():
		return none, false, context.Cause(ctx)
	}
	// An answer to another call may have decided this one while it waited.
	subjects, err := a.call.SubjectsFor(ctx, a.call.Input)
	if err != nil {
		return none, false, err
	}
	if !judged.askedByHook {
		if now := a.decide(ctx, a.scopes, subjects); now.Verdict != permission.Ask {
			return none, true, nil
		}
	}
	req := Request{
		Call: a.call.ID, Name: a.call.Name, Tool: cmp.Or(a.call.Label, a.call.Name), Agent: a.opt.Agent,
		Dir: a.opt.Paths.Dir, home: a.opt.Paths.Home, Input: slices.Clone(a.call.Input),
		Subjects: slices.Clone(subjects), Decision: a.record.Decision, Files: a.filesOf(subjects), Choices: []Choice{Once},
	}
	req.Line = slices.ContainsFunc(subjects, dangerous)
	if !judged.noAllow && !judged.askedByHook && len(judged.Offers()) > 0 &&
		(!req.Line && !slices.ContainsFunc(judged.Suggest, runsGiven) || req.Line && commandLine(subjects) != "") {
		req.Rules = judged.Suggest
		req.Choices = append(req.Choices, Session)
		if a.opt.Keeper != nil {
			req.Choices = append(req.Choices, Always)
		}
	}
	req.Choices = append(req.Choices, No)
	var hostRules []string
	if req.Hosts, hostRules = a.hostsToAsk(ctx, subjects); len(req.Rules) > 0 {
		req.Rules = slices.Concat(req.Rules, hostRules)
	}
	if req.Changes, err = a.call.Changes(ctx, a.call.Input); err != nil {
		return none, false, a.refuseUnshown(ctx, subjects, err)
	}

	if a.opt.Agent == "" && a.Mode() == permission.Default && !judged.noAllow && !judged.askedByHook {
		d := a.opt.Rules.Decide(ctx, permission.AcceptEdits, a.opt.Paths, subjects...)
		req.Accepts = d.Verdict == permission.Allow
		req.Edits = req.Accepts && len(req.Changes) > 0
	}
	req.Wider = a.wider(ctx, &req)
	for range 3 {
		if err := a.approve(ctx, &req); err != nil {
			return none, false, err
		}
		if in := a.record.Answer.Input; in != nil && !bytes.Equal(in, a.call.Input) {
			return a.decideReplaced(ctx, in)
		}
		changed, err := a.updateChanged(ctx, &req)
		if err != nil {
			return none, false, err
		}
		if !changed {
			if err := a.deniedMeanwhile(ctx, subjects); err != nil {
				return none, false, err
			}
			if err := a.remember(req, a.record.Answer.Choice); err != nil {
				return none, false, fmt.Errorf("%s was not run: the answer could not be stored: %w", a.call.Name, err)
			}
			a.record.Decision.Verdict, a.hosts = permission.Allow, req.Hosts
			for i := range subjects {
				for _, c := range req.Changes {
					if subjects[i].Kind == permission.KindEdit && c.Base != "" {
						subjects[i].Hash = c.Base
					}
				}
			}
			permit := tool.Permit{Input: a.call.Input, Subjects: subjects,
				Scripts: a.bindScripts(ctx, subjects, req.Files)}
			return permit, false, nil
		}
		req.Decision.Reason = "a file changed while the user was asked"
	}
	a.record.Decision.Verdict, a.record.Decision.Reason = permission.Deny, reasonKeptChanging
	return none, false, a.refuse(a.record, denial(a.call.Name, a.record.Decision))
}

// refuseUnshown refuses a call whose change cannot be shown, because nobody could approve it knowingly.
// The reason is returned only if the model may read the file, since it can reveal content.
func (a *approval) refuseUnshown(ctx context.Context, subjects []permission.Subject, err error) error {
	read := slices.Clone(subjects)
	for i := range read {
		read[i].Kind, read[i].Tool, read[i].Aliases = permission.KindRead, "read", nil
	}
	if a.decide(ctx, a.scopes, read).Verdict == permission.Allow {
		return err
	}
	a.record.Decision.Verdict, a.record.Decision.Reason = permission.Deny,
		"the change does not fit the file, so it cannot be shown and approved"
	return a.refuse(a.record, denial(a.call.Name, a.record.Decision))
}

// approve asks the user and applies the answer. An error refuses the call.
func (a *approval) approve(ctx context.Context, req *Request) (err error) {
	a.record.Asked = true
	a.record.Answer, err = a.opt.Approver.Approve(ctx, *req)
	if err != nil {
		a.record.Decision.Verdict, a.record.Decision.Reason = permission.Deny, "nobody answered"
		a.audit(a.record)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		no := &Denied{Text: fmt.Sprintf("%s was not run: the question was not answered: %v", a.call.Name, err)}
		errors.As(err, &no)
		return &Denied{Decision: a.record.Decision, Text: no.Text}
	}
	if err := a.update(a.record.Answer.Updates); err != nil {
		a.record.Decision.Verdict, a.record.Decision.Reason = permission.Deny, "the answer cannot be applied: "+err.Error()
		return a.refuse(a.record, a.call.Name+" was not run: "+a.record.Decision.Reason)
	}
	if a.record.Answer.Choice != No && slices.Contains(req.Choices, a.record.Answer.Choice) {
		return nil
	}
	a.record.Answer.Choice = No
	a.record.Decision.Verdict = permission.Deny
	text := "The user declined this call of " + a.call.Name
	if a.opt.Approver == Typed { // the user typed the call
		text = a.call.Name + " was not run"
	}
	if a.record.Answer.Reason != "" {
		text += ": " + a.record.Answer.Reason
	}
	no := a.refuse(a.record, text)
	no.Line = "you declined"
	if a.record.Answer.Reason != "" {
		no.Line += ": " + a.record.Answer.Reason
	}
	no.Stop = a.record.Answer.Stop
	return no
}

// decideReplaced decides on an input that the user wrote in place of the one shown. The user has thereby
// approved it, unless it is denied. again means that the user must still be asked, because of a
// rule, a secret or a protected path.
func (a *approval) decideReplaced(ctx context.Context, input json.RawMessage) (_ tool.Permit, again bool, err error) {
	a.call.Input = bytes.Clone(input)
	subjects, err := a.call.SubjectsFor(ctx, a.call.Input)
	if err != nil {
		return tool.Permit{}, false, err
	}
	a.record.Answer.Choice = Once // the user has not seen rules for this input
	if err := a.deniedMeanwhile(ctx, subjects); err != nil {
		return tool.Permit{}, false, err
	}
	judged := a.decide(ctx, a.scopes, subjects)
	a.record.Decision = judged.Decision
	switch {
	case a.record.Decision.Verdict == permission.Deny:
		return tool.Permit{}, false, a.refuse(a.record, denial(a.call.Name, a.record.Decision))
	case a.record.Decision.Verdict == permission.Ask && judged.noHook:
		if a.vote == hook.Allow { // that vote was for the previous input
			a.vote = hook.Nothing
		}
		return tool.Permit{}, true, nil
	}
	a.record.Decision.Verdict = permission.Allow
	return tool.Permit{Input: a.call.Input, Subjects: subjects}, false, nil
}

// deniedMeanwhile refuses a call that a rule denies which was written while the user was asked.
func (a *approval) deniedMeanwhile(ctx context.Context, subjects []permission.Subject) error {
	if a.opt.Denied == nil {
		return nil
	}
	rules := permission.Rules{Deny: a.opt.Denied()}
	now := rules.Decide(ctx, permission.Bypass, a.opt.Paths, subjects...)
	if now.Verdict != permission.Deny {
		return nil
	}
	a.record.Decision = now
	return a.refuse(a.record, denial(a.call.Name, now))
}

// wider returns the rules of Request.Wider. Scripts are approved by their content, so that there are none for them.
func (a *approval) wider(ctx context.Context, req *Request) []string {
	if len(req.Rules) == 0 || len(req.Files) > 0 || req.Line {
		return nil
	}
	home, place := a.opt.Paths.Home, a.opt.Paths
	wide := permission.Wider(req.Rules, func(dir string) bool {
		return home != "" && subpath.Contains(dir, home) || subpath.Contains(dir, place.Dir) ||
			subpath.Contains(place.Dir, dir) || strings.Count(dir, "/") < 2
	})
	if slices.Equal(wide, req.Rules) {
		return nil
	}
	rules := a.opt.Rules
	for _, text := range wide {
		r, err := permission.ParseRule(text, permission.Session)
		if err != nil {
			return nil
		}
		rules.Allow = append(slices.Clone(rules.Allow), r)
	}
	if rules.Decide(ctx, a.Mode(), place, req.Subjects...).Verdict != permission.Allow {
		return nil // it is about more than these rules cover, such as an option that runs other code
	}
	return wide
}

// updateChanged reports whether anything that the user was shown has changed since, and updates the
// request.
func (a *approval) updateChanged(ctx context.Context, req *Request) (changed bool, err error) {
	for i, f := range req.Files {
		if now := readFile(f.Path); now.Hash != f.Hash {
			now.Old, now.Changed, now.names = f.Data, true, f.names
			req.Files[i], changed = now, true
		}
	}
	changes, err := a.call.Changes(ctx, a.call.Input)
	if err != nil {
		return false, fmt.Errorf("%s was not run: the file changed while the user was asked: read it again", a.call.Name)
	}
	if !slices.Equal(changes, req.Changes) {
		req.Changes, changed = changes, true
	}
	return changed, nil
}

// update applies permission changes for the rest of the session.
func (g *Gate) update(updates []Update) error {
	var changes []func(*answers) // all or none
	var kept []Kept
	var mode permission.Mode // "": unchanged. That of a sub-agent is not the session's, which SetMode sets
	for _, u := range updates {
		var rules []permission.Rule
		var dirs []string
		for _, text := range u.Rules {
			rule, err := permission.ParseRule(text, permission.Session)
			if err != nil {
				return err
			}
			if u.Verdict == permission.Allow && !u.Remove {
				if p, ok := rule.AllowProblem(); ok {
					return errors.New(p.Message)
				}
				if u.Keep && g.opt.Keeper != nil && !rule.RunsGiven() { // such a rule is for this session
					kept = append(kept, Kept{Rule: text, Time: time.Now().UTC().Truncate(time.Second)})
				}
			}
			rules = append(rules, rule)
		}
		for _, d := range u.Dirs {
			if !filepath.IsAbs(d) {
				return fmt.Errorf("the directory %q is not absolute", d)
			}
			dirs = append(dirs, filepath.Clean(d))
		}
		if u.Mode != "" {
			m, err := permission.ParseMode(string(u.Mode))
			if err != nil {
				return err
			}
			if m == permission.Bypass && g.opt.Mode != permission.Bypass {
				return errors.New("the mode bypass can only be chosen when the program starts")
			}
			mode = m
		}
		changes = append(changes, func(a *answers) { a.change(u, rules, dirs) })
	}
	if len(kept) > 0 {
		if err := g.opt.Keeper.Keep(kept...); err != nil {
			return err
		}
	}
	if mode != "" {
		g.SetMode(mode)
	}
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	for _, change := range changes {
		change(g.answers)
	}
	return nil
}

// change applies the rules and directories of an update. a.mu is locked.
func (a *answers) change(u Update, rules []permission.Rule, dirs []string) {
	given := map[string]bool{}
	for _, r := range rules {
		given[r.String()] = true
	}
	gone := func(r permission.Rule) bool { return u.Replace || u.Remove && given[r.String()] }
	if u.Replace || u.Remove {
		switch u.Verdict {
		case permission.Allow:
			a.sessionAnswers = slices.DeleteFunc(slices.Clone(a.sessionAnswers), func(x answer) bool { return gone(x.rule) })
		case permission.Deny:
			a.denyRules = slices.DeleteFunc(slices.Clone(a.denyRules), gone)
		default:
			a.askRules = slices.DeleteFunc(slices.Clone(a.askRules), gone)
		}
	}
	if u.Remove {
		a.dirs = slices.DeleteFunc(slices.Clone(a.dirs), func(d string) bool { return slices.Contains(dirs, d) })
		return
	}
	switch u.Verdict {
	case permission.Allow:
		for _, r := range rules {
			a.sessionAnswers = append(a.sessionAnswers, answer{rule: r, anyContent: true})
		}
	case permission.Deny:
		a.denyRules = append(a.denyRules, rules...)
	default:
		a.askRules = append(a.askRules, rules...)
	}
	a.dirs = append(a.dirs, dirs...)
}

// remember turns the answers Session and Always into rules.
func (g *Gate) remember(req Request, c Choice) error {
	if c != Session && c != Always {
		return nil
	}
	origin := permission.Session
	if c == Always {
		origin = permission.Kept
	}
	var made []answer
	var kept []Kept
	line := ""
	if req.Line {
		line = commandLine(req.Subjects)
	}
	for _, text := range req.Rules {
		rule, err := permission.ParseRule(text, origin)
		if err != nil {
			return err
		}
		files := req.Files
		if rule.Tool == string(permission.KindNetwork) {
			files = nil // a host does not depend on them
		}
		made = append(made, answer{rule: rule, files: files, line: line})
		kept = append(kept, Kept{Rule: text, Line: line, Files: files, Time: time.Now().UTC().Truncate(time.Second)})
	}
	if c == Always {
		if err := g.opt.Keeper.Keep(kept...); err != nil {
			return err
		}
	}
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	list := &g.answers.sessionAnswers
	if c == Always {
		list = &g.answers.keptAnswers
	}
	for _, m := range made {
		*list = slices.DeleteFunc(*list, func(a answer) bool {
			return a.rule.String() == m.rule.String() && a.line == m.line &&
				sharesFile(a.files, m.files)
		})
		*list = append(*list, m)
	}
	return nil
}

// noAnswerText returns the text for the model if the user cannot be asked.
func noAnswerText(name string, judged judgement) string {
	why := cmp.Or(judged.Reason, "no rule allows it")
	if judged.Rule != "" {
		why = fmt.Sprintf("the rule %s (%s) requires approval", judged.Rule, judged.Origin)
	}
	text := fmt.Sprintf("%s was not run: %s, and there is no user to ask", name, why)
	if judged.noAllow || judged.askedByHook {
		return text
	}
	return text + wouldAllow(judged.Reason, judged.Suggest)
}
