package eval

import (
	"encoding/json"
	"fmt"
)

// Results are the reports of one run of the program, a skill each. They marshal to the JSON that `knack eval --json`
// prints.
type Results struct {
	Version int       `json:"version"` // of this form: 1
	Reports []*Report `json:"reports"`
	// Failed says, a sentence each, which of the user's limits were not kept; nil: all were.
	Failed []string `json:"failed,omitempty"`
}

// ReadResults reads what Results or a single Report marshalled to.
func ReadResults(data []byte) (*Results, error) {
	var both struct {
		Results
		Skill   string   `json:"skill"`
		Routing *Routing `json:"routing"`
		Tasks   *Tasks   `json:"tasks"`
	}
	if err := json.Unmarshal(data, &both); err != nil {
		return nil, err
	}
	if both.Version != 1 {
		return nil, fmt.Errorf("it is no result of an evaluation in version 1, but has the version %d", both.Version)
	}
	if both.Reports == nil && (both.Routing != nil || both.Tasks != nil) {
		var one Report
		if err := json.Unmarshal(data, &one); err != nil {
			return nil, err
		}
		return &Results{Version: 1, Reports: []*Report{&one}}, nil
	}
	return &both.Results, nil
}

// Of returns the report about a skill; nil: there is none.
func (r *Results) Of(skill string) *Report {
	for _, p := range r.Reports {
		if p != nil && p.Skill == skill {
			return p
		}
	}
	return nil
}

// Spent sums up what the runs consumed.
func (r *Results) Spent() (all Spent) {
	for _, p := range r.Reports {
		all.Add(p.Cost.Total)
	}
	return all
}
