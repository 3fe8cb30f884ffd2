package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestFeatures: the environment turns on features, except those that settings turn off.
func TestFeatures(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("managed/settings.json", `{"features": {"dream": false}}`)
	write("config/settings.json", `{"features": {"dream": true, "mine": true, "shut": false}}`)
	c, err := config.Load(config.Options{Managed: []string{filepath.Join(dir, "managed")},
		ConfigHome: filepath.Join(dir, "config"), Dir: dir, Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	on := features(c, "dream, night,shut")
	var names []string
	for name, open := range on {
		if open {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "mine night" {
		t.Errorf("enabled: %q (settings: %v)", got, c.Settings.Features)
	}
	if c.Settings.Features["night"] {
		t.Error("the settings value was changed")
	}
}

// TestOtherUser: the secrets of the user in Env are hidden, and those of the user who runs the process. Found by
// attack: commands could read what checkpoints keep of .env files and of other projects.
func TestOtherUser(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	env := Env(func(name string) string { return map[string]string{"HOME": home, "USERPROFILE": home}[name] })
	policy, err := defaultPolicy(dir, env)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{home, Env(nil).Home()} {
		secret := filepath.Join(user, ".ssh")
		if user != "" && !slices.Contains(policy.Secrets, secret) {
			t.Errorf("%s is not hidden: %q", secret, policy.Secrets)
		}
	}
	if kept := filepath.Join(home, ".local", "state", "knack", "checkpoints"); !slices.Contains(policy.Secrets, kept) {
		t.Errorf("%s is not hidden: %q", kept, policy.Secrets)
	}
	if own := filepath.Join(home, ".local", "state", "knack"); !slices.Contains(policy.Own, own) {
		t.Errorf("%s can be written: %q", own, policy.Own)
	}
	key := filepath.Join(home, ".ssh", "id_rsa")
	if err := errors.Join(os.Mkdir(filepath.Dir(key), 0o700), os.WriteFile(key, []byte("PRIVATE"), 0o600)); err != nil {
		t.Fatal(err)
	}
	m := llmtest.New(llmtest.Use("read", map[string]any{"path": key}), llmtest.Reply("no"))
	e, err := Open(t.Context(), Options{Dir: dir, Env: env, Model: m, Values: map[string]any{"sandbox.mode": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.Start(t.Context(), nil, SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range s.Run(t.Context(), agent.Typed("read it")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Ended != nil && (!ev.Ended.Result.IsError || strings.Contains(llm.TextOf(ev.Ended.Result.Parts), "PRIVATE")) {
			t.Error("another user's key was read")
		}
	}
}
