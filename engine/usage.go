package engine

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/run/session"
)

// maxUsage limits the stored usage to the skills used last.
const maxUsage = 1000

// A SkillUsage reports how often the user has used which skills, by name, in all projects. It is
// approximate: an unreadable file counts as no use, and if two conversations end at the same instant,
// one may be lost.
type SkillUsage map[string]SkillUse

// SkillUse is how often, and when last, a skill was used.
type SkillUse struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

func usagePath(env Env) string { return env.StateFile("usage.json") }

// ReadUsage reads the usage of all sessions so far; nil: there is none.
func ReadUsage(env Env) SkillUsage {
	var u SkillUsage
	data, err := os.ReadFile(usagePath(env))
	if err != nil || json.Unmarshal(data, &u) != nil {
		return nil
	}
	return u
}

// Order returns the names, the most used first; equal counts in order of last use.
func (u SkillUsage) Order() []string {
	return slices.SortedFunc(maps.Keys(u), func(a, b string) int {
		return cmp.Or(u[b].Count-u[a].Count, u[b].Last.Compare(u[a].Last), cmp.Compare(a, b))
	})
}

// NoteUsage adds the skills that were called in part of a session.
func NoteUsage(env Env, entries []session.Entry) {
	called := SkillUsage{}
	for _, e := range entries {
		name := ""
		switch {
		case e.Activation != nil:
			name = e.Activation.Skill
		case e.Agent != nil && e.Agent.Reason == "":
			name = e.Agent.Skill
		}
		if name == "" {
			continue
		}
		called[name] = SkillUse{called[name].Count + 1, e.Time.UTC().Truncate(time.Second)}
	}
	if len(called) == 0 || env.StateDir() == "" {
		return
	}
	// If it fails, less is known about the user's habits.
	_ = atomicfile.Update(usagePath(env), 0o600, func(old []byte) ([]byte, error) {
		u := SkillUsage{}
		if json.Unmarshal(old, &u) != nil || u == nil {
			u = SkillUsage{}
		}
		for name, n := range called {
			u[name] = SkillUse{u[name].Count + n.Count, n.Last}
		}
		if len(u) > maxUsage {
			names := slices.SortedFunc(maps.Keys(u), func(a, b string) int { return u[b].Last.Compare(u[a].Last) })
			for _, name := range names[maxUsage:] {
				delete(u, name)
			}
		}
		return json.Marshal(u)
	})
}
