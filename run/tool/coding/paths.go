package coding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/tool"
)

// pathFS contains the methods of a workspace that every tool with a path uses.
type pathFS interface {
	Dir() string
	Path(path string) string
	Lstat(ctx context.Context, path string) (fs.FileInfo, error)
	Realpath(ctx context.Context, path string) (string, error)
}

// resolve converts a path from a model to an absolute path of the workspace. Unicode
// spaces become plain spaces (unless a file's name has them), one leading @ is dropped,
// ~ and file:// are expanded, and other paths are relative to the workspace.
func resolve(ctx context.Context, ws pathFS, path string) (string, error) {
	if strings.TrimSpace(path) == "" {
		return "", errors.New("path is empty")
	}
	if strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("path %q has a NUL character", path)
	}
	path = strings.TrimPrefix(path, "@")
	if rest, ok := strings.CutPrefix(path, "file://"); ok {
		u, err := url.Parse(path)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return "", fmt.Errorf("%q is not a file URL on this machine", "file://"+rest)
		}
		path = u.Path
		if runtime.GOOS == "windows" { // file:///C:/x
			path = strings.TrimPrefix(path, "/")
		}
	}
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/' || os.IsPathSeparator(rest[0])) {
		local, ok := ws.(homeFS)
		if !ok {
			return "", fmt.Errorf("~ is not known in this workspace: write the path in full, or relative to %s", ws.Dir())
		}
		home := local.Home()
		if home == "" {
			return "", errors.New("~ is not known: HOME is not an absolute path")
		}
		path = home + rest
	}
	spaced := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII && unicode.Is(unicode.Zs, r) {
			return ' '
		}
		return r
	}, path)
	if spaced != path && missing(ctx, ws, spaced) && !missing(ctx, ws, path) {
		return ws.Path(path), nil
	}
	return ws.Path(spaced), nil
}

// resolveExisting is like resolve, for a file that should exist. If it does not, it
// tries the different spellings that macOS uses for names which look the same.
func resolveExisting(ctx context.Context, ws pathFS, path string) (string, error) {
	abs, err := resolve(ctx, ws, path)
	if err != nil || !missing(ctx, ws, abs) {
		return abs, err
	}
	for _, try := range []string{
		narrowSpace(abs), norm.NFD.String(abs), curlyQuotes(abs), curlyQuotes(norm.NFD.String(abs)),
	} {
		if try != abs && !missing(ctx, ws, try) {
			return try, nil
		}
	}
	return abs, nil
}

// locateFile returns a [tool.Tool.Locate] for the field path. Inlined into each tool, it would make the program larger.
//
//go:noinline
func locateFile(ws pathFS, find func(context.Context, pathFS, string) (string, error)) func(context.Context,
	tool.Object) {
	return func(ctx context.Context, in tool.Object) {
		var path string
		if json.Unmarshal(in["path"], &path) != nil {
			return
		}
		if abs, err := find(ctx, ws, path); err == nil {
			in.Set("path", abs)
		}
	}
}

// locateDir is like locateFile, for the directory in which a tool searches. Hooks written for other agents expect that
// path as the model wrote it, so only forms that those agents do not have, such as @DIR, are made absolute.
//
//go:noinline
func locateDir(ws pathFS) func(context.Context, tool.Object) {
	return locateFile(ws, func(ctx context.Context, ws pathFS, path string) (string, error) {
		abs, err := resolveExisting(ctx, ws, path)
		if err == nil && (abs == ws.Path(path) || path == "") {
			return path, nil
		}
		return abs, err
	})
}

func missing(ctx context.Context, ws pathFS, path string) bool {
	_, err := ws.Lstat(ctx, path)
	return errors.Is(err, fs.ErrNotExist)
}

// narrowSpace changes the spaces before AM and PM to those that macOS uses in the names
// of screenshots.
func narrowSpace(path string) string {
	return strings.NewReplacer(" AM.", "\u202fAM.", " PM.", "\u202fPM.", " AM (", "\u202fAM (", " PM (",
		"\u202fPM (").Replace(path)
}

func curlyQuotes(path string) string { return strings.ReplaceAll(path, "'", "’") }

// subjects returns the permissions to act on a file, both for its path and for the path
// that links lead to.
func subjects(ctx context.Context, ws pathFS, kind permission.Kind, abs string) []permission.Subject {
	out := []permission.Subject{{Kind: kind, Text: abs}}
	if real, err := ws.Realpath(ctx, abs); err == nil && real != abs {
		out = append(out, permission.Subject{Kind: kind, Text: real})
	}
	return out
}

// checkDecided returns an error unless the gate decided on this real path. Without a gate,
// every path is accepted.
func checkDecided(call tool.Input, kind permission.Kind, named, real string) error {
	if call.Allows(kind, real) {
		return nil
	}
	return fmt.Errorf("%s was changed to lead elsewhere while the call was being decided on: try again", named)
}

// fileError explains what is wrong with a path.
func fileError(abs string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pathError{"Path not found: " + abs, "it does not exist"}
	case errors.Is(err, syscall.EISDIR):
		return pathError{abs + " is a directory: use ls to list it", "it is a directory"}
	case errors.Is(err, syscall.ENOTDIR):
		return notDirectory(abs)
	case errors.Is(err, workspace.ErrNotRegular):
		return pathError{abs + " is not a regular file (a FIFO, socket or device)", "it is not a regular file"}
	case errors.Is(err, fs.ErrPermission):
		return pathError{"Permission denied: " + abs, "permission denied"}
	}
	return err
}

func notDirectory(abs string) error {
	return pathError{"Not a directory: " + abs, "it is not a directory"}
}

// A pathError is an error with a text for the model and one for people, who see the path beside it.
type pathError struct{ model, people string }

func (e pathError) Error() string  { return e.model }
func (e pathError) People() string { return "failed: " + e.people }

// relative formats a path for the model: slash-separated and relative if it is below
// dir, otherwise unchanged.
func relative(dir, abs string) string {
	rel, err := filepath.Rel(dir, abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return abs
	}
	return filepath.ToSlash(rel)
}

// homeFS is a workspace that knows the home directory of its user.
type homeFS interface{ Home() string }

// osFS is a workspace whose files are on the local file system.
type osFS interface{ OSPath(path string) string }
