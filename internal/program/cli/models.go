package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func modelsCommand() *cobra.Command {
	var refresh, asJSON bool
	c := &cobra.Command{
		Use:   "models [PROVIDER]",
		Short: "List the models that your keys can use",
		Long: `List the models of the providers for which there is a key, or of PROVIDER, with the
context window in tokens and US dollars for a million tokens of input and output; what
is unknown is left out. The names are those that Knack knows. With --refresh each
provider is asked for the models that it has now.`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			e, err := engine.Open(c.Context(), new(projectFlags).options())
			if err != nil {
				return err
			}
			defer e.Close()
			provider := ""
			if len(args) == 1 {
				provider = args[0]
			}
			all, failed, err := e.Models().List(c.Context(), provider, refresh)
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(failed)) {
				if len(all) == 0 && len(failed) == 1 {
					return failed[name]
				}
				fmt.Fprintf(c.ErrOrStderr(), "knack: warning: %v\n", failed[name])
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), append([]engine.ListedModel{}, all...))
			}
			return writeModels(c.OutOrStdout(), all)
		},
	}
	c.Flags().BoolVar(&refresh, "refresh", false, "ask the providers, at most 5 s each")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func writeModels(out io.Writer, all []engine.ListedModel) error {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, m := range all {
		window, price := "", ""
		if m.Window > 0 {
			window = plain.Number(m.Window)
		}
		if m.Input > 0 {
			price = fmt.Sprintf("$%g / $%g", m.Input, m.Output)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain.Line(m.ID), window, price, m.For)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
