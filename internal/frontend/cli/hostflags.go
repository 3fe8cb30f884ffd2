package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// restricting lists the flags that restrict what a run may do. A flag that nearly matches one of
// them is an error even where unknown flags are ignored: a mistyped restriction must not be lost
// silently.
var restricting = []string{"deny", "disallowed-tools", "ask", "tools", "permission-mode", "permission-prompt-tool",
	"sandbox", "max-turns", "max-cost", "max-budget-usd", "settings", "setting-sources", "strict-mcp-config",
	"bare", "no-skills", "no-session", "no-session-persistence"}

// withoutUnknown removes flags that this program does not know, each with the value after it,
// and returns a Problem for each. It does so only if the arguments contain --input-format
// stream-json, because hosts pass every flag that their SDK has. In other cases it returns args
// unchanged, and cobra reports the unknown flag.
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
		case known != nil || name == "":
			structured = structured || known != nil && known.Name == "input-format" && strings.HasSuffix(arg, "=stream-json")
			kept = append(kept, arg)
		default:
			if near := restrictingNear(name); near != "" {
				if !structured && !wantsStructured(args) {
					return args, nil, nil
				}
				return nil, nil, engine.Usagef("knack --"+near, "unknown flag: --%s; did you mean --%s?", name, near)
			}
			what := "--" + name
			if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				what += " and its value"
			}
			problems = append(problems, knack.Problem{Code: knack.CodeFlagUnknown, Severity: knack.Warn, Path: "command line",
				Message: "unknown flag: " + what + " left out", Hint: "knack --help"})
		}
	}
	if !structured {
		return args, nil, nil
	}
	return kept, problems, nil
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
	if err == nil && n > 0 {
		*t = thinkingTokens(s)
	}
	return err
}

func (t *thinkingTokens) String() string { return string(*t) }
func (t *thinkingTokens) Type() string   { return "tokens" }

// layers returns the settings layers that --setting-sources selects; nil means all.
func (f *runFlags) layers(c *cobra.Command) ([]string, error) {
	if !c.Flags().Changed("setting-sources") {
		return nil, nil
	}
	all := []string{}
	for _, name := range strings.FieldsFunc(f.settingSources, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch name {
		case "user", "project":
			all = append(all, name)
		case "local": // the project's layer includes the local files
		default:
			return nil, engine.Usagef("--setting-sources user,project", "--setting-sources: %q is not user, project or local",
				name)
		}
	}
	return all, nil
}
