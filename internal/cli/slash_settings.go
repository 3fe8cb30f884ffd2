package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/config"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/trust"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/sources"
)

func (s *sessionRun) slashModel(_ context.Context, name string, say func(string)) (string, error) {
	if name != "" {
		m, err := s.agent.Resolve(name)
		if err == nil {
			err = s.alone()
		}
		if err != nil {
			return "", err
		}
		s.agent.Model = m
		if _, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Model: m.Info().ID}}); err != nil {
			return "", err
		}
	}
	say(plain.Line(s.modelName()))
	return "", nil
}

func (s *sessionRun) slashEffort(_ context.Context, level string, say func(string)) (string, error) {
	if level != "" {
		value, err := json.Marshal(level)
		if err != nil {
			return "", err
		}
		if err := config.Check("effort", value); err != nil {
			return "", err
		}
		if _, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Effort: level}}); err != nil {
			return "", err
		}
	}
	say(cmp.Or(s.log.State().Effort, s.agent.Effort, "the model's own; low, medium, high, xhigh, max or a number of thinking tokens"))
	return "", nil
}

func (s *sessionRun) slashSettings(_ context.Context, args string, say func(string)) (string, error) {
	key, value, _ := strings.Cut(args, " ")
	value = strings.TrimSpace(value)
	if value == "" {
		found := false
		for _, v := range s.settings.Values() {
			if key != "" && v.Key != key && !strings.HasPrefix(v.Key, key+".") {
				continue
			}
			found = true
			say(shownSetting(v))
		}
		switch {
		case found:
		case key == "":
			say("nothing is set; knack help settings lists what can be")
		default:
			if err := config.Known(key); err != nil {
				return "", &engine.Error{Err: err, Hint: "knack help settings"}
			}
			say(plain.Line(key) + " is not set")
		}
		return "", nil
	}
	data := json.RawMessage(value)
	if !json.Valid(data) { // a word needs no quotes
		data, _ = json.Marshal(value)
	}
	if err := config.Check(key, data); err != nil {
		return "", &engine.Error{Err: err, Hint: "knack help settings", Exit: engine.ExitUsage}
	}
	if engine.Env(nil).ConfigDir() == "" {
		return "", engine.ErrNoState("the setting was not stored")
	}
	path := filepath.Join(engine.Env(nil).ConfigDir(), "settings.json")
	if err := config.Set(path, key, data); err != nil {
		return "", err
	}
	say(fmt.Sprintf("%s = %s\n    in %s; /reload or the next start reads it", plain.Line(key), plain.Line(string(data)), plain.Line(shown(path))))
	return "", nil
}

// shownSetting is a setting with the places that set it.
func shownSetting(v config.Value) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %s", v.Key, plain.Line(string(v.JSON)))
	var told []string
	for _, p := range v.Places {
		if at := "\n    " + place(p); !slices.Contains(told, at) {
			told = append(told, at)
			b.WriteString(at)
		}
	}
	return b.String()
}

// place is where a setting comes from.
func place(p config.Place) string {
	if p.Path == "command line" {
		return p.Path
	}
	at := plain.Line(shown(p.Path))
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, p.Line)
	}
	return string(p.Origin) + ", " + at
}

func (s *sessionRun) slashPermissions(_ context.Context, mode string, say func(string)) (string, error) {
	if mode != "" {
		m, err := permission.ParseMode(mode)
		if err != nil {
			return "", err
		}
		if m == permission.Bypass && s.settings.Settings.Permissions.DisableBypass == "disable" {
			return "", errors.New("bypassPermissions is disabled by the settings")
		}
		if _, err := s.log.Append(session.Entry{Type: session.TypeSetting, Setting: &session.Setting{Mode: m}}); err != nil {
			return "", err
		}
		s.gate.SetMode(m)
		say("mode: " + string(m))
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mode: %s\n", s.gate.Mode())
	if c := s.settings.Settings.Skills.EnforceAllowedTools; c != "" {
		fmt.Fprintf(&b, "skills.enforceAllowedTools: %s\n", c)
	}
	for _, kind := range []struct {
		name  string
		rules []permission.Rule
	}{{"deny", s.settings.Rules.Deny}, {"ask", s.settings.Rules.Ask}, {"allow", s.settings.Rules.Allow}} {
		places := s.settings.Where("permissions." + kind.name)
		for i, r := range kind.rules {
			fmt.Fprintf(&b, "%-5s %s", kind.name, plain.Line(r.String()))
			if i < len(places) {
				fmt.Fprintf(&b, "  (%s)", place(places[i]))
			}
			b.WriteString("\n")
		}
	}
	for _, r := range s.gate.KeptRules() {
		fmt.Fprintf(&b, "allow %s  (answered always)\n", plain.Line(r.String()))
	}
	for _, r := range s.gate.SessionRules() {
		fmt.Fprintf(&b, "allow %s  (answered for this session)\n", plain.Line(r.String()))
	}
	for _, k := range s.log.State().Scopes {
		for _, r := range k.Grants {
			fmt.Fprintf(&b, "allow %s  (skill %s, this turn)\n", plain.Line(r), plain.Line(k.Skill))
		}
	}
	b.WriteString("Secrets and protected paths ask as well, and reading here needs no rule: knack help permissions.")
	say(b.String())
	return "", nil
}

func (s *sessionRun) slashTrust(ctx context.Context, _ string, say func(string)) (string, error) {
	if err := s.project.Reload(); err != nil {
		return "", err
	}
	items, err := s.project.Scan(ctx, s.dir, false)
	if err != nil {
		say(err.Error())
	}
	kept, err := s.project.Kept()
	if err != nil {
		return "", err
	}
	rules := make([]string, len(kept))
	for i, k := range kept {
		rules[i] = k.Rule
	}
	var b strings.Builder
	printTrust(&b, s.project, items, rules)
	say(strings.TrimRight(b.String(), "\n"))
	refused := slices.ContainsFunc(items, func(it trust.Item) bool { return it.Refused != "" })
	open := slices.DeleteFunc(items, func(it trust.Item) bool { return it.State == trust.Approved || it.Refused != "" })
	question := fmt.Sprintf("Trust these %d?", len(open))
	switch {
	case len(open) == 0 && (refused || s.project.Trusted()):
		return "", nil
	case len(open) == 0:
		question = "Trust the folder? Git and other programs obey its configuration."
	}
	if err := s.alone(); err != nil { // what is approved is read at once
		return "", err
	}
	if s.who == nil {
		say("nothing was approved, because nobody is here to ask: knack trust -y approves what is shown")
		return "", nil
	}
	if engine.Env(nil).StateDir() == "" {
		return "", engine.ErrNoState("no approval can be stored")
	}
	agreed, err := s.agrees(ctx, question, "yes")
	if err != nil {
		return "", err
	}
	if !agreed {
		say("nothing was approved")
		return "", nil
	}
	if err := s.project.Approve(open...); err != nil {
		return "", err
	}
	return s.slashReload(ctx, "", say)
}

// agrees asks somebody who is there; yes is what they choose, or say in short.
func (s *sessionRun) agrees(ctx context.Context, question, yes string) (bool, error) {
	answer, err := s.who.Ask(ctx, question, []string{yes, "no"})
	return answer == yes || answer == "yes" || answer == "y", err
}

// alone refuses to change what agents in the background go by.
func (s *sessionRun) alone() error {
	for _, a := range s.agent.Background.Unheard(s.log) {
		if a.Reason == "" {
			return &engine.Error{Err: fmt.Errorf("the agent %s works in the background, and would see this change meanwhile", plain.Line(a.Name)), Hint: "wait until it has ended, or end it with /new"}
		}
	}
	return nil
}

// slashReload reads everything again and swaps it whole, or leaves it as it is.
func (s *sessionRun) slashReload(ctx context.Context, _ string, say func(string)) (string, error) {
	if err := s.alone(); err != nil {
		return "", err
	}
	fresh, err := s.flags.resourceFlags.open(ctx, s.flags.values())
	if err != nil {
		return "", fmt.Errorf("nothing was changed: %w", err)
	}
	fresh.view.Index = s.view.Index
	was, skills := s.resources, s.library.Catalog().Skills()
	s.old = append(s.old, was)
	s.resources = fresh
	s.nested = sources.NewNested(s.dir, s.options)
	cat := s.library.Replace(ctx, s.sources...)
	s.agent.View, s.agent.Agents = s.view, s.agents
	s.gate = s.gate.Replace(s.settings.Rules, s.place())
	s.stand()

	say("skills: " + difference(skills, cat.Skills(), func(k *knack.Skill) (string, string) { return k.Name, k.ID + "\x00" + k.Summary() }))
	say("templates: " + difference(was.templates, s.templates, func(c knack.Command) (string, string) {
		return c.Name, c.Source + "\x00" + c.Description + "\x00" + c.Hint
	}))
	say("agents: " + difference(was.agents, s.agents, func(d agent.Definition) (string, string) {
		text, _ := json.Marshal(d)
		return d.Name, string(text)
	}))
	say("settings: " + difference(was.settings.Values(), s.settings.Values(), func(v config.Value) (string, string) {
		return v.Key, string(v.JSON)
	}) + "; of them rules and hooks count from now on, the rest from the next start")
	problems := s.problems(cat)
	bad := slices.DeleteFunc(problems, func(p knack.Problem) bool { return p.Severity == knack.Info })
	for i, p := range bad {
		if i == 5 {
			say(fmt.Sprintf("and %s: knack skill list --all", plain.Count(len(bad)-i, "more problem")))
			break
		}
		say(fmt.Sprintf("%s: %s", p.Severity, shownProblem(p)))
	}
	return "", nil
}

// difference says how many there are, and which came, changed or went.
func difference[T any](was, now []T, of func(T) (name, text string)) string {
	before := map[string]string{}
	for _, v := range was {
		name, text := of(v)
		before[name] = text
	}
	out := fmt.Sprint(len(now))
	for _, v := range now {
		name, text := of(v)
		old, ok := before[name]
		delete(before, name)
		switch {
		case !ok:
			out += ", new " + plain.Line(name)
		case old != text:
			out += ", changed " + plain.Line(name)
		}
	}
	for _, v := range was {
		if name, _ := of(v); before[name] != "" {
			out += ", gone " + plain.Line(name)
		}
	}
	return out
}
