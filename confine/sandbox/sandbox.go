// Package sandbox confines the commands of a workspace to the paths and the
// network that a policy allows.
//
// Most common use:
//
//	import _ "github.com/knack-agent/knack/confine/sandbox/launcher" // in package main
//
//	policy, err := sandbox.Default(dir)
//	box := sandbox.New(policy, sandbox.Auto)
//	local.Confine = box.Confine // a *workspace.Local
//
// How much of a policy is enforced depends on the machine; [Sandbox.Report]
// reports it:
//
//   - Complete (Linux with user namespaces, or with bwrap): all of it.
//   - Partial (Linux with Landlock and seccomp only; macOS): all but what
//     [Report.Open] lists.
//   - None: nothing.
//
// On Linux a launcher starts the command. It is a stub in memory that makes the system calls which
// this package lists for it or, where that is not possible, this program executed again; package
// launcher enables both. In its own namespaces (user, mount, pid, ipc, network) the launcher makes
// all mounts read-only except those that the policy opens, covers secrets, /run, /tmp and /dev,
// mounts a new /proc, drops all capabilities, applies Landlock and seccomp, and starts the command.
// When the launcher ends, the kernel kills every process of the command.
//
// A command connects to unix sockets that were bound in its own network namespace, and to those that
// an allowance names; [Report.Open] says where this is not enforced. Unix datagram sockets are refused.
//
// A protected name that does not exist cannot be covered by a mount. In git directories it is
// created while the command runs. Elsewhere, what a command leaves under such a name is renamed
// when the command has ended, and reported.
//
// Exit.Refused reports each refusal with the rule that would allow it. The proxy knows the refused
// hosts. Refused paths are found in the command's output, because the kernel reports them only to
// the program: a refusal that a program does not print is not reported.
//
// A Sandbox is safe for concurrent use.
//
// Most programs start with package engine.
package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
)

// A Mode selects how commands are confined (--sandbox).
type Mode uint8

const (
	// Auto, the zero Mode, confines as much as the machine can.
	Auto Mode = iota
	// Require refuses commands unless the sandbox is complete.
	Require
	// Off confines nothing.
	Off
)

var modeNames = [...]string{"auto", "require", "off"}

func (m Mode) String() string { return modeNames[m] }

// ParseMode returns the mode named auto, require or off.
func ParseMode(s string) (Mode, error) {
	for m, name := range modeNames {
		if s == name {
			return Mode(m), nil
		}
	}
	return Auto, fmt.Errorf("unknown sandbox mode %q: must be auto, require or off", s)
}

// Set and Type make *Mode a command-line flag.
func (m *Mode) Set(s string) (err error) { *m, err = ParseMode(s); return err }
func (m *Mode) Type() string             { return "auto|require|off" }

// MarshalText and UnmarshalText make Mode usable in settings.
func (m Mode) MarshalText() ([]byte, error)     { return []byte(m.String()), nil }
func (m *Mode) UnmarshalText(text []byte) error { return m.Set(string(text)) }

// A Level is the part of a policy that is enforced.
type Level uint8

const (
	None Level = iota
	Partial
	Complete
)

func (l Level) String() string { return [...]string{"none", "partial", "complete"}[l] }

// MarshalText returns the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// A Report describes what the sandbox enforces on this machine.
type Report struct {
	Level   Level    `json:"level"`
	Backend string   `json:"backend,omitempty"` // namespaces, bwrap, landlock, sandbox-exec
	Missing []string `json:"missing,omitempty"` // why the level is not higher
	Open    []string `json:"open,omitempty"`    // parts of the policy that are not enforced

	passing bool // the reason may be gone in a moment, such as too many open files: no command runs until then
}

// Notice returns a message to show the user once; "" if the level is complete.
func (r Report) Notice() string {
	if r.Level == Complete {
		return ""
	}
	text := "the sandbox is " + r.Level.String()
	if len(r.Missing) > 0 {
		text += " (" + strings.Join(r.Missing, "; ") + ")"
	}
	if len(r.Open) > 0 {
		text += ": " + strings.Join(r.Open, "; ")
	}
	return text
}

// ErrIncomplete is the error with which mode Require refuses commands.
var ErrIncomplete = errors.New("a complete sandbox is required")

// A Sandbox confines commands.
type Sandbox struct {
	policy Policy
	mode   Mode
	system system
	dir    string // the resolved Dir of policy when the sandbox was made

	testing sync.Mutex // held while report is made
	report  *Report

	mu    sync.Mutex
	added []string // roots
	named []string // protected names
}

// New makes a sandbox. It changes nothing on the machine before the first command or report.
func New(p Policy, m Mode) *Sandbox {
	dir, _ := permission.Resolve(p.Dir)
	p.Protected = append(slices.Clone(p.Protected), p.links()...)
	return &Sandbox{policy: p, mode: m, system: newSystem(p), dir: dir}
}

// AddRoot adds a directory to the roots of the policy, for commands that start from now on.
func (s *Sandbox) AddRoot(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added = append(s.added, dir)
}

// Protect sets names that are protected in addition to those of the policy, for commands that start from now on. What
// git's configuration names changes while a session runs.
func (s *Sandbox) Protect(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = names
}

// current returns the policy with the roots and names that were added. Of directories in other ones of the policy,
// those are left out in whose place a link is, because a command may have made it.
func (s *Sandbox) current() (*Policy, error) {
	s.mu.Lock()
	p := s.policy
	p.Roots, p.Protected = slices.Concat(p.Roots, s.added), slices.Concat(p.Protected, s.named)
	s.mu.Unlock()
	p.places = map[string]string{}
	for _, dir := range slices.Concat([]string{p.Dir}, p.Roots, p.Write) {
		p.places[filepath.Clean(dir)], _ = permission.Resolve(dir) // what cannot be resolved leads out of every other one
	}
	if now := p.places[filepath.Clean(p.Dir)]; p.Dir != "" && (now != s.dir || p.leadsOut(p.Dir)) {
		return nil, fmt.Errorf("the working directory %s was replaced by a link to %s, or leads out of a directory of the "+
			"workspace: start a session there", p.Dir, now)
	}
	p.Roots = slices.DeleteFunc(p.Roots, p.leadsOut)
	p.Write = slices.DeleteFunc(slices.Clone(p.Write), p.leadsOut)
	return &p, nil
}

// Opens reports whether commands may write a path outside the workspace without an allowance, perhaps in a place of
// their own that is lost when they end.
func (s *Sandbox) Opens(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return withinAny(slices.Concat(s.policy.Write, s.added, s.policy.existing(), ownDirs[:]), path)
}

// ownDirs are directories that the commands of a session, or each command, have for themselves.
var ownDirs = [...]string{"/tmp", "/var/tmp", "/dev"}

// Report returns what the sandbox enforces. The first call tests this and starts up to three
// processes. If the machine lacks descriptors, memory or processes at that moment, the next call tests again.
func (s *Sandbox) Report() Report {
	s.testing.Lock()
	defer s.testing.Unlock()
	if s.report != nil {
		return *s.report
	}
	r := Report{Missing: []string{"it is turned off"}, Open: everythingOpen}
	if s.mode != Off {
		r = s.system.probe(s.policy)
	}
	if !r.passing {
		s.report = &r
	}
	return r
}

// Close releases what the sandbox keeps open between commands, and empties [Policy.Layers] if it is too large. It waits
// until what commands left in large directories such as node_modules has been looked at, but not for commands, and ends
// none. The sandbox can still be used.
func (s *Sandbox) Close() { s.system.close(&s.policy) }

// Leftovers returns notes about what appeared under protected names during the commands of killed
// sessions, and removes the placeholders that these left. Call it when a program starts and show
// the result to the user. Without Policy.State it returns nothing.
func (s *Sandbox) Leftovers() []string {
	if s.mode == Off {
		return nil
	}
	return s.system.leftovers()
}

var everythingOpen = []string{"commands can do anything that you can"}

// Confine applies the policy to a command that is about to start. It has the signature of
// [workspace.Local.Confine]. Call the func that it returns, if not nil, when the command has ended.
func (s *Sandbox) Confine(cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
	if s.mode == Off {
		if slices.ContainsFunc(c.Limits, func(l workspace.Limit) bool { return l.Hosts != nil }) {
			return nil, workspace.ErrLimits
		}
		return nil, nil
	}
	r := s.Report()
	if s.mode == Require && r.Level != Complete {
		return nil, fmt.Errorf("%w, and this one: %s", ErrIncomplete, strings.TrimPrefix(r.Notice(), "the sandbox "))
	}
	if r.passing {
		return nil, fmt.Errorf("the sandbox cannot start at the moment (%s): try again", strings.Join(r.Missing, "; "))
	}
	if r.Level == None {
		if len(c.Limits) > 0 {
			return nil, workspace.ErrLimits
		}
		return nil, nil
	}
	policy, err := s.current()
	if err != nil {
		return nil, err
	}
	return s.system.confine(policy.limitedBy(c), r, cmd, c)
}
