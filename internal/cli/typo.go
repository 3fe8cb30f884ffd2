package cli

import (
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/similar"
)

// mistyped refuses a prompt that is almost a subcommand, so that a typing error
// is not sent to a model: its first word is within two edits of a subcommand,
// and the rest parses as arguments of that. After -- everything is a prompt.
func mistyped(c *cobra.Command, args []string) error {
	if len(args) == 0 || c.ArgsLenAtDash() == 0 {
		return nil
	}
	first, rest := args[0], args[1:]
	if strings.HasPrefix(first, "/") || strings.HasPrefix(first, "@") {
		return nil
	}
	full := rootCommand([]string{"help"})
	full.InitDefaultCompletionCmd()
	for _, sub := range full.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" { // hello is no help
			continue
		}
		most := 2
		if len(first) <= 4 && (len(rest) == 0 || !sub.HasSubCommands()) { // test is no trust
			most = 1
		}
		if d := similar.Distance(first, sub.Name(), most); d > most || !parses(sub, rest) {
			continue
		}
		line := strings.Join(append([]string{"knack", sub.Name()}, rest...), " ")
		return engine.Usagef(line+"; for a prompt: knack -- "+strings.Join(args, " "),
			"%s is not a command; did you mean %s?", first, sub.Name())
	}
	return nil
}

// parses reports whether words are the arguments of a command.
func parses(c *cobra.Command, words []string) bool {
	if c.HasSubCommands() {
		if len(words) == 0 {
			return true
		}
		for _, sub := range c.Commands() {
			if sub.Name() == words[0] || sub.HasAlias(words[0]) {
				return true
			}
		}
		return false
	}
	return c.ValidateArgs(words) == nil
}

// flagError names the flag that was perhaps meant.
func flagError(c *cobra.Command, err error) error {
	hint := c.CommandPath() + " --help"
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := similar.Names(name, names); len(near) > 0 {
			hint = c.CommandPath() + " --" + near[0]
		}
	}
	return engine.Usagef(hint, "%w", err)
}

// kebab makes of --allowedTools, as other programs spell it, --allowed-tools.
func kebab(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return pflag.NormalizedName(b.String())
}
