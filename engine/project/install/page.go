package install

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
)

// A Page is what a person sees of a plugin before it is installed.
type Page struct {
	Skills   []string        `json:"skills"`
	Commands []string        `json:"commands"`
	Prompts  []string        `json:"prompts,omitempty"` // templates
	Agents   []string        `json:"agents"`
	Runs     []Run           `json:"runs"`
	Wants    []string        `json:"wants,omitempty"` // what it asks its user for, see plugin.ConfigValue
	Unused   []string        `json:"unused"`
	Problems []knack.Problem `json:"problems"`
	// PinnedBy is the project's lock that asks for the commit, which may not be the newest; "": none.
	PinnedBy string `json:"pinnedBy,omitempty"`
	// Always is the number of tokens that the plugin adds to every request: its part of the list of skills and agents.
	// OnUse is that of its largest skill.
	Always int `json:"tokensAlways"`
	OnUse  int `json:"tokensOnUse"`
}

// A Run is something that the plugin may run, or an address that it may reach, in full.
type Run struct {
	What string `json:"what"` // "hook on PreToolUse", "server db", "command of the skill x"
	Text string `json:"text"` // the command line or address
	Host string `json:"host,omitempty"`
}

// Describe reads what a plugin whose tree is in dir brings.
func Describe(ctx context.Context, p *plugin.Plugin, dir string) Page {
	page := Page{Skills: []string{}, Commands: []string{}, Agents: []string{}, Runs: []Run{}, Unused: slices.Clone(p.Unused),
		Problems: p.Problems}
	for _, c := range p.UserConfig {
		text := c.Key
		if c.Sensitive {
			text += " (a secret)"
		}
		page.Wants = append(page.Wants, text)
	}
	list := func(places plugin.Plugin, names *[]string) {
		cat := knack.Load(ctx, places.Sources(plugin.Location{Dir: dir, Origin: knack.Origin{Kind: knack.Plugin,
			Trust: knack.Trusted}})...)
		page.Problems = append(page.Problems, cat.Problems()...)
		for _, k := range cat.Skills() {
			*names = append(*names, k.Name)
			t := k.Tokens()
			if k.Offered() {
				page.Always += t.Listing
			}
			page.OnUse = max(page.OnUse, t.Body)
			page.skill(ctx, k)
		}
	}
	list(plugin.Plugin{Name: p.Name, Skills: p.Skills}, &page.Skills)
	list(plugin.Plugin{Name: p.Name, Commands: p.Commands}, &page.Commands)
	for _, f := range p.Prompts {
		page.Prompts = append(page.Prompts, "/"+f.Name)
	}
	if root, err := regular.Root(dir); err == nil {
		defer root.Close()
		for _, name := range p.Extensions {
			page.Unused = append(page.Unused, plugin.Extension(plugin.FS(root), name))
		}
		for _, f := range p.Agents {
			data, err := plugin.ReadFile(root, f.Path)
			if err != nil {
				continue // loading reports it
			}
			if d, _, ok := agent.ParseDefinition(f.Path, data, knack.Plugin); ok {
				name := p.Name + ":" + f.Name[:strings.LastIndexByte(f.Name, ':')+1] + d.Name
				page.Agents = append(page.Agents, name)
				page.Always += knack.EstimateTokens("- " + name + ": " + d.Description + "\n")
			}
		}
	}
	for _, part := range p.Hooks {
		hooks, bad := hook.Parse(part.JSON, nil)
		for i := range hooks {
			page.hook("hook on "+string(hooks[i].Event), &hooks[i])
		}
		for _, b := range bad {
			severity := knack.Warn
			if b.Minor {
				severity = knack.Info
			}
			page.Problems = append(page.Problems, knack.Problem{Code: knack.CodeHookInvalid, Severity: severity,
				Path: part.Path, Message: "hooks: " + b.Message})
		}
	}
	for _, part := range p.LanguageServers {
		page.languageServers(part)
	}
	for _, t := range p.Tools {
		page.Runs = append(page.Runs, Run{What: "tool " + t.Name, Text: t.Path})
	}
	for _, part := range p.Servers {
		servers, bad := mcp.Parse(part.JSON, permission.Plugin, part.Path)
		page.Problems = append(page.Problems, bad...)
		for _, s := range servers {
			page.server(&s)
		}
	}
	return page
}

// languageServers adds the programs of language servers, see package engine/part/diagnose.
func (p *Page) languageServers(part plugin.Part) {
	var servers map[string]struct {
		Command string
		Args    []string
	}
	if err := json.Unmarshal(part.JSON, &servers); err != nil {
		p.Problems = append(p.Problems, knack.Problem{Code: knack.CodePluginInvalid, Severity: knack.Warn, Path: part.Path,
			Message: "language servers: " + err.Error()})
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		p.Runs = append(p.Runs, Run{What: "language server " + name,
			Text: strings.Join(append([]string{s.Command}, s.Args...), " ")})
	}
}

func (p *Page) add(what, text, address string) {
	r := Run{What: what, Text: text}
	if u, err := url.Parse(address); err == nil {
		r.Host = u.Host
	}
	p.Runs = append(p.Runs, r)
}

func (p *Page) hook(what string, h *hook.Hook) {
	if h.Matcher != "" {
		what += " of " + h.Matcher
	}
	switch h.Type {
	case hook.OfHTTP:
		p.add(what+", sent to an address", h.URL, h.URL)
	case hook.OfPrompt:
		p.add(what+", a question to the fast model", h.Prompt, "")
	default:
		p.add(what, strings.Join(append([]string{cmp.Or(h.Command, h.Path)}, h.Args...), " "), "")
	}
}

func (p *Page) server(s *mcp.Server) {
	if s.Remote() {
		text := s.URL
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			text += "\nwith the header " + name + ": " + s.Headers[name]
		}
		if s.OAuth.ClientSecret != "" {
			text += "\nwith the client secret " + s.OAuth.ClientSecret
		}
		p.add("server "+s.Name, text, s.URL)
		if s.HeadersHelper != "" {
			p.add("command for the headers of the server "+s.Name, s.HeadersHelper, "")
		}
		return
	}
	text := strings.Join(append([]string{s.Command}, s.Args...), " ")
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		text = name + "=" + s.Env[name] + " " + text
	}
	network := cmp.Or(s.Network, "all")
	p.add("server "+s.Name+" (network: "+network+")", text, "")
}

// skill adds what a skill or command asks for and runs.
func (p *Page) skill(ctx context.Context, k *knack.Skill) {
	asks, err := k.Asks(ctx)
	if err != nil {
		return // loading reports it
	}
	for _, c := range asks.Commands {
		p.add("command of "+k.Name, c, "")
	}
	if len(asks.Grants) > 0 {
		p.add("allowed by "+k.Name+", while it is in use", strings.Join(asks.Grants, ", "), "")
	}
	if asks.Hooks != nil {
		hooks, _ := hook.Parse(asks.Hooks, nil)
		for i := range hooks {
			p.hook("hook of "+k.Name+" on "+string(hooks[i].Event), &hooks[i])
		}
	}
}

// Write writes the page for a person. All texts of the plugin are escaped, and none is cut.
func (p Page) Write(w io.Writer, st *Staged, id string) {
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-12s %s\n", name, plain.Line(text))
		}
	}
	what := "plugin"
	if st.Plugin.Name == "" {
		what = "skill"
	}
	line(what, strings.TrimSpace(id+" "+st.Plugin.Version))
	line("description", st.Plugin.Description)
	line("author", st.Plugin.Author)
	line("license", st.Plugin.License)
	line("source", st.Source.String())
	line(map[bool]string{true: "version", false: "commit"}[st.Source.Kind == plugin.NPM], st.Commit)
	if p.PinnedBy != "" {
		line("pinned by", p.PinnedBy+", which the project brings: there may be a newer one")
	}
	line("signed by", SignerNames(st.Signers))
	line("attested by", st.Attested)
	line("content", fmt.Sprintf("%s, %s", plain.Count(len(st.Files), "file"), st.Tree))
	for _, x := range []struct {
		name string
		all  []string
	}{{"skills", p.Skills}, {"commands", p.Commands}, {"prompts", p.Prompts}, {"agents", p.Agents}} {
		line(x.name, strings.Join(x.all, ", "))
	}
	if len(p.Wants) > 0 {
		line("wants", strings.Join(p.Wants, ", ")+": knack skill secrets "+st.Plugin.Name)
	}
	line("tokens", fmt.Sprintf("%d in every request, up to %d when a skill is used", p.Always, p.OnUse))
	if len(p.Runs) > 0 {
		fmt.Fprintln(w, "\nIt may run, in the sandbox:")
		for _, r := range p.Runs {
			fmt.Fprintf(w, "  %s:\n", plain.Line(r.What))
			for text := range strings.SplitSeq(strings.TrimSpace(r.Text), "\n") {
				fmt.Fprintf(w, "      %s\n", plain.Line(text))
			}
		}
	}
	if len(p.Unused) > 0 {
		fmt.Fprintln(w, "\nNot used by this program:")
		for _, u := range p.Unused {
			fmt.Fprintf(w, "  %s\n", plain.Line(u))
		}
		if len(st.Extensions) > 0 {
			fmt.Fprintln(w, "  instead: a command as a prompt, a tool with knack tool new, a hook: knack help hooks")
		}
	}
	for _, name := range st.Skipped {
		fmt.Fprintf(w, "left out: %s is a link that leads out of the plugin\n", plain.Line(name))
	}
	for _, x := range p.Problems {
		if x.Severity == knack.Info {
			continue
		}
		if rel, err := filepath.Rel(st.Dir, x.Path); err == nil && filepath.IsLocal(rel) {
			x.Path = filepath.ToSlash(rel)
		}
		fmt.Fprintf(w, "%s: %s\n", x.Severity, plain.Line(x.String()))
	}
}
