package control

// The codes in messages. They are part of the protocol: released values never change.

// A messageType is the type of a message.
type messageType string

const (
	typeSystem          messageType = "system"
	typeUser            messageType = "user"
	typeAssistant       messageType = "assistant"
	typeStream          messageType = "stream_event"
	typeResult          messageType = "result"
	typeError           messageType = "error"
	typeControlRequest  messageType = "control_request"
	typeControlResponse messageType = "control_response"
	typeControlCancel   messageType = "control_cancel_request"
	typeProgress        messageType = "tool_progress"
	typeMirror          messageType = "transcript_mirror"
	typeKeepAlive       messageType = "keep_alive"

	typeEOF messageType = "eof" // the end of the input; never sent
)

// A subtype says more about a message, a control request or its answer.
type subtype string

const (
	// Of system messages.
	subtypeInit             subtype = "init"
	subtypeCommand          subtype = "local_command_output"
	subtypeRetry            subtype = "api_retry"
	subtypeNote             subtype = "note"
	subtypeDecision         subtype = "decision"
	subtypeDenied           subtype = "permission_denied"
	subtypeCompacted        subtype = "compact_boundary"
	subtypeRelease          subtype = "release"
	subtypeTaskStarted      subtype = "task_started"
	subtypeTaskNotification subtype = "task_notification"
	subtypeTaskUpdated      subtype = "task_updated"
	subtypeTasksChanged     subtype = "background_tasks_changed"
	subtypeQueued           subtype = "queued"
	subtypeStatus           subtype = "status"
	subtypeHookStarted      subtype = "hook_started"
	subtypeHookResponse     subtype = "hook_response"
	subtypeCommandsChanged  subtype = "commands_changed"

	// Of results; success also of answers to control requests.
	subtypeSuccess    subtype = "success"
	subtypeExecution  subtype = "error_during_execution"
	subtypeMaxTurns   subtype = "error_max_turns"
	subtypeMaxBudget  subtype = "error_max_budget_usd"
	subtypeMaxRetries subtype = "error_max_structured_output_retries"
	subtypeCut        subtype = "error_max_tokens"
	subtypeEmpty      subtype = "error_empty_answer"
	subtypePaused     subtype = "error_pause_turn"
	subtypeRefusal    subtype = "error_refusal"

	// Of answers to control requests.
	subtypeError subtype = "error"

	// Of control requests of the host that are handled in a special way. All others: see handlers.
	subtypeInitialize subtype = "initialize"
	subtypeInterrupt  subtype = "interrupt"
	subtypeReconnect  subtype = "mcp_reconnect"
	subtypeOverride   subtype = "set_mcp_permission_mode_override"

	// Of control requests to the host.
	subtypeCanUseTool   subtype = "can_use_tool"
	subtypeElicitation  subtype = "elicitation"
	subtypeHookCallback subtype = "hook_callback"
	subtypeMCPMessage   subtype = "mcp_message"
)

// A blockType is the type of a [Block].
type blockType string

const (
	blockText     blockType = "text"
	blockThinking blockType = "thinking"
	blockImage    blockType = "image"
	blockDocument blockType = "document"
	// blockSearchResult is only read.
	blockSearchResult blockType = "search_result"
	blockToolUse      blockType = "tool_use"
	blockToolResult   blockType = "tool_result"
)

// A behavior is what a host answers to can_use_tool, and what a rule does.
type behavior string

const (
	behaviorAllow behavior = "allow"
	behaviorAsk   behavior = "ask"
	behaviorDeny  behavior = "deny"
)

// A reasonType is the kind of reason for a decision.
type reasonType string

const (
	reasonRule        reasonType = "rule"
	reasonHook        reasonType = "hook"
	reasonSafetyCheck reasonType = "safetyCheck"
	reasonOther       reasonType = "other"
)

// A taskType is what a task is.
type taskType string

const (
	taskCommand taskType = "local_bash"
	taskAgent   taskType = "local_agent"
)

// A taskStatus is how a task ended.
type taskStatus string

const (
	taskCompleted taskStatus = "completed"
	taskFailed    taskStatus = "failed"
	taskStopped   taskStatus = "stopped"
)

// A serverStatus is the state of an MCP server.
type serverStatus string

const (
	serverPending    serverStatus = "pending"
	serverConnected  serverStatus = "connected"
	serverFailed     serverStatus = "failed"
	serverDisabled   serverStatus = "disabled"
	serverNeedsLogin serverStatus = "needs-auth"
)

// An editability is where a rule can be changed.
type editability string

const (
	editPersistent editability = "persistent" // in a file
	editSession    editability = "session"
	editNever      editability = "readonly"
)

// Types and destinations of updates of permissions.
const (
	updateAddRules       = "addRules"
	updateSetMode        = "setMode"
	updateAddDirectories = "addDirectories"
	destinationSession   = "session"
)
