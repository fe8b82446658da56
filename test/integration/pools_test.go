package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/builder"
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
	return builder.Slice(s.name+"-"+name).OfDriver(s.driver).OnNode(s.node(0)).
		InPool(s.node(0), generation, count).Devices(builder.Devices(devices...)...).Obj()
}

func testSeveralSlices(t *testing.T) {
	s := newSpace(t, "slices", 1)
	s.create(s.part("a", 1, 2, "a0", "a1"), s.part("b", 1, 2, "b0"))
	s.claimAndPod("three", s.want(3))
	s.running("three")
	require.Equal(t, []string{s.node(0) + "/a0", s.node(0) + "/a1", s.node(0) + "/b0"}, s.deviceNames("three"))
}

func testNewerGeneration(t *testing.T) {
	s := newSpace(t, "generation", 1)
	s.create(s.part("old", 1, 1, "old"))
	s.claimAndPod("two", s.want(2))
	s.waiting("two", "claim "+s.name+"/two", "request gpu", "1 device matches, 2 are wanted")
	// The old slice stays: drivers delete it later.
	s.create(s.part("new", 2, 1, "new0", "new1"))
	s.runningSoon("two")
	require.Equal(t, []string{s.node(0) + "/new0", s.node(0) + "/new1"}, s.deviceNames("two"))
	s.claimAndPod("third", s.want(1))
	s.waiting("third", "request gpu", "2 devices match, but all are held by other claims")
}

// While only a part of the newer generation is there, nothing can be had.
func testNewerGenerationInPart(t *testing.T) {
	s := newSpace(t, "partly", 1)
	s.create(s.part("old", 1, 1, "old"), s.part("new0", 2, 2, "new0"))
	s.claimAndPod("one", s.want(1))
	s.waiting("one", "claim "+s.name+"/one", "request gpu", "its driver is updating it")
	s.create(s.part("new1", 2, 2, "new1"))
	s.runningSoon("one")
	require.Equal(t, []string{s.node(0) + "/new0"}, s.deviceNames("one"))
}

func testIncompletePool(t *testing.T) {
	s := newSpace(t, "incomplete", 1)
	s.create(s.part("a", 1, 2, "a0"))
	s.claimAndPod("one", s.want(1))
	s.waiting("one", "claim "+s.name+"/one", "request gpu", "is left out", "updating")
	s.create(s.part("b", 1, 2, "b0"))
	s.runningSoon("one")
}

// How many "all" are is not known while a pool is incomplete, even if it is
// another one. When that pool is gone, it is.
func testIncompletePoolAll(t *testing.T) {
	s := newSpace(t, "incompleteall", 1)
	s.devices(0, numbered(2)...)
	updating := builder.Slice(s.name+"-updating").OfDriver(s.driver).OnNode(s.node(0)).
		InPool(s.name+"-updating", 1, 2).Devices(builder.Device("u0")).Obj()
	s.create(updating)
	s.claimAndPod("all", s.wantAll())
	s.waiting("all", "claim "+s.name+"/all", "request gpu", "asks for all devices", s.driver, "incomplete")
	s.claimAndPod("one", s.want(1))
	s.running("one")
	s.deletePod("one")
	s.eventuallyFree("one")
	s.delete(updating)
	s.runningSoon("all")
	require.Len(t, s.results("all"), 2)
}

// The API server compares names within one slice only.
func testInvalidPool(t *testing.T) {
	s := newSpace(t, "invalid", 1)
	duplicate := s.part("b", 1, 2, "same")
	s.create(s.part("a", 1, 2, "same", "other"), duplicate)
	s.claimAndPod("one", s.want(1))
	s.waiting("one", "claim "+s.name+"/one", "request gpu", "invalid", "device name same is not unique")
	// A valid pool beside it is not affected.
	s.addNode(1, nil)
	s.devices(1, numbered(1)...)
	s.runningSoon("one")
	s.claimAndPod("two", s.want(1))
	s.waiting("two", "request gpu", "invalid")
	s.delete(duplicate)
	s.create(s.part("b", 1, 2, "different"))
	s.runningSoon("two")
	require.Equal(t, []string{s.node(0) + "/same"}, s.deviceNames("two"))
}

// A driver that goes away takes its devices with it; who has them, keeps them.
func testWithdrawnPool(t *testing.T) {
	s := newSpace(t, "withdrawn", 1)
	slice := s.slice(0, numbered(2)...).Obj()
	s.create(slice)
	s.claimAndPod("first", s.want(1))
	s.running("first")
	s.delete(slice)
	s.claimAndPod("second", s.want(1))
	s.waiting("second", "claim "+s.name+"/second", "request gpu: ")
	s.running("first")
	s.create(slice)
	s.runningSoon("second")
	require.NotEqual(t, s.deviceNames("first"), s.deviceNames("second"))
}
