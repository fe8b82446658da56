package harness

import "testing"

// Long skips a test that takes too long for `make test`, which runs with -short. It says
// what takes the time: more than about ten seconds need a reason.
func Long(t *testing.T, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("too long for make test: %s; make test-all runs this", why)
	}
}
