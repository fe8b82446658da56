package dra_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

var selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true"}}}

// worker has one request of each kind: an exact one, one with alternatives, and one that only a later API knows.
func worker() *resourceapi.ResourceClaim {
	exactly := resourceapi.DeviceRequest{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "network", AllocationMode: resourceapi.DeviceAllocationModeAll, AdminAccess: ptr.To(true), Selectors: selectors,
	}}
	either := resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "large", DeviceClassName: "whole", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		{Name: "small", DeviceClassName: "half", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2, Selectors: selectors},
	}}
	return claimFor(exactly, either, resourceapi.DeviceRequest{Name: "later"})
}

func claimFor(requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}}
}

func TestRequests(t *testing.T) {
	var all []string
	for r := range dra.Requests(worker()) {
		all = append(all, fmt.Sprintf("%s: %d. %s, %d of %s, all %t, admin %t, %d selectors", r.Name(), r.Rank, r.Alternative, r.Count, r.Class, r.All(), r.AdminAccess, len(r.Selectors)))
	}
	require.Equal(t, []string{
		"nic: 0. , 0 of network, all true, admin true, 1 selectors",
		"gpu/large: 0. large, 1 of whole, all false, admin false, 0 selectors",
		"gpu/small: 1. small, 2 of half, all false, admin false, 1 selectors",
	}, all)
}

// TestRequestsStop: the iteration may end at each request.
func TestRequestsStop(t *testing.T) {
	for most := 1; most <= 3; most++ {
		seen := 0
		for range dra.Requests(worker()) {
			if seen++; seen == most {
				break
			}
		}
		require.Equal(t, most, seen)
	}
}

// TestRequestOfTwoKinds: only files can have one. The allocator takes the exact request, and so does everybody else.
func TestRequestOfTwoKinds(t *testing.T) {
	both := worker().Spec.Devices.Requests[1]
	both.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: "network"}
	var names []string
	for r := range dra.Requests(claimFor(both)) {
		names = append(names, r.Name()+" "+r.Class)
	}
	require.Equal(t, []string{"gpu network"}, names)
}

func TestClassOf(t *testing.T) {
	for name, class := range map[string]string{
		"nic": "network", "gpu/large": "whole", "gpu/small": "half",
		// These names are in no allocation that the API server accepts.
		"": "", "gpu": "", "gpu/": "", "gpu/none": "", "gpularge": "", "gpu-large": "", "large": "", "nic/large": "", "later": "", "gpu/large/more": "",
	} {
		require.Equal(t, class, dra.ClassOf(worker(), name), name)
	}
}

// TestIsAgreesWithName: Is compares without making the name.
func TestIsAgreesWithName(t *testing.T) {
	names := []string{"nic", "gpu/large", "gpu/small", "gpu", "", "gpu/", "nic/large"}
	for r := range dra.Requests(worker()) {
		for _, name := range names {
			require.Equal(t, name == r.Name(), r.Is(name), "%s is %s", r.Name(), name)
		}
	}
}

func TestWantsAll(t *testing.T) {
	require.True(t, dra.WantsAll(worker()))
	claim := worker()
	claim.Spec.Devices.Requests = claim.Spec.Devices.Requests[1:]
	require.False(t, dra.WantsAll(claim))
	claim.Spec.Devices.Requests[0].FirstAvailable[1].AllocationMode = resourceapi.DeviceAllocationModeAll
	require.True(t, dra.WantsAll(claim), "only as the last resort")
}

func TestWithAlternatives(t *testing.T) {
	for _, test := range []struct {
		from, most int
		names      []string
	}{
		{0, 1, []string{"nic", "gpu/large"}},
		{0, 8, []string{"nic", "gpu/large", "gpu/small"}},
		{1, 8, []string{"nic", "gpu/small"}},
		{5, 8, []string{"nic", "gpu/small"}}, // the last one stays
	} {
		before := worker()
		var names []string
		for r := range dra.Requests(dra.WithAlternatives(before, test.from, test.most)) {
			names = append(names, r.Name())
		}
		require.Equal(t, test.names, names)
		require.Equal(t, worker(), before, "the original belongs to others")
	}
}

func TestDefaulted(t *testing.T) {
	bare := func() *resourceapi.ResourceClaim {
		claim := worker()
		claim.Spec.Devices.Requests[0].Exactly.AllocationMode = ""
		small := &claim.Spec.Devices.Requests[1].FirstAvailable[1]
		small.Count, small.Tolerations = 0, []resourceapi.DeviceToleration{{Key: "worn"}, {Key: "hot", Operator: resourceapi.DeviceTolerationOpExists}}
		return claim
	}
	before := bare()
	after := dra.Defaulted(before)
	require.Equal(t, bare(), before, "the original belongs to others")
	want := bare()
	exactly, small := want.Spec.Devices.Requests[0].Exactly, &want.Spec.Devices.Requests[1].FirstAvailable[1]
	exactly.AllocationMode, exactly.Count = resourceapi.DeviceAllocationModeExactCount, 1
	small.Count, small.Tolerations[0].Operator = 1, resourceapi.DeviceTolerationOpEqual
	require.Equal(t, want, after)
	require.Same(t, after, dra.Defaulted(after), "a claim from a server is not copied")
}
