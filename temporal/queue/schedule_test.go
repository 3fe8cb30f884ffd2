package queue

import (
	"os"
	"reflect"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/schedule"
)

func TestScheduleOptions(t *testing.T) {
	start := time.Date(2030, 1, 31, 9, 7, 30, 0, time.UTC)
	type r = client.ScheduleRange
	hours, days, months := []r{{Start: 9, End: 9}}, []r{{Start: 1, End: 31}}, []r{{Start: 1, End: 12}}
	for _, c := range []struct {
		rule      string
		intervals []client.ScheduleIntervalSpec
		calendars []client.ScheduleCalendarSpec
		remaining int
	}{
		{"every 10m", []client.ScheduleIntervalSpec{{Every: 10 * time.Minute, Offset: 7*time.Minute + 30*time.Second}}, nil, 0},
		{"30 9 * * 1-5", nil, []client.ScheduleCalendarSpec{{Minute: []r{{Start: 30, End: 30}}, Hour: hours, DayOfMonth: days,
			Month: months, DayOfWeek: []r{{Start: 1, End: 5}}}}, 0},
		{"0 9 1,2,15 * 0", nil, []client.ScheduleCalendarSpec{
			{Minute: []r{{}}, Hour: hours, DayOfMonth: []r{{Start: 1, End: 2}, {Start: 15, End: 15}}, Month: months},
			{Minute: []r{{}}, Hour: hours, Month: months, DayOfWeek: []r{{}}}}, 0},
		{"at 2030-02-28 9:00", nil, []client.ScheduleCalendarSpec{{Minute: []r{{}}, Hour: hours,
			DayOfMonth: []r{{Start: 28, End: 28}},
			Month:      []r{{Start: 2, End: 2}}, Year: []r{{Start: 2030, End: 2030}}}}, 1},
	} {
		o, err := scheduleOptions(schedule.Schedule{Rule: c.rule, Start: start, Zone: "Europe/Berlin"})
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if !reflect.DeepEqual(o.Spec.Intervals, c.intervals) || !reflect.DeepEqual(o.Spec.Calendars, c.calendars) ||
			o.RemainingActions != c.remaining || o.Spec.TimeZoneName != "Europe/Berlin" {
			t.Errorf("%s: %+v, %d actions", c.rule, o.Spec, o.RemainingActions)
		}
	}
}

func TestSchedulePolicies(t *testing.T) {
	for _, c := range []struct {
		missed  schedule.Missed
		overlap schedule.Overlap
		want    enums.ScheduleOverlapPolicy
		long    bool
	}{
		{"", "", enums.SCHEDULE_OVERLAP_POLICY_SKIP, false},
		{schedule.MissedOnce, "", enums.SCHEDULE_OVERLAP_POLICY_SKIP, true},
		{schedule.MissedAll, "", enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL, true},
		{"", schedule.OverlapWait, enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE, false},
		{"", schedule.OverlapCancel, enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER, false},
		{"", schedule.OverlapParallel, enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL, false},
	} {
		o, err := scheduleOptions(schedule.Schedule{Rule: "every 1h", Missed: c.missed, Overlap: c.overlap})
		if err != nil || o.Overlap != c.want || o.CatchupWindow > time.Hour != c.long {
			t.Errorf("%q, %q: %v, %v, %v", c.missed, c.overlap, o.Overlap, o.CatchupWindow, err)
		}
	}
}

// TestServerSchedule runs a schedule on a Temporal server, if KNACK_TEMPORAL names one.
func TestServerSchedule(t *testing.T) {
	address := os.Getenv("KNACK_TEMPORAL")
	if address == "" {
		t.Skip("KNACK_TEMPORAL names no server; temporal/dev-server starts one")
	}
	ctx := t.Context()
	q, err := Open(ctx, Server{Address: address, Log: quiet{}},
		Options{Store: t.TempDir(), Slots: 1, watch: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	stop, err := q.RunSchedules(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s, err := schedule.New(schedule.Schedule{Rule: "every 1h", Name: "hourly", Dir: t.TempDir(), DayCost: 1,
		Task: batch.Task{Prompt: "look"}}, time.Now())
	if err == nil {
		err = q.AddSchedule(ctx, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	find := func() (found ScheduleState) {
		t.Helper()
		for { // the list of schedules follows
			all, err := q.Schedules(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range all {
				if x.ID == s.ID {
					return x
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	if x := find(); x.Next.IsZero() || x.Name != "hourly" || x.Paused {
		t.Errorf("%+v", x)
	}
	if err := q.ChangeSchedule(ctx, s.ID, "run"); err != nil {
		t.Fatal(err)
	}
	w := batch.Worker{ID: "w", Batch: schedule.BatchID(s.ID)}
	for {
		l, err := q.Claim(ctx, w)
		if err != nil {
			continue
		}
		if l.Run.Task.MaxCost != 1 || l.Run.Schedule != s.ID || l.Run.Task.Prompt != "look" {
			t.Errorf("%+v", l.Run)
		}
		if err := q.Finish(ctx, l, batch.End{State: batch.Done}, nil); err != nil {
			t.Fatal(err)
		}
		break
	}
	for _, how := range []string{"pause", "resume", "remove"} {
		if err := q.ChangeSchedule(ctx, s.ID, how); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}
