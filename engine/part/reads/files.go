package reads

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/sources"
)

// register reads a file of secrets, unless it has not changed since or the files take up this part of what may be
// registered already.
func (r *Reads) register(path string, part int) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	seen := r.seen
	ws := r.conv.Place().Workspace
	info, err := ws.Stat(ctx, path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	seen.mu.Lock()
	known, ok := seen.files[path]
	full := !ok && len(seen.files) >= maxSecretFiles/part || seen.size >= maxSecrets/part
	seen.mu.Unlock()
	if full || ok && known.mod.Equal(info.ModTime()) && known.size == info.Size() {
		return
	}
	f, err := ws.Open(ctx, path)
	if err != nil {
		return
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	f.Close()
	if err != nil {
		return
	}
	text := secrets.Values(strings.ToValidUTF8(string(data), "\n"))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.files == nil {
		seen.files = map[string]seenFile{}
	}
	if before := seen.files[path].text; before != text {
		text = before + text
		seen.size += len(text) - len(before)
	}
	seen.files[path] = seenFile{info.ModTime(), info.Size(), text}
}

// secretFiles returns those of some paths that are secrets, and the files of secrets in directories among them.
func (r *Reads) secretFiles(paths []string) (found []string) {
	place := r.conv.Place().Paths()
	secret := func(path string) bool {
		if place.Secret(path) || place.Resolve != nil {
			return place.Secret(path)
		}
		real, err := filepath.EvalSymlinks(path)
		return err == nil && place.Secret(real)
	}
	if at := r.conv.Here(); at.Worktree != "" {
		place.Dir = at.Worktree
	}
	for _, path := range paths {
		path = subpath.Expand(path, place.Home)
		if config := filepath.Join(path, ".git", "config"); filepath.IsAbs(path) && secret(config) {
			found = append(found, config) // of a repository that a command reads, such as git -C PATH remote -v
		}
		if !filepath.IsAbs(path) || !secret(path) {
			continue
		}
		found = append(found, path)
		if place.Resolve == nil {
			found = append(found, filesIn(path, 200, func(string) bool { return true })...)
		}
	}
	return found
}

// filesIn returns the regular files below a directory for which want is true. It looks at no more than most entries,
// and in the .git of a repository only at the configuration. If dir is not a directory, there are none.
func filesIn(dir string, most int, want func(path string) bool) (found []string) {
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if most--; most < 0 {
			return fs.SkipAll
		}
		switch {
		case err != nil:
		case e.IsDir() && path != dir && (e.Name() == ".git" || e.Name() == "node_modules"):
			if config := filepath.Join(path, "config"); e.Name() == ".git" && want(config) {
				found = append(found, config)
			}
			return fs.SkipDir
		case e.Type().IsRegular() && path != dir && want(path):
			found = append(found, path)
		}
		return nil
	})
	return found
}

// sandbox returns the sandbox of commands; nil: there is none. local means that they run on this machine.
func (r *Reads) sandbox() (box *sandbox.Sandbox, local bool) {
	at := r.conv.Place()
	_, local = at.Workspace.(*workspace.Local)
	return at.Sandbox, local
}

// hidesNothing reports whether commands on this machine run without a sandbox that hides secrets.
func (r *Reads) hidesNothing() bool {
	box, local := r.sandbox()
	if !local {
		return false
	}
	return box == nil || box.Report().Level != sandbox.Complete && !hidesSecrets(box.Report())
}

// allSecrets returns the secrets of the project, and the usual ones of the user, the first time that it is called.
func (r *Reads) allSecrets() []string {
	seen := r.seen
	seen.mu.Lock()
	known := seen.wide
	seen.wide = true
	seen.mu.Unlock()
	if known {
		return nil
	}
	home := r.conv.Project().Env().Home()
	found := filesIn(r.conv.Place().Workspace.Dir(), maxWalked, namesKeys)
	for _, name := range permission.AccountSecrets() {
		path := filepath.Join(home, strings.TrimPrefix(name, "~/"))
		if _, err := os.Lstat(path); err == nil {
			inside := filesIn(path, 50, func(path string) bool { return !strings.HasPrefix(filepath.Base(path), "known_hosts") })
			found = append(append(found, path), inside...)
		}
	}
	return slices.DeleteFunc(found, func(path string) bool { return home == "" && !filepath.IsAbs(path) })
}

// registerUnopened registers the keys and passwords in the project that a command may have read although nobody opened
// their files: no sandbox hides keys there, and git prints the .env files that it has stored. A repository full of such
// files leaves room for those that the user opens.
func (r *Reads) registerUnopened() {
	ws, local := r.conv.Place().Workspace.(*workspace.Local)
	if !local {
		return
	}
	_, err := os.Lstat(filepath.Join(sources.Root(ws.Dir()), ".git"))
	env := r.hidesNothing() || err == nil           // in a repository
	secret := permission.PathContext{}.SecretFunc() // not what is below the home directory, such as checkpoints
	// Not every file that the rules for secrets name has a key: id_map.go does not.
	want := func(path string) bool {
		name := filepath.Base(path)
		return secret(path) && (env || !namesKeys(path)) && !(strings.HasPrefix(name, "id_") && filepath.Ext(name) != "")
	}
	environ := r.conv.Project().Env().Environ()
	paths := gitConfigs(ws.Dir(), environ)
	if at := r.conv.Here(); at.Worktree != "" {
		paths = append(paths, gitConfigs(at.Worktree, environ)...)
	}
	for _, path := range append(paths, filesIn(ws.Dir(), maxWalked, want)...) {
		r.register(path, 2)
	}
}

// namesKeys reports whether a file is for passing keys to programs, by its name.
func namesKeys(path string) bool { return permission.KeyFile(filepath.Base(path)) }

// hidesSecrets reports whether a sandbox that is not complete hides the secrets of a project: that of macOS does.
func hidesSecrets(r sandbox.Report) bool { return r.Backend == "sandbox-exec" }

// opensToCommands returns what the settings let commands read in spite of the rules for secrets.
func (r *Reads) opensToCommands() []string {
	var set struct {
		Sandbox struct{ AllowRead []string } `json:"sandbox"`
	}
	r.conv.Project().ReadSettings(&set) // the engine has read them
	return set.Sandbox.AllowRead
}
