// Package reuse makes lists in memory that was a list before.
package reuse

// Kept returns a list of the given length in the same memory. Its elements are
// whatever they were.
func Kept[T any](list []T, length int) []T {
	if cap(list) < length {
		return append(list[:cap(list)], make([]T, length-cap(list))...)
	}
	return list[:length]
}

// Resized is Kept with elements that are zero.
func Resized[T any](list []T, length int) []T {
	list = Kept(list, length)
	clear(list)
	return list
}

// Emptied is Kept for lists, which become empty but keep their memory.
func Emptied[T any](lists [][]T, length int) [][]T {
	lists = Kept(lists, length)
	for i := range lists {
		lists[i] = lists[i][:0]
	}
	return lists
}
