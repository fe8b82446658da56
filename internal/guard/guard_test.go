package guard

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func refTo(claim *resourceapi.ResourceClaim) ledger.ClaimRef { return ledger.RefTo(claim) }

// waits has the guard review a request that has to wait, and returns when it does.
func (d *deputy) waits(ctx context.Context, r *Request) <-chan Answer {
	d.t.Helper()
	answered := make(chan Answer, 1)
	before := d.waiters()
	go func() { answered <- d.Guard.Review(ctx, r) }()
	require.Eventually(d.t, func() bool { return d.waiters() > before }, 3*time.Minute, time.Millisecond)
	return answered
}

func (d *deputy) waiters() int {
	d.waiting.mutex.Lock()
	defer d.waiting.mutex.Unlock()
	return d.waiting.byAge.Len()
}

func TestReviewWaitsForTheClaim(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	d.shows(at(3, b.Claim("x").Allocated("a", "gpu-0")))
	// It was deallocated at 8, which the watch has not shown.
	answer := d.waits(t.Context(), request(8, b.Claim("x").Allocated("a", "gpu-1")))
	d.ClaimChanged("default/other")
	require.Equal(t, 1, d.waiters())
	d.shows(at(8, empty("x")))
	require.Equal(t, Answer{}, <-answer)
	require.Zero(t, d.waiters())
	require.Empty(t, d.waiting.byClaim)
}

func TestReviewWaitsForTheSlice(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	answer := d.waits(t.Context(), request(3, b.Claim("x").Allocated("b", "gpu-0")))
	d.publish(b.NodeSlice("b", b.Device("gpu-0")).Obj())
	d.SliceChanged()
	require.Equal(t, Answer{}, <-answer)
}

func TestReviewGivesUp(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	d.shows(at(3, empty("x")))
	ctx, cancel := context.WithCancel(t.Context())
	answer := d.waits(ctx, request(3, b.Claim("x").Allocated("b", "gpu-0")))
	cancel()
	denied := <-answer
	require.Equal(t, Denied, denied.Kind)
	require.Contains(t, denied.Reason, "publishes no such pool")
	require.Equal(t, Denied, d.decide(3, b.Claim("x").Allocated("b", "gpu-0")).Kind, "its patience ends by itself")
	require.Zero(t, d.waiters())
}

// Requests that wait in vain cannot keep others from waiting for changes that do come.
func TestOldestGivesUpIfTooManyWait(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	d.shows(at(3, empty("x")))
	answer := d.waits(t.Context(), request(3, b.Claim("x").Allocated("b", "gpu-0")))
	var last *waiter
	for i := range maxWaiting {
		last = d.waiting.join(fmt.Sprintf("default/%d", i), func() {})
	}
	denied := <-answer
	require.Equal(t, Denied, denied.Kind)
	require.Contains(t, denied.Reason, "publishes no such pool")
	require.Equal(t, maxWaiting, d.waiters())
	d.ClaimChanged(fmt.Sprintf("default/%d", maxWaiting-1))
	<-last.changed
}

func TestWarnLetsPass(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	review := func(claim *resourceapi.ResourceClaim) (warned string) {
		before := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		require.Equal(t, Answer{}, d.Review(klog.NewContext(t.Context(), logger), request(3, claim)))
		return strings.TrimPrefix(logger.GetSink().(ktesting.Underlier).GetBuffer().String(), before)
	}
	d.Mode = Warn
	require.NotContains(t, review(b.Claim("x").Allocated("a", "gpu-0")), "mode Warn")
	require.Contains(t, review(b.Claim("y").Allocated("a", "gpu-0")), `mode Warn claim="default/y" reason="claim default/y was to get device`)
	d.lose()
	require.Equal(t, NotDeciding, d.decide(3, b.Claim("y").Allocated("a", "gpu-0")).Kind)
}

func TestLeaseIsLostWhileReviewing(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*deputy){
		"not the leader": (*deputy).lose,
		"did not have the Lease for a while": func(d *deputy) {
			d.lose()
			d.acquire()
		},
	} {
		d := newDeputy(t)
		answer := d.waits(t.Context(), request(3, b.Claim("x").Allocated("b", "gpu-0")))
		change(d)
		d.publish(b.NodeSlice("b", b.Device("gpu-0")).Obj())
		d.SliceChanged()
		lost := <-answer
		require.Equal(t, NotDeciding, lost.Kind)
		require.Contains(t, lost.Reason, want)
		require.False(t, d.Decides())
	}
}

func TestWhatAllocatesNothingNeedsNoLease(t *testing.T) {
	t.Parallel()
	d := newDeputy(t)
	d.lose()
	allocated := b.Claim("x").Allocated("a", "gpu-0")
	require.Equal(t, Answer{}, d.Guard.Review(t.Context(), &Request{Claim: refTo(allocated), Version: "3", Before: allocated.Status.Allocation}))
	require.Equal(t, NotDeciding, d.decide(3, allocated).Kind)
}
