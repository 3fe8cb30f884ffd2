package engine

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/sources"
)

// This file keeps what a conversation and its agents may have read, for the guards of URLs and notes. The files of
// secrets that a call can read are registered before it runs, so that it does not matter by which program, copy or
// agent their text comes back. The log keeps their paths, never the content.

// Limits of what is registered. The rest is not known to the guards.
const (
	maxSecretFiles = 500
	maxSecretFile  = 256 << 10 // bytes
	maxSecrets     = 1 << 20   // bytes, of all texts together
	maxWalked      = 20_000    // files of a project, where no sandbox hides its secrets
)

// seen is what the commands of a session, and of the sessions with which it shares them, may have read.
type seen struct {
	mu    sync.Mutex
	files map[string]seenFile // by path
	size  int                 // bytes of their texts
	ran   bool                // a command
	wide  bool                // a command ran that nothing hides secrets from
	web   string              // how a command may have read from the web; "": none has
}

type seenFile struct {
	mod  time.Time
	size int64
	text string // its keys and passwords, also those before it changed
}

// addRun notes that a command runs.
func (s *seen) addRun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = true
}

// addWeb notes how a command may have read from the web.
func (s *seen) addWeb(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.web = why
}

// all returns the files of secrets that commands may have read, and how they may have read from the web.
func (s *seen) all() (paths []string, web string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.files)), s.web
}

// Reads is what a session knows about what it has read. Its methods may be called by any goroutine.
type Reads struct {
	session *Session

	mu    sync.Mutex
	known bool // the log was read for paths and web
	paths map[string]bool
	web   bool
	hooks map[string]bool // those whose commands read from the web
}

// permitted registers what a call that is about to run may read.
func (r *Reads) permitted(record gate.Record) {
	permit, p := record.Permit, r.session.engine.Project()
	if record.Strangers != "" {
		r.noteWeb("this session has read from " + record.Strangers)
	}
	var paths []string
	for _, j := range record.Decision.Subjects {
		if j.Verdict != permission.Deny && (j.Kind == permission.KindRead || j.Kind == permission.KindEdit) {
			paths = append(paths, j.Text)
		}
	}
	var lines []string
	for _, sub := range permit.Subjects {
		if sub.IsCommand() || string(sub.Kind) == "bash" {
			lines = append(lines, sub.Text)
		}
	}
	if len(lines) > 0 {
		paths = slices.Concat(paths, permit.Allow.Read, permit.Allow.Write, p.config.Settings.Sandbox.AllowRead)
		if why := r.unconfinedWeb(lines); why != "" {
			r.readWeb(why)
		}
		r.session.jobs.seen.addRun()
	}
	if record.Tool == "bash_output" { // of a command that perhaps an earlier session started
		more, web := r.session.jobs.seen.all()
		paths = append(paths, more...)
		if web != "" {
			r.readWeb(web)
		}
	}
	found := r.secretFiles(paths)
	more := slices.ContainsFunc(lines, func(l string) bool { return !permission.OnlyReads(l) }) // than read
	if more && r.hidesNothing() {
		found = append(found, r.allSecrets()...)
	}
	r.opened(found)
}

// opened registers files of secrets, and notes their paths in the log.
func (r *Reads) opened(paths []string) {
	if len(paths) == 0 {
		return
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	for _, path := range paths {
		r.register(path, 1)
	}
	r.readNoted()
	r.mu.Lock()
	paths = slices.DeleteFunc(paths, func(path string) bool {
		known := r.paths[path] || len(r.paths) >= maxSecretFiles
		r.paths[path] = true
		return known
	})
	r.mu.Unlock()
	if len(paths) > 0 { // the log reports errors of writing with its next entry
		r.session.log.Append(session.Entry{Type: session.TypeSeen, Seen: &session.Seen{Secrets: paths}})
	}
}

// readWeb notes how a command or a hook may have read from the web.
func (r *Reads) readWeb(why string) {
	r.session.jobs.seen.addWeb(why)
	r.noteWeb(why)
}

// noteWeb notes how the session may have read text of strangers, once.
func (r *Reads) noteWeb(why string) {
	r.readNoted()
	r.mu.Lock()
	known := r.web
	r.web = true
	r.mu.Unlock()
	if !known {
		r.session.log.Append(session.Entry{Type: session.TypeSeen, Seen: &session.Seen{Web: why}})
	}
}

// readNoted reads what the log of a resumed session says, once, and registers the files that it names as they are now.
func (r *Reads) readNoted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known {
		return
	}
	r.known, r.paths = true, map[string]bool{}
	for e := range r.session.log.All() {
		if e.Seen == nil {
			continue
		}
		r.web = r.web || e.Seen.Web != ""
		for _, path := range e.Seen.Secrets {
			r.paths[path] = true
			r.register(path, 1)
		}
	}
}

// register reads a file of secrets, unless it has not changed since or the files take up this part of what may be
// registered already.
func (r *Reads) register(path string, part int) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	seen := &r.session.jobs.seen
	ws := r.session.ws
	info, err := ws.Stat(ctx, path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	seen.mu.Lock()
	known, ok := seen.files[path]
	full := !ok && len(seen.files) >= maxSecretFiles/part || seen.size >= maxSecrets/part
	seen.mu.Unlock()
	if full || ok && known.mod.Equal(info.ModTime()) && known.size == info.Size() {
		return
	}
	f, err := ws.Open(ctx, path)
	if err != nil {
		return
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	f.Close()
	if err != nil {
		return
	}
	text := secrets.Values(strings.ToValidUTF8(string(data), "\n"))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.files == nil {
		seen.files = map[string]seenFile{}
	}
	if before := seen.files[path].text; before != text {
		text = before + text
		seen.size += len(text) - len(before)
	}
	seen.files[path] = seenFile{info.ModTime(), info.Size(), text}
}

// secretFiles returns those of some paths that are secrets, and the files of secrets in directories among them.
func (r *Reads) secretFiles(paths []string) (found []string) {
	place := r.session.engine.pathContext(r.session.engine.Project())
	secret := func(path string) bool {
		return place.Secret(path) || place.Resolve == nil && place.Secret(realPath(path))
	}
	if at := r.session.place.now(); at != nil {
		place.Dir = at.ws.Dir()
	}
	for _, path := range paths {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(place.Home, rest)
		}
		if config := filepath.Join(path, ".git", "config"); filepath.IsAbs(path) && secret(config) {
			found = append(found, config) // of a repository that a command reads, such as git -C PATH remote -v
		}
		if !filepath.IsAbs(path) || !secret(path) {
			continue
		}
		found = append(found, path)
		if place.Resolve == nil {
			found = append(found, filesIn(path, 200, func(string) bool { return true })...)
		}
	}
	return found
}

// filesIn returns the regular files below a directory for which want is true, and looks at no more than some; none if
// it is no directory. Of what is in a repository's .git, it looks at the configuration alone.
func filesIn(dir string, most int, want func(path string) bool) (found []string) {
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if most--; most < 0 {
			return fs.SkipAll
		}
		switch {
		case err != nil:
		case e.IsDir() && path != dir && (e.Name() == ".git" || e.Name() == "node_modules"):
			if config := filepath.Join(path, "config"); e.Name() == ".git" && want(config) {
				found = append(found, config)
			}
			return fs.SkipDir
		case e.Type().IsRegular() && path != dir && want(path):
			found = append(found, path)
		}
		return nil
	})
	return found
}

// sandbox returns the sandbox of commands; nil: there is none. local means that they run on this machine.
func (r *Reads) sandbox() (box *sandbox.Sandbox, local bool) {
	r.session.engine.mu.Lock()
	defer r.session.engine.mu.Unlock()
	_, local = r.session.ws.(*workspace.Local)
	return r.session.engine.box, local
}

// hidesNothing reports whether commands on this machine run without a sandbox that hides secrets.
func (r *Reads) hidesNothing() bool {
	box, local := r.sandbox()
	if !local {
		return false
	}
	return box == nil || box.Report().Level != sandbox.Complete && !hidesSecrets(box.Report())
}

// allSecrets returns the secrets of the project, and the usual ones of the user, the first time that it is called.
func (r *Reads) allSecrets() []string {
	seen := &r.session.jobs.seen
	seen.mu.Lock()
	known := seen.wide
	seen.wide = true
	seen.mu.Unlock()
	if known {
		return nil
	}
	p := r.session.engine.Project()
	found := filesIn(r.session.ws.Dir(), maxWalked, namesKeys)
	for _, name := range permission.AccountSecrets() {
		path := filepath.Join(p.home, strings.TrimPrefix(name, "~/"))
		if _, err := os.Lstat(path); err == nil {
			inside := filesIn(path, 50, func(path string) bool { return !strings.HasPrefix(filepath.Base(path), "known_hosts") })
			found = append(append(found, path), inside...)
		}
	}
	return slices.DeleteFunc(found, func(path string) bool { return p.home == "" && !filepath.IsAbs(path) })
}

// registerUnopened registers the keys and passwords in the project that a command may have read although nobody opened
// their files: no sandbox hides keys there, and git prints the .env files that it has stored. A repository full of such
// files leaves room for those that the user opens.
func (r *Reads) registerUnopened() {
	ws, local := r.session.ws.(*workspace.Local)
	if !local {
		return
	}
	_, err := os.Lstat(filepath.Join(sources.Root(ws.Dir()), ".git"))
	env := r.hidesNothing() || err == nil           // in a repository
	secret := permission.PathContext{}.SecretFunc() // not what is below the home directory, such as checkpoints
	// Not every file that the rules for secrets name has a key: id_map.go does not.
	want := func(path string) bool {
		name := filepath.Base(path)
		return secret(path) && (env || !namesKeys(path)) && !(strings.HasPrefix(name, "id_") && filepath.Ext(name) != "")
	}
	paths := gitConfigs(ws.Dir(), r.session.engine.Project().Env().Environ())
	if at := r.session.place.now(); at != nil {
		paths = append(paths, gitConfigs(at.ws.Dir(), r.session.engine.Project().Env().Environ())...)
	}
	for _, path := range append(paths, filesIn(ws.Dir(), maxWalked, want)...) {
		r.register(path, 2)
	}
}

// namesKeys reports whether a file is for passing keys to programs, by its name.
func namesKeys(path string) bool { return permission.KeyFile(filepath.Base(path)) }

// hidesSecrets reports whether a sandbox that is not complete hides the secrets of a project: that of macOS does.
func hidesSecrets(r sandbox.Report) bool { return r.Backend == "sandbox-exec" }

// hookReached notes that a hook's command reads from the web: what it says then comes from there.
func (r *Reads) hookReached(h *hook.Hook) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hooks == nil {
		r.hooks = map[string]bool{}
	}
	r.hooks[hookKey(h)] = true
}

func hookKey(h *hook.Hook) string {
	return strings.Join(append([]string{string(h.Event), h.Path, h.Command}, h.Args...), "\x00")
}

// hookTold is called when a hook has answered with text for the model.
func (r *Reads) hookTold(h *hook.Hook) {
	r.mu.Lock()
	reached := h.Type == hook.OfHTTP || r.hooks[hookKey(h)]
	r.mu.Unlock()
	if reached {
		r.readWeb("a hook of this session has read from the web or a server")
	}
}

// hookReads reports whether a hook that no sandbox watches names a program that reads from the web, in its command or
// in a script that this runs.
func (r *Reads) hookReads(c hook.Process, asUser bool) bool {
	if !asUser && r.netConfined() {
		return false
	}
	line := cmp.Or(c.Line, strings.Join(c.Args, " "))
	reads := readsNetwork(line)
	p := r.session.engine.Project()
	line = strings.NewReplacer(" ~/", " "+p.home+"/", "$HOME", p.home, "${HOME}", p.home, "$CLAUDE_PROJECT_DIR", p.root,
		"${CLAUDE_PROJECT_DIR}", p.root, "$CLAUDE_PLUGIN_ROOT", c.Hook.Dir, "${CLAUDE_PLUGIN_ROOT}", c.Hook.Dir).Replace(" " +
		line)
	gate.CheckScripts(line, r.session.ws.Dir(), func(_ string, data []byte) error {
		reads = reads || readsNetwork(string(data))
		return nil
	})
	return reads
}

// netConfined reports whether a sandbox sees which hosts commands reach.
func (r *Reads) netConfined() bool {
	box, local := r.sandbox()
	return local && box != nil && box.Report().Level != sandbox.None
}

// unconfinedWeb explains why command lines that run without a sandbox may read from the web; "": they do not, or a
// sandbox sees what they reach.
func (r *Reads) unconfinedWeb(lines []string) string {
	if r.netConfined() {
		return ""
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return !permission.OnlyReads(l) && !staysHere(l) }) {
		return ""
	}
	return "a command of this session ran without a sandbox and may have read from the web"
}

// staysHere reports whether all commands of a line are known to reach no other machine.
func staysHere(line string) bool {
	parsed, err := permission.ParseCommand(line)
	if err != nil {
		return false
	}
	for _, c := range parsed.Commands {
		if c.Opaque != "" || len(c.Inner) > 0 {
			return false
		}
		name := ""
		if len(c.Words) > 0 {
			name, _ = c.Words[0].Value()
		}
		switch name {
		case "cp", "mv", "rm", "mkdir", "rmdir", "touch", "chmod", "ln", "tee", "git":
		default:
			if !permission.OnlyReads(c.Text) {
				return false
			}
		}
	}
	return !readsNetwork(line)
}

// readsNetwork reports whether a command line names what may print text of other machines. The words are those that the
// shell makes of it, and those that are in strings.
func readsNetwork(line string) bool {
	if strings.Contains(line, "://") || strings.Contains(line, "/dev/tcp") {
		return true
	}
	words := strings.FieldsFunc(line, func(r rune) bool { return r <= ' ' || strings.ContainsRune(";|&()<>`'\"$={}", r) })
	for _, command := range scripts.Words(line) {
		for _, w := range command {
			words = append(words, w)
			for _, inner := range scripts.Words(w) { // sh -c 'c\url x'
				words = append(words, inner...)
			}
		}
	}
	for i, w := range words {
		switch filepath.Base(w) {
		case "curl", "wget", "http", "https", "xh", "aria2c", "lynx", "links", "w3m", "elinks", "nc", "ncat", "netcat",
			"socat", "telnet", "ftp", "sftp", "scp", "rsync", "ssh", "gh", "glab", "dig", "host", "nslookup", "whois", "openssl",
			"gcloud", "aws", "az", "kubectl", "psql", "mysql", "redis-cli":
			return true
		case "knack": // what other sessions report, as an agent does
			for _, sub := range words[i+1:] {
				switch sub {
				case "batch", "schedule", "loop", "session", "-p", "--print", "run":
					return true
				}
			}
		case "git":
			for _, sub := range words[i+1:] {
				switch sub {
				case "clone", "fetch", "pull", "ls-remote", "submodule", "remote", "archive":
					return true
				}
			}
		}
	}
	return false
}

// Secrets returns the texts that the session has read from secrets, or may have, and the keys and passwords in them.
func (r *Reads) Secrets() (texts, keys []string) {
	texts, files := r.texts()
	for _, text := range texts {
		keys = append(keys, secrets.Values(text))
	}
	return append(texts, files...), append(keys, files...)
}

// Stranger explains why what is said may come from a stranger, such as a page of the web; "": it does not.
func (r *Reads) Stranger() string { return strangersText(r.session.log) }

// Marks returns what the session has read, for work that leaves it with a prompt: a task of a batch, or a schedule. Its
// run reads the files again; neither the queue nor a log gets their content.
func (r *Reads) Marks(prompt string) session.Seen {
	known, _ := r.Secrets()
	seen := session.Seen{Web: strings.TrimSuffix(r.Stranger(), askedFor), Prompt: secrets.Found(prompt, known)}
	r.mu.Lock()
	paths := maps.Clone(r.paths)
	r.mu.Unlock()
	r.session.jobs.seen.mu.Lock()
	for path, f := range r.session.jobs.seen.files {
		if f.text != "" {
			paths[path] = true
		}
	}
	r.session.jobs.seen.mu.Unlock()
	seen.Secrets = slices.Sorted(maps.Keys(paths))
	return seen
}

// Inherit has the session count as one that has read what another session had, whose work it does: before its first
// message, or again when it is resumed.
func (s *Session) Inherit(seen session.Seen) {
	if seen.Unknown {
		seen.Secrets = slices.Concat(seen.Secrets, s.reads.allSecrets())
	}
	s.reads.opened(seen.Secrets)
	if seen.Web != "" {
		s.reads.readWeb(seen.Web)
	}
	note := session.Seen{Prompt: seen.Prompt, Unknown: seen.Unknown}
	if note.Empty() || s.log.State().Turns > 0 {
		return
	}
	for e := range s.log.All() {
		if e.Seen != nil && (e.Seen.Prompt || e.Seen.Unknown) {
			return
		}
	}
	s.log.Append(session.Entry{Type: session.TypeSeen, Seen: &note})
}

// texts returns the results of calls that read secrets, and the values in files that were opened.
func (r *Reads) texts() (texts, files []string) {
	place := r.session.engine.pathContext(r.session.engine.Project())
	secret := map[string]bool{} // calls that read one
	size := 0
	carries, unknown, prompt := false, false, "" // one that another session wrote
	seen := &r.session.jobs.seen
	seen.mu.Lock()
	ran := seen.ran
	seen.mu.Unlock()
	for e := range r.session.log.All() {
		ran = ran || e.Result != nil && e.Result.Name == "bash" // before the session was resumed
		switch {
		case e.Seen != nil && (e.Seen.Prompt || e.Seen.Unknown):
			carries, unknown = true, !e.Seen.Prompt
		case carries && prompt == "" && e.User != nil:
			prompt = llm.TextOf(e.User.Parts)
		case carries && prompt == "" && e.Activation != nil:
			prompt = e.Activation.Args
		case e.Decision != nil && e.Decision.By.Verdict == permission.Allow:
			for _, j := range e.Decision.By.Subjects {
				if j.Kind == permission.KindRead && j.Verdict != permission.Deny && place.Secret(j.Text) {
					secret[e.Decision.Call] = true
				}
			}
		case e.Result != nil && secret[e.Result.ID] && size < maxSecrets:
			text := e.Result.Text()
			size += len(text)
			texts = append(texts, text)
		}
	}
	r.readNoted()
	if ran {
		r.registerUnopened()
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, f := range seen.files {
		if f.text != "" && utf8.ValidString(f.text) {
			files = append(files, f.text)
		}
	}
	if keys := secrets.Values(prompt); unknown && keys != "" {
		files = append(files, keys)
	} else if prompt != "" && !unknown {
		files = append(files, strings.Join(carriedBy(prompt, slices.Concat(texts, files)), "\n"))
	}
	return texts, files
}

// carriedBy returns what a prompt carries of secrets, which this session may know or, if their files have changed since,
// not: then what looks like keys, or else all of it.
func carriedBy(prompt string, known []string) []string {
	if carried := secrets.Carried(prompt, known); carried != nil {
		return carried
	}
	if keys := secrets.Values(prompt); keys != "" {
		return []string{keys}
	}
	return []string{prompt}
}
