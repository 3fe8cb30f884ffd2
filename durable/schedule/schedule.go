// Package schedule runs prompts at certain times.
//
// A [Schedule] says what runs when. [Schedule.Step] computes, from the current time and the existing runs, which runs
// to submit now and when the next one is due. A [Driver] calls Step for every schedule that is due; several Drivers may
// run at once. The changed schedule and its new runs are written in one transaction of a [Store], so that a program
// which is killed at any moment neither loses a run nor starts it twice. The runs are in a batch.Queue: each schedule
// has a batch there, whose items are times.
package schedule

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/internal/leaf/cron"
)

// A Schedule is a prompt that runs at certain times. The zero values of its policies are their defaults.
type Schedule struct {
	ID      string     `json:"id"`
	Name    string     `json:"name,omitempty"` // for people
	Rule    string     `json:"rule"`           // for cron.Parse
	Zone    string     `json:"zone"`           // of the clock, such as Europe/Berlin; "": that of the machine
	Dir     string     `json:"dir"`            // absolute: where it runs
	Task    batch.Task `json:"task"`
	Args    []string   `json:"args,omitempty"` // flags of the command line for each run
	Missed  Missed     `json:"missed,omitempty"`
	Overlap Overlap    `json:"overlap,omitempty"`
	// Grace is how late a run may start without being missed; 0: DefaultGrace.
	Grace time.Duration `json:"grace,omitempty"`
	// DayCost is the limit of the cost of a day of the zone, in US dollars; 0: no limit.
	DayCost float64 `json:"day_cost,omitempty"`
	Trusted bool    `json:"trusted,omitempty"`  // the folder was trusted when the schedule was made
	ByModel bool    `json:"by_model,omitempty"` // a model made it, with the user's approval
	// Once means that it runs only once, whatever the rule says.
	Once    bool      `json:"once,omitempty"`
	Created time.Time `json:"created"`
	Paused  bool      `json:"paused,omitempty"`

	Start time.Time `json:"start"`         // from which intervals count
	Next  time.Time `json:"next,omitzero"` // when it runs next; zero: never
	// Check is when to look whether the last run was started; zero: there is no need.
	Check   time.Time `json:"check,omitzero"`
	Stamped time.Time `json:"stamped"` // the clock at the last Step: if it is ahead of the clock now, that was set back
	// Epoch is part of the keys of runs, so that a clock time which comes again after the clock was wrong by more than
	// a day gets another run.
	Epoch int `json:"epoch,omitempty"`
}

// DefaultGrace is the Grace of a Schedule without one.
const DefaultGrace = time.Minute

// Missed says what happens with times that were missed: because nothing was running, or the machine slept, or its clock
// was set forward.
type Missed string

const (
	MissedDefault Missed = ""     // MissedOnce for a schedule that runs only once, otherwise MissedSkip
	MissedSkip    Missed = "skip" // they do not run; nor does what was submitted and not started in time
	MissedOnce    Missed = "once" // one run stands for all of them
	MissedAll     Missed = "all"  // all run, one after another
)

// Overlap says what happens at a time at which an earlier run of the same schedule goes on.
type Overlap string

const (
	OverlapSkip     Overlap = ""         // it does not run
	OverlapWait     Overlap = "wait"     // it runs afterwards, however late; at most one waits
	OverlapCancel   Overlap = "cancel"   // the earlier run is cancelled
	OverlapParallel Overlap = "parallel" // both run
)

// An Omission is a time at which nothing ran, or several.
type Omission struct {
	Due   time.Time `json:"due"` // the first
	Until time.Time `json:"until"`
	Count int       `json:"count"`
	Why   Why       `json:"why"`
	Note  string    `json:"note,omitempty"`
}

// Why is the reason of an Omission.
type Why string

const (
	WhyMissed  Why = "missed"
	WhyOverlap Why = "overlap"
	WhyLimit   Why = "limit"   // the day has cost what it may
	WhyRefused Why = "refused" // it cannot run, see the Note
)

// A Plan is what [Schedule.Step] wants done.
type Plan struct {
	Submit []batch.Item
	Cancel []string // runs
	// Drop are runs that were submitted but not started in time. One that a worker has started meanwhile goes on.
	Drop      []string
	Omissions []Omission
}

// A Store keeps schedules. It is safe for concurrent use, by several processes.
type Store interface {
	// Add stores a new schedule.
	Add(ctx context.Context, s Schedule) error
	// All returns the schedules in the order in which they were added.
	All(ctx context.Context) ([]Schedule, error)
	// Due returns the IDs of the schedules for which Step must be called.
	Due(ctx context.Context, now time.Time) ([]string, error)
	// Change calls f with a schedule and its runs that have not ended or began since a time, then writes the changed
	// schedule and carries out the plan, all in one transaction. If f returns an error, nothing changes. ErrUnknown:
	// there is no such schedule.
	Change(ctx context.Context, id string, since time.Time, f func(*Schedule, []batch.Run) (Plan, error)) error
	// Remove forgets a schedule and its omissions. Its runs remain in the queue.
	Remove(ctx context.Context, id string) error
	// Omissions returns the last omissions of a schedule, the newest first.
	Omissions(ctx context.Context, id string, most int) ([]Omission, error)
}

// Errors.
var (
	ErrUnknown = errors.New("there is no such schedule")
	ErrLimit   = errors.New("the runs of this day have cost what they may")
)

// BatchID returns the ID of the batch to which the runs of a schedule belong.
func BatchID(schedule string) string { return "schedule-" + schedule }

// Batch returns the batch of the runs of a schedule.
func (s *Schedule) Batch() batch.Batch {
	b := batch.Batch{ID: BatchID(s.ID), Name: cmp.Or(s.Name, "schedule "+s.ID), Dir: s.Dir, Created: s.Created,
		Options: batch.Options{Jobs: 1, Args: s.Args}}
	if s.Overlap == OverlapParallel {
		b.Jobs = 0
	}
	return b
}

// New gives a schedule an ID and computes its first time. An error means that its rule or zone is invalid, or names no
// time.
func New(s Schedule, now time.Time) (Schedule, error) {
	var id [4]byte
	_, _ = rand.Read(id[:]) // it never fails
	s.ID = hex.EncodeToString(id[:])
	now = now.Round(0).Truncate(time.Second)
	s.Created, s.Start, s.Stamped = now, now, now
	rule, zone, err := s.clock()
	if err != nil {
		return s, err
	}
	s.Once = s.Once || rule.Once()
	if s.Next = rule.Next(now.In(zone), now); s.Next.IsZero() {
		return s, fmt.Errorf("%q: this time is over", s.Rule)
	}
	return s, nil
}

// clock returns the parsed rule and the zone.
func (s *Schedule) clock() (cron.Rule, *time.Location, error) {
	rule, err := cron.Parse(s.Rule)
	if err != nil {
		return rule, nil, err
	}
	if s.Once {
		rule = rule.AsOnce()
	}
	zone := time.Local
	if s.Zone != "" {
		if zone, err = time.LoadLocation(s.Zone); err != nil {
			return rule, nil, fmt.Errorf("the time zone %q is unknown; zones are named as in Europe/Berlin", s.Zone)
		}
	}
	return rule, zone, nil
}

// Location returns the zone of a schedule, or UTC if it is unknown.
func (s *Schedule) Location() *time.Location {
	_, zone, err := s.clock()
	if err != nil {
		return time.UTC
	}
	return zone
}

// Pause stops a schedule until it is resumed. Runs that go on are not stopped.
func (s *Schedule) Pause() { s.Paused = true }

// Resume lets a paused schedule go on. The times that passed meanwhile are not missed.
func (s *Schedule) Resume(now time.Time) error {
	rule, zone, err := s.clock()
	if err != nil {
		return err
	}
	if !s.Paused {
		return nil
	}
	s.Paused = false
	s.Next = rule.Next(now.In(zone), s.Start)
	return nil
}

// keyOf returns the key of the item for a time.
func (s *Schedule) keyOf(due time.Time) string {
	key := due.UTC().Format(time.RFC3339)
	if s.Epoch > 0 {
		key += fmt.Sprintf("#%d", s.Epoch)
	}
	return key
}

const manual = "run-"

// DueOf returns the time for which a run was submitted; false: the user started it.
func DueOf(r batch.Item) (time.Time, bool) {
	key, _, _ := strings.Cut(r.Key, "#")
	due, err := time.Parse(time.RFC3339, key)
	return due, err == nil
}

// missed returns the policy for times that were missed.
func (s *Schedule) missed() Missed {
	if s.Missed == MissedDefault && s.Once {
		return MissedOnce
	}
	return cmp.Or(s.Missed, MissedSkip)
}

func (s *Schedule) grace() time.Duration { return cmp.Or(s.Grace, DefaultGrace) }

// Since returns the time since when runs matter to a step: those of the day, and those that a clock which is set back
// could repeat.
func Since(now time.Time) time.Time { return now.Add(-49 * time.Hour) }

// step is the state of a call of Step.
type step struct {
	*Schedule
	now  time.Time
	rule cron.Rule
	zone *time.Location
	runs []batch.Run // without those that are dropped
	plan Plan
}

// Step returns the runs to submit, cancel or drop now, and sets Next to the next time that is due. runs are the runs of
// the schedule that have not ended, or that began since Since(now). If refusal is not empty, nothing is submitted, and
// refusal is recorded as the reason, such as a directory that is gone. An error means that the rule or the zone is
// invalid.
func (s *Schedule) Step(now time.Time, runs []batch.Run, refusal string) (Plan, error) {
	rule, zone, err := s.clock()
	if err != nil {
		return Plan{}, err
	}
	st := &step{Schedule: s, now: now.Round(0), rule: rule, zone: zone, runs: slices.Clone(runs)}
	st.handleClockSetBack()
	st.dropLate()
	for !s.Paused && !s.Next.IsZero() && !s.Next.After(now) {
		due := s.Next
		late := now.Sub(due) > s.grace()
		switch {
		case late && s.missed() == MissedAll && st.left() > 0:
			s.Stamped = st.now
			return st.plan, nil // the next step goes on from here
		case late && s.missed() == MissedSkip:
			last, count, next := st.last(due, now.Add(-s.grace()-1))
			st.omit(Omission{Due: due, Until: last, Count: count, Why: WhyMissed})
			s.Next = next
			continue
		case late && s.missed() == MissedOnce:
			if final, count, _ := st.last(due, now); count > 1 {
				before, _, _ := st.last(due, final.Add(-1))
				st.omit(Omission{Due: due, Until: before, Count: count - 1, Why: WhyMissed, Note: "one run stands for all"})
				due = final
			}
		}
		s.Next = st.next(due)
		st.start(due, refusal)
	}
	s.Stamped = st.now
	return st.plan, nil
}

// next returns the time after another.
func (st *step) next(t time.Time) time.Time { return st.rule.Next(t.In(st.zone), st.Start) }

// last returns the last time from due on that is not after another moment, how many these are, and the one after it.
func (st *step) last(due, until time.Time) (last time.Time, count int, next time.Time) {
	if every := st.rule.Interval(); every > 0 && !st.Once { // a year of seconds
		n := max(0, until.Sub(due)/every)
		last = due.Add(n * every)
		return last, int(n) + 1, st.next(last)
	}
	last, count, next = due, 1, st.next(due)
	for !next.IsZero() && !next.After(until) {
		last, next = next, st.next(next)
		count++
	}
	return last, count, next
}

// handleClockSetBack recomputes Next if the clock was set back since the last Step: the time that it shows now counts.
// A clock time that had its run does not get another, unless the clock was wrong by more than a day. Intervals count
// elapsed time, so they start again.
func (st *step) handleClockSetBack() {
	back := st.Stamped.Sub(st.now)
	if back <= time.Second || st.Next.IsZero() {
		return
	}
	if st.rule.Interval() > 0 {
		st.Start = st.now.Truncate(time.Second)
	}
	if back > 24*time.Hour || st.rule.Interval() > 0 {
		st.Epoch++
	}
	if next := st.next(st.now); !next.IsZero() && next.Before(st.Next) {
		st.Next = next
	}
}

// dropLate drops submitted runs that no worker has started within the Grace.
func (st *step) dropLate() {
	if st.Check.IsZero() || !st.drops() {
		return
	}
	st.Check = time.Time{}
	st.runs = slices.DeleteFunc(st.runs, func(r batch.Run) bool {
		due, timed := DueOf(r.Item)
		if !timed || r.State != batch.Ready || r.Attempt > 0 {
			return false
		}
		if st.now.Sub(due) <= st.grace() {
			st.Check = due.Add(st.grace() + time.Second)
			return false
		}
		st.plan.Drop = append(st.plan.Drop, r.ID)
		return true
	})
}

// drops reports whether the policies of the schedule drop runs that no worker has started within the Grace.
func (st *step) drops() bool { return st.missed() == MissedSkip && st.Overlap != OverlapWait }

// left returns how many runs have not ended, including those of this step.
func (st *step) left() int {
	n := len(st.plan.Submit)
	for _, r := range st.runs {
		if !r.State.Ended() {
			n++
		}
	}
	return n
}

// start adds the run for a time to the plan, or an Omission that says why it does not run.
func (st *step) start(due time.Time, refusal string) {
	key := st.keyOf(due)
	if slices.ContainsFunc(st.runs, func(r batch.Run) bool { return r.Key == key }) {
		return // before the clock was set back
	}
	not := func(why Why, note string) { st.omit(Omission{Due: due, Until: due, Count: 1, Why: why, Note: note}) }
	if refusal != "" {
		not(WhyRefused, refusal)
		return
	}
	switch {
	case st.left() == 0 || st.Overlap == OverlapParallel:
	case st.Overlap == OverlapWait:
		if len(st.plan.Submit) > 0 || slices.ContainsFunc(st.runs, func(r batch.Run) bool { return r.State == batch.Ready }) {
			not(WhyOverlap, "a run waits already")
			return
		}
	case st.Overlap == OverlapCancel:
		for _, r := range st.runs {
			if !r.State.Ended() && !slices.Contains(st.plan.Cancel, r.ID) {
				st.plan.Cancel = append(st.plan.Cancel, r.ID)
			}
		}
		st.plan.Submit = nil
	default:
		not(WhyOverlap, "the run before had not ended")
		return
	}
	item, err := st.item(key)
	if err != nil {
		not(WhyLimit, err.Error())
		return
	}
	st.plan.Submit = append(st.plan.Submit, item)
	if st.drops() {
		st.Check = due.Add(st.grace() + time.Second)
	}
}

// item returns an item whose cost limit is at most what is left of the day's; ErrLimit if nothing is left.
func (st *step) item(key string) (batch.Item, error) {
	item := batch.Item{Key: key, Task: st.Task, Schedule: st.ID}
	if st.DayCost == 0 {
		return item, nil
	}
	left := st.DayCost - st.spent()
	if left < 1e-6 {
		return item, fmt.Errorf("%w: $%.2f", ErrLimit, st.DayCost)
	}
	if item.Task.MaxCost == 0 || item.Task.MaxCost > left {
		item.Task.MaxCost = left
	}
	return item, nil
}

// spent returns what the runs that began today have cost, and for those that go on what they may cost.
func (st *step) spent() (cost float64) {
	from, to := cron.Day(st.now.In(st.zone))
	for _, r := range st.runs {
		switch {
		case slices.Contains(st.plan.Cancel, r.ID):
			cost += r.Spent.Cost
		case !r.State.Ended():
			cost += max(r.Spent.Cost, r.Task.MaxCost)
		case !r.Began.Before(from) && r.Began.Before(to):
			cost += r.Spent.Cost
		}
	}
	for _, i := range st.plan.Submit {
		cost += i.Task.MaxCost
	}
	return cost
}

// SpentOn returns what the runs that began on the day of a moment cost, or may still cost.
func (s *Schedule) SpentOn(now time.Time, runs []batch.Run) float64 {
	st := &step{Schedule: s, now: now, zone: s.Location(), runs: runs}
	return st.spent()
}

// omit adds an Omission to the plan. Consecutive ones with the same reason are merged.
func (st *step) omit(o Omission) {
	if n := len(st.plan.Omissions); n > 0 {
		if last := &st.plan.Omissions[n-1]; last.Why == o.Why && last.Note == o.Note {
			last.Until = o.Until
			last.Count += o.Count
			return
		}
	}
	st.plan.Omissions = append(st.plan.Omissions, o)
}

// Now returns a plan that runs a schedule at once, whatever its times are. The run counts towards the day's cost;
// ErrLimit means that nothing is left of it.
func (s *Schedule) Now(now time.Time, runs []batch.Run) (Plan, batch.Item, error) {
	rule, zone, err := s.clock()
	if err != nil {
		return Plan{}, batch.Item{}, err
	}
	st := &step{Schedule: s, now: now.Round(0), rule: rule, zone: zone, runs: runs}
	item, err := st.item(manual + now.UTC().Format(time.RFC3339Nano))
	return Plan{Submit: []batch.Item{item}}, item, err
}

// A Driver calls Step for schedules when they are due.
type Driver struct {
	Store Store
	// Check says why a schedule cannot run, such as that its directory is gone; "": it can.
	Check func(Schedule) string
	// Report is told of schedules that cannot be understood, each text once; nil: nobody is.
	Report func(s Schedule, err error)
	Now    func() time.Time // nil: time.Now

	reported map[string]string
}

// every is how often a Driver calls Tick: often enough to notice soon that the clock was set or that the machine woke
// up.
const every = time.Second

// Run calls Tick each second until ctx ends, or the store has failed for longer than a minute.
func (d *Driver) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failed := 0; ; {
		if err := d.Tick(ctx); err != nil && ctx.Err() == nil {
			if failed++; failed > 60 {
				return err
			}
		} else {
			failed = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Tick calls Step for the schedules that are due, and stores what it returns.
func (d *Driver) Tick(ctx context.Context) error {
	clock := d.Now
	if clock == nil {
		clock = time.Now
	}
	ids, err := d.Store.Due(ctx, clock())
	if err != nil || len(ids) == 0 {
		return err
	}
	all, err := d.Store.All(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if !slices.Contains(ids, s.ID) {
			continue
		}
		refusal := "" // looked for before the transaction, in which others wait
		if d.Check != nil {
			refusal = d.Check(s)
		}
		var bad error
		err := d.Store.Change(ctx, s.ID, Since(clock()), func(s *Schedule, runs []batch.Run) (plan Plan, err error) {
			// The time before the transaction could be earlier than that of another step, as if the clock was set back.
			plan, bad = s.Step(clock(), runs, refusal)
			return plan, bad
		})
		switch {
		case bad != nil:
			if d.reported == nil {
				d.reported = map[string]string{}
			}
			if text := bad.Error(); d.Report != nil && d.reported[s.ID] != text {
				d.reported[s.ID] = text
				d.Report(s, bad)
			}
		case err != nil && !errors.Is(err, ErrUnknown): // removed meanwhile
			return err
		}
	}
	return nil
}
