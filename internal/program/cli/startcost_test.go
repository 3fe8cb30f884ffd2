package cli

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	udiff "github.com/aymanbagabas/go-udiff"
)

const ourModule = "github.com/knack-agent/knack"

// linked lists the packages of the program for a platform.
func linked(t *testing.T, goos, goarch string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", ourModule+"/cmd/knack")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// TestLinkedPackages compares the external packages in the program with a list: each makes every start slower and the
// binary larger, so a new one is a decision (docs/design.md, Dependencies; -update rewrites the list).
func TestLinkedPackages(t *testing.T) {
	var got strings.Builder
	for _, p := range slices.Sorted(slices.Values(linked(t, "linux", "amd64"))) {
		first, _, _ := strings.Cut(p, "/")
		if strings.Contains(first, ".") && p != ourModule && !strings.HasPrefix(p, ourModule+"/") {
			got.WriteString(p + "\n")
		}
	}
	matchesList(t, "testdata/linked.txt", got.String(), "the packages in the program have changed")
}

// matchesList compares a text with the list in a file, which -update writes.
func matchesList(t *testing.T, file, got, changed string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := udiff.Unified("list", "now", string(want), got); d != "" {
		t.Errorf("%s; -update accepts them:\n%s", changed, d)
	}
}

// TestInitCost limits what package variables allocate before main runs: in total, and for each of our packages, which
// can build their tables on first use. Times would depend on the machine.
func TestInitCost(t *testing.T) {
	ours := map[string]bool{} // packages of the program; this test binary contains more
	for _, p := range linked(t, runtime.GOOS, runtime.GOARCH) {
		ours[p] = p == ourModule || strings.HasPrefix(p, ourModule+"/")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A goroutine that an earlier package started may allocate while another is initialized: the least of some runs
	// is what a package needs.
	type cost struct{ allocs, bytes int }
	least := map[string]cost{}
	for range 5 {
		var trace bytes.Buffer
		cmd := exec.Command(exe, "--version")
		cmd.Args[0] = "knack" // with this name TestMain runs the program
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1", "HOME="+t.TempDir())
		cmd.Stderr = &trace
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, trace.String())
		}
		// init PACKAGE @0.1 ms, 0.01 ms clock, 512 bytes, 6 allocs
		for lines := bufio.NewScanner(&trace); lines.Scan(); {
			f := strings.Fields(lines.Text())
			if len(f) != 11 || f[0] != "init" {
				continue
			}
			if _, in := ours[f[1]]; !in {
				continue
			}
			size, _ := strconv.Atoi(f[7])
			n, err := strconv.Atoi(f[9])
			if err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			if c, seen := least[f[1]]; !seen || n < c.allocs {
				least[f[1]] = cost{n, size}
			}
		}
	}
	const all, ownAll, own, bytesAll = 4500, 270, 30, 850_000
	seen, allocs, ownAllocs, size := len(least), 0, 0, 0
	for name, c := range least {
		allocs, size = allocs+c.allocs, size+c.bytes
		if ours[name] {
			ownAllocs += c.allocs
			if c.allocs > own {
				t.Errorf("package %s allocates %d times before main, more than %d", name, c.allocs, own)
			}
		}
	}
	t.Logf("%d packages: %d allocations, %d bytes; ours: %d allocations", seen, allocs, size, ownAllocs)
	if seen < 20 {
		t.Fatalf("only %d packages in the trace", seen)
	}
	if allocs > all || ownAllocs > ownAll || size > bytesAll {
		t.Errorf("before main: %d allocations (at most %d), %d bytes (at most %d), ours: %d allocations (at most %d)",
			allocs, all, size, bytesAll, ownAllocs, ownAll)
	}
}

// TestTreeCost limits what the command tree allocates to run one command.
func TestTreeCost(t *testing.T) {
	for args, most := range map[string]float64{"--version": 400, "-p hello": 400, "skill list": 1350} {
		args := strings.Fields(args)
		if n := testing.AllocsPerRun(5, func() { rootCommand(args) }); n > most {
			t.Errorf("knack %v: the tree takes %.0f allocations, more than %.0f", args, n, most)
		}
	}
}

// TestPromptCost limits what a prompt costs before the project is read: the check for misspelt commands builds no
// commands, and the agent that knows the help pages is made without parsing.
func TestPromptCost(t *testing.T) {
	root := rootCommand(strings.Fields("-p hello"))
	for _, c := range []struct {
		name string
		most float64
		f    func()
	}{
		{"mistyped", 60, func() {
			if err := mistyped(root, strings.Fields("please improve the docs")); err != nil {
				t.Error(err)
			}
		}},
		{"guide", 60, func() { guide() }},
	} {
		if n := testing.AllocsPerRun(5, c.f); n > c.most {
			t.Errorf("%s: %.0f allocations, more than %.0f", c.name, n, c.most)
		} else {
			t.Logf("%s: %.0f allocations", c.name, n)
		}
	}
}

// TestTreeIsWhole: each command is found when it is typed, after flags too, and help, man pages and completion
// include all of them.
func TestTreeIsWhole(t *testing.T) {
	for _, c := range commands() {
		for _, args := range [][]string{{c.name}, {"--debug", c.name, "x"}} {
			if found, _, err := rootCommand(args).Find(args); err != nil || found.Name() != c.name {
				t.Errorf("knack %v: found %s, %v", args, found.Name(), err)
			}
		}
		for _, line := range []string{"help", "--help", "-h", "-ph", "man x", "completion bash", "__complete x"} {
			found, _, err := rootCommand(strings.Fields(line)).Find([]string{c.name})
			if err != nil || found.Name() != c.name {
				t.Errorf("knack %s has no command %s", line, c.name)
			}
		}
	}
}
