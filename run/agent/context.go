package agent

import (
	"github.com/knack-agent/knack/run/session"
)

// A Context is the size of the next request: the bytes of each part, and the tokens of the whole.
type Context struct {
	System   int // the system text
	Tools    int // names, descriptions and schemas, without the listing of skills
	Listing  int // the listing of skills; in index mode it is counted in System
	Texts    int // texts of skills
	Messages int // all other messages
	Tokens   int // of the whole request, estimated from the provider's last count
}

// Context measures the request that the session would send now.
func (a *Agent) Context(log *session.Log) Context {
	r := newRun(a, log)
	state := log.State()
	if state.Listing == nil && r.showsListing() { // before the first request
		l := r.Skills.Catalog().Listing(r.listing.view(state))
		state.Listing, state.Announced = &session.Listing{Text: l.Text}, l.Fingerprints()
	}
	overhead := r.overhead(state)
	c := Context{System: len(a.System), Tools: overhead - len(a.System)}
	if state.Listing != nil && !a.Skills.View.Index && len(state.Announced) > 0 {
		c.Listing = min(len(state.Listing.Text), c.Tools)
		c.Tools -= c.Listing
	}
	size := log.Bytes()
	for _, t := range state.Texts {
		c.Texts += 4 * t.Tokens
	}
	c.Texts = min(c.Texts, size)
	c.Messages = size - c.Texts
	c.Tokens, _ = log.Size(overhead)
	return c
}
