package gate

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A Reason tells the user in a sentence why a call needs an answer, or what it may do. It contains untrusted text.
type Reason struct {
	Text   string
	Danger bool // the call may do harm that cannot be undone, or reaches beyond the project
}

// Reasons returns what the user should know before answering: dangers first, each once. A call that merely has no
// rule has none.
func (r *Request) Reasons() []Reason {
	var all []Reason
	add := func(text string, danger bool) {
		if text != "" && !slices.ContainsFunc(all, func(o Reason) bool { return o.Text == sentence(text) }) {
			all = append(all, Reason{sentence(text), danger})
		}
	}
	for _, s := range r.Subjects {
		if s.IsCommand() {
			for _, d := range permission.Dangers(s.Text) {
				add("`"+s.Text[d.From:d.To]+"` "+d.Why, true)
			}
		}
	}
	var writes []string
	for _, s := range r.Decision.Subjects {
		switch {
		case s.Verdict == permission.Allow:
		case s.Reason == permission.ReasonInput && slices.ContainsFunc(all, func(o Reason) bool {
			return o.Danger && strings.Contains(o.Text, s.Text+"` ")
		}): // the danger says it
		case s.Kind == permission.KindEdit && s.Rule == "" && len(r.Changes) == 0 &&
			(s.Reason == "" || s.Reason == permission.ReasonNoRule): // of a command
			if path := r.Short(s.Text); !slices.Contains(writes, path) {
				writes = append(writes, path)
			}
		default:
			add(r.reason(s))
		}
	}
	if len(writes) > 0 && slices.ContainsFunc(r.Subjects, permission.Subject.IsCommand) {
		add("it writes "+strings.Join(writes, ", "), false)
	}
	var hosts []string
	for _, h := range r.Hosts {
		name := h.Name
		if h.Port != "443" && h.Port != "80" {
			name += " on port " + h.Port
		}
		if h.What != "" {
			name += " (" + h.What + ")"
		}
		hosts = append(hosts, name)
	}
	if len(hosts) > 0 {
		add("it may reach "+strings.Join(hosts, ", "), false)
	}
	if why := r.Decision.Reason; !slices.ContainsFunc(r.Decision.Subjects,
		func(s permission.Judged) bool { return s.Reason == why }) {
		add(why, false) // from a hook, or about a changed file
	}
	order.Stable(all, func(a, b Reason) int {
		switch {
		case a.Danger == b.Danger:
			return 0
		case a.Danger:
			return -1
		}
		return 1
	})
	return all
}

// reason returns why one part of the call asks; "": only because no rule covers it.
func (r *Request) reason(s permission.Judged) (text string, danger bool) {
	what := s.Text
	if s.Kind == permission.KindRead || s.Kind == permission.KindEdit {
		if what = r.Short(s.Text); !strings.ContainsAny(what, "./:") {
			what = "`" + what + "`" // a sentence begins with a capital letter, and the file does not
		}
	} else if what == "" {
		what = string(s.Kind)
	}
	word, expansion := strings.CutPrefix(s.Reason, permission.ReasonExpansion)
	switch {
	case s.Reason == "" && s.Rule != "":
		return "the rule " + s.Rule + " asks about " + what, false
	case s.Reason == "" || s.Reason == permission.ReasonNoRule:
		return "", false
	case strings.HasPrefix(s.Reason, permission.ReasonProtected):
		return what + " is protected: other programs act on what it contains", true
	case strings.HasPrefix(s.Reason, permission.ReasonSecret):
		return what + " may contain secrets", true
	case expansion:
		return "`" + word + "` gets its value only when the command runs", false
	case s.Reason == permission.ReasonScript:
		name, _, _ := strings.Cut(what, " ")
		return "`" + name + "` may change anything it can reach", false
	case s.Reason == permission.ReasonOutside:
		return what + " is outside the project", s.Kind == permission.KindEdit
	case s.Kind == permission.KindSkill || s.Question != "": // the question names it
		return s.Reason, false
	}
	return "`" + what + "`: " + s.Reason, false
}

// Short returns a path relative to the working directory, if it is below it, or else to the user's home, as ~.
func (r *Request) Short(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	if rel, ok := subpath.Rel(r.Dir, path); ok {
		return rel
	}
	return subpath.Short(path, r.home)
}

// ShownRules returns Rules as people read them: a path below the user's home begins with ~, which means the same in a
// rule. For an answer about exactly this command line it says that.
func (r *Request) ShownRules() []string {
	if r.Line && len(r.Rules) > 0 {
		return []string{"exactly this command line"}
	}
	out := slices.Clone(r.Rules)
	home := strings.TrimSuffix(filepath.ToSlash(r.home), "/")
	if !filepath.IsAbs(r.home) || home == "" {
		return out
	}
	for i, rule := range out {
		tool, pattern, ok := strings.Cut(rule, "(/"+"/"+strings.TrimPrefix(home, "/")+"/")
		if ok && !strings.Contains(tool, "(") {
			out[i] = tool + "(~/" + pattern
		}
	}
	return out
}

// sentence begins a text with a capital letter, unless it begins with a path or a command, and ends it with a full
// stop.
func sentence(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if first, n := utf8.DecodeRuneInString(text); !strings.ContainsAny(word, "`./:") {
		text = string(unicode.ToUpper(first)) + text[n:]
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
