package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func permissionCommand() *cobra.Command {
	c := &cobra.Command{Use: "permission", Short: "Show what may run, and why"}
	c.AddCommand(permissionCheckCommand())
	return c
}

func permissionCheckCommand() *cobra.Command {
	var flags projectFlags
	var allow, deny, ask []string
	var mode string
	c := &cobra.Command{
		Use:   "check [flags] TOOL INPUT-JSON",
		Short: "Decide one tool call as a run would",
		Long: `Decide one tool call as a run in this directory would, with the rules of settings and
flags, earlier "always" answers and the built-in rules, and print the decision as
JSON. The call is not run. --bare ignores settings.

The exit code is 0 for allow and 3 for ask and deny.`,
		Example: `  knack permission check --allow 'Bash(git log:*)' bash '{"command":"git log --oneline | head"}'
  knack permission check --deny 'Read(.env)' Read '{"path":"app/.env"}'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return engine.Usagef("knack permission check bash '{\"command\":\"ls\"}'",
					"permission check takes a tool and its input as JSON")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			m, err := permission.ParseMode(mode)
			if err != nil {
				return engine.Usagef("--mode default", "%w", err)
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			o := flags.options()
			o.NoSettings = flags.bare
			o.Values = map[string]any{}
			if c.Flags().Changed("mode") {
				o.Values["permissions.defaultMode"] = string(m)
			}
			for _, list := range []struct {
				name  string
				texts []string
			}{{"allow", allow}, {"deny", deny}, {"ask", ask}} {
				rules, problems := permission.ParseRules(list.texts, permission.Flag, dir)
				for _, r := range rules {
					if p, ok := r.AllowProblem(); ok && list.name == "allow" {
						problems = append(problems, p)
					}
				}
				for _, p := range problems {
					if p.Severity == permission.SeverityError {
						return engine.Usagef("knack help permissions", "--%s: %s", list.name, p.Message)
					}
					fmt.Fprintf(c.ErrOrStderr(), "knack: %s: --%s %s\n", p.Severity, list.name, p)
				}
				if len(list.texts) > 0 {
					o.Values["permissions."+list.name] = list.texts
				}
			}
			e, err := engine.Open(c.Context(), o)
			if err != nil {
				return err
			}
			defer e.Close()
			ws, err := e.Workspace(c.Context())
			if err != nil {
				return err
			}
			subjects, err := part.Subjects(c.Context(), ws, e.Project(), args[0], json.RawMessage(args[1]))
			if err != nil {
				return engine.Usagef("knack permission check bash '{\"command\":\"ls\"}'", "%w", err)
			}
			d, err := e.Decide(c.Context(), subjects...)
			if err != nil {
				return err
			}
			enc := json.NewEncoder(plain.JSON(c.OutOrStdout()))
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(d); err != nil {
				return err
			}
			if d.Verdict != permission.Allow {
				return &engine.Error{Err: errSilent{}, Exit: engine.ExitRefused}
			}
			return nil
		},
	}
	flags.register(c)
	f := c.Flags()
	f.StringArrayVar(&allow, "allow", nil, "add an allow `RULE`; may be repeated")
	f.StringArrayVar(&deny, "deny", nil, "add a deny `RULE`; may be repeated")
	f.StringArrayVar(&ask, "ask", nil, "add an ask `RULE`; may be repeated")
	f.StringVar(&mode, "mode", "default", "default, acceptEdits, plan, dontAsk or bypassPermissions")
	return c
}

// errSilent ends the program with an exit code and no message, because everything was already
// printed.
type errSilent struct{}

func (errSilent) Error() string { return "" }
