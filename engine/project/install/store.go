package install

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Store is where installed trees are. Several processes may use it at the same time.
type Store struct {
	Dir     string   // $XDG_DATA_HOME/knack
	Lock    string   // the lock file
	Environ []string // of programs; nil: that of the process

	project string // the root of the project in which Lock is; "": Lock is the user's own
	below   string // the directory of trees, with slashes, relative to Dir; "": Dir, see Project
	config  string // the directory with allowed_signers; "": that of Lock

	// Client downloads from addresses that the user typed; nil: http.DefaultClient. Addresses that others wrote are
	// reached through the guarded dialer.
	Client *http.Client
	// Progress is called during a download, from the goroutine that fetches; total is 0 if the server does not say it;
	// nil: nobody is told.
	Progress func(address string, got, total int64)
}

// User returns the user's Store. Both directories are absolute.
func User(data, config string) *Store {
	return &Store{Dir: data, Lock: filepath.Join(config, LockName)}
}

func (s *Store) staging() string { return filepath.Join(s.Dir, "staging") }

// Path returns the directory of an installed tree.
func (s *Store) Path(it *Item) string {
	if it.Place != "" {
		return it.Place
	}
	return filepath.Join(s.Dir, filepath.FromSlash(it.Dir))
}

// A Staged is a tree that was fetched and is not installed yet. Close removes it.
type Staged struct {
	*plugin.Plugin
	Item
	Dir     string   // where it is now
	Skipped []string // links that were left out because they lead out of the tree
	// Attested is the workflow that GitHub says made its lock; "": none.
	Attested string

	keys []Signer // that the user gave
	top  string
	lock *flock.Flock
}

// Close removes what was not installed.
func (s *Staged) Close() error {
	return errors.Join(os.RemoveAll(s.top), unlock(s.lock))
}

// unlock removes a lock's file and then unlocks it, or the other way round where a file in use cannot be removed.
func unlock(l *flock.Flock) error {
	removed := os.Remove(l.Path())
	err := l.Unlock()
	if removed != nil {
		removed = os.Remove(l.Path())
	}
	return errors.Join(err, removed)
}

// StageUnsigned stages a directory whose author has not signed it yet, or wants to sign it again.
func (s *Store) StageUnsigned(ctx context.Context, dir string) (*Staged, error) {
	return s.stage(ctx, Given{Source: plugin.Source{Kind: plugin.Path, Path: dir}, Typed: true}, "", nil)
}

// Stage fetches a source. name is what the plugin is called if its tree does not say it; entry is that of the
// marketplace, or nil.
func (s *Store) Stage(ctx context.Context, g Given, name string, entry json.RawMessage) (*Staged, error) {
	st, err := s.stage(ctx, g, name, entry)
	if err == nil {
		if err = s.verifyPack(ctx, st, g); err != nil {
			st.Close()
			return nil, err
		}
	}
	return st, err
}

// newStaged makes a directory in staging, which Close removes. It also removes what interrupted commands left.
func (s *Store) newStaged() (*Staged, error) {
	if err := os.MkdirAll(s.staging(), 0o700); err != nil {
		return nil, err
	}
	s.clean()
	for {
		// It is locked before it is there, so that no other process takes it for a leftover.
		top := filepath.Join(s.staging(), "tree-"+rand.Text())
		l := flock.New(top+lockSuffix, flock.SetPermissions(0o600))
		if err := l.Lock(); err != nil {
			return nil, err
		}
		ours, err := l.Stat()
		there, terr := os.Stat(l.Path())
		if err == nil && errors.Is(terr, fs.ErrNotExist) || terr == nil && err == nil && !os.SameFile(ours, there) {
			l.Unlock() // another process removed it before it was locked
			continue
		}
		if err = cmp.Or(err, terr, os.Mkdir(top, 0o700)); err != nil {
			return nil, errors.Join(err, unlock(l))
		}
		return &Staged{top: top, Dir: filepath.Join(top, "tree"), lock: l}, nil
	}
}

func (s *Store) stage(ctx context.Context, g Given, name string, entry json.RawMessage) (_ *Staged, err error) {
	st, err := s.newStaged()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			st.Close()
		}
	}()
	if err := os.Mkdir(st.Dir, 0o700); err != nil {
		return nil, err
	}
	root, err := regular.Root(st.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	w := newWriter(root)
	w.tmp = st.top
	defer w.Close()
	commit, err := s.fetch(ctx, g, w)
	if err != nil {
		return nil, err
	}
	st.Skipped = w.skipped
	st.Plugin = plugin.Read(plugin.FS(root), plugin.Options{Name: name, Entry: entry})
	st.Item = Item{Source: g.Source, Commit: commit, Version: st.Plugin.Version, Tree: w.files.Tree(), Entry: entry,
		Files: w.files, From: g.From, Market: g.Market, Time: now(), By: who()}
	st.keys = g.Keys
	return st, nil
}

func who() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

const lockSuffix = ".lock"

// clean removes what interrupted commands left: a directory in staging that no process has locked, and what its journal
// names and nothing uses.
func (s *Store) clean() {
	entries, _ := os.ReadDir(s.staging()) // none: nothing was left
	var last string
	for _, e := range entries {
		top := filepath.Join(s.staging(), strings.TrimSuffix(e.Name(), lockSuffix))
		if top == last {
			continue
		}
		last = top
		l := flock.New(top+lockSuffix, flock.SetPermissions(0o600))
		if ok, err := l.TryLock(); !ok || err != nil {
			continue // it is in use
		}
		var j journal
		data, err := regular.Read(filepath.Join(top, journalName), maxLock)
		if err == nil && json.Unmarshal(data, &j) == nil {
			err = s.collect(j)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			os.RemoveAll(top)
			unlock(l)
		} else {
			l.Unlock()
		}
	}
}

// A journal is what may be garbage after a change of a lock or of the list of marketplaces, whether it was finished or
// not. It is in the directory of the change in staging.
type journal struct {
	Lock  string   `json:"lock"`
	Paths []string `json:"paths"` // relative to the Store's directory
}

const journalName = "journal.json"

// begin writes a journal before a change.
func (s *Store) begin(st *Staged, items ...*Item) (journal, error) {
	j := journal{Lock: s.Lock}
	for _, it := range items {
		if it != nil {
			j.Paths = append(j.Paths, s.paths(it)...)
		}
	}
	data, err := json.Marshal(j)
	if err == nil {
		err = os.WriteFile(filepath.Join(st.top, journalName), data, 0o600)
	}
	return j, err
}

// paths are the files of an item below the Store's directory.
func (s *Store) paths(it *Item) (all []string) {
	if it.Place == "" {
		all = append(all, it.Dir)
	}
	if it.Tree == "" { // that of a marketplace
		return all
	}
	if rel, err := filepath.Rel(s.Dir, s.original(it)); err == nil {
		all = append(all, filepath.ToSlash(rel))
	}
	return all
}

// collect removes what a journal names and nothing uses, and unfinished files.
func (s *Store) collect(j journal) error {
	if j.Lock == "" {
		return nil // nothing was begun
	}
	unlock, err := s.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	lock, err := ReadLock(j.Lock)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, all := range []map[string]*Item{lock.Plugins, lock.Skills} {
		for _, it := range all {
			for ; it != nil; it = it.Previous {
				for _, p := range s.paths(it) {
					used[p] = true
				}
			}
		}
	}
	markets, err := s.Marketplaces()
	if err != nil {
		return err
	}
	for _, m := range markets {
		used[m.Dir] = true
	}
	for _, p := range j.Paths {
		in := strings.TrimPrefix(strings.TrimPrefix(p, placeOf(&Item{Dir: p})), "/")
		if first, _, _ := strings.Cut(in, "/"); fs.ValidPath(p) && in != first && !used[p] && slices.Contains(
			[]string{"plugins", "skills", "marketplaces", "originals"}, first) {
			path := filepath.Join(s.Dir, filepath.FromSlash(p))
			os.RemoveAll(path)            // if it stays, it is only garbage
			os.Remove(filepath.Dir(path)) // if nothing else is in it
		}
	}
	for _, path := range []string{j.Lock, s.marketplacesFile()} {
		entries, _ := os.ReadDir(filepath.Dir(path)) // none: there is nothing unfinished
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "."+filepath.Base(path)+".") {
				os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
			}
		}
	}
	return nil
}

// exclusive waits until no other process changes a lock or the list of marketplaces.
func (s *Store) exclusive() (unlock func() error, err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	l := flock.New(filepath.Join(s.Dir, "install.lock"), flock.SetPermissions(0o600))
	return l.Unlock, l.Lock()
}

// update changes the lock while no other process does.
func (s *Store) update(change func(*Lock) error) error {
	unlock, err := s.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	if s.project != "" {
		if err := outfile.Check(s.project, s.Lock); err != nil {
			return err
		}
	}
	atomicfile.Clean(s.Lock)
	lock, err := ReadLock(s.Lock)
	if err != nil {
		return err
	}
	if err := change(lock); err != nil {
		return err
	}
	data, err := lock.Bytes()
	if err != nil {
		return err
	}
	if s.project != "" {
		if err := outfile.Mkdir(s.project, filepath.Dir(s.Lock), 0o700); err != nil {
			return err
		}
		return outfile.Write(s.project, s.Lock, data, 0o600, true)
	}
	return atomicfile.Write(s.Lock, data, 0o600)
}

// Install moves a staged tree to its place and records it as id: NAME@MARKETPLACE for a plugin, NAME for a skill. A
// version that it replaces stays on disk, see [Store.Rollback].
func (s *Store) Install(st *Staged, id string) error {
	name, market, _ := strings.Cut(id, "@")
	if !plugin.ValidName(name) || market != "" && !plugin.ValidName(market) {
		return fmt.Errorf("%q cannot be the name of something installed", id)
	}
	tree := strings.TrimPrefix(st.Tree, hashPrefix)[:16]
	it := st.Item
	it.Dir = "plugins/" + market + "/" + tree + "/" + name // public plugins import themselves by their directory's name
	if it.Place != "" {
		it.Dir = ""
	} else {
		if market == "" {
			it.Dir = "skills/" + name + "-" + tree
		}
		it.Dir = path.Join(s.below, it.Dir)
	}
	var j journal
	err := s.update(func(l *Lock) (err error) {
		old := l.Item(id)
		if err := st.CheckSigner(old); err != nil {
			return err
		}
		var drop *Item
		if old != nil && old.Tree != it.Tree {
			drop = old.Previous
		}
		if j, err = s.begin(st, &it, drop); err != nil {
			return err
		}
		if it.Place == "" {
			if err := s.place(st, &it); err != nil {
				return err
			}
		}
		if err := s.keepOriginal(&it, st.top); err != nil {
			return err
		}
		if old != nil && old.Tree != it.Tree {
			it.Previous, old.Previous = old, nil
		} else if old != nil {
			it.Previous = old.Previous
		}
		l.table(id)[id] = &it
		return nil
	})
	return errors.Join(err, s.collect(j))
}

// place moves a staged tree to the directory of its item. A directory that is there already has the same content,
// unless somebody changed it: then it is replaced.
func (s *Store) place(st *Staged, it *Item) error {
	to := s.Path(it)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if d, err := it.Files.Verify(to); err == nil && d.IsZero() {
		return nil
	}
	if _, err := os.Lstat(to); err == nil {
		if err := os.Rename(to, filepath.Join(st.top, "old")); err != nil {
			return err
		}
	}
	return os.Rename(st.Dir, to)
}

// errNotInstalled is the error for an id that is not in the lock.
func errNotInstalled(id string) error { return fmt.Errorf("%s is not installed", id) }

// Remove removes a plugin or skill and its files. Its data stays.
func (s *Store) Remove(id string) error {
	st, err := s.newStaged()
	if err != nil {
		return err
	}
	defer st.Close()
	var j journal
	err = s.update(func(l *Lock) (err error) {
		gone := l.Item(id)
		if gone == nil {
			return errNotInstalled(id)
		}
		delete(l.table(id), id)
		j, err = s.begin(st, gone, gone.Previous)
		return err
	})
	if err != nil {
		return err
	}
	return s.collect(j)
}

// ErrNoEarlier is the error of [Store.Rollback] for what was not updated, or was last updated to a new name.
var ErrNoEarlier = errors.New("there is no earlier version")

// Rollback returns to the version before the last update, which must be unchanged.
func (s *Store) Rollback(id string) (*Item, error) {
	var it *Item
	err := s.update(func(l *Lock) error {
		now := l.Item(id)
		if now == nil {
			return errNotInstalled(id)
		}
		if it = now.Previous; it == nil {
			return ErrNoEarlier
		}
		d, err := it.Files.Verify(s.Path(it))
		if err == nil && !d.IsZero() {
			err = fmt.Errorf("the earlier version of %s has changed: %s", id, d)
		}
		if err != nil {
			return err
		}
		now.Previous = nil
		it.Previous = now
		l.table(id)[id] = it
		return nil
	})
	return it, err
}

// Accept records the files of a plugin or skill as they are now. tree is the hash of what was shown to the person who
// accepts it; other content is an error.
func (s *Store) Accept(id, tree string) error {
	st, err := s.newStaged()
	if err != nil {
		return err
	}
	defer st.Close()
	return s.update(func(l *Lock) error {
		it := l.Item(id)
		if it == nil {
			return errNotInstalled(id)
		}
		files, err := Hash(s.Path(it))
		if err != nil {
			return err
		}
		if files.Tree() != tree {
			return fmt.Errorf("%s has changed again", id)
		}
		it.Files, it.Tree, it.Time, it.By = files, tree, now(), who()
		return s.keepOriginal(it, st.top)
	})
}

// Changes fetches the source of an installed item again and returns how it differs from what is installed.
func (s *Store) Changes(ctx context.Context, it *Item, g Given) (Drift, error) {
	st, err := s.stage(ctx, g, "", it.Entry)
	if err != nil {
		return Drift{}, err
	}
	defer st.Close()
	return it.Files.Compare(st.Files), nil
}

// A KnownMarketplace is a marketplace that the user added.
type KnownMarketplace struct {
	Source plugin.Source `json:"source"`
	Typed  bool          `json:"typed,omitempty"`
	Commit string        `json:"commit,omitempty"`
	// Dir is the directory of its tree: relative to the Store's or, for one that is used in place, absolute.
	Dir  string    `json:"dir"`
	Time time.Time `json:"time"`
}

// Tree returns the directory of a marketplace's files.
func (s *Store) Tree(m KnownMarketplace) string {
	if filepath.IsAbs(m.Dir) {
		return m.Dir
	}
	return filepath.Join(s.Dir, filepath.FromSlash(m.Dir))
}

func (s *Store) marketplacesFile() string { return filepath.Join(s.Dir, "marketplaces.json") }

// Marketplaces returns the marketplaces that were added, by name.
func (s *Store) Marketplaces() (map[string]KnownMarketplace, error) {
	all := map[string]KnownMarketplace{}
	data, err := regular.Read(s.marketplacesFile(), 8<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.marketplacesFile(), err)
	}
	for name, m := range all {
		if !plugin.ValidName(name) || !filepath.IsAbs(m.Dir) && !fs.ValidPath(m.Dir) {
			return nil, fmt.Errorf("%s: %q is not a marketplace", s.marketplacesFile(), name)
		}
	}
	return all, nil
}

// setMarketplaces changes the list of marketplaces while no other process does.
func (s *Store) setMarketplaces(change func(map[string]KnownMarketplace) error) error {
	unlock, err := s.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	all, err := s.Marketplaces()
	if err != nil {
		return err
	}
	if err := change(all); err != nil {
		return err
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.marketplacesFile(), append(data, '\n'), 0o600)
}

// AddMarketplace fetches a marketplace and adds it under its own name, or replaces the one with the same name and
// source. A directory is used in place. allowed decides on its source and name; nil: all are allowed.
func (s *Store) AddMarketplace(ctx context.Context, g Given, allowed func(name string) error) (*plugin.Marketplace,
	error) {
	if g.Kind == plugin.Path {
		list, err := readList(g.Path)
		if err == nil && allowed != nil {
			err = allowed(list.Name)
		}
		if err != nil {
			return nil, err
		}
		m := KnownMarketplace{Source: g.Source, Typed: true, Dir: g.Path, Time: now()}
		return list, s.keepMarketplace(list.Name, m, func(KnownMarketplace) error { return nil })
	}
	st, err := s.Stage(ctx, g, "", nil)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	list, err := readList(st.Dir)
	if err == nil && allowed != nil {
		err = allowed(list.Name)
	}
	if err != nil {
		return nil, err
	}
	it := st.Item
	it.Dir = "marketplaces/" + list.Name + "-" + strings.TrimPrefix(st.Tree, hashPrefix)[:16]
	m := KnownMarketplace{Source: g.Source, Typed: g.Typed, Commit: it.Commit, Dir: it.Dir, Time: it.Time}
	var j journal
	err = s.keepMarketplace(list.Name, m, func(old KnownMarketplace) (err error) {
		if j, err = s.begin(st, &Item{Dir: it.Dir}, &Item{Dir: old.Dir}); err == nil {
			err = s.place(st, &it)
		}
		return err
	})
	return list, errors.Join(err, s.collect(j))
}

// keepMarketplace adds a marketplace to the list, or replaces the one with its name and source. place puts its tree in
// its place; old is what is replaced.
func (s *Store) keepMarketplace(name string, m KnownMarketplace, place func(old KnownMarketplace) error) error {
	return s.setMarketplaces(func(all map[string]KnownMarketplace) error {
		old, ok := all[name]
		if ok && old.Source != m.Source {
			return fmt.Errorf("there is a marketplace %s from %s: remove it first", name, old.Source)
		}
		for other := range all {
			if other != name && strings.EqualFold(other, name) {
				return fmt.Errorf("there is a marketplace %s, which is the same name on some systems", other)
			}
		}
		all[name] = m
		return place(old)
	})
}

// RemoveMarketplace removes a marketplace. Plugins that came from it stay.
func (s *Store) RemoveMarketplace(name string) error {
	st, err := s.newStaged()
	if err != nil {
		return err
	}
	defer st.Close()
	var j journal
	err = s.setMarketplaces(func(all map[string]KnownMarketplace) (err error) {
		m, ok := all[name]
		if !ok {
			return fmt.Errorf("there is no marketplace %s", name)
		}
		delete(all, name)
		j, err = s.begin(st, &Item{Dir: m.Dir})
		return err
	})
	if err != nil {
		return err
	}
	return s.collect(j)
}

// List reads the list of a marketplace.
func (s *Store) List(m KnownMarketplace) (*plugin.Marketplace, error) { return readList(s.Tree(m)) }

func readList(dir string) (*plugin.Marketplace, error) {
	root, err := regular.Root(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return plugin.ReadMarketplace(plugin.FS(root))
}

// Listed returns the source of a plugin of a marketplace.
func (s *Store) Listed(m KnownMarketplace, e plugin.Entry) Given {
	g := Given{Source: e.Source, From: &m.Source, Market: m.Commit}
	if e.Source.Kind == plugin.Path {
		g.Base = s.Tree(m)
	}
	return g
}

// Split separates NAME@MARKETPLACE. ok is false for anything else.
func Split(id string) (name, marketplace string, ok bool) {
	name, marketplace, ok = strings.Cut(id, "@")
	return name, marketplace, ok && plugin.ValidName(name) && plugin.ValidName(marketplace)
}

// Allowed are the sources of marketplaces that an administrator allows; nil: all are.
type Allowed []plugin.Source

// ParseAllowed reads the values of strictKnownMarketplaces, each a list of sources. The error is about an entry that
// cannot be read, which allows nothing.
func ParseAllowed(parts []json.RawMessage) (Allowed, error) {
	var all Allowed
	for _, part := range parts {
		var list []json.RawMessage
		if err := json.Unmarshal(part, &list); err != nil {
			return Allowed{}, fmt.Errorf("strictKnownMarketplaces is not a list: %w", err)
		}
		if all == nil {
			all = Allowed{}
		}
		for _, raw := range list {
			src, err := plugin.ParseSource(raw)
			if err != nil {
				return Allowed{}, fmt.Errorf("strictKnownMarketplaces: %w", err)
			}
			all = append(all, src)
		}
	}
	return all, nil
}

// Has reports whether a marketplace may be used. An entry without a ref allows every ref.
func (a Allowed) Has(source plugin.Source) bool {
	return a == nil || slices.ContainsFunc(a, func(s plugin.Source) bool {
		if s.Ref == "" {
			s.Ref = source.Ref
		}
		if s.SHA == "" {
			s.SHA = source.SHA
		}
		return s == source
	})
}

// Blocks reports whether a list of blocked marketplaces contains one. An entry with a branch or tag blocks every commit,
// too.
func (a Allowed) Blocks(source *plugin.Source) bool {
	if source == nil {
		return false
	}
	bare := *source
	bare.Ref, bare.SHA = "", ""
	return a != nil && (a.Has(*source) || source.SHA != "" && slices.ContainsFunc(a, func(s plugin.Source) bool {
		s.Ref, s.SHA = "", ""
		return s == bare
	}))
}

// Allow reports whether a plugin may be used: its marketplace must be allowed.
func (a Allowed) Allow(it *Item) bool { return a == nil || it.From != nil && a.Has(*it.From) }

// reserved are names of marketplaces with a meaning of their own.
var reserved = []string{"inline", "builtin", "direct", piMarket}

// CheckMarketplaceName returns an error for a name that has a meaning of its own.
func CheckMarketplaceName(name string) error {
	if slices.Contains(reserved, strings.ToLower(name)) {
		return fmt.Errorf("a marketplace cannot be called %s", name)
	}
	return nil
}
