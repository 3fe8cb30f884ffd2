//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// real resolves links and omits paths that do not exist.
func real(paths []string) []string { return new(resolver).real(paths) }

// A resolver resolves the links of many paths and looks at each file once. It serves one command:
// for the next one the links may differ.
type resolver struct {
	found map[string]string // resolved paths
	depth int               // of links that lead to links
}

func (r *resolver) real(paths []string) []string {
	var out []string
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			continue
		}
		to := ""
		if filepath.Clean(path) == path {
			to = r.resolve(path)
		} else { // the meaning of ".." depends on links
			to, _ = filepath.EvalSymlinks(path)
		}
		if to != "" {
			out = append(out, to)
		}
	}
	return out
}

// resolve resolves a clean path; "" if it does not exist.
func (r *resolver) resolve(path string) string {
	if path == "/" {
		return path
	}
	if to, ok := r.found[path]; ok {
		return to
	}
	slash := strings.LastIndexByte(path, '/')
	dir, name := r.resolve(path[:max(slash, 1)]), path[slash+1:]
	if dir == "" {
		return ""
	}
	to := path
	if dir != path[:slash] {
		to = filepath.Join(dir, name)
	}
	var st unix.Stat_t
	if unix.Lstat(to, &st) != nil {
		return "" // not stored in found: it may be created later
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		if to = r.follow(dir, to); to == "" {
			return ""
		}
	}
	if r.found == nil {
		r.found = map[string]string{}
	}
	r.found[path] = to
	return to
}

// follow resolves a link in a resolved directory; "" if it leads nowhere.
func (r *resolver) follow(dir, link string) string {
	target, err := os.Readlink(link)
	if err != nil {
		return ""
	}
	rest := target
	for strings.HasPrefix(rest, "../") {
		rest = rest[3:]
	}
	if r.depth > 8 || strings.Contains(rest, "..") { // what comes before ".." may be a link
		target, _ = filepath.EvalSymlinks(link)
		return target
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	r.depth++
	defer func() { r.depth-- }()
	return r.resolve(filepath.Clean(target))
}

// sockets lists the sockets in the file system that have a listener or are mounted, by paths that may
// contain links. They need special treatment because a read-only mount does not prevent connections.
func sockets(mounts *mountTable) []string {
	var found, cwds []string
	check := func(path string) {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			found = append(found, path)
		}
	}
	// The first line contains the titles: Num RefCount Protocol Flags Type St Inode Path.
	buf := procBuffers.Get().(*[]byte)
	defer procBuffers.Put(buf)
	*buf = readProc("/proc/net/unix", *buf)
	_, table, _ := bytes.Cut(*buf, []byte("\n"))
	for line := range bytes.Lines(table) {
		// The path is the eighth field, may be missing, and may contain spaces.
		l := bytes.TrimSuffix(line, []byte("\n"))
		for range 7 {
			_, l, _ = bytes.Cut(bytes.TrimLeft(l, " "), []byte(" "))
		}
		switch {
		case len(l) == 0 || l[0] == '@':
		case l[0] == '/':
			check(string(l))
		default:
			// The address as it was bound: relative to the working directory of some process.
			if cwds == nil {
				cwds, _ = filepath.Glob("/proc/[0-9]*/cwd")
			}
			for _, cwd := range cwds {
				if dir, err := os.Readlink(cwd); err == nil {
					check(filepath.Join(dir, string(l)))
				}
			}
		}
	}
	for _, path := range mounts.points() {
		check(path)
	}
	return found
}

// A mountTable knows those mounts of this program that may cover a single file. It reads them again
// when the kernel reports a change.
type mountTable struct {
	mu   sync.Mutex
	file *os.File
	list []string
}

// points returns the paths of those mounts.
func (m *mountTable) points() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil && !tableChanged(m.file) {
		return m.list
	}
	if m.file == nil {
		// Not os.Open: the runtime would poll the file and consume the reports of changes.
		fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		m.file = os.NewFile(uintptr(fd), "mountinfo")
		tableChanged(m.file)
	}
	m.list = nil
	// id parent major:minor root mountpoint …: only bind mounts have a root other than /.
	for l := range strings.Lines(string(readProc("/proc/self/mountinfo", nil))) {
		if f := strings.Fields(l); len(f) > 5 && f[3] != "/" && !strings.Contains(l, " - nfs") &&
			!strings.Contains(l, " - fuse") {
			m.list = append(m.list, f[4])
		}
	}
	return m.list
}

// close closes the table; points opens it again.
func (m *mountTable) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}

// tableChanged reports whether an open mount table has changed since the last call, or since it was
// opened.
func tableChanged(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n != 0 || err != nil
		}
	}
}

// procBuffers are buffers for tables that are read for each command.
var procBuffers = sync.Pool{New: func() any { return new([]byte) }}

// readProc reads a file of /proc into buf, or a larger buffer, in as few reads as possible; the
// size of such a file is not known in advance.
func readProc(name string, buf []byte) []byte {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return buf[:0]
	}
	defer unix.Close(fd)
	buf = slices.Grow(buf[:0], 16<<10)
	for {
		got, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if got <= 0 || err != nil {
			return buf
		}
		if buf = buf[:len(buf)+got]; cap(buf)-len(buf) < 4096 {
			buf = slices.Grow(buf, cap(buf))
		}
	}
}
