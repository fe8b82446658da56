package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// Devices of which several claims have shares (KEP-5075).
func TestConsumableCapacity(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"until it is used up":           testCapacityUsedUp,
		"request policies":              testRequestPolicies,
		"amounts that no policy allows": testRefusedAmounts,
		"without capacities":            testSharedWithoutCapacity,
		"not shared":                    testCapacityOfExclusiveDevice,
		"in a selector":                 testSelectShareable,
		"distinctAttribute":             testDistinctShares,
		"shared no more":                testSharedNoMore,
	})
}

const bandwidth = "bandwidth"

// nic is a device that can be shared.
func nic(name, amount string, policy *resourceapi.CapacityRequestPolicy) *builder.DeviceBuilder {
	return builder.Device(name).Shared().Modify(func(d *resourceapi.Device) {
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			bandwidth: {Value: resource.MustParse(amount), RequestPolicy: policy},
		}
	})
}

// wantShare asks for a share of one device; "" leaves the amount to the device.
func (s *space) wantShare(amount string) *builder.RequestBuilder {
	devices := s.Want(1)
	if amount != "" {
		devices.Capacity(bandwidth, amount)
	}
	return devices
}

// shares are the amounts that a pod's claims consume, by the device's name. Each
// share has to have an ID of its own.
func (s *space) shares(pod string) map[string][]string {
	s.T.Helper()
	amounts := make(map[string][]string)
	seen := make(map[string]bool)
	for _, result := range s.Results(pod) {
		require.NotNil(s.T, result.ShareID, "device %s of pod %s", result.Device, pod)
		require.False(s.T, seen[string(*result.ShareID)])
		seen[string(*result.ShareID)] = true
		amount := result.ConsumedCapacity[bandwidth]
		amounts[result.Device] = append(amounts[result.Device], amount.String())
	}
	return amounts
}

// Many pods at a time share two devices until nothing is left; what one releases,
// another one gets.
func testCapacityUsedUp(t *testing.T) {
	s := newSpace(t, "capacity", 1)
	s.Devices(0, nic("nic-0", "10G", nil), nic("nic-1", "10G", nil))
	s.Create(builder.Claim("one", s.wantShare("3G")).Template())
	s.CreatePods("three", 8)
	s.Eventually("have six shares in use", s.runningOf("three", 6))
	s.Eventually("have the rest wait", s.waitingOf("three", 2, "too little capacity left (bandwidth:"))
	perDevice := make(map[string]int)
	var first string
	for _, pod := range s.Pods() {
		if pod.Spec.NodeName == "" {
			continue
		}
		first = pod.Name
		for device, amounts := range s.shares(pod.Name) {
			require.Equal(t, []string{"3G"}, amounts)
			perDevice[device]++
		}
	}
	require.Equal(t, map[string]int{"nic-0": 3, "nic-1": 3}, perDevice)
	s.ClaimAndPod("rest", s.wantShare("1G"))
	s.Running("rest")
	s.DeletePod(first)
	s.Gone(first)
	s.Eventually("give its share to another one", s.runningOf("three", 6))
}

func testRequestPolicies(t *testing.T) {
	s := newSpace(t, "policies", 1)
	fixed := &resourceapi.CapacityRequestPolicy{
		Default:     ptr.To(resource.MustParse("4G")),
		ValidValues: []resource.Quantity{resource.MustParse("2G"), resource.MustParse("4G"), resource.MustParse("8G")},
	}
	steps := &resourceapi.CapacityRequestPolicy{
		Default:    ptr.To(resource.MustParse("1")),
		ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse("1")), Max: ptr.To(resource.MustParse("9")), Step: ptr.To(resource.MustParse("2"))},
	}
	s.Devices(0, nic("fixed", "100G", fixed).Attr("kind", "fixed"), nic("steps", "100", steps).Attr("kind", "steps"))
	for i, test := range []struct{ kind, asked, want string }{
		{"fixed", "", "4G"},
		{"fixed", "1G", "2G"},
		{"fixed", "2G", "2G"},
		{"fixed", "5G", "8G"},
		{"steps", "", "1"},
		{"steps", "100m", "1"},
		{"steps", "1100m", "3"},
		{"steps", "5", "5"},
		{"steps", "6", "7"},
	} {
		name := fmt.Sprintf("asks-%d", i)
		s.ClaimAndPod(name, s.wantShare(test.asked).Where(fmt.Sprintf("%s == %q", s.Attribute("kind"), test.kind)))
		s.Running(name)
		require.Equal(t, map[string][]string{test.kind: {test.want}}, s.shares(name), "%s asks for %q", test.kind, test.asked)
	}
}

func testRefusedAmounts(t *testing.T) {
	s := newSpace(t, "refused", 1)
	s.Devices(0, nic("nic", "10G", &resourceapi.CapacityRequestPolicy{
		Default:    ptr.To(resource.MustParse("1G")),
		ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse("1G")), Max: ptr.To(resource.MustParse("4G"))},
	}))
	s.ClaimAndPod("too-much", s.wantShare("5G"))
	s.Waiting("too-much", "claim "+s.Name+"/too-much", "request gpu", "the capacity asked for (bandwidth")
	s.ClaimAndPod("unknown", s.Want(1).Capacity("memory", "1G"))
	s.Waiting("unknown", "claim "+s.Name+"/unknown", "the capacity asked for (memory")
	for i := range 2 {
		name := fmt.Sprintf("most-%d", i)
		s.ClaimAndPod(name, s.wantShare("4G"))
		s.Running(name)
	}
	s.ClaimAndPod("late", s.wantShare("3G"))
	s.Waiting("late", "claim "+s.Name+"/late", "too little capacity left (bandwidth:")
	s.ClaimAndPod("fits", s.wantShare("2G"))
	s.Running("fits")
}

func testSharedWithoutCapacity(t *testing.T) {
	s := newSpace(t, "boundless", 1)
	s.Devices(0, builder.Device("counter").Shared())
	s.Create(builder.Claim("one", s.Want(1)).Template())
	s.CreatePods("any", 20)
	for i := range 20 {
		s.Running(fmt.Sprintf("any-%03d", i))
	}
}

// A device that is not shared is given out whole, but has to have what is asked for.
func testCapacityOfExclusiveDevice(t *testing.T) {
	s := newSpace(t, "exclusive", 1)
	s.Devices(0, builder.Device("small").Capacity(bandwidth, "1G"), builder.Device("large").Capacity(bandwidth, "10G"))
	s.ClaimAndPod("one", s.wantShare("2G"))
	s.Running("one")
	result := s.Results("one")[0]
	require.Equal(t, "large", result.Device)
	require.Nil(t, result.ShareID)
	s.ClaimAndPod("two", s.wantShare("2G"))
	s.Waiting("two", "claim "+s.Name+"/two", "request gpu", "held by")
}

func testSelectShareable(t *testing.T) {
	s := newSpace(t, "selectshared", 1)
	s.Devices(0, builder.Device("whole"), nic("nic", "10G", nil))
	devices := s.Want(1, "device.allowMultipleAllocations")
	s.ClaimAndPod("one", devices)
	s.Running("one")
	require.Equal(t, map[string][]string{"nic": {"10G"}}, s.shares("one"), "all of it, if there is no policy")
}

// Two shares of a claim, but not of the same device.
func testDistinctShares(t *testing.T) {
	s := newSpace(t, "distinctshares", 1)
	s.Devices(0, nic("nic-0", "10G", nil).Attr("port", "a"), nic("nic-1", "10G", nil).Attr("port", "a"), nic("nic-2", "10G", nil).Attr("port", "b"))
	pair := func(name string) *builder.ClaimBuilder {
		return builder.Claim(name, s.wantShare("2G").Named("left"), s.wantShare("2G").Named("right"))
	}
	s.Create(pair("same").Obj(), s.Pod("same", builder.Uses("same")))
	s.Running("same")
	require.Equal(t, map[string][]string{"nic-0": {"2G", "2G"}}, s.shares("same"))
	s.Create(pair("distinct").Distinct(s.Driver+"/port").Obj(), s.Pod("distinct", builder.Uses("distinct")))
	s.Running("distinct")
	require.Equal(t, map[string][]string{"nic-0": {"2G"}, "nic-2": {"2G"}}, s.shares("distinct"))
}

// While a claim has a share of a device that its driver does not offer for sharing any
// more, nobody gets it whole.
func testSharedNoMore(t *testing.T) {
	s := newSpace(t, "sharednomore", 1)
	shared := s.Slice(0, builder.Device("nic").Shared()).Obj()
	s.Create(shared)
	s.ClaimAndPod("first", s.Want(1))
	s.Running("first")
	s.Delete(shared)
	s.Create(s.Slice(0, builder.Device("nic")).Obj())
	s.ClaimAndPod("second", s.Want(1))
	s.Waiting("second", "claim "+s.Name+"/second", "request gpu", "held by")
	s.DeletePod("first")
	s.RunningSoon("second")
	require.Nil(t, s.Results("second")[0].ShareID)
}
