//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/knack-agent/knack/workspace"
)

// TestSpareRandomChanges changes the project at random while a launcher waits. The next command must be able to read
// and write the same as one of a sandbox whose launchers never wait. It takes two seconds for each of SPARE_CHANGES=N
// sequences.
func TestSpareRandomChanges(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("SPARE_CHANGES"))
	if n == 0 {
		t.Skip("not tested: SPARE_CHANGES is not set")
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	b := newFixture(t).on(namespaces)
	other := &fixture{t: t, home: b.home, dir: b.dir, box: newBox(t, b.box.policy)}
	other.box.system.closed.Store(true) // no launcher waits
	var err error
	if other.local, err = workspace.NewLocal(b.dir); err != nil {
		t.Fatal(err)
	}
	other.local.Confine = other.box.Confine
	t.Cleanup(func() { other.local.Close() })

	used, all := 0, ""
	for range n {
		b.spare()
		other.run("true")
		for range 1 + random.IntN(3) {
			all += changeAtRandom(random, b.dir) + "\n"
		}
		if random.IntN(2) == 0 {
			settled()
		}
		const probe = `find . "$HOME/.ssh" "$HOME/other" -print 2>&1 | grep -v /proc/ | sort | while read -r f; do
				r=; w=
				[ -f "$f" ] && { r=$(cat "$f" 2>&1); { : >>"$f"; } 2>/dev/null && w=writable; }
				[ -d "$f" ] && { mkdir "$f/probe" 2>/dev/null && rmdir "$f/probe" && w=writable; }
				echo "$f: $r $w"
			done; ls -ld .env sub/.env .git/config 2>&1 | cut -d' ' -f1; umask; ulimit -a; nice; cat /proc/self/oom_score_adj
			ls /tmp /dev/shm; grep -E '^(Cap|Seccomp|NoNew|Sig)' /proc/self/status; cat /proc/self/cgroup`
		b.box.system.started = func() { used-- }
		got, _ := b.run(probe)
		b.box.system.started = nil
		used++
		if want, _ := other.run(probe); got != want {
			t.Fatalf("seed %d: after\n%sa command of a waiting launcher sees\n%s\nwithout one it sees\n%s", seed, all, got, want)
		}
	}
	t.Logf("the launcher that waited was used %d of %d times", used, n)
}

// changeAtRandom changes something in a directory, and returns what.
func changeAtRandom(random *rand.Rand, root string) string {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	dir := pick(".", "sub", "a", "a/b", "node_modules", "away", "node_modules/c")
	name := pick(".env", ".env.local", ".mcp.json", ".vscode", ".claude", ".husky", ".git", "main.txt", "f", ".git/config",
		".git/hooks/old", ".vscode/x.json")
	path := filepath.Join(root, dir, name)
	to := filepath.Join(root, pick(".", "sub", "a", "a/b", "node_modules", "away"),
		pick("sub", "a", "away", "x", ".env", "f"))
	switch random.IntN(9) {
	case 0:
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, fmt.Appendf(nil, "SECRET %d", random.IntN(100)), 0o644)
		return "write " + path
	case 1: // as editors do
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path+"~", fmt.Appendf(nil, "SECRET %d", random.IntN(100)), 0o644)
		os.Rename(path+"~", path)
		return "replace " + path
	case 2:
		if dir+name != "." {
			os.RemoveAll(path)
		}
		return "remove " + path
	case 3:
		os.Mkdir(filepath.Join(root, dir), 0o755)
		os.Rename(filepath.Join(root, dir), to)
		return "move " + dir + " to " + to
	case 4:
		os.Rename(path, to)
		return "move " + path + " to " + to
	case 5:
		os.MkdirAll(path, 0o755)
		os.WriteFile(filepath.Join(path, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644)
		os.WriteFile(filepath.Join(path, "config"), []byte("[core]\n"), 0o644)
		return "mkdir " + path
	case 6:
		os.Remove(path)
		os.Symlink(pick("main.txt", "../main.txt", "sub", "../sub/.env.local", filepath.Join(root, ".env")), path)
		return "link " + path
	case 7:
		os.Chmod(path, os.FileMode([]int{0, 0o600, 0o644, 0o755}[random.IntN(4)]))
		return "chmod " + path
	}
	os.Link(path, to)
	return "hard link " + path + " to " + to
}
