package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/sources"
)

// maxClaudeFile limits the size of Claude Code's file, which contains more than servers.
const maxClaudeFile = 64 << 20

// definedServers are the MCP servers that a directory and its user define.
type definedServers struct {
	project *Project
	given   []mcpConfig     // of --mcp-config
	off     map[string]bool // by name, those that are off in Claude Code for this directory; true: only a project's
	inFiles []knack.Problem // in the project's files that define servers

	once     sync.Once // for what follows
	all      []mcp.Server
	problems []knack.Problem // about servers that are left out
}

// Servers returns the MCP servers that the directory and its user define; of those with the same name,
// the one with the highest precedence. The problems are about servers that are left out.
func (p *Project) Servers() ([]mcp.Server, []knack.Problem) {
	d := &p.servers
	d.once.Do(func() {
		all, problems := d.find()
		d.all, d.problems = permitted(p.config, all, problems)
	})
	return d.all, d.problems
}

// permitted leaves out the servers that the settings, or a file managed-mcp.json, do not permit.
func permitted(c *config.Config, all []mcp.Server, problems []knack.Problem) ([]mcp.Server, []knack.Problem) {
	_, _, only := ofManaged(sources.ManagedDirs(runtime.GOOS))
	all = slices.DeleteFunc(all, func(s mcp.Server) bool {
		var command []string
		if s.Command != "" {
			command = append([]string{s.Command}, s.Args...)
		}
		err := c.Server(s.Origin, s.Name, command, s.URL)
		if only && s.Origin != permission.Managed {
			err = errors.New("the administrator's managed-mcp.json permits no others")
		}
		if err != nil {
			problems = append(problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn, Path: s.DefinedIn,
				Message: "MCP server " + plain.Line(s.Name) + " is left out: " + err.Error()})
		}
		return err != nil
	})
	return all, problems
}

// ofManaged returns the servers of the files managed-mcp.json of an administrator. If there is one, no others are used,
// also if it cannot be read.
func ofManaged(dirs []string) (servers []mcp.Server, problems []knack.Problem, only bool) {
	for _, dir := range dirs {
		file := filepath.Join(dir, "managed-mcp.json")
		data, err := regular.Read(file, maxClaudeFile)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		only = true
		var doc struct {
			MCPServers json.RawMessage `json:"mcpServers"`
		}
		if err == nil {
			err = json.Unmarshal(jsonc.Plain(data), &doc)
		}
		if err != nil {
			problems = append(problems, knack.Problem{Code: knack.CodeMCPInvalid, Severity: knack.Error, Path: file,
				Message: "no MCP servers are used, because these cannot be read: " + err.Error()})
			continue
		}
		found, bad := mcp.Parse(doc.MCPServers, permission.Managed, file)
		servers, problems = append(servers, found...), append(problems, bad...)
	}
	return servers, problems, only
}

// find reads the definitions in order of precedence: the administrator's, those of the command line, the user's, the
// project's. A project cannot define a server with a name that someone else has defined.
func (d *definedServers) find() ([]mcp.Server, []knack.Problem) {
	p := d.project
	var all []mcp.Server
	var problems []knack.Problem
	add := func(servers []mcp.Server, bad []knack.Problem) {
		problems = append(problems, bad...)
		for _, s := range servers {
			i := slices.IndexFunc(all, func(t mcp.Server) bool { return mcp.Safe(t.Name) == mcp.Safe(s.Name) })
			if i < 0 {
				all = append(all, s)
				continue
			}
			by := all[i].Origin
			if s.Origin == permission.Project && by != permission.Project ||
				s.Origin != permission.Managed && by == permission.Managed {
				problems = append(problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn, Path: s.DefinedIn,
					Message: "MCP server " + s.Name + " is left out: " + all[i].DefinedIn + " defines a server with the same name"})
			}
		}
	}
	settings := func(origins ...permission.Origin) {
		for _, part := range p.config.Raw["mcpServers"] {
			if slices.Contains(origins, part.Origin) {
				servers, bad := mcp.Parse(part.JSON, part.Origin, part.Path)
				for i := range bad {
					bad[i].Line, bad[i].Column = part.Line, part.Column
				}
				add(servers, bad)
			}
		}
	}
	settings(permission.Managed)
	servers, bad, _ := ofManaged(sources.ManagedDirs(runtime.GOOS))
	add(servers, bad)
	for _, c := range d.given {
		add(mcp.Parse(c.data, permission.Flag, c.place))
	}
	if p.options.StrictMCP || p.options.Bare {
		return all, problems
	}
	settings(permission.Flag, permission.User)
	if !p.options.NoSettings && p.hasLayer("user") {
		add(d.ofClaude())
		add(ofPi(p.options.Env.PiDir()))
	}
	if !p.options.NoSettings && p.hasLayer("project") {
		for _, f := range d.ofProject() {
			all = slices.DeleteFunc(all, func(s mcp.Server) bool {
				return s.Origin == permission.User && slices.Contains(f.off, s.Name)
			})
			add(f.servers, f.problems)
		}
	}
	settings(permission.Project)
	servers, bad = p.plugins.servers()
	servers, more := distinct(servers)
	add(servers, append(bad, more...))
	all = slices.DeleteFunc(all, func(s mcp.Server) bool {
		onlyProjects, off := d.off[s.Name]
		if !off || s.Origin != permission.Project &&
			(onlyProjects || s.Origin != permission.Plugin && s.DefinedIn != d.claudeFile()) {
			return false
		}
		problems = append(problems, knack.Problem{Code: knack.CodeMCPInvalid, Severity: knack.Info, Path: d.claudeFile(),
			Message: "MCP server " + plain.Line(s.Name) + " is off in Claude Code, for this directory",
			Hint:    "/mcp in Claude Code turns it on; or knack mcp add, under another name"})
		return true
	})
	for i := range all {
		if s := &all[i]; s.Origin == permission.Project {
			s.Network, s.Write = cmp.Or(p.trust.Network(s.DefinedIn), "none"), p.trust.Writable(s.DefinedIn)
		}
	}
	return all, problems
}

// distinct leaves out servers of different plugins that have one name in rules: a rule for one would allow the other.
func distinct(servers []mcp.Server) (all []mcp.Server, problems []knack.Problem) {
	plugin := func(s mcp.Server) string { return strings.SplitN(s.Name, ":", 3)[1] } // plugin:PLUGIN:SERVER
	first, out := map[string]mcp.Server{}, map[string]bool{}
	for _, s := range servers {
		name := mcp.Safe(s.Name)
		t, ok := first[name]
		if !ok {
			first[name] = s
		} else if plugin(s) != plugin(t) {
			out[name] = true
			problems = append(problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn, Path: s.DefinedIn,
				Message: "MCP servers " + t.Name + " and " + s.Name + " are left out: rules have one name for both, mcp__" + name})
		}
	}
	return slices.DeleteFunc(servers, func(s mcp.Server) bool { return out[mcp.Safe(s.Name)] }), problems
}

// An mcpConfig is a value of --mcp-config: a file, or JSON.
type mcpConfig struct {
	place string // the file, or the name of the flag
	data  []byte
}

// readMCPConfig reads a value of --mcp-config, which must be JSON. given is that of the Options.
func readMCPConfig(text string, given map[string]string) (mcpConfig, error) {
	c := mcpConfig{place: "--mcp-config", data: []byte(text)}
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		c.place = text
		var err error
		if c.data, err = regular.ReadNamed(text, maxClaudeFile); err != nil {
			return c, fmt.Errorf("--mcp-config: %w", err)
		}
		if err = config.CheckGiven(given, text, c.data); err != nil {
			return c, fmt.Errorf("--mcp-config: %w", err)
		}
	}
	c.data = jsonc.Plain(bytes.TrimPrefix(c.data, []byte("\ufeff")))
	if !json.Valid(c.data) {
		return c, fmt.Errorf("%s: not valid JSON", plain.Line(c.place))
	}
	return c, nil
}

// ofClaude returns the servers that the user configured in Claude Code: for this directory, then for all.
func (d *definedServers) ofClaude() ([]mcp.Server, []knack.Problem) {
	p, file := d.project, d.claudeFile()
	data, err := regular.Read(file, maxClaudeFile)
	if err != nil {
		if err = regular.Absent(file, err); err == nil {
			return nil, nil
		}
		return nil, []knack.Problem{{Code: knack.CodeUnreadable, Severity: knack.Warn, Path: file,
			Message: "its MCP servers are not used, because it cannot be read: " + err.Error()}}
	}
	var doc struct {
		MCPServers json.RawMessage `json:"mcpServers"`
		Projects   map[string]struct {
			MCPServers json.RawMessage `json:"mcpServers"`
			Off        []string        `json:"disabledMcpServers"`
			OffProject []string        `json:"disabledMcpjsonServers"`
		} `json:"projects"`
	}
	// The file also contains the history of each project, and every start waits for this; encoding/json
	// takes fifty times as long.
	if fastjson.Unmarshal(data, &doc) != nil {
		return nil, []knack.Problem{{Code: knack.CodeMCPInvalid, Severity: knack.Warn, Path: file,
			Message: "not JSON: its MCP servers are not used"}}
	}
	d.off = map[string]bool{}
	for _, dir := range []string{p.root, p.dir} {
		for _, name := range doc.Projects[dir].OffProject {
			d.off[name] = true
		}
		for _, name := range doc.Projects[dir].Off {
			d.off[name] = false
		}
	}
	var all []mcp.Server
	var problems []knack.Problem
	for _, part := range []json.RawMessage{doc.Projects[p.dir].MCPServers, doc.Projects[p.root].MCPServers,
		doc.MCPServers} {
		if len(part) == 0 || string(part) == "null" {
			continue
		}
		servers, bad := mcp.Parse(part, permission.User, file)
		all, problems = append(all, servers...), append(problems, bad...)
	}
	return all, problems
}

// claudeFile is the file in which Claude Code keeps the user's servers; "": there is no home.
func (d *definedServers) claudeFile() string {
	p := d.project
	if dir := p.options.Env.Get("CLAUDE_CONFIG_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".claude.json")
	}
	if p.home == "" {
		return ""
	}
	return filepath.Join(p.home, ".claude.json")
}

// ofPi returns the servers of the user's file of Pi. home is its directory; "": there is none.
func ofPi(home string) ([]mcp.Server, []knack.Problem) {
	if home == "" {
		return nil, nil
	}
	file := filepath.Join(home, "mcp.json")
	data, err := regular.Read(file, 1<<20)
	if err != nil {
		if err = regular.Absent(file, err); err == nil {
			return nil, nil
		}
		return nil, []knack.Problem{{Code: knack.CodeUnreadable, Severity: knack.Error, Path: file,
			Message: "its MCP servers are not used, because it cannot be read: " + err.Error()}}
	}
	return mcp.Parse(data, permission.User, file)
}

// A serverFile is a file of the project that defines servers.
type serverFile struct {
	servers  []mcp.Server
	problems []knack.Problem
	off      []string // the user's servers that it only turns off
}

// ofProject returns the servers of the project's files that are trusted.
func (d *definedServers) ofProject() []serverFile {
	p := d.project
	if p.options.Bare {
		return nil
	}
	root, err := regular.Root(p.root)
	if err != nil {
		return nil
	}
	defer root.Close()
	rel, err := filepath.Rel(p.root, p.dir)
	if err != nil {
		return nil
	}
	var all []serverFile
	for _, dir := range layout.Dirs(rel, ".") {
		for _, row := range layout.Rows(layout.MCP) {
			name := filepath.Join(dir, filepath.FromSlash(row.Path))
			data, err := regular.ReadIn(root, name, 1<<20)
			place := filepath.Join(p.root, name)
			var f serverFile
			switch {
			case errors.Is(err, fs.ErrNotExist) && regular.Absent(place, err) == nil:
				continue
			case err != nil:
				f.problems = []knack.Problem{{Code: knack.CodeUnreadable, Severity: knack.Error, Path: place,
					Message: "cannot be read: " + regular.Absent(place, err).Error()}}
			default:
				if err := p.trust.Check(place, data); err != nil {
					var x knack.Problem
					if errors.As(err, &x) {
						f.problems = []knack.Problem{x}
					}
					break
				}
				f.servers, f.problems = mcp.Parse(data, permission.Project, place)
				if row.Path == ".pi/mcp.json" {
					f.off = mcp.Off(data)
				}
			}
			all = append(all, f)
		}
	}
	return all
}

// checkFiles finds the problems of the project's files that define servers. These are known without reading anything
// else.
func (d *definedServers) checkFiles() {
	if d.project.options.StrictMCP || d.project.options.NoSettings {
		return
	}
	for _, f := range d.ofProject() {
		d.inFiles = append(d.inFiles, f.problems...)
	}
}

// belowTemp returns what must be visible, although the sandbox has a /tmp of its own, so that a server starts whose
// definition names a file below /tmp: the directory in /tmp that contains the file, because a program needs the files
// beside it. A directory that also contains the working directory or the home directory would uncover their secrets;
// then it is one further down. A project's definition makes nothing visible.
func (p *Project) belowTemp(s mcp.Server, file string) []string {
	if s.Origin == permission.Project || !filepath.IsAbs(file) {
		return nil
	}
	var all []string
	for _, at := range []string{filepath.Clean(file), realPath(file)} {
		for _, temp := range []string{"/tmp", "/var/tmp"} {
			rest, ok := subpath.Rel(temp, at)
			if !ok || rest == "." {
				continue
			}
			for name := range strings.SplitSeq(rest, "/") {
				temp = filepath.Join(temp, name)
				if !slices.ContainsFunc([]string{p.dir, p.root, p.home}, func(dir string) bool {
					return subpath.Contains(temp, realPath(dir))
				}) {
					all = append(all, temp)
					break
				}
			}
		}
	}
	return all
}
