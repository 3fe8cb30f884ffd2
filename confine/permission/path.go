package permission

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission/internal/bash"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// pathNames are the names of one file: as written, and with links resolved if that differs. An allow
// rule must match all of them, a deny rule any one.
type pathNames struct {
	paths         []string
	asTemp        string // the path as it was written, if it means a file in the session's directory; "": it does not
	unknownReason string // why it is unknown which file this is; "": it is known
}

// target returns the path with links resolved.
func (n *pathNames) target() string { return n.paths[len(n.paths)-1] }

// absolute returns text as an absolute path with slashes; a relative one starts at dir. why is not "" if it cannot be
// known.
func (p *PathContext) absolute(text, dir string) (abs, why string) {
	text = filepath.ToSlash(text)
	if strings.HasPrefix(text, "~") {
		rest, ok := strings.CutPrefix(text, "~/")
		switch {
		case text == "~" && p.Home != "":
			text = filepath.ToSlash(p.Home)
		case ok && p.Home != "":
			text = filepath.ToSlash(p.Home) + "/" + rest
		default:
			return text, "the home directory is not known"
		}
	}
	if !bash.IsAbs(text) {
		if dir == "" {
			return text, reasonRelative
		}
		text = filepath.ToSlash(dir) + "/" + text
	}
	return text, ""
}

// name returns the names of the file at text; a relative path starts at dir.
func (p *PathContext) name(text, dir string) pathNames {
	text, why := p.absolute(text, dir)
	if why != "" {
		return pathNames{paths: []string{text}, unknownReason: why}
	}
	clean := path.Clean(text)
	out := pathNames{paths: []string{clean}}
	if procPath(clean) || procPath(text) {
		// These differ for each process. Deny rules match the resolved name too.
		out.unknownReason = "a path under /proc or /dev/fd means something different for each program"
		if i := strings.Index(clean, "/root/"); i > 0 && strings.HasPrefix(clean, "/proc/") {
			out.paths = append(out.paths, clean[i+len("/root"):])
		}
		if i := strings.Index(clean, "/cwd/"); i > 0 && strings.HasPrefix(clean, "/proc/") {
			out.paths = append(out.paths, path.Join(filepath.ToSlash(p.Dir), clean[i+len("/cwd"):]))
		}
		return out
	}
	if at := p.inTemp(text); at != clean {
		out.paths, out.asTemp = []string{at}, clean
		text, clean = at, at
	}
	target, err := p.resolve(text)
	if err != nil {
		out.unknownReason = "its links cannot be resolved: " + err.Error()
		return out
	}
	if target = filepath.ToSlash(target); target != clean {
		out.paths = append(out.paths, target)
		if procPath(target) {
			out.unknownReason = "it points to /proc"
		}
	}
	return out
}

// inTemp returns what InTemp says about a path that has no "..": with one, what is above it depends on links.
func (p *PathContext) inTemp(text string) string {
	if p.InTemp == nil || strings.Contains(text, "/../") || strings.HasSuffix(text, "/..") {
		return path.Clean(text)
	}
	return filepath.ToSlash(p.InTemp(filepath.FromSlash(path.Clean(text))))
}

// asWritten returns the names in /tmp and /var/tmp of a file in the session's directory, which rules that deny or ask
// match, too.
func (p *PathContext) asWritten(n pathNames) (names []string) {
	if n.asTemp != "" {
		return []string{n.asTemp}
	}
	if p.Temp == "" || p.InTemp == nil {
		return nil
	}
	for _, s := range n.paths {
		if rel, ok := subpath.Rel(p.Temp, s); ok && rel != "." {
			names = append(names, "/tmp/"+rel, "/var/tmp/"+rel)
		}
	}
	return names
}

// sessionOwn reports whether every name of a file is in one of the session's own directories: Temp, where reading and
// writing need no question, or Output or the directory of a skill in use, where reading needs none.
func (p *PathContext) sessionOwn(n pathNames, k Kind) bool {
	return p.allIn(n, p.Temp, &p.tempNames) || k == KindRead && (p.allIn(n, p.Output, &p.outNames) || p.ofSkill(n))
}

// allIn reports whether every name of a file is in a directory, whose own names it stores.
func (p *PathContext) allIn(n pathNames, dir string, names *[]string) bool {
	if dir == "" || n.unknownReason != "" {
		return false
	}
	if *names == nil {
		own := *p
		own.InTemp = nil
		*names = own.name(dir, "").paths
	}
	return !slices.ContainsFunc(n.paths, func(s string) bool {
		return !slices.ContainsFunc(*names, func(dir string) bool { return subpath.Contains(dir, s) })
	})
}

// ofSkill reports whether a file is one of a skill in use.
func (p *PathContext) ofSkill(n pathNames) bool {
	if p.skillNames == nil {
		p.skillNames = make([][]string, len(p.Skills))
	}
	for i, s := range p.Skills {
		whole := subpath.Contains(s.Dir, p.Dir) || p.Home != "" && subpath.Contains(s.Dir, p.Home)
		if !whole && p.allIn(n, s.Dir, &p.skillNames[i]) && (s.Approved == nil || s.Approved(n.target()) == nil) {
			return true
		}
	}
	return false
}

// resolve follows links. It caches the resolved directories until the decision ends.
func (p *PathContext) resolve(text string) (string, error) {
	if p.Resolve != nil {
		ctx := p.ctx
		if ctx == nil { // a path is judged without a decision, see [PathContext.Secret]
			ctx = context.Background()
		}
		return p.Resolve(ctx, filepath.FromSlash(text))
	}
	i := strings.LastIndexByte(text, '/')
	if i <= 0 || text[i+1:] == ".." || text[i+1:] == "." || text[i+1:] == "" {
		return Resolve(filepath.FromSlash(text))
	}
	dir, ok := p.linkTargets[text[:i]]
	if !ok {
		var err error
		if dir, err = Resolve(filepath.FromSlash(text[:i])); err != nil {
			return "", err
		}
		if p.linkTargets == nil {
			p.linkTargets = map[string]string{}
		}
		p.linkTargets[text[:i]] = dir
	}
	return resolveIn(filepath.ToSlash(dir), text[i+1:])
}

// procPath reports whether a path means something different for each process: it uses the root, the
// working directory or the descriptors of a process.
func procPath(s string) bool {
	if strings.HasPrefix(s, "/dev/fd/") || s == "/dev/stdin" || s == "/dev/stdout" || s == "/dev/stderr" {
		return true
	}
	rest, ok := strings.CutPrefix(path.Clean(s), "/proc/")
	if !ok {
		// Paths that only pass through /proc, such as /proc/self/root/../x.
		return strings.Contains(s, "/proc/self/") || strings.Contains(s, "/proc/thread-self/")
	}
	process, what, _ := strings.Cut(rest, "/")
	if process != "self" && process != "thread-self" && !bash.Digits(process) {
		return false
	}
	what, _, _ = strings.Cut(what, "/")
	switch what {
	case "root", "cwd", "fd", "exe", "task", "map_files", "environ", "mem", "fdinfo":
		return true
	}
	return false
}

// Resolve follows the links of an absolute path like the kernel, also with ".." after a link. Parts
// that do not exist stay as written, so that the path of a new file resolves too. It fails after 40
// links.
func Resolve(p string) (string, error) {
	vol := filepath.VolumeName(p)
	return resolveIn(vol+"/", filepath.ToSlash(p[len(vol):]))
}

// resolveIn is Resolve for a path below the directory done, whose links are resolved; both have slashes.
func resolveIn(done, rest string) (string, error) {
	vol := filepath.VolumeName(filepath.FromSlash(done))
	todo := strings.Split(rest, "/")
	links := 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = filepath.ToSlash(filepath.Dir(filepath.FromSlash(done)))
			continue
		}
		next := strings.TrimSuffix(done, "/") + "/" + part
		info, err := os.Lstat(filepath.FromSlash(next))
		if err != nil {
			if errors.Is(err, os.ErrNotExist) || isNotDir(err) {
				done = next
				continue
			}
			return "", err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > 40 {
			return "", errors.New("too many links")
		}
		to, err := os.Readlink(filepath.FromSlash(next))
		if err != nil {
			return "", err
		}
		to = filepath.ToSlash(to)
		if bash.IsAbs(to) {
			v := filepath.VolumeName(filepath.FromSlash(to))
			done, to = vol+"/", to[len(v):]
			if v != "" {
				done = v + "/"
			}
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	return filepath.FromSlash(done), nil
}

// Elsewhere reports whether the path of a directory lies in another one of some directories, and leads out of that one
// through a link: whoever can write there could have made the link. Such a path gives no access to where it leads.
func Elsewhere(dir string, among []string) bool {
	dir = filepath.Clean(dir)
	for _, other := range among {
		rel, ok := subpath.Rel(filepath.Clean(other), dir)
		if !ok || rel == "." {
			continue
		}
		to, err := Resolve(dir)
		base, err2 := Resolve(other)
		if err != nil || err2 != nil || to != filepath.Join(base, rel) && !subpath.Contains(base, to) {
			return true
		}
	}
	return false
}

func isNotDir(err error) bool {
	var pe *os.PathError
	return errors.As(err, &pe) && strings.Contains(pe.Err.Error(), "not a directory")
}

// inside reports whether all names of a file are in the workspace.
func (p *PathContext) inside(n pathNames) bool {
	if n.unknownReason != "" {
		return false
	}
	for _, s := range n.paths {
		in := false
		for _, root := range p.roots() {
			in = in || subpath.Contains(root, s)
		}
		if !in {
			return false
		}
	}
	return true
}

// roots returns the workspace's directories as written and with links resolved.
func (p *PathContext) roots() []string {
	if p.rootNames == nil {
		p.rootNames = []string{}
		for _, r := range append([]string{p.Dir}, p.Roots...) {
			if r == "" {
				continue
			}
			if r = path.Clean(filepath.ToSlash(r)); r == "/" {
				continue // the whole file system cannot be a workspace
			}
			p.rootNames = append(p.rootNames, r)
			if p.Resolve == nil && Elsewhere(r, append([]string{p.Dir}, p.Roots...)) {
				continue
			}
			if t := p.name(r, ""); t.unknownReason == "" {
				p.rootNames = append(p.rootNames, t.paths[len(t.paths)-1])
			}
		}
	}
	return p.rootNames
}

// dirNames returns the names of a directory that rules are relative to.
func (p *PathContext) dirNames(dir string) []string {
	n, ok := p.resolved[dir]
	if !ok {
		n = p.name(dir, "").paths
		if p.resolved == nil {
			p.resolved = map[string][]string{}
		}
		p.resolved[dir] = n
	}
	return n
}

// protected returns why a path is protected, such as the protected name; "" if it is not.
func (p *PathContext) protected(n pathNames) string {
	for _, s := range n.paths {
		if name, _ := p.protectedName(s); name != "" {
			return name
		}
	}
	for _, s := range n.paths {
		// A path that looks like one in a git directory: worktrees, modules, bare repositories.
		if strings.HasSuffix(s, ".git") || strings.Contains(s, ".git/") || strings.Contains(strings.ToLower(s), "/.git/") ||
			p.gitDirectory(s) {
			return "a git directory"
		}
		for _, own := range p.own() {
			if !p.sessionOwn(n, KindEdit) && subpath.Contains(strings.ToLower(own), strings.ToLower(s)) {
				return "Knack's own directory " + own
			}
		}
	}
	return ""
}

// protectedName returns the protected name in a path, and the path that has it.
func (p *PathContext) protectedName(s string) (name, at string) {
	if name, at = protectedNames().In(s); name == "" {
		name, at = p.moreProtected().In(s)
	}
	return name, at
}

// moreProtected returns the protected names that are not in the table.
func (p *PathContext) moreProtected() PathNames {
	if p.protectedToo == nil {
		names := p.Protected
		if p.Git != nil {
			names = slices.Concat(names, p.Git.Named(p.ctx))
		}
		more := NewPathNames(names)
		p.protectedToo = &more
	}
	return *p.protectedToo
}

// gitDirectory reports whether a path is in a git directory, whatever its name: one of a known
// repository, or one with the layout of a git directory.
func (p *PathContext) gitDirectory(s string) bool {
	if p.Git != nil {
		for _, dir := range p.Git.Dirs(p.ctx) {
			if subpath.Contains(filepath.ToSlash(dir), s) {
				return true
			}
		}
	}
	if p.Resolve != nil {
		return false // the files are on another machine
	}
	for dir := s; ; dir = path.Dir(dir) {
		has, ok := p.gitLayouts[dir]
		if !ok {
			has = hasGitLayout(filepath.FromSlash(dir))
			if p.gitLayouts == nil {
				p.gitLayouts = map[string]bool{}
			}
			p.gitLayouts[dir] = has
		}
		if has {
			return true
		}
		if path.Dir(dir) == dir {
			return false
		}
	}
}

// hasGitLayout reports whether a directory has the layout of a git directory.
func hasGitLayout(dir string) bool {
	is := func(name string, directory bool) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.IsDir() == directory
	}
	return is("objects", true) && is("refs", true) || is("HEAD", false) && (is("commondir", false) || is("gitdir", false))
}

func (p *PathContext) own() []string {
	if p.ownNames == nil {
		p.ownNames = []string{}
		dirs := append([]string{}, p.Own...)
		if p.Home != "" {
			dirs = append(dirs, p.Home+"/.config/knack", p.Home+"/.local/state/knack", p.Home+"/.local/share/knack")
		}
		for _, d := range dirs {
			p.ownNames = append(p.ownNames, p.name(d, "").paths...)
		}
	}
	return p.ownNames
}

// secretWord returns why a file must not be named by a command without approval: it is a secret that exists, or in a
// git directory; "" if neither. In the workspace only the secrets count that the sandbox hides there: a build may use
// a key that belongs to its tests. A command may have thousands of words, so the file is looked for before its links
// are, and on another machine only the name counts.
func (p *PathContext) secretWord(text, dir string) (n pathNames, why string) {
	abs, unknown := p.absolute(text, dir)
	if unknown != "" {
		return n, ""
	}
	n = pathNames{paths: []string{path.Clean(abs)}}
	switch here := p.Resolve == nil; {
	case strings.Contains(strings.ToLower(n.paths[0]), "/.git/") && !strings.ContainsAny(n.paths[0], "*?["):
		return n, ReasonProtected + "a git directory"
	case here && !p.exists(n.paths[0]):
		return n, ""
	case here:
		n = p.name(text, dir)
	}
	pat := p.secret(n)
	if pat == "" || p.inside(n) && !slices.Contains(sections("told"), pat) &&
		!slices.ContainsFunc(n.paths, func(s string) bool { return KeyFile(path.Base(s)) }) {
		return n, ""
	}
	return n, ReasonSecret + pat
}

// match matches a path with a pattern in the syntax of gitignore. A pattern that matches a
// directory also matches everything in it. broad is for deny and ask rules: letter case is ignored
// and relative patterns match at any depth.
func (p *PathContext) match(pattern, base, s string, broad bool) bool {
	if broad {
		pattern, s = strings.ToLower(pattern), strings.ToLower(s)
	}
	if pattern == "//" {
		return s == "/"
	}
	pattern = strings.TrimSuffix(pattern, "/")
	fold := func(dir string) string {
		dir = path.Clean(filepath.ToSlash(dir))
		if broad {
			dir = strings.ToLower(dir)
		}
		return strings.TrimSuffix(dir, "/")
	}
	from := func(dir, rest string) bool {
		if dir == "" {
			return false
		}
		dir = fold(dir)
		return strings.HasPrefix(s, dir+"/") && segments(rest, s[len(dir)+1:]) || rest == "**" && s == dir
	}
	linked := func(dir, rest string) bool { // tries dir as written and with links resolved
		if from(dir, rest) {
			return true
		}
		if dir == "" {
			return false
		}
		for _, t := range p.dirNames(dir) {
			if from(t, rest) {
				return true
			}
		}
		if broad && dir == p.Dir { // the user's own checkout has the same files
			return slices.ContainsFunc(p.mainDirs(), func(main string) bool { return from(main, rest) })
		}
		return false
	}
	switch {
	case strings.HasPrefix(pattern, "//"):
		return segments(strings.TrimPrefix(pattern, "//"), strings.TrimPrefix(s, "/"))
	case pattern == "~":
		return linked(p.Home, "**")
	case strings.HasPrefix(pattern, "~/"):
		return linked(p.Home, pattern[2:])
	case strings.HasPrefix(pattern, "/"):
		if base == "" {
			base = p.Dir
		}
		return linked(base, pattern[1:])
	case pattern == "." || pattern == "":
		return linked(p.Dir, "**")
	case strings.HasPrefix(pattern, "./"):
		return linked(p.Dir, pattern[2:])
	case strings.Contains(pattern, "/"):
		if broad {
			return segments("**/"+pattern, strings.TrimPrefix(s, "/"))
		}
		return linked(p.Dir, pattern)
	case broad:
		return segments("**/"+pattern, strings.TrimPrefix(s, "/"))
	default:
		for _, root := range append([]string{p.Dir}, p.Roots...) {
			if linked(root, "**/"+pattern) {
				return true
			}
		}
		return false
	}
}

// segments reports whether a pattern matches a path or a directory above it.
func segments(pattern, s string) bool {
	for {
		seg, rest, more := strings.Cut(pattern, "/")
		if seg == "**" {
			if !more {
				return true
			}
			for {
				if segments(rest, s) {
					return true
				}
				_, after, ok := strings.Cut(s, "/")
				if !ok {
					return false
				}
				s = after
			}
		}
		name, after, deeper := strings.Cut(s, "/")
		if !glob(seg, name) {
			return false
		}
		if !more {
			return true // this directory and everything in it
		}
		if !deeper {
			return false
		}
		pattern, s = rest, after
	}
}

// glob matches a name with a pattern of * ? [a-z] and \.
func glob(pattern, s string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(s) {
		if i < len(pattern) {
			switch c := pattern[i]; c {
			case '*':
				star, mark = i, j
				i++
				continue
			case '?':
				i, j = i+1, j+1
				continue
			case '[':
				if ok, n := class(pattern[i:], s[j]); n > 0 {
					if ok {
						i, j = i+n, j+1
						continue
					}
					break
				}
				if s[j] == '[' {
					i, j = i+1, j+1
					continue
				}
			case '\\':
				if i+1 < len(pattern) {
					if pattern[i+1] == s[j] {
						i, j = i+2, j+1
						continue
					}
					break
				}
				fallthrough
			default:
				if c == s[j] {
					i, j = i+1, j+1
					continue
				}
			}
		}
		if star < 0 {
			return false
		}
		mark++
		i, j = star+1, mark
	}
	for i < len(pattern) && pattern[i] == '*' {
		i++
	}
	return i == len(pattern)
}

// class matches a byte with a class such as [a-z]; n is the length of the class, 0 if it is not
// closed.
func class(pattern string, c byte) (ok bool, n int) {
	i := 1
	not := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if not {
		i++
	}
	for first := true; i < len(pattern); first = false {
		if pattern[i] == ']' && !first {
			return ok != not, i + 1
		}
		lo := pattern[i]
		i++
		hi := lo
		if i+1 < len(pattern) && pattern[i] == '-' && pattern[i+1] != ']' {
			hi = pattern[i+1]
			i += 2
		}
		ok = ok || lo <= c && c <= hi
	}
	return false, 0
}
