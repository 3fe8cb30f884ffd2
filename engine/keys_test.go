package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"
)

// TestKeyring: where a keyring exists, the key is stored only there; where it fails, the key is in a file that only
// its owner can read.
func TestKeyring(t *testing.T) {
	state := t.TempDir()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	t.Setenv("KNACK_KEYRING", "")
	file := filepath.Join(state, "knack", "keys.json")

	keyring.MockInit()
	if err := OpenKeys(nil).Set("anthropic", "sk-1"); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || strings.Contains(string(data), "sk-1") {
		t.Errorf("the file has the key: %s, %v", data, err)
	}
	if k, err := OpenKeys(nil).Get("anthropic"); k != "sk-1" || err != nil {
		t.Errorf("got %q, %v", k, err)
	}
	if err := OpenKeys(nil).Remove("anthropic"); err != nil {
		t.Error(err)
	}
	if _, err := keyring.Get(keyringService, "anthropic"); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("still in the keyring: %v", err)
	}

	keyring.MockInitWithError(errors.New("locked"))
	if err := OpenKeys(nil).Set("openai", "sk-2"); err != nil {
		t.Fatal(err)
	}
	if k, err := OpenKeys(nil).Get("openai"); k != "sk-2" || err != nil {
		t.Errorf("got %q, %v", k, err)
	}
	if fi, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}

	// A file that cannot be parsed is not overwritten.
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := OpenKeys(nil).Set("openai", "sk-3"); err == nil {
		t.Error("a broken file was overwritten")
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
