package suite

import (
	"context"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/models"
)

// An Estimate is what a run may need, before it runs. It is a guess: trials are as long as the model makes them.
type Estimate struct {
	Queries, Trials int
	Requests        int     // to models, also those of judges
	USD             float64 // at the model's prices; 0 if these are not known
}

// Add adds the estimate of another suite.
func (e *Estimate) Add(o Estimate) {
	e.Queries += o.Queries
	e.Trials += o.Trials
	e.Requests += o.Requests
	e.USD += o.USD
}

// What conversations usually need. They were chosen to be rather too much.
const (
	basis         = 8000 // tokens of the system text and the tools
	queryRequests = 2
	queryOutput   = 200 // tokens of an answer
	caseRequests  = 8
	caseInput     = 4000 // tokens that a request of a trial adds to those before
	caseOutput    = 500
	judgeInput    = 12000
	judgeOutput   = 200
)

// Estimate guesses what a run needs.
func (s *Suite) Estimate(ctx context.Context, o Options) (e Estimate) {
	e.Queries, e.Trials = eval.Plan(s.Set, o.Run)
	listing := s.Listing(ctx)
	first := basis + listing.Tokens
	judged := 0
	for _, c := range s.Set.Cases {
		for _, k := range c.Checks {
			if k.Type == eval.Judged {
				judged++
			}
		}
	}
	if len(s.Set.Cases) > 0 {
		judged = judged * e.Trials / len(s.Set.Cases)
	}
	e.Requests = e.Queries*queryRequests + e.Trials*caseRequests + judged
	if o.Model == nil {
		return e
	}
	price := o.Model.Info().Price
	e.USD = price.Cost(llm.Usage{Input: e.Queries * queryRequests * first, Output: e.Queries * queryRequests * queryOutput}) +
		price.Cost(caseUsage(e.Trials, first, o.Model.Info().Caching))
	if o.Judge != nil {
		price = o.Judge.Info().Price
	}
	e.USD += price.Cost(llm.Usage{Input: judged * judgeInput, Output: judged * judgeOutput})
	return e
}

// caseUsage guesses the tokens of trials, whose later requests repeat the earlier ones.
func caseUsage(trials, first int, caching bool) llm.Usage {
	repeated := caseRequests*first + caseInput*caseRequests*(caseRequests-1)/2
	u := llm.Usage{Input: trials * repeated, Output: trials * caseRequests * caseOutput}
	if caching {
		written := first + caseInput*(caseRequests-1)
		u = llm.Usage{CacheWrite: trials * written, CacheRead: trials * (repeated - written), Output: u.Output}
	}
	return u
}

// ModelID returns the ID of the model that a name means, without looking for a key.
func ModelID(name string) (string, error) { return modelID(name, "") }

func modelID(name, provider string) (string, error) {
	p, model, err := models.Known().Find(name, provider)
	if err != nil {
		return "", err
	}
	return p.Name + "/" + model, nil
}
