package plugin

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"
)

// TestLiving reads clones of public repositories, each a directory of $KNACK_TEST_REPOSITORIES: every list of plugins,
// and every directory with a manifest. It fails if an entry is lost without a problem, and logs what was found.
func TestLiving(t *testing.T) {
	dir := os.Getenv("KNACK_TEST_REPOSITORIES")
	if dir == "" {
		t.Skip("KNACK_TEST_REPOSITORIES names no directory with clones of public repositories")
	}
	repos, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var lists, entries, out, roots, skills, commands, agents, hooks, servers, empty, problems int
	for _, repo := range repos {
		root, err := os.OpenRoot(filepath.Join(dir, repo.Name()))
		if err != nil {
			continue
		}
		given := map[string]Options{} // by directory
		if m, err := ReadMarketplace(FS(root)); m != nil {
			if err != nil {
				t.Errorf("%s: %v", repo.Name(), err)
			}
			lists++
			entries += len(m.Entries)
			for _, p := range m.Problems {
				if p.Severity != "info" {
					out++
					t.Logf("%s: %s", repo.Name(), p)
				}
			}
			for _, e := range m.Entries {
				if e.Source.Kind == Path {
					given[e.Source.Path] = Options{Name: e.Name, Entry: e.JSON}
				}
			}
		}
		fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() && (e.Name() == ".git" || e.Name() == "node_modules") {
				return fs.SkipDir
			}
			if dir := path.Dir(path.Dir(name)); path.Base(name) == "plugin.json" && given[dir].Name == "" {
				given[dir] = Options{Name: path.Base(dir)}
			}
			return nil
		})
		for dir, o := range given {
			sub, err := root.OpenRoot(filepath.FromSlash(dir))
			if err != nil {
				t.Logf("%s: %s: %v", repo.Name(), dir, err)
				continue
			}
			p := Read(FS(sub), o)
			sub.Close()
			roots++
			skills, commands, agents = skills+len(p.Skills), commands+len(p.Commands), agents+len(p.Agents)
			hooks, servers = hooks+len(p.Hooks), servers+len(p.Servers)
			if p.IsEmpty() {
				t.Logf("EMPTY %s/%s %q %v", repo.Name(), dir, p.Manifest, p.Unused)
				empty++
			}
			for _, x := range p.Problems {
				if x.Severity != "info" {
					problems++
					t.Logf("%s/%s: %s", repo.Name(), dir, x)
				}
			}
		}
		root.Close()
	}
	t.Logf("%d repositories, %d lists with %d entries, %d left out; %d plugins (%d bring nothing) with %d places of skills, "+
		"%d of commands, %d agents, %d hooks, %d servers; %d problems", len(repos), lists, entries, out, roots, empty, skills,
		commands, agents, hooks, servers, problems)
}
