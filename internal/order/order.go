// Package order sorts slices of structs, and graphs by their dependencies.
package order

import "slices"

// By sorts a list by compare, and keeps the order of what is equal. It sorts the numbers of the elements and moves each
// of these once: all kinds of elements share one compiled sort, which would take 8 kB or more for each, and elements
// with pointers are not moved through the write barrier of the garbage collector again and again.
func By[T any](list []T, compare func(a, b *T) int) {
	sorted := make([]T, len(list))
	for i, n := range numbers(len(list), func(a, b int32) int { return compare(&list[a], &list[b]) }) {
		sorted[i] = list[n]
	}
	copy(list, sorted)
}

// numbers returns the numbers from 0 up to, but not including, count in their order.
func numbers(count int, compare func(a, b int32) int) []int32 {
	numbers := make([]int32, count)
	for i := range numbers {
		numbers[i] = int32(i)
	}
	slices.SortFunc(numbers, func(a, b int32) int {
		if n := compare(a, b); n != 0 {
			return n
		}
		return int(a - b)
	})
	return numbers
}
