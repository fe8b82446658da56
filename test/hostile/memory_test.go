package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// largeClaims is how many claims of about 1.3 MB come and go: a fifth more than the bound, if a scheduler kept no more than their
	// texts.
	largeClaims = 160
	// remembered is the bound for all that a scheduler remembers, as in docs/design/state.md.
	remembered = 168 << 20
)

// TestMemoryOfClaimsThatAreGone has a tenant with a quota of one claim create and delete large ones, each with other expressions; every fourth
// with a pod that is tried. The scheduler keeps no more of them than its bounds.
func TestMemoryOfClaimsThatAreGone(t *testing.T) {
	harness.Long(t, "a tenant makes and deletes hundreds of claims")
	space := cluster.NewSpace(t, "memory", "", 2)
	for node := range 2 {
		space.Devices(node, harness.Numbered(4)...)
	}
	scheduler := space.StartScheduler(harness.SchedulerOptions{QPS: 1000})
	a := newAttacker(space, "tenant")
	a.quota(1)
	a.comeAndGo(0, 4) // What is needed anyway is there.
	before := liveHeap(space, scheduler)

	a.comeAndGo(4, largeClaims)
	var after float64
	for i := range 10 { // Each has it collect garbage once more.
		live := liveHeap(space, scheduler)
		if after == 0 || live < after {
			after = live
		}
		a.comeAndGo(largeClaims+i, largeClaims+i+1)
	}
	t.Logf("report: claims=%d bytes=%d MiB heapBefore=%.0f MiB heapAfter=%.0f MiB", largeClaims, largeClaims*largeClaim(space.Name, 0).Size()>>20, before/(1<<20), after/(1<<20))
	require.Less(t, after-before, float64(remembered), "of claims that are gone it keeps what is within its bounds")
}

// largeClaim is a claim of about 1.3 MB. Its expressions are cheap to evaluate, and no two claims have one in common.
func largeClaim(class string, i int) *resourceapi.ResourceClaim {
	var requests []*builder.RequestBuilder
	for r := range 5 {
		request := builder.Request(fmt.Sprintf("r%d", r), class)
		for s := range 28 {
			text := strings.Repeat(fmt.Sprintf("%04d", i), 2300)
			request.Where(fmt.Sprintf("device.driver != '%s-%d-%d'", text, r, s))
		}
		requests = append(requests, request)
	}
	return builder.Claim(fmt.Sprintf("large-%04d", i), requests...).Obj()
}

// quota bounds how many claims there can be at a time.
func (a *attacker) quota(claims int64) {
	t := a.space.T
	const name = "count/resourceclaims.resource.k8s.io"
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "claims"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{name: *resource.NewQuantity(claims, resource.DecimalSI)},
	}}
	_, err := cluster.Client.CoreV1().ResourceQuotas(a.namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	require.NoError(t, err)
	a.space.Eventually("have the quota counted", func(ctx context.Context) error {
		quota, err := cluster.Client.CoreV1().ResourceQuotas(a.namespace).Get(ctx, quota.Name, metav1.GetOptions{})
		if _, counted := quota.Status.Used[name]; err == nil && !counted {
			return fmt.Errorf("used: %v", quota.Status.Used)
		}
		return err
	})
}

// comeAndGo creates and deletes one large claim after the other.
func (a *attacker) comeAndGo(from, to int) {
	t := a.space.T
	t.Helper()
	for i := from; i < to; i++ {
		claim := largeClaim(a.space.Name, i)
		for { // The quota is given back a moment after the claim before is gone.
			err := cluster.Objects.Create(t.Context(), a.namespace, claim)
			if err == nil {
				break
			}
			require.True(t, apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"), "%v", err)
			time.Sleep(10 * time.Millisecond)
		}
		if i%4 == 0 {
			a.tryPod(claim.Name)
		}
		require.NoError(t, cluster.Objects.Delete(t.Context(), a.namespace, claim))
	}
}

// tryPod creates a pod with a claim, waits until it was tried, and deletes it.
func (a *attacker) tryPod(claim string) {
	t := a.space.T
	pod := a.space.Pod(claim, builder.Uses(claim))
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	require.NoError(t, cluster.Objects.Create(t.Context(), a.namespace, pod))
	a.space.Eventually("have pod "+claim+" tried", func(ctx context.Context) error {
		pod, err := cluster.Client.CoreV1().Pods(a.namespace).Get(ctx, claim, metav1.GetOptions{})
		if err == nil && len(pod.Status.Conditions) == 0 {
			return fmt.Errorf("it has no condition")
		}
		return err
	})
	require.NoError(t, cluster.Objects.Delete(t.Context(), a.namespace, pod))
}

// liveHeap is what was not garbage when the scheduler looked last.
func liveHeap(space *harness.Space, scheduler *harness.Scheduler) (bytes float64) {
	space.Eventually("read the scheduler's metrics", func(ctx context.Context) error {
		metrics, err := scheduler.ReadMetrics(ctx)
		if bytes = metrics.Sum("go_gc_heap_live_bytes"); err == nil && bytes == 0 {
			return fmt.Errorf("there is no go_gc_heap_live_bytes")
		}
		return err
	})
	return bytes
}
