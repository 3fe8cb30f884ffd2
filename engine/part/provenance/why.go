package provenance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// How a note was found.
const (
	ByCommit = "commit" // the commit that git names carries it
	ByText   = "text"   // it is of another commit that added the same line: a squash or a rebase came between
)

// An Answer says where a line comes from. What comes from the repository or a log is untrusted text.
type Answer struct {
	File    string `json:"file"` // relative to the repository
	Line    int    `json:"line"`
	Text    string `json:"text"`
	Commit  string `json:"commit,omitempty"` // that git names; "": the line is not committed
	Author  string `json:"author,omitempty"`
	Subject string `json:"subject,omitempty"`
	Note    *Note  `json:"note,omitempty"` // without Lines; nil: none of this machine covers the line
	Found   string `json:"found,omitempty"`
	// Forged are notes that cover the line, as they say, and do not have the seal of this machine: somebody else wrote or
	// changed them. They are not answers.
	Forged []Note `json:"forged,omitempty"`
	Prompt string `json:"prompt,omitempty"` // of the turn in which the commit was made; "": the session is not here
}

// Why returns which session, model and skills wrote a line of a file, according to the note of its commit.
func Why(ctx context.Context, p *engine.Project, file string, line int) (a Answer, err error) {
	path, err := filepath.Abs(file)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return a, err
	}
	r := open(filepath.Dir(path), p.Env().Environ())
	if r == nil {
		return a, fmt.Errorf("%s is in no git repository", file)
	}
	root, err := filepath.EvalSymlinks(r.root)
	if err != nil {
		return a, err
	}
	rel, _ := subpath.Rel(root, path)
	a.File, a.Line = filepath.ToSlash(rel), line
	if err := r.blame(ctx, &a); err != nil {
		return a, err
	}
	key, err := keyOf(p.Env(), false)
	if err != nil {
		return a, err
	}
	notes, err := r.notes(ctx)
	if err != nil {
		return a, err
	}
	a.choose(notes, key)
	if a.Note != nil {
		a.Prompt = promptOf(p, a.Note)
		a.Note.Lines = nil
	}
	return a, nil
}

// errNotCommitted means that git knows no commit with the file.
var errNotCommitted = errors.New("the file is not committed: no session's commit has it")

// blame asks git which commit a line is from.
func (r *repository) blame(ctx context.Context, a *Answer) error {
	env, remove, err := r.unconfigured(ctx)
	if err != nil {
		return err
	}
	defer remove()
	out, err := r.run(ctx, 4<<20, "", env, "blame", "--porcelain", "-L", fmt.Sprintf("%d,%d", a.Line, a.Line), "--",
		a.File)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "no such path"):
		return errNotCommitted
	case strings.Contains(err.Error(), "has only"):
		return errors.New("the file has no such line")
	default:
		return err
	}
	commit, _, _ := strings.Cut(string(out), " ")
	if strings.Trim(commit, "0") != "" {
		a.Commit = commit
	}
	for l := range strings.Lines(string(out)) {
		l = strings.TrimRight(l, "\n")
		switch word, rest, _ := strings.Cut(l, " "); {
		case strings.HasPrefix(l, "\t"):
			a.Text = strings.TrimRight(l[1:], "\r")
		case a.Commit == "":
		case word == "author":
			a.Author = rest
		case word == "author-time":
			if at, err := strconv.ParseInt(rest, 10, 64); err == nil {
				a.Author += ", " + time.Unix(at, 0).UTC().Format(time.DateOnly)
			}
		case word == "summary":
			a.Subject = rest
		}
	}
	return nil
}

// unconfigured returns an environment in which git reads the commits of the repository, and none of its configuration:
// blame would open each file that blame.ignoreRevsFile names, whatever overrides it.
func (r *repository) unconfigured(ctx context.Context) (env []string, remove func(), err error) {
	out, err := r.run(ctx, 1<<16, "", nil, "rev-parse", "--path-format=absolute", "--show-object-format", "--git-path",
		"objects", "--git-path", "shallow", "HEAD")
	if err != nil {
		if strings.Contains(err.Error(), "unknown revision") {
			err = errNotCommitted
		}
		return nil, nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 4 {
		return nil, nil, errors.New("git names its directories in an unknown way")
	}
	dir, err := os.MkdirTemp("", "knack-why-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	for name, text := range map[string]string{"HEAD": lines[3], "objects/x": "", "refs/x": "",
		"config": "[core]\nrepositoryFormatVersion = 1\n[extensions]\nobjectFormat = " + lines[0]} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(file, []byte(text+"\n"), 0o600)
		}
		if err != nil {
			remove()
			return nil, nil, err
		}
	}
	env = []string{"GIT_DIR=" + dir, "GIT_WORK_TREE=" + r.root, "GIT_OBJECT_DIRECTORY=" + lines[1]}
	if _, err := os.Stat(lines[2]); err == nil {
		env = append(env, "GIT_SHALLOW_FILE="+lines[2])
	}
	return env, remove, nil
}

// choose finds the note of a line: that of its commit, or else the last one whose commit added the same line to the
// file, or to another one.
func (a *Answer) choose(notes map[string]Note, key []byte) {
	hash := hashOf(a.Text)
	has := func(n Note, file string) bool { return hash != "" && slices.Contains(n.Lines[file], hash) }
	best, rank := Note{}, 0
	for commit, n := range notes {
		this := 0
		switch {
		case commit == a.Commit && n.Commit == commit && (hash == "" || has(n, a.File)):
			this = 4
		case commit == a.Commit && has(n, a.File): // git carried it to a commit that replaces the first one
			this = 3
		case has(n, a.File):
			this = 2
		default:
			for file := range n.Lines {
				if has(n, file) {
					this = 1
					break
				}
			}
		}
		switch {
		case this == 0:
		case !n.sealed(key):
			n.Lines = nil
			a.Forged = append(a.Forged, n)
		case this > rank || this == rank && n.Time.After(best.Time):
			best, rank = n, this
		}
	}
	order.Stable(a.Forged, func(x, y Note) int { return strings.Compare(x.Commit, y.Commit) })
	if rank > 0 {
		a.Note, a.Found = &best, ByText
		if rank == 4 {
			a.Found = ByCommit
		}
	}
}

// promptOf returns what the user wrote before a commit was made; "": the session is not on this machine.
func promptOf(p *engine.Project, n *Note) (prompt string) {
	for _, f := range p.Env().SessionFiles() {
		if f.ID != n.Session {
			continue
		}
		log, err := f.Store.Read(f.ID)
		if err != nil {
			return ""
		}
		for e := range log.All() {
			if e.ID > n.Entry {
				break
			}
			if e.User != nil {
				if text := strings.TrimSpace(llm.TextOf(e.User.Parts)); text != "" {
					prompt = text
				}
			} else if e.Activation != nil && e.Activation.By == session.ByUser {
				prompt = strings.TrimSpace("/" + e.Activation.Skill + " " + e.Activation.Args)
			}
		}
	}
	return prompt
}
