package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestHost uses the program: its command, its skill with a script, and a question.
func TestHost(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script of the skill needs sh")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, dir := range map[string]string{"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state",
		"XDG_DATA_HOME": ".local/share"} {
		t.Setenv(name, filepath.Join(home, dir))
	}
	t.Chdir(t.TempDir())
	var out strings.Builder
	in := strings.NewReader("/hello Ada\n/skills\n/greet Ada\n/new\n/session\n/quit\nnot read\n")
	if err := run(t.Context(), []string{"--offline"}, in, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Hello Ada, this is session ", "greet ", "a new session: ", "model        offline",
		"greet.sh"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "not read") || strings.Contains(out.String(), "{baseDir}") {
		t.Errorf("%s", out.String())
	}
}
