package permission

import (
	"cmp"
	"strings"
)

// Tools whose subjects are neither commands nor files.

// other judges a subject that is neither a command nor a file.
func (j *judge) other(s Subject) {
	rule := string(s.Kind)
	switch {
	case s.Kind == KindWebFetch:
		rule = ""
		if h := hostOf(s.Text); h != "" {
			rule = "WebFetch(domain:" + h + ")"
		}
	case s.Kind == KindNetwork:
		host, port := cutPort(s.Text)
		rule = HostRule(host, port)
	case s.Text != "" && !strings.HasPrefix(rule, "mcp__"):
		rule += "(" + escapeGlob(s.Text) + ")"
	}
	for i := range j.rules.Deny {
		if r := &j.rules.Deny[i]; r.coversTool(&s, true) && r.matchText(s.Kind, s.Text, true) {
			j.add(judgedBy(s, Deny, r), "")
			return
		}
	}
	if s.Policy == PolicyDeny {
		j.add(Judged{Subject: s, Verdict: Deny, Origin: Builtin, Reason: reasonPolicyDeny}, "")
		return
	}
	for i := range j.rules.Ask {
		if r := &j.rules.Ask[i]; r.coversTool(&s, true) && r.matchText(s.Kind, s.Text, true) {
			j.add(judgedBy(s, Ask, r), "")
			return
		}
	}
	if j.mode == Plan && s.Default != Allow && !s.ReadOnly {
		j.add(Judged{Subject: s, Verdict: Deny, Reason: reasonPlan}, "")
		return
	}
	if s.Policy != "" {
		j.add(Judged{Subject: s, Origin: Builtin, Reason: reasonPolicyAsk}, "")
		return
	}
	if s.EveryTime {
		j.add(Judged{Subject: s, Reason: cmp.Or(s.Note, ReasonNoRule)}, "")
		return
	}
	for i := range j.rules.Allow {
		if r := &j.rules.Allow[i]; r.coversTool(&s, false) && r.matchText(s.Kind, s.Text, false) && r.sameServerOrigin(&s) &&
			(!s.Outside || r.Origin.personal()) && (!s.Inside || r.spells(s.Text)) &&
			(s.Kind != KindNetwork || r.opensHosts()) {
			j.add(judgedBy(s, Allow, r), "")
			return
		}
	}
	if s.Default == Allow {
		j.add(Judged{Subject: s, Verdict: Allow, Origin: Builtin, Reason: harmless(s.Kind)}, "")
		return
	}
	j.add(Judged{Subject: s, Reason: cmp.Or(s.Note, ReasonNoRule)}, rule)
}

// spells reports whether a rule's pattern begins with a host, whose port may be a wildcard.
func (r *Rule) spells(address string) bool {
	host := address
	if i := strings.LastIndexByte(address, ':'); i > strings.LastIndexByte(address, ']') {
		host = address[:i]
	}
	return strings.HasPrefix(r.Pattern, host) || strings.HasPrefix(r.Pattern, escapeGlob(host))
}

// harmless is the reason for a subject that needs no rule.
func harmless(k Kind) string {
	if k == KindWebFetch {
		return reasonDocumentation
	}
	return reasonAsksNobody
}

// escapeGlob returns a pattern that matches exactly the text s.
func escapeGlob(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*', '?', '[', '\\':
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hostOf(address string) string {
	for _, c := range address {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	rest, ok := strings.CutPrefix(address, "https://")
	if !ok {
		if rest, ok = strings.CutPrefix(address, "http://"); !ok {
			return ""
		}
	}
	host := rest[:len(rest)-len(strings.TrimLeft(rest,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"))]
	if port := rest[len(host):]; strings.HasPrefix(port, ":") {
		port = port[:len(port)-len(strings.TrimLeft(port[1:], "0123456789"))]
		if port != ":80" && port != ":443" {
			host += port
		}
	}
	if !matchHost(strings.ToLower(host), address, false) {
		return ""
	}
	return strings.ToLower(host)
}
