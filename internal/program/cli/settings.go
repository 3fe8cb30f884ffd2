package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/tui"
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

func settingsCommand() *cobra.Command {
	c := &cobra.Command{Use: "settings", Short: "Show and check settings and key bindings"}
	c.AddCommand(settingsShowCommand(), settingsCheckCommand(), settingsDiffCommand(), settingsKeysCommand())
	return c
}

func settingsShowCommand() *cobra.Command {
	var f projectFlags
	asJSON := false
	c := &cobra.Command{
		Use:   "show [KEY]",
		Short: "Show the settings that are set, and where",
		Long: `Show the settings that are set here, or those below KEY, and the files that set them. The first file wins.
What may contain secrets is shown by name only.`,
		Example: "  knack settings show\n  knack settings show permissions --json",
		Args:    atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			p, err := engine.Load(c.Context(), f.options())
			if err != nil {
				return err
			}
			defer p.Close()
			key := strings.Join(args, "")
			all := []engine.Setting{}
			for _, v := range p.Values() {
				if key == "" || v.Key == key || strings.HasPrefix(v.Key, key+".") || strings.HasPrefix(key, v.Key+".") {
					all = append(all, v)
				}
			}
			out := c.OutOrStdout()
			if asJSON {
				return writeJSON(out, struct {
					Settings []engine.Setting      `json:"settings"`
					Files    []engine.SettingsFile `json:"files"`
				}{all, p.SettingsFiles()})
			}
			var rows [][]string
			for _, v := range all {
				var places []string
				for _, at := range v.Positions {
					place := string(at.Origin)
					if at.Path != "" {
						place = fmt.Sprintf("%s:%d", p.Short(at.Path), at.Line)
					}
					if !slices.Contains(places, place) {
						places = append(places, place)
					}
				}
				rows = append(rows, []string{plain.Line(v.Key), plain.Line(string(v.Value)),
					plain.Line(strings.Join(places, ", "))})
			}
			writeTable(out, rows)
			if len(rows) == 0 {
				fmt.Fprintln(out, "nothing is set")
			}
			fmt.Fprintln(out)
			for _, file := range p.SettingsFiles() {
				state := "does not exist yet"
				if file.Exists {
					state = "exists"
				}
				fmt.Fprintf(out, "%-8s %s (%s)\n", file.Scope, plain.Line(file.Path), state)
			}
			return nil
		},
	}
	f.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print an object")
	return c
}

func settingsCheckCommand() *cobra.Command {
	var f projectFlags
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the settings files and the hooks in them",
		Long: `Check every settings file that counts here, and the hooks in it, and print what is wrong with its place.
It ends with the settings of other programs that have no effect here, each with
what to set instead.
The exit code is 1 if anything is wrong. That a project is not trusted yet is not.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := engine.Load(c.Context(), f.options())
			if err != nil {
				return err
			}
			defer p.Close()
			problems := p.SettingsProblems()
			printProblems(c.OutOrStdout(), p, problems, true)
			for _, u := range p.Foreign().Unused() {
				fmt.Fprintf(c.OutOrStdout(), "no effect: %s\n", plain.Line(p.Short(u.Path)))
				for _, text := range u.Lines() {
					fmt.Fprintf(c.OutOrStdout(), "  %s\n", plain.Line(text))
				}
			}
			wrong, untrusted := 0, 0
			for _, x := range problems {
				switch {
				case x.Code == knack.CodeUntrusted: // what is in the file is not known to be wrong
					untrusted++
				case x.Severity != knack.Info:
					wrong++
				}
			}
			if wrong > 0 {
				return &engine.Error{Err: fmt.Errorf("%s in settings", plain.Count(wrong, "problem")), Hint: "knack help settings"}
			}
			text := "the settings are valid"
			if untrusted > 0 {
				text = "the settings that count are valid; those of this project do after knack trust"
			}
			fmt.Fprintln(c.OutOrStdout(), text)
			return nil
		},
	}
	f.register(c)
	return c
}

func settingsDiffCommand() *cobra.Command {
	var f projectFlags
	var add, unset bool
	in := ""
	c := &cobra.Command{
		Use:   "diff KEY [VALUE]",
		Short: "Show how a settings file would change; nothing is written",
		Long: `Check a value for a setting and show how its file would change, as a diff. Nothing is written.
A VALUE that is not JSON is a text.`,
		Example: `  knack settings diff permissions.allow 'Bash(npm test:*)' --add
  knack settings diff model sonnet --in project
  knack settings diff model --unset`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 2 == unset {
				return engine.Usagef("knack settings diff model sonnet", "settings diff needs a key and a value, or --unset")
			}
			p, err := engine.Load(c.Context(), f.options())
			if err != nil {
				return err
			}
			defer p.Close()
			files := p.SettingsFiles()
			i := slices.IndexFunc(files, func(x engine.SettingsFile) bool { return x.Scope == in })
			if i < 0 {
				return engine.Usagef("--in user", "--in: there is no file %q; there are user, project and local", plain.Line(in))
			}
			var value json.RawMessage
			if !unset {
				if value = json.RawMessage(args[1]); !json.Valid(value) {
					value, _ = json.Marshal(args[1])
				}
			}
			before, after, err := files[i].Draft(args[0], value, add)
			if err != nil {
				return err
			}
			text := udiff.Unified(files[i].Path, files[i].Path, before, after)
			if text == "" {
				text = "nothing would change in " + files[i].Path + "\n"
			}
			fmt.Fprint(c.OutOrStdout(), plain.Text(text))
			return nil
		},
	}
	f.register(c)
	c.Flags().StringVar(&in, "in", "user", "the `file` to change: user, project (shared) or local (this checkout)")
	c.Flags().BoolVar(&add, "add", false, "add the value to the file's list")
	c.Flags().BoolVar(&unset, "unset", false, "remove the key")
	return c
}

func settingsKeysCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "keys",
		Short: "Show and check the key bindings",
		Long: `Show every action with its keys, and which ones keybindings.json changes. The exit code is 1 if something
is wrong with that file.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			file, out := engine.KeyBindings(engine.Env(nil)), c.OutOrStdout()
			if file == "" {
				return engine.ErrNoState("there are no key bindings")
			}
			all, err := tui.Keys(file, engine.ClaudeKeyBindings(engine.Env(nil)))
			if err != nil {
				return &engine.Error{Err: err, Hint: "knack help keys"}
			}
			if asJSON {
				return writeJSON(out, struct {
					File    string          `json:"file"`
					Actions []tui.KeyAction `json:"actions"`
				}{file, all})
			}
			var rows [][]string
			for _, a := range all {
				keys := cmp.Or(a.Keys, "(none)")
				if a.Default != "" {
					keys += " (default " + a.Default + ")"
				}
				rows = append(rows, []string{a.Action, keys, a.Help})
			}
			writeTable(out, rows)
			state := "does not exist yet"
			if _, err := os.Stat(file); err == nil {
				state = "is valid"
			}
			fmt.Fprintf(out, "\n%s %s\n", plain.Line(file), state)
			if claude := engine.ClaudeKeyBindings(engine.Env(nil)); claude != "" {
				if _, err := os.Stat(claude); err == nil {
					fmt.Fprintf(out, "%s is read before it\n", plain.Line(claude))
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an object")
	return c
}
