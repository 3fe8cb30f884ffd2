package web

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed search.md
var searchText string

//go:embed web_search.json
var searchSchema []byte

// A Query is what an Engine searches for.
type Query struct {
	Text string
	// Allowed are the only domains, and Blocked the domains that are left out; at most one of them is set. An Engine
	// that cannot restrict itself may ignore both, because the results are filtered.
	Allowed, Blocked []string
	// Spent is called with what a request to a model consumed; nil: nobody counts.
	Spent func(llm.Spend)
}

// A Hit is a page that an Engine found. Its texts are untrusted.
type Hit struct {
	Title, URL, Text string
	Site             string // the domain of the page, if URL is the engine's and leads there; "": that of URL
}

// An Engine finds pages on the web. It is safe for concurrent use.
type Engine interface {
	Search(ctx context.Context, q Query) ([]Hit, error)
}

// An EngineFunc is a func that implements Engine.
type EngineFunc func(context.Context, Query) ([]Hit, error)

func (f EngineFunc) Search(ctx context.Context, q Query) ([]Hit, error) { return f(ctx, q) }

type searchInput struct {
	Query   string   `json:"query" jsonschema:"what to search for"`
	Allowed []string `json:"allowed_domains,omitempty" jsonschema:"only pages of these domains"`
	Blocked []string `json:"blocked_domains,omitempty" jsonschema:"no pages of these domains; not together with allowed_domains"`
}

// Limits of searches.
const (
	maxSearches = 200 // a session
	maxHits     = 20
	maxQuery    = 400 // characters
	// A provider's own search includes an answer of a model.
	searchTime = 90 * time.Second
)

func (c *client) searchTool() tool.Tool {
	t := tool.Define(SearchName, strings.TrimSpace(searchText), searchSchema, c.search)
	t.Effect, t.Aliases, t.Strangers = tool.Network, []string{"WebSearch"}, tool.From("the web")
	t.Unlisted = c.opt.NoSearch
	t.Summary = tool.SummaryOf(func(in searchInput) string { return in.Query })
	t.Subjects = tool.SubjectsOf(func(_ context.Context, in searchInput) []permission.Subject {
		all := []permission.Subject{{Kind: permission.KindWebSearch}}
		sent := strings.Join(slices.Concat([]string{in.Query}, in.Allowed, in.Blocked), " ")
		if c.opt.Secrets != nil && Carries(sent, c.opt.Secrets()) {
			all = append(all, permission.Subject{Kind: dataKind, Text: in.Query, EveryTime: true,
				Note: "the query contains text that this session read from a secret"})
		}
		return all
	})
	return t
}

func (c *client) search(ctx context.Context, in searchInput, _ tool.Input) (tool.Result, error) {
	q := Query{Text: strings.TrimSpace(in.Query), Allowed: in.Allowed, Blocked: in.Blocked}
	switch {
	case q.Text == "":
		return tool.Result{}, errors.New("the query is empty")
	case len(q.Text) > maxQuery:
		return tool.Result{}, fmt.Errorf("the query has %d characters: at most %d are sent", len(q.Text), maxQuery)
	case len(q.Allowed) > 0 && len(q.Blocked) > 0:
		return tool.Result{}, errors.New("allowed_domains and blocked_domains cannot be used together")
	}
	c.mu.Lock()
	c.calls++
	n := c.calls
	c.mu.Unlock()
	if n > maxSearches {
		return tool.Result{}, fmt.Errorf("this session has searched %d times, which is the limit", maxSearches)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, searchTime, fmt.Errorf("the search took longer than %s", searchTime))
	defer cancel()
	var spent []llm.Spend
	q.Spent = func(s llm.Spend) { spent = append(spent, s) }
	hits, err := c.opt.Search.Search(ctx, q)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return tool.Result{Spent: spent}, fmt.Errorf("the search failed: %w", err)
	}
	var b strings.Builder
	shown := 0
	for _, h := range hits {
		u, err := parse(h.URL)
		if err != nil || !q.wants(cmp.Or(strings.ToLower(h.Site), u.Hostname())) || shown == maxHits {
			continue
		}
		shown++
		h.Title = cmp.Or(h.Title, h.Site, u.Hostname())
		title, _ := plain.Visible(strings.Join(strings.Fields(clip(h.Title, 200)), " "))
		text, _ := plain.Visible(strings.Join(strings.Fields(clip(h.Text, 500)), " "))
		fmt.Fprintf(&b, "%d. %s\n   %s\n", shown, title, u)
		if text != "" {
			fmt.Fprintf(&b, "   %s\n", text)
		}
	}
	if shown == 0 {
		res := tool.Text("No results.")
		res.People, res.Spent = "Found nothing for "+q.Text, spent
		return res, nil
	}
	res := tool.Text(stranger(b.String()))
	res.People, res.Spent = "Found "+plain.Count(shown, "page")+" for "+q.Text, spent
	return res, nil
}

// wants reports whether a query is about a host.
func (q Query) wants(host string) bool {
	below := func(domain string) bool {
		domain = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(domain)), "*.")
		return domain != "" && (host == domain || strings.HasSuffix(host, "."+domain))
	}
	return (len(q.Allowed) == 0 || slices.ContainsFunc(q.Allowed, below)) && !slices.ContainsFunc(q.Blocked, below)
}

// Names of search engines in settings. A name that begins with mcp__ is a tool of an MCP server.
const (
	EngineSearXNG = "searxng" // or another one with its answers: {results: [{title, url, content}]}
	EngineBrave   = "brave"
	EngineTavily  = "tavily"
	// EngineProvider is the search of the model's provider. [NewEngine] does not know it: see [ByModel].
	EngineProvider = "provider"
)

// NewEngine returns the Engine with a name: searxng (with the URL of the server), brave or tavily (with a key, and with
// a URL for another address than the usual one).
func NewEngine(name, address, key string) (Engine, error) {
	usual := map[string]string{EngineSearXNG: "", EngineBrave: "https://api.search.brave.com/res/v1/web/search",
		EngineTavily: "https://api.tavily.com/search"}
	at, ok := usual[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no search engine %q: provider, searxng, brave, tavily, or a tool mcp__SERVER__TOOL",
			clip(name, 100))
	case name == EngineSearXNG && address == "":
		return nil, errors.New("searxng needs the url of the server")
	case name != EngineSearXNG && key == "":
		return nil, fmt.Errorf("%s needs a key", name)
	}
	if address != "" {
		at = address
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the URL of a search engine", clip(at, 200))
	}
	e := endpoint{url: u, key: key}
	return EngineFunc(map[string]func(context.Context, Query) ([]Hit, error){
		EngineSearXNG: e.searxng, EngineBrave: e.brave, EngineTavily: e.tavily}[name]), nil
}

// An endpoint is the address of a search engine that the user configured. It may be on this machine.
type endpoint struct {
	url *url.URL
	key string
}

func (e endpoint) searxng(ctx context.Context, q Query) ([]Hit, error) {
	u := *e.url
	if u.Path == "" || u.Path == "/" {
		u.Path = "/search"
	}
	v := u.Query()
	v.Set("q", q.WithSites())
	v.Set("format", "json")
	u.RawQuery = v.Encode()
	var got struct {
		Results []struct{ Title, URL, Content string }
	}
	if err := e.call(ctx, http.MethodGet, &u, nil, http.Header{}, &got); err != nil {
		return nil, err
	}
	var hits []Hit
	for _, r := range got.Results {
		hits = append(hits, Hit{Title: r.Title, URL: r.URL, Text: r.Content})
	}
	return hits, nil
}

func (e endpoint) brave(ctx context.Context, q Query) ([]Hit, error) {
	u := *e.url
	v := u.Query()
	v.Set("q", q.WithSites())
	v.Set("count", "20")
	u.RawQuery = v.Encode()
	var got struct {
		Web struct {
			Results []struct{ Title, URL, Description string }
		}
	}
	if err := e.call(ctx, http.MethodGet, &u, nil, http.Header{"X-Subscription-Token": {e.key}}, &got); err != nil {
		return nil, err
	}
	var hits []Hit
	for _, r := range got.Web.Results {
		hits = append(hits, Hit{Title: r.Title, URL: r.URL, Text: r.Description})
	}
	return hits, nil
}

func (e endpoint) tavily(ctx context.Context, q Query) ([]Hit, error) {
	body, err := json.Marshal(struct {
		Query   string   `json:"query"`
		Max     int      `json:"max_results"`
		Include []string `json:"include_domains,omitempty"`
		Exclude []string `json:"exclude_domains,omitempty"`
	}{q.Text, maxHits, q.Allowed, q.Blocked})
	if err != nil {
		return nil, err
	}
	var got struct {
		Results []struct{ Title, URL, Content string }
	}
	if err := e.call(ctx, http.MethodPost, e.url, body, http.Header{"Authorization": {"Bearer " + e.key}},
		&got); err != nil {
		return nil, err
	}
	var hits []Hit
	for _, r := range got.Results {
		hits = append(hits, Hit{Title: r.Title, URL: r.URL, Text: r.Content})
	}
	return hits, nil
}

// WithSites returns the text of a query with the operators that restrict it to sites, which most engines know.
func (q Query) WithSites() string {
	text := q.Text
	for i, d := range q.Allowed {
		if i > 0 {
			text += " OR"
		}
		text += " site:" + d
	}
	for _, d := range q.Blocked {
		text += " -site:" + d
	}
	return text
}

// call sends a request to a search engine and decodes its answer. The key is not sent anywhere else: a redirect fails.
func (e endpoint) call(ctx context.Context, method string, u *url.URL, body []byte, h http.Header, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	h.Set("Accept", "application/json")
	if body != nil {
		h.Set("Content-Type", "application/json")
	}
	req.Header = h
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", u.Host, status(res.StatusCode))
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s does not answer with the JSON of a search: %w", u.Host, err)
	}
	return nil
}

// HitsIn finds hits in the result of a tool of an MCP server: structured, or else its text, is a list of objects with a
// url or link, a title or name, and a content, description or snippet; it may be in the field of an object. In other
// text, each line with a URL is a hit.
func HitsIn(structured any, text string) []Hit {
	data, err := json.Marshal(structured)
	if err != nil || structured == nil {
		data = []byte(text)
	}
	if hits := hitsInJSON(data, 3); len(hits) > 0 {
		return hits
	}
	var hits []Hit
	title := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		i := strings.Index(line, "https://")
		if i < 0 {
			i = strings.Index(line, "http://")
		}
		if i < 0 {
			title = strings.Trim(line, "#*-0123456789. ")
			continue
		}
		address := strings.TrimRight(strings.FieldsFunc(line[i:], func(r rune) bool {
			return r <= ' ' || strings.ContainsRune("<>()[]\"'`", r)
		})[0], ".,;:")
		if before := strings.Trim(line[:i], "#*-0123456789.:<([]) "); len(before) > 3 && !strings.EqualFold(before, "url") {
			title = before
		}
		hits = append(hits, Hit{Title: title, URL: address})
		title = ""
	}
	return hits
}

func hitsInJSON(data []byte, depth int) []Hit {
	var list []struct {
		URL, Link, Title, Name, Content, Description, Snippet string
	}
	if json.Unmarshal(data, &list) == nil {
		var hits []Hit
		for _, x := range list {
			if address := cmp.Or(x.URL, x.Link); address != "" {
				hits = append(hits, Hit{Title: cmp.Or(x.Title, x.Name), URL: address,
					Text: cmp.Or(x.Content, x.Description, x.Snippet)})
			}
		}
		return hits
	}
	var object map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(data, &object) != nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if hits := hitsInJSON(object[key], depth-1); len(hits) > 0 {
			return hits
		}
	}
	return nil
}

// ByModel returns an Engine that lets the provider of a model search; model is called for each search. What the model
// answers is not used, only the pages that the provider names.
func ByModel(model func(context.Context) (llm.Model, error)) Engine {
	return EngineFunc(func(ctx context.Context, q Query) ([]Hit, error) {
		m, err := model(ctx)
		if err != nil {
			return nil, err
		}
		if !m.Info().Search {
			return nil, fmt.Errorf("the provider of %s has no search of its own: knack help tools", m.Info().ID)
		}
		ask := "Search the web once for: " + q.Text
		if len(q.Allowed) > 0 {
			ask += "\nOnly pages of these domains: " + strings.Join(q.Allowed, ", ")
		}
		if len(q.Blocked) > 0 {
			ask += "\nNo pages of these domains: " + strings.Join(q.Blocked, ", ")
		}
		answer, err := llm.Ask(ctx, m, &llm.Request{
			System: "Search the web with your tool, always. Then name each page that you found, with one sentence about " +
				"what it says.",
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text(ask)}}}, MaxTokens: 4000,
			Search: &llm.Search{Allowed: q.Allowed, Blocked: q.Blocked},
		})
		if err != nil {
			return nil, err
		}
		if q.Spent != nil {
			q.Spent(llm.SpendOf(m, answer.Usage))
		}
		var hits []Hit
		for _, s := range answer.Sources {
			hits = append(hits, Hit{Title: s.Title, URL: s.URL, Text: s.Text, Site: s.Site})
		}
		return hits, nil
	})
}
