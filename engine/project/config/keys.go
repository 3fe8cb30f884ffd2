package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/confine/permission"
)

// A key is a row of the table of settings: it validates a value, defines who may set it, and documents
// it. The schema and `knack help settings` are generated from the table. [Settings] has a field for
// each row.
type key struct {
	name  string // with dots, such as permissions.allow
	kind  kind
	setBy setBy
	enum  []string
	doc   string
	// weak is set for a key that a project may only make stricter. It reports whether val is less strict
	// than over. over is nil if no source above the project sets the key: then the default applies.
	weak func(val, over *node) bool
}

// open reports whether the enum only lists some values.
func (k *key) open() bool { return k.name == "theme" }

type kind uint8

const (
	text        kind = iota
	boolean          // true or false
	number           // not negative
	integer          // not negative
	list             // of strings; values of several files are joined
	rules            // of permission rules; joined like list
	texts            // an object with string values; joined key by key
	booleans         // an object with bool values; joined key by key
	perProvider      // a string, or an object of strings by provider
	raw              // passed on unchanged; joined like list
)

// setBy says which files may set a key.
type setBy uint8

const (
	fromAnyone   setBy = iota
	onlyStricter       // a project may only make it stricter
	fromUser           // managed files, command line and user files
	fromOwner          // managed files and user files
	fromManaged        // managed files
)

var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// table returns the rows in the order in which they are documented. They must not be changed.
var table = sync.OnceValue(func() []key {
	return []key{
		{"$schema", text, fromAnyone, nil, "The address of this schema, for editors.", nil},

		{"model", text, fromAnyone, nil,
			"The model: provider/name, or one of the aliases fast, default and strong, or your own.",
			nil},
		{"effort", text, fromAnyone, nil,
			"How hard the model thinks: low, medium, high, xhigh, max, or a number of thinking tokens.", nil},
		{"models.fast", perProvider, fromAnyone, nil,
			"What the aliases fast and haiku mean: one id, or one for each provider.",
			nil},
		{"models.default", perProvider, fromAnyone, nil, "What the aliases default and sonnet mean.", nil},
		{"models.strong", perProvider, fromAnyone, nil, "What the aliases strong and opus mean.", nil},
		{"models.aliases", texts, fromAnyone, nil, "Further names for models.", nil},
		{"models.fallback", list, fromAnyone, nil,
			"Models to go on with when the model is overloaded or cannot be reached. --fallback-model replaces them.", nil},
		{"models.known", raw, fromAnyone, nil,
			"Models that the program does not know, by provider/model or model: contextWindow, " +
				"maxOutputTokens, input and output (prices), see knack help models.", nil},
		{"providers", raw, fromUser, nil, "By provider, an object with baseURL, keyHelper (a command that prints the key), " +
			"proxy and headers: where prompts and keys are sent; and messageThreads: the provider stores conversations.", nil},
		{"proxy", text, fromUser, nil, "The proxy for requests to models.", nil},
		{"env", texts, fromUser, nil, "Environment variables for the program and the commands it runs.", nil},

		{"permissions.allow", rules, fromAnyone, nil, "Rules for calls that run without asking.", nil},
		{"permissions.ask", rules, fromAnyone, nil,
			"Rules for calls that need your approval each time. Those of a project count even before its folder " +
				"is trusted.", nil},
		{"permissions.deny", rules, fromAnyone, nil,
			"Rules for calls that never run. Those of a project count even before its folder is trusted.",
			nil},
		{"permissions.defaultMode", text, fromAnyone, []string{string(permission.Default), string(permission.AcceptEdits),
			string(permission.Plan), string(permission.DontAsk), string(permission.Bypass)},
			"What happens to calls that no rule covers. A project cannot set bypassPermissions.", nil},
		{"permissions.additionalDirectories", list, fromUser, nil,
			"Directories that tools may use as they may use the working directory.", nil},
		{"permissions.protectedPaths", list, fromAnyone, nil,
			"Names of files and directories that are protected like .git and .vscode (knack sandbox explain lists these): " +
				"a name, or the end of a path such as deploy/hooks, at any depth; * in the last part matches any characters.", nil},
		{"permissions.disableBypassPermissionsMode", text, fromAnyone, []string{"disable"},
			"\"disable\": nobody can set bypassPermissions, not even on the command line.", nil},

		{"skills.order", list, fromOwner, nil, "The kinds of sources, in the order in which a skill wins over " +
			"others of the same name: managed, " +
			"explicit, user, project, additional, legacy, bundled, builtin-plugin, plugin, mcp. A kind that is missing is " +
			"not used, except managed.", nil},
		{"skills.overrides", texts, fromAnyone, []string{"on", "pinned", "required", "name-only", "user-only", "off"},
			"By skill, how much of it the model sees. pinned: its description is never cut; required: the run stops if it " +
				"cannot be listed in full; both only in managed and user settings. Managed skills cannot be off.", nil},
		{"skills.listingBudget", number, fromAnyone, nil,
			"The size limit of the list of skills: below 1, a share of the model's " +
				"window, else characters. Default 0.01.", nil},
		{"skills.listingMaxChars", integer, fromAnyone, nil,
			"The size limit of one skill in the list, in characters. Default 1536.",
			nil},
		{"skills.release", text, fromAnyone, nil,
			"How long the text of a skill stays: auto (default), eager, never, after:N " +
				"(user turns, default 3), answers:N (model answers), summary, manual.", nil},
		{"skills.suggest", text, fromAnyone, nil, "How many skills that match a message are suggested to the model with " +
			"it, if the list of skills had to be cut: auto (default, 5), off, or a number.", nil},
		{"skills.propose", boolean, fromUser, nil, "Offers the model the tool ProposeSkills, with which it may propose a " +
			"skill, or a change of one of yours, at the end of a turn; without it only /skillify and /remember do. Each needs " +
			"your answer. Default: false.", nil},
		{"skills.disableShell", boolean, onlyStricter, nil, "Commands in the text of skills are not run.", weakBool},
		{"skills.enforceAllowedTools", text, onlyStricter, []string{"off", "ask", "on"},
			"Makes the allowed-tools of a skill in use a ceiling: what they do not cover needs approval, or is denied.",
			weakEnum("off", "ask", "on")},
		{"features", booleans, fromAnyone, nil,
			"Features to turn on or off; some bundled skills need one that is off by default.", nil},
		{"keybindings.customize", boolean, fromUser, nil, "Turns on the skill keybindings before there is a file with key " +
			"bindings. Default: false.", nil},

		{"sandbox.mode", text, onlyStricter, []string{"off", "auto", "require"},
			"Whether commands run in the sandbox: auto (default): where it is possible; require: they fail where it " +
				"is not; off: never.",
			weakEnumOver("auto", "off", "auto", "require")},
		{"sandbox.env", list, fromUser, nil,
			"Names of environment variables that commands in the sandbox get in addition to the usual ones.",
			nil},
		{"sandbox.allowRead", list, fromUser, nil,
			"Paths that commands in the sandbox may read although they are secrets by default.",
			nil},
		{"sandbox.allowWrite", list, fromUser, nil,
			"Paths outside the working directory that commands in the sandbox may write.",
			nil},
		{"sandbox.allowHosts", list, fromUser, nil,
			"Hosts, or host:port, that commands in the sandbox may reach.", nil},
		{"sandbox.networkWait", number, fromUser, nil, "How many seconds a connection of a command waits for your answer " +
			"whether it may reach a host. Default 60; 0: you are not asked, and what no rule allows is refused.", nil},
		{"sandbox.denyRead", list, fromAnyone, nil, "Further paths that commands in the sandbox may not read.", nil},
		{"sandbox.cacheLimit", number, fromUser, nil, "How many GB the commands of a project may store in the caches of " +
			"language tools, which no other project sees. Above it, what they stored is removed. Default 2.", nil},
		{"sandbox.confineHooks", boolean, onlyStricter, nil,
			"The hooks of your own settings run in the sandbox everywhere, " +
				"as they do in folders that are not trusted. Default: false.", weakBool},
		{"sandbox.skills", raw, fromAnyone, nil,
			"By skill, what commands are restricted to while it is in use: {network: " +
				"none|hosts, write: [paths]}. It cannot permit more.", nil},
		{"shell.path", text, fromUser, nil, "The shell of the bash tool. Default: /bin/bash, bash on " +
			"PATH, sh; on Windows Git's bash.", nil},
		{"shell.prefix", text, fromUser, nil, "Text before every command of the bash tool.", nil},
		{"workspace", text, fromUser, nil, "Where tools act: a directory, ssh://host/dir, or a container.", nil},

		{"hooks", raw, fromAnyone, nil,
			"Commands that run on events, to decide or to be notified: {Event: [{matcher, hooks: " +
				"[{type, command}]}]}; see `knack help hooks`.", nil},
		{"mcpServers", raw, fromAnyone, nil, "MCP servers by name: {command, args, env} or {type, url, headers}.", nil},
		{"enabledPlugins", booleans, fromAnyone, nil,
			"Plugins by name@marketplace, on or off. Only those that you installed are used.", nil},
		{"extraKnownMarketplaces", raw, fromAnyone, nil, "Marketplaces that `knack plugin marketplace add NAME` knows: by " +
			"name, {source: {source: github|git|url|archive|directory, …}}.", nil},
		{"strictKnownMarketplaces", raw, fromOwner, nil,
			"A list of sources of marketplaces, in managed settings: plugins of others cannot be installed or used.", nil},
		{"memory.auto", boolean, fromUser, nil, "Offers the model the tool memory, with which it keeps notes about you " +
			"and the project, and puts the start of its MEMORY.md files into the prompt. Default: false.", nil},
		{"memory.claude", boolean, fromUser, nil,
			"Puts the start of the MEMORY.md that Claude Code keeps about the project " +
				"in ~/.claude into the prompt; /memory claude sets it. Default: false.", nil},
		{"memory.propose", boolean, fromUser, nil, "/quit first proposes what to remember of the conversation, as /memory " +
			"propose does: the fast model is asked, and each note needs your answer. Default: false.", nil},

		{"web.allowPrivate", list, fromUser, nil,
			"Hosts, or host:port, that may lead to this machine or to the network that " +
				"it is in, when an address comes from somebody else: web_fetch, a remote MCP server, a login. The permission " +
				"rule is needed as well.", nil},
		{"web.documentationHosts", list, fromUser, nil,
			"Hosts that web_fetch asks without approval, instead of the built-in " +
				"list of documentation; [] for none.", nil},
		{"web.search.engine", text, fromUser, nil, "What web_search uses: provider (the search of the " +
			"model's provider: Anthropic, OpenAI Responses, Gemini), searxng (with the url of a server; also others " +
			"with its format), brave or tavily (with a key), or a tool of an MCP server, " +
			"mcp__SERVER__TOOL. Without it web_search is not offered.", nil},
		{"web.search.url", text, fromUser, nil, "The address of the search engine.", nil},
		{"web.search.key", text, fromUser, nil, "The key of the search engine, or $NAME for the value of a variable.", nil},

		{"mcp.startTime", number, fromUser, nil,
			"How many seconds an MCP server has to start and to list what it offers, unless " +
				"its definition has a timeout. Default 30, and 120 if the program is npx, uvx or docker. The variable " +
				"MCP_TIMEOUT, in milliseconds, replaces it.", nil},
		{"mcp.firstWait", number, fromUser, nil,
			"How many seconds print mode waits before its first request for MCP servers " +
				"whose tools are not known yet. Default 5.", nil},

		{"batch.lease", number, fromUser, nil,
			"After how many seconds a worker that hangs loses its tasks to others, unless " +
				"--lease says otherwise. Default 30; at least 1. One that dies loses them at once.", nil},

		{"languageServers", texts, fromAnyone, nil, "By extension, or several with blanks between, the language server that " +
			"looks at files which tools have changed: {\".go\": \"gopls\", \".ts .tsx\": \"typescript-language-server --stdio\"}. " +
			"It runs in the sandbox, without network; the model is told new errors. Default: none.", nil},
		{"formatters", texts, fromAnyone, nil, "By extension, or several with blanks between, the program that formats files " +
			"which tools have changed: {\".go\": \"gofmt -w\"}. The file is its last argument; it runs in the sandbox.", nil},
		{"worktree.include", list, fromUser, nil,
			"Files that git ignores and that worktrees get a copy of, as in .gitignore, such as .env and .claude/. A " +
				"repository names its own in .worktreeinclude.", nil},

		{"checkpoints", text, fromUser, []string{"on", "off"},
			"Whether files are kept before tools and commands change them, " +
				"so that /undo can restore them. Default: on.", nil},

		{"git.provenance", text, fromUser, []string{"off", "note"},
			"note: commits that a session makes carry a git note (refs/notes/knack) with the session, the model and the " +
				"skills in use, from which knack why answers. No commit is changed. Default: off.", nil},

		{"compaction.auto", boolean, fromAnyone, nil, "Whether a conversation that is about to fill the model's window is " +
			"summarized. Default: true.", nil},
		{"compaction.reserve", integer, fromAnyone, nil, "How many tokens of the window are left free: a request that would " +
			"leave less is preceded by a summary. Default: 8 % of the window, at most 16000; at most half of the window.", nil},
		{"compaction.keep", integer, fromAnyone, nil, "How many tokens at the end of the conversation are kept as they are. " +
			"Default: 10 % of the window, at most 20000; at most half of the window.", nil},

		{"limits.turns", integer, onlyStricter, nil, "Answers of the model in one run. Default: none on a terminal, 200 in " +
			"print mode.", weakNumber},
		{"limits.tokens", integer, onlyStricter, nil, "Tokens of one run, input and output.", weakNumber},
		{"limits.cost", number, onlyStricter, nil, "US dollars of one run.", weakNumber},
		{"limits.minutes", number, onlyStricter, nil, "Minutes of one run.", weakNumber},
		{"limits.costPerMonth", number, fromOwner, nil, "US dollars of all sessions of a user in a calendar month (UTC). What " +
			"was spent is in spending.json in the user's state directory.", nil},

		{"audit.file", text, fromManaged, nil, "A file that gets every decision on a call, a JSON object a line. {user} " +
			"stands for the user's name, ~/ for the home directory. knack audit shows and verifies it.", nil},
		{"audit.required", boolean, fromManaged, nil, "A call runs only once its decision is in the audit file, and a run ends " +
			"if it cannot be written. Default: false.", nil},
		{"sessions.required", boolean, fromManaged, nil, "Sessions must be recorded: --no-session is refused.", nil},
		{"trust.folders", list, fromManaged, nil, "Folders that are trusted in advance, with all that is below them, as " +
			"--trust does it.", nil},

		{"telemetry.endpoint", text, fromUser, nil, "The address of a collector of OpenTelemetry, to which spans, metrics and " +
			"log records go (http://localhost:4318), or a file (file:///path). OTEL_EXPORTER_OTLP_ENDPOINT replaces it, unless " +
			"it is in managed settings. See knack help telemetry.", nil},
		{"telemetry.headers", texts, fromUser, nil, "Headers for the collector, such as {\"Authorization\": \"$NAME\"}; $NAME is " +
			"the value of a variable.", nil},
		{"telemetry.content", boolean, fromUser, nil, "Sends prompts, answers, and the arguments and results of calls, too. " +
			"Default: false.", nil},
		{"telemetry.names", text, fromUser, []string{"gen_ai", "claude_code"}, "The names that are used: those of " +
			"OpenTelemetry's conventions (default), or those of dashboards for Claude Code.", nil},

		{"outputStyle", text, fromAnyone, nil,
			"The name of a Markdown file in .claude/output-styles, .knack/output-styles or " +
				"your own directories of that name, whose text is added to the system prompt.", nil},
		{"agent", text, fromAnyone, nil, "The agent that leads a session: its prompt, tools, model, mode and limit of " +
			"requests apply. --agent replaces it; none: no agent leads.", nil},
		{"language", text, fromAnyone, nil, "The language of the model's answers, such as Japanese. Default: that of what " +
			"you write.", nil},
		{"statusLine", raw, fromUser, nil,
			"{type: command, command}: a command that prints a line for below the prompt. It gets " +
				"JSON on its standard input (model, workspace, cost, context_window …), runs like a hook of your own settings " +
				"and has 2 s.", nil},
		{"theme", text, fromUser, []string{"auto", "dark", "light", "high-contrast", "colour-blind", "truecolor",
			"truecolor-light", "none"}, "Colours of the screen: auto (default: dark or light, to match the terminal's " +
			"background), a theme of the program, or the NAME of a file themes/NAME.json beside your settings.", nil},
		{"editorMode", text, fromUser, []string{"normal", "vim"}, "The keys of the screen's prompt: normal (default), or " +
			"vim: those of Vim, with their mode in the status line. /vim switches between them.", nil},
		{"notify", text, fromUser, nil, "What happens when the screen waits for you: bell (default), osc9 (a notification " +
			"of the terminal), off, or a command, which gets the message as its last argument.", nil},
	}
})

func weakBool(val, _ *node) bool { return !val.yes }

func weakEnum(strictest ...string) func(val, over *node) bool {
	return weakEnumOver(strictest[0], strictest...)
}

// weakEnumOver compares values in order, from the loosest to the strictest. def is the value if none
// is set.
func weakEnumOver(def string, order ...string) func(val, over *node) bool {
	return func(val, over *node) bool {
		least := def
		if over != nil {
			least = over.text
		}
		return slices.Index(order, val.text) < slices.Index(order, least)
	}
}

func weakNumber(val, current *node) bool {
	if current == nil {
		return false // any limit is stricter than none
	}
	v, _ := strconv.ParseFloat(val.text, 64)
	o, _ := strconv.ParseFloat(current.text, 64)
	return v > o || v == 0 // 0 means no limit
}

// expected describes what a value must be, or returns "" if it is valid. Items of lists and objects are
// checked one by one, by bad.
func (k key) expected(n *node) string {
	ok := false
	switch k.kind {
	case text:
		if ok = n.kind == 's' || k.orNumber() && n.kind == 'n'; !ok {
			return "a string"
		}
		return k.badText(n)
	case boolean:
		if n.kind != 'b' {
			return "true or false"
		}
	case number, integer:
		v, err := strconv.ParseFloat(n.text, 64)
		if n.kind != 'n' || err != nil || v < 0 {
			return "a number that is not negative"
		}
		if k.kind == integer && v != float64(int64(v)) {
			return "a whole number"
		}
	case list, rules:
		if n.kind != 'l' {
			return "a list of strings"
		}
	case texts, booleans:
		if n.kind != 'o' {
			return "an object"
		}
	case perProvider:
		if n.kind != 's' && n.kind != 'o' {
			return "a string, or an object by provider"
		}
	case raw:
		if n.kind != 'o' && !(n.kind == 'l' && k.name == "strictKnownMarketplaces") {
			return "an object"
		}
	}
	return ""
}

// orNumber reports whether a text setting may also be a number.
func (k key) orNumber() bool { return k.name == "effort" || k.name == "skills.suggest" }

func (k key) badText(n *node) string {
	if len(k.enum) > 0 && !k.open() && !slices.Contains(k.enum, k.fold(n.text)) {
		return "one of " + strings.Join(k.enum, ", ")
	}
	switch k.name {
	case "effort":
		if v, err := strconv.Atoi(n.text); !(err == nil && v >= 0) && !slices.Contains(efforts, n.text) {
			return "one of " + strings.Join(efforts, ", ") + ", or a number of thinking tokens"
		}
	case "skills.suggest":
		if v, err := strconv.Atoi(n.text); !(err == nil && v >= 0) && n.text != "auto" && n.text != "off" {
			return "auto, off or a number"
		}
	case "skills.release":
		name, count, numbered := strings.Cut(n.text, ":")
		if v, err := strconv.Atoi(count); numbered && err == nil && v > 0 && (name == "after" || name == "answers") {
			return ""
		}
		if all := []string{"auto", "eager", "never", "after", "summary", "manual"}; !slices.Contains(all, n.text) {
			return "one of " + strings.Join(all, ", ") + ", after:N or answers:N"
		}
	}
	return ""
}

// fold replaces the short name of a mode by its full name.
func (k key) fold(s string) string {
	if k.name == "permissions.defaultMode" {
		switch s {
		case "bypass":
			return string(permission.Bypass)
		case "manual":
			return string(permission.Default)
		}
	}
	return s
}

// bad describes what an item of a list or object must be, or returns "" if it is valid.
func (k key) bad(n *node) string {
	switch k.kind {
	case list, rules, perProvider:
		if n.kind != 's' {
			return "a string"
		}
		if k.name == "skills.order" && !slices.Contains(kinds, n.text) {
			return "one of " + strings.Join(kinds, ", ")
		}
	case texts:
		if n.kind != 's' {
			return "a string"
		}
		return k.badText(n)
	case booleans:
		if n.kind != 'b' {
			return "true or false"
		}
	}
	return ""
}

// owned reports whether only managed and user settings may set a value.
func (k key) owned(n *node) bool {
	return k.name == "skills.overrides" && (n.text == "pinned" || n.text == "required")
}

var kinds = []string{"bundled", "builtin-plugin", "managed", "explicit", "user", "project", "additional", "legacy",
	"plugin", "mcp"}

// schemaID is where the schema is published.
const schemaID = "https://raw.githubusercontent.com/knack-agent/knack/main/docs/settings.schema.json"

// Schema returns the JSON Schema (2020-12) of a settings file. It allows unknown keys: they are kept,
// and a Problem reports them.
func Schema() []byte {
	root := object{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": schemaID,
		"title": "Knack settings", "type": "object", "properties": object{}}
	for _, k := range table() {
		at := root
		parts := strings.Split(k.name, ".")
		for i, part := range parts {
			props := at["properties"].(object)
			if i == len(parts)-1 {
				props[part] = k.schema()
				break
			}
			if props[part] == nil {
				props[part] = object{"type": "object", "properties": object{}}
			}
			at = props[part].(object)
		}
	}
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // a mistake in the table
	}
	return append(data, '\n')
}

type object = map[string]any

func (k key) schema() object {
	str := object{"type": "string"}
	if len(k.enum) > 0 && !k.open() {
		str["enum"] = k.enum
	}
	if k.name == "skills.release" {
		str["pattern"] = "^(auto|eager|never|summary|manual|after|(after|answers):[1-9][0-9]*)$"
	}
	s := object{}
	switch k.kind {
	case text:
		s = str
		if k.name == "skills.suggest" {
			s = object{"anyOf": []any{object{"enum": []string{"auto", "off"}}, object{"type": "integer", "minimum": 0}}}
		}
		if k.name == "effort" {
			s = object{"anyOf": []any{object{"enum": efforts}, object{"type": "string", "pattern": "^[0-9]+$"},
				object{"type": "integer", "minimum": 0}}}
		}
	case boolean:
		s["type"] = "boolean"
	case number:
		s["type"], s["minimum"] = "number", 0
	case integer:
		s["type"], s["minimum"] = "integer", 0
	case list, rules:
		if k.name == "skills.order" {
			str["enum"] = kinds
		}
		s["type"], s["items"] = "array", str
	case texts:
		s["type"], s["additionalProperties"] = "object", str
	case booleans:
		s["type"], s["additionalProperties"] = "object", object{"type": "boolean"}
	case perProvider:
		s["anyOf"] = []any{str, object{"type": "object", "additionalProperties": object{"type": "string"}}}
	case raw:
		s["type"] = "object"
		if k.name == "hooks" {
			s = hooksSchema()
		}
	}
	s["description"] = k.doc + k.setBy.note()
	return s
}

func (by setBy) note() string {
	switch by {
	case onlyStricter:
		return " A project may only make it stricter."
	case fromUser:
		return " Not read from a project."
	case fromOwner:
		return " Read only from managed and user settings."
	case fromManaged:
		return " Read only from managed settings."
	}
	return ""
}

// Help returns the table as text for people.
func Help() string {
	var b strings.Builder
	b.WriteString(helpHead)
	for _, k := range table() {
		fmt.Fprintf(&b, "\n  %s (%s)\n", k.name, k.typeName())
		for _, line := range wrap(k.doc+k.setBy.note(), 74) {
			b.WriteString("      " + line + "\n")
		}
	}
	return b.String()
}

func (k key) typeName() string {
	if len(k.enum) > 0 && k.kind == text {
		if k.open() {
			return strings.Join(k.enum, " | ") + " | NAME"
		}
		return strings.Join(k.enum, " | ")
	}
	return [...]string{"string", "true | false", "number", "integer", "list of strings", "list of rules",
		"object of strings", "object of true | false", "string, or object by provider", "object"}[k.kind]
}

func wrap(s string, width int) (lines []string) {
	line := ""
	for _, w := range strings.Fields(s) {
		if line != "" && len(line)+1+len(w) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}

const helpHead = `Settings are JSON files. If several files set the same value, the one that is
higher in this list wins; lists and objects are merged:

  managed         /etc/knack/settings.json, then settings.d/*.json beside it
  command line    flags, then --settings FILE|JSON
  project local   .knack/settings.local.json, here and in each parent directory up
                  to the repository's root
  project         .knack/settings.json, likewise
  user            $XDG_CONFIG_HOME/knack/settings.json

What counts of Claude Code's and Pi's files comes after these (knack doctor lists
what has no effect). A project's files apply once the project is trusted (knack
trust); until then only their deny and ask rules apply. An invalid entry is reported with its position,
and the other entries apply. Unknown keys are reported and ignored.

  knack help settings --schema    prints the JSON Schema

Settings:
`
