package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/internal/project/config"
)

func helpSettingsCommand() *cobra.Command {
	schema := false
	c := &cobra.Command{
		Use:   "settings",
		Short: "Settings files, their order, and every setting",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			text := config.Help()
			if schema {
				text = string(config.Schema())
			}
			_, err := io.WriteString(c.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of settings files")
	return c
}
