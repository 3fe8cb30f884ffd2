// Package trust remembers which bytes of a project a person approved.
//
// What a project brings along (skills, legacy commands, templates, system
// prompts, agents, hooks, MCP servers, settings) does nothing until a person
// has seen it. An approval is bound to content: [Project.Check] reports whether
// the very bytes a loader has just read are the approved ones, so there is no
// gap between what was judged and what is used. A changed byte asks again.
//
// Most people want [Store.Project] for the folder they work in, and hand its
// Check to whatever loads resources: sources, settings, agents.
//
// What is verified when, so that a start stays cheap with a thousand skills:
//
//   - at load, what is parsed: the first 4 KiB of a SKILL.md by
//     [Project.CheckHead], other files (settings, an agent's) whole by Check:
//     one hash of bytes that are in memory anyway;
//   - at activation, SKILL.md whole by Check, and the skill's folder by
//     [Project.Verify]: files that were added, removed, changed or made
//     executable;
//   - when a script of an approved skill is about to run, that script, by Check.
//
// The record lies under the state directory, never in the repository, in a
// folder named by a hash of the project's real path:
//
//	projects/<hash>/trust.json      the items with their hashes
//	projects/<hash>/approved/*.zip  what was approved, to show a diff later
//	projects/<hash>/rules.json      rules kept by the answer "always"
//
// Files are 0600. Writers take a lock and replace files whole; any number of
// programs may use one project at a time. A program that is running sees what
// another one approves after [Project.Reload].
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/atomicfile"
	"github.com/knack-agent/knack/internal/subpath"
)

// A Store holds the records of all projects.
type Store struct {
	dir string
}

// ErrNoState is the error for changing a record that has no place on disk.
var ErrNoState = errors.New("there is no state directory to store it in")

// Open names the store in a state directory ($XDG_STATE_HOME/knack). It reads
// and creates nothing. With "" nothing is stored: no project has a record, and
// changing one is [ErrNoState].
func Open(stateDir string) *Store {
	if stateDir == "" {
		return &Store{}
	}
	return &Store{filepath.Join(stateDir, "projects")}
}

// A Project is what is known of one folder. It is safe for concurrent use. A
// nil Project trusts nothing.
type Project struct {
	root  string // as it was named, absolute
	real  string // without links
	store string // projects/<hash>; "": there is no state directory

	// Bundled are the names of the skills that ship with the program: a skill of
	// the project that has one replaces it only if the user was shown that. It must
	// not be changed once the Project is in use.
	Bundled []string

	mu     sync.RWMutex
	items  map[string]record // by path
	grants []Grant
	files  map[string]sums // of files that loaders read, by path
	once   *pins           // not nil: --trust
	folder bool
}

// HeadSize is how much of a file [Project.CheckHead] is about, in bytes.
const HeadSize = 4 << 10

// sums are the hashes of a file: of all of it, and of its head.
type sums struct{ whole, head string }

// pins are what a run with --trust saw first: it holds for the run.
type pins struct {
	files   map[string]string
	heads   map[string]string
	folders map[string]string
}

// A record is an approved item.
type record struct {
	Kind     Kind      `json:"kind"`
	Path     string    `json:"path"`               // relative to the root, with slashes
	Hash     string    `json:"hash"`               // of the file, or of a folder's manifest
	Entry    string    `json:"entry,omitempty"`    // of a folder: the name of its SKILL.md
	Main     string    `json:"main,omitempty"`     // of a folder: the hash of that file
	Head     string    `json:"head,omitempty"`     // the hash of the first HeadSize bytes of that file, or of the file
	Target   string    `json:"target,omitempty"`   // of a link that leaves the root
	Replaces string    `json:"replaces,omitempty"` // the bundled skill that it replaces
	Network  string    `json:"network,omitempty"`  // what programs that it defines may reach
	Approved time.Time `json:"approved"`
}

// A document is trust.json.
type document struct {
	Version int      `json:"version"`
	Root    string   `json:"root"` // for people; the folder's name decides
	Items   []record `json:"items"`
	Grants  []Grant  `json:"grants,omitempty"`
	// Folder is when a person last approved the folder, also to one that
	// brings nothing: programs such as git obey its configuration.
	Folder time.Time `json:"folder,omitzero"`
}

// Project reads the record of the folder root (see sources.Root). A folder without a record is
// no error: nothing in it is trusted. A record that cannot be read is one.
func (s *Store) Project(root string) (*Project, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	p := &Project{root: root, real: real}
	if s.dir != "" {
		sum := sha256.Sum256([]byte(real))
		p.store = filepath.Join(s.dir, hex.EncodeToString(sum[:16]))
	}
	return p, p.Reload()
}

// Root is the folder's real path.
func (p *Project) Root() string { return p.real }

// Trusted reports whether a person approved the folder, or --trust does for
// this run. It says nothing of any one file: see [Project.Check].
func (p *Project) Trusted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.folder || p.once != nil
}

// Reload reads the record again. What a run with --trust saw stays pinned.
func (p *Project) Reload() error {
	doc, err := p.read()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(doc)
	return nil
}

func (p *Project) take(doc document) {
	p.folder, p.grants = !doc.Folder.IsZero(), doc.Grants
	p.items = make(map[string]record, len(doc.Items))
	p.files = make(map[string]sums, len(doc.Items))
	for _, r := range doc.Items {
		p.items[r.Path] = r
		if r.Entry == "" {
			p.files[r.Path] = sums{r.Hash, r.Head}
		} else {
			p.files[r.Path+"/"+r.Entry] = sums{r.Main, r.Head}
		}
	}
}

func (p *Project) read() (document, error) {
	doc := document{Version: 1, Root: p.real}
	if p.store == "" {
		return doc, nil
	}
	err := readJSON(filepath.Join(p.store, "trust.json"), &doc, &doc.Version)
	return doc, err
}

// update changes the record under the lock, from what is on disk now.
func (p *Project) update(change func(*document) error) error {
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	doc, err := p.read()
	if err != nil {
		return err
	}
	if err := change(&doc); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(p.store, "trust.json"), doc); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(doc)
	return nil
}

func (p *Project) lock() (unlock func(), err error) {
	if p.store == "" {
		return nil, ErrNoState
	}
	if err := os.MkdirAll(p.store, 0o700); err != nil {
		return nil, err
	}
	f := flock.New(filepath.Join(p.store, "lock"), flock.SetPermissions(0o600))
	if err := f.Lock(); err != nil {
		return nil, err
	}
	return func() { f.Unlock() }, nil
}

// readJSON reads a file of Knack into doc, whose version it checks; doc stays as
// it is where there is none.
func readJSON(name string, doc any, version *int) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, doc); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if *version != 1 {
		return fmt.Errorf("%s: version %d is not known to this program", name, *version)
	}
	return nil
}

func writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Write(name, append(data, '\n'), 0o600)
}

// Once trusts the folder for the life of this value (`--trust`): the first
// bytes seen of each path hold, and other bytes are changed-since-approval.
// Links that leave the folder stay untrusted. Nothing is stored.
func (p *Project) Once() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.once = &pins{files: map[string]string{}, heads: map[string]string{}, folders: map[string]string{}}
}

// Check reports whether data, the whole of a file just read from path, are bytes
// that a person approved there: nil, or a [knack.Problem] with the code
// untrusted or changed-since-approval. path is absolute.
func (p *Project) Check(file string, data []byte) error {
	return p.check(file, data, false)
}

// CheckHead is Check for a loader that takes no more from a file than its
// first HeadSize bytes: data are these, or the whole of a shorter file.
func (p *Project) CheckHead(file string, data []byte) error {
	return p.check(file, data, true)
}

func (p *Project) check(file string, data []byte, head bool) error {
	if p == nil {
		return untrusted(file)
	}
	rel, ok := p.rel(file)
	if !ok {
		return untrusted(file)
	}
	p.mu.RLock()
	approved, known := p.files[rel]
	once := p.once != nil
	p.mu.RUnlock()
	want := approved.whole
	if head {
		want = approved.head
	}
	if !known {
		if want = p.inFolder(rel, head); want == "" && !once {
			return untrusted(file)
		}
		known = want != ""
	}
	got := hash(data)
	if known && want == got {
		return nil
	}
	if once && p.pin(rel, got, file, func(s *pins) map[string]string {
		if head {
			return s.heads
		}
		return s.files
	}) {
		return nil
	}
	if known {
		return changed(file)
	}
	return untrusted(file)
}

// Replaces reports whether it was approved that the skill at a path replaces a
// bundled one.
func (p *Project) Replaces(file string) bool {
	if p == nil {
		return false
	}
	rel, ok := p.rel(file)
	if !ok {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if strings.EqualFold(path.Base(rel), "SKILL.md") {
		return p.items[path.Dir(rel)].Replaces != ""
	}
	return p.items[rel].Replaces != ""
}

// Network is what the user lets the programs reach that an approved file of
// servers defines: "", none, all, or hosts.
func (p *Project) Network(file string) string {
	if p == nil {
		return ""
	}
	rel, ok := p.rel(file)
	if !ok {
		return ""
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.items[rel].Network
}

// Links reports whether an item was approved that is reached by a link to dir,
// outside of the root. dir is a real path.
func (p *Project) Links(dir string) bool {
	if p == nil {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, r := range p.items {
		if r.Target != "" && subpath.Contains(dir, r.Target) {
			return true
		}
	}
	return false
}

// pin is the answer of a run with --trust: true if got is what the run first
// saw at rel. What leaves the folder through a link is never pinned.
func (p *Project) pin(rel, got, file string, in func(*pins) map[string]string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.once == nil {
		return false
	}
	seen := in(p.once)
	if first, ok := seen[rel]; ok {
		return first == got
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	if _, inside := below(p.real, real); !inside {
		return false
	}
	seen[rel] = got
	return true
}

// item finds the record that a path is of or below.
func (p *Project) item(rel string) (record, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for d := rel; d != "." && d != "/"; d = path.Dir(d) {
		if r, ok := p.items[d]; ok {
			return r, true
		}
	}
	return record{}, false
}

// inFolder is the approved hash of a file below an approved skill; "" if there
// is none. Of heads there is none.
func (p *Project) inFolder(rel string, head bool) string {
	r, ok := p.item(rel)
	if !ok || r.Entry == "" || head {
		return ""
	}
	m, err := p.approvedManifest(r)
	if err != nil {
		return ""
	}
	for _, e := range m {
		if r.Path+"/"+e.path == rel && e.kind != 'l' {
			return e.hash
		}
	}
	return ""
}

// rel is a path below the root, with slashes.
func (p *Project) rel(file string) (string, bool) {
	if rel, ok := below(p.root, file); ok {
		return rel, true
	}
	return below(p.real, file)
}

// below is a path relative to dir, with slashes; false: it is not below dir.
func below(dir, file string) (string, bool) {
	rel, ok := subpath.Rel(dir, file)
	return filepath.ToSlash(rel), ok
}

func untrusted(file string) knack.Problem {
	return knack.Problem{
		Code: knack.CodeUntrusted, Severity: knack.Warn, Path: file,
		Message: "left out: not trusted yet",
		Hint:    "knack trust --show",
	}
}

func changed(file string) knack.Problem {
	return knack.Problem{
		Code: knack.CodeChanged, Severity: knack.Warn, Path: file,
		Message: "left out: it changed since it was trusted",
		Hint:    "knack trust --show",
	}
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
