package trust

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/layout"
	"github.com/knack-agent/knack/internal/regular"
)

// A Grant is what the user accepted for a skill as it was then: rules of its
// allowed-tools that cover everything, such as Bash.
type Grant struct {
	Path     string    `json:"path"` // of the skill's folder, or its file: relative to the root with slashes, or absolute
	Hash     string    `json:"hash"` // of all of it
	Rules    []string  `json:"rules"`
	Approved time.Time `json:"approved"`
}

// String shows a Grant for people.
func (g Grant) String() string {
	return fmt.Sprintf("%s of the skill %s, while its files stay as they are", strings.Join(g.Rules, ", "), g.Path)
}

// SkillContent names the folder of a skill, or its file if it is one, and hashes
// all of it as it is now.
func (p *Project) SkillContent(k *knack.Skill) (path, hashed string, err error) {
	at := k.Path
	folder := k.Dir != "" && strings.EqualFold(filepath.Base(k.Path), "SKILL.md")
	if folder {
		at = k.Dir
	}
	if !filepath.IsAbs(at) {
		return "", "", fmt.Errorf("%s is not a skill on this machine", k.Name)
	}
	path = at
	if rel, ok := p.rel(at); ok {
		path = rel
	}
	if !folder {
		data, err := regular.Read(at, MaxFile)
		return path, hash(data), err
	}
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return "", "", err
	}
	m, err := readManifest(real, layout.IsSkillsRoot(filepath.ToSlash(path)))
	return path, m.hash(), err
}

// Granted reports whether the user accepted rules for what SkillContent returned.
func (p *Project) Granted(path, hash string, rules []string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.ContainsFunc(p.grants, func(g Grant) bool {
		return g.Path == path && g.Hash == hash && !slices.ContainsFunc(rules,
			func(r string) bool { return !slices.Contains(g.Rules, r) })
	})
}

// Grant records that the user accepts rules for a skill as SkillContent returned
// it. It replaces what was accepted for another content. [Project.Revoke]
// forgets it.
func (p *Project) Grant(path, hash string, rules []string) error {
	return p.update(func(doc *document) error {
		doc.Grants = slices.DeleteFunc(doc.Grants, func(g Grant) bool { return g.Path == path })
		doc.Grants = append(doc.Grants, Grant{Path: path, Hash: hash, Rules: rules,
			Approved: time.Now().UTC().Truncate(time.Second)})
		return nil
	})
}

// Grants are what the user accepted for skills.
func (p *Project) Grants() []Grant {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.grants)
}

// KeptRules returns what the answer "always" allows, for people to read.
func (p *Project) KeptRules() ([]string, error) {
	kept, err := p.Kept()
	if err != nil {
		return nil, err
	}
	rules := make([]string, len(kept))
	for i, k := range kept {
		rules[i] = k.Rule
	}
	for _, g := range p.Grants() {
		rules = append(rules, g.String())
	}
	return rules, nil
}
