package guard

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// allocationsPerSecond are begun, whether or not those before are done.
	allocationsPerSecond = 500
	// devicesOfSlice is the most that a slice may have.
	devicesOfSlice = resourceapi.ResourceSliceMaxDevices
	// clients create and delete at a time.
	clients = 16
)

// TestLatency allocates 500 devices a second, each to a claim of its own, without a guard and with one,
// and logs what the guard, the API server and who writes have waited.
func TestLatency(t *testing.T) {
	harness.Long(t, "it measures")
	l := &load{tenant: newTenant(t, "latency", 1), count: allocationsPerSecond * latencySeconds(t)}
	for i := range (l.count + devicesOfSlice - 1) / devicesOfSlice {
		l.Create(builder.Slice(fmt.Sprintf("%s-part-%d", l.Name, i)).OfDriver(l.Driver).OnAllNodes().Devices(harness.Numbered(devicesOfSlice)...).Obj())
	}
	l.measure("unguarded")
	g := installGuards(t, admissionregistrationv1.Fail)
	// As shipped: two seconds without processor time are not rare here.
	process := g.start("--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s")
	g.decider()
	l.guarded()
	l.measure("guarded")
	metrics, err := harness.ReadGuardMetrics(t.Context(), process)
	require.NoError(t, err)
	reviews := metrics.Histogram("quartermaster_guard_review_duration_seconds", "allocates", "true", "answer", "allowed")
	require.GreaterOrEqual(t, reviews.Count(), l.count)
	t.Log("the guard's reviews:", reviews)
	metrics, err = cluster.ReadAPIServerMetrics(t.Context())
	require.NoError(t, err)
	t.Log("the API server's calls of it (buckets of 5, 25 and 100 ms):", metrics.Histogram("apiserver_admission_webhook_admission_duration_seconds",
		"name", registration.WebhookName, "rejected", "false"))
}

// latencySeconds is for how long devices are allocated.
func latencySeconds(t *testing.T) int {
	t.Helper()
	const variable = "GUARD_LATENCY_SECONDS"
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), "1"))
	require.NoError(t, err, "%s is for how many seconds devices are allocated", variable)
	require.Positive(t, n, variable)
	return n
}

// load is a space with devices enough for all claims.
type load struct {
	*tenant
	count int
}

// measure allocates all devices at a steady pace, and gives them back.
func (l *load) measure(title string) {
	l.T.Helper()
	ctx := l.T.Context()
	claims := make([]*resourceapi.ResourceClaim, l.count)
	api := cluster.Client.ResourceV1().ResourceClaims(l.Name)
	l.inParallel(func(i int) (err error) {
		claim := builder.Unsaved(l.Name, builder.Claim(fmt.Sprintf("%s-%d", title, i), l.Want(1)).Obj())
		claims[i], err = api.Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
	took, errs := make([]time.Duration, l.count), make([]error, l.count)
	var running sync.WaitGroup
	pace := time.NewTicker(time.Second / allocationsPerSecond)
	defer pace.Stop()
	began := time.Now()
	for i := range l.count {
		<-pace.C
		running.Go(func() {
			sent := time.Now()
			claims[i].Status.Allocation = l.allocationAt(i)
			_, errs[i] = api.UpdateStatus(ctx, claims[i], metav1.UpdateOptions{})
			took[i] = time.Since(sent)
		})
	}
	running.Wait()
	for _, err := range errs {
		require.NoError(l.T, err)
	}
	slices.Sort(took)
	l.T.Logf("%s: %d allocations in %.1f s; a write took p50 %s, p99 %s", title, l.count, time.Since(began).Seconds(), took[l.count/2], took[l.count*99/100])
	l.inParallel(func(i int) error { return l.release(ctx, claims[i].Name) })
	l.inParallel(func(i int) error { return api.Delete(ctx, claims[i].Name, metav1.DeleteOptions{}) })
}

// allocationAt is one of a device that no other number has.
func (l *load) allocationAt(i int) *resourceapi.AllocationResult {
	allocation := l.allocation(fmt.Sprintf("gpu-%d", i%devicesOfSlice))
	allocation.Devices.Results[0].Pool = fmt.Sprintf("%s-part-%d", l.Name, i/devicesOfSlice)
	return allocation
}

// inParallel does something for each number.
func (l *load) inParallel(do func(i int) error) {
	l.T.Helper()
	errs := make([]error, clients)
	var running sync.WaitGroup
	for first := range clients {
		running.Go(func() {
			for i := first; i < l.count && errs[first] == nil; i += clients {
				errs[first] = do(i)
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		require.NoError(l.T, err)
	}
}
