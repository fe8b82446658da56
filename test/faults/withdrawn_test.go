package faults

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestDeviceWithdrawnInUse: a driver publishes its pools without a device that is in use, and with a smaller draw on counters for another.
// Nobody gets the whole of either, and both pods are told so, until the claims are released (kubernetes #140802). A scheduler that is started
// in between allocates nothing that draws on the counters of the first pool; of the second one it knows no better than what is published.
func TestDeviceWithdrawnInUse(t *testing.T) {
	t.Parallel()
	s := cluster.NewSpace(t, "withdrawn", "", 2)
	scheduler := s.StartScheduler(harness.SchedulerOptions{})
	device := func(name, memory string) *builder.DeviceBuilder {
		return builder.Device(name).Attr("name", name).Consumes("set", "memory", memory)
	}
	publishPartitions(s, 0, 1, device("half-0", "4"), device("half-1", "4"), device("whole", "8"))
	publishPartitions(s, 1, 1, device("half-0", "4"), device("half-1", "4"), device("whole", "8"))
	named := func(name string) *builder.RequestBuilder {
		return s.Want(1, `device.attributes["`+s.Driver+`"].name == "`+name+`"`)
	}
	for node, name := range []string{"dropped", "less"} {
		s.Create(builder.Claim(name, named("half-0")).Obj(), s.PodOnNode(name, node, builder.Uses(name)))
	}
	s.Running("dropped", "less")

	publishPartitions(s, 0, 2, device("half-1", "4"), device("whole", "8"))
	publishPartitions(s, 1, 2, device("half-0", "1"), device("half-1", "4"), device("whole", "7"))
	deletePartitions(s, 0, 1)
	deletePartitions(s, 1, 1)
	for node, name := range []string{"all-of-dropped", "all-of-less"} {
		s.Create(builder.Claim(name, named("whole")).Obj(), s.PodOnNode(name, node, builder.Uses(name)))
		s.Waiting(name, "draws on counters that have too little left")
	}
	s.Create(builder.Claim("other-half", named("half-1")).Obj(), s.PodOnNode("other-half", 1, builder.Uses("other-half")))
	s.Running("other-half")

	s.DeletePod("all-of-dropped")
	s.Gone("all-of-dropped")
	require.NoError(t, scheduler.Restart(t.Context()))
	s.Create(builder.Claim("late", named("half-1")).Obj(), s.PodOnNode("late", 0, builder.Uses("late")))
	s.Waiting("late", "draws on the same counters as devices in use that are not published any more (half-0)")
	s.DeletePod("dropped")
	s.Running("late")
}

// partitions are the names of the two slices of the pool of a node.
func partitions(s *harness.Space, node int, generation int64) (counters, devices string) {
	return fmt.Sprintf("%s-c-%d", s.Node(node), generation), fmt.Sprintf("%s-d-%d", s.Node(node), generation)
}

// publishPartitions publishes a generation of the pool of a node: 8 of memory, and devices that draw on it.
func publishPartitions(s *harness.Space, node int, generation int64, devices ...*builder.DeviceBuilder) {
	s.T.Helper()
	countersName, devicesName := partitions(s, node, generation)
	slice := func(name string) *builder.SliceBuilder {
		return builder.Slice(name).OfDriver(s.Driver).InPool(s.Node(node), generation, 2).OnNode(s.Node(node))
	}
	s.Create(slice(countersName).Counters("set", "memory", "8").Obj(), slice(devicesName).Devices(devices...).Obj())
}

// deletePartitions deletes a generation.
func deletePartitions(s *harness.Space, node int, generation int64) {
	s.T.Helper()
	countersName, devicesName := partitions(s, node, generation)
	for _, name := range []string{countersName, devicesName} {
		require.NoError(s.T, cluster.Client.ResourceV1().ResourceSlices().Delete(s.T.Context(), name, metav1.DeleteOptions{}))
	}
}
