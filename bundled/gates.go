package bundled

import (
	"maps"
	"slices"
	"strings"
)

// A gate decides whether a skill of the program is on. A skill without one is always on.
type gate struct {
	feature string   // its name in settings and in KNACK_FEATURES
	aliases []string // names that other programs use for the feature
	// closed says what was not found here that would open the gate by itself; "": only the feature opens it.
	closed string
}

// gates has the gates of the program's skills.
var gates = map[string]gate{
	"api": {feature: "api", aliases: []string{"building-claude-apps", "claude-api"}},
	"browser": {feature: "browser", aliases: []string{"claude-in-chrome"},
		closed: "neither Chromium nor Chrome was found"},
	"dream":  {feature: "dream", aliases: []string{"kairos", "kairos-dream"}},
	"hunter": {feature: "review-artifact"},
	"keybindings": {feature: "keybindings",
		closed: "there is neither keybindings.json nor the setting keybindings.customize"},
	"loop":                {feature: "triggers", aliases: []string{"agent-triggers"}},
	"remember":            {feature: "memory", closed: "the notes are off, and /memory on turns them on"},
	"run-skill-generator": {feature: "skill-generator", aliases: []string{"run-skill-generator"}},
	"schedule": {feature: "remote-triggers",
		aliases: []string{"agent-triggers-remote", "schedule-remote-agents"}},
}

// canonical returns the name by which a feature is compared: letter case, - and _ do not matter, and the names that
// other programs use count.
func canonical(name string) string {
	name = folded(name)
	for _, g := range gates {
		for _, alias := range g.aliases {
			if folded(alias) == name {
				return folded(g.feature)
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
	name = canonical(name)
	for given, value := range s.Features {
		if canonical(given) == name {
			on, off = on || value, off || !value
		}
	}
	return on && !off, off
}

// UnknownFeatures returns the names in Features that no skill of the Set has, sorted.
func (s *Set) UnknownFeatures() (unknown []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Features)) {
		has := func(feature string) bool { return feature != "" && canonical(feature) == canonical(name) }
		if !slices.ContainsFunc(FeatureNames(), has) &&
			!slices.ContainsFunc(s.More, func(k Skill) bool { return has(k.Feature) }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// FeatureNames returns the names of the features that skills of every Set need, sorted.
func FeatureNames() (names []string) {
	for _, g := range gates {
		names = append(names, g.feature)
	}
	slices.Sort(names)
	return names
}

// Closed returns why a skill of the program is off; "": it is on.
func (s *Set) Closed(skill string) string {
	why := s.Off[skill]
	if g, ok := gates[skill]; ok && why == "" {
		why = s.gateState(g, func() bool { return s.Found != nil && s.Found(skill) })
	}
	return why
}

// gateState returns why the feature that a skill needs is closed; "": it is open. found reports whether what opens
// it by itself was found; nil: nothing is looked for.
func (s *Set) gateState(g gate, found func() bool) string {
	on, off := s.feature(g.feature)
	switch {
	case on:
		return ""
	case off:
		return "the feature " + g.feature + " is off in settings"
	case g.closed == "":
		return "the feature " + g.feature + " is off; start with KNACK_FEATURES=" + g.feature
	case found != nil && found():
		return ""
	}
	return g.closed + "; KNACK_FEATURES=" + g.feature + " turns the skill on anyway"
}
