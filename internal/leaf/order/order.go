// Package order sorts lists that people see.
package order

import (
	"slices"
	"sort"
)

// Stable sorts a list as [slices.SortStableFunc] does; equal elements keep their order. It is slower and much smaller: of
// that one the compiler makes a copy of 8 kB for each type, and there are fifty types.
func Stable[E any](list []E, compare func(a, b E) int) {
	sort.Stable(sorter{len(list), func(i, j int) bool { return compare(list[i], list[j]) < 0 },
		func(i, j int) { list[i], list[j] = list[j], list[i] }})
}

// Sorted returns a sorted copy of a list.
func Sorted[E any](list []E, compare func(a, b E) int) []E {
	list = slices.Clone(list)
	Stable(list, compare)
	return list
}

// A sorter has no type parameters, so that there is one of it.
type sorter struct {
	n    int
	less func(i, j int) bool
	swap func(i, j int)
}

func (s sorter) Len() int           { return s.n }
func (s sorter) Less(i, j int) bool { return s.less(i, j) }
func (s sorter) Swap(i, j int)      { s.swap(i, j) }
