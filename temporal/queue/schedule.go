package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/schedule"
	"github.com/knack-agent/knack/internal/leaf/cron"
)

// scheduledRuns is the task queue for the activities that submit the runs of schedules.
const scheduledRuns = "knack-schedules"

const schedulePrefix = "knack-schedule/"

// A scheduled is the run of a schedule for a time.
type scheduled struct {
	Schedule schedule.Schedule `json:"schedule"`
	Due      time.Time         `json:"due"`
}

// Scheduled is the workflow that a Temporal Schedule starts. It goes on as long as the run does, so that Temporal knows
// whether the next one would overlap.
func Scheduled(ctx workflow.Context, s schedule.Schedule) (batch.State, error) {
	due, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(temporal.NewSearchAttributeKeyTime(
		"TemporalScheduledStartTime"))
	if !ok {
		due = workflow.Now(ctx)
	}
	ctx = workflow.WithActivityOptions(ctx,
		workflow.ActivityOptions{TaskQueue: scheduledRuns, HeartbeatTimeout: 30 * time.Second,
			StartToCloseTimeout: 10 * 365 * 24 * time.Hour, WaitForCancellation: true})
	var state batch.State
	err := workflow.ExecuteActivity(ctx, activityScheduled, scheduled{s, due}).Get(ctx, &state)
	return state, err
}

// scheduled submits a run and waits until it has ended. If the program ends meanwhile, another one goes on: the key of
// the item is its time, so it is submitted once.
func (q *Queue) scheduled(ctx context.Context, in scheduled) (batch.State, error) {
	s := in.Schedule
	b := s.Batch()
	b.Jobs = 0 // Temporal decides what overlaps
	key := in.Due.UTC().Format(time.RFC3339Nano)
	run := batch.RunID(b.ID, key)
	var runs []batch.Run
	for c, err := range q.Watch(ctx, batch.Filter{Batch: b.ID, Since: schedule.Since(time.Now())}) {
		if err != nil {
			return "", err
		}
		if c.Run != nil && c.Run.ID != run {
			runs = append(runs, *c.Run)
		}
	}
	_, item, err := s.Now(time.Now(), runs)
	if errors.Is(err, schedule.ErrLimit) {
		return "", failure(typeRefused, err.Error())
	}
	if err != nil {
		return "", failure(typeState, err.Error())
	}
	item.Key = key
	if _, err := q.Submit(ctx, b, []batch.Item{item}); err != nil {
		return "", err
	}
	stopped := activity.GetWorkerStopChannel(ctx)
	look := time.NewTicker(q.options.watch)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-stopped:
			return "", errors.New("the worker is about to end")
		case <-ctx.Done():
			select {
			case <-stopped:
				return "", errors.New("the worker is about to end")
			default:
				return batch.Cancelled, q.Cancel(context.WithoutCancel(ctx), b.ID, run)
			}
		}
		activity.RecordHeartbeat(ctx, run)
		for c, err := range q.Watch(ctx, batch.Filter{Batch: b.ID, Run: run}) {
			if err != nil {
				break // Temporal may answer again
			}
			if c.Run != nil && c.Run.State.Ended() {
				return c.Run.State, nil
			}
		}
	}
}

// client returns the client of the server; it has schedules, the SDK's test environment does not.
func (q *Queue) client() (client.Client, error) {
	if s, ok := q.service.(*server); ok {
		return s.client, nil
	}
	return nil, errors.New("there is no server")
}

// RunSchedules lets this process submit what schedules start.
func (q *Queue) RunSchedules(context.Context) (stop func(), err error) {
	c, err := q.client()
	if err != nil {
		return nil, err
	}
	w := worker.New(c, scheduledRuns, worker.Options{DisableWorkflowWorker: true})
	w.RegisterActivityWithOptions(q.scheduled, activity.RegisterOptions{Name: activityScheduled})
	return w.Stop, w.Start()
}

// AddSchedule adds a schedule that schedule.New has completed, as a Temporal Schedule.
func (q *Queue) AddSchedule(ctx context.Context, s schedule.Schedule) error {
	c, err := q.client()
	if err != nil {
		return err
	}
	o, err := scheduleOptions(s)
	if err != nil {
		return err
	}
	_, err = c.ScheduleClient().Create(ctx, o)
	return err
}

// scheduleOptions says in Temporal's terms what a schedule says.
func scheduleOptions(s schedule.Schedule) (o client.ScheduleOptions, err error) {
	rule, err := cron.Parse(s.Rule)
	if err != nil {
		return o, err
	}
	if s.Once {
		rule = rule.AsOnce()
	}
	o = client.ScheduleOptions{ID: schedulePrefix + s.ID, Note: s.Name, Paused: s.Paused,
		Spec: client.ScheduleSpec{TimeZoneName: s.Zone},
		Action: &client.ScheduleWorkflowAction{ID: schedulePrefix + s.ID, Workflow: workflowScheduled, Args: []any{s},
			TaskQueue: workflows},
	}
	if s.Once || rule.Once() {
		o.RemainingActions = 1
	}
	switch calendar := rule.Calendar(); {
	case rule.Interval() > 0:
		// Temporal counts from the beginning of 1970.
		o.Spec.Intervals = []client.ScheduleIntervalSpec{{Every: rule.Interval(),
			Offset: time.Duration(s.Start.UnixNano() % int64(rule.Interval()))}}
	case !calendar.Date.IsZero():
		d := calendar.Date
		o.Spec.Calendars = []client.ScheduleCalendarSpec{{Minute: ranges(d.Minute()), Hour: ranges(d.Hour()),
			DayOfMonth: ranges(d.Day()), Month: ranges(int(d.Month())), Year: ranges(d.Year())}}
	case calendar.EitherDay:
		days := calendarSpec(calendar)
		days.DayOfWeek = nil
		weekdays := calendarSpec(calendar)
		weekdays.DayOfMonth = nil
		o.Spec.Calendars = []client.ScheduleCalendarSpec{days, weekdays}
	default:
		o.Spec.Calendars = []client.ScheduleCalendarSpec{calendarSpec(calendar)}
	}
	switch s.Overlap {
	case schedule.OverlapSkip:
		o.Overlap = enums.SCHEDULE_OVERLAP_POLICY_SKIP
	case schedule.OverlapWait:
		o.Overlap = enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE
	case schedule.OverlapCancel:
		o.Overlap = enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER
	case schedule.OverlapParallel:
		o.Overlap = enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL
	default:
		return o, fmt.Errorf("the policy %q is unknown", s.Overlap)
	}
	const year = 365 * 24 * time.Hour
	switch missed := s.Missed; {
	case missed == schedule.MissedAll:
		o.CatchupWindow = year
		if s.Overlap == schedule.OverlapSkip { // one after another
			o.Overlap = enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL
		}
	case missed == schedule.MissedOnce, missed == schedule.MissedDefault && o.RemainingActions == 1:
		o.CatchupWindow = year // the first of them starts, and the others overlap with it
	default:
		o.CatchupWindow = s.Grace
		if s.Grace == 0 {
			o.CatchupWindow = schedule.DefaultGrace
		}
		o.CatchupWindow = max(o.CatchupWindow, 10*time.Second) // Temporal's least
	}
	return o, nil
}

func calendarSpec(c cron.Calendar) client.ScheduleCalendarSpec {
	return client.ScheduleCalendarSpec{Minute: ranges(c.Minutes...), Hour: ranges(c.Hours...),
		DayOfMonth: ranges(c.Days...),
		Month:      ranges(c.Months...), DayOfWeek: ranges(c.Weekdays...)}
}

// ranges returns sorted numbers as ranges.
func ranges(numbers ...int) (all []client.ScheduleRange) {
	for _, n := range numbers {
		if last := len(all) - 1; last >= 0 && all[last].End == n-1 {
			all[last].End = n
			continue
		}
		all = append(all, client.ScheduleRange{Start: n, End: n})
	}
	return all
}

// A ScheduleState is a schedule as the server lists it.
type ScheduleState struct {
	ID, Name string
	Paused   bool
	Next     time.Time // zero: never
	Recent   int       // how many runs the server remembers
}

// Schedules lists the schedules.
func (q *Queue) Schedules(ctx context.Context) (all []ScheduleState, err error) {
	c, err := q.client()
	if err != nil {
		return nil, err
	}
	list, err := c.ScheduleClient().List(ctx, client.ScheduleListOptions{})
	if err != nil {
		return nil, err
	}
	for list.HasNext() {
		e, err := list.Next()
		if err != nil {
			return nil, err
		}
		id, ok := strings.CutPrefix(e.ID, schedulePrefix)
		if !ok {
			continue
		}
		s := ScheduleState{ID: id, Name: e.Note, Paused: e.Paused, Recent: len(e.RecentActions)}
		if len(e.NextActionTimes) > 0 {
			s.Next = e.NextActionTimes[0]
		}
		all = append(all, s)
	}
	return all, nil
}

// ChangeSchedule pauses, resumes, removes or runs a schedule: pause, resume, remove or run.
func (q *Queue) ChangeSchedule(ctx context.Context, id, how string) error {
	c, err := q.client()
	if err != nil {
		return err
	}
	h := c.ScheduleClient().GetHandle(ctx, schedulePrefix+id)
	switch how {
	case "pause":
		err = h.Pause(ctx, client.SchedulePauseOptions{})
	case "resume":
		err = h.Unpause(ctx, client.ScheduleUnpauseOptions{})
	case "run":
		err = h.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL})
	case "remove":
		err = h.Delete(ctx)
	default:
		return fmt.Errorf("%q is no change of a schedule", how)
	}
	if errors.Is(none(err), errNone) {
		return schedule.ErrUnknown
	}
	return err
}
