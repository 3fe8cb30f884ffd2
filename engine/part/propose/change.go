package propose

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/extract"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/tool/memory"
)

// Limits of what a proposal writes.
const (
	maxFiles = 10
	maxFile  = 64 << 10 // bytes
	maxSkill = 2 << 20  // bytes, of a skill that is changed
)

// A change is a proposal that can be written as it is.
type change struct {
	name     string
	skill    *knack.Skill // nil: it is new
	files    []file       // SKILL.md is the last one
	places   []place      // where it may go
	why      string
	evidence []passage

	store   *install.Store // has it in its lock; nil: it was not installed
	locked  install.Files  // what the lock has
	from    string         // the source from which it was installed
	version string         // that it gets; "": it has none
	asks    string         // what it asks for once it is written; "": nothing
	tried   string         // how its queries find it, before and after; "": that was not tried
	cases   bool           // it has tasks
}

// A file is a file of a skill before and after.
type file struct {
	name     string // relative to the skill's folder, with slashes
	old, now string
	isNew    bool
}

// A place is where a skill can be written.
type place struct {
	id, label string
	dir       string // of the skill
	base      string // links below it are not followed
	project   bool
}

// prepare checks a proposal, and leaves nothing behind if it is refused. The error is for the model.
func (l live) prepare(ctx context.Context, p proposal) (*change, error) {
	c := &change{name: p.Skill, skill: l.Catalog().Skill(p.Skill), why: strings.TrimSpace(p.Why)}
	if c.why == "" || len(c.why) > maxWhy {
		return nil, fmt.Errorf("why must be a sentence of at most %d bytes", maxWhy)
	}
	var err error
	if c.evidence, err = l.find(p.Evidence); err != nil {
		return nil, err
	}
	if c.skill == nil {
		err = l.placesOfNew(c, len(p.Edits))
	} else {
		err = l.placeOf(c)
	}
	if err != nil {
		return nil, err
	}
	if err := c.read(p); err != nil {
		return nil, err
	}
	c.raise()
	if err := l.checkText(c); err != nil {
		return nil, err
	}
	return c, l.check(ctx, c)
}

// placesOfNew finds where a new skill can go.
func (l live) placesOfNew(c *change, edits int) error {
	if why := knack.CheckName(c.name); why != "" {
		return fmt.Errorf("the name %s", why)
	}
	if edits > 0 {
		return errors.New("no skill of this name is in use, so there is nothing to edit: a new one has files")
	}
	p := l.Project()
	if dir := p.Env().ClaudeDir(); dir != "" {
		c.places = append(c.places, place{"user", "yes, for all projects",
			filepath.Join(dir, "skills", c.name), dir, false})
	}
	c.places = append(c.places, place{"project", "yes, for this project",
		filepath.Join(p.Root(), ".claude", "skills", c.name), p.Root(), true})
	taken := ""
	c.places = slices.DeleteFunc(c.places, func(to place) bool {
		_, err := os.Lstat(to.dir)
		if err == nil {
			taken = to.dir
		}
		return err == nil
	})
	if len(c.places) == 0 { // of a skill that is not in use
		return fmt.Errorf("a folder of this name is already in %s: choose another name", p.Short(filepath.Dir(taken)))
	}
	return nil
}

// placeOf finds where a skill is that the user may let the model change.
func (l live) placeOf(c *change) error {
	k := c.skill
	if filepath.Base(k.Path) != "SKILL.md" || k.Dir == "" {
		return errors.New("it is not a folder with a SKILL.md")
	}
	to := place{id: "yes", label: "yes, change it", dir: k.Dir, base: filepath.Dir(k.Dir)}
	switch k.Origin.Kind {
	case knack.User:
	case knack.Project:
		to.base, to.project = l.Project().Root(), true
		to.id, to.label = "project", "yes, change it in this project, for everybody who works on it"
	default:
		if err := l.installed(c); err != nil {
			return err
		}
	}
	c.places = []place{to}
	return nil
}

// installed finds a skill in the user's lock.
func (l live) installed(c *change) error {
	env := l.Project().Env()
	other := fmt.Errorf("it is not the user's own (%s): only a skill of the user's, or of the project, can be changed",
		c.skill.Origin.Kind)
	if env.DataDir() == "" {
		return other
	}
	store := install.User(env.DataDir(), env.ConfigDir())
	lock, err := install.ReadLock(store.Lock)
	if err != nil {
		return err
	}
	it := lock.Skills[c.name]
	if it == nil || it.Place != "" || store.Path(it) != c.skill.Dir {
		return other
	}
	c.store, c.locked, c.from = store, it.Files, it.Source.String()
	return nil
}

// notProposed are the files of a skill that a proposal cannot touch: what the author signed, and, of a skill that
// exists, what it is judged by.
func notProposed(name string, isNew bool) bool {
	top, _, _ := strings.Cut(name, "/")
	return strings.HasPrefix(name, install.LockName) || !isNew && top == "evals" ||
		slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
}

// read reads the files of a proposal, and those that it edits.
func (c *change) read(p proposal) error {
	if n := len(p.Files) + len(p.Edits); n == 0 || n > maxFiles {
		return fmt.Errorf("it must have 1 to %d files and edits", maxFiles)
	}
	for _, f := range p.Files {
		if err := c.add(f); err != nil {
			return err
		}
	}
	for _, e := range p.Edits {
		if err := c.edit(e); err != nil {
			return err
		}
	}
	main := slices.IndexFunc(c.files, func(f file) bool { return f.name == "SKILL.md" })
	if c.skill == nil && main < 0 {
		return errors.New("a new skill needs the file SKILL.md")
	}
	if main >= 0 { // a skill is there once its SKILL.md is
		f := c.files[main]
		c.files = append(slices.Delete(c.files, main, main+1), f)
	}
	for _, f := range c.files {
		if len(f.now) > maxFile {
			return fmt.Errorf("%s: a file has at most %s", f.name, plain.Bytes(maxFile))
		}
	}
	return nil
}

func (c *change) add(f newFile) error {
	if err := extract.Path(f.Path); err != nil {
		return err
	}
	if notProposed(f.Path, c.skill == nil) || c.at(f.Path) >= 0 {
		return fmt.Errorf("%s cannot be written by a proposal", f.Path)
	}
	if c.skill != nil {
		if _, err := c.content(f.Path); err == nil {
			return fmt.Errorf("%s exists: give edits of it", f.Path)
		}
	}
	c.files = append(c.files, file{name: f.Path, now: f.Content, isNew: true})
	return nil
}

func (c *change) at(name string) int {
	return slices.IndexFunc(c.files, func(f file) bool { return strings.EqualFold(f.name, name) })
}

func (c *change) edit(e edit) error {
	if err := extract.Path(e.Path); err != nil {
		return err
	}
	if notProposed(e.Path, false) {
		return fmt.Errorf("%s cannot be changed by a proposal", e.Path)
	}
	i := c.at(e.Path)
	if i < 0 {
		old, err := c.content(e.Path)
		if err != nil {
			return fmt.Errorf("%s cannot be edited: %w", e.Path, err)
		}
		i = len(c.files)
		c.files = append(c.files, file{name: e.Path, old: old, now: old})
	}
	f := &c.files[i]
	switch n := strings.Count(f.now, e.Old); {
	case e.Old == "" || n == 0:
		return fmt.Errorf("the old text does not occur in %s", e.Path)
	case n > 1:
		return fmt.Errorf("the old text occurs %d times in %s: give more of the text around it", n, e.Path)
	}
	f.now = strings.Replace(f.now, e.Old, e.New, 1)
	return nil
}

// content returns a file of the skill. No link is followed.
func (c *change) content(name string) (string, error) {
	root, err := regular.Root(c.skill.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if info, err := root.Lstat(filepath.FromSlash(name)); err != nil || !info.Mode().IsRegular() {
		return "", errors.New("there is no such regular file")
	}
	data, err := regular.ReadIn(root, filepath.FromSlash(name), maxFile)
	return string(data), err
}

// raise raises the version of a skill that exists, unless the proposal does so.
func (c *change) raise() {
	i := c.at("SKILL.md")
	if c.skill == nil {
		return
	}
	if i < 0 {
		old, err := c.content("SKILL.md")
		if err != nil {
			return
		}
		i, c.files = len(c.files), append(c.files, file{name: "SKILL.md", old: old, now: old})
	}
	f := &c.files[i]
	was, _ := version(f.old)
	now, at := version(f.now)
	if now != "" && now == was {
		now = next(now)
		f.now = f.now[:at] + now + f.now[at+len(was):]
	}
	if c.version = now; f.now == f.old {
		c.files = slices.Delete(c.files, i, i+1)
	}
}

// version returns the version in the frontmatter of a SKILL.md, and where it is; "": it has none that can be raised.
func version(text string) (string, int) {
	head, _, ok := strings.Cut(strings.TrimPrefix(text, "---"), "\n---")
	m := regexp.MustCompile(`(?m)^[ \t]*version:[ \t]*["']?([0-9]+(?:\.[0-9]+){0,3})["']?[ \t\r]*$`).
		FindStringSubmatchIndex(head)
	if !ok || m == nil {
		return "", 0
	}
	at := len(text) - len(strings.TrimPrefix(text, "---"))
	return head[m[2]:m[3]], at + m[2]
}

// next returns the version after one: its last number is raised.
func next(version string) string {
	head, last := "", version
	if i := strings.LastIndexByte(version, '.'); i >= 0 {
		head, last = version[:i+1], version[i+1:]
	}
	n, err := strconv.Atoi(last)
	if err != nil {
		return version
	}
	return head + strconv.Itoa(n+1)
}

// checkText refuses what nobody could read in the difference, and what looks like a secret.
func (l live) checkText(c *change) error {
	keep := memory.Options{Secrets: l.Reads().Secrets}
	for _, f := range c.files {
		if !utf8.ValidString(f.now) || strings.ContainsRune(f.now, 0) {
			return fmt.Errorf("%s is not text", f.name)
		}
		if _, hidden := plain.Visible(f.now); hidden > 0 {
			return fmt.Errorf("%s has hidden characters", f.name)
		}
		if why := memory.Secret(keep, f.now); why != "" {
			return fmt.Errorf("%s looks as if it had a secret (%s)", f.name, why)
		}
	}
	return nil
}

// diff returns the whole difference. It is text of the model: whoever shows it escapes it.
func (c *change) diff() string {
	var b strings.Builder
	for _, f := range slices.Backward(c.files) { // SKILL.md first
		old := "a/" + f.name
		if f.isNew {
			old = "/dev/null"
		}
		b.WriteString(udiff.Unified(old, "b/"+f.name, f.old, f.now))
	}
	return b.String()
}
