package alpha

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// Only devices with a compatibility group in common may draw from a counter set at the
// same time.
func TestCompatibilityGroups(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"together":                       testCompatibleDevices,
		"never together":                 testIncompatibleDevices,
		"on another node":                testIncompatibleNode,
		"with devices in use":            testIncompatibleWithUsers,
		"in a burst":                     testIncompatibleBurst,
		"without consumable capacity":    testGroupsWithoutCapacity,
		"without the gate":               testGroupsWithoutGate,
		"the API server keeps the field": testGroupsPersisted,
	})
}

// partition is a device of a GPU in a compatibility group.
func partition(name, group string) *builder.DeviceBuilder {
	return builder.Device(name).Attr("group", group).Consumes("gpu", "memory", "10Gi").Modify(func(d *resourceapi.Device) {
		d.ConsumesCounters[0].CompatibilityGroups = []string{group}
	})
}

// gpu publishes a GPU of 40Gi and partitions of it on a node.
func (s *space) gpu(node int, partitions ...*builder.DeviceBuilder) {
	part := func(name string) *builder.SliceBuilder {
		return builder.Slice(s.Node(node)+"-"+name).OfDriver(s.Driver).OnNode(s.Node(node)).InPool(s.Node(node), 1, 2)
	}
	s.Create(part("counters").Counters("gpu", "memory", "40Gi").Obj(), part("devices").Devices(partitions...).Obj())
}

func (s *space) inGroup(group string) *builder.RequestBuilder {
	return s.Want(1, fmt.Sprintf("%s == %q", s.Attribute("group"), group))
}

func testCompatibleDevices(t *testing.T) {
	s := newSpace(t, "compatible", 1)
	s.gpu(0, partition("a", "mig"), partition("b", "mig"))
	s.ClaimAndPod("pair", s.Want(2))
	s.Running("pair")
	require.Len(t, s.Results("pair"), 2)
}

func testIncompatibleDevices(t *testing.T) {
	s := newSpace(t, "incompatible", 1)
	s.gpu(0, partition("a", "mig"), partition("b", "vgpu"))
	s.ClaimAndPod("pair", s.Want(2))
	s.Waiting("pair", "claim "+s.Name+"/pair")
	require.Nil(t, s.LiveClaim("pair").Status.Allocation)
	s.ClaimAndPod("single", s.Want(1))
	s.Running("single")
}

func testIncompatibleNode(t *testing.T) {
	s := newSpace(t, "incompatiblenode", 2)
	s.gpu(0, partition("a", "mig"), partition("b", "vgpu"))
	s.gpu(1, partition("a", "mig"), partition("b", "mig"))
	s.ClaimAndPod("pair", s.Want(2))
	s.Running("pair")
	require.Equal(t, s.Node(1), s.LivePod("pair").Spec.NodeName)
	s.ClaimAndPod("second", s.Want(2))
	s.Waiting("second", "claim "+s.Name+"/second")
}

func testIncompatibleWithUsers(t *testing.T) {
	s := newSpace(t, "incompatibleusers", 1)
	s.gpu(0, partition("a", "mig"), partition("b", "mig"), partition("c", "vgpu"))
	s.ClaimAndPod("first", s.inGroup("mig"))
	s.Running("first")
	s.ClaimAndPod("other", s.inGroup("vgpu"))
	s.Waiting("other", "claim "+s.Name+"/other", "not compatible with devices in use")
	s.ClaimAndPod("second", s.inGroup("mig"))
	s.Running("second")
	s.DeletePod("first")
	s.DeletePod("second")
	s.RunningSoon("other")
}

// Pods that want devices of one group or the other, all at a time: what is in flight
// counts.
func testIncompatibleBurst(t *testing.T) {
	const each = 4
	s := newSpace(t, "incompatibleburst", 1)
	var devices []*builder.DeviceBuilder
	for i := range each {
		devices = append(devices, partition(fmt.Sprintf("mig-%d", i), "mig"), partition(fmt.Sprintf("vgpu-%d", i), "vgpu"))
	}
	s.gpu(0, devices...)
	var objects []string
	for i := range each {
		for _, group := range []string{"mig", "vgpu"} {
			name := fmt.Sprintf("%s-%d", group, i)
			s.ClaimAndPod(name, s.inGroup(group))
			objects = append(objects, name)
		}
	}
	s.Eventually("have the devices of one group in use", s.running(each))
	groups := make(map[string]bool)
	for _, name := range objects {
		if s.LivePod(name).Spec.NodeName != "" {
			groups[name[:3]] = true
		}
	}
	require.Len(t, groups, 1)
}

func testGroupsWithoutCapacity(t *testing.T) {
	s := newSpaceWithout(t, "groupsnocapacity", 1, map[string]bool{"DRAConsumableCapacity": false, "DRAFractionalCapacityRange": false})
	s.gpu(0, partition("a", "mig"), partition("b", "mig"), partition("c", "vgpu"))
	s.ClaimAndPod("first", s.inGroup("mig"))
	s.Running("first")
	s.ClaimAndPod("other", s.inGroup("vgpu"))
	s.Waiting("other", "not compatible with devices in use")
	s.ClaimAndPod("second", s.inGroup("mig"))
	s.Running("second")
}

// Without the gate, nothing is known about what goes together. So slices with groups are
// ignored, and their pool is not complete.
func testGroupsWithoutGate(t *testing.T) {
	s := newSpaceWithout(t, "groupsoff", 1, map[string]bool{"DRADeviceCompatibilityGroups": false})
	s.gpu(0, partition("a", "mig"), partition("b", "mig"))
	s.ClaimAndPod("one", s.Want(1))
	s.Waiting("one", "claim "+s.Name+"/one", "is left out because it needs a feature that is off (DRADeviceCompatibilityGroups)")
}

func testGroupsPersisted(t *testing.T) {
	s := &space{cluster.NewSpace(t, "groupskept", "", 1)}
	slice := s.Slice(0, partition("a", "mig")).Counters("gpu", "memory", "40Gi").Obj()
	slice.Spec.SharedCounters = nil
	s.Create(slice)
	require.Equal(t, []string{"mig"}, s.liveSlice(slice.Name).Spec.Devices[0].ConsumesCounters[0].CompatibilityGroups)
}
