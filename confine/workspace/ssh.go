package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// SSHOptions configure the connection to a host. The user is never asked for a password, a
// passphrase or to accept an unknown host. ssh_config is not read.
type SSHOptions struct {
	Host       string
	Port       string   // "": 22
	User       string   // "": the user of this process
	Dir        string   // absolute; "": the user's home directory on the host
	KnownHosts []string // files; nil: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts
	Keys       []string // private key files; nil: the agent's keys (SSH_AUTH_SOCK), ~/.ssh/id_ed25519, id_ecdsa, id_rsa
	Environ    []string // like os.Environ; locates the user's home and agent; nil: that of the process
	// Silence is how long the host may leave a question unanswered before the connection is closed. 0: 45 seconds.
	Silence time.Duration
}

// SSH is a directory on another machine. Files are accessed with SFTP; ReadDir, Glob, Search and
// atomic writes use a POSIX shell there. Set its fields before the first command runs.
type SSH struct {
	posix
	Prefix      string               // shell text before every command line
	BeforeSpawn func(*Command) error // see [Local.BeforeSpawn]

	conn   *wire
	client *ssh.Client
	sftp   *sftp.Client
	mark   string
	done   chan struct{} // closed by Close
	watch  sync.WaitGroup
	silent atomic.Bool // the host did not answer, and the connection was closed
	deaf   atomic.Bool // the host did not answer when processes were to be killed
	count  atomic.Int64

	mu     sync.Mutex
	closed bool
	pumps  map[*pump]bool // of children left in the background
}

// DialSSH connects to a host. The host's key must be known; the user's key comes from the agent or
// a file.
func DialSSH(ctx context.Context, o SSHOptions) (*SSH, error) {
	if o.Port == "" {
		o.Port = "22"
	}
	if o.User == "" {
		u, err := user.Current()
		if err != nil {
			return nil, err
		}
		o.User = u.Username
	}
	addr := net.JoinHostPort(o.Host, o.Port)
	config, closeAgent, err := o.config(addr)
	if err != nil {
		return nil, fmt.Errorf("ssh %s: %w", addr, err)
	}
	defer closeAgent()
	tcp, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("ssh %s: %w", addr, err)
	}
	conn := &wire{Conn: tcp}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.SetDeadline(time.Now().Add(o.patience()))
	c, chans, reqs, err := ssh.NewClientConn(conn, addr, config)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("ssh %s: %w", addr, explain(err, o.Host))
	}
	w := &SSH{conn: conn, client: ssh.NewClient(c, chans, reqs), mark: token(), done: make(chan struct{}),
		pumps: map[*pump]bool{}}
	if w.sftp, err = sftp.NewClient(w.client); err != nil {
		w.client.Close()
		return nil, fmt.Errorf("ssh %s: no sftp: %w", addr, err)
	}
	w.posix = posix{dir: o.Dir, script: w.script}
	if o.Dir == "" {
		w.dir, err = w.sftp.Getwd()
	}
	if err == nil {
		w.dir = path.Clean(w.dir)
		var info fs.FileInfo
		if info, err = w.sftp.Stat(w.dir); err == nil && !info.IsDir() {
			err = errors.New("not a directory")
		}
	}
	if err != nil {
		w.sftp.Close()
		w.client.Close()
		return nil, fmt.Errorf("ssh %s: %s: %w", addr, w.dir, err)
	}
	conn.SetDeadline(time.Time{})
	w.watch.Go(func() { w.keepAlive(o.patience()) })
	return w, nil
}

// maxSilence is how long a host may leave a question unanswered.
const maxSilence = 45 * time.Second

func (o SSHOptions) patience() time.Duration { return cmp.Or(o.Silence, maxSilence) }

// keepAlive asks the host for a sign of life and closes the connection when none came for the given time: TCP alone
// notices a host that is gone only after many minutes.
func (w *SSH) keepAlive(silence time.Duration) {
	for {
		answered := make(chan error, 1)
		go func() { // ends when the connection does
			_, _, err := w.client.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		select {
		case err := <-answered: // also a refusal is a sign of life
			if err != nil {
				return
			}
		case <-time.After(silence * 2 / 3):
			w.silent.Store(true)
			w.conn.Close()
			return
		case <-w.done:
			return
		}
		select {
		case <-time.After(silence / 3):
		case <-w.done:
			return
		}
	}
}

// lost explains an error of a connection that keepAlive closed.
func (w *SSH) lost(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && w.silent.Load() {
		return fmt.Errorf("ssh: the host no longer answers: %w", err)
	}
	return err
}

// A wire is a connection that tells when it has ended, before the SSH library learns of it. The library's OpenChannel
// waits for ever if it begins after all open channels were told of the end and before writes fail: the first write that
// fails returns no error (golang/go#57531). So none begins once the connection has ended.
type wire struct {
	net.Conn
	mu      sync.Mutex
	ended   bool
	waiting int // for answers to OpenChannel
}

// settle is the time that an OpenChannel that has begun has until it counts as an open channel.
const settle = 100 * time.Millisecond

func (c *wire) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.mu.Lock()
		c.ended = true
		waiting := c.waiting
		c.mu.Unlock()
		if waiting > 0 {
			time.Sleep(settle)
		}
	}
	return n, err
}

// asks reports whether a channel may be opened. If it may, the caller must call answered after OpenChannel has returned.
func (c *wire) asks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.waiting++
	}
	return !c.ended
}

func (c *wire) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
}

// await calls f and returns its results, or the cause of ctx when ctx ends first. Then f goes on until the host
// answers or the connection is closed.
func await[T any](ctx context.Context, w *SSH, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var zero T
	if err := context.Cause(ctx); err != nil {
		return zero, err
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, w.lost(r.err)
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
}

func explain(err error, host string) error {
	var key *knownhosts.KeyError
	switch {
	case errors.As(err, &key) && len(key.Want) == 0:
		return fmt.Errorf("unknown host: connect once with `ssh %s` and check its key", host)
	case errors.As(err, &key):
		return fmt.Errorf("the host's key is not the one in %s:%d: the connection may be intercepted", key.Want[0].Filename,
			key.Want[0].Line)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return errors.New("the host accepted no key: add one with `ssh-add`, or one without a passphrase to ~/.ssh")
	}
	return err
}

func (o SSHOptions) config(addr string) (*ssh.ClientConfig, func(), error) {
	getenv := userdirs.Getenv(o.Environ)
	home := userdirs.From(getenv).Home
	if home == "" {
		return nil, nil, errors.New("the keys and known hosts cannot be found: HOME is not an absolute path")
	}
	hosts := o.KnownHosts
	if hosts == nil {
		for _, f := range []string{filepath.Join(home, ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts"} {
			if _, err := os.Stat(f); err == nil {
				hosts = append(hosts, f)
			}
		}
	}
	known, err := knownhosts.New(hosts...)
	if err != nil {
		return nil, nil, err
	}
	var signers []ssh.Signer
	closeAgent := func() {}
	keys := o.Keys
	if keys == nil {
		if sock := getenv("SSH_AUTH_SOCK"); sock != "" {
			if conn, err := net.Dial("unix", sock); err == nil {
				closeAgent = func() { conn.Close() }
				if s, err := agent.NewClient(conn).Signers(); err == nil {
					signers = s
				}
			}
		}
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			keys = append(keys, filepath.Join(home, ".ssh", name))
		}
	}
	for _, file := range keys {
		data, err := os.ReadFile(file)
		if err != nil {
			if o.Keys != nil {
				return nil, nil, err
			}
			continue
		}
		s, err := ssh.ParsePrivateKey(data)
		if err != nil {
			if o.Keys != nil {
				return nil, nil, fmt.Errorf("%s: %w", file, err)
			}
			continue // it has a passphrase; the agent may have the key
		}
		signers = append(signers, s)
	}
	return &ssh.ClientConfig{
		User: o.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)},
		HostKeyCallback: known, HostKeyAlgorithms: algorithms(known, addr), Timeout: 30 * time.Second,
	}, closeAgent, nil
}

// algorithms returns the algorithms of the known keys of a host, so that the server presents one of
// these keys. nil: the host is unknown.
func algorithms(known ssh.HostKeyCallback, addr string) []string {
	var key *knownhosts.KeyError
	if !errors.As(known(addr, &net.TCPAddr{}, noKey{}), &key) {
		return nil
	}
	var list []string
	for _, k := range key.Want {
		switch t := k.Key.Type(); t {
		case ssh.KeyAlgoRSA:
			list = append(list, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			list = append(list, t)
		}
	}
	return list
}

// noKey is a key that no host has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a key") }

// Open opens a regular file with SFTP. Its real path is resolved by name.
func (w *SSH) Open(ctx context.Context, name string) (File, error) {
	name = w.Path(name)
	info, err := await(ctx, w, func() (fs.FileInfo, error) { return w.sftp.Stat(name) })
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if err := regular("open", name, info); err != nil {
		return nil, err
	}
	real, err := w.Realpath(ctx, name)
	if err != nil {
		return nil, err
	}
	f, err := await(ctx, w, func() (*sftp.File, error) { return w.sftp.Open(real) })
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &sshFile{w, f, ctx, real}, nil
}

// An sshFile is a file that was opened with ctx, which ends its operations too: they have none of their own.
type sshFile struct {
	w    *SSH
	file *sftp.File
	ctx  context.Context
	real string
}

func (f *sshFile) Realpath() string { return f.real }

func (f *sshFile) Stat() (fs.FileInfo, error) { return await(f.ctx, f.w, f.file.Stat) }

func (f *sshFile) Read(p []byte) (int, error) { return f.read(p, f.file.Read) }

func (f *sshFile) ReadAt(p []byte, at int64) (int, error) {
	return f.read(p, func(p []byte) (int, error) { return f.file.ReadAt(p, at) })
}

// read reads into a buffer of its own, because the reading may go on when read returns.
func (f *sshFile) read(p []byte, from func([]byte) (int, error)) (int, error) {
	type piece struct {
		data []byte
		err  error
	}
	got, err := await(f.ctx, f.w, func() (piece, error) {
		data := make([]byte, len(p))
		n, err := from(data)
		return piece{data[:n], err}, nil
	})
	if err != nil {
		return 0, err
	}
	return copy(p, got.data), f.w.lost(got.err)
}

func (f *sshFile) Seek(offset int64, whence int) (int64, error) {
	return await(f.ctx, f.w, func() (int64, error) { return f.file.Seek(offset, whence) })
}

func (f *sshFile) Close() error {
	_, err := await(f.ctx, f.w, func() (struct{}, error) { return struct{}{}, f.file.Close() })
	return err
}

// Realpath resolves all links in a path; parts that do not exist stay as written. It uses SFTP,
// because starting a shell may take a second.
func (w *SSH) Realpath(ctx context.Context, name string) (string, error) {
	rest := name // not cleaned: "link/.." is the parent of the link's target
	if !path.IsAbs(name) {
		rest = w.dir + "/" + name
	}
	done, links := "/", 0
	for rest != "" {
		var c string
		c, rest, _ = strings.Cut(rest, "/")
		next := path.Join(done, c)
		if c == "" || c == "." || c == ".." {
			done = next
			continue
		}
		info, err := await(ctx, w, func() (fs.FileInfo, error) { return w.sftp.Lstat(next) })
		switch {
		case errors.Is(err, fs.ErrNotExist):
			done = next
			continue
		case err != nil:
			return "", pathError("realpath", name, err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", pathError("realpath", name, errors.New("too many links"))
		}
		target, err := await(ctx, w, func() (string, error) { return w.sftp.ReadLink(next) })
		if err != nil {
			return "", pathError("realpath", name, err)
		}
		if path.IsAbs(target) {
			done = "/"
		}
		rest = target + "/" + rest
	}
	return done, nil
}

// Stat describes the file at path, following links.
func (w *SSH) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := await(ctx, w, func() (fs.FileInfo, error) { return w.sftp.Stat(w.Path(name)) })
	return info, pathError("stat", name, err)
}

// Lstat describes the file at path without following a link.
func (w *SSH) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := await(ctx, w, func() (fs.FileInfo, error) { return w.sftp.Lstat(w.Path(name)) })
	return info, pathError("lstat", name, err)
}

func pathError(op, name string, err error) error {
	var pe *fs.PathError
	if err == nil || errors.As(err, &pe) {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (w *SSH) script(
	ctx context.Context, text string, args []string, in io.Reader, out, stderr io.Writer,
) (int, error) {
	exit, err := w.exec(ctx, "exec /bin/sh -c "+quote(text)+" sh "+quoteAll(args), in, out, stderr, nil)
	return exit.Code, err
}

// Prepare works like [Local.Prepare].
func (w *SSH) Prepare(c Command) (Command, error) {
	return prepare(c, w.dir, w.Path, w.Prefix, w.BeforeSpawn)
}

// Run works like [Local.Run]. To kill processes it finds them by the mark in their environment,
// which needs /proc on the host.
func (w *SSH) Run(ctx context.Context, c Command) (Exit, error) {
	if err := context.Cause(ctx); err != nil {
		return Exit{}, err
	}
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
	line := "exec /bin/sh -c " + quote(posixFuncs+"\nknack_run \"$@\"") + " sh " + quoteAll(runArgs(c, mark))
	exit, err := w.exec(ctx, line, c.Stdin, first, c.Stderr, func() { w.kill(mark) })
	if err != nil {
		return exit, err
	}
	if err := first.failed(c); err != nil {
		return Exit{}, err
	}
	return exit, nil
}

// exec runs a line on the host. When ctx ends, it calls kill for the processes that closing the
// channel does not end.
func (w *SSH) exec(ctx context.Context, line string, in io.Reader, out, stderr io.Writer, kill func()) (Exit, error) {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed && kill != nil {
		return Exit{}, ErrClosed
	}
	opened, err := await(ctx, w, func() (opened channel, err error) {
		if !w.conn.asks() {
			return opened, io.EOF
		}
		defer w.conn.answered()
		opened.Channel, opened.requests, err = w.client.OpenChannel("session", nil)
		if err == nil && ctx.Err() != nil { // nobody waits for it any more
			opened.Close()
		}
		return opened, err
	})
	if err != nil && w.silent.Load() {
		return Exit{}, err // says so already
	} else if err != nil {
		return Exit{}, fmt.Errorf("ssh: %w", err)
	}
	ch, reqs := opened.Channel, opened.requests
	ended := make(chan Exit, 1)
	go func() {
		reported := false
		for r := range reqs {
			if e, ok := exitOfRequest(r); ok && !reported { // the whole connection waits for this loop
				reported = true
				ended <- e
			}
			if r.WantReply {
				r.Reply(false, nil)
			}
		}
		if !reported {
			ended <- Exit{Code: -1} // the connection was closed
		}
	}()
	request := ssh.Marshal(struct{ Command string }{line})
	if ok, err := await(ctx, w, func() (bool, error) { return ch.SendRequest("exec", true, request) }); err != nil || !ok {
		ch.Close()
		if ctx.Err() != nil {
			return Exit{}, context.Cause(ctx)
		}
		return Exit{}, errors.Join(errors.New("ssh: the server does not run commands"), err)
	}
	go func() {
		if in != nil {
			io.Copy(ch, in)
		}
		ch.CloseWrite()
	}()
	pumps := []*pump{
		{r: ch, out: out, done: make(chan struct{}), idle: hostIdle},
		{r: noClose{ch.Stderr()}, out: stderr, done: make(chan struct{}), idle: hostIdle},
	}
	for _, p := range pumps {
		go p.run()
	}
	var exit Exit
	select {
	case exit = <-ended:
	case <-ctx.Done():
		if kill != nil {
			kill()
		}
		patience := drain
		if w.deaf.Load() { // nothing more will come
			patience = 0
		}
		select { // its remaining output is still read
		case exit = <-ended:
		case <-time.After(patience):
		}
	}
	for _, p := range pumps {
		p.wait()
	}
	if err := context.Cause(ctx); err != nil {
		ch.Close()
		return exit, err
	}
	if exit.Code < 0 {
		ch.Close()
		return exit, w.lost(errors.New("ssh: the connection ended"))
	}
	if !pumps[0].ended() { // a background child may still write
		w.mu.Lock()
		w.pumps[pumps[0]] = true
		w.mu.Unlock()
	} else {
		ch.Close()
	}
	return exit, nil
}

// A channel is an open channel with the requests of the other side.
type channel struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

type noClose struct{ io.Reader }

func (noClose) Close() error { return nil }

// exitOfRequest returns how a command ended, if a request says so (RFC 4254, 6.10).
func exitOfRequest(r *ssh.Request) (Exit, bool) {
	switch r.Type {
	case "exit-status":
		var m struct{ Status uint32 }
		if ssh.Unmarshal(r.Payload, &m) == nil {
			return Exit{Code: int(m.Status)}, true
		}
	case "exit-signal":
		var m struct {
			Signal      string
			Core        bool
			Error, Lang string
		}
		if ssh.Unmarshal(r.Payload, &m) == nil {
			for _, s := range signals {
				if s.name == m.Signal {
					return Exit{Code: 128 + s.n, Signal: s.text}, true
				}
			}
			return Exit{Code: 128, Signal: "unknown"}, true
		}
	}
	return Exit{}, false
}

// killTime limits how long killing processes may take: the host may be gone.
const killTime = 5 * time.Second

// kill kills the processes of commands. A host that does not answer in time is not asked again.
func (w *SSH) kill(mark string) {
	if w.deaf.Load() {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), killTime)
	defer stop()
	w.do(ctx, "knack_kill", w.dir, nil, nil, mark)
	if ctx.Err() != nil {
		w.deaf.Store(true)
	}
}

// Close kills all processes that commands left behind and disconnects.
func (w *SSH) Close() error {
	w.mu.Lock()
	was := w.closed
	w.closed = true
	w.mu.Unlock()
	if was {
		return nil
	}
	if w.count.Load() > 0 {
		w.kill(w.mark)
	}
	close(w.done)
	patience := killTime
	if w.deaf.Load() {
		patience = 0
	}
	w.conn.SetDeadline(time.Now().Add(patience)) // ends what waits for a host that is gone
	w.sftp.Close()
	err := w.client.Close()
	w.watch.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.pumps {
		<-p.done
	}
	return err
}
