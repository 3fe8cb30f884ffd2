// Package subpath decides whether one path is inside another, such as the home directory. It only compares names and
// accesses no files: if links matter, resolve them first with filepath.EvalSymlinks or use
// os.Root.
package subpath

import (
	"os"
	"path/filepath"
	"strings"
)

// Contains reports whether path is dir or is below it. Both must be absolute or both relative;
// otherwise, and if dir is "", the result is false. Elements such as ".." are resolved by
// name.
func Contains(dir, path string) bool {
	_, ok := Rel(dir, path)
	return ok
}

// Rel returns path relative to dir: "." for dir itself. ok is false if path is neither dir nor
// below it.
func Rel(dir, path string) (string, bool) {
	if dir == "" {
		return "", false
	}
	// First try the common case: the general one is twenty times slower, and a search calls
	// Rel for every entry.
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

// Expand returns path with a leading ~ for the home directory replaced by home, as in ~ and ~/x. It is unchanged if home
// is "", and so is ~user.
func Expand(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
		return filepath.Join(home, rest)
	}
	return path
}

// Short is the opposite of Expand: it writes home as ~ and a path below it with ~/ and slashes; others stay as they are.
func Short(path, home string) string {
	rest, ok := Rel(home, path)
	switch {
	case !ok:
		return path
	case rest == ".":
		return "~"
	}
	return "~/" + filepath.ToSlash(rest)
}

// elsewhere reports whether the names alone show that path is not inside dir.
func elsewhere(dir, path string) bool {
	if filepath.Separator != '/' || dir[0] != '/' || path == "" || path[0] != '/' || dir[len(dir)-1] == '/' {
		return false
	}
	rest, ok := strings.CutPrefix(path, dir)
	return (!ok || rest != "" && rest[0] != '/') && plain(dir) && plain(path)
}

// plain reports whether filepath.Clean would leave every element of a path unchanged. One
// trailing separator is allowed.
func plain(path string) bool {
	if filepath.Separator == '/' && !strings.HasPrefix(path, ".") && !strings.Contains(path, "/.") &&
		!strings.Contains(path, "//") {
		return true // the usual case, without examining each byte
	}
	start := 0
	for i := 0; i <= len(path); i++ {
		if i < len(path) && !os.IsPathSeparator(path[i]) {
			if path[i] == ':' && filepath.Separator != '/' {
				return false // a volume, or an alternate data stream of a file
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
