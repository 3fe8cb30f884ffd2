package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/zalando/go-keyring"
	"golang.org/x/term"

	"github.com/knack-agent/knack/internal/atomicfile"
	"github.com/knack-agent/knack/llm/models"
)

func loginCommand() *cobra.Command {
	var list bool
	c := &cobra.Command{
		Use:   "login [provider]",
		Short: "Store a provider's key in the keyring of this machine",
		Long: `Store the key of a model provider (anthropic, openai, google, openrouter, …;
anthropic if none is named) in the keyring of this machine, or, where there is
none, in a file that only you can read. The key is asked for, or read from
standard input. A key in the environment goes before a stored one.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			keys := openKeys()
			if list {
				for _, name := range slices.Sorted(maps.Keys(keys.entries)) {
					fmt.Fprintf(c.OutOrStdout(), "%s\t%s\n", name, keys.where(name))
				}
				return keys.err
			}
			name := "anthropic"
			if len(args) == 1 {
				name = args[0]
			}
			if err := isProvider(name); err != nil {
				return err
			}
			key, err := readKey(c.InOrStdin(), c.ErrOrStderr(), name)
			if err != nil {
				return fmt.Errorf("login: %w", err)
			}
			if err := keys.set(name, key); err != nil {
				return fmt.Errorf("login: %w", err)
			}
			fmt.Fprintf(c.ErrOrStderr(), "The key of %s is stored in %s.\n", name, keys.where(name))
			return nil
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the providers whose keys are stored, and where")
	return c
}

// isProvider refuses a name that is no provider's.
func isProvider(name string) error {
	if _, ok := models.Known().Provider(name); ok {
		return nil
	}
	var known []string
	for _, p := range models.Known().Providers {
		known = append(known, p.Name)
	}
	return usagef("knack login "+known[0], "login: %s is none of %s", name, strings.Join(known, ", "))
}

func logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout provider",
		Short: "Forget a provider's stored key",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			keys := openKeys()
			if !keys.has(args[0]) {
				return &failure{fmt.Errorf("logout: no key of %s is stored", args[0]), "knack login --list", exitFailed}
			}
			if err := keys.remove(args[0]); err != nil {
				return fmt.Errorf("logout: %w", err)
			}
			fmt.Fprintf(c.ErrOrStderr(), "The key of %s is forgotten.\n", args[0])
			return nil
		},
	}
}

// readKey asks on a terminal, without showing what is typed, and else reads
// one line.
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
	return checkKey(key)
}

// checkKey returns a key without the blanks around it, if it can be one.
func checkKey(key string) (string, error) {
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return "", errors.New("no key was given")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("that is not a key: it has blanks or signs that no key has")
	}
	return key, nil
}

const keyringService = "knack"

// A keyStore is the keys of `knack login`: an index of who has one, with the
// key itself only where there is no keyring. One process writes at a time;
// the last one wins.
type keyStore struct {
	file    string
	entries map[string]keyEntry
	err     error // why the index cannot be read
}

// A keyEntry with no key says that it is in the keyring.
type keyEntry struct {
	Key string `json:"key,omitempty"`
}

func openKeys() keyStore {
	s := keyStore{file: filepath.Join(stateDir(), "keys.json"), entries: map[string]keyEntry{}}
	data, err := os.ReadFile(s.file)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		s.err = err
	default:
		if err := json.Unmarshal(data, &s.entries); err != nil {
			s.err = fmt.Errorf("%s: %w", s.file, err)
		}
	}
	return s
}

func (s keyStore) has(name string) bool { _, ok := s.entries[name]; return ok }

func (s keyStore) where(name string) string {
	if s.entries[name].Key != "" {
		return s.file
	}
	return "the keyring"
}

// get is the stored key, or "".
func (s keyStore) get(name string) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	e, ok := s.entries[name]
	if !ok || e.Key != "" {
		return e.Key, nil
	}
	return keyring.Get(keyringService, name)
}

func (s keyStore) set(name, key string) error {
	if s.err != nil {
		return s.err
	}
	e := keyEntry{Key: key}
	if hasKeyring() && keyring.Set(keyringService, name, key) == nil {
		e = keyEntry{}
	}
	s.entries[name] = e
	return s.write()
}

func (s keyStore) remove(name string) error {
	if s.err != nil {
		return s.err
	}
	if s.entries[name].Key == "" {
		if err := keyring.Delete(keyringService, name); err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return err
		}
	}
	delete(s.entries, name)
	return s.write()
}

func (s keyStore) write() error {
	data, err := json.MarshalIndent(s.entries, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(s.file, append(data, '\n'), 0o600)
}

// hasKeyring reports whether this machine has a keyring. On Linux that takes a
// session bus, and asking for one where there is none would start one.
// KNACK_KEYRING=file says not to use it.
func hasKeyring() bool {
	if os.Getenv("KNACK_KEYRING") == "file" {
		return false
	}
	return runtime.GOOS != "linux" || os.Getenv("DBUS_SESSION_BUS_ADDRESS") != ""
}
