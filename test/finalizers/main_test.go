package finalizers

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// cluster is what all tests share. They run one after the other: they count requests.
var cluster *harness.Cluster

// shared is the scheduler that they use.
var shared harness.SharedScheduler

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "finalizers"}, func(c *harness.Cluster) { cluster = c }, shared.Stop))
}

// newSpace makes a space with a node that has some devices, and a template of claims for one.
func newSpace(t *testing.T, name string, devices int) *harness.Space {
	t.Helper()
	scheduler := shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared"})
	s := cluster.NewSpace(t, name, scheduler.Profile, 1)
	s.Log = scheduler.LogFile()
	s.Devices(0, harness.Numbered(devices)...)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	return s
}

// writes are the requests to the API server that change something, of all clients.
type writes struct {
	// finalizers and allocations are updates of claims and of their status, bindings and events what is created.
	finalizers, allocations, bindings, events int
}

func countWrites(t *testing.T) writes {
	t.Helper()
	metrics, err := cluster.ReadAPIServerMetrics(t.Context())
	require.NoError(t, err)
	sum := func(labels ...string) (n int) {
		for _, verb := range []string{"PUT", "PATCH", "APPLY"} {
			n += int(metrics.Sum("apiserver_request_total", append(labels, "verb", verb)...))
		}
		return n
	}
	created := func(labels ...string) int {
		return int(metrics.Sum("apiserver_request_total", append(labels, "verb", "POST")...))
	}
	return writes{
		finalizers:  sum("resource", "resourceclaims", "subresource", ""),
		allocations: sum("resource", "resourceclaims", "subresource", "status"),
		bindings:    created("resource", "pods", "subresource", "binding"),
		events:      created("resource", "events", "group", "events.k8s.io"),
	}
}

// since returns how many of them came after others.
func (w writes) since(before writes) writes {
	return writes{w.finalizers - before.finalizers, w.allocations - before.allocations, w.bindings - before.bindings, w.events - before.events}
}
