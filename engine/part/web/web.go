// Package web is the part with the tools for the web.
package web

import (
	"context"
	"errors"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/offline"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/web"
)

// Part is the web: web_fetch, and web_search if the setting web.search names an engine. Sub-agents have them too.
func Part() engine.Part {
	return engine.Part{Name: "web", Open: open, Known: func(engine.Brought) engine.PartTools {
		return engine.PartTools{Shared: web.Tools(web.Options{Search: web.EngineFunc(nil)})}
	}}
}

// Tools returns the tools as a program without a conversation uses them: no model answers prompts, and no MCP server
// searches. With a nil Project there are no settings.
func Tools(p *engine.Project) tool.Set {
	if p == nil {
		return web.Tools(web.Options{Documentation: web.DocumentationHosts()})
	}
	set := settingsOf(p)
	o := set.options(p)
	o.Search, _ = set.engine(p.Env())
	return web.Tools(o)
}

// settings are those of the web.
type settings struct {
	AllowPrivate       []string
	DocumentationHosts []string // nil: those that the program knows
	Search             struct {
		Engine, URL string
		Key         string // or $NAME, a variable
	}
}

func settingsOf(p *engine.Project) settings {
	var all struct{ Web settings }
	p.ReadSettings(&all) // the engine has read them
	return all.Web
}

func (set *settings) options(p *engine.Project) web.Options {
	o := web.Options{Version: p.Version(), AllowPrivate: set.AllowPrivate, Documentation: set.DocumentationHosts}
	if o.Documentation == nil {
		o.Documentation = web.DocumentationHosts()
	}
	return o
}

// engine returns the search engine that is set; nil: none is, or it needs a session.
func (set *settings) engine(env engine.Env) (web.Engine, error) {
	s := &set.Search
	if s.Engine == "" || s.Engine == web.EngineProvider || strings.HasPrefix(s.Engine, mcpPrefix) {
		return nil, nil
	}
	key := s.Key
	if name, ok := strings.CutPrefix(key, "$"); ok {
		key = env.Get(strings.Trim(name, "{}"))
	}
	e, err := web.NewEngine(s.Engine, s.URL, key)
	if err != nil {
		return nil, err // a nil web.Engine, not one that contains nil
	}
	return e, nil
}

const mcpPrefix = "mcp__"

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	set := settingsOf(c.Project())
	o := set.options(c.Project())
	o.Ask = func(ctx context.Context, prompt string) (string, llm.Spend, error) { return ask(ctx, c, prompt) }
	o.Secrets = func() []string { texts, _ := c.Reads().Secrets(); return texts }
	live := &engine.Live{}
	var err error
	if o.Search, err = set.engine(c.Project().Env()); err != nil {
		live.Problems = []knack.Problem{{Code: knack.CodeSettingIgnored, Severity: knack.Warn,
			Message: "web.search: " + err.Error(), Hint: "knack help settings"}}
	}
	switch name := set.Search.Engine; {
	case strings.HasPrefix(name, mcpPrefix):
		o.Search = byServer(c, name)
	case name == web.EngineProvider:
		o.Search = web.ByModel(c.FastModel)
		o.NoSearch = func() bool { m := c.LastModel(); return m.ID != "" && !m.Search }
	}
	live.Tools = func() engine.PartTools { return engine.PartTools{Shared: web.Tools(o)} }
	return live, nil
}

// byServer returns an Engine that calls a tool of an MCP server, which the user named in settings. The search is decided
// on as a web search, not once more as a call of that tool.
func byServer(c *engine.Conv, name string) web.Engine {
	return web.EngineFunc(func(ctx context.Context, q web.Query) ([]web.Hit, error) {
		res, err := c.CallServer(ctx, name, map[string]string{"query": q.WithSites()})
		if errors.Is(err, engine.ErrNoTool) {
			return nil, errors.New("the tool " + name + ", which the setting web.search.engine names, is not available")
		}
		if err != nil {
			return nil, err
		}
		text := llm.TextOf(res.Parts)
		if res.IsError {
			return nil, errors.New(text)
		}
		return web.HitsIn(res.Structured, text), nil
	})
}

// ask asks the fast model about a page and returns its answer.
func ask(ctx context.Context, c *engine.Conv, prompt string) (string, llm.Spend, error) {
	m, err := c.FastModel(ctx)
	if err != nil {
		return "", llm.Spend{}, err
	}
	if m.Info().ID == offline.ID {
		return "", llm.Spend{}, errors.New("the offline model answers nothing")
	}
	return llm.AskText(ctx, m, prompt, 2000)
}
