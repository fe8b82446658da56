//go:build race

package allocator_test

// raceDetector tells whether the tests run with the race detector, which makes
// them several times slower.
const raceDetector = true
