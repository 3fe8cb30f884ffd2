package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/sources"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write man pages into a directory", Args: exactly(1, "knack man ./man"),
		RunE: func(c *cobra.Command, args []string) error {
			base := sources.Root(".")
			if err := outfile.Mkdir(base, args[0], 0o777); err != nil {
				return err
			}
			n := 0
			var write func(*cobra.Command) error
			write = func(sub *cobra.Command) error {
				if sub.Hidden || !sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() && sub.HasParent() {
					return nil
				}
				name := strings.ReplaceAll(sub.CommandPath(), " ", "-")
				n++
				if err := outfile.Write(base, filepath.Join(args[0], name+".1"), []byte(manPage(sub)), 0o666, true); err != nil {
					return err
				}
				for _, below := range sub.Commands() {
					if err := write(below); err != nil {
						return err
					}
				}
				return nil
			}
			if err := write(c.Root()); err != nil {
				return &engine.Error{Err: fmt.Errorf("man: %w", err), Hint: "knack man ./man"}
			}
			fmt.Fprintf(c.ErrOrStderr(), "knack: wrote %d pages to %s\n", n, args[0])
			return nil
		},
	}
}

// manPage returns the help of a command as a man page.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	text := func(s string) string { // escapes each line
		lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
		for i, l := range lines {
			l = strings.ReplaceAll(strings.ReplaceAll(l, `\`, `\e`), "-", `\-`)
			if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
				l = `\&` + l
			}
			lines[i] = l
		}
		return strings.Join(lines, "\n") + "\n"
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"knack %s\"\n.SH NAME\n%s", strings.ToUpper(text(name)[:len(text(name))-1]), version(),
		text(name+" - "+c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n%s", text(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s.fi\n", text(c.Long))
	}
	flags := func(title string, set *pflag.FlagSet) {
		if set.HasAvailableFlags() {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s.fi\n", title, text(usagesOf(set, 0)))
		}
	}
	flags("OPTIONS", c.NonInheritedFlags())
	flags("OPTIONS OF THE COMMANDS ABOVE", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s.fi\n", text(c.Example))
	}
	var see []string
	if c.HasParent() {
		see = append(see, strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")+"(1)")
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.IsAvailableCommand() {
			see = append(see, strings.ReplaceAll(sub.CommandPath(), " ", "-")+"(1)")
		}
	}
	if len(see) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s", text(strings.Join(see, ", ")))
	}
	return b.String()
}
