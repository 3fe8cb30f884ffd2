package git_test

import (
	"slices"
	"testing"

	"github.com/knack-agent/knack/confine/git"
)

// TestEnv: overrides are numbered after those of the environment, so that git follows ours, and what would lead git
// elsewhere is left out.
func TestEnv(t *testing.T) {
	got := git.Env([]string{"A=b", "GIT_DIR=/x", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=k", "GIT_CONFIG_VALUE_0=v",
		"GIT_EXTERNAL_DIFF=rm"}, []git.Setting{{"core.pager", "cat"}})
	want := []string{"A=b", "GIT_CONFIG_KEY_0=k", "GIT_CONFIG_VALUE_0=v", "GIT_CONFIG_KEY_1=core.pager",
		"GIT_CONFIG_VALUE_1=cat", "GIT_CONFIG_COUNT=2", "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_TERMINAL_PROMPT=0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNone: without a directory that has git, nothing is started.
func TestNone(t *testing.T) {
	if _, err := (git.Runner{Path: t.TempDir()}).Ask(t.Context(), t.TempDir(), 1, "version"); err == nil ||
		err.Error() != "git is not installed" {
		t.Error(err)
	}
}
