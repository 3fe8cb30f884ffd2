package serverfiles

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/mcp"
)

// maxClaudeFile limits the size of Claude Code's file, which contains more than servers.
const maxClaudeFile = 64 << 20

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

// ofClaude returns the servers that the user configured in Claude Code: for this directory, then for all. off has the
// names of those that are off there for this directory; true: only a project's.
func (o Options) ofClaude() (all []mcp.Server, problems []knack.Problem, off map[string]bool) {
	file := o.Claude
	if file == "" {
		return nil, nil, nil
	}
	data, err := regular.Read(file, maxClaudeFile)
	if err != nil {
		if err = regular.Absent(file, err); err == nil {
			return nil, nil, nil
		}
		return nil, []knack.Problem{{Code: knack.CodeUnreadable, Severity: knack.Warn, Path: file,
			Message: "its MCP servers are not used, because it cannot be read: " + err.Error()}}, nil
	}
	var doc struct {
		MCPServers  json.RawMessage `json:"mcpServers"`
		Hooks       json.RawMessage `json:"hooks"`
		Permissions json.RawMessage `json:"permissions"`
		Env         json.RawMessage `json:"env"`
		Projects    map[string]struct {
			MCPServers json.RawMessage `json:"mcpServers"`
			Off        []string        `json:"disabledMcpServers"`
			OffProject []string        `json:"disabledMcpjsonServers"`
		} `json:"projects"`
	}
	// The file also contains the history of each project, and every start waits for this; encoding/json
	// takes fifty times as long.
	if fastjson.Unmarshal(data, &doc) != nil {
		return nil, []knack.Problem{{Code: knack.CodeMCPInvalid, Severity: knack.Warn, Path: file,
			Message: "not JSON: its MCP servers are not used"}}, nil
	}
	for i, part := range []json.RawMessage{doc.Hooks, doc.Permissions, doc.Env} {
		if len(part) > len("null") { // an empty object is what the program writes
			problems = append(problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn, Path: file,
				Message: []string{"hooks", "permissions", "env"}[i] + " has no effect in this file",
				Hint:    "move it to ~/.claude/settings.json"})
		}
	}
	off = map[string]bool{}
	for _, dir := range []string{o.Root, o.Dir} {
		for _, name := range doc.Projects[dir].OffProject {
			off[name] = true
		}
		for _, name := range doc.Projects[dir].Off {
			off[name] = false
		}
	}
	for _, part := range []json.RawMessage{doc.Projects[o.Dir].MCPServers, doc.Projects[o.Root].MCPServers,
		doc.MCPServers} {
		if len(part) == 0 || string(part) == "null" {
			continue
		}
		servers, bad := mcp.Parse(part, permission.User, file)
		all, problems = append(all, servers...), append(problems, bad...)
	}
	return all, problems, off
}

// ofPi returns the servers of the user's file of Pi; "": there is none.
func ofPi(file string) ([]mcp.Server, []knack.Problem) {
	if file == "" {
		return nil, nil
	}
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
func (o Options) ofProject() []serverFile {
	if !o.Project {
		return nil
	}
	root, err := regular.Root(o.Root)
	if err != nil {
		return nil
	}
	defer root.Close()
	rel, err := filepath.Rel(o.Root, o.Dir)
	if err != nil {
		return nil
	}
	var all []serverFile
	for _, dir := range layout.Dirs(rel, ".") {
		for _, row := range layout.Rows(layout.MCP) {
			name := filepath.Join(dir, filepath.FromSlash(row.Path))
			data, err := regular.ReadIn(root, name, 1<<20)
			place := filepath.Join(o.Root, name)
			var f serverFile
			switch {
			case errors.Is(err, fs.ErrNotExist) && regular.Absent(place, err) == nil:
				continue
			case err != nil:
				f.problems = []knack.Problem{{Code: knack.CodeUnreadable, Severity: knack.Error, Path: place,
					Message: "cannot be read: " + regular.Absent(place, err).Error()}}
			default:
				if err := o.Trust.Check(place, data); err != nil {
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
