package schedule_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/schedule"
)

func init() { time.Local = time.UTC }

// A world has a clock that can be set, one schedule, and the runs of which it has one worker or none.
type world struct {
	clock     time.Time // what it shows
	s         schedule.Schedule
	runs      []batch.Run
	omissions []schedule.Omission
	log       strings.Builder
	worker    bool
	takes     time.Duration // a run
	costs     float64
	elapsed   map[string]time.Duration
	refusal   string
}

func newWorld(t interface {
	Helper()
	Fatal(...any)
}, at string, s schedule.Schedule) *world {
	t.Helper()
	clock, err := time.Parse("2006-01-02 15:04:05", at)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{clock: clock, worker: true, takes: 10 * time.Second, elapsed: map[string]time.Duration{}}
	if w.s, err = schedule.New(s, clock); err != nil {
		t.Fatal(err)
	}
	return w
}

// step steps the schedule if it is due, as a Driver and a Store do.
func (w *world) step() {
	due := func(t time.Time) bool { return !t.IsZero() && !t.After(w.clock) }
	if !due(w.s.Next) && !due(w.s.Check) && !w.s.Stamped.After(w.clock.Add(time.Second)) {
		return
	}
	plan, err := w.s.Step(w.clock, w.runs, w.refusal)
	if err != nil {
		panic(err)
	}
	for i := range w.runs {
		r := &w.runs[i]
		switch {
		case slices.Contains(plan.Drop, r.ID) && r.State == batch.Ready:
			w.note("dropped " + r.Key[11:16])
			r.State = batch.Cancelled
		case slices.Contains(plan.Cancel, r.ID):
			w.note("cancelled " + r.Key[11:16])
			r.State = batch.Cancelled
		}
	}
	for _, i := range plan.Submit {
		r := batch.Run{ID: batch.RunID(w.s.ID, i.Key), Item: i, State: batch.Ready}
		if slices.ContainsFunc(w.runs, func(x batch.Run) bool { return x.ID == r.ID }) {
			panic("submitted again: " + i.Key)
		}
		w.runs = append(w.runs, r)
	}
	for _, o := range plan.Omissions {
		text := fmt.Sprintf("%s %s", o.Why, o.Due.In(w.s.Location()).Format("15:04"))
		if o.Count > 1 {
			text += fmt.Sprintf("-%s (%d)", o.Until.In(w.s.Location()).Format("15:04"), o.Count)
		}
		w.note(text)
	}
	w.omissions = append(w.omissions, plan.Omissions...)
}

func (w *world) note(text string) { fmt.Fprintf(&w.log, "%s; ", text) }

// pass lets time pass, a step every second.
func (w *world) pass(d time.Duration) {
	const tick = time.Second
	for ; d > 0; d -= tick {
		w.clock = w.clock.Add(tick)
		running := 0
		for i := range w.runs {
			if r := &w.runs[i]; r.State == batch.Running {
				if w.elapsed[r.ID] += tick; w.elapsed[r.ID] >= w.takes {
					r.State = batch.Done
					r.Spent.Cost = min(w.costs, cmp.Or(r.Task.MaxCost, w.costs))
				} else {
					running++
				}
			}
		}
		w.step()
		for i := range w.runs {
			if r := &w.runs[i]; w.worker && r.State == batch.Ready && (running == 0 || w.s.Overlap == schedule.OverlapParallel) {
				r.State, r.Attempt, r.Began = batch.Running, 1, w.clock
				w.note("run " + w.clock.In(w.s.Location()).Format("15:04:05"))
				running++
			}
		}
	}
}

func TestStep(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		s    schedule.Schedule
		at   string
		do   func(*world)
		want string
	}{
		{"in time", schedule.Schedule{Rule: "*/10 * * * *"}, "2026-11-23 08:59:30",
			func(w *world) { w.pass(15 * time.Minute) }, "run 09:00:00; run 09:10:00"},
		{"asleep, skip", schedule.Schedule{Rule: "0 9 * * *"}, "2026-11-23 08:00:00", func(w *world) {
			w.clock = w.clock.Add(7 * day) // the laptop slept
			w.pass(2 * time.Hour)
		}, "missed 09:00-09:00 (7); run 09:00:00"},
		{"asleep, a minute late", schedule.Schedule{Rule: "0 9 * * *"}, "2026-11-23 08:00:00", func(w *world) {
			w.clock = w.clock.Add(time.Hour + 30*time.Second)
			w.pass(time.Minute)
		}, "run 09:00:31"},
		{"asleep, once", schedule.Schedule{Rule: "0 * * * *", Missed: schedule.MissedOnce}, "2026-11-23 08:30:00", func(w *world) {
			w.clock = w.clock.Add(4 * time.Hour)
			w.pass(time.Hour)
		}, "missed 09:00-11:00 (3); run 12:30:01; run 13:00:00"},
		{"asleep, all", schedule.Schedule{Rule: "0 * * * *", Missed: schedule.MissedAll}, "2026-11-23 08:30:00", func(w *world) {
			w.clock = w.clock.Add(4 * time.Hour)
			w.pass(time.Hour)
		}, "run 12:30:01; run 12:30:11; run 12:30:21; run 12:30:31; run 13:00:00"},
		{"a grace of its own", schedule.Schedule{Rule: "0 9 * * *", Grace: 2 * time.Hour}, "2026-11-23 08:00:00", func(w *world) {
			w.clock = w.clock.Add(2*time.Hour + time.Minute)
			w.pass(time.Minute)
		}, "run 10:01:01"},
		{"a year of seconds", schedule.Schedule{Rule: "every 1s", Overlap: schedule.OverlapWait}, "2026-11-23 08:00:00",
			func(w *world) {
				w.clock = w.clock.Add(365 * day)
				w.worker = false
				w.step()
			}, "missed 08:00-07:58 (31535939); overlap 07:59-08:00 (60)"},
		{"no worker, then one in time", schedule.Schedule{Rule: "0 9 * * *"}, "2026-11-23 08:59:50", func(w *world) {
			w.worker = false
			w.pass(40 * time.Second)
			w.worker = true
			w.pass(time.Minute)
		}, "run 09:00:31"},
		{"no worker until it is missed", schedule.Schedule{Rule: "0 9 * * *"}, "2026-11-23 08:59:50", func(w *world) {
			w.worker = false // killed after it submitted the run
			w.pass(20 * time.Second)
			w.clock = w.clock.Add(3 * time.Hour)
			w.worker = true
			w.pass(time.Minute)
		}, "dropped 09:00"},
		{"no worker, once", schedule.Schedule{Rule: "0 9 * * *", Missed: schedule.MissedOnce}, "2026-11-23 08:59:50",
			func(w *world) {
				w.worker = false
				w.pass(20 * time.Second)
				w.clock = w.clock.Add(3 * time.Hour)
				w.worker = true
				w.pass(time.Minute)
			}, "run 12:00:11"},
		{"overlap skip", schedule.Schedule{Rule: "* * * * *"}, "2026-11-23 08:59:50", func(w *world) {
			w.takes = 150 * time.Second
			w.pass(4 * time.Minute)
		}, "run 09:00:00; overlap 09:01; overlap 09:02; run 09:03:00"},
		{"overlap wait", schedule.Schedule{Rule: "* * * * *", Overlap: schedule.OverlapWait}, "2026-11-23 08:59:50", func(w *world) {
			w.takes = 150 * time.Second
			w.pass(4 * time.Minute)
		}, "run 09:00:00; overlap 09:02; run 09:02:30"},
		{"overlap cancel", schedule.Schedule{Rule: "* * * * *", Overlap: schedule.OverlapCancel}, "2026-11-23 08:59:50",
			func(w *world) {
				w.takes = 150 * time.Second
				w.pass(2 * time.Minute)
			}, "run 09:00:00; cancelled 09:00; run 09:01:01"},
		{"overlap parallel", schedule.Schedule{Rule: "* * * * *", Overlap: schedule.OverlapParallel}, "2026-11-23 08:59:50",
			func(w *world) {
				w.takes = 150 * time.Second
				w.pass(2 * time.Minute)
			}, "run 09:00:00; run 09:01:00"},
		{"the day's cost, in the schedule's zone",
			schedule.Schedule{Rule: "*/20 * * * *", Zone: "America/New_York", DayCost: 1}, "2026-11-24 03:50:00", func(w *world) {
				w.costs = 0.4 // 22:50 in New York
				w.pass(90 * time.Minute)
			}, "run 23:00:00; run 23:20:00; run 23:40:00; run 00:00:00; run 00:20:00"},
		{"the day's cost is reached", schedule.Schedule{Rule: "*/20 * * * *", DayCost: 1}, "2026-11-23 08:50:00", func(w *world) {
			w.costs = 0.5
			w.pass(2 * time.Hour)
		}, "run 09:00:00; run 09:20:00; limit 09:40; limit 10:00; limit 10:20; limit 10:40"},
		{"what goes on may cost what it may", schedule.Schedule{Rule: "*/20 * * * *", DayCost: 1,
			Task: batch.Task{MaxCost: 0.6}, Overlap: schedule.OverlapParallel}, "2026-11-23 08:50:00", func(w *world) {
			w.takes, w.costs = time.Hour, 0.1
			w.pass(55 * time.Minute)
		}, "run 09:00:00; run 09:20:00; limit 09:40"},
		{"set back by an hour", schedule.Schedule{Rule: "*/30 * * * *"}, "2026-11-23 08:59:30", func(w *world) {
			w.pass(32 * time.Minute)
			w.clock = w.clock.Add(-time.Hour) // 08:31
			w.pass(2 * time.Hour)
		}, "run 09:00:00; run 09:30:00; run 10:00:00; run 10:30:00"},
		{"set back by a year", schedule.Schedule{Rule: "0 9 * * *"}, "2027-11-23 08:59:30", func(w *world) {
			w.pass(time.Minute)
			w.clock = w.clock.Add(-365 * day)
			w.pass(day)
		}, "run 09:00:00; run 09:00:00"},
		{"set forward and back", schedule.Schedule{Rule: "0 9 * * *"}, "2026-11-23 08:00:00", func(w *world) {
			w.clock = w.clock.Add(3 * 365 * day)
			w.pass(2 * time.Hour)
			w.clock = w.clock.Add(-3 * 365 * day)
			w.pass(day)
		}, "missed 09:00-09:00 (1095); run 09:00:00; run 09:00:00"},
		{"an interval set back", schedule.Schedule{Rule: "every 10m"}, "2026-11-23 09:00:00", func(w *world) {
			w.pass(11 * time.Minute)
			w.clock = w.clock.Add(-5 * time.Hour) // 04:11
			w.pass(20*time.Minute + time.Second)
		}, "run 09:10:00; run 04:21:01; run 04:31:01"},
		{"at a time", schedule.Schedule{Rule: "at 9:00"}, "2026-11-23 08:59:30", func(w *world) { w.pass(25 * time.Hour) },
			"run 09:00:00"},
		{"at a time that was slept through", schedule.Schedule{Rule: "in 10m"}, "2026-11-23 09:00:00", func(w *world) {
			w.clock = w.clock.Add(7 * day)
			w.pass(25 * time.Hour)
		}, "run 09:00:01"},
		{"cron, once", schedule.Schedule{Rule: "*/5 * * * *", Once: true}, "2026-11-23 09:01:00",
			func(w *world) { w.pass(time.Hour) }, "run 09:05:00"},
		{"in the gap", schedule.Schedule{Rule: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28 23:00:00",
			func(w *world) { w.pass(28 * time.Hour) }, "run 03:00:00; run 02:30:00"},
		{"in the doubled hour", schedule.Schedule{Rule: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-24 23:00:00",
			func(w *world) { w.pass(28 * time.Hour) }, "run 02:30:00; run 02:30:00"}, // on two days
		{"refused", schedule.Schedule{Rule: "*/10 * * * *"}, "2026-11-23 08:59:30", func(w *world) {
			w.refusal = "the directory is gone"
			w.pass(5 * time.Minute)
			w.refusal = ""
			w.pass(10 * time.Minute)
		}, "refused 09:00; run 09:10:00"},
		{"paused", schedule.Schedule{Rule: "*/10 * * * *"}, "2026-11-23 08:59:30", func(w *world) {
			w.s.Pause()
			w.pass(25 * time.Minute)
			if err := w.s.Resume(w.clock); err != nil {
				panic(err)
			}
			w.pass(10 * time.Minute)
		}, "run 09:30:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.at, c.s)
			c.do(w)
			if got := strings.TrimSuffix(w.log.String(), "; "); got != strings.TrimSuffix(c.want, "; ") {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestAccounts: whatever happens to workers and to a clock that only goes forward, every time of a schedule is either
// run once or omitted once.
func TestAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedule.Schedule{
			Rule: rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "every 50s", "30 2 * * *", "15,45 1-3 * * *"}).Draw(t, "rule"),
			Zone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(t, "zone"),
			Missed: rapid.SampledFrom([]schedule.Missed{schedule.MissedSkip, schedule.MissedOnce,
				schedule.MissedAll}).Draw(t, "missed"),
			Overlap: rapid.SampledFrom([]schedule.Overlap{schedule.OverlapSkip, schedule.OverlapWait,
				schedule.OverlapParallel}).Draw(t, "overlap"),
			DayCost: rapid.SampledFrom([]float64{0, 3}).Draw(t, "limit"),
		}
		w := newWorld(t, rapid.SampledFrom([]string{"2026-03-28 23:30:00", "2026-10-03 14:20:00", "2026-10-24 22:30:00"}).
			Draw(t, "at"), s)
		first, start := w.s, w.clock
		w.costs = 1
		w.takes = time.Duration(rapid.IntRange(1, 200).Draw(t, "takes")) * time.Second
		for range rapid.IntRange(1, 6).Draw(t, "events") {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				w.worker = !w.worker
			case 1:
				w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 20000).Draw(t, "sleep")) * time.Second)
			default:
				w.pass(time.Duration(rapid.IntRange(1, 900).Draw(t, "pass")) * time.Second)
			}
		}
		w.worker = true
		w.pass(time.Second)
		// Count what the rule names until the cursor.
		again, err := schedule.New(schedule.Schedule{Rule: s.Rule, Zone: s.Zone, Missed: schedule.MissedAll,
			Overlap: schedule.OverlapParallel}, start)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for again.Next = first.Next; again.Next.Before(w.s.Next); named++ {
			if _, err := again.Step(again.Next, nil, ""); err != nil {
				t.Fatal(err)
			}
		}
		accounted := len(w.runs)
		for _, o := range w.omissions {
			accounted += o.Count
		}
		if accounted != named {
			t.Fatalf("%d runs and omissions for %d times: %s", accounted, named, &w.log)
		}
		if w.s.Missed != schedule.MissedAll && !w.s.Next.After(w.clock) {
			t.Fatalf("the next time %s has passed", w.s.Next)
		}
	})
}

func TestNew(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		s    schedule.Schedule
		want string
	}{
		{schedule.Schedule{Rule: "soon"}, "a time is five cron fields"},
		{schedule.Schedule{Rule: "at 2020-01-01 9:00"}, "this time is over"},
		{schedule.Schedule{Rule: "@daily", Zone: "Mars/Olympus"}, `the time zone "Mars/Olympus" is unknown`},
	} {
		if _, err := schedule.New(c.s, now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.s, err, c.want)
		}
	}
}
