package search

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/knack-agent/knack/internal/leaf/ignore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, dir string) Dir {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func paths() func(*Found) []string {
	return func(e *Found) []string {
		if e.Type.IsDir() {
			return []string{e.Path() + "/"}
		}
		return []string{e.Path()}
	}
}

func TestEachInOrder(t *testing.T) {
	var files []string
	for i := range 300 {
		files = append(files, fmt.Sprintf("d%d/e%d/f%03d", i%3, i%7, i), fmt.Sprintf("flat/%03d", i))
	}
	files = append(files, ".git/config", "sub/.git", ".hidden", "b.txt", "node/x", ".gitignore=node/\n*.log\n", "a.log",
		"d1/.ignore=e4\n")
	dir := tree(t, files...)
	var want []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		rel = filepath.ToSlash(rel)
		switch {
		case rel == ".":
		case e.Name() == ".git" && e.IsDir() || rel == "node" || rel == "d1/e4":
			return filepath.SkipDir
		case e.Name() == ".git" || rel == "a.log":
		case e.IsDir():
			want = append(want, rel+"/")
		default:
			want = append(want, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w := Walk{Root: open(t, dir), Ignore: ignore.New(os.DirFS(dir)).Root()}
	got := slices.Collect(Each(t.Context(), w, paths))
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// Breaking out after n entries yields the first n, and no goroutine remains.
	for _, n := range []int{1, 64, 65, 300} {
		var some []string
		for p := range Each(t.Context(), w, paths) {
			if some = append(some, p); len(some) == n {
				break
			}
		}
		if !slices.Equal(some, want[:n]) {
			t.Errorf("first %d: %q", n, some)
		}
	}
}

func TestEachCancel(t *testing.T) {
	dir := tree(t, "a/b/c", "d")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for range Each(ctx, Walk{Root: open(t, dir)}, paths) {
		n++
		cancel()
	}
	if n != 1 { // the other three are in other batches
		t.Errorf("%d entries after cancelling at the first of 4", n)
	}
}

func TestEachLeavesNoDescriptor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts descriptors in /proc, which only Linux has")
	}
	dir := tree(t, "a/b/c/d/e", "a/b/f", "g/h")
	d := open(t, dir)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := count()
	for range Each(t.Context(), Walk{Root: d}, paths) {
	}
	for range Each(t.Context(), Walk{Root: d}, paths) {
		break
	}
	if after := count(); after > before { // fewer: the garbage collector closed files of another test
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestEachProblems(t *testing.T) {
	dir := tree(t, "a/b", "locked/x", "z")
	if err := os.Chmod(filepath.Join(dir, "locked"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "locked"), 0o700) }) // so that it can be removed
	if _, err := os.ReadDir(filepath.Join(dir, "locked")); err == nil {
		t.Skip("this user may read everything")
	}
	var mu sync.Mutex
	var problems []string
	w := Walk{Root: open(t, dir), Problem: func(path string, err error) {
		mu.Lock()
		defer mu.Unlock()
		problems = append(problems, path)
	}}
	got := slices.Collect(Each(t.Context(), w, paths))
	if !slices.Equal(got, []string{"a/", "a/b", "locked/", "z"}) || !slices.Equal(problems, []string{"locked"}) {
		t.Errorf("%q, problems %q", got, problems)
	}
}

// Nothing is opened through a link, not even one that replaced a file.
func TestOpenDirNoFollow(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("os.Root follows links within the tree; the walk never asks it to")
	}
	dir := tree(t, "real/x", "out=secret")
	if err := os.Symlink("real", filepath.Join(dir, "linkdir")); err != nil {
		t.Skip("symbolic links do not work on this system: ", err)
	}
	if err := os.Symlink("out", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir)
	if sub, err := d.Enter("linkdir"); err == nil {
		sub.Close()
		t.Error("a link was entered")
	}
	if f, err := d.Open("link"); err == nil {
		f.Close()
		t.Error("a link was opened")
	} else if runtime.GOOS == "linux" && !errors.Is(err, syscall.ELOOP) {
		t.Errorf("link: %v", err)
	}
	if d, err := OpenDir(filepath.Join(dir, "linkdir")); !errors.Is(err, ErrLink) {
		t.Errorf("OpenDir of a link: %v, %v", d, err)
	}
}
