package installer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// skillIn returns the directory of a skill in dir: one below it, or that of the skill with this name.
func skillIn(dir, name string) (string, error) {
	if filepath.IsLocal(name) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			return filepath.Join(dir, name), nil
		}
	}
	found := skillDirs(os.DirFS(dir))
	if i := slices.IndexFunc(found, func(at string) bool { return path.Base(at) == name }); i >= 0 {
		return filepath.Join(dir, filepath.FromSlash(found[i])), nil
	}
	hint := "ls " + plain.Line(dir)
	if len(found) > 0 {
		hint = "knack skill add " + plain.Line(dir) + " " + plain.Line(cmp.Or(nearest(name, found), found[0]))
	}
	return "", &engine.Error{Err: fmt.Errorf("%s has no skill %s", plain.Line(dir), plain.Line(name)), Hint: hint}
}

// noSkill is the error about a tree without a SKILL.md at its top. source is what was typed for it.
func noSkill(dir, source string) error {
	source = plain.Line(source)
	root, err := regular.Root(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	found := skillDirs(root.FS())
	switch p := plugin.Read(plugin.FS(root), plugin.Options{}); {
	case p.Manifest != "":
		return &engine.Error{Err: errors.New("it is a plugin, not a skill"), Hint: "knack plugin add " + source}
	case len(found) == 0:
		return &engine.Error{Err: errors.New("there is no SKILL.md in it"), Hint: "knack skill new NAME, to write one"}
	case len(found) == 1:
		return &engine.Error{Err: errors.New("there is no SKILL.md at its top"),
			Hint: "knack skill add " + source + " " + plain.Line(found[0])}
	default:
		hint := "knack skill add " + source + " " + plain.Line(found[0])
		if !p.IsEmpty() {
			hint += "; knack plugin add " + source + " adds them all"
		}
		return &engine.Error{Err: fmt.Errorf("there is no SKILL.md at its top, but in %s", plain.List(found, 8)), Hint: hint}
	}
}

func nearest(name string, of []string) string {
	if near := knack.Near(name, of); len(near) > 0 {
		return near[0]
	}
	return ""
}

// skillDirs returns the directories of a tree that have a SKILL.md, with slashes.
func skillDirs(fsys fs.FS) (found []string) {
	entries := 0
	fs.WalkDir(fsys, ".", func(at string, e fs.DirEntry, err error) error { // what cannot be read has no skills
		entries++
		switch {
		case err != nil, !e.IsDir() && !strings.EqualFold(e.Name(), "SKILL.md"):
			return nil
		case entries > layout.MaxEntries:
			return fs.SkipAll
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "node_modules" || strings.Count(at, "/") > layout.Depth):
			return fs.SkipDir
		case !e.IsDir():
			found = append(found, path.Dir(at))
		}
		return nil
	})
	return found
}
