// Package work runs what a queue of package batch keeps: each run in a process of its own, in a directory, worktree or
// copy of its own, watched by the worker that holds its lease.
//
// A worker calls [Work]. The process of a run calls [Run]; the two talk in lines of JSON on its standard input and
// output. Before each request to a model the process says so and waits until the queue has recorded it, so that no
// request is sent for a lease that was lost, for a batch that has spent what it may, or while the queue cannot be
// written.
package work

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/knack-agent/knack/durable/batch"
)

// start is the first line that a worker writes.
type start struct {
	Run     batch.Run     `json:"run"`
	Session string        `json:"session"` // its ID
	Silence time.Duration `json:"silence"` // after this long without a line the worker counts as dead
	Fence   string        `json:"fence"`   // a file that tells the processes of the run apart, by Token
	Token   int64         `json:"token"`   // of the lease
}

// order is a later line of a worker: the reply to the message with this number, or without a number a heartbeat.
type order struct {
	Number int         `json:"number,omitempty"`
	Order  batch.Order `json:"order,omitempty"`
	End    bool        `json:"end,omitempty"` // stop, to go on later
}

// message is a line of the process of a run.
type message struct {
	Number int         `json:"number,omitempty"` // the process waits for the order with this number; 0: it does not wait
	Rows   []batch.Row `json:"rows,omitempty"`
	Doing  string      `json:"doing,omitempty"` // for people
	End    *ending     `json:"end,omitempty"`   // the last line
}

// ending is a batch.End as it is passed on.
type ending struct {
	batch.End
	Question json.RawMessage `json:"question,omitempty"`
}

// The causes with which a run is stopped.
var (
	errCancelled = errors.New("cancelled")
	errHeld      = errors.New(string(batch.Hold))
	errStopped   = errors.New("stopped")
	errWaits     = errors.New(Waits)
	errTime      = errors.New("the run took longer than its timeout")
)

// SessionID returns the ID of the session of a run: that of its task, or one which all attempts of a round continue.
func SessionID(r batch.Run) string {
	if r.Task.Session != "" {
		return r.Task.Session
	}
	id := "batch-" + r.ID
	if r.Round > 0 {
		id += "-" + strconv.Itoa(r.Round+1)
	}
	return id
}
