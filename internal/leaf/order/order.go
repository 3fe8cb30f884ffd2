// Package order sorts lists that people see.
package order

import "sort"

// Stable sorts a list as [slices.SortStableFunc] does; equal elements keep their order. It is slower and much smaller: of
// that one the compiler makes a copy of 8 kB for each type, and there are fifty types.
func Stable[E any](list []E, compare func(a, b E) int) { sort.Stable(sorter[E]{list, compare}) }

type sorter[E any] struct {
	list    []E
	compare func(a, b E) int
}

func (s sorter[E]) Len() int           { return len(s.list) }
func (s sorter[E]) Less(i, j int) bool { return s.compare(s.list[i], s.list[j]) < 0 }
func (s sorter[E]) Swap(i, j int)      { s.list[i], s.list[j] = s.list[j], s.list[i] }
