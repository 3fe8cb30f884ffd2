package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func sandboxCommand() *cobra.Command {
	c := &cobra.Command{Use: "sandbox", Short: "Explain the sandbox"}
	c.AddCommand(sandboxExplainCommand())
	return c
}

func sandboxExplainCommand() *cobra.Command {
	var asJSON bool
	var mode sandbox.Mode
	c := &cobra.Command{
		Use:   "explain",
		Short: "Show what the sandbox enforces here, and what is missing",
		Long: "Show what commands started from this directory may do, which of these limits this\n" +
			"machine can enforce, and what is missing for the others.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			e, err := engine.Open(c.Context(), engine.Options{Version: version()})
			if err != nil {
				return err
			}
			defer e.Close()
			policy, err := e.Project().SandboxPolicy(dir)
			if err != nil {
				return err
			}
			box := sandbox.New(policy, mode)
			defer box.Close()
			report, caches := box.Report(), box.CacheReport()
			if asJSON {
				e := json.NewEncoder(plain.JSON(c.OutOrStdout()))
				e.SetIndent("", "  ")
				return e.Encode(struct {
					Mode      sandbox.Mode               `json:"mode"`
					Report    sandbox.Report             `json:"report"`
					Policy    sandbox.Policy             `json:"policy"`
					Caches    sandbox.CacheReport        `json:"caches"`
					Protected []permission.ProtectedPath `json:"protected"`
				}{mode, report, policy, caches, permission.ProtectedPaths()})
			}
			kept, err := e.Project().TrustReport(c.Context())
			if err != nil {
				return err
			}
			hosts := command.OpenHosts(policy.Hosts, e.Project().Rules().Allow, kept.Rules)
			explainSandbox(c.OutOrStdout(), mode, report, policy, hosts)
			for i, text := range command.CacheLines(caches) {
				fmt.Fprintf(c.OutOrStdout(), "%-9s %s\n", []string{"caches:", ""}[min(i, 1)], plain.Line(text))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().Var(&mode, "sandbox", "`mode` to explain: auto, require or off")
	return c
}

// protectedLines returns a line for each program that runs code from protected names.
func protectedLines(names []string) (lines []string) {
	lines = append(lines, "in the working directory, because other programs run code from:")
	table := permission.ProtectedPaths()
	for i := 0; i < len(table); {
		runs, same := table[i].Runs, ""
		for ; i < len(table) && table[i].Runs == runs; i++ {
			same += " " + table[i].Name
		}
		lines = append(lines, " "+same+" ("+runs+")")
	}
	for _, name := range names {
		if !slices.ContainsFunc(table, func(p permission.ProtectedPath) bool { return p.Name == name }) {
			lines = append(lines, "  "+name+" (settings)")
		}
	}
	return lines
}

func explainSandbox(w io.Writer, mode sandbox.Mode, r sandbox.Report, p sandbox.Policy, hosts []string) {
	fmt.Fprintf(w, "mode:     %s\n", mode)
	fmt.Fprintf(w, "level:    %s", r.Level)
	if r.Backend != "" {
		fmt.Fprintf(w, " (by %s)", r.Backend)
	}
	fmt.Fprintln(w)
	if mode == sandbox.Require && r.Level != sandbox.Complete {
		fmt.Fprintln(w, "          commands are refused: a complete sandbox is required")
	}
	list := func(title string, lines []string) {
		for i, l := range lines {
			if i > 0 {
				title = ""
			}
			fmt.Fprintf(w, "%-9s %s\n", title, plain.Line(l))
		}
	}
	list("missing:", r.Missing)
	open := slices.Clone(r.Open)
	networked := p
	networked.Network = true
	for _, what := range sandbox.New(networked, mode).Report().Open {
		if !slices.Contains(open, what) {
			open = append(open, "to MCP servers and whatever else has the whole network: "+what)
		}
	}
	list("open:", open)
	list("writes:", append(append([]string{p.Dir}, p.Roots...), p.Write...))
	list("never:", p.Own)
	list("asks:", protectedLines(p.Protected))
	var secrets []string
	for _, s := range p.Secrets {
		if _, err := os.Lstat(s); err == nil && !slices.Contains(secrets, s) {
			secrets = append(secrets, s)
		}
	}
	list("hides:", append(secrets, ".env, .netrc and other files for keys in the working directory; unix sockets that the command did not bind itself"))
	hosts = append(hosts, "others: you are asked when a command connects (a command's own loopback works)")
	for _, preset := range permission.NetworkPresets() {
		hosts = append(hosts, "Network("+preset.Name+") is "+strings.Join(preset.Hosts, ", "))
	}
	list("hosts:", hosts)
}
