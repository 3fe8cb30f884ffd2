package knack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A SkillTool is the tool with which a model calls skills, for a program with a loop of its own. Name, Description and
// Schema are for the API of the model's vendor; the input of each call goes to [SkillTool.Call]. It does not change,
// and is safe for concurrent use: make another one, or announce [Listing.Since], when the catalogue has changed.
type SkillTool struct {
	Name        string          // Skill
	Description string          // with the list of skills
	Schema      json.RawMessage // JSON Schema of the input, an object
	Listing     Listing         // what Description has; without entries there is nothing to call

	catalog *Catalog
	base    Invocation
}

// SkillTool returns the tool for the skills that in.View offers to models. Every call becomes an Invocation like in,
// with a name and arguments: in.Shell decides what becomes of inline commands (nil: they are left as text), in.Hash and
// the rest are as in [Catalog.Invoke].
func (c *Catalog) SkillTool(in Invocation) SkillTool {
	in.By, in.View.For = ByModel, ByModel
	l := c.Listing(in.View)
	return SkillTool{Name: "Skill", Listing: l, catalog: c, base: in,
		Description: "Load a skill: instructions for one kind of task. Before you start a task, look through the skills " +
			"below. If one fits, call this tool first, with its exact name, and then follow the text that it returns.\n\n" +
			"<available_skills>\n" + strings.TrimRight(l.Text, "\n") + "\n</available_skills>",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"skill":{"type":"string","description":"the name of the skill"},` +
			`"args":{"type":"string","description":"what the skill should work on, in the form that its entry asks for"}},` +
			`"required":["skill"],"additionalProperties":false}`)}
}

// Call answers a call of the tool: Activation.Prompt is the result for the model. If the error is a *[Refusal], its
// Message is that result, marked as an error. An input that does not match the Schema is refused, too.
func (t SkillTool) Call(ctx context.Context, input json.RawMessage) (*Activation, error) {
	var call struct {
		Skill string `json:"skill"`
		Args  string `json:"args"`
	}
	d := json.NewDecoder(bytes.NewReader(input))
	d.DisallowUnknownFields()
	if err := d.Decode(&call); err != nil {
		return nil, refuse(RefusedEmpty, "the input does not match the schema: %v", err)
	}
	in := t.base
	in.Name, in.Args = call.Skill, call.Args
	return t.catalog.Invoke(ctx, in)
}

// CalledBy finds what a typed line calls, "/name args" or "/kind:name args", in the result of Commands. args is what
// follows the name. ok is false for a line that calls nothing.
func CalledBy(all []SlashCommand, line string) (c SlashCommand, args string, ok bool) {
	rest, ok := strings.CutPrefix(line, "/")
	if !ok {
		return SlashCommand{}, "", false
	}
	name := rest
	if i := strings.IndexAny(rest, " \t\r\n"); i >= 0 {
		name, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	if c, ok = Called(all, name); !ok {
		return SlashCommand{}, "", false
	}
	return c, args, true
}

// ReadFile reads a file beside a skill's SKILL.md, by a name as [Skill.Resources] returns it: at most maxBytes bytes, a
// larger one is an error. It follows no link out of the skill's directory. The error is a *[Refusal] for a skill that
// v.For may not call, as with [Catalog.Invoke]; it is fs.ErrNotExist for a file that is not one of the skill's.
func (c *Catalog) ReadFile(ctx context.Context, v View, skill, name string, maxBytes int64) ([]byte, error) {
	in := Invocation{Name: skill, By: v.For, View: v}
	s, err := c.called(in)
	if err == nil {
		err = s.mayInvoke(in)
	}
	if err != nil {
		return nil, err
	}
	all, err := s.Resources(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(all, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if s.ReadFile != nil {
		data, err := s.ReadFile(ctx, name)
		if err == nil && int64(len(data)) > maxBytes {
			err = regular.TooLargeError{Max: maxBytes}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return data, nil
	}
	root, err := regular.Root(s.Dir)
	if err != nil {
		return nil, err
	}
	data, err := regular.ReadIn(root, filepath.FromSlash(name), maxBytes)
	return data, errors.Join(err, root.Close())
}
