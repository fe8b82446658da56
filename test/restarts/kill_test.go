package restarts

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// podsPerKill and killQPS make that a scheduler is killed long before it is through
// with the pods: it may send so many requests per second, four for a simple pod.
const (
	podsPerKill = 10
	killQPS     = 200
)

// The scheduler is killed at random points of a burst and started again, until it has
// got through.
func TestKilledAtRandomPoints(t *testing.T) {
	harness.Long(t, "the scheduler is killed until it has got through a burst")
	random := newRandom(t)
	const nodes = 10
	s := cluster.NewSpace(t, "kills", "", nodes)
	createTemplates(s)
	b := newBurst(s, "pod", *kills*podsPerKill)
	left := newDevicesFor(s, nodes, b)
	points := randomPoints(random, *kills, b.writes())
	writes := follow(s)

	begin := time.Now()
	created := make(chan error, 1)
	go func() { created <- b.create(t.Context()) }()
	scheduler := s.StartScheduler(harness.SchedulerOptions{QPS: killQPS})
	var crashes crashes
	var down time.Duration
	for _, point := range points {
		// Writes that arrived after the last kill may be beyond the point: then the
		// next one is it, so that every run of the scheduler has done something.
		count, _ := writes.now()
		writes.mustReach(s, max(point, count+1))
		require.NoError(t, scheduler.Kill())
		killed := time.Now()
		crashes.add(s)
		require.NoError(t, scheduler.Restart(t.Context()))
		down += time.Since(killed)
	}
	require.NoError(t, <-created)
	runAll(s, b.pods)
	t.Logf("%d kills, %d restarts, %d pods running after %s, of these %s without scheduler",
		len(points), len(points), b.pods, rounded(begin), down.Round(10*time.Millisecond))
	t.Logf("left behind by the kills, in total: %d claims with only the finalizer, %d pods reserved for but not bound, %d of these with another claim open",
		crashes.onlyProtected, crashes.reserved, crashes.half)
	require.Positive(t, crashes.reserved, "no kill came between the reservation and the binding of a pod, which is what this test is about")
	finish(s, left, b)
}

// randomPoints returns different numbers of writes in ascending order. The last tenth
// is spared: there are always pods to go on with.
func randomPoints(random *rand.Rand, count, writes int) []int {
	points := random.Perm(writes * 9 / 10)[:count]
	slices.Sort(points)
	return points
}

// crashes counts what is unfinished at each kill.
type crashes struct{ onlyProtected, reserved, half int }

func (c *crashes) add(s *harness.Space) {
	s.T.Helper()
	for _, pod := range s.Pods() {
		if pod.Spec.NodeName != "" {
			continue
		}
		claims, err := s.ClaimsOf(pod)
		if err != nil {
			continue // Not generated yet.
		}
		reserved := 0
		for _, claim := range claims {
			switch {
			case resourceclaim.IsReservedForPod(pod, claim, false):
				reserved++
			case claim.Status.Allocation == nil && len(claim.Finalizers) > 0:
				c.onlyProtected++
			}
		}
		if reserved > 0 {
			c.reserved++
		}
		if reserved > 0 && reserved < len(claims) {
			c.half++
		}
	}
}
