package factory

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// heapGrowth returns a function that tells by how many MiB what is in use on the heap grew since.
func heapGrowth() func() int {
	inUse := func() int {
		runtime.GC()
		runtime.GC() // What is weakly referred to is gone after the second one.
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	before := inUse()
	return func() int { return (inUse() - before) >> 20 }
}

// largeClaim makes a claim of about 1.25 MiB, below what etcd takes: 4 requests with 32 selectors of 10 KiB each.
func largeClaim(number int) *resourceapi.ResourceClaim {
	claim := builder.Claim("c").Obj()
	for r := range 4 {
		request := resourceapi.DeviceRequest{Name: fmt.Sprint("r", r), Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}}
		for s := range 32 {
			expression := fmt.Sprintf("true || '%d-%d-%d' == '%s'", number, r, s, strings.Repeat("x", 10<<10-32))
			request.Exactly.Selectors = append(request.Exactly.Selectors,
				resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim
}

// TestNothingIsKeptOfObjectsThatAreGone: one tenant with a quota of one claim creates a large one, deletes it, creates the next one and
// so on; a driver does the same with devices that differ in their capacity.
func TestNothingIsKeptOfObjectsThatAreGone(t *testing.T) {
	// Not in parallel with others: it looks at the heap.
	c := newContents()
	growth := heapGrowth()
	for i := range 300 {
		claim := largeClaim(i)
		claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{strings.Repeat("c", 100<<10), fmt.Sprint(i)}}}
		claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{Requests: []string{strings.Repeat("d", 100<<10), fmt.Sprint(i)}}}
		claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: builder.NodeSelector("zone", fmt.Sprint(i, strings.Repeat("n", 100<<10)))}
		c.claim(claim)
		c.slice(builder.NodeSlice("n", capacious("d", i, 500)).Obj())
	}
	require.Less(t, growth(), 2*capacityBytes>>20, "MiB are kept")
	require.LessOrEqual(t, c.capacities.taken, capacityBytes)
	require.Eventually(t, func() bool { // Cleanups have a goroutine of their own.
		runtime.GC()
		return size(&c.requests)+size(&c.constraints)+size(&c.configs)+size(&c.nodeSelectors) < 10
	}, 3*time.Minute, 10*time.Millisecond)
	runtime.KeepAlive(c)
}

func size[T any](t *table[T]) int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return len(t.known)
}

// capacious makes a device with so many values to choose from for one capacity.
func capacious(name string, number, values int) *builder.DeviceBuilder {
	policy := resourceapi.CapacityRequestPolicy{}
	for i := range values {
		policy.ValidValues = append(policy.ValidValues, *resource.NewQuantity(int64(i), resource.DecimalSI))
	}
	return builder.Device(name).Capacity("memory", fmt.Sprint(number)).Policy("memory", policy)
}

// TestSharedWhileOneHasIt: content is found again as long as any object has it, whatever came meanwhile.
func TestSharedWhileOneHasIt(t *testing.T) {
	c := newContents()
	made := func() *resourceapi.ResourceClaim {
		claim := builder.Claim("a", builder.Request("one", "gpu"), builder.Request("two", "gpu")).Allocated("n1", "gpu-0")
		claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"one", "two"}}}
		claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{Requests: []string{"one"}}}
		claim.Status.Allocation.NodeSelector = builder.NodeSelector("a", "b")
		c.claim(claim)
		return claim
	}
	first := made()
	second := made()
	for i := range 20 {
		other := builder.Claim("b", builder.Request(fmt.Sprint("r", i), "gpu")).Obj()
		c.claim(other)
		first = nil // The second has it.
		runtime.GC()
	}
	require.Nil(t, first)
	third := made()
	require.Same(t, &second.Spec.Devices.Requests[0], &third.Spec.Devices.Requests[0])
	require.Len(t, third.Spec.Devices.Requests, 2)
	require.Same(t, &second.Spec.Devices.Constraints[0], &third.Spec.Devices.Constraints[0])
	require.Same(t, &second.Spec.Devices.Config[0], &third.Spec.Devices.Config[0])
	require.Same(t, second.Status.Allocation.NodeSelector, third.Status.Allocation.NodeSelector)
}

// TestCapacitiesTakeWhatTheySay: the heap holds no more than what is counted.
func TestCapacitiesTakeWhatTheySay(t *testing.T) {
	// Not in parallel with others: it looks at the heap.
	for name, values := range map[string]int{"small": 0, "large": 500} {
		c := newContents()
		growth := heapGrowth()
		for i := range 4000 {
			c.slice(builder.NodeSlice("n", capacious("d", i, values)).Obj())
		}
		require.LessOrEqual(t, growth(), capacityBytes>>20, name)
		require.Greater(t, c.capacities.taken, capacityBytes/4, name)
		runtime.KeepAlive(c)
	}
}
