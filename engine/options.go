package engine

import (
	"log/slog"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/mcp"
	"github.com/knack-agent/knack/tool"
)

// Options configure which directory is opened, and how. The zero Options are the
// current directory, as the command line without flags opens it.
type Options struct {
	Dir string // the working directory; "": that of the process
	// where tools act: a directory, ssh://host/dir, docker://container/dir; "": as the settings say,
	// else Dir
	Workspace string
	Env       Env    // nil: the environment of the process
	Version   string // of the program, for hosts and transcripts; "": devel

	// What is given by path counts as trusted. Relative paths start at Dir.
	Skills    []string // skills, files or directories of skills
	AddDirs   []string // directories whose .claude, .agents, .knack and .pi are used too
	Templates []string // prompt templates, or directories of them
	Settings  []string // settings files, or settings as JSON

	// MCPConfig are definitions of MCP servers: files, or JSON. StrictMCP uses no
	// others but the administrator's.
	MCPConfig []string
	StrictMCP bool

	Bare     bool // use only Skills, AddDirs, and managed and bundled skills
	NoSkills bool // use only managed skills
	// NoSettings leaves out the project's and the user's settings files.
	NoSettings bool
	// Layers are those that settings, skills, agents, templates and context files
	// are read from, "user" and "project", beside managed ones and what is given
	// here; nil: both. Naming the project does not trust it.
	Layers  []string
	Trust   bool   // trust the project as long as the program runs
	Index   bool   // list skills in the system prompt, to be read as files, instead of offering the Skill tool
	Hotkeys string // what /hotkeys shows: the keys of the front end
	Window  int    // the model's window in tokens, where listings are shown without a model; 0: unknown

	// Model is the host's own model; nil: one is found by the name in the settings.
	Model llm.Model

	// Values are settings by key, such as "permissions.allow", above those of
	// files and below managed ones.
	Values map[string]any

	Sources []knack.Source     // behind all others: the host's own skills
	Agents  []agent.Definition // before those of files
	BuiltIn []agent.Definition // after those of files and general-purpose
	// Debug logs what happens, without keys and without text of conversations; each
	// record has a topic attribute, one of DebugTopics. nil: nothing is logged.
	Debug *slog.Logger
	// Problems are what the caller found while it made these Options; they are
	// reported with the project's.
	Problems []knack.Problem
}

// DebugTopics are the topics of Options.Debug.
var DebugTopics = []string{"model", "permission", "hook", "skill"}

// SessionOptions configure how a conversation begins. The zero SessionOptions are a
// new one that is recorded.
type SessionOptions struct {
	ID     string // of a new session; "": one is made
	Resume string // the id of a session to resume, or the beginning of it
	Latest bool   // resume the last session of the directory that has a turn
	Fork   bool   // with Resume or Latest: work in a copy of it
	Forget bool   // write no session to disk

	Model  string // replaces what a resumed session was set to; "": it stays
	Effort string // likewise
	Tools  string // names, sets (none, all, readOnly, coding, default), or changes such as +grep,-bash; "": default
	System string // replaces the system prompt
	Append []string
	// Skills are those that can be used, see knack.View.Only. nil: all.
	Skills []string

	Requests int           // the limit of a turn where the settings give none; 0: none
	Timeout  time.Duration // of a command that names none; 0: none
	// Wait makes a turn go on until agents in the background have ended: for a
	// program that will not be resumed.
	Wait bool

	Given Given
}

// Given is what a host adds to a project for a session. [Session.Give] replaces
// it.
type Given struct {
	Hooks    []hook.Hook        // after those of skills, before those of settings; see [hook.New]
	Agents   []agent.Definition // before those of the project
	Tools    tool.Set           // decided by the same gate; one of a built-in tool's name is left out
	Commands []ProgramCommand   // after the program's own
	Servers  []mcp.Server       // MCP servers, such as those in the host's own process; see [mcp.Server]
	// Elicit answers what MCP servers ask; nil: the Person who answers all else does.
	Elicit Person
	// Aliases names the tools that run in place of others, by the names of these: see
	// agent.Agent.
	Aliases map[string]string
}
