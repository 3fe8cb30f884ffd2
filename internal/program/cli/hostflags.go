package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// restricting lists the flags that restrict what a run may do. A flag that nearly matches one of
// them is an error even where unknown flags are ignored: a mistyped restriction must not be lost
// silently.
var restricting = []string{"deny", "disallowed-tools", "ask", "tools", "permission-mode", "permission-prompt-tool",
	"sandbox", "max-turns", "max-cost", "max-budget-usd", "settings", "setting-sources", "strict-mcp-config",
	"bare", "no-skills", "no-session", "no-session-persistence", "managed-settings", "permission-prompts",
	"resume-session-at", "thinking", "agent", "kit"}

// restrictingWords are parts of the names of flags that restrict. An unknown flag with one of them is an error.
var restrictingWords = []string{"deny", "disallow", "no-", "only", "strict", "max", "limit", "restrict", "permission",
	"sandbox", "managed"}

// withoutEffect says why flags that hosts pass have no effect here. They restrict nothing.
var withoutEffect = map[string]string{
	"await-initialize": "initialize is always awaited",
	"channels":         "Knack has no channels",
	"debug-to-stderr":  "--debug and --debug-file write a log file",
	"thinking-display": "thinking is always summarized",
}

// refusedFlags say why flags that would limit a run, or move what it trusts, are errors.
var refusedFlags = map[string]string{
	"initialize-fields":              "settings and denied tools are read only from the command line",
	"managed-settings-in-initialize": "managed settings are read only from the command line",
	"plugin-dir-no-mcp":              "the servers of a plugin cannot be left out; disable them with its settings",
	"project-config-root":            "the project is where the program starts; start it there, with --add-dir",
	"resume-drops-turn":              "use --resume-session-at alone",
	"sdk-url":                        "a host speaks through standard input and output",
}

// withoutUnknown removes flags that this program does not know, each with the value after it,
// and returns a Problem for each. It does so only if the arguments contain --input-format
// stream-json, because hosts pass every flag that their SDK has. It also removes empty arguments that are no flag's
// value: an SDK writes them after a switch to which its host gave "", and there is no prompt among such arguments. In
// other cases it returns args unchanged, and cobra reports the unknown flag.
func withoutUnknown(root *cobra.Command, args []string) ([]string, []knack.Problem, error) {
	flags := root.Flags()
	var kept []string
	var problems []knack.Problem
	structured := false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" || i == 0 && isCommand(root, arg) {
			kept = append(kept, args[i:]...)
			break
		}
		known, name, joined := flagOf(flags, arg)
		takes := known != nil && !joined && known.NoOptDefVal == "" && i+1 < len(args)
		switch {
		case known != nil && takes:
			structured = structured || known.Name == "input-format" && args[i+1] == "stream-json"
			kept = append(kept, arg, args[i+1])
			i++
		case arg == "":
		case known != nil || name == "":
			structured = structured || known != nil && known.Name == "input-format" && strings.HasSuffix(arg, "=stream-json")
			kept = append(kept, arg)
		default:
			if err := restricts(name); err != nil {
				if !structured && !wantsStructured(args) {
					return args, nil, nil
				}
				return nil, nil, err
			}
			what := "--" + name
			if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				what += " and its value"
			}
			problems = append(problems, knack.Problem{Code: knack.CodeFlagUnknown, Severity: knack.Warn, Path: "command line",
				Message: leftOut(name, what), Hint: "knack --help"})
		}
	}
	if !structured {
		return args, nil, nil
	}
	return kept, problems, nil
}

// leftOut says that a flag has no effect. what is the flag, with its value.
func leftOut(name, what string) string {
	if why := withoutEffect[name]; why != "" {
		return what + " has no effect: " + why
	}
	return "unknown flag: " + what + " left out"
}

// restricts returns an error for a flag that this program does not know and that must not be ignored, because it
// seems to restrict the run; nil: it may be.
func restricts(name string) error {
	if why := refusedFlags[name]; why != "" {
		return engine.Usagef("docs/agent-sdk.md lists the flags of hosts", "--%s is not supported: %s", name, why)
	}
	if withoutEffect[name] != "" {
		return nil
	}
	if near := restrictingNear(name); near != "" {
		return engine.Usagef("knack --"+near, "unknown flag: --%s; did you mean --%s?", name, near)
	}
	if slices.ContainsFunc(restrictingWords, func(word string) bool { return strings.Contains(name, word) }) {
		return engine.Usagef("knack --help", "unknown flag: --%s; it would restrict the run, so it is not ignored", name)
	}
	return nil
}

// restrictingNear returns the restricting flag closest to name, or "" if none is within two
// edits.
func restrictingNear(name string) string {
	near, least := "", 3
	for _, r := range restricting {
		// --name is a flag of other agents that happens to resemble --bare.
		if d := similar.Distance(name, r, 2); d < least && name != "name" {
			near, least = r, d
		}
	}
	return near
}

// wantsStructured reports whether the arguments ask for structured input, in any position.
func wantsStructured(args []string) bool {
	for i, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "--") && string(kebab(nil, name)) == "input-format" &&
			(value == "stream-json" || value == "" && i+1 < len(args) && args[i+1] == "stream-json") {
			return true
		}
	}
	return false
}

// isCommand reports whether word is the name or an alias of a subcommand of root.
func isCommand(root *cobra.Command, word string) bool {
	for _, c := range root.Commands() {
		if c.Name() == word || c.HasAlias(word) {
			return true
		}
	}
	return false
}

// flagOf finds the flag that an argument sets. f is nil if the flag is unknown; name is "" for
// a short flag or if arg is not a flag. joined means that the argument contains the flag's
// value.
func flagOf(flags *pflag.FlagSet, arg string) (f *pflag.Flag, name string, joined bool) {
	switch {
	case strings.HasPrefix(arg, "--"):
		name, _, joined = strings.Cut(arg[2:], "=")
		name = string(kebab(nil, name))
		return flags.Lookup(name), name, joined
	case len(arg) > 1 && arg[0] == '-':
		return flags.ShorthandLookup(arg[1:2]), "", len(arg) > 2
	}
	return nil, "", false
}

// registerHost adds the flags that hosts pass which are built on an Agent SDK.
func (f *runFlags) registerHost(fs *pflag.FlagSet) {
	fs.BoolVar(&f.replay, "replay-user-messages", false, "with stream-json: also print the host's prompts")
	fs.StringVar(&f.permissionPrompt, "permission-prompt-tool", "", "stdio: the host on standard input approves calls")
	fs.BoolVar(&f.hostMaySave, "host-may-save", false,
		"let the host save rules for later sessions")
	fs.StringVar(&f.permissionPrompts, "permission-prompts", "host",
		"host, or none: nobody is asked, and what would need an answer is refused")
	fs.StringArrayVar(&f.policy, "managed-settings", nil,
		"restrictions of the host, as `JSON`: rules that deny or ask, and disableBypassPermissionsMode")
	fs.StringVar(&f.resumeAt, "resume-session-at", "",
		"with -r: continue after the message with this `UUID`; later ones are left out")
	fs.StringVar(&f.agent, "agent", "",
		"let this agent lead the session: its prompt, tools, model, mode and limit of requests apply")
	fs.StringSliceVar(&f.fallback, "fallback-model", nil,
		"`MODELS` to go on with, in this order, while the model is overloaded or cannot be reached")
	fs.StringSliceVar(&f.betas, "betas", nil, "send these `NAMES` as the header Anthropic-Beta")
	fs.IntVar(&f.taskBudget, "task-budget", 0, "tell models of Anthropic that a task may take so many `TOKENS`")
	fs.StringVar(&f.thinking, "thinking", "", "disabled: the model does not think; adaptive or enabled: as --effort says")
	fs.BoolVar(&f.hookEvents, "include-hook-events", false,
		"with stream-json: also print when the command of a hook starts and ends")
	fs.BoolVar(&f.mirror, "session-mirror", false,
		"with stream-json: also print what is recorded, as lines of a transcript of Claude Code")
	fs.StringVar(&f.debugFile, "debug-file", "", "log as --debug does, to the end of this `FILE`")
	fs.DurationVar(&f.hostTimeout, "host-timeout", time.Hour,
		"refuse a call if the host does not answer within this time")
	fs.StringVar(&f.settingSources, "setting-sources", "", "use settings, skills and context files only from these: "+
		"user, project")
	fs.Float64Var(&f.maxCost, "max-budget-usd", 0, "the same as --max-cost")
	fs.BoolVar(&f.noSession, "no-session-persistence", false, "the same as --no-session")
	fs.Var((*thinkingTokens)(&f.effort), "max-thinking-tokens", "the same as --effort with a number")
	fs.BoolVar(&f.allowBypass, "allow-dangerously-skip-permissions", false,
		"no effect; use --dangerously-skip-permissions")
	for _, name := range []string{"max-budget-usd", "no-session-persistence", "max-thinking-tokens",
		"allow-dangerously-skip-permissions"} {
		fs.Lookup(name).Hidden = true
	}
}

// thinkingTokens is a flag value that sets the effort from a number of tokens.
type thinkingTokens string

func (t *thinkingTokens) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	if err == nil {
		*t = thinkingTokens(s)
	}
	return err
}

func (t *thinkingTokens) String() string { return string(*t) }
func (t *thinkingTokens) Type() string   { return "tokens" }

// checkHost checks the flags of hosts that name one of several words, and applies --thinking.
func (f *runFlags) checkHost() error {
	switch f.permissionPrompts {
	case "host":
	case "none":
		f.permissionPrompt = ""
	default:
		return engine.Usagef("--permission-prompts none", "--permission-prompts: %q is not host or none", f.permissionPrompts)
	}
	if f.permissionPrompt != "" && f.permissionPrompt != "stdio" {
		return engine.Usagef("--permission-prompt-tool stdio", "--permission-prompt-tool: %q is not stdio: a server's tool "+
			"cannot approve calls", f.permissionPrompt)
	}
	if f.mode == "auto" && f.inputFormat != "text" {
		f.mode = string(permission.Default)
		f.problems = append(f.problems, knack.Problem{Code: knack.CodeFlagUnknown, Severity: knack.Info,
			Path: "command line", Message: "--permission-mode auto: the mode is default, in which the host is asked"})
	}
	switch f.thinking {
	case "", "adaptive", "enabled":
	case "disabled":
		f.effort = "0"
	default:
		level := func(o engine.Option) bool { return o.ID == f.thinking }
		if slices.ContainsFunc(command.Efforts(), level) { // Pi calls it so
			return engine.Usagef("knack --effort "+f.thinking, "--thinking: %q is not disabled, adaptive or enabled", f.thinking)
		}
		return engine.Usagef("--thinking disabled", "--thinking: %q is not disabled, adaptive or enabled", f.thinking)
	}
	if f.resumeAt != "" && !f.cont && f.resume == "" {
		return engine.Usagef("knack -r ID --resume-session-at UUID", "--resume-session-at needs -r ID or -c")
	}
	return nil
}

// layers returns the settings layers that --setting-sources selects; nil means all.
func (f *runFlags) layers(c *cobra.Command) ([]string, error) {
	if !c.Flags().Changed("setting-sources") {
		return nil, nil
	}
	all := []string{}
	for _, name := range strings.FieldsFunc(f.settingSources, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch name {
		case "user", "project", "local":
			all = append(all, name)
		default:
			return nil, engine.Usagef("--setting-sources user,project", "--setting-sources: %q is not user, project or local",
				name)
		}
	}
	return all, nil
}
