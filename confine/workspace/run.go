package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/traceparent"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

const (
	// idle is the time without output after which a command counts as ended although a background
	// child keeps a pipe open.
	idle = 100 * time.Millisecond
	// hostIdle is the same for a host: its last output may still be on the way when the command's end is known.
	hostIdle = time.Second
	// drain limits that wait for children that write all the time.
	drain = 2 * time.Second
	// maxLine is the maximum length of one argument on Linux (MAX_ARG_STRLEN).
	maxLine = 128<<10 - 1
	// mark is the environment variable that identifies a command's processes, including those that
	// have moved to another session. Nested Knack processes append to it.
	mark = "KNACK_COMMAND"
)

// ErrClosed is the error of Run after Close.
var ErrClosed = errors.New("workspace: closed")

// A shell runs command lines.
type shell struct {
	path string
	args []string // before the line
}

func (l *Local) findShell() (shell, error) {
	path, err := bashLike(runtime.GOOS, l.Shell, func(name string) (string, error) {
		path, err := exec.LookPath(name)
		if err == nil && l.Shell == "" && subpath.Contains(l.dir, path) {
			err = fmt.Errorf("%s lies in the workspace", path)
		}
		return path, err
	})
	return shell{path, []string{"-c"}}, err
}

// bashLike returns the program for command lines: the one that is set, or the first that look finds. Rules are decided
// on the syntax of bash, so PowerShell is none: it calls rm in `echo @(rm x)`. On Windows the bash of Git is rarely on
// PATH, and the bash.exe of the system starts WSL, where paths of Windows are not valid.
func bashLike(goos, set string, look func(string) (string, error)) (string, error) {
	if set != "" {
		path, err := look(set)
		switch {
		case err != nil:
			return "", fmt.Errorf("shell not found: %s", set)
		case powerShell(path):
			return "", fmt.Errorf("%s is PowerShell, and rules are decided on the syntax of bash: "+
				"set shell.path to a bash, or write a skill with shell: powershell", set)
		}
		return path, nil
	}
	if goos != "windows" {
		for _, name := range []string{"/bin/bash", "bash", "sh"} {
			if path, err := look(name); err == nil {
				return path, nil
			}
		}
		return "", errors.New("no shell found: looked for /bin/bash, bash, sh")
	}
	for _, name := range append(gitShells(look), "bash", "sh") {
		if path, err := look(name); err == nil && !strings.Contains(strings.ToLower(path), `\windows\system32\`) {
			return path, nil
		}
	}
	return "", errors.New("no bash found on PATH or beside git: install Git for Windows, or set shell.path to a bash.exe")
}

// gitShells returns where Git for Windows has its bash, which git.exe tells: that is in cmd, bin or mingw64\bin.
func gitShells(look func(string) (string, error)) []string {
	const usual = `C:\Program Files\Git\bin\bash.exe`
	dir, err := look("git")
	if err != nil {
		return []string{usual}
	}
	var names []string
	for range 3 {
		i := strings.LastIndexAny(dir, `\/`)
		if i < 0 {
			break
		}
		dir = dir[:i]
		names = append(names, dir+`\bin\bash.exe`)
	}
	return append(names, usual)
}

// powerShell reports whether a program is a PowerShell, by its name on any system.
func powerShell(path string) bool {
	name := strings.ToLower(path[strings.LastIndexAny(path, `\/`)+1:])
	name = strings.TrimSuffix(name, ".exe")
	return name == "pwsh" || name == "powershell"
}

// ShellName returns the name of the shell that runs command lines (bash, sh). The error says
// where it was searched.
func (l *Local) ShellName() (string, error) {
	s, err := l.shell()
	return strings.TrimSuffix(filepath.Base(s.path), ".exe"), err
}

// PowerShell returns the argument vector that runs a PowerShell command line on this machine. The
// error says where PowerShell was searched.
func (l *Local) PowerShell(line string) ([]string, error) {
	names := []string{"pwsh"}
	if runtime.GOOS == "windows" {
		names = append(names, "powershell")
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) && !subpath.Contains(l.dir, path) {
			return []string{path, "-NoProfile", "-NonInteractive", "-Command", line}, nil
		}
	}
	return nil, fmt.Errorf("PowerShell is not installed: looked for %s on PATH", strings.Join(names, ", "))
}

// environ returns the environment of commands, without PATH entries in which the workspace could
// put programs: relative ones and those inside it.
func (l *Local) environ() []string {
	env := userdirs.Environ(l.Environ)
	for i, kv := range env {
		name, list, _ := strings.Cut(kv, "=")
		if name != "PATH" && !(runtime.GOOS == "windows" && strings.EqualFold(name, "PATH")) {
			continue
		}
		var keep []string
		for _, p := range filepath.SplitList(list) {
			if filepath.IsAbs(p) && !subpath.Contains(l.dir, p) {
				keep = append(keep, p)
			}
		}
		env[i] = name + "=" + strings.Join(keep, string(filepath.ListSeparator))
	}
	return env
}

// Prepare returns the command as it will run: with the prefix, an absolute directory and the
// changes of BeforeSpawn. Check permissions on this result; Run then changes only the names of
// Scripts.
func (l *Local) Prepare(c Command) (Command, error) {
	return prepare(c, l.dir, l.Path, l.Prefix, l.BeforeSpawn)
}

func prepare(c Command, dir string, abs func(string) string, prefix string, before func(*Command) error) (Command,
	error) {
	if c.prepared {
		return c, nil
	}
	if c.Dir == "" {
		c.Dir = dir
	} else {
		c.Dir = abs(c.Dir)
	}
	if len(c.Args) == 0 && prefix != "" {
		c.Line = prefix + "\n" + c.Line
	}
	if before != nil {
		if err := before(&c); err != nil {
			return c, err
		}
	}
	c.prepared = true
	return c, nil
}

// A process is a command's shell and all processes that it started.
type process struct {
	pid    int         // of the shell, which leads its own session and group; 0: none
	waited atomic.Bool // the shell has ended, and was waited for
	mark   string      // in the environment of all these processes
	group  group
	pumps  []*pump
	feed   func() // writes the command's input; nil: it has none
}

// Run runs a command and waits until it has ended and its output has been read. It does not wait
// for background children: it reads output until there is none for 100 ms (at most 2 s) and
// discards later output; such a child lives until [Local.Close]. Cancelling ctx kills all processes
// of the command; Run then returns a partial Exit and the cause. Any other error means that the
// command could not be started; a failing command is reported in the Exit.
//
// On Linux, killing reaches processes that changed their group and session, unless they also gave
// up their parent, cleared their environment and redirected their output. On other Unix systems it
// reaches the process group, on Windows the job object.
func (l *Local) Run(ctx context.Context, c Command) (Exit, error) {
	if err := context.Cause(ctx); err != nil {
		return Exit{}, err
	}
	c, err := l.Prepare(c)
	if err != nil {
		return Exit{}, err
	}
	c, secrets, err := l.secretsOf(ctx, c)
	if err != nil {
		return Exit{}, err
	}
	endMask := masked(&c)
	c, inPlace, err := l.useCopies(c)
	if err != nil {
		return Exit{}, err
	}
	cmd, err := l.command(c)
	if err != nil {
		return Exit{}, err
	}
	if env := traceparent.From(ctx).Env(); env != nil {
		c.Env = slices.Concat(env, c.Env)
	}
	p := &process{mark: fmt.Sprintf("%s.%d;", l.mark, l.count.Add(1))}
	cmd.Env = slices.Concat(without(l.env(), secrets.Without), c.Env, []string{mark + "=" + os.Getenv(mark) + p.mark})
	if c.Allow.Nested != nil {
		limits := c.Allow.Nested()
		if len(limits) > maxLine/2 {
			limits = "too long" // so that nothing starts below the command, which the system would refuse otherwise
		}
		cmd.Env = append(cmd.Env, nestedVar+"="+limits)
	}
	ended := func(*Exit) {}
	var temp *Temp
	if c.AsUser != nil {
		cmd.Env = c.AsUser(cmd.Env)
	} else if l.Confine != nil {
		if l.Temp != nil {
			temp, c.Temp = l.Temp, l.Temp.Dir
			c.Allow.Read = append(slices.Clip(c.Allow.Read), l.Temp.Read...)
			if of := l.Temp.Log; of != nil && of() != "" {
				c.Allow.Read = append(c.Allow.Read, of())
			}
			l.Temp.used()
		}
		f, err := l.Confine(cmd, &c)
		if err != nil {
			return Exit{}, err
		}
		if f != nil {
			ended = f
		}
	}
	if !c.Contained {
		l.uncontained.Store(true)
	}
	if err := p.connect(cmd, c); err != nil {
		ended(&Exit{})
		return Exit{}, err
	}
	if err = unchanged(temp, inPlace); err == nil {
		if err = l.start(cmd, p); err != nil {
			err = startError(err, c, cmd)
		}
	}
	p.closeOutputs(cmd)
	if f, ok := cmd.Stdin.(*os.File); ok && p.feed != nil {
		f.Close() // cmd.Start closes it, too
	}
	if err != nil {
		p.disconnect()
		ended(&Exit{})
		return Exit{}, err
	}
	for _, pump := range p.pumps {
		go pump.run()
	}
	if p.feed != nil {
		go p.feed()
	}
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		p.kill()
		cmd.Process.Kill()
		close(killed)
	})
	cmd.Wait() // the result is in ProcessState
	p.waited.Store(true)
	if !stop() {
		<-killed
	}
	for _, pump := range p.pumps {
		pump.wait()
	}
	l.forgetIfGone(p)
	exit := exitOf(cmd.ProcessState)
	ended(&exit)
	exit.Refused = endMask(exit.Refused)
	if err := context.Cause(ctx); err != nil {
		return exit, err
	}
	return exit, nil
}

func (l *Local) command(c Command) (*exec.Cmd, error) {
	var cmd *exec.Cmd
	if len(c.Args) > 0 {
		cmd = exec.Command(c.Args[0], c.Args[1:]...)
		if cmd.Err != nil && !errors.Is(cmd.Err, exec.ErrDot) {
			return nil, fmt.Errorf("cannot run %s: not found on PATH", c.Args[0])
		}
	} else {
		switch {
		case strings.IndexByte(c.Line, 0) >= 0:
			return nil, errors.New("the command contains a NUL byte, which no shell accepts")
		case len(c.Line) > maxLine:
			return nil, fmt.Errorf("the command is %d bytes long, more than the %d the system takes: write it to a file and "+
				"run that", len(c.Line), maxLine)
		}
		s, err := l.shell()
		if err != nil {
			return nil, err
		}
		cmd = &exec.Cmd{Path: s.path, Args: append(append([]string{s.path}, s.args...), c.Line)}
	}
	cmd.Dir = c.Dir
	return cmd, nil
}

func startError(err error, c Command, cmd *exec.Cmd) error {
	if info, serr := os.Stat(c.Dir); errors.Is(serr, fs.ErrNotExist) {
		return fmt.Errorf("working directory does not exist: %s", c.Dir)
	} else if serr == nil && !info.IsDir() {
		return fmt.Errorf("working directory is not a directory: %s", c.Dir)
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, syscall.E2BIG) {
		return errors.New("the command and its environment are longer than the system takes: write the command to a file " +
			"and run that")
	}
	return fmt.Errorf("cannot run %s: %w", cmd.Path, err)
}

// start starts a process unless the workspace is closed, so that Close misses none.
func (l *Local) start(cmd *exec.Cmd, p *process) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if err := p.group.start(cmd); err != nil {
		return err
	}
	p.pid = cmd.Process.Pid
	l.processes[p] = true
	return nil
}

// forgetIfGone keeps a process in l.processes only while some of its processes may be alive.
func (l *Local) forgetIfGone(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.ended() {
		delete(l.processes, p)
		p.group.close()
	}
	if len(l.processes) > 64 { // remove background processes that have ended since
		for q := range l.processes {
			if q.ended() {
				delete(l.processes, q)
				q.group.close()
			}
		}
	}
}

// ended reports whether all processes of a command are known to have ended.
func (p *process) ended() bool {
	for _, pump := range p.pumps {
		if !pump.ended() {
			return false
		}
	}
	return !p.group.alive(p.leader())
}

// Close kills all processes that commands started, including running commands. Later commands fail
// with [ErrClosed].
func (l *Local) Close() error {
	l.mu.Lock()
	live, private := l.processes, l.private
	l.closed, l.processes = true, nil
	l.mu.Unlock()
	if private != "" {
		defer os.RemoveAll(private)
	}
	for p := range live {
		p.kill()
		for _, pump := range p.pumps {
			pump.stop()
		}
		p.group.close()
	}
	if l.uncontained.Load() {
		(&process{mark: l.mark}).kill() // processes that left the group and session and closed the output
	}
	return nil
}

// connect connects the command's input and output to pipes.
func (p *process) connect(cmd *exec.Cmd, c Command) error {
	if f, ok := c.Stdin.(*os.File); ok {
		cmd.Stdin = f
	} else if c.Stdin != nil {
		w, err := cmd.StdinPipe() // closed by cmd.Wait
		if err != nil {
			return err
		}
		// Not cmd.Stdin: Wait would wait for a reader that never ends.
		p.feed = func() { io.Copy(w, c.Stdin); w.Close() }
	}
	if c.Output != nil {
		w, err := p.pipe(c.Output)
		if err != nil {
			return err
		}
		cmd.Stdout = w
	}
	cmd.Stderr = cmd.Stdout
	if c.Stderr != nil {
		w, err := p.pipe(c.Stderr)
		if err != nil {
			p.closeOutputs(cmd)
			p.disconnect()
			return err
		}
		cmd.Stderr = w
	}
	return nil
}

func (p *process) pipe(out io.Writer) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.pumps = append(p.pumps, &pump{r: r, out: out, done: make(chan struct{}), flushed: make(chan struct{})})
	return w, nil
}

// closeOutputs closes our copies of the files that the child writes to.
func (*process) closeOutputs(cmd *exec.Cmd) {
	for _, w := range []io.Writer{cmd.Stdout, cmd.Stderr} {
		if f, ok := w.(*os.File); ok && f != nil {
			f.Close() // closed twice if both are the same file, which is harmless
		}
	}
}

func (p *process) disconnect() {
	for _, pump := range p.pumps {
		pump.r.Close()
	}
}

// A pump reads a pipe to its end. The end may come long after that of the command, because a
// background child that still writes must not be killed by SIGPIPE.
type pump struct {
	r       io.ReadCloser
	done    chan struct{}
	flushed chan struct{} // closed when the content of the pipe at a deadline was passed on; only for files
	reads   atomic.Int64
	idle    time.Duration // if longer than idle

	mu  sync.Mutex
	out io.Writer // nil: the output is discarded
}

// pumpBuffers are the buffers of pumps, which were a quarter of what a turn with a call allocated.
var pumpBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (p *pump) run() {
	defer close(p.done)
	defer p.r.Close()
	array := pumpBuffers.Get().(*[32 << 10]byte)
	defer pumpBuffers.Put(array)
	buf := array[:]
	for {
		n, err := p.r.Read(buf)
		p.forward(buf[:n])
		if f, ok := p.r.(*os.File); ok && errors.Is(err, os.ErrDeadlineExceeded) {
			f.SetReadDeadline(time.Time{})
			for range 64 { // 2 MiB, more than a pipe can contain
				if n := readNow(f, buf); n > 0 {
					p.forward(buf[:n])
					continue
				}
				break
			}
			close(p.flushed)
		} else if err != nil {
			return
		}
	}
}

func (p *pump) forward(data []byte) {
	if len(data) == 0 {
		return
	}
	p.reads.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil {
		p.out.Write(data)
	}
}

// wait returns when the pipe has ended or is idle; the pump writes nothing to out afterwards. It
// must be called only once.
func (p *pump) wait() {
	select {
	case <-p.done:
		return
	default:
	}
	// The time is cut into pieces, because a program that gets no processor time sees only one of them pass.
	const step = idle / 5
	t := time.NewTicker(step)
	defer t.Stop()
	silent := time.Duration(0)
	for range drain / step {
		before := p.reads.Load()
		select {
		case <-p.done:
			return
		case <-t.C:
		}
		if silent += step; p.reads.Load() != before {
			silent = 0
		}
		if silent >= max(p.idle, idle) {
			break
		}
	}
	// If this program had no time to read, a full pipe looks idle. Only the pump can check what the
	// pipe contains.
	if f, ok := p.r.(*os.File); ok && f.SetReadDeadline(time.Now()) == nil {
		select {
		case <-p.flushed:
		case <-p.done:
		}
	}
	p.mu.Lock()
	p.out = nil
	p.mu.Unlock()
}

func (p *pump) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop ends a pump whose writers were killed. If one survived, stop closes the pipe.
func (p *pump) stop() {
	select {
	case <-p.done:
	case <-time.After(drain):
		p.r.Close()
	}
}
