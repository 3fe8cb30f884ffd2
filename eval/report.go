package eval

import (
	"encoding/json"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

// A Report is everything that a run found. Results has those of several skills.
type Report struct {
	Version int       `json:"version"` // of this form: 1
	Skill   string    `json:"skill"`
	Model   string    `json:"model"`           // "find": the program's own search
	Judge   string    `json:"judge,omitempty"` // the model that judged; "": none did
	Began   time.Time `json:"began"`
	Millis  int64     `json:"took_ms"`
	Seed    uint64    `json:"seed"`
	// Digest is of the set, the text of the skill and what is asked of the run: a run that is resumed must have the same.
	Digest  string   `json:"digest"`
	Partial bool     `json:"partial,omitempty"` // the run was ended before everything was done
	Routing *Routing `json:"routing,omitempty"` // nil: the set has no queries
	Tasks   *Tasks   `json:"tasks,omitempty"`   // nil: the set has no cases, or the model is find
	Cost    Cost     `json:"cost"`
	// Problems are what could not be read or done. What they name does not count.
	Problems []Problem `json:"problems,omitempty"`
}

// A Rate is a share of counted things with its Wilson interval at 95%.
type Rate struct {
	Hits int     `json:"hits"`
	Of   int     `json:"of"` // 0: nothing was counted; the interval is then 0 to 1
	Rate float64 `json:"rate"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// A Routed is what became of the skill for one query.
type Routed string

const (
	First     Routed = "first"       // it was the first tool that was called
	Later     Routed = "later"       // it was called after another tool or skill
	NotCalled Routed = "not-called"  // it was in the listing and not called
	NotSeen   Routed = "not-visible" // the listing had no text of it: a fault of the listing, not of the description
)

// Routing is the result for the queries of a set.
type Routing struct {
	Pool    int    `json:"pool"`          // skills that could be called
	Tokens  int    `json:"tokens"`        // of the listing, estimated
	Visible bool   `json:"visible"`       // whether the listing has the description of the skill, at least in part
	Cut     string `json:"cut,omitempty"` // why its entry is shortened, as in package knack; "": it is whole
	Why     string `json:"why,omitempty"` // why it is not Visible: a sentence
	// Recall is the share of the trials that should call the skill and do; Precision the share of those that call it and
	// should.
	Recall    Rate          `json:"recall"`
	Precision Rate          `json:"precision"`
	Queries   []QueryResult `json:"queries"`
	// Rivals are skills that were called instead, or that lost prompts to this one; the most frequent first.
	Rivals []Rival `json:"rivals,omitempty"`
}

// A QueryResult is what became of one query in all its trials.
type QueryResult struct {
	Query
	Trials []QueryTrial `json:"trials"`
	OK     int          `json:"ok"` // trials that did what they should
}

// A QueryTrial is one time that a query was asked.
type QueryTrial struct {
	Trial  int      `json:"trial"` // from 1
	Routed Routed   `json:"routed"`
	Called []string `json:"called,omitempty"` // the skills that were called, in order
	Error  string   `json:"error,omitempty"`  // it could not be asked; it does not count
	Spent
}

// A Rival is a skill beside the one of the set.
type Rival struct {
	Skill string `json:"skill"`
	Took  int    `json:"took"` // trials that should have called the skill of the set and called this one first
	Lost  int    `json:"lost"` // trials that should have called this one and called the skill of the set first
}

// Spent is what one conversation consumed.
type Spent struct {
	Usage    llm.Usage `json:"usage"`
	USD      float64   `json:"usd"`
	Requests int       `json:"requests"`
	Calls    int       `json:"calls"` // of tools
	Millis   int64     `json:"took_ms"`
}

// Add adds what another conversation consumed.
func (s *Spent) Add(o Spent) {
	s.Usage.Add(o.Usage)
	s.USD += o.USD
	s.Requests += o.Requests
	s.Calls += o.Calls
	s.Millis += o.Millis
}

// A Verdict says in a word what the trials show.
type Verdict string

const (
	Helps         Verdict = "helps"           // the interval of the difference is above 0
	Hurts         Verdict = "hurts"           // it is below 0
	NoEvidence    Verdict = "no evidence"     // it contains 0 and is narrow: a difference that matters would have shown
	NotEnough     Verdict = "not enough runs" // it contains 0 and is wide
	NotMeasurable Verdict = "not measurable"  // no pair of trials has a check that counts
)

// Tasks is the result for the cases of a set.
type Tasks struct {
	Configs []ConfigResult `json:"configs"`
	// Against has the differences of With to each other config, in the order of Configs.
	Against []Difference `json:"against,omitempty"`
	Cases   []CaseResult `json:"cases"`
	// JudgeFailures counts sentences on which the judge gave no verdict with a quotation that stands in the transcript.
	// They do not count as passed or failed.
	JudgeFailures int `json:"judge_failures"`
}

// A ConfigResult sums up all trials of a Config, or those of one case.
type ConfigResult struct {
	Config Config  `json:"config"`
	Pass   Rate    `json:"pass"`  // trials in which all checks passed
	Score  float64 `json:"score"` // the mean share of the checks that passed, by weight
	Spent
}

// A Difference compares the scores of With and another Config, by pairs of trials of the same case.
type Difference struct {
	To      Config  `json:"to"`
	Pairs   int     `json:"pairs"`
	Mean    float64 `json:"mean"` // With minus To; positive: With is better
	Low     float64 `json:"low"`  // of the bootstrap interval at 95%
	High    float64 `json:"high"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"` // for NotEnough and NotMeasurable: what to do
}

// A CaseResult has the trials of one case.
type CaseResult struct {
	ID      string         `json:"id"`
	Prompt  string         `json:"prompt"`
	Configs []ConfigResult `json:"configs"`
	Against []Difference   `json:"against,omitempty"`
	Trials  []Trial        `json:"trials"` // by config, then by number
}

// A Trial is one conversation about a case, and what the checks said.
type Trial struct {
	Key
	Passed bool          `json:"passed"` // every check that counts passed, and there was one
	Score  float64       `json:"score"`  // the share of them that passed, by weight
	Counts int           `json:"counts"` // checks that count: all but failures of the judge and those that were not made
	Checks []CheckResult `json:"checks"`
	Answer string        `json:"answer"` // the last text of the model
	Steps  []Step        `json:"steps,omitempty"`
	Called []string      `json:"called,omitempty"` // the skills that were called, in order
	Error  string        `json:"error,omitempty"`  // it could not be run or was ended; it counts as failed unless Void
	Void   bool          `json:"void,omitempty"`   // it does not count, such as when the provider could not be reached
	Spent
}

// A CheckResult is what became of one check of a trial.
type CheckResult struct {
	Check
	Passed   bool   `json:"passed"`
	Evidence string `json:"evidence,omitempty"` // what was found; for a judge, its quotation
	Why      string `json:"why,omitempty"`      // the judge's reason
	// Skipped says why the check does not count; "": it does. JudgeFailed is set if it is the judge's fault.
	Skipped     string `json:"skipped,omitempty"`
	JudgeFailed bool   `json:"judge_failed,omitempty"`
}

// A Step is a message, a call of a tool, or the result of one.
type Step struct {
	Kind  StepKind        `json:"kind"`
	Text  string          `json:"text,omitempty"`
	Tool  string          `json:"tool,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	Error bool            `json:"error,omitempty"` // the call failed or was refused
}

// A StepKind says what a Step is.
type StepKind string

const (
	StepUser   StepKind = "user"   // the prompt, and the text of a skill
	StepModel  StepKind = "model"  // text of the model
	StepCall   StepKind = "call"   // a call: Tool and Input
	StepResult StepKind = "result" // what the call of Tool returned
)

// Cost is what the skill costs, and what the run did.
type Cost struct {
	Listing int   `json:"listing_tokens"` // the entry of the skill in the listing, estimated
	Body    int   `json:"body_tokens"`    // its text, estimated
	Total   Spent `json:"total"`          // of all trials and of the judge
	Judge   Spent `json:"judge"`          // of the judge alone
	// With and Without are the mean tokens of a trial, in and out; 0: there was none.
	With    int `json:"with_tokens,omitempty"`
	Without int `json:"without_tokens,omitempty"`
	// Released is the mean number of tokens that the release of skill texts saved a trial.
	Released int `json:"released_tokens,omitempty"`
}
