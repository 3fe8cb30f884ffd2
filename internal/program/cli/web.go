package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/program/web"
)

func webCommand() *cobra.Command {
	var f projectFlags
	port, open := 0, false
	c := &cobra.Command{
		Use:   "web",
		Short: "Show skills and why, in a browser",
		Long: `Show in a browser what this directory and you have: skills, and why each is used or
not. It answers on this machine only, until Ctrl-C.

The address that it prints gives access to the browser that opens it first, within a
minute; Enter prints another. Nothing can be changed there, no page loads anything from
elsewhere, and text of strangers stays text.`,
		Example: `  knack web --open
  knack web --port 7331`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return engine.Usagef("knack web --port 7331", "--port %d is not a port", port)
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			s, err := web.Open(ctx, f.options())
			if err != nil {
				return err
			}
			defer s.Close()
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
