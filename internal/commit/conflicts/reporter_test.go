package conflicts

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// world has two claims that hold the same device, "first" and "second", in the order in which they
// were allocated, each with a pod of the same name.
type world struct {
	*Reporter
	client *fake.Clientset
	events *events.FakeRecorder
	watch  *watch.FakeWatcher
	// allocated are the claims as the watch shows them, and claims those that are there still.
	allocated, claims map[string]*resourceapi.ResourceClaim
	pods              map[string]*v1.Pod
	// late is the time for which claims settle.
	late time.Duration
	// follows is set if another replica leads, spares if nobody is to be evicted.
	follows, spares bool
}

func newWorld() *world {
	w := &world{
		client: fake.NewClientset(),
		events: events.NewFakeRecorder(100),
		watch:  watch.NewFake(),
		claims: make(map[string]*resourceapi.ResourceClaim),

		allocated: make(map[string]*resourceapi.ResourceClaim),
		pods:      make(map[string]*v1.Pod),
	}
	for name, version := range map[string]string{"first": "110", "second": "120"} {
		w.pods[name] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("pod-" + name)}}
		w.claims[name] = &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: version},
			Status: resourceapi.ResourceClaimStatus{
				Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
					Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu", Pool: "n", Device: "gpu-0"}}}},
				ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: w.pods[name].UID}},
			},
		}
	}
	maps.Copy(w.allocated, w.claims)
	w.client.PrependReactor("list", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &resourceapi.ResourceClaimList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}}, nil
	})
	w.client.PrependWatchReactor("resourceclaims", func(clienttesting.Action) (bool, watch.Interface, error) { return true, w.watch, nil })
	w.Reporter = &Reporter{
		Order:      allocationlog.New(w.client, func(inventory.PoolID) *inventory.NodePool { return nil }, clock.RealClock{}),
		Objects:    w,
		Leadership: w,
		Profiles:   w,
		Client:     w.client,
		Recorder:   w.events,
	}
	return w
}

func (w *world) Leads() error {
	if w.follows {
		return lease.ErrNotLeading
	}
	return nil
}

func (w *world) Settling() time.Duration { return w.late }

func (w *world) EvictsOnConflict() bool { return !w.spares }

func (w *world) Claim(_, name string) *resourceapi.ResourceClaim { return w.claims[name] }

func (w *world) Consumers(claim *resourceapi.ResourceClaim) []*v1.Pod {
	return []*v1.Pod{w.pods[claim.Status.ReservedFor[0].Name]}
}

// run allocates the two claims.
func (w *world) run(ctx context.Context) {
	w.Start(ctx)
	go w.Order.Run(ctx)
	for _, name := range []string{"first", "second"} {
		w.watch.Add(w.allocated[name].DeepCopy())
	}
	synctest.Wait()
}

// told returns the number of events, and evicted the pods whose evictions were requested.
func (w *world) told() (events int) {
	for ; len(w.events.Events) > 0; events++ {
		<-w.events.Events
	}
	return events
}

func (w *world) evicted() (names []string) {
	for _, action := range w.client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok && create.GetSubresource() == "eviction" {
			names = append(names, create.GetObject().(*policyv1.Eviction).Name)
		}
	}
	return names
}

// TestReports: all users of both claims are told once, when neither claim can be expected to yield any more, and the
// user of the later claim is evicted if none of its containers has started.
func TestReports(t *testing.T) {
	t.Parallel()
	const both = 4 // two claims, two pods
	for name, test := range map[string]struct {
		change  func(*world)
		after   time.Duration // how long the conflict has lasted
		events  int
		evicted []string
	}{
		"it has just been found":      {after: Grace - time.Second},
		"it lasts":                    {after: Grace + time.Second, events: both, evicted: []string{"second"}},
		"it has lasted for long":      {after: time.Minute, events: both, evicted: []string{"second"}},
		"claims settle":               {change: func(w *world) { w.late = time.Minute }, after: time.Minute},
		"claims have settled":         {change: func(w *world) { w.late = time.Minute }, after: time.Minute + 2*Grace, events: both, evicted: []string{"second"}},
		"another replica leads":       {change: func(w *world) { w.follows = true }, after: time.Minute},
		"nobody is to be evicted":     {change: func(w *world) { w.spares = true }, after: time.Minute, events: both},
		"the pod goes anyhow":         {change: func(w *world) { w.pods["second"].DeletionTimestamp = &metav1.Time{Time: time.Now()} }, after: time.Minute, events: both},
		"a container of it has begun": {change: func(w *world) { w.pods["second"].Status.Phase = v1.PodRunning }, after: time.Minute, events: both + 1},
		"one claim is gone":           {change: func(w *world) { delete(w.claims, "first") }, after: time.Minute, events: both / 2, evicted: []string{"second"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w := newWorld()
				if test.change != nil {
					test.change(w)
				}
				w.run(ctx)
				time.Sleep(test.after)
				synctest.Wait()
				require.Equal(t, test.events, w.told())
				require.Equal(t, test.evicted, w.evicted())
				cancel()
				synctest.Wait()
			})
		})
	}
}

// TestEvictionOfAPodThatHasChanged: the server refuses, so the conflict is checked once more.
func TestEvictionOfAPodThatHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		refused := false
		w.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if refused || action.GetSubresource() != "eviction" {
				return false, nil, nil
			}
			refused = true
			return true, nil, apierrors.NewConflict(v1.Resource("pods"), "second", nil)
		})
		w.run(ctx)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"second", "second"}, w.evicted())
		require.Equal(t, 4, w.told(), "told once all the same")
	})
}

// TestOtherNamespacesClaimIsNotNamed: users of one namespace need not know of the claims of another one.
func TestOtherNamespacesClaimIsNotNamed(t *testing.T) {
	t.Parallel()
	other := ledger.ClaimRef{Namespace: "secret", Name: "x"}
	require.Equal(t, "claim of another namespace was first", withoutName("claim secret/x was first", other, "ns"))
	require.Equal(t, "claim secret/x was first", withoutName("claim secret/x was first", other, "secret"))
}
