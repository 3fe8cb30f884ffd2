package install

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// fetchTime limits how long fetching a source takes.
const fetchTime = 10 * time.Minute

// A Given is a source and who wrote it.
type Given struct {
	plugin.Source
	// Typed means that the user typed the address: it may then also be a directory, or an address of ssh, file or http.
	Typed bool
	// Base is the tree that a relative Path starts at: that of a marketplace; "": Path is absolute.
	Base string
	From *plugin.Source // the source of the marketplace that lists it; nil: none
	// Market is the commit of the marketplace; "": it is not from a repository.
	Market string
	// Keys are public keys that the user gave: one of them must have signed it.
	Keys []Signer
	// Known are the keys of the version that is installed.
	Known []Signer
}

// fetch writes the source's tree to w. It returns the commit of a Git source, and the version of an npm package.
func (s *Store) fetch(ctx context.Context, g Given, w *writer) (commit string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTime, fmt.Errorf("it took more than %s", fetchTime))
	defer cancel()
	if !g.Typed {
		if err := g.Check(); err != nil {
			return "", err
		}
	}
	switch g.Kind {
	case plugin.Path:
		return "", s.fetchPath(g, w)
	case plugin.Git:
		return s.fetchGit(ctx, g, w)
	case plugin.Archive:
		return "", s.fetchArchive(ctx, g, w)
	case plugin.Index:
		return "", s.fetchIndex(ctx, g, w)
	case plugin.NPM:
		return s.fetchNPM(ctx, g, w)
	}
	return "", fmt.Errorf("sources of the kind %q are not supported", g.Kind)
}

func (s *Store) fetchPath(g Given, w *writer) error {
	base, dir := g.Base, g.Path
	if base == "" {
		base, dir = g.Path, "."
	}
	root, err := regular.Root(base)
	if err != nil {
		return err
	}
	defer root.Close()
	return w.copyTree(root, path.Clean(filepath.ToSlash(dir)))
}

// fetchGit reads a commit with the system's git. Nothing is checked out: files are read as they are in the repository,
// so that no filter, hook or submodule of it runs.
func (s *Store) fetchGit(ctx context.Context, g Given, w *writer) (string, error) {
	r, done, err := s.repository(ctx, g, w.tmp)
	if err != nil {
		return "", err
	}
	defer done()
	want := cmp.Or(g.SHA, g.Ref, "HEAD")
	fetch := []string{"fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"}
	if g.Path != "" {
		fetch = append(fetch, "--filter=blob:none")
	}
	if _, err := r.git(nil, append(fetch, "--", g.URL, want)...); err != nil {
		return "", fmt.Errorf("%s: %w", plain.Line(g.Source.String()), err)
	}
	out, err := r.git(nil, "rev-parse", "--verify", "FETCH_HEAD^{commit}")
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(out))
	if g.SHA != "" && commit != g.SHA {
		return "", fmt.Errorf("%s: the repository sent the commit %s", plain.Line(g.Source.String()), commit)
	}
	return commit, r.export(commit, g, w)
}

// repository makes an empty repository in the directory tmp, which reaches only the host of the source. done removes
// it.
func (s *Store) repository(ctx context.Context, g Given, tmp string) (_ *repository, done func(), err error) {
	var ends []func()
	end := func() {
		for _, f := range slices.Backward(ends) {
			f()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if _, err := exec.LookPath("git"); err != nil {
		return nil, nil, errors.New("git is not installed")
	}
	through := ""
	if !g.Typed { // git resolves names itself: it reaches this host, at a public address, and nothing else
		u, err := url.Parse(g.URL)
		if err != nil {
			return nil, nil, err
		}
		address, stop, err := guard.New(guard.Options{}).Tunnel(ctx, u)
		if err != nil {
			return nil, nil, err
		}
		ends = append(ends, stop)
		through = address
	}
	dir, err := os.MkdirTemp(tmp, "git-")
	if err != nil {
		return nil, nil, err
	}
	ends = append(ends, func() { os.RemoveAll(dir) })
	ctx, stop := bounded(ctx, dir, maxFetched)
	ends = append(ends, stop)
	r := &repository{ctx: ctx, dir: dir, typed: g.Typed, env: s.Environ, proxy: through}
	_, err = r.git(nil, "init", "-q", "--bare", "--template=", ".")
	return r, end, err
}

// maxFetched is how large a repository may be, packed: git itself has no limit.
const maxFetched = 4 * MaxBytes

// bounded returns a context that is canceled when the files in dir have more than limit bytes.
func bounded(ctx context.Context, dir string, limit int64) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
			size := int64(0)
			filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
				if err != nil {
					return nil // git renamed or removed it
				}
				if info, err := e.Info(); err == nil && !e.IsDir() {
					size += info.Size()
				}
				return nil
			})
			if size > limit {
				cancel(fmt.Errorf("the repository has more than %d MiB", limit>>20))
			}
		}
	}()
	return ctx, func() { cancel(nil); <-ended }
}

// A repository is a bare one, into which one commit was fetched.
type repository struct {
	ctx   context.Context
	dir   string
	typed bool
	env   []string // nil: that of the process
	proxy string   // HOST:PORT; "": as the user configured
}

// git runs git. It never prompts, and runs no program that a repository names.
func (r *repository) git(stdin io.Reader, args ...string) ([]byte, error) {
	cmd := r.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &limited{&out, 64 << 20}, &limited{&errs, 64 << 10}
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(r.ctx); cause != nil {
			return nil, cause
		}
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		return nil, fmt.Errorf("git %s: %s", args[0], plain.Line(cmp.Or(lines[len(lines)-1], err.Error())))
	}
	return out.Bytes(), nil
}

func (r *repository) command(args ...string) *exec.Cmd {
	set := []string{"-c", "core.hooksPath=" + os.DevNull, "-c", "protocol.ext.allow=never",
		"-c", "submodule.recurse=false", "-c", "core.fsmonitor=false", "-c", "transfer.fsckObjects=true"}
	protocols := "https"
	if r.typed {
		protocols = "https:http:ssh:file"
	} else {
		set = append(set, "-c", "http.followRedirects=false")
	}
	if r.proxy != "" {
		set = append(set, "-c", "http.proxy=http://"+r.proxy)
	}
	cmd := exec.CommandContext(r.ctx, "git", append(set, args...)...)
	cmd.Dir = r.dir
	cmd.WaitDelay = time.Second
	cmd.Env = slices.DeleteFunc(userdirs.Environ(r.env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		if r.proxy != "" && strings.EqualFold(name, "no_proxy") {
			return true // it would lead past the proxy
		}
		return strings.HasPrefix(name, "GIT_") && name != "GIT_SSL_CAINFO" && name != "GIT_CONFIG_GLOBAL" &&
			name != "GIT_CONFIG_SYSTEM" && name != "GIT_CONFIG_NOSYSTEM" && name != "GIT_SSH" && name != "GIT_SSH_COMMAND"
	})
	cmd.Env = append(cmd.Env, "GIT_DIR="+r.dir, "GIT_ALLOW_PROTOCOL="+protocols, "GIT_TERMINAL_PROMPT=0",
		"GCM_INTERACTIVE=never", "GIT_LFS_SKIP_SMUDGE=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	return cmd
}

// A blob is a file of a commit.
type blob struct{ mode, id, name string }

// export writes the files of a commit below the source's Path.
func (r *repository) export(commit string, g Given, w *writer) error {
	dir := ""
	if g.Path != "" && path.Clean(g.Path) != "." {
		dir = path.Clean(g.Path)
	}
	list, err := r.git(nil, "ls-tree", "-r", "-z", "--full-tree", commit+":"+dir)
	if err != nil {
		if dir != "" {
			return fmt.Errorf("%s has no directory %s", plain.Line(g.URL), plain.Line(dir))
		}
		return err
	}
	var blobs []blob
	for line := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		head, name, ok := strings.Cut(line, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 3 || f[1] != "blob" { // a submodule
			continue
		}
		if blobs = append(blobs, blob{f[0], f[2], name}); len(blobs) > MaxFiles {
			return errTooMany
		}
	}
	if g.Path != "" { // get all at once what the filter left out
		var ids strings.Builder
		for _, b := range blobs {
			fmt.Fprintln(&ids, b.id)
		}
		r.git(strings.NewReader(ids.String()), "-c", "fetch.negotiationAlgorithm=noop", "fetch", "-q", "--no-tags",
			"--no-write-fetch-head", "--no-recurse-submodules", "--filter=blob:none", "--stdin", "--", g.URL)
		// A server that cannot do this sent everything before; what is missing is an error below.
	}
	return r.blobs(blobs, w)
}

// blobs reads files with one process.
func (r *repository) blobs(all []blob, w *writer) error {
	cmd := r.command("cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		defer in.Close()
		for _, b := range all {
			if _, err := fmt.Fprintln(in, b.id); err != nil {
				return // the process has ended, which Wait reports
			}
		}
	}()
	err = func() error {
		buf := bufio.NewReader(out)
		for _, b := range all {
			head, err := buf.ReadString('\n')
			f := strings.Fields(head)
			if err != nil || len(f) != 3 || f[1] != "blob" {
				return fmt.Errorf("%s: the repository does not have its content", plain.Line(b.name))
			}
			size, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil || w.size+size > MaxBytes {
				return errTooLarge
			}
			content := io.LimitReader(buf, size)
			if b.mode == "120000" {
				target, err := io.ReadAll(io.LimitReader(content, 4096))
				if err == nil {
					err = w.link(b.name, string(target))
				}
				if err != nil {
					return err
				}
			} else if err := w.file(b.name, content, b.mode == "100755"); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				return err
			}
			if _, err := buf.Discard(1); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		cmd.Process.Kill()
	}
	<-fed
	return cmp.Or(err, cmd.Wait())
}

// limited keeps the first n bytes.
type limited struct {
	b *bytes.Buffer
	n int
}

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), l.n-l.b.Len())])
	return len(p), nil
}
