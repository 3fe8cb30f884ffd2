package trust

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/skilldir"
)

// Approve records items as [Project.Scan] found them, and the folder itself. Files that have changed
// on disk since the scan count as changed-since-approval. If an item cannot be approved, Approve
// returns an error and records nothing.
func (p *Project) Approve(items ...Item) error { return p.approve(true, items) }

// ApproveItems is Approve without the folder: the folder still needs approval before programs such as
// git follow its configuration.
func (p *Project) ApproveItems(items ...Item) error { return p.approve(false, items) }

func (p *Project) approve(folder bool, items []Item) error {
	for _, it := range items {
		if it.Refused != "" {
			return fmt.Errorf("%s: %s", it.Path, it.Refused)
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	return p.update(func(doc *document) error {
		if folder {
			doc.Folder = now
		}
		at := make(map[string]int, len(doc.Items))
		for i, r := range doc.Items {
			at[r.Path] = i
		}
		for _, it := range items {
			r := record{Kind: it.Kind, Path: it.Path, Hash: it.Hash, Entry: it.entry, Main: it.main, Head: it.head,
				Target: it.Target, Replaces: it.Replaces, Network: it.Network, Write: it.Write,
				Approved: now}
			if i, ok := at[it.Path]; !ok {
				doc.Items = append(doc.Items, r)
			} else if doc.Items[i].Hash != it.Hash || doc.Items[i].Replaces != it.Replaces ||
				doc.Items[i].Network != it.Network || !slices.Equal(doc.Items[i].Write, it.Write) {
				doc.Items[i] = r
			}
			if err := p.keep(it); err != nil {
				return err
			}
		}
		order.Stable(doc.Items, func(a, b record) int { return strings.Compare(a.Path, b.Path) })
		return p.sweep(doc)
	})
}

// Revoke deletes everything that was approved in the folder, and the rules kept for it, also of a record that cannot be
// read.
func (p *Project) Revoke() error {
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(filepath.Join(p.store, "rules.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	doc := p.empty()
	return errors.Join(p.write(doc), p.sweep(&doc))
}

// Verify compares a skill's whole folder with what was approved. It returns nil, or a [knack.Problem]
// with the code untrusted or changed-since-approval, whose message names the differences. dir is
// absolute.
func (p *Project) Verify(dir string) error {
	if p == nil {
		return untrusted(dir)
	}
	rel, ok := p.rel(dir)
	if !ok {
		return untrusted(dir)
	}
	p.mu.RLock()
	r, known := p.items[rel]
	p.mu.RUnlock()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	m, err := readManifest(real, layout.IsSkillsRoot(rel))
	if err != nil {
		return knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error, Path: dir, Message: err.Error()}
	}
	hash := m.hash()
	if known && r.Hash == hash {
		return nil
	}
	if p.pin(rel, hash, dir, func(s *pins) map[string]string { return s.folders }) {
		return nil
	}
	if !known {
		return untrusted(dir)
	}
	c := changed(dir)
	if old, err := p.approvedManifest(r); err == nil {
		c.Message += ": " + plain.List(difference(old, m), 8)
	}
	return c
}

// VerifySkill is Verify for a skill that is about to be activated. A skill that is a single file was
// checked when it was read, and a skill from outside the project needs no approval.
func (p *Project) VerifySkill(k *knack.Skill) error {
	if k.Origin.Kind != knack.Project && k.Origin.Kind != knack.Additional || k.Dir == "" ||
		!strings.EqualFold(filepath.Base(k.Path), "SKILL.md") {
		return nil
	}
	if p != nil {
		if _, ok := p.rel(k.Dir); !ok {
			return nil
		}
	}
	return p.Verify(k.Dir)
}

// CheckIn is [Project.Check] for the files of one skill: a file in its directory that belongs to
// another skill is untrusted.
func (p *Project) CheckIn(dir string) func(file string, data []byte) error {
	return func(file string, data []byte) error {
		skill, ok := p.rel(dir)
		rel, below := p.rel(file)
		if ok && below && layout.IsSkillsRoot(skill) {
			for d := path.Dir(rel); d != skill && d != "."; d = path.Dir(d) {
				if skilldir.Beside(os.DirFS(p.real), d) {
					return untrusted(file)
				}
			}
		}
		return p.Check(file, data)
	}
}

// difference lists the files that differ.
func difference(old, now manifest) []string {
	was := map[string]entry{}
	for _, e := range old {
		was[e.path] = e
	}
	var lines []string
	for _, e := range now {
		switch o, ok := was[e.path]; {
		case !ok:
			lines = append(lines, e.path+" is new")
		case o.kind != e.kind && o.hash == e.hash:
			lines = append(lines, e.path+" became "+map[byte]string{'f': "a plain file", 'x': "executable",
				'l': "a link"}[e.kind])
		case o.hash != e.hash:
			lines = append(lines, e.path+" changed")
		}
		delete(was, e.path)
	}
	for _, e := range old {
		if _, gone := was[e.path]; gone {
			lines = append(lines, e.path+" is gone")
		}
	}
	return lines
}

// Diff returns what has changed in an item since it was approved, as a unified diff, or "" if the item
// is not a changed one. The diff is untrusted text.
func (p *Project) Diff(it Item) string {
	p.mu.RLock()
	r, ok := p.items[it.Path]
	p.mu.RUnlock()
	if !ok || it.State != Changed || len(it.list) == 0 {
		return ""
	}
	old, files, err := p.approved(r)
	if err != nil {
		return fmt.Sprintf("the approved content cannot be read: %v\n", err)
	}
	root, err := regular.Root(it.dir)
	if err != nil {
		return fmt.Sprintf("%v\n", err)
	}
	defer root.Close()

	byPath := func(m manifest) map[string]entry {
		all := make(map[string]entry, len(m))
		for _, e := range m {
			all[e.path] = e
		}
		return all
	}
	if it.entry == "" && len(old) == 1 { // compare a single file even if it had another name when it was kept
		name := it.list[0].path
		files = map[string][]byte{name: files[old[0].path]}
		old = manifest{{old[0].kind, old[0].hash, old[0].size, name}}
	}
	was, is := byPath(old), byPath(it.list)
	paths := make([]string, 0, len(was)+len(is))
	for name := range was {
		paths = append(paths, name)
	}
	for name := range is {
		if _, ok := was[name]; !ok {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	var b strings.Builder
	for _, name := range paths {
		o, hadIt := was[name]
		n, hasIt := is[name]
		if o.hash == n.hash && o.kind == n.kind {
			continue
		}
		full := it.Path
		if it.entry != "" {
			full += "/" + name
		}
		var before, after []byte
		var seen bool // both texts are available
		if hadIt {
			before, seen = files[name]
		} else {
			seen = true
		}
		if hasIt && n.kind != 'l' {
			data, err := readRegular(root, name)
			after, seen = data, seen && err == nil
		}
		if hadIt && hasIt && o.kind != n.kind {
			fmt.Fprintf(&b, "%s: was %s, is %s\n", full, kindName(o.kind), kindName(n.kind))
		}
		if !seen || !isText(before) || !isText(after) {
			fmt.Fprintf(&b, "%s: %d bytes, were %d (no text to show)\n", full, n.size, o.size)
			continue
		}
		from, to := "a/"+full, "b/"+full
		if !hadIt {
			from = "/dev/null"
		}
		if !hasIt {
			to = "/dev/null"
		}
		b.WriteString(udiff.Unified(from, to, string(before), string(after)))
	}
	return b.String()
}

func kindName(k byte) string {
	return map[byte]string{'f': "a file", 'x': "executable", 'l': "a link"}[k]
}

func isText(data []byte) bool { return utf8.Valid(data) && !bytes.ContainsRune(data, 0) }

// keep stores the content of an item, so that a later change can be shown. It stores only bytes that
// have the approved hash.
func (p *Project) keep(it Item) error {
	name := p.zipName(it.Hash)
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("manifest")
	if err != nil {
		return err
	}
	if _, err := w.Write(it.list.text()); err != nil {
		return err
	}
	root, err := regular.Root(it.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, e := range it.list {
		if e.kind == 'l' || e.size > MaxFile {
			continue
		}
		data, err := readRegular(root, e.path)
		if err != nil || hash(data) != e.hash || !isText(data) {
			continue
		}
		w, err := z.Create("files/" + e.path)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return atomicfile.Write(name, b.Bytes(), 0o600)
}

func (p *Project) zipName(hash string) string {
	return filepath.Join(p.store, "approved", hash+".zip")
}

// approved reads what keep stored for an item. It compares the manifest of a folder with the record's
// hash.
func (p *Project) approved(r record) (manifest, map[string][]byte, error) {
	z, err := zip.OpenReader(p.zipName(r.Hash))
	if err != nil {
		return nil, nil, err
	}
	defer z.Close()
	var m manifest
	files := map[string][]byte{}
	for _, f := range z.File {
		rc, err := f.Open()
		if err != nil {
			return nil, nil, err
		}
		data, err := io.ReadAll(io.LimitReader(rc, maxFolderBytes))
		rc.Close()
		if err != nil {
			return nil, nil, err
		}
		if name, ok := strings.CutPrefix(f.Name, "files/"); ok {
			files[name] = data
			continue
		}
		if r.Entry != "" && hash(data) != r.Hash {
			return nil, nil, fmt.Errorf("%s: its manifest is not the one that was approved", p.zipName(r.Hash))
		}
		if m, err = parseManifest(data); err != nil {
			return nil, nil, err
		}
	}
	return m, files, nil
}

func (p *Project) approvedManifest(r record) (manifest, error) {
	m, _, err := p.approved(r)
	return m, err
}

// sweep removes the stored content of items that are no longer in the record.
func (p *Project) sweep(doc *document) error {
	used := map[string]bool{}
	for _, r := range doc.Items {
		used[r.Hash+".zip"] = true
	}
	entries, err := os.ReadDir(filepath.Join(p.store, "approved"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !used[e.Name()] {
			if err := os.Remove(filepath.Join(p.store, "approved", e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
