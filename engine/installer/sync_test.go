package installer_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
)

type anything struct{}

func (anything) CheckSource(*plugin.Source) error   { return nil }
func (anything) NameTaken(string, string) string    { return "" }
func at(kind plugin.Kind, url string) *install.Item { return item(plugin.Source{Kind: kind, URL: url}) }
func item(from plugin.Source) *install.Item {
	files := install.Files{"SKILL.md": "sha256:" + strings.Repeat("0", 64)}
	return &install.Item{Source: from, Commit: strings.Repeat("0", 40), Dir: "skills/x", Files: files, Tree: files.Tree()}
}

// TestReachOfOthers: the answer about the addresses that were shown opens no address inside that was not shown, because it
// looks like one of a public server.
func TestReachOfOthers(t *testing.T) {
	root, home := t.TempDir(), t.TempDir()
	lock := install.Lock{Version: 1, Skills: map[string]*install.Item{
		"shown": at(plugin.Git, "file:///nowhere/x"), "hidden": at(plugin.Git, "https://127.0.0.1:1/x.git")}}
	data, err := lock.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".knack"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(install.SharedLock(root), data, 0o600); err != nil {
		t.Fatal(err)
	}
	x := &installer.Installer{Store: install.User(filepath.Join(home, "data"), filepath.Join(home, "config")), Root: root,
		Rules: anything{}}
	var asked []string
	_, err = x.Sync(t.Context(), installer.SyncOptions{Reach: func(_ context.Context, addresses []string) (bool, error) {
		asked = append(asked, addresses...)
		return true, nil
	}})
	if len(asked) != 1 || !strings.Contains(asked[0], "nowhere") {
		t.Errorf("asked about %q", asked)
	}
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1 is a loopback address and is not contacted") {
		t.Error(err)
	}
}
