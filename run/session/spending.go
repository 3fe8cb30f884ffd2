package session

import (
	"iter"
	"maps"
	"slices"

	"github.com/knack-agent/knack/run/llm"
)

// A Spend is what requests to one model consumed.
type Spend struct {
	Model    string // "": not known
	Agent    string // the definition of the sub-agent that made the requests; "": the session itself made them
	Requests int
	Usage    llm.Usage
	Cost     float64 // US dollars
}

// Spending yields what the entries of a session's own log consumed, in their order. An answer that was cancelled is a
// request of which no usage is known. What a sub-agent consumed is in the entry for its end, with one Spend for each
// of its models; its requests and its cost are known only as sums, and are in the first of these.
func Spending(entries ...Entry) iter.Seq[Spend] {
	return func(yield func(Spend) bool) {
		for i := range entries {
			for _, x := range entries[i].spent() {
				if !yield(x) {
					return
				}
			}
		}
	}
}

func (e *Entry) spent() []Spend {
	switch {
	case e.Answer != nil:
		return []Spend{{Model: e.Answer.Model, Requests: 1, Usage: e.Answer.Usage, Cost: e.Answer.Cost}}
	// a summary; /clear makes no request
	case e.Compaction != nil && (e.Compaction.Model != "" || e.Compaction.Usage != (llm.Usage{})):
		return []Spend{{Model: e.Compaction.Model, Requests: 1, Usage: e.Compaction.Usage, Cost: e.Compaction.Cost}}
	case e.Result != nil:
		return beside(e.Result.Spent)
	case e.Goal != nil:
		return beside(e.Goal.Spent)
	case e.Note != nil:
		return beside(e.Note.Spent)
	case e.Agent != nil && e.Agent.Reason != "":
		a := e.Agent
		all := []Spend{{Agent: a.Name, Requests: a.Requests, Cost: a.Cost}}
		for i, model := range slices.Sorted(maps.Keys(a.Usage)) {
			if i > 0 {
				all = append(all, Spend{Agent: a.Name})
			}
			all[i].Model, all[i].Usage = model, a.Usage[model]
		}
		return all
	}
	return nil
}

// beside returns what requests beside the conversation consumed.
func beside(spent []llm.Spend) (all []Spend) {
	for _, x := range spent {
		all = append(all, Spend{Model: x.Model, Requests: 1, Usage: x.Usage, Cost: x.Cost})
	}
	return all
}
