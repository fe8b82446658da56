package search

// Kept returns a list of the given length in the same memory, if that is large enough. Elements keep their old values.
func Kept[T any](list []T, length int) []T {
	if cap(list) < length {
		return append(list[:cap(list)], make([]T, length-cap(list))...)
	}
	return list[:length]
}

// Resized is Kept with zeroed elements.
func Resized[T any](list []T, length int) []T {
	list = Kept(list, length)
	clear(list)
	return list
}

// Emptied is Kept for a list of lists. Each inner list becomes empty but keeps its memory.
func Emptied[T any](lists [][]T, length int) [][]T {
	lists = Kept(lists, length)
	for i := range lists {
		lists[i] = lists[i][:0]
	}
	return lists
}
