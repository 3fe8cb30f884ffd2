package config

import "github.com/knack-agent/knack/run/hook"

// hooksSchema returns the schema of the setting hooks. Package hook checks what the schema does not
// cover.
func hooksSchema() object {
	text := func(doc string) object { return object{"type": "string", "description": doc} }
	flag := func(doc string) object { return object{"type": "boolean", "description": doc} }
	one := object{
		"type": "object",
		"properties": object{
			"type":    object{"enum": []hook.Type{hook.OfCommand, hook.OfHTTP, hook.OfPrompt}},
			"command": text("A command line; it receives the event on its standard input."),
			"args": object{"type": "array", "items": object{"type": "string"},
				"description": "Arguments of command, which is then a program run without a shell."},
			"url":     object{"type": "string", "pattern": "^https?://", "description": "Where the event is posted."},
			"prompt":  text("A question to the fast model; $ARGUMENTS stands for the event."),
			"if":      text("A permission rule that the call must match; for tool events."),
			"timeout": object{"type": "number", "exclusiveMinimum": 0, "maximum": 86400, "description": "Seconds."},
			"once":    flag("Only the first time in a session."), "async": flag("The run does not wait for it."),
			"required": flag("A failure of a PreToolUse or PermissionRequest hook blocks the call."),
		},
	}
	matchers := object{"type": "array", "items": object{
		"type":     "object",
		"required": []string{"hooks"},
		"properties": object{
			"matcher": text("Empty or * for all; names, as Bash|Edit; else a regular expression."),
			"hooks":   object{"type": "array", "items": one},
		},
	}}
	events := object{}
	for _, e := range hook.Events() {
		events[string(e)] = object{"$ref": "#/properties/hooks/$defs/matchers"}
	}
	return object{"type": "object", "properties": events, "$defs": object{"matchers": matchers}}
}
