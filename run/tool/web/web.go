// Package web provides the tools web_fetch and web_search.
//
// [Tools] returns them for one session. Pages are written by strangers, so what is fetched is marked as such, requests
// carry no cookies and credentials, every connection passes [guard], and a URL that could carry data out is asked about
// each time.
//
// Most programs start with package engine.
package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// Names of the tools.
const (
	FetchName  = "web_fetch"
	SearchName = "web_search"
)

// Options configure the tools. The zero Options fetch from public addresses and ask for every host; they offer no
// search.
type Options struct {
	Version string // of the program; sent as part of the user agent
	// HTTP sends the requests; nil: over the network, but to nothing on this machine or inside its network.
	HTTP http.RoundTripper
	// AllowPrivate are the hosts that may lead inside: "host", "host:port", "*.domain" or an address.
	AllowPrivate []string
	// Documentation lists the hosts that may be fetched from without approval; see [DocumentationHosts].
	Documentation []string
	// Ask sends a prompt to a fast model; nil: prompts are not answered.
	Ask func(ctx context.Context, prompt string) (string, llm.Spend, error)
	// Secrets returns the texts that the session read from secrets, which no URL may carry unasked; nil: there are
	// none.
	Secrets func() []string
	// Search finds pages; nil: web_search is not offered.
	Search Engine
	// NoSearch reports whether web_search is left out of the list of tools at the moment, because Search could not
	// search; nil: it is listed.
	NoSearch func() bool
}

// Limits of a request.
const (
	maxURL       = 2000 // characters
	maxRedirects = 5
	maxBody      = 10 << 20 // bytes as sent
	maxInflated  = 20 << 20
	requestTime  = 30 * time.Second
)

// Tools returns web_fetch, and web_search if there is an Engine. They share a cache for the life of the set.
func Tools(o Options) tool.Set {
	c := newClient(o)
	set := tool.Set{c.fetchTool()}
	if o.Search != nil {
		set = append(set, c.searchTool())
	}
	return set
}

// A client is what the tools of a session share.
type client struct {
	opt   Options
	http  http.RoundTripper
	cache cache
	now   func() time.Time

	mu      sync.Mutex
	proxies map[string]string // the proxy through which a host was last reached
	calls   int               // of web_search
}

func newClient(o Options) *client {
	c := &client{opt: o, http: o.HTTP, now: time.Now, proxies: map[string]string{}}
	if c.http == nil {
		c.http = guard.New(guard.Options{Open: o.AllowPrivate, Proxied: c.proxied})
	}
	return c
}
