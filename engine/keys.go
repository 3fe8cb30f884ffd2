package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/zalando/go-keyring"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/models"
)

const keyringService = "knack"

// Keys are the keys of model providers that `knack login` stored. A file lists the providers; it
// contains the keys only if this machine has no keyring. Concurrent writers are not merged: the last
// one wins.
type Keys struct {
	env     Env
	file    string
	entries map[string]keyEntry
	err     error // reading the index failed
}

// A keyEntry without a key means that the key is in the keyring.
type keyEntry struct {
	Key string `json:"key,omitempty"`
}

// OpenKeys reads the index of the stored keys. If that fails, every later call returns the error.
func OpenKeys(env Env) Keys { return openKeys(env, "keys.json") }

// OpenSkillKeys is OpenKeys for what the user gave to skills, see package engine/part/secrets.
func OpenSkillKeys(env Env) Keys { return openKeys(env, "skill-secrets.json") }

// openKeys is OpenKeys for an index with another file name.
func openKeys(env Env, name string) Keys {
	s := Keys{env: env, file: env.StateFile(name), entries: map[string]keyEntry{}}
	if s.file == "" {
		return s
	}
	data, err := os.ReadFile(s.file)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
	case err != nil:
		s.err = err
	default:
		if err := json.Unmarshal(data, &s.entries); err != nil {
			s.err = fmt.Errorf("%s: %w", s.file, err)
		}
	}
	return s
}

// Providers returns the names of providers with a stored key, sorted.
func (s Keys) Providers() ([]string, error) {
	return slices.Sorted(maps.Keys(s.entries)), s.err
}

// Has reports whether a provider's key is stored.
func (s Keys) Has(name string) bool { _, ok := s.entries[name]; return ok }

// Location describes where a key is stored: in a file, or in the keyring.
func (s Keys) Location(name string) string {
	if s.entries[name].Key != "" {
		return s.file
	}
	return "the keyring"
}

// Get returns a provider's stored key, or "" if none is stored.
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

// Set stores a provider's key: in the file if this machine has no keyring.
func (s Keys) Set(name, key string) error {
	key, err := checkKey(key)
	if err != nil {
		return err
	}
	if err := s.Put(name, key, false); !errors.Is(err, ErrNoKeyring) {
		return err
	}
	return s.Put(name, key, true)
}

// ErrNoKeyring is the error of Put for a machine without a keyring, or one that refuses.
var ErrNoKeyring error = noKeyring{}

type noKeyring struct{}

func (noKeyring) Error() string { return "this machine has no keyring that takes it" }

// Put stores any text under a name in the keyring, or in the file. The error is ErrNoKeyring if it cannot be in the
// keyring.
func (s Keys) Put(name, text string, file bool) error {
	if s.err != nil {
		return s.err
	}
	if s.file == "" { // even for keys in the keyring, the index is a file
		return ErrNoState("the key was not stored")
	}
	var e keyEntry
	switch {
	case file:
		e.Key = text
	case !s.hasKeyring() || keyring.Set(keyringService, name, text) != nil:
		return ErrNoKeyring
	}
	return s.change(func() { s.entries[name] = e })
}

// Remove deletes a provider's key.
func (s Keys) Remove(name string) error {
	if s.err != nil {
		return s.err
	}
	if s.entries[name].Key == "" {
		if err := keyring.Delete(keyringService, name); err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return err
		}
	}
	return s.change(func() { delete(s.entries, name) })
}

// change changes the entries as they are now: another program may have stored a key since they were read.
func (s Keys) change(edit func()) error {
	return atomicfile.Update(s.file, 0o600, func(old []byte) ([]byte, error) {
		clear(s.entries)
		if len(old) > 0 {
			if err := json.Unmarshal(old, &s.entries); err != nil {
				return nil, fmt.Errorf("%s: %w", s.file, err)
			}
		}
		edit()
		data, err := json.MarshalIndent(s.entries, "", "  ")
		return append(data, '\n'), err
	})
}

// hasKeyring reports whether this machine has a keyring. On Linux a keyring needs a session bus; a
// query without one would start a bus. KNACK_KEYRING=file turns the keyring off.
func (s Keys) hasKeyring() bool {
	if s.env.Get("KNACK_KEYRING") == "file" {
		return false
	}
	return runtime.GOOS != "linux" || s.env.Get("DBUS_SESSION_BUS_ADDRESS") != ""
}

// CheckProvider returns an error for a name that is not a provider's.
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

// checkKey trims a key and returns an error if it cannot be one.
func checkKey(key string) (string, error) {
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return "", errors.New("no key was given")
	case strings.HasPrefix(key, "/"):
		return "", errors.New("a key does not begin with a slash, but a command or a path does")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("a key has no spaces and no special characters")
	}
	return key, nil
}

// minKey is shorter than the keys of all vendors.
const minKey = 20

// CheckKey returns an error for a text that cannot be a key of a provider. Keys for a vendor's own server must have the
// vendor's form; a server that replaces it may use others. It sends nothing.
func (m *Models) CheckKey(provider, key string) error {
	if err := CheckProvider(provider); err != nil {
		return err
	}
	key, err := checkKey(key)
	if err != nil {
		return err
	}
	p, e, _ := m.provider(provider)
	if e.BaseURL != p.Base || p.Local || p.Configured {
		return nil
	}
	if len(key) >= minKey && (len(p.KeyPrefix) == 0 || slices.ContainsFunc(p.KeyPrefix, func(prefix string) bool {
		return strings.HasPrefix(key, prefix)
	})) {
		return nil
	}
	form := fmt.Sprintf("have %d characters or more", minKey)
	if len(p.KeyPrefix) > 0 {
		form = "begin with " + strings.Join(p.KeyPrefix, " or ") + " and " + form
	}
	return fmt.Errorf("keys of %s %s", models.Vendor(provider), form)
}

// KeyProblems reports the keys in use that do not have the form of their provider's keys. It contacts no provider.
func (m *Models) KeyProblems() (problems []knack.Problem) {
	keys := OpenKeys(m.Env)
	for _, s := range m.Servers() {
		p, _, _ := m.provider(s.Provider)
		hint := "knack login " + s.Provider
		key, from := p.EnvKey(m.getenv)
		switch {
		case p.KeyHelper != "", from == p.TokenEnv && from != "":
			continue
		case key == "":
			if key, _ = keys.Get(s.Provider); key == "" {
				continue
			}
		default:
			hint = "export " + from + "=…, or unset it, and " + hint
		}
		if err := m.CheckKey(s.Provider, key); err != nil {
			problems = append(problems, knack.Problem{Code: knack.CodeKeyInvalid, Severity: knack.Warn,
				Message: fmt.Sprintf("the key of %s (%s) cannot be right: %v", s.Provider, s.Key, err), Hint: hint})
		}
	}
	return problems
}

// TryKey asks a provider for the list of its models with a key: one request, which costs nothing and takes at most some
// seconds. The error is [models.ErrKeyRefused] if the provider does not accept the key; others say why it could not be
// tested.
func (m *Models) TryKey(ctx context.Context, provider, key string) error {
	p, e, format := m.provider(provider)
	if p.Cloud != "" {
		return fmt.Errorf("%s gives no list of models here", p.Name)
	}
	var err error
	if e.Client, err = m.client(cmp.Or(p.Proxy, m.Proxy)); err != nil {
		return err
	}
	e.Key = strings.TrimSpace(key)
	_, err = models.List(ctx, &e, format)
	return err
}

// provider returns a provider of the tables, and how it is reached.
func (m *Models) provider(name string) (models.Provider, llm.Endpoint, models.Format) {
	table := models.Known(m.Tables...)
	p, _ := table.Provider(name)
	e, format := table.Endpoint(p, "", m.ownVariable)
	return p, e, format
}
