package gang

// Most returns the largest number up to most that fits, 0 if not even 1 does. What is more than something that does not
// fit does not fit either. A guess that is right is confirmed with two questions.
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
