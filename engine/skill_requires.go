package engine

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/knack-agent/knack"
)

// A Required is what a skill says for another agent, under metadata.NAME.requires: many public skills do.
type Required struct {
	Name      string   // of the agent
	Programs  []string `json:"bins"`
	Variables []string `json:"env"`
}

// RequiredOf reads what a skill says for other agents. What has another form is not read.
func RequiredOf(k *knack.Skill) (all []Required) {
	var agents map[string]json.RawMessage
	if json.Unmarshal(k.Metadata(), &agents) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		var x struct {
			Requires Required `json:"requires"`
			Primary  string   `json:"primaryEnv"`
		}
		if name == "knack" || json.Unmarshal(agents[name], &x) != nil {
			continue
		}
		x.Requires.Name = name
		if x.Primary != "" && !slices.Contains(x.Requires.Variables, x.Primary) {
			x.Requires.Variables = append(x.Requires.Variables, x.Primary)
		}
		all = append(all, x.Requires)
	}
	return all
}
