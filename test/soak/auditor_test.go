package soak

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/checker"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// auditor looks again and again whether anything is handed out twice or overdrawn. Its claims are of
// one list, so what it finds was so at one moment.
type auditor struct {
	space  *harness.Space
	done   chan struct{}
	looked int
	found  []checker.Violation
	err    error
}

func newAuditor(s *harness.Space) *auditor { return &auditor{space: s, done: make(chan struct{})} }

func (a *auditor) String() string {
	return fmt.Sprintf("looked %d times; devices, capacities and counters handed out twice: %d", a.looked, len(a.found))
}

// run looks until the context is done.
func (a *auditor) run(ctx context.Context) {
	defer close(a.done)
	for ctx.Err() == nil {
		violations, err := checker.Check(a.space.T.Context(), cluster.Client, checker.Options{})
		if err != nil {
			a.err = err
			return
		}
		for _, violation := range violations {
			switch violation.Rule {
			case checker.DeviceHeldTwice, checker.CapacityExceeded, checker.CounterOverdrawn, checker.DevicesIncompatible:
				a.found = append(a.found, violation)
			}
		}
		a.looked++
		pause(ctx, 500*time.Millisecond)
	}
}

// judge fails the test if anything was found.
func (a *auditor) judge(t *testing.T) {
	t.Helper()
	require.NoError(t, a.err)
	require.Empty(t, a.found, checker.Format(a.found))
	require.Greater(t, a.looked, 10)
}
