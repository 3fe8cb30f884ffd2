package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/knack-agent/knack/run/llm"
)

const maxPrompts = 200

// A prompt is a prompt that a server offers.
type prompt struct {
	name string // mcp__server__prompt
	own  *sdk.Prompt
}

// A Prompt is a text that a server generates for the user to send.
type Prompt struct {
	Name        string // mcp__server__prompt
	Server      string
	Description string   // untrusted
	Arguments   []string // names; optional ones end with "?"
}

func (p *peer) listPrompts(ctx context.Context, session *sdk.ClientSession) ([]prompt, error) {
	found, _, err := pages(maxPrompts, func(cursor string) ([]*sdk.Prompt, string, error) {
		r, err := session.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Prompts, r.NextCursor, nil
	})
	if missing(err) {
		err = nil
	}
	var all []prompt
	for _, x := range found {
		if x == nil {
			continue
		}
		name := p.toolName(x.Name, false)
		if name == "" || slices.ContainsFunc(all, func(q prompt) bool { return q.name == name }) {
			continue
		}
		all = append(all, prompt{name, x})
	}
	return all, err
}

// Prompts returns the prompts of the connected servers.
func (c *Client) Prompts() []Prompt {
	var all []Prompt
	for _, p := range c.peers {
		p.mu.Lock()
		for _, x := range p.prompts {
			if p.session == nil {
				break
			}
			q := Prompt{Name: x.name, Server: p.server.Name, Description: clip(x.own.Description, 500)}
			for _, a := range x.own.Arguments {
				if a == nil || len(q.Arguments) == 20 {
					continue
				}
				name := clip(a.Name, 50)
				if !a.Required {
					name += "?"
				}
				q.Arguments = append(q.Arguments, name)
			}
			all = append(all, q)
		}
		p.mu.Unlock()
	}
	return all
}

// Prompt returns the text of a prompt. The words of args are assigned to its arguments in order; the last argument gets
// all remaining words. output is the directory for a text that is too long, as [tool.Input] has one; "": that of the
// Client.
func (c *Client) Prompt(ctx context.Context, name, args, output string, ask Asker) ([]llm.Part, error) {
	var p *peer
	var own *sdk.Prompt
	for _, q := range c.peers {
		q.mu.Lock()
		if i := slices.IndexFunc(q.prompts, func(x prompt) bool { return x.name == name }); i >= 0 {
			p, own = q, q.prompts[i].own
		}
		q.mu.Unlock()
	}
	if p == nil {
		return nil, fmt.Errorf("no server has the prompt %s", name)
	}
	session, err := p.ready(ctx)
	if err != nil {
		return nil, err
	}
	values, err := arguments(own, args)
	if err != nil {
		return nil, err
	}
	running := &call{ask: ask}
	p.mu.Lock()
	p.calls = append(p.calls, running)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls = slices.DeleteFunc(p.calls, func(c *call) bool { return c == running })
	}()
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	r, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Name: own.Name, Arguments: values})
	if err != nil {
		return nil, fmt.Errorf("the MCP server %s: %w", p.server.Name, p.server.explain(err))
	}
	var content []sdk.Content
	for _, m := range r.Messages {
		if m != nil && m.Content != nil {
			content = append(content, m.Content)
		}
	}
	parts := c.parts(content, output)
	if len(parts) == 0 {
		return nil, fmt.Errorf("the prompt %s of the MCP server %s is empty", own.Name, p.server.Name)
	}
	return parts, nil
}

// arguments assigns words to the arguments of a prompt.
func arguments(own *sdk.Prompt, args string) (map[string]string, error) {
	values := map[string]string{}
	rest := strings.TrimSpace(args)
	for i, a := range own.Arguments {
		if a == nil {
			continue
		}
		word := rest
		if i < len(own.Arguments)-1 {
			word, rest, _ = strings.Cut(rest, " ")
			rest = strings.TrimSpace(rest)
		} else {
			rest = ""
		}
		switch {
		case word != "":
			values[a.Name] = word
		case a.Required:
			return nil, fmt.Errorf("the argument %s is missing: %s", clip(a.Name, 50), clip(a.Description, 200))
		}
	}
	if rest != "" {
		return nil, errors.New("this prompt takes no arguments")
	}
	return values, nil
}
