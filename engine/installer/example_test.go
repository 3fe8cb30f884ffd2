package installer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
)

// A host program installs a skill, and asks its user in its own way.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example-*")
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "pdf")
	os.Mkdir(source, 0o700)
	os.WriteFile(filepath.Join(source, "SKILL.md"),
		[]byte("---\nname: pdf\ndescription: Reads PDF files.\n---\nRead it."), 0o600)

	p, err := engine.Load(ctx, engine.Options{Dir: dir, Env: func(name string) string {
		return map[string]string{"HOME": filepath.Join(dir, "home")}[name]
	}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	x, err := installer.New(p, func(_ context.Context, o installer.Offer) (bool, error) {
		fmt.Printf("May %s be installed? It has %d file.\n", o.ID, len(o.Staged.Files))
		return true, nil
	})
	if err != nil {
		panic(err)
	}
	name, err := x.Skill(ctx, source, "", installer.UserScope(p.Env()))
	fmt.Println(name, err)
	// Output:
	// May pdf be installed? It has 1 file.
	// pdf <nil>
}
