package engine

import (
	"slices"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// chosen are the tools that the model of a session may call, of those that the session has. A reload of the project may
// bring tools, such as those of a project that is trusted now, or take some away.
type chosen struct {
	parts PartTools // those of Live.Tools, which a reload does not change

	mu       sync.Mutex
	of       *keptFinds // what the parts have found in the project whose tools these are
	active   tool.Set   // what the model sees, without Agent
	unlisted tool.Set   // what it may call, too
	agent    bool       // Agent is chosen: each turn decides about it
}

// choose chooses from tools by what the user has chosen; base are the names of those that a session has by default, and
// withheld are not shown to the model. skill is how the choice names the Skill tool, see cutSkillTerm.
func (c *chosen) choose(files tool.Set, base, spec string, withheld func(tool.Tool) bool) (skill string,
	problems []knack.Problem) {
	text, skill := cutSkillTerm(spec)
	all, problems := tool.Select(withAgent(files), base, coding.Choice(text, base))
	c.agent, c.unlisted = false, nil
	if spec == "" {
		c.unlisted = slices.Clone(c.parts.Unlisted)
	}
	c.active = slices.DeleteFunc(slices.Clone(all), func(t tool.Tool) bool {
		switch {
		case t.Name == "Agent":
			c.agent = true
			return true
		case !withheld(t):
			return false
		}
		t.Unlisted = func() bool { return true } // a call of it is refused by the rule, and recorded so
		c.unlisted = append(c.unlisted, t)
		return true
	})
	return skill, problems
}

// listed returns the active tools as they were chosen last.
func (c *chosen) listed() tool.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// begin makes the tools of the session again if the project of a turn that begins may have others.
func (c *chosen) begin(t *Turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, p := t.session, t.project
	if c.of == p.Brought.kept {
		return
	}
	c.of = p.Brought.kept
	placed := s.place.wrap(s.parts.placed(s.place.home, s.coding))
	s.place.renew(func(in Place) tool.Set { return s.parts.placed(in, s.coding) })
	c.choose(slices.Concat(placed, c.parts.Shared, c.parts.Listed), p.known().defaults, s.options.Tools, p.withholds)
}

// now returns the tools, without those whose names the host has given to others meanwhile.
func (c *chosen) now(host Host) (active, unlisted tool.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hosts := slices.Concat(host.Tools, host.Own)
	return slices.DeleteFunc(slices.Clone(c.active), func(x tool.Tool) bool {
		return slices.ContainsFunc(hosts, func(h tool.Tool) bool { return h.Name == x.Name })
	}), c.unlisted
}
