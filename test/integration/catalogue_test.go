package integration

import (
	"testing"

	"github.com/quartermaster-dra/quartermaster/internal/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// scenarios are those of the demo, all that need no gates that are off by default. The
// others are run by test/groups.
var scenarios harness.Catalogue

// TestCatalogue runs what the demo shows. What a scenario of the catalogue says is tested
// by it, and not by another test here.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	scenarios.Run(t, cluster, sharedScheduler(t), catalogue.WithDefaultGates())
}
