package soak

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "soak", Binaries: []string{"kube-scheduler"}},
		func(c *harness.Cluster) { cluster = c }))
}

// duration is how long the churn lasts.
func duration(t *testing.T) time.Duration {
	t.Helper()
	const variable = "SOAK_DURATION"
	text := os.Getenv(variable)
	if text == "" {
		return 30 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "%s is how long the churn lasts, for instance 10m", variable)
	require.Positive(t, d, variable)
	return d
}
