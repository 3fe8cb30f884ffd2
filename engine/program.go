package engine

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// withProgram returns an environment in which commands find the running program as knack after the rest of PATH, as
// those in the sandbox do: by a link, because its own directory may be the workspace.
func withProgram(o *Options, environ []string) []string {
	exe, dir := o.Program.Path, o.Env.StateFile("program")
	if exe == "" || dir == "" {
		return environ
	}
	link := filepath.Join(dir, "knack")
	if to, _ := os.Readlink(link); to != exe {
		made := filepath.Join(dir, atomicfile.TemporaryName("knack")) // another session may make the link now, too
		if os.MkdirAll(dir, 0o700) != nil || os.Symlink(exe, made) != nil {
			return environ
		}
		if os.Rename(made, link) != nil {
			os.Remove(made)
			return environ
		}
	}
	environ = userdirs.Environ(environ)
	path := userdirs.Getenv(environ)("PATH") + string(filepath.ListSeparator) + dir
	return append(slices.Clip(environ), "PATH="+path)
}
