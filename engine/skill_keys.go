package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/llm/offline"
)

// SkillProblems returns what has no effect in the metadata that a skill has for this program: metadata.knack-procedure,
// and the keys of metadata.knack, which the parts read.
func SkillProblems(k *knack.Skill, parts ...Part) []knack.Problem {
	var metadata map[string]json.RawMessage
	if text := k.Metadata(); text == nil || json.Unmarshal(text, &metadata) != nil {
		return nil // the parser has said so
	}
	r := keyReader{skill: k}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		r.top(key, metadata[key], parts)
	}
	return r.problems
}

// A keyReader collects what is wrong with the metadata of a skill.
type keyReader struct {
	skill    *knack.Skill
	problems []knack.Problem
}

func (r *keyReader) add(code knack.Code, message, hint string) {
	r.problems = append(r.problems, knack.Problem{Code: code, Severity: knack.Warn, Path: r.skill.Path, Message: message,
		Hint: hint})
}

// top reads one key of the metadata. Keys of others are none of our business; what is nearly ours was meant for us.
func (r *keyReader) top(key string, value json.RawMessage, parts []Part) {
	const steps = "knack-procedure"
	name := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(key))
	switch {
	case key == steps:
		if _, err := offline.ParseProcedure(value); err != nil {
			r.add(knack.CodeFieldType, "metadata."+plain.Line(err.Error())+", and the offline model cannot follow it",
				"see `knack help models`")
		}
	case key == "knack":
		r.own(value, parts)
	case name == steps || similar.Near(name, steps, 2):
		r.add(knack.CodeUnknownKey, fmt.Sprintf("metadata.%s has no effect", plain.Line(key)), "write "+steps)
	case name == "knack" || strings.HasPrefix(name, "knack-"):
		r.add(knack.CodeUnknownKey, fmt.Sprintf("metadata.%s has no effect", plain.Line(key)),
			"Knack's keys stand below metadata: knack:, one a line")
	}
}

// own reads metadata.knack.
func (r *keyReader) own(value json.RawMessage, parts []Part) {
	known := map[string]func(*knack.Skill) error{}
	for _, p := range parts {
		maps.Copy(known, p.SkillKeys)
	}
	names := slices.Sorted(maps.Keys(known))
	var keys map[string]json.RawMessage
	if json.Unmarshal(value, &keys) != nil {
		r.add(knack.CodeFieldType, "metadata.knack has no effect: it is not a mapping",
			"write keys below it: "+strings.Join(names, ", "))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		check := known[key]
		if check == nil {
			hint := "the keys are " + strings.Join(names, ", ")
			if near := similar.Names(key, names); len(near) > 0 {
				hint = "write " + near[0]
			}
			r.add(knack.CodeUnknownKey, fmt.Sprintf("metadata.knack.%s has no effect", plain.Line(key)), hint)
			continue
		}
		if err := check(r.skill); err != nil {
			r.add(knack.CodeFieldType, "metadata.knack."+key+" is not used, or not whole: "+plain.Line(err.Error()), "")
		}
	}
}
