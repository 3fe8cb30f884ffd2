package knack

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A Catalog is an immutable set of skills. It also records the skills that were found
// but are not used, and the problems of loading. It is safe for concurrent use.
//
// If several skills have the same name, the first one wins, in the order of sources. A
// skill that is untrusted or switched off does not hide another of the same name.
type Catalog struct {
	skills    []*Skill // those that can be called, in listing order
	byName    map[string]*Skill
	byAlias   map[string]*Skill // by alias and label; nil if several skills have it
	paths     map[*Skill]ignore.Rules
	entries   []Candidate
	locations []Location
	prefixes  []func() []string // of sources that have them
	problems  []Problem
	finder    Finder // used by Find
}

// A SkillState says whether a skill that was found is used, and if not, why.
type SkillState string

const (
	Active      SkillState = "active"
	Conditional SkillState = "conditional" // no file that matches its paths has been touched yet
	Shadowed    SkillState = "shadowed"    // another skill has its name
	Duplicate   SkillState = "duplicate"   // the same file was found before
	FeatureOff  SkillState = "gated"       // its feature is off: Skill.FeatureOff
	NotTrusted  SkillState = "untrusted"
	Off         SkillState = "off" // set by skills.overrides, like the next four
	NameOnly    SkillState = "name-only"
	UserOnly    SkillState = "user-only"
	Pinned      SkillState = "pinned"   // its description is never cut
	Required    SkillState = "required" // the run stops unless it is listed in full
	Broken      SkillState = "broken"   // could not be loaded
	Ignored     SkillState = "ignored"  // an ignore file excludes it, see Folder.Excluded
)

// A Candidate is a skill that a Source found, used or not.
type Candidate struct {
	Skill  *Skill // nil if broken
	Path   string
	Origin Origin
	State  SkillState // before the overrides and touched files of a View apply, see Catalog.State
	Winner *Skill     // the skill that is used instead, if this one is shadowed or a duplicate
	source int        // its index in Catalog.locations
}

// Name returns the name that the skill has, or would have if it were loaded.
func (e Candidate) Name() string {
	if e.Skill != nil {
		return e.Skill.Name
	}
	path := e.Path
	if !filepath.IsAbs(path) { // not on disk: user:pdf/SKILL.md
		path = path[strings.LastIndexByte(path, ':')+1:]
	}
	if base := filepath.Base(path); !strings.EqualFold(base, "SKILL.md") {
		return strings.TrimSuffix(base, filepath.Ext(base))
	}
	return filepath.Base(filepath.Dir(path))
}

// Load reads sources concurrently; their order is their precedence. It always
// returns a Catalog: what could not be loaded is in its Problems. A nil Source has no
// skills.
func Load(ctx context.Context, sources ...Source) *Catalog {
	read := make([]sourceReading, len(sources))
	var wg sync.WaitGroup
	for i, src := range sources {
		wg.Go(func() { read[i] = readSource(ctx, src) })
	}
	wg.Wait()
	return catalog(read)
}

// A sourceReading is the result of reading one Source.
type sourceReading struct {
	location Location
	skills   []*Skill // sorted by name
	problems []Problem
	prefixes func() []string // see [Source]; nil: none
}

func readSource(ctx context.Context, src Source) (r sourceReading) {
	if src == nil {
		return r
	}
	r.location = locationOf(src)
	if p, ok := src.(interface{ Prefixes() []string }); ok {
		r.prefixes = p.Prefixes
	}
	for s, err := range src.Skills(ctx) {
		if s != nil {
			r.skills = append(r.skills, s)
		}
		if err != nil {
			var p Problem
			if !errors.As(err, &p) {
				p = Problem{Code: CodeUnreadable, Severity: Error, Path: r.location.Path, Message: err.Error()}
			}
			r.problems = append(r.problems, p)
		}
	}
	r.location.Skills = len(r.skills)
	for i, s := range r.skills {
		if r.location.Kind == "" { // a Source without a Location method
			r.location.Kind, r.location.Label = s.Origin.Kind, s.Origin.Label
		}
		if i == 0 || s.Origin.Trust < r.location.Trust { // a Check may trust some files of a source only
			r.location.Trust = s.Origin.Trust
		}
	}
	slices.SortStableFunc(r.skills, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) })
	return r
}

func locationOf(src Source) Location {
	if p, ok := src.(interface{ Location() Location }); ok {
		return p.Location()
	}
	return Location{}
}

// catalog merges the results of several sources; their order is their precedence.
func catalog(read []sourceReading) *Catalog {
	n := 0
	for _, r := range read {
		n += len(r.skills)
	}
	c := &Catalog{
		skills: make([]*Skill, 0, n), entries: make([]Candidate, 0, n),
		byName: make(map[string]*Skill, n), byAlias: map[string]*Skill{}, paths: map[*Skill]ignore.Rules{},
	}
	files := make(map[string]*Skill, n)
	bundled := map[string]*Skill{}
	for _, r := range read {
		for _, s := range r.skills {
			if s.bundled() && s.FeatureOff == "" && s.Origin.Trust != Untrusted && bundled[s.Name] == nil {
				bundled[s.Name] = s
			}
		}
	}
	own := ownNames(read)
	for i, r := range read {
		c.locations = append(c.locations, r.location)
		if r.prefixes != nil {
			c.prefixes = append(c.prefixes, r.prefixes)
		}
		c.problems = append(c.problems, r.problems...)
		refused := map[string]bool{} // by the source's Check, whose problem explains it
		for _, p := range r.problems {
			if p.Code == CodeUntrusted || p.Code == CodeChanged {
				refused[p.Path] = true
			}
		}
		for _, s := range r.skills {
			if real := own[s.ID]; real != nil && s != real && s.Origin.Kind == User {
				c.duplicate(i, s, real)
				continue
			}
			c.add(i, s, files, bundled, refused[s.Path])
		}
		var loaded map[string]bool
		for _, p := range r.problems {
			if p.Severity != Error || !strings.EqualFold(filepath.Ext(p.Path), ".md") {
				continue
			}
			if loaded == nil {
				loaded = map[string]bool{}
				for _, s := range r.skills {
					loaded[s.Path] = true
				}
			}
			if !loaded[p.Path] {
				loaded[p.Path] = true // one entry per file, however many problems it has
				c.entries = append(c.entries, Candidate{Path: p.Path, State: Broken, source: i,
					Origin: Origin{Kind: r.location.Kind, Label: r.location.Label, Trust: r.location.Trust}})
			}
		}
	}
	c.ownLinks()
	// Bundled skills come first in a listing.
	slices.SortStableFunc(c.skills, func(a, b *Skill) int {
		switch {
		case a.bundled() == b.bundled():
			return 0
		case a.bundled():
			return -1
		}
		return 1
	})
	for _, s := range c.skills {
		for _, alias := range s.Aliases {
			if other := c.byName[alias]; other != nil && other != s {
				c.addCollision(s, alias, other)
			} else if other, ok := c.byAlias[alias]; ok && other != s {
				c.addCollision(s, alias, other)
			} else {
				c.byAlias[alias] = s
			}
		}
	}
	labels := map[string]*Skill{} // nil if several skills have it
	for _, s := range c.skills {
		if s.Label != "" && s.Label != s.Name {
			if _, several := labels[s.Label]; several {
				labels[s.Label] = nil
			} else {
				labels[s.Label] = s
			}
		}
	}
	for label, s := range labels {
		if _, alias := c.byAlias[label]; s != nil && !alias {
			c.byAlias[label] = s
		}
	}
	return c
}

// bundled reports whether a skill ships with the program.
func (s *Skill) bundled() bool { return s.Origin.Kind == Bundled || s.Origin.Kind == BuiltinPlugin }

// add records a skill with its state and, if it can be called, registers its name. files
// has the skills added so far by ID, bundled the usable bundled skills by name. refused means
// that a problem already reports that the skill is not trusted.
func (c *Catalog) add(source int, s *Skill, files, bundled map[string]*Skill, refused bool) {
	e := Candidate{Skill: s, Path: s.Path, Origin: s.Origin, State: Active, source: source}
	problem := func(code Code, sev Severity, hint, format string, args ...any) {
		c.problems = append(c.problems, Problem{Code: code, Severity: sev, Path: s.Path,
			Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	if first := files[s.ID]; first != nil {
		c.duplicate(source, s, first)
		return
	}
	defer func() { c.entries = append(c.entries, e) }()
	switch {
	case s.Origin.Trust == Untrusted:
		e.State = NotTrusted
		if refused {
			return
		}
		problem(CodeUntrusted, Warn, "knack trust, or --trust for this run",
			"%s is not trusted: the model does not see this skill, and nothing of it runs",
			untrustedPlace(s, c.locations[source]))
		return
	case s.FeatureOff != "":
		e.State = FeatureOff
		problem(CodeFeatureOff, Info, "knack help skills", "%s is switched off: %s", s.Name, s.FeatureOff)
		return
	}
	files[s.ID] = s
	if first := c.byName[s.Name]; first != nil && s.Origin.Nested != "" {
		scoped := *s
		scoped.Name = s.Origin.Nested + ":" + s.Name
		s, e.Skill, files[s.ID] = &scoped, &scoped, &scoped
	}
	if own := bundled[s.Name]; own != nil && own != s && !s.Origin.Replaces && c.byName[s.Name] == nil {
		switch s.Origin.Kind {
		case Project, Additional, Legacy:
			e.State, e.Winner = Shadowed, own
			problem(CodeNameCollision, Warn, "knack trust asks whether it may replace the bundled skill",
				"the name %q is already used by the bundled skill, so that this one (%s) is not used", s.Name, s.Origin.Kind)
			return
		}
	}
	if first := c.byName[s.Name]; first != nil && s.bundled() && !first.bundled() {
		e.State, e.Winner = Shadowed, first
		c.problems = append(c.problems, Problem{Code: CodeNameCollision, Severity: Info, Path: first.Path,
			Message: fmt.Sprintf("it replaces the bundled skill %s", s.Name), Hint: "knack skill why " + s.Name})
		return
	}
	if first := c.byName[s.Name]; first != nil {
		e.State, e.Winner = Shadowed, first
		problem(CodeNameCollision, Warn, "knack skill why "+s.Name,
			"the name %q is already used by %s (%s), so that this one (%s) is not used",
			s.Name, first.Path, first.Origin.Kind, s.Origin.Kind)
		return
	}
	c.byName[s.Name] = s
	c.skills = append(c.skills, s)
	if s.conditional() {
		e.State = Conditional
		c.paths[s] = ignore.Compile(s.Paths...)
	}
}

// ownNames returns, by ID, the user's skills that a link of another name also leads to. The link must not take the
// skill's own name away: another source's skill would answer to it.
func ownNames(read []sourceReading) map[string]*Skill {
	var own map[string]*Skill
	each := func(f func(s *Skill, renamed bool)) {
		for _, r := range read {
			for _, s := range r.skills {
				if s.Origin.Kind == User {
					f(s, s.ID != s.Path && filepath.Base(filepath.Dir(s.Path)) != filepath.Base(filepath.Dir(s.ID)))
				}
			}
		}
	}
	each(func(s *Skill, renamed bool) {
		if renamed {
			if own == nil {
				own = map[string]*Skill{}
			}
			own[s.ID] = nil
		}
	})
	if own == nil {
		return nil
	}
	each(func(s *Skill, renamed bool) {
		if first, linked := own[s.ID]; linked && first == nil && !renamed {
			own[s.ID] = s
		}
	})
	return own
}

// ownLinks reports a link that leads out of a project as a duplicate if all skills behind it are used already, from
// another source such as the user's own directory: it is only a second path to the same files.
func (c *Catalog) ownLinks() {
	for i, p := range c.problems {
		if p.Code != CodeSymlinkOutside {
			continue
		}
		real, err := filepath.EvalSymlinks(p.Path)
		if err != nil {
			continue
		}
		var used []*Skill
		for _, s := range c.skills {
			if s.ID != "" && s.Origin.Trust == Trusted && subpath.Contains(real, s.ID) &&
				!subpath.Contains(p.Path, s.Path) {
				used = append(used, s)
			}
		}
		if all, err := FindSkills(real); len(used) == 0 || err == nil && len(all) > len(used) {
			continue // it leads to more than that
		}
		what := used[0].Path
		if len(used) > 1 {
			what = fmt.Sprintf("%s and %d more", what, len(used)-1)
		}
		c.problems[i] = Problem{Code: CodeDuplicateFile, Severity: Info, Path: p.Path,
			Message: "the same file as " + what + ", which is used"}
	}
}

// duplicate records a skill whose file is that of first, which is used.
func (c *Catalog) duplicate(source int, s, first *Skill) {
	c.entries = append(c.entries, Candidate{Skill: s, Path: s.Path, Origin: s.Origin, State: Duplicate, Winner: first,
		source: source})
	c.problems = append(c.problems, Problem{Code: CodeDuplicateFile, Severity: Info, Path: s.Path,
		Message: fmt.Sprintf("the same file as %s, which is used", first.Path)})
}

// untrustedPlace returns the directory that must be trusted before a skill can be used.
func untrustedPlace(s *Skill, p Location) string {
	if p.Path != "" && p.Trust == Untrusted {
		return p.Path
	}
	return filepath.Dir(s.ID)
}

// untrusted explains why a skill has the state NotTrusted.
func (c *Catalog) untrusted(e Candidate) string {
	if slices.ContainsFunc(c.problems, func(p Problem) bool { return p.Code == CodeChanged && p.Path == e.Path }) {
		return "it changed since it was trusted"
	}
	return untrustedPlace(e.Skill, c.locations[e.source]) + " is not trusted"
}

// addCollision records that an alias of s is ignored because it already calls other.
func (c *Catalog) addCollision(s *Skill, alias string, other *Skill) {
	c.problems = append(c.problems, Problem{Code: CodeNameCollision, Severity: Warn, Path: s.Path,
		Message: fmt.Sprintf("the alias %q is already used by %s, and does not name %s", alias, other.Path, s.Name)})
}

// Skills returns the skills that can be called, in listing order: by source, then by
// name. The caller must not modify the slice.
func (c *Catalog) Skills() []*Skill { return c.skills }

// Candidates returns every skill that was found, by source, then by name. The caller
// must not modify the slice.
func (c *Catalog) Candidates() []Candidate { return c.entries }

// Locations returns where the sources looked, in the order of the sources. A source that
// has no skills and does not say where it looks is left out.
func (c *Catalog) Locations() []Location {
	return slices.DeleteFunc(slices.Clone(c.locations), func(at Location) bool { return at == Location{} })
}

// Problems returns the problems of loading. The caller must not modify the slice.
func (c *Catalog) Problems() []Problem { return c.problems }

// Skill returns the skill with a name, or nil. It tries in this order: a skill's name,
// an alias, a label that only one skill has, each of them also after "skill:", and then
// the name that [Catalog.Unprefixed] finds.
func (c *Catalog) Skill(name string) *Skill {
	s, _ := c.lookUp(name)
	return s
}

// Borrowed reports whether a name calls a skill only because of [Catalog.Unprefixed].
func (c *Catalog) Borrowed(name string) bool {
	_, borrowed := c.lookUp(name)
	return borrowed
}

func (c *Catalog) lookUp(name string) (s *Skill, borrowed bool) {
	for {
		if s := c.byName[name]; s != nil {
			return s, false
		}
		if s := c.byAlias[name]; s != nil {
			return s, false
		}
		rest, ok := strings.CutPrefix(name, "skill:")
		if !ok {
			s := c.Unprefixed(name)
			return s, s != nil
		}
		name = rest
	}
}

// Unprefixed returns the managed, explicit, user or trusted project's skill called NAME for a
// name PREFIX:NAME, or nil. People copy skills out of plugins, and the texts of these skills
// still refer to each other by the plugin's names. It returns nil if anything with that
// prefix is installed, in whatever state. Rules that deny or ask apply to both names,
// rules that allow only to the skill's own name, and typing such a name is no consent.
func (c *Catalog) Unprefixed(name string) *Skill {
	prefix, rest, ok := strings.Cut(name, ":")
	if !ok || prefix == "" {
		return nil
	}
	s := c.byName[rest]
	if s == nil || !slices.Contains([]SourceKind{Managed, Explicit, User, Project}, s.Origin.Kind) {
		return nil
	}
	for _, p := range c.locations {
		if p.Label == prefix {
			return nil
		}
	}
	for _, e := range c.entries {
		if e.Origin.Label == prefix || strings.HasPrefix(e.Name(), prefix+":") {
			return nil
		}
	}
	for _, prefixes := range c.prefixes {
		if slices.Contains(prefixes(), prefix) {
			return nil
		}
	}
	return s
}

// State returns the state of a Candidate's skill in a View.
func (c *Catalog) State(e Candidate, v View) SkillState {
	if e.State != Active && e.State != Conditional {
		return e.State
	}
	switch v.override(e.Skill) {
	case Off:
		return Off
	case NameOnly:
		if c.active(e.Skill, v) {
			return NameOnly
		}
	case UserOnly:
		return UserOnly
	}
	if e.State == Conditional && c.active(e.Skill, v) {
		return Active
	}
	return e.State
}

// active reports whether a skill is not conditional, or its condition is met: a file
// that matches its paths was touched, or a directory in which its paths match
// everything.
func (c *Catalog) active(s *Skill, v View) bool {
	rules, conditional := c.paths[s]
	return !conditional || s.touched(rules, v)
}

// conditional reports whether a skill is hidden until a matching file is touched.
func (s *Skill) conditional() bool { return len(s.Paths) > 0 && !slices.Equal(s.Paths, []string{"**"}) }

// touched reports whether a file that matches a skill's paths was touched. rules are the
// skill's compiled paths.
func (s *Skill) touched(rules ignore.Rules, v View) bool {
	dir := s.Origin.Dir
	if dir == "" {
		dir = v.Dir
	}
	for _, path := range v.Touched {
		rel, ok := subpath.Rel(dir, path)
		rel = filepath.ToSlash(rel)
		// The second condition is for a touched directory: of the patterns below it, only one that
		// matches every name matches NUL.
		if ok && (rules.Covers(rel) || rules.Covers(rel+"/\x00")) {
			return true
		}
	}
	return false
}

// whyUnavailable explains in a sentence why a skill of the Catalog cannot be called in a
// View, or returns "".
func (c *Catalog) whyUnavailable(s *Skill, v View, by Caller) string {
	switch o := v.override(s); {
	case !v.chosen(s):
		return fmt.Sprintf("the skill %s is not one of the skills chosen for this session", s.Name)
	case o == Off:
		return fmt.Sprintf("the skill %s is switched off in skills.overrides", s.Name)
	case o == UserOnly && by == ByModel:
		return fmt.Sprintf("the skill %s is user-only by skills.overrides", s.Name)
	case by == ByModel && !c.active(s, v):
		return fmt.Sprintf("the skill %s is not active yet: it becomes active when a tool touches a file that matches %s",
			s.Name, strings.Join(s.Paths, ", "))
	}
	return ""
}

// refusalFor returns the Refusal for a skill that was found under a name but cannot be
// called, or nil if there is no such skill.
func (c *Catalog) refusalFor(name string) *Refusal {
	for _, e := range c.entries {
		if e.Name() != name {
			continue
		}
		switch e.State {
		case NotTrusted:
			no := refuse(RefusedUnknown, "the skill %s is not used: %s", name, c.untrusted(e))
			no.Hint = "knack trust"
			return no
		case FeatureOff:
			return refuse(RefusedUnknown, "the skill %s is switched off: %s", name, e.Skill.FeatureOff)
		case Broken:
			for _, p := range c.problems {
				if p.Path == e.Path && p.Severity == Error {
					return refuse(RefusedUnread, "the skill %s could not be loaded: %s", name, p)
				}
			}
		}
	}
	return nil
}
