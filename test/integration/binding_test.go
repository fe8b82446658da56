package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/checker"
)

const (
	attached, broken = "attached", "broken"
	// late is an attribute of devices that have to be attached first.
	late = "late"
)

// Devices that get ready only after they were allocated (KEP-5007).
func TestBindingConditions(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"ready devices first":           testReadyDevicesFirst,
		"failure, tainted":              testBindingFailureWithTaint,
		"failure, removed":              testBindingFailureWithoutDevice,
		"one node of several":           testBindsToNode,
		"shared claim":                  testBindingOfSharedClaim,
		"shared claim, failure":         testBindingFailureOfSharedClaim,
		"joined when ready":             testJoinedWhenReady,
		"joined when failed":            testJoinedWhenFailed,
		"one of several claims":         testBindingOfOneOfSeveralClaims,
		"pod deleted while it waits":    testDeletedWhileWaiting,
		"deallocated while a pod waits": testDeallocatedWhileWaiting,
		"others are not held up":        testOthersAreNotHeldUp,
	})
}

// gated makes devices that have to be attached before a pod can use them.
func gated(names ...string) []*builder.DeviceBuilder {
	devices := builder.Devices(names...)
	for _, device := range devices {
		device.Attr(late, true).BindingCondition(attached).Modify(func(d *resourceapi.Device) { d.BindingFailureConditions = []string{broken} })
	}
	return devices
}

// gatedSlice publishes devices of a node that have to be attached first, in a pool of
// their own: pools with such devices come after all others.
func (s *space) gatedSlice(node int, names ...string) *resourceapi.ResourceSlice {
	s.T.Helper()
	name := s.Node(node) + "-gated"
	slice := s.Slice(node, gated(names...)...).InPool(name, 1, 1).Obj()
	slice.Name = name
	s.Create(slice)
	return slice
}

// gatedPool is the name of the pool of gatedSlice.
func (s *space) gatedPool(node int) string { return s.Node(node) + "-gated" }

// holds waits until a claim is allocated exactly these devices, each "pool/device", on the
// server: what the test reports about them next must not come too late.
func (s *space) holds(claim string, devices ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("allocate %v to claim %s", devices, claim), func(ctx context.Context) error {
		found, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var names []string
		for _, result := range checker.Results(found) {
			names = append(names, result.Pool+"/"+result.Device)
		}
		if diff := cmp.Diff(devices, names); diff != "" {
			return fmt.Errorf("-want, +got:\n%s", diff)
		}
		return nil
	})
}

// reports writes what the driver says about all devices of a claim.
func (s *space) reports(claim, condition string) {
	s.T.Helper()
	s.UpdateClaimStatus(claim, func(c *resourceapi.ResourceClaim) {
		c.Status.Devices = nil
		require.NotNil(s.T, c.Status.Allocation, "there are no devices to report about")
		for _, result := range c.Status.Allocation.Devices.Results {
			c.Status.Devices = append(c.Status.Devices, resourceapi.AllocatedDeviceStatus{
				Driver: result.Driver, Pool: result.Pool, Device: result.Device,
				Conditions: []metav1.Condition{{
					Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(),
					Reason: "Tested", Message: "said the driver",
				}},
			})
		}
	})
}

// announced waits for the event that says for what a pod waits.
func (s *space) announced(pod string) {
	s.T.Helper()
	s.Eventually("see the event that pod "+pod+" waits", func(ctx context.Context) error {
		events, err := s.Cluster.Client.EventsV1().Events(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == pod && event.Reason == "BindingConditionsPending" && event.Action == "Scheduling" && event.Type == "Normal" {
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(events.Items))
	})
}

// notBound fails the test if a pod has a node.
func (s *space) notBound(pods ...string) {
	s.T.Helper()
	for _, pod := range pods {
		require.Empty(s.T, s.LivePod(pod).Spec.NodeName, "pod %s was bound before its devices were ready", pod)
	}
}

// Devices that are ready come first. For the others the pod waits; if one fails, it
// is allocated anew, perhaps the same.
func testReadyDevicesFirst(t *testing.T) {
	s := newSpace(t, "ready-first", 1)
	s.gatedSlice(0, "gpu-9")
	s.Devices(0, builder.Devices("gpu-0")...)
	s.Known()
	start := time.Now()
	s.ClaimAndPod("first", s.Want(1))
	s.Running("first")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("first"))

	s.ClaimAndPod("second", s.Want(1))
	s.holds("second", s.gatedPool(0)+"/gpu-9")
	s.announced("second")
	allocation := s.LiveClaim("second").Status.Allocation
	require.Equal(t, []string{attached}, allocation.Devices.Results[0].BindingConditions)
	require.Equal(t, []string{broken}, allocation.Devices.Results[0].BindingFailureConditions)
	require.NotNil(t, allocation.AllocationTimestamp)
	require.False(t, allocation.AllocationTimestamp.Time.Before(start.Truncate(time.Second)))
	s.notBound("second")

	s.reports("second", broken)
	s.Waiting("second", "device binding failed", "broken is true: said the driver (Tested)")
	s.holds("second", s.gatedPool(0)+"/gpu-9")
	require.Empty(t, s.LiveClaim("second").Status.Devices, "that was about the last allocation")
	s.notBound("second")
	s.reports("second", attached)
	s.RunningSoon("second")
	require.Len(t, s.LiveClaim("second").Status.Devices, 1, "what the driver says stays")
}

// failsOver lets a device fail after something was done to its slice, and expects the
// pod on the other node.
func failsOver(t *testing.T, name string, change func(*resourceapi.ResourceSlice)) {
	s := newSpace(t, name, 2)
	slice := s.gatedSlice(0, "gpu-9")
	s.ClaimAndPod("moves", s.Want(1))
	s.holds("moves", s.gatedPool(0)+"/gpu-9")
	s.Eventually("change the slice", func(ctx context.Context) error {
		live, err := s.Cluster.Client.ResourceV1().ResourceSlices().Get(ctx, slice.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(live)
		_, err = s.Cluster.Client.ResourceV1().ResourceSlices().Update(ctx, live, metav1.UpdateOptions{})
		return err
	})
	s.Devices(1, builder.Devices("gpu-0")...)
	s.Known()
	s.notBound("moves")
	s.reports("moves", broken)
	s.RunningSoon("moves")
	require.Equal(t, []string{s.Node(1) + "/gpu-0"}, s.DeviceNames("moves"))
	require.Empty(t, s.LiveClaim("moves").Status.Devices, "that was another device")
}

func testBindingFailureWithTaint(t *testing.T) {
	failsOver(t, "fails-tainted", func(slice *resourceapi.ResourceSlice) {
		slice.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: sick, Value: "true", Effect: noSchedule}}
	})
}

func testBindingFailureWithoutDevice(t *testing.T) {
	failsOver(t, "fails-removed", func(slice *resourceapi.ResourceSlice) { slice.Spec.Devices = nil })
}

// A device of the network that gets attached to one node can be used on no other.
func testBindsToNode(t *testing.T) {
	s := newSpace(t, "binds-to-node", 2)
	devices := gated("fpga-0")
	devices[0].BindsToNode()
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnAllNodes().Devices(devices...).Obj())
	s.Create(builder.Claim("claim", s.Want(1)).Obj(), s.PodOnNode("pod", 1, builder.Uses("claim")))
	s.holds("claim", s.Name+"/fpga-0")
	require.Equal(t, onlyOn(s.Node(1)), s.LiveClaim("claim").Status.Allocation.NodeSelector)
	s.reports("claim", attached)
	s.RunningSoon("pod")
}

func testBindingOfSharedClaim(t *testing.T) {
	s := newSpace(t, "gated-shared", 1)
	s.gatedSlice(0, "gpu-9")
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("p", builder.Uses("shared")), s.Pod("q", builder.Uses("shared")))
	s.reservedFor("shared", 2)
	s.notBound("p", "q")
	s.reports("shared", attached)
	s.RunningSoon("p", "q")
}

// reservedFor waits until so many pods have reserved a claim.
func (s *space) reservedFor(claim string, count int) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("reserve claim %s for %d pods", claim, count), func(context.Context) error {
		found, err := s.KnownClaim(claim)
		if err == nil && len(found.Status.ReservedFor) != count {
			err = fmt.Errorf("it is reserved for %v", found.Status.ReservedFor)
		}
		return err
	})
}

// Both pods give up, the last one clears the claim, and both get the next device.
func testBindingFailureOfSharedClaim(t *testing.T) {
	s := newSpace(t, "gated-shared-fails", 1)
	s.gatedSlice(0, "gpu-9")
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("p", builder.Uses("shared")), s.Pod("q", builder.Uses("shared")))
	s.reservedFor("shared", 2)
	s.Devices(0, builder.Devices("gpu-0")...)
	s.Known()
	s.reports("shared", broken)
	s.RunningSoon("p", "q")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("p"))
}

// A claim that is ready already makes nobody wait, also if that took a long time.
func testJoinedWhenReady(t *testing.T) {
	s := newSpace(t, "gated-ready", 1)
	s.gatedSlice(0, "gpu-9")
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("p", builder.Uses("shared")))
	s.holds("shared", s.gatedPool(0)+"/gpu-9")
	s.reports("shared", attached)
	s.RunningSoon("p")
	s.Create(s.Pod("q", builder.Uses("shared")))
	s.Running("q")
}

// A claim that has failed is of no use to others. It stays as it is while somebody
// uses it, and then gets another device.
func testJoinedWhenFailed(t *testing.T) {
	s := newSpace(t, "gated-failed", 1)
	s.gatedSlice(0, "gpu-9")
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.Pod("p", builder.Uses("shared")))
	s.holds("shared", s.gatedPool(0)+"/gpu-9")
	s.reports("shared", attached)
	s.RunningSoon("p")
	s.reports("shared", broken)
	s.Create(s.Pod("q", builder.Uses("shared")))
	s.Waiting("q", "device binding failed", "claim "+s.Name+"/shared", "broken is true: said the driver")
	require.NotNil(t, s.LiveClaim("shared").Status.Allocation)
	s.Devices(0, builder.Devices("gpu-0")...)
	s.Known()
	s.DeletePod("p")
	s.RunningSoon("q")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("q"))
}

func testBindingOfOneOfSeveralClaims(t *testing.T) {
	s := newSpace(t, "gated-several", 1)
	s.Devices(0, builder.Devices("gpu-0")...)
	s.gatedSlice(0, "gpu-8", "gpu-9")
	for _, claim := range []string{"a", "b", "c"} {
		s.Create(builder.Claim(claim, s.Want(1)).Obj())
	}
	s.Create(s.Pod("p", builder.Uses("a", "b", "c")))
	s.holds("b", s.gatedPool(0)+"/gpu-8")
	s.holds("c", s.gatedPool(0)+"/gpu-9")
	s.reports("c", attached)
	s.notBound("p")
	s.reports("b", attached)
	s.RunningSoon("p")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("p")[:1])
}

// A pod that nobody wants any more does not hold its devices until the timeout.
func testDeletedWhileWaiting(t *testing.T) {
	s := newSpace(t, "gated-deleted", 1)
	s.gatedSlice(0, "gpu-9")
	s.ClaimAndPod("goes", s.Want(1))
	s.holds("goes", s.gatedPool(0)+"/gpu-9")
	s.announced("goes")
	s.ClaimAndPod("next", s.Want(1))
	s.Waiting("next", "held by another claim")
	s.DeletePod("goes")
	s.EventuallyFree("goes")
	s.holds("next", s.gatedPool(0)+"/gpu-9")
	s.reports("next", attached)
	s.RunningSoon("next")
}

// Somebody has taken the devices away: the pod starts over at once.
func testDeallocatedWhileWaiting(t *testing.T) {
	s := newSpace(t, "gated-deallocated", 1)
	s.gatedSlice(0, "gpu-9")
	s.ClaimAndPod("p", s.Want(1))
	s.holds("p", s.gatedPool(0)+"/gpu-9")
	s.announced("p")
	s.Devices(0, builder.Devices("gpu-0")...)
	s.Known()
	s.UpdateClaimStatus("p", func(claim *resourceapi.ResourceClaim) { claim.Status = resourceapi.ResourceClaimStatus{} })
	s.RunningSoon("p")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("p"))
}

// While some wait, others go on.
func testOthersAreNotHeldUp(t *testing.T) {
	const waiting = 20
	s := newSpace(t, "gated-others", 1)
	var names []string
	for i := range waiting {
		names = append(names, fmt.Sprintf("gpu-%d", 10+i))
	}
	s.gatedSlice(0, names...)
	for i := range waiting {
		s.ClaimAndPod(fmt.Sprintf("waits-%d", i), s.Want(1))
	}
	for i := range waiting {
		s.reservedFor(fmt.Sprintf("waits-%d", i), 1)
	}
	s.Devices(0, builder.Devices("gpu-0")...)
	s.ClaimAndPod("passes", s.Want(1))
	s.Running("passes")
	for i := range waiting {
		s.notBound(fmt.Sprintf("waits-%d", i))
		s.reports(fmt.Sprintf("waits-%d", i), attached)
	}
	for i := range waiting {
		s.RunningSoon(fmt.Sprintf("waits-%d", i))
	}
}
