package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactly(0, "knack version"),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "knack version %s\n", version())
			return err
		},
	}
}

func doctorCommand() *cobra.Command {
	var asJSON, test bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check keys, servers, sandbox, trust and terminal",
		Long: "Check what a run in this directory would use: versions, model and keys, servers,\n" +
			"sandbox, trust, terminal, and what is turned off and why. The provider of the model\n" +
			"is asked once whether it accepts the key. The exit code is 1 if a run would have no\n" +
			"model, or if its key is refused.",
		Args: exactly(0, "knack doctor"),
		RunE: func(c *cobra.Command, _ []string) error {
			e, err := engine.Open(c.Context(), new(projectFlags).options())
			if err != nil {
				return err
			}
			defer e.Close()
			x, err := command.Examine(e)
			if err != nil {
				return err
			}
			x.Terminal = terminalOf(c)
			var failed error
			if test {
				failed = x.Try(c.Context(), e)
				if known := (*engine.Error)(nil); errors.As(failed, &known) { // such as one of an invalid name
					failed = &engine.Error{Err: known.Err, Hint: known.Hint}
				}
			} else if x.Model == "" {
				failed = &engine.Error{Err: engine.ErrNoModel, Hint: "knack login, or knack --model offline"}
			}
			if asJSON {
				return cmp.Or(writeJSON(c.OutOrStdout(), x), failed)
			}
			x.Write(c.OutOrStdout(), e.Project())
			return failed
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&test, "test", true, "test the key with one request, which costs nothing; --test=false skips it")
	return c
}

// terminalOf describes the terminal of a command.
func terminalOf(c *cobra.Command) *command.Terminal {
	t := &command.Terminal{Type: os.Getenv("TERM"), Input: isTerminal(c.InOrStdin())}
	if f, ok := drawn(c).(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		t.Output = true
		t.Columns, _, _ = term.GetSize(int(f.Fd()))
		t.Colour = os.Getenv("NO_COLOR") == "" && t.Type != "dumb"
	}
	return t
}
