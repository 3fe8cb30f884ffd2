package permission

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/internal/userdirs"
)

// CleanPath drops the entries of a PATH that are relative, empty or inside one
// of the directories given: a name must not mean a program of the workspace.
// Links are followed on both sides. Commands are judged for, and have to run
// with, what it returns.
func CleanPath(list string, dirs ...string) (clean string, dropped []string) {
	p := Place{Roots: dirs}
	var kept []string
	for _, entry := range filepath.SplitList(list) {
		if entry == "" || !filepath.IsAbs(entry) {
			dropped = append(dropped, entry)
			continue
		}
		in := false
		n := p.name(entry, "")
		for _, s := range n.all {
			for _, root := range p.roots() {
				in = in || subpath.Contains(root, s)
			}
		}
		if in || n.unclear != "" {
			dropped = append(dropped, entry)
			continue
		}
		kept = append(kept, entry)
	}
	return strings.Join(kept, string(filepath.ListSeparator)), dropped
}

// GitEnv adds to an environment what keeps git, run anywhere in dir's
// repository, from running what the repository's configuration names: hooks,
// file system monitors, external diffs, text converters, filters, pagers,
// signing programs, editors, helpers. Settings of the person's own
// configuration stay, but for hooks, monitor and pager, which are off.
//
// unguarded names settings that cannot be turned off from outside, or says why
// the configuration could not be read: while it is not empty, git must be
// asked for (Place.GitEnv false).
func GitEnv(environ []string, dir string) (env []string, unguarded []string) {
	set := [][2]string{
		{"core.fsmonitor", "false"}, {"core.hooksPath", os.DevNull}, {"core.pager", "cat"}, {"protocol.ext.allow", "never"},
		{"safe.bareRepository", "explicit"}, {"log.showSignature", "false"}, {"submodule.recurse", "false"},
	}
	seen := map[string]bool{}
	for _, file := range gitConfigs(dir) {
		keys, err := gitKeys(file, 0)
		if err != nil {
			unguarded = append(unguarded, err.Error())
		}
		for _, key := range keys {
			if seen[key] {
				continue
			}
			seen[key] = true
			value, known, guarded := gitOverride(key)
			if known && !guarded {
				unguarded = append(unguarded, key)
			} else if known {
				set = append(set, [2]string{key, value})
				if name, ok := strings.CutPrefix(key, "filter."); ok {
					name = name[:strings.LastIndexByte(name, '.')]
					set = append(set, [2]string{"filter." + name + ".required", "false"})
				}
			}
		}
	}
	n := 0
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "GIT_CONFIG_COUNT":
			if c, err := strconv.Atoi(value); err == nil && c > 0 && c < 1000 {
				n = c
			}
			continue
		case "GIT_PAGER", "GIT_OPTIONAL_LOCKS", "GIT_NO_LAZY_FETCH", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_WORK_TREE", "GIT_TERMINAL_PROMPT":
			continue
		}
		env = append(env, kv)
	}
	for _, kv := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, kv[1]))
		n++
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(n), "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0"), unguarded
}

// plainDiff does what git's own diff does where a repository names another
// program: an empty name would be an error.
const plainDiff = `f() { diff -u --label "a/$1" --label "b/$1" "$2" "$5"; :; }; f`

// gitOverride gives the harmless value of a setting that names a program.
// known is false for settings that do not; guarded is false where no value
// from outside helps. key is in lower case but for its middle part.
func gitOverride(key string) (value string, known, guarded bool) {
	first, last := key, key
	if i := strings.IndexByte(key, '.'); i >= 0 {
		first = key[:i]
	}
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		last = key[i+1:]
	}
	switch first + "." + last {
	case "core.sshcommand":
		return "ssh", true, true
	case "core.editor", "sequence.editor", "core.askpass":
		return ":", true, true
	case "core.alternaterefscommand", "gpg.program", "gpg.defaultkeycommand", "tar.command", "hook.command":
		return "false", true, true
	case "core.gitproxy", "core.worktree", "remote.vcs":
		return "", true, false
	case "diff.external", "diff.command":
		return plainDiff, true, true
	case "diff.textconv":
		return "cat", true, true
	case "filter.clean", "filter.smudge", "filter.process":
		return "", true, true
	case "merge.driver":
		return "false", true, true
	case "interactive.difffilter":
		return "cat", true, true
	case "credential.helper", "trailer.command", "trailer.cmd":
		return "", true, true
	case "remote.uploadpack":
		return "git-upload-pack", true, true
	case "remote.receivepack":
		return "git-receive-pack", true, true
	case "submodule.update":
		return "checkout", true, true
	}
	if first == "pager" {
		return "false", true, true
	}
	return "", false, false
}

// gitConfigs lists the configuration files of the repository that holds dir:
// its own, its worktrees', its modules'.
func gitConfigs(dir string) []string {
	var git string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		p := filepath.Join(d, ".git")
		info, err := os.Stat(p)
		if err == nil && info.IsDir() {
			git = p
			break
		}
		if err == nil {
			data, err := os.ReadFile(p)
			if to, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir:"); err == nil && ok {
				if git = strings.TrimSpace(to); !filepath.IsAbs(git) {
					git = filepath.Join(d, git)
				}
				break
			}
		}
		if filepath.Dir(d) == d {
			return nil
		}
	}
	dirs := []string{git}
	if data, err := os.ReadFile(filepath.Join(git, "commondir")); err == nil {
		common := strings.TrimSpace(string(data))
		if !filepath.IsAbs(common) {
			common = filepath.Join(git, common)
		}
		dirs = append(dirs, common)
	}
	var files []string
	for _, d := range dirs {
		files = append(files, filepath.Join(d, "config"), filepath.Join(d, "config.worktree"))
		for _, pattern := range []string{"modules/*/config", "modules/*/*/config", "modules/*/modules/*/config", "worktrees/*/config.worktree"} {
			found, _ := filepath.Glob(filepath.Join(d, pattern))
			files = append(files, found...)
		}
	}
	return files
}

// gitKeys reads the names of the settings in a configuration file and in what
// it includes.
func gitKeys(file string, depth int) ([]string, error) {
	if depth > 10 {
		return nil, fmt.Errorf("%s: includes go too deep", file)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, nil
	}
	if info.Size() > 1<<20 {
		return nil, fmt.Errorf("%s is too large", file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	data = bytes.ReplaceAll(data, []byte("\\\r\n"), nil)
	data = bytes.ReplaceAll(data, []byte("\\\n"), nil)
	var keys []string
	section := ""
	for _, line := range strings.Split(string(bytes.TrimPrefix(data, []byte("\ufeff"))), "\n") {
		line = strings.TrimSpace(line)
		for strings.HasPrefix(line, "[") {
			head, rest, ok := cutSection(line)
			if !ok {
				return keys, fmt.Errorf("%s: a section that is not understood: %s", file, line)
			}
			section, line = head, strings.TrimSpace(rest)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		name = strings.ToLower(strings.TrimSpace(strings.SplitN(name, " ", 2)[0]))
		key := section + "." + name
		keys = append(keys, key)
		if (section == "include" || strings.HasPrefix(section, "includeif.")) && name == "path" {
			to := strings.Trim(strings.TrimSpace(value), `"`)
			if rest, ok := strings.CutPrefix(to, "~/"); ok {
				home := userdirs.Home()
				if home == "" {
					return keys, fmt.Errorf("%s: ~ in an include, and no home directory", file)
				}
				to = filepath.Join(home, rest)
			} else if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(file), to)
			}
			more, err := gitKeys(to, depth+1)
			keys = append(keys, more...)
			if err != nil {
				return keys, err
			}
		}
	}
	return keys, nil
}

// cutSection reads [name] or [name "part"] at the beginning of a line.
func cutSection(line string) (section, rest string, ok bool) {
	var b strings.Builder
	quoted := false
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			return b.String(), line[i+1:], true
		case !quoted && (c == ' ' || c == '\t'):
			if !strings.HasSuffix(b.String(), ".") {
				b.WriteByte('.')
			}
		case !quoted && c >= 'A' && c <= 'Z':
			b.WriteByte(c + 'a' - 'A')
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// An Approval remembers what a person saw when they allowed something: a
// skill, a script. It holds as long as nothing of it has changed.
type Approval struct {
	What  string            `json:"what"`
	Files map[string]string `json:"files"` // name: sha256 in hex
}

// Approve binds an approval to the content of what was shown, by name.
func Approve(what string, files map[string][]byte) Approval {
	a := Approval{What: what, Files: make(map[string]string, len(files))}
	for name, data := range files {
		sum := sha256.Sum256(data)
		a.Files[name] = hex.EncodeToString(sum[:])
	}
	return a
}

// Changed names what is new, gone or different since, sorted. If it names
// anything, ask again and show the difference.
func (a Approval) Changed(files map[string][]byte) []string {
	var out []string
	now := Approve(a.What, files)
	for name, sum := range now.Files {
		if was, ok := a.Files[name]; !ok || was != sum {
			out = append(out, name)
		}
	}
	for name := range a.Files {
		if _, ok := now.Files[name]; !ok {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}
