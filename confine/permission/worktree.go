package permission

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// A session in a linked work tree of git is kept from the repository's other ones, that of the user above all: what it
// does there is neither seen nor wanted.

// A linkedTree is a work tree that shares a repository with others.
type linkedTree struct {
	own, common string // git directories, with slashes
	main        string // the main work tree; "": none
}

// linked returns the linked work tree around a directory, nil if there is none.
func (g *Git) linked(ctx context.Context, dir string) *linkedTree {
	own, common := g.directories(ctx, dir)
	if own == common {
		return nil
	}
	t := &linkedTree{own: own, common: common}
	if path.Base(common) == ".git" {
		t.main = path.Dir(common)
	}
	return t
}

// directories returns the git directory of the work tree around a directory, and the common one of the repository; "" if
// there is none.
func (g *Git) directories(ctx context.Context, dir string) (own, common string) {
	release, err := g.acquire(ctx)
	if err != nil {
		return "", ""
	}
	defer release()
	repos := g.repositories(ctx, topOf(dir), false)
	if len(repos) == 0 || repos[0].err != nil || len(repos[0].dirs) != 2 {
		return "", ""
	}
	return filepath.ToSlash(repos[0].dirs[0]), filepath.ToSlash(repos[0].dirs[1])
}

// tree returns the linked work tree of the session, nil if it is in none.
func (p *PathContext) tree() *linkedTree {
	if p.Git == nil || p.Resolve != nil || p.Dir == "" {
		return nil
	}
	return p.Git.linked(p.ctx, p.Dir)
}

// mainTree returns the main work tree of a repository in which the session is and that has others, nil if there is
// none, or no sandbox closes the others.
func (j *judge) mainTree() *linkedTree {
	p := j.paths
	if p.Git == nil || p.Dir == "" || !j.confined() {
		return nil
	}
	top := topOf(p.Dir)
	if entries, err := os.ReadDir(filepath.Join(top, ".git", "worktrees")); err != nil || len(entries) == 0 {
		return nil
	}
	own, common := p.Git.directories(p.ctx, p.Dir)
	if own == "" || own != common {
		return nil
	}
	return &linkedTree{own: own, common: common, main: filepath.ToSlash(top)}
}

// mainDirs returns what the working directory is called in the directories that its work tree or copy was made from. It
// starts no git, because rules ask it for each file.
func (p *PathContext) mainDirs() (dirs []string) {
	for _, o := range p.origins() {
		if rel, ok := subpath.Rel(o.Top, p.Dir); ok {
			dirs = append(dirs, path.Join(filepath.ToSlash(o.From), filepath.ToSlash(rel)))
		}
	}
	return dirs
}

// inCheckout reports whether a file is in another work tree of the repository, and not in the workspace.
func (j *judge) inCheckout(n pathNames) bool {
	if j.paths.inside(n) {
		return false
	}
	t := j.paths.tree()
	return t != nil && slices.ContainsFunc(n.paths, func(name string) bool { return t.reaches(j.paths, name) != "" })
}

// namedBy returns a rule of the user that names a file by a pattern: one for all files means the work tree.
func (j *judge) namedBy(s Subject, n pathNames) *Rule {
	for i := range j.rules.Allow {
		r := &j.rules.Allow[i]
		if !r.Any && r.Origin.personal() && r.coversTool(&s, false) && !slices.ContainsFunc(n.paths,
			func(name string) bool { return !j.paths.match(r.Pattern, r.Base, name, false) }) {
			return r
		}
	}
	return nil
}

// gitElsewhere judges a git command that acts on another work tree of the session's repository as a write there. From
// the main work tree, only a sandbox needs to know.
func (j *judge) gitElsewhere(c *bash.SimpleCommand, dirs []string) {
	if !c.Git || c.GitReads || j.mode == Plan {
		return
	}
	t, main := j.paths.tree(), false
	if t == nil {
		if t = j.mainTree(); t == nil {
			return
		}
		main = true
	}
	places, known := j.gitPlaces(c, dirs)
	if !known && !main {
		j.noRuleCanAllow(Subject{Kind: KindBash, Text: c.Text}, reasonOtherTree)
	}
	if !known {
		return
	}
	for _, place := range places {
		if main && j.paths.inside(pathNames{paths: []string{place}}) {
			continue
		}
		other := t.reaches(j.paths, place)
		if other == "" {
			continue
		}
		sub := Subject{Kind: KindEdit, Text: other, Tool: j.request.Tool, Aliases: j.request.Aliases}
		in := pathNames{paths: []string{other + "/*"}}
		if r := j.namedBy(sub, in); r != nil && j.fileRule(j.rules.Deny, sub, in) == nil &&
			j.fileRule(j.rules.Ask, sub, in) == nil {
			j.add(judgedBy(sub, Allow, r), "")
			continue
		}
		j.file(sub, j.paths.name(other, ""), nil, false)
	}
}

// reaches returns the other work tree that git reaches with a path, as its git directory or its work tree; "" if none.
func (t *linkedTree) reaches(p *PathContext, place string) string {
	if subpath.Contains(t.common, place) {
		if subpath.Contains(t.own, place) {
			return ""
		}
		if t.main == "" {
			return t.common
		}
		return t.main
	}
	own, common := p.Git.directories(p.ctx, filepath.FromSlash(place))
	if common != t.common || own == t.own {
		return ""
	}
	return filepath.ToSlash(topOf(filepath.FromSlash(place)))
}

// gitPlaces returns where a git command acts: the directories in which it runs, and what options and variables name.
// known is false if one of them is not known.
func (j *judge) gitPlaces(c *bash.SimpleCommand, dirs []string) (places []string, known bool) {
	const options = "--git-dir --work-tree"
	add := func(v string, ok bool) bool {
		for _, dir := range dirs {
			n := j.paths.name(v, dir)
			if ok = ok && n.unknownReason == ""; ok {
				places = append(places, n.target())
			}
		}
		return ok
	}
	for _, dir := range dirs {
		n := j.paths.name(dir, "")
		places = append(places, n.target())
	}
	for i := 1; i < c.Subcommand; i++ {
		v, _ := c.Words[i].Value()
		name, value, has := strings.Cut(v, "=")
		ok := true
		switch {
		case v != "-C" && !slices.Contains(strings.Fields(options), name):
			continue
		case !has:
			if i++; i < c.Subcommand {
				value, ok = c.Words[i].Value()
			}
		}
		if !add(value, ok) {
			return nil, false
		}
		if v == "-C" {
			dirs = slices.Clone(places[len(places)-len(dirs):]) // what follows is relative to it
		}
	}
	assigned := 0
	for _, a := range c.Assigns {
		if name, value, _ := strings.Cut(a.Text, "="); slices.Contains(gitPlaceVariables, name) {
			value = strings.Trim(value, `'"`)
			if assigned++; !add(value, !strings.ContainsAny(value, "$`*?[\\")) {
				return nil, false
			}
		}
	}
	for _, name := range gitPlaceVariables { // exported before, or given by env
		assigned -= strings.Count(j.request.Text, name+"=")
	}
	return places, assigned >= 0
}

// gitPlaceVariables name directories in which git acts.
var gitPlaceVariables = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE"}
