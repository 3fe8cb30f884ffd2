// Command checkouts has git change the work trees of public repositories in sandboxed commands, between commits that
// differ in protected files (.vscode, .husky, mise.toml, …), and looks for what is lost or half done.
//
//	go run ./checkouts [-v] [-only TEXT] DIR
//
// DIR has clones or mirrors. Each step runs in knack -p with a scripted model, followed by git commit -a: under a rule
// for bash only, with the rules that the refusals name, and both commands in a script. What HEAD, the index and the
// files are then must be what plain git makes of the commands that were not refused; of a script also what they
// were before.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/confine/permission"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("checkouts: ")
	verbose := flag.Bool("v", false, "print each step")
	only := flag.String("only", "", "only the steps whose command contains this text")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("which directory has the clones?")
	}
	if err := run(flag.Arg(0), *only, *verbose); err != nil {
		log.Fatal(err)
	}
}

func run(dir, only string, verbose bool) error {
	tmp, err := bench.VisibleTemp("knack-checkouts-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	home := filepath.Join(tmp, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	d := &driver{tmp: tmp, program: filepath.Join(tmp, "knack"), only: only, verbose: verbose}
	if err := bench.Build(d.program, "github.com/knack-agent/knack/cmd/knack"); err != nil {
		return err
	}
	d.server = httptest.NewServer(http.HandlerFunc(d.answer))
	defer d.server.Close()
	d.env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=k",
		"ANTHROPIC_BASE_URL=" + d.server.URL, "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=n",
		"GIT_COMMITTER_EMAIL=a@b", "GIT_EDITOR=true"}
	user := []byte("[user]\nname = n\nemail = a@b\n")
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), user, 0o600); err != nil {
		return err
	}
	clones, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	table := bench.Table{Title: "Steps in the sandbox", Head: []string{"repository", "protected files", "refused",
		"with rules", "script undone", "script complete", "wrong"}}
	for _, clone := range clones {
		if err := d.drive(clone, &table); err != nil {
			log.Printf("%s: left out: %v", filepath.Base(clone), err)
		}
	}
	return table.Write(os.Stdout)
}

// A driver runs the program in one repository after the other.
type driver struct {
	tmp, program string
	env          []string
	only         string // what the command of a step must contain
	verbose      bool
	server       *httptest.Server

	mu    sync.Mutex
	calls []string     // the commands of the answers that follow
	asked bytes.Buffer // the last request
	ids   int64
}

// answer is the model.
func (d *driver) answer(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked.Reset()
	io.Copy(&d.asked, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	if len(d.calls) == 0 {
		io.WriteString(w, bench.TextAnswer("done"))
		return
	}
	input, _ := json.Marshal(map[string]string{"command": d.calls[0]})
	d.calls, d.ids = d.calls[1:], d.ids+1
	io.WriteString(w, bench.CallAnswer(d.ids, "bash", string(input)))
}

// A step is a git command on a branch, with changes of files that are not committed or without.
type step struct {
	branch, command string
	dirty           bool // there are changes that are not committed,
	merges          bool // which the command merges into other files
	fetches         bool // the commit to merge is not here
}

const commit = "git commit -qam wip"

var steps = []step{
	{branch: "one", command: "git checkout -q two"},
	{branch: "two", command: "git switch -q one"},
	{branch: "names-one", command: "git checkout -q names-two"},
	{branch: "names-two", command: "git checkout -q names-one"},
	{branch: "mine", command: "git merge -q --no-edit two"},
	{branch: "mine", command: "git pull -q --no-rebase origin two"},
	{branch: "mine", command: "git pull -q --no-rebase origin two", fetches: true},
	{branch: "mine", command: "git pull -q --rebase origin two"},
	{branch: "mine", command: "git rebase -q two"},
	{branch: "one", command: "git reset -q --hard two"},
	{branch: "two", command: "git reset -q --hard one"},
	{branch: "two", command: "git checkout -q one -- ."},
	{branch: "two", command: "git revert --no-edit last"},
	{branch: "before-last", command: "git cherry-pick last"},
	{branch: "two", command: "git stash -q", dirty: true},
	{branch: "two", command: "git stash -q && git stash pop -q", dirty: true},
	{branch: "two", command: "git checkout -q -m one", dirty: true, merges: true},
}

func (d *driver) drive(clone string, table *bench.Table) error {
	name := filepath.Base(clone)
	w := &work{driver: d, dir: filepath.Join(d.tmp, name, "sandboxed")}
	plain := &work{driver: d, dir: filepath.Join(d.tmp, name, "plain")}
	defer os.RemoveAll(filepath.Join(d.tmp, name))
	if git, err := filepath.Glob(filepath.Join(clone, "*", "HEAD")); err == nil && len(git) == 1 {
		clone = filepath.Dir(git[0])
	}
	origin := filepath.Join(d.tmp, name, "origin")
	if _, err := d.git(d.tmp, "clone", "-q", "--bare", clone, origin); err != nil {
		return err
	}
	files, err := w.branches(origin)
	if err == nil && files == 0 {
		err = errors.New("no commits differ in protected files")
	}
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"clone", "-q", origin, w.dir}, {"clone", "-q", origin, plain.dir}} {
		if _, err := d.git(d.tmp, args...); err != nil {
			return err
		}
	}
	var refused, complete, undone, done, wrong int
	for _, s := range steps {
		if !strings.Contains(s.command, d.only) {
			continue
		}
		before, err := plain.begin(s)
		if err != nil {
			return err
		}
		plain.sh(commit)
		committed, err := plain.state()
		if err != nil {
			return err
		}
		if _, err := plain.begin(s); err != nil {
			return err
		}
		plain.sh(s.command + "\n" + commit)
		want, err := plain.state()
		if err != nil {
			return err
		}
		check := func(how string, ok bool, got string) {
			if !ok {
				wrong++
			}
			if !ok || d.verbose {
				log.Printf("%s: %s: %s %s: right %v", name, s.branch, s.command, how, ok)
			}
			if !ok {
				results := w.results()
				log.Printf("left:\n%sbefore:\n%sof git:\n%sresults: …%s", got, before, want, results[max(0, len(results)-3000):])
			}
		}

		got, err := w.knack(s, nil, s.command, commit)
		if err != nil {
			return err
		}
		rules := w.rules()
		// A tracked .env file is hidden from git, which then cannot commit either.
		hidden := slices.ContainsFunc(rules, func(r string) bool { return strings.HasPrefix(r, "Read(") })
		if len(rules) > 0 {
			refused++
			check("refused", got == committed || hidden && got == before, got)
			complete++
		}
		again := []string{s.command, commit}
		if s.fetches { // the first one is stopped when it has fetched: which files there are is known then
			again = []string{s.command, s.command, commit}
		}
		for more := rules; len(more) > 0; { // git may get to further files
			if got, err = w.knack(s, rules, again...); err != nil {
				return err
			}
			more = slices.DeleteFunc(w.rules(), func(r string) bool { return slices.Contains(rules, r) })
			rules = append(rules, more...)
		}
		check("with the rules that were named", got == want, got)
		if got, err = w.knack(s, nil, "sh ./step.sh"); err != nil {
			return err
		}
		switch {
		case got == want:
			done++
		case got == before:
			undone++
		}
		kept := s.merges && strings.Contains(w.results(), "git show ") // the changes that are not committed are merged
		check("in a script", got == want || got == before || kept, got)
	}
	table.Add(name, files, refused, complete, undone, done, wrong)
	log.Print(strings.Join(table.Rows[len(table.Rows)-1], " "))
	return nil
}

// A work is a work tree.
type work struct {
	*driver
	dir string
}

// git runs git and returns what it prints.
func (d *driver) git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, d.env
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// branches makes the branches of the steps in a bare repository, and returns how many protected files "one" and "two"
// differ in.
func (w *work) branches(origin string) (int, error) {
	var all []string
	for _, p := range permission.ProtectedPaths() {
		all = append(all, p.Name)
	}
	names := permission.NewPathNames(all)
	protected := func(files string) (n int) {
		for file := range strings.Lines(files) {
			if name, _ := names.In("/" + strings.TrimSpace(file)); name != "" {
				n++
			}
		}
		return n
	}
	out, err := w.git(origin, "log", "--first-parent", "-m", "--name-only", "--no-renames", "--format=%x00%H", "HEAD")
	if err != nil {
		return 0, err
	}
	var touching []string // commits
	for _, entry := range strings.Split(out, "\x00")[1:] {
		commit, files, _ := strings.Cut(entry, "\n")
		if protected(files) > 0 {
			touching = append(touching, commit)
		}
	}
	one, last, most := "", "", 0
	for i, commit := range touching {
		if _, err := w.git(origin, "rev-parse", "-q", "--verify", commit+"^"); err != nil {
			continue
		}
		if last == "" {
			last = commit
		}
		if i%(len(touching)/20+1) != 0 {
			continue
		}
		files, err := w.git(origin, "diff", "--name-only", "--no-renames", commit+"^", "HEAD")
		if err != nil {
			return 0, err
		}
		if n := protected(files); n > most && strings.Count(files, "\n") < 3000 {
			one, most = commit+"^", n
		}
	}
	if most == 0 {
		return 0, nil
	}
	tree := filepath.Join(w.tmp, "tree")
	defer os.RemoveAll(tree)
	for _, args := range [][]string{
		{"branch", "-f", "one", one}, {"branch", "-f", "two", "HEAD"}, {"tag", "-f", "last", last},
		{"branch", "-f", "before-last", "last^"},
		{"worktree", "add", "-q", "-b", "mine", tree, "one"},
	} {
		if _, err := w.git(origin, args...); err != nil {
			return 0, err
		}
	}
	made := &work{driver: w.driver, dir: tree}
	script := "echo mine > mine.txt && git add -f mine.txt && git commit -qm mine && git checkout -q -b names-one two\n"
	for i, name := range all {
		if name == ".git" {
			continue
		}
		file := strings.ReplaceAll(name, "*", "x")
		if base := filepath.Base(file); !strings.Contains(base[1:], ".") && !strings.HasSuffix(base, "rc") {
			file += "/file"
		}
		script += fmt.Sprintf("if mkdir -p '%s' 2>/dev/null; then echo '# %d' > '%s'; fi\n", filepath.Dir(file), i, file)
	}
	script += "git add -Af . && git commit -qm names\ngit checkout -q -b names-two two\n"
	for i, name := range all {
		if i%3 == 0 && name != ".git" && name != ".gitmodules" {
			script += fmt.Sprintf("git checkout -q names-one -- '*%s' '*%s/file' 2>/dev/null; ", name, name)
		}
	}
	script += "\ngit ls-files -z --modified --others | head -c 0\n" +
		"for f in $(git diff --name-only --diff-filter=AM two); do echo two > $f; done; git add -Af . && git commit -qm two"
	made.sh(script)
	if _, err := w.git(tree, "checkout", "-q", "--detach"); err != nil {
		return 0, err
	}
	_, err = w.git(origin, "worktree", "remove", "-f", tree)
	return most, err
}

// sh runs a script without Knack. That it fails is a result like others.
func (w *work) sh(script string) {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = w.dir, w.env
	if out, err := cmd.CombinedOutput(); err != nil && w.verbose {
		log.Printf("plain git: %.200s: %v: %.500s", script, err, out)
	}
}

// begin puts the work tree into the state before a step, and returns that.
func (w *work) begin(s step) (string, error) {
	os.RemoveAll(filepath.Join(w.dir, ".git", "rebase-merge"))
	os.RemoveAll(filepath.Join(w.dir, ".git", "rebase-apply"))
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		os.Remove(filepath.Join(w.dir, ".git", name))
	}
	os.Remove(filepath.Join(w.dir, ".git", "FETCH_HEAD"))
	for _, args := range [][]string{{"fetch", "-q"}, {"reset", "-q", "--hard"}, {"clean", "-qffdx"}, {"stash", "clear"},
		{"checkout", "-q", "-f", "-B", s.branch, "origin/" + s.branch}} {
		if _, err := w.git(w.dir, args...); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"one", "two", "names-one", "names-two"} {
		if name != s.branch {
			if _, err := w.git(w.dir, "branch", "-q", "-f", name, "origin/"+name); err != nil {
				return "", err
			}
		}
	}
	if s.fetches {
		if _, err := w.git(w.dir, "update-ref", "-d", "refs/remotes/origin/two"); err != nil {
			return "", err
		}
	}
	if s.dirty {
		for _, pattern := range []string{":(glob)*", ":(glob)**/.vscode/**", ":(glob).github/**", ":(glob)**/.*"} {
			files, err := w.git(w.dir, "ls-files", "--", pattern)
			if err != nil {
				return "", err
			}
			for _, name := range strings.Fields(files)[:min(2, len(strings.Fields(files)))] {
				path := filepath.Join(w.dir, name)
				if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
					continue
				}
				f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					return "", err
				}
				fmt.Fprintln(f, "changed")
				if err := f.Close(); err != nil {
					return "", err
				}
			}
		}
	}
	script := filepath.Join(w.dir, "step.sh")
	if err := os.WriteFile(script, []byte(s.command+"\n"+commit+"\n"), 0o600); err != nil {
		return "", err
	}
	exclude := filepath.Join(w.dir, ".git", "info", "exclude")
	if err := os.WriteFile(exclude, []byte("/step.sh\n"), 0o600); err != nil {
		return "", err
	}
	return w.state()
}

// state describes HEAD, the index and the files.
func (w *work) state() (string, error) {
	head, _ := w.git(w.dir, "symbolic-ref", "-q", "HEAD")
	out := "HEAD " + head + "\n"
	for _, args := range [][]string{{"rev-parse", "HEAD^{tree}"}, {"log", "--format=%s", "-3"},
		{"status", "--porcelain", "--ignored"}, {"stash", "list"}} {
		text, err := w.git(w.dir, args...)
		if err != nil {
			return "", err
		}
		out += args[0] + " " + text + "\n"
	}
	// The index of git may be wrong about what files contain, so another one is made.
	index := w.dir + ".index"
	defer os.Remove(index)
	cmd := exec.Command("sh", "-c", "git add -Af . && git write-tree")
	cmd.Dir, cmd.Env = w.dir, append(slices.Clone(w.env), "GIT_INDEX_FILE="+index)
	tree, err := cmd.Output() // without warnings, of which git prints some once or twice
	if err != nil {
		return "", fmt.Errorf("making a tree of %s: %w", w.dir, err)
	}
	out += "files " + string(tree)
	err = filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), ".refused-") {
			out += "aside " + path + "\n"
		}
		return err
	})
	return out, err
}

// knack runs commands in a session, under rules, from the state before a step, and returns the state after it.
func (w *work) knack(s step, rules []string, commands ...string) (string, error) {
	if _, err := w.begin(s); err != nil {
		return "", err
	}
	w.mu.Lock()
	w.calls = commands
	w.mu.Unlock()
	args := []string{"-p", "--trust", "--sandbox", "require", "--allow", "Bash"}
	for _, rule := range rules {
		args = append(args, "--allow", rule)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.program, append(args, "go")...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.dir, w.env, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %.2000s", s.command, err, out)
	}
	return w.state()
}

var rule = regexp.MustCompile(`(Edit|Read)\(//[^)]*\)`)

// rules returns the rules that the results of the last session named.
func (w *work) rules() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, text := range rule.FindAll(w.asked.Bytes(), -1) {
		all = append(all, string(text))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// results returns the results of the commands, as the last request has them.
func (w *work) results() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.asked.String()
	return text[max(0, strings.Index(text, "tool_result")):]
}
