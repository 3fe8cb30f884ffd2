package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// piMarket is the marketplace in the IDs of Pi's packages.
const piMarket = "pi"

// Program returns the name of the program that installed an imported plugin.
func Program(id string) string {
	if strings.HasSuffix(id, "@"+piMarket) {
		return "Pi"
	}
	return "Claude Code"
}

// FindOthers returns what Claude Code and Pi have installed, by NAME@MARKETPLACE; a package of Pi is NAME@pi. The
// directories are ~/.claude and ~/.pi/agent; "": none. An error is about one of them, and the other's are returned.
func FindOthers(claude, pi string) (map[string]Found, error) {
	all := map[string]Found{}
	found, err := FindClaude(claude)
	for id, f := range found {
		all[id] = f
	}
	more, bad := FindPi(pi)
	for id, f := range more {
		all[id] = f
	}
	return all, errors.Join(err, bad)
}

// FindPi returns the packages in the user's settings of Pi, by NAME@pi. dir is its directory, ~/.pi/agent.
func FindPi(dir string) (map[string]Found, error) {
	var settings struct {
		Packages []json.RawMessage `json:"packages"`
	}
	if dir == "" {
		return nil, nil
	}
	file := filepath.Join(dir, "settings.json")
	data, err := regular.Read(file, 8<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = fastjson.Unmarshal(data, &settings)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	all := map[string]Found{}
	for _, raw := range settings.Packages {
		var source string
		var filtered struct{ Source string }
		f := Found{}
		if json.Unmarshal(raw, &source) != nil {
			if json.Unmarshal(raw, &filtered) != nil || filtered.Source == "" {
				continue // it is no package
			}
			source, f.Entry = filtered.Source, raw
		}
		name := ""
		if name, f.Dir, f.Add = piPlace(dir, source); name == "" {
			continue
		}
		if info, err := os.Stat(f.Dir); err != nil || !info.IsDir() {
			f.Dir = ""
		}
		all[plugin.Clean(name)+"@"+piMarket] = f
	}
	return all, nil
}

// piPlace returns the name of a package, the directory in which Pi keeps it, and what adds it without Pi.
func piPlace(dir, source string) (name, at, add string) {
	if spec, ok := strings.CutPrefix(source, "npm:"); ok {
		name = spec
		if i := strings.LastIndexByte(spec, '@'); i > 0 {
			name = spec[:i]
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return "", "", ""
		}
		return name, filepath.Join(dir, "npm", "node_modules", filepath.FromSlash(name)), source
	}
	rest, isGit := strings.CutPrefix(source, "git:")
	if isGit || strings.Contains(source, "://") {
		rest, ref := cutRef(rest)
		host, repo := gitPlace(rest)
		if host == "" || !filepath.IsLocal(filepath.FromSlash(host+"/"+repo)) {
			return "", "", ""
		}
		add = rest
		if !strings.Contains(rest, "://") && !strings.Contains(rest, "@") {
			add = "https://" + rest
		}
		if ref != "" {
			add += "#" + ref
		}
		return path.Base(repo), filepath.Join(dir, "git", host, filepath.FromSlash(repo)), add
	}
	at = filepath.FromSlash(source)
	if rest, ok := strings.CutPrefix(at, "~"+string(filepath.Separator)); ok {
		at = filepath.Join(filepath.Dir(filepath.Dir(dir)), rest) // the home directory
	} else if !filepath.IsAbs(at) {
		at = filepath.Join(dir, at)
	}
	return filepath.Base(at), at, at
}

// cutRef cuts the branch, tag or commit behind the last @ of a repository's path.
func cutRef(source string) (repo, ref string) {
	if i := strings.LastIndexByte(source, '@'); i > strings.LastIndexByte(source, '/') && strings.Contains(source, "/") {
		return source[:i], source[i+1:]
	}
	return source, ""
}

// gitPlace returns the host and the path of a repository, without .git.
func gitPlace(source string) (host, repo string) {
	if u, err := url.Parse(source); err == nil && u.Host != "" {
		host, repo = u.Hostname(), u.Path
	} else if at, rest, ok := strings.Cut(source, ":"); ok { // git@host:user/repo
		_, host, _ = strings.Cut(at, "@")
		repo = rest
	} else {
		host, repo, _ = strings.Cut(source, "/")
	}
	return host, strings.TrimSuffix(strings.Trim(repo, "/"), ".git")
}
