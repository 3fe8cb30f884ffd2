package control

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/knack-agent/knack/run/session"
)

// An outMessage describes a message that the program writes: its Go type, and its values of type and
// subtype.
type outMessage struct {
	value    any
	kind     messageType
	subtypes []subtype // nil: none, or any
}

// outMessages lists the messages of stream-json.
var outMessages = sync.OnceValue(func() []outMessage {
	return []outMessage{
		{Init{}, typeSystem, []subtype{subtypeInit}},
		{UserMessage{}, typeUser, nil},
		{AssistantMessage{}, typeAssistant, nil},
		{StreamMessage{}, typeStream, nil},
		{CommandMessage{}, typeSystem, []subtype{subtypeCommand}},
		{RetryMessage{}, typeSystem, []subtype{subtypeRetry}},
		{NoteMessage{}, typeSystem, []subtype{subtypeNote}},
		{DecisionMessage{}, typeSystem, []subtype{subtypeDecision, subtypeDenied}},
		{CompactMessage{}, typeSystem, []subtype{subtypeCompacted}},
		{ReleaseMessage{}, typeSystem, []subtype{subtypeRelease}},
		{TaskMessage{}, typeSystem, []subtype{subtypeTaskStarted, subtypeTaskNotification}},
		{TaskUpdate{}, typeSystem, []subtype{subtypeTaskUpdated}},
		{TasksChanged{}, typeSystem, []subtype{subtypeTasksChanged}},
		{QueuedMessage{}, typeSystem, []subtype{subtypeQueued}},
		{StatusMessage{}, typeSystem, []subtype{subtypeStatus}},
		{CommandsMessage{}, typeSystem, []subtype{subtypeCommandsChanged}},
		{HookMessage{}, typeSystem, []subtype{subtypeHookStarted, subtypeHookResponse}},
		{ProgressMessage{}, typeProgress, nil},
		{MirrorMessage{}, typeMirror, nil},
		{BadLine{}, typeError, nil},
		{controlRequest{}, typeControlRequest, nil},
		{controlResponse{}, typeControlResponse, nil},
		{controlCancel{}, typeControlCancel, nil},
		{Result{}, typeResult, resultSubtypes},
	}
})

var resultSubtypes = []subtype{subtypeSuccess, subtypeExecution, subtypeMaxTurns, subtypeMaxBudget,
	subtypeMaxRetries, subtypeCut, subtypeEmpty, subtypePaused, subtypeRefusal}

// JSONSchema returns the schema of the written messages. Each line is one of them.
func JSONSchema() ([]byte, error) {
	block, err := schemaOf(reflect.TypeFor[Block]())
	if err != nil {
		return nil, err
	}
	out := jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "knack stream-json",
		Description: "A line that knack writes with --output-format stream-json. Later versions add types and members: " +
			"ignore what you do not know.",
		Defs: map[string]*jsonschema.Schema{"block": block},
	}
	for _, m := range outMessages() {
		s, err := schemaOf(reflect.TypeOf(m.value))
		if err != nil {
			return nil, err
		}
		s.Properties["type"] = &jsonschema.Schema{Const: jsonschema.Ptr[any](string(m.kind))}
		if len(m.subtypes) == 1 {
			s.Properties["subtype"] = &jsonschema.Schema{Const: jsonschema.Ptr[any](string(m.subtypes[0]))}
		} else if m.subtypes != nil {
			s.Properties["subtype"] = &jsonschema.Schema{}
			for _, sub := range m.subtypes {
				s.Properties["subtype"].Enum = append(s.Properties["subtype"].Enum, string(sub))
			}
		}
		name := strings.ToLower(reflect.TypeOf(m.value).Name())
		out.Defs[name] = s
		out.OneOf = append(out.OneOf, &jsonschema.Schema{Ref: "#/$defs/" + name})
	}
	return json.MarshalIndent(&out, "", "  ")
}

// schemaOf returns the schema of a type. It allows additional members.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	shapes := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]Block]():         {Type: "array", Items: &jsonschema.Schema{Ref: "#/$defs/block"}},
		reflect.TypeFor[json.RawMessage](): {},
	}
	for _, entry := range []reflect.Type{ // in the form that `knack session show --json` prints
		reflect.TypeFor[session.Activation](), reflect.TypeFor[session.Decision](),
		reflect.TypeFor[session.Compaction](), reflect.TypeFor[session.Agent](), reflect.TypeFor[session.SkillChanges](),
	} {
		shapes[entry] = &jsonschema.Schema{Type: "object"}
	}
	if t != reflect.TypeFor[Block]() {
		shapes[reflect.TypeFor[Block]()] = &jsonschema.Schema{Ref: "#/$defs/block"}
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: shapes})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	open(s)
	return s, nil
}

// open makes a schema allow additional members, because later versions add some.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		s.Type, s.Types = "", nil // they describe the pointer to it
	}
	if s.AdditionalProperties != nil && s.Properties != nil {
		s.AdditionalProperties = nil
	}
	for _, p := range s.Properties {
		open(p)
	}
	open(s.Items)
	open(s.AdditionalProperties)
}
