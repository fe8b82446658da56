package harness

import "testing"

// Long skips a test that takes too long for `make test`, which runs with -short. A test of
// more than about ten seconds needs a reason, which is logged.
func Long(t *testing.T, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("too long for make test: %s; make test-all runs this", why)
	}
}
