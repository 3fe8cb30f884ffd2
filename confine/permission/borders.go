package permission

import (
	"slices"

	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Borders close what is outside the workspace, in every mode and whatever allows it. The zero Borders close nothing.
type Borders struct {
	Reads  bool // file tools read nothing outside, and commands that name a path outside ask
	Writes bool // file tools write nothing outside
	// Outside are absolute paths that count as outside with all that is in them.
	Outside []string
}

// border returns the setting that closes a file to a file tool; "" if none does.
func (p *PathContext) border(k Kind, n pathNames) (setting string) {
	switch {
	case k == KindRead && p.Borders.Reads:
		setting = "permissions.blockReadsOutsideWorkingDirectories"
	case k == KindEdit && p.Borders.Writes:
		setting = "permissions.blockWritesOutsideWorkingDirectories"
	default:
		return ""
	}
	excluded := slices.ContainsFunc(n.paths, func(name string) bool {
		return slices.ContainsFunc(p.Borders.Outside, func(dir string) bool {
			return subpath.Contains(dir, name) && !slices.ContainsFunc(p.roots(), func(root string) bool {
				return subpath.Contains(dir, root) && subpath.Contains(root, name)
			})
		})
	})
	if p.inside(n) && !excluded || p.sessionOwn(n, k) {
		return ""
	}
	return setting
}
