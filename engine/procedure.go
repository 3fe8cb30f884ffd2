package engine

import (
	"encoding/json"
	"fmt"

	"github.com/knack-agent/knack/run/llm/offline"
)

// procedure finds the procedure of a skill, for the offline model.
func (e *Engine) procedure(name string) (offline.Procedure, error) {
	k := e.Catalog().Skill(name)
	if k == nil {
		return offline.Procedure{}, fmt.Errorf("there is no skill %s", name)
	}
	p := offline.Procedure{Arguments: k.Arguments, Hint: k.ArgumentHint, Dir: k.Dir}
	for _, field := range k.Fields() {
		if field.Key != "metadata" {
			continue
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(field.Value, &m) != nil {
			continue
		}
		var err error
		if p.Steps, err = offline.ParseProcedure(m["knack-procedure"]); err != nil {
			return p, err
		}
	}
	return p, nil
}
