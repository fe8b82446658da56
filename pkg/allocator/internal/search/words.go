package search

import (
	"fmt"
	"strings"
)

// NamedAtMost limits the names of one kind in a short text. Partitionable GPUs have a counter for each slice
// of their memory.
const NamedAtMost = 3

// Plural returns a number with the right form of a noun.
func Plural(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// Join lists the first of at least one name, and the number of the rest.
func Join(names []string) string {
	last := len(names) - 1
	switch {
	case last == 0:
		return names[0]
	case last > NamedAtMost:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:NamedAtMost], " and "), len(names)-NamedAtMost)
	}
	return strings.Join(names, " and ")
}

// Requests joins the names of requests.
func Requests(names []string) string {
	switch last := len(names) - 1; {
	case last < 0:
		return "no request"
	case last == 0:
		return "request " + names[0]
	default:
		return "requests " + Join(names)
	}
}
