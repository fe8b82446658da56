package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// allocates is a request for devices that have the given names of requests.
func allocates(claim *resourceapi.ResourceClaim, requests ...string) *Request {
	after := &resourceapi.AllocationResult{}
	for i, request := range requests {
		after.Devices.Results = append(after.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: request, Driver: b.Driver, Pool: "a", Device: []string{"gpu-0", "gpu-1"}[i%2],
		})
	}
	return &Request{Claim: refTo(claim), Version: "3", After: after, Requests: claim.Spec.Devices.Requests, Stored: true, Confirmed: true}
}

func TestUnwantedDevicesAreDenied(t *testing.T) {
	t.Parallel()
	one, two := b.Request("one", "gpu"), b.Request("two", "gpu").Count(2)
	either := b.FirstAvailable("either", b.Request("x", "gpu"), b.Request("y", "gpu").Count(2))
	claim := b.Claim("c", one, two, b.Request("all", "gpu").All(), either).Obj()
	for _, wanted := range [][]string{{"one"}, {"two", "two"}, {"one", "two", "two"}, {"all", "all", "all"}, {"either/x"}, {"either/y", "either/y"}} {
		_, denied := allocates(claim, wanted...).unwanted()
		require.False(t, denied, wanted)
	}
	for _, unwanted := range [][]string{
		{"one", "one"}, {"two", "two", "two"}, {"other"}, {""}, {"either"}, {"either/z"}, {"one/x"},
		{"either/x", "either/x"}, {"either/x", "either/y"}, {"either/y", "either/y", "either/y"},
	} {
		answer, denied := allocates(claim, unwanted...).unwanted()
		require.True(t, denied, unwanted)
		require.Equal(t, Denied, answer.Kind)
		require.Contains(t, answer.Reason, "its spec does not request that many devices there")
	}
	_, denied := allocates(b.Claim("nothing").Obj(), "one").unwanted()
	require.True(t, denied)
	older := allocates(b.Claim("older").Obj(), "one", "one")
	older.Unbounded = true
	_, denied = older.unwanted()
	require.False(t, denied, "v1alpha2 has no such requests")
}

// storedClaim is the only claim that is stored.
type storedClaim struct{ claim *resourceapi.ResourceClaim }

func (s storedClaim) Claim(string) *resourceapi.ResourceClaim { return s.claim }

// The spec in a review counts only if the stored spec is unknown.
func TestTheSpecIsTheStoredOne(t *testing.T) {
	t.Parallel()
	stored, forged := at(3, b.Claim("x", b.Request("gpu", "gpu")).Obj()), at(3, b.Claim("x", b.Request("gpu", "gpu").Count(2)).Allocated("a", "gpu-0", "gpu-1"))
	asked := request(3, forged)
	asked.Requests = forged.Spec.Devices.Requests
	for name, knows := range map[string]func(*deputy){
		"the watch has shown it": func(d *deputy) {
			d.shows(stored)
			d.Stored = storedClaim{stored}
		},
		"it is looked up": func(d *deputy) { d.Lookup = NewLookup(newClaimServer(stored).Claims) },
	} {
		d := newDeputy(t)
		knows(d)
		answer := d.Guard.Review(t.Context(), asked)
		require.Equal(t, Denied, answer.Kind, name)
		require.Contains(t, answer.Reason, "was to get device gpu.example.com/a/gpu-1 for request gpu", name)
		require.Empty(t, d.Guard.Book.Approvals(), name)
	}
}
