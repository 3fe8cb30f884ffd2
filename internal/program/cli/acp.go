package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/program/acp"
	"github.com/knack-agent/knack/run/session"
)

// editorFlags are the flags of a conversation that apply to every session of an editor.
var editorFlags = []string{"skill", "plugin-dir", "bare", "no-skills", "settings", "mcp-config", "strict-mcp-config",
	"model", "effort", "allow", "ask", "deny", "permission-mode", "dangerously-skip-permissions", "sandbox", "tools",
	"append-system-prompt", "agent", "kit", "max-turns", "max-cost", "no-session", "debug", "verbose"}

func acpCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "acp",
		Short: "Work in an editor that speaks the Agent Client Protocol",
		Long: `Work in an editor that speaks the Agent Client Protocol (version 1), on standard input
and output. The editor starts this command; its pages are in docs/editors.md.

The flags apply to every session that the editor begins. What a project's files say
counts after you approved them: type /trust in the editor, or knack trust in the folder.`,
		Example: `  knack acp
  knack acp --model anthropic/claude-sonnet-5 --allow 'Bash(go test:*)'`,
		Args: exactly(0, "knack acp"),
		RunE: func(c *cobra.Command, _ []string) error { return f.edit(c) },
	}
	all := &cobra.Command{}
	f.register(all)
	all.Flags().VisitAll(func(flag *pflag.Flag) {
		for _, name := range editorFlags {
			if flag.Name == name {
				c.Flags().AddFlag(flag)
			}
		}
	})
	return c
}

// edit answers an editor until it ends the conversation.
func (f *runFlags) edit(c *cobra.Command) error {
	ctx, stop := signals(c.Context())
	defer stop()
	f.tools = chosenTools(c, f.tools)
	if err := checkTools(f.tools); err != nil {
		return err
	}
	if isTerminal(c.InOrStdin()) {
		fmt.Fprintln(c.ErrOrStderr(), "knack: waiting for the messages of an editor, which starts this command itself. "+
			"Ctrl-C ends it.")
	}
	return acp.Serve(ctx, acp.Options{
		In: c.InOrStdin(), Out: c.OutOrStdout(), Version: version(),
		Open: func(ctx context.Context, dir string) (*engine.Engine, error) {
			own := *f // sessions may be opened at the same time
			return own.openIn(c, dir)
		},
		Start: func(ctx context.Context, e *engine.Engine, person engine.Person,
			edit func(*engine.SessionOptions)) (*engine.Session, error) {
			own := *f
			return own.start(ctx, e, person, edit, c.ErrOrStderr())
		},
		List: func(dir string) ([]session.Summary, error) { return engine.Env(nil).Sessions(dir).List() },
	})
}
