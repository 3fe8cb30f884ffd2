// Package serverfiles reads the definitions of MCP servers that a directory and its user provide: in settings, in the
// files of a project, in those of other agents, of plugins and of the command line. It decides which one counts if
// several define a name, and starts nothing.
package serverfiles

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/mcp"
)

// Options say where definitions are.
type Options struct {
	Config  *config.Config
	Trust   *trust.Project
	Dir     string // where the session works; absolute
	Root    string // of the project; Dir is in it
	Given   []Given
	Managed []string                               // directories in which a file managed-mcp.json counts
	Claude  string                                 // the user's file of Claude Code; "": there is none
	Pi      string                                 // the user's file of Pi; "": there is none
	Plugins func() ([]mcp.Server, []knack.Problem) // those of the plugins in use

	Strict  bool // only the administrator's and those given
	Project bool // the project's files are read; settings are whatever Config has
}

// Definitions are the MCP servers that a directory and its user define. They may be used by any goroutine.
type Definitions struct {
	Options

	// InFiles are problems of the project's files. They are known without reading anything else.
	InFiles []knack.Problem

	once     sync.Once // for what follows
	all      []mcp.Server
	problems []knack.Problem // about servers that are left out
}

// New reads the project's files for their problems. All else is read when it is needed.
func New(o Options) *Definitions {
	d := &Definitions{Options: o}
	if !o.Strict {
		for _, f := range o.ofProject() {
			d.InFiles = append(d.InFiles, f.problems...)
		}
	}
	return d
}

// Servers returns the servers; of those with the same name, the one with the highest precedence. The problems are about
// servers that are left out. The first call reads the files; the slices must not be changed.
func (d *Definitions) Servers() ([]mcp.Server, []knack.Problem) {
	d.once.Do(func() {
		all, problems := d.find()
		d.all, d.problems = d.Permitted(all, problems)
	})
	return d.all, d.problems
}

// Permitted leaves out the servers that the settings, or a file managed-mcp.json, do not permit; problems get the
// reasons.
func (o Options) Permitted(all []mcp.Server, problems []knack.Problem) ([]mcp.Server, []knack.Problem) {
	_, _, only := ofManaged(o.Managed)
	all = slices.DeleteFunc(all, func(s mcp.Server) bool {
		var command []string
		if s.Command != "" {
			command = append([]string{s.Command}, s.Args...)
		}
		err := o.Config.Server(s.Origin, s.Name, command, s.URL)
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

// find reads the definitions in order of precedence: the administrator's, those of the command line, the user's, the
// project's. A project cannot define a server with a name that someone else has defined.
func (o Options) find() ([]mcp.Server, []knack.Problem) {
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
		for _, part := range o.Config.Raw["mcpServers"] {
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
	servers, bad, _ := ofManaged(o.Managed)
	add(servers, bad)
	for _, c := range o.Given {
		add(mcp.Parse(c.data, permission.Flag, c.place))
	}
	if o.Strict {
		return all, problems
	}
	settings(permission.Flag, permission.User)
	servers, bad, off := o.ofClaude()
	add(servers, bad)
	add(ofPi(o.Pi))
	for _, f := range o.ofProject() {
		all = slices.DeleteFunc(all, func(s mcp.Server) bool {
			return s.Origin == permission.User && slices.Contains(f.off, s.Name)
		})
		add(f.servers, f.problems)
	}
	settings(permission.Project)
	servers, bad = o.Plugins()
	servers, more := distinct(servers)
	add(servers, append(bad, more...))
	all = slices.DeleteFunc(all, func(s mcp.Server) bool {
		onlyProjects, isOff := off[s.Name]
		if !isOff || s.Origin != permission.Project &&
			(onlyProjects || s.Origin != permission.Plugin && s.DefinedIn != o.Claude) {
			return false
		}
		problems = append(problems, knack.Problem{Code: knack.CodeMCPInvalid, Severity: knack.Info, Path: o.Claude,
			Message: "MCP server " + plain.Line(s.Name) + " is off in Claude Code, for this directory",
			Hint:    "/mcp in Claude Code turns it on; or knack mcp add, under another name"})
		return true
	})
	for i := range all {
		if s := &all[i]; s.Origin == permission.Project {
			s.Network, s.Write = cmp.Or(o.Trust.Network(s.DefinedIn), "none"), o.Trust.Writable(s.DefinedIn)
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

// Given is a value of --mcp-config: a file, or JSON.
type Given struct {
	place string // the file, or the name of the flag
	data  []byte
}

// Read reads a value of --mcp-config, which must be JSON. given has the hash that each file must have; see
// [config.CheckGiven].
func Read(text string, given map[string]string) (Given, error) {
	c := Given{place: "--mcp-config", data: []byte(text)}
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
