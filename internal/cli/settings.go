package cli

import (
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/config"
	"github.com/knack-agent/knack/internal/trust"
	"github.com/knack-agent/knack/sources"
)

// loadSettings reads the settings that count in dir. settings is what
// --settings was given, flags are the values of other flags by key.
func loadSettings(dir string, project *trust.Project, settings []string, flags map[string]any) (*config.Config, error) {
	env := engine.Env(nil)
	o := config.Options{
		Tools:   engine.KnownTools().AllNames(),
		Managed: sources.ManagedDirs(runtime.GOOS), Dir: dir, Root: sources.Root(dir),
		Settings: settings, Flags: flags, Check: project.Check,
		ConfigHome: env.ConfigDir(), ClaudeHome: env.ClaudeDir(),
	}
	c, err := config.Load(o)
	if err != nil {
		return nil, &engine.Error{Err: err, Hint: "knack help settings", Exit: engine.ExitUsage}
	}
	return c, nil
}

func helpSettingsCommand() *cobra.Command {
	schema := false
	c := &cobra.Command{
		Use:   "settings",
		Short: "Settings files, their order, and every setting",
		Args:  cobra.NoArgs,
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
