package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/offline"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/web"
)

// WebTools returns the tools for the web as a program without a conversation uses them: no model answers prompts, and
// no MCP server searches. The zero Project has no settings.
func (p *Project) WebTools() tool.Set {
	o := p.webOptions()
	o.Search, _ = p.searchEngine()
	return web.Tools(o)
}

func (p *Project) webOptions() web.Options {
	o := web.Options{Documentation: web.DocumentationHosts()}
	if p.config == nil {
		return o
	}
	set := &p.config.Settings.Web
	o.Version, o.AllowPrivate = p.Version(), set.AllowPrivate
	if set.DocumentationHosts != nil {
		o.Documentation = set.DocumentationHosts
	}
	return o
}

// searchEngine returns the search engine of the setting web.search; nil: it is not set, or needs a
// session.
func (p *Project) searchEngine() (web.Engine, error) {
	if p.config == nil {
		return nil, nil
	}
	set := &p.config.Settings.Web.Search
	if set.Engine == "" || set.Engine == web.EngineProvider || strings.HasPrefix(set.Engine, mcpPrefix) {
		return nil, nil
	}
	key := set.Key
	if name, ok := strings.CutPrefix(key, "$"); ok {
		key = p.options.Env.Get(strings.Trim(name, "{}"))
	}
	e, err := web.NewEngine(set.Engine, set.URL, key)
	if err != nil {
		return nil, err // a nil web.Engine, not one that contains nil
	}
	return e, nil
}

const mcpPrefix = "mcp__"

// webTools makes the session's tools for the web.
func (s *Session) webTools(p *Project) tool.Set {
	o := p.webOptions()
	o.Ask, o.Secrets = s.askAboutPage, s.reads.secretTexts
	var err error
	if o.Search, err = p.searchEngine(); err != nil {
		s.problems = append(s.problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn,
			Message: "web.search: " + err.Error(), Hint: "knack help settings"})
	}
	if name := p.config.Settings.Web.Search.Engine; strings.HasPrefix(name, mcpPrefix) {
		o.Search = s.searchByMCP(name)
	}
	if p.config.Settings.Web.Search.Engine == web.EngineProvider {
		o.Search = web.ByModel(func(ctx context.Context) (llm.Model, error) { return fastModel(ctx, s) })
		o.NoSearch = func() bool {
			s.mu.Lock()
			m := s.lastModel
			s.mu.Unlock()
			return m != nil && !m.Info().Search
		}
	}
	return web.Tools(o)
}

// searchByMCP returns an Engine that calls a tool of an MCP server, which the user named in settings. The search is
// decided on as a web search, not once more as a call of that tool.
func (s *Session) searchByMCP(name string) web.Engine {
	return web.EngineFunc(func(ctx context.Context, q web.Query) ([]web.Hit, error) {
		if server, _, ok := strings.Cut(strings.TrimPrefix(name, mcpPrefix), "__"); ok {
			if err := s.servers.Connect(ctx, server); err != nil {
				return nil, err
			}
		}
		t, ok := s.servers.tools().Find(name)
		if !ok {
			return nil, errors.New("the tool " + name + ", which the setting web.search.engine names, is not available")
		}
		input, err := json.Marshal(map[string]string{"query": q.WithSites()})
		if err != nil {
			return nil, err
		}
		res := tool.Call(ctx, tool.Set{*t}, llm.ToolCall{ID: "search", Name: t.Name, Input: input}, tool.AllowAll, nil)
		text := llm.TextOf(res.Parts)
		if res.IsError {
			return nil, errors.New(text)
		}
		return web.HitsIn(res.Structured, text), nil
	})
}

// fastModel returns the fast model of the session's provider.
func fastModel(ctx context.Context, s *Session) (llm.Model, error) {
	t := s.Now()
	if err := t.useModel(ctx); err != nil {
		return nil, err
	}
	return t.agent.Resolve("fast")
}

// askAboutPage asks the fast model about a page and returns its answer.
func (s *Session) askAboutPage(ctx context.Context, prompt string) (string, llm.Spend, error) {
	m, err := fastModel(ctx, s)
	if err != nil {
		return "", llm.Spend{}, err
	}
	if m.Info().ID == offline.ID {
		return "", llm.Spend{}, errors.New("the offline model answers nothing")
	}
	answer, err := llm.Ask(ctx, m, &llm.Request{MaxTokens: 2000,
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text(prompt)}}}})
	if err != nil {
		return "", llm.Spend{}, err
	}
	return llm.TextOf(answer.Message.Parts), llm.SpendOf(m, answer.Usage), nil
}
