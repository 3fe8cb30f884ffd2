// Package workspace gives tools the files and commands of a machine: this one by
// default, a container, or another machine.
//
// Most people want [NewLocal]. Tools do not take a Local: each declares the
// two or three methods it uses, and any value that has them works: [SSH],
// [Container], a Local with a sandbox ([Local.Confine]). [Parse] returns the
// workspace that a URL names; workspacetest checks that a workspace keeps the
// promises below.
//
// Paths given to a workspace are absolute, or relative to its directory, and
// are taken as they are: the caller expands "~" and the like.
//
//	Open(ctx, path) (File, error)             a regular file, for reading; follows links
//	Stat, Lstat(ctx, path) (fs.FileInfo, error)
//	ReadDir(ctx, path) ([]fs.DirEntry, error) sorted by name
//	Realpath(ctx, path) (string, error)       links resolved; what does not exist yet stays as written
//	WriteFile(ctx, path, data) error          atomically; follows no link; makes missing parents
//	Prepare(Command) (Command, error)         the command as it will run: what permission judges
//	Run(ctx, Command) (Exit, error)
//	Close() error                             ends every process that a command left behind
//
// Errors about files are *fs.PathError, so that errors.Is(err, fs.ErrNotExist)
// and fs.ErrPermission hold everywhere. All methods are safe for concurrent
// use.
//
// A workspace may offer more, so that a tree need not cross a network. On this
// machine that is [Local.OSPath]: the files can be walked by package os. On
// others it is Glob and Search, see [SSH.Glob] and [SSH.Search].
package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
)

// A Workspace is what [Parse] makes: everything above. Tools declare less.
type Workspace interface {
	Dir() string
	Path(path string) string
	Open(ctx context.Context, path string) (File, error)
	Stat(ctx context.Context, path string) (fs.FileInfo, error)
	Lstat(ctx context.Context, path string) (fs.FileInfo, error)
	ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error)
	Realpath(ctx context.Context, path string) (string, error)
	WriteFile(ctx context.Context, path string, data []byte) error
	Prepare(c Command) (Command, error)
	Run(ctx context.Context, c Command) (Exit, error)
	Close() error
}

// A File is a regular file, open for reading. Its position, its size and where
// it lies are those of the descriptor, whatever happens to its name.
type File interface {
	fs.File
	io.Seeker
	io.ReaderAt
	// Realpath is where the opened file lies, every link resolved. A tool that
	// was allowed one path compares it, so that it reads only what was allowed.
	Realpath() string
}

// ErrLink says that a path to write leads through a symbolic link: give what
// Realpath returned, and decide about that.
var ErrLink = errors.New("leads through a symbolic link")

// ErrNotRegular says that a path is neither a regular file nor a directory: a
// FIFO, a socket or a device, which are not read or written.
var ErrNotRegular = errors.New("not a regular file")

// A Command is a program to run.
type Command struct {
	Line string   // shell text; used when Args is empty
	Args []string // an argument vector, run without a shell
	Dir  string   // "": the workspace's directory
	Env  []string // entries of the form K=V added to the workspace's environment
	// Stdin is the program's standard input; nil: empty.
	Stdin io.Reader
	// Output receives standard output and standard error, merged in the order
	// of arrival; nil: discarded. It is not called concurrently.
	Output io.Writer
	// Stderr, when not nil, receives standard error instead of Output.
	Stderr io.Writer
	// Allow permits, for this command only, what the sandbox would refuse: paths
	// and hosts. A workspace without a sandbox ignores it.
	Allow Allowance
	// Limits restrict what the sandbox would permit this command. A workspace
	// without a sandbox refuses a command with limits, unless the user switched
	// the sandbox off ([Local.Confine] is nil).
	Limits []Limit

	// Scripts are the files that Line or Args runs and whose bytes were
	// approved. On this machine a private copy runs in their place; a script that
	// may depend on its own path runs in place: it is compared once more before the
	// command starts, and the command is refused if its bytes have changed. Other workspaces ignore it.
	Scripts []Script

	prepared bool // returned by Prepare
}

// An Allowance lists what a rule or an answer permits to one command.
type Allowance struct {
	Write []string // absolute paths
	Read  []string // absolute paths
	Hosts []string // host or host:port
}

// Union returns an Allowance of everything that a or b permits.
func (a Allowance) Union(b Allowance) Allowance {
	return Allowance{
		Write: slices.Concat(a.Write, b.Write),
		Read:  slices.Concat(a.Read, b.Read),
		Hosts: slices.Concat(a.Hosts, b.Hosts),
	}
}

// A Limit restricts one command.
type Limit struct {
	NoNetwork bool // only its own loopback
	// Write are absolute paths: nothing else is written, whatever the sandbox
	// allows, but the command's own temporary directory. nil: no restriction.
	Write []string
}

// ErrLimits refuses a command whose limits cannot be enforced.
var ErrLimits = errors.New("an active skill restricts commands, but no sandbox can enforce its limits here")

// An Exit describes how a command ended.
type Exit struct {
	Code   int    // 128+n for signal n
	Signal string // its name, if a signal ended it
	// Refused lists what the sandbox refused, as far as it knows.
	Refused []string
}
