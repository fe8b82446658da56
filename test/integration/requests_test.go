package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// How many devices a request gets, and of which kind.
func TestRequests(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"exact count":                    testExactCount,
		"too many":                       testTooMany,
		"all":                            testAll,
		"all that match":                 testAllMatching,
		"first available":                testFirstAvailable,
		"first available prefers a node": testFirstAvailableScore,
	})
}

func testExactCount(t *testing.T) {
	s := newSpace(t, "exact", 1)
	s.Devices(0, numbered(6)...)
	s.Create(builder.Claim("split",
		s.Want(1).Named("few"),
		s.Want(3).Named("many"),
	).Obj(), s.Pod("split", builder.Uses("split")))
	s.Running("split")
	byRequest := map[string]int{}
	for _, result := range s.Results("split") {
		byRequest[result.Request]++
	}
	require.Equal(t, map[string]int{"few": 1, "many": 3}, byRequest)

	s.ClaimAndPod("three", s.Want(3))
	s.Waiting("three", "claim "+s.Name+"/three", "request gpu", "6 devices match, but fewer than the 3 wanted are free", "held by other claims")
	// 0 means that nothing was said, and then it is one device.
	s.ClaimAndPod("default", s.Want(0))
	s.Running("default")
	require.Len(t, s.Results("default"), 1)
}

func testTooMany(t *testing.T) {
	s := newSpace(t, "toomany", 2)
	s.Devices(0, numbered(4)...)
	s.Devices(1, numbered(4)...)
	s.ClaimAndPod("five", s.Want(5))
	s.ClaimAndPod("forty", s.Want(40))
	s.Create(builder.Claim("sum", s.Want(20).Named("first"), s.Want(20).Named("second")).Obj(),
		s.Pod("sum", builder.Uses("sum")))
	s.Waiting("five", "2 cannot allocate all claims: claim "+s.Name+"/five, request gpu: 4 devices match, 5 are wanted")
	s.Waiting("forty", "claim "+s.Name+"/forty, request gpu", "asks for 40 devices", "at most 32")
	s.Waiting("sum", "claim "+s.Name+"/sum, request second", "asks for 20 devices", "at most 32")
	s.ClaimAndPod("four", s.Want(4))
	s.Running("four")
	// Neither of them can ever run, but a larger node would help the first.
	s.AddNode(2, nil)
	s.Devices(2, numbered(5)...)
	s.RunningSoon("five")
	require.Equal(t, s.Node(2), s.LivePod("five").Spec.NodeName)
}

func testAll(t *testing.T) {
	s := newSpace(t, "all", 2)
	s.Devices(0, numbered(3)...)
	s.Devices(1, numbered(2)...)
	s.Create(builder.Claim("single", s.Want(1)).Obj(), s.PodOnNode("single", 0, builder.Uses("single")))
	s.Running("single")
	s.ClaimAndPod("all", s.WantAll())
	s.Running("all")
	require.ElementsMatch(t, []string{s.Node(1) + "/gpu-0", s.Node(1) + "/gpu-1"}, s.DeviceNames("all"))
	s.Create(builder.Claim("rest", s.WantAll()).Obj(), s.PodOnNode("rest", 0, builder.Uses("rest")))
	s.Waiting("rest", "claim "+s.Name+"/rest", "request gpu", "all 3 matching devices are wanted, but some are held by other claims")
	s.DeletePod("single")
	s.RunningSoon("rest")
	require.Len(t, s.Results("rest"), 3)
}

func testAllMatching(t *testing.T) {
	s := newSpace(t, "allmatching", 1)
	s.Devices(0, numbered(6)...)
	s.ClaimAndPod("low", s.WantAll(s.Attribute("index")+" < 4"))
	s.ClaimAndPod("high", s.WantAll(s.Attribute("index")+" >= 4"))
	s.Running("low", "high")
	require.Len(t, s.Results("low"), 4)
	require.Len(t, s.Results("high"), 2)
	s.ClaimAndPod("none", s.WantAll(s.Attribute("index")+" > 10"))
	s.Waiting("none", "claim "+s.Name+"/none", "request gpu", "no device matches")
}

// preferLarge makes a request for a large device or else for two small ones.
func (s *space) preferLarge(name string) *builder.RequestBuilder {
	return builder.FirstAvailable(name,
		s.Want(1, s.Attribute("size")+` == "large"`).Named("large"),
		s.Want(2, s.Attribute("size")+` == "small"`).Named("small"),
	)
}

func sized(size string, names ...string) []*builder.DeviceBuilder {
	devices := builder.Devices(names...)
	for _, device := range devices {
		device.Attr("size", size)
	}
	return devices
}

func testFirstAvailable(t *testing.T) {
	s := newSpace(t, "firstavailable", 1)
	s.Devices(0, append(sized("small", "s0", "s1"), sized("large", "l0")...)...)
	for _, step := range []struct {
		pod     string
		request string
		devices int
	}{
		{pod: "first", request: "gpu/large", devices: 1},
		{pod: "second", request: "gpu/small", devices: 2},
	} {
		s.Create(builder.Claim(step.pod, s.preferLarge("gpu")).Obj(), s.Pod(step.pod, builder.Uses(step.pod)))
		s.Running(step.pod)
		results := s.Results(step.pod)
		require.Len(t, results, step.devices)
		require.Equal(t, step.request, results[0].Request)
	}
	s.Create(builder.Claim("third", s.preferLarge("gpu")).Obj(), s.Pod("third", builder.Uses("third")))
	s.Waiting("third", "claim "+s.Name+"/third", "request gpu", "no alternative fits (large and small: all devices that match are held by other claims)")
	s.DeletePod("first")
	s.RunningSoon("third")
	require.Equal(t, "gpu/large", s.Results("third")[0].Request)
}

func testFirstAvailableScore(t *testing.T) {
	s := newSpace(t, "preferred", 3)
	const pods = 4
	s.Devices(0, sized("small", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7")...)
	s.Devices(1, sized("large", "l0", "l1", "l2", "l3")...)
	s.Devices(2, sized("small", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7")...)
	s.Create(builder.Claim("one", s.preferLarge("gpu")).Template())
	s.CreatePods("picky", pods)
	s.RunningAndWaiting(pods, 0)
	for _, pod := range s.Pods() {
		require.Equal(t, s.Node(1), pod.Spec.NodeName, "pod %s has devices %v", pod.Name, s.DeviceNames(pod.Name))
	}
}
