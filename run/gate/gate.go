// Package gate decides each call by hooks, rules and the user, and binds approvals to the content
// that was shown.
//
// [New] takes the rules, mode and directories of a session, and an [Approver] if the user can be
// asked. [Gate.Ask] decides a call; [Gate.With] also applies the skills and hooks in use. Without
// an Approver, a call that needs the user's answer is refused, and the refusal names a rule that
// would allow it.
//
// A call goes through these steps: PreToolUse hooks, the permission subjects of the resulting
// input, the decision by rules, PermissionRequest hooks, the Approver. The input returned is
// exactly the one decided on. An input that a hook or the user changed is decided again. Every
// decision is passed to Options.Audit.
//
// An approval is bound to the content that was shown. If a command runs scripts, an answer "for
// this session" or "always" applies only while these files are unchanged, and a changed file is
// shown again with its diff. If a call changes a file, the diff is shown before the user answers,
// and the call runs only if the file still has the content from which the diff was made.
//
// Most programs start with package engine, the whole agent with settings, trust and approvals; examples/host is one.
package gate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/tool"
)

// Options configure a Gate. The zero Options have no rules and no Approver: only calls that need no
// permission are allowed.
type Options struct {
	// What the settings of a project say; see [Gate.Replace].
	Rules   permission.Rules // also those of the command line
	Paths   permission.PathContext
	Ceiling Ceiling // skills.enforceAllowedTools
	// Denied returns the deny rules of the settings as they are now. They count for a call about which the user was
	// being asked when they appeared; nil: only those of Rules do.
	Denied func() []permission.Rule

	Mode     permission.Mode // "": Default
	Approver Approver        // nil: the user cannot be asked
	Keeper   Keeper          // nil: "always" is not offered
	Network  Network         // about connections of commands
	// OnlyManaged means that skills grant nothing, apart from those with SkillFacts.Vouched.
	OnlyManaged bool
	// Most limits the mode, whatever is set: to it or a stricter one. "": it is not limited.
	Most permission.Mode
	// Nested are those limits of runs that commands start which the Gate does not know: all but Mode and Rules.
	Nested permission.Limits
	Agent  string // the sub-agent that makes the calls; "": the session itself

	// Audit is called with every decision, one at a time, before the call runs; nil: decisions are not recorded. It
	// must not call the Gate.
	Audit func(Record)
	// Require is called with every decision before Audit, one at a time. An error refuses the call and ends the run; it
	// must not call the Gate. nil: nothing is required.
	Require func(Record) error
}

// A Ceiling decides whether the allowed-tools of a skill in use restrict what may run, in addition
// to granting it. The zero Ceiling does not restrict.
type Ceiling string

const (
	CeilingOff Ceiling = "off"
	CeilingAsk Ceiling = "ask" // the user is asked about calls that the list does not name
	CeilingOn  Ceiling = "on"  // calls that the list does not name are denied
)

// A Record describes the decision on one call.
type Record struct {
	Call     string
	Tool     string
	Agent    string              // the sub-agent that made the call; "": the session itself
	Decision permission.Decision // the verdict is Allow or Deny, or Ask if the user could not be asked
	Asked    bool                // the user was asked
	Answer   Answer              // the user's
	Hook     string              // the event whose hook voted: PreToolUse or PermissionRequest; "": none
	// Permit is that of a call that may run, which may open more than the decision names; nil: it may not run.
	Permit *tool.Permit
	// Strangers says whose text, other than the user's and the project's, the result may contain if the call runs: see
	// [tool.Tool.TextOf]. "": nobody's.
	Strangers string
}

// A Denied is the error for a call that may not run. Its text is for the model.
type Denied struct {
	Decision permission.Decision
	Text     string
	Stop     bool   // the user wants the run to end
	Ends     string // why the program ends the run; "": it does not
	Line     string // for people; "": it follows from Decision
}

// People describes the refusal in one line for the user. It may contain untrusted text.
func (d *Denied) People() string {
	switch by := d.Decision; {
	case d.Line != "":
		return "refused: " + d.Line
	case by.Rule != "" && by.Verdict == permission.Deny:
		return "refused by the rule " + by.Rule
	case by.Reason != "":
		return "refused: " + by.Reason
	}
	return "refused"
}

func (d *Denied) Error() string { return d.Text }

// A Gate decides the calls of a session and stores what changes during it: the mode and the user's
// answers. It is safe for concurrent use; the user is asked one question at a time.
type Gate struct {
	opt     Options
	answers *answers // of the session; shared with Gates made by ForAgent and Replace
	session *mode    // shared in the same way
	mode    func() permission.Mode
	moved   *atomic.Pointer[Gate] // see Move

	uncounted []string // see Uncounted
}

// A mode is the permission mode of a session.
type mode struct {
	mu  sync.Mutex
	now permission.Mode
}

func (m *mode) get() permission.Mode {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// answers are the rules made by answers in this session, and the stored ones.
type answers struct {
	asking   chan struct{} // contains a token while the user is being asked
	auditing sync.Mutex

	mu                  sync.Mutex
	sessionAnswers      []answer
	keptAnswers         []answer
	askRules, denyRules []permission.Rule // added in this session
	dirs                []string          // treated as part of the workspace
}

// An answer is a rule made by an answer of the user.
type answer struct {
	rule       permission.Rule
	files      []File // the files whose content it is bound to
	line       string // the only command line that it allows; "": any
	anyContent bool   // it is bound to no files, because the user wrote the rule
}

// New returns the Gate of a session. The error comes from the Keeper or is about a stored rule.
func New(options Options) (*Gate, error) {
	if options.Mode == "" {
		options.Mode = permission.Default
	}
	shared := &mode{now: options.Mode}
	g := &Gate{opt: options, session: shared, mode: shared.get, answers: &answers{asking: make(chan struct{}, 1)},
		moved: new(atomic.Pointer[Gate])}
	if options.Keeper == nil {
		return g, nil
	}
	stored, err := options.Keeper.Kept()
	if err != nil {
		return nil, err
	}
	for _, k := range stored {
		rule, err := permission.ParseRule(k.Rule, permission.Kept)
		if err != nil {
			return nil, fmt.Errorf("a stored rule: %w", err)
		}
		if k.Line == "" && len(k.Files) == 0 && rule.RunsGiven() {
			g.uncounted = append(g.uncounted, rule.String())
			continue
		}
		g.answers.keptAnswers = append(g.answers.keptAnswers, answer{rule: rule, files: k.Files, line: k.Line})
	}
	return g, nil
}

// Uncounted returns the stored rules that do not count, because they are about programs that run what they read or are
// given: see [permission.Rule.RunsGiven].
func (g *Gate) Uncounted() []string { return slices.Clone(g.uncounted) }

// Mode returns the current mode.
func (g *Gate) Mode() permission.Mode { return permission.Stricter(g.mode(), g.opt.Most) }

// SetMode changes the mode of the session, and thereby that of its sub-agents.
func (g *Gate) SetMode(m permission.Mode) {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	g.session.now = m
}

// ForAgent returns the Gate of the sub-agent named agent. It has the same rules, answers and Approver,
// and calls audit (nil: the audit function of g). Its mode is derived from that of g at each
// decision by derive; nil: it is the same.
func (g *Gate) ForAgent(agent string, derive func(permission.Mode) permission.Mode, audit func(Record)) *Gate {
	child := *g.current()
	child.moved = new(atomic.Pointer[Gate])
	child.opt.Agent = agent
	if audit != nil {
		child.opt.Audit = audit
	}
	if derive != nil {
		child.mode = func() permission.Mode { return derive(g.Mode()) }
	}
	return &child
}

// Replace returns a Gate with the Rules, Paths, Ceiling, Denied, OnlyManaged, Network, Most and Nested of with. All
// else is that of g, also the mode and the answers, which both Gates share.
func (g *Gate) Replace(with Options) *Gate {
	next := *g
	next.moved = new(atomic.Pointer[Gate])
	next.opt.Rules, next.opt.Paths, next.opt.Ceiling, next.opt.Denied = with.Rules, with.Paths, with.Ceiling, with.Denied
	next.opt.OnlyManaged, next.opt.Network = with.OnlyManaged, with.Network
	next.opt.Most, next.opt.Nested = with.Most, with.Nested
	return &next
}

// Move makes With and Ask decide the calls from now on as those of to, because the session works in another directory.
// Gates that were made from g before stay as they are.
func (g *Gate) Move(to *Gate) { g.moved.Store(to) }

// current returns the Gate to which g was moved, or g.
func (g *Gate) current() *Gate {
	if to := g.moved.Load(); to != nil {
		return to
	}
	return g
}

// SessionRules returns the allow rules made by answers of this session.
func (g *Gate) SessionRules() []permission.Rule {
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	return rulesOf(g.answers.sessionAnswers)
}

// KeptRules returns the rules made by "always" answers that apply here.
func (g *Gate) KeptRules() []permission.Rule {
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	return rulesOf(g.answers.keptAnswers)
}

// rulesOf returns the rules of answers, without those for one command line.
func rulesOf(answers []answer) []permission.Rule {
	rules := make([]permission.Rule, 0, len(answers))
	for _, a := range answers {
		if a.line == "" {
			rules = append(rules, a.rule)
		}
	}
	return rules
}

// Ask decides a call without skills and hooks in use.
func (g *Gate) Ask(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
	return g.With(Scopes{}).Ask(ctx, p)
}

// With returns g with the skills, restrictions and hooks in use.
func (g *Gate) With(in Scopes) tool.Gate {
	scopes := in.parse(g.opt.Ceiling)
	return tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
		g := g.current()
		a := approval{Gate: g, in: in, scopes: scopes, call: p, record: Record{Call: p.ID, Tool: p.Name}}
		a.call.Input = bytes.Clone(p.Input) // a private copy: it is decided on and run unchanged
		permit, err := a.decideCall(ctx)
		for _, s := range scopes {
			permit.Limits = append(permit.Limits, s.Limits...)
		}
		if err != nil {
			return permit, err
		}
		permit.Allow = a.sandboxAllowance(permit.Subjects)
		a.openNetwork(ctx, &permit)
		permit.Allow.Denied, permit.Allow.Nested = a.denied(), a.nested
		permit.Allow.Secrets = a.secretsFor(ctx, permit.Subjects)
		permit.Closed, permit.Output = g.closed(scopes, p), g.opt.Paths.Output
		a.record.Permit = &permit
		if p.Tool != nil {
			a.record.Strangers = p.Tool.TextOf(permit.Input)
		}
		if err := a.audit(a.record); err != nil {
			return tool.Permit{}, a.unrecorded(err)
		}
		return permit, nil
	})
}

// secretsFor returns what gives the commands of an allowed call the secrets of the skills in use; nil: nothing does.
func (a *approval) secretsFor(ctx context.Context, call []permission.Subject) func(context.Context,
	workspace.Command) (workspace.Secrets, error) {
	var sum workspace.Allowance
	for _, s := range a.scopes {
		if s.Secrets != nil && slices.ContainsFunc(call, permission.Subject.Runs) {
			sum = sum.Union(workspace.Allowance{Secrets: s.Secrets(ctx, call)})
		}
	}
	if sum.Secrets == nil || !a.opt.Network.Managed {
		return sum.Secrets
	}
	return func(ctx context.Context, c workspace.Command) (workspace.Secrets, error) {
		s, err := sum.Secrets(ctx, c)
		for i := range s.Limits { // only an administrator opens hosts
			s.Limits[i].Open = false
		}
		return s, err
	}
}

// denied returns a func that finds the files that deny rules keep from the commands of a call; nil if there are none.
func (a *approval) denied() func() (workspace.DeniedFiles, error) {
	from := a.newGrounds(a.scopes, nil)
	if !from.fixed.DenyFiles() {
		return nil
	}
	return func() (workspace.DeniedFiles, error) {
		d, err := from.fixed.DeniedFiles(context.Background(), from.place)
		return workspace.DeniedFiles(d), err
	}
}

// nested returns the limits of runs that the commands of a call start: see [permission.Limits]. Grants of skills and
// answers that are bound to content are not among them.
func (a *approval) nested() string {
	from, l := a.newGrounds(a.scopes, nil), a.opt.Nested
	rules := from.fixed
	for _, answer := range from.answers {
		if answer.line == "" && len(answer.files) == 0 {
			rules.Allow = append(slices.Clip(rules.Allow), answer.rule)
		}
	}
	l.Mode = a.Mode()
	l.Rules.Allow, l.Rules.Ask = from.place.Anywhere(rules.Allow, false), from.place.Anywhere(rules.Ask, true)
	l.Rules.Deny = from.place.Anywhere(rules.Deny, true)
	return l.String()
}

// closed returns the func Closed of [tool.Input] for a call.
func (g *Gate) closed(scopes []scope, p tool.Proposal) func(named ...string) func(string) bool {
	s := permission.Subject{Tool: p.Name}
	if p.Tool != nil {
		s.Aliases = &p.Tool.Aliases
	}
	return func(named ...string) func(string) bool {
		from := g.newGrounds(scopes, nil)
		return from.fixed.Closed(g.Mode(), from.place, s, named...)
	}
}

// sandboxAllowance returns the paths that the sandbox opens for an allowed call: files that rules name
// literally, and paths of the call that such a rule allows or that the user was shown and approved.
func (a *approval) sandboxAllowance(subjects []permission.Subject) workspace.Allowance {
	rules := permission.Rules{Allow: slices.Clone(a.opt.Rules.Allow)}
	for _, answer := range a.answersFor(subjects) {
		rules.Allow = append(rules.Allow, answer.rule)
	}
	missing := func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil
	}
	noFile := func(path string) bool { // a rule for a directory does not open its content
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	}
	spelled := rules.Opens(permission.KindEdit)
	allow := workspace.Allowance{Write: slices.DeleteFunc(slices.Clone(spelled), noFile),
		Read: slices.DeleteFunc(rules.Opens(permission.KindRead), noFile)}
	for _, s := range a.scopes { // commands have a /tmp of their own; elsewhere they read the directories of skills
		if dir, ok := s.readable(a.opt.OnlyManaged); ok && dir.Approved == nil &&
			(subpath.Contains("/tmp", dir.Dir) || subpath.Contains("/var/tmp", dir.Dir)) {
			allow.Read = append(allow.Read, dir.Dir)
		}
	}
	approved := a.record.Asked && a.record.Answer.Choice != No
	dirs := map[string]bool{} // directories that the call creates
	for _, s := range a.record.Decision.Subjects {
		open := approved && s.Verdict == permission.Ask || a.Mode() == permission.Bypass || slices.Contains(spelled, s.Text) ||
			s.OpensOutside() && !a.inWorkspace(s)
		if !open || !filepath.IsAbs(s.Text) {
			continue
		}
		switch s.Kind {
		case permission.KindEdit:
			if s.Replace || s.Holds != "" {
				allow.Replace = append(allow.Replace, withTarget(s)...)
				continue
			}
			for _, path := range withTarget(s) {
				allow.Write = append(allow.Write, path)
				dirs[path] = dirs[path] || s.Dir
			}
		case permission.KindRead:
			allow.Read = append(allow.Read, withTarget(s)...)
		}
	}
	// Missing files and directories are created, so that the sandbox can open them, except those
	// inside a directory that is created as well.
	slices.Sort(allow.Write)
	var write []string
	for _, path := range slices.Compact(allow.Write) {
		above := slices.IndexFunc(write, func(dir string) bool {
			return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") && missing(dir)
		})
		switch {
		case above >= 0:
			write[above] = strings.TrimSuffix(write[above], "/") + "/"
		case dirs[path] && missing(path):
			write = append(write, path+"/")
		default:
			write = append(write, path)
		}
	}
	allow.Write = write
	return allow
}

// inWorkspace reports whether a file is in a directory of the workspace.
func (a *approval) inWorkspace(s permission.Judged) bool {
	from := a.newGrounds(nil, nil).place
	return slices.ContainsFunc(append([]string{from.Dir}, from.Roots...), func(dir string) bool {
		return subpath.Contains(dir, s.Text)
	})
}

// withTarget returns the names of the file that was decided on: the sandbox follows a link only to one of these.
func withTarget(s permission.Judged) []string {
	if s.Target == "" {
		return []string{s.Text}
	}
	return []string{s.Text, s.Target}
}

// An approval is the state of deciding one call.
type approval struct {
	*Gate
	in     Scopes
	scopes []scope       // the rules of in
	call   tool.Proposal // its Input is the current one
	record Record

	hosts  []Host    // that the user approved with the call
	vote   hook.Vote // of PreToolUse hooks, on the current input
	why    string    // the reason for the vote
	failed bool      // one of the hooks could not answer
}

const reasonKeptChanging = "what it would run kept changing while the user was asked"

func (a *approval) decideCall(ctx context.Context) (tool.Permit, error) {
	none := tool.Permit{}
	if err := a.preToolUse(ctx); err != nil {
		return none, err
	}
	for range 6 { // a change by a hook, by the user or on disk restarts the decision, a limited number of times
		subjects, err := a.call.SubjectsFor(ctx, a.call.Input)
		if err != nil {
			return none, err
		}
		judged := a.applyVote(a.decide(ctx, a.scopes, subjects))
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		a.record.Decision = judged.Decision
		if again := a.permissionRequest(ctx, judged); again {
			continue
		}
		switch a.record.Decision.Verdict {
		case permission.Allow:
			return tool.Permit{Input: a.call.Input, Subjects: subjects, Scripts: approvedScripts(judged.files)}, nil
		case permission.Deny:
			return none, a.refuse(a.record, denial(a.call.Name, a.record.Decision))
		}
		permit, again, err := a.askUser(ctx, judged)
		if err != nil {
			return none, err
		}
		if !again {
			return permit, nil
		}
	}
	a.record.Decision.Verdict, a.record.Decision.Reason = permission.Deny, reasonKeptChanging
	return none, a.refuse(a.record, denial(a.call.Name, a.record.Decision))
}

// preToolUse runs the PreToolUse hooks and keeps their vote and their replacement of the input.
func (a *approval) preToolUse(ctx context.Context) error {
	if a.call.ID == tool.InlineCall {
		in := a.hookInput(hook.PreSkillShellCommand)
		if i := a.call.Inline; i != nil {
			in.Tool, in.Command, in.From, in.By = cmp.Or(i.Shell, in.Tool), i.Skill, i.Source, i.By
		}
		out := a.in.Hooks.Fire(ctx, in)
		if out.Input != nil && out.Reason == "" {
			out.Reason = "a PreSkillShellCommand hook wants another command, which is not done for the text of a skill"
		}
		// Nobody is asked about an inline command, and it is not changed.
		if out.Vote == hook.Deny || out.Vote == hook.Ask || out.Broken || out.Input != nil {
			a.record.Hook = string(hook.PreSkillShellCommand)
			a.record.Decision = permission.Decision{Verdict: permission.Deny,
				Reason: cmp.Or(out.Reason, "a PreSkillShellCommand hook denied it")}
			return a.refuse(a.record, a.call.Name+" was not run: "+a.record.Decision.Reason)
		}
	}
	out := a.in.Hooks.Fire(ctx, a.hookInput(hook.PreToolUse))
	if out.Vote != hook.Nothing || out.Input != nil {
		a.record.Hook = string(hook.PreToolUse)
	}
	if out.Input != nil {
		a.call.Input = bytes.Clone(out.Input)
	}
	a.vote, a.why, a.failed = out.Vote, out.Reason, out.Broken
	switch {
	case out.Vote == hook.Deny:
		a.record.Decision = permission.Decision{Verdict: permission.Deny,
			Reason: cmp.Or(out.Reason, "a PreToolUse hook denied it")}
		return a.refuse(a.record, a.call.Name+" was not run: "+a.record.Decision.Reason)
	case out.Broken:
		a.vote = hook.Ask
	}
	return nil
}

// hookInput describes the call to hooks.
func (a *approval) hookInput(e hook.Event) hook.Input {
	return hook.Input{Event: e, Tool: a.call.Name, ToolInput: a.call.Input, Call: a.call.ID,
		Suggestion: a.record.Decision.Offers()}
}

// applyVote applies the vote of the PreToolUse hooks to a judgement.
func (a *approval) applyVote(judged judgement) judgement {
	mode := a.Mode()
	switch {
	case a.failed && judged.Verdict != permission.Deny && mode == permission.Bypass:
		judged.Verdict, judged.Rule, judged.Origin, judged.Reason, judged.Suggest = permission.Deny, "", "", a.why, nil
	case a.vote == hook.Ask && judged.Verdict == permission.Allow:
		judged.Verdict, judged.Reason = permission.Ask, cmp.Or(a.why, "a PreToolUse hook requires approval")
		judged.Rule, judged.Origin = "", "" // they were those of the rule that allowed it
		judged.askedByHook = true
		if mode == permission.DontAsk {
			judged.Verdict = permission.Deny
		}
	case a.vote == hook.Allow && judged.Verdict == permission.Ask && !judged.noHook:
		judged.Verdict, judged.Reason = permission.Allow, "a PreToolUse hook allows it"
	}
	return judged
}

// permissionRequest runs the PermissionRequest hooks for a call that needs the user's approval.
// again means that they changed the input.
func (a *approval) permissionRequest(ctx context.Context, judged judgement) (again bool) {
	if a.record.Decision.Verdict != permission.Ask {
		return false
	}
	out := a.in.Hooks.Fire(ctx, a.hookInput(hook.PermissionRequest))
	if out.Broken && out.Vote != hook.Deny {
		return false // the user decides
	}
	if out.Vote != hook.Nothing {
		a.record.Hook = string(hook.PermissionRequest)
	}
	switch {
	case out.Vote == hook.Deny:
		a.record.Decision.Verdict = permission.Deny
		a.record.Decision.Reason = cmp.Or(out.Reason, "a PermissionRequest hook denied it")
	case out.Input != nil && !bytes.Equal(out.Input, a.call.Input):
		a.call.Input = bytes.Clone(out.Input)
		if a.vote == hook.Allow { // that vote was for the previous input
			a.vote = hook.Nothing
		}
		if out.Vote == hook.Allow {
			a.vote = hook.Allow
		}
		return true
	case out.Vote == hook.Allow && !judged.noHook:
		a.record.Decision.Verdict, a.record.Decision.Reason = permission.Allow, "a PermissionRequest hook allows it"
	}
	return false
}

// Decide judges subjects as Ask does, but without hooks and without asking the user.
func (g *Gate) Decide(ctx context.Context, subjects ...permission.Subject) permission.Decision {
	return g.decide(ctx, nil, subjects).Decision
}

// A judgement is a decision, with limits on who can answer it.
type judgement struct {
	permission.Decision
	noAllow     bool   // no allow rule can change it, because of an ask rule or a ceiling
	noHook      bool   // a hook cannot answer it: it is fixed, a secret, a protected path, or asked every time
	askedByHook bool   // only a hook requires the question
	files       []File // the scripts whose content the decision is bound to
}

func (g *Gate) decide(ctx context.Context, scopes []scope, subjects []permission.Subject) judgement {
	from := g.newGrounds(scopes, subjects)
	mode, why := g.Mode(), ""
	var judged judgement
	for again := true; again; {
		judged.Decision, judged.files, again = from.rules().Decide(ctx, mode, from.place, subjects...), nil, false
		for _, part := range judged.Subjects {
			if part.Verdict != permission.Allow {
				continue
			}
			files, no := from.dropAnswer(ctx, part)
			if no == "" {
				var more []File
				more, no = from.dropGrant(part)
				files = append(files, more...)
			}
			judged.files = append(judged.files, files...)
			if again = no != ""; again {
				why = no
				break
			}
		}
	}
	if why != "" && judged.Verdict != permission.Allow && judged.Rule == "" {
		judged.Reason = why
	}
	for _, part := range judged.Subjects {
		if part.Verdict == permission.Ask {
			judged.noAllow = judged.noAllow || part.Rule != "" || part.Policy != ""
			judged.noHook = judged.noHook || part.Rule != "" || part.Origin == permission.Builtin || part.EveryTime
		}
	}
	for _, scope := range scopes {
		g.applyCeiling(ctx, &judged, scope, subjects, mode)
	}
	return judged
}

// grounds are what can allow a call: rules, and the user's answers and the grants of skills. Those
// answers and grants that turn out not to cover the files that the call would run are dropped, and
// the call is decided again without them.
type grounds struct {
	gate     *Gate
	subjects []permission.Subject // of the call
	place    permission.PathContext
	fixed    permission.Rules // without answers and grants
	answers  []answer
	grants   []scope
	dirs     []string // directories that relative names of scripts may start from; computed when first needed
}

func (g *Gate) newGrounds(scopes []scope, subjects []permission.Subject) *grounds {
	from := &grounds{gate: g, subjects: subjects, place: g.opt.Paths, fixed: g.opt.Rules, answers: g.answersFor(subjects),
		grants: scopes}
	g.answers.mu.Lock()
	from.fixed.Ask = slices.Concat(from.fixed.Ask, g.answers.askRules)
	from.fixed.Deny = slices.Concat(from.fixed.Deny, g.answers.denyRules)
	from.place.Roots = slices.Concat(from.place.Roots, g.answers.dirs)
	g.answers.mu.Unlock()
	for _, scope := range scopes {
		from.fixed.Deny = append(from.fixed.Deny, scope.deny...)
		if dir, ok := scope.readable(g.opt.OnlyManaged); ok {
			from.place.Skills = append(slices.Clip(from.place.Skills), dir)
		}
	}
	return from
}

func (from *grounds) rules() permission.Rules {
	all := from.fixed
	all.Allow = slices.Clone(all.Allow)
	for _, a := range from.answers {
		all.Allow = append(all.Allow, a.rule)
	}
	for _, scope := range from.grants {
		for _, r := range scope.allow {
			if from.gate.isGranted(scope, r) {
				all.Allow = append(all.Allow, r)
			}
		}
	}
	return all
}

// scripts returns the files that a part of the call would run, and those of them that do not exist.
func (from *grounds) scripts(part permission.Subject) (files []File, missing []string) {
	if from.dirs == nil {
		from.dirs = folders(from.subjects, from.place.Dir)
	}
	return scriptsOf(part, from.dirs, from.place.InTemp)
}

// dropAnswer drops the answers that allow a part of the call if they no longer bind: a file that it
// would run has changed since, or may change before it runs. why says so; "": nothing was dropped, and
// files are those whose content the answers are bound to.
func (from *grounds) dropAnswer(ctx context.Context, part permission.Judged) (files []File, why string) {
	if part.Origin != permission.Session && part.Origin != permission.Kept {
		return nil, ""
	}
	files, missing := from.scripts(part.Subject)
	same := func(a answer) bool { return a.rule.Origin == part.Origin && a.rule.String() == part.Rule }
	covered := false
	for _, a := range from.answers {
		if !same(a) {
			continue
		}
		if a.anyContent {
			return nil, ""
		}
		_, changed := findUnbound(files, a.files)
		covered = covered || !changed && len(missing) == 0 &&
			(len(files) > 0 || len(a.files) == 0 || runsFile(part.Subject, from.dirs, a.files, from.place.InTemp))
	}
	if covered {
		why = from.gate.changesFiles(ctx, from.subjects, files)
	} else if f, _ := findUnbound(files, nil); f.Path == "" {
		why = "a file that it runs does not exist"
	} else {
		why = f.Path + " has changed since it was approved"
	}
	if why == "" {
		return files, ""
	}
	from.answers = slices.DeleteFunc(slices.Clone(from.answers), same)
	return nil, why
}

// dropGrant drops a skill's grants if they allow a part of the call but do not cover the files that it
// would run. why says so; "": nothing was dropped, and files are those whose content was approved with
// the skill.
func (from *grounds) dropGrant(part permission.Judged) (files []File, why string) {
	for i, scope := range from.grants {
		if "skill:"+scope.name != string(part.Origin) || scope.Dir == "" {
			continue
		}
		run, missing := from.scripts(part.Subject)
		if why := scope.whyNotCovered(run, missing, append([]string{from.place.Dir}, from.place.Roots...)); why != "" {
			from.grants = slices.Delete(slices.Clone(from.grants), i, i+1)
			return nil, why
		}
		if scope.Approved != nil {
			files = append(files, run...)
		}
	}
	return files, ""
}

// filesOf returns the files that subjects would run. If a file has changed since it was approved, its
// old content is included.
func (g *Gate) filesOf(subjects []permission.Subject) (files []File) {
	given := g.allAnswers()
	dirs := folders(subjects, g.opt.Paths.Dir)
	for _, s := range subjects {
		found, _ := scriptsOf(s, dirs, g.opt.Paths.InTemp)
		for _, f := range found {
			if slices.ContainsFunc(files, func(g File) bool { return g.Path == f.Path }) {
				continue
			}
			for _, a := range given {
				for _, b := range a.files {
					if b.Path == f.Path && b.Hash != f.Hash {
						f.Old, f.Changed = b.Data, true
					}
				}
			}
			files = append(files, f)
		}
	}
	return files
}

// changesFiles explains which part of a call may change one of the files before it runs; "" if none
// does. Commands that only read, or that only write other files, do not count.
func (g *Gate) changesFiles(ctx context.Context, subjects []permission.Subject, files []File) string {
	if len(files) == 0 {
		return ""
	}
	dirs := folders(subjects, g.opt.Paths.Dir)
	for _, s := range (permission.Rules{}).Decide(ctx, permission.AcceptEdits, g.opt.Paths, subjects...).Subjects {
		own, _ := scriptsOf(s.Subject, dirs, g.opt.Paths.InTemp)
		for _, f := range files {
			switch {
			case s.Kind == permission.KindEdit &&
				(s.Text == f.Path || slices.Contains(f.names, scripts.Join(g.opt.Paths.Dir, s.Text))):
				return f.Path + " is written before it runs"
			case isBash(s.Kind) && s.Verdict != permission.Allow && len(own) == 0 &&
				!leavesUnchanged(s.Subject, f, dirs):
				return fmt.Sprintf("%q may change %s before it runs", s.Text, f.Path)
			}
		}
	}
	return ""
}

// leavesUnchanged reports whether every simple command of s either is the script itself, as its
// interpreter gets it, or is a program that does not change the content of files.
func leavesUnchanged(s permission.Subject, f File, dirs []string) bool {
	for _, words := range commands(s) {
		switch words[0] {
		case "chmod", "mkdir", "rmdir", "touch", "sleep", "wait":
			continue
		}
		if !slices.ContainsFunc(dirs, func(d string) bool { return slices.Contains(f.names, scripts.Join(d, words[0])) }) {
			return false
		}
	}
	return true
}

// bindScripts returns the scripts of a call that was just approved, with the content that was shown. It
// returns none for a call that may change them itself: the user approved what that call does, so it
// runs the content that is there at that time.
func (g *Gate) bindScripts(ctx context.Context, subjects []permission.Subject, files []File) []workspace.Script {
	if g.changesFiles(ctx, subjects, files) != "" {
		return nil
	}
	return approvedScripts(files)
}

func (g *Gate) allAnswers() []answer {
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	return slices.Concat(g.answers.sessionAnswers, g.answers.keptAnswers)
}

// answersFor returns the answers that may allow a call: those for one command line allow no other.
func (g *Gate) answersFor(subjects []permission.Subject) []answer {
	return slices.DeleteFunc(g.allAnswers(), func(a answer) bool {
		return a.line != "" && a.line != commandLine(subjects)
	})
}

// commandLine returns the command line that a call runs; "": none, or several.
func commandLine(subjects []permission.Subject) string {
	line := ""
	for _, s := range subjects {
		if !s.IsCommand() {
			continue
		}
		if line != "" {
			return ""
		}
		line = s.Text
	}
	return line
}

func isBash(kind permission.Kind) bool { return kind == permission.KindBash || kind == "bash" }

// audit reports a decision to the Audit and Require funcs of the options. If it returns an error, the call must not run.
func (g *Gate) audit(r Record) (err error) {
	if g.opt.Audit == nil && g.opt.Require == nil {
		return nil
	}
	r.Agent = g.opt.Agent
	g.answers.auditing.Lock()
	defer g.answers.auditing.Unlock()
	if g.opt.Require != nil {
		if err = g.opt.Require(r); err != nil {
			r.Decision, r.Permit = permission.Decision{Verdict: permission.Deny, Reason: err.Error()}, nil
		}
	}
	if g.opt.Audit != nil {
		g.opt.Audit(r)
	}
	return err
}

// unrecorded is the error for a call whose decision could not be recorded.
func (a *approval) unrecorded(err error) *Denied {
	return &Denied{Decision: permission.Decision{Verdict: permission.Deny, Reason: err.Error()}, Ends: err.Error(),
		Text: a.call.Name + " was not run: " + err.Error()}
}

func (g *Gate) refuse(r Record, text string) *Denied {
	no := &Denied{Decision: r.Decision, Text: text}
	if err := g.audit(r); err != nil {
		no.Ends = err.Error()
	}
	return no
}

func denial(name string, d permission.Decision) string {
	switch {
	case d.Rule != "" && d.Reason != "":
		return fmt.Sprintf("%s was not run: the rule %s (%s) denies it: %s", name, d.Rule, d.Origin, d.Reason)
	case d.Rule != "":
		return fmt.Sprintf("%s was not run: the rule %s (%s) denies it", name, d.Rule, d.Origin)
	case d.Reason != "":
		return fmt.Sprintf("%s was not run: %s%s", name, d.Reason, wouldAllow(d.Reason, d.Suggest))
	}
	return name + " was not run: it is not allowed"
}

// wouldAllow returns what would have allowed a refused call: rules, or trust if no rule can.
func wouldAllow(reason string, rules []string) string {
	if strings.HasPrefix(reason, permission.ReasonUntrusted) {
		return ". No rule allows it: trust the folder with knack trust, or for one run with --trust"
	}
	if len(rules) == 0 {
		return ""
	}
	text := ". It would be allowed by"
	for _, r := range rules {
		text += " --allow '" + strings.ReplaceAll(r, "'", `'\''`) + "'"
	}
	return text
}
