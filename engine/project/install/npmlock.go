package install

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// NPMLockName is the lock of the npm program skills, at the root of a project.
const NPMLockName = "skills-lock.json"

// npmPlaces are where that program puts the skills of a project. Where several programs share a skill, it is in the
// first, and links lead there.
var npmPlaces = []string{".agents/skills", ".claude/skills"}

// An NPMSkill is a skill that a project's skills-lock.json names.
type NPMSkill struct {
	State  string // "ok" or how it differs; the lock has one hash for each skill, so that the files are not known
	Source string // as the lock has it, such as OWNER/REPOSITORY or an address; strangers' text
}

// Address is where the skill can be added from, or "" if the lock does not say. It is strangers' text.
func (n NPMSkill) Address() string {
	if owner, name, ok := strings.Cut(n.Source, "/"); ok && plugin.ValidName(owner) && plugin.ValidName(name) {
		return "https://github.com/" + n.Source
	}
	if strings.HasPrefix(n.Source, "https://") {
		return n.Source
	}
	return ""
}

// NPMSkills compares the skills of a project with its skills-lock.json.
func NPMSkills(root string) (map[string]NPMSkill, error) {
	data, err := regular.Read(filepath.Join(root, NPMLockName), 8<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var lock struct {
		Skills map[string]struct {
			Hash   string `json:"computedHash"`
			Source string `json:"source"`
		} `json:"skills"`
	}
	if err == nil {
		err = fastjson.Unmarshal(data, &lock)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", NPMLockName, err)
	}
	all := map[string]NPMSkill{}
	for name, x := range lock.Skills {
		all[name] = NPMSkill{State: npmState(root, name, x.Hash), Source: x.Source}
	}
	return all, nil
}

// npmState compares a skill, wherever that program put it, with its hash in the lock.
func npmState(root, name, hash string) string {
	if !plugin.ValidName(name) {
		return "its name cannot be used"
	}
	for _, place := range npmPlaces {
		got, err := npmHash(root, filepath.Join(root, filepath.FromSlash(place), name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err.Error()
		case got != hash:
			return "changed since it was installed"
		}
		return "ok"
	}
	return "missing"
}

// npmHash is the hash of a skill of a project in skills-lock.json: of the path and content of each file, in the order
// of JavaScript's localeCompare. Links are not part of it.
func npmHash(project, dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if project, err = filepath.EvalSymlinks(project); err != nil {
		return "", err
	}
	if !subpath.Contains(project, dir) {
		return "", errors.New("a link that leads out of the project")
	}
	root, err := regular.Root(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	files := map[string][]byte{}
	size := int64(0)
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "node_modules"):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		case len(files) >= MaxFiles:
			return errTooMany
		}
		data, err := regular.ReadIn(root, filepath.FromSlash(name), MaxBytes-size)
		size += int64(len(data))
		files[name] = data
		return err
	})
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range slices.SortedFunc(maps.Keys(files), localeCompare) {
		h.Write([]byte(name))
		h.Write(files[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// beforeDigits are the ASCII characters that Unicode's collation puts before digits and letters, in its order.
const beforeDigits = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"

// localeCompare orders texts as JavaScript does without a locale: punctuation, digits, then letters, a before A. It is
// exact for ASCII.
func localeCompare(a, b string) int {
	rank := func(r rune) int {
		if i := strings.IndexRune(beforeDigits, r); i >= 0 {
			return i
		}
		return 0x100 + int(r)
	}
	by := func(x, y rune) int { return cmp.Compare(rank(x), rank(y)) }
	if c := slices.CompareFunc([]rune(strings.ToLower(a)), []rune(strings.ToLower(b)), by); c != 0 {
		return c
	}
	return -cmp.Compare(a, b) // only the case differs: small letters are first
}
