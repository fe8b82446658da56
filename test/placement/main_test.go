package placement

import (
	"os"
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// cluster is what all tests share.
var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "placement", Binaries: []string{"kube-scheduler"}}, func(c *harness.Cluster) { cluster = c }))
}
