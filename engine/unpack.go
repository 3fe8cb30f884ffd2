package engine

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/skillzip"
)

// unpacked makes paths absolute and replaces the .skill files among them by directories with their content. A file
// that cannot be unpacked is left out, and a problem says why.
func unpacked(p *Project, paths []string) (all []string) {
	for _, path := range absolutePaths(p.dir, paths) {
		info, err := os.Stat(path)
		if strings.EqualFold(filepath.Ext(path), ".skill") && err == nil && info.Mode().IsRegular() {
			dir, err := unpack(path, p.options.Env.StateFile("unpacked"))
			if err != nil {
				p.problems = append(p.problems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error, Path: path,
					Message: "it is not loaded: " + plain.Line(err.Error()), Hint: "knack skill check " + plain.Line(path)})
				continue
			}
			path = dir
		}
		all = append(all, path)
	}
	return all
}

// maxArchive is the maximum size of a .skill file in bytes.
const maxArchive = 64 << 20

// unpack unpacks a .skill file below a directory and returns the directory of the skill. The directory's name is the
// hash of the file, so that each content is unpacked once, and sessions that use another one are not disturbed.
func unpack(file, below string) (string, error) {
	if below == "" {
		return "", ErrNoState("a .skill file was not unpacked")
	}
	data, err := regular.Read(file, maxArchive)
	if err != nil {
		return "", err
	}
	to := filepath.Join(below, fmt.Sprintf("%x", sha256.Sum256(data))[:32])
	if found, err := os.ReadDir(to); err == nil && len(found) == 1 {
		return filepath.Join(to, found[0].Name()), nil
	}
	if err := os.MkdirAll(below, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(below, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp) // renamed by then unless something failed
	dir, err := skillzip.Unpack(file, tmp)
	if err != nil {
		return "", err
	}
	if err := os.Rename(tmp, to); err != nil {
		if _, exists := os.Stat(to); exists != nil { // another process was not faster
			return "", err
		}
	}
	return filepath.Join(to, filepath.Base(dir)), nil
}
