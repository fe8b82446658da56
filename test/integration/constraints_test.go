package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/builder"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// Devices that have to go together, and those that must not.
func TestConstraints(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"matchAttribute":            testMatchAttribute,
		"distinctAttribute":         testDistinctAttribute,
		"matchAttribute, no answer": testNoMatch,
	})
}

// rooted makes devices with an attribute for the PCIe root and one for the kind.
func rooted(kind string, roots ...string) []*builder.DeviceBuilder {
	var devices []*builder.DeviceBuilder
	for i, root := range roots {
		devices = append(devices, builder.Device(fmt.Sprintf("%s-%d", kind, i)).Attr("kind", kind).Attr("root", root))
	}
	return devices
}

// ofKind asks for devices of rooted.
func (s *space) ofKind(kind string, count int64) workload.ClaimPart {
	return workload.Request(kind, s.want(count, fmt.Sprintf("%s == %q", s.attribute("kind"), kind)))
}

func testMatchAttribute(t *testing.T) {
	s := newSpace(t, "match", 1)
	s.devices(0, append(rooted("gpu", "a", "b", "c"), rooted("nic", "c", "b")...)...)
	pair := func(name string) {
		s.create(workload.Claim(name, s.ofKind("gpu", 1), s.ofKind("nic", 1),
			workload.MatchAttribute(s.driver+"/root", "gpu", "nic")), s.pod(name, uses(name)))
	}
	// The first GPU has no NIC beside it, and the first NIC is beside the last GPU.
	pair("first")
	pair("second")
	s.running("first", "second")
	require.ElementsMatch(t, []string{
		s.node(0) + "/gpu-1", s.node(0) + "/nic-1", s.node(0) + "/gpu-2", s.node(0) + "/nic-0",
	}, append(s.deviceNames("first"), s.deviceNames("second")...))
	for _, pod := range []string{"first", "second"} {
		require.Contains(t, [][]string{
			{s.node(0) + "/gpu-1", s.node(0) + "/nic-1"}, {s.node(0) + "/gpu-2", s.node(0) + "/nic-0"},
		}, s.deviceNames(pod))
	}
	pair("third")
	s.waiting("third", "claim "+s.name+"/third", "request nic", "held by")
}

func testDistinctAttribute(t *testing.T) {
	s := newSpace(t, "distinct", 1)
	s.devices(0, rooted("gpu", "a", "a", "b", "b", "b")...)
	distinct := func(name string, count int64) {
		s.create(workload.Claim(name, s.ofKind("gpu", count),
			workload.DistinctAttribute(s.driver+"/root")), s.pod(name, uses(name)))
	}
	distinct("two", 2)
	s.running("two")
	require.ElementsMatch(t, []string{s.node(0) + "/gpu-0", s.node(0) + "/gpu-2"}, s.deviceNames("two"))
	distinct("three", 3)
	s.waiting("three", "claim "+s.name+"/three", "differ in "+s.driver+"/root (distinctAttribute)")
	distinct("two-more", 2)
	s.running("two-more")
}

func testNoMatch(t *testing.T) {
	s := newSpace(t, "nomatch", 1)
	s.devices(0, append(rooted("gpu", "a"), rooted("nic", "b")...)...)
	s.create(workload.Claim("pair", s.ofKind("gpu", 1), s.ofKind("nic", 1),
		workload.MatchAttribute(s.driver+"/root")), s.pod("pair", uses("pair")))
	s.waiting("pair", "claim "+s.name+"/pair", "agree on "+s.driver+"/root (matchAttribute)")
	// Each on its own is no problem, and another node may have both.
	s.create(workload.Claim("free", s.ofKind("gpu", 1), s.ofKind("nic", 1)), s.pod("free", uses("free")))
	s.running("free")
	s.addNode(1, nil)
	s.devices(1, append(rooted("gpu", "a"), rooted("nic", "a")...)...)
	s.runningSoon("pair")
}
