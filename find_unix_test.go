//go:build unix

package knack_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/knack-agent/knack"
)

// On a full disk (here: a limit on the size of files, in another process) the index that exists stays as it was,
// nothing else is left behind, the error says why, and skills are found.
func TestFinderDiskFull(t *testing.T) {
	const skills, state = "KNACK_TEST_SKILLS", "KNACK_TEST_STATE"
	if os.Getenv(state) != "" {
		findWithoutSpace(t, os.Getenv(skills), os.Getenv(state))
		return
	}
	dir, index := many(t, 40), filepath.Join(t.TempDir(), "state")
	cat := knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	if err := (&knack.Finder{Dir: index}).Prepare(t.Context(), cat); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(index, "skills.index"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		var text strings.Builder
		fmt.Fprintf(&text, "---\ndescription: New %d\n---\nfresh%d\n", i, i)
		for j := range 100 {
			fmt.Fprintf(&text, "word%dx%d ", i, j)
		}
		path := filepath.Join(dir, fmt.Sprintf("skill-%03d", i), "SKILL.md")
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFinderDiskFull$")
	cmd.Env = append(os.Environ(), skills+"="+dir, state+"="+index)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	after, _ := os.ReadFile(filepath.Join(index, "skills.index"))
	if entries, _ := os.ReadDir(index); !bytes.Equal(before, after) || len(entries) != 1 {
		t.Errorf("the index has %d bytes, had %d; files: %v", len(after), len(before), entries)
	}
	f := &knack.Finder{Dir: index}
	if found, err := f.Find(t.Context(), cat, "matter35", 1, nil); err != nil ||
		strings.Join(names(found), "") != "skill-035" {
		t.Errorf("with the old index: %v %v", names(found), err)
	}
}

func findWithoutSpace(t *testing.T, dir, state string) {
	limit := syscall.Rlimit{Cur: 8 << 10, Max: 8 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	cat := knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	f := &knack.Finder{Dir: state}
	if err := f.Prepare(t.Context(), cat); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("%v, want %v", err, syscall.EFBIG)
	}
	for query, want := range map[string]string{"fresh7": "skill-007", "matter35": "skill-035"} {
		if found, err := f.Find(t.Context(), cat, query, 1, nil); err != nil || strings.Join(names(found), "") != want {
			t.Errorf("%s: %v %v", query, names(found), err)
		}
	}
}

// A SKILL.md may be a link. One that became a pipe or a directory is found by its name, without waiting for a writer.
func TestFindLinksAndPipes(t *testing.T) {
	dir := writeSkills(t, map[string]string{
		"linked": "---\ndescription: One\n---\nkumquat\n",
		"pipe":   "---\ndescription: Two\n---\nrutabaga\n",
		"folder": "---\ndescription: Three\n---\npersimmon\n",
	})
	file := func(name string) string { return filepath.Join(dir, name, "SKILL.md") }
	if err := errors.Join(os.Rename(file("linked"), filepath.Join(dir, "linked", "text.md")),
		os.Symlink("text.md", file("linked"))); err != nil {
		t.Fatal(err)
	}
	cat := knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	if err := errors.Join(os.Remove(file("pipe")), syscall.Mkfifo(file("pipe"), 0o600),
		os.Remove(file("folder")), os.Mkdir(file("folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"kumquat": "linked", "pipe": "pipe", "folder": "folder", "rutabaga": "", "persimmon": "",
	} {
		found, err := cat.Find(t.Context(), query, 1)
		if got := strings.Join(names(found), " "); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", query, got, err, want)
		}
	}
}
