package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// skillSandboxes returns the sandbox restrictions that settings put on skills, by name. All settings
// apply, even a project's, because they can only restrict. An invalid entry becomes the strictest
// restriction.
func skillSandboxes(parts []config.Section) (all map[string][]*knack.Restrictions, problems []knack.Problem) {
	all = map[string][]*knack.Restrictions{}
	for _, part := range parts {
		var entries map[string]json.RawMessage
		json.Unmarshal(part.JSON, &entries) // config has checked that it is an object
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			var s knack.Restrictions
			d := json.NewDecoder(bytes.NewReader(entries[name]))
			d.DisallowUnknownFields()
			err := d.Decode(&s)
			if err == nil && s.Network != "" && s.Network != "none" && s.Network != "hosts" {
				err = fmt.Errorf("network is %q, not none or hosts", s.Network)
			}
			if err != nil {
				s = knack.Restrictions{Network: "none", Write: []string{}}
				problems = append(problems, knack.Problem{
					Code: knack.CodeJSONInvalid, Severity: knack.Error, Path: part.Path, Line: part.Line, Column: part.Column,
					Message: fmt.Sprintf("sandbox.skills: %s: %v; its commands get no network and write nothing", name, err),
					Hint:    `write {"network": "none", "write": ["out"]}`,
				})
			}
			all[name] = append(all[name], &s)
		}
	}
	return all, problems
}

// sandboxesOf returns the restrictions on a skill: its own and those of the settings.
func (p *Project) sandboxesOf(skill string, own *knack.Restrictions) []*knack.Restrictions {
	all := slices.Clone(p.sandboxes[skill])
	if own != nil {
		all = append(all, own)
	}
	return all
}

// limits returns what commands may do while a skill is in use.
func (t *Turn) limits(skill string, own *knack.Restrictions) []workspace.Limit {
	var all []workspace.Limit
	home := t.project.options.Env.Home()
	for _, b := range t.project.sandboxesOf(skill, own) {
		l := workspace.Limit{NoNetwork: b.Network == "none"}
		if b.Write != nil {
			l.Write = []string{}
		}
		for _, path := range b.Write {
			if path = subpath.Expand(path, home); !filepath.IsAbs(path) {
				path = filepath.Join(t.session.ws.Dir(), path)
			}
			l.Write = append(l.Write, filepath.Clean(path))
		}
		all = append(all, l)
	}
	return all
}
