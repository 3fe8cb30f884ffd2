package userdirs

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestFrom: no directory is relative, whatever the environment, and without an absolute home directory there are
// none.
func TestFrom(t *testing.T) {
	home := t.TempDir()
	other := t.TempDir()
	for _, c := range []struct {
		name    string
		env     map[string]string
		want    Dirs
		ignored []string
	}{
		{"home", map[string]string{HomeVariable(): home}, Dirs{
			Home: home, ConfigHome: filepath.Join(home, ".config"), Config: filepath.Join(home, ".config/knack"),
			State: filepath.Join(home, ".local/state/knack"), Data: filepath.Join(home, ".local/share/knack"),
			Claude: filepath.Join(home, ".claude")}, nil},
		{"xdg", map[string]string{HomeVariable(): home, "XDG_CONFIG_HOME": other, "XDG_STATE_HOME": other + "/",
			"XDG_DATA_HOME": other, "CLAUDE_CONFIG_DIR": other}, Dirs{
			Home: home, ConfigHome: other, Config: filepath.Join(other, "knack"),
			State: filepath.Join(other, "knack"), Data: filepath.Join(other, "knack"), Claude: other}, nil},
		{"relative xdg", map[string]string{HomeVariable(): home, "XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": "../x",
			"XDG_DATA_HOME": ".", "CLAUDE_CONFIG_DIR": "c"}, Dirs{
			Home: home, ConfigHome: filepath.Join(home, ".config"), Config: filepath.Join(home, ".config/knack"),
			State: filepath.Join(home, ".local/state/knack"), Data: filepath.Join(home, ".local/share/knack"),
			Claude: filepath.Join(home, ".claude")}, []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME",
			"CLAUDE_CONFIG_DIR"}},
		{"nothing", nil, Dirs{}, nil},
		{"empty", map[string]string{HomeVariable(): ""}, Dirs{}, nil},
		{"relative home", map[string]string{HomeVariable(): "home"}, Dirs{}, []string{HomeVariable()}},
		{"dot", map[string]string{HomeVariable(): "."}, Dirs{}, []string{HomeVariable()}},
		{"tilde", map[string]string{HomeVariable(): "~"}, Dirs{}, []string{HomeVariable()}},
		{"xdg without home", map[string]string{"XDG_CONFIG_HOME": other, "XDG_STATE_HOME": other, "CLAUDE_CONFIG_DIR": other},
			Dirs{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := From(func(name string) string { return c.env[name] })
			if !slices.Equal(got.Ignored, c.ignored) {
				t.Errorf("ignored %q, want %q", got.Ignored, c.ignored)
			}
			got.Ignored = nil
			if gotText, wantText := [6]string{got.Home, got.ConfigHome, got.Config, got.State, got.Data, got.Claude},
				[6]string{c.want.Home, c.want.ConfigHome, c.want.Config, c.want.State, c.want.Data,
					c.want.Claude}; gotText != wantText {
				t.Errorf("got %q, want %q", gotText, wantText)
			}
		})
	}
}

// TestEnviron: absolute values stay, relative and empty ones are removed.
func TestEnviron(t *testing.T) {
	home := t.TempDir()
	got := Environ([]string{HomeVariable() + "=" + home, "XDG_CONFIG_HOME=.config", "XDG_STATE_HOME=", "PATH=bin",
		"CLAUDE_CONFIG_DIR=x",
		"GIT_CONFIG_GLOBAL=x", "GIT_CONFIG_SYSTEM="})
	if want := []string{HomeVariable() + "=" + home, "PATH=bin", "GIT_CONFIG_SYSTEM="}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEnvironOf: the values are the other user's, and of the process's own environment only PATH and similar
// variables remain.
func TestEnvironOf(t *testing.T) {
	home := t.TempDir()
	t.Setenv(HomeVariable(), t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("A_TOKEN", "process")
	t.Setenv("B_TOKEN", "process")
	environ := EnvironOf(func(name string) string {
		return map[string]string{HomeVariable(): home, "XDG_STATE_HOME": "state", "A_TOKEN": "other"}[name]
	})
	getenv := Getenv(environ)
	for name, want := range map[string]string{
		HomeVariable(): home, "XDG_CACHE_HOME": "", "XDG_STATE_HOME": "", "A_TOKEN": "other", "B_TOKEN": "",
		"PATH": Getenv(nil)("PATH"),
	} {
		if got := getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := EnvironOf(func(string) string { return "" }); got == nil {
		t.Error("nil is the environment of the process")
	}
}
