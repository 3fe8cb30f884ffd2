package main

import "github.com/knack-agent/knack/run/llm/llmtest"

// skillScenes are the pictures of bundled skills in docs/skills.md. A picture is named after its skill.
var skillScenes = []scene{
	{name: "skill-update-config", width: 80, height: 24,
		files: map[string]string{"../.config/knack/settings.json": "{\n  \"model\": \"fast\"\n}\n"},
		script: []llmtest.Answer{{When: "npm test", Take: map[string]string{"file": `user: (\S+/settings\.json)`},
			Calls: []llmtest.Call{{ID: "w", Name: "write", Input: map[string]any{"path": "${file}", "content": "{\n  " +
				"\"model\": \"fast\",\n  \"permissions\": {\"allow\": [\"Bash(npm test:*)\"]}\n}\n"}}}}},
		steps: []step{{prompt, "/update-config stop asking about npm test\r"}, {`(?s)settings\.json.*1 yes`, ""}}},
	{name: "skill-loop", width: 80, height: 24, env: []string{"KNACK_FEATURES=triggers"},
		script: []llmtest.Answer{{When: "build green", Calls: []llmtest.Call{{ID: "c", Name: "CronCreate", Input: map[string]any{
			"cron": "*/10 * * * *", "prompt": "Is the build green? If not, say what broke it."}}}}},
		steps: []step{{prompt, "/loop every 10m is the build green?\r"}, {`1 yes`, ""}}},
	{name: "skill-batch", width: 80, height: 24,
		script: []llmtest.Answer{{When: "endpoints", Calls: []llmtest.Call{{ID: "b", Name: "Batch", Input: map[string]any{
			"name": "error-handling", "max_cost": 3, "tasks": []map[string]any{
				{"id": "users", "prompt": "Add error handling to the endpoint /users."},
				{"id": "orders", "prompt": "Add error handling to the endpoint /orders."},
				{"id": "stock", "prompt": "Add error handling to the endpoint /stock."}}}}}}},
		steps: []step{{prompt, "/batch add error handling to all endpoints\r"}, {`1 yes`, ""}}},
	{name: "skill-skillify", width: 80, height: 24,
		script: []llmtest.Answer{{When: "sum", Calls: []llmtest.Call{
			{ID: "r", Name: "read", Input: map[string]any{"path": "main.go"}}}}, {Text: "It prints a greeting."},
			{Calls: []llmtest.Call{{ID: "w", Name: "write", Input: map[string]any{"path": ".claude/skills/explain/SKILL.md",
				"content": "---\nname: explain\ndescription: Explains a source file in one sentence. Use when somebody asks " +
					"what a file does.\nargument-hint: \"[file]\"\narguments: [file]\n---\n1. Read $file.\n2. Say in one " +
					"sentence what it does.\n"}}}}},
		steps: []step{{prompt, "Sum up main.go\r"}, {`greeting\.\n\n❯`, "/skillify\r"}, {`(?s)explain.*1 yes`, ""}}},
}
