package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestProgramLink: sessions that begin at the same time all find the program, and nothing else is left beside it.
func TestProgramLink(t *testing.T) {
	dir := t.TempDir()
	o := Options{Env: func(name string) string {
		return map[string]string{"HOME": dir, "XDG_STATE_HOME": dir}[name]
	}}
	o.Program.Path = filepath.Join(dir, "program")
	if os.Symlink(o.Program.Path, filepath.Join(dir, "link")) != nil {
		t.Skip("no links can be made")
	}
	link := o.Env.StateFile("program")
	for range 50 {
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if environ := withProgram(&o, []string{"PATH=/bin"}); !slices.ContainsFunc(environ, func(v string) bool {
					return strings.HasSuffix(v, link)
				}) {
					t.Errorf("the environment is %q", environ)
				}
			})
		}
		all.Wait()
		if to, err := os.Readlink(filepath.Join(link, "knack")); err != nil || to != o.Program.Path {
			t.Errorf("the link leads to %q: %v", to, err)
		}
		if left, err := os.ReadDir(link); err != nil || len(left) != 1 {
			t.Errorf("%v %v", left, err)
		}
	}
}
