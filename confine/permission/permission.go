// Package permission decides whether a tool call may run.
//
// A call names its subjects ("Bash: git status", "Edit: /w/a.go").
// [Rules.Decide] judges each of them: deny beats ask and ask beats allow,
// whatever the origin of the rules. A call may run only if every subject is
// allowed. Anything unknown means ask; where the user cannot be asked, the
// caller has to treat ask as deny.
//
//	rules := permission.Rules{Allow: allow, Deny: deny} // of ParseRules
//	d := rules.Decide(ctx, permission.Default, permission.PathContext{Dir: dir, Home: home, GitEnv: true},
//		permission.Subject{Kind: permission.KindBash, Text: "go test ./... && git status"})
//
// A command line is parsed as bash would parse it (see [ParseCommand]): each
// simple command in it, each redirection and each assignment that could change
// the behaviour of a program is judged separately. What cannot be analysed asks.
//
// The package does not depend on tools, models or sessions. All of it is safe for concurrent use.
// It reads the file system only to follow links, to expand globs and to look for secrets below a
// directory that is read recursively; the functions in a [PathContext] can replace these accesses.
// A [Git] runs git to read git's configuration.
//
// Most programs start with package engine, the whole agent with settings, trust and approvals; examples/host is one.
package permission

import (
	"context"
	"fmt"
	"time"
)

// A Verdict is the result for a subject. The zero Verdict is Ask.
type Verdict uint8

const (
	Ask Verdict = iota
	Allow
	Deny
)

func (v Verdict) String() string { return [...]string{"ask", "allow", "deny"}[v] }

// MarshalText returns the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText sets the verdict with the given name.
func (v *Verdict) UnmarshalText(name []byte) error {
	for _, w := range []Verdict{Ask, Allow, Deny} {
		if string(name) == w.String() {
			*v = w
			return nil
		}
	}
	return fmt.Errorf("unknown verdict %q; must be one of allow, ask, deny", name)
}

// A Mode decides about subjects that no rule covers. Decide treats "" as Default.
type Mode string

const (
	Default     Mode = "default"           // reading in the workspace is allowed, everything else asks
	AcceptEdits Mode = "acceptEdits"       // as Default, but writing in the workspace is allowed too
	Plan        Mode = "plan"              // only reading is allowed, whatever the rules allow
	DontAsk     Mode = "dontAsk"           // ask means deny
	Bypass      Mode = "bypassPermissions" // ask means allow, unless a managed rule requires approval; deny still denies
)

// ParseMode returns the mode with the given name. It also accepts "bypass", and "manual" or "" for
// Default.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Default, AcceptEdits, Plan, DontAsk, Bypass:
		return m, nil
	case "", "manual":
		return Default, nil
	case "bypass":
		return Bypass, nil
	}
	return "", fmt.Errorf("unknown permission mode %q; must be one of default, acceptEdits, plan, dontAsk, "+
		"bypassPermissions", s)
}

// A Kind is what a subject is. It is spelled like the tool in rules: one of these, mcp__server__tool, or a tool's own
// name.
type Kind string

const (
	KindBash       Kind = "Bash"       // a command line
	KindPowerShell Kind = "PowerShell" // a command line of PowerShell
	KindRead       Kind = "Read"       // an absolute path
	KindEdit       Kind = "Edit"       // an absolute path
	KindSkill      Kind = "Skill"      // the name of a skill
	KindAgent      Kind = "Agent"      // the name of an agent
	KindWebFetch   Kind = "WebFetch"   // a URL
	KindWebSearch  Kind = "WebSearch"  // without text
	KindTool       Kind = "Tool"       // the name of a tool that a program of the user's or of the project's is
	KindNetwork    Kind = "Network"    // host:port of a connection that a command makes, see [HostSubject]
)

// A Subject is one thing that a call wants to do. Text is matched against the patterns of rules.
type Subject struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`

	// Tool is the name of the calling tool, so that a rule for Grep does not allow the read tool.
	// If it is "", an allow rule for a single tool of a kind does not apply.
	Tool string `json:"-"`
	// Aliases are other names of the tool in rules; nil means none. It is a pointer so that
	// Subjects can be compared.
	Aliases *[]string `json:"-"`
	// ReadOnly means that the tool changes nothing, so plan mode does not deny it.
	ReadOnly bool `json:"-"`
	// Default is the verdict if no rule covers the subject: Allow for something harmless, such as a
	// skill that requests no permissions. It is ignored for commands and paths.
	Default Verdict `json:"-"`
	// EveryTime means that no allow rule and no earlier answer covers the subject: it needs the user's
	// answer each time. It is ignored for commands and paths.
	EveryTime bool `json:"-"`
	// Extra is the number of characters of a command line that do not count towards the length
	// limit above which it needs approval: see [WithValues].
	Extra int `json:"-"`
	// Note is shown to the user with the question: what allowing the subject grants.
	Note string `json:"-"`
	// Question asks the user about the subject, such as "Start 3 tasks?". "": the kind and the text say enough.
	Question string `json:"-"`
	// Dir means that an Edit creates a directory.
	Dir bool `json:"-"`
	// Replace means that git removes the file of an Edit, or puts another one in its place.
	Replace bool `json:"-"`
	// Holds is a protected name below a directory that an Edit removes or makes. "" means none.
	Holds string `json:"-"`
	// Hash identifies the approved content, such as that of a skill: the content that runs must
	// have the same hash. "" means none.
	Hash string `json:"-"`
	// Server is where the subject's MCP server is configured; "" if there is none. Allow rules of a
	// project's settings apply only to the project's servers, those of the user and the
	// administrator only to all other servers.
	Server Origin `json:"-"`
	// Outside means that what runs is outside the sandbox, with the access of the user: only rules and answers of the user
	// and of an administrator allow it.
	Outside bool `json:"-"`
	// Inside means that the subject is a host of this machine or its network. Only a rule that spells the host out, or an
	// answer, allows it: no rule without a pattern, no wildcard and no mode.
	Inside bool `json:"-"`
	// Policy is what the definition of the subject's MCP server says about calls; no rule, answer or mode allows more.
	Policy Policy `json:"-"`
}

// A Policy is what a definition demands of calls that it covers.
type Policy string

const (
	PolicyAsk  Policy = "ask"  // ask the user each time
	PolicyDeny Policy = "deny" // refuse
)

// Runs reports whether allowing a subject runs a program: a command line, or a program that is a tool.
func (s Subject) Runs() bool { return s.IsCommand() || s.Kind == "bash" || s.Kind == KindTool }

// IsCommand reports whether a subject is a command line of any shell.
func (s Subject) IsCommand() bool { return s.Kind == KindBash || s.Kind == KindPowerShell }

// An Origin is where a rule comes from.
type Origin string

const (
	Managed Origin = "managed"
	Flag    Origin = "flag"    // the command line
	Session Origin = "session" // an answer for this session
	Kept    Origin = "kept"    // a saved answer ("always")
	User    Origin = "user"
	Project Origin = "project"
	Plugin  Origin = "plugin"
	Builtin Origin = "builtin"
	// A skill's grants have the origin "skill:NAME".
)

// personal reports whether the user or an administrator wrote a rule of this
// origin.
func (o Origin) personal() bool {
	switch o {
	case Managed, Flag, Session, Kept, User:
		return true
	}
	return false
}

// Rules are the rules in effect.
type Rules struct {
	Allow, Ask, Deny []Rule
}

// A PathContext determines how paths in a subject are interpreted. The zero PathContext has no
// workspace: every path is outside.
type PathContext struct {
	Dir   string   // working directory; absolute
	Roots []string // further directories of the workspace
	Home  string
	Own   []string // Knack's own directories, apart from those below Home; protected
	// Protected are names that are protected in addition to those of [ProtectedPaths] and of [Git.Named].
	Protected []string

	// Borders closes what is outside the workspace.
	Borders Borders

	// Temp is the session's own directory for temporary files. What is in it is read and written without a question,
	// unless it is protected or a secret, or a link leads out of it. "": there is none.
	Temp string
	// InTemp returns the path of the file that commands and tools find at an absolute path, which is in Temp if commands
	// have that as /tmp. nil: each path is what it says.
	InTemp func(path string) string
	// Output is the session's own directory for results that were too long. What is in it is read without a question.
	Output string
	// Skills are the directories of skills in use. What is in them is read without a question, unless it is a secret, or a
	// link leads out of them.
	Skills []SkillDir

	// GitEnv means that commands run with the environment of [Git.Env]. Without it every git command
	// needs a rule or approval.
	GitEnv bool
	// Git inspects the repositories in which commands run, each time a command is judged. Where it
	// cannot run git, git commands need approval. nil: the caller has inspected them (see GitEnv).
	Git *Git
	// Untrusted means that the user does not trust the folder. Git commands ask, except reading ones where
	// Git finds that everything that the configuration names can be overridden.
	Untrusted bool
	// Confined reports whether commands run in a complete sandbox; nil: they do not.
	Confined func() bool
	// Open reports whether a sandboxed command may write a path outside the workspace without an answer, such as a cache;
	// nil: it may not.
	Open func(path string) bool

	// Resolve follows the links of an absolute path; nil: [Resolve]. It gets the context of the decision.
	Resolve func(ctx context.Context, path string) (string, error)
	// Glob lists the files that match an absolute pattern; nil: [filepath.Glob].
	Glob func(pattern string) ([]string, error)
	// Below lists at most n files below a directory and reports whether the list
	// is complete; nil: a walk that skips .git.
	Below func(dir string, n int) (files []string, all bool)

	ctx                 context.Context // of the decision
	rootNames, ownNames []string
	tempNames, outNames []string
	skillNames          [][]string // of Skills
	resolved            map[string][]string
	linkTargets         map[string]string
	gitLayouts          map[string]bool // of git directories
	protectedToo        *PathNames      // see moreProtected; nil: not known yet
	madeFrom            *madeFrom       // see findOrigins; nil: not known yet
}

// A SkillDir is a directory or file that may be read without a rule: the directory of a skill in use, or a file whose
// path a bundled skill gives the model.
type SkillDir struct {
	Dir string
	// Approved returns nil for a file in Dir whose content is as the user approved it. Every other file, and every
	// directory, needs a question before it is read. If Approved itself is nil, the whole directory belongs to the user,
	// and nothing in it needs one.
	Approved func(path string) error
}

// A Decision is a verdict with its reasons.
type Decision struct {
	Verdict  Verdict  `json:"verdict"`
	Rule     string   `json:"rule,omitempty"`
	Origin   Origin   `json:"origin,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Subjects []Judged `json:"subjects"`
	// Suggest lists the narrowest rules that would allow the call; empty if no
	// rule can, because part of the call is not known before it runs.
	Suggest []string `json:"suggest,omitempty"`
}

// Offers returns those of Suggest that a user may be offered for longer than a call. There are none for a new
// repository: a rule would open what it runs to every command.
func (d *Decision) Offers() []string {
	for _, s := range d.Subjects {
		if s.Reason == reasonReplaced && s.Verdict != Allow {
			return nil
		}
	}
	return d.Suggest
}

// A Judged is a subject with its verdict. One subject of a call may become several: a command line
// is split into its simple commands, redirections and files.
type Judged struct {
	Subject
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule,omitempty"`
	Origin  Origin  `json:"origin,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	// Target is Text with links resolved, if Text is a path and that differs.
	Target string `json:"-"`
}

// Limits of one decision. What needs more than that is asked.
const (
	maxEntries   = 100_000 // of directories
	decisionTime = 10 * time.Second
)

// Decide judges the subjects of a call, which may run only if the verdict is Allow. A call without
// subjects asks. What a command names on disk is looked up within limits, and never in /proc or /sys;
// beyond them, and when ctx ends, the call asks.
func (rs Rules) Decide(ctx context.Context, m Mode, p PathContext, subjects ...Subject) Decision {
	if m == "" {
		m = Default
	}
	ctx, cancel := context.WithTimeout(ctx, decisionTime)
	defer cancel()
	p.ctx = context.WithValue(ctx, decisionStart{}, time.Now())
	p.rootNames, p.ownNames, p.resolved, p.linkTargets, p.gitLayouts, p.madeFrom = nil, nil, nil, nil, nil, nil
	p.skillNames = nil
	rs.Deny, rs.Ask = p.meant(rs.Deny), p.meant(rs.Ask)
	j := &judge{rules: &rs, mode: m, paths: &p, suggest: true, entriesLeft: maxEntries}
	for _, s := range subjects {
		kind, tool := kindOf(string(s.Kind))
		if tool != "" && s.Tool == "" {
			s.Tool = tool
		}
		s.Kind = kind
		switch kind {
		case KindBash:
			j.bash(s)
		case KindRead, KindEdit:
			j.path(s)
		default:
			j.other(s)
		}
	}
	if ctx.Err() != nil && len(subjects) > 0 {
		j.incomplete(subjects[0], errInterrupted)
	}
	if len(subjects) == 0 {
		j.add(Judged{Reason: reasonNoSubject}, "")
	}
	d := Decision{Verdict: Allow, Subjects: j.out}
	for i, s := range j.out {
		if i == 0 || isStricter(s.Verdict, d.Verdict) {
			d.Verdict, d.Rule, d.Origin, d.Reason = s.Verdict, s.Rule, s.Origin, s.Reason
		}
	}
	if d.Verdict != Allow && j.suggest {
		d.Suggest = j.suggested
	}
	return d
}

func isStricter(a, b Verdict) bool {
	rank := [...]int{Ask: 1, Allow: 0, Deny: 2}
	return rank[a] > rank[b]
}
