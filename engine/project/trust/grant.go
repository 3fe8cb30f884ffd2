package trust

import (
	"errors"
	"fmt"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Grant is what the user accepted for a skill with a certain content: rules in its allowed-tools
// that cover everything, such as Bash; or, without rules, what a server's skill asks for.
type Grant struct {
	// Path is the skill's folder or file: relative to the root with slashes, or absolute; mcp:SERVER:URI on a server.
	Path     string    `json:"path"`
	Hash     string    `json:"hash"` // of the whole content
	Rules    []string  `json:"rules"`
	Approved time.Time `json:"approved"`
}

// String describes a Grant for people.
func (g Grant) String() string {
	if len(g.Rules) == 0 {
		return fmt.Sprintf("what the skill %s asks for, while its text stays as it is", plain.Line(g.Path))
	}
	return fmt.Sprintf("%s of the skill %s, while its files stay as they are", strings.Join(g.Rules, ", "), g.Path)
}

// SkillContent returns the path of a skill's folder (or of its file, if it is a single file) and the
// hash of its current content.
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

// Granted reports whether the user accepted rules for a path and hash from SkillContent.
func (p *Project) Granted(path, hash string, rules []string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.ContainsFunc(p.grants, func(g Grant) bool {
		return g.Path == path && g.Hash == hash && !slices.ContainsFunc(rules,
			func(r string) bool { return !slices.Contains(g.Rules, r) })
	})
}

// Grant records that the user accepts rules for a skill, with the path and hash from SkillContent. It
// replaces a Grant for another content. [Project.Revoke] deletes it. Where nothing can be stored, the error is ErrNoState,
// and it holds for the lifetime of p.
func (p *Project) Grant(path, hash string, rules []string) error {
	with := func(all []Grant) []Grant {
		all = slices.DeleteFunc(slices.Clone(all), func(g Grant) bool { return g.Path == path })
		return append(all, Grant{Path: path, Hash: hash, Rules: rules, Approved: time.Now().UTC().Truncate(time.Second)})
	}
	err := p.update(func(doc *document) error {
		doc.Grants = with(doc.Grants)
		return nil
	})
	if errors.Is(err, ErrNoState) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.grants = with(p.grants)
	}
	return err
}

// Grants returns what the user accepted for skills.
func (p *Project) Grants() []Grant {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.grants)
}

// KeptRules describes, for people, the rules that the answer "always" has added.
func (p *Project) KeptRules() ([]string, error) {
	kept, err := p.Kept()
	if err != nil {
		return nil, err
	}
	rules := make([]string, len(kept))
	for i, k := range kept {
		if rules[i] = k.Rule; k.Line != "" {
			rules[i] += " in exactly: " + plain.Line(k.Line)
		}
	}
	for _, g := range p.Grants() {
		rules = append(rules, g.String())
	}
	return rules, nil
}
