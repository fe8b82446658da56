package groups

import (
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
)

// scenarios are those of the demo that are about groups.
var scenarios harness.Catalogue

// TestGroupsOfTheCatalogue runs what the demo shows about groups.
func TestGroupsOfTheCatalogue(t *testing.T) {
	t.Parallel()
	scenarios.Run(t, cluster, sharedScheduler(t), catalogue.Gangs())
}
