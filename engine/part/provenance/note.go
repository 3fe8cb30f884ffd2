package provenance

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/sources"
)

// A Note is what a commit carries, as JSON, in refs/notes/knack.
type Note struct {
	Version int       `json:"knack"` // 1
	Session string    `json:"session"`
	Entry   int       `json:"entry"` // the last of the session's log when the commit was seen
	Model   string    `json:"model"`
	Skills  []Skill   `json:"skills,omitempty"` // in use
	Commit  string    `json:"commit"`           // as it was made
	Time    time.Time `json:"time"`
	// Lines are hashes of the lines that the commit added, by file: a line is found again after the commit was squashed or
	// rebased.
	Lines map[string][]string `json:"lines,omitempty"`
	// Seal is a keyed hash of the rest, whose key only this user has on this machine.
	Seal string `json:"seal"`
}

// A Skill is a skill with the hash of its files; "": they cannot be read.
type Skill struct {
	Name string `json:"name"`
	Tree string `json:"tree,omitempty"`
}

// Limits of what is written and read.
const (
	maxLines   = 5_000     // of one commit
	maxCommits = 100       // of one call
	maxDiff    = 16 << 20  // bytes
	maxNotes   = 128 << 20 // bytes of all notes
	minLine    = 4         // characters of a line that is told from others

	gitTime = 20 * time.Second
)

const ref = "knack" // of refs/notes

// hashOf returns the hash of a line; "": it has too few characters to be told from others.
func hashOf(line string) string {
	if line = strings.TrimSpace(line); len(line) < minLine {
		return ""
	}
	sum := sha256.Sum256([]byte(line))
	return hex.EncodeToString(sum[:6])
}

// sealOf returns the seal that a note should have.
func (n Note) sealOf(key []byte) string {
	n.Seal = ""
	data, err := json.Marshal(n)
	if err != nil {
		return ""
	}
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// sealed reports whether a note was written with a key, and not changed since.
func (n Note) sealed(key []byte) bool {
	return len(key) > 0 && hmac.Equal([]byte(n.Seal), []byte(n.sealOf(key)))
}

const keySize = 32

// keyOf returns the key for seals, which it creates if create is set. nil: there is none.
func keyOf(env engine.Env, create bool) ([]byte, error) {
	path := env.StateFile("provenance.key")
	if path == "" {
		return nil, engine.ErrNoState("commits get no notes")
	}
	key, err := regular.Read(path, keySize)
	switch {
	case err == nil && len(key) == keySize:
		return key, nil
	case err == nil:
		return nil, fmt.Errorf("%s has not %d bytes: remove it", path, keySize)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case !create:
		return nil, nil
	}
	key = make([]byte, keySize)
	rand.Read(key) // it never fails
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // another session was faster
		return keyOf(env, false)
	}
	if err != nil {
		return nil, err
	}
	_, err = f.Write(key)
	return key, errors.Join(err, f.Close())
}

// A repository runs git in the root of a work tree, without the programs that its configuration names.
type repository struct {
	git  *permission.Git
	root string
}

// open returns the repository that contains a directory; nil: none does.
func open(dir string, environ []string) *repository {
	root := sources.Root(dir)
	if _, err := os.Lstat(filepath.Join(root, ".git")); err != nil {
		return nil
	}
	git := permission.NewGit(root)
	git.Environ = environ
	return &repository{git, root}
}

// run runs git with more variables. More than most bytes of output are an error.
func (r *repository) run(ctx context.Context, most int64, stdin string, env []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	cmd, err := r.git.Command(ctx, r.root, append([]string{"-c", "core.quotePath=false"}, args...)...)
	if err != nil {
		return nil, err
	}
	// The author of notes: a user may have no name yet, and no other name is right.
	cmd.Env = append(cmd.Env, "GIT_AUTHOR_NAME=Knack", "GIT_AUTHOR_EMAIL=knack@localhost", "GIT_COMMITTER_NAME=Knack",
		"GIT_COMMITTER_EMAIL=knack@localhost")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &limited{to: &errs, left: 4 << 10}
	out, err := output(cmd, most)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("git %s has not ended within %s", args[0], gitTime)
		}
		line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, line)
	}
	return out, nil
}

// output runs a command and returns what it prints, up to a number of bytes.
func output(cmd *exec.Cmd, most int64) ([]byte, error) {
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(pipe, most+1))
	if err == nil && int64(len(data)) > most {
		cmd.Process.Kill()
		err = errors.New("it printed too much")
	}
	return data, errors.Join(err, cmd.Wait())
}

// limited passes on the first bytes, and drops the others.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	if _, err := l.to.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A state is what a repository had at a time.
type state struct {
	head string   // the commit that is checked out; "": none
	tips []string // of all branches and tags
}

const maxTips = 20_000

// now returns the state of the repository.
func (r *repository) now(ctx context.Context) (s state) {
	out, err := r.run(ctx, 16<<20, "", nil, "show-ref", "--head")
	if err != nil {
		return s // nothing is committed yet
	}
	for line := range strings.Lines(string(out)) {
		commit, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && name == "HEAD" {
			s.head = commit
		}
		if ok && len(s.tips) < maxTips {
			s.tips = append(s.tips, commit)
		}
	}
	return s
}

// made returns the commits that lead to a commit and were made here since a time: none that another branch had, and
// none that came from elsewhere.
func (r *repository) made(ctx context.Context, before state, to string, since time.Time) (commits []string, err error) {
	var not strings.Builder
	for _, tip := range before.tips {
		not.WriteString("^" + tip + "\n")
	}
	out, err := r.run(ctx, 1<<20, not.String(), nil, "rev-list", "--timestamp", fmt.Sprintf("--max-count=%d", maxCommits),
		"--stdin", to, "--not", "--remotes")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		var at int64
		var commit string
		if n, _ := fmt.Sscanf(line, "%d %s", &at, &commit); n == 2 && at >= since.Unix() {
			commits = append(commits, commit)
		}
	}
	return commits, nil
}

// added returns the hashes of the lines that a commit added, by file.
func (r *repository) added(ctx context.Context, commit string) (map[string][]string, error) {
	out, err := r.run(ctx, maxDiff, "", nil, "diff-tree", "-p", "--root", "-U0", "--no-color", "--no-ext-diff",
		"--no-textconv", "--no-renames", commit)
	if err != nil {
		return nil, err
	}
	lines, file, header, count := map[string][]string{}, "", false, 0
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "diff --git "):
			file, header = "", true
		case header && strings.HasPrefix(line, "+++ b/"):
			file = strings.TrimSuffix(line[len("+++ b/"):], "\t")
		case strings.HasPrefix(line, "@@ "):
			header = false
		case !header && file != "" && strings.HasPrefix(line, "+") && count < maxLines:
			if hash := hashOf(line[1:]); hash != "" {
				lines[file] = append(lines[file], hash)
				count++
			}
		}
	}
	return lines, nil
}

// attach writes a note to its commit, in the place of one that is there.
func (r *repository) attach(ctx context.Context, n Note) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = r.run(ctx, 1<<20, string(data)+"\n", nil, "notes", "--ref="+ref, "add", "-f", "-F", "-", n.Commit)
	return err
}

// notes returns all notes of the repository, by the commits that carry them. What cannot be read is left out.
func (r *repository) notes(ctx context.Context) (map[string]Note, error) {
	out, err := r.run(ctx, 16<<20, "", nil, "notes", "--ref="+ref, "list")
	if err != nil {
		return nil, nil // there are none
	}
	var blobs, commits []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 {
			blobs, commits = append(blobs, f[0]), append(commits, f[1])
		}
	}
	if len(blobs) == 0 {
		return nil, nil
	}
	data, err := r.run(ctx, maxNotes, strings.Join(blobs, "\n")+"\n", nil, "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	all := map[string]Note{}
	for _, commit := range commits {
		head, rest, ok := bytes.Cut(data, []byte("\n"))
		var name, kind string
		var size int
		if n, _ := fmt.Sscanf(string(head), "%s %s %d", &name, &kind, &size); !ok || n != 3 || size < 0 || size >= len(rest) {
			data = rest // one that is missing has one line
			continue
		}
		var n Note
		if kind == "blob" && json.Unmarshal(rest[:size], &n) == nil && n.Version == 1 {
			all[commit] = n
		}
		data = rest[size+1:]
	}
	return all, nil
}
