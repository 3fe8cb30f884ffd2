package config

import "testing"

// Which models restrictions of Claude Code's settings leave.
func TestModelLimits(t *testing.T) {
	for _, test := range []struct {
		managed, user, project, id string
		byDefault, ok              bool
	}{
		{id: "anthropic/claude-opus-5-5", ok: true},
		{managed: `{"deniedModels": ["opus"]}`, id: "anthropic/claude-opus-5-5"},
		{managed: `{"deniedModels": ["opus"]}`, id: "openrouter/anthropic/claude-3-opus"},
		{managed: `{"deniedModels": ["opus"]}`, id: "anthropic/claude-sonnet-5", ok: true},
		{managed: `{"deniedModels": ["claude-opus-5-5"]}`, id: "bedrock/us.anthropic.claude-opus-5-5-20261001-v1:0"},
		{managed: `{"deniedModels": ["claude-opus-5-5"]}`, id: "vertex/claude-opus-5-5@20261001"},
		{managed: `{"deniedModels": ["claude-opus-5-5"]}`, id: "anthropic/claude-opus-5-5-fast"},
		{managed: `{"deniedModels": ["claude-opus-5-5"]}`, id: "anthropic/claude-opus-5", ok: true},
		{managed: `{"deniedModels": ["claude-opus-5-5-20261001"]}`, id: "anthropic/claude-opus-5-5"},
		{managed: `{"deniedModels": ["Claude-Opus-5"]}`, id: "anthropic/claude-opus-5.5", byDefault: true},
		{managed: `{"deniedModels": ["opus"], "availableModels": ["opus"]}`, id: "anthropic/claude-opus-5-5"},
		{user: `{"deniedModels": ["opus"]}`, id: "anthropic/claude-opus-5-5", ok: true}, // read only from managed settings
		{managed: `{"availableModels": ["sonnet"]}`, id: "anthropic/claude-opus-5-5"},
		{managed: `{"availableModels": ["sonnet"]}`, id: "anthropic/claude-opus-5-5", byDefault: true, ok: true},
		{managed: `{"availableModels": ["sonnet"], "enforceAvailableModels": true}`, id: "x/opus-5", byDefault: true},
		{managed: `{"availableModels": []}`, id: "anthropic/claude-opus-5-5"},
		{managed: `{"availableModels": ["opus-5"]}`, id: "anthropic/claude-opus-5-5", ok: true},
		{managed: `{"availableModels": ["opus-5"]}`, id: "anthropic/claude-opus-55"},
		{managed: `{"availableModels": ["opus-5"], "availableModelsMatch": "exact"}`, id: "anthropic/claude-opus-5-5"},
		{managed: `{"availableModels": ["opus-5"], "availableModelsMatch": "exact"}`,
			id: "anthropic/claude-opus-5-20261001", ok: true},
		{managed: `{"availableModels": ["claude-opus-5-20261001"]}`, id: "anthropic/claude-opus-5"},
		{managed: `{"availableModels": ["route/claude-opus-5"]}`, id: "anthropic/claude-opus-5"},
		{managed: `{"availableModels": ["default", "best", ""]}`, id: "anthropic/claude-opus-5"},
		{managed: `{"availableModels": ["sonnet"]}`, user: `{"availableModels": ["opus"]}`, id: "anthropic/claude-opus-5"},
		{user: `{"availableModels": ["sonnet"]}`, project: `{"availableModels": ["opus"]}`, id: "anthropic/claude-opus-5"},
		{project: `{"availableModels": ["sonnet"]}`, id: "anthropic/claude-opus-5"},
	} {
		files := map[string]string{}
		for name, text := range map[string]string{managedFile: test.managed, userFile: test.user, projectFile: test.project} {
			if text != "" {
				files[name] = text
			}
		}
		if err := load(t, files).ModelLimits().Check(test.id, test.byDefault); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
	}
	for _, test := range []struct {
		list, name string
		own, ok    bool
	}{
		{`["anthropic"]`, "anthropic", true, true}, {`["anthropic"]`, "anthropic", false, false},
		{`["anthropic", "customEndpoint"]`, "anthropic", false, false}, {`["bedrock"]`, "anthropic", true, false},
		{`["openai"]`, "openai", true, true}, {`[]`, "anthropic", true, false},
	} {
		c := load(t, map[string]string{managedFile: `{"allowedProviders": ` + test.list + `}`,
			userFile: `{"allowedProviders": []}`}) // read only from managed settings
		if err := c.ModelLimits().Provider(test.name, test.own); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
	}
	c := load(t, map[string]string{managedFile: `{"maxEffortLevel": "high"}`, userFile: `{"maxEffortLevel": "low",
		"modelSettings": {"claude-opus-5": {"maxEffortLevel": "max"}, "sonnet": {"maxEffortLevel": "medium"}}}`})
	for id, want := range map[string]string{"anthropic/claude-opus-5": "high", "anthropic/claude-sonnet-5": "medium",
		"anthropic/claude-haiku-5": "low"} {
		if got := c.ModelLimits().Effort(id); got != want {
			t.Errorf("%s: at most %q, want %q", id, got, want)
		}
	}
}
