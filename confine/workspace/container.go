package workspace

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Container is a directory on another system that is reached with a command prefix: `docker exec -i
// NAME`, `kubectl exec -i POD --`, or any command that runs its arguments there and passes on their
// input, output and exit code. Set its fields before the first command runs.
//
// Cancelling a command kills its processes there. They are found by a mark in their environment,
// which needs /proc.
type Container struct {
	posix
	Prefix      string               // shell text before every command line
	BeforeSpawn func(*Command) error // see [Local.BeforeSpawn]

	words []string
	local *Local
	mark  string
	count atomic.Int64
}

// NewContainer opens the directory dir on the system that a command prefix reaches. environ is the environment in which
// the prefix runs on this machine; nil means that of this process.
func NewContainer(ctx context.Context, prefix []string, dir string, environ []string) (*Container, error) {
	local, err := NewLocal(".")
	if err != nil {
		return nil, err
	}
	local.Environ = environ
	w := &Container{words: prefix, local: local, mark: token()}
	w.posix = posix{dir: dir, script: w.script}
	info, err := w.Stat(ctx, dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		local.Close()
		return nil, fmt.Errorf("%s: %w", strings.Join(prefix, " "), err)
	}
	return w, nil
}

func (w *Container) args(text string, args []string) []string {
	return slices.Concat(w.words, []string{"sh", "-c", text, "sh"}, args)
}

func (w *Container) script(ctx context.Context, text string, args []string, in io.Reader, out, stderr io.Writer) (int,
	error) {
	exit, err := w.local.Run(ctx, Command{Args: w.args(text, args), Stdin: in, Output: out, Stderr: stderr})
	return exit.Code, err
}

// Prepare works like [Local.Prepare].
func (w *Container) Prepare(c Command) (Command, error) {
	return prepare(c, w.dir, w.Path, w.Prefix, w.BeforeSpawn)
}

// Run works like [Local.Run].
func (w *Container) Run(ctx context.Context, c Command) (Exit, error) {
	c, err := w.Prepare(c)
	if err != nil {
		return Exit{}, err
	}
	if err := checkLine(c); err != nil {
		return Exit{}, err
	}
	if len(c.Limits) > 0 {
		return Exit{}, ErrLimits
	}
	mark := fmt.Sprintf("%s.%d;", w.mark, w.count.Add(1))
	first := &startReader{out: c.Output}
	cmd := Command{Args: w.args(posixFuncs+"\nknack_run \"$@\"", runArgs(c, mark)), Stdin: c.Stdin, Output: first,
		Stderr: c.Stderr}
	exit, err := w.local.Run(ctx, cmd)
	if ctx.Err() != nil {
		w.kill(mark)
		return exit, context.Cause(ctx)
	}
	if err != nil {
		return exit, err
	}
	if err := first.failed(c); err != nil {
		return Exit{}, err
	}
	return signalled(exit), nil
}

// signalled sets the signal for an exit code of 128+n, for transports that return only exit codes.
func signalled(e Exit) Exit {
	if e.Signal == "" {
		for _, s := range signals {
			if e.Code == 128+s.n && (s.n == 9 || s.n == 15 || s.n == 6 || s.n == 11) {
				e.Signal = s.text
			}
		}
	}
	return e
}

func (w *Container) kill(mark string) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	w.do(ctx, "knack_kill", w.dir, nil, nil, mark)
}

// Close kills every process that a command left behind.
func (w *Container) Close() error {
	if w.count.Load() > 0 {
		w.kill(w.mark)
	}
	return w.local.Close()
}
