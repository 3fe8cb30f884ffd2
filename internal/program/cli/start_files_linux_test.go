//go:build amd64

package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestStartFiles compares the files that a whole run opens and looks at, below its home and in the directories of
// policies, with a list: every line of it is work of each start. The numbers are exact and do not depend on time: the
// run has no sandbox, no server, and too few skills to build an index of them.
func TestStartFiles(t *testing.T) {
	t.Parallel()
	for _, dir := range policyDirs {
		if _, err := os.Lstat(dir); err == nil {
			t.Skipf("%s exists, and would be read", dir)
		}
	}
	empty, filled := newStartHome(t, 0), newStartHome(t, 50)
	runs := []struct {
		name  string
		home  startHome
		files map[string]int
	}{
		{name: "without skills, first run", home: empty},
		{name: "without skills, second run", home: empty},
		{name: "50 skills of the user, first run", home: filled},
		{name: "50 skills of the user, second run", home: filled},
	}
	for i := range runs {
		runs[i].files = runs[i].home.files(t)
	}
	var got strings.Builder
	section := func(name string, files map[string]int, in func(line string, n int) bool) {
		fmt.Fprintf(&got, "# %s\n", name)
		for _, line := range slices.Sorted(maps.Keys(files)) {
			if path, call, _ := strings.Cut(line, " "); in(line, files[line]) {
				fmt.Fprintf(&got, "%2d %s %s\n", files[line], call, path)
			}
		}
	}
	always := func(line string, n int) bool {
		for _, run := range runs {
			if run.files[line] != n {
				return false
			}
		}
		return true
	}
	section("every run", runs[0].files, always)
	for _, run := range runs {
		section(run.name, run.files, func(line string, n int) bool { return !always(line, n) })
	}
	matchesList(t, "testdata/startfiles.txt", got.String(), "a run opens other files")
}

var policyDirs = []string{"/etc/knack", "/etc/claude-code"}

// A startHome is a home directory with a project.
type startHome struct{ dir, project string }

func newStartHome(t *testing.T, skills int) startHome {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for above := filepath.Dir(dir); above != "/"; above = filepath.Dir(above) {
		for _, name := range []string{".git", "AGENTS.md", "CLAUDE.md"} {
			if _, err := os.Lstat(filepath.Join(above, name)); err == nil {
				t.Skipf("%s is above the directory of the test, and would be used", filepath.Join(above, name))
			}
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || !slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC,
		unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC}, int64(fs.Type)) {
		t.Skip("skills on this file system may not be cached")
	}
	h := startHome{dir, filepath.Join(dir, "project")}
	// The state directory exists: what creates it first is not determined.
	for _, dir := range []string{h.project, filepath.Join(dir, ".local", "state", "knack")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if skills == 0 {
		return h
	}
	var file string
	for i := range skills {
		d := filepath.Join(dir, ".claude", "skills", fmt.Sprintf("skill-%d", i))
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		file = filepath.Join(d, "SKILL.md")
		text := fmt.Sprintf("---\nname: skill-%d\ndescription: Does thing %d.\n---\nDo it.\n", i, i)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	for time.Now().Round(0).Before(info.ModTime().Add(2500 * time.Millisecond)) {
		time.Sleep(50 * time.Millisecond) // only files that were not changed for 2 s are cached
	}
	return h
}

// files runs the program with one prompt and counts its calls by path, kind and result. Paths in other places are left
// out: those of the runtime (/proc, /sys), and those above the home, whose number depends on where tests run.
func (h startHome) files(t *testing.T) map[string]int {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(exe, "-p", "--model", "offline", "--sandbox", "off", "hello")
	cmd.Args[0] = "knack" // with this name TestMain runs the program
	cmd.Dir = h.project
	cmd.Env = []string{"HOME=" + h.dir, "PATH=/usr/bin:/bin", "TZ=UTC"}
	cmd.Stdout, cmd.Stderr = out, out
	vary := []struct {
		pattern *regexp.Regexp
		text    string
	}{
		{regexp.MustCompile(`\b([0-9a-f]{32}|[0-9a-f]{16})\b`), "HASH"},
		{regexp.MustCompile(`projects/-[^/]*-project/`), "projects/HASH/"}, // the path of the project
		{regexp.MustCompile(`\d{8}-\d{6}-[0-9a-f]{8}`), "SESSION"},
		{regexp.MustCompile(`/\.skills-\d+`), "/.skills-RANDOM"},
		{regexp.MustCompile(`skill-\d+`), "skill-N"},
	}
	files := map[string]int{}
	status, err := traceFiles(cmd, func(call, path string) {
		path, inside := strings.CutPrefix(path, h.dir+"/")
		if inside {
			path = "~/" + path
		} else if !slices.ContainsFunc(policyDirs, func(dir string) bool { return strings.HasPrefix(path, dir+"/") }) {
			return
		}
		for _, v := range vary {
			path = v.pattern.ReplaceAllString(path, v.text)
		}
		files[path+" "+call]++
	})
	if errors.Is(err, errNoTrace) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if status != 0 {
		text, _ := os.ReadFile(out.Name())
		t.Fatalf("status %d\n%s", status, text)
	}
	return files
}

// TestTraceLeavesChildren starts programs on many threads: the trace does not take their results from those that wait.
func TestTraceLeavesChildren(t *testing.T) {
	var others [30]*exec.Cmd
	var started sync.WaitGroup
	started.Add(len(others))
	for i := range others {
		others[i] = exec.Command("/bin/sh", "-c", "exit 3")
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := others[i].Start(); err != nil {
				t.Error(err)
			}
			started.Done()
			started.Wait() // so that each has its own thread
		}()
	}
	started.Wait()
	if _, err := traceFiles(exec.Command("/bin/true"), func(string, string) {}); err != nil &&
		!errors.Is(err, errNoTrace) {
		t.Error(err)
	}
	for _, cmd := range others {
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
			t.Error(err)
		}
	}
}

var errNoTrace = errors.New("programs cannot be traced here")

// traceFiles runs a program and calls each for its system calls that open or look at a path. It returns the exit
// status.
func traceFiles(cmd *exec.Cmd, each func(call, path string)) (status int, err error) {
	runtime.LockOSThread() // only the thread that started a program may trace it
	defer runtime.UnlockOSThread()
	// The trace waits for all children of its thread. If other tests have started some on this one, it stays locked,
	// so that another goroutine gets another thread.
	const look = unix.WEXITED | unix.WSTOPPED | unix.WNOHANG | unix.WNOWAIT | unix.WALL | unix.WNOTHREAD
	switch problem := unix.Waitid(unix.P_ALL, 0, nil, look, nil); problem {
	case unix.ECHILD:
	case nil:
		done := make(chan struct{})
		go func() {
			defer close(done)
			status, err = traceFiles(cmd, each)
		}()
		<-done
		return status, err
	default:
		return 0, fmt.Errorf("%w: %v", errNoTrace, problem)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: %v", errNoTrace, err)
	}
	main := cmd.Process.Pid
	defer cmd.Process.Release()
	type pending struct{ call, path string }
	waiting := map[int]pending{} // by thread: the call that it is in
	known := map[int]bool{}
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case status.Exited() || status.Signaled():
			if tid == main {
				return int(status), nil
			}
			continue
		}
		signal := 0 // to deliver
		switch stop := status.StopSignal(); {
		case !known[tid]:
			known[tid] = true
			if tid == main {
				if err := unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|
					unix.PTRACE_O_EXITKILL); err != nil {
					return 0, err
				}
			}
		case stop == unix.SIGTRAP|0x80:
			var info callInfo
			if err := info.get(tid); err != nil {
				_ = cmd.Process.Kill()
				return 0, fmt.Errorf("%w: system calls cannot be read: %v", errNoTrace, err)
			}
			switch info.op {
			case unix.PTRACE_SYSCALL_INFO_ENTRY:
				delete(waiting, tid)
				if call := info.name(); call != "" {
					waiting[tid] = pending{call, info.path(tid)}
				}
			case unix.PTRACE_SYSCALL_INFO_EXIT:
				p, ok := waiting[tid]
				delete(waiting, tid)
				switch e := -int64(info.number); {
				case !ok, unix.Errno(e) == unix.EINTR, 512 <= e && e <= 516: // ERESTARTSYS and others: it comes again
				case unix.Errno(e) == unix.ENOENT:
					each(p.call+" missing", p.path)
				case e > 0:
					each(fmt.Sprintf("%s error %d", p.call, e), p.path)
				default:
					each(p.call, p.path)
				}
			}
		case stop == unix.SIGTRAP: // a new thread
		default:
			signal = int(stop)
		}
		if err := unix.PtraceSyscall(tid, signal); err != nil && err != unix.ESRCH {
			return 0, err
		}
	}
}

// A callInfo is ptrace_syscall_info of the kernel.
type callInfo struct {
	op      uint8
	_       [3]byte
	_       uint32
	_, _    uint64
	number  uint64 // at the end of a call: its result
	args    [6]uint64
	padding uint64
}

func (c *callInfo) get(tid int) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(*c),
		uintptr(unsafe.Pointer(c)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// name returns "" for a call that is of no interest.
func (c *callInfo) name() string {
	switch c.number {
	case unix.SYS_OPENAT:
		if c.args[2]&(unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT) != 0 {
			return "write"
		}
		return "read"
	case unix.SYS_NEWFSTATAT:
		return "stat"
	case unix.SYS_READLINKAT:
		return "readlink"
	case unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_OPENAT2, unix.SYS_STATX, unix.SYS_ACCESS,
		unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINK:
		return fmt.Sprintf("call-%d", c.number) // Go does not use them; the path is not decoded
	}
	return ""
}

func (c *callInfo) path(tid int) string {
	buf := make([]byte, 4096)
	n, _ := unix.PtracePeekData(tid, uintptr(c.args[1]), buf[:256])
	path, _, whole := strings.Cut(string(buf[:n]), "\x00")
	if !whole {
		n, _ = unix.PtracePeekData(tid, uintptr(c.args[1]), buf)
		path, _, _ = strings.Cut(string(buf[:n]), "\x00")
	}
	if filepath.IsAbs(path) {
		return path
	}
	dir := "cwd"
	if int32(c.args[0]) != unix.AT_FDCWD {
		dir = fmt.Sprint("fd/", int32(c.args[0]))
	}
	base, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", tid, dir))
	return filepath.Join(base, path)
}
