package local_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/schedule"
)

func openQueue(t *testing.T, dir string) *local.Queue {
	t.Helper()
	q, err := local.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func addSchedule(t *testing.T, x local.Schedules, s schedule.Schedule, now time.Time) schedule.Schedule {
	t.Helper()
	s, err := schedule.New(s, now)
	if err == nil {
		err = x.Add(t.Context(), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runsOf(t *testing.T, q *local.Queue, id string) (runs []batch.Run) {
	t.Helper()
	for c, err := range q.Watch(t.Context(), batch.Filter{Schedule: id}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Run != nil {
			runs = append(runs, *c.Run)
		}
	}
	return runs
}

// TestTwoDrivers: of two programs that step a schedule at the same moments, one starts each run.
func TestTwoDrivers(t *testing.T) {
	dir := t.TempDir()
	start := time.Now().Truncate(time.Second)
	s := addSchedule(t, openQueue(t, dir).Schedules(), schedule.Schedule{Rule: "every 10s", Dir: dir,
		Task: batch.Task{Prompt: "look"}, Overlap: schedule.OverlapParallel}, start)
	const times = 10
	now := start
	var drivers []*schedule.Driver
	for range 3 {
		drivers = append(drivers, &schedule.Driver{Store: openQueue(t, dir).Schedules(),
			Now: func() time.Time { return now }})
	}
	for range times * 2 {
		now = now.Add(5 * time.Second)
		var all sync.WaitGroup
		for _, d := range drivers {
			all.Go(func() {
				if err := d.Tick(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	runs := runsOf(t, openQueue(t, dir), s.ID)
	if len(runs) != times {
		t.Errorf("%d runs for %d times", len(runs), times)
	}
	for i, r := range runs {
		due, timed := schedule.DueOf(r.Item)
		if want := start.Add(time.Duration(i+1) * 10 * time.Second); !timed || !due.Equal(want) {
			t.Errorf("run %d: %s, due %s, want %s", i, r.State, due, want)
		}
	}
}

// TestScheduledRun follows a schedule through a run, a worker that dies before it starts one, and its removal.
func TestScheduledRun(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	q := openQueue(t, dir)
	x := q.Schedules()
	now := time.Now().Truncate(time.Second).Add(-time.Hour)
	zone := "UTC" // in which the schedule does not run on two days, for DayCost
	if hour := now.UTC().Hour(); hour > 20 {
		zone = "Asia/Tokyo"
	}
	s := addSchedule(t, x, schedule.Schedule{Rule: "every 10m", Zone: zone, Dir: dir, Task: batch.Task{Prompt: "look"},
		DayCost: 1}, now)
	var refusal string
	d := schedule.Driver{Store: x, Now: func() time.Time { return now },
		Check: func(schedule.Schedule) string { return refusal }}
	tick := func(later time.Duration) {
		t.Helper()
		now = now.Add(later)
		if err := d.Tick(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if tick(9 * time.Minute); len(runsOf(t, q, s.ID)) != 0 {
		t.Fatal("a run before its time")
	}
	tick(time.Minute)
	l, err := q.Claim(ctx, batch.Worker{ID: "w"})
	if err != nil || l.Run.Schedule != s.ID || l.Run.Task.Prompt != "look" || l.Run.Task.MaxCost != 1 {
		t.Fatalf("claimed %+v, %v", l.Run, err)
	}
	if err := q.Finish(ctx, l, batch.End{State: batch.Done},
		[]batch.Row{{Step: "1", Kind: batch.Spending, Cost: 0.25}}); err != nil {
		t.Fatal(err)
	}
	tick(10 * time.Minute) // submitted, and its worker is killed
	tick(5 * time.Minute)  // another one looks
	tick(5 * time.Minute)
	refusal = "the directory is gone"
	tick(10 * time.Minute)
	var got string
	for _, r := range runsOf(t, q, s.ID) {
		got += fmt.Sprintf("%s $%.2f, ", r.State, r.Task.MaxCost)
	}
	if want := "done $1.00, cancelled $0.75, cancelled $0.75, "; got != want {
		t.Errorf("runs: %s, want %s", got, want)
	}
	omissions, err := x.Omissions(ctx, s.ID, 10)
	if err != nil || len(omissions) != 1 || omissions[0].Why != schedule.WhyRefused {
		t.Errorf("omissions: %+v, %v", omissions, err)
	}
	if err := x.Remove(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if err := x.Remove(ctx, s.ID); !errors.Is(err, schedule.ErrUnknown) {
		t.Errorf("removed again: %v", err)
	}
	if len(runsOf(t, q, s.ID)) != 3 {
		t.Error("the runs of a removed schedule are forgotten")
	}
}

func TestDriven(t *testing.T) {
	dir := t.TempDir()
	a, b := openQueue(t, dir).Schedules(), openQueue(t, dir).Schedules()
	if a.Driven() {
		t.Error("driven by nobody")
	}
	release, err := a.Drive()
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Drive()
	if err != nil || !b.Driven() {
		t.Error("two cannot drive: ", err)
	}
	release()
	second()
	if a.Driven() {
		t.Error("still driven")
	}
}
