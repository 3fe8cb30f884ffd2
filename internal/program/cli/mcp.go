package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/sources"
)

func mcpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Use MCP servers, or serve skills as one",
		Long: `MCP servers give the model tools, prompts, resources and skills. They are defined
in your settings (mcpServers), in ~/.claude.json, in a project's .mcp.json, which
needs your approval (knack trust), and with --mcp-config.

A definition may restrict the server's tools, whatever rules say: "disabledTools" and
"enabledTools" are lists of names, and "tools" is a list of {"name": …,
"permission_policy": "always_deny" or "always_ask"}.`,
	}
	c.AddCommand(mcpServeCommand(), mcpAddCommand(), mcpListCommand(), mcpGetCommand(), mcpRemoveCommand(),
		mcpTestCommand(), mcpLoginCommand(), mcpLogoutCommand())
	return c
}

type mcpAddFlags struct {
	transport string
	env       []string
	headers   []string
	project   bool
	network   string
	write     []string
	clientID  string
	port      int
}

func mcpAddCommand() *cobra.Command {
	var f mcpAddFlags
	c := &cobra.Command{
		Use:   "add NAME (URL | -- COMMAND [ARG...])",
		Short: "Define a server",
		Long: `Define a server: the URL of one that speaks streamable HTTP, or a command that speaks
MCP on its standard input and output. The definition is written to your settings, or
with --project to the project's .mcp.json, which each user of the project has to approve.`,
		Example: `  knack mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  knack mcp add issues https://mcp.example.com/mcp --header 'X-Team: core'
  knack mcp add db --env 'DATABASE_URL=${DATABASE_URL}' -- ./bin/db-server`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return engine.Usagef("knack mcp add --help", "knack mcp add: a name and a command or an address are needed")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0], args[1], args[2:]) },
	}
	fs := c.Flags()
	fs.StringVarP(&f.transport, "transport", "t", "",
		"stdio, http or sse, the older transport (default: http for a URL, stdio for a command)")
	fs.StringArrayVarP(&f.env, "env", "e", nil, "an environment variable of the command, as `NAME=VALUE`")
	fs.StringArrayVarP(&f.headers, "header", "H", nil, "a header of requests, as `'NAME: VALUE'`")
	fs.BoolVar(&f.project, "project", false, "write it to the project's .mcp.json")
	fs.StringVar(&f.network, "network", "", "which hosts the command may reach: all, none, or `HOSTS` separated by commas")
	fs.StringArrayVar(&f.write, "write", nil, "a directory that the command may write, besides the workspace, as `DIR`")
	fs.StringVar(&f.clientID, "client-id", "", "the OAuth client that was registered for you")
	fs.IntVar(&f.port, "callback-port", 0, "the port that the OAuth client was registered with")
	fs.SetInterspersed(true)
	return c
}

func (f *mcpAddFlags) run(c *cobra.Command, name, target string, args []string) error {
	if mcp.Safe(name) != name || name == "" || len(name) > 48 {
		return engine.Usagef("knack mcp add my-server …", "%s: a name has at most 48 letters, digits, - or single _",
			plain.Line(name))
	}
	s := mcp.Server{Name: name, OAuth: mcp.OAuth{ClientID: f.clientID, CallbackPort: f.port}}
	address := strings.HasPrefix(target, "https://") || strings.HasPrefix(target, "http://")
	switch f.transport {
	case "":
	case "http", "stdio", "sse":
		address, s.SSE = f.transport != "stdio", f.transport == "sse"
	default:
		return engine.Usagef("knack mcp add --help", "--transport: stdio, http or sse, not %q", f.transport)
	}
	var err error
	if address {
		if len(args) > 0 || len(f.env) > 0 {
			return engine.Usagef("knack mcp add --help", "an address takes neither arguments nor --env")
		}
		s.URL = target
		s.Headers, err = pairs(f.headers, ":", "--header")
	} else {
		if len(f.headers) > 0 {
			return engine.Usagef("knack mcp add --help", "--header is for addresses")
		}
		s.Command, s.Args = target, args
		s.Env, err = pairs(f.env, "=", "--env")
	}
	if err != nil {
		return err
	}
	if f.port < 0 || f.port > 65535 {
		return engine.Usagef("knack mcp add --help", "--callback-port: a port is a number up to 65535, not %d", f.port)
	}
	if f.network != "" {
		if s.Network, err = mcp.ParseNetwork(f.network); err != nil {
			return engine.Usagef("knack mcp add --help", "--network: %w", err)
		}
	}
	for _, dir := range f.write {
		if err := mcp.CheckWrite(dir); err != nil {
			return engine.Usagef("knack mcp add --help", "--write: %w", err)
		}
	}
	s.Write = f.write
	file, root, err := mcpFile(f.project)
	if err != nil {
		return err
	}
	text := "%s is defined in %s\n"
	if defines(file, name) {
		text = "%s is defined in %s; the earlier definition was replaced\n"
	}
	if err := config.Set(root, file, "mcpServers."+name, s.JSON()); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), text, name, plain.Line(short(file)))
	hint := "knack mcp test " + name
	if f.project {
		hint = "knack trust, then knack mcp test " + name
	}
	fmt.Fprintf(c.ErrOrStderr(), "knack: hint: %s\n", hint)
	return nil
}

// pairs parses a list of NAME<sep>VALUE.
func pairs(list []string, sep, flag string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	all := map[string]string{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, sep)
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(text, "\r\n\x00") {
			return nil, engine.Usagef("knack mcp add --help", "%s %s: NAME%sVALUE is needed", flag, plain.Line(text), sep)
		}
		if sep == ":" {
			value = strings.TrimSpace(value)
		}
		all[name] = value
	}
	return all, nil
}

// mcpFile returns the file where servers are configured, the user's settings or the project's .mcp.json, and the root
// of the project in which it is; "": in none.
func mcpFile(project bool) (file, root string, err error) {
	if project {
		root = sources.Root(".")
		return filepath.Join(root, ".mcp.json"), root, nil
	}
	dir := engine.Env(nil).ConfigDir()
	if dir == "" {
		return "", "", engine.ErrNoState("the server was not stored")
	}
	return filepath.Join(dir, "settings.json"), "", nil
}

// defines reports whether a file defines a server.
func defines(file, name string) bool {
	var doc struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	data, err := endOf(file, maxMessages) // of a longer one no JSON, as config.Set reads none
	if err == nil {
		json.Unmarshal(data, &doc) // config.Set reports a broken file
	}
	_, ok := doc.Servers[name]
	return ok
}

func short(path string) string { return subpath.Short(path, engine.Env(nil).Home()) }

func mcpRemoveCommand() *cobra.Command {
	var project bool
	c := &cobra.Command{
		Use: "remove NAME", Short: "Remove a server's definition", Args: exactly(1, "knack mcp remove NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			file, root, err := mcpFile(project)
			if err != nil {
				return err
			}
			if !defines(file, args[0]) {
				return &engine.Error{Err: fmt.Errorf("%s defines no server %q", plain.Line(short(file)), args[0]),
					Hint: "knack mcp list"}
			}
			if strings.Contains(args[0], ".") {
				return &engine.Error{Err: fmt.Errorf("%s contains a dot", plain.Line(args[0])),
					Hint: "remove it from " + short(file) + " by hand"}
			}
			if err := config.Set(root, file, "mcpServers."+args[0], nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s is removed from %s\n", plain.Line(args[0]), plain.Line(short(file)))
			return err
		},
	}
	c.Flags().BoolVar(&project, "project", false, "remove it from the project's .mcp.json")
	c.ValidArgsFunction = completeServer
	return c
}

func mcpListCommand() *cobra.Command {
	var f projectFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the servers that a session here would have", Args: exactly(0, "knack mcp list"),
		Long: "List the servers that a session in this directory would have. Nothing is started.",
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := engine.Load(c.Context(), f.options())
			if err != nil {
				return err
			}
			defer p.Close()
			servers, problems := p.Servers()
			out := c.OutOrStdout()
			if asJSON {
				all := []command.ServerDefinition{}
				for _, s := range servers {
					all = append(all, command.NewServerDefinition(s))
				}
				return writeJSON(out, all)
			}
			table := engine.Table{Columns: []string{"NAME", "TRANSPORT", "DEFINED BY", "TARGET"}}
			for _, s := range servers {
				table.Rows = append(table.Rows, []string{plain.Line(s.Name), string(s.Transport()), string(s.Origin),
					engine.Clip(s.Target(), 80)})
			}
			printProblems(c.ErrOrStderr(), p, problems, true)
			if len(servers) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "knack: hint: knack mcp add NAME (URL | -- COMMAND)")
				return nil
			}
			return table.Write(out)
		},
	}
	f.register(c)
	f.registerServers(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// noServer returns the error for an unknown server name.
func noServer(name string) error {
	return &engine.Error{Err: fmt.Errorf("there is no MCP server %q here", name), Hint: "knack mcp list",
		Exit: engine.ExitUsage}
}

// serverOptions returns the options for a command that takes the name of a server or, for one that is not defined, its
// URL, and the name that the server has there.
func (f *projectFlags) serverOptions(arg string) (o engine.Options, name string) {
	o = f.options()
	if !strings.Contains(arg, "://") {
		return o, arg
	}
	s := mcp.Server{URL: arg}
	o.MCPConfig, o.StrictMCP = []string{`{"server":` + string(s.JSON()) + `}`}, true
	return o, "server"
}

// openServer opens the engine for a command about one server.
func (f *projectFlags) openServer(ctx context.Context, arg string) (e *engine.Engine, name string, err error) {
	o, name := f.serverOptions(arg)
	if e, err = engine.Open(ctx, o); err != nil {
		return nil, "", err
	}
	if !slices.ContainsFunc(e.MCP().Servers(), func(s mcp.Status) bool { return s.Name == name }) {
		return nil, "", errors.Join(noServer(arg), e.Close())
	}
	return e, name, nil
}

func mcpGetCommand() *cobra.Command {
	var f projectFlags
	c := &cobra.Command{
		Use: "get NAME", Short: "Show a server's definition, as JSON", Args: exactly(1, "knack mcp get NAME"),
		Long: "Show a server's definition as JSON. The values of headers and variables\nare not shown.",
		RunE: func(c *cobra.Command, args []string) error {
			p, err := engine.Load(c.Context(), f.options())
			if err != nil {
				return err
			}
			defer p.Close()
			servers, _ := p.Servers()
			i := slices.IndexFunc(servers, func(s mcp.Server) bool { return s.Name == args[0] })
			if i < 0 {
				return noServer(args[0])
			}
			return writeJSON(c.OutOrStdout(), command.NewServerDefinition(servers[i]))
		},
	}
	f.register(c)
	f.registerServers(c)
	c.ValidArgsFunction = completeServer
	return c
}

func mcpTestCommand() *cobra.Command {
	var f projectFlags
	var asJSON, verify bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "test [NAME | URL]", Short: "Connect to a server, or to all, and show what it offers",
		Long: `Connect to a server, or to all of them, and show the tools, prompts and skills that
it offers, and which tools a model of some format does not get, because its provider
would refuse them. No tool is called. What a server offers is stored, so that the first
request of the next session has its tools. With --verify every file of its skills
is read and compared with what the server lists.`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			if timeout < 0 {
				return engine.Usagef("knack mcp test --help", "--timeout %s is negative", timeout)
			}
			var e *engine.Engine
			var names []string // none: all
			var err error
			if len(args) == 0 {
				e, err = engine.Open(c.Context(), f.options())
			} else {
				names = []string{""}
				e, names[0], err = f.openServer(c.Context(), args[0])
			}
			if err != nil {
				return err
			}
			defer closeEngine(e, c.ErrOrStderr())
			client := e.MCP()
			others := func(s mcp.Status) bool { return len(names) > 0 && s.Name != names[0] }
			for _, s := range client.Servers() {
				if others(s) {
					if err := client.Enable(s.Name, false); err != nil {
						return err
					}
				}
			}
			client.SetTimeout(timeout)
			client.Start()
			if err := client.Wait(c.Context(), names...); err != nil {
				return err
			}
			all := slices.DeleteFunc(client.Servers(), others)
			failed, hint := 0, ""
			list := []command.ServerDefinition{}
			for i := range all {
				if all[i].State != mcp.Connected {
					failed++
					all[i].Tools = nil // those of an earlier connection
					arg := mcp.Safe(all[i].Name)
					if len(args) > 0 {
						arg = args[0]
					}
					if all[i].State == mcp.NeedsLogin {
						all[i].Reason = "knack mcp login " + arg
					}
					hint = cmp.Or(hint, testHint(all[i], arg))
				}
				if verify {
					all[i].Skills = 0
					client.Verify(c.Context(), all[i].Name, func(skill string, files int, err error) {
						if err != nil {
							failed++
							fmt.Fprintf(c.ErrOrStderr(), "knack: error: %s\n", plain.Line(strings.TrimPrefix(skill+": "+err.Error(), ": ")))
							return
						}
						all[i].Skills++
						fmt.Fprintf(c.ErrOrStderr(), "knack: info: %s: %s verified\n", plain.Line(skill), plain.Count(files, "file"))
					})
				} else {
					for _, err := range client.Skills(all[i].Name).Skills(c.Context()) {
						if x := (knack.Problem{}); errors.As(err, &x) {
							all[i].Problems = append(all[i].Problems, x)
						}
					}
				}
				if all[i].State == mcp.Connected {
					all[i].Problems = append(all[i].Problems, mcp.Unfit(all[i].Name, client.Tools(nil))...)
				}
				j := command.NewServerDefinition(all[i].Server)
				j.State, j.Reason, j.Protocol, j.Server = all[i].State, all[i].Reason, all[i].Version, all[i].Title
				j.Tools, j.Prompts, j.Skills = all[i].Tools, all[i].Prompts, all[i].Skills
				for _, x := range all[i].Problems {
					j.Problems = append(j.Problems, x.Message)
				}
				list = append(list, j)
			}
			if asJSON {
				err = writeJSON(c.OutOrStdout(), list)
			} else {
				err = writeTested(c.OutOrStdout(), all)
				for _, s := range all {
					for i := range s.Problems {
						s.Problems[i].Hint = "" // this command
					}
					printProblems(c.ErrOrStderr(), e.Project(), s.Problems, true)
				}
			}
			if err == nil && failed > 0 {
				err = &engine.Error{Err: errors.New(plain.Count(failed, "test") + " failed"), Hint: hint}
			}
			return err
		},
	}
	f.register(c)
	f.registerServers(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait for each server (default: its own timeout, or 30s)")
	c.Flags().BoolVar(&verify, "verify", false, "read every file of the skills, and compare it with the list")
	c.ValidArgsFunction = completeServer
	return c
}

// testHint says what may help with a server that is not connected. arg names it on the command line.
func testHint(s mcp.Status, arg string) string {
	get := "knack mcp get " + arg + " shows"
	switch {
	case s.State == mcp.NeedsLogin:
		return s.Reason
	case !s.Remote():
		return get + " what is started, knack sandbox explain what a program may use"
	case s.URL == arg:
		return "does this address speak MCP (streamable HTTP)?"
	}
	return get + " the address"
}

func writeTested(w io.Writer, all []mcp.Status) error {
	out := bufio.NewWriter(w)
	for _, s := range all {
		fmt.Fprintf(out, "%s: %s", plain.Line(s.Name), s.State)
		if s.Title != "" {
			fmt.Fprintf(out, ", %s", plain.Line(s.Title))
		}
		if s.Version != "" {
			fmt.Fprintf(out, ", protocol %s", plain.Line(s.Version))
		}
		if s.Reason != "" {
			fmt.Fprintf(out, ": %s", engine.Clip(s.Reason, 1000))
		}
		fmt.Fprintln(out)
		for _, t := range s.Tools {
			fmt.Fprintf(out, "  %s\n", plain.Line(t))
		}
		for _, t := range s.Prompts {
			fmt.Fprintf(out, "  /%s\n", plain.Line(t))
		}
		if s.Skills > 0 {
			fmt.Fprintf(out, "  %s\n", plain.Count(s.Skills, "skill"))
		}
	}
	return out.Flush()
}

func mcpLoginCommand() *cobra.Command {
	var f projectFlags
	c := &cobra.Command{
		Use: "login (NAME | URL)", Short: "Log in to a server with a browser (OAuth)",
		Args: exactly(1, "knack mcp login NAME"),
		Long: `Log in to a server with a browser (OAuth). The token is stored in the keyring of
this machine, or, if it has none, in a file that only you can read. If the browser
runs on another machine, paste the address of the last page that it was sent to.`,
		RunE: func(c *cobra.Command, args []string) error {
			e, name, err := f.openServer(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer e.Close()
			hasPage := false
			err = e.MCP().Login(c.Context(), name, func(ctx context.Context, page string) (string, error) {
				hasPage = true
				fmt.Fprintf(c.ErrOrStderr(), "Open this page, and log in:\n\n%s\n\nIf the browser is on another machine, paste "+
					"the address of the last page that it opens:\n", plain.Line(page))
				return pasted(ctx, c.InOrStdin())
			})
			if err != nil {
				err = fmt.Errorf("login: %w", err)
				if errors.Is(err, mcp.ErrNoRegistration) {
					return &engine.Error{Err: err, Hint: "register Knack there with the redirect address " +
						"http://127.0.0.1:PORT/callback, then knack mcp add NAME URL --client-id ID --callback-port PORT"}
				}
				if !hasPage {
					return &engine.Error{Err: err, Hint: "if the server expects a token that you have: " +
						"knack mcp add NAME URL --header 'Authorization: Bearer TOKEN'"}
				}
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "logged in to %s\n", plain.Line(args[0]))
			return err
		},
	}
	f.register(c)
	f.registerServers(c)
	c.ValidArgsFunction = completeServer
	return c
}

// pasted reads the first line that is not blank. If the input ends without one, it waits until ctx is done.
func pasted(ctx context.Context, r io.Reader) (string, error) {
	line := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if text := strings.TrimSpace(lines.Text()); text != "" {
				line <- text
				return
			}
		}
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func mcpLogoutCommand() *cobra.Command {
	var f projectFlags
	c := &cobra.Command{
		Use: "logout (NAME | URL)", Short: "Remove the stored token of a server",
		Args: exactly(1, "knack mcp logout NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			e, name, err := f.openServer(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer e.Close()
			had := e.MCP().LoggedIn(name)
			if err := e.MCP().Logout(name); err != nil {
				return fmt.Errorf("logout: %w", err)
			}
			if !had {
				return fmt.Errorf("logout: no token of %s is stored", plain.Line(args[0]))
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "logged out of %s\n", plain.Line(args[0]))
			return err
		},
	}
	f.register(c)
	f.registerServers(c)
	c.ValidArgsFunction = completeServer
	return c
}
