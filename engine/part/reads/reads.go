// Package reads is the part that keeps what a conversation and its agents may have read, for the guards of URLs, notes
// and tasks. The files of secrets that a call can read are registered before it runs, so that it does not matter by
// which program, copy or agent their text comes back. The log keeps their paths, never the content.
//
// Without the part, the others take it that text may come from strangers, and know no secrets.
package reads

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// Limits of what is registered. The rest is not known to the guards.
const (
	maxSecretFiles = 500
	maxSecretFile  = 256 << 10 // bytes
	maxSecrets     = 1 << 20   // bytes, of all texts together
	maxWalked      = 20_000    // files of a project, where no sandbox hides its secrets

	resolveTime = 5 * time.Second // for a file on another machine, which may be gone, or for git
)

const name = "reads"

// Part keeps what is read. It is always on.
func Part() engine.Part { return engine.Part{Name: name, Open: open} }

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	r := &Reads{conv: c, seen: &seen{}}
	if before, ok := c.Before().(*Reads); ok { // its commands go on running
		r.seen = before.seen
	}
	return &engine.Live{Reads: r, Value: r, Audit: r.permitted, HookRuns: r.hookRuns, HookTold: r.hookTold,
		Reached: func(host string) { r.readWeb("a command of this session has reached " + host) }}, nil
}

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
	conv *engine.Conv
	seen *seen

	mu    sync.Mutex
	known bool // the log was read for paths and web
	paths map[string]bool
	web   bool
	hooks map[string]bool // those whose commands read from the web
}

// permitted registers what a call that is about to run may read.
func (r *Reads) permitted(record gate.Record) {
	permit := record.Permit
	if permit == nil {
		return
	}
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
	outside := false
	for _, sub := range permit.Subjects {
		outside = outside || sub.Outside
		switch {
		case sub.Kind == permission.KindTool:
			lines = append(lines, "./"+sub.Text) // not known to only read, whatever its name is
		case sub.Runs():
			lines = append(lines, sub.Text)
		}
	}
	if len(lines) > 0 {
		paths = slices.Concat(paths, permit.Allow.Read, permit.Allow.Write, r.opensToCommands())
		if why := r.unconfinedWeb(lines); why != "" {
			r.readWeb(why)
		}
		r.seen.addRun()
	}
	if record.Tool == "bash_output" { // of a command that perhaps an earlier session started
		more, web := r.seen.all()
		paths = append(paths, more...)
		if web != "" {
			r.readWeb(web)
		}
	}
	found := r.secretFiles(paths)
	more := slices.ContainsFunc(lines, func(l string) bool { return !permission.OnlyReads(l) }) // than read
	if outside {
		r.readWeb("a tool of this session ran outside the sandbox and may have read from the web")
	}
	if outside || more && r.hidesNothing() {
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
		r.conv.Log().Append(session.Entry{Type: session.TypeSeen, Seen: &session.Seen{Secrets: paths}})
	}
}

// readWeb notes how a command or a hook may have read from the web.
func (r *Reads) readWeb(why string) {
	r.seen.addWeb(why)
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
		r.conv.Log().Append(session.Entry{Type: session.TypeSeen, Seen: &session.Seen{Web: why}})
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
	for e := range r.conv.Log().All() {
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

// Secrets returns the texts that the session has read from secrets, or may have, and the keys and passwords in them.
func (r *Reads) Secrets() (texts, keys []string) {
	texts, files := r.texts()
	for _, text := range texts {
		keys = append(keys, secrets.Values(text))
	}
	return append(texts, files...), append(keys, files...)
}

// Stranger explains why what is said may come from a stranger, such as a page of the web; "": it does not.
func (r *Reads) Stranger() string { return strangersText(r.conv.Log()) }

// Marks returns what the session has read, for work that leaves it with a prompt: a task of a batch, or a schedule. Its
// run reads the files again; neither the queue nor a log gets their content.
func (r *Reads) Marks(prompt string) session.Seen {
	known, _ := r.Secrets()
	seen := session.Seen{Web: strings.TrimSuffix(r.Stranger(), askedFor), Prompt: secrets.Found(prompt, known)}
	r.mu.Lock()
	paths := maps.Clone(r.paths)
	r.mu.Unlock()
	r.seen.mu.Lock()
	for path, f := range r.seen.files {
		if f.text != "" {
			paths[path] = true
		}
	}
	r.seen.mu.Unlock()
	seen.Secrets = slices.Sorted(maps.Keys(paths))
	return seen
}

// Inherit has a session count as one that has read what another session had, whose work it does: before its first
// message, or again when it is resumed. Without the part it does nothing.
func Inherit(s *engine.Session, seen session.Seen) {
	r, ok := s.Part(name).(*Reads)
	if !ok {
		return
	}
	if seen.Unknown {
		seen.Secrets = slices.Concat(seen.Secrets, r.allSecrets())
	}
	r.opened(seen.Secrets)
	if seen.Web != "" {
		r.readWeb(seen.Web)
	}
	log, note := r.conv.Log(), session.Seen{Prompt: seen.Prompt, Unknown: seen.Unknown}
	if note.Empty() || log.State().Turns > 0 {
		return
	}
	for e := range log.All() {
		if e.Seen != nil && (e.Seen.Prompt || e.Seen.Unknown) {
			return
		}
	}
	log.Append(session.Entry{Type: session.TypeSeen, Seen: &note})
}

// texts returns the results of calls that read secrets, and the values in files that were opened.
func (r *Reads) texts() (texts, files []string) {
	place := r.conv.Place().Paths()
	secret := map[string]bool{} // calls that read one
	size := 0
	carries, unknown, prompt := false, false, "" // one that another session wrote
	seen := r.seen
	seen.mu.Lock()
	ran := seen.ran
	seen.mu.Unlock()
	for e := range r.conv.Log().All() {
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
				ran = ran || j.Subject.Runs()
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

// carriedBy returns what a prompt carries of secrets, which this session may know or, if their files have changed
// since, not: then what looks like keys, or else all of it.
func carriedBy(prompt string, known []string) []string {
	if carried := secrets.Carried(prompt, known); carried != nil {
		return carried
	}
	if keys := secrets.Values(prompt); keys != "" {
		return []string{keys}
	}
	return []string{prompt}
}
