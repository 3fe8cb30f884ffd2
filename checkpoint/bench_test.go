package checkpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// BenchmarkTree is what a command costs in a repository of 5,000 files, beside one `git status`.
func BenchmarkTree(b *testing.B) {
	if _, err := exec.LookPath("git"); err != nil {
		b.Skip("git is not installed")
	}
	w := newWorld(b, true, nil)
	for i := range 5000 {
		w.write(filepath.Join("d"+strconv.Itoa(i%100), strconv.Itoa(i)), "content "+strconv.Itoa(i))
	}
	w.git("add", ".")
	w.git("commit", "-qm", "all")
	for i := range 20 {
		w.write("untracked"+strconv.Itoa(i), "x")
	}
	w.turn()
	b.Run("step", func(b *testing.B) {
		for b.Loop() {
			w.command(func() {})
		}
	})
	b.Run("before", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.j.Tree(b.Context(), "bash"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("status", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command("git", "status", "--porcelain")
			cmd.Dir, cmd.Env = w.root, gitEnv()
			cmd.Stderr = os.Stderr
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
