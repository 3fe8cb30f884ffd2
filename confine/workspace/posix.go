package workspace

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A posix accesses the files of another system through its POSIX shell. The scripts need sh, cat,
// find, grep, ls, mkdir, mv, readlink and stat, from GNU, BusyBox or BSD.
type posix struct {
	dir string
	// Kept is a directory of this machine in which tools keep files for the model; its files are read from this machine.
	// "": there is none.
	Kept string
	// script runs shell text with arguments; an error means that it could not be run.
	script func(ctx context.Context, text string, args []string, in io.Reader, out, stderr io.Writer) (code int, err error)
}

// What the other machine prints is untrusted and may have no end.
const (
	maxReply  = 64 << 20 // bytes that describe files
	maxErrors = 64 << 10 // bytes of error messages
	maxCopy   = 1 << 30  // bytes of a file that is opened where files must be copied
)

// A tooLongError is the error for an operation that returns more than its number of bytes.
type tooLongError int

func (n tooLongError) Error() string { return fmt.Sprintf("more than %d bytes", int(n)) }

// A bounded passes on as many bytes as are left. If there are more, it calls end.
type bounded struct {
	out  io.Writer // nil: they are discarded
	left int
	end  func()
}

func (b *bounded) Write(p []byte) (int, error) {
	part := p[:min(len(p), b.left)]
	b.left -= len(part)
	if b.out != nil && len(part) > 0 {
		if n, err := b.out.Write(part); err != nil {
			return n, err
		}
	}
	if len(part) < len(p) {
		b.end()
	}
	return len(p), nil
}

//go:embed posix.sh
var posixFuncs string

// Exit codes of the scripts.
var posixErrors = map[int]error{
	40: ErrLink, 41: syscall.ENOTDIR, 42: syscall.EISDIR, 43: ErrNotRegular, 44: fs.ErrPermission,
	45: errors.New("the connection ended too early"), 46: errors.New("too many links"), 47: fs.ErrNotExist,
}

// do runs a function of posix.sh on a path.
func (p *posix) do(ctx context.Context, op, file string, in io.Reader, out io.Writer, args ...string) error {
	most := maxReply
	if op == "knack_open" {
		most = maxCopy
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end := func(n int) func() { return func() { cancel(tooLongError(n)) } }
	var stderr bytes.Buffer
	code, err := p.script(ctx, posixFuncs+"\n"+op+` "$@"`, args, in, &bounded{out, most, end(most)},
		&bounded{&stderr, maxErrors, end(maxErrors)})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && code != 0 {
		if err = posixErrors[code]; err == nil {
			_, why, found := strings.Cut(strings.TrimSpace(stderr.String()), ": ")
			if !found {
				why = strings.TrimSpace(stderr.String())
			}
			if strings.HasSuffix(why, "ermission denied") {
				err = fs.ErrPermission
			} else {
				err = fmt.Errorf("exit code %d: %s", code, why)
			}
		}
	}
	if err != nil {
		return &fs.PathError{Op: strings.TrimPrefix(op, "knack_"), Path: file, Err: err}
	}
	return nil
}

// Dir returns the absolute path of the workspace's directory.
func (p *posix) Dir() string { return p.dir }

// Path returns the absolute form of a path.
func (p *posix) Path(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(p.dir, name)
}

// kept returns access to this machine's files if the named one is in Kept; nil: it is on the other machine.
func (p *posix) kept(name string) *Local {
	if p.Kept == "" || !subpath.Contains(p.Kept, p.Path(name)) {
		return nil
	}
	l, _ := NewLocal(p.Kept)
	return l
}

// Open copies a regular file to this machine and opens the copy. Later changes of the original do
// not affect it.
func (p *posix) Open(ctx context.Context, name string) (File, error) {
	name = p.Path(name)
	if l := p.kept(name); l != nil {
		return l.Open(ctx, name)
	}
	info, err := p.stat(ctx, "open", name, true)
	if err != nil {
		return nil, err
	}
	if err := regular("open", name, info); err != nil {
		return nil, err
	}
	if info.Size() > maxCopy {
		return nil, &fs.PathError{Op: "open", Path: name, Err: tooLongError(maxCopy)}
	}
	real, err := p.Realpath(ctx, name)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "knack-open-*")
	if err != nil {
		return nil, err
	}
	c := &remoteFile{File: f, real: real, info: info}
	if err := p.do(ctx, "knack_open", name, nil, f, real); err != nil {
		c.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

type remoteFile struct {
	*os.File
	real string
	info fs.FileInfo
}

func (c *remoteFile) Realpath() string           { return c.real }
func (c *remoteFile) Stat() (fs.FileInfo, error) { return c.info, nil }
func (c *remoteFile) Close() error {
	err := c.File.Close()
	os.Remove(c.File.Name())
	return err
}

// Stat describes the file at path, following links.
func (p *posix) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return p.stat(ctx, "stat", p.Path(name), true)
}

// Lstat describes the file at path without following a link.
func (p *posix) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return p.stat(ctx, "lstat", p.Path(name), false)
}

func (p *posix) stat(ctx context.Context, op, name string, follow bool) (info fs.FileInfo, err error) {
	if l := p.kept(name); l != nil && follow {
		return l.Stat(ctx, name)
	} else if l != nil {
		return l.Lstat(ctx, name)
	}
	var out bytes.Buffer
	follows := ""
	if follow {
		follows = "-L"
	}
	if err := p.do(ctx, "knack_stat", name, nil, &out, name, follows); err != nil {
		err.(*fs.PathError).Op = op
		return nil, err
	}
	err = entries(out.Bytes(), func(_ string, i fs.FileInfo) error { info = i; return nil })
	if err == nil && info == nil {
		err = &fs.PathError{Op: op, Path: name, Err: errors.New("stat printed nothing")}
	}
	return info, err
}

// entries parses records of the form "mode size seconds path//", one per line. No path that find or
// this package creates contains "//".
func entries(data []byte, yield func(string, fs.FileInfo) error) error {
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("//\n"))
		f := strings.SplitN(string(line), " ", 4)
		if len(f) < 4 {
			return fmt.Errorf("unexpected output of stat: %q", line)
		}
		mode, err1 := strconv.ParseUint(f[0], 16, 32)
		size, err2 := strconv.ParseInt(f[1], 10, 64)
		sec, err3 := strconv.ParseInt(f[2], 10, 64)
		if err := errors.Join(err1, err2, err3); err != nil {
			return fmt.Errorf("unexpected output of stat: %q", line)
		}
		if err := yield(f[3], &posixInfo{path.Base(f[3]), uint32(mode), size, time.Unix(sec, 0)}); err != nil {
			return err
		}
	}
	return nil
}

type posixInfo struct {
	name string
	mode uint32
	size int64
	time time.Time
}

func (i *posixInfo) Name() string       { return i.name }
func (i *posixInfo) Size() int64        { return i.size }
func (i *posixInfo) ModTime() time.Time { return i.time }
func (i *posixInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *posixInfo) Sys() any           { return nil }

// Mode converts the mode of stat(2), whose bits are the same on every Unix.
func (i *posixInfo) Mode() fs.FileMode {
	m := fs.FileMode(i.mode & 0o777)
	switch i.mode & 0o170000 {
	case 0o040000:
		m |= fs.ModeDir
	case 0o120000:
		m |= fs.ModeSymlink
	case 0o010000:
		m |= fs.ModeNamedPipe
	case 0o140000:
		m |= fs.ModeSocket
	case 0o020000:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case 0o060000:
		m |= fs.ModeDevice
	}
	return m
}

// ReadDir lists a directory, sorted by name.
func (p *posix) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	name = p.Path(name)
	if l := p.kept(name); l != nil {
		return l.ReadDir(ctx, name)
	}
	var out bytes.Buffer
	if err := p.do(ctx, "knack_readdir", name, nil, &out, name); err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	err := entries(out.Bytes(), func(_ string, i fs.FileInfo) error {
		list = append(list, fs.FileInfoToDirEntry(i))
		return nil
	})
	order.Stable(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

// Realpath resolves all links in a path; parts that do not exist stay as written.
func (p *posix) Realpath(ctx context.Context, name string) (string, error) {
	// Not cleaned: "link/.." is the parent of the link's target.
	full := name
	if l := p.kept(name); l != nil {
		return l.Realpath(ctx, name)
	}
	if !path.IsAbs(name) {
		full = p.dir + "/" + name
	}
	var out bytes.Buffer
	err := p.do(ctx, "knack_realpath", name, nil, &out, full)
	return out.String(), err
}

// WriteFile replaces the content of a file like [Local.WriteFile]. It checks for links in the
// directory in which it then writes.
func (p *posix) WriteFile(ctx context.Context, name string, data []byte) error {
	name = p.Path(name)
	return p.do(ctx, "knack_write", name, bytes.NewReader(data), nil, path.Dir(name), path.Base(name), ".knack-"+token(),
		strconv.Itoa(len(data)))
}

// Glob lists everything below a directory in one round trip, in any order, without following links.
// An error from yield stops it and is returned.
func (p *posix) Glob(ctx context.Context, dir string, yield func(path string, info fs.FileInfo) error) error {
	dir = p.Path(dir)
	var out bytes.Buffer
	if err := p.do(ctx, "knack_glob", dir, nil, &out, dir); err != nil {
		return err
	}
	return entries(out.Bytes(), func(name string, i fs.FileInfo) error {
		if name == dir {
			return nil
		}
		return yield(name, i)
	})
}

// Search lists the regular files below a directory that contain a literal. With fold, which ignores
// letter case, the list may contain other files too: grep ignores the case of fewer letters, so
// Search looks for a shorter literal.
func (p *posix) Search(ctx context.Context, dir, literal string, fold bool) ([]string, error) {
	flags := "-rlF"
	if fold {
		flags, literal = "-rlFi", caseSafePart(literal)
	}
	literal, _, _ = strings.Cut(literal, "\n")
	dir = p.Path(dir)
	var out bytes.Buffer
	if err := p.do(ctx, "knack_search", dir, nil, &out, dir, flags, literal); err != nil {
		return nil, err
	}
	if strings.Contains(out.String(), "\x00") {
		return strings.FieldsFunc(out.String(), func(r rune) bool { return r == 0 }), nil
	}
	// This grep has no -Z. Each path begins with dir; other lines continue a name that contains a
	// newline.
	var paths []string
	for line := range strings.Lines(out.String()) {
		if len(paths) == 0 || line == dir+"\n" || strings.HasPrefix(line, strings.TrimSuffix(dir, "/")+"/") {
			paths = append(paths, line)
		} else {
			paths[len(paths)-1] += line
		}
	}
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(path, "\n")
	}
	return paths, nil
}

// caseSafePart returns the longest part of a literal in which every grep ignores case in the same way:
// ASCII without k and s, which have equivalents outside ASCII.
func caseSafePart(literal string) string {
	best := ""
	for _, piece := range strings.FieldsFunc(literal, func(r rune) bool {
		return r > 126 ||
			strings.ContainsRune("kKsS", r)
	}) {
		if len(piece) > len(best) {
			best = piece
		}
	}
	return best
}

// startReader is a writer that takes the first line of a command's output, which reports whether it
// started, and passes on the rest.
type startReader struct {
	out  io.Writer // nil: discarded
	line []byte
	done bool
}

func (s *startReader) Write(p []byte) (int, error) {
	n := len(p)
	if !s.done {
		i := bytes.IndexByte(p, '\n')
		if i < 0 && len(s.line)+n <= 4096 {
			s.line = append(s.line, p...)
			return n, nil
		}
		if i < 0 { // none of ours
			i = n - 1
		}
		s.line, p, s.done = append(s.line, p[:min(i, 4096)]...), p[i+1:], true
	}
	if s.out != nil && len(p) > 0 {
		s.out.Write(p)
	}
	return n, nil
}

// failed returns the error of a command that did not start, nil if it did.
func (s *startReader) failed(c Command) error {
	switch string(s.line) {
	case "ok":
		return nil
	case "nodir":
		return fmt.Errorf("working directory does not exist: %s", c.Dir)
	case "noprog":
		return fmt.Errorf("cannot run %s: not found on PATH", c.Args[0])
	}
	return fmt.Errorf("the command did not start: %q", s.line)
}

// runArgs returns the arguments of the shell function knack_run for a command.
func runArgs(c Command, mark string) []string {
	merge, input := "merge", "none"
	if c.Stderr != nil {
		merge = "apart"
	}
	if c.Stdin != nil {
		input = "some"
	}
	args := append([]string{c.Dir, mark, merge, input, strconv.Itoa(len(c.Env))}, c.Env...)
	if len(c.Args) > 0 {
		return append(append(args, "args"), c.Args...)
	}
	return append(args, "line", c.Line)
}

func checkLine(c Command) error {
	if strings.IndexByte(c.Line, 0) >= 0 {
		return errors.New("the command contains a NUL byte, which no shell accepts")
	}
	return nil
}

// quote returns s as one word of POSIX shell text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoteAll(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = quote(a)
	}
	return strings.Join(quoted, " ")
}
