package engine

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
)

// checkRule returns an error if a text is not a permission rule, or one for a misspelt tool, which no call matches.
func checkRule(text string) error {
	r, err := permission.ParseRule(text, permission.User)
	if err != nil {
		return err
	}
	return r.Misspelt()
}

// settingsHooks returns the hooks of settings files, in order of increasing precedence: if two hooks
// rewrite an input, the last one wins. A file with a misspelt guard has no hooks; if it is the user's or a
// managed one, or the guard is required, that is an error.
func settingsHooks(parts []config.Section) (hooks []hook.Hook, problems []knack.Problem, err error) {
	for _, part := range slices.Backward(parts) {
		found, bad := hook.Parse(part.JSON, checkRule)
		for i := range found {
			found[i].Origin, found[i].DefinedIn = string(part.Origin), part.Path
		}
		for _, b := range bad {
			p := hookProblem(part.Path, b)
			p.Line, p.Column = positionIn(part, b.At)
			if b.Guard != "" {
				found = nil
			}
			if b.Guard != "" && (part.Origin != permission.Project || b.Required) {
				err = cmp.Or(err, error(p))
			}
			problems = append(problems, p)
		}
		hooks = append(hooks, found...)
	}
	return hooks, problems, err
}

func hookProblem(path string, b hook.Problem) knack.Problem {
	p := knack.Problem{Code: knack.CodeHookInvalid, Severity: knack.Error, Path: path, Message: "hooks: " + b.Message,
		Hint: "knack help hooks"}
	if b.KeptInvalid || b.Foreign {
		p.Severity = knack.Warn
	}
	if b.Minor {
		p.Severity = knack.Info
	}
	if b.Guard != "" {
		p.Message += ": calls would run unchecked, so no hooks of this file are used"
	}
	return p
}

// positionIn returns the line and column of a byte offset in a part.
func positionIn(part config.Section, at int) (line, column int) {
	if part.Line == 0 {
		return 0, 0 // set on the command line
	}
	before := part.JSON[:min(at, len(part.JSON))]
	start := bytes.LastIndexByte(before, '\n') + 1
	column = 1 + utf8.RuneCount(before[start:])
	if start == 0 {
		column += part.Column - 1
	}
	return part.Line + bytes.Count(before, []byte("\n")), column
}

// skillHooks returns the hooks of a skill.
func skillHooks(name string, text json.RawMessage, dir string) ([]hook.Hook, []hook.Problem) {
	found, bad := hook.Parse(text, checkRule)
	found = append(found, hook.Meant(bad)...)
	for i := range found {
		found[i].Origin, found[i].DefinedIn, found[i].Dir = "skill:"+name, "the skill "+name, dir
	}
	return found, bad
}

// agentHooks returns the hooks of an agent's definition, in which "session" means the agent's work.
// Hooks with a path do not run, because there is no folder to find it in.
func agentHooks(name string, text json.RawMessage) []hook.Hook {
	found, bad := hook.Parse(text, checkRule)
	found = append(found, hook.Meant(bad)...)
	found = slices.DeleteFunc(found, func(h hook.Hook) bool { return h.Path != "" && !h.Event.Guards() })
	for i := range found {
		h := &found[i]
		h.Origin, h.DefinedIn = "agent:"+name, "the agent "+name
		if h.Path != "" {
			h.Refuse("an agent has no folder for a relative path")
		}
		switch h.Event {
		case hook.SessionStart:
			h.Event = hook.SubagentStart
		case hook.Stop:
			h.Event = hook.SubagentStop
		}
	}
	return found
}

// A hookSet makes the hooks of a turn: those of skills and agents, of the host and of the settings.
type hookSet struct {
	project        *Project
	skills         func() *knack.Catalog
	pinned         *pinnedScripts
	dir            string // where commands run
	localWorkspace bool   // dir is on this machine
	hostHooks      []hook.Hook
	runner         *hook.Runner
}

// always returns the hooks of the host and of the settings.
func (t *hookSet) always() *hook.Set {
	return &hook.Set{Hooks: t.verified(slices.Concat(t.hostHooks, t.project.hooks)), Runner: t.runner}
}

// ofSkill returns the hooks of a skill. Those of an untrusted skill may grant no more than the skill itself.
func (t *hookSet) ofSkill(k *knack.Skill, text json.RawMessage, dir string) []hook.Hook {
	found, _ := skillHooks(k.Name, text, dir)
	for i := range found {
		found[i].Mute = isForeign(k.Origin.Kind)
	}
	by := permission.User
	switch {
	case k.Origin.Kind == knack.Managed:
		by = permission.Managed
	case isProjects(k):
		by = permission.Project
	}
	return t.verified(restricted(t.project.config, by, found))
}

// ofAgent returns the hooks of an agent's definition.
func (t *hookSet) ofAgent(d *agent.Definition) []hook.Hook {
	if d.Hooks == nil {
		return nil
	}
	return t.verified(restricted(t.project.config, permission.User, agentHooks(d.Name, d.Hooks)))
}

// verified makes each hook verify what it would run.
func (t *hookSet) verified(hooks []hook.Hook) []hook.Hook {
	for i := range hooks {
		if h := hooks[i]; h.Verify == nil {
			hooks[i].Verify = func() ([]hook.Script, error) { return t.verify(&h) }
		}
	}
	return hooks
}

// verify returns the scripts of a hook. It returns an error if an untrusted hook would run something
// other than what the user approved: for a skill, its whole folder; for an agent, scripts in folders of
// resources; for settings, see approved. Anybody can change other scripts in the working tree, also
// the model, so a hook of the settings runs such a script only if it is unchanged since it was first found.
func (t *hookSet) verify(h *hook.Hook) ([]hook.Script, error) {
	p := t.project
	if name, ok := strings.CutPrefix(h.Origin, "skill:"); ok {
		k := t.skills().Skill(name)
		if k == nil {
			return nil, fmt.Errorf("the skill %s no longer exists", name)
		}
		if err := p.verify(k); err != nil || !isForeign(k.Origin.Kind) {
			return nil, err
		}
		approved := func(string, []byte) error { return nil }
		if isProjects(k) {
			approved = trustOf(p, k.Dir).CheckIn(k.Dir)
		}
		if h.Path != "" && !subpath.Contains(realPath(h.Dir), realPath(h.File())) {
			// The target of a link is not part of the approved folder.
			return nil, fmt.Errorf("%s is outside the directory of the skill %s", h.File(), name)
		}
		return p.verifyAll(h, t.dir, func(path string, data []byte) error {
			if subpath.Contains(realPath(h.Dir), path) {
				return approved(path, data)
			}
			return fmt.Errorf("%s is not in the directory of the skill %s, which is what was approved", path, name)
		})
	}
	if name, ok := strings.CutPrefix(h.Origin, "plugin:"); ok {
		if err := p.plugins.verify(name, ""); err != nil {
			return nil, err
		}
	}
	name, agents := strings.CutPrefix(h.Origin, "agent:")
	if agents {
		i := slices.IndexFunc(p.agents, func(d agent.Definition) bool { return d.Name == name })
		if i >= 0 && !isForeign(p.agents[i].Origin) {
			return nil, nil
		}
	}
	if !t.localWorkspace && (agents || h.Origin == string(permission.Project)) {
		return nil, errors.New("a project's hooks run only on this machine: what they would run elsewhere has not been " +
			"approved")
	}
	if agents {
		return p.verifyAll(h, t.dir, func(path string, data []byte) error {
			if isResourceFile(p.root, path) {
				return p.trust.Check(path, data)
			}
			return fmt.Errorf("%s was not approved with the agent %s", path, name)
		})
	}
	all, err := p.approved(h, t.dir, func(path string, data []byte) error {
		if !t.pinned.contains(path, data) {
			return fmt.Errorf("%s has changed since the session began", path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, t.pinned.complete(commandLine(h, p.root), t.dir, all)
}

// pinnedScripts are the scripts that hooks run, as an Engine first found them. A script that has changed
// since does not run.
type pinnedScripts struct {
	mu     sync.Mutex
	sums   map[string][sha256.Size]byte // by path
	byLine map[[2]string][]string       // paths, by the command line that runs them and its directory
}

// add records the scripts of hooks that run in dir, unless they are recorded already.
func (s *pinnedScripts) add(p *Project, hooks []hook.Hook, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sums == nil {
		s.sums, s.byLine = map[string][sha256.Size]byte{}, map[[2]string][]string{}
	}
	for i := range hooks {
		all, _ := p.approved(&hooks[i], dir, func(path string, data []byte) error {
			if _, ok := s.sums[path]; !ok {
				s.sums[path] = sha256.Sum256(data)
			}
			return nil
		})
		line := [2]string{commandLine(&hooks[i], p.root), dir}
		for _, script := range all {
			if !slices.Contains(s.byLine[line], script.Path) {
				s.byLine[line] = append(s.byLine[line], script.Path)
			}
		}
	}
}

// complete returns an error unless scripts contains all that a command line ran in dir when the session began. One
// that was removed could return with other content before the command starts.
func (s *pinnedScripts) complete(line, dir string, scripts []hook.Script) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range s.byLine[[2]string{line, dir}] {
		if !slices.ContainsFunc(scripts, func(s hook.Script) bool { return s.Path == path }) {
			return fmt.Errorf("%s was removed since the session began", path)
		}
	}
	return nil
}

func (s *pinnedScripts) contains(path string, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, ok := s.sums[path]
	return ok && sum == sha256.Sum256(data)
}

// verifyScripts returns the scripts in the working tree that a hook would run in dir, after checking each
// with ok, and the paths in the tree where scripts that it names are missing.
func (p *Project) verifyScripts(h *hook.Hook, dir string, ok func(path string, data []byte) error) (
	found []hook.Script, missing []string, err error) {
	root := realPath(p.root)
	outside := func(path string) bool {
		return !slices.ContainsFunc([]string{root, p.root, dir}, func(d string) bool { return subpath.Contains(d, path) })
	}
	found, missing, err = gate.CheckScripts(commandLine(h, p.root), dir, func(path string, data []byte) error {
		if outside(path) {
			return nil
		}
		return ok(path, data)
	})
	return slices.DeleteFunc(found, func(s hook.Script) bool { return outside(s.Path) }),
		slices.DeleteFunc(missing, outside), err
}

// verifyAll is verifyScripts for a hook that may run only scripts that ok accepts. A missing one could appear with
// other content before the command starts.
func (p *Project) verifyAll(h *hook.Hook, dir string, ok func(path string, data []byte) error) ([]hook.Script, error) {
	found, missing, err := p.verifyScripts(h, dir, ok)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s does not exist", missing[len(missing)-1])
	}
	return found, err
}

// approved checks the scripts of a settings hook, which runs in dir, against what the user approved.
// For a project's hook these are the scripts in folders of resources that the command names, and
// everything approved in the hooks folder next to the settings file, because scripts read each other.
// other checks all other scripts of the working tree.
func (p *Project) approved(h *hook.Hook, dir string, other func(path string, data []byte) error) ([]hook.Script,
	error) {
	projects := h.Origin == string(permission.Project)
	all, _, err := p.verifyScripts(h, dir, func(path string, data []byte) error {
		if projects && isResourceFile(p.root, path) {
			return p.trust.Check(path, data)
		}
		return other(path, data)
	})
	if err == nil && projects {
		err = layout.EachFile(filepath.Join(filepath.Dir(h.DefinedIn), "hooks"), trust.MaxFile,
			func(path string, data []byte, _ error) error { // what cannot be read is another content
				var bad knack.Problem
				if err := p.trust.Check(path, data); errors.As(err, &bad) && bad.Code == knack.CodeChanged {
					return err
				}
				return nil
			})
	}
	return all, err
}

// commandLine is the command line of a hook, with the directory variables of its environment replaced.
func commandLine(h *hook.Hook, root string) string {
	line := h.Command
	if h.Path != "" {
		line = "'" + strings.ReplaceAll(h.File(), "'", `'\''`) + "'"
	}
	for _, a := range h.Args {
		line += " '" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	dirs := []string{"$CLAUDE_PROJECT_DIR", root, "${CLAUDE_PROJECT_DIR}", root}
	if h.Dir != "" {
		for _, name := range []string{"CLAUDE_SKILL_DIR", "CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT", "extensionPath"} {
			dirs = append(dirs, "$"+name, h.Dir, "${"+name+"}", h.Dir)
		}
	}
	return strings.NewReplacer(dirs...).Replace(line)
}

// readHooks reads the hooks of the settings. It reports unapproved scripts that a project's hooks
// would run as problems, so that the user is asked early.
func (p *Project) readHooks() (err error) {
	p.hooks, p.hookProblems, err = settingsHooks(p.config.Raw["hooks"])
	if err != nil {
		return err
	}
	for i := range p.hooks {
		restricted(p.config, permission.Origin(p.hooks[i].Origin), p.hooks[i:i+1])
	}
	p.hooks = slices.Concat(p.plugins.builtinHooks(), p.plugins.hooks(), p.hooks)
	for i := range p.hooks {
		var bad knack.Problem
		_, err := p.approved(&p.hooks[i], p.dir, func(string, []byte) error { return nil })
		if errors.As(err, &bad) && !slices.Contains(p.hookProblems, bad) {
			p.hookProblems = append(p.hookProblems, bad)
		}
	}
	p.hookProblems = slices.Concat(p.hookProblems, p.own.problems(), unmatched(p.hooks, p.known().names))
	return nil
}

// unmatched reports hooks with a matcher that names a tool which is not one of tools.
func unmatched(hooks []hook.Hook, tools func() []string) (problems []knack.Problem) {
	for i := range hooks {
		if hooks[i].Matcher == "" {
			continue // most, and then the tools need not be known
		}
		name, meant := hooks[i].NoTool(tools())
		if name == "" {
			continue
		}
		x := knack.Problem{Code: knack.CodeHookInvalid, Severity: knack.Warn, Path: hooks[i].DefinedIn,
			Message: fmt.Sprintf("hooks: %s: no tool is called %s, so that the hook never runs for it", hooks[i].Event,
				plain.Line(name)), Hint: "knack help tools has the names"}
		if meant != "" {
			x.Hint = "write " + meant
		}
		problems = append(problems, x)
	}
	return problems
}

// restricted returns those of the hooks of an origin that the settings let run. One that would post to an address that
// they do not let it post to fails.
func restricted(c *config.Config, by permission.Origin, hooks []hook.Hook) []hook.Hook {
	if !c.RunsHooks(by) {
		return nil
	}
	for i := range hooks {
		if h := &hooks[i]; h.Type == hook.OfHTTP {
			if err := c.HookURL(by, h.URL); err != nil {
				h.Forbid(err.Error())
			}
		}
	}
	return hooks
}

// HookProblems returns what is wrong with the hooks of a skill.
func HookProblems(k *knack.Skill) []knack.Problem {
	if k.Hooks == nil {
		return nil
	}
	var problems []knack.Problem
	_, bad := skillHooks(k.Name, k.Hooks, "")
	for _, b := range bad {
		p := hookProblem(k.Path, b)
		if !b.Minor {
			p.Severity = knack.Warn // the skill works without its hooks
		}
		problems = append(problems, p)
	}
	return problems
}

// isResourceFile reports whether a path below root is in a folder whose files are approved one by one.
func isResourceFile(root, path string) bool {
	rel, ok := subpath.Rel(realPath(root), path)
	return ok && layout.InFolder(rel)
}
