// Package permission decides whether a tool call may run.
//
// A call names its subjects ("Bash: git status", "Edit: /w/a.go").
// [Rules.Decide] judges each of them, deny before ask before allow, whoever
// granted, and a call may run only if every subject is allowed. Unknown means
// ask; where nobody can be asked, ask means no: that last step is the caller's.
//
//	rules := permission.Rules{Allow: allow, Deny: deny} // of ParseRules
//	d := rules.Decide(permission.Default, permission.PathContext{Dir: dir, Home: home, GitEnv: true},
//		permission.Subject{Kind: "Bash", Text: "go test ./... && git status"})
//
// A command line is taken apart as bash would (see [ParseCommand]): each
// simple command in it, each redirection and each assignment that could change
// what a program does is judged by itself. What cannot be understood is asked.
//
// The package stands alone: it knows no tool, no model and no session. All of
// it may be used concurrently. It reads the file system only to follow links,
// to expand globs and to look for secrets below a directory that is read
// whole; PathContext can do these instead. A [Git] runs git to read configurations.
package permission

import "fmt"

// A Verdict is what may happen to a subject. The zero Verdict is Ask.
type Verdict uint8

const (
	Ask Verdict = iota
	Allow
	Deny
)

func (v Verdict) String() string { return [...]string{"ask", "allow", "deny"}[v] }

// MarshalText writes the verdict as its name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's name.
func (v *Verdict) UnmarshalText(name []byte) error {
	for _, w := range []Verdict{Ask, Allow, Deny} {
		if string(name) == w.String() {
			*v = w
			return nil
		}
	}
	return fmt.Errorf("%q is no verdict: allow, ask or deny", name)
}

// A Mode says what happens to subjects that no rule names. The zero Mode is
// Default.
type Mode string

const (
	Default     Mode = "default"           // reading in the workspace is allowed, the rest asks
	AcceptEdits Mode = "acceptEdits"       // and so is writing in the workspace
	Plan        Mode = "plan"              // nothing but reading, whatever rules allow
	DontAsk     Mode = "dontAsk"           // ask means deny
	Bypass      Mode = "bypassPermissions" // ask means allow; deny still denies
)

// ParseMode reads a mode's name. It also takes "bypass" and "manual" (for
// default), and "" for default.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Default, AcceptEdits, Plan, DontAsk, Bypass:
		return m, nil
	case "", "manual":
		return Default, nil
	case "bypass":
		return Bypass, nil
	}
	return "", fmt.Errorf("%q is no permission mode: default, acceptEdits, plan, dontAsk or bypassPermissions", s)
}

// A Subject is one thing that a call wants to do. Kind is the tool name in the
// spelling of rules (Bash, Read, Edit, Skill, Agent, WebFetch, mcp__server__tool,
// or a tool's own name); Text is what its pattern is held against: a command
// line, an absolute path, a skill's name, a URL.
type Subject struct {
	Kind string `json:"kind"`
	Text string `json:"text"`

	// Tool is the name of the tool that asks, so that a rule Grep is not matched
	// with what read reads. "": rules for one tool of several do not allow.
	Tool string `json:"-"`
	// Aliases are other names under which rules may name the tool; nil: none. It
	// is a pointer so that Subjects can be compared.
	Aliases *[]string `json:"-"`
	// ReadOnly says that the tool changes nothing, which mode plan asks about.
	ReadOnly bool `json:"-"`
	// Default is the verdict when no rule names the subject: Allow for what is
	// harmless, such as a skill that asks for nothing. Commands and paths have
	// defaults of their own.
	Default Verdict `json:"-"`
	// Spare is how many characters of a command line do not count towards the
	// length above which it needs approval: see [WithValues].
	Spare int `json:"-"`
	// Note tells the person who is asked what the subject would bring.
	Note string `json:"-"`
	// Hash names the bytes that the subject stands for, such as a skill's: what
	// is approved is these bytes, and what runs must have the same. "": none.
	Hash string `json:"-"`
}

// An Origin says who wrote a rule.
type Origin string

const (
	Managed Origin = "managed"
	Flag    Origin = "flag"    // the command line
	Session Origin = "session" // an answer that holds for this session
	Kept    Origin = "kept"    // an answer that was kept ("always")
	User    Origin = "user"
	Project Origin = "project"
	Builtin Origin = "builtin"
	// A skill's grants have the origin "skill:NAME".
)

// personal reports whether a rule of this origin is a person's own word.
func (o Origin) personal() bool {
	switch o {
	case Managed, Flag, Session, Kept, User:
		return true
	}
	return false
}

// Rules are the rules in force.
type Rules struct {
	Allow, Ask, Deny []Rule
}

// A PathContext says what paths in a subject mean. The zero PathContext knows
// no workspace: every path is outside.
type PathContext struct {
	Dir   string   // working directory; absolute
	Roots []string // directories that count as the workspace beside Dir
	Home  string
	Own   []string // Knack's own directories, beside those below Home; protected

	// GitEnv says that commands run with the environment of [GitEnv]: without
	// it no git command is free.
	GitEnv bool
	// Git asks git about the repositories in which commands run, each time one
	// is judged: where it cannot, git commands need approval. nil: the caller
	// has done so, see GitEnv.
	Git *Git
	// Untrusted says that the folder is not trusted: every git command asks.
	Untrusted bool

	// Resolve follows the links of an absolute path; nil: [Resolve].
	Resolve func(path string) (string, error)
	// Glob lists what a pattern of an absolute path matches; nil: the file
	// system's answer.
	Glob func(pattern string) ([]string, error)
	// Below lists files below a directory, at most n, and reports whether these
	// are all; nil: a walk that leaves out .git.
	Below func(dir string, n int) (files []string, all bool)

	rootNames, ownNames []string
	seen                map[string][]string
	followed            map[string]string
	shapes              map[string]bool // of git directories
}

// A Decision is a verdict with its reasons.
type Decision struct {
	Verdict  Verdict  `json:"verdict"`
	Rule     string   `json:"rule,omitempty"`
	Origin   Origin   `json:"origin,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Subjects []Judged `json:"subjects"`
	// Suggest holds the narrowest rules that would allow the call, if rules
	// can: none where something in it cannot be known before it runs.
	Suggest []string `json:"suggest,omitempty"`
}

// A Judged is a subject with its verdict. One subject that was given may be
// judged as several: a command line as its simple commands, redirections and
// files.
type Judged struct {
	Subject
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule,omitempty"`
	Origin  Origin  `json:"origin,omitempty"`
	Reason  string  `json:"reason,omitempty"`
}

// Decide judges subjects: the call may run only if the verdict is Allow. A
// call that names no subject asks.
func (rs Rules) Decide(m Mode, p PathContext, subjects ...Subject) Decision {
	if m == "" {
		m = Default
	}
	p.rootNames, p.ownNames, p.seen, p.followed, p.shapes = nil, nil, nil, nil, nil
	j := &judge{rules: &rs, mode: m, place: &p, suggest: true}
	for _, s := range subjects {
		kind, tool := kindOf(s.Kind)
		if tool != "" && s.Tool == "" {
			s.Tool = tool
		}
		s.Kind = kind
		switch kind {
		case "Bash":
			j.bash(s)
		case "Read", "Edit":
			j.path(s)
		default:
			j.other(s)
		}
	}
	if len(subjects) == 0 {
		j.add(Judged{Reason: reasonNoSubject}, "")
	}
	d := Decision{Verdict: Allow, Subjects: j.out}
	for i, s := range j.out {
		if i == 0 || worse(s.Verdict, d.Verdict) {
			d.Verdict, d.Rule, d.Origin, d.Reason = s.Verdict, s.Rule, s.Origin, s.Reason
		}
	}
	if d.Verdict != Allow && j.suggest {
		d.Suggest = j.suggested
	}
	return d
}

func worse(a, b Verdict) bool {
	rank := [...]int{Ask: 1, Allow: 0, Deny: 2}
	return rank[a] > rank[b]
}
