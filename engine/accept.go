package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
)

// admit verifies a skill's files, and returns those of its broad rules that may take effect. Broad rules are rules in
// allowed-tools that cover every call of a tool, such as Bash. It asks the user, who may accept them until the turn
// ends, or for as long as the skill's files do not change. If the user cannot be asked, only rules accepted earlier
// take effect.
func (t *Turn) admit(ctx context.Context, c agent.SkillCall) ([]string, error) {
	s, p, k := t.session, t.project, c.Skill
	if err := p.verify(k); err != nil {
		return nil, err
	}
	if k.Origin.Kind == knack.MCP {
		return nil, t.remote.show(ctx, c)
	}
	ineffective := t.ineffective(k, c.Asks.Grants)
	if len(ineffective) == 0 || k.Origin.Trust != knack.Trusted {
		return nil, nil // an untrusted skill grants nothing
	}
	path, hash, err := p.trust.SkillContent(k)
	if err != nil {
		return nil, nil // without content there is nothing to accept; the activation reports the rules
	}
	var rules []string // in the order of the skill
	for _, rule := range c.Asks.Grants {
		if ineffective[rule] != "" {
			rules = append(rules, rule)
		}
	}
	if p.trust.Granted(path, hash, rules) {
		return rules, nil
	}
	key := path + "\x00" + hash + "\x00" + strings.Join(rules, ",")
	if accepted, known := t.earlierAnswer(key, c.By); known {
		if accepted {
			return rules, nil
		}
		return nil, nil
	}
	if s.person == nil || !asksAboutSkills(s.Mode()) {
		return nil, nil
	}
	canStore := p.options.Env.StateDir() != ""
	accepted, always, err := t.askAboutRules(ctx, k, path, c.Asks, rules, canStore)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, nil // no answer
	}
	if !accepted {
		t.recordAnswer(key, false)
		return nil, nil
	}
	if _, newHash, err := p.trust.SkillContent(k); err != nil || newHash != hash {
		return nil, &knack.Refusal{Code: knack.RefusedChanged,
			Message: fmt.Sprintf("the files of the skill %s changed while the user was asked", k.Name)}
	}
	t.recordAnswer(key, true)
	if always {
		if err := p.trust.Grant(path, hash, rules); err != nil {
			s.engine.notices.add(knack.Problem{Code: knack.CodeToolPattern, Severity: knack.Warn, Path: k.Path,
				Message: "your answer could not be stored and applies only until the turn ends: " + err.Error()})
		}
	}
	return rules, nil
}

// earlierAnswer returns the user's earlier answer to the same question, if there is one. An answer applies
// until the turn ends. A no also applies to all later calls by the model in this session, so that the model cannot make
// the question appear again and again.
func (t *Turn) earlierAnswer(key string, by knack.Caller) (accepted, known bool) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	if accepted, known = t.answers[key]; known {
		return accepted, true
	}
	return false, by == knack.ByModel && t.session.declinedRules[key]
}

func (t *Turn) recordAnswer(key string, accepted bool) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	if t.answers == nil {
		t.answers = map[string]bool{}
	}
	t.answers[key] = accepted
	if t.session.declinedRules == nil {
		t.session.declinedRules = map[string]bool{}
	}
	t.session.declinedRules[key] = !accepted
}

// askAboutRules asks the user whether rules of a skill may take effect. If canStore is set, the user may also answer
// "always", and has to type that word to confirm it.
func (t *Turn) askAboutRules(ctx context.Context, k *knack.Skill, path string, asks knack.Asks, rules []string,
	canStore bool) (accepted, always bool, err error) {
	what := "commands"
	for _, r := range rules {
		if !strings.HasPrefix(r, "Bash") {
			what = "tools"
		}
	}
	title := fmt.Sprintf("Let the skill %s use all %s without asking?", plain.Line(k.Name), what)
	q := Question{Title: title, Asker: AskerGate, Text: fmt.Sprintf("The allowed-tools of %s contain %s, which covers "+
		"all %s.\nWhat the skill asks for: %s.\n"+
		"Deny rules, the sandbox, and the protection of secrets and of protected paths still apply.", path,
		strings.Join(rules, ", "), what, agent.DescribeAsks(asks)),
		Options: []Option{
			{ID: "turn", Label: "yes, until this turn ends", Allow: true},
		}}
	if canStore {
		q.Options = append(q.Options, Option{ID: "always", Allow: true,
			Label: "yes, while its files stay the same (you confirm by typing)"})
	}
	q.Options = append(q.Options, Option{ID: OptionNo, Label: "no, ask as usual"})
	a, err := t.session.ask(ctx, hook.NoticePermission, title, q)
	if err != nil || a.Declined || a.Option != "always" {
		return err == nil && !a.Declined && a.Option == "turn", false, err
	}
	confirm := Question{Title: title, Asker: AskerGate,
		Fields: []Field{{Name: "always", Label: "Type always to confirm; anything else means no", Required: true}}}
	a, err = t.session.ask(ctx, hook.NoticePermission, title, confirm)
	typed := err == nil && !a.Declined && strings.TrimSpace(strings.ToLower(a.Text("always"))) == "always"
	return typed, typed, err
}

// describeSkill returns what the user should know about a skill that asks for something, its text, and the hash of the
// content.
func (t *Turn) describeSkill(ctx context.Context, k *knack.Skill) (points []gate.Reason, text []Document, hash string) {
	asks, err := k.Asks(ctx)
	if err != nil {
		return nil, nil, "" // the call fails for the same reason
	}
	points = agent.PointsOf(asks, t.ineffective(k, asks.Grants))
	body, err := k.Body(ctx)
	if err != nil || k.Path == "" {
		return points, nil, asks.Hash
	}
	return points, []Document{{Title: "the text of the skill", Help: t.project.Short(k.Path), Text: body,
		Name: "SKILL.md"}}, asks.Hash
}
