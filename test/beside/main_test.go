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

// runs is how often each test does what it does.
func runs(t *testing.T) int {
	t.Helper()
	const variable = "BESIDE_RUNS"
	text := os.Getenv(variable)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "%s is the number of runs of each test", variable)
	require.Positive(t, n, variable)
	return n
}
