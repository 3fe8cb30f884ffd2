package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/zalando/go-keyring"

	"github.com/knack-agent/knack/internal/atomicfile"
	"github.com/knack-agent/knack/llm/models"
)

const keyringService = "knack"

// Keys are the keys of model providers that `knack login` stored: an index of
// the providers, with the key itself only where this machine has no keyring.
// One process writes at a time; the last one wins.
type Keys struct {
	env     Env
	file    string
	entries map[string]keyEntry
	err     error // why the index cannot be read
}

// A keyEntry without a key means that it is in the keyring.
type keyEntry struct {
	Key string `json:"key,omitempty"`
}

// OpenKeys reads the index of the stored keys. One that cannot be read is the
// error of every later call.
func OpenKeys(env Env) Keys { return openKeys(env, "keys.json") }

// openKeys is OpenKeys for an index of another name.
func openKeys(env Env, name string) Keys {
	s := Keys{env: env, file: env.StateFile(name), entries: map[string]keyEntry{}}
	if s.file == "" {
		return s
	}
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

// Providers names the providers whose keys are stored, sorted.
func (s Keys) Providers() ([]string, error) {
	return slices.Sorted(maps.Keys(s.entries)), s.err
}

// Has reports whether a provider's key is stored.
func (s Keys) Has(name string) bool { _, ok := s.entries[name]; return ok }

// Where returns where a stored key is: in a file, or in the keyring.
func (s Keys) Where(name string) string {
	if s.entries[name].Key != "" {
		return s.file
	}
	return "the keyring"
}

// Get is a provider's stored key; "": none is stored.
func (s Keys) Get(name string) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	e, ok := s.entries[name]
	if !ok || e.Key != "" {
		return e.Key, nil
	}
	return keyring.Get(keyringService, name)
}

// Set stores a provider's key.
func (s Keys) Set(name, key string) error {
	key, err := checkKey(key)
	if err != nil {
		return err
	}
	if s.err != nil {
		return s.err
	}
	if s.file == "" { // the index of what is in the keyring is a file, too
		return ErrNoState("the key was not stored")
	}
	e := keyEntry{Key: key}
	if s.hasKeyring() && keyring.Set(keyringService, name, key) == nil {
		e = keyEntry{}
	}
	s.entries[name] = e
	return s.write()
}

// Remove forgets a provider's key.
func (s Keys) Remove(name string) error {
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

func (s Keys) write() error {
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
// KNACK_KEYRING=file turns it off.
func (s Keys) hasKeyring() bool {
	if s.env.Get("KNACK_KEYRING") == "file" {
		return false
	}
	return runtime.GOOS != "linux" || s.env.Get("DBUS_SESSION_BUS_ADDRESS") != ""
}

// CheckProvider refuses a name that is no provider's.
func CheckProvider(name string) error {
	if _, ok := models.Known().Provider(name); ok {
		return nil
	}
	var known []string
	for _, p := range models.Known().Providers {
		known = append(known, p.Name)
	}
	return Usagef("knack login "+known[0], "login: unknown provider %q; the providers are %s", name,
		strings.Join(known, ", "))
}

// checkKey returns a key without the blanks around it, if it can be one.
func checkKey(key string) (string, error) {
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return "", errors.New("no key was given")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("that is not a key: it contains spaces or characters that no key has")
	}
	return key, nil
}
