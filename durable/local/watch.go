package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/durable/batch"
)

// watchEvery is how often Watch looks for changes by other processes.
const watchEvery = 200 * time.Millisecond

const batchColumns = "b.n, b.id, b.name, b.dir, b.created, b.options"

func scanBatch(row interface{ Scan(...any) error }, b *batch.Batch, n *int64) error {
	var created int64
	var options string
	if err := row.Scan(n, &b.ID, &b.Name, &b.Dir, &created, &options); err != nil {
		return err
	}
	b.Created = moment(created)
	return json.Unmarshal([]byte(options), &b.Options)
}

const runColumns = `r.n, r.id, b.id, r.item, r.schedule, r.task, r.item_after, r.state, r.attempt, r.round, r.failures,
	r.lost, r.worker, r.question, r.answers, r.ending, r.began, r.ended, r.took, r.changed, r.token`

type run struct {
	batch.Run
	n, changed int64
}

func scanRun(rows *sql.Rows) (r run, err error) {
	var task string
	var after, began, ended, took int64
	var question, answers, ending sql.NullString
	if err := rows.Scan(&r.n, &r.ID, &r.Batch, &r.Key, &r.Schedule, &task, &after, &r.State, &r.Attempt, &r.Round,
		&r.Failures, &r.Lost, &r.Worker, &question, &answers, &ending, &began, &ended, &took, &r.changed,
		&r.Token); err != nil {
		return r, err
	}
	r.After, r.Began, r.Ended, r.Took = moment(after), moment(began), moment(ended), time.Duration(took)*time.Millisecond
	if err := json.Unmarshal([]byte(task), &r.Task); err != nil {
		return r, err
	}
	if question.Valid {
		r.Question = json.RawMessage(question.String)
	}
	if answers.Valid {
		if err := json.Unmarshal([]byte(answers.String), &r.Answers); err != nil {
			return r, err
		}
	}
	if ending.Valid {
		r.End = new(batch.End)
		return r, json.Unmarshal([]byte(ending.String), r.End)
	}
	return r, nil
}

// Watch yields batches and runs.
func (q *Queue) Watch(ctx context.Context, f batch.Filter) iter.Seq2[batch.Change, error] {
	return func(yield func(batch.Change, error) bool) {
		last, version := int64(-1), ""
		for {
			began := time.Now()
			at, err := q.version(ctx)
			if err == nil && at != version {
				version = at
				last, err = q.changes(ctx, f, last, func(c batch.Change) bool { return yield(c, nil) })
				if last == stopped {
					return
				}
			}
			if err != nil {
				if ctx.Err() == nil || !f.Follow {
					yield(batch.Change{}, err)
				}
				return
			}
			if !f.Follow {
				return
			}
			if err := q.sweep(ctx, false); err != nil && ctx.Err() == nil {
				yield(batch.Change{}, err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(min(max(watchEvery, 10*time.Since(began)), 5*time.Second)): // a large batch takes time
			}
		}
	}
}

// version is a text that differs after a change of a run or a batch.
func (q *Queue) version(ctx context.Context) (v string, err error) {
	err = q.read.QueryRowContext(ctx, `SELECT (SELECT coalesce(max(changed), 0) FROM runs) || ' ' || count(*) || ' ' ||
		total(max_cost) || ' ' || total(jobs) FROM batches`).Scan(&v)
	return v, err
}

const stopped = -2

// changes yields what has changed after a number, and returns the next number; stopped if yield returned false.
func (q *Queue) changes(ctx context.Context, f batch.Filter, since int64, yield func(batch.Change) bool) (int64,
	error) {
	tx, err := q.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return since, err
	}
	defer tx.Rollback() // nothing was written
	batches, err := q.batches(ctx, tx, f)
	if err != nil {
		return since, err
	}
	var runs []run
	if !f.NoRuns {
		if runs, err = q.runs(ctx, tx, f, since); err != nil {
			return since, err
		}
	}
	var last int64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(changed), 0) FROM runs").Scan(&last); err != nil {
		return since, err
	}
	// The reader may take its time, or write; the connection must not wait for it.
	if err := tx.Rollback(); err != nil {
		return since, err
	}
	for _, c := range batches {
		if !yield(c) {
			return stopped, nil
		}
	}
	for i := range runs {
		if !yield(batch.Change{Run: &runs[i].Run}) {
			return stopped, nil
		}
	}
	return last, nil
}

func (q *Queue) batches(ctx context.Context, tx *sql.Tx, f batch.Filter) ([]batch.Change, error) {
	rows, err := tx.QueryContext(ctx, "SELECT "+batchColumns+` FROM batches b WHERE (? = '' OR b.id = ?) AND
		(? = '' OR EXISTS (SELECT 1 FROM runs r WHERE r.id = ? AND r.batch = b.n)) AND
		(? = '' OR EXISTS (SELECT 1 FROM runs r WHERE r.schedule = ? AND r.schedule <> '' AND r.batch = b.n))
		ORDER BY b.n`, f.Batch, f.Batch, f.Run, f.Run, f.Schedule, f.Schedule)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []batch.Change
	var ns []int64
	for rows.Next() {
		b, n := new(batch.Batch), int64(0)
		if err := scanBatch(rows, b, &n); err != nil {
			return nil, err
		}
		all, ns = append(all, batch.Change{Batch: b}), append(ns, n)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range all {
		t := &all[i].Totals
		if t.Runs, err = countStates(ctx, tx, ns[i]); err != nil {
			return nil, err
		}
		sums, err := spent(ctx, tx, "l.batch = ?", "", ns[i])
		if err != nil {
			return nil, err
		}
		t.Spent = sums[0]
	}
	return all, nil
}

func countStates(ctx context.Context, tx *sql.Tx, b int64) (map[batch.State]int, error) {
	rows, err := tx.QueryContext(ctx, "SELECT state, count(*) FROM runs WHERE batch = ? GROUP BY state", b)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	states := map[batch.State]int{}
	for rows.Next() {
		var s batch.State
		var n int
		if err := rows.Scan(&s, &n); err != nil {
			return nil, err
		}
		states[s] = n
	}
	return states, rows.Err()
}

// spent adds up rows of the ledger, by run, or all with the key 0 if by is "".
func spent(ctx context.Context, tx *sql.Tx, where, by string, args ...any) (map[int64]batch.Spent, error) {
	key, group := "0", ""
	if by != "" {
		key, group = "run", " GROUP BY run"
	}
	// What a running lease has started is not unknown yet.
	rows, err := tx.QueryContext(ctx, "SELECT "+key+`, total(requests), total(input), total(output), total(cache_read),
		total(cache_write), total(cost), total(starts - min(starts, known)) FROM (
			SELECT l.run, sum(l.requests) AS requests, sum(l.input) AS input, sum(l.output) AS output,
				sum(l.cache_read) AS cache_read, sum(l.cache_write) AS cache_write, sum(l.cost) AS cost,
				sum(l.kind = 'started') AS starts,
				max(l.kind IN ('spent', 'settled') OR l.kind = 'started' AND r.state = 'running' AND r.token = l.token) AS known
			FROM ledger l JOIN runs r ON r.n = l.run WHERE `+where+" GROUP BY l.run, l.step)"+group, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sums := map[int64]batch.Spent{}
	for rows.Next() {
		var n int64
		var v [7]float64
		if err := rows.Scan(&n, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6]); err != nil {
			return nil, err
		}
		s := batch.Spent{Requests: int(v[0]), Cost: v[5], Unknown: int(v[6])}
		s.Usage.Input, s.Usage.Output, s.Usage.CacheRead, s.Usage.CacheWrite = int(v[1]), int(v[2]), int(v[3]), int(v[4])
		sums[n] = s
	}
	return sums, rows.Err()
}

// runs returns the runs that have changed after a number, in the order in which they were submitted.
func (q *Queue) runs(ctx context.Context, tx *sql.Tx, f batch.Filter, since int64) ([]run, error) {
	where, args := "1 = 1", []any{}
	add := func(condition string, a ...any) {
		where += " AND " + condition
		args = append(args, a...)
	}
	if f.Batch != "" {
		add("r.batch = (SELECT n FROM batches WHERE id = ?)", f.Batch)
	}
	if f.Run != "" {
		add("r.id = ?", f.Run)
	}
	if f.Schedule != "" {
		add("r.schedule = ? AND r.schedule <> ''", f.Schedule)
	}
	if since >= 0 {
		add("r.changed > ?", since)
	}
	if len(f.States) > 0 {
		add("r.state IN (?" + strings.Repeat(", ?", len(f.States)-1) + ")")
		for _, s := range f.States {
			args = append(args, s)
		}
	}
	if !f.Since.IsZero() {
		ms := f.Since.UnixMilli()
		add("(r.began >= ? OR r.ended >= ? OR r.stamped >= ?)", ms, ms, ms)
	}
	rows, err := tx.QueryContext(ctx, "SELECT "+runColumns+" FROM runs r JOIN batches b ON b.n = r.batch WHERE "+where+
		" ORDER BY r.n", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []run
	for rows.Next() {
		r, err := scanRun(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil || len(all) == 0 {
		return nil, err
	}
	of, about := "l.run IN (SELECT r.n FROM runs r WHERE "+where+")", args
	if len(all) == 1 {
		of, about = "l.run = ?", []any{all[0].n}
	}
	sums, err := spent(ctx, tx, of, "run", about...)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Spent = sums[all[i].n]
	}
	if !f.Rows {
		return all, nil
	}
	return all, q.ledger(ctx, tx, all, of, about)
}

// ledger adds their rows to runs, which are sorted by n.
func (q *Queue) ledger(ctx context.Context, tx *sql.Tx, all []run, of string, args []any) error {
	rows, err := tx.QueryContext(ctx, `SELECT l.run, l.step, l.kind, l.token, l.time, l.model, l.requests, l.input,
		l.output, l.cache_read, l.cache_write, l.cost, l.text FROM ledger l WHERE `+of+" ORDER BY l.n", args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n, at int64
		var r batch.Row
		if err := rows.Scan(&n, &r.Step, &r.Kind, &r.Token, &at, &r.Model, &r.Requests, &r.Usage.Input, &r.Usage.Output,
			&r.Usage.CacheRead, &r.Usage.CacheWrite, &r.Cost, &r.Text); err != nil {
			return err
		}
		r.Time = moment(at)
		if i, ok := slices.BinarySearchFunc(all, n, func(r run, n int64) int { return int(r.n - n) }); ok {
			all[i].Rows = append(all[i].Rows, r)
		}
	}
	return rows.Err()
}
