package guard

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{
		Name: "guard", Binaries: []string{"guard", "kube-scheduler"},
		ControlPlane: controlplane.Options{
			WebhookCertificate: true,
			RuntimeConfig:      map[string]bool{"resource.k8s.io/v1beta2": true, "resource.k8s.io/v1beta1": true},
		},
	}, func(c *harness.Cluster) { cluster = c }))
}

// replacements is how often guards are replaced in a burst.
func replacements(t *testing.T) int {
	t.Helper()
	const variable = "GUARD_REPLACEMENTS"
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), "2"))
	require.NoError(t, err, "%s is how often guards are replaced in a burst", variable)
	require.Positive(t, n, variable)
	return n
}

// attackTime is how long each kind of hostile request goes on.
func attackTime(t *testing.T) time.Duration {
	t.Helper()
	const variable = "GUARD_ATTACK"
	d, err := time.ParseDuration(cmp.Or(os.Getenv(variable), "1s"))
	require.NoError(t, err, "%s is how long each kind of hostile request goes on", variable)
	return d
}
