// Package bundled contains the skills that ship with the program.
//
// A [Set] is a knack.Source of these skills; a program adds its own with Set.More or Set.Add. The
// files of a skill are written to disk when it is first invoked, once per process, into
// a new private directory that no one else could have prepared; [Set.Close] removes it.
//
//	set := bundled.New(stateDir, version)
//	defer set.Close()
//	catalog := knack.Load(ctx, set, …)
//
// [From] makes a Set of a host's own embedded skills with files.
//
// Most programs start with package engine.
package bundled

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/extract"
)

// The evals beside the skills are for tests only.
//
//go:embed skills/*/SKILL.md skills/*/references skills/*/scripts
var files embed.FS

// A Set contains the skills of the program. It is safe for concurrent use. Its fields
// must not be changed after the first use.
type Set struct {
	More []Skill // in addition to the embedded ones
	// Features are features that are on or off. Letter case, - and _ in their names do not matter, and the names that
	// other programs use count. Of several, off wins.
	Features map[string]bool
	// Found reports whether what opens a skill of the program by itself was found, such as a browser for browser. It is
	// called whenever skills are loaded. nil: nothing was.
	Found func(skill string) bool
	// Before computes what stands before the text of skills, by name; see [knack.Skill.Before].
	Before map[string]func(context.Context, knack.Invocation) ([]knack.Part, error)
	// Prompt computes the text of skills in place of that of their SKILL.md, by name, while their other files stay beside
	// it; see [knack.Skill.Prompt].
	Prompt map[string]func(context.Context, knack.Invocation) ([]knack.Part, error)
	// Off are skills of the program that the user switched off, by name, with the reason.
	Off map[string]string

	state, version string
	trees          []fs.FS         // directories of skills
	gates          map[string]Gate // by the name of the skill
	builtIn        bool            // the first of trees is the program's

	mu        sync.Mutex
	root      *os.Root // private to this process; nil until the first skill is extracted
	dir       string
	closed    bool
	extracted map[string]extraction
}

// A Skill is a skill of a program, with conditions for its availability. It needs a Name
// and a source of its text, either Prompt or a file. The Set sets its origin to bundled.
type Skill struct {
	*knack.Skill
	Feature   string                     // its feature gate, off by default; "": none
	IsEnabled func(context.Context) bool // called whenever skills are loaded; nil: enabled
}

// withState returns the skill in its current state.
func (s *Set) withState(ctx context.Context, k Skill) *knack.Skill {
	skill := *k.Skill
	skill.Origin = knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted}
	skill.ID = cmp.Or(skill.ID, "bundled:"+skill.Name)
	if k.Feature != "" {
		skill.FeatureOff = s.gateState(Gate{Feature: k.Feature}, nil)
	}
	switch {
	case skill.FeatureOff != "":
	case k.IsEnabled != nil && !k.IsEnabled(ctx):
		skill.FeatureOff = "this program does not provide it here"
	}
	return &skill
}

type extraction struct {
	dir string
	err error
}

// New returns the bundled skills of a version of the program. state is the user's state
// directory, $XDG_STATE_HOME. If it is "", nothing is extracted, and skills have no base
// directory.
func New(state, version string) *Set {
	sub, err := fs.Sub(files, "skills")
	if err != nil { // impossible: the name is a constant
		panic(err)
	}
	s := From(sub, state, version)
	s.builtIn = true
	for name, g := range gates {
		s.gates[name] = g
	}
	return s
}

// From returns the skills of a host from a file system that contains a directory of
// skills, such as an embed.FS. As with New, their files are written to disk, so that
// ${CLAUDE_SKILL_DIR} and {baseDir} name a directory. state and version are as for New.
func From(skills fs.FS, state, version string) *Set {
	return &Set{trees: []fs.FS{skills}, gates: map[string]Gate{}, state: state, version: cmp.Or(version, "devel"),
		extracted: map[string]extraction{}}
}

// Add adds a skill of a part of the program. files, such as an embed.FS, has a directory with its name. A gate without
// a feature is open. Add must be called before the first use.
func (s *Set) Add(name string, files fs.FS, g Gate) {
	s.trees = append(s.trees, files)
	if g.Feature != "" {
		s.gates[name] = g
	}
}

// Names returns the names of the skills that every Set has, sorted.
func Names() []string {
	entries, err := fs.ReadDir(files, "skills")
	if err != nil { // impossible: the name is a constant
		panic(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Location says that the skills are part of the program, not on disk.
func (s *Set) Location() knack.Location {
	return knack.Location{Kind: knack.Bundled, Trust: knack.Trusted}
}

// Skills implements knack.Source.
func (s *Set) Skills(ctx context.Context) iter.Seq2[*knack.Skill, error] {
	return func(yield func(*knack.Skill, error) bool) {
		for _, k := range s.More {
			if !yield(s.withState(ctx, k), nil) {
				return
			}
		}
		for _, tree := range s.trees {
			for skill, err := range knack.FS(tree, knack.Origin{Kind: knack.Bundled, Trust: knack.Trusted}).Skills(ctx) {
				if skill != nil {
					skill = s.finish(ctx, tree, skill)
				}
				if !yield(skill, err) {
					return
				}
			}
		}
	}
}

// finish adds what an embedded file cannot contain: how to extract a skill that has
// files, and how to compute a text.
func (s *Set) finish(ctx context.Context, tree fs.FS, from *knack.Skill) *knack.Skill {
	skill := *from
	skill.Before, skill.Prompt = s.Before[skill.Name], s.Prompt[skill.Name]
	if s.builtIn {
		skill.FeatureOff = s.Closed(skill.Name)
		if skill.Before == nil {
			skill.Before = report(skill.Name)
		}
		if skill.Name == "lorem-ipsum" {
			skill.Prompt = loremIpsum
			return &skill
		}
	}
	if beside, err := skill.List(ctx); err == nil && len(beside) > 0 && s.state != "" {
		dir := path.Dir(strings.TrimPrefix(skill.Path, string(knack.Bundled)+":"))
		skill.Base = func(context.Context) (string, error) { return s.extract(tree, dir) }
	}
	return &skill
}

// extract writes the files of a skill's directory to disk once. Concurrent callers wait
// for the one that writes.
func (s *Set) extract(tree fs.FS, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.extracted[name]
	if !ok {
		e.dir, e.err = s.write(tree, name)
		s.extracted[name] = e
	}
	return e.dir, e.err
}

// write writes the files. The caller must hold the lock.
func (s *Set) write(tree fs.FS, name string) (string, error) {
	if s.closed {
		return "", errors.New("the program is ending")
	}
	list, err := content(tree, name)
	if err != nil {
		return "", err
	}
	if s.root == nil {
		if s.dir, s.root, err = extract.Make(s.state, "knack", "bundled", s.version); err != nil {
			return "", fmt.Errorf("in %s: %w", s.state, err)
		}
	}
	to := "skill" // for a file system that is a single skill
	if name != "." {
		to = strings.ReplaceAll(name, "/", "--")
	}
	if err := extract.Files(s.root, to, list); err != nil {
		return "", err
	}
	return filepath.Join(s.dir, to), nil
}

// content returns the files of an embedded skill. Files in scripts are marked
// executable, because an embed.FS does not store modes.
func content(tree fs.FS, dir string) ([]extract.File, error) {
	var list []extract.File
	err := fs.WalkDir(tree, dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, p)
		rel := p
		if dir != "." {
			rel = strings.TrimPrefix(p, dir+"/")
		}
		list = append(list, extract.File{Path: rel, Data: data, Script: strings.HasPrefix(rel, "scripts/")})
		return err
	})
	return list, err
}

// Close removes the extracted files. Skills invoked later have no base directory.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	clear(s.extracted)
	if s.root == nil {
		return nil
	}
	err := errors.Join(s.root.Close(), os.RemoveAll(s.dir))
	s.root = nil
	return err
}
