// Package similar finds the names that a user probably meant: misspelt names by their edit
// distance, and parts of names by their letters.
package similar

import (
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// Names returns at most three of names that are similar to name, the closest first.
func Names(name string, names []string) []string {
	type candidate struct {
		name string
		far  int
	}
	var found []candidate
	maxDistance := max(1, len(name)/3)
	for _, n := range names {
		d := Distance(name, n, maxDistance)
		if d > maxDistance && len(name) >= 3 && (strings.Contains(n, name) || len(n) >= 3 && strings.Contains(name, n)) {
			d = maxDistance
		}
		if d <= maxDistance {
			found = append(found, candidate{n, d})
		}
	}
	order.Stable(found, func(a, b candidate) int { return a.far - b.far })
	var near []string
	for _, f := range found {
		if len(near) < 3 && !slices.Contains(near, f.name) {
			near = append(near, f.name)
		}
	}
	return near
}

// Near reports whether a and b differ by at most max letters, whatever their case.
func Near(a, b string, max int) bool {
	return Distance(strings.ToLower(a), strings.ToLower(b), max) <= max
}

// Distance returns the number of letters to insert, remove, replace or swap to turn a into b,
// but at most max+1.
func Distance(a, b string, max int) int {
	if len(a)-len(b) > max || len(b)-len(a) > max {
		return max + 1
	}
	var short [96]int // names are: so nothing is allocated
	rows, n := short[:], len(b)+1
	if 3*n > len(rows) {
		rows = make([]int, 3*n)
	}
	before, last, next := rows[:n], rows[n:2*n], rows[2*n:3*n]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return min(last[len(b)], max+1)
}
