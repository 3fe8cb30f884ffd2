// Package trust remembers which content of a project a person has approved.
//
// The resources of a project (skills, legacy commands, templates, system prompts, agents, hooks, MCP
// servers, settings) have no effect until a person has seen and approved them. An approval is bound to
// content: [Project.Check] reports whether exactly the bytes that a loader has just read are approved,
// so that nothing can change between the check and the use. Any changed byte needs a new approval.
//
// Most callers need [Store.Project] for the working folder, and pass its Check to whatever loads
// resources: sources, settings, agents.
//
// To keep starting cheap with a thousand skills, content is verified in steps:
//
//   - at load, only what is parsed: the first 4 KiB of a SKILL.md by [Project.CheckHead], and
//     other files (settings, agents) as a whole by Check; this is one hash of bytes that are
//     in memory anyway;
//   - at activation, SKILL.md as a whole by Check, and the skill's folder by [Project.Verify],
//     which finds files that were added, removed, changed or made executable;
//   - before a script of an approved skill runs, that script, by Check.
//
// The record is stored in the state directory, never in the repository, in a folder named by a hash of
// the project's real path:
//
//	projects/<hash>/trust.json      the items with their hashes
//	projects/<hash>/approved/*.zip  the approved content, to show a diff later
//	projects/<hash>/rules.json      rules kept by the answer "always"
//
// Files have mode 0600. Writers take a lock and replace whole files; any number of programs may use
// one project at a time. A running program sees what another one approves after [Project.Reload].
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A Store holds the records of all projects.
type Store struct {
	dir string
}

// ErrNoState is the error for changing a record when there is no state directory.
var ErrNoState = errors.New("there is no state directory to store it in")

// Open returns the store in a state directory ($XDG_STATE_HOME/knack). It reads and creates nothing.
// If stateDir is "", nothing is stored: no project has a record, and changing one returns
// [ErrNoState].
func Open(stateDir string) *Store {
	if stateDir == "" {
		return &Store{}
	}
	return &Store{filepath.Join(stateDir, "projects")}
}

// A Project is the trust record of one folder. It is safe for concurrent use. A nil Project trusts
// nothing.
type Project struct {
	root  string // as given, absolute
	real  string // with links resolved
	store string // projects/<hash>; "": there is no state directory

	// Bundled are the names of the skills that ship with the program. A project's skill with such a name
	// replaces the bundled skill only if the user was shown that. It must not be changed once the Project
	// is in use.
	Bundled []string

	mu     sync.RWMutex
	items  map[string]record // by path
	grants []Grant
	files  map[string]sums // of files that loaders read, by path
	once   *pins           // not nil with --trust
	folder bool
}

// Files returns the files that the record is kept in, which need not exist; nil: it is not kept.
func (p *Project) Files() []string {
	if p == nil || p.store == "" {
		return nil
	}
	return []string{filepath.Join(p.store, "trust.json"), filepath.Join(p.store, "rules.json")}
}

// Inherit gives the folder root the approvals of another one that has the same files, such as the repository of which
// it is a worktree. They are bound to the same paths and contents: what differs is not approved. A folder that has a
// record keeps it.
func (s *Store) Inherit(root, from string) error {
	p, err := s.Project(root)
	if err != nil || p.store == "" {
		return err
	}
	other, err := s.Project(from)
	if err != nil {
		return err
	}
	if _, err := os.Stat(other.store); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(p.store); err == nil {
		return nil
	}
	return os.CopyFS(p.store, os.DirFS(other.store))
}

// HeadSize is the size of the head that [Project.CheckHead] checks, in bytes.
const HeadSize = 4 << 10

// sums are the hashes of a file: of the whole file, and of its head.
type sums struct{ whole, head string }

// pins are the hashes that a run with --trust saw first. They are valid for that run.
type pins struct {
	files   map[string]string
	heads   map[string]string
	folders map[string]string
	direct  map[string]bool // directories that no link leads to
}

// A record is an approved item.
type record struct {
	Kind     Kind      `json:"kind"`
	Path     string    `json:"path"`               // relative to the root, with slashes
	Hash     string    `json:"hash"`               // of the file, or of a folder's manifest
	Entry    string    `json:"entry,omitempty"`    // for a folder: the name of its SKILL.md
	Main     string    `json:"main,omitempty"`     // for a folder: the hash of that file
	Head     string    `json:"head,omitempty"`     // the hash of the first HeadSize bytes of that file, or of the file
	Target   string    `json:"target,omitempty"`   // the target of a link that leaves the root
	Replaces string    `json:"replaces,omitempty"` // the bundled skill that it replaces
	Network  string    `json:"network,omitempty"`  // what the programs that it defines may reach
	Write    []string  `json:"write,omitempty"`    // where they may write
	Approved time.Time `json:"approved"`
}

// A document is the content of trust.json.
type document struct {
	Version int      `json:"version"`
	Root    string   `json:"root"` // for people only; the name of the record's folder identifies the project
	Items   []record `json:"items"`
	Grants  []Grant  `json:"grants,omitempty"`
	// Folder is when a person last approved the folder, even one without items: programs such as git
	// follow its configuration.
	Folder time.Time `json:"folder,omitzero"`
}

// Project reads the record of the folder root (see sources.Root). A folder without a record is not an
// error: nothing in it is trusted. An unreadable record is an error.
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

// Trusted reports whether a person has approved the folder, or --trust does for this run. It does not
// apply to individual files: see [Project.Check].
func (p *Project) Trusted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.folder || p.once != nil
}

// Reload reads the record again. The hashes that a run with --trust has pinned stay valid.
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

func (p *Project) empty() document { return document{Version: 1, Root: p.real} }

func (p *Project) read() (document, error) {
	doc := p.empty()
	if p.store == "" {
		return doc, nil
	}
	err := readJSON(filepath.Join(p.store, "trust.json"), &doc, &doc.Version)
	return doc, err
}

// update changes the record under the lock, starting from the version on disk.
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
	return p.write(doc)
}

// write replaces the record. The caller has the lock.
func (p *Project) write(doc document) error {
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

// readJSON reads one of Knack's files into doc and checks its version. If the file does not exist, doc
// is unchanged. Below a home that is no directory, such as /dev/null, none exists.
func readJSON(name string, doc any, version *int) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, doc); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if *version != 1 {
		return fmt.Errorf("%s: version %d is not supported by this program", name, *version)
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

// Once trusts the folder for the lifetime of this value (--trust): the first bytes seen at each path
// are trusted, and other bytes are changed-since-approval. Links that leave the folder stay untrusted.
// Nothing is stored.
func (p *Project) Once() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.once = &pins{files: map[string]string{}, heads: map[string]string{}, folders: map[string]string{},
		direct: map[string]bool{}}
}

// Check reports whether a person approved data for a file. data is the whole content that was just
// read. Check returns nil, or a [knack.Problem] with the code untrusted or changed-since-approval. The
// file's path is absolute.
func (p *Project) Check(file string, data []byte) error {
	return p.check(file, data, false)
}

// CheckHead is Check for a loader that uses only the first HeadSize bytes of a file. data is these
// bytes, or the whole of a shorter file.
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
	hash := hash(data)
	if known && want == hash {
		return nil
	}
	if once && p.pin(rel, hash, file, func(s *pins) map[string]string {
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

// Replaces reports whether the user approved that the skill in a file replaces the bundled one with its
// name. --trust approves that of every skill.
func (p *Project) Replaces(file, name string) bool {
	if p == nil {
		return false
	}
	rel, ok := p.rel(file)
	if !ok {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.once != nil && slices.Contains(p.Bundled, name) {
		return true
	}
	if strings.EqualFold(path.Base(rel), "SKILL.md") {
		return p.items[path.Dir(rel)].Replaces != ""
	}
	return p.items[rel].Replaces != ""
}

// Network returns what the programs defined in an approved file of servers may reach: "", none, all,
// or hosts.
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

// Writable returns where the programs defined in an approved file of servers may write, besides the project.
func (p *Project) Writable(file string) []string {
	if p == nil {
		return nil
	}
	rel, ok := p.rel(file)
	if !ok {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.items[rel].Write
}

// Links reports whether the user approved an item that is a link to dir, or to something in dir. dir
// is a real path outside the root.
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

// pin reports, in a run with --trust, whether hash is what the run first saw at rel. It never pins a
// file outside the folder that is reached through a link.
func (p *Project) pin(rel, hash, file string, in func(*pins) map[string]string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.once == nil {
		return false
	}
	seen := in(p.once)
	if first, ok := seen[rel]; ok {
		return first == hash
	}
	if !p.isDirect(rel) {
		real, err := filepath.EvalSymlinks(file)
		if errors.Is(err, fs.ErrNotExist) {
			real, err = file, nil // settings of what this folder was made from, see hooksOf
		}
		if err != nil {
			return false
		}
		if _, inside := below(p.real, real); !inside {
			return false
		}
	}
	seen[rel] = hash
	return true
}

// isDirect reports whether no part of a path is a link. Directories are looked at once in a run: there may be
// thousands of files below them.
func (p *Project) isDirect(rel string) bool {
	var dirs []string
	for at := rel; at != "." && !p.once.direct[at]; at = path.Dir(at) {
		info, err := os.Lstat(filepath.Join(p.real, filepath.FromSlash(at)))
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return false
		}
		if info.IsDir() {
			dirs = append(dirs, at)
		}
	}
	for _, dir := range dirs {
		p.once.direct[dir] = true
	}
	return true
}

// item finds the record of a path, or of a folder that contains it.
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

// inFolder returns the approved hash of a file in an approved skill, or "" if there is none. There are
// no approved hashes of heads.
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

// rel returns a path relative to the root, with slashes.
func (p *Project) rel(file string) (string, bool) {
	if rel, ok := below(p.root, file); ok {
		return rel, true
	}
	return below(p.real, file)
}

// below returns a path relative to dir, with slashes; false: it is not below dir.
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
		Hint:    "knack trust shows what changed, and asks",
	}
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
