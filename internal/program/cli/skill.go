package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

func skillCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "skill",
		Short: "Find, read, check and explain skills",
		Args:  noArguments,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		skillListCommand(),
		skillFindCommand(),
		skillShowCommand(),
		skillWhyCommand(),
		skillBudgetCommand(),
		skillPinCommand(),
		skillNewCommand(),
		skillCheckCommand(),
		skillTestCommand(),
		skillImproveCommand(),
		skillPackCommand(),
		skillAddCommand(),
		skillSetupCommand(),
		skillSecretsCommand(),
		skillStatsCommand(),
		skillRemoveCommand(),
		skillUpdateCommand(),
		skillPublishCommand(),
		skillVerifyCommand(),
		skillLockCommand(),
		skillDiffCommand(),
		skillAcceptCommand(),
	)
	return c
}

// writeList writes a JSON array element by element, so that memory use does not grow with its
// length.
func writeList[T any](w io.Writer, elements iter.Seq[T]) error {
	out := bufio.NewWriter(plain.JSON(w))
	sep := "[\n  "
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // shared, so that its buffers are reused
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	for e := range elements {
		b.Reset()
		if err := enc.Encode(e); err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		out.WriteString(sep)
		out.Write(bytes.TrimRight(b.Bytes(), "\n"))
		sep = ",\n  "
	}
	if sep[0] == '[' {
		out.WriteString("[]\n")
	} else {
		out.WriteString("\n]\n")
	}
	return out.Flush()
}

// resultJSON adds --json to a command that prints one result.
func resultJSON(c *cobra.Command) { c.Flags().Bool("json", false, "print the result as JSON") }

// wantsJSON reports whether --json was given to a command that has it.
func wantsJSON(c *cobra.Command) bool {
	asJSON, err := c.Flags().GetBool("json")
	return err == nil && asJSON
}

// printResult prints a result: a line on w or, with --json, v as JSON on standard output.
func printResult(c *cobra.Command, w io.Writer, line string, v any) error {
	if wantsJSON(c) {
		return writeJSON(c.OutOrStdout(), v)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(plain.JSON(w))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
