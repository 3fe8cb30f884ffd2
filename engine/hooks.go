package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/gate"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/config"
	"github.com/knack-agent/knack/internal/layout"
	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/internal/trust"
	"github.com/knack-agent/knack/permission"
)

// ruleText reports whether a text is a permission rule.
func ruleText(text string) error {
	_, err := permission.ParseRule(text, permission.User)
	return err
}

// settingsHooks are the hooks of settings files, the highest last: of two that
// rewrite an input the last one counts.
func settingsHooks(parts []config.Section) (hooks []hook.Hook, problems []knack.Problem) {
	for _, part := range slices.Backward(parts) {
		found, bad := hook.Parse(part.JSON, ruleText)
		for i := range found {
			found[i].Origin, found[i].Place = string(part.Origin), part.Path
		}
		hooks = append(hooks, found...)
		for _, b := range bad {
			p := hookProblem(part.Path, b)
			p.Line, p.Column = placeIn(part, b.At)
			problems = append(problems, p)
		}
	}
	return hooks, problems
}

func hookProblem(path string, b hook.Problem) knack.Problem {
	p := knack.Problem{Code: knack.CodeHookInvalid, Severity: knack.Error, Path: path, Message: "hooks: " + b.Message,
		Hint: "knack help hooks"}
	if b.Kept {
		p.Severity = knack.Warn
	}
	return p
}

// placeIn is the line and the column of a byte of a part.
func placeIn(part config.Section, at int) (line, column int) {
	if part.Line == 0 {
		return 0, 0 // the command line
	}
	before := part.JSON[:min(at, len(part.JSON))]
	start := bytes.LastIndexByte(before, '\n') + 1
	column = 1 + utf8.RuneCount(before[start:])
	if start == 0 {
		column += part.Column - 1
	}
	return part.Line + bytes.Count(before, []byte("\n")), column
}

// skillHooks are those of a skill.
func skillHooks(name string, text json.RawMessage, dir string) ([]hook.Hook, []hook.Problem) {
	found, bad := hook.Parse(text, ruleText)
	for i := range found {
		found[i].Origin, found[i].Place, found[i].Dir = "skill:"+name, "the skill "+name, dir
	}
	return found, bad
}

// agentHooks are those of an agent's definition: what it calls the session is
// the agent's work. One with a path has no folder to find it in.
func agentHooks(name string, text json.RawMessage) []hook.Hook {
	found, _ := hook.Parse(text, ruleText)
	found = slices.DeleteFunc(found, func(h hook.Hook) bool { return h.Path != "" })
	for i := range found {
		h := &found[i]
		h.Origin, h.Place = "agent:"+name, "the agent "+name
		switch h.Event {
		case hook.SessionStart:
			h.Event = hook.SubagentStart
		case hook.Stop:
			h.Event = hook.SubagentStop
		}
	}
	return found
}

// A hookSet makes the hooks of a turn: those of the skills in use, of the host
// and of the settings.
type hookSet struct {
	project *Project
	skills  func() *knack.Catalog
	pins    *pins
	dir     string // where commands run
	local   bool   // that is on this machine
	given   []hook.Hook
	runner  *hook.Runner
}

// of is the set of hooks under skills. Each hook verifies what it would run.
func (t *hookSet) of(sc agent.Scopes) *hook.Set {
	var all []hook.Hook
	for _, k := range sc.Skills {
		if k.Hooks != nil {
			found, _ := skillHooks(k.Skill, k.Hooks, k.Dir)
			// What an untrusted skill may not grant itself, its hooks may not either.
			skill := t.skills().Skill(k.Skill)
			for i := range found {
				found[i].Mute = skill == nil || foreign(skill.Origin.Kind)
			}
			all = append(all, found...)
		}
	}
	for _, o := range sc.Bounds {
		if o.Hooks == nil {
			continue
		}
		var found []hook.Hook
		if o.Agent != "" {
			found = agentHooks(o.Agent, o.Hooks)
		} else {
			found, _ = skillHooks(o.Skill, o.Hooks, o.Dir)
		}
		for i := range found {
			found[i].Mute = true
		}
		all = append(all, found...)
	}
	all = slices.Concat(all, t.given, t.project.hooks)
	if len(all) == 0 {
		return nil
	}
	for i := range all {
		h := &all[i]
		if h.Verify == nil {
			h.Verify = func() ([]hook.Script, error) { return t.verify(h) }
		}
	}
	return &hook.Set{Hooks: all, Runner: t.runner}
}

// verify returns the scripts of a hook, and compares what an untrusted hook would
// run with what the user approved:
// of a skill that is its whole folder, of an agent a script in a folder of
// resources, of settings what approved looks at. Other scripts in the working
// tree may be changed by anybody, the model too, which then would run what
// was never approved: for hooks of settings they must be as they were found
// first.
func (t *hookSet) verify(h *hook.Hook) ([]hook.Script, error) {
	p := t.project
	if name, ok := strings.CutPrefix(h.Origin, "skill:"); ok {
		k := t.skills().Skill(name)
		if k == nil {
			return nil, fmt.Errorf("the skill %s is gone", name)
		}
		if err := p.verify(k); err != nil || !foreign(k.Origin.Kind) {
			return nil, err
		}
		approved := func(string, []byte) error { return nil }
		if k.Origin.Kind == knack.Project || k.Origin.Kind == knack.Legacy {
			approved = p.trust.CheckIn(k.Dir)
		}
		if h.Path != "" && !subpath.Contains(realPath(h.Dir), realPath(h.File())) {
			// Where a link leads is no part of the folder that was approved.
			return nil, fmt.Errorf("%s is outside the directory of the skill %s", h.File(), name)
		}
		return p.inTree(h, t.dir, func(path string, data []byte) error {
			if subpath.Contains(realPath(h.Dir), path) {
				return approved(path, data)
			}
			return fmt.Errorf("%s is not in the directory of the skill %s, which is what was approved", path, name)
		})
	}
	name, agents := strings.CutPrefix(h.Origin, "agent:")
	if agents {
		i := slices.IndexFunc(p.agents, func(d agent.Definition) bool { return d.Name == name })
		if i >= 0 && !foreign(p.agents[i].Origin) {
			return nil, nil
		}
	}
	if !t.local && (agents || h.Origin == string(permission.Project)) {
		return nil, errors.New("a project's hooks run only on this machine: what they would run elsewhere has not been " +
			"approved")
	}
	if agents {
		return p.inTree(h, t.dir, func(path string, data []byte) error {
			if resourceFile(p.root, path) {
				return p.trust.Check(path, data)
			}
			return fmt.Errorf("%s was not approved with the agent %s", path, name)
		})
	}
	return p.approved(h, t.dir, func(path string, data []byte) error {
		if !t.pins.holds(path, data) {
			return fmt.Errorf("%s is not as it was when the session began", path)
		}
		return nil
	})
}

// pins are the scripts that hooks run, as an Engine found them first. A script
// that changes later does not run.
type pins struct {
	mu   sync.Mutex
	sums map[string][sha256.Size]byte // by path
}

// add pins the scripts of hooks that run in dir and are not pinned yet.
func (s *pins) add(p *Project, hooks []hook.Hook, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sums == nil {
		s.sums = map[string][sha256.Size]byte{}
	}
	for i := range hooks {
		p.approved(&hooks[i], dir, func(path string, data []byte) error {
			if _, ok := s.sums[path]; !ok {
				s.sums[path] = sha256.Sum256(data)
			}
			return nil
		})
	}
}

func (s *pins) holds(path string, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, ok := s.sums[path]
	return ok && sum == sha256.Sum256(data)
}

// inTree holds the scripts of the working tree that a hook would run, started
// in dir, against ok, and returns them.
func (p *Project) inTree(h *hook.Hook, dir string, ok func(path string, data []byte) error) ([]hook.Script, error) {
	root := realPath(p.root)
	in := func(path string) bool { return subpath.Contains(root, path) || subpath.Contains(dir, path) }
	all, err := gate.CheckScripts(commandLine(h, p.root), dir, func(path string, data []byte) error {
		if in(path) {
			return ok(path, data)
		}
		return nil
	})
	return slices.DeleteFunc(all, func(s hook.Script) bool { return !in(s.Path) }), err
}

// approved holds the scripts of a hook of settings, which runs in dir, against
// what a person approved. Of a project's hook these are the scripts in folders
// of resources that the command names, and whatever of the folder hooks beside
// the settings file was approved: scripts read each other. other is given all
// other scripts of the working tree.
func (p *Project) approved(h *hook.Hook, dir string, other func(path string, data []byte) error) ([]hook.Script,
	error) {
	projects := h.Origin == string(permission.Project)
	all, err := p.inTree(h, dir, func(path string, data []byte) error {
		if projects && resourceFile(p.root, path) {
			return p.trust.Check(path, data)
		}
		return other(path, data)
	})
	if err == nil && projects {
		err = p.asApproved(filepath.Join(filepath.Dir(h.Place), "hooks"), 6)
	}
	return all, err
}

// commandLine is what a hook runs, with the directories that its environment
// names.
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
		for _, name := range []string{"$CLAUDE_SKILL_DIR", "${CLAUDE_SKILL_DIR}", "$CLAUDE_PLUGIN_ROOT",
			"${CLAUDE_PLUGIN_ROOT}"} {
			dirs = append(dirs, name, h.Dir)
		}
	}
	return strings.NewReplacer(dirs...).Replace(line)
}

// asApproved reports the first file below a folder of hooks that was approved
// and has changed. Links are followed, as approval followed them: the bytes
// count, wherever they are.
func (p *Project) asApproved(dir string, depth int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // what is not there was not changed
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir() && depth > 1:
			if err := p.asApproved(path, depth-1); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			data, err := head(path, trust.MaxFile+1)
			if err != nil {
				continue
			}
			var bad knack.Problem
			if err := p.trust.Check(path, data); errors.As(err, &bad) && bad.Code == knack.CodeChanged {
				return err
			}
		}
	}
	return nil
}

// head reads at most the first n bytes of a file.
func head(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// readHooks takes the hooks of settings. Scripts that a project's hooks would
// run and that were not approved are problems now, so that the user is asked.
func (p *Project) readHooks() {
	p.hooks, p.hookProblems = settingsHooks(p.config.Raw["hooks"])
	for i := range p.hooks {
		var bad knack.Problem
		_, err := p.approved(&p.hooks[i], p.dir, func(string, []byte) error { return nil })
		if errors.As(err, &bad) && !slices.Contains(p.hookProblems, bad) {
			p.hookProblems = append(p.hookProblems, bad)
		}
	}
}

// HookProblems are what is wrong with the hooks of a skill.
func HookProblems(k *knack.Skill) []knack.Problem {
	if k.Hooks == nil {
		return nil
	}
	var problems []knack.Problem
	_, bad := skillHooks(k.Name, k.Hooks, "")
	for _, b := range bad {
		p := hookProblem(k.Path, b)
		p.Severity = knack.Warn // the skill works without
		problems = append(problems, p)
	}
	return problems
}

// resourceFile reports whether a path below a root leads through a folder whose
// files are approved one by one.
func resourceFile(root, path string) bool {
	rel, ok := subpath.Rel(realPath(root), path)
	return ok && layout.InFolder(rel)
}
