package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// How slices make up a pool, and when they do not.
func TestPools(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"several slices":           testSeveralSlices,
		"newer generation":         testNewerGeneration,
		"newer generation in part": testNewerGenerationInPart,
		"incomplete":               testIncompletePool,
		"incomplete, all wanted":   testIncompletePoolAll,
		"invalid":                  testInvalidPool,
		"withdrawn":                testWithdrawnPool,
	})
}

// part is a slice of the pool of node 0, which is named after the node.
func (s *space) part(name string, generation, count int64, devices ...string) *resourceapi.ResourceSlice {
	return builder.Slice(s.Name+"-"+name).OfDriver(s.Driver).OnNode(s.Node(0)).
		InPool(s.Node(0), generation, count).Devices(builder.Devices(devices...)...).Obj()
}

func testSeveralSlices(t *testing.T) {
	s := newSpace(t, "slices", 1)
	s.Create(s.part("a", 1, 2, "a0", "a1"), s.part("b", 1, 2, "b0"))
	s.ClaimAndPod("three", s.Want(3))
	s.Running("three")
	require.Equal(t, []string{s.Node(0) + "/a0", s.Node(0) + "/a1", s.Node(0) + "/b0"}, s.DeviceNames("three"))
}

func testNewerGeneration(t *testing.T) {
	s := newSpace(t, "generation", 1)
	s.Create(s.part("old", 1, 1, "old"))
	s.ClaimAndPod("two", s.Want(2))
	s.Waiting("two", "claim "+s.Name+"/two", "request gpu", "1 device matches, 2 are wanted")
	// The old slice stays: drivers delete it later.
	s.Create(s.part("new", 2, 1, "new0", "new1"))
	s.RunningSoon("two")
	require.Equal(t, []string{s.Node(0) + "/new0", s.Node(0) + "/new1"}, s.DeviceNames("two"))
	s.ClaimAndPod("third", s.Want(1))
	s.Waiting("third", "request gpu", "all 2 devices that match are held by other claims")
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

func testIncompletePool(t *testing.T) {
	s := newSpace(t, "incomplete", 1)
	s.Create(s.part("a", 1, 2, "a0"))
	s.ClaimAndPod("one", s.Want(1))
	s.Waiting("one", "claim "+s.Name+"/one", "request gpu", "is left out", "updating")
	s.Create(s.part("b", 1, 2, "b0"))
	s.RunningSoon("one")
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

// The API server compares names within one slice only.
func testInvalidPool(t *testing.T) {
	s := newSpace(t, "invalid", 1)
	duplicate := s.part("b", 1, 2, "same")
	s.Create(s.part("a", 1, 2, "same", "other"), duplicate)
	s.ClaimAndPod("one", s.Want(1))
	s.Waiting("one", "1 invalid resource pools were encountered: claim "+s.Name+"/one", "request gpu", "invalid", "device name same is not unique")
	// A valid pool beside it is not affected.
	s.AddNode(1, nil)
	s.Devices(1, numbered(1)...)
	s.RunningSoon("one")
	s.ClaimAndPod("two", s.Want(1))
	s.Waiting("two", "request gpu", "invalid")
	s.Delete(duplicate)
	s.Create(s.part("b", 1, 2, "different"))
	s.RunningSoon("two")
	require.Equal(t, []string{s.Node(0) + "/same"}, s.DeviceNames("two"))
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
