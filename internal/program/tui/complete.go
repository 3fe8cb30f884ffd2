package tui

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/search"
	"github.com/knack-agent/knack/internal/program/terminal"
)

// menuKey handles a key for the completion menu, and reports whether it did.
func (a *app) menuKey(k terminal.Key) bool {
	switch k.String() {
	case "up", "down", "ctrl+p", "ctrl+n", "pageup", "pagedown":
		a.view.menu.key(k)
	case "esc":
		a.view.menu = nil
	case "tab":
		a.view.menu.at = max(a.view.menu.at, 0)
		a.complete()
	case "enter":
		it, ok := a.view.menu.picked()
		whole := ok && strings.HasSuffix(a.prompt.Before(), it.value) && a.menuFrom == len(it.value)
		if !ok || whole || it.ready {
			a.complete()
			a.view.menu = nil
			return false // Enter submits the prompt
		}
		a.complete()
	default:
		return false
	}
	return true
}

// complete inserts the chosen completion into the prompt.
func (a *app) complete() bool {
	if a.view.menu == nil {
		return false
	}
	it, ok := a.view.menu.picked()
	n := a.menuFrom
	a.view.menu = nil
	if !ok || strings.HasSuffix(a.prompt.Before(), it.value) && len(it.value) == n {
		return false
	}
	if it.open {
		a.prompt.Replace(n, it.value)
		a.menu()
		return true
	}
	a.prompt.Replace(n, it.value+" ")
	return true
}

// word returns the word before the cursor.
func (a *app) word() string {
	before := a.prompt.Before()
	if i := strings.LastIndex(before, `@"`); i >= 0 && !strings.ContainsAny(before[i+2:], "\"\n") &&
		strings.LastIndexAny(before[:i], " \n\t") == i-1 {
		return before[i:] // a path with blanks
	}
	return before[strings.LastIndexAny(before, " \n\t")+1:]
}

// menu opens, narrows or closes the completions for the word before the cursor.
func (a *app) menu() {
	before := a.prompt.Before()
	var items []item
	word := a.word()
	switch {
	case strings.HasPrefix(before, "/") && !strings.ContainsAny(before, " \n"):
		items, word = a.slash(), before
	case strings.HasPrefix(word, "@"):
		items = a.mentions(word)
	}
	if len(items) == 0 {
		a.view.menu = nil
		return
	}
	query := strings.TrimLeft(word, "/@\"")
	m := a.view.menu
	if m == nil || &m.items[0] != &items[0] {
		m = &picker{items: items}
	}
	m.query = query
	m.filter()
	named := func(i int) bool { return strings.Contains(strings.ToLower(m.items[i].label), strings.ToLower(query)) }
	switch slash := strings.HasPrefix(word, "/"); {
	case slash && isOtherName(a.session.Engine().Project().Commands(), query):
		m.at = -1 // a command is typed by another name of it: Enter sends that
	case slash && slices.ContainsFunc(m.found, named):
		m.found = slices.DeleteFunc(m.found, func(i int) bool { return !named(i) })
	case len(m.found) > 0 && !named(m.found[0]):
		m.at = -1 // only scattered letters or a description match: Enter sends what was typed
	}
	a.view.menu, a.menuFrom = m, len(word)
	if len(m.found) == 0 {
		a.view.menu = nil
	}
}

// isOtherName reports whether a command is known by this name beside its own.
func isOtherName(all []engine.Command, name string) bool {
	return slices.ContainsFunc(all, func(c engine.Command) bool { return slices.Contains(c.Also, name) })
}

// ownBonus lets commands of the program come before skills that match as well, but not before a skill whose name
// begins with what was typed, or is it.
const ownBonus = 200

// slash returns the completions for a slash.
func (a *app) slash() []item {
	if a.commands != nil {
		return a.commands
	}
	all := a.session.Now().Commands()
	items := make([]item, 0, len(all)+len(local))
	for _, c := range all {
		if plain.Line(c.Name) != c.Name {
			continue // what is shown is not what would have to be typed
		}
		help := c.Description
		if c.Skill != nil {
			help += "  (" + string(c.Skill.Origin.Kind) + ")"
		}
		bonus := 0
		if c.Skill == nil {
			bonus = ownBonus
		}
		ready := c.Skill == nil && (c.Hint == "" || strings.HasPrefix(c.Hint, "["))
		items = append(items, item{value: "/" + c.Name, label: "/" + c.Name, help: help, ready: ready, bonus: bonus})
	}
	for _, c := range local {
		items = append(items, item{value: "/" + c.name, label: "/" + c.name, help: c.help, ready: true,
			bonus: ownBonus})
	}
	a.commands = items
	return items
}

// maxFiles is the maximum number of files offered after @.
const maxFiles = 200_000

// mentions returns the agents, the MCP servers with resources and the files of the project, or for a
// word that names one of these servers its resources. Files and resources are read in the background;
// until they are there, the list is empty.
func (a *app) mentions(word string) []item {
	if server, _, ok := strings.Cut(word[1:], ":"); ok {
		if _, known := a.resources[server]; known || slices.Contains(a.session.MCP().WithResources(), server) {
			return a.resourcesOf(server)
		}
	}
	if a.files == nil && !a.reading {
		a.reading = true
		dir := a.session.Engine().Project().Dir()
		a.work(func(ctx context.Context) func() {
			files := projectFiles(ctx, dir)
			return func() {
				a.files, a.named, a.reading = files, nil, false
				a.menu()
			}
		})
	}
	if a.named == nil {
		a.named = []item{}
		for _, d := range a.session.Engine().Project().Agents() {
			name := "agent-" + d.Name
			if !slices.ContainsFunc(a.named, func(it item) bool { return it.label == name }) && plain.Line(name) == name {
				a.named = append(a.named, item{value: "@" + name, label: name, help: d.Description})
			}
		}
		for _, name := range a.session.MCP().WithResources() {
			a.named = append(a.named, item{value: "@" + name + ":", label: name + ":", help: "resources of the MCP server",
				open: true})
		}
		for _, f := range a.files {
			a.named = append(a.named, item{value: engine.Mention(f), label: f})
		}
	}
	return a.named
}

// resources are the resources of an MCP server as completions.
type resources struct {
	items   []item
	read    time.Time // zero: they may have changed since
	reading bool
}

// resourcesTime is how long resources are not read again if the server reports no change.
const resourcesTime = 30 * time.Second

// resourcesOf returns the resources of an MCP server as they were last read, and reads them in the background if
// they may have changed.
func (a *app) resourcesOf(server string) []item {
	if a.resources == nil {
		a.resources = map[string]*resources{}
	}
	r := a.resources[server]
	if r == nil {
		r = &resources{}
		a.resources[server] = r
	}
	if r.reading || time.Since(r.read) < resourcesTime {
		return r.items
	}
	r.reading, r.read = true, time.Now()
	s := a.session
	a.work(func(ctx context.Context) func() {
		found, err := s.MCP().Resources(ctx, server)
		items := make([]item, len(found))
		for i, r := range found {
			label := server + ":" + r.URI
			items[i] = item{value: "@" + label, label: label, help: r.Description}
		}
		return func() {
			r.reading = false
			switch {
			case s != a.session:
				return
			case err != nil:
				r.read = time.Time{} // the next key tries again
				return
			case r.read.IsZero(): // they changed meanwhile
				a.resourcesOf(server)
			}
			if !slices.Equal(items, r.items) {
				r.items = items
				a.menu()
			}
		}
	})
	return r.items
}

// resourcesChanged makes the next use of resources read them again. Those of an open menu are read at once.
func (a *app) resourcesChanged() {
	for _, r := range a.resources {
		r.read = time.Time{}
	}
	if word := a.word(); a.view.menu != nil && strings.HasPrefix(word, "@") {
		a.mentions(word)
	}
}

// projectFiles lists the files below dir that are not ignored.
func projectFiles(ctx context.Context, dir string) []string {
	files := []string{}
	root, err := search.OpenDir(dir)
	if err != nil {
		return files
	}
	defer root.Close()
	walk := search.Walk{Root: root, Ignore: ignore.New(os.DirFS(dir)).Root()}
	for f := range search.Each(ctx, walk, func() func(*search.Found) []string {
		return func(e *search.Found) []string {
			if !e.Type.IsRegular() {
				return nil
			}
			return []string{e.Path()}
		}
	}) {
		if plain.Line(f) == f {
			files = append(files, f)
		}
		if len(files) == maxFiles {
			break
		}
	}
	return files
}
