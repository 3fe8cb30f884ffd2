package servers

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/mcp"
)

// A Project is what the servers of a directory need to know of it as it is now. Projects are comparable.
type Project interface {
	// Servers returns the servers of the settings and of the project. The problems are about those that are left out.
	Servers() ([]mcp.Server, []knack.Problem)
	// FirstWait is how long the first request waits for servers whose tools are not known yet; 0: it does not wait.
	FirstWait() time.Duration
	// NewClient makes a client for servers and does not start them; changed is called when the state of one has changed.
	NewClient(servers []mcp.Server, changed func()) *mcp.Client
}

// DefaultFirstWait is the FirstWait of a project that says nothing about it.
const DefaultFirstWait = 5 * time.Second

// Directory has the MCP servers of the settings and of the project, which the sessions of a directory share. Its
// methods may be called at any time and from any goroutine. The exported fields are set before the first call.
type Directory struct {
	Project func() Project
	Library *knack.Library      // gets the servers' skills
	Report  func(knack.Problem) // tells the user
	Changed func()              // called when the state of a server has changed
	Silent  string              // the file with the servers that no first request waits for; "": there is none

	mu         sync.Mutex  // locked before what Project locks
	current    *mcp.Client // nil: not needed yet
	madeFor    Project     // what current was made for
	configured []mcp.Server
	sources    []serverSource // the servers' skills in the library
	reported   []string       // servers whose failure was reported
	closing    bool
}

// Client returns the client for the servers of the settings and of the project. It does not start them.
func (d *Directory) Client() (client *mcp.Client) {
	remembered := false // a new client has skills of servers that were connected before
	defer func() {
		if remembered {
			d.refresh(client)
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.Project()
	if d.closing && d.current != nil {
		return d.current
	}
	if d.current != nil && d.madeFor == p {
		return d.current
	}
	servers, problems := p.Servers()
	for _, x := range problems {
		d.Report(x)
	}
	if d.current != nil && reflect.DeepEqual(servers, d.configured) {
		d.madeFor = p
		return d.current
	}
	old := d.current
	client = p.NewClient(servers, func() { d.refresh(client) })
	d.current, d.configured, d.madeFor, d.sources, d.reported = client, servers, p, nil, nil
	if old != nil {
		go old.Close()
	}
	remembered = len(client.SkillLists()) > 0
	return client
}

// serverSource is the skills of one server in the catalogue.
type serverSource struct {
	source knack.Source
	list   int // see mcp.Client.SkillLists
}

// refresh updates the catalogue with the skills that the client's servers list now, reports
// failed servers, and notifies the callers of Watch. Any goroutine may call it.
func (d *Directory) refresh(client *mcp.Client) {
	d.mu.Lock()
	if d.current != client { // another one has replaced it
		d.mu.Unlock()
		return
	}
	var added, changed []knack.Source
	if !d.closing {
		lists := client.SkillLists()
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			src := client.Skills(name)
			i := slices.IndexFunc(d.sources, func(x serverSource) bool { return x.source == src })
			switch {
			case i < 0:
				d.sources, added = append(d.sources, serverSource{src, lists[name]}), append(added, src)
			case d.sources[i].list != lists[name]:
				d.sources[i].list, changed = lists[name], append(changed, src)
			}
		}
	}
	reports := serverReports(client, &d.reported)
	d.mu.Unlock()
	if len(added) > 0 {
		d.Library.Add(context.Background(), added...)
	}
	if len(changed) > 0 {
		d.Library.Refresh(context.Background(), changed...)
	}
	for _, x := range reports {
		d.Report(x)
	}
	d.Changed()
}

// serverReports returns problems of servers that failed and of servers that leave something out. known
// records what was reported: each kind is reported once per server.
func serverReports(client *mcp.Client, known *[]string) []knack.Problem {
	var all []knack.Problem
	once := func(key string) bool {
		if slices.Contains(*known, key) {
			return false
		}
		*known = append(*known, key)
		return true
	}
	for _, s := range client.Servers() {
		if s.State == mcp.Failed && s.Reason != "" && once("failed "+s.Name) {
			all = append(all, knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: s.DefinedIn,
				Message: "MCP server " + s.Name + " is not connected: " + s.Reason, Hint: "knack mcp test " + mcp.Safe(s.Name)})
		}
		if login := "mcp login " + mcp.Safe(s.Name); s.State == mcp.NeedsLogin && once(login) {
			all = append(all, knack.Problem{Code: knack.CodeMCPServer, Severity: knack.Warn, Path: s.DefinedIn,
				Message: "MCP server " + s.Name + " needs a login", Hint: "/" + login + ", or knack " + login})
		}
		if n := len(s.Problems); n > 0 && once("problem "+s.Name) {
			x := s.Problems[0]
			if n > 1 {
				x.Message += fmt.Sprintf(" (and %s)", plain.Count(n-1, "more problem"))
			}
			all = append(all, x)
		}
	}
	return all
}

// Reload switches to the servers of a reloaded project. Servers whose definition has not
// changed stay connected.
func (d *Directory) Reload() {
	d.mu.Lock()
	running := d.current != nil
	d.sources = nil // their sources were replaced together with the others
	d.mu.Unlock()
	if running {
		client := d.Client()
		client.Start()
		d.refresh(client)
	}
}

// Close stops the servers.
func (d *Directory) Close() error {
	d.mu.Lock()
	client := d.current
	d.closing = true
	d.mu.Unlock()
	if client == nil {
		return nil
	}
	return client.Close()
}
