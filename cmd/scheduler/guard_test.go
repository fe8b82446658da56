package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/structured"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// The guard is told of everything, also when the informers run already, and only of what can be looked
// up: its handler may be the first one to hear of an event. To wait until everything is known does not
// make the scheduler lead.
func TestGuardHasWhatTheSchedulerKnows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := builder.Claim("held", builder.Request("gpu", "gpu")).Allocated("n1", "gpu-0")
		slice := builder.NodeSlice("n1", builder.Devices("gpu-0")...).Obj()
		client := fake.NewClientset(held, slice)
		// The state has not heard of anything, and the informers that it looks things up in have them.
		late, heard := informers.NewSharedInformerFactory(client, 0), informers.NewSharedInformerFactory(client, 0)
		state, err := cluster.New(late, client, structured.Features{}, false, new(lease.Lease))
		require.NoError(t, err)
		state.Lease = new(lease.Lease)
		require.NoError(t, late.Resource().V1().ResourceClaims().Informer().GetStore().Add(held))
		require.NoError(t, late.Resource().V1().ResourceSlices().Informer().GetStore().Add(slice))
		holdings := holdingsOf(state, heard)
		ctx, cancel := context.WithCancel(t.Context())
		defer late.Shutdown()
		defer heard.Shutdown()
		defer cancel()
		heard.StartWithContext(ctx)
		synctest.Wait()

		var claims, slices []string
		require.NoError(t, holdings.OnClaim(func(key string) {
			if holdings.Ledger.State(held.UID).Committed != nil {
				claims = append(claims, key)
			}
		}))
		require.NoError(t, holdings.OnSlice(func(name string) {
			if holdings.Ledger.Pools(inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}) != nil {
				slices = append(slices, name)
			}
		}))
		synctest.Wait()
		require.Equal(t, []string{"default/held"}, claims)
		require.Equal(t, []string{slice.Name}, slices)
		late.StartWithContext(ctx)
		require.NoError(t, holdings.Sync(ctx))
		require.ErrorIs(t, state.Leads(), lease.ErrNotLeading)
	})
}

func TestGuardNeedsThePlugin(t *testing.T) {
	t.Parallel()
	o := newGuardOptions()
	c := (&schedulerconfig.Config{InformerFactory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}).Complete()
	var running runningGuard
	failed, err := running.start(t.Context(), o, &c)
	require.NoError(t, err)
	require.Nil(t, failed, "nobody has asked for a guard")
	o.enabled = true
	_, err = running.start(t.Context(), o, &c)
	require.ErrorContains(t, err, "which no profile has; enable it, or run bin/guard")
	running.stop()
}
