package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/schedule"
)

// Schedules are the schedules of a queue, in the same file.
type Schedules struct{ q *Queue }

var _ schedule.Store = Schedules{}

// Schedules returns the schedules of the queue.
func (q *Queue) Schedules() Schedules { return Schedules{q} }

// wake returns when Step must be called for a schedule, in Unix milliseconds; 0: never.
func wake(s *schedule.Schedule) int64 {
	next := s.Next
	if s.Paused {
		next = time.Time{}
	}
	if next.IsZero() || !s.Check.IsZero() && s.Check.Before(next) {
		next = s.Check
	}
	return millis(next)
}

// Add stores a new schedule.
func (x Schedules) Add(ctx context.Context, s schedule.Schedule) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return x.q.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO schedules (id, wake, stamped, data) VALUES (?, ?, ?, ?)", s.ID, wake(&s),
			s.Stamped.UnixMilli(), string(data))
		return err
	})
}

// All returns the schedules in the order in which they were added.
func (x Schedules) All(ctx context.Context) (all []schedule.Schedule, err error) {
	rows, err := x.q.read.QueryContext(ctx, "SELECT data FROM schedules ORDER BY n")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var data string
		var s schedule.Schedule
		if err := rows.Scan(&data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(data), &s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// Due returns the IDs of the schedules whose time has come, or which were last written by a clock ahead of this one.
func (x Schedules) Due(ctx context.Context, now time.Time) (ids []string, err error) {
	rows, err := x.q.read.QueryContext(ctx, "SELECT id FROM schedules WHERE wake > 0 AND (wake <= ? OR stamped > ?)",
		now.UnixMilli(), now.Add(time.Second).UnixMilli())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// Change changes a schedule and carries out a plan, in one transaction.
func (x Schedules) Change(ctx context.Context, id string, since time.Time,
	f func(*schedule.Schedule, []batch.Run) (schedule.Plan, error)) error {
	// Runs whose worker is dead would seem to go on.
	if err := x.q.sweep(ctx, false); err != nil {
		return err
	}
	return x.q.tx(ctx, func(tx *sql.Tx) error {
		var data string
		err := tx.QueryRowContext(ctx, "SELECT data FROM schedules WHERE id = ?", id).Scan(&data)
		if errors.Is(err, sql.ErrNoRows) {
			return schedule.ErrUnknown
		}
		var s schedule.Schedule
		if err == nil {
			err = json.Unmarshal([]byte(data), &s)
		}
		if err != nil {
			return err
		}
		runs, err := x.runs(ctx, tx, id, since)
		if err != nil {
			return err
		}
		plan, err := f(&s, runs)
		if err != nil {
			return err
		}
		if err := x.carryOut(ctx, tx, &s, plan); err != nil {
			return err
		}
		next, err := json.Marshal(s)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE schedules SET wake = ?, stamped = ?, data = ? WHERE id = ?", wake(&s),
			s.Stamped.UnixMilli(), string(next), id)
		return err
	})
}

// runs returns the runs of a schedule that have not ended, or began since a time.
func (x Schedules) runs(ctx context.Context, tx *sql.Tx, id string, since time.Time) ([]batch.Run, error) {
	seen := map[string]bool{}
	var all []batch.Run
	for _, f := range []batch.Filter{{Schedule: id, States: []batch.State{batch.Ready, batch.Running, batch.Waiting}},
		{Schedule: id, Since: since}} {
		runs, err := x.q.runs(ctx, tx, f, -1)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			if !seen[r.ID] {
				seen[r.ID] = true
				all = append(all, r.Run)
			}
		}
	}
	return all, nil
}

func (x Schedules) carryOut(ctx context.Context, tx *sql.Tx, s *schedule.Schedule, plan schedule.Plan) error {
	for _, run := range plan.Drop {
		ending, err := json.Marshal(batch.End{State: batch.Cancelled, Error: "missed: no worker started it in time"})
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE runs SET state = 'cancelled', ending = ?, ended = ?, changed = `+changed+`
			WHERE id = ? AND state = 'ready' AND attempt = 0`, string(ending), now(), run); err != nil {
			return err
		}
	}
	for _, run := range plan.Cancel {
		if _, err := cancel(ctx, tx, "id = ?", run); err != nil {
			return err
		}
	}
	if len(plan.Submit) > 0 {
		if _, err := submit(ctx, tx, s.Batch(), plan.Submit); err != nil {
			return err
		}
	}
	for _, o := range plan.Omissions {
		if _, err := tx.ExecContext(ctx, `INSERT INTO omissions (schedule, due, until, count, why, note)
			VALUES (?, ?, ?, ?, ?, ?)`, s.ID, o.Due.UnixMilli(), o.Until.UnixMilli(), o.Count, o.Why, o.Note); err != nil {
			return err
		}
	}
	return nil
}

// Remove forgets a schedule.
func (x Schedules) Remove(ctx context.Context, id string) error {
	return x.q.tx(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, "DELETE FROM schedules WHERE id = ?", id)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, schedule.ErrUnknown)
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM omissions WHERE schedule = ?", id)
		return err
	})
}

// Omissions returns the last omissions of a schedule, the newest first.
func (x Schedules) Omissions(ctx context.Context, id string, most int) (all []schedule.Omission, err error) {
	rows, err := x.q.read.QueryContext(ctx, `SELECT due, until, count, why, note FROM omissions WHERE schedule = ?
		ORDER BY n DESC LIMIT ?`, id, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o schedule.Omission
		var due, until int64
		if err := rows.Scan(&due, &until, &o.Count, &o.Why, &o.Note); err != nil {
			return nil, err
		}
		o.Due, o.Until = moment(due), moment(until)
		all = append(all, o)
	}
	return all, rows.Err()
}

// Drive marks this process as one that runs schedules (see Driven), until it ends or calls release.
func (x Schedules) Drive() (release func(), err error) {
	lock := x.lock()
	if ok, err := lock.TryRLock(); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("%s is locked", lock.Path()) // by Driven of another process, for a moment
	}
	return func() { _ = lock.Unlock() }, nil
}

// Driven reports whether a process has called Drive and not ended.
func (x Schedules) Driven() bool {
	if _, err := os.Lstat(x.lock().Path()); err != nil {
		return false
	}
	lock := x.lock()
	ok, err := lock.TryLock()
	if ok {
		_ = lock.Unlock()
	}
	return err == nil && !ok
}

func (x Schedules) lock() *flock.Flock {
	return flock.New(filepath.Join(x.q.dir, "schedules.lock"), flock.SetPermissions(0o600))
}
