package cli

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/knack-agent/knack/internal/atomicfile"
	"github.com/knack-agent/knack/session"
)

// maxUsed bounds the usage that is kept: the skills used last.
const maxUsed = 1000

// A usage says how often a person has used which skills, by name, in all
// projects. It is a habit, not a record: what cannot be read counts as never
// used, and of two conversations that end at the same instant one may be lost.
type usage map[string]used

type used struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

func usageFile() string { return filepath.Join(stateDir(), "usage.json") }

func readUsage() usage {
	var u usage
	data, err := os.ReadFile(usageFile())
	if err != nil || json.Unmarshal(data, &u) != nil {
		return nil
	}
	return u
}

// order is the names, the most used first; of those used alike the last used.
func (u usage) order() []string {
	return slices.SortedFunc(maps.Keys(u), func(a, b string) int {
		return cmp.Or(u[b].Count-u[a].Count, u[b].Last.Compare(u[a].Last), cmp.Compare(a, b))
	})
}

// last is the day of a skill's last use, for a table.
func (u usage) last(name string) string {
	if n, ok := u[name]; ok {
		return n.Last.Local().Format(time.DateOnly)
	}
	return "-"
}

// noteUsage adds the skills that were called in a part of a session.
func noteUsage(entries []session.Entry) {
	var u usage
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
		if u == nil {
			if u = readUsage(); u == nil {
				u = usage{}
			}
		}
		n := u[name]
		u[name] = used{n.Count + 1, e.Time.UTC().Truncate(time.Second)}
	}
	if u == nil {
		return
	}
	if len(u) > maxUsed {
		names := slices.SortedFunc(maps.Keys(u), func(a, b string) int { return u[b].Last.Compare(u[a].Last) })
		for _, name := range names[maxUsed:] {
			delete(u, name)
		}
	}
	data, err := json.Marshal(u)
	if err != nil || os.MkdirAll(stateDir(), 0o700) != nil {
		return
	}
	atomicfile.Write(usageFile(), data, 0o600) // a habit that is not kept does no harm
}
