package session

import "github.com/knack-agent/knack/run/llm"

// A GoalState says what became of a goal.
type GoalState string

const (
	GoalOpen       GoalState = "open" // the conversation works toward it
	GoalMet        GoalState = "met"
	GoalImpossible GoalState = "impossible"
	GoalStopped    GoalState = "stopped" // at a limit, or because nothing could judge it
	GoalOff        GoalState = "off"     // the user ended it
)

// A Goal is what a conversation works toward, and the last judgement. Each judgement is an entry with all of it.
type Goal struct {
	Text   string      `json:"text"`
	Check  string      `json:"check,omitempty"` // a command whose exit code 0 means that it is met; "": a model judges
	Skill  string      `json:"skill,omitempty"` // whose goal it is; "": of the user or the model
	By     Caller      `json:"by"`
	State  GoalState   `json:"state"`
	Reason string      `json:"reason,omitempty"` // of the last judgement; a model's words
	Turns  int         `json:"turns"`            // judgements so far
	Spent  []llm.Spend `json:"spent,omitempty"`  // by this judgement
}
