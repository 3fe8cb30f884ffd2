// Package order sorts lists that people see.
package order

import (
	"slices"
	"sort"
)

// Stable sorts a list as [slices.SortStableFunc] does: equal elements keep their order. It is slower, but makes the
// program smaller: the compiler copies the code of that function, 8 kB, for each of some fifty types.
func Stable[E any](list []E, compare func(a, b E) int) {
	sort.Stable(sorter{len(list), func(i, j int) bool { return compare(list[i], list[j]) < 0 },
		func(i, j int) { list[i], list[j] = list[j], list[i] }})
}

// Sorted returns a copy of a list that [Stable] has sorted.
func Sorted[E any](list []E, compare func(a, b E) int) []E {
	list = slices.Clone(list)
	Stable(list, compare)
	return list
}

// A sorter has no type parameters, so that its code is in the program once.
type sorter struct {
	n    int
	less func(i, j int) bool
	swap func(i, j int)
}

func (s sorter) Len() int           { return s.n }
func (s sorter) Less(i, j int) bool { return s.less(i, j) }
func (s sorter) Swap(i, j int)      { s.swap(i, j) }
