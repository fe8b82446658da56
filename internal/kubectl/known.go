package kubectl

// known holds a list, or the reason why it could not be read, so that an unreadable list is not taken for an empty
// one. The zero value is unknown.
type known[T any] struct {
	value T
	read  bool
	why   string
}

func knownOf[T any](value T, err error) known[T] {
	if err != nil {
		return known[T]{why: readError(err)}
	}
	return known[T]{value: value, read: true}
}

// get returns the value, or why it is unknown.
func (k known[T]) get() (value T, whyNot string) {
	switch {
	case k.read:
		return k.value, ""
	case k.why == "":
		return value, "a dump does not have them"
	}
	return value, k.why
}
