package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// Options configure which directory is opened, and how. The zero Options open the current directory in
// the same way as the command line without flags.
type Options struct {
	Dir string // the working directory; "": that of the process
	// Workspace is where tools act: a directory, ssh://host/dir or docker://container/dir; "": as the
	// settings say, else Dir.
	Workspace string
	// In is the host's own place where tools act, instead of Workspace; nil: Workspace names it. The Engine closes it. A
	// *workspace.Local gets the sandbox that the settings say; commands elsewhere run without one.
	In  workspace.Workspace
	Env Env // nil: the environment of the process
	// Program says how commands in the sandbox may use the running program, if that is knack. Its Dir is set to that of
	// the project.
	Program sandbox.Program
	Version string // of the program, for hosts and transcripts; "": devel

	// Files given by path count as trusted. Relative paths start at Dir.
	Skills []string // skills, files or directories of skills
	// AddDirs are directories that tools may use as they may use the working directory, and whose .claude, .agents,
	// .knack and .pi are used too. Neither / nor the home directory, nor what contains Knack's own files.
	AddDirs   []string
	Templates []string // prompt templates, or directories of them
	Plugins   []string // plugins, or directories of them
	Settings  []string // settings files, or settings as JSON
	// Given are the digests, from [config.Digest], that files of Settings and MCPConfig must have, by path. It is an error
	// if a file has another digest. If Given is nil, nothing is compared.
	Given map[string]string

	// Managed are the directories of the administrator's settings files; nil: those of the system.
	Managed []string
	// Policy are restrictions of the program that starts this one, as JSON in the form of settings files. They count as
	// managed settings, but only rules that deny or ask and permissions.disableBypassPermissionsMode are used. Other
	// settings that would restrict are an error.
	Policy []string
	// Above are limits of the sessions in whose commands the program runs ([workspace.FindAbove]): nothing else can be
	// allowed, whatever else the Options and the settings say. One that cannot be read is an error.
	Above []string

	// MCPConfig defines MCP servers: files, or JSON. With StrictMCP only these and the administrator's are
	// used.
	MCPConfig []string
	StrictMCP bool

	Bare     bool // use only Skills, AddDirs, and managed and bundled skills
	NoSkills bool // use only managed skills
	// NoSettings leaves out the project's and the user's settings files.
	NoSettings bool
	// Layers are the layers that settings, skills, agents, templates and context files are read from: "user",
	// "project", and "local" for the project's CLAUDE.local.md; nil: all. Managed files and those given in these
	// Options are always read. Listing the project here does not trust it.
	Layers []string
	// Kit is the name of the [Kit] that is used: the model sees its skills and servers only; "": none is.
	Kit    string
	Trust  bool // trust the project while the program runs
	NewDir bool // Dir was made for this run: without Trust, too, git may run in a repository that is made there
	Index  bool // list skills in the system prompt, to be read as files; no Skill tool
	Window int  // in tokens, for showing listings without a model; 0: unknown

	// Model is the host's own model; nil: the model named in the settings.
	Model llm.Model
	// FindModel finds the models that skills, agents and settings name, current being the ID of the one in use. nil: they
	// are found with the keys and servers of the user.
	FindModel func(ctx context.Context, name, current string) (llm.Model, error)

	// Betas are values of the header Anthropic-Beta, and TaskBudget is how many tokens models are told that a task may
	// take; 0: they are not told. Both concern only models with Anthropic's Messages format.
	Betas      []string
	TaskBudget int

	// Values are settings by key, such as "permissions.allow". They override settings files, but not
	// managed settings.
	Values map[string]any

	Sources []knack.Source     // the host's own skills, after all others
	Agents  []agent.Definition // they come before those of files
	// Commands are the program's own slash commands, in the order of /help; nil: none. Package engine/command has those
	// of knack.
	Commands []Command
	// Parts are the features of conversations, in the order in which they wrap tools: see [Part]. nil: there are none.
	// Package engine/part has those of knack.
	Parts   []Part
	BuiltIn []agent.Definition // they come after those of files and after the agent general-purpose
	// Plugged are plugins of the program itself, beside those of knack.
	Plugged []BuiltInPlugin
	// Debug logs what happens, without keys and without text of conversations. Each record has a topic
	// attribute, one of DebugTopics. nil: no log.
	Debug *slog.Logger
	// StartDebug switches Debug on, if it is off, and returns the file that it writes to. It is called when the skill
	// debug is. nil: the log cannot be switched on.
	StartDebug func() (file string, err error)
	// DebugLog returns the file that Debug writes to, which tools may read; "": it is off. nil: it always is.
	DebugLog func() string
	// Problems were found by the caller while it made these Options; they are reported together with the
	// project's.
	Problems []knack.Problem
}

// DebugTopics are the topics of Options.Debug.
var DebugTopics = []string{"model", "permission", "hook", "skill"}

// SessionOptions configure how a conversation begins. The zero SessionOptions start a new recorded
// session.
type SessionOptions struct {
	ID     string // of a new session; "": a new ID is generated
	Resume string // the ID of the session to resume, or a prefix of it
	Latest bool   // resume the last session of the directory that has a turn
	Fork   bool   // with Resume or Latest: continue in a copy
	// Until returns the last entry of the resumed session that is continued; later ones stay in its file, on a branch
	// of their own. nil: all are continued.
	Until  func(*session.Log) (int, error)
	Forget bool // do not write the session to disk

	// Model and Effort replace those of a resumed session; "": unchanged. A new session has those of the
	// settings, see Options.Values, unless Options.Model is set.
	Model  string
	Effort string
	// Fallback names models: when a request has failed three times because the model is overloaded or cannot be
	// reached, or when the provider does not have it, the turn goes on with the next of them.
	Fallback []string
	Tools    string // names, sets (none, all, readOnly, coding, default), or changes such as +grep,-bash; "": default
	System   string // replaces the system prompt
	Append   []string
	// Agent names a definition, of the host or the project, that leads the session: its prompt, tools, model, effort,
	// mode and limit of requests apply. "": none does.
	Agent string
	// Setup makes the Setup hooks run before the SessionStart hooks; "": they do not.
	Setup hook.Trigger
	// Skills are the skills that can be used, see knack.View.Only. nil: all.
	Skills []string

	Requests int           // limit per turn if the settings have none; 0: no limit
	Timeout  time.Duration // for commands that set none; 0: none
	// Wait makes a turn wait until background agents have ended, for programs that will not resume the
	// session.
	Wait bool
	// Waiting is called when the first request has waited for a second for MCP servers whose tools are not known yet.
	// It waits at most as long as the setting mcp.firstWait says; nil: it does not wait.
	Waiting func(servers []string)

	Host Host
}

// Host is what a host adds to a project for one session. [Session.SetHost] replaces it.
type Host struct {
	Hooks    []hook.Hook        // they run after those of skills and before those of settings; see [hook.New]
	Agents   []agent.Definition // they come before those of the project
	Own      tool.Set           // like Tools, but sub-agents do not have them
	Tools    tool.Set           // they pass the same gate; a built-in or invalid name is a Problem of the Session
	Commands []Command          // they come after the program's own
	Servers  []mcp.Server       // MCP servers, which may run in the host's process; see [mcp.Server]
	// Rules deny and ask in addition to those of the settings; Allow is not used. An ask rule whose origin is
	// permission.Managed holds in every mode.
	Rules permission.Rules
	// HookRan is called when a command of a hook starts, and when it has ended; nil: nothing is. It may be called
	// concurrently.
	HookRan func(hook.Ran)
	// Controls means that a program sends the messages. Even a message that it marks as typed cannot choose the mode
	// bypassPermissions, unless the conversation began in that mode.
	Controls bool
	// MaySave means that messages of the host may write the user's settings and notes: see [Stores].
	MaySave bool
	// Plan is what the model is told about how to plan, when plan mode begins; "": nothing more.
	Plan string
	// Elicit answers the questions of MCP servers; nil: the session's Person does.
	Elicit Person
	// Aliases maps names of tools to the tools that run in their place: see agent.Agent.
	Aliases map[string]string
}
