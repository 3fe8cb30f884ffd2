package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/knack-agent/knack/durable/batch"
)

// Names of workflows, activities and messages. They are in histories, so they do not change.
const (
	workflowBatch     = "KnackBatch"
	workflowRun       = "KnackRun"
	workflowScheduled = "KnackScheduled"

	activityAttempt   = "KnackAttempt"
	activityScheduled = "KnackScheduledRun"

	updateSubmit  = "submit"  // batch: adds items
	updateBegin   = "begin"   // batch and run: a worker takes the run
	updateCancel  = "cancel"  // batch
	updateRequeue = "requeue" // batch: a run that has ended begins anew
	updateBeat    = "beat"    // run: rows of the ledger
	updateFinish  = "finish"  // run: the end of an attempt
	updateAnswer  = "answer"  // run

	signalGrant  = "grant"  // batch to run: it may be given to a worker
	signalCancel = "cancel" // batch to run
	signalSpent  = "spent"  // batch to run: what the other runs have spent
	signalReport = "report" // run to batch: its state

	queryBatch = "batch"
	queryRun   = "run"
	queryOrder = "order"
)

func batchWorkflow(batch string) string { return "knack-batch/" + batch }

// runWorkflow returns the ID of the workflow of a run. The workflow of its batch knows items by their number only.
func runWorkflow(batch string, item int) string { return fmt.Sprintf("knack-run/%s/%d", batch, item) }

// attempts is the task queue for the attempts of a batch. Workers of a program that does not understand a task do not
// poll for it.
func attempts(batch string, needs int) string {
	name := "knack-attempts/" + batch
	if needs > 1 { // 0 and 1 are the same program
		name += fmt.Sprintf("/v%d", needs)
	}
	return name
}

// workflows is the task queue for workflows.
const workflows = "knack"

// Search attributes, for the user interface and command line of Temporal.
var (
	attributeBatch = temporal.NewSearchAttributeKeyKeyword("KnackBatch")
	attributeSkill = temporal.NewSearchAttributeKeyKeyword("KnackSkill")
	attributeState = temporal.NewSearchAttributeKeyKeyword("KnackState")
)

// States of a batch, as the search attribute has them.
const (
	batchOpen = "open" // a run is left
	batchDone = "done"
)

// A chunk refers to items that were submitted together: JSON of []batch.Item.
type chunk struct {
	Digest string `json:"digest"`
	Count  int    `json:"count"`
}

type submission struct {
	Batch  batch.Batch       `json:"batch"`
	Have   int               `json:"have"` // how many items the sender knows to be there
	Chunks []chunk           `json:"chunks,omitempty"`
	After  map[int]time.Time `json:"after,omitempty"` // by item: not before
	Needs  map[int]int       `json:"needs,omitempty"`
}

type batchView struct {
	Batch  batch.Batch `json:"batch"`
	Chunks []chunk     `json:"chunks"`
	States string      `json:"states"` // a letter for each item
	Spent  batch.Spent `json:"spent"`
	Seq    int64       `json:"seq"` // counts changes
	// Changed are the items that changed after the number that was asked for; All means that it is too long ago to say.
	Changed []int `json:"changed,omitempty"`
	All     bool  `json:"all,omitempty"`
}

type batchBegin struct {
	Item int   `json:"item"`
	Turn int64 `json:"turn"` // the grant for which the attempt was started
}

type batchBegun struct {
	Token  int64       `json:"token"`
	Batch  batch.Batch `json:"batch"`
	Others float64     `json:"others"` // what the other runs have spent
}

type runBegin struct {
	Token   int64         `json:"token"`
	Worker  string        `json:"worker"`
	Skill   string        `json:"skill,omitempty"`
	Options batch.Options `json:"options"`
	Others  float64       `json:"others"`
}

type beat struct {
	Token int64       `json:"token"`
	Rows  []batch.Row `json:"rows"`
}

// attemptEnd is a batch.End with the fields that its own JSON leaves out.
type attemptEnd struct {
	batch.End
	Died     bool            `json:"died,omitempty"`
	After    time.Duration   `json:"after,omitempty"`
	Question json.RawMessage `json:"question,omitempty"`
}

func (e attemptEnd) end() batch.End {
	out := e.End
	out.Died, out.After, out.Question = e.Died, e.After, e.Question
	return out
}

type finish struct {
	Token int64       `json:"token"`
	End   attemptEnd  `json:"end"`
	Rows  []batch.Row `json:"rows,omitempty"`
}

type cancellation struct {
	Items []int `json:"items,omitempty"` // none: all
}

type requeue struct {
	Item int        `json:"item"`
	Run  *batch.Run `json:"run,omitempty"` // as its workflow left it; nil: it never began
}

type report struct {
	Item    int         `json:"item"`
	Version int64       `json:"version"` // a later report of the same workflow has a higher one
	State   batch.State `json:"state"`
	Wanted  bool        `json:"wanted,omitempty"` // Ready, and no attempt is under way
	After   time.Time   `json:"after,omitzero"`   // Ready: not before
	Spent   batch.Spent `json:"spent"`
}

// An attempt is the input of the activity: the references of what is to be run.
type attempt struct {
	Batch string `json:"batch"`
	Item  int    `json:"item"`
	Turn  int64  `json:"turn"`
	Needs int    `json:"needs,omitempty"`
}

// Types of errors, which cross the network as texts.
const (
	typeLost    = "KnackLost"
	typeState   = "KnackState"
	typeRefused = "KnackRefused" // a worker may not have a run now
	typeStale   = "KnackStale"   // the sender knows an earlier state
)

// typeLostText is the text of the error of a query, whose type Temporal does not pass on.
var typeLostText = batch.ErrLost.Error()

func failure(kind, text string) error {
	return temporal.NewNonRetryableApplicationError(text, kind, nil)
}

// isFailure reports whether an error has crossed the network with this type.
func isFailure(err error, kind string) bool {
	var e *temporal.ApplicationError
	return errors.As(err, &e) && e.Type() == kind
}
