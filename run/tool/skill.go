package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
)

//go:embed skill.md
var skillText string

//go:embed skill.json
var skillSchema []byte

// SkillInput is the input of the Skill tool.
type SkillInput struct {
	Skill    string `json:"skill,omitempty" jsonschema:"the name of the skill"`
	Args     string `json:"args,omitempty" jsonschema:"arguments for the skill"`
	Describe bool   `json:"describe,omitempty" jsonschema:"only show the whole description"`
	Find     string `json:"find,omitempty" jsonschema:"words: find skills that fit, without loading one"`
	Done     bool   `json:"done,omitempty" jsonschema:"the loaded skill is no longer needed"`
}

// A SkillResult is the result of a Skill call for programs.
type SkillResult struct {
	Success     bool   `json:"success"`
	CommandName string `json:"commandName"`
	Code        int    `json:"code,omitempty"` // of the refusal

	Found []string `json:"found,omitempty"` // names of the skills found by find, best first

	// For a skill that ran in a sub-agent.
	Status  string `json:"status,omitempty"`  // forked
	AgentID string `json:"agentId,omitempty"` // the id of the agent's session
	Result  string `json:"result,omitempty"`
}

// A SkillAnswer is the result of calling a skill: an Activation or a text.
type SkillAnswer struct {
	Activation *knack.Activation
	Text       string
	Found      []string // names of skills that were found
	Agent      string   // the session id of the agent that produced the text; "": none
}

// A SkillFunc performs a call of the Skill tool. call contains the id of the call and
// the subject that was approved, whose Hash identifies the content of the skill that was
// shown. A *[knack.Refusal] as error gives the model a code.
type SkillFunc func(ctx context.Context, in SkillInput, call Input) (SkillAnswer, error)

// A SkillSubject returns the permissions required to call the skill with a name. Their
// Default is Allow if the skill asks for nothing; the Hash identifies the content that
// the decision is based on. If the skill was found by another name than its own, that
// name is a second subject.
type SkillSubject func(ctx context.Context, name string) []permission.Subject

// Skill returns the Skill tool. listing is the catalogue text, which is fixed for the
// session.
func Skill(listing string, subject SkillSubject, call SkillFunc) Tool {
	text := strings.Replace(strings.TrimSpace(skillText), "{{listing}}", strings.TrimRight(listing, "\n"), 1)
	t := Define("Skill", text, skillSchema, func(ctx context.Context, in SkillInput, c Input) (Result, error) {
		return callSkill(ctx, in, c, call)
	})
	t.Effect, t.Aliases = Reads, []string{"Skill", "SlashCommand"}
	t.Fields = []Field{{Name: "skill", Other: []string{"command", "name"}}}
	t.Convert = splitSkill
	t.Summary = SummaryOf(func(in SkillInput) string { return strings.TrimSpace(in.Skill + " " + in.Args) })
	t.Subjects = SubjectsOf(func(ctx context.Context, in SkillInput) []permission.Subject {
		if in.Finds() {
			return []permission.Subject{{Kind: permission.KindSkill, Default: permission.Allow}}
		}
		if in.Describe || in.Done { // neither adds a skill's text
			return []permission.Subject{{Kind: permission.KindSkill, Text: SkillName(in.Skill), Default: permission.Allow}}
		}
		return subject(ctx, SkillName(in.Skill))
	})
	t.Denied = func(input json.RawMessage) any {
		var in SkillInput
		_ = json.Unmarshal(input, &in) // already checked
		return SkillResult{CommandName: SkillName(in.Skill), Code: knack.RefusedByRule}
	}
	return t
}

// splitSkill accepts "/name args" in one field, as in SlashCommand.
func splitSkill(in Object) {
	var line string
	if in.Has("args") || json.Unmarshal(in["skill"], &line) != nil {
		return
	}
	line = strings.TrimSpace(line)
	if i := strings.IndexAny(line, " \t\r\n"); i > 0 && strings.HasPrefix(line, "/") {
		in.Set("skill", line[:i])
		in.Set("args", strings.TrimSpace(line[i:]))
	}
}

// Finds reports whether the call searches for skills. If it also has a name, the name
// takes precedence.
func (in SkillInput) Finds() bool { return in.Find != "" && SkillName(in.Skill) == "" }

func callSkill(ctx context.Context, in SkillInput, c Input, call SkillFunc) (Result, error) {
	a, err := call(ctx, in, c)
	var no *knack.Refusal
	if errors.As(err, &no) {
		r := Errorf("%s", no.Message)
		r.People = "refused: " + no.Message
		r.Structured = SkillResult{CommandName: SkillName(in.Skill), Code: no.Code}
		return r, nil
	}
	if err != nil {
		return Result{}, err
	}
	r := Text(a.Text)
	name := SkillName(in.Skill)
	if a.Activation != nil {
		name = a.Activation.Skill.Name
		text := "Launching skill: " + name
		if a.Activation.Asked != "" {
			text += " (" + a.Activation.Asked + " is not installed: " + name + ", a " + string(a.Activation.Skill.Origin.Kind) +
				" skill, is used)"
		}
		r = Text(text)
		r.Activation, r.People = a.Activation, strings.TrimSpace("Skill "+name+" "+in.Args)
	}
	done := SkillResult{Success: true, CommandName: name, Found: a.Found}
	if a.Agent != "" {
		done.Status, done.AgentID, done.Result = "forked", a.Agent, a.Text
	}
	r.Structured = done
	return r, nil
}

// ReadSkill wraps the read tool for index mode: reading the SKILL.md of a listed skill
// invokes the skill, with the same permission as the Skill tool. listed returns the
// skill that a path belongs to.
func ReadSkill(read Tool, listed func(path string) (name string, ok bool), subject SkillSubject, call SkillFunc) Tool {
	find := func(input json.RawMessage) (string, bool) {
		var in struct {
			Path string `json:"path"`
		}
		if json.Unmarshal(input, &in) != nil {
			return "", false
		}
		return listed(in.Path)
	}
	t := read
	t.Subjects = func(ctx context.Context, input json.RawMessage) ([]permission.Subject, error) {
		if name, ok := find(input); ok {
			return subject(ctx, name), nil
		}
		p := read.Propose("", input)
		return p.SubjectsFor(ctx, input)
	}
	t.Run = func(ctx context.Context, in Input) (Result, error) {
		if name, ok := find(in.JSON); ok {
			return callSkill(ctx, SkillInput{Skill: name}, in, call)
		}
		return read.Run(ctx, in)
	}
	return t
}

// SkillName returns the skill's name without a leading slash and surrounding blanks.
func SkillName(s string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "/"))
}
