package preemption

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// TestGangGetsNoDevicesThatLast: when a gang is planned as if pods were gone, claims that last for it, such as those that are held for others
// then, keep their devices.
func TestGangGetsNoDevicesThatLast(t *testing.T) {
	t.Parallel()
	uses := []ledger.Use{useOfDevice("lasts", "gpu-0"), useOfDevice("ends", "gpu-1")}
	usage := ledger.WhatIf(ledger.New(), nil, uses)
	s := &Reclaimable{WithoutEnding: usage, own: map[types.UID]bool{"lasts": true}}
	pool := ForGang(kube.NewCycleState(), uses).Usage(s).Pool(inventory.PoolID{Driver: "d", Name: "p"})
	require.True(t, pool.Uses("gpu-0"))
	require.False(t, pool.Uses("gpu-1"))
}

// useOfDevice returns the use of a device by a claim.
func useOfDevice(claim types.UID, device string) ledger.Use {
	return ledger.Use{Claim: ledger.ClaimRef{UID: claim}, Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: device}},
	}}}
}

// TestOwnClaimsInAPool: the pod's own claims are found among those of a pool, whichever are more.
func TestOwnClaimsInAPool(t *testing.T) {
	t.Parallel()
	many := []types.UID{"a", "b", "c", "d", "e"}
	for _, test := range []struct {
		own, held []types.UID
		has       bool
	}{
		{many, []types.UID{"c"}, true}, {[]types.UID{"c"}, many, true}, {many, many, true}, {nil, many, false}, {many, nil, false},
		{many, []types.UID{"x"}, false}, {[]types.UID{"x"}, many, false},
	} {
		s := &Reclaimable{own: make(map[types.UID]bool)}
		for _, claim := range test.own {
			s.own[claim] = true
		}
		require.Equal(t, test.has, s.hasOwn(&heldPool{claims: test.held}), "%v", test)
	}
}
