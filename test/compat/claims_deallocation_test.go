package compat

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// A claim of which somebody requests the deallocation, which is only possible while nobody
// has reserved it, gets no new consumer before it has been allocated anew.
func TestDeallocationOnRequest(t *testing.T) {
	t.Parallel()
	if tested.claims != api.V1alpha2 && tested.claims != api.V1alpha3 {
		t.Skip("only the alpha versions have status.deallocationRequested")
	}
	s := newSpace(t, "requests", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.ClaimAndPod("first", s.Want(1))
	s.Running("first")
	s.Create(builder.Claim("shared", s.Want(1)).Obj())
	s.Protect("shared")
	allocation := s.LiveClaim("first").Status.Allocation
	allocation.Devices.Results[0].Device = "gpu-1"
	s.UpdateClaimStatus("shared", func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = allocation
		conversion.SetAlphaClaim(claim, conversion.AlphaClaim{DeallocationRequested: true})
	})
	require.True(t, conversion.AlphaClaimOf(s.LiveClaim("shared")).DeallocationRequested)
	s.DeletePod("first") // Its device is the first one that is free.
	s.EventuallyFree("first")
	s.Create(s.Pod("second", builder.Uses("shared")))
	s.RunningSoon("second")
	require.False(t, conversion.AlphaClaimOf(s.LiveClaim("shared")).DeallocationRequested)
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("second"))
}
