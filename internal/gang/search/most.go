package search

// Most returns the largest number up to most that fits, 0 if not even 1 does. If a number does not fit, no larger one
// may. A correct guess takes two calls of fits.
func Most(guess, most int, fits func(int) bool) int {
	fitting, tooMuch := 0, most+1
	for n := max(guess, 1); fitting+1 < tooMuch; {
		n = min(max(n, fitting+1), tooMuch-1)
		if fits(n) {
			fitting = n
		} else {
			tooMuch = n
		}
		switch {
		case n == guess && fitting == n:
			n++
		case tooMuch > most:
			n = 2 * max(fitting, 1)
		default:
			n = (fitting + tooMuch) / 2
		}
	}
	return fitting
}
