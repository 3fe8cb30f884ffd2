package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// ShellIn returns a [Skills.Shell] that runs the inline commands of skills in a workspace. The gate
// decides them by the rules for bash and by what the skill itself grants. The decision is made on
// the line with the values of its variables filled in; the line itself runs unchanged. Of o, only TempDir, for output
// that is too long for the text, Connected and Mask count.
func ShellIn(ws workspace.Workspace, gate func(Scopes) tool.Gate, o coding.Options) func(Scopes) knack.Shell {
	return func(sc Scopes) knack.Shell {
		return inline(ws, gate, sc, o)
	}
}

// FilesIn returns a func for [Skills.File]. It reads files of a workspace with the set's read tool; the gate decides on
// each read as if the model had called that tool.
func FilesIn(ws workspace.Workspace, set tool.Set, gate func(Scopes) tool.Gate) func(Scopes) knack.File {
	return func(sc Scopes) knack.File {
		return func(ctx context.Context, _ *knack.Activation, path string) (string, bool, error) {
			info, err := ws.Stat(ctx, ws.Path(path))
			if err != nil || !info.Mode().IsRegular() {
				return "", false, nil // a name such as @scope/package
			}
			input, err := json.Marshal(map[string]string{"path": ws.Path(path)})
			if err != nil {
				return "", false, err
			}
			res := tool.Call(ctx, set, llm.ToolCall{ID: "attached", Name: "read", Input: input}, gate(sc), nil)
			text := llm.TextOf(res.Parts)
			if res.IsError {
				return "", false, errors.New(text)
			}
			return text, text != "", nil
		}
	}
}

func inline(ws workspace.Workspace, gate func(Scopes) tool.Gate, sc Scopes, o coding.Options) knack.Shell {
	return func(ctx context.Context, a *knack.Activation, line string, env []string) (string, error) {
		kind, command, err := inlineCommand(ws, a.Skill.Shell, line, env)
		if err != nil {
			return "", err
		}
		c, err := ws.Prepare(command)
		if err != nil {
			return "", err
		}
		judged, extra := permission.WithValues(c.Line, env)
		input, err := json.Marshal(map[string]string{"command": judged})
		if err != nil {
			return "", err
		}
		permit, err := gate(sc).Ask(ctx, tool.Proposal{
			ID: tool.InlineCall, Name: "bash", Label: "inline command of " + a.Skill.Name, Input: input,
			Inline: inlineOf(a),
			Subjects: func(context.Context, json.RawMessage) ([]permission.Subject, error) {
				return []permission.Subject{{Kind: kind, Text: judged, Extra: extra}}, nil
			},
		})
		if err == nil && !bytes.Equal(permit.Input, input) {
			err = errors.New("inline command was not run: a hook changed it, and inline commands only run unchanged")
		}
		if err != nil {
			return "", &knack.Refusal{Code: knack.RefusedByRule, Message: err.Error()}
		}
		out, errs := coding.NewOutput(o.TempDir), coding.NewOutput(o.TempDir)
		c.Limits, c.Scripts, c.Allow = permit.Limits, permit.Scripts, c.Allow.Union(permit.Allow)
		c.Output, c.Stderr, c.Connected, c.Mask = &out, &errs, o.Connected, o.Mask
		exit, err := ws.Run(ctx, c)
		out.WriteLines(errs.Text()) // stderr follows stdout
		text := out.Text()
		if err != nil {
			return "", err
		}
		if exit.Code != 0 {
			return "", fmt.Errorf("it exited with code %d\n%s", exit.Code,
				strings.Join(append([]string{strings.TrimSpace(text)}, exit.Refused...), "\n"))
		}
		return text, nil
	}
}

// inlineOf returns what hooks are told about an inline command of a skill.
func inlineOf(a *knack.Activation) *tool.Inline {
	in := tool.Inline{Skill: a.Skill.Name, Source: string(a.Skill.Origin.Kind), By: "claude"}
	if a.By == knack.ByUser {
		in.By = "user"
	}
	if a.Skill.Shell == "powershell" {
		in.Shell = "PowerShell"
	}
	return &in
}

// inlineCommand returns the command that runs a line in the shell that its skill declares, and the
// kind of its permission subject.
func inlineCommand(ws workspace.Workspace, shell, line string, env []string) (kind permission.Kind, c workspace.Command,
	err error) {
	c = workspace.Command{Line: line, Env: env}
	if shell != "powershell" {
		return permission.KindBash, c, nil
	}
	ps, ok := ws.(interface {
		PowerShell(string) ([]string, error)
	})
	if !ok {
		return "", c, errors.New("PowerShell commands run on this machine only")
	}
	c.Args, err = ps.PowerShell(line)
	return permission.KindPowerShell, c, err
}
