package order_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// TestStable: it does what slices.SortStableFunc does.
func TestStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.Int()).Draw(t, "list")
		digit := func(a, b int) int { return cmp.Compare(a%10, b%10) }
		want := slices.Clone(list)
		slices.SortStableFunc(want, digit)
		order.Stable(list, digit)
		if !slices.Equal(list, want) {
			t.Errorf("%v, want %v", list, want)
		}
	})
}
