package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// invoke loads a skill and expands its text. Before that it checks that the skill may be loaded,
// and asks which of its broad rules to accept.
func (r *run) invoke(ctx context.Context, in knack.Invocation) (act *knack.Activation, err error) {
	defer func() {
		switch no := (*knack.Refusal)(nil); {
		case err == nil:
			r.debug("skill", "read", "skill", act.Skill.Name, "path", act.Skill.Path, "hash", act.Hash, "characters",
				len(act.Prompt))
		case errors.As(err, &no): // without the message, which may quote arguments
			r.debug("skill", "refused", "skill", in.Name, "code", no.Code)
		default:
			r.debug("skill", "failed", "skill", in.Name, "error", fmt.Sprintf("%T", err))
		}
	}()
	in = r.fillInvocation(in)
	var unseen *knack.Problem
	if s := r.Skills.Catalog().Skill(in.Name); s != nil {
		if r.agents.runs(s) && !in.TextOnly {
			if err := r.agents.mayStart(s.Name); err != nil {
				return nil, err
			}
		}
		if unseen, err = r.admit(ctx, s, &in); err != nil {
			return nil, err
		}
	}
	act, err = r.Skills.Catalog().Invoke(ctx, in)
	if err == nil && unseen != nil {
		act.Problems = append(act.Problems, *unseen)
	}
	return act, err
}

// seen binds the call of a server's skill to the content that a person has seen. If nobody has, only its text counts,
// and the problem says so: a rule for its name is no answer to what the server may write tomorrow.
func seen(review func(SkillCall) Review, s *knack.Skill, asks knack.Asks, in *knack.Invocation) *knack.Problem {
	switch {
	case s.Origin.Kind != knack.MCP || in.TextOnly:
		return nil
	case (asks.Hash != "" || s.Prompt != nil) && !review(SkillCall{Skill: s, By: in.By, Asks: asks}).Unseen:
		in.Hash = cmp.Or(in.Hash, asks.Hash)
		return nil
	}
	in.TextOnly, in.Hash = true, cmp.Or(in.Hash, asks.Hash)
	asks.Denies, asks.Sandbox = nil, nil // what restricts counts
	return &knack.Problem{Code: knack.CodeToolPattern, Severity: knack.Warn, Path: s.Path,
		Message: fmt.Sprintf("only the text of %s is used: nobody has accepted what this version asks for (%s)",
			plain.Line(s.Name), plain.Line(DescribeAsks(asks))),
		Hint: fmt.Sprintf("knack '/%s', which asks you", plain.Line(s.Name))}
}

// admit verifies a skill and asks which of its rules the user accepts, see [Policy.Admit]. It also sets in.Hash,
// which binds the answer to the skill's present content. The problem is that of seen.
func (r *run) admit(ctx context.Context, s *knack.Skill, in *knack.Invocation) (*knack.Problem, error) {
	if r.Policy.Admit == nil {
		return nil, nil
	}
	c := SkillCall{Skill: s, By: in.By}
	asks, err := s.Asks(ctx)
	if err == nil {
		_, err = r.Skills.Catalog().Describe(*in)
	}
	if err == nil { // otherwise Invoke reports why the skill is refused, and nobody is asked
		c.Asks = asks
	}
	if in.Accepted, err = r.Policy.Admit(ctx, c); err != nil {
		return nil, err
	}
	if len(in.Accepted) > 0 {
		in.Hash = cmp.Or(in.Hash, asks.Hash)
	}
	return seen(r.review, s, asks, in), nil
}

// fillInvocation fills in the fields that the run knows.
func (r *run) fillInvocation(in knack.Invocation) knack.Invocation {
	state := r.log.State()
	in.Name = tool.SkillName(in.Name)
	in.View = r.listing.view(state)
	in.Message = r.lastTyped
	in.Builtins = r.Skills.Reserved
	if s := r.Skills.Catalog().Skill(in.Name); s != nil {
		in.TextOnly = in.TextOnly || r.review(SkillCall{Skill: s, By: in.By}).TextOnly
	}
	if r.Skills.Shell != nil {
		in.Shell = r.inlineShell(r.scopes(state))
	}
	if r.Skills.File != nil {
		in.File = func(ctx context.Context, act *knack.Activation, path string) (string, bool, error) {
			return r.Skills.File(r.loading(r.scopes(state), act))(ctx, act, path)
		}
	}
	in.Session = r.snapshot
	in.Vars = maps.Clone(r.Skills.Vars)
	if in.Vars == nil {
		in.Vars = map[string]string{}
	}
	in.Vars["CLAUDE_SESSION_ID"] = r.root().log.ID()
	_, in.Vars["CLAUDE_EFFORT"] = r.effectiveModel(state)
	return in
}

// inlineShell returns the shell for the inline commands of a skill, in which the skill itself is in use.
func (r *run) inlineShell(in Scopes) knack.Shell {
	return func(ctx context.Context, act *knack.Activation, line string, env []string) (string, error) {
		return r.Skills.Shell(r.loading(in, act))(ctx, act, line, env)
	}
}

// loading adds a skill whose text is being loaded to the scopes.
func (r *run) loading(in Scopes, act *knack.Activation) Scopes {
	in.Skills = append(slices.Clip(in.Skills), gate.Skill{Facts: r.review(callOf(act)).Facts, Scope: session.Scope{
		Skill: act.Skill.Name, Grants: act.Grants, Accepted: act.Accepted, Denies: act.Denies, Sandbox: act.Sandbox}})
	return in
}

// activate records the activation of a skill as one entry.
func (r *run) activate(ctx context.Context, act *knack.Activation, by session.Caller, call string, in Input) error {
	sum := sha256.Sum256([]byte(act.Prompt))
	hash := hex.EncodeToString(sum[:])
	state := r.log.State()
	a := session.Activation{
		Skill: act.Skill.Name, Args: act.Args, By: by, Call: call, Hash: hash,
		Notice: act.Notice, Prompt: act.Prompt, Parts: media.Parts(in.Parts), Touched: in.Touched,
		Grants: act.Grants, Denies: act.Denies, Model: act.Model, Effort: act.Effort,
		Retain: act.Skill.Retain, Tokens: tokens(act.Prompt), Present: state.Text(hash),
		Hooks: act.Hooks, Dir: act.Dir, Sandbox: act.Sandbox,
		Problems: slices.Clone(act.Problems), UserOnly: act.Skill.NotModel, Accepted: act.Accepted,
		Server: in.Server,
	}
	if act.Skill.Origin.Kind == knack.MCP {
		a.Server = act.Skill.Origin.Label
	}
	for _, p := range act.Images {
		a.Images = append(a.Images, llm.Part{Media: &llm.Media{MIME: p.MIME, Data: p.Image}})
	}
	a.Images = media.Parts(a.Images)
	review := r.review(callOf(act))
	for _, rule := range act.Grants {
		why := review.Ineffective[rule]
		if why == "" || slices.Contains(act.Accepted, rule) {
			continue
		}
		a.Ignored = append(a.Ignored, rule)
		a.Problems = append(a.Problems, knack.Problem{
			Code: knack.CodeToolPattern, Severity: knack.Warn, Path: act.Skill.Path,
			Message: fmt.Sprintf("allowed-tools: %s is not granted: %s", rule, why),
		})
	}
	if r.Skills.Check != nil {
		a.Problems = append(a.Problems, r.Skills.Check(act.Skill)...)
	}
	if act.Model != "" && act.Model != "inherit" && r.Resolve != nil {
		now, _ := r.effectiveModel(state)
		m, err := r.Resolve(act.Model)
		if err == nil {
			if err = r.maySwitch(ctx, now, m, act.Model, BySkill); err != nil {
				a.Model = "" // the requests of the turn do not ask again
			}
		}
		if err == nil {
			a.Uses = m.Info().ID
		} else {
			a.Uses = now.Info().ID
			a.Problems = append(a.Problems, knack.Problem{
				Code: knack.CodeModelUnknown, Severity: knack.Warn, Path: act.Skill.Path,
				Message: fmt.Sprintf("model %q is not used: %v", act.Model, err),
				Hint:    "the skill runs with " + a.Uses,
			})
		}
	}
	entry, err := r.record(session.Entry{Type: session.TypeActivation, Activation: &a})
	if err != nil {
		return err
	}
	r.debug("skill", "called", "skill", a.Skill, "by", a.By, "tokens", a.Tokens, "grants", a.Granted(), "ignored",
		a.Ignored, "denies", a.Denies, "model", a.Uses, "effort", a.Effort, "present", a.Present)
	if r.reviews == nil {
		r.reviews = map[int]Review{}
	}
	r.reviews[entry.ID] = review
	return r.hooks.activated(ctx, act, by, state)
}

// tokens estimates the number of tokens in s, at 4 bytes per token.
func tokens(s string) int { return (len(s) + 3) / 4 }

// tools returns the tools of the next request: the agent's own, the Agent tool if the agent has
// sub-agents, the Skill tool once a listing was announced, and the dynamic tools. In index mode there
// is no Skill tool; reading a listed SKILL.md calls the skill. The caller may modify the set.
func (r *run) tools(state session.State) tool.Set {
	set := r.fixedTools(state)
	for i := range set {
		if set[i].Unlisted != nil && anyGrants(state.Scopes, &set[i]) {
			set[i].Unlisted = nil
		}
	}
	return append(set, r.dynamic.tools(state)...)
}

// overhead returns the bytes of a request other than its messages.
func (r *run) overhead(state session.State) int {
	n := len(r.System)
	for _, t := range r.tools(state).Specs() {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

// anyGrants reports whether one of the scopes grants t.
func anyGrants(scopes []session.Scope, t *tool.Tool) bool {
	return slices.ContainsFunc(scopes, func(sc session.Scope) bool {
		return slices.ContainsFunc(sc.Grants, func(rule string) bool {
			name, _, _ := strings.Cut(rule, "(")
			return slices.Contains(t.Names(), strings.TrimSpace(name))
		})
	})
}

// fixedTools returns the tools of a request that stay the same during a run.
func (r *run) fixedTools(state session.State) tool.Set {
	if r.fixedSet != nil {
		return slices.Clone(r.fixedSet)
	}
	set := slices.Clone(r.Tools)
	if r.Roster.New != nil && len(r.Roster.Agents) > 0 && !slices.Contains(r.Without, agentTool) &&
		r.agents.mayStart("") == nil {
		set = append(set, r.agents.tool())
	}
	if !r.showsListing() || state.Listing == nil || len(state.Announced) == 0 {
		return set
	}
	if !r.Skills.View.Index {
		set = append(set, tool.Skill(state.Listing.Text, r.skillSubjects, r.callSkill))
	}
	for i := range set {
		if r.Skills.View.Index && set[i].Name == "read" {
			set[i] = tool.ReadSkill(set[i], r.listed, r.skillSubjects, r.callSkill)
		}
	}
	r.fixedSet = set
	return slices.Clone(set)
}

// showsListing reports whether the model gets a list of skills.
func (t *turn) showsListing() bool {
	return t.Skills.Catalog != nil && !slices.Contains(t.Without, "Skill")
}

// skillSubjects returns the permission subjects of a model's call of a skill. Deny and ask rules apply to
// the name in the call as well as to the skill's own name.
func (r *run) skillSubjects(ctx context.Context, name string) []permission.Subject {
	return r.skillSubjectsBy(knack.ByModel)(ctx, name)
}

// skillSubjectsBy is skillSubjects for the calls of a caller. A call that cannot succeed whatever the rules and the
// user say has a subject without a name and a hash, which nothing but a rule for all skills asks about: the call
// reports why it is refused.
func (r *run) skillSubjectsBy(by knack.Caller) tool.SkillSubject {
	return func(ctx context.Context, name string) []permission.Subject {
		s := r.Skills.Catalog().Skill(name)
		if s == nil && r.Skills.Refresh != nil {
			r.Skills.Refresh(ctx, name)
			s = r.Skills.Catalog().Skill(name)
		}
		sub := permission.Subject{Kind: permission.KindSkill, Default: permission.Allow}
		if s == nil {
			sub.Text = name // the call reports that there is none
			return []permission.Subject{sub}
		}
		asks, err := r.usable(ctx, s, name, by)
		if err != nil {
			return []permission.Subject{sub}
		}
		sub.Text, sub.Hash = s.RuleName(), asks.Hash
		review := r.review(SkillCall{Skill: s, By: by, Asks: asks})
		review.ownModel = asks.Model != "" && r.ofProvider(asks.Model)
		review.judge(&sub, asks)
		if sub.Text == name {
			return []permission.Subject{sub}
		}
		return []permission.Subject{sub, {Kind: permission.KindSkill, Text: name, Default: permission.Allow}}
	}
}

// ofProvider reports whether a name means a model of the provider that the conversation is with.
func (t *turn) ofProvider(name string) bool {
	if t.Model == nil || t.Resolve == nil {
		return false
	}
	m, err := t.Resolve(name)
	if err != nil {
		return false
	}
	now, _, _ := strings.Cut(t.Model.Info().ID, "/")
	other, _, _ := strings.Cut(m.Info().ID, "/")
	return now == other
}

// judge sets what the skill of a subject needs consent for.
func (v Review) judge(sub *permission.Subject, asks knack.Asks) {
	if v.TextOnly || v.asksNothingNew(asks) {
		return
	}
	asks.Grants = slices.Clone(asks.Grants)
	for i, rule := range asks.Grants {
		if v.Ineffective[rule] != "" {
			asks.Grants[i] += " (not by this answer)"
		}
	}
	sub.Default, sub.Note = permission.Ask, "the skill "+DescribeAsks(asks)
}

// usable returns what a skill that is called by name asks for. The error says why no such call can succeed, whatever
// the rules and the user say.
func (r *run) usable(ctx context.Context, s *knack.Skill, name string, by knack.Caller) (asks knack.Asks, err error) {
	if err := r.Skills.Catalog().MayInvoke(ctx, r.fillInvocation(knack.Invocation{Name: name, By: by})); err != nil {
		return asks, err
	}
	if r.agents.runs(s) {
		if err := r.agents.mayStart(s.Name); err != nil {
			return asks, err
		}
	}
	if asks, err = s.Asks(ctx); err != nil {
		return asks, err
	}
	if asks.NeverRuns != nil && r.Skills.Shell != nil {
		return asks, &knack.Refusal{Code: knack.RefusedUnread,
			Message: fmt.Sprintf("%s was not loaded: %v", s.Name, asks.NeverRuns)}
	}
	if r.Policy.Verify != nil {
		return asks, r.Policy.Verify(s)
	}
	return asks, nil
}

// asksNothingNew reports whether the call of a skill needs no consent: the skill asks for nothing, or only for
// grants that other rules allow anyway or that have no effect, or for a model of the session's provider.
func (v Review) asksNothingNew(asks knack.Asks) bool {
	if v.ownModel {
		asks.Model = ""
	}
	asks.Grants = slices.DeleteFunc(slices.Clone(asks.Grants), func(rule string) bool {
		return v.Ineffective[rule] != "" || slices.Contains(v.Allowed, rule)
	})
	return asks.IsEmpty()
}

// approved returns the hash of the skill's content that the call of a name was decided on, or an error that
// explains why there is none.
func (r *run) approved(ctx context.Context, subjects []permission.Subject, s *knack.Skill, name string,
	by knack.Caller) (string, error) {
	for _, x := range subjects {
		// A Prompt has no bytes to hash.
		if x.Kind == permission.KindSkill && x.Text == s.RuleName() && (x.Hash != "" || s.Prompt != nil) {
			return x.Hash, nil
		}
	}
	if _, err := r.usable(ctx, s, name, by); err != nil {
		return "", err
	}
	return "", &knack.Refusal{Code: knack.RefusedChanged,
		Message: fmt.Sprintf("the skill %s changed while its call was decided: call it again", s.Name)}
}

// DescribeAsks describes what a skill asks for, such as "allows Read; model haiku". The text comes from
// the skill and is not trusted.
func DescribeAsks(a knack.Asks) string {
	var all []string
	add := func(what string, list ...string) {
		if len(list) > 0 {
			all = append(all, what+" "+strings.Join(list, ", "))
		}
	}
	add("allows", a.Grants...)
	add("denies", a.Denies...)
	add("runs at once", a.Commands...)
	if a.Sandbox != nil {
		add("restricts commands to:", a.Sandbox.String())
	}
	if a.Hooks != nil {
		add("hooks", string(a.Hooks))
	}
	if a.Model != "" {
		add("model", a.Model)
	}
	if a.Shell != "" {
		add("shell", a.Shell)
	}
	if a.Fork {
		all = append(all, "runs in its own agent")
	}
	return strings.Join(all, "; ")
}

// callSkill runs a call of the Skill tool.
func (r *run) callSkill(ctx context.Context, in tool.SkillInput, call tool.Input) (tool.SkillAnswer, error) {
	name := tool.SkillName(in.Skill)
	inv := knack.Invocation{Name: name, Args: in.Args, By: knack.ByModel}
	switch {
	case in.Done:
		return r.releaseDone(ctx, name)
	case in.Finds():
		return r.find(ctx, in.Find)
	case in.Describe:
		text, err := r.Skills.Catalog().Describe(r.fillInvocation(inv))
		return tool.SkillAnswer{Text: text}, err
	}
	if s := r.Skills.Catalog().Skill(name); s != nil {
		hash, err := r.approved(ctx, call.Subjects, s, name, inv.By)
		if err != nil {
			return tool.SkillAnswer{}, err
		}
		inv.Hash = hash
	}
	act, err := r.invoke(ctx, inv)
	if err != nil || !r.agents.runs(act.Skill) {
		return tool.SkillAnswer{Activation: act}, err
	}
	def, problem := r.agents.of(act)
	if err := r.agents.ask(ctx, call.ID, def); err != nil {
		return tool.SkillAnswer{}, err
	}
	end, err := r.agents.delegate(ctx, task{def: def, call: call.ID, act: act, description: act.Notice,
		background: act.Skill.Background})
	if err != nil {
		return tool.SkillAnswer{}, err
	}
	text, err := reportOf(ctx, end)
	if problem != "" && text != "" {
		text = "[" + problem + "]\n" + text
	}
	return tool.SkillAnswer{Text: text, Agent: end.Log}, err
}

// releaseDone releases the text of a skill that the model no longer needs.
func (r *run) releaseDone(ctx context.Context, name string) (tool.SkillAnswer, error) {
	released, err := ReleaseByHand(r.log, name, "the model is done with it")
	if err != nil {
		return tool.SkillAnswer{}, err
	}
	if len(released) == 0 {
		return tool.SkillAnswer{}, &knack.Refusal{Code: knack.RefusedUnknown,
			Message: fmt.Sprintf("the text of the skill %q is not in the conversation", name)}
	}
	var lines []string
	for _, rel := range released {
		r.debug("skill", "released", "skill", rel.Skill, "tokens", rel.Tokens, "why", rel.Reason)
		if err := r.hooks.released(ctx, rel.Skill, rel.Reason); err != nil {
			return tool.SkillAnswer{}, err
		}
		lines = append(lines, rel.Line())
	}
	return tool.SkillAnswer{Text: strings.Join(lines, "\n")}, nil
}

// withRecordedStart returns t with its start written to disk before it runs, so that a call that may have
// taken effect is never repeated. A read-only tool is returned unchanged.
func (r *run) withRecordedStart(t tool.Tool, started func()) tool.Tool {
	if t.Effect.ReadOnly() {
		return t
	}
	start := t.Run
	t.Run = func(ctx context.Context, in tool.Input) (tool.Result, error) {
		_, err := r.log.Append(session.Entry{Type: session.TypeStarted, Started: &session.Started{Call: in.ID, Name: t.Name}})
		if err == nil {
			err = r.log.Sync()
		}
		if err != nil {
			return tool.Result{}, fmt.Errorf("%s was not run, because the session cannot be written: %w", t.Name, err)
		}
		started()
		return start(ctx, in)
	}
	return t
}
