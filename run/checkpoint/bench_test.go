package checkpoint

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// BenchmarkTree is what a command costs in a repository of 5,000 files and in a clone of this one, beside one `git
// status`. The two run in turns, and the shortest time of each counts, so that a busy machine tells the same as an idle
// one. What is kept before a command may take 1.5 times as long as git.
func BenchmarkTree(b *testing.B) {
	if _, err := exec.LookPath("git"); err != nil {
		b.Skip("git is not installed")
	}
	b.Run("files", func(b *testing.B) {
		w := newWorld(b, true, nil)
		for i := range 5000 {
			w.write(filepath.Join("d"+strconv.Itoa(i%100), strconv.Itoa(i)), "content "+strconv.Itoa(i))
		}
		w.git("add", ".")
		w.git("commit", "-qm", "all")
		w.cost(b)
	})
	b.Run("clone", func(b *testing.B) {
		w := newWorld(b, true, nil)
		if _, err := runGit(".")(b.Context(), nil, nil, "rev-parse", "HEAD"); err != nil {
			b.Skip("this is not a clone of the repository")
		}
		here, err := filepath.Abs("../..")
		if err != nil {
			b.Fatal(err)
		}
		w.git("fetch", "-q", "--depth=1", "file://"+here, "HEAD")
		w.git("reset", "-q", "--hard", "FETCH_HEAD")
		w.cost(b)
	})
}

func (w *world) cost(b *testing.B) {
	for i := range 20 {
		w.write("untracked"+strconv.Itoa(i), "x")
	}
	time.Sleep(racy) // from now on neither git nor the journal reads files whose times say that they did not change
	w.git("status")
	w.turn()
	least := map[string]time.Duration{}
	timed := func(what string, f func() error) {
		start := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		least[what] = min(cmp.Or(least[what], time.Hour), time.Since(start))
	}
	for b.Loop() {
		timed("status", func() error {
			cmd := exec.Command("git", "status", "--porcelain")
			cmd.Dir, cmd.Env, cmd.Stderr = w.root, gitEnv(), os.Stderr
			return cmd.Run()
		})
		var step *Step
		timed("before", func() (err error) {
			step, err = w.j.Tree(b.Context(), "bash")
			return err
		})
		timed("after", func() error { return step.End(b.Context()) })
	}
	for _, what := range []string{"before", "after"} {
		b.ReportMetric(float64(least[what])/float64(least["status"]), what+"/status")
	}
	b.ReportMetric(float64(least["status"].Microseconds())/1000, "ms-status")
}
