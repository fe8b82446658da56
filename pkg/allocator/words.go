package allocator

import (
	"fmt"
	"strings"
)

// namedAtMost is how many names a short text gives of one kind. GPUs that can be
// partitioned have a counter for each slice of their memory.
const namedAtMost = 3

// plural is a number with the right form of a noun.
func plural(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// join lists names, of which there is at least one, but not too many of them.
func join(names []string) string {
	last := len(names) - 1
	switch {
	case last == 0:
		return names[0]
	case last > namedAtMost:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAtMost], ", "), len(names)-namedAtMost)
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// requestNames joins the names of requests.
func requestNames(names []string) string {
	switch last := len(names) - 1; {
	case last < 0:
		return "no request"
	case last == 0:
		return "request " + names[0]
	default:
		return "requests " + join(names)
	}
}
