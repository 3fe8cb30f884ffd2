package command

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
)

// A SkillInfo is a skill as data, with what a list, a page or `knack skill show --json` shows of it.
type SkillInfo struct {
	Name            string           `json:"name"`
	CommandName     string           `json:"commandName"`
	Description     string           `json:"description"`
	WhenToUse       string           `json:"whenToUse"`
	Listing         string           `json:"listing"` // what the model sees; "": nothing
	Body            *string          `json:"body,omitempty"`
	AllowedTools    []string         `json:"allowedTools"`
	DisallowedTools []string         `json:"disallowedTools"`
	Arguments       []string         `json:"arguments"`
	Paths           []string         `json:"paths"`
	Hooks           json.RawMessage  `json:"hooks"` // an object or a list; null: none
	Fields          SkillFields      `json:"fields"`
	Origin          SkillOrigin      `json:"origin"`
	LoadedFrom      string           `json:"loadedFrom"` // the origin in other agents' words, see loadedFrom
	Path            string           `json:"path"`
	Resources       []string         `json:"resources"`
	Tokens          knack.Tokens     `json:"tokens"`
	State           knack.SkillState `json:"state"`
	Loaded          bool             `json:"loaded"`
	Uses            int              `json:"uses"`     // by this user, in all projects
	LastUsed        *time.Time       `json:"lastUsed"` // null: never
	Problems        []knack.Problem  `json:"problems"`
}

// A SkillOrigin says where a skill comes from.
type SkillOrigin struct {
	Kind  knack.SourceKind `json:"kind"`
	Label string           `json:"label,omitempty"`
	ID    string           `json:"id"`
	Dir   string           `json:"dir"`
	Shell bool             `json:"shell"` // inline commands may run if the rules allow them
	Trust string           `json:"trust"`
}

// SkillFields are frontmatter fields. As JSON they are an object in their original order.
type SkillFields []knack.Field

// MarshalJSON implements [json.Marshaler].
func (fs SkillFields) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range fs {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.Key)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(f.Value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// Skills are the skills of a project with the data that is shown about them. It is safe for concurrent use once its
// fields are set.
type Skills struct {
	*knack.Catalog
	Project *engine.Project
	View    knack.View
	All     []knack.Problem // including those of the settings
	Used    engine.SkillUsage

	once     sync.Once
	lines    map[*knack.Skill]knack.Line // for Info; built on first use
	problems map[string][]knack.Problem
}

// ReadSkills reads the skills of a project.
func ReadSkills(ctx context.Context, p *engine.Project) *Skills {
	cat := knack.Load(ctx, checked(p.Sources(), p.VerifySkill)...)
	return &Skills{Catalog: cat, Project: p, View: p.View(), All: p.Problems(cat), Used: p.Usage()}
}

// index builds the tables that Info needs.
func (c *Skills) index() {
	c.lines, c.problems = map[*knack.Skill]knack.Line{}, map[string][]knack.Problem{}
	for _, l := range c.Listing(c.View).Entries {
		c.lines[l.Skill] = l
	}
	for _, p := range c.All {
		c.problems[p.Path] = append(c.problems[p.Path], p)
	}
}

// Info describes an entry, including its body if withBody is set.
func (c *Skills) Info(ctx context.Context, e knack.Candidate, withBody bool) SkillInfo {
	c.once.Do(c.index)
	j := SkillInfo{
		Name: e.Name(), CommandName: e.Name(), Path: e.Path, State: c.State(e, c.View), Loaded: e.Skill != nil,
		AllowedTools: []string{}, DisallowedTools: []string{}, Arguments: []string{}, Paths: []string{},
		Resources: []string{}, Fields: SkillFields{},
		Origin:     SkillOrigin{Kind: e.Origin.Kind, Label: e.Origin.Label, Trust: engine.TrustName(e.Origin.Trust)},
		LoadedFrom: loadedFrom(e.Origin.Kind),
		Problems:   append([]knack.Problem{}, c.problems[e.Path]...),
	}
	if u, ok := c.Used[e.Name()]; ok {
		j.Uses, j.LastUsed = u.Count, &u.Last
	}
	s := e.Skill
	if s == nil {
		j.Origin.Dir = filepath.Dir(e.Path)
		return j
	}
	if s.Label != "" {
		j.Name = s.Label
	}
	j.Description, j.WhenToUse, j.Listing = s.Description, s.WhenToUse, c.lines[s].Text
	j.AllowedTools = append(j.AllowedTools, s.AllowedTools...)
	j.DisallowedTools = append(j.DisallowedTools, s.DisallowedTools...)
	j.Arguments, j.Paths, j.Hooks = append(j.Arguments, s.Arguments...), append(j.Paths, s.Paths...), s.Hooks
	j.Fields = s.Fields()
	j.Origin.ID, j.Origin.Dir = s.ID, s.Dir
	j.Origin.Shell = s.Origin.Trust == knack.Trusted && s.Origin.Kind != knack.MCP
	j.Tokens = s.Tokens()
	files, err := s.Resources(ctx)
	if err != nil {
		j.Problems = append(j.Problems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Warn, Path: s.Dir,
			Message: err.Error()})
	}
	j.Resources = append(j.Resources, files...)
	if withBody {
		body, err := ShownSkill(s).Body(ctx)
		if err != nil {
			j.Problems = append(j.Problems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error, Path: s.Path,
				Message: err.Error()})
		}
		j.Body = &body
	}
	return j
}

// loadedFrom returns the word by which other agents' programs tell where a skill comes from.
func loadedFrom(k knack.SourceKind) string {
	switch k {
	case knack.Managed, knack.Bundled, knack.Plugin, knack.MCP:
		return string(k)
	case knack.BuiltinPlugin:
		return string(knack.Bundled)
	case knack.Legacy:
		return "commands_DEPRECATED"
	}
	return "skills"
}

// ShownSkill returns a skill to show to the user. The text of an untrusted skill is read
// without verifying its bytes.
func ShownSkill(s *knack.Skill) *knack.Skill {
	if s.Origin.Trust != knack.Untrusted {
		return s
	}
	shown := *s
	shown.Read = nil
	return &shown
}

// A WhyInfo explains why a skill was or was not loaded, as data.
type WhyInfo struct {
	Name      string             `json:"name"`
	Found     []FindingInfo      `json:"found"`
	Near      []string           `json:"near"`
	Locations []SearchedLocation `json:"locations"`
	Events    []HistoryEvent     `json:"events,omitempty"` // in a session
}

// A FindingInfo is a skill that a name may mean, with what became of it.
type FindingInfo struct {
	SkillInfo
	FindingReason
}

// WhyInfo returns w as data.
func (c *Skills) WhyInfo(ctx context.Context, w knack.Why) WhyInfo {
	j := WhyInfo{Name: w.Name, Found: []FindingInfo{}, Near: append([]string{}, w.Near...),
		Locations: SearchedLocations(w)}
	for _, f := range w.Found {
		fj := FindingInfo{c.Info(ctx, f.Candidate, false), NewFindingReason(c.Project, f)}
		fj.State = f.State
		j.Found = append(j.Found, fj)
	}
	return j
}
