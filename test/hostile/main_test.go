package hostile

import (
	"os"
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "hostile"}, func(c *harness.Cluster) { cluster = c }))
}
