// Package subpath decides whether one path lies in another. It compares names
// and looks at no file: resolve links first, with filepath.EvalSymlinks or
// os.Root, where links matter.
package subpath

import (
	"os"
	"path/filepath"
	"strings"
)

// Contains reports whether path is dir or lies below it. Both are absolute or
// both relative; otherwise, and where dir is "", the answer is no. Elements such
// as ".." are resolved by name.
func Contains(dir, path string) bool {
	_, ok := Rel(dir, path)
	return ok
}

// Rel is path relative to dir, "." for dir itself; false: path is neither dir
// nor below it.
func Rel(dir, path string) (string, bool) {
	if dir == "" {
		return "", false
	}
	// The ordinary case first: general resolution is twenty times slower, and a
	// search asks for every entry.
	if rest, ok := strings.CutPrefix(path, dir); ok && plain(dir) {
		switch {
		case rest == "":
			return ".", true
		case os.IsPathSeparator(dir[len(dir)-1]):
		case os.IsPathSeparator(rest[0]):
			rest = rest[1:]
		default:
			rest = ""
		}
		if rest != "" && plain(rest) && filepath.IsLocal(rest) {
			return rest, true
		}
	}
	if elsewhere(dir, path) {
		return "", false
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return rel, true
}

// elsewhere reports whether the names alone say that path does not lie in dir.
func elsewhere(dir, path string) bool {
	if filepath.Separator != '/' || dir[0] != '/' || path == "" || path[0] != '/' || dir[len(dir)-1] == '/' {
		return false
	}
	rest, ok := strings.CutPrefix(path, dir)
	return (!ok || rest != "" && rest[0] != '/') && plain(dir) && plain(path)
}

// plain reports whether a path has no element that filepath.Clean would change,
// but for one separator at its end.
func plain(path string) bool {
	start := 0
	for i := 0; i <= len(path); i++ {
		if i < len(path) && !os.IsPathSeparator(path[i]) {
			if path[i] == ':' && filepath.Separator != '/' {
				return false // a volume, or a stream of a file
			}
			continue
		}
		switch element := path[start:i]; {
		case element == "." || element == "..":
			return false
		case element == "" && start > 0 && i < len(path):
			return false
		case i < len(path) && path[i] != filepath.Separator:
			return false
		}
		start = i + 1
	}
	return true
}
