package engine

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
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
			dir, err := unpack(path, p.options.Env.StateFile("unpacked"), skillzip.Unpack)
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

// maxArchive is the maximum size of an archive in bytes.
const maxArchive = 64 << 20

// isPluginArchive reports whether a path is that of a .zip, such as --plugin-dir takes.
func isPluginArchive(path string) bool {
	info, err := os.Stat(path)
	return strings.EqualFold(filepath.Ext(path), ".zip") && err == nil && info.Mode().IsRegular()
}

// unpackPlugin unpacks the archive of a plugin to a directory below parent that has the archive's name.
func unpackPlugin(file, parent string) (string, error) {
	base := filepath.Base(file)
	dir := filepath.Join(parent, plugin.Clean(strings.TrimSuffix(base, filepath.Ext(base))))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, install.Unpack(file, dir)
}

// unpack unpacks an archive with write, below a directory, and returns its directory there. That is named after the
// hash of the file, so that each content is unpacked once, and sessions that use another one are not disturbed.
func unpack(file, below string, write func(file, parent string) (string, error)) (string, error) {
	if below == "" {
		return "", ErrNoState(filepath.Base(file) + " was not unpacked")
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
	dir, err := write(file, tmp)
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
