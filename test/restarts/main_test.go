package restarts

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var (
	kills = flag.Int("kills", 20, "how often the scheduler is killed, in a burst of ten pods for each time")
	seed  = flag.Uint64("seed", 0, "seed of the random points at which something is killed; 0 takes one from the clock")
)

// cluster is what all tests share. As they restart its parts, they run one after
// the other.
var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "restarts"}, func(c *harness.Cluster) { cluster = c }))
}

// newRandom returns a source of random numbers that a failed test can be given again.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	chosen := *seed
	if chosen == 0 {
		chosen = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", chosen)
	return rand.New(rand.NewPCG(chosen, 0))
}
