// Package workspace gives tools access to the files and commands of a machine: this one by default,
// a container, or another machine.
//
// Start with [NewLocal]. Tools do not take a Local: each declares the two or three methods that it
// uses, so any value with these methods works: [SSH], [Container], or a Local with a sandbox
// ([Local.Confine]). [Parse] returns the workspace at a URL. Package workspacetest checks that a
// workspace behaves as described here.
//
// Paths given to a workspace are absolute or relative to its directory, and are used as they are:
// the caller expands "~" and the like.
//
//	Open(ctx, path) (File, error)             opens a regular file for reading; follows links
//	Stat, Lstat(ctx, path) (fs.FileInfo, error)
//	ReadDir(ctx, path) ([]fs.DirEntry, error) sorted by name
//	Realpath(ctx, path) (string, error)       resolves links; parts that do not exist stay as written
//	WriteFile(ctx, path, data) error          atomic; follows no link; creates missing parents
//	Prepare(Command) (Command, error)         the command as it will run, for the permission check
//	Run(ctx, Command) (Exit, error)
//	Close() error                             kills all processes that commands left behind
//
// Errors about files are *fs.PathError, so errors.Is(err, fs.ErrNotExist) and errors.Is(err,
// fs.ErrPermission) work for every workspace. All methods are safe for concurrent use.
//
// A workspace may have more methods, so that walking a tree does not need many network requests. On
// this machine this is [Local.OSPath]: package os can walk the files. Other workspaces have Glob
// and Search, see [SSH.Glob] and [SSH.Search].
//
// Most programs start with package engine.
package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
)

// A Workspace has all methods described above; [Parse] returns one. Tools declare fewer.
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

// A File is a regular file, open for reading. Its position, size and real path belong to the open
// descriptor: renaming or removing the file's name does not change them.
type File interface {
	fs.File
	io.Seeker
	io.ReaderAt
	// Realpath returns the path of the opened file with all links resolved. A tool compares it with
	// the path that was allowed, so that it reads no other file.
	Realpath() string
}

// ErrLink means that the path of a file to write contains a symbolic link. Write to the path that
// Realpath returns instead, after checking permissions for it.
var ErrLink = errors.New("leads through a symbolic link")

// ErrNotRegular means that a file is neither a regular file nor a directory: a FIFO, a socket or a
// device. These are not read or written.
var ErrNotRegular = errors.New("not a regular file")

// A Command is a program to run.
type Command struct {
	Line string   // shell text; used if Args is empty
	Args []string // an argument vector, run without a shell
	Dir  string   // "": the workspace's directory
	Env  []string // entries of the form K=V added to the workspace's environment
	// Stdin is the program's standard input; nil: empty.
	Stdin io.Reader
	// Output receives standard output and standard error, merged in the order of arrival; nil:
	// discarded. It is not called concurrently.
	Output io.Writer
	// Stderr, if not nil, receives standard error instead of Output.
	Stderr io.Writer
	// Allow permits paths and hosts, for this command only, that the sandbox would otherwise
	// refuse. A workspace without a sandbox ignores it.
	Allow Allowance
	// Connected, if not nil, is called when the command has reached another host through the sandbox's proxy, with the
	// host's name, from several goroutines. A workspace without a sandbox ignores it: it does not know.
	Connected func(host string)
	// Mask, if not nil, returns values that Output, Stderr and the lines of Exit must not contain, called once when the
	// command of a [Local] has got what Allow.Secrets gives it. Other workspaces ignore it.
	Mask func() []string
	// Limits forbid, for this command only, what the sandbox would otherwise permit. A workspace
	// without a sandbox refuses a command with limits, unless the user switched the sandbox off
	// ([Local.Confine] is nil).
	Limits []Limit

	// Scripts are the files that Line or Args runs and whose content was approved. On this machine
	// a private copy runs instead. A script that may depend on its own path runs in place: it is
	// compared once more before the command starts, and the command is refused if its content has
	// changed. Other workspaces ignore Scripts.
	Scripts []Script

	// AsUser, if not nil, makes a command of a [Local] run outside the sandbox, with the access of the user who runs
	// the program. It gets the environment of the command and returns the one to use. Set it only for what that user
	// wrote. Other workspaces ignore it.
	AsUser func(environ []string) []string

	// Temp is the directory that a sandbox gives the command in the place of /tmp; "": an empty one, which ends with the
	// command. [Local.Run] sets it.
	Temp string

	// Contained is set by [Local.Confine] if no process of the command can outlive it: the system ends all of them.
	Contained bool

	prepared bool // returned by Prepare
}

// An Allowance lists what a rule or a user's answer permits to one command.
type Allowance struct {
	Write []string // absolute paths
	Read  []string // absolute paths
	Hosts []string // host or host:port
	// Replace are absolute paths that git may create, remove, or replace by another file. A protected
	// directory in which one of them lies is writable while the command runs.
	Replace []string
	// Reach, if not nil, decides about each connection through the sandbox's proxy, from several goroutines. It may wait
	// for a user: the client waits, too, and ctx ends when it goes away or the command ends. The error's text says why the
	// host is refused, and what allows it. nil: Hosts and the sandbox's policy decide alone.
	Reach func(ctx context.Context, to Destination) error
	// Denied, if not nil, is called when the command starts and returns the files that rules keep from it, whatever is
	// permitted. If it fails, the command is refused.
	Denied func() (DeniedFiles, error)
	// Secrets, if not nil, is called when a command of a [Local] starts, and returns what it alone gets. The command is as
	// it will run, but for private copies of its Scripts. If it fails, the command is refused. Other workspaces call it
	// for no command: what they run can be seen by others on the way.
	Secrets func(ctx context.Context, c Command) (Secrets, error)
	// Nested, if not nil, is called when the command starts and returns what binds runs of this program that the command
	// starts: see [FindAbove].
	Nested func() string
}

// A Destination is what a connection of a command leads to.
type Destination struct {
	Host, Port string // the host in lower case, the port a number
	// Address is valid if Host is a name that leads to this address, which is not one of the public Internet. Such a
	// connection is decided on twice: first without it.
	Address netip.Addr
	// Own means that another command of the same session serves there, in the sandbox.
	Own    bool
	Listed bool // the sandbox's policy or Allowance.Hosts names the host
}

// DeniedFiles are files and directories that a command must not use. The paths exist, are absolute and lead through no
// link; a directory stands for all that is in it.
type DeniedFiles struct {
	Hidden   []string          // must be neither read nor changed
	ReadOnly []string          // must not be changed
	Rules    map[string]string // the rule that covers each path
}

// Union returns an Allowance of everything that a or b permits. Of Reach and Nested, that of a counts if it has one.
func (a Allowance) Union(b Allowance) Allowance {
	nested, reach := a.Nested, a.Reach
	if nested == nil {
		nested = b.Nested
	}
	if reach == nil {
		reach = b.Reach
	}
	return Allowance{
		Write: slices.Concat(a.Write, b.Write),
		Read:  slices.Concat(a.Read, b.Read),
		Hosts: slices.Concat(a.Hosts, b.Hosts),

		Replace: slices.Concat(a.Replace, b.Replace),
		Denied:  bothDenied(a.Denied, b.Denied),
		Secrets: bothSecrets(a.Secrets, b.Secrets),
		Reach:   reach,
		Nested:  nested,
	}
}

func bothDenied(a, b func() (DeniedFiles, error)) func() (DeniedFiles, error) {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	return func() (DeniedFiles, error) {
		x, err := a()
		if err != nil {
			return x, err
		}
		y, err := b()
		rules := maps.Clone(y.Rules)
		maps.Copy(rules, x.Rules)
		return DeniedFiles{slices.Concat(x.Hidden, y.Hidden), slices.Concat(x.ReadOnly, y.ReadOnly), rules}, err
	}
}

// A Limit restricts one command.
type Limit struct {
	NoNetwork bool // only its own loopback interface is reachable
	// Write are absolute paths: apart from its own temporary directory the command can write
	// nothing else, whatever the sandbox allows. nil: no restriction.
	Write []string
	// Hosts are the only hosts that it can reach, in the form of Allowance.Hosts; nil: no restriction. It holds also where
	// the user switched the sandbox off: the command is refused there. Open means that the user agreed to these hosts, as
	// if Allowance.Hosts had them, but not to addresses of this machine's network that their names lead to. Without it,
	// they open nothing.
	Hosts []string
	Open  bool
}

// ErrLimits is the error for a command whose limits cannot be enforced.
var ErrLimits = errors.New("a skill in use restricts commands, but no sandbox can enforce its limits here")

// An Exit describes how a command ended.
type Exit struct {
	Code   int    // 128+n after signal n
	Signal string // name of the signal that ended it; "" if none
	// Refused lists what the sandbox refused, as far as known.
	Refused []string
	// Restored are those of Refused that the sandbox found and undid after the command: what appeared under a
	// protected name, which somebody else may have made, was renamed.
	Restored []string
	// Left means that processes which the command had started were left when it ended, and that the sandbox ended them.
	Left bool
}
