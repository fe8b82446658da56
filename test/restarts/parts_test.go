package restarts

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// outage is how long etcd is away: long enough for requests to fail, to be
	// repeated and to fail again. The API server takes about as long to start.
	outage = 3 * time.Second
	// restartPatience allows for the pauses of informers that have met an outage: they
	// double with each failure within two minutes, up to half a minute each.
	restartPatience = 4 * time.Minute
	// outageQPS makes that the outage comes long before the burst is over.
	outageQPS = 150
)

// The API server or etcd goes away in the middle of a burst and comes back.
func TestControlPlaneRestarted(t *testing.T) {
	harness.Long(t, "the API server and etcd restart in bursts")
	for _, tc := range []struct {
		name   string
		part   *controlplane.Part
		end    func(*controlplane.Part) error
		outage time.Duration
	}{
		{"api-server-stopped", cluster.ControlPlane.APIServer(), (*controlplane.Part).Stop, 0},
		{"etcd-killed", cluster.ControlPlane.Etcd(), (*controlplane.Part).Kill, outage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testOutage(t, tc.name, func() error {
				begin := time.Now()
				if err := tc.end(tc.part); err != nil {
					return err
				}
				time.Sleep(time.Until(begin.Add(tc.outage))) // Some parts take their time to end.
				return tc.part.Start(t.Context())
			})
		})
	}
}

func testOutage(t *testing.T, name string, restart func() error) {
	random := newRandom(t)
	const nodes, pods = 5, 200
	s := cluster.NewSpace(t, name, "", nodes)
	s.Patience = restartPatience
	createTemplates(s)
	b := newBurst(s, "pod", pods)
	left := newDevicesFor(s, nodes, b)
	// All pods exist before, because nobody repeats what fails while creating them.
	b.createWithClaims()
	writes := follow(s)

	begin := time.Now()
	s.StartScheduler(harness.SchedulerOptions{QPS: outageQPS})
	writes.mustReach(s, 1+random.IntN(b.writes()/2))
	at, _ := writes.now()
	open := pods - s.Bound()
	require.Positive(t, open, "the burst was over before the outage")
	gone := time.Now()
	require.NoError(t, restart())
	clientsListAgain(s)
	away, back := rounded(gone), time.Now()
	runAllAfterOutage(s, pods)
	t.Logf("away for %s from write %d of %d on, with %d of %d pods not bound; all ran %s after it came back, %s after the start",
		away, at, b.writes(), open, pods, rounded(back), rounded(begin))
	finish(s, left, b)
}

// clientsListAgain says in the history of the cluster that the API server was away:
// its cache starts anew, so that clients may have to list and miss what was between.
func clientsListAgain(s *harness.Space) {
	s.T.Helper()
	s.Eventually("read from the API server again", func(ctx context.Context) error {
		claims, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
		if err == nil {
			s.Cluster.WritesMayBeMissing(claims.ResourceVersion)
		}
		return err
	})
}
