package cli

import (
	"embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/internal/program/control"
	"github.com/knack-agent/knack/internal/program/tui"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed help/*.md
var helpTexts embed.FS

func helpCommandsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "commands", Short: "Slash commands and prompt templates", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := helpTexts.ReadFile("help/commands.md")
			if err == nil {
				_, err = fmt.Fprintf(c.OutOrStdout(), "Commands\n\n%s%s", command.List(commandTable(), "  "), text)
			}
			return err
		},
	}
}

// commandTable returns the slash commands of the program.
func commandTable() []knack.SlashCommand {
	all := command.All("")
	for _, p := range part.All() {
		all = append(all, p.Commands...)
	}
	return engine.SlashCommands(all)
}

func helpKeysCommand() *cobra.Command {
	return &cobra.Command{
		Use: "keys", Short: "Keyboard shortcuts, and how to change them", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := helpTexts.ReadFile("help/keys.md")
			if err == nil {
				_, err = fmt.Fprintf(c.OutOrStdout(), "Keys\n\n%s\n%s", tui.HelpKeys(), text)
			}
			return err
		},
	}
}

func helpToolsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "tools", Short: "The tools of a model, and the web", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := helpTexts.ReadFile("help/tools.md")
			if err == nil {
				_, err = fmt.Fprintf(c.OutOrStdout(), "Tools\n\n%s%s%s", toolRows(part.KnownTools()), text, helpOfParts("tools"))
			}
			return err
		},
	}
}

// helpOfParts returns what the parts add to a page.
func helpOfParts(page string) (text string) {
	for _, p := range part.All() {
		if p.Help[page] != "" {
			text += "\n" + p.Help[page]
		}
	}
	return text
}

// toolRows lists tools with their other names and the first sentence of their descriptions.
func toolRows(tools tool.Set) string {
	var b strings.Builder
	for _, t := range tools {
		about, _, _ := strings.Cut(strings.ReplaceAll(t.Description, "\n", " "), ". ")
		name := t.Name
		if len(t.Aliases) > 0 {
			name += " (" + strings.Join(t.Aliases, ", ") + ")"
		}
		fmt.Fprintf(&b, "  %s\n", name)
		if about != "" { // the description of Agent depends on the agents of a session
			b.WriteString(indented(strings.TrimSuffix(about, ".")+".", "      ", 80))
		}
	}
	return b.String()
}

// indented breaks a text into lines of at most width characters that begin with indent.
func indented(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}

// topics are the pages of `knack help` that do not describe one command.
var topics = [...]struct{ name, short string }{
	{"skills", "Where skills are found, and how they are used"},
	{"needs", "What a skill needs, and how what is missing is installed"},
	{"secrets", "Keys and passwords of skills and plugins: who gets them"},
	{"agents", "Sub-agents: definitions, the Agent tool, skills that run in one"},
	{"permissions", "Permissions: rules, modes, trust"},
	{"hooks", "Commands that run on events, to decide or to be notified"},
	{"models", "Names of models, other servers, prices"},
	{"schedules", "Times of schedules and loops, missed runs, limits"},
	{"telemetry", "OpenTelemetry and audit: what is told to whom"},
	{"environment", "Environment variables and exit codes"},
	{"formats", "Formats for programs that run knack"},
}

func topicCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := helpTexts.ReadFile("help/" + name + ".md")
			if err == nil {
				_, err = c.OutOrStdout().Write(text)
			}
			return err
		},
	}
}

// withSchema adds the flag --schema to `knack help formats`.
func withSchema(c *cobra.Command) {
	schema := c.Flags().Bool("schema", false, "print the JSON Schema of what --output-format stream-json writes")
	page := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !*schema {
			return page(c, args)
		}
		data, err := control.JSONSchema()
		if err == nil {
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", data)
		}
		return err
	}
}

// helpCommand returns `knack help`, which explains a command or a topic.
func helpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "help [command | topic]",
		Short: "Help on a command or a topic",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if len(args) == 0 {
				return c.Root().Help()
			}
			if err != nil || len(rest) > 0 {
				var names []string
				for _, x := range append(c.Root().Commands(), c.Commands()...) {
					names = append(names, x.Name())
				}
				hint := "knack help"
				if near := similar.Names(args[0], names); len(args) == 1 && len(near) > 0 {
					hint = "knack help " + near[0]
				}
				return engine.Usagef(hint, "there is no help on %q", strings.Join(args, " "))
			}
			return about.Help()
		},
	}
	c.AddCommand(helpSettingsCommand(), helpCommandsCommand(), helpKeysCommand(), helpToolsCommand(),
		helpHostsCommand())
	for _, t := range topics {
		topic := topicCommand(t.name, t.short)
		switch t.name {
		case "formats":
			withSchema(topic)
		case "permissions":
			topic.Aliases = []string{"rules"}
		}
		c.AddCommand(topic)
	}
	return c
}

// listTopics adds the topics to the help of knack itself.
func listTopics(root, help *cobra.Command) {
	var names []string
	for _, topic := range help.Commands() {
		names = append(names, topic.Name())
	}
	// A usage template would link text/template, which makes the linker keep every exported
	// method: 3 MB.
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		if c != root {
			return usage(c)
		}
		printUsage(c.OutOrStderr(), c)
		_, err := fmt.Fprintf(c.OutOrStderr(), "Use \"knack help [topic]\" for: %s.\n", strings.Join(names, ", "))
		return err
	})
}
