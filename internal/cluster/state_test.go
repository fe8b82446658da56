package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// inCluster runs a test, in a bubble of testing/synctest, with a state whose informers have
// not been started. start does that, and waits for all events.
func inCluster(t *testing.T, objects []runtime.Object, test func(t *testing.T, s *State, start func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(objects...)
		factory := informers.NewSharedInformerFactory(client, 0)
		s, err := New(factory, client, structured.Features{}, false, new(lease.Lease))
		require.NoError(t, err)
		follow(t, s, factory)
		s.Lease = new(lease.Lease) // Tests run at once, in one process.
		ctx, cancel := context.WithCancel(context.Background())
		defer factory.Shutdown()
		defer cancel()
		test(t, s, func() {
			factory.StartWithContext(ctx)
			synctest.Wait()
		})
	})
}

// follow makes a state follow informers, as the plugin does.
func follow(t *testing.T, s *State, factory informers.SharedInformerFactory) {
	t.Helper()
	api := factory.Resource().V1()
	claims, err := informer.AfterEvents(api.ResourceClaims().Informer(), s.RefreshClaim)
	require.NoError(t, err)
	slices, err := informer.AfterEvents(api.ResourceSlices().Informer(), s.RefreshSlice)
	require.NoError(t, err)
	pods, err := informer.Follow(factory.Core().V1().Pods().Informer(), s.PodChanged)
	require.NoError(t, err)
	_, err = informer.Follow(factory.Core().V1().Nodes().Informer(), s.NodeChanged)
	require.NoError(t, err)
	for _, registration := range []cache.ResourceEventHandlerRegistration{claims, slices, pods} {
		s.SyncWith(registration)
	}
}

// woken records what a profile is told.
type woken struct {
	devices []map[inventory.PoolID][]string
	by      []types.UID
	claims  []string
}

func (w *woken) WakeForDevices(devices map[inventory.PoolID][]string) {
	w.devices = append(w.devices, devices)
}

func (w *woken) WakeForLanded(by *v1.Pod, _ time.Time, devices map[inventory.PoolID][]string) {
	uid := types.UID("")
	if by != nil {
		uid = by.UID
	}
	w.devices, w.by = append(w.devices, devices), append(w.by, uid)
}

func (w *woken) WakeOthersOf(_ *v1.Pod, _ time.Time, claims ...ledger.ClaimRef) {
	for _, claim := range claims {
		w.claims = append(w.claims, claim.Name)
	}
}

func (w *woken) WakeUsersOf(claim ledger.ClaimRef) {
	w.claims = append(w.claims, "users of "+claim.Name)
}

// TestStateWithoutTaintRules: with the feature off there is no informer for the
// rules, which an API server without that API could not serve.
func TestStateWithoutTaintRules(t *testing.T) {
	t.Parallel()
	inCluster(t, nil, func(t *testing.T, s *State, _ func()) {
		require.False(t, s.HasTaintRules())
		s.RefreshTaintRule("rule")
	})
}

func TestSyncWaitsForAllThatExists(t *testing.T) {
	t.Parallel()
	held := builder.Claim("held", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0")
	slice := builder.NodeSlice("n1", builder.Devices("gpu-0")...).Obj()
	inCluster(t, []runtime.Object{held, slice}, func(t *testing.T, s *State, start func()) {
		ctx, cancel := context.WithCancelCause(context.Background())
		reason := errors.New("shutting down")
		cancel(reason)
		require.ErrorIs(t, s.Sync(ctx), reason)
		require.ErrorIs(t, s.Leads(), lease.ErrNotLeading, "nobody follows the election, and no pod was tried")

		start()
		require.NoError(t, s.Known(context.Background()))
		require.ErrorIs(t, s.Leads(), lease.ErrNotLeading)
		require.NoError(t, s.Sync(context.Background()))
		require.NoError(t, s.Leads())
		began := time.Now()
		time.Sleep(time.Minute)
		require.NoError(t, s.Sync(ctx), "nobody waits any more")
		require.Equal(t, began, s.LeadsSince())
		pool := inventory.PoolID{Driver: slice.Spec.Driver, Name: "n1"}
		require.NotNil(t, s.Pool(pool))
		require.Nil(t, s.Pool(inventory.PoolID{Driver: slice.Spec.Driver, Name: "n2"}))
		require.Equal(t, held.UID, s.Claims.List()[0].(*resourceapi.ResourceClaim).UID)
	})
}

// TestAllProfilesHearOfDevices: all profiles hear of devices that become free, and of claims that
// will not be allocated.
func TestAllProfilesHearOfDevices(t *testing.T) {
	t.Parallel()
	claim := builder.Claim("c", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0")
	pod, member := &v1.Pod{}, &v1.Pod{}
	pod.UID, member.UID = "pod", "member"
	inCluster(t, nil, func(t *testing.T, s *State, _ func()) {
		one, other := &woken{}, &woken{}
		s.Wakes(one)
		s.Wakes(other)
		add := func(by types.UID) {
			require.NoError(t, s.Ledger.AddInFlight(ledger.RefTo(claim), by, claim.Status.Allocation))
		}
		s.Freed(nil)
		s.Landed(nil, time.Time{}, nil)
		require.Empty(t, one.devices, "nothing became free")

		require.Zero(t, s.inFlightSince(claim.UID))
		add("pod")
		since := time.Now()
		time.Sleep(time.Second)
		add("member")
		require.True(t, s.inFlightSince(claim.UID).Equal(since), "the first of them counts")
		s.EndInFlight(pod, claim, false)
		require.Empty(t, one.claims, "another one of the group is to use it")
		s.EndInFlight(member, claim, false)
		for _, w := range []*woken{one, other} {
			require.Equal(t, []string{"c"}, w.claims)
			require.Equal(t, []types.UID{"member"}, w.by)
			require.Len(t, w.devices, 1)
		}

		require.NoError(t, s.Claims.Add(claim))
		s.RefreshClaim("default/c")
		require.NoError(t, s.Claims.Delete(claim))
		s.RefreshClaim("default/c")
		require.Len(t, other.devices, 2)
		require.Len(t, other.by, 1, "an event says that devices are free, not that somebody failed")

		s.EndInFlight(pod, claim, true)
		require.Len(t, other.claims, 2, "the claim has been deallocated since")
		require.NoError(t, s.Claims.Add(claim))
		s.RefreshClaim("default/c")
		s.EndInFlight(pod, claim, true)
		require.Len(t, other.claims, 2, "events of the claim wake those that share it")

		version := func(c *resourceapi.ResourceClaim, version string) *resourceapi.ResourceClaim {
			c = c.DeepCopy()
			c.ResourceVersion = version
			return c
		}
		free := version(claim, "102")
		free.Status.Allocation = nil
		s.Ledger.Observe(version(claim, "101"))
		s.Ledger.Observe(free)
		require.Equal(t, []string{"c", "c", "users of c"}, other.claims, "whoever notices it first")
		require.NoError(t, s.Claims.Update(free))
		s.RefreshClaim("default/c")
		require.Len(t, other.claims, 3)
		s.Ledger.Observe(version(claim, "103"))
		add("pod")
		s.Ledger.Observe(version(free, "104"))
		require.Len(t, other.claims, 3, "it may get another allocation")
	})
}

// TestEndOfAnApproval: an allocation that the guard in this process approved, and that was not
// stored, is free again for all pods, including the pod that tried to store it.
func TestEndOfAnApproval(t *testing.T) {
	t.Parallel()
	claim := builder.Claim("c", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0")
	pod := &v1.Pod{}
	pod.UID = "pod"
	inCluster(t, nil, func(t *testing.T, s *State, _ func()) {
		w, ref := &woken{}, ledger.RefTo(claim)
		s.Wakes(w)
		approve := func() { require.NoError(t, s.Ledger.AddInFlight(ref, "guard", claim.Status.Allocation)) }
		end := func() { s.ApprovalEnded(ref, s.Ledger.RemoveInFlight(claim.UID, "guard")) }

		require.NoError(t, s.Ledger.AddInFlight(ref, "pod", claim.Status.Allocation))
		approve()
		s.EndInFlight(pod, claim, false)
		require.Empty(t, w.claims, "it may be stored yet")
		end()
		require.Equal(t, []string{"c"}, w.claims)
		require.Equal(t, []types.UID{""}, w.by)
		require.Len(t, w.devices, 1)

		approve()
		require.NoError(t, s.Claims.Add(claim))
		s.RefreshClaim("default/c")
		end()
		require.Len(t, w.claims, 1, "it was stored")
		require.Len(t, w.devices, 1)
	})
}

// TestGivenUp: pods outside a gang that share a claim wait for it while it is in flight for the gang.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	open := builder.Claim("open", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0")
	held, stored := builder.Claim("held").Allocated("n1", "gpu-1"), builder.Claim("stored").Allocated("n1", "gpu-2")
	inCluster(t, nil, func(t *testing.T, s *State, _ func()) {
		w := &woken{}
		s.Wakes(w)
		require.NoError(t, s.Ledger.AddInFlight(ledger.RefTo(held), "another", held.Status.Allocation))
		require.NoError(t, s.Claims.Add(stored))
		s.RefreshClaim("default/stored")
		s.GivenUp([]ledger.ClaimRef{ledger.RefTo(open), ledger.RefTo(held), ledger.RefTo(stored)})
		require.Equal(t, []string{"open"}, w.claims)
	})
}

func TestMemoryTakesTheLargestBound(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.Bound(64 << 20)
	m.Bound(1 << 20)
	require.EqualValues(t, 64<<20, m.bytes)
}
