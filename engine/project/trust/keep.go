package trust

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/run/gate"
)

// A Project stores the rules of "always" answers together with its trust.
var _ gate.Keeper = (*Project)(nil)

type keptRules struct {
	Version int        `json:"version"`
	Allow   []keptRule `json:"allow"`
}

type keptRule struct {
	Rule  string            `json:"rule"`
	Line  string            `json:"line,omitempty"`  // the only command line that it allows
	Files map[string]string `json:"files,omitempty"` // path → hash of the content that was shown
	Time  time.Time         `json:"time"`
}

// Kept returns the kept rules, oldest first.
func (p *Project) Kept() ([]gate.Kept, error) {
	doc, err := p.readRules()
	if err != nil {
		return nil, err
	}
	kept := make([]gate.Kept, len(doc.Allow))
	for i, r := range doc.Allow {
		kept[i] = gate.Kept{Rule: r.Rule, Line: r.Line, Time: r.Time}
		for path, h := range r.Files {
			f := gate.File{Path: path, Hash: h}
			if data, err := os.ReadFile(p.shownName(h)); err == nil && hash(data) == h {
				f.Data = data
			}
			kept[i].Files = append(kept[i].Files, f)
		}
	}
	return kept, nil
}

// Keep adds rules, or renews existing ones. Without a state directory it does nothing: the gate
// remembers the rules for the session.
func (p *Project) Keep(kept ...gate.Kept) error {
	if p.store == "" {
		return nil
	}
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	doc, err := p.readRules()
	if err != nil {
		return err
	}
	for _, k := range kept {
		r := keptRule{Rule: k.Rule, Line: k.Line, Time: k.Time}
		for _, f := range k.Files {
			if r.Files == nil {
				r.Files = map[string]string{}
			}
			r.Files[f.Path] = f.Hash
			if f.Data == nil {
				continue
			}
			if err := atomicfile.Write(p.shownName(f.Hash), f.Data, 0o600); err != nil {
				return err
			}
		}
		doc.Allow = slices.DeleteFunc(doc.Allow, func(o keptRule) bool {
			return o.Rule == r.Rule && o.Line == r.Line &&
				sameFiles(o.Files, r.Files)
		})
		doc.Allow = append(doc.Allow, r)
	}
	return writeJSON(filepath.Join(p.store, "rules.json"), doc)
}

// sameFiles reports whether two answers are about the same paths, whatever their content: then the
// later answer replaces the earlier one.
func sameFiles(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for path := range a {
		if _, ok := b[path]; !ok {
			return false
		}
	}
	return true
}

func (p *Project) readRules() (keptRules, error) {
	doc := keptRules{Version: 1}
	if p.store == "" {
		return doc, nil
	}
	err := readJSON(filepath.Join(p.store, "rules.json"), &doc, &doc.Version)
	return doc, err
}

func (p *Project) shownName(hash string) string {
	return filepath.Join(p.store, "shown", hash)
}
