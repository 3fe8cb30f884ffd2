package local

import (
	"strings"
	"testing"
)

// TestPlans: what each claim reads does not grow with the queue.
func TestPlans(t *testing.T) {
	q, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for _, c := range []struct {
		query string
		args  []any
		index string
	}{
		{newRows, []any{0}, "USING INTEGER PRIMARY KEY"},
		{"SELECT 1 FROM runs " + delayed, []any{0, 0}, "runs_later"},
		{"SELECT n, token, beat, lease, worker FROM runs WHERE state = 'running'", nil, "runs_ready (state=?)"},
		{"SELECT 1 FROM batches b WHERE open = 1 AND " + nothingLeft, nil, "runs_batch (batch=? AND state=?)"},
	} {
		rows, err := q.read.Query("EXPLAIN QUERY PLAN "+c.query, c.args...)
		if err != nil {
			t.Fatalf("%s: %v", c.query, err)
		}
		plan := ""
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan += detail + "\n"
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
		if !strings.Contains(plan, c.index) || strings.Contains(plan, "SCAN ledger") || strings.Contains(plan, "SCAN runs") {
			t.Errorf("%s:\n%s", c.query, plan)
		}
	}
}
