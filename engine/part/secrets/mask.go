package secrets

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/mask"
	"github.com/knack-agent/knack/run/tool"
)

// wrap masks secrets in the results of tools: a program of the skill may have written one to a file.
func (l *live) wrap(tools tool.Set, _ engine.Place) tool.Set {
	tools = slices.Clone(tools)
	for i, t := range tools {
		tools[i].Run = func(ctx context.Context, call tool.Input) (tool.Result, error) {
			if progress := call.Progress; progress != nil {
				call.Progress = func(r tool.Result) { progress(l.masked(r)) }
			}
			res, err := t.Run(ctx, call)
			return l.masked(res), err
		}
	}
	return tools
}

// masked returns a result without the secrets that commands were given.
func (l *live) masked(r tool.Result) tool.Result {
	values := l.values()
	if len(values) == 0 {
		return r
	}
	m := mask.New(values)
	parts := r.Parts
	for i, p := range parts {
		if m.In(p.Text) {
			parts = slices.Clone(parts)
			parts[i].Text = m.Text(p.Text)
		}
	}
	r.Parts, r.People, r.Answer = parts, m.Text(r.People), m.Text(r.Answer)
	r.Details, r.Structured = without(m, r.Details), without(m, r.Structured)
	return r
}

// without returns a value without secrets: itself, if it has none.
func without(m mask.Mask, v any) any {
	if v == nil {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil || !m.In(string(data)) {
		return v
	}
	var plain any
	if json.Unmarshal([]byte(m.Text(string(data))), &plain) != nil {
		return nil
	}
	return plain
}
