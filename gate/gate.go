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
package gate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/workspace"
)

// Options configure a Gate. The zero Options have no rules and no Approver: only calls that need no
// permission are allowed.
type Options struct {
	Rules permission.Rules // from settings and the command line
	Mode  permission.Mode  // "": Default
	Paths permission.PathContext

	Approver Approver // nil: the user cannot be asked
	Keeper   Keeper   // nil: "always" is not offered
	Ceiling  Ceiling  // skills.enforceAllowedTools
	Agent    string   // the sub-agent that makes the calls; "": the session itself

	// Audit is called with every decision, one at a time; nil: decisions are not recorded. It must
	// not call the Gate.
	Audit func(Record)
}

// A Ceiling decides whether the allowed-tools of a skill in use restrict what may run, in addition
// to granting it. The zero Ceiling does not restrict.
type Ceiling string

const (
	CeilingOff Ceiling = "off"
	CeilingAsk Ceiling = "ask" // the user is asked about calls that the list does not name
	CeilingOn  Ceiling = "on"  // calls that the list does not name are denied
)

// SkillRules are what one skill in use grants and denies.
type SkillRules struct {
	Skill string
	Allow []permission.Rule // with the origin "skill:NAME"
	Deny  []permission.Rule
	// Bound, if not "", means that Allow grants nothing and only restricts, in this way, whatever
	// Options.Ceiling is. It is used in sub-agents, for their definition and for the skills that
	// were in use where they were started.
	Bound Ceiling

	// Foreign means that the skill belongs to a project or a plugin. A grant of everything (Bash,
	// *) is then ignored, unless the user's rules name the skill or the grant is in Accepted, the
	// rules that the user accepted for the skill's present content.
	Foreign  bool
	Accepted []permission.Rule

	// Dir is the skill's folder. Approved returns nil if data, read from a path in Dir, is the
	// approved content. If Approved is set, the skill's grants do not cover running a script
	// outside Dir or one that Approved rejects. It is nil for bundled, managed and user skills,
	// whose grants do not cover a link in Dir that leads into the workspace.
	Dir      string
	Approved func(path string, data []byte) error

	// Limits restrict every command of an allowed call.
	Limits []workspace.Limit
}

// A Record describes the decision on one call.
type Record struct {
	Call     string
	Tool     string
	Decision permission.Decision // the verdict is Allow or Deny, or Ask if the user could not be asked
	Asked    bool                // the user was asked
	Answer   Answer              // the user's
	Hook     string              // the event whose hook voted: PreToolUse or PermissionRequest; "": none
}

// A HookFunc returns the merged votes of hooks on a call. d is the decision so far, for
// PermissionRequest hooks. An error means that a hook failed, like Opinion.Failed.
type HookFunc func(ctx context.Context, p tool.Proposal, d permission.Decision) (Opinion, error)

// An Opinion is the merged answer of hooks. The zero Opinion changes nothing.
type Opinion struct {
	Vote   Vote
	Input  json.RawMessage // replaces the call's input; nil: unchanged
	Reason string
	// Failed means that a hook that guards calls could not answer. The user is then asked; if that
	// is impossible (without an Approver, and in the modes bypass and dontAsk), the call is
	// refused.
	Failed bool
}

// A Vote is a hook's answer about a call. The zero Vote is VoteNone.
type Vote uint8

const (
	VoteNone  Vote = iota
	VoteAllow      // answers instead of the user; does not override a deny or ask rule
	VoteAsk
	VoteDeny
)

// An Overlay is what applies to a call in addition to the rules of a Gate.
type Overlay struct {
	Skills                        []SkillRules
	PreToolUse, PermissionRequest HookFunc // nil: none
}

// A Denied is the error for a call that may not run. Its text is for the model.
type Denied struct {
	Decision permission.Decision
	Text     string
	Stop     bool // the user wants the run to end
}

func (d *Denied) Error() string { return d.Text }

// A Gate decides the calls of a session and stores what changes during it: the mode and the user's
// answers. It is safe for concurrent use; the user is asked one question at a time.
type Gate struct {
	opt     Options
	answers *answers // of the session; shared with Gates made by Fork and Replace
	session *mode    // shared in the same way
	mode    func() permission.Mode
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
	asking chan struct{} // contains a token while the user is being asked

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
	anyContent bool   // it is bound to no files, because the user wrote the rule
}

// New returns the Gate of a session. The error comes from the Keeper or is about a stored rule.
func New(o Options) (*Gate, error) {
	if o.Mode == "" {
		o.Mode = permission.Default
	}
	m := &mode{now: o.Mode}
	g := &Gate{opt: o, session: m, mode: m.get, answers: &answers{asking: make(chan struct{}, 1)}}
	if o.Keeper == nil {
		return g, nil
	}
	kept, err := o.Keeper.Kept()
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		r, err := permission.ParseRule(k.Rule, permission.Kept)
		if err != nil {
			return nil, fmt.Errorf("a stored rule: %w", err)
		}
		g.answers.keptAnswers = append(g.answers.keptAnswers, answer{rule: r, files: k.Files})
	}
	return g, nil
}

// Mode returns the current mode.
func (g *Gate) Mode() permission.Mode { return g.mode() }

// SetMode changes the mode of the session, and thereby that of its forks.
func (g *Gate) SetMode(m permission.Mode) {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	g.session.now = m
}

// Fork returns the Gate of the sub-agent named agent. It has the same rules, answers and Approver,
// and calls audit (nil: the audit function of g). Its mode is derived from that of g at each
// decision by of; nil: it is the same.
func (g *Gate) Fork(agent string, of func(permission.Mode) permission.Mode, audit func(Record)) *Gate {
	fork := *g
	fork.opt.Agent = agent
	if audit != nil {
		fork.opt.Audit = audit
	}
	if of != nil {
		fork.mode = func() permission.Mode { return of(g.mode()) }
	}
	return &fork
}

// Replace returns a Gate with other rules and directories, but with the mode, answers and Approver
// of g.
func (g *Gate) Replace(rules permission.Rules, place permission.PathContext) *Gate {
	next := *g
	next.opt.Rules, next.opt.Paths = rules, place
	return &next
}

// Stricter returns the mode that allows less; "" counts as the least strict.
func Stricter(a, b permission.Mode) permission.Mode {
	order := []permission.Mode{"", permission.Bypass, permission.AcceptEdits, permission.Default, permission.DontAsk,
		permission.Plan}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
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

func rulesOf(answers []answer) []permission.Rule {
	rules := make([]permission.Rule, len(answers))
	for i, a := range answers {
		rules[i] = a.rule
	}
	return rules
}

// Ask decides a call without skills and hooks in use.
func (g *Gate) Ask(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
	return g.With(Overlay{}).Ask(ctx, p)
}

// With returns g with the skills and hooks in use.
func (g *Gate) With(in Overlay) tool.Gate {
	return tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
		a := approval{Gate: g, in: in, p: p, r: Record{Call: p.ID, Tool: p.Name}}
		a.p.Input = bytes.Clone(p.Input) // a private copy: it is decided on and run unchanged
		permit, err := a.decideCall(ctx)
		if err == nil {
			permit.Allow = a.sandboxAllowance()
		}
		for _, s := range in.Skills {
			permit.Limits = append(permit.Limits, s.Limits...)
		}
		return permit, err
	})
}

// sandboxAllowance returns the paths that the sandbox opens for an allowed call: files that rules name
// literally, and paths of the call that such a rule allows or that the user was shown and approved.
func (a *approval) sandboxAllowance() workspace.Allowance {
	rules := permission.Rules{Allow: slices.Clone(a.opt.Rules.Allow)}
	for _, answer := range a.allAnswers() {
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
	approved := a.r.Asked && a.r.Answer.Choice != No
	dirs := map[string]bool{} // directories that the call creates
	for _, s := range a.r.Decision.Subjects {
		open := approved && s.Verdict == permission.Ask || a.Mode() == permission.Bypass || slices.Contains(spelled, s.Text)
		if !open || !filepath.IsAbs(s.Text) {
			continue
		}
		switch s.Kind {
		case permission.KindEdit:
			allow.Write = append(allow.Write, s.Text)
			dirs[s.Text] = dirs[s.Text] || s.Dir
		case permission.KindRead:
			allow.Read = append(allow.Read, s.Text)
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

// An approval is the state of deciding one call.
type approval struct {
	*Gate
	in Overlay
	p  tool.Proposal // its Input is the current one
	r  Record

	vote   Vote   // of PreToolUse hooks, on the current input
	why    string // the reason for the vote
	failed bool   // one of the hooks could not answer
}

const reasonKeptChanging = "what it would run kept changing while the user was asked"

func (a *approval) decideCall(ctx context.Context) (tool.Permit, error) {
	none := tool.Permit{}
	if err := a.preToolUse(ctx); err != nil {
		return none, err
	}
	for range 6 { // a change by a hook, by the user or on disk restarts the decision, a limited number of times
		subjects, err := a.p.Named(ctx, a.p.Input)
		if err != nil {
			return none, err
		}
		j := a.applyVote(a.decide(a.in.Skills, subjects))
		a.r.Decision = j.Decision
		if again := a.permissionRequest(ctx, j); again {
			continue
		}
		switch a.r.Decision.Verdict {
		case permission.Allow:
			a.audit(a.r)
			return tool.Permit{Input: a.p.Input, Subjects: subjects, Scripts: approvedScripts(j.files)}, nil
		case permission.Deny:
			return none, a.refuse(a.r, denial(a.p.Name, a.r.Decision))
		}
		permit, again, err := a.askUser(ctx, j)
		if err != nil {
			return none, err
		}
		if !again {
			a.audit(a.r)
			return permit, nil
		}
	}
	a.r.Decision.Verdict, a.r.Decision.Reason = permission.Deny, reasonKeptChanging
	return none, a.refuse(a.r, denial(a.p.Name, a.r.Decision))
}

// preToolUse runs the PreToolUse hooks and keeps their vote and their replacement of the input.
func (a *approval) preToolUse(ctx context.Context) error {
	if a.in.PreToolUse == nil {
		return nil
	}
	op, err := a.in.PreToolUse(ctx, a.p, permission.Decision{})
	if err != nil {
		op.Failed, op.Reason = true, "a hook failed: "+err.Error()
	}
	if op.Vote != VoteNone || op.Input != nil {
		a.r.Hook = "PreToolUse"
	}
	if op.Input != nil {
		a.p.Input = bytes.Clone(op.Input)
	}
	a.vote, a.why, a.failed = op.Vote, op.Reason, op.Failed
	switch {
	case op.Vote == VoteDeny:
		a.r.Decision = permission.Decision{Verdict: permission.Deny, Reason: denialReason(op, "a PreToolUse hook")}
		return a.refuse(a.r, a.p.Name+" was not run: "+a.r.Decision.Reason)
	case op.Failed:
		a.vote = VoteAsk
	}
	return nil
}

// applyVote applies the vote of the PreToolUse hooks to a judgement.
func (a *approval) applyVote(j judgement) judgement {
	mode := a.Mode()
	switch {
	case a.failed && j.Verdict != permission.Deny && (mode == permission.Bypass || mode == permission.DontAsk):
		j.Verdict, j.Rule, j.Origin, j.Reason, j.Suggest = permission.Deny, "", "", a.why, nil
	case a.vote == VoteAsk && j.Verdict == permission.Allow:
		j.Verdict, j.Reason = permission.Ask, cmp.Or(a.why, "a PreToolUse hook requires approval")
		j.Rule, j.Origin = "", "" // they were those of the rule that allowed it
		j.askedByHook = true
		if mode == permission.DontAsk {
			j.Verdict = permission.Deny
		}
	case a.vote == VoteAllow && j.Verdict == permission.Ask && !j.noHook:
		j.Verdict, j.Reason = permission.Allow, "a PreToolUse hook allows it"
	}
	return j
}

// permissionRequest runs the PermissionRequest hooks for a call that needs the user's approval.
// again means that they changed the input.
func (a *approval) permissionRequest(ctx context.Context, j judgement) (again bool) {
	if a.r.Decision.Verdict != permission.Ask || a.in.PermissionRequest == nil {
		return false
	}
	op, err := a.in.PermissionRequest(ctx, a.p, a.r.Decision)
	if err != nil || op.Failed && op.Vote != VoteDeny {
		return false // the user decides
	}
	if op.Vote != VoteNone {
		a.r.Hook = "PermissionRequest"
	}
	switch {
	case op.Vote == VoteDeny:
		a.r.Decision.Verdict, a.r.Decision.Reason = permission.Deny, denialReason(op, "a PermissionRequest hook")
	case op.Input != nil && !bytes.Equal(op.Input, a.p.Input):
		a.p.Input = bytes.Clone(op.Input)
		if a.vote == VoteAllow { // that vote was for the previous input
			a.vote = VoteNone
		}
		if op.Vote == VoteAllow {
			a.vote = VoteAllow
		}
		return true
	case op.Vote == VoteAllow && !j.noHook:
		a.r.Decision.Verdict, a.r.Decision.Reason = permission.Allow, "a PermissionRequest hook allows it"
	}
	return false
}

func denialReason(op Opinion, deniedBy string) string {
	return cmp.Or(op.Reason, deniedBy+" denied it")
}

// Decide judges subjects as Ask does, but without hooks and without asking the user.
func (g *Gate) Decide(scopes []SkillRules, subjects ...permission.Subject) permission.Decision {
	return g.decide(scopes, subjects).Decision
}

// A judgement is a decision, with limits on who can answer it.
type judgement struct {
	permission.Decision
	noAllow     bool   // no allow rule can change it, because of an ask rule or a ceiling
	noHook      bool   // a hook cannot answer it: it is fixed, or about a secret or a protected path
	askedByHook bool   // only a hook requires the question
	files       []File // the scripts whose content the decision is bound to
}

func (g *Gate) decide(scopes []SkillRules, subjects []permission.Subject) judgement {
	given, place := g.allAnswers(), g.opt.Paths
	g.answers.mu.Lock()
	ask, deny := slices.Clone(g.answers.askRules), slices.Clone(g.answers.denyRules)
	place.Roots = slices.Concat(place.Roots, g.answers.dirs)
	g.answers.mu.Unlock()
	var dirs []string // directories that relative names of scripts may start from; computed when first needed
	scripts := func(s permission.Subject) (files []File, missing []string) {
		if dirs == nil {
			dirs = folders(subjects, place.Dir)
		}
		return scriptsOf(s, dirs)
	}
	var j judgement
	mode, grants, why := g.Mode(), scopes, ""
	for {
		rules := permission.Rules{
			Allow: slices.Clone(g.opt.Rules.Allow),
			Ask:   slices.Concat(g.opt.Rules.Ask, ask),
			Deny:  slices.Concat(g.opt.Rules.Deny, deny),
		}
		for _, a := range given {
			rules.Allow = append(rules.Allow, a.rule)
		}
		for _, s := range grants {
			if s.Bound != "" {
				continue
			}
			for _, r := range s.Allow {
				if g.Ineffective(s, r) {
					continue
				}
				rules.Allow = append(rules.Allow, r)
			}
		}
		for _, s := range scopes {
			rules.Deny = append(rules.Deny, s.Deny...)
		}
		j.Decision = rules.Decide(mode, place, subjects...)

		// Remove answers and grants that do not cover the files that would run, and decide again
		// without them.
		dropped := false
		j.files = nil
		for _, s := range j.Subjects {
			if s.Verdict != permission.Allow {
				continue
			}
			switch {
			case s.Origin == permission.Session || s.Origin == permission.Kept:
				files, missing := scripts(s.Subject)
				same := func(a answer) bool { return a.rule.Origin == s.Origin && a.rule.String() == s.Rule }
				unbound, covered := false, false
				for _, a := range given {
					if same(a) {
						_, d := findUnbound(files, a.files)
						unbound = unbound || a.anyContent
						covered = covered || !d && len(missing) == 0 &&
							(len(files) > 0 || len(a.files) == 0 || runsFile(s.Subject, dirs, a.files))
					}
				}
				changing := ""
				if covered && !unbound {
					j.files = append(j.files, files...)
					changing = g.changesFiles(subjects, files)
				}
				if changing != "" || !covered && !unbound {
					f, _ := findUnbound(files, nil)
					switch {
					case changing != "":
						why = changing
					case f.Path == "":
						why = "a file that it runs does not exist"
					default:
						why = f.Path + " has changed since it was approved"
					}
					given = slices.DeleteFunc(slices.Clone(given), same)
					dropped = true
				}
			case strings.HasPrefix(string(s.Origin), "skill:"):
				for i, sc := range grants {
					if "skill:"+sc.Skill != string(s.Origin) || sc.Dir == "" {
						continue
					}
					files, missing := scripts(s.Subject)
					no := ""
					if sc.Approved == nil {
						no = sc.whyLinked(files, append([]string{place.Dir}, place.Roots...))
					} else {
						no = sc.whyNotCovered(files)
						if no == "" && len(missing) > 0 {
							no = missing[0] + " does not exist"
						}
						j.files = append(j.files, files...)
					}
					if no != "" {
						why, grants, dropped = no, slices.Delete(slices.Clone(grants), i, i+1), true
						break
					}
				}
			}
			if dropped {
				break
			}
		}
		if !dropped {
			break
		}
	}
	if why != "" && j.Verdict != permission.Allow && j.Rule == "" {
		j.Reason = why
	}
	for _, s := range j.Subjects {
		if s.Verdict == permission.Ask {
			j.noAllow = j.noAllow || s.Rule != ""
			j.noHook = j.noHook || s.Rule != "" || s.Origin == permission.Builtin
		}
	}
	for _, sc := range scopes {
		g.ceiling(&j, sc, subjects, mode)
	}
	return j
}

// filesOf returns the files that subjects would run. If a file has changed since it was approved, its
// old content is included.
func (g *Gate) filesOf(subjects []permission.Subject) (files []File) {
	given := g.allAnswers()
	dirs := folders(subjects, g.opt.Paths.Dir)
	for _, s := range subjects {
		found, _ := scriptsOf(s, dirs)
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
func (g *Gate) changesFiles(subjects []permission.Subject, files []File) string {
	if len(files) == 0 {
		return ""
	}
	dirs := folders(subjects, g.opt.Paths.Dir)
	for _, s := range (permission.Rules{}).Decide(permission.AcceptEdits, g.opt.Paths, subjects...).Subjects {
		own, _ := scriptsOf(s.Subject, dirs)
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
func (g *Gate) bindScripts(subjects []permission.Subject, files []File) []workspace.Script {
	if g.changesFiles(subjects, files) != "" {
		return nil
	}
	return approvedScripts(files)
}

func (g *Gate) allAnswers() []answer {
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	return slices.Concat(g.answers.sessionAnswers, g.answers.keptAnswers)
}

// Ineffective reports whether a rule that a skill grants has no effect, because it covers everything
// and the skill is not the user's own.
func (g *Gate) Ineffective(s SkillRules, r permission.Rule) bool {
	return s.Foreign && r.Broad() && !HasAllowRule(g.opt.Rules, s.Skill) &&
		!slices.ContainsFunc(s.Accepted, func(a permission.Rule) bool { return a.String() == r.String() })
}

// HasAllowRule reports whether an allow rule names a skill. Rules of a project do not count.
func HasAllowRule(rules permission.Rules, skill string) bool {
	return slices.ContainsFunc(rules.Allow, func(r permission.Rule) bool {
		return r.Tool == "Skill" && r.Pattern == skill && r.Origin != permission.Project
	})
}

// whyNotCovered explains why a skill's grants do not cover running these files; "" if they do.
func (s SkillRules) whyNotCovered(files []File) string {
	for _, f := range files {
		if !inside(s.Dir, f.Path) {
			return fmt.Sprintf("%s is outside the folder of skill %q, which grants it", f.Path, s.Skill)
		}
		if err := s.Approved(f.Path, f.data); err != nil {
			return err.Error()
		}
	}
	return ""
}

// whyLinked explains why a skill's grants do not cover running these files: a link in the skill's
// folder leads to a file of the workspace, which is not part of the skill; "" if they do.
func (s SkillRules) whyLinked(files []File, roots []string) string {
	for _, f := range files {
		own := slices.ContainsFunc(f.names, func(name string) bool { return subpath.Contains(s.Dir, name) })
		if own && !inside(s.Dir, f.Path) && slices.ContainsFunc(roots,
			func(root string) bool { return inside(root, f.Path) }) {
			return fmt.Sprintf("%s is a file of the workspace, not of the skill %q", f.Path, s.Skill)
		}
	}
	return ""
}

// ceiling applies the list of a skill, or of a restriction on a sub-agent, if it is a ceiling:
// every subject must be in the list, even one that is harmless. The Skill tool and questions to the
// user are exempt.
func (g *Gate) ceiling(j *judgement, sc SkillRules, subjects []permission.Subject, mode permission.Mode) {
	how := g.opt.Ceiling
	if sc.Bound != "" {
		how = sc.Bound
	}
	verdict := permission.Ask
	switch {
	case how != CeilingAsk && how != CeilingOn || len(sc.Allow) == 0:
		return
	case how == CeilingOn || mode == permission.DontAsk:
		verdict = permission.Deny
	case mode == permission.Bypass:
		return
	}
	for _, s := range subjects {
		if s.Kind == permission.KindSkill || s.Kind == "ask" || g.isListed(sc, s) || j.Verdict == permission.Deny {
			continue
		}
		j.noAllow, j.noHook, j.Suggest = true, true, nil
		j.Verdict, j.Rule, j.Origin = verdict, "", ""
		j.Reason = fmt.Sprintf("the allowed-tools of skill %q do not include it", sc.Skill)
		if name, ok := strings.CutPrefix(sc.Skill, "agent "); ok {
			j.Reason = fmt.Sprintf("the tools of agent %q do not include it", name)
		}
	}
}

// isListed reports whether a skill's list covers a subject. A command that is harmless by itself is
// covered if the list has any rule for commands.
func (g *Gate) isListed(sc SkillRules, s permission.Subject) bool {
	d := permission.Rules{Allow: sc.Allow}.Decide(permission.Default, g.opt.Paths, s)
	if d.Verdict != permission.Allow {
		return false
	}
	for _, x := range d.Subjects {
		switch {
		case strings.HasPrefix(string(x.Origin), "skill:"), strings.HasPrefix(string(x.Origin), "agent "):
		case isBash(s.Kind):
			if !slices.ContainsFunc(sc.Allow, func(r permission.Rule) bool {
				return isBash(permission.Kind(r.Tool)) || r.Tool == "*"
			}) {
				return false
			}
		default: // allowed without a rule: it is covered only if a rule matches it
			if (permission.Rules{Deny: sc.Allow}).Decide(permission.Default, g.opt.Paths, s).Verdict != permission.Deny {
				return false
			}
		}
	}
	return true
}

func isBash(kind permission.Kind) bool { return kind == permission.KindBash || kind == "bash" }

func (g *Gate) audit(r Record) {
	if g.opt.Audit == nil {
		return
	}
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	g.opt.Audit(r)
}

func (g *Gate) refuse(r Record, text string) *Denied {
	g.audit(r)
	return &Denied{Decision: r.Decision, Text: text}
}

func denial(name string, d permission.Decision) string {
	switch {
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
