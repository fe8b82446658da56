package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/builder"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
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
	s.devices(0, numbered(6)...)
	s.create(workload.Claim("split",
		workload.Request("few", s.want(1)),
		workload.Request("many", s.want(3)),
	), s.pod("split", uses("split")))
	s.running("split")
	byRequest := map[string]int{}
	for _, result := range s.results("split") {
		byRequest[result.Request]++
	}
	require.Equal(t, map[string]int{"few": 1, "many": 3}, byRequest)

	s.claimAndPod("three", s.want(3))
	s.waiting("three", "claim "+s.name+"/three", "request gpu", "6 devices match, but fewer than the 3 wanted are free", "held by other claims")
	// 0 means that nothing was said, and then it is one device.
	s.claimAndPod("default", s.want(0))
	s.running("default")
	require.Len(t, s.results("default"), 1)
}

func testTooMany(t *testing.T) {
	s := newSpace(t, "toomany", 2)
	s.devices(0, numbered(4)...)
	s.devices(1, numbered(4)...)
	s.claimAndPod("five", s.want(5))
	s.claimAndPod("forty", s.want(40))
	s.create(workload.Claim("sum", workload.Request("first", s.want(20)), workload.Request("second", s.want(20))),
		s.pod("sum", uses("sum")))
	s.waiting("five", "2 claim "+s.name+"/five, request gpu: 4 devices match, 5 are wanted")
	s.waiting("forty", "claim "+s.name+"/forty, request gpu", "asks for 40 devices", "at most 32")
	s.waiting("sum", "claim "+s.name+"/sum, request second", "asks for 20 devices", "at most 32")
	s.claimAndPod("four", s.want(4))
	s.running("four")
	// Neither of them can ever run, but a larger node would help the first.
	s.addNode(2, nil)
	s.devices(2, numbered(5)...)
	s.runningSoon("five")
	require.Equal(t, s.node(2), s.livePod("five").Spec.NodeName)
}

func testAll(t *testing.T) {
	s := newSpace(t, "all", 2)
	s.devices(0, numbered(3)...)
	s.devices(1, numbered(2)...)
	s.create(one("single", s.want(1)), s.podOnNode("single", 0, uses("single")))
	s.running("single")
	s.claimAndPod("all", s.wantAll())
	s.running("all")
	require.ElementsMatch(t, []string{s.node(1) + "/gpu-0", s.node(1) + "/gpu-1"}, s.deviceNames("all"))
	s.create(one("rest", s.wantAll()), s.podOnNode("rest", 0, uses("rest")))
	s.waiting("rest", "claim "+s.name+"/rest", "request gpu", "all 3 matching devices are wanted, but some are held by other claims")
	s.deletePod("single")
	s.runningSoon("rest")
	require.Len(t, s.results("rest"), 3)
}

func testAllMatching(t *testing.T) {
	s := newSpace(t, "allmatching", 1)
	s.devices(0, numbered(6)...)
	s.claimAndPod("low", s.wantAll(s.attribute("index")+" < 4"))
	s.claimAndPod("high", s.wantAll(s.attribute("index")+" >= 4"))
	s.running("low", "high")
	require.Len(t, s.results("low"), 4)
	require.Len(t, s.results("high"), 2)
	s.claimAndPod("none", s.wantAll(s.attribute("index")+" > 10"))
	s.waiting("none", "claim "+s.name+"/none", "request gpu", "no device matches")
}

// preferLarge makes a request for a large device or else for two small ones.
func (s *space) preferLarge(name string) workload.ClaimPart {
	return workload.FirstAvailable(name,
		workload.Alternative{Name: "large", Devices: s.want(1, s.attribute("size")+` == "large"`)},
		workload.Alternative{Name: "small", Devices: s.want(2, s.attribute("size")+` == "small"`)},
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
	s.devices(0, append(sized("small", "s0", "s1"), sized("large", "l0")...)...)
	for _, step := range []struct {
		pod     string
		request string
		devices int
	}{
		{pod: "first", request: "gpu/large", devices: 1},
		{pod: "second", request: "gpu/small", devices: 2},
	} {
		s.create(workload.Claim(step.pod, s.preferLarge("gpu")), s.pod(step.pod, uses(step.pod)))
		s.running(step.pod)
		results := s.results(step.pod)
		require.Len(t, results, step.devices)
		require.Equal(t, step.request, results[0].Request)
	}
	s.create(workload.Claim("third", s.preferLarge("gpu")), s.pod("third", uses("third")))
	s.waiting("third", "claim "+s.name+"/third", "request gpu", "no alternative fits (large and small: devices match, but all are held by other claims)")
	s.deletePod("first")
	s.runningSoon("third")
	require.Equal(t, "gpu/large", s.results("third")[0].Request)
}

func testFirstAvailableScore(t *testing.T) {
	s := newSpace(t, "preferred", 3)
	const pods = 4
	s.devices(0, sized("small", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7")...)
	s.devices(1, sized("large", "l0", "l1", "l2", "l3")...)
	s.devices(2, sized("small", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7")...)
	s.create(workload.Template("one", s.preferLarge("gpu")))
	s.createPods("picky", pods)
	s.runningAndWaiting(pods, 0)
	for _, pod := range s.pods() {
		require.Equal(t, s.node(1), pod.Spec.NodeName, "pod %s has devices %v", pod.Name, s.deviceNames(pod.Name))
	}
}
