// Package workspacetest checks that a workspace implements its interface.
//
// Most programs start with package engine.
package workspacetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/knack-agent/knack/confine/workspace"
)

// Test runs the suite. open returns a workspace with a new empty directory on a system with a POSIX
// shell; the suite closes it.
func Test(t *testing.T, open func(t *testing.T) workspace.Workspace) {
	for _, c := range []struct {
		name string
		test func(*testing.T, workspace.Workspace)
	}{
		{"Files", files},
		{"FileErrors", fileErrors},
		{"Links", links},
		{"WriteKeeps", writeKeeps},
		{"ReadDir", readDir},
		{"Search", search},
		{"Run", run},
		{"RunErrors", runErrors},
		{"Background", background},
		{"Cancel", cancel},
		{"Close", closes},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t)
			defer w.Close()
			c.test(t, w)
		})
	}
}

func write(t *testing.T, w workspace.Workspace, path, data string) {
	t.Helper()
	if err := w.WriteFile(t.Context(), path, []byte(data)); err != nil {
		t.Fatalf("WriteFile %s: %v", path, err)
	}
}

func read(t *testing.T, w workspace.Workspace, path string) string {
	t.Helper()
	f, err := w.Open(t.Context(), path)
	if err != nil {
		t.Fatalf("Open %s: %v", path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return string(data)
}

// sh runs a line, which must succeed, and returns its output.
func sh(t *testing.T, w workspace.Workspace, line string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := w.Run(t.Context(), workspace.Command{Line: line, Output: &out})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%s: exit %d, %v\n%s", line, exit.Code, err, out.String())
	}
	return out.String()
}

func files(t *testing.T, w workspace.Workspace) {
	ctx := t.Context()
	for _, name := range []string{"a.txt", "deep/er/b.txt", "with blank/é 世界 'q' \"d\" $HOME `x`;*?.txt", "-rf",
		"new\nline"} {
		data := "one\x00\r\ntwo " + name
		write(t, w, name, data)
		if got := read(t, w, name); got != data {
			t.Errorf("%q holds %q, want %q", name, got, data)
		}
		if got := read(t, w, w.Path(name)); got != data {
			t.Errorf("%q, absolute, holds %q, want %q", name, got, data)
		}
		info, err := w.Stat(ctx, name)
		if err != nil || info.Size() != int64(len(data)) || !info.Mode().IsRegular() ||
			time.Since(info.ModTime()).Abs() > 24*time.Hour {
			t.Errorf("Stat %q: %v, %v", name, info, err)
		}
	}
	write(t, w, "empty", "")
	if got := read(t, w, "empty"); got != "" {
		t.Errorf("empty holds %q", got)
	}
	big := strings.Repeat("0123456789abcdef", 1<<16)
	write(t, w, "big", big)
	f, err := w.Open(ctx, "big")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(t, w, "big", "replaced") // the open file keeps the old content
	at := make([]byte, 20)
	if n, err := f.ReadAt(at, 1<<19); n != 20 || err != nil || string(at) != big[1<<19:1<<19+20] {
		t.Errorf("ReadAt: %d, %v, %q", n, err, at)
	}
	if n, err := f.ReadAt(at, int64(len(big))-4); n != 4 || err != io.EOF {
		t.Errorf("ReadAt at the end: %d, %v", n, err)
	}
	if off, err := f.Seek(-16, io.SeekEnd); err != nil || off != int64(len(big))-16 {
		t.Errorf("Seek: %d, %v", off, err)
	}
	if rest, err := io.ReadAll(f); err != nil || string(rest) != big[len(big)-16:] {
		t.Errorf("after Seek: %q, %v", rest, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != int64(len(big)) {
		t.Errorf("File.Stat: %v, %v", info, err)
	}
	if got := read(t, w, "big"); got != "replaced" {
		t.Errorf("big holds %.20q", got)
	}
}

func fileErrors(t *testing.T, w workspace.Workspace) {
	ctx := t.Context()
	write(t, w, "dir/file", "x")
	sh(t, w, "mkfifo fifo")
	_, open := w.Open(ctx, "nope")
	_, stat := w.Stat(ctx, "nope")
	_, lstat := w.Lstat(ctx, "no/pe")
	_, dir := w.ReadDir(ctx, "nope")
	for name, err := range map[string]error{"Open": open, "Stat": stat, "Lstat": lstat, "ReadDir": dir} {
		if !errors.Is(err, fs.ErrNotExist) || !isPathError(err) {
			t.Errorf("%s of nothing: %v", name, err)
		}
	}
	if _, err := w.Open(ctx, "dir"); !errors.Is(err, syscall.EISDIR) || !isPathError(err) {
		t.Errorf("Open of a directory: %v", err)
	}
	if _, err := w.Open(ctx, "fifo"); !errors.Is(err, workspace.ErrNotRegular) || !isPathError(err) {
		t.Errorf("Open of a FIFO: %v", err)
	}
	if err := w.WriteFile(ctx, "dir", nil); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("WriteFile of a directory: %v", err)
	}
	if err := w.WriteFile(ctx, "fifo", nil); !errors.Is(err, workspace.ErrNotRegular) {
		t.Errorf("WriteFile of a FIFO: %v", err)
	}
	if err := w.WriteFile(ctx, "dir/file/x", nil); err == nil || !isPathError(err) {
		t.Errorf("WriteFile below a file: %v", err)
	}
	if _, err := w.ReadDir(ctx, "dir/file"); err == nil {
		t.Error("ReadDir of a file succeeded")
	}
	if got := read(t, w, "dir/file"); got != "x" {
		t.Errorf("dir/file holds %q", got)
	}
}

func isPathError(err error) bool {
	var pe *fs.PathError
	return errors.As(err, &pe)
}

func links(t *testing.T, w workspace.Workspace) {
	ctx := t.Context()
	write(t, w, "real/file", "x")
	sh(t, w, "ln -s real linkdir; ln -s file real/link; ln -s real/none dangling; ln -s loop loop; ln -s ../real/link "+
		"real/two")
	base, err := w.Realpath(ctx, ".")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"real/file":       "/real/file",
		"linkdir/link":    "/real/file",
		"linkdir/two":     "/real/file",
		"real/../linkdir": "/real",
		"dangling":        "/real/none",
		"linkdir/new/x":   "/real/new/x",
		"nope":            "/nope",
	} {
		if got, err := w.Realpath(ctx, path); err != nil || got != base+want {
			t.Errorf("Realpath %s = %s, %v, want %s", path, got, err, base+want)
		}
	}
	if got, err := w.Realpath(ctx, "loop"); err == nil {
		t.Errorf("Realpath of a loop = %s", got)
	}
	f, err := w.Open(ctx, "linkdir/link")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Realpath(); got != base+"/real/file" {
		t.Errorf("File.Realpath = %s", got)
	}
	f.Close()
	if info, err := w.Lstat(ctx, "linkdir"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("Lstat of a link: %v, %v", info, err)
	}
	if info, err := w.Stat(ctx, "linkdir"); err != nil || !info.IsDir() {
		t.Errorf("Stat of a link: %v, %v", info, err)
	}
	for _, path := range []string{"linkdir/file", "linkdir/new", "linkdir/a/b", "real/link", "dangling", "dangling/x"} {
		if err := w.WriteFile(ctx, base+"/"+path, []byte("through")); !errors.Is(err, workspace.ErrLink) {
			t.Errorf("WriteFile through %s: %v", path, err)
		}
	}
	if got := read(t, w, "real/file"); got != "x" {
		t.Errorf("real/file holds %q", got)
	}
	if got := sh(t, w, "ls -A real"); got != "file\nlink\ntwo\n" {
		t.Errorf("real holds %q", got)
	}
}

func writeKeeps(t *testing.T, w workspace.Workspace) {
	write(t, w, "run.sh", "old")
	write(t, w, "one", "old and long")
	sh(t, w, "chmod 751 run.sh; ln one two; mkdir closed; chmod 644 one")
	write(t, w, "run.sh", "new")
	write(t, w, "one", "new")
	if info, err := w.Stat(t.Context(), "run.sh"); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode of run.sh: %v, %v", info.Mode(), err)
	}
	write(t, w, "open", "old")
	sh(t, w, "chmod 666 open")
	write(t, w, "open", "new")
	if info, err := w.Stat(t.Context(), "open"); err != nil || info.Mode().Perm() != 0o666 { // whatever the umask
		t.Errorf("mode of open: %v, %v", info.Mode(), err)
	}
	if got := read(t, w, "two"); got != "new" {
		t.Errorf("the other name of one holds %q", got)
	}
	if got := sh(t, w, "ls -A"); got != "closed\none\nopen\nrun.sh\ntwo\n" {
		t.Errorf("left behind: %q", got)
	}
	// Readers see the old or the new content, and concurrent writes are not mixed.
	text := func(i int) string { return strings.Repeat(fmt.Sprint(i), 100_000) }
	write(t, w, "busy", text(0))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if err := w.WriteFile(t.Context(), "busy", []byte(text(i))); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			f, err := w.Open(t.Context(), "busy")
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			data, err := io.ReadAll(f)
			if err != nil || len(data) != 100_000 || strings.Trim(string(data), string(data[:1])) != "" {
				t.Errorf("read %d bytes, %v: mixed", len(data), err)
			}
		})
	}
	wg.Wait()
}

func readDir(t *testing.T, w workspace.Workspace) {
	for _, name := range []string{"d/b", "d/a b", "d/.hidden", "d/C", "d/new\nline", "d/sub/x"} {
		write(t, w, name, name)
	}
	sh(t, w, "ln -s nowhere d/link; mkdir none")
	entries, err := w.ReadDir(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name()+" "+e.Type().String())
		if info, err := e.Info(); err != nil || info.Mode().Type() != e.Type() || info.Name() != e.Name() {
			t.Errorf("Info of %s: %v, %v", e.Name(), info, err)
		}
	}
	want := []string{".hidden ----------", "C ----------", "a b ----------", "b ----------", "link L---------",
		"new\nline ----------", "sub d---------"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if entries, err := w.ReadDir(t.Context(), "none"); err != nil || len(entries) != 0 {
		t.Errorf("empty directory: %v, %v", entries, err)
	}
}

// search tests Glob and Search if the workspace has them.
func search(t *testing.T, w workspace.Workspace) {
	g, ok := w.(interface {
		Glob(ctx context.Context, dir string, yield func(path string, info fs.FileInfo) error) error
		Search(ctx context.Context, dir, literal string, fold bool) ([]string, error)
	})
	if !ok {
		t.Skip("it has no Glob and Search")
	}
	for name, data := range map[string]string{"d/a": "needle -e x", "d/sub/b c": "NEEDLE\nhay", "d/new\nline": "needle",
		".git/x": "needle", "d/hay": "hay"} {
		write(t, w, name, data)
	}
	sh(t, w, "ln -s sub d/link")
	var got []string
	err := g.Glob(t.Context(), "d", func(path string, info fs.FileInfo) error {
		got = append(got, fmt.Sprint(strings.TrimPrefix(path, w.Path("d")), " ", info.Mode().Type(), " ", info.IsDir() ||
			info.Mode()&fs.ModeSymlink != 0 || info.Size() > 0))
		return nil
	})
	want := []string{"/a ---------- true", "/hay ---------- true", "/link L--------- true", "/new\nline ---------- true",
		"/sub d--------- true", "/sub/b c ---------- true"}
	if err != nil || !sameSet(got, want) {
		t.Errorf("Glob: %v\ngot  %q\nwant %q", err, got, want)
	}
	stop := errors.New("stop")
	if err := g.Glob(t.Context(), "d", func(string, fs.FileInfo) error { return stop }); err != stop {
		t.Errorf("Glob stopped: %v", err)
	}
	if err := g.Glob(t.Context(), "nope", func(string, fs.FileInfo) error { return nil }); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("Glob of nothing: %v", err)
	}
	for _, c := range []struct {
		literal string
		fold    bool
		want    []string
	}{
		{"needle", false, []string{"/a", "/new\nline"}},
		{"needle", true, []string{"/a", "/new\nline", "/sub/b c"}},
		{"-e x", false, []string{"/a"}},
		{"absent", false, nil},
	} {
		found, err := g.Search(t.Context(), "d", c.literal, c.fold)
		for i := range found {
			found[i] = strings.TrimPrefix(found[i], w.Path("d"))
		}
		if err != nil || !sameSet(found, c.want) {
			t.Errorf("Search %q: %q, %v, want %q", c.literal, found, err, c.want)
		}
	}
}

func sameSet(a, b []string) bool {
	in := map[string]int{}
	for _, s := range a {
		in[s]++
	}
	for _, s := range b {
		in[s]--
	}
	for _, n := range in {
		if n != 0 {
			return false
		}
	}
	return true
}

func run(t *testing.T, w workspace.Workspace) {
	ctx := t.Context()
	base, err := w.Realpath(ctx, ".")
	if err != nil {
		t.Fatal(err)
	}
	sh(t, w, "mkdir -p 'sub dir'")
	for _, c := range []struct {
		name string
		cmd  workspace.Command
		out  string
		exit workspace.Exit
	}{
		{"merged in order", workspace.Command{Line: "echo a; echo b >&2; echo c"}, "a\nb\nc\n", workspace.Exit{}},
		{"exit code", workspace.Command{Line: "echo x; exit 3"}, "x\n", workspace.Exit{Code: 3}},
		{"signal", workspace.Command{Line: "kill -9 $$"}, "", workspace.Exit{Code: 137, Signal: "killed"}},
		{"directory", workspace.Command{Line: "pwd -P"}, base + "\n", workspace.Exit{}},
		{"another directory", workspace.Command{Line: "pwd -P", Dir: "sub dir"}, base + "/sub dir\n", workspace.Exit{}},
		{"environment", workspace.Command{Line: `printf %s "$KT_A|$KT_B"`, Env: []string{"KT_A=a 'b'\n$c", "KT_B="}},
			"a 'b'\n$c|", workspace.Exit{}},
		{"no input", workspace.Command{Line: "cat; echo end"}, "end\n", workspace.Exit{}},
		{"input", workspace.Command{Line: "cat", Stdin: strings.NewReader("in\x00put")}, "in\x00put", workspace.Exit{}},
		{"arguments", workspace.Command{Args: []string{"printf", "%s|", "a b", "$x'\"", "*", ""}}, "a b|$x'\"|*||",
			workspace.Exit{}},
		{"bytes", workspace.Command{Line: `printf '\377\000\303'; sleep 0.05; printf '\251'`}, "\xff\x00é", workspace.Exit{}},
	} {
		var out bytes.Buffer
		c.cmd.Output = &out
		exit, err := w.Run(ctx, c.cmd)
		if err != nil || exit.Code != c.exit.Code || !strings.EqualFold(exit.Signal, c.exit.Signal) || out.String() != c.out {
			t.Errorf("%s: %q, %+v, %v; want %q, %+v", c.name, out.String(), exit, err, c.out, c.exit)
		}
	}
	var out, errs bytes.Buffer
	if _, err := w.Run(ctx, workspace.Command{Line: "echo o; echo e >&2", Output: &out, Stderr: &errs}); err != nil ||
		out.String() != "o\n" || errs.String() != "e\n" {
		t.Errorf("apart: %q, %q, %v", out.String(), errs.String(), err)
	}
	out.Reset()
	if _, err := w.Run(ctx, workspace.Command{Line: "head -c 3000000 /dev/zero", Output: &out}); err != nil ||
		out.Len() != 3000000 {
		t.Errorf("3,000,000 bytes: %d, %v", out.Len(), err)
	}
	prepared, err := w.Prepare(workspace.Command{Line: "echo x", Dir: "sub dir"})
	if err != nil || prepared.Dir != w.Path("sub dir") {
		t.Errorf("Prepare: %+v, %v", prepared, err)
	}
}

func runErrors(t *testing.T, w workspace.Workspace) {
	for want, c := range map[string]workspace.Command{
		"working directory does not exist": {Line: "true", Dir: "nope"},
		"not found on PATH":                {Args: []string{"knack-no-such-program"}},
		"NUL":                              {Line: "echo \x00"},
	} {
		if exit, err := w.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %+v, %v, want %q", c, exit, err, want)
		}
	}
}

func background(t *testing.T, w workspace.Workspace) {
	late := false
	for i := 0; i < 20 && !late; i++ { // a slow machine may need several attempts
		var out bytes.Buffer
		start := time.Now()
		if _, err := w.Run(t.Context(), workspace.Command{Output: &out, Line: "(while kill -0 $$ 2>/dev/null; do " +
			"sleep 0.01; done; echo late; sleep 300) & echo $!; echo done"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 200*time.Second {
			t.Fatalf("a background child held the call for %v", took)
		}
		pid, rest, _ := strings.Cut(out.String(), "\n")
		if !strings.HasPrefix(rest, "done\n") {
			t.Fatalf("output %q", out.String())
		}
		sh(t, w, "kill -0 "+pid) // it is still alive
		late = rest == "done\nlate\n"
	}
	if !late {
		t.Error("what a background child wrote right after the command was lost")
	}
}

func cancel(t *testing.T, w workspace.Workspace) {
	ctx, stop := context.WithCancelCause(t.Context())
	cause := errors.New("the test's reason")
	var out lines
	printed := 0
	out.on = func(string) {
		if printed++; printed == 3 { // all processes run
			stop(cause)
		}
	}
	// Three levels of processes, and a child that ignores all signals that can be ignored.
	_, err := w.Run(ctx, workspace.Command{Output: &out, Line: `trap '' TERM INT HUP
sh -c 'sh -c "trap \"\" TERM HUP; sleep 300 & echo \$\$ \$!; wait" & echo $!; wait' & echo $!; wait`})
	if err != cause {
		t.Errorf("Run returned %v", err)
	}
	pids := strings.Fields(out.String())
	if len(pids) != 4 {
		t.Fatalf("output %q", out.String())
	}
	dead(t, w, pids)
	sh(t, w, "true") // the workspace still works
}

// dead waits until none of the processes runs. Killed processes may exist for a moment until their
// new parent reaps them.
func dead(t *testing.T, w workspace.Workspace, pids []string) {
	t.Helper()
	line := "for p in " + strings.Join(pids, " ") + `; do
if [ -d /proc/1 ]; then s=$(sed 's/.*) //' /proc/$p/stat 2>/dev/null); else s=$(ps -o stat= -p $p); fi
case $s in ''|Z*) ;; *) echo $p $s;; esac; done`
	var out string
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if out = sh(t, w, line); out == "" {
			return
		}
	}
	t.Errorf("still alive: %s", out)
}

// lines calls on for each line written to it.
type lines struct {
	bytes.Buffer
	rest string
	on   func(string)
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest += string(p)
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok {
			break
		}
		l.rest = rest
		l.on(line)
	}
	return l.Buffer.Write(p)
}

func closes(t *testing.T, w workspace.Workspace) {
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Run(t.Context(), workspace.Command{Line: "true"}); err == nil {
		t.Error("Run after Close succeeded")
	}
	if err := w.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
