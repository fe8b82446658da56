package beside

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestOursBesideStockElsewhere is TestOursBesideStock with the pods of kube-scheduler in a namespace of
// their own. For these, pods of ours spare only a small part of their time, so that conflicts are
// possible. What there is of them is reported.
func TestOursBesideStockElsewhere(t *testing.T) {
	harness.Long(t, "two schedulers contend in a burst")
	b := newBoard(t, "elsewhere")
	b.startOurs("elsewhere", asShipped)
	b.startStock()
	other := newTenant(t, b, "stock")
	other.template(t.Context(), "one")
	for run := range runs(t) {
		before, start := b.readMetrics(), time.Now()
		b.createInBoth(other, run)
		b.Eventually("bind all pods", func(ctx context.Context) error {
			theirs, err := b.Cluster.Client.CoreV1().Pods(other.namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
			if err == nil && b.Bound()+len(theirs.Items) < pods {
				err = fmt.Errorf("%d and %d of %d pods are bound", b.Bound(), len(theirs.Items), pods)
			}
			return err
		})
		f := figures{bound: time.Since(start)}
		holders := b.holders(b.Name)
		for device, n := range b.holders(other.namespace) {
			holders[device] += n
		}
		maps.DeleteFunc(holders, func(_ string, n int) bool { return n == 1 })
		f.doubled = len(holders)
		b.Unchecked = b.Unchecked || f.doubled > 0
		b.Eventually("report all conflicts", func(context.Context) error {
			f.conflicts, f.rollbacks = 0, 0
			if f.add(before, b.readMetrics()); f.conflicts < f.doubled {
				return fmt.Errorf("%d devices have two claims, %d conflicts are reported", f.doubled, f.conflicts)
			}
			return nil
		})
		t.Logf("run %d: %s", run+1, f)
		b.deletePods()
		other.clear(t)
	}
}

// createInBoth creates as many pods as there are devices, half of them for kube-scheduler elsewhere.
func (b *board) createInBoth(other *tenant, run int) {
	b.T.Helper()
	errs := make([]error, pods)
	var creators sync.WaitGroup
	for first := range createAtATime {
		creators.Go(func() {
			for i := first; i < pods; i += createAtATime {
				name, namespace := fmt.Sprintf("run-%d-%03d", run, i), b.Name
				pod := b.Pod(name, builder.FromTemplate("one"))
				pod.Spec.SchedulerName = b.profiles[0]
				if i%2 == 1 {
					namespace, pod = other.namespace, other.pod(name, corev1.DefaultSchedulerName, builder.FromTemplate("one"))
				}
				errs[i] = b.Cluster.Objects.Create(b.T.Context(), namespace, pod)
			}
		})
	}
	creators.Wait()
	require.NoError(b.T, errors.Join(errs...))
}

// holders counts the claims of a namespace that have each device.
func (b *board) holders(namespace string) map[string]int {
	b.T.Helper()
	claims, err := b.Cluster.Client.ResourceV1().ResourceClaims(namespace).List(b.T.Context(), metav1.ListOptions{})
	require.NoError(b.T, err)
	count := make(map[string]int)
	for _, claim := range claims.Items {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			count[result.Pool+"/"+result.Device]++
		}
	}
	return count
}
