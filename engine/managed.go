package engine

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/sources"
)

// managedDirs returns the directories of the administrator's settings.
func managedDirs(o Options) []string {
	if o.Managed != nil {
		return o.Managed
	}
	return sources.ManagedDirs(runtime.GOOS)
}

// within reports whether a directory is one of some folders, or below one.
func within(dir string, folders []string, home string) bool {
	dir = realPath(dir)
	return slices.ContainsFunc(folders, func(folder string) bool {
		folder = subpath.Expand(folder, home)
		return filepath.IsAbs(folder) && subpath.Contains(realPath(folder), dir)
	})
}

// AuditFile returns the path that the setting audit.file means; "": it is not set.
func AuditFile(setting, home string) (string, error) {
	if setting == "" {
		return "", nil
	}
	name, _, _ := strings.Cut(SystemUser(), "(")
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:`, r) || r < ' ' {
			return '_'
		}
		return r
	}, name)
	path := subpath.Expand(strings.ReplaceAll(setting, "{user}", name), home)
	if !filepath.IsAbs(path) {
		return "", &Error{Err: fmt.Errorf("audit.file is %.200q in the managed settings: it must be an absolute path, or begin "+
			"with ~/ where there is a home directory", setting), Hint: "tell your administrator"}
	}
	return filepath.Clean(path), nil
}

// auditRules returns the rules that keep calls from changing an audit file.
func auditRules(path string) (rules []permission.Rule, err error) {
	if path == "" {
		return nil, nil
	}
	for _, name := range []string{path, path + ".*"} {
		r, err := permission.ParseRule("Edit(/"+filepath.ToSlash(name)+")", permission.Managed)
		if err != nil {
			return nil, fmt.Errorf("audit.file: %w", err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// SystemUser names the user who runs the program as the system knows it, whatever the environment says: NAME(NUMBER).
func SystemUser() string {
	id := os.Getuid()
	if id < 0 { // Windows
		if u, err := user.Current(); err == nil {
			return u.Username
		}
		return "unknown"
	}
	name := strconv.Itoa(id)
	if u, err := user.LookupId(name); err == nil {
		return u.Username + "(" + name + ")"
	}
	return name
}
