package control

import (
	"encoding/json"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// The messages contain what hosts of the Agent SDK read, and more for our own programs. Every message
// has a type; system messages also have a subtype. Readers ignore what they do not know.

// A Head is the part that all messages of a session have.
type Head struct {
	Session string `json:"session_id"`
	UUID    string `json:"uuid"` // the same in all messages about the same entry of a session
}

// An Init describes a session. It is the session's first message.
type Init struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // init
	Head
	Dir          string         `json:"cwd"`
	Model        string         `json:"model"`
	Mode         string         `json:"permissionMode"`
	Tools        []string       `json:"tools"`
	Skills       []string       `json:"skills"`
	Agents       []string       `json:"agents"`
	Commands     []string       `json:"slash_commands"`
	Servers      []ServerStatus `json:"mcp_servers"`
	Plugins      []Plugin       `json:"plugins"`
	Key          string         `json:"apiKeySource"` // ANTHROPIC_API_KEY, apiKeyHelper; none: another one, or none
	Style        string         `json:"output_style"` // default
	Capabilities []string       `json:"capabilities"`
	Problems     []string       `json:"problems"`
	Version      string         `json:"knack_version"`
	HostVersion  string         `json:"claude_code_version"` // same as Version
}

// A ServerStatus is an MCP server.
type ServerStatus struct {
	Name   string       `json:"name"`
	Status serverStatus `json:"status"`           // connected, failed, needs-auth, pending, disabled
	Source string       `json:"source,omitempty"` // sdk: it runs in the host
	Error  string       `json:"error,omitempty"`
}

// A Plugin is a plugin in use.
type Plugin struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Version is that of its manifest.
	Version string `json:"version,omitempty"`
}

// Usage is the token usage of requests.
type Usage struct {
	Input      int `json:"input_tokens"` // does not include cached tokens
	Output     int `json:"output_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
}

func usageOf(u llm.Usage) Usage {
	return Usage{Input: u.Input, Output: u.Output, CacheWrite: u.CacheWrite, CacheRead: u.CacheRead}
}

// A ModelUsage is the usage of one model since the program started.
type ModelUsage struct {
	Input       int     `json:"inputTokens"`
	Output      int     `json:"outputTokens"`
	CacheRead   int     `json:"cacheReadInputTokens"`
	CacheWrite  int     `json:"cacheCreationInputTokens"`
	WebSearches int     `json:"webSearchRequests"` // always 0: web searches are tool calls
	Cost        float64 `json:"costUSD"`
	Window      int     `json:"contextWindow"`
	MaxOutput   int     `json:"maxOutputTokens"`
}

// A Result is the last message of a turn. With the format json it is the only one.
type Result struct {
	Type messageType `json:"type"` // result
	// Subtype is success, error_during_execution, error_max_turns,
	// error_max_budget_usd or error_max_structured_output_retries.
	Subtype subtype `json:"subtype"`
	IsError bool    `json:"is_error"`
	Result  string  `json:"result"` // the last answer, or the error
	Head
	Reason      session.EndReason     `json:"reason"`    // done, error, limit, cancelled, stopped, terminated
	Turns       int                   `json:"num_turns"` // number of requests
	Usage       Usage                 `json:"usage"`     // of this turn
	ModelUsage  map[string]ModelUsage `json:"modelUsage"`
	Cost        float64               `json:"total_cost_usd"` // since the program started
	Duration    int64                 `json:"duration_ms"`
	APIDuration int64                 `json:"duration_api_ms"` // the part of it spent waiting for models
	Stop        *string               `json:"stop_reason"`     // of the last answer
	// For hosts: milliseconds from the first request of the turn to the first piece of its answer, and why the turn
	// ended.
	FirstToken int64  `json:"ttft_ms,omitempty"`
	Terminal   string `json:"terminal_reason,omitempty"`

	Denials []Denial `json:"permission_denials"`
	Errors  []string `json:"errors,omitempty"`
	Prompts []string `json:"user_message_uuids,omitempty"` // of the messages that this turn answers
	Reply   any      `json:"reply,omitempty"`              // for a command: the reply as data

	Structured json.RawMessage `json:"structured_output,omitempty"` // the answer that matches the JSON schema
}

// A Denial is a call that was not allowed to run.
type Denial struct {
	Tool   string          `json:"tool_name"`
	Call   string          `json:"tool_use_id"`
	Reason string          `json:"reason"`
	Rule   string          `json:"rule,omitempty"`
	Input  json.RawMessage `json:"tool_input"`
}

// A BadLine reports a line of input that cannot be read.
type BadLine struct {
	Type  messageType `json:"type"` // error
	Line  int         `json:"line"`
	Field string      `json:"field,omitempty"` // the invalid member; "": the line as a whole
	Error string      `json:"error"`
}

// An AssistantMessage is an answer of the model.
type AssistantMessage struct {
	Type    messageType   `json:"type"` // assistant
	Message ModelResponse `json:"message"`
	Parent  *string       `json:"parent_tool_use_id"` // for a sub-agent: the call that started it
	Head
	Aborted bool `json:"aborted,omitempty"` // the answer is incomplete
}

// A ModelResponse is a message of the Messages API.
type ModelResponse struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // message
	Role     llm.Role `json:"role"` // assistant
	Model    string   `json:"model"`
	Content  []Block  `json:"content"`
	Stop     *string  `json:"stop_reason"`
	Sequence *string  `json:"stop_sequence"` // null
	Usage    Usage    `json:"usage"`
}

// A UserMessage is a prompt, the result of a call, or the text of a skill.
type UserMessage struct {
	Type    messageType `json:"type"` // user
	Message UserContent `json:"message"`
	Parent  *string     `json:"parent_tool_use_id"`
	Head
	Details   json.RawMessage `json:"tool_use_result,omitempty"` // the structured result of a tool
	IsReplay  bool            `json:"isReplay,omitempty"`        // repeats a prompt of the user or the host
	IsMeta    bool            `json:"isMeta,omitempty"`          // not a prompt, but the text of a skill
	Synthetic bool            `json:"isSynthetic,omitempty"`     // same as IsMeta
	// Typed is what the user typed, if the text comes from a template.
	Typed      string              `json:"typed,omitempty"`
	Activation *session.Activation `json:"activation,omitempty"`
	Permission *SkillPermissions   `json:"command_permissions,omitempty"`
}

// UserContent is the content of a [UserMessage].
type UserContent struct {
	Role    llm.Role `json:"role"` // user
	Content []Block  `json:"content"`
}

// SkillPermissions is what a skill changes during the run.
type SkillPermissions struct {
	Allowed    []string `json:"allowedTools"` // rules in effect; null: none were requested
	Disallowed []string `json:"disallowedTools,omitempty"`
	Model      string   `json:"model,omitempty"` // the ID of the one that is used; "": as before
	Effort     string   `json:"effort,omitempty"`

	Hooks json.RawMessage `json:"hooks,omitempty"`
}

// A Block is one part of a message.
type Block struct {
	Type      blockType       `json:"type"` // text, thinking, image, document, tool_use, tool_result
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"` // for thinking; always "": the signature stays in the session
	Source    *BlockSource    `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Call      string          `json:"tool_use_id,omitempty"` // for tool_result: the call that it answers
	Content   []Block         `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

// A BlockSource is the data of an image or a document.
type BlockSource struct {
	Type string `json:"type"` // base64
	MIME string `json:"media_type"`
	Data []byte `json:"data"`
}

// A StreamMessage is a part of an answer. It is sent only with partial messages.
type StreamMessage struct {
	Type   messageType `json:"type"` // stream_event
	Event  StreamEvent `json:"event"`
	Parent *string     `json:"parent_tool_use_id"`
	Head
}

// A StreamEvent is an event in the streaming Messages API.
type StreamEvent struct {
	// Type is message_start, content_block_start, content_block_delta,
	// content_block_stop, message_delta or message_stop.
	Type    string         `json:"type"`
	Message *ModelResponse `json:"message,omitempty"`
	Index   *int           `json:"index,omitempty"`
	Block   *Block         `json:"content_block,omitempty"`
	Delta   *Delta         `json:"delta,omitempty"`
	Usage   *Usage         `json:"usage,omitempty"`
}

// A Delta is the text or data that a StreamEvent adds to an answer.
type Delta struct {
	Type     string  `json:"type,omitempty"` // text_delta, thinking_delta, input_json_delta; "" for message_delta
	Text     *string `json:"text,omitempty"`
	Thinking *string `json:"thinking,omitempty"`
	JSON     *string `json:"partial_json,omitempty"`
	Stop     *string `json:"stop_reason,omitempty"`
}

// A CommandMessage is the reply of one of the program's commands.
type CommandMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // local_command_output
	Head
	Name    string `json:"name"`
	Content string `json:"content"`
	Reply   any    `json:"reply,omitempty"` // as data
}

// A StatusMessage reports to a host that the permission mode has changed.
type StatusMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // status
	Head
	Status *string         `json:"status"` // always null
	Mode   permission.Mode `json:"permissionMode"`
}

// A CommandsMessage reports to a host what can be typed after a slash, after that was read again.
type CommandsMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // commands_changed
	Head
	Commands []slashCommand `json:"commands"`
}

// A RetryMessage reports that a request failed and is sent again. The parts of its answer that were
// streamed are invalid.
type RetryMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // api_retry
	Head
	Parent     *string `json:"parent_tool_use_id"`
	Attempt    int     `json:"attempt"`
	MaxRetries int     `json:"max_retries"`
	Wait       int64   `json:"retry_delay_ms"`
	Status     *int    `json:"error_status"`
	Error      string  `json:"error"`   // the kind: rate_limit, overloaded …
	Message    string  `json:"message"` // from the provider
}

// A NoteMessage is a message from the program or a hook to the model, between answers.
type NoteMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // note
	Head
	Parent *string `json:"parent_tool_use_id"`
	Model  string  `json:"model"`  // the text for the model
	People string  `json:"people"` // the text for people; may be ""
	Hook   string  `json:"hook_event_name,omitempty"`
	// Skills are the skills that an announcement is about; Problems describes what went wrong.
	Skills   *session.SkillChanges `json:"skills,omitempty"`
	Problems []knack.Problem       `json:"problems,omitempty"`
}

// A DecisionMessage is the permission decision about one call.
type DecisionMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // decision, or permission_denied
	Head
	Parent   *string           `json:"parent_tool_use_id"`
	Tool     string            `json:"tool_name"`
	Call     string            `json:"tool_use_id"`
	Kind     reasonType        `json:"decision_reason_type,omitempty"` // for permission_denied: rule, hook, mode, other
	Reason   string            `json:"decision_reason,omitempty"`      // for permission_denied
	Message  string            `json:"message,omitempty"`              // for permission_denied
	Decision *session.Decision `json:"decision"`
}

// A CompactMessage reports that a summary replaces everything before it.
type CompactMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // compact_boundary
	Head
	Metadata   CompactMetadata     `json:"compact_metadata"`
	Compaction *session.Compaction `json:"compaction"`
}

// CompactMetadata describes a compaction.
type CompactMetadata struct {
	Trigger string `json:"trigger"`    // manual, auto
	Before  int    `json:"pre_tokens"` // an estimate
	After   int    `json:"post_tokens"`
}

// A ReleaseMessage reports that a skill's text was removed from what the model sees.
type ReleaseMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // release
	Head
	Parent *string `json:"parent_tool_use_id"`
	Skill  string  `json:"skill"`
	Tokens int     `json:"tokens"`
	Reason string  `json:"reason"`
}

// A TaskMessage reports that a sub-agent, or for hosts a background command, started or ended.
type TaskMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // task_started, task_notification
	Head
	Parent      *string        `json:"parent_tool_use_id"`
	Task        string         `json:"task_id"` // the ID of the sub-agent's session, or the command's number
	TaskType    taskType       `json:"task_type"`
	Call        string         `json:"tool_use_id,omitempty"`
	Description string         `json:"description,omitempty"`
	Agent       string         `json:"subagent_type,omitempty"`
	Background  bool           `json:"is_backgrounded,omitempty"`
	Status      taskStatus     `json:"status,omitempty"`      // for task_notification: completed, failed, stopped
	Output      *string        `json:"output_file,omitempty"` // for task_notification: always ""
	Summary     string         `json:"summary,omitempty"`     // for task_notification: its last answer
	Entry       *session.Agent `json:"agent,omitempty"`       // for a sub-agent
}

// A TaskUpdate reports to a host that something in the background has ended.
type TaskUpdate struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // task_updated
	Head
	Task  string    `json:"task_id"`
	Patch TaskPatch `json:"patch"`
}

// A TaskPatch is the part of a task that has changed.
type TaskPatch struct {
	Status string `json:"status"`   // completed, failed, killed
	End    int64  `json:"end_time"` // milliseconds since 1970
}

// A ProgressMessage reports to a host that a call of a tool still runs, at most once a second.
type ProgressMessage struct {
	Type messageType `json:"type"` // tool_progress
	Head
	Call    string  `json:"tool_use_id"`
	Tool    string  `json:"tool_name"`
	Parent  *string `json:"parent_tool_use_id"`
	Elapsed float64 `json:"elapsed_time_seconds"`
}

// A HookMessage reports to a host, with --include-hook-events, that a command of a hook starts or has ended.
type HookMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // hook_started, hook_response
	Head
	ID     string `json:"hook_id"`
	Name   string `json:"hook_name"` // the event, and the matcher
	Event  string `json:"hook_event"`
	Output string `json:"output"` // for hook_response, as the next four: the same as stdout
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// Exit is -1 if the command could not run, or was ended.
	Exit    *int   `json:"exit_code,omitempty"`
	Outcome string `json:"outcome,omitempty"` // success, error, cancelled
}

// TasksChanged reports to a host everything that runs in the background, after that has changed.
type TasksChanged struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // background_tasks_changed
	Head
	Tasks []Task `json:"tasks"`
}

// A Task is something that runs in the background.
type Task struct {
	ID          string   `json:"task_id"`
	Type        taskType `json:"task_type"` // local_bash, local_agent
	Description string   `json:"description"`
	Agent       string   `json:"subagent_type,omitempty"`
}

// A QueuedMessage reports that a prompt enters the running turn.
type QueuedMessage struct {
	Type    messageType `json:"type"`    // system
	Subtype subtype     `json:"subtype"` // queued
	Head
	Line int `json:"line"` // the line's number in the input
}
