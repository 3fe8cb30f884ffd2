package telemetry

// Names of spans, metrics, log records and attributes. Those that begin with gen_ai are of OpenTelemetry's conventions
// for generative AI (the repository semantic-conventions-genai, all of it "development", as of 2026-11-22; those of
// skills are proposals there, issue 501). What has no convention begins with knack. No other file spells a name.
const (
	conventions = "semantic-conventions-genai 2026-11-22"

	spanTurn = "invoke_agent"
	spanChat = "chat"
	spanTool = "execute_tool"
	spanWait = "knack.wait"

	spanBatch = "knack.batch"

	keyOperation    = "gen_ai.operation.name"
	keyProvider     = "gen_ai.provider.name"
	keyAgent        = "gen_ai.agent.name"
	keyAgentID      = "gen_ai.agent.id"
	keyConversation = "gen_ai.conversation.id"
	keyModel        = "gen_ai.request.model"
	keyAnswerModel  = "gen_ai.response.model"
	keyFinish       = "gen_ai.response.finish_reasons"
	keyInput        = "gen_ai.usage.input_tokens"
	keyOutput       = "gen_ai.usage.output_tokens"
	keyCacheRead    = "gen_ai.usage.cache_read.input_tokens"
	keyCacheWrite   = "gen_ai.usage.cache_creation.input_tokens"
	keyTokenType    = "gen_ai.token.type"
	keyTool         = "gen_ai.tool.name"
	keyToolType     = "gen_ai.tool.type"
	keyCall         = "gen_ai.tool.call.id"
	keySkill        = "gen_ai.skill.name"
	keyError        = "error.type"
	keyStatus       = "http.response.status_code"

	// keyPrompt and the next ones are sent with the setting telemetry.content only.
	keyPrompt      = "gen_ai.input.messages"
	keyAnswer      = "gen_ai.output.messages"
	keyArguments   = "gen_ai.tool.call.arguments"
	keyResult      = "gen_ai.tool.call.result"
	keyDescription = "gen_ai.skill.description"

	keyCost     = "knack.usage.cost"         // US dollars
	keyEnd      = "knack.turn.end"           // why a turn ended
	keyEffort   = "knack.effort"             // of a request
	keyFirst    = "knack.first_chunk"        // seconds until the first piece of an answer
	keyOrigin   = "knack.skill.origin"       // user, project, plugin …
	keyBy       = "knack.skill.caller"       // who called a skill: user, model …
	keyTokens   = "knack.skill.tokens"       // of its text
	keyReleased = "knack.skill.released"     // why its text was released
	keyDecision = "knack.permission.verdict" // allow, ask or deny
	keySource   = "knack.permission.source"  // managed, user, session …, hook, or user for an answer
	keyRule     = "knack.permission.rule"    // with telemetry.content only: a rule may have a path
	keyAsks     = "knack.wait.about"         // permission or question
	keyDeclined = "knack.wait.declined"
	keyMode     = "knack.permission.mode"
	keyDuration = "knack.duration" // milliseconds, in log records
	keySuccess  = "knack.success"
	keyLength   = "knack.prompt.length" // bytes
	keySignal   = "knack.telemetry.signal"
	keyVersion  = "knack.telemetry.conventions"
	keyBatch    = "knack.batch.name" // with telemetry.content only

	metricTokens    = "gen_ai.client.token.usage"
	metricDuration  = "gen_ai.client.operation.duration"
	metricToolTime  = "gen_ai.execute_tool.duration"
	metricCost      = "knack.cost"
	metricSessions  = "knack.sessions"
	metricDecisions = "knack.permission.decisions"
	metricSkills    = "knack.skill.activations"
	metricDropped   = "knack.telemetry.dropped"

	eventPrompt   = "knack.prompt"
	eventRequest  = "knack.request"
	eventFailed   = "knack.request.failed"
	eventTool     = "knack.tool.result"
	eventDecision = "knack.permission.decision"
	eventSkill    = "knack.skill.activated"
	eventReleased = "knack.skill.released"
	eventCompact  = "knack.compaction"
	eventAgent    = "knack.agent.ended"
	eventMode     = "knack.permission.mode_changed"
)

// A naming says how things are called. The zero naming has the names above.
type naming struct {
	alias map[string]string
	// short means that the name of a span is not followed by that of its agent, model or tool.
	short bool
	// tokenCounter means that used tokens are a sum, not a histogram.
	tokenCounter bool
}

func (n naming) of(name string) string {
	if other, ok := n.alias[name]; ok {
		return other
	}
	return name
}

// claudeCode has the names on which dashboards for Claude Code are built (its public documentation of 2026-08-22).
func claudeCode() naming {
	return naming{short: true, tokenCounter: true, alias: map[string]string{
		spanTurn: "claude_code.interaction", spanChat: "claude_code.llm_request", spanTool: "claude_code.tool",
		spanWait: "claude_code.tool.blocked_on_user",

		metricTokens: "claude_code.token.usage", metricCost: "claude_code.cost.usage",
		metricSessions: "claude_code.session.count", metricDecisions: "claude_code.code_edit_tool.decision",

		eventPrompt: "claude_code.user_prompt", eventRequest: "claude_code.api_request",
		eventFailed: "claude_code.api_error", eventTool: "claude_code.tool_result",
		eventDecision: "claude_code.tool_decision", eventSkill: "claude_code.skill_activated",
		eventCompact: "claude_code.compaction", eventAgent: "claude_code.subagent_completed",
		eventMode: "claude_code.permission_mode_changed",

		keyConversation: "session.id", keyProvider: "gen_ai.system", keyModel: "model", keyTool: "tool_name",
		keyInput: "input_tokens", keyOutput: "output_tokens", keyCacheRead: "cache_read_tokens",
		keyCacheWrite: "cache_creation_tokens", keyTokenType: "type", keySkill: "skill.name", keyCost: "cost_usd",
		keyDecision: "decision", keySource: "source", keyDuration: "duration_ms", keySuccess: "success",
		keyLength: "prompt_length", keyStatus: "status_code", keyError: "error",
	}}
}

// value returns the value of an attribute as these names have it.
func (n naming) value(key, value string) string {
	if n.alias == nil {
		return value
	}
	switch key + "=" + value {
	case keyTokenType + "=cache_read":
		return "cacheRead"
	case keyTokenType + "=cache_creation":
		return "cacheCreation"
	case keyDecision + "=allow":
		return "accept"
	case keyDecision + "=deny", keyDecision + "=ask":
		return "reject"
	}
	return value
}
