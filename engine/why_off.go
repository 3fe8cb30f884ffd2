package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// An unusedPlugins knows why plugins are not in use.
type unusedPlugins struct {
	env      Env
	root     string // of the project
	lock     *install.Lock
	used     []usedPlugin
	enabled  map[string]bool
	problems []knack.Problem
	bare     bool // --bare or --no-skills
}

// find finds skills of a name in plugins that are there and not in use: those that are off, those that are on and left
// out, and those that another program has installed. Nothing of them runs.
func (s unusedPlugins) find(ctx context.Context, name string) (found []knack.Finding) {
	in := func(x readResult, reason string) {
		if x.Plugin == nil {
			return
		}
		x.Origin = knack.Origin{Kind: knack.Plugin, Trust: knack.Untrusted, Dir: s.root}
		for _, f := range knack.Load(ctx, x.Sources(x.Location)...).Why(name, knack.View{}).Found {
			f.State, f.Reason, f.Line = knack.Ignored, reason, nil
			found = append(found, f)
		}
	}
	if s.env.DataDir() == "" {
		return nil
	}
	store := install.User(s.env.DataDir(), s.env.ConfigDir())
	for _, id := range install.IDs(s.lock.Plugins) {
		if !slices.ContainsFunc(s.used, func(x usedPlugin) bool { return x.id == id }) {
			dir := store.Path(s.lock.Plugins[id])
			in(readPlugin(dir, id, nil), s.why(id, dir))
		}
	}
	others, _ := install.FindOthers(s.env.ClaudeDir(), s.env.PiDir()) // readInstalled reports the error
	for _, id := range slices.Sorted(maps.Keys(others)) {
		if s.lock.Plugins[id] == nil && others[id].Dir != "" {
			in(readPlugin(others[id].Dir, id, nil), install.Program(id)+" has installed the plugin "+plain.Line(id)+
				", and you have not approved it here: knack plugin import "+plain.Line(id))
		}
	}
	return found
}

// why says why an installed plugin is not in use, and what changes that.
func (s unusedPlugins) why(id, dir string) string {
	id = plain.Line(id)
	switch {
	case s.bare:
		return "the plugin " + id + " is left out by --bare or --no-skills"
	case !s.enabled[id]:
		return "the plugin " + id + " is off: knack plugin enable " + id
	}
	for _, x := range s.problems {
		if x.Path == dir {
			return strings.TrimSuffix(x.Message+": "+x.Hint, ": ")
		}
	}
	return "the plugin " + id + " is not used: knack plugin show " + id
}
