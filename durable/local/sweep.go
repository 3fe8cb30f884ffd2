package local

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack/durable/batch"
)

// sweepEvery is how often a worker that asks for runs looks after those of others.
const sweepEvery = 250 * time.Millisecond

// lockOf returns the file that a worker holds while it lives.
func (q *Queue) lockOf(worker string) string {
	return filepath.Join(q.dir, "workers", hex.EncodeToString([]byte(worker))+".lock")
}

// live takes the lock of a worker of this process, unless it has it.
func (q *Queue) live(worker string) error {
	if worker == "" || len(worker) > 100 {
		return errors.New("the ID of a worker has 1 to 100 bytes")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.workers[worker] != nil {
		return nil
	}
	lock := flock.New(q.lockOf(worker), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("another worker has the ID " + worker)
	}
	q.workers[worker] = lock
	return nil
}

// dead reports whether the process of a worker has ended.
func (q *Queue) dead(worker string) bool {
	q.mu.Lock()
	own := q.workers[worker] != nil
	q.mu.Unlock()
	if own {
		return false
	}
	path := q.lockOf(worker)
	if _, err := os.Lstat(path); err != nil {
		return errors.Is(err, os.ErrNotExist) // it left in peace
	}
	lock := flock.New(path, flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil || !ok {
		return false
	}
	_ = os.Remove(path) // the ID is not used again
	_ = lock.Unlock()
	return true
}

// sweep makes runs ready whose workers died or hang, and ends those that have waited too long. It is quick unless
// force is set: it does nothing if it did its work a moment ago.
func (q *Queue) sweep(ctx context.Context, force bool) error {
	q.mu.Lock()
	if !force && time.Since(q.swept) < sweepEvery {
		q.mu.Unlock()
		return nil
	}
	q.swept = time.Now()
	q.mu.Unlock()
	lost, err := q.lost(ctx)
	if err != nil {
		return err
	}
	var due bool
	err = q.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM runs WHERE state = 'waiting' AND run_after <= ?)
		OR EXISTS (SELECT 1 FROM runs `+delayed+`)
		OR EXISTS (SELECT 1 FROM batches b WHERE open = 1 AND `+nothingLeft+`)`, now(), now(), now()+1000).Scan(&due)
	if err != nil {
		return err
	}
	if len(lost) == 0 && !due {
		return nil
	}
	return q.tx(ctx, func(tx *sql.Tx) error {
		for _, l := range lost {
			if err := takeAway(ctx, tx, l); err != nil {
				return err
			}
		}
		if err := refuse(ctx, tx, "nobody answered its question in time", "run_after <= ?", now()); err != nil {
			return err
		}
		// A clock that was set back must not delay an attempt that was to come soon.
		if _, err := tx.ExecContext(ctx, `UPDATE runs SET run_after = item_after, stamped = ?
			WHERE n IN (SELECT n FROM runs `+delayed+")", now(), now(), now()+1000); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE batches AS b SET open = 0 WHERE open = 1 AND "+nothingLeft)
		return err
	})
}

// delayed are runs whose next attempt waits, written by a clock that has been set back since. SQLite itself would read
// all runs that are ready.
const delayed = "INDEXED BY runs_later WHERE state = 'ready' AND run_after > ? AND run_after > item_after AND " +
	"stamped > ?"

const nothingLeft = `NOT EXISTS (SELECT 1 FROM runs r WHERE r.state = 'ready' AND r.batch = b.n) AND
	NOT EXISTS (SELECT 1 FROM runs r WHERE r.state = 'running' AND r.batch = b.n) AND
	NOT EXISTS (SELECT 1 FROM runs r WHERE r.state = 'waiting' AND r.batch = b.n)`

// A loss is a lease that ends because of its worker.
type loss struct {
	n, token int64
	why      string
}

// lost returns the leases whose workers are dead, or have hung for too long.
func (q *Queue) lost(ctx context.Context) (all []loss, err error) {
	rows, err := q.read.QueryContext(ctx, "SELECT n, token, beat, lease, worker FROM runs WHERE state = 'running'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	dead := map[string]bool{}
	seen := map[int64]*heard{}
	for rows.Next() {
		l := loss{}
		var beat, lease int64
		var worker string
		if err := rows.Scan(&l.n, &l.token, &beat, &lease, &worker); err != nil {
			return nil, err
		}
		if _, ok := dead[worker]; !ok {
			dead[worker] = q.dead(worker)
		}
		switch h := q.hear(l.token, beat, time.Duration(lease)*time.Millisecond); {
		case dead[worker]:
			l.why = "its worker died"
			all = append(all, l)
		case h.silent >= time.Duration(lease)*time.Millisecond:
			l.why = "its worker hangs"
			all = append(all, l)
		default:
			seen[l.token] = h
		}
	}
	q.mu.Lock()
	q.seen = seen
	q.mu.Unlock()
	return all, rows.Err()
}

// hear notes how long a lease has had no heartbeat. A moment in which this process itself could not look counts as at
// most a fifth of the lease, so that a machine which was suspended, or is very busy, takes nothing away.
func (q *Queue) hear(token, beat int64, lease time.Duration) *heard {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.seen[token]
	if h == nil || h.beat != beat {
		return &heard{beat: beat, last: time.Now()}
	}
	next := *h
	next.silent += min(time.Since(h.last), lease/5)
	next.last = time.Now()
	return &next
}

// takeAway ends a lease whose worker is gone. The run is ready again, unless it seems to be the reason.
func takeAway(ctx context.Context, tx *sql.Tx, l loss) error {
	var options string
	err := tx.QueryRowContext(ctx, `SELECT b.options FROM runs r JOIN batches b ON b.n = r.batch
		WHERE r.n = ? AND r.token = ? AND r.state = 'running'`, l.n, l.token).Scan(&options)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // another process was first
	}
	if err != nil {
		return err
	}
	var o batch.Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	return finish(ctx, tx, l.n, o, batch.End{State: batch.Ready, Died: true, Error: l.why})
}
