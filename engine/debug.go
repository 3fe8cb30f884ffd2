package engine

import (
	"context"
	"log/slog"

	"github.com/knack-agent/knack"
)

// logSkills logs where skills were looked for, each that was found with its state, and what is wrong with them.
func logSkills(p *Project, cat *knack.Catalog) {
	d := p.options.Debug
	if d == nil || !d.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	log := func(message string, args ...any) { d.Debug(message, append([]any{"topic", "skill"}, args...)...) }
	for _, at := range cat.Locations() {
		log("searched", "kind", at.Kind, "path", at.Path, "label", at.Label, "trust", TrustName(at.Trust), "missing",
			at.Missing, "skills", at.Skills)
	}
	for _, c := range cat.Candidates() {
		args := []any{"skill", c.Name(), "kind", c.Origin.Kind, "state", cat.State(c, p.view), "path", c.Path}
		if c.Winner != nil {
			args = append(args, "winner", c.Winner.Path)
		}
		if c.Skill != nil {
			args = append(args, "bytes", c.Skill.Size)
			if c.Skill.FeatureOff != "" {
				args = append(args, "why", c.Skill.FeatureOff)
			}
		}
		log("found", args...)
	}
	for _, x := range cat.Problems() {
		log("problem", "code", x.Code, "severity", x.Severity, "path", x.Path, "line", x.Line, "message", x.Message)
	}
}
