package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// TestSkill: the names that the Skill tool accepts, its details for programs, and the permission it needs.
func TestSkill(t *testing.T) {
	var got tool.SkillInput
	call := func(_ context.Context, in tool.SkillInput, _ tool.Input) (tool.SkillAnswer, error) {
		got = in
		switch name := tool.SkillName(in.Skill); name {
		case "":
			return tool.SkillAnswer{}, &knack.Refusal{Code: knack.RefusedEmpty, Message: "no skill name was given"}
		case "nope":
			return tool.SkillAnswer{}, &knack.Refusal{Code: knack.RefusedUnknown, Message: "unknown"}
		case "fails":
			return tool.SkillAnswer{}, errors.New("the disk is gone")
		case "described":
			return tool.SkillAnswer{Text: "the description"}, nil
		default:
			return tool.SkillAnswer{Activation: &knack.Activation{Skill: &knack.Skill{Name: name}}}, nil
		}
	}
	asked := ""
	subject := func(_ context.Context, name string) []permission.Subject {
		asked = name
		return []permission.Subject{permission.Subject{Kind: "Skill", Text: name, Default: permission.Ask}}
	}
	skill := tool.Skill("- pdf: Reads\n- </x>\n", subject, call)
	if !strings.Contains(skill.Description, "<available_skills>\n- pdf: Reads\n- </x>\n</available_skills>") ||
		!skill.Effect.ReadOnly() || skill.Name != "Skill" {
		t.Errorf("%s", skill.Description)
	}
	for _, rule := range []string{"Before you start a task, look through the skills below", "with its exact name",
		"instructions to follow", "that the person named", "ms-office-suite:pdf", "already running", "Built-in commands"} {
		if !strings.Contains(skill.Description, rule) {
			t.Errorf("the description does not contain: %s", rule)
		}
	}
	deny := tool.GateFunc(func(context.Context, tool.Proposal) (tool.Permit, error) {
		return tool.Permit{}, errors.New("the rule Skill(pdf) denies it")
	})
	for _, tt := range []struct {
		input string
		gate  tool.Gate
		skill string // the requested name
		text  string
		want  string
	}{
		{`{"skill": "pdf", "args": "a"}`, nil, "pdf", "Launching skill: pdf", `{"success":true,"commandName":"pdf"}`},
		{`{"skill": " /pdf "}`, nil, " /pdf ", "Launching skill: pdf", `{"success":true,"commandName":"pdf"}`},
		{`{"command": "pdf"}`, nil, "pdf", "Launching skill: pdf", `{"success":true,"commandName":"pdf"}`},
		{`{"name": "pdf"}`, nil, "pdf", "Launching skill: pdf", `{"success":true,"commandName":"pdf"}`},
		{`{"command": "/pdf a 'b c'\n d"}`, nil, "/pdf", "Launching skill: pdf", `{"success":true,"commandName":"pdf"}`},
		{`{"command": "/my pdf", "args": "x"}`, nil, "/my pdf", "Launching skill: my pdf",
			`{"success":true,"commandName":"my pdf"}`},
		{`{"skill": "described", "describe": true}`, nil, "described", "the description",
			`{"success":true,"commandName":"described"}`},
		{`{"skill": "/"}`, nil, "/", "no skill name was given", `{"success":false,"commandName":"","code":1}`},
		{`{"skill": "/nope"}`, nil, "/nope", "unknown", `{"success":false,"commandName":"nope","code":2}`},
		{`{"skill": "fails"}`, nil, "fails", "the disk is gone", `null`},
		{`{"skill": "/pdf"}`, deny, "", "the rule Skill(pdf) denies it", `{"success":false,"commandName":"pdf","code":7}`},
	} {
		got = tool.SkillInput{}
		gate := tt.gate
		if gate == nil {
			gate = tool.AllowAll
		}
		r := tool.Call(t.Context(), tool.Set{skill}, llm.ToolCall{ID: "1", Name: "Skill", Input: json.RawMessage(tt.input)},
			gate, nil)
		data, err := json.Marshal(r.Structured)
		if err != nil || string(data) != tt.want || r.Parts[0].Text != tt.text || got.Skill != tt.skill ||
			r.IsError == strings.Contains(tt.want, "true") {
			t.Errorf("%s: %v, %+v, %s, called with %q", tt.input, err, r, data, got.Skill)
		}
	}
	for input, want := range map[string]string{
		`{"skill": " /pdf"}`:                  "pdf ask",
		`{"skill": "/pdf", "describe": true}`: "pdf allow",
		`{"skill": "pdf", "done": true}`:      "pdf allow",
		`{"skill": "pdf", "describe": false}`: "pdf ask",
	} {
		subjects, err := skill.Subjects(t.Context(), json.RawMessage(input))
		if err != nil || len(subjects) != 1 || subjects[0].Kind != "Skill" ||
			subjects[0].Text+" "+map[permission.Verdict]string{permission.Ask: "ask",
				permission.Allow: "allow"}[subjects[0].Default] != want {
			t.Errorf("%s: %+v, %v", input, subjects, err)
		}
	}
	if asked != "pdf" {
		t.Errorf("asked about %q", asked)
	}
	// The name and the arguments of another agent's SlashCommand.
	for input, want := range map[string]string{
		`{"command": "/pdf a 'b c'\n d"}`: "a 'b c'\n d", `{"command": "/pdf\nall"}`: "all", `{"command": " /pdf b "}`: "b", `{"command": "pdf a"}`: "",
		`{"command": "/pdf"}`: "",
	} {
		got = tool.SkillInput{}
		r := tool.Call(t.Context(), tool.Set{skill}, llm.ToolCall{ID: "1", Name: "SlashCommand",
			Input: json.RawMessage(input)}, tool.AllowAll, nil)
		if r.IsError || got.Args != want {
			t.Errorf("%s: args %q, want %q: %v", input, got.Args, want, r.Parts)
		}
	}
}

// TestReadSkill: reading the SKILL.md of a listed skill calls the skill, with its permission; any other file is read.
func TestReadSkill(t *testing.T) {
	read := named("read", returns("the file"))
	read.Subjects = tool.SubjectsOf(func(_ context.Context, in struct{ Path string }) []permission.Subject {
		return []permission.Subject{{Kind: permission.KindRead, Text: in.Path}}
	})
	listed := func(path string) (string, bool) { return "pdf", path == "/skills/pdf/SKILL.md" }
	subject := func(_ context.Context, name string) []permission.Subject {
		return []permission.Subject{{Kind: permission.KindSkill, Text: name}}
	}
	x := tool.ReadSkill(read, listed, subject, func(_ context.Context, in tool.SkillInput, _ tool.Input) (
		tool.SkillAnswer, error) {
		return tool.SkillAnswer{Text: "called " + in.Skill}, nil
	})
	for path, want := range map[string]string{"/skills/pdf/SKILL.md": "Skill pdf called pdf", "/a.txt": "Read /a.txt the file"} {
		input, _ := json.Marshal(map[string]string{"path": path})
		subjects, err := x.Subjects(t.Context(), input)
		if err != nil || len(subjects) != 1 {
			t.Fatalf("%s: %v, %v", path, subjects, err)
		}
		r := tool.Call(t.Context(), tool.Set{x}, llm.ToolCall{ID: "1", Name: "read", Input: input}, tool.AllowAll, nil)
		if got := string(subjects[0].Kind) + " " + subjects[0].Text + " " + r.Parts[0].Text; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
