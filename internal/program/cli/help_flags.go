package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups are the flags of knack itself, as its help shows them. A flag that is in none is shown with the first.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Conversation", []string{"print", "continue", "resume", "fork-session", "session-id", "name", "no-session", "bg",
		"verbose", "debug", "workspace", "worktree", "init", "maintenance", "add-dir", "settings", "help", "version"}},
	{"Model", []string{"model", "effort", "fallback-model", "list-models", "system-prompt",
		"system-prompt-file", "append-system-prompt", "append-system-prompt-file", "betas",
		"task-budget", "goal", "max-turns", "max-cost", "background", "exit-refused"}},
	{"Permissions", []string{"permission-mode", "allow", "allowed-tools", "ask", "deny", "disallowed-tools", "trust",
		"sandbox", "dangerously-skip-permissions"}},
	{"Skills, tools and agents", []string{"skill", "kit", "no-skills", "bare", "index", "prompt-template", "plugin-dir", "tools",
		"agents", "agent", "mcp-config", "strict-mcp-config"}},
	{"Output", []string{"output-format", "json-schema"}},
	{hostFlags, []string{"input-format", "include-partial-messages", "replay-user-messages",
		"permission-prompt-tool",
		"permission-prompts", "managed-settings", "resume-session-at", "thinking", "debug-file", "session-mirror",
		"include-hook-events",
		"host-may-save", "host-timeout", "setting-sources"}},
}

// hostFlags is the group that `knack help hosts` shows, instead of the help of knack itself.
const hostFlags = "Host programs"

// usageWidth is the width to which the help of flags is wrapped.
const usageWidth = 80

// printUsage prints how knack itself is used.
func printUsage(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "Usage:\n  %s\n  %s [command]\n\nCommands:\n", root.UseLine(), root.Name())
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			fmt.Fprintf(w, "  %-*s %s\n", root.Commands()[0].NamePadding(), c.Name(), c.Short)
		}
	}
	for _, g := range flagSets(root.Flags()) {
		if g.title == hostFlags {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n%s", g.title, g.set.FlagUsagesWrapped(usageWidth))
	}
	fmt.Fprintf(w, "\nFlags for programs that run %[1]s: %[1]s help hosts\n", root.Name())
	fmt.Fprintf(w, "Use \"%s [command] --help\" for more about a command.\n", root.Name())
}

type flagSet struct {
	title string
	set   *pflag.FlagSet
}

// flagSets divides flags into the groups of the help.
func flagSets(all *pflag.FlagSet) []flagSet {
	groups := make([]flagSet, len(flagGroups))
	in := map[string]int{}
	for i, g := range flagGroups {
		groups[i] = flagSet{g.title, pflag.NewFlagSet(g.title, pflag.ContinueOnError)}
		for _, name := range g.flags {
			in[name] = i
		}
	}
	all.VisitAll(func(f *pflag.Flag) { groups[in[f.Name]].set.AddFlag(shown(f)) })
	return groups
}

// shown returns a flag as help shows it: one whose value may be left out is --debug[=TOPICS]. The flags of pflag would
// show the value that then counts instead, as in --debug string[="all"].
func shown(f *pflag.Flag) *pflag.Flag {
	if f.NoOptDefVal == "" || f.Value.Type() == "bool" {
		return f
	}
	value, usage := pflag.UnquoteUsage(f)
	c := *f
	c.Name, c.Usage, c.Value, c.NoOptDefVal = f.Name+"[="+value+"]", usage, switchValue{f.Value}, "true"
	return &c
}

// A switchValue is a value that help shows as that of a switch.
type switchValue struct{ pflag.Value }

func (switchValue) Type() string   { return "bool" }
func (switchValue) String() string { return "false" }

// usagesOf returns the help of flags, wrapped to a width; 0: not wrapped.
func usagesOf(flags *pflag.FlagSet, width int) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) { set.AddFlag(shown(f)) })
	return set.FlagUsagesWrapped(width)
}

func helpHostsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "hosts", Short: "Flags for programs that run knack, such as editors", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := helpTexts.ReadFile("help/hosts.md")
			if err != nil {
				return err
			}
			groups := flagSets(c.Root().Flags())
			i := slices.IndexFunc(groups, func(g flagSet) bool { return g.title == hostFlags })
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n%s", text, groups[i].set.FlagUsagesWrapped(usageWidth))
			return err
		},
	}
}
