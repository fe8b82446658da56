package integration

import (
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// space is the part of the cluster that belongs to one test, with what only the
// tests of this package need.
type space struct {
	*harness.Space
}

// numbered is short, because most tests use it.
var numbered = harness.Numbered

// newSpace makes a space with nodes without devices, for pods of the shared scheduler.
func newSpace(t *testing.T, name string, nodes int) *space {
	t.Helper()
	scheduler := sharedScheduler(t)
	s := newSpaceFor(t, name, nodes, scheduler.Profile)
	s.Log = scheduler.LogFile()
	return s
}

// newOwnSpace makes a space for pods of a scheduler that the test starts itself,
// see harness.Space.StartScheduler: their schedulerName is the name of the space.
func newOwnSpace(t *testing.T, name string, nodes int) *space {
	t.Helper()
	return newSpaceFor(t, name, nodes, "")
}

// newSpaceFor makes a space for pods with any schedulerName.
func newSpaceFor(t *testing.T, name string, nodes int, profile string) *space {
	t.Helper()
	return &space{cluster.NewSpace(t, name, profile, nodes)}
}
