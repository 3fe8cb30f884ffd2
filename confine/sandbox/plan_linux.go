//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/knack-agent/knack/confine/sandbox/internal/launch"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// Landlock's access rights, by the version that introduced them.
const (
	llExecute, llWriteFile, llReadFile, llReadDir = 1 << 0, 1 << 1, 1 << 2, 1 << 3

	llRead     = llExecute | llReadFile | llReadDir
	llV1       = 1<<13 - 1
	llRefer    = 1 << 13
	llTruncate = 1 << 14
	llIoctlDev = 1 << 15

	llScopeAbstract  = 1 << 0
	llScopeSignal    = 1 << 1
	defaultProcesses = 8192
)

var landlockVersion = sync.OnceValue(launch.LandlockVersion)

func landlockRights(version int) (fs, scope uint64) {
	fs = llV1
	if version >= 2 {
		fs |= llRefer
	}
	if version >= 3 {
		fs |= llTruncate
	}
	if version >= 5 {
		fs |= llIoctlDev
	}
	if version >= 6 {
		scope = llScopeAbstract | llScopeSignal
	}
	return fs, scope
}

// A view is a policy applied to one command on this machine now: every path exists and is resolved.
type view struct {
	writable  []string            // none is below another one, unless something else is in between
	temp      []string            // replaced by empty directories for this command
	private   string              // the session's directory in the place of shared; "": empty ones
	memory    string              // the session's directory in the place of /dev/shm
	shared    []string            // of temp: those for temporary files; the others are read-only
	alone     string              // where nothing is mounted: what TMPDIR names
	visible   []string            // below temp; read-only
	protected []string            // read-only although below a writable path
	pinned    []string            // writable, but must not be renamed
	hidden    []string            // must not be opened
	emptied   []string            // secret directories of which the allowance opens a part
	opened    []string            // readable because of an allowance
	made      []string            // created for a limit, or to contain permitted; removed if nothing was written
	permitted []string            // created for an allowance, and removed in the same way
	files     map[string]openFile // of protected names and secrets in the workspace
	overlays  map[string]overlay  // over caches in writable
	reserved  []*placeholder
	closed    bool // git directories of worktrees are read-only as a whole
	denied    workspace.DeniedFiles
	granted   []string // see grants
	program   string   // what commands find as launch.ProgramFile; "": nothing
}

// viewFor returns the view for one command with an environment. allow is what withoutLinks returned, keep are paths
// that must stay visible even if they are below a temporary directory, and caches are directories for caches, which can
// be written like those in overlays.
func (p *Policy) viewFor(allow workspace.Allowance, environ []string, now present, keep, caches []string,
	overlays *overlays, lazily bool) (*view, error) {
	links := new(resolver)
	v := &view{files: now.files}
	caches = append(caches, overlays.paths()...)
	if overlays != nil {
		v.overlays = overlays.covered
	}
	opened := append(p.leads(links, allow.Write), allow.Write...)
	replaced := allow.Replace
	getenv := userdirs.Getenv(environ)
	shared := links.temporary(getenv)
	temporary := append(slices.Clip(shared), links.real([]string{"/run", "/var/run"})...)

	// Writable paths.
	var dirs []string
	for _, dir := range slices.Concat([]string{p.Dir}, p.Roots, p.Write) {
		for _, to := range links.real([]string{dir}) {
			if at, ok := p.places[filepath.Clean(dir)]; ok && at != to {
				return v, fmt.Errorf("%s: %w", dir, errMoved)
			}
			dirs = append(dirs, to)
		}
	}
	v.writable = slices.Concat(dirs, links.real(caches), now.outer)
	if lazily && p.only == nil {
		v.granted = p.lazily(links, allow.Write, v.writable, temporary)
	}
	for _, path := range allow.Write {
		place, _ := links.placeOf(path)
		if _, err := os.Stat(path); err == nil || withinAny(v.writable, path) && !withinAny(p.Own, path) &&
			(!guarded(p.Protected, path) || lazily && !p.closedAbove(path)) || withinAny(v.granted, place) {
			continue
		}
		elsewhere := func(to string) bool { return p.elsewhere(path, to, allow.Write) }
		if err := v.permit(path, &v.permitted, elsewhere); err != nil {
			return v, fmt.Errorf("opening %s for the command: %w", path, err)
		}
	}
	v.writable = append(v.writable, p.leads(links, allow.Write)...)
	if p.only != nil {
		v.create(p.only, v.writable, func(path string) bool { return guarded(p.Protected, path) || withinAny(p.Own, path) })
		v.writable = common(v.writable, links.real(p.only))
	}
	v.writable = slices.DeleteFunc(v.writable, func(path string) bool {
		return path == "/" || withinAny([]string{"/proc", "/sys", "/dev"}, path)
	})

	// Read-only paths below writable ones. A checkout of a large repository may replace thousands of protected files.
	replaceable := newDirSet(replaced)
	all, above := newDirSet(slices.Concat(opened, replaced)), replaceable.above()
	for path, t := range now.protected {
		if all.contain(path) || above[path] {
			continue
		}
		if t.link != "" {
			v.protected = append(v.protected, links.real([]string{path})...)
		} else if t.dir && filepath.Base(path) == ".git" {
			v.pinned = append(v.pinned, path)
		} else {
			v.protected = append(v.protected, path)
		}
	}
	for _, dir := range allow.Write { // a linked work tree elsewhere: its .git file says which configuration git obeys
		if file := filepath.Join(dir, ".git"); isFile(file) && !all.contain(file) {
			v.protected = append(v.protected, links.real([]string{file})...)
		}
	}
	closed := now.closed
	if len(opened) > 0 || p.only != nil { // other worktrees than usual can be written
		closed = nil
	}
	v.guard(now.gits, all, closed)
	for _, path := range now.shared {
		if isFile(path) && !all.contain(path) && !withinAny(dirs, filepath.Dir(filepath.Dir(path))) {
			v.protected = append(v.protected, path)
		}
	}
	for _, path := range p.Own { // in the home directory as the workspace; a command could make one that is missing
		if _, err := os.Lstat(path); err != nil && withinAny(v.writable, path) {
			os.MkdirAll(path, 0o700)
		}
	}
	own, secrets := links.real(p.Own), links.real(p.Secrets)
	v.protected = append(v.protected, slices.DeleteFunc(slices.Clone(own),
		func(path string) bool { return withinAny(opened, path) })...)
	// The next command finds these by their paths.
	for _, path := range slices.Concat(own, secrets) {
		for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
			if slices.ContainsFunc(v.writable, func(w string) bool { return w != dir && subpath.Contains(w, dir) }) {
				v.pinned = append(v.pinned, dir)
			}
		}
	}

	// The command's own directories.
	v.private, v.memory = p.private, p.shm
	for _, dir := range temporary {
		if !withinAny(v.temp, dir) && !slices.ContainsFunc(v.writable,
			func(w string) bool { return subpath.Contains(w, dir) }) {
			v.temp = append(v.temp, dir)
			if slices.Contains(shared, dir) {
				v.shared = append(v.shared, dir)
			}
		}
	}
	if p.Home != "" {
		keep = append(keep, p.Home)
	}
	if p.only != nil { // paths that a limit closes can still be read
		keep = slices.Concat(keep, dirs, caches)
	}
	keep = append(keep, "/run/current-system", "/run/booted-system", "/run/opengl-driver")
	keep = append(keep, filepath.SplitList(p.cleanPath(getenv("PATH")))...)
	v.opened = p.leads(links, allow.Read)
	for _, dir := range slices.Concat(links.real(keep), v.opened) {
		if withinAny(v.temp, dir) && !slices.Contains(v.temp, dir) {
			v.visible = append(v.visible, dir)
		}
	}

	// Hidden paths.
	var env []string
	for _, path := range now.env {
		if _, ok := now.files[path]; ok { // not a link, and perhaps not there at the moment
			env = append(env, path)
		} else {
			env = append(env, links.real([]string{path})...)
		}
	}
	readable := append(opened, append(v.opened, allow.Read...)...)
	for _, path := range append(append(secrets, env...), links.real(now.sockets)...) {
		switch {
		case withinAny(readable, path), replaceable.contain(path):
		case slices.ContainsFunc(readable, func(r string) bool { return subpath.Contains(path, r) }):
			v.emptied = append(v.emptied, path)
			for _, r := range v.opened {
				if subpath.Contains(path, r) {
					v.visible = append(v.visible, r)
				}
			}
		default:
			v.hidden = append(v.hidden, path)
		}
	}
	if v.private != "" {
		v.writable = append(v.writable, v.private)
	}
	// The home directory may be in a temporary one, and hidden all the same.
	v.visible = slices.DeleteFunc(v.visible, func(dir string) bool {
		return slices.Contains(v.hidden, dir) || slices.Contains(v.emptied, dir)
	})
	v.close(now.denied)
	for _, list := range []*[]string{&v.writable, &v.temp, &v.visible, &v.protected, &v.pinned, &v.hidden, &v.emptied} {
		sort.Strings(*list)
		*list = slices.Compact(*list)
	}
	return v, nil
}

// temporary returns the directories for temporary files that the commands of a session have of their own.
func (r *resolver) temporary(getenv func(string) string) []string {
	dirs := []string{sharedTemp, "/var/tmp"}
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), getenv("XDG_RUNTIME_DIR")} {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	return r.real(dirs)
}

// close adds what rules deny to what is hidden and read-only. Nothing that was permitted opens it.
func (v *view) close(denied workspace.DeniedFiles) {
	v.denied = denied
	if len(denied.Rules) == 0 {
		return
	}
	hidden, readOnly := newDirSet(denied.Hidden), newDirSet(denied.ReadOnly)
	closed := func(path string) bool { return hidden.contain(path) || readOnly.contain(path) }
	v.writable = slices.DeleteFunc(v.writable, closed)
	v.temp = slices.DeleteFunc(v.temp, closed)
	v.visible = slices.DeleteFunc(v.visible, hidden.contain)
	v.emptied = slices.DeleteFunc(v.emptied, hidden.contain)
	v.hidden = append(slices.DeleteFunc(v.hidden, hidden.contain), denied.Hidden...)
	v.protected = append(v.protected, denied.ReadOnly...)
	// Otherwise a command could rename a directory above one, put another file in its place, and find the old one under a
	// name that no rule covers.
	above := dirSet{}
	for _, path := range slices.Concat(denied.Hidden, denied.ReadOnly) {
		for dir := filepath.Dir(path); dir != "/" && !above[dir]; dir = filepath.Dir(dir) {
			above[dir] = true
			if slices.ContainsFunc(v.writable, func(w string) bool { return w != dir && subpath.Contains(w, dir) }) {
				v.pinned = append(v.pinned, dir)
			}
		}
	}
}

// A dirSet answers what withinAny answers, in a time that does not grow with the number of directories.
type dirSet map[string]bool

func newDirSet(dirs []string) dirSet {
	s := make(dirSet, len(dirs))
	for _, d := range dirs {
		if d != "" {
			s[filepath.Clean(d)] = true
		}
	}
	return s
}

// contain reports whether a path is in one of the directories, or is one of them.
func (s dirSet) contain(path string) bool {
	if len(s) == 0 || path == "" {
		return false
	}
	for dir := filepath.Clean(path); !s[dir]; {
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
	return true
}

// above returns the directories and all that contain them.
func (s dirSet) above() dirSet {
	all := make(dirSet, len(s))
	for dir := range s {
		for !all[dir] {
			all[dir] = true
			dir = filepath.Dir(dir)
		}
	}
	return all
}

// leads returns where the paths of an allowance lead, without those that lead elsewhere.
func (p *Policy) leads(links *resolver, allowed []string) (to []string) {
	for _, path := range allowed {
		to = append(to, slices.DeleteFunc(links.real([]string{path}),
			func(to string) bool { return p.elsewhere(path, to, allowed) })...)
	}
	return to
}

// guard protects the names in git directories that can make git run programs. If one of them cannot
// be reserved, the whole directory becomes read-only. closed are git directories of worktrees elsewhere, as far as
// they are known.
func (v *view) guard(gits []string, opened dirSet, closed map[string]bool) {
	for _, dir := range gits {
		if opened.contain(dir) || len(common(v.writable, []string{dir})) == 0 {
			continue
		}
		g := gitGuard{used: v.writable, elsewhere: closed}
		g.add(dir, 8)
		reserved, ok := g.reserve(opened)
		v.reserved = append(v.reserved, reserved...)
		if !ok {
			v.protected = append(v.protected, dir)
			continue
		}
		v.pinned = append(append(v.pinned, dir), slices.DeleteFunc(g.pinned, opened.contain)...)
		v.protected = append(v.protected, g.closed...)
		v.closed = v.closed || len(g.closed) > 0
		if withinAny(v.writable, dir) {
			v.writable = append(v.writable, g.writable...)
		}
		for _, n := range g.readOnly {
			// A link cannot be covered by a mount: protectedFiles protects its target.
			var st unix.Stat_t
			if unix.Lstat(n.name, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK && !opened.contain(n.name) {
				v.protected = append(v.protected, n.name)
			}
		}
	}
}

// permit creates an allowed path that does not exist, with its parent directories, unless that leads elsewhere. It adds
// it to made, which is v.permitted for what was allowed by its own name.
func (v *view) permit(path string, made *[]string, elsewhere func(to string) bool) error {
	name := strings.TrimSuffix(path, "/")
	if parent := filepath.Dir(name); !exists(parent) {
		above := func(to string) bool { return elsewhere(filepath.Join(to, filepath.Base(name))) }
		if err := v.permit(parent+"/", &v.made, above); err != nil {
			return err
		}
	}
	parent := real([]string{filepath.Dir(name)})
	if parent == nil {
		return fs.ErrNotExist
	}
	to := filepath.Join(parent[0], filepath.Base(name))
	if elsewhere(to) {
		return errMoved
	}
	to += path[len(name):]
	if err := createEmpty(to); err != nil {
		return err
	}
	*made = append(*made, to)
	return nil
}

// create creates the paths of a limit that do not exist, where the command could create them
// itself: a file if the name has an extension, otherwise a directory.
func (v *view) create(paths, writable []string, not func(string) bool) {
	for _, path := range paths {
		parent := real([]string{filepath.Dir(path)})
		if _, err := os.Lstat(path); err == nil || len(parent) == 0 || !withinAny(writable, parent[0]) || not(path) {
			continue
		}
		to := filepath.Join(parent[0], filepath.Base(path))
		if filepath.Ext(path) == "" || strings.HasSuffix(path, "/") {
			to += "/"
		}
		if createEmpty(to) == nil {
			v.made = append(v.made, to)
		}
	}
}

// createEmpty creates an empty file, or a directory if the name ends in a slash, so that it can be
// mounted. It follows no link.
func createEmpty(path string) error {
	p, err := openPlace("/", path)
	if err != nil {
		return err
	}
	defer p.close()
	if strings.HasSuffix(path, "/") {
		return unix.Mkdirat(p.dir, p.name, 0o755)
	}
	fd, err := unix.Openat(p.dir, p.name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Futimes(fd, make([]unix.Timeval, 2)) // untouched
}

// remove removes the created files and directories to which nothing was written. If the command
// succeeded, empty directories that it was allowed to create stay.
func (v *view) remove(succeeded bool) {
	release(v.reserved)
	for _, path := range slices.Backward(slices.Concat(v.made, v.permitted)) { // what is in a directory before it
		p, err := openPlace("/", path)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		switch err := unix.Fstatat(p.dir, p.name, &st, unix.AT_SYMLINK_NOFOLLOW); {
		case err != nil:
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			if !succeeded || !slices.Contains(v.permitted, path) {
				unix.Unlinkat(p.dir, p.name, unix.AT_REMOVEDIR) // if it is empty
			}
		case st.Size == 0 && st.Mtim.Nano() == 0: // a command that creates an empty file on purpose sets another time
			unix.Unlinkat(p.dir, p.name, 0)
		}
		p.close()
	}
}

// An entry is a path with a mount of its own.
type entry struct {
	path string
	do   launch.Do
}

// entries returns the mounts of a view, parents before their content.
func (v *view) entries() []entry {
	var entries []entry
	for _, list := range []struct {
		do    launch.Do
		paths []string
	}{
		{launch.Put, v.writable}, {launch.Tmpfs, append(slices.Clone(v.temp), v.emptied...)}, {launch.PutReadOnly, v.visible},
		{launch.ReadOnly, v.protected}, {launch.Pin, v.pinned},
	} {
		for _, path := range list.paths {
			entries = append(entries, entry{path, list.do})
		}
	}
	// Of two entries for one path the more restrictive comes last and covers the other.
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].path < entries[j].path })
	// Entries that change nothing compared with the nearest entry above are omitted, because files
	// cannot be renamed across a mount.
	var needed []entry
	last := map[string]launch.Do{"/": launch.ReadOnly, ".": launch.ReadOnly} // everything is read-only at first
	for _, e := range entries {
		dir := e.path
		for _, ok := last[dir]; !ok; _, ok = last[dir] {
			dir = filepath.Dir(dir)
		}
		above := last[dir]
		writable := above == launch.Put || above == launch.Pin || above == launch.Tmpfs
		switch e.do {
		case launch.Put:
			if _, ok := v.overlays[e.path]; !ok && (above == launch.Put || above == launch.Pin) {
				continue
			}
		case launch.ReadOnly, launch.Pin:
			if !writable {
				continue
			}
		case launch.PutReadOnly:
			if above != launch.Tmpfs {
				continue
			}
		}
		needed, last[e.path] = append(needed, e), e.do
	}
	return needed
}

// step returns the step that makes an entry's mount.
func (v *view) step(e entry) launch.Step {
	s := launch.Step{Do: e.do, Path: e.path}
	switch {
	case e.do == launch.Put || e.do == launch.PutReadOnly:
		s.File = isFile(e.path)
	case v.isPrivate(e):
		s.Do = launch.Put
	case e.do == launch.Tmpfs && slices.Contains(v.emptied, e.path):
		s.Data = "mode=0700,size=64k"
	case e.do == launch.Tmpfs:
		s.Data = "mode=1777,size=25%"
	}
	return s
}

// sharedTemp is where commands find the session's directory for temporary files first of all.
const sharedTemp = "/tmp"

// isPrivate reports whether an entry's mount is the session's directory for temporary files.
func (v *view) isPrivate(e entry) bool {
	return e.do == launch.Tmpfs && v.private != "" && slices.Contains(v.shared, e.path) &&
		!slices.Contains(v.emptied, e.path)
}

// hide returns the steps that cover the hidden paths.
func (v *view) hide() (steps []launch.Step) {
	for _, path := range v.hidden {
		if !withinAny(v.temp, path) || withinAny(v.visible, path) || withinAny(v.writable, path) {
			steps = append(steps, launch.Step{Do: launch.Hide, Path: path, File: isFile(path)})
		}
	}
	return steps
}

// steps returns all steps that build the mount tree of a view.
func (v *view) steps() []launch.Step {
	entries := v.entries()
	steps := []launch.Step{{Do: launch.Private, Path: "/"}}
	if v.program != "" {
		steps = append(steps, launch.Step{Do: launch.Hold, Path: v.program, At: launch.ProgramFile})
	}
	if v.memory != "" {
		steps = append(steps, launch.Step{Do: launch.Hold, Path: v.memory, At: workspace.SystemMemory})
	}
	for _, e := range entries {
		switch {
		case v.isPrivate(e):
			steps = append(steps, launch.Step{Do: launch.Hold, Path: v.private, At: e.path})
		case e.do == launch.Put || e.do == launch.PutReadOnly:
			steps = append(steps, launch.Step{Do: launch.Hold, Path: e.path})
		}
	}
	steps = append(steps, launch.Step{Do: launch.ReadOnlyAll, Path: "/"})
	for _, e := range entries {
		steps = append(steps, v.step(e))
	}
	steps = append(steps, launch.Step{Do: launch.Dev, Path: "/dev", File: v.program != ""})
	if v.program != "" {
		steps = append(steps, launch.Step{Do: launch.PutReadOnly, Path: launch.ProgramFile})
	}
	if v.memory != "" {
		steps = append(steps, launch.Step{Do: launch.Put, Path: workspace.SystemMemory})
	}
	for _, e := range entries { // what is written there would be lost
		if e.do == launch.Tmpfs && (!slices.Contains(v.shared, e.path) || slices.Contains(v.emptied, e.path)) {
			steps = append(steps, launch.Step{Do: launch.Seal, Path: e.path})
		}
	}
	steps = append(append(steps, v.hide()...), launch.Step{Do: launch.Proc, Path: "/proc"})
	v.pinpoint(steps)
	return steps
}

// movable reports whether a command could rename a path or a directory above it. In an empty directory
// of this command the path is another file, or none.
func (v *view) movable(path string) bool {
	above := func(dirs []string) (longest int) {
		for _, dir := range dirs {
			if dir != path && subpath.Contains(dir, path) {
				longest = max(longest, len(dir))
			}
		}
		return longest
	}
	return above(v.writable) > max(above(v.temp), above(v.emptied))
}

// pinpoint adds to steps which file a movable path must lead to.
func (v *view) pinpoint(steps []launch.Step) {
	for i := range steps {
		s := &steps[i]
		if at, ok := v.overlays[s.Path]; ok && s.Do == launch.Hold {
			s.Dev, s.Ino = deviceNumber(at.root.dev), at.root.ino // not the user's cache, whatever happens
		}
		if s.Do == launch.Seal || !v.movable(s.Path) || v.overlaid(s.Path) { // a Seal finds what this command mounted
			continue
		}
		var st unix.Stat_t
		var err error
		if at := slices.IndexFunc(v.reserved, func(p *placeholder) bool { return p.path == s.Path }); at >= 0 {
			err = unix.Fstat(v.reserved[at].fd, &st)
		} else {
			err = unix.Lstat(s.Path, &st)
		}
		dev, ino := uint64(st.Dev), st.Ino
		if h, ok := v.files[s.Path]; ok {
			dev, ino = h.dev, h.ino
		} else if err != nil {
			if s.Do == launch.ReadOnly || s.Do == launch.Hide {
				s.Ino = ^uint64(0) // no file: it was there a moment ago
			}
			continue
		}
		s.Dev, s.Ino = deviceNumber(dev), ino
	}
}

// overlaid reports whether an overlay covers a path, so that there is another file than outside.
func (v *view) overlaid(path string) bool {
	for dir := range v.overlays {
		if subpath.Contains(dir, path) {
			return true
		}
	}
	return false
}

// deviceNumber returns a device in the form of launch.Step.
func deviceNumber(dev uint64) uint64 { return uint64(unix.Major(dev)) | uint64(unix.Minor(dev))<<32 }

// isFile reports whether something other than a directory exists at path.
func isFile(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// restrict adds Landlock rules to a plan whose mounts already enforce the policy, as a second line
// of defence.
func (v *view) restrict(p *launch.Plan) {
	version := landlockVersion()
	if version < 2 {
		return // version 1 forbids renaming between directories
	}
	p.FS, p.Scope = landlockRights(version)
	p.Rules = []launch.Rule{
		{Path: "/", Access: llRead},
		{Path: "/dev", Access: llRead | llWriteFile | llTruncate | llIoctlDev},
		{Path: "/dev/shm", Access: p.FS},
		{Path: "/dev/pts", Access: p.FS},
		{Path: "/proc", Access: llRead | llWriteFile | llTruncate},
	}
	for _, path := range append(slices.Clone(v.writable), v.temp...) {
		p.Rules = append(p.Rules, launch.Rule{Path: path, Access: p.FS})
	}
	for _, path := range v.granted { // it may appear later: there only the mounts decide
		for path = filepath.Dir(path); path != "/" && identity(path) == (inode{}); path = filepath.Dir(path) {
		}
		p.Rules = append(p.Rules, launch.Rule{Path: path, Access: p.FS})
	}
}

// restrictAlone enforces with Landlock as much of the policy as is possible without mounts.
// Landlock can only allow, so everything except the secrets is allowed for reading, path by path.
func (v *view) restrictAlone(p *launch.Plan, temp string) {
	p.FS, p.Scope = landlockRights(landlockVersion())
	p.Rules = []launch.Rule{{Path: "/", Access: llReadDir}}
	for _, path := range append(slices.Clone(v.writable), temp) {
		// Secrets inside stay readable, because otherwise no new file would be.
		p.Rules = append(p.Rules, launch.Rule{Path: path, Access: p.FS})
	}
	for _, dev := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty"} {
		p.Rules = append(p.Rules, launch.Rule{Path: dev, Access: llReadFile | llWriteFile | llTruncate | llIoctlDev})
	}
	secret := append(slices.Clone(v.hidden), v.emptied...)
	var readable func(dir string)
	readable = func(dir string) {
		if slices.Contains(secret, dir) {
			return
		}
		if !slices.ContainsFunc(secret, func(s string) bool { return subpath.Contains(dir, s) }) {
			p.Rules = append(p.Rules, launch.Rule{Path: dir, Access: llRead})
			return
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Type()&os.ModeSymlink == 0 { // a link's access is decided at its target
				readable(filepath.Join(dir, e.Name()))
			}
		}
	}
	readable("/")
	for _, path := range v.opened {
		p.Rules = append(p.Rules, launch.Rule{Path: path, Access: llRead})
	}
}

// limits returns the resource limits of a command. The number of processes is limited only in a
// separate user namespace: elsewhere all processes of the user would count.
func (p *Policy) limits(namespaces bool) []launch.Limit {
	limits := []launch.Limit{{Resource: unix.RLIMIT_CORE, Max: 1}, {Resource: unix.RLIMIT_DATA, Max: p.memory()}}
	if namespaces {
		limits = append(limits, launch.Limit{Resource: unix.RLIMIT_NPROC, Max: p.processes()})
	}
	return limits
}

func (p *Policy) processes() uint64 {
	if p.Processes > 0 {
		return p.Processes
	}
	return defaultProcesses
}

func (p *Policy) memory() uint64 {
	if p.Memory > 0 {
		return p.Memory
	}
	return mostMemory()
}

var mostMemory = sync.OnceValue(func() uint64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 4 << 30
	}
	return uint64(info.Totalram) * uint64(info.Unit) / 4 * 3
})

// ownPidMax reports whether /proc/sys/kernel/pid_max belongs to the pid namespace.
var ownPidMax = sync.OnceValue(func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return major > 6 || major == 6 && minor >= 14
})
