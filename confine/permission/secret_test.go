package permission

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Every pattern of the lists matches in any letter case, and for files in a directory of that name: the fast check
// before the patterns misses none.
func TestListsInAnyCase(t *testing.T) {
	place := PathContext{Dir: "/w", Home: "/h"}
	var protected []string
	for _, p := range ProtectedPaths() {
		protected = append(protected, p.Name)
	}
	for kind, list := range [][]string{Secrets(), protected} {
		for _, pat := range list {
			name := strings.ReplaceAll(strings.ReplaceAll(pat, "**", "7"), "*", "x")
			switch {
			case strings.HasPrefix(name, "~/"):
				name = "/h" + name[1:]
			case strings.HasPrefix(name, "//"):
				name = name[1:]
			default:
				name = "/w/d/" + name
			}
			title := name[:strings.LastIndexByte(name, '/')+1] + capital(name[strings.LastIndexByte(name, '/')+1:])
			for _, path := range []string{name, strings.ToUpper(name), title, name + "/1"} {
				n := pathNames{paths: []string{path}}
				if kind == 0 && place.secret(n) == "" || kind == 1 && place.protected(n) == "" {
					t.Errorf("%s is not on the list, though %s is", path, pat)
				}
			}
		}
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// A host that changes the lists it got changes no decision.
func TestListsAreCopies(t *testing.T) {
	clear(Secrets())
	if Secrets()[0] != ".env" {
		t.Error("the caller changed the built-in lists")
	}
}

// TestSecretFiles: the files that testdata/secrets.txtar says are secrets, and no others.
func TestSecretFiles(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/secrets.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	place := PathContext{Dir: dir, Home: dir + "/home"}
	for _, f := range archive.Files {
		want, name, _ := strings.Cut(f.Name, ": ")
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := place.Secret(file); got != (want != "open") {
			t.Errorf("%s (%s): secret %v", name, want, got)
		}
		if hidden := KeyFile(path.Base(name)); hidden != (want == "hidden") {
			t.Errorf("%s (%s): hidden in a project %v", name, want, hidden)
		}
		if want == "told" {
			there := PathContext{Resolve: func(_ context.Context, p string) (string, error) { return p, nil }}
			if !there.Secret(file) {
				t.Errorf("%s is open on another machine, where nobody has looked into it", name)
			}
		}
	}
}

// Directories with the name of a file of configuration are open, and such a file that cannot be read is a secret.
func TestToldByContent(t *testing.T) {
	dir := t.TempDir()
	place := PathContext{Dir: dir}
	os.MkdirAll(dir+"/kubeconfig/sub", 0o700)
	for _, name := range []string{"kubeconfig", "kubeconfig/sub", "kubeconfig/sub/x.go", "none/.git/config"} {
		if place.Secret(dir + "/" + name) {
			t.Errorf("%s is a secret", name)
		}
	}
	big := strings.Repeat("x\n", maxTold)
	os.WriteFile(dir+"/gradle.properties", []byte(big), 0o600)
	if !place.Secret(dir + "/gradle.properties") {
		t.Error("a file too large to look into is open")
	}
}

func BenchmarkSecret(b *testing.B) {
	secret := PathContext{Home: "/home/me"}.SecretFunc()
	for b.Loop() {
		secret("/home/me/src/project/internal/program/cli/session_export.go")
	}
}
