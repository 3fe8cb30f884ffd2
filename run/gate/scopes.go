package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
)

// Scopes are what applies to a call in addition to the rules of a Gate: the skills in use, the
// restrictions of a sub-agent, and hooks. The zero Scopes add nothing. They must not be changed
// while a call is being decided.
type Scopes struct {
	Skills []Skill
	Bounds []Bound
	Hooks  *hook.Set // of which those of PreToolUse and PermissionRequest run; nil: none
}

// A Skill is a skill in use.
type Skill struct {
	Scope session.Scope // what it grants and denies
	Facts SkillFacts
}

// SkillFacts are what a program knows about a skill at its activation. The zero SkillFacts are those
// of a skill that the user trusts as if it were their own.
type SkillFacts struct {
	// Foreign means that the skill belongs to a project or a plugin. A grant of everything (Bash,
	// *) is then ignored, unless the user's rules name the skill or the grant is one of those that
	// the user accepted for the skill's present content.
	Foreign bool
	Vouched bool // the skill is an administrator's or bundled, see Options.OnlyManaged

	// Dir is the skill's folder; "" if it has none. Approved returns nil if data, which was read from a
	// path in Dir, is the content that the user approved. If Approved is set, the skill's grants do not cover running a
	// script outside Dir or one that Approved rejects. It is nil for bundled, managed and user
	// skills, whose grants do not cover a link in Dir that leads into the workspace.
	Dir      string
	Approved func(path string, data []byte) error

	// Limits restrict every command of an allowed call.
	Limits []workspace.Limit
	// Secrets is called for a call that may run commands, before it runs. It may ask the user, and returns
	// [workspace.Allowance.Secrets] for the call's commands; nil: they get none. nil: the skill has none.
	Secrets func(ctx context.Context, call []permission.Subject) func(context.Context, workspace.Command) (
		workspace.Secrets, error)
}

// A Bound restricts a sub-agent. It comes from the sub-agent's definition or from a skill that was
// in use where the sub-agent was started. It grants nothing.
type Bound struct {
	Agent, Skill string // exactly one is set
	Denies       []string
	// Names are either the tools of the definition, and nothing else may run, or the grants of the
	// skill, which restrict the sub-agent if [Options].Ceiling says so. nil: no restriction.
	Names  []string
	Limits []workspace.Limit // as in SkillFacts
}

// A scope is what one Skill or Bound grants and denies, as parsed rules.
type scope struct {
	SkillFacts
	name     string // of the skill; or "agent " and the name of the definition
	allow    []permission.Rule
	deny     []permission.Rule
	accepted []permission.Rule
	bound    bool    // allow grants nothing and only restricts
	ceiling  Ceiling // whether allow also restricts
}

// parse returns the rules of the skills and restrictions in use.
func (in Scopes) parse(ceiling Ceiling) []scope {
	var all []scope
	for _, k := range in.Skills {
		origin := permission.Origin("skill:" + k.Scope.Skill)
		all = append(all, scope{SkillFacts: k.Facts, name: k.Scope.Skill, ceiling: ceiling,
			allow: parseRules(k.Scope.Grants, origin), deny: parseDenies(k.Scope.Denies, origin),
			accepted: parseRules(k.Scope.Accepted, origin)})
	}
	for _, b := range in.Bounds {
		own := scope{SkillFacts: SkillFacts{Limits: b.Limits}, name: b.Skill, bound: true, ceiling: ceiling}
		origin := permission.Origin("skill:" + b.Skill)
		if b.Agent != "" {
			own.name, own.ceiling, origin = "agent "+b.Agent, CeilingOn, permission.Origin("agent "+b.Agent)
		}
		own.allow, own.deny = parseRules(b.Names, origin), parseDenies(b.Denies, origin)
		all = append(all, own)
	}
	return all
}

// parseRules parses rules. It skips invalid ones, which were reported when the skill was read.
func parseRules(texts []string, origin permission.Origin) []permission.Rule {
	var all []permission.Rule
	for _, text := range texts {
		if r, err := permission.ParseRule(text, origin); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// parseDenies parses rules that deny. What is nearly the name of a tool counts as that one, too.
func parseDenies(texts []string, origin permission.Origin) []permission.Rule {
	all := parseRules(texts, origin)
	for _, r := range all {
		if r.Tool = r.Meant(); r.Tool != "" {
			all = append(all, r)
		}
	}
	return all
}

// Ineffective reports whether a rule that a skill grants has no effect unless the user accepts it,
// because it covers everything and the skill is foreign.
func (g *Gate) Ineffective(skill string, foreign bool, r permission.Rule) bool {
	return foreign && r.Broad() && !HasAllowRule(g.opt.Rules, skill)
}

// isGranted reports whether a rule of a skill in use has an effect.
func (g *Gate) isGranted(s scope, r permission.Rule) bool {
	return !s.bound && (s.Vouched || !g.opt.OnlyManaged) && (!g.Ineffective(s.name, s.Foreign, r) ||
		slices.ContainsFunc(s.accepted, func(a permission.Rule) bool { return a.String() == r.String() }))
}

// HasAllowRule reports whether an allow rule names a skill. Rules of a project do not count.
func HasAllowRule(rules permission.Rules, skill string) bool {
	return slices.ContainsFunc(rules.Allow, func(r permission.Rule) bool {
		return r.Tool == "Skill" && r.Pattern == skill && r.Origin != permission.Project
	})
}

// readable returns the directory of a skill in use, whose files are read without a question.
func (s scope) readable(onlyManaged bool) (dir permission.SkillDir, ok bool) {
	if s.bound || s.Dir == "" || onlyManaged && !s.Vouched {
		return dir, false
	}
	dir.Dir = s.Dir
	if s.Approved != nil {
		dir.Approved = func(path string) error {
			data, err := regular.Read(path, maxHashSize)
			if err != nil {
				return err
			}
			return s.Approved(path, data)
		}
	}
	return dir, true
}

// whyNotCovered explains why a skill's grants do not cover running these files; "" if they do.
// roots are the directories of the workspace.
func (s scope) whyNotCovered(files []File, missing, roots []string) string {
	if s.Approved == nil {
		return s.whyLinked(files, roots)
	}
	for _, f := range files {
		if !inside(s.Dir, f.Path) {
			return fmt.Sprintf("%s is outside the folder of skill %q, which grants it", f.Path, s.name)
		}
		if err := s.Approved(f.Path, f.data); err != nil {
			return err.Error()
		}
	}
	if len(missing) > 0 {
		return missing[0] + " does not exist"
	}
	return ""
}

// whyLinked explains why a skill's grants do not cover running these files: a link in the skill's
// folder leads to a file of the workspace, which is not part of the skill; "" if they do.
func (s scope) whyLinked(files []File, roots []string) string {
	for _, f := range files {
		own := slices.ContainsFunc(f.names, func(name string) bool { return subpath.Contains(s.Dir, name) })
		if own && !inside(s.Dir, f.Path) && slices.ContainsFunc(roots,
			func(root string) bool { return inside(root, f.Path) }) {
			return fmt.Sprintf("%s is a file of the workspace, not of the skill %q", f.Path, s.name)
		}
	}
	return ""
}

// applyCeiling applies the list of a skill, or of a restriction on a sub-agent, if it is a ceiling:
// every subject must be in the list, even one that is harmless. The Skill tool and questions to the
// user are exempt.
func (g *Gate) applyCeiling(ctx context.Context, judged *judgement, s scope, subjects []permission.Subject,
	mode permission.Mode) {

	verdict := permission.Ask
	switch {
	case s.ceiling != CeilingAsk && s.ceiling != CeilingOn || len(s.allow) == 0:
		return
	case s.ceiling == CeilingOn || mode == permission.DontAsk:
		verdict = permission.Deny
	case mode == permission.Bypass:
		return
	}
	for _, subject := range subjects {
		if subject.Kind == permission.KindSkill || subject.Kind == "ask" || g.isListed(ctx, s, subject) ||
			judged.Verdict == permission.Deny {
			continue
		}
		judged.noAllow, judged.noHook, judged.Suggest = true, true, nil
		judged.Verdict, judged.Rule, judged.Origin = verdict, "", ""
		judged.Reason = fmt.Sprintf("the allowed-tools of skill %q do not include it", s.name)
		if name, ok := strings.CutPrefix(s.name, "agent "); ok {
			judged.Reason = fmt.Sprintf("the tools of agent %q do not include it", name)
		}
	}
}

// isListed reports whether a list covers a subject. A command that is harmless by itself is covered
// if the list has any rule for commands.
func (g *Gate) isListed(ctx context.Context, s scope, subject permission.Subject) bool {
	d := permission.Rules{Allow: s.allow}.Decide(ctx, permission.Default, g.opt.Paths, subject)
	if d.Verdict != permission.Allow {
		return false
	}
	for _, part := range d.Subjects {
		switch {
		case strings.HasPrefix(string(part.Origin), "skill:"), strings.HasPrefix(string(part.Origin), "agent "):
		case isBash(subject.Kind):
			if !slices.ContainsFunc(s.allow, func(r permission.Rule) bool {
				return isBash(permission.Kind(r.Tool)) || r.Tool == "*"
			}) {
				return false
			}
		default: // allowed without a rule: it is covered only if a rule matches it
			asDeny := permission.Rules{Deny: s.allow}
			if asDeny.Decide(ctx, permission.Default, g.opt.Paths, subject).Verdict != permission.Deny {
				return false
			}
		}
	}
	return true
}
