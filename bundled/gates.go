package bundled

import (
	"maps"
	"slices"
	"strings"
)

// A Gate decides whether a skill of the program is on. A skill without one is always on.
type Gate struct {
	Feature string   // its name in settings and in KNACK_FEATURES
	Aliases []string // names that other programs use for the feature
	// Closed says what was not found here that would open the gate by itself; "": only the feature opens it.
	Closed string
}

// gates has the gates of this package's skills.
var gates = map[string]Gate{
	"api":    {Feature: "api", Aliases: []string{"building-claude-apps", "claude-api"}},
	"dream":  {Feature: "dream", Aliases: []string{"kairos", "kairos-dream"}},
	"hunter": {Feature: "review-artifact"},
	"keybindings": {Feature: "keybindings",
		Closed: "there is neither keybindings.json nor the setting keybindings.customize"},
	"loop":                {Feature: "triggers", Aliases: []string{"agent-triggers"}},
	"run-skill-generator": {Feature: "skill-generator", Aliases: []string{"run-skill-generator"}},
	"schedule": {Feature: "remote-triggers",
		Aliases: []string{"agent-triggers-remote", "schedule-remote-agents"}},
}

// canonical returns the name by which a feature is compared: letter case, - and _ do not matter, and the names that
// other programs use count.
func (s *Set) canonical(name string) string {
	name = folded(name)
	for _, g := range s.gates {
		for _, alias := range g.Aliases {
			if folded(alias) == name {
				return folded(g.Feature)
			}
		}
	}
	return name
}

var folder = strings.NewReplacer("-", "", "_", "")

func folded(name string) string {
	if strings.HasPrefix(name, "-") {
		return name // who writes -dream does not want it on
	}
	return folder.Replace(strings.ToLower(name))
}

// feature reports whether a feature was switched on or off. Off wins over on, where it has several names.
func (s *Set) feature(name string) (on, off bool) {
	name = s.canonical(name)
	for given, value := range s.Features {
		if s.canonical(given) == name {
			on, off = on || value, off || !value
		}
	}
	return on && !off, off
}

// UnknownFeatures returns the names in Features that no skill of the Set has, sorted.
func (s *Set) UnknownFeatures() (unknown []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Features)) {
		has := func(feature string) bool { return feature != "" && s.canonical(feature) == s.canonical(name) }
		if !slices.ContainsFunc(s.FeatureNames(), has) &&
			!slices.ContainsFunc(s.More, func(k Skill) bool { return has(k.Feature) }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// FeatureNames returns the names of the features that open gates of the Set, sorted.
func (s *Set) FeatureNames() (names []string) {
	for _, g := range s.gates {
		names = append(names, g.Feature)
	}
	slices.Sort(names)
	return names
}

// Closed returns why a skill of the program is off; "": it is on.
func (s *Set) Closed(skill string) string {
	why := s.Off[skill]
	if g, ok := s.gates[skill]; ok && why == "" {
		why = s.gateState(g, func() bool { return s.Found != nil && s.Found(skill) })
	}
	return why
}

// gateState returns why the feature that a skill needs is closed; "": it is open. found reports whether what opens
// it by itself was found; nil: nothing is looked for.
func (s *Set) gateState(g Gate, found func() bool) string {
	on, off := s.feature(g.Feature)
	switch {
	case on:
		return ""
	case off:
		return "the feature " + g.Feature + " is off in settings"
	case g.Closed == "":
		return "the feature " + g.Feature + " is off; start with KNACK_FEATURES=" + g.Feature
	case found != nil && found():
		return ""
	}
	return g.Closed + "; KNACK_FEATURES=" + g.Feature + " turns the skill on anyway"
}
