package engine

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/mcp"
)

// writable returns the directories that the definition of a server, or for a project's its user, lets its program
// write.
func writable(p *Project, s mcp.Server) (dirs []string, err error) {
	for _, dir := range s.Write {
		if strings.HasPrefix(dir, "~/") && p.home == "" {
			return nil, fmt.Errorf("write: %s: there is no home directory", plain.Line(dir))
		}
		dir = filepath.Clean(subpath.Expand(dir, p.home))
		if what := tooMuch(p, dir); what != "" {
			return nil, fmt.Errorf("write: %s cannot be opened for a server: it is %s", plain.Line(dir), what)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// serverCaches returns the caches of the programs that a server's definition names, which may not exist yet. The
// sandbox puts layers over them, as over those that exist.
func serverCaches(p *Project, s mcp.Server) (caches []sandbox.Cache) {
	base := p.options.Env.Get("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		if p.home == "" {
			return nil
		}
		base = filepath.Join(p.home, ".cache")
	}
	for _, known := range [...]struct{ word, dirs string }{
		{"playwright", "ms-playwright ms-playwright-mcp"}, {"puppeteer", "puppeteer"},
		{"chrome-devtools-mcp", "chrome-devtools-mcp"},
	} {
		if !slices.ContainsFunc(append([]string{s.Command}, s.Args...), func(arg string) bool {
			return strings.Contains(arg, known.word)
		}) {
			continue
		}
		for dir := range strings.FieldsSeq(known.dirs) {
			caches = append(caches, sandbox.Cache{Path: filepath.Join(base, dir)})
		}
	}
	return caches
}

// unwritable says that the sandbox did not let the program of a server write, and what allows it; "": it was not the
// sandbox. What ended a call is reported to the user, too: not every front end shows the results of calls.
func (r serverRunner) unwritable(s mcp.Server, u mcp.Unwritten) string {
	text := r.unwritten(s, u)
	if text != "" && !u.Start {
		r.engine.notices.addOnce(knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: s.DefinedIn,
			Message: "MCP server " + s.Name + ": " + text})
	}
	return text
}

// unwritten is the text of unwritable. If a program only said that something is missing, then so is the directory
// above; but Node.js also says it of a directory to be made with those above it, which are there.
func (r serverRunner) unwritten(s mcp.Server, u mcp.Unwritten) string {
	path := u.Path
	p := r.engine.Project()
	policy, err := p.SandboxPolicy(p.dir)
	if err != nil {
		return ""
	}
	mode, err := sandbox.ParseMode(cmp.Or(p.config.Settings.Sandbox.Mode, "auto"))
	if err != nil || mode == sandbox.Off {
		return ""
	}
	box := sandbox.New(policy, mode)
	defer box.Close()
	if box.Report().Level == sandbox.None {
		return ""
	}
	if u.Browser {
		return ownSandbox(p, s)
	}
	if u.Missing && !u.Mkdir {
		if _, err := os.Lstat(filepath.Dir(path)); err == nil {
			return ""
		}
	}
	what, dir := "a path that it does not name", "DIR"
	if path != "" {
		own, _ := writable(p, s)
		inside := func(dir string) bool { return subpath.Contains(dir, path) || subpath.Contains(realPath(dir), path) }
		if slices.ContainsFunc(slices.Concat([]string{p.dir}, policy.Roots), inside) {
			if u.Missing {
				return ""
			}
			return "the sandbox does not let this server write " + path + ", which is protected: knack sandbox explain"
		}
		if slices.ContainsFunc(slices.Concat(policy.Write, own, []string{"/dev", "/proc"}), inside) {
			return ""
		}
		what, dir = path, path
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() || err != nil && filepath.Ext(path) != "" {
			dir = filepath.Dir(path)
		}
		if own := ownDir(p.home, dir); own != "" && ownedBy(s, own) {
			dir = own
		}
		if reason := tooMuch(p, dir); reason != "" {
			return fmt.Sprintf("the sandbox does not let this server write %s, and %s cannot be opened for it, because it is "+
				"%s: let the server write to a directory of its own", what, dir, reason)
		}
	}
	dir = subpath.Short(dir, p.home)
	how := fmt.Sprintf("To allow it, add %q to sandbox.allowWrite in your settings", dir)
	switch s.Origin {
	case permission.Project:
		how = "To allow it: knack trust --mcp-write " + dir
	case permission.Managed, permission.Flag, permission.User:
		how = fmt.Sprintf(`To allow it, add "write": [%q] to its definition in %s`, dir, subpath.Short(s.DefinedIn, p.home))
	}
	return "the sandbox does not let this server write " + what + ". " + how
}

// ownSandbox says what lets a server start its browser, whose own sandbox needs what Knack's refuses; "": it starts
// none, or without a sandbox.
func ownSandbox(p *Project, s mcp.Server) string {
	words := strings.Join(append([]string{s.Command}, s.Args...), " ")
	flag := ""
	for _, known := range [...]struct{ word, flag string }{
		{"chrome-devtools-mcp", "--chromeArg=--no-sandbox"}, {"playwright", "--no-sandbox"},
	} {
		if flag == "" && strings.Contains(words, known.word) {
			flag = known.flag
		}
	}
	if flag == "" || strings.Contains(words, "--no-sandbox") {
		return ""
	}
	return fmt.Sprintf("a browser cannot start its own sandbox inside this one, which holds for the browser, too: "+
		"to go without the browser's, add %q to the args of %s in %s", flag, s.Name, subpath.Short(s.DefinedIn, p.home))
}

// ownDir returns the directory of a program in the home directory that contains dir: ~/.name, or the one below ~/.config
// and its like. "": dir is none of these.
func ownDir(home, dir string) string {
	rest, ok := subpath.Rel(home, dir)
	if !ok || home == "" || rest == "." {
		return ""
	}
	parts := strings.Split(filepath.ToSlash(rest), "/")
	shared := 0 // how many of the parts belong to all programs
	for _, base := range [...]string{".config", ".cache", ".local/share", ".local/state", "Library/Application Support",
		"Library/Caches"} {
		if strings.HasPrefix(filepath.ToSlash(rest)+"/", base+"/") {
			shared = strings.Count(base, "/") + 1
		}
	}
	if len(parts) <= shared || shared == 0 && (!strings.HasPrefix(parts[0], ".") || parts[0] == ".local") {
		return ""
	}
	return filepath.Join(home, filepath.Join(parts[:shared+1]...))
}

// ownedBy reports whether a directory is probably a server's own: the server would make it, or it has a name from the
// server's definition.
func ownedBy(s mcp.Server, dir string) bool {
	if _, err := os.Lstat(dir); os.IsNotExist(err) {
		return true
	}
	name := strings.ToLower(strings.TrimPrefix(filepath.Base(dir), "."))
	words := strings.ToLower(strings.Join(append([]string{s.Name, s.Command}, s.Args...), " "))
	return len(name) > 2 && strings.Contains(words, name)
}
