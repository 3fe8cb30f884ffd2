package cli

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/program/web"
)

func webCommand() *cobra.Command {
	var f projectFlags
	port, open, changes := 0, false, false
	var evals []string
	c := &cobra.Command{
		Use:   "web",
		Short: "Show skills, rules, trust, sessions and batches in a browser",
		Long: `Show in a browser what this directory and you have: skills, and why each is used or
not, what a model sees of them, rules and settings, what the project brings, sessions and
batches. It answers on this machine only, until Ctrl-C.

The address that it prints gives access to the browser that opens it first, within a
minute; Enter prints another. Without --allow-changes nothing can be changed there. No page
loads anything from elsewhere, and text of strangers stays text.`,
		Example: `  knack web --open
  knack web --port 7331
  knack web --evals old.json --evals new.json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return engine.Usagef("knack web --port 7331", "--port %d is not a port", port)
			}
			ctx, stop := signals(c.Context())
			defer stop()
			s, err := web.Open(ctx, f.options())
			if err != nil {
				return err
			}
			defer s.Close()
			if len(evals) > 0 {
				s.ShowEvals(evals...)
			}
			if changes {
				s.AllowChanges()
			}
			l, err := s.Listen(strconv.Itoa(port))
			if err != nil {
				return err
			}
			address := s.Address()
			fmt.Fprintln(c.OutOrStdout(), address)
			if open {
				if err := openBrowser(address); err != nil {
					fmt.Fprintf(c.ErrOrStderr(), "knack: warn: no browser was opened: %v\n", err)
				}
			}
			if isTerminal(c.InOrStdin()) {
				fmt.Fprintln(c.ErrOrStderr(), "knack: info: the address works once, within a minute; Enter prints another, "+
					"Ctrl-C ends it")
				go printAddresses(c.InOrStdin(), c.OutOrStdout(), s)
			}
			return s.Serve(ctx, l)
		},
	}
	f.register(c)
	f.registerView(c)
	c.Flags().IntVar(&port, "port", 0, "the `port`; 0 chooses a free one")
	c.Flags().BoolVar(&open, "open", false, "also open the address in your browser")
	c.Flags().StringArrayVar(&evals, "evals", nil, "also show the results in `FILE`, which knack eval --json printed; "+
		"several are shown beside each other")
	c.Flags().BoolVar(&changes, "allow-changes", false, "also approve, answer, cancel, pin and save there")
	return c
}

// printAddresses prints another address for each line, until the end of the input.
func printAddresses(in io.Reader, out io.Writer, s *web.Server) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintln(out, s.Address())
	}
}

// openBrowser opens an address in the user's browser, which outlives the program.
func openBrowser(address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	c := exec.Command(name, args...)
	if err := c.Start(); err != nil {
		return err
	}
	go c.Wait()
	return nil
}
