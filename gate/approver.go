package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/tool"
)

// An Approver asks a person. It is called for one request at a time and may
// take as long as they need. An error means that nobody answered: the call is
// refused.
type Approver interface {
	Approve(ctx context.Context, r Request) (Answer, error)
}

// ApproverFunc is an Approver of a func.
type ApproverFunc func(context.Context, Request) (Answer, error)

func (f ApproverFunc) Approve(ctx context.Context, r Request) (Answer, error) { return f(ctx, r) }

// A Request is what a person is shown. Everything in it but Rules is
// strangers' text: control characters must be made visible before it reaches a
// terminal.
type Request struct {
	Call     string
	Tool     string // its label for people
	Input    json.RawMessage
	Decision permission.Decision
	Files    []File   // what would run, by content
	Rules    []string // what "for this session" and "always" would allow: the narrowest rules
	Choices  []Choice // those that can be given here
}

// A Choice is an answer's kind. The zero Choice is No.
type Choice uint8

const (
	No      Choice = iota
	Once           // this call
	Session        // what Request.Rules allow, until the session ends
	Always         // what Request.Rules allow, kept beside the project's trust
)

func (c Choice) String() string { return [...]string{"no", "once", "session", "always"}[c] }

// An Answer is what a person says. Reason, with No, is told to the model.
type Answer struct {
	Choice Choice
	Reason string
}

// A Keeper keeps the rules of "always" answers, outside of the repository.
type Keeper interface {
	Kept() ([]Kept, error)
	Keep(...Kept) error
}

// A Kept is a rule, and the content of the files that it was given for.
type Kept struct {
	Rule  string
	Files []File
	Time  time.Time
}

// Consent is the Approver of a person's own call (`knack tool run`): yes to
// this one call, but not to reading secrets.
var Consent Approver = ApproverFunc(func(_ context.Context, r Request) (Answer, error) {
	for _, s := range r.Decision.Subjects {
		if s.Verdict == permission.Ask && s.Kind == "Read" && s.Origin == permission.Builtin {
			return Answer{Reason: s.Text + " is a " + s.Reason}, nil
		}
	}
	return Answer{Choice: Once}, nil
})

// ask asks a person. again says that what was decided on has changed
// meanwhile, so that it must be decided anew.
func (g *Gate) ask(ctx context.Context, t *tool.Tool, id string, input json.RawMessage, scopes []Scope, j judgement, r *Record) (again bool, err error) {
	if g.opt.Approver == nil {
		return false, g.refuse(*r, headless(t.Name, j))
	}
	select {
	case g.answers.asking <- struct{}{}:
		defer func() { <-g.answers.asking }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	// Somebody else's answer may have settled it while this one waited.
	subjects, err := subjectsOf(t, input)
	if err != nil {
		return false, err
	}
	if !j.hook {
		if now := g.decide(scopes, subjects); now.Verdict != permission.Ask {
			return true, nil
		}
	}

	req := Request{
		Call: id, Tool: t.Label, Input: slices.Clone(input), Decision: r.Decision, Files: g.shown(subjects),
		Choices: []Choice{Once},
	}
	if req.Tool == "" {
		req.Tool = t.Name
	}
	if !j.fixed && !j.hook && len(j.Suggest) > 0 {
		req.Rules = j.Suggest
		req.Choices = append(req.Choices, Session)
		if g.opt.Keeper != nil {
			req.Choices = append(req.Choices, Always)
		}
	}
	req.Choices = append(req.Choices, No)

	for range 3 {
		r.Asked = true
		r.Answer, err = g.opt.Approver.Approve(ctx, req)
		if err != nil {
			r.Decision.Verdict = permission.Deny
			r.Decision.Reason = "nobody answered"
			g.audit(*r)
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			return false, &Denied{r.Decision, fmt.Sprintf("%s was not run: nobody answered: %v", t.Name, err)}
		}
		if r.Answer.Choice == No || !slices.Contains(req.Choices, r.Answer.Choice) {
			r.Answer.Choice = No
			r.Decision.Verdict = permission.Deny
			text := "The person said no to this call of " + t.Name
			if r.Answer.Reason != "" {
				text += ": " + r.Answer.Reason
			}
			return false, g.refuse(*r, text)
		}
		changed := false
		for i, f := range req.Files {
			if now := readFile(f.Path); now.Hash != f.Hash {
				now.Old, now.Changed = f.Data, true
				req.Files[i], changed = now, true
			}
		}
		if !changed {
			if err := g.remember(req, r.Answer.Choice); err != nil {
				return false, fmt.Errorf("%s was not run: the answer could not be kept: %w", t.Name, err)
			}
			r.Decision.Verdict = permission.Allow
			return false, nil
		}
		req.Decision.Reason = "a file changed while it was being asked"
	}
	r.Decision.Verdict = permission.Deny
	r.Decision.Reason = "what it would run kept changing while it was being asked"
	return false, g.refuse(*r, denial(t.Name, r.Decision))
}

// remember makes rules of an answer.
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
	for _, text := range req.Rules {
		rule, err := permission.ParseRule(text, origin)
		if err != nil {
			return err
		}
		made = append(made, answer{rule, req.Files})
		kept = append(kept, Kept{Rule: text, Files: req.Files, Time: time.Now().UTC().Truncate(time.Second)})
	}
	if c == Always {
		if err := g.opt.Keeper.Keep(kept...); err != nil {
			return err
		}
	}
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	list := &g.answers.session
	if c == Always {
		list = &g.answers.kept
	}
	for _, m := range made {
		*list = slices.DeleteFunc(*list, func(a answer) bool { return a.rule.String() == m.rule.String() && sharesFile(a.files, m.files) })
		*list = append(*list, m)
	}
	return nil
}

// headless is what a model is told where nobody can be asked.
func headless(name string, j judgement) string {
	why := j.Reason
	if j.Rule != "" {
		why = fmt.Sprintf("the rule %s (%s) wants it asked", j.Rule, j.Origin)
	}
	if why == "" {
		why = "no rule allows it"
	}
	text := fmt.Sprintf("%s was not run: %s, and nobody can be asked", name, why)
	if j.fixed || j.hook {
		return text
	}
	return text + wouldAllow(j.Suggest)
}
