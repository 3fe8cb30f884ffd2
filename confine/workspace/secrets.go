package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/mask"
)

// Secrets are what one command gets and no other. The zero Secrets are nothing.
type Secrets struct {
	Env []string // entries of the form K=V
	// Without are the names of variables that the command does not get from the workspace's environment.
	Without []string
	Limits  []Limit  // what binds the command because it has them
	Scripts []Script // as in Command
}

// bothSecrets returns a func that gives what a and b give; nil if neither is set.
func bothSecrets(a, b func(context.Context, Command) (Secrets, error)) func(context.Context, Command) (Secrets, error) {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	return func(ctx context.Context, c Command) (Secrets, error) {
		x, err := a(ctx, c)
		if err != nil {
			return x, err
		}
		y, err := b(ctx, c)
		return Secrets{
			Env:     slices.Concat(x.Env, y.Env),
			Without: slices.Concat(x.Without, y.Without),
			Limits:  slices.Concat(x.Limits, y.Limits),
			Scripts: slices.Concat(x.Scripts, y.Scripts),
		}, err
	}
}

// secretsOf returns what a command gets beside its own environment, and the command with what that means for it.
func (l *Local) secretsOf(ctx context.Context, c Command) (Command, Secrets, error) {
	if c.Allow.Secrets == nil || c.AsUser != nil {
		return c, Secrets{}, nil
	}
	s, err := c.Allow.Secrets(ctx, c)
	if err != nil {
		return c, s, err
	}
	if l.Confine == nil && slices.ContainsFunc(s.Limits, func(l Limit) bool { return l.Hosts != nil }) {
		return c, s, ErrLimits
	}
	c.Env = slices.Concat(c.Env, s.Env)
	c.Limits = slices.Concat(c.Limits, s.Limits)
	for _, script := range s.Scripts {
		if !slices.ContainsFunc(c.Scripts, func(x Script) bool { return x.Name == script.Name }) {
			c.Scripts = append(slices.Clip(c.Scripts), script)
		}
	}
	return c, s, nil
}

// without returns an environment without some variables.
func without(env, names []string) []string {
	if len(names) == 0 {
		return env
	}
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

// masked lets a command write without the values that nobody may see. end passes on what was kept back, and returns
// lines about the command without them.
func masked(c *Command) (end func(lines []string) []string) {
	if c.Mask == nil {
		return func(lines []string) []string { return lines }
	}
	m := mask.New(c.Mask())
	if m.Empty() {
		return func(lines []string) []string { return lines }
	}
	var writers []*mask.Writer
	if c.Output != nil {
		w := m.Writer(c.Output)
		c.Output, writers = w, append(writers, w)
	}
	if c.Stderr != nil {
		w := m.Writer(c.Stderr)
		c.Stderr, writers = w, append(writers, w)
	}
	return func(lines []string) []string {
		for _, w := range writers {
			w.End() // an output that cannot be written to is full
		}
		for i, line := range lines {
			lines[i] = m.Text(line)
		}
		return lines
	}
}
