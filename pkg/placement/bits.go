package placement

import "math/bits"

// forEach calls a function for each member of a set.
func forEach(set uint64, do func(int)) {
	for ; set != 0; set &= set - 1 {
		do(bits.TrailingZeros64(set))
	}
}
