package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// mistyped rejects a prompt that looks like a misspelt subcommand, so that a typing error is
// not sent to a model: its first word is within two edits of a subcommand, and the rest parses
// as that command's arguments. After -- everything is a prompt.
func mistyped(c *cobra.Command, args []string) error {
	if len(args) == 0 || c.ArgsLenAtDash() == 0 {
		return nil
	}
	first, rest := args[0], args[1:]
	if strings.HasPrefix(first, "/") || strings.HasPrefix(first, "@") {
		return nil
	}
	all := commands()
	names := append(make([]string, 0, len(all)+1), "completion") // and not "help", which "hello" would match
	for _, c := range all {
		names = append(names, c.name)
	}
	slices.Sort(names)
	for _, name := range names {
		d := similar.Distance(strings.ToLower(first), name, 2)
		if d > 2 {
			continue // most prompts: building the command would take longer
		}
		sub, _, err := rootCommand([]string{name}).Find([]string{name})
		if err != nil || !sub.IsAvailableCommand() {
			continue
		}
		if len(first) <= 4 && (len(rest) == 0 || !sub.HasSubCommands()) && d > 1 { // "test" must not match "trust"
			continue
		}
		if !parses(sub, rest) {
			continue
		}
		line := strings.Join(append([]string{"knack", sub.Name()}, rest...), " ")
		return engine.Usagef(line+"; for a prompt: knack -- "+strings.Join(args, " "),
			"%s is not a command; did you mean %s?", first, sub.Name())
	}
	return nil
}

// otherProgram rejects a prompt that is a command of another program, such as `knack -p logs 7`. After -- everything is
// a prompt.
func otherProgram(c *cobra.Command, args []string) error {
	line := wordMeaning(args)
	if line == "" || c.ArgsLenAtDash() == 0 {
		return nil
	}
	return engine.Usagef(line+"\nknack -p -- "+strings.Join(args, " ")+", for a prompt",
		"%s is a command of other programs, not of knack", args[0])
}

// askWord asks whether a prompt that is a single word, or a command of another program, is meant as one: at a terminal
// `knack update` is more often a command. It suggests the commands that have the word as a name. After -- everything is
// a prompt.
func askWord(c *cobra.Command, args []string) error {
	if len(args) == 0 || c.ArgsLenAtDash() == 0 {
		return nil
	}
	var hints []string
	prompt := strings.Join(args, " ")
	if line := wordMeaning(args); line != "" {
		hints = append(hints, line)
	} else if len(args) > 1 || strings.ContainsFunc(args[0], func(r rune) bool {
		return r != '-' && r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r))
	}) {
		return nil
	}
	var find func(c *cobra.Command)
	find = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() == args[0] || sub.HasAlias(args[0]) {
				hints = append(hints, sub.CommandPath()+" --help")
			}
			find(sub)
		}
	}
	find(rootCommand([]string{"--help"}))
	for _, x := range command.All("") {
		if line := "knack -p /" + x.Name; (x.Name == args[0] || slices.Contains(x.Also, args[0])) &&
			!slices.Contains(hints, line) {
			hints = append(hints, line)
		}
	}
	if len(hints) == 0 {
		hints = []string{"knack --help"}
	}
	for _, h := range hints {
		fmt.Fprintln(c.ErrOrStderr(), "knack: hint:", h)
	}
	yes, err := confirm(c, args[0]+" is not a command. Send it to the model as a prompt?", "knack -- "+prompt)
	if err == nil && !yes {
		err = engine.Usagef("knack -- "+prompt+", for a prompt", "%s is not a command", args[0])
	}
	return err
}

// parses reports whether words are valid arguments of a command.
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

// checkArguments makes the commands below c report invalid arguments as usage errors with a
// hint. A command that only groups others rejects a word that is not one of its subcommands;
// cobra would print its help and succeed.
func checkArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		checkArguments(sub)
		switch takes := sub.Args; {
		case sub.HasSubCommands() && sub.Annotations[ownArguments] == "":
			sub.Args = noSubcommand
			if !sub.Runnable() {
				sub.DisableFlagsInUseLine = true
				sub.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			}
		case takes != nil:
			sub.Args = func(c *cobra.Command, args []string) error {
				err := takes(c, args)
				if known := (*engine.Error)(nil); err == nil || errors.As(err, &known) {
					return err
				}
				return engine.Usagef(c.CommandPath()+" --help", "%w", err)
			}
		}
	}
}

// noArguments is cobra.NoArgs, which would call an argument an unknown command.
func noArguments(c *cobra.Command, args []string) error {
	return exactly(0, c.CommandPath())(c, args)
}

// atMostOne is cobra.MaximumNArgs(1) with a clearer message.
func atMostOne(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exactly(1, strings.TrimSuffix(c.UseLine(), " [flags]"))(c, args)
	}
	return nil
}

// ownArguments marks a command that has subcommands and also takes arguments of its own.
const ownArguments = "own arguments"

// noSubcommand rejects arguments of a command that only groups others.
func noSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if args[0] == "add-json" { // of Claude Code: the arguments of add are others
		return engine.Usagef("put the JSON under \"mcpServers\" of .mcp.json, or: knack mcp add --help",
			"%s has no command %q", c.CommandPath(), args[0])
	}
	near := nearCommand(c, args[0])
	if near == "" {
		return engine.Usagef(c.CommandPath()+" --help", "%s has no command %q", c.CommandPath(), args[0])
	}
	return engine.Usagef(strings.Join(append([]string{c.CommandPath(), near}, args[1:]...), " "),
		"%s has no command %q; did you mean %s?", c.CommandPath(), args[0], near)
}

// nearCommand returns the subcommand of c that a word probably means: by its meaning elsewhere, or by its letters; "":
// none.
func nearCommand(c *cobra.Command, word string) string {
	if name := meaning(c, word); name != "" {
		return name
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if near := similar.Names(word, names); len(near) > 0 {
		return near[0]
	}
	return ""
}

// noSuchCommand returns an error for --help after words that name no command, for which cobra would print the help of
// the nearest one. In a prompt such a word is help on knack itself.
func noSuchCommand(c *cobra.Command) error {
	words := c.Flags().Args()
	if !c.Flags().Changed("help") || !c.HasSubCommands() || c.Annotations[ownArguments] != "" || !c.HasParent() &&
		(c.Flags().Changed("print") ||
			len(words) > 0 && strings.ContainsAny(words[0], " /@")) {
		return nil
	}
	return noSubcommand(c, words)
}

// flagError suggests the flag that was probably meant, and describes invalid values in words.
// If the command itself is misspelt, its flags are unknown too: then flagError suggests the
// command.
func flagError(c *cobra.Command, err error) error {
	if !c.HasParent() {
		if err := mistyped(c, c.Flags().Args()); err != nil {
			return err
		}
	}
	help := c.CommandPath() + " --help"
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		name := "--" + value.GetFlag().Name
		if number := (*strconv.NumError)(nil); errors.As(err, &number) {
			kind := map[string]string{"int": "a whole number", "float64": "a number", "bool": "true or false"}
			err = fmt.Errorf("%s: %q is not %s", name, value.GetValue(),
				cmp.Or(kind[value.GetFlag().Value.Type()], "a value of it"))
		} else if _, ok := value.GetFlag().Value.(*promptFile); ok {
			err = fmt.Errorf("%s: %w", name, value.Unwrap())
		}
		return engine.Usagef(help, "%w", err)
	}
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok { // such as -model
		_, name, _ = strings.Cut(err.Error(), " in -")
	}
	if do := flagMeaning(name); do != "" && !c.HasParent() {
		return engine.Usagef(do, "%w", err)
	}
	if (name == "scope" || name == "s") && c.Flags().Lookup("project") != nil { // of Claude Code: user, project or local
		return engine.Usagef(c.CommandPath()+" --project, or without it for you alone", "%w", err)
	}
	if len(name) > 1 {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := similar.Names(name, names); len(near) > 0 {
			help = c.CommandPath() + " --" + near[0]
		}
	}
	return engine.Usagef(help, "%w", err)
}

// emptyResume gives -r an empty ID where none follows: in the terminal the user picks the session from a list.
func emptyResume(root *cobra.Command, args []string) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	i := slices.IndexFunc(args[:end], func(a string) bool { return a == "-r" || a == "--resume" })
	if i < 0 || i+1 < end && !strings.HasPrefix(args[i+1], "-") {
		return args
	}
	if c, _, err := root.Find(args[:end]); err == nil && c != root { // such as knack eval, where it is a switch
		return args
	}
	return slices.Concat(args[:i], []string{"--resume="}, args[i+1:])
}

// kebab normalises --allowedTools, as other programs spell it, to --allowed-tools.
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
