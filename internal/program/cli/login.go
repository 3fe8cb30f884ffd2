package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm/models"
)

func loginCommand() *cobra.Command {
	var list, test bool
	c := &cobra.Command{
		Use:   "login [PROVIDER]",
		Short: "Store a provider's key in the keyring of this machine",
		Long: `Store the key of a model provider (anthropic, openai, google, openrouter, …;
default: anthropic) in the keyring of this machine, or, if it has none, in a file
that only you can read. The key is asked for on a terminal, else read from standard
input. A key in the environment takes precedence.`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			keys := engine.OpenKeys(nil)
			if list {
				names, err := keys.Providers()
				if wantsJSON(c) {
					stored := []map[string]string{}
					for _, name := range names {
						stored = append(stored, map[string]string{"provider": name, "stored": keys.Location(name)})
					}
					return errors.Join(err, writeJSON(c.OutOrStdout(), stored))
				}
				for _, name := range names {
					fmt.Fprintf(c.OutOrStdout(), "%s\t%s\n", name, keys.Location(name))
				}
				return err
			}
			name := "anthropic"
			if len(args) == 1 {
				name = args[0]
			}
			if err := engine.CheckProvider(name); err != nil {
				return err
			}
			key, err := readKey(c.InOrStdin(), c.ErrOrStderr(), name)
			if err != nil {
				return fmt.Errorf("login: %w", err)
			}
			again := fmt.Sprintf("knack login %s, at a terminal; or pipe the key into it", name)
			var all engine.Models
			if err := all.CheckKey(name, key); err != nil {
				return &engine.Error{Err: fmt.Errorf("login: %w", err), Hint: again}
			}
			if test || !c.Flags().Changed("test") && readsTerminal(c.InOrStdin()) {
				switch err := all.TryKey(c.Context(), name, key); {
				case errors.Is(err, models.ErrKeyRefused):
					return &engine.Error{Err: fmt.Errorf("the key of %s is not saved: %w", models.Vendor(name), err), Hint: again}
				case err != nil:
					fmt.Fprintf(c.ErrOrStderr(), "knack: warn: the key could not be tested: %v\n", err)
				}
			}
			if err := keys.Set(name, key); err != nil {
				return &engine.Error{Err: fmt.Errorf("login: %w", err), Hint: again}
			}
			return printResult(c, c.ErrOrStderr(), fmt.Sprintf("The key of %s is stored in %s.", name, keys.Location(name)),
				map[string]string{"provider": name, "stored": keys.Location(name)})
		},
	}
	c.ValidArgsFunction = completeProvider
	resultJSON(c)
	c.Flags().BoolVar(&test, "test", false, "test the key with one request before it is stored;"+
		" at a terminal this is the default, and --test=false skips it")
	c.Flags().BoolVar(&list, "list", false, "list the providers whose keys are stored, and where")
	return c
}

func logoutCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "logout PROVIDER",
		Short: "Remove a provider's stored key",
		Args:  exactly(1, "knack logout PROVIDER; knack login --list shows the stored ones"),
		RunE: func(c *cobra.Command, args []string) error {
			keys := engine.OpenKeys(nil)
			if !keys.Has(args[0]) {
				return &engine.Error{Err: fmt.Errorf("logout: no key of %s is stored", args[0]), Hint: "knack login --list"}
			}
			if err := keys.Remove(args[0]); err != nil {
				return fmt.Errorf("logout: %w", err)
			}
			return printResult(c, c.ErrOrStderr(), fmt.Sprintf("The key of %s was removed.", args[0]),
				map[string]any{"provider": args[0], "removed": true})
		},
	}
	c.ValidArgsFunction = completeProvider
	resultJSON(c)
	return c
}

// readKey asks for a key. On a terminal it does not show what is typed; otherwise it reads one
// line.
func readKey(in io.Reader, out io.Writer, name string) (string, error) {
	var key string
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(out, "Key of %s: ", name)
		data, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(out)
		if err != nil {
			return "", err
		}
		key = string(data)
	} else {
		line, err := bufio.NewReader(io.LimitReader(in, 64<<10)).ReadString('\n')
		if err != nil && err != io.EOF {
			return "", err
		}
		key = line
	}
	return strings.TrimSpace(key), nil
}
