package eval

import (
	"context"

	"github.com/knack-agent/knack/run/llm"
)

// A Seam wraps a model of one conversation, such as to record what it answers: the one that the conversation begins
// with, each that a skill or an agent names, and that of the judge, whose Key has Judge set. It is called from several
// goroutines at once. An error makes the trial void, or leaves the named model out.
type Seam func(m llm.Model, t Task) (llm.Model, error)

// A Runner runs one conversation and reports what happened, without checks. It is called from several goroutines at
// once. An error means that the trial could not be run: it is void. What the model did wrong is no error.
type Runner func(ctx context.Context, t Task) (Outcome, error)

// A Task is one conversation that a Runner is to run.
type Task struct {
	Key
	Skill  string // the skill of the set
	Set    *Set   // must not be changed
	Case   *Case  // nil: a query
	Prompt string
	// Dir is a fresh directory of the trial with the files of the case. It is removed when the checks are made.
	Dir string
}

// An Outcome is what a Runner saw.
type Outcome struct {
	Answer   string   // the last text of the model
	Steps    []Step   // the conversation
	Called   []string // the names of the skills that the model called, in order
	First    bool     // the first call of a tool was the first of Called
	Released int      // tokens that the release of skill texts saved
	Error    string   // why the conversation ended before its time, such as a limit; "": it did not
	Spent
}

// A Judge decides whether a sentence is true of a trial, whose Key has Judge set. Quote must stand in the transcript word
// for word.
type Judge func(ctx context.Context, t Task, sentence, transcript string) (Judgement, error)

// A Judgement is what a judge says about one sentence.
type Judgement struct {
	Passed bool
	Quote  string
	Why    string
	Spent
}
