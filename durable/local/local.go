// Package local is the queue of one machine: a SQLite file that several processes use at once, on modernc.org/sqlite.
//
// A process writes on one connection, in immediate transactions of the write-ahead log; kill -9 at any moment loses
// nothing that was committed. A worker holds a lock on a file as long as it lives, so that its death is noticed at
// once. A worker that hangs is noticed by others who see that its heartbeats have stopped for the length of its lease,
// each by its own monotonic clock: no clock that somebody can set ends a lease.
package local

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite" // its driver is registered with database/sql

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/internal/leaf/order"
)

// A Queue is a batch.Queue in a directory.
type Queue struct {
	dir   string
	write *sql.DB // one connection
	read  *sql.DB
	turn  chan struct{} // has a value while a goroutine writes
	lock  *flock.Flock  // held while this process writes

	mu      sync.Mutex
	workers map[string]*flock.Flock // those of this process, by ID
	seen    map[int64]*heard        // leases of other workers, by their token
	swept   time.Time
	spent   map[int64]float64 // cost by batch, of the rows up to last
	last    int64
}

var _ batch.Queue = (*Queue)(nil)

// heard is what this process knows about a lease of a worker that may hang.
type heard struct {
	beat   int64
	silent time.Duration
	last   time.Time
}

// Open opens the queue in a directory, which is made if it is missing. Processes that open it at the same time wait for
// each other.
func Open(ctx context.Context, dir string) (*Queue, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory of the queue is not absolute: %q", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, "workers"), 0o700); err != nil {
		return nil, err
	}
	// Changing to the write-ahead log and migrating fail, instead of waiting, while another connection writes.
	lock := flock.New(filepath.Join(dir, "open.lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return nil, err
	}
	defer lock.Unlock()
	path := filepath.Join(dir, "queue.db")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite gives its other files the same mode
	if err != nil {
		return nil, err
	}
	f.Close()
	q := &Queue{dir: dir, turn: make(chan struct{}, 1),
		lock: flock.New(filepath.Join(dir, "write.lock"), flock.SetPermissions(0o600)), workers: map[string]*flock.Flock{},
		seen: map[int64]*heard{}, spent: map[int64]float64{}}
	if q.write, err = sql.Open("sqlite", source(path)); err != nil {
		return nil, err
	}
	q.write.SetMaxOpenConns(1)
	if err := q.migrate(ctx); err != nil {
		q.write.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if q.read, err = sql.Open("sqlite", source(path)+"&_pragma=query_only(1)"); err != nil {
		q.write.Close()
		return nil, err
	}
	q.read.SetMaxOpenConns(2)
	return q, nil
}

func source(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_txlock=immediate&_pragma=busy_timeout(5000)" +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"}
	return u.String()
}

// Damaged reports whether an error says that the file is no queue, or not whole.
func Damaged(err error) bool {
	const corrupt, notDatabase = 11, 26
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == corrupt || e.Code()&0xff == notDatabase)
}

// schema are the steps from each version of the file to the next. A step only adds, so that programs of earlier
// versions can go on; it never changes once it was released.
var schema = []string{`
CREATE TABLE batches (
	n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, dir TEXT NOT NULL, created INTEGER NOT NULL,
	options TEXT NOT NULL, jobs INTEGER NOT NULL, max_cost REAL NOT NULL,
	open INTEGER NOT NULL -- whether a run may be left
);
CREATE TABLE runs (
	n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, batch INTEGER NOT NULL, item TEXT NOT NULL,
	schedule TEXT NOT NULL, task TEXT NOT NULL, needs INTEGER NOT NULL,
	state TEXT NOT NULL,
	run_after INTEGER NOT NULL, -- ready: not before; waiting: until then; ms
	item_after INTEGER NOT NULL, -- what the item asked for
	stamped INTEGER NOT NULL, -- when run_after was written
	token INTEGER NOT NULL, beat INTEGER NOT NULL, lease INTEGER NOT NULL, worker TEXT NOT NULL,
	attempt INTEGER NOT NULL, round INTEGER NOT NULL, failures INTEGER NOT NULL, lost INTEGER NOT NULL,
	cancel INTEGER NOT NULL, question TEXT, answers TEXT, ending TEXT,
	began INTEGER NOT NULL, claimed INTEGER NOT NULL, ended INTEGER NOT NULL, took INTEGER NOT NULL,
	changed INTEGER NOT NULL -- counts the changes of all runs
);
CREATE INDEX runs_ready ON runs (state, batch, run_after);
CREATE INDEX runs_later ON runs (run_after) WHERE state = 'ready' AND run_after > item_after;
CREATE INDEX runs_batch ON runs (batch, state);
CREATE INDEX runs_changed ON runs (changed);
CREATE INDEX runs_schedule ON runs (schedule, n) WHERE schedule <> '';
CREATE TABLE ledger (
	n INTEGER PRIMARY KEY, run INTEGER NOT NULL, batch INTEGER NOT NULL, step TEXT NOT NULL, kind TEXT NOT NULL,
	lease INTEGER NOT NULL, -- for rows that each lease may have: its token, otherwise 0
	token INTEGER NOT NULL, time INTEGER NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL,
	input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
	cost REAL NOT NULL, text TEXT NOT NULL,
	UNIQUE (run, step, kind, lease)
);
CREATE INDEX ledger_batch ON ledger (batch, run);
CREATE TABLE counters (tokens INTEGER NOT NULL);
INSERT INTO counters VALUES (0);
`, `
CREATE TABLE schedules (
	n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
	wake INTEGER NOT NULL, -- when to step it; 0: never
	stamped INTEGER NOT NULL, data TEXT NOT NULL
);
CREATE TABLE omissions (
	n INTEGER PRIMARY KEY, schedule TEXT NOT NULL, due INTEGER NOT NULL, until INTEGER NOT NULL, count INTEGER NOT NULL,
	why TEXT NOT NULL, note TEXT NOT NULL
);
CREATE INDEX omissions_schedule ON omissions (schedule, n);
`}

func (q *Queue) migrate(ctx context.Context) error {
	var at int
	if err := q.write.QueryRowContext(ctx, "PRAGMA user_version").Scan(&at); err != nil {
		return err
	}
	for i := at; i < len(schema); i++ {
		err := q.tx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, schema[i]); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", i+1))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tx runs f in a transaction that has the right to write from its beginning. While other processes write, it waits for
// a lock on a file, in turn: SQLite itself would look again after pauses of up to 100 ms, and starve.
func (q *Queue) tx(ctx context.Context, f func(*sql.Tx) error) error {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	locked := make(chan error, 1)
	if ok, err := q.lock.TryLock(); ok || err != nil {
		locked <- err
	} else {
		go func() { locked <- q.lock.Lock() }()
	}
	end := func() {
		_ = q.lock.Unlock() // it fails only for a file that is closed, whose lock is gone
		<-q.turn
	}
	select {
	case err := <-locked:
		defer end()
		if err != nil {
			return err
		}
	case <-ctx.Done():
		go func() {
			<-locked
			end()
		}()
		return ctx.Err()
	}
	for {
		err := q.once(ctx, f)
		var busy *sqlite.Error
		const sqliteBusy = 5
		if !errors.As(err, &busy) || busy.Code()&0xff != sqliteBusy || ctx.Err() != nil {
			return err
		}
	}
}

func (q *Queue) once(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := q.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error is the one that counts
		return err
	}
	return tx.Commit()
}

// Close ends the use of the queue by this process.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, lock := range q.workers {
		_ = os.Remove(lock.Path())
		_ = lock.Unlock()
	}
	clear(q.workers)
	return errors.Join(q.read.Close(), q.write.Close(), q.lock.Close())
}

// changed is the value of the column for a run that changes.
const changed = "(SELECT coalesce(max(changed), 0) + 1 FROM runs)"

func now() int64 { return time.Now().UnixMilli() }

// Submit adds the runs of a batch.
func (q *Queue) Submit(ctx context.Context, b batch.Batch, items []batch.Item) (added int, err error) {
	if b.ID == "" {
		return 0, errors.New("the batch has no ID")
	}
	err = q.tx(ctx, func(tx *sql.Tx) (err error) {
		added, err = submit(ctx, tx, b, items)
		return err
	})
	return added, err
}

func submit(ctx context.Context, tx *sql.Tx, b batch.Batch, items []batch.Item) (added int, err error) {
	options, err := json.Marshal(b.Options)
	if err != nil {
		return 0, err
	}
	created := b.Created
	if created.IsZero() {
		created = time.Now()
	}
	var n int64
	err = tx.QueryRowContext(ctx, `INSERT INTO batches (id, name, dir, created, options, jobs, max_cost, open)
		VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (id) DO UPDATE SET options = excluded.options,
		jobs = excluded.jobs, max_cost = excluded.max_cost, open = 1 RETURNING n`,
		b.ID, b.Name, b.Dir, created.UnixMilli(), options, b.Jobs, b.MaxCost).Scan(&n)
	if err != nil {
		return 0, err
	}
	insert, err := tx.PrepareContext(ctx, `INSERT INTO runs (id, batch, item, schedule, task, needs, state, run_after,
		item_after, stamped, token, beat, lease, worker, attempt, round, failures, lost, cancel, began, claimed, ended, took,
		changed)
		VALUES (?, ?, ?, ?, ?, ?, 'ready', ?, ?, ?, 0, 0, 0, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, `+changed+`)
		ON CONFLICT (id) DO NOTHING`)
	if err != nil {
		return 0, err
	}
	defer insert.Close()
	for _, item := range items {
		task, err := json.Marshal(item.Task)
		if err != nil {
			return 0, err
		}
		after := millis(item.After)
		r, err := insert.ExecContext(ctx, batch.RunID(b.ID, item.Key), n, item.Key, item.Schedule, task, item.Task.Needs,
			after, after, now())
		if err != nil {
			return 0, err
		}
		rows, err := r.RowsAffected()
		if err != nil {
			return 0, err
		}
		added += int(rows)
	}
	return added, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Claim gives a run to a worker.
func (q *Queue) Claim(ctx context.Context, w batch.Worker) (l batch.Lease, err error) {
	if err := q.live(w.ID); err != nil {
		return l, err
	}
	if err := q.sweep(ctx, false); err != nil {
		return l, err
	}
	err = q.tx(ctx, func(tx *sql.Tx) error {
		if err := q.addUp(ctx, tx); err != nil {
			return err
		}
		from, err := q.eligible(ctx, tx, w.Batch)
		if err != nil {
			return err
		}
		for _, b := range from {
			var n int64
			err := tx.QueryRowContext(ctx, `UPDATE runs SET state = 'running', token = (SELECT tokens + 1 FROM counters),
				beat = 0, lease = ?, worker = ?, attempt = attempt + 1, claimed = ?, began = iif(began = 0, ?, began),
				changed = `+changed+`
				WHERE n = (SELECT n FROM runs WHERE state = 'ready' AND batch = ? AND run_after <= ? AND needs <= ?
					ORDER BY run_after LIMIT 1) RETURNING n`,
				cmp.Or(w.Lease, batch.DefaultLease).Milliseconds(), w.ID, now(), now(), b, now(),
				cmp.Or(w.Version, batch.Version)).Scan(&n)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "UPDATE counters SET tokens = tokens + 1"); err != nil {
				return err
			}
			return q.lease(ctx, tx, n, &l)
		}
		return batch.ErrEmpty
	})
	return l, err
}

// lease reads what a worker needs.
func (q *Queue) lease(ctx context.Context, tx *sql.Tx, n int64, l *batch.Lease) error {
	rows, err := tx.QueryContext(ctx, "SELECT "+runColumns+" FROM runs r JOIN batches b ON b.n = r.batch WHERE r.n = ?", n)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRun(rows)
		if err != nil {
			return err
		}
		l.Run, l.Token = r.Run, r.Token
	}
	if err := cmp.Or(rows.Err(), rows.Close()); err != nil {
		return err
	}
	var id int64
	return scanBatch(tx.QueryRowContext(ctx, "SELECT "+batchColumns+" FROM batches b WHERE b.id = ?", l.Run.Batch),
		&l.Batch, &id)
}

// eligible returns the batches that may start a run, those with the fewest running ones first. In the background, what
// follows a question waits, too.
func (q *Queue) eligible(ctx context.Context, tx *sql.Tx, only string) ([]int64, error) {
	rows, err := tx.QueryContext(ctx, `SELECT b.n, b.jobs, b.max_cost,
		(SELECT count(*) FROM runs r WHERE r.state = 'running' AND r.batch = b.n) +
		iif(substr(b.id, 1, ?) = ?, (SELECT count(*) FROM runs r WHERE r.state = 'waiting' AND r.batch = b.n), 0)
		FROM batches b
		WHERE b.open = 1 AND (b.id = ? OR ? = '' AND substr(b.id, 1, ?) <> ?)`, len(batch.BackgroundPrefix),
		batch.BackgroundPrefix, only, only, len(batch.BackgroundPrefix), batch.BackgroundPrefix)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	type candidate struct{ n, running int64 }
	var all []candidate
	for rows.Next() {
		var c candidate
		var jobs int64
		var limit float64
		if err := rows.Scan(&c.n, &jobs, &limit, &c.running); err != nil {
			return nil, err
		}
		if (jobs == 0 || c.running < jobs) && (limit == 0 || !q.exhausted(c.n, limit)) {
			all = append(all, c)
		}
	}
	order.Stable(all, func(a, b candidate) int { return cmp.Compare(a.running, b.running) })
	ns := make([]int64, len(all))
	for i, c := range all {
		ns[i] = c.n
	}
	return ns, rows.Err()
}

// exhausted reports whether a batch has spent what it may. Call addUp first.
func (q *Queue) exhausted(b int64, limit float64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.spent[b] >= limit
}

// newRows reads the rows of the ledger after one. For the grouping, SQLite itself would read all of them in the order
// of an index.
const newRows = "SELECT batch, sum(cost), max(n) FROM ledger NOT INDEXED WHERE n > ? GROUP BY batch"

// addUp adds the rows of the ledger that were written since the last time: they are only ever added.
func (q *Queue) addUp(ctx context.Context, tx *sql.Tx) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	rows, err := tx.QueryContext(ctx, newRows, q.last)
	if err != nil {
		return err
	}
	defer rows.Close()
	type sum struct {
		batch, last int64
		cost        float64
	}
	var sums []sum
	for rows.Next() {
		var s sum
		if err := rows.Scan(&s.batch, &s.cost, &s.last); err != nil {
			return err
		}
		sums = append(sums, s)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, s := range sums {
		q.spent[s.batch] += s.cost
		q.last = max(q.last, s.last)
	}
	return nil
}

// held returns where the run of a lease is in the tables; ErrLost if the lease has ended.
func held(ctx context.Context, tx *sql.Tx, l batch.Lease) (n, b int64, limit float64, cancel bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT r.n, r.batch, b.max_cost, r.cancel FROM runs r JOIN batches b ON b.n = r.batch
		WHERE r.id = ? AND r.token = ? AND r.state = 'running'`, l.Run.ID, l.Token).Scan(&n, &b, &limit, &cancel)
	if errors.Is(err, sql.ErrNoRows) {
		err = batch.ErrLost
	}
	return n, b, limit, cancel, err
}

// Heartbeat extends a lease and writes rows of the ledger.
func (q *Queue) Heartbeat(ctx context.Context, l batch.Lease, rows []batch.Row) (order batch.Order, err error) {
	err = q.tx(ctx, func(tx *sql.Tx) error {
		n, b, limit, cancel, err := held(ctx, tx, l)
		if err != nil {
			return err
		}
		order = batch.GoOn
		if cancel {
			order = batch.Stop
		} else if limit > 0 {
			if err := q.addUp(ctx, tx); err != nil {
				return err
			}
			if q.exhausted(b, limit-sumOf(rows)) {
				order = batch.Hold
			}
		}
		if order != batch.GoOn {
			rows = slices.DeleteFunc(slices.Clone(rows), func(r batch.Row) bool { return r.Kind == batch.Started })
		}
		if err := record(ctx, tx, n, b, l.Token, rows); err != nil {
			return err
		}
		set := "beat = beat + 1"
		if len(rows) > 0 {
			set += ", changed = " + changed
		}
		_, err = tx.ExecContext(ctx, "UPDATE runs SET "+set+" WHERE n = ?", n)
		return err
	})
	return order, err
}

// sumOf returns what rows that are about to be written cost. Those that are in the ledger already count twice, which
// only matters to a run that was taken over at the moment in which its batch has spent what it may.
func sumOf(rows []batch.Row) (cost float64) {
	for _, r := range rows {
		cost += r.Cost
	}
	return cost
}

// record writes rows of the ledger; those that are in it already are ignored.
func record(ctx context.Context, tx *sql.Tx, run, b, token int64, rows []batch.Row) error {
	for _, r := range rows {
		lease := int64(0)
		if r.Kind == batch.Started {
			lease = token
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO ledger (run, batch, step, kind, lease, token, time, model, requests, input,
			output, cache_read, cache_write, cost, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, run, b, r.Step, r.Kind, lease, token, now(), r.Model, r.Requests, r.Usage.Input,
			r.Usage.Output, r.Usage.CacheRead, r.Usage.CacheWrite, r.Cost, r.Text)
		if err != nil {
			return err
		}
	}
	return nil
}

// Finish ends a lease.
func (q *Queue) Finish(ctx context.Context, l batch.Lease, end batch.End, rows []batch.Row) error {
	if end.State == batch.Running || end.State == "" {
		return fmt.Errorf("%w: %q is no end", batch.ErrState, end.State)
	}
	return q.tx(ctx, func(tx *sql.Tx) error {
		n, b, _, _, err := held(ctx, tx, l)
		if err != nil {
			return err
		}
		if err := record(ctx, tx, n, b, l.Token, rows); err != nil {
			return err
		}
		return finish(ctx, tx, n, l.Batch.Options, end)
	})
}

// finish writes the end of an attempt of a run that is running.
func finish(ctx context.Context, tx *sql.Tx, n int64, o batch.Options, end batch.End) error {
	var r batch.Run
	var cancelled bool
	if err := tx.QueryRowContext(ctx, "SELECT failures, round, lost, cancel FROM runs WHERE n = ?", n).
		Scan(&r.Failures, &r.Round, &r.Lost, &cancelled); err != nil {
		return err
	}
	after := int64(0)
	if delay := r.EndAttempt(end, o, cancelled); delay > 0 {
		after = now() + delay.Milliseconds()
	}
	var question any
	if r.State == batch.Waiting {
		question = string(r.Question)
	}
	ending, err := json.Marshal(r.End)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE runs SET state = ?, run_after = ?, stamped = ?, failures = ?, lost = ?, round = ?,
		question = ?, ending = ?, ended = ?, took = took + max(0, ? - claimed), changed = `+changed+` WHERE n = ?`,
		r.State, after, now(), r.Failures, r.Lost, r.Round, question, ending, now(), now(), n)
	return err
}

// Requeue makes a run ready again.
func (q *Queue) Requeue(ctx context.Context, run string, answer *batch.Answer) error {
	return q.tx(ctx, func(tx *sql.Tx) error {
		var n, b int64
		var state batch.State
		var question, answers sql.NullString
		err := tx.QueryRowContext(ctx, "SELECT n, batch, state, question, answers FROM runs WHERE id = ?", run).
			Scan(&n, &b, &state, &question, &answers)
		if errors.Is(err, sql.ErrNoRows) {
			return batch.ErrUnknown
		}
		if err != nil {
			return err
		}
		if answer != nil && state != batch.Waiting || answer == nil && !state.Ended() {
			return fmt.Errorf("%w: it is %s", batch.ErrState, state)
		}
		if answer == nil {
			_, err = tx.ExecContext(ctx, `UPDATE runs SET round = round + 1, failures = 0, lost = 0, answers = NULL,
				state = 'ready', run_after = 0, stamped = ?, question = NULL, cancel = 0,
				changed = `+changed+" WHERE n = ?", now(), n)
		} else {
			err = answered(ctx, tx, n, question.String, answers.String, *answer)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE batches SET open = 1 WHERE n = ?", b)
		return err
	})
}

// answered adds an answer to a run that waits.
func answered(ctx context.Context, tx *sql.Tx, n int64, question, answers string, answer batch.Answer) error {
	all := []batch.Answered{}
	if answers != "" {
		if err := json.Unmarshal([]byte(answers), &all); err != nil {
			return err
		}
	}
	data, err := json.Marshal(append(all, batch.Answered{Question: json.RawMessage(question), Answer: answer}))
	if err != nil {
		return err
	}
	if answer.No {
		if err := refuse(ctx, tx, "the user answered no", "n = ?", n); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE runs SET answers = ? WHERE n = ?", string(data), n)
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE runs SET answers = ?, state = 'ready', run_after = 0, stamped = ?,
		question = NULL, changed = `+changed+" WHERE n = ?", string(data), now(), n)
	return err
}

// refuse ends runs that wait, because there is no answer or because it is no.
func refuse(ctx context.Context, tx *sql.Tx, why, where string, args ...any) error {
	ending, err := json.Marshal(batch.End{State: batch.Refused, Error: why})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE runs SET state = 'refused', question = NULL,
		ending = json_patch(coalesce(ending, '{}'), ?), ended = ?,
		changed = `+changed+" WHERE state = 'waiting' AND "+where, append([]any{string(ending), now()}, args...)...)
	return err
}

// Cancel ends runs of a batch.
func (q *Queue) Cancel(ctx context.Context, b string, runs ...string) error {
	// A run whose worker is dead would never learn of it.
	if err := q.sweep(ctx, true); err != nil {
		return err
	}
	return q.tx(ctx, func(tx *sql.Tx) error {
		var n int64
		if err := tx.QueryRowContext(ctx, "SELECT n FROM batches WHERE id = ?", b).Scan(&n); errors.Is(err, sql.ErrNoRows) {
			return batch.ErrUnknown
		} else if err != nil {
			return err
		}
		if len(runs) == 0 {
			_, err := cancel(ctx, tx, "batch = ?", n)
			return err
		}
		for _, id := range runs {
			if rows, err := cancel(ctx, tx, "id = ? AND batch = ?", id, n); err != nil {
				return err
			} else if rows > 0 {
				continue
			}
			var state batch.State
			err := tx.QueryRowContext(ctx, "SELECT state FROM runs WHERE id = ? AND batch = ?", id, n).Scan(&state)
			if errors.Is(err, sql.ErrNoRows) {
				return fmt.Errorf("%w: %s", batch.ErrUnknown, id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// cancel ends runs, or asks their workers to end them, and returns how many.
func cancel(ctx context.Context, tx *sql.Tx, where string, args ...any) (int64, error) {
	r, err := tx.ExecContext(ctx, `UPDATE runs SET cancel = 1, ended = iif(state = 'running', ended, ?),
		question = NULL, changed = `+changed+`, state = iif(state = 'running', state, 'cancelled')
		WHERE `+where+" AND state IN ('ready', 'running', 'waiting')", append([]any{now()}, args...)...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
