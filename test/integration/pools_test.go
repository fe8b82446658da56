package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// How slices make up a pool, and when they do not.
func TestPools(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"newer generation in part": testNewerGenerationInPart,
		"incomplete, all wanted":   testIncompletePoolAll,
		"withdrawn":                testWithdrawnPool,
	})
}

// part is a slice of the pool of node 0, which is named after the node.
func (s *space) part(name string, generation, count int64, devices ...string) *resourceapi.ResourceSlice {
	return builder.Slice(s.Name+"-"+name).OfDriver(s.Driver).OnNode(s.Node(0)).
		InPool(s.Node(0), generation, count).Devices(builder.Devices(devices...)...).Obj()
}

// While only a part of the newer generation is there, nothing can be had.
func testNewerGenerationInPart(t *testing.T) {
	s := newSpace(t, "partly", 1)
	s.Create(s.part("old", 1, 1, "old"), s.part("new0", 2, 2, "new0"))
	s.ClaimAndPod("one", s.Want(1))
	s.Waiting("one", "claim "+s.Name+"/one", "request gpu", "its driver is updating it")
	s.Create(s.part("new1", 2, 2, "new1"))
	s.RunningSoon("one")
	require.Equal(t, []string{s.Node(0) + "/new0"}, s.DeviceNames("one"))
}

// How many "all" are is not known while a pool is incomplete, even if it is
// another one. When that pool is gone, it is.
func testIncompletePoolAll(t *testing.T) {
	s := newSpace(t, "incompleteall", 1)
	s.Devices(0, numbered(2)...)
	updating := builder.Slice(s.Name+"-updating").OfDriver(s.Driver).OnNode(s.Node(0)).
		InPool(s.Name+"-updating", 1, 2).Devices(builder.Device("u0")).Obj()
	s.Create(updating)
	s.ClaimAndPod("all", s.WantAll())
	s.Waiting("all", "claim "+s.Name+"/all", "request gpu", "asks for all devices", s.Driver, "incomplete")
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
	s.DeletePod("one")
	s.EventuallyFree("one")
	s.Delete(updating)
	s.RunningSoon("all")
	require.Len(t, s.Results("all"), 2)
}

// A driver that goes away takes its devices with it; who has them, keeps them.
func testWithdrawnPool(t *testing.T) {
	s := newSpace(t, "withdrawn", 1)
	slice := s.Slice(0, numbered(2)...).Obj()
	s.Create(slice)
	s.ClaimAndPod("first", s.Want(1))
	s.Running("first")
	s.Delete(slice)
	s.ClaimAndPod("second", s.Want(1))
	s.Waiting("second", "claim "+s.Name+"/second", "request gpu: ")
	s.Running("first")
	s.Create(slice)
	s.RunningSoon("second")
	require.NotEqual(t, s.DeviceNames("first"), s.DeviceNames("second"))
}
