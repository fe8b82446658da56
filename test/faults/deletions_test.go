package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/faults/proxy"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// strokesPerBurst is how often the vandal strikes in a burst, times scale.
const strokesPerBurst = 20

// slow is a limit of requests per second with which a burst takes long enough to be
// disturbed in the middle: a pod costs about five.
const slow = 40

// Objects of all kinds are deleted in mid-flight on a bad connection. The simulation deletes objects on good ones.
func TestDeletedInMidFlight(t *testing.T) {
	t.Parallel()
	kinds := slices.Sorted(maps.Keys(strokes))
	s := newSpace(t, "deleted", nodes+1)
	p := startScheduler(s, connection{qps: slow})
	v := newVandal(s)
	for round := range *rounds {
		if round > 0 {
			clearPods(s, round-1)
		}
		start := time.Now()
		setFaults(t, p, everything())
		startBurst(s, round)
		v.disturb(strokesPerBurst**scale, kinds...)
		v.restore()
		placed := allPlaced(s)
		took := time.Since(start)
		setFaults(t, p, proxy.Faults{})
		inOrder(s)
		t.Logf("seed %d, round %d: %d pods scheduled after %s; deletions %v; since the start %s",
			*seed, round, placed, took.Round(time.Millisecond), v.strokes, p.Counts())
	}
	hit := 0
	for _, count := range v.strokes {
		hit += count
	}
	require.Greater(t, hit, strokesPerBurst/2, "most strokes have to hit something: %v", v.strokes)
}

// The whole namespace is deleted while its pods are being scheduled. All devices are
// free again for those who come after them.
func TestNamespaceDeletedInMidFlight(t *testing.T) {
	harness.Long(t, "Kubernetes takes its time to delete a namespace")
	t.Parallel()
	s := newSpace(t, "namespace", nodes+1)
	startScheduler(s, connection{qps: slow})
	const deletions = 1
	for round := range deletions {
		startBurst(s, round)
		s.Eventually("bind the first pods", func(context.Context) error {
			if s.Bound() < nodes {
				return fmt.Errorf("%d of %d pods are bound", s.Bound(), len(s.Pods()))
			}
			return nil
		})
		bound, pods := s.Bound(), len(s.Pods())
		deleteNamespace(s)
		t.Logf("deleted the namespace when %d of %d pods were bound", bound, pods)
		s.CreateNamespace()
		s.Create(template(s))
	}
	start := time.Now()
	startBurst(s, deletions)
	placed := allPlaced(s)
	t.Logf("%d pods scheduled after %s", placed, time.Since(start).Round(time.Millisecond))
	inOrder(s)
}

func deleteNamespace(s *harness.Space) {
	s.T.Helper()
	namespaces := cluster.Client.CoreV1().Namespaces()
	require.NoError(s.T, namespaces.Delete(s.T.Context(), s.Name, metav1.DeleteOptions{}))
	s.Eventually("delete the namespace", func(ctx context.Context) error {
		namespace, err := namespaces.Get(ctx, s.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %v (%v)", namespace.Status, err)
	})
	s.Eventually("see all pods go", func(context.Context) error {
		if pods := s.Pods(); len(pods) > 0 {
			return fmt.Errorf("%d pods are still there", len(pods))
		}
		return nil
	})
}
