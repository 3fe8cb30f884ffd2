package engine

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/knack-agent/knack"
)

// A Required lists the programs and variables that a skill needs according to metadata.NAME.requires, which many public
// skills write for another agent.
type Required struct {
	Name      string    // the agent's
	Programs  []string  `json:"bins"`
	Variables []string  `json:"env"`
	Installs  []Install `json:"-"`
}

// An Install says how one of the programs is installed.
type Install struct{ Kind, Formula, Package, Module string }

// Command returns the command that installs it; "": none is known.
func (i Install) Command() string {
	switch i.Kind {
	case "node":
		return "npm install -g " + i.Package
	case "brew":
		return "brew install " + i.Formula
	case "go":
		return "go install " + i.Module
	case "uv":
		return "uv tool install " + i.Package
	}
	return ""
}

// RequiredOf returns the requirements that a skill's metadata states for other agents. Entries of another form are left
// out.
func RequiredOf(k *knack.Skill) (all []Required) {
	var agents map[string]json.RawMessage
	if json.Unmarshal(k.Metadata(), &agents) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		var x struct {
			Requires Required        `json:"requires"`
			Primary  string          `json:"primaryEnv"`
			Install  json.RawMessage `json:"install"`
		}
		if name == "knack" || json.Unmarshal(agents[name], &x) != nil {
			continue
		}
		x.Requires.Name = name
		json.Unmarshal(x.Install, &x.Requires.Installs) // one of another form is no reason to leave out the rest
		if x.Primary != "" && !slices.Contains(x.Requires.Variables, x.Primary) {
			x.Requires.Variables = append(x.Requires.Variables, x.Primary)
		}
		all = append(all, x.Requires)
	}
	return all
}
