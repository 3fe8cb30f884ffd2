package permission

import (
	"strings"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
)

// A judge collects the verdicts of one decision.
type judge struct {
	rules     *Rules
	mode      Mode
	paths     *PathContext
	request   Subject // the command line
	line      *bash.CommandLine
	out       []Judged
	suggested []string
	// entriesLeft is the number of directory entries that may still be read.
	entriesLeft int
	suggest     bool // every question so far can be answered by a rule
	unclear     bool // a deny rule may match the next subject passed to add
	recorded    map[Judged]bool
	allWords    bool         // the rule suggested for the outer command spells out all its words
	hasDots     bool         // globs may match names that begin with a dot
	denied      *DeniedFiles // what the sandbox closes; nil: not known yet, or it closes nothing

	allow, ask, deny []bashRule // rules for commands
	ready            bool
}

// A bashRule is a rule for commands. It is compiled when a line with its first byte is first
// matched.
type bashRule struct {
	*Rule
	pattern  pattern
	compiled bool
	broad    bool // for deny and ask rules: in lower case
	first    byte // the first byte of every line it matches; 0: any
}

func (b *bashRule) get() *pattern {
	if !b.compiled {
		text := b.Pattern
		if b.broad {
			text = strings.ToLower(text)
		}
		b.pattern, b.compiled = compile(text), true
	}
	return &b.pattern
}

// prepare selects the rules for commands, once per decision.
func (j *judge) prepare() {
	if j.ready {
		return
	}
	j.ready = true
	pick := func(list []Rule, broad bool) []bashRule {
		var out []bashRule
		for i := range list {
			if r := &list[i]; r.coversTool(&Subject{Kind: KindBash, Tool: j.request.Tool, Aliases: j.request.Aliases}, broad) {
				b := bashRule{Rule: r, broad: broad}
				if !r.Any {
					switch c := r.Pattern[0]; {
					case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '/', c == '.':
						b.first = c
					case c >= 'A' && c <= 'Z' && !strings.Contains(r.Pattern, "="):
						if b.first = c; broad {
							b.first += 'a' - 'A'
						}
					}
				}
				out = append(out, b)
			}
		}
		return out
	}
	j.allow, j.ask, j.deny = pick(j.rules.Allow, false), pick(j.rules.Ask, true), pick(j.rules.Deny, true)
}

// add records a verdict after applying the mode to it. rule is the narrowest rule that would allow
// the subject; "" if no rule can.
func (j *judge) add(x Judged, rule string) {
	if x.Verdict == Ask {
		if j.allWords && x.Kind == KindBash && x.Rule == "" {
			// The rule suggested for the outer command covers this one too.
		} else if rule == "" {
			j.suggest = false
		} else {
			found := false
			for _, s := range j.suggested {
				found = found || s == rule
			}
			if !found {
				j.suggested = append(j.suggested, rule)
			}
		}
		switch {
		case j.mode == Bypass && (x.Rule != "" && x.Origin == Managed || x.Policy != "" || x.Inside):
			// no mode overrides these
		case j.mode == Bypass && j.unclear:
			x.Verdict = Deny
		case j.mode == Bypass:
			x.Verdict, x.Rule, x.Origin, x.Reason = Allow, "", "", reasonBypass
		case j.mode == DontAsk:
			x.Verdict = Deny
			x.Reason = joinReasons(x.Reason, reasonDontAsk)
		}
	} else if x.Verdict == Deny {
		j.suggest = false
	}
	j.unclear = false
	if len(j.out) > 8 {
		if j.recorded == nil {
			j.recorded = map[Judged]bool{}
			for _, y := range j.out {
				j.recorded[y] = true
			}
		}
		if j.recorded[x] {
			return
		}
		j.recorded[x] = true
	} else {
		for i := range j.out {
			if j.out[i] == x {
				return
			}
		}
	}
	j.out = append(j.out, x)
}

func joinReasons(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func judgedBy(s Subject, v Verdict, r *Rule) Judged {
	return Judged{Subject: s, Verdict: v, Rule: r.String(), Origin: r.Origin}
}

// incomplete asks about a subject that could not be looked up on disk, because of err. A deny rule may
// match what was not found.
func (j *judge) incomplete(s Subject, err error) {
	j.unclear = len(j.rules.Deny) > 0
	j.noRuleCanAllow(s, err.Error())
}

// noRuleCanAllow asks about a subject that no rule can allow. In plan mode it denies the subject.
func (j *judge) noRuleCanAllow(s Subject, reason string) {
	if j.mode == Plan {
		j.add(Judged{Subject: s, Verdict: Deny, Reason: joinReasons(reason, reasonPlan)}, "")
		return
	}
	j.add(Judged{Subject: s, Reason: reason}, "")
}
