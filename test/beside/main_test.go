package beside

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{
		Name:         "beside",
		Binaries:     []string{"kube-scheduler"},
		ControlPlane: controlplane.Options{FeatureGates: gates},
	}, func(c *harness.Cluster) { cluster = c }))
}

// figuresOnly skips a control, which fails only if not all pods are bound: it is for comparison with the figures of the other tests.
func figuresOnly(t *testing.T) {
	t.Helper()
	if os.Getenv(runsVariable) == "" {
		t.Skip("it asserts nothing about devices, for comparison only; make beside runs this")
	}
}

// runsVariable sets runs.
const runsVariable = "BESIDE_RUNS"

// runs is how often each test does what it does.
func runs(t *testing.T) int {
	t.Helper()
	text := os.Getenv(runsVariable)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "%s is the number of runs of each test", runsVariable)
	require.Positive(t, n, runsVariable)
	return n
}
