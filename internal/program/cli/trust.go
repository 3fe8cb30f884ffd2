package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/internal/leaf/plain"
	tty "github.com/knack-agent/knack/internal/program/terminal"
	"github.com/knack-agent/knack/run/mcp"
)

type trustFlags struct {
	show, json, yes, revoke, links bool
	network, write                 string
}

func trustCommand() *cobra.Command {
	var f trustFlags
	c := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Approve what a project provides",
		Long: `A project's skills, commands, templates, agents, hooks, servers and settings do
nothing until you approve them. This command shows what the project in DIR (default:
this directory) would load, and asks for your approval. The approval is bound to the
content: if a byte changes, you are asked again and shown the difference. So run it
again after you edit a skill of the project yourself. Skills that you name with
--skill, and those in $XDG_CONFIG_HOME/knack/skills, need no approval.

Approvals are stored in $XDG_STATE_HOME/knack, never in the project.`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return f.run(c, dir)
		},
	}
	fs := c.Flags()
	fs.BoolVar(&f.show, "show", false, "show what would be loaded, without asking")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	fs.BoolVarP(&f.yes, "yes", "y", false, "approve without being asked")
	fs.BoolVar(&f.revoke, "revoke", false, "withdraw all approvals and saved rules of the project")
	fs.BoolVar(&f.links, "links", false, "also approve the targets of links that lead out of the project")
	fs.StringVar(&f.network, "mcp-network", "", "which hosts the project's MCP servers may reach: none, all, "+
		"or `HOSTS` separated by commas")
	fs.StringVar(&f.write, "mcp-write", "", "where the project's MCP servers may write besides the project: none, "+
		"or `DIRS` separated by commas")
	c.MarkFlagsMutuallyExclusive("show", "yes", "revoke")
	c.MarkFlagsMutuallyExclusive("json", "yes", "revoke")
	return c
}

func (f *trustFlags) run(c *cobra.Command, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return engine.Usagef("knack trust --help", "%s: no such directory", plain.Line(dir))
	}
	if engine.Env(nil).StateDir() == "" && !f.show && !f.json {
		return engine.ErrNoState("no approval can be changed")
	}
	if f.revoke {
		root, err := engine.RevokeTrust(nil, dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "trust in %s was removed\n", plain.Line(root))
		return nil
	}
	report, err := engine.ReadTrust(c.Context(), nil, dir, f.links, part.All())
	if err != nil {
		return err
	}
	if report.Unread != nil {
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s\n", plain.Line(report.Unread.Error()))
	}
	if f.json {
		return printTrustJSON(c.OutOrStdout(), report)
	}
	if err := f.choose(report.Items); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "knack: info: the project is %s\n", plain.Line(report.Root))
	out := bufio.NewWriter(c.OutOrStdout())
	report.Write(out)
	if err := out.Flush(); err != nil || f.show {
		return err
	}
	open := report.Open()
	if refused := anyRefused(report); len(open) == 0 && !refused && report.Trusted {
		return nil
	} else if err := f.ask(c, open, refused); err != nil {
		return err
	}
	if err := report.Approve(open...); err != nil {
		return err
	}
	if len(open) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "trusted: the folder")
		return nil
	}
	fmt.Fprintf(c.OutOrStdout(), "trusted: %d\n", len(open))
	return nil
}

// choose sets what the flags say about the programs of items.
func (f *trustFlags) choose(items []engine.TrustItem) error {
	if f.network != "" {
		network, err := mcp.ParseNetwork(f.network)
		if err != nil {
			return engine.Usagef("knack trust --help", "--mcp-network: %w", err)
		}
		command.SetNetwork(items, network)
	}
	if f.write != "" {
		dirs, err := command.ParseWrite(f.write)
		if err != nil {
			return engine.Usagef("knack trust --help", "--mcp-write: %w", err)
		}
		command.SetWrite(items, dirs)
	}
	return nil
}

// anyRefused reports whether there is something that cannot be approved as it is.
func anyRefused(r engine.TrustReport) bool {
	return slices.ContainsFunc(r.Items, func(it engine.TrustItem) bool {
		return it.Refused != "" && it.State != trust.Approved
	})
}

// ask asks whether to approve the open items, or else the folder. nil: yes.
func (f *trustFlags) ask(c *cobra.Command, open []engine.TrustItem, refused bool) error {
	question, hint := command.TrustQuestion(len(open)), "knack trust --yes approves what is shown"
	switch {
	case len(open) > 0:
	case refused:
		return &engine.Error{Err: errors.New("the rest cannot be approved as it is"),
			Hint: "knack trust --links, if you know where the links lead", Exit: engine.ExitRefused}
	default:
		question, hint = "Trust the folder?", "knack trust --yes trusts the folder"
		fmt.Fprintln(c.OutOrStdout(), "Once you trust the folder, git and other programs follow its configuration.")
	}
	if f.yes {
		return nil
	}
	ok, err := confirm(c, question, hint)
	if err != nil {
		return err
	}
	if !ok {
		return &engine.Error{Err: errors.New("nothing was approved"), Exit: engine.ExitRefused}
	}
	if f.network == "" {
		if err := askNetwork(c, open); err != nil {
			return err
		}
	}
	if f.write == "" {
		return askWrite(c, open)
	}
	return nil
}

// confirm asks a yes/no question on a terminal. Without a terminal it returns an error with the hint.
func confirm(c *cobra.Command, question, hint string) (bool, error) {
	if !isTerminal(c.InOrStdin()) {
		return false, &engine.Error{Err: errors.New("nothing was approved: there is no user to ask"),
			Hint: hint, Exit: engine.ExitRefused}
	}
	line, err := answer(c, question+" [y/N] ")
	if err != nil {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// answer reads a line that the user types after a question. What was typed before the question is shown answers
// nothing.
func answer(c *cobra.Command, question string) (string, error) {
	if f, ok := c.InOrStdin().(*os.File); ok {
		tty.Flush(f)
	}
	fmt.Fprint(c.ErrOrStderr(), question)
	line, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
	if err == io.EOF {
		err = nil
	}
	return line, err
}

// askNetwork asks which network access the programs of MCP servers among the items get.
func askNetwork(c *cobra.Command, items []engine.TrustItem) error {
	if !command.StartsPrograms(items) {
		return nil
	}
	needs, hosts := command.NetworkNeeds(items)
	if needs != "" {
		fmt.Fprintln(c.ErrOrStderr(), needs)
	}
	if hosts != "" {
		fmt.Fprintf(c.ErrOrStderr(), "+ accepts %s.\n", strings.ReplaceAll(hosts, ",", ", "))
	}
	for {
		line, err := answer(c, command.NetworkQuestion+" Type none, all, or hosts with commas between them. [none] ")
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) == "+" && hosts != "" {
			line = hosts
		}
		network, err := command.ReadNetwork(line)
		if err == nil {
			command.SetNetwork(items, network)
			return nil
		}
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s\n", plain.Line(err.Error()))
	}
}

// askWrite asks where the programs of MCP servers among the items may write, if their definitions name directories.
func askWrite(c *cobra.Command, items []engine.TrustItem) error {
	wants := command.WriteWants(items)
	if len(wants) == 0 {
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "+ accepts %s.\n", plain.Line(strings.Join(wants, ", ")))
	for {
		line, err := answer(c, command.WriteQuestion+" [none] ")
		if err != nil {
			return err
		}
		switch strings.TrimSpace(line) {
		case "":
			line = "none"
		case "+":
			line = strings.Join(wants, ",")
		}
		dirs, err := command.ParseWrite(line)
		if err == nil {
			command.SetWrite(items, dirs)
			return nil
		}
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s\n", plain.Line(err.Error()))
	}
}

func printTrustJSON(w io.Writer, r engine.TrustReport) error {
	e := json.NewEncoder(plain.JSON(w))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
