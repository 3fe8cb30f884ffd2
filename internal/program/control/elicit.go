package control

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/engine"
)

// An elicitation passes a question of an MCP server for the user to the host.
type elicitation struct {
	Subtype subtype            `json:"subtype"` // elicitation
	Server  string             `json:"mcp_server_name"`
	Message string             `json:"message"`
	Mode    string             `json:"mode"` // form, url
	URL     string             `json:"url,omitempty"`
	Schema  *jsonschema.Schema `json:"requested_schema,omitempty"`
	Order   []string           `json:"property_order,omitempty"`
}

// elicit asks the host. Any answer other than accept declines.
func (p *person) elicit(ctx context.Context, server string, q engine.Question) (engine.Answer, error) {
	ask := elicitation{Subtype: subtypeElicitation, Server: server, Message: q.Text, Mode: "form"}
	if q.URL != "" {
		ask.Mode, ask.URL = "url", q.URL
	} else {
		ask.Schema, ask.Order = engine.FormSchema(q.Fields)
	}
	data, err := p.request(ctx, ask)
	if err != nil {
		return engine.Answer{}, err
	}
	var answer struct {
		Action  string                     `json:"action"` // accept, decline, cancel
		Content map[string]json.RawMessage `json:"content"`
	}
	if err := decode(data, &answer); err != nil {
		return engine.Answer{}, fmt.Errorf("the host's answer cannot be read: %w", err)
	}
	switch answer.Action {
	case "accept":
		return engine.Answer{Option: engine.OptionYes, Values: answer.Content}, nil
	case "decline":
		return engine.Answer{Declined: true}, nil
	}
	return engine.Answer{}, fmt.Errorf("the host's answer has the action %q", answer.Action)
}
