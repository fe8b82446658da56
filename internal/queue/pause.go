package queue

import "time"

// FirstPause is the first pause after an attempt in vain, and LongestPause the longest. They are the defaults of the scheduling
// queue (podInitialBackoffSeconds and podMaxBackoffSeconds), whose settings a plugin does not get to see.
const (
	FirstPause   = time.Second
	LongestPause = 10 * time.Second
)

// Pause returns the pause after so many attempts in vain, one at least: it doubles each time, up to LongestPause.
func Pause(attempts int) time.Duration {
	d := FirstPause
	for i := 1; i < attempts && d < LongestPause; i++ {
		d *= 2
	}
	return min(d, LongestPause)
}
