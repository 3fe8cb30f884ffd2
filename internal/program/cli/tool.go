package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

func toolCommand() *cobra.Command {
	c := &cobra.Command{Use: "tool", Short: "List the tools, run one as the agent would, and write your own"}
	c.AddCommand(toolListCommand(), toolRunCommand(), toolNewCommand(), toolCheckCommand())
	return c
}

func toolListCommand() *cobra.Command {
	var asJSON bool
	var choice string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the tools",
		Example: "  knack tool list --tools +grep,-bash",
		Args:    exactly(0, "knack tool list"),
		RunE: func(c *cobra.Command, _ []string) error {
			ws, err := engine.OpenWorkspace(c.Context(), "", "", nil)
			if err != nil {
				return err
			}
			defer ws.Close()
			p, err := engine.Load(c.Context(), new(projectFlags).options())
			if err != nil {
				return err
			}
			tools, problems := tool.Select(part.ToolsOutside(ws, p, coding.Options{Jobs: new(coding.Jobs)}), coding.All,
				coding.Choice(choice, coding.All))
			for _, p := range problems {
				fmt.Fprintf(c.ErrOrStderr(), "knack: %s: %s. %s\n", p.Severity, p, p.Hint)
			}
			if asJSON {
				type row struct {
					Name        string          `json:"name"`
					Description string          `json:"description"`
					Schema      json.RawMessage `json:"schema"`
					ReadOnly    bool            `json:"readOnly"`
					Origin      string          `json:"origin"`
				}
				rows := []row{}
				for _, t := range tools {
					rows = append(rows, row{t.Name, t.Description, t.Schema, t.Effect.ReadOnly(), t.Origin})
				}
				return writeJSON(c.OutOrStdout(), rows)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, t := range tools {
				what, _, _ := strings.Cut(t.Description, ". ")
				fmt.Fprintf(w, "%s\t%s\n", t.Name, strings.TrimSuffix(what, "."))
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print name, description and input schema as JSON")
	c.Flags().StringVar(&choice, "tools", "", "names and patterns: +grep adds, -bash removes")
	return c
}

func toolRunCommand() *cobra.Command {
	var deny []string
	var place string
	var trusted bool
	c := &cobra.Command{
		Use:   "run [flags] NAME INPUT-JSON",
		Short: "Run one tool call as the agent would make it",
		Long: `Run one tool call as the agent would make it, and print the result as JSON.

You make the call, so calls that an agent would have to ask about run. Deny rules,
managed ask rules, and the protection of secrets and of protected paths still apply,
and commands run in the sandbox. Background commands end with the program. The exit
code is 1 if the result is an error.`,
		Example: `  knack tool run read '{"path":"README.md","limit":10}'
  knack tool run bash '{"command":"go test ./...","timeout":60}'`,
		Args: exactly(2, `knack tool run bash '{"command":"ls"}'`),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signals(c.Context())
			defer stop()
			o := new(projectFlags).options()
			o.Workspace, o.Trust = place, trusted
			e, err := engine.Open(ctx, o)
			if err != nil {
				return err
			}
			defer e.Close()
			ws, err := e.Workspace(ctx)
			if err != nil {
				return err
			}
			var jobs coding.Jobs
			defer jobs.Close()
			require, end, err := auditCalls(e.Project(), c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer end()
			g, err := userGate(e, deny, require)
			if err != nil {
				return err
			}
			tools := part.ToolsOutside(ws, e.Project(), coding.Options{Timeout: 2 * time.Minute, Jobs: &jobs})
			if _, ok := tools.Find(args[0]); !ok {
				if err := notUsed(e.Project().Brought, args[0]); err != nil {
					return err
				}
			}
			res := tool.Call(ctx, tools, llm.ToolCall{ID: "1", Name: args[0], Input: json.RawMessage(args[1])}, g, nil)
			// Notices say, for example, what the sandbox does not enforce here.
			if err := writeJSON(c.OutOrStdout(), newToolOutput(res, e.Notices())); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return engine.Interrupted(ctx)
			}
			if res.IsError {
				return &engine.Error{Err: errSilent{}, Exit: engine.ExitFailed}
			}
			return nil
		},
	}
	c.ValidArgsFunction = completeTool
	c.Flags().StringArrayVar(&deny, "deny", nil, "add a deny `RULE`; may be repeated")
	c.Flags().BoolVar(&trusted, "trust", false, "trust this project for this call")
	c.Flags().StringVar(&place, "workspace", "", "where it runs: a directory, ssh://host/dir or docker://container/dir")
	return c
}

// userGate returns the gate for a call that the user typed. It decides as in a run, except that
// what would need approval is allowed, unless a managed rule asks for it or it concerns
// secrets or protected paths.
func userGate(e *engine.Engine, deny []string, require func(gate.Record) error) (tool.Gate, error) {
	place, rules := e.PathContext(), e.Project().Rules()
	denied, problems := permission.ParseRules(deny, permission.Flag, place.Dir, part.KnownTools().AllNames()...)
	for _, p := range problems {
		if p.Severity == permission.SeverityError {
			return nil, engine.Usagef("knack help permissions", "--deny: %s", p.Message)
		}
	}
	rules.Deny = slices.Concat(rules.Deny, denied)
	return gate.New(gate.Options{Rules: rules, Paths: place, Approver: gate.Typed, Require: require})
}

// A toolOutput is a result as `knack tool run` prints it.
type toolOutput struct {
	Parts      []toolPart      `json:"parts"`
	IsError    bool            `json:"isError"`
	Details    any             `json:"details"`
	Structured any             `json:"structured"`
	Touched    []string        `json:"touched"`
	Problems   []knack.Problem `json:"problems"`
}

type toolPart struct {
	Type string `json:"type"` // text, image or document
	Text string `json:"text,omitempty"`
	MIME string `json:"mime,omitempty"`
	Data []byte `json:"data,omitempty"`
}

func newToolOutput(r tool.Result, problems []knack.Problem) toolOutput {
	o := toolOutput{
		Parts: []toolPart{}, IsError: r.IsError, Details: r.Details, Structured: r.Structured,
		Touched: append([]string{}, r.Touched...), Problems: append([]knack.Problem{}, problems...),
	}
	for _, p := range r.Parts {
		switch {
		case p.Media == nil:
			o.Parts = append(o.Parts, toolPart{Type: "text", Text: p.Text})
		case strings.HasPrefix(p.Media.MIME, "image/"):
			o.Parts = append(o.Parts, toolPart{Type: "image", MIME: p.Media.MIME, Data: p.Media.Data})
		default:
			o.Parts = append(o.Parts, toolPart{Type: "document", MIME: p.Media.MIME, Data: p.Media.Data})
		}
	}
	return o
}
