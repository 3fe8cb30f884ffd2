package control

import (
	"encoding/json"

	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/coding"
)

// keepBefore keeps what a file was before a call changed it, until the result is recorded.
func (o *Messages) keepBefore(e *agent.Ended) {
	if d, ok := e.Result.Details.(coding.ChangeDetails); ok && d.Before != nil {
		o.originals[e.Call] = d.Before
	}
}

// details returns the details of a result; for hosts, those of commands and changes also have the members that hosts
// know.
func (o *Messages) details(r *session.Result) json.RawMessage {
	if !o.host || o.session == nil || r.IsError && len(r.Details) == 0 {
		return r.Details
	}
	var more any
	switch r.DetailsForm() {
	case session.FormOutput:
		var d coding.BashDetails
		if json.Unmarshal(r.Details, &d) != nil {
			return r.Details
		}
		more = d.ForHosts(llm.TextOf(r.Parts))
	case session.FormChange:
		var d coding.ChangeDetails
		if json.Unmarshal(r.Details, &d) != nil || d.Path == "" {
			return r.Details
		}
		d.Before = o.originals[r.ID]
		delete(o.originals, r.ID)
		t, known := o.session.Now().Tool(r.Name)
		more = d.ForHosts(known && t.Name == "write")
	default:
		return r.Details
	}
	return merged(r.Details, more)
}

// merged adds the members of more, an object, to those of data. Those of data win.
func merged(data json.RawMessage, more any) json.RawMessage {
	added, err := json.Marshal(more)
	all := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(added, &all) != nil || json.Unmarshal(data, &all) != nil {
		return data
	}
	out, err := json.Marshal(all)
	if err != nil {
		return data
	}
	return out
}
