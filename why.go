package knack

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A Why explains why a skill is available or not.
type Why struct {
	Name      string
	Found     []Finding  // all skills that the name could mean; the one it calls comes first
	Near      []string   // if nothing was found: up to three similar names
	Locations []Location // every location that was searched, in order of precedence
	Problems  []Problem  // of the skills that were found
}

// Called returns the name of the first skill found, or else the requested name.
func (w Why) Called() string {
	if len(w.Found) > 0 {
		return w.Found[0].Name()
	}
	return w.Name
}

// A Finding is one skill that a name could mean.
type Finding struct {
	Candidate
	State  SkillState
	Reason string // a sentence
	As     string // how the name refers to it: name, alias, label, part, path, prefix (see Catalog.Unprefixed)
	Line   *Line  // its entry in the listing; nil: the model does not see it
}

// Why explains what a name refers to in a View of the model. The name may be the name,
// alias or label of a skill, the last part of a qualified name, or the path of a file.
func (c *Catalog) Why(name string, v View) Why {
	v.For = ByModel
	path := name
	name = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(name), "/"), "skill:")
	w := Why{Name: name, Locations: c.Locations()}
	listing := c.Listing(v)
	called := c.Skill(name)
	paths := map[string]bool{}
	for _, e := range c.entries {
		f := Finding{Candidate: e, As: meaning(e, name, path)}
		if f.As == "" && called != nil && e.Skill == called {
			f.As = "prefix"
		}
		if f.As == "" {
			continue
		}
		f.State, f.Reason = c.State(e, v), ""
		f.Reason = c.reason(f, v)
		for i := range listing.Entries {
			if listing.Entries[i].Skill == e.Skill {
				f.Line = &listing.Entries[i]
			}
		}
		paths[e.Path] = true
		w.Found = append(w.Found, f)
	}
	for _, p := range c.problems {
		if f, ok := c.unreadFinding(p, name, path); ok && !paths[p.Path] {
			paths[p.Path] = true
			w.Found = append(w.Found, f)
		}
	}
	order.Stable(w.Found, func(a, b Finding) int { return a.rank(called) - b.rank(called) })
	for _, p := range c.problems {
		if paths[p.Path] {
			w.Problems = append(w.Problems, p)
		}
	}
	if len(w.Found) == 0 {
		w.Near = c.near(name)
	}
	return w
}

// unreadFinding returns a Finding for something that was not read but would be a skill of that
// name: a link that was refused, or a directory that is too deep.
func (c *Catalog) unreadFinding(p Problem, name, path string) (Finding, bool) {
	f := Finding{Candidate: Candidate{Path: p.Path, State: Broken}, State: Broken, Reason: p.Message, As: "name"}
	switch p.Code {
	case CodeSymlinkOutside, CodeLinkAsText, CodeLimitReached, CodeNotSearched:
	case "unreadable":
		if p.Severity == Error {
			return f, false // it has an entry in the Catalog
		}
	case CodeDuplicateFile:
		f.Candidate.State, f.State = Duplicate, Duplicate
	default:
		return f, false
	}
	if slices.ContainsFunc(c.entries, func(e Candidate) bool { return e.Path == p.Path }) {
		return f, false
	}
	if p.Path == path {
		f.As = "path"
	} else if f.Name() != name && filepath.Base(p.Path) != name {
		return f, false
	}
	for _, at := range c.locations {
		if at.Path != "" && subpath.Contains(at.Path, p.Path) {
			f.Origin = Origin{Kind: at.Kind, Label: at.Label, Trust: at.Trust}
		}
	}
	return f, true
}

func (f Finding) rank(called *Skill) int {
	if f.Skill != nil && f.Skill == called {
		return -1
	}
	return slices.Index([]string{"name", "alias", "label", "part", "path"}, f.As)
}

func meaning(e Candidate, name, path string) string {
	s := e.Skill
	switch {
	case e.Name() == name:
		return "name"
	case e.Path == path && path != "":
		return "path"
	case s == nil:
		return ""
	case slices.Contains(s.Aliases, name):
		return "alias"
	case s.Label == name && name != "":
		return "label"
	case strings.HasSuffix(s.Name, ":"+name):
		return "part"
	}
	return ""
}

// reason explains in a sentence why a finding has its state.
func (c *Catalog) reason(f Finding, v View) string {
	s := f.Skill
	switch f.State {
	case Shadowed:
		return fmt.Sprintf("the name is already used by %s (%s), which comes first", f.Winner.Path, f.Winner.Origin.Kind)
	case Duplicate:
		return fmt.Sprintf("it is the same file as %s, which comes first", f.Winner.Path)
	case NotTrusted:
		return c.untrusted(f.Candidate)
	case FeatureOff:
		return "switched off: " + s.FeatureOff
	case Broken:
		for _, p := range c.problems {
			if p.Path == f.Path && p.Severity == Error {
				return p.Message
			}
		}
		return "it could not be loaded"
	case Conditional:
		return "it waits until a tool touches a file that matches " + strings.Join(s.Paths, ", ") + "; the user can call it"
	case Off:
		return "switched off in skills.overrides"
	case NameOnly:
		return "skills.overrides shows the model its name only"
	case UserOnly:
		return "skills.overrides makes it user-only"
	}
	switch {
	case s.NotModel && s.NotUser:
		return "it is loaded, but neither the model (disable-model-invocation) nor the user (user-invocable) may call it"
	case s.NotModel:
		return "the user can call it; the model cannot (disable-model-invocation)"
	case !s.Offered():
		return "the user can call it; the model does not see it, because it has no description"
	case len(s.Paths) > 0 && f.Candidate.State == Conditional:
		return "a tool touched a file that matches " + strings.Join(s.Paths, ", ")
	case s.NotUser:
		return "the model can call it; the user cannot (user-invocable)"
	}
	return "it can be called"
}

// Overruled reports overrides in a View that have no effect: a managed skill cannot be
// switched off, and a state must be one of those allowed by View.Overrides.
func (c *Catalog) Overruled(v View) []Problem {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(v.Overrides)) {
		state := v.Overrides[name]
		p := Problem{Code: CodeOverrideOff, Severity: Warn}
		switch s := c.byName[name]; {
		case state == Off && s != nil && s.Origin.Kind == Managed:
			p.Path = s.Path
			p.Message = fmt.Sprintf("skills.overrides: %s is managed by the administrator of this machine and cannot be off",
				name)
		case !slices.Contains([]SkillState{"on", Pinned, Required, NameOnly, UserOnly, Off}, state):
			p.Message = fmt.Sprintf("skills.overrides: %s: %q is not one of on, pinned, required, name-only, user-only, off",
				name, state)
		default:
			continue
		}
		problems = append(problems, p)
	}
	return problems
}

// near returns up to three names of skills similar to name.
func (c *Catalog) near(name string) []string {
	names := make([]string, len(c.entries))
	for i, e := range c.entries {
		names[i] = e.Name()
	}
	return Near(name, names)
}

// Near returns up to three of the names that are similar to name, the most similar
// first.
func Near(name string, names []string) []string { return similar.Names(name, names) }
