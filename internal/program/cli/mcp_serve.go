package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	mcpserver "github.com/knack-agent/knack/internal/program/serve"
)

func mcpServeCommand() *cobra.Command {
	var f projectFlags
	var address, tokenFile string
	bundled := false
	c := &cobra.Command{
		Use:   "serve",
		Short: "Offer the skills of this directory to other agents",
		Long: `Offer the skills of this directory to other agents: as an MCP server on standard
input and output, or with --http on a port of this machine. Each skill is offered
as the skills extension of MCP defines it, and as a tool, a prompt and resources.

Only skills that a model could call here are offered: not untrusted ones, and not
those that their authors hide from models; those of Knack itself with --bundled.
Nothing is run: inline commands in a skill's text stay text.

Clients need a bearer token over HTTP: the value of KNACK_MCP_TOKEN, the content of
--token-file, which must exist, or else one that is generated and printed.`,
		Example: `  knack mcp serve
  knack mcp serve --http 127.0.0.1:7332 --token-file ~/.config/knack/mcp-token`,
		Args: exactly(0, "knack mcp serve"),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			e, err := engine.Open(ctx, f.options())
			if err != nil {
				return err
			}
			defer e.Close()
			s, err := mcpserver.New(ctx, e, bundled, func(problem string) {
				fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s\n", plain.Line(problem))
			})
			if err != nil {
				return err
			}
			go s.Watch(ctx)
			if address != "" {
				return serveHTTP(ctx, c, s, address, tokenFile)
			}
			if tokenFile != "" {
				return engine.Usagef("knack mcp serve --http 127.0.0.1:0 --token-file FILE", "--token-file is for --http")
			}
			if isTerminal(c.InOrStdin()) {
				fmt.Fprintln(c.ErrOrStderr(), "knack: waiting for the messages of an MCP client; agents start this command "+
					"themselves. Ctrl-C ends it.")
			}
			t := &sdk.IOTransport{Reader: io.NopCloser(c.InOrStdin()), Writer: nopCloser{c.OutOrStdout()}}
			err = s.Run(ctx, t)
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				return nil
			}
			return err
		},
	}
	f.register(c)
	c.Flags().StringVar(&address, "http", "", "serve streamable HTTP at `ADDRESS` of this machine; port 0 chooses a "+
		"free port")
	c.Flags().BoolVar(&bundled, "bundled", false, "offer the skills that are part of Knack, too")
	c.Flags().StringVar(&tokenFile, "token-file", "", "the bearer token is the content of `FILE`")
	return c
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func serveHTTP(ctx context.Context, c *cobra.Command, s *mcpserver.Server, address, tokenFile string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return engine.Usagef("knack mcp serve --http 127.0.0.1:7332", "--http %s: %w", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return engine.Usagef("knack mcp serve --http 127.0.0.1:7332, behind a server that speaks TLS",
			"--http %s: only addresses of this machine are served", address)
	}
	token := os.Getenv("KNACK_MCP_TOKEN")
	if tokenFile != "" {
		data, err := regular.ReadNamed(tokenFile, 64<<10)
		if err != nil {
			return &engine.Error{Err: fmt.Errorf("--token-file: %w", err),
				Hint: "knack mcp serve --http prints a token; put one into the file first", Exit: engine.ExitUsage}
		}
		if token = strings.TrimSpace(string(data)); token == "" {
			return &engine.Error{Err: fmt.Errorf("--token-file %s is empty", tokenFile),
				Hint: "knack mcp serve --http prints a token", Exit: engine.ExitUsage}
		}
	}
	made := token == ""
	token = cmp.Or(token, mcpserver.NewToken())
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.Handler(token), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "http://%s/mcp\n", l.Addr())
	if made {
		fmt.Fprintf(out, "Authorization: Bearer %s\n", token)
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
