// Package gate decides each call through hooks, rules and the user, and binds
// what is approved to the bytes that were shown.
//
// [New] takes the rules, the mode and the directories of a session, and an
// [Approver] if the user can be asked. [Gate.Ask] is the one entry
// point; [Gate.With] gives it the skills and hooks in force. Without an Approver
// whatever would be asked is refused, and the refusal names the rule that would
// have allowed it.
//
// The order of one call: PreToolUse hooks, the subjects of the input that
// results, the decision, PermissionRequest hooks, the Approver; then exactly
// those bytes are returned to run. An input that a hook or the user changed is
// decided again. Every decision goes to Options.Audit.
//
// An approval is bound to the content that was shown: where a command runs
// scripts, an answer "for this session" or "always" counts only while these
// files have the same bytes, and a changed file is shown again with its diff;
// where a call changes a file, the diff is shown before the user answers, and
// it runs only on the content that the diff starts from.
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

	"github.com/knack-agent/knack/internal/scripts"
	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/workspace"
)

// Options configure a Gate. The zero Options have no rules and no Approver: only
// calls that need no permission pass.
type Options struct {
	Rules permission.Rules // of settings and the command line
	Mode  permission.Mode  // "": Default
	Place permission.PathContext

	Approver Approver // nil: nobody can be asked
	Keeper   Keeper   // nil: "always" is not offered
	Ceiling  Ceiling  // skills.enforceAllowedTools
	Agent    string   // the sub-agent whose calls these are; "": none

	// Audit is called with every decision, one at a time; nil: decisions are not
	// recorded. It must not call the Gate.
	Audit func(Record)
}

// A Ceiling says whether the allowed-tools of a skill in force also restrict what
// may run, in addition to granting it. The zero Ceiling does not restrict.
type Ceiling string

const (
	CeilingOff Ceiling = "off"
	CeilingAsk Ceiling = "ask" // the user is asked about what is not in the list
	CeilingOn  Ceiling = "on"  // what is not in the list is denied
)

// SkillRules are what one skill in force grants and denies.
type SkillRules struct {
	Skill string
	Allow []permission.Rule // with the origin "skill:NAME"
	Deny  []permission.Rule
	// Bound, if not "", means that Allow grants nothing and restricts what may run
	// in this way, whatever Options.Ceiling is: for a sub-agent, the skills that were
	// in force where it was started, and its definition.
	Bound Ceiling

	// Foreign: the skill is of a project or a plugin. Its grants of
	// everything (Bash, *) do not count unless the user's rules name the skill, or
	// they are among Accepted, which the user accepted for the skill as it is.
	Foreign  bool
	Accepted []permission.Rule

	// Dir is the skill's folder, and Approved says whether bytes read from a
	// path in it are those a person approved (nil error). Where Approved is not
	// nil, the skill's grants do not cover running a script outside Dir, or one
	// that Approved refuses. Bundled, managed and user skills have no Approved:
	// their grants do not cover a link in Dir that leads into the workspace.
	Dir      string
	Approved func(path string, data []byte) error

	// Limits restrict every command of a call that is allowed.
	Limits []workspace.Limit
}

// A Record is the audit of one call.
type Record struct {
	Call     string
	Tool     string
	Decision permission.Decision // the verdict is Allow or Deny, or Ask where nobody could be asked
	Asked    bool                // the user was asked
	Answer   Answer              // the user's
	Hook     string              // the event whose hook voted: "", PreToolUse, PermissionRequest
}

// A HookFunc returns the votes of hooks on a call. d is the decision so far, for
// PermissionRequest hooks. An error means that the hook itself failed, as
// Opinion.Failed does.
type HookFunc func(ctx context.Context, p tool.Proposal, d permission.Decision) (Opinion, error)

// An Opinion is the merged answer of hooks. The zero Opinion changes nothing.
type Opinion struct {
	Says   Say
	Input  json.RawMessage // replaces the call's input; nil: leaves it
	Reason string
	// Failed: a hook that guards calls could not answer. The user is asked then; if
	// they cannot be asked (headless, and in the modes bypass and dontAsk) the call
	// is refused.
	Failed bool
}

// A Say is a hook's vote.
type Say uint8

const (
	SaysNothing Say = iota
	SaysAllow       // answers in the user's place; never beats a deny, nor an ask rule
	SaysAsk
	SaysDeny
)

// An Overlay is what is in force for one call in addition to the rules of a Gate.
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

// A Gate holds what changes during a session: its mode and the answers given
// in it. It is safe for concurrent use; the user is asked one question at a time.
type Gate struct {
	opt     Options
	answers *answers // of the session: shared with forks and replacements
	session *mode    // shared as answers are
	mode    func() permission.Mode
}

// A mode is that of a session.
type mode struct {
	mu  sync.Mutex
	now permission.Mode
}

func (m *mode) get() permission.Mode {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// answers are the answers of this session, and those that are stored.
type answers struct {
	asking chan struct{} // holds a token while the user is asked

	mu        sync.Mutex
	session   []answer
	kept      []answer
	ask, deny []permission.Rule // of this session
	dirs      []string          // that count as the workspace
}

// An answer is a rule that the user's answer made.
type answer struct {
	rule    permission.Rule
	files   []File // that it is bound to
	unbound bool   // it is bound to no files: the user wrote the rule
}

// New makes the Gate of a session. The error is that of the Keeper.
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
		g.answers.kept = append(g.answers.kept, answer{rule: r, files: k.Files})
	}
	return g, nil
}

// Mode is the mode now.
func (g *Gate) Mode() permission.Mode { return g.mode() }

// SetMode changes the mode of the session, and with it that of its forks.
func (g *Gate) SetMode(m permission.Mode) {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	g.session.now = m
}

// Fork is the Gate of a sub-agent, by name: the same rules, answers and
// Approver, and an audit of its own (nil: that of g). Its mode follows that of g:
// of returns the one for it (nil: the same), and is called at each decision.
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

// Replace is a Gate for other rules and another place, with the mode, the
// answers and the Approver of this one.
func (g *Gate) Replace(rules permission.Rules, place permission.PathContext) *Gate {
	next := *g
	next.opt.Rules, next.opt.Place = rules, place
	return &next
}

// Stricter returns the mode that allows less; "" is no mode.
func Stricter(a, b permission.Mode) permission.Mode {
	order := []permission.Mode{"", permission.Bypass, permission.AcceptEdits, permission.Default, permission.DontAsk,
		permission.Plan}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// SessionRules are the rules that answers of this session made.
func (g *Gate) SessionRules() []permission.Rule {
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	return rulesOf(g.answers.session)
}

// KeptRules are the rules made by the answer "always" that apply here.
func (g *Gate) KeptRules() []permission.Rule {
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	return rulesOf(g.answers.kept)
}

func rulesOf(answers []answer) []permission.Rule {
	rules := make([]permission.Rule, len(answers))
	for i, a := range answers {
		rules[i] = a.rule
	}
	return rules
}

// Ask decides a call with no skills and hooks in force.
func (g *Gate) Ask(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
	return g.With(Overlay{}).Ask(ctx, p)
}

// With is the Gate under the skills and hooks in force.
func (g *Gate) With(in Overlay) tool.Gate {
	return tool.GateFunc(func(ctx context.Context, p tool.Proposal) (tool.Permit, error) {
		a := asking{Gate: g, in: in, p: p, r: Record{Call: p.ID, Tool: p.Name}}
		a.p.Input = bytes.Clone(p.Input) // a private copy: exactly what is decided on runs
		permit, err := a.decideCall(ctx)
		if err == nil {
			permit.Allow = a.allowance()
		}
		for _, s := range in.Skills {
			permit.Limits = append(permit.Limits, s.Limits...)
		}
		return permit, err
	})
}

// allowance is what the sandbox opens for the commands of a call that may run:
// the files that rules spell out, and those paths of the call that such a rule
// allows or that the user was shown and approved.
func (a *asking) allowance() workspace.Allowance {
	rules := permission.Rules{Allow: slices.Clone(a.opt.Rules.Allow)}
	for _, answer := range a.given() {
		rules.Allow = append(rules.Allow, answer.rule)
	}
	missing := func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil
	}
	noFile := func(path string) bool { // a rule for a directory does not open what is in it
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	}
	spelled := rules.Opens("Edit")
	allow := workspace.Allowance{Write: slices.DeleteFunc(slices.Clone(spelled), noFile),
		Read: slices.DeleteFunc(rules.Opens("Read"), noFile)}
	approved := a.r.Asked && a.r.Answer.Choice != No
	dirs := map[string]bool{} // that are made
	for _, s := range a.r.Decision.Subjects {
		open := approved && s.Verdict == permission.Ask || a.Mode() == permission.Bypass || slices.Contains(spelled, s.Text)
		if !open || !filepath.IsAbs(s.Text) {
			continue
		}
		switch s.Kind {
		case "Edit":
			allow.Write = append(allow.Write, s.Text)
			dirs[s.Text] = dirs[s.Text] || s.Dir
		case "Read":
			allow.Read = append(allow.Read, s.Text)
		}
	}
	// What is missing is made, so that it can be opened: not what lies in a
	// directory that is made as well.
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

// An asking is one call on its way through the gate.
type asking struct {
	*Gate
	in Overlay
	p  tool.Proposal // its Input is the one that would run
	r  Record

	vote   Say    // of PreToolUse hooks, about this input
	why    string // they say so
	failed bool   // one of them could not answer
}

const keptChanging = "what it would run kept changing while the user was asked"

func (a *asking) decideCall(ctx context.Context) (tool.Permit, error) {
	none := tool.Permit{}
	if err := a.preToolUse(ctx); err != nil {
		return none, err
	}
	for range 6 { // a change by a hook, the user or on disk starts again, but not without end
		subjects, err := a.p.Named(ctx, a.p.Input)
		if err != nil {
			return none, err
		}
		j := a.voted(a.decide(a.in.Skills, subjects))
		a.r.Decision = j.Decision
		if again := a.permissionRequest(ctx, j); again {
			continue
		}
		switch a.r.Decision.Verdict {
		case permission.Allow:
			a.audit(a.r)
			return tool.Permit{Input: a.p.Input, Subjects: subjects, Scripts: asApproved(j.files)}, nil
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
	a.r.Decision.Verdict, a.r.Decision.Reason = permission.Deny, keptChanging
	return none, a.refuse(a.r, denial(a.p.Name, a.r.Decision))
}

// preToolUse takes the vote of the PreToolUse hooks, and the input that they
// want.
func (a *asking) preToolUse(ctx context.Context) error {
	if a.in.PreToolUse == nil {
		return nil
	}
	op, err := a.in.PreToolUse(ctx, a.p, permission.Decision{})
	if err != nil {
		op.Failed, op.Reason = true, "a hook failed: "+err.Error()
	}
	if op.Says != SaysNothing || op.Input != nil {
		a.r.Hook = "PreToolUse"
	}
	if op.Input != nil {
		a.p.Input = bytes.Clone(op.Input)
	}
	a.vote, a.why, a.failed = op.Says, op.Reason, op.Failed
	switch {
	case op.Says == SaysDeny:
		a.r.Decision = permission.Decision{Verdict: permission.Deny, Reason: reason(op, "a PreToolUse hook")}
		return a.refuse(a.r, a.p.Name+" was not run: "+a.r.Decision.Reason)
	case op.Failed:
		a.vote = SaysAsk
	}
	return nil
}

// voted merges the vote of the PreToolUse hooks into a judgement.
func (a *asking) voted(j judgement) judgement {
	mode := a.Mode()
	switch {
	case a.failed && j.Verdict != permission.Deny && (mode == permission.Bypass || mode == permission.DontAsk):
		j.Verdict, j.Rule, j.Origin, j.Reason, j.Suggest = permission.Deny, "", "", a.why, nil
	case a.vote == SaysAsk && j.Verdict == permission.Allow:
		j.Verdict, j.Reason = permission.Ask, cmp.Or(a.why, "a PreToolUse hook requires approval")
		j.Rule, j.Origin = "", "" // of the rule that allowed it
		j.hook = true
		if mode == permission.DontAsk {
			j.Verdict = permission.Deny
		}
	case a.vote == SaysAllow && j.Verdict == permission.Ask && !j.guarded:
		j.Verdict, j.Reason = permission.Allow, "a PreToolUse hook allows it"
	}
	return j
}

// permissionRequest runs the PermissionRequest hooks for a call that needs the
// user's approval. again reports that they changed the input.
func (a *asking) permissionRequest(ctx context.Context, j judgement) (again bool) {
	if a.r.Decision.Verdict != permission.Ask || a.in.PermissionRequest == nil {
		return false
	}
	op, err := a.in.PermissionRequest(ctx, a.p, a.r.Decision)
	if err != nil || op.Failed && op.Says != SaysDeny {
		return false // the user decides
	}
	if op.Says != SaysNothing {
		a.r.Hook = "PermissionRequest"
	}
	switch {
	case op.Says == SaysDeny:
		a.r.Decision.Verdict, a.r.Decision.Reason = permission.Deny, reason(op, "a PermissionRequest hook")
	case op.Input != nil && !bytes.Equal(op.Input, a.p.Input):
		a.p.Input = bytes.Clone(op.Input)
		if a.vote == SaysAllow { // the input before
			a.vote = SaysNothing
		}
		if op.Says == SaysAllow {
			a.vote = SaysAllow
		}
		return true
	case op.Says == SaysAllow && !j.guarded:
		a.r.Decision.Verdict, a.r.Decision.Reason = permission.Allow, "a PermissionRequest hook allows it"
	}
	return false
}

func reason(op Opinion, who string) string {
	return cmp.Or(op.Reason, who+" denied it")
}

// Decide judges subjects like those of a call, without asking the user: an inline
// command of a skill runs only if the verdict is Allow.
func (g *Gate) Decide(scopes []SkillRules, subjects ...permission.Subject) permission.Decision {
	return g.decide(scopes, subjects).Decision
}

// A judgement is a decision with what limits the answers to it.
type judgement struct {
	permission.Decision
	fixed   bool   // no allow rule can change it: an ask rule or a ceiling said so
	guarded bool   // a hook cannot answer it: fixed, or a secret or a protected path
	hook    bool   // only a hook wants it asked
	files   []File // that it allows by their bytes
}

func (g *Gate) decide(scopes []SkillRules, subjects []permission.Subject) judgement {
	given, place := g.given(), g.opt.Place
	g.answers.mu.Lock()
	ask, deny := slices.Clone(g.answers.ask), slices.Clone(g.answers.deny)
	place.Roots = slices.Concat(place.Roots, g.answers.dirs)
	g.answers.mu.Unlock()
	var dirs []string // where names of scripts may start; found when they matter
	ran := func(s permission.Subject) []File {
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
				if g.Ignores(s, r) {
					continue
				}
				rules.Allow = append(rules.Allow, r)
			}
		}
		for _, s := range scopes {
			rules.Deny = append(rules.Deny, s.Deny...)
		}
		j.Decision = rules.Decide(mode, place, subjects...)

		// Answers and grants that do not cover the files which would run are
		// taken away, and the rest decides.
		dropped := false
		j.files = nil
		for _, s := range j.Subjects {
			if s.Verdict != permission.Allow {
				continue
			}
			switch {
			case s.Origin == permission.Session || s.Origin == permission.Kept:
				files := ran(s.Subject)
				same := func(a answer) bool { return a.rule.Origin == s.Origin && a.rule.String() == s.Rule }
				unbound, covered := false, false
				for _, a := range given {
					if same(a) {
						_, d := differs(files, a.files)
						unbound = unbound || a.unbound
						covered = covered || !d && (len(files) > 0 || len(a.files) == 0 || names(s.Subject, dirs, a.files))
					}
				}
				changing := ""
				if covered && !unbound {
					j.files = append(j.files, files...)
					changing = g.changing(subjects, files)
				}
				if changing != "" || !covered && !unbound {
					f, _ := differs(files, nil)
					switch {
					case changing != "":
						why = changing
					case f.Path == "":
						why = "a file that it was approved for is not there"
					default:
						why = f.Path + " is not as it was when it was approved"
					}
					given = slices.DeleteFunc(slices.Clone(given), same)
					dropped = true
				}
			case strings.HasPrefix(string(s.Origin), "skill:"):
				for i, sc := range grants {
					if "skill:"+sc.Skill != string(s.Origin) || sc.Dir == "" {
						continue
					}
					files := ran(s.Subject)
					no := ""
					if sc.Approved == nil {
						no = sc.linked(files, append([]string{place.Dir}, place.Roots...))
					} else {
						no = sc.covers(files)
						if name := missing(s.Subject, dirs); no == "" && name != "" {
							no = name + " is not there"
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
			j.fixed = j.fixed || s.Rule != ""
			j.guarded = j.guarded || s.Rule != "" || s.Origin == permission.Builtin
		}
	}
	for _, sc := range scopes {
		g.ceiling(&j, sc, subjects, mode)
	}
	return j
}

// shown are the files that subjects would run, with what they were when they
// were approved, if that differs.
func (g *Gate) shown(subjects []permission.Subject) (files []File) {
	given := g.given()
	dirs := folders(subjects, g.opt.Place.Dir)
	for _, s := range subjects {
		for _, f := range scriptsOf(s, dirs) {
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

// changing says which part of a call may put other bytes into files before it
// runs them; "": none. Commands that only read, and that write other files alone,
// do not.
func (g *Gate) changing(subjects []permission.Subject, files []File) string {
	if len(files) == 0 {
		return ""
	}
	dirs := folders(subjects, g.opt.Place.Dir)
	for _, s := range (permission.Rules{}).Decide(permission.AcceptEdits, g.opt.Place, subjects...).Subjects {
		for _, f := range files {
			switch {
			case s.Kind == "Edit" && (s.Text == f.Path || slices.Contains(f.names, scripts.Join(g.opt.Place.Dir, s.Text))):
				return f.Path + " is written before it runs"
			case isBash(s.Kind) && s.Verdict != permission.Allow && len(scriptsOf(s.Subject, dirs)) == 0 &&
				!keepsBytes(s.Subject, f, dirs):
				return fmt.Sprintf("%q may change %s before it runs", s.Text, f.Path)
			}
		}
	}
	return ""
}

// keepsBytes reports whether a simple command is the script itself, as its
// interpreter is given it, or a program that changes no file's bytes.
func keepsBytes(s permission.Subject, f File, dirs []string) bool {
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

// alone are the scripts of a call that was just approved, as they were shown. A
// call that may change them itself was approved with what it does, and runs what
// is there then.
func (g *Gate) alone(subjects []permission.Subject, files []File) []workspace.Script {
	if g.changing(subjects, files) != "" {
		return nil
	}
	return asApproved(files)
}

func (g *Gate) given() []answer {
	g.answers.mu.Lock()
	defer g.answers.mu.Unlock()
	return slices.Concat(g.answers.session, g.answers.kept)
}

// Ignores reports whether a rule that a skill grants is not in effect because
// it covers everything and the skill is not the user's own.
func (g *Gate) Ignores(s SkillRules, r permission.Rule) bool {
	return s.Foreign && r.Broad() && !Names(g.opt.Rules, s.Skill) &&
		!slices.ContainsFunc(s.Accepted, func(a permission.Rule) bool { return a.String() == r.String() })
}

// Names reports whether an allow rule that is not a project's names a skill.
func Names(rules permission.Rules, skill string) bool {
	return slices.ContainsFunc(rules.Allow, func(r permission.Rule) bool {
		return r.Tool == "Skill" && r.Pattern == skill && r.Origin != permission.Project
	})
}

// covers explains why a skill's grants do not cover running these files; "" if
// they do.
func (s SkillRules) covers(files []File) string {
	for _, f := range files {
		if !inside(s.Dir, f.Path) {
			return fmt.Sprintf("%s is outside of the folder of skill %q, which grants it", f.Path, s.Skill)
		}
		if err := s.Approved(f.Path, f.data); err != nil {
			return err.Error()
		}
	}
	return ""
}

// linked explains why a skill's grants do not cover running these files: a link in the
// skill's own folder leads to a file of the workspace, which is not the skill's.
func (s SkillRules) linked(files []File, roots []string) string {
	for _, f := range files {
		own := slices.ContainsFunc(f.names, func(name string) bool { return subpath.Contains(s.Dir, name) })
		if own && !inside(s.Dir, f.Path) && slices.ContainsFunc(roots,
			func(root string) bool { return inside(root, f.Path) }) {
			return fmt.Sprintf("%s is a file of the workspace, not of the skill %q", f.Path, s.Skill)
		}
	}
	return ""
}

// ceiling checks subjects against the list of a skill in force, or of what
// bounds a sub-agent, where that is a ceiling: it must name what is done, also
// where it would be harmless. The Skill tool and questions to the person are
// outside of it.
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
		if s.Kind == "Skill" || s.Kind == "ask" || g.lists(sc, s) || j.Verdict == permission.Deny {
			continue
		}
		j.fixed, j.guarded, j.Suggest = true, true, nil
		j.Verdict, j.Rule, j.Origin = verdict, "", ""
		j.Reason = fmt.Sprintf("the allowed-tools of skill %q do not name it", sc.Skill)
		if name, ok := strings.CutPrefix(sc.Skill, "agent "); ok {
			j.Reason = fmt.Sprintf("the tools of agent %q do not name it", name)
		}
	}
}

// lists reports whether a skill's list names a subject. A command that is
// harmless by itself is named where any command is.
func (g *Gate) lists(sc SkillRules, s permission.Subject) bool {
	d := permission.Rules{Allow: sc.Allow}.Decide(permission.Default, g.opt.Place, s)
	if d.Verdict != permission.Allow {
		return false
	}
	for _, x := range d.Subjects {
		switch {
		case strings.HasPrefix(string(x.Origin), "skill:"), strings.HasPrefix(string(x.Origin), "agent "):
		case isBash(s.Kind):
			if !slices.ContainsFunc(sc.Allow, func(r permission.Rule) bool { return isBash(r.Tool) || r.Tool == "*" }) {
				return false
			}
		default: // allowed by itself: only a rule that matches it names it
			if (permission.Rules{Deny: sc.Allow}).Decide(permission.Default, g.opt.Place, s).Verdict != permission.Deny {
				return false
			}
		}
	}
	return true
}

func isBash(tool string) bool { return tool == "Bash" || tool == "bash" }

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

// wouldAllow names what would have allowed a call that was not run for a reason:
// rules, or trust where no rule helps.
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
